//! Copies in one line: to the device, from it, on it, between vGPUs, within the host. Ranges come in; the bytes of a copy to
//! the device travel with its message, those of a copy from it are waited for unless the memory is pinned and the copy
//! asynchronous. Memory the worker has, too, the device reads and writes itself.

use std::sync::Arc;

use floe_abi::{CudaError, CudaResult, DevicePtr};
use floe_surface::{HostBlock, HostRange, UnifiedRange};
use floe_transport::Giving;
use floe_wire::{CopyFromDevice, CopyOnDevice};

use crate::client::Client;
use crate::memory::managed::resident::Resident;
use crate::memory::sending::{Passage, send};
use crate::objects::stream::StreamState;
use crate::vgpu::Vgpu;
use crate::vgpu::connection::Target;

/// Bytes of a copy between vGPUs that are in the client at a time.
const RELAY_BYTES: usize = 32 << 20;
/// Bytes of a copy from which on it is worth another thread's waking to write it.
const LENT_FROM: usize = 128 << 10;

/// Whether the program goes on at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// The call returns when the copy is done, or as good as.
    Waits,
    /// The call returns when the copy is queued, where the memory allows it.
    Queues,
    /// The copy is part of a graph: whatever the memory, it is read and written when the stream gets there.
    Recorded,
}

impl Mode {
    /// Whether the program goes on before the memory has been read or written.
    pub(super) fn goes_on(self, is_pinned: impl FnOnce() -> bool) -> bool {
        match self {
            Self::Waits => false,
            Self::Queues => is_pinned(),
            Self::Recorded => true,
        }
    }
}

/// One side of a unified copy.
#[derive(Debug, Clone, Copy)]
pub(super) enum Side {
    Host(HostRange),
    Device(DevicePtr),
}

pub(super) fn check_host(range: &HostRange) -> CudaResult<()> {
    if range.pointer().is_null() { Err(CudaError::INVALID_VALUE) } else { Ok(()) }
}

impl Client {
    /// Waits for what was queued, where the program does.
    pub(super) fn wait_where(mode: Mode, stream: &StreamState) -> CudaResult<()> {
        if mode == Mode::Waits { stream.vgpu.synchronize_stream(stream.course()) } else { Ok(()) }
    }

    /// The same behind a copy within the device, where the host can touch an end of it.
    pub(super) fn wait_where_managed(&self, mode: Mode, stream: &StreamState, ends: [u64; 2]) -> CudaResult<()> {
        let is_managed = |at: &u64| self.is_managed(*at);
        if mode == Mode::Waits && ends.iter().any(is_managed) { Self::wait_where(mode, stream) } else { Ok(()) }
    }

    /// Ends a copy between these addresses that the program waits for: it may touch managed memory behind it, by calls of the
    /// system too.
    pub(super) fn end_copy(&self, mode: Mode, stream: &StreamState, ends: [u64; 2]) -> CudaResult<()> {
        self.wait_where_managed(mode, stream, ends)?;
        if mode == Mode::Waits {
            stream.vgpu.open_after_wait();
        }
        Ok(())
    }

    /// Whether the address is of any vGPU's managed memory.
    fn is_managed(&self, at: u64) -> bool {
        self.devices().is_ok_and(|all| all.iter().any(|device| device.vgpu.managed.has(at)))
    }

    /// Host to device.
    pub(super) fn upload(&self, stream: &StreamState, to: DevicePtr, source: HostRange, mode: Mode) -> CudaResult<()> {
        if source.is_empty() {
            return Ok(());
        }
        check_host(&source)?;
        if let Some(from) = self.managed_side(&source)? {
            return self.move_line(stream, to, from, source.len() as u64, mode);
        }
        if let Some(to) = self.host_side(to, source.len(), &stream.vgpu) {
            return self.move_on_host(stream, to, source);
        }
        let memory = self.device_memory(to, source.len() as u64, &stream.vgpu)?;
        let vgpu = memory.vgpu();
        if !memory.is_on(&stream.vgpu) {
            return self.with_remote(stream, vgpu, |remote| self.upload(remote, to, source, mode));
        }
        let sends = mode == Mode::Waits && Self::had_better_send(&source, vgpu);
        if !sends && self.is_shared(&source, vgpu)? {
            vgpu.statistics.read_by_device(source.len() as u64);
            copy_by_device(stream, to.0, source.pointer().0, source.len() as u64)?;
            return Self::wait_where(mode, stream);
        }
        if self.must_read_late(stream, &source, mode)? {
            return Self::copy_late(stream, to.0, &source);
        }
        let passage = self.passage(&source, mode);
        let staged =
            if passage.is_lent { 0 } else { vgpu.upload_staged(stream.course(), self.copiers()?, to.0, &source)? };
        send(vgpu, stream.course(), to.0 + staged as u64, &source.sub(staged, source.len() - staged)?, passage)
    }

