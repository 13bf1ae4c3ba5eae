//! Memory: device allocations cut from blocks, pinned host memory, how much is left. Sizes and addresses come in; creating a
//! block is the only thing that waits. A freed range comes back only when all work issued before the free is over.

mod array;
mod host;
mod ipc;
mod managed;
mod memset;
mod pointer;
mod pool;
pub(super) mod stream_memory;
mod tensor_map;
mod texture;
mod virtual_memory;

use floe_abi::{CudaError, CudaResult, DevicePtr, HostPointer, Stream, host_alloc_flags, host_register_flags};
use floe_surface::advice::Advice;
use floe_surface::{HostRange, MemoryCalls, PAGE};

use crate::client::Client;
use crate::log::{log, log_once};
use crate::lookup::Found;
use crate::memory::host_memory::expect_addresses;
use crate::memory::host_memory::file_pages::FilePages;
use crate::memory::ipc::opened::Door;
use crate::memory::managed::Attachment;
use floe_lock::lock;

/// Rows of pitched allocations start at multiples of this; every texture and copy alignment divides it.
const PITCH_ALIGNMENT: usize = 512;

impl Client {
    /// Waits until nothing still writes or will read these bytes of host memory, so that they may be freed.
    fn settle(&self, start: u64, bytes: u64) -> CudaResult<()> {
        for device in self.devices()? {
            let vgpu = &device.vgpu;
            vgpu.connection.wait_for_writes(start, bytes);
            vgpu.lent.wait_until_back(start, bytes);
            if vgpu.connection.has_host_functions() {
                vgpu.synchronize()?;
            }
        }
        Ok(())
    }

    fn allocate_host(&self, bytes: usize, flags: u32) -> CudaResult<HostPointer> {
        let known = host_alloc_flags::PORTABLE | host_alloc_flags::DEVICEMAP | host_alloc_flags::WRITECOMBINED;
        if flags & !known != 0 || bytes == 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let context = self.working()?;
        // Also what may be closed to the program: its file is written meanwhile.
        let of_arena = self.shares() || self.may_close(bytes);
        let pointer = self.host_memory.allocate(bytes, flags, context.handle(), of_arena)?;
        // Now, when it may take its time; other vGPUs' workers are offered it when it is used with them.
        self.offer(pointer, &context.vgpu);
        if flags & host_alloc_flags::DEVICEMAP != 0 {
            self.reach_at_once(pointer.0, &context.vgpu);
        }
        Ok(pointer)
    }
}

fn as_size(bytes: u64) -> CudaResult<usize> {
    usize::try_from(bytes).map_err(|_| CudaError::INVALID_VALUE)
}

impl MemoryCalls for Client {
    fn mem_get_info(&self) -> CudaResult<(usize, usize)> {
        let (free, total) = self.working()?.vgpu.info()?;
        Ok((as_size(free)?, as_size(total)?))
    }

    fn mem_alloc(&self, bytes: usize) -> CudaResult<DevicePtr> {
        self.graphs.refuse_unsafe()?;
        let context = self.working()?;
        context.vgpu.allocate(bytes as u64, context.handle(), None)
    }

    fn mem_alloc_pitch(&self, width: usize, height: usize, element_bytes: u32) -> CudaResult<(DevicePtr, usize)> {
        self.graphs.refuse_unsafe()?;
        if !matches!(element_bytes, 4 | 8 | 16) || width == 0 || height == 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let pitch = width.checked_next_multiple_of(PITCH_ALIGNMENT).ok_or(CudaError::INVALID_VALUE)?;
        let bytes = pitch.checked_mul(height).ok_or(CudaError::OUT_OF_MEMORY)?;
        Ok((self.mem_alloc(bytes)?, pitch))
    }

    fn mem_free(&self, address: DevicePtr) -> CudaResult<()> {
        self.graphs.refuse_unsafe()?;
        if address.is_null() {
            return Ok(());
        }
        let vgpu = self.owner(address, None).ok_or(CudaError::INVALID_VALUE)?;
        vgpu.errors.report()?;
        if self.free_of_graph(address, vgpu)? {
            return Ok(());
        }
        if vgpu.managed.places(address) {
            let freed = vgpu.free_managed(address)?;
            self.advice.forget(&(freed.at..freed.at + freed.bytes));
            self.synchronous.forget(freed.at);
            return Ok(());
        }
        let fence = vgpu.fence_of(address.0);
        if vgpu.close(address, Door::Pool, &fence)? {
            self.synchronous.forget(address.0);
            return Ok(());
        }
        let freed = lock(&vgpu.blocks).free(address.0, fence, None);
        self.note_freed(freed.ok_or(CudaError::INVALID_VALUE)?, None);
        vgpu.collect()
    }

    fn mem_get_address_range(&self, address: DevicePtr) -> CudaResult<(DevicePtr, usize)> {
        match self.lookup_address(address) {
            Some(Found::Device(found)) => Ok((found.start, as_size(found.bytes)?)),
            Some(Found::Pinned(_)) | None => Err(CudaError::NOT_FOUND),
        }
    }

