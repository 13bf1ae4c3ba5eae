//! Allocation of device and host memory: sizes come in, addresses go out.
//! A free waits for all work of the process first, as CUDA's does, so that no kernel ever touches what is gone.
//! Managed memory is device memory, which lies at the same addresses of this process. Pinned memory is the process's own,
//! and kernels reach it at the program's addresses.

pub(crate) mod device_memory;
pub(crate) mod heap;
pub(crate) mod host_memory;
pub(crate) mod kernel_side;
pub(crate) mod mappings;
pub(crate) mod physical;
mod reservations;

use floe_abi::{
    CudaError, CudaResult, DevicePtr, HostPointer, Stream, attach_flags, host_alloc_flags, host_register_flags,
};
use floe_surface::advice::Advice;
use floe_surface::{HostRange, MemoryCalls};

use super::Simulator;
use super::addresses::{ALLOCATIONS, SPAN, VARIABLES, WINDOWS};
use super::device::CpuDevice;
use super::device::limits::ALIGNMENT;
use device_memory::Owner;
use floe_lock::lock;
use heap::Allocation;

impl Simulator {
    /// The device whose `cuMemAlloc` gives addresses like this one.
    pub(crate) fn device_of_allocation(&self, address: u64) -> Option<&CpuDevice> {
        let place = address.checked_sub(ALLOCATIONS)? / SPAN;
        self.devices.get(usize::try_from(place).ok()?)
    }

    /// The variable that contains `address`, the device whose module has it, and whether it is managed memory.
    pub(crate) fn variable_at(&self, address: u64) -> Option<(&CpuDevice, Allocation, bool)> {
        if !VARIABLES.contains(&address) {
            return None;
        }
        self.devices.iter().find_map(|device| {
            let (found, is_managed) = device.memory.find_global(address)?;
            Some((device, found, is_managed))
        })
    }

    /// Base and bytes of whatever the program allocated or declared around `address`.
    pub(crate) fn range_around(&self, address: u64) -> Option<(u64, u64)> {
        if let Some((found, _)) = self.device_of_allocation(address).and_then(|device| device.memory.find(address)) {
            return Some((found.address, found.size));
        }
        if let Some((_, found, _)) = self.variable_at(address) {
            return Some((found.address, found.size));
        }
        if WINDOWS.contains(&address) {
            let range = lock(&self.virtual_memory).mapped_range_at(address)?;
            return Some((range.address, range.length));
        }
        None
    }

    /// Whether the program may copy `[address, address + bytes)` of the device, or of pinned memory that it reaches.
    ///
    /// # Errors
    /// INVALID_VALUE where a byte of it is not allocated, or not accessible.
    pub(crate) fn check_device_range(&self, address: u64, bytes: u64) -> CudaResult<()> {
        if bytes == 0 {
            return Ok(());
        }
        if !self.is_device_address(address) {
            return if self.host_memory.reaches(address, bytes) { Ok(()) } else { Err(CudaError::INVALID_VALUE) };
        }
        if let Some(device) = self.device_of_allocation(address) {
            let (found, _) = device.memory.find(address).ok_or(CudaError::INVALID_VALUE)?;
            let inside = found.size - (address - found.address);
            return if bytes <= inside { Ok(()) } else { Err(CudaError::INVALID_VALUE) };
        }
        if self.memory.is_mapped(address, bytes) { Ok(()) } else { Err(CudaError::INVALID_VALUE) }
    }

    fn allocate(&self, bytes: usize, is_managed: bool) -> CudaResult<DevicePtr> {
        if bytes == 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let (context, device) = self.working_device()?;
        self.graphs.refuse_unsafe()?;
        let owner = Owner { context: context.handle, pool: None, leaving: false, is_managed };
        let made = device.memory.allocate(bytes as u64, owner).or_else(|_| {
            // Memory that pools are still to free may be enough.
            self.wait_everything();
            device.memory.allocate(bytes as u64, owner)
        })?;
        Ok(DevicePtr(made.address))
    }

    /// Managed memory is the device's own, touched by the host at the same addresses.
    ///
    /// # Errors
    /// NOT_SUPPORTED where those addresses were taken in this process.
    pub(crate) fn demand_identity(&self, what: &str) -> CudaResult<()> {
        if self.memory.is_identity() {
            return Ok(());
        }
        super::log::warn(format_args!("{what}: the device's addresses are not free in this process"));
        Err(CudaError::NOT_SUPPORTED)
    }

    fn refuse_mapped(&self, what: &str) -> CudaError {
        super::log::warn(format_args!(
            "{what}: kernels of the CPU device reach no host memory that is only read, or where its addresses are taken in this process"
        ));
        CudaError::NOT_SUPPORTED
    }
}

impl MemoryCalls for Simulator {
    fn mem_get_info(&self) -> CudaResult<(usize, usize)> {
        let (_, device) = self.working_device()?;
        let bytes = |bytes: u64| usize::try_from(bytes).map_err(|_| CudaError::UNKNOWN);
        Ok((bytes(device.memory.free_bytes())?, bytes(device.memory.total())?))
    }

    fn mem_alloc(&self, bytes: usize) -> CudaResult<DevicePtr> {
        self.allocate(bytes, false)
    }