    /// How these bytes leave. Pinned memory is the device's to read at any time, so the server may see what is there later; but
    /// registered memory is something else's when it is not registered any more, and copied. Pages of memory that was allocated
    /// as pinned go back to the system, which gives them to nobody while a socket holds them.
    fn passage(&self, source: &HostRange, mode: Mode) -> Passage {
        let (at, bytes) = (source.pointer().0, source.len() as u64);
        let pinned = || self.host_memory.find_all(at, bytes);
        let Some(pinned) = (source.len() >= LENT_FROM).then(pinned).flatten() else { return Passage::AT_ONCE };
        let giving = if pinned.is_allocated { Giving::Pages } else { Giving::Copies };
        Passage { is_lent: mode != Mode::Waits, giving }
    }

    /// Whether a copy to these bytes may arrive after the call: pinned memory, but none that a kernel behind the copy may
    /// read at the server.
    pub(super) fn may_arrive_late(&self, target: &HostRange, mode: Mode) -> bool {
        let (at, bytes) = (target.pointer().0, target.len() as u64);
        mode.goes_on(|| self.host_memory.is_pinned(at, bytes)) && !self.is_mirrored(at, bytes)
    }

    /// Device to host.
    pub(super) fn download(
        &self,
        stream: &StreamState,
        target: HostRange,
        from: DevicePtr,
        mode: Mode,
    ) -> CudaResult<()> {
        if target.is_empty() {
            return Ok(());
        }
        check_host(&target)?;
        let bytes = target.len() as u64;
        if let Some(to) = self.managed_side(&target)? {
            return self.move_line(stream, to, from, bytes, mode);
        }
        if let Some(from) = self.host_side(from, target.len(), &stream.vgpu) {
            return self.move_on_host(stream, target, from);
        }
        let memory = self.device_memory(from, bytes, &stream.vgpu)?;
        let vgpu = memory.vgpu();
        if !memory.is_on(&stream.vgpu) {
            return self.with_remote(stream, vgpu, |remote| self.download(remote, target, from, Mode::Waits));
        }
        if self.is_shared(&target, vgpu)? {
            vgpu.statistics.written_by_device(bytes);
            copy_by_device(stream, target.pointer().0, from.0, bytes)?;
            return Self::wait_where(mode, stream);
        }
        let late = self.may_arrive_late(&target, mode);
        let staged = if late { 0 } else { self.download_by_slots(stream, &target, from.0)? };
        let target = target.sub(staged, target.len() - staged)?;
        if target.is_empty() {
            return Ok(());
        }
        let (from, bytes) = (floe_wire::DevicePtr(from.0 + staged as u64), target.len() as u64);
        let message = CopyFromDevice { stream: stream.id(), from, bytes };
        vgpu.statistics.came_from_device(bytes);
        if late {
            return vgpu.connection.fetch_unwatched(&message, Target::Line(target), stream.course());
        }
        let ticket = vgpu.connection.fetch(&message, Target::Line(target), stream.course())?;
        vgpu.connection.wait(&ticket)?;
        vgpu.errors.report()
    }

    /// What of a copy to the host goes through slots.
    fn download_by_slots(&self, stream: &StreamState, target: &HostRange, from: u64) -> CudaResult<usize> {
        let vgpu = &stream.vgpu;
        let staged = vgpu.download_staged(stream.course(), self.copiers()?, target, from);
        vgpu.errors.report()?;
        staged
    }

    /// Device to device, where an end may have been named as the host's.
    pub(super) fn move_line(
        &self,
        stream: &StreamState,
        to: DevicePtr,
        from: DevicePtr,
        bytes: u64,
        mode: Mode,
    ) -> CudaResult<()> {
        self.move_on_device(stream, to, from, bytes)?;
        self.wait_where_managed(mode, stream, [to.0, from.0])
    }

    /// Device to device.
    pub(super) fn move_on_device(
        &self,
        stream: &StreamState,
        to: DevicePtr,
        from: DevicePtr,
        bytes: u64,
    ) -> CudaResult<()> {
        if bytes == 0 {
            return Ok(());
        }
        let length = usize::try_from(bytes).map_err(|_| CudaError::INVALID_VALUE)?;
        if let Some(from) = self.host_side(from, length, &stream.vgpu) {
            return self.upload(stream, to, from, Mode::Waits);
        }
        if let Some(to) = self.host_side(to, length, &stream.vgpu) {
            return self.download(stream, to, from, Mode::Waits);
        }
        let source = self.device_memory(from, bytes, &stream.vgpu)?;
        let target = self.device_memory(to, bytes, &stream.vgpu)?;
        self.move_between(stream, (to, &target), (from, &source), bytes)
    }