    fn mem_alloc_host(&self, bytes: usize) -> CudaResult<HostPointer> {
        self.graphs.refuse_unsafe()?;
        self.allocate_host(bytes, 0)
    }

    fn mem_free_host(&self, pointer: HostPointer) -> CudaResult<()> {
        let pinned = self.host_memory.find(pointer.0).ok_or(CudaError::INVALID_VALUE)?;
        self.settle(pinned.start, pinned.bytes)?;
        if pinned.start == pointer.0 {
            self.unmirror(pinned.start)?;
        }
        let unshared = if pinned.start == pointer.0 { self.unshare(pinned.start) } else { Ok(()) };
        self.host_memory.free(pointer).and(unshared)
    }

    fn mem_host_alloc(&self, bytes: usize, flags: u32) -> CudaResult<HostPointer> {
        self.graphs.refuse_unsafe()?;
        // Asking for a mapping is common and using it is not: it is made with the use.
        self.allocate_host(bytes, flags)
    }

    fn mem_host_get_device_pointer(&self, pointer: HostPointer, flags: u32) -> CudaResult<DevicePtr> {
        let pinned = self.host_memory.find(pointer.0).filter(|_| flags == 0).ok_or(CudaError::INVALID_VALUE)?;
        let vgpu = &self.working()?.vgpu;
        if !vgpu.can_map() {
            log!(
                Warn,
                "cuMemHostGetDevicePointer: kernels of this GPU reach no host memory (CAN_MAP_HOST_MEMORY is 0)"
            );
            return Err(CudaError::NOT_SUPPORTED);
        }
        expect_addresses(&pinned);
        vgpu.mirrors.forgive(pinned.host_start);
        let offered = self.offer_registered(pinned.host_start, vgpu);
        if let Some(shared) = offered.or_else(|| self.offer_exchanged(pinned.host_start, vgpu)) {
            return Ok(DevicePtr(shared.device_start + (pointer.0 - pinned.start)));
        }
        if vgpu.reach(&pinned).is_none() {
            vgpu.mirror(&pinned, || self.host_memory.make_mirror_place(pinned.host_start))?;
        }
        let own = pinned.host_start + (pointer.0 - pinned.start);
        Ok(DevicePtr(vgpu.mirrors.place_of(own).unwrap_or(own)))
    }

    fn mem_host_get_flags(&self, pointer: HostPointer) -> CudaResult<u32> {
        self.host_memory.find(pointer.0).map(|pinned| pinned.flags).ok_or(CudaError::INVALID_VALUE)
    }

    fn mem_host_register(&self, range: HostRange, flags: u32) -> CudaResult<()> {
        let known = host_register_flags::PORTABLE
            | host_register_flags::DEVICEMAP
            | host_register_flags::IOMEMORY
            | host_register_flags::READ_ONLY;
        if flags & !known != 0 || range.is_empty() || range.pointer().is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        if flags & host_register_flags::IOMEMORY != 0 {
            log_once!(Warn, "cuMemHostRegister: a device's registers cannot be reached across the network");
            return Err(CudaError::NOT_SUPPORTED);
        }
        let context = self.working()?;
        if context.vgpu.managed.has(DevicePtr(range.pointer().0)) {
            log_once!(Warn, "cuMemHostRegister: managed memory is no memory of the host's to register");
            return Err(CudaError::INVALID_VALUE);
        }
        // Where no worker can map its pages, nobody looks for them.
        let (at, bytes) = (range.pointer().0, range.len() as u64);
        let is_valid = at.checked_add(bytes).is_some_and(|end| end < u64::MAX - PAGE as u64);
        let file = if is_valid && self.shares() { FilePages::of(at, bytes) } else { None };
        self.host_memory.register(range, flags, context.handle(), file)?;
        // Now, when it may take its time, as registering does.
        let _ = self.offer_registered(at, &context.vgpu);
        Ok(())
    }

    fn mem_host_unregister(&self, pointer: HostPointer) -> CudaResult<()> {
        let pinned = self.host_memory.find(pointer.0).ok_or(CudaError::HOST_MEMORY_NOT_REGISTERED)?;
        self.settle(pinned.start, pinned.bytes)?;
        if pinned.device_start != pinned.start {
            self.settle(pinned.device_start, pinned.bytes)?;
        }
        let is_whole = pinned.start == pointer.0 && pinned.host_start == pointer.0 && !pinned.is_allocated;
        let given_up = if is_whole { self.give_up_registered(&pinned) } else { Ok(()) };
        self.host_memory.unregister(pointer).and(given_up)
    }

    fn mem_prefetch_to_host(&self, address: DevicePtr, bytes: usize, stream: Stream) -> CudaResult<()> {
        self.prefetch_to_host(address, bytes, stream)
    }

    fn managed_advice(&self) -> &Advice {
        &self.advice
    }

    fn mem_alloc_managed(&self, bytes: usize, flags: u32) -> CudaResult<DevicePtr> {
        self.graphs.refuse_unsafe()?;
        let attached = Attachment::at_first(flags)?;
        let context = self.working()?;
        let copiers = self.copiers()?;
        context.vgpu.allocate_managed(bytes as u64, attached, context.handle(), copiers)
    }
}