    fn mem_alloc_pitch(&self, width: usize, height: usize, element_bytes: u32) -> CudaResult<(DevicePtr, usize)> {
        if !matches!(element_bytes, 4 | 8 | 16) {
            return Err(CudaError::INVALID_VALUE);
        }
        let alignment = usize::try_from(ALIGNMENT).map_err(|_| CudaError::UNKNOWN)?;
        let pitch = width.checked_next_multiple_of(alignment).ok_or(CudaError::INVALID_VALUE)?;
        let bytes = pitch.checked_mul(height).ok_or(CudaError::OUT_OF_MEMORY)?;
        Ok((self.allocate(bytes, false)?, pitch))
    }

    fn mem_free(&self, address: DevicePtr) -> CudaResult<()> {
        if address.is_null() {
            return Ok(());
        }
        self.working()?;
        self.graphs.refuse_unsafe()?;
        if self.free_of_graph(address)? {
            self.wait_everything();
            return self.working().map(|_| ());
        }
        let device = self.device_of_allocation(address.0).ok_or(CudaError::INVALID_VALUE)?;
        device.memory.start_free(address.0).ok_or(CudaError::INVALID_VALUE)?;
        if let Some((found, _)) = device.memory.find(address.0).filter(|(_, owner)| owner.is_managed) {
            self.advice.forget(&(found.address..found.address + found.size));
        }
        self.wait_everything();
        device.memory.free(address.0).ok_or(CudaError::INVALID_VALUE)?;
        device.memory.give_back(false);
        self.working().map(|_| ())
    }

    fn mem_get_address_range(&self, address: DevicePtr) -> CudaResult<(DevicePtr, usize)> {
        self.working()?;
        let (base, bytes) = self.range_around(address.0).ok_or(CudaError::NOT_FOUND)?;
        Ok((DevicePtr(base), usize::try_from(bytes).map_err(|_| CudaError::UNKNOWN)?))
    }

    fn mem_alloc_host(&self, bytes: usize) -> CudaResult<HostPointer> {
        self.mem_host_alloc(bytes, 0)
    }

    fn mem_free_host(&self, pointer: HostPointer) -> CudaResult<()> {
        self.current()?;
        if !self.host_memory.is_allocated(pointer) {
            return Err(CudaError::INVALID_VALUE);
        }
        self.graphs.refuse_unsafe()?;
        // Copies from and to it must be over before it goes.
        self.wait_everything();
        self.host_memory.free(pointer)
    }

    fn mem_host_alloc(&self, bytes: usize, flags: u32) -> CudaResult<HostPointer> {
        use host_alloc_flags::{DEVICEMAP, PORTABLE, WRITECOMBINED};
        if flags & !(PORTABLE | DEVICEMAP | WRITECOMBINED) != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        if flags & DEVICEMAP != 0 && !self.host_memory.is_reached() {
            self.demand_identity("host memory with DEVICEMAP")?;
        }
        let context = self.working()?;
        self.graphs.refuse_unsafe()?;
        self.host_memory.allocate(bytes, flags, context.handle)
    }

    fn mem_host_get_device_pointer(&self, pointer: HostPointer, flags: u32) -> CudaResult<DevicePtr> {
        self.working()?;
        match self.host_memory.find(pointer.0) {
            Some(found) if flags == 0 && found.is_reached => Ok(DevicePtr(pointer.0)),
            Some(_) if flags == 0 => Err(self.refuse_mapped("device pointer of host memory")),
            _ => Err(CudaError::INVALID_VALUE),
        }
    }

    fn mem_host_get_flags(&self, pointer: HostPointer) -> CudaResult<u32> {
        self.current()?;
        self.host_memory.find(pointer.0).map(|found| found.flags).ok_or(CudaError::INVALID_VALUE)
    }

    fn mem_host_register(&self, range: HostRange, flags: u32) -> CudaResult<()> {
        use host_register_flags::{DEVICEMAP, IOMEMORY, PORTABLE, READ_ONLY};
        if flags & !(PORTABLE | DEVICEMAP | IOMEMORY | READ_ONLY) != 0 || range.is_empty() {
            return Err(CudaError::INVALID_VALUE);
        }
        if flags & DEVICEMAP != 0 && (flags & READ_ONLY != 0 || !self.host_memory.is_reached()) {
            return Err(self.refuse_mapped("registering host memory with DEVICEMAP"));
        }
        if flags & IOMEMORY != 0 {
            return Err(CudaError::NOT_SUPPORTED);
        }
        let context = self.working()?;
        self.graphs.refuse_unsafe()?;
        self.host_memory.register(range, flags, context.handle)
    }

    fn mem_host_unregister(&self, pointer: HostPointer) -> CudaResult<()> {
        self.current()?;
        self.host_memory.check_registered(pointer)?;
        self.graphs.refuse_unsafe()?;
        self.wait_everything();
        self.host_memory.unregister(pointer)
    }

    fn mem_alloc_managed(&self, bytes: usize, flags: u32) -> CudaResult<DevicePtr> {
        if !matches!(flags, attach_flags::GLOBAL | attach_flags::HOST) {
            return Err(CudaError::INVALID_VALUE);
        }
        self.demand_identity("managed memory")?;
        let made = self.allocate(bytes, true)?;
        // As a GPU's driver gives it, whichever side touches it first.
        self.memory.fill(made.0, 0, 1, bytes).map_err(|_| CudaError::UNKNOWN)?;
        Ok(made)
    }

    fn mem_prefetch_to_host(&self, _address: DevicePtr, _bytes: usize, stream: Stream) -> CudaResult<()> {
        // It is there already.
        self.stream(stream).map(drop)
    }

    fn managed_advice(&self) -> &Advice {
        &self.advice
    }
}