    /// From one vGPU's memory to the same or another's. Two vGPUs may have global variables at one address, so the memory
    /// says which has it.
    pub(super) fn move_between(
        &self,
        stream: &StreamState,
        to: (DevicePtr, &Resident),
        from: (DevicePtr, &Resident),
        bytes: u64,
    ) -> CudaResult<()> {
        if !from.1.is_on(to.1.vgpu()) {
            return self.relay(stream, to, from, bytes);
        }
        if !from.1.is_on(&stream.vgpu) {
            return self.with_remote(stream, from.1.vgpu(), |remote| self.move_between(remote, to, from, bytes));
        }
        stream.post(&CopyOnDevice {
            stream: stream.id(),
            to: floe_wire::DevicePtr(to.0.0),
            from: floe_wire::DevicePtr(from.0.0),
            bytes,
        })
    }

    /// From one vGPU to another, through the client.
    pub(super) fn relay(
        &self,
        stream: &StreamState,
        to: (DevicePtr, &Resident),
        from: (DevicePtr, &Resident),
        bytes: u64,
    ) -> CudaResult<()> {
        let length = usize::try_from(bytes).map_err(|_| CudaError::INVALID_VALUE)?;
        let buffer = HostBlock::new(length.min(RELAY_BYTES)).ok_or(CudaError::OUT_OF_MEMORY)?;
        let mut done = 0;
        while done < length {
            let piece = buffer.range().sub(0, RELAY_BYTES.min(length - done))?;
            let at = |start: DevicePtr| start.offset(done as u64).ok_or(CudaError::INVALID_VALUE);
            let (source, target) = (at(from.0)?, at(to.0)?);
            self.on(stream, from.1.vgpu(), |there| self.download(there, piece, source, Mode::Waits))?;
            // The bytes leave with the message, so the buffer is free again when this returns.
            self.on(stream, to.1.vgpu(), |there| self.upload(there, target, piece, Mode::Waits))?;
            done += piece.len();
        }
        Ok(())
    }

    /// Does something of `stream`'s on a vGPU: its own, or another as `with_remote` has it.
    fn on(
        &self,
        stream: &StreamState,
        vgpu: &Arc<Vgpu>,
        act: impl FnOnce(&StreamState) -> CudaResult<()>,
    ) -> CudaResult<()> {
        if Arc::ptr_eq(vgpu, &stream.vgpu) { act(stream) } else { self.with_remote(stream, vgpu, act) }
    }

    /// Does something of `stream`'s on another vGPU, in its place of `stream`'s order: after what it holds, before what comes.
    pub(crate) fn with_remote(
        &self,
        stream: &StreamState,
        vgpu: &Arc<Vgpu>,
        act: impl FnOnce(&StreamState) -> CudaResult<()>,
    ) -> CudaResult<()> {
        stream.vgpu.synchronize_stream(stream.course())?;
        let remote = self.devices()?[usize::from(vgpu.ordinal)].primary.legacy();
        act(remote)?;
        vgpu.synchronize_stream(remote.course())
    }

    /// Memory that was named as the host's, where it is managed: the device has it, and nobody here reads it.
    ///
    /// # Errors
    /// INVALID_VALUE where a part of it is managed memory.
    pub(super) fn managed_side(&self, range: &HostRange) -> CudaResult<Option<DevicePtr>> {
        let (first, last) = (range.pointer().0, range.pointer().0 + (range.len() as u64).saturating_sub(1));
        match (self.is_managed(first), self.is_managed(last)) {
            (true, _) => Ok(Some(DevicePtr(first))),
            (false, false) => Ok(None),
            (false, true) => Err(CudaError::INVALID_VALUE),
        }
    }

    /// Host to host, in stream order: the stream is waited for.
    pub(super) fn move_on_host(&self, stream: &StreamState, to: HostRange, from: HostRange) -> CudaResult<()> {
        stream.vgpu.synchronize_stream(stream.course())?;
        self.wait_for_writes(&from)?;
        self.wait_for_writes(&to)?;
        to.copy_from(&from, from.len().min(to.len()))
    }

    pub(super) fn side(&self, range: &UnifiedRange, vgpu: &Arc<Vgpu>) -> CudaResult<Side> {
        if self.owner(range.device(), Some(vgpu)).is_some() {
            return Ok(Side::Device(range.device()));
        }
        check_host(&range.host())?;
        Ok(self.managed_side(&range.host())?.map_or(Side::Host(range.host()), Side::Device))
    }
}

/// Queues a copy one end of which is shared memory.
pub(crate) fn copy_by_device(stream: &StreamState, to: u64, from: u64, bytes: u64) -> CudaResult<()> {
    let (to, from) = (floe_wire::DevicePtr(to), floe_wire::DevicePtr(from));
    stream.post(&CopyOnDevice { stream: stream.id(), to, from, bytes })
}
