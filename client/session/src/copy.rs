//! Copies in one line: to the device, from it, on it, between vGPUs, within the host. Ranges come in; the bytes of a copy to
//! the device travel with its message, those of a copy from it are waited for unless the memory is pinned and the copy
//! asynchronous. Memory the worker has, too, the device reads and writes itself. Copies of boxes are in `boxes`, those whose
//! bytes are read later in `late`.

mod boxes;
mod calls;
mod late;
mod striped;

use std::sync::Arc;

use floe_abi::{CudaError, CudaResult, DevicePtr};
use floe_surface::{HostBlock, HostRange, UnifiedRange};
use floe_transport::Giving;
use floe_wire::{CopyFromDevice, CopyOnDevice, CopyToDevice, PIECE_BYTES};

use crate::client::Client;
use crate::connection::Target;
use crate::managed::Resident;
use crate::order::Course;
use crate::session::Session;
use crate::sharing::copy_by_device;
use crate::stream::StreamState;

/// Bytes of a copy between vGPUs that are in the client at a time.
const RELAY_BYTES: usize = 32 << 20;

/// Bytes from which on a piece is not copied on its way to the socket.
const LARGE: usize = 32 << 10;
/// Bytes of a copy from which on it is worth another thread's waking to write it.
const LENT_FROM: usize = 128 << 10;

/// Whether the program goes on at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// The call returns when the copy is done, or as good as.
    Waits,
    /// The call returns when the copy is queued, where the memory allows it.
    Queues,
    /// The copy is part of a graph: whatever the memory, it is read and written when the stream gets there.
    Recorded,
}

impl Mode {
    /// Whether the program goes on before the memory has been read or written.
    fn goes_on(self, is_pinned: impl FnOnce() -> bool) -> bool {
        match self {
            Self::Waits => false,
            Self::Queues => is_pinned(),
            Self::Recorded => true,
        }
    }
}

/// One side of a unified copy.
#[derive(Debug, Clone, Copy)]
enum Side {
    Host(HostRange),
    Device(DevicePtr),
}

/// How host bytes get to the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Passage {
    /// From where they lie, later: the memory is pinned and the copy asynchronous. Otherwise before the call returns.
    is_lent: bool,
    /// How sockets are given them.
    giving: Giving,
}

impl Passage {
    const AT_ONCE: Self = Self { is_lent: false, giving: Giving::Copies };
}

/// Posts host bytes in pieces.
fn send(session: &Session, course: &Course, to: u64, source: &HostRange, passage: Passage) -> CudaResult<()> {
    if striped::carries(session, source.len()) {
        striped::send(session, course, to, source, passage)?;
        session.statistics.went_to_device(source.len() as u64);
        return Ok(());
    }
    let mut done = 0;
    while done < source.len() {
        let length = PIECE_BYTES.min(source.len() - done);
        let piece = source.sub(done, length)?;
        let message = CopyToDevice {
            stream: floe_wire::StreamId(course.stream()),
            to: floe_wire::DevicePtr(to + done as u64),
            bytes: &[],
        };
        course.issue_reading(send_piece(session, message, piece, passage)?);
        done += length;
    }
    session.statistics.went_to_device(source.len() as u64);
    Ok(())
}

/// Posts one piece: a small one together with other frames, a large one from where it lies.
fn send_piece(session: &Session, message: CopyToDevice<'_>, piece: HostRange, passage: Passage) -> CudaResult<u64> {
    let connection = &session.connection;
    if piece.len() < LARGE {
        let fill = |target: &mut [u8]| piece.read_into(target).expect("the piece has the target's length");
        return connection.post_filled(&message, piece.len(), fill);
    }
    if passage.is_lent {
        return connection.post_lent(&message, Box::new(session.lent.lend(piece, passage.giving)));
    }
    let mut sent = Err(CudaError::UNKNOWN);
    piece.show(&mut |bytes| sent = connection.post(&CopyToDevice { bytes, ..message }));
    sent
}

/// Posts host bytes, which have been read when this returns.
pub(crate) fn send_at_once(session: &Session, course: &Course, to: u64, source: &HostRange) -> CudaResult<()> {
    send(session, course, to, source, Passage::AT_ONCE)
}

fn check_host(range: &HostRange) -> CudaResult<()> {
    if range.pointer().is_null() { Err(CudaError::INVALID_VALUE) } else { Ok(()) }
}

impl Client {
    /// Waits for what was queued, where the program does.
    fn wait_where(mode: Mode, stream: &StreamState) -> CudaResult<()> {
        if mode == Mode::Waits { stream.session.synchronize_stream(stream.course()) } else { Ok(()) }
    }

    /// The same behind a copy within the device, where the host can touch an end of it.
    fn wait_where_managed(&self, mode: Mode, stream: &StreamState, ends: [u64; 2]) -> CudaResult<()> {
        let is_managed = |at: &u64| self.is_managed(*at);
        if mode == Mode::Waits && ends.iter().any(is_managed) { Self::wait_where(mode, stream) } else { Ok(()) }
    }

    /// Whether the address is of any vGPU's managed memory.
    fn is_managed(&self, at: u64) -> bool {
        self.devices().is_ok_and(|all| all.iter().any(|device| device.session.managed.has(at)))
    }

    /// Host to device.
    fn upload(&self, stream: &StreamState, to: DevicePtr, source: HostRange, mode: Mode) -> CudaResult<()> {
        if source.is_empty() {
            return Ok(());
        }
        check_host(&source)?;
        if let Some(from) = self.managed_side(&source)? {
            return self.move_line(stream, to, from, source.len() as u64, mode);
        }
        if let Some(to) = self.host_side(to, source.len(), &stream.session) {
            return self.move_on_host(stream, to, source);
        }
        let memory = self.device_memory(to, source.len() as u64, &stream.session)?;
        let session = memory.session();
        if !memory.is_on(&stream.session) {
            return self.with_remote(stream, session, |remote| self.upload(remote, to, source, mode));
        }
        let sends = mode == Mode::Waits && Self::had_better_send(&source, session);
        if !sends && self.is_shared(&source, session)? {
            session.statistics.read_by_device(source.len() as u64);
            copy_by_device(stream, to.0, source.pointer().0, source.len() as u64)?;
            return Self::wait_where(mode, stream);
        }
        if self.must_read_late(stream, &source, mode)? {
            return Self::copy_late(stream, to.0, &source);
        }
        let passage = self.passage(&source, mode);
        let staged =
            if passage.is_lent { 0 } else { session.upload_staged(stream.course(), self.copiers()?, to.0, &source)? };
        send(session, stream.course(), to.0 + staged as u64, &source.sub(staged, source.len() - staged)?, passage)
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
    fn may_arrive_late(&self, target: &HostRange, mode: Mode) -> bool {
        let (at, bytes) = (target.pointer().0, target.len() as u64);
        mode.goes_on(|| self.host_memory.is_pinned(at, bytes)) && !self.is_mirrored(at, bytes)
    }

    /// Device to host.
    fn download(&self, stream: &StreamState, target: HostRange, from: DevicePtr, mode: Mode) -> CudaResult<()> {
        if target.is_empty() {
            return Ok(());
        }
        check_host(&target)?;
        let bytes = target.len() as u64;
        if let Some(to) = self.managed_side(&target)? {
            return self.move_line(stream, to, from, bytes, mode);
        }
        if let Some(from) = self.host_side(from, target.len(), &stream.session) {
            return self.move_on_host(stream, target, from);
        }
        let memory = self.device_memory(from, bytes, &stream.session)?;
        let session = memory.session();
        if !memory.is_on(&stream.session) {
            return self.with_remote(stream, session, |remote| self.download(remote, target, from, Mode::Waits));
        }
        if self.is_shared(&target, session)? {
            session.statistics.written_by_device(bytes);
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
        session.statistics.came_from_device(bytes);
        if late {
            return session.connection.fetch_unwatched(&message, Target::Line(target), stream.course());
        }
        let ticket = session.connection.fetch(&message, Target::Line(target), stream.course())?;
        session.connection.wait(&ticket)?;
        session.errors.report()
    }

    /// What of a copy to the host goes through slots.
    fn download_by_slots(&self, stream: &StreamState, target: &HostRange, from: u64) -> CudaResult<usize> {
        let session = &stream.session;
        let staged = session.download_staged(stream.course(), self.copiers()?, target, from);
        session.errors.report()?;
        staged
    }

    /// Device to device, where an end may have been named as the host's.
    fn move_line(
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
    fn move_on_device(&self, stream: &StreamState, to: DevicePtr, from: DevicePtr, bytes: u64) -> CudaResult<()> {
        if bytes == 0 {
            return Ok(());
        }
        let length = usize::try_from(bytes).map_err(|_| CudaError::INVALID_VALUE)?;
        if let Some(from) = self.host_side(from, length, &stream.session) {
            return self.upload(stream, to, from, Mode::Waits);
        }
        if let Some(to) = self.host_side(to, length, &stream.session) {
            return self.download(stream, to, from, Mode::Waits);
        }
        let source = self.device_memory(from, bytes, &stream.session)?;
        let target = self.device_memory(to, bytes, &stream.session)?;
        self.move_between(stream, (to, &target), (from, &source), bytes)
    }

    /// From one vGPU's memory to the same or another's. Two vGPUs may have global variables at one address, so the memory
    /// says which has it.
    fn move_between(
        &self,
        stream: &StreamState,
        to: (DevicePtr, &Resident),
        from: (DevicePtr, &Resident),
        bytes: u64,
    ) -> CudaResult<()> {
        if !from.1.is_on(to.1.session()) {
            return self.relay(stream, to, from, bytes);
        }
        if !from.1.is_on(&stream.session) {
            return self.with_remote(stream, from.1.session(), |remote| self.move_between(remote, to, from, bytes));
        }
        stream.post(&CopyOnDevice {
            stream: stream.id(),
            to: floe_wire::DevicePtr(to.0.0),
            from: floe_wire::DevicePtr(from.0.0),
            bytes,
        })
    }

    /// From one vGPU to another, through the client.
    fn relay(
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
            self.on(stream, from.1.session(), |there| self.download(there, piece, source, Mode::Waits))?;
            // The bytes leave with the message, so the buffer is free again when this returns.
            self.on(stream, to.1.session(), |there| self.upload(there, target, piece, Mode::Waits))?;
            done += piece.len();
        }
        Ok(())
    }

    /// Does something of `stream`'s on a vGPU: its own, or another as `with_remote` has it.
    fn on(
        &self,
        stream: &StreamState,
        session: &Arc<Session>,
        act: impl FnOnce(&StreamState) -> CudaResult<()>,
    ) -> CudaResult<()> {
        if Arc::ptr_eq(session, &stream.session) { act(stream) } else { self.with_remote(stream, session, act) }
    }

    /// Does something of `stream`'s on another vGPU, in its place of `stream`'s order: after what it holds, before what comes.
    pub(crate) fn with_remote(
        &self,
        stream: &StreamState,
        session: &Arc<Session>,
        act: impl FnOnce(&StreamState) -> CudaResult<()>,
    ) -> CudaResult<()> {
        stream.session.synchronize_stream(stream.course())?;
        let remote = self.devices()?[usize::from(session.ordinal)].primary.legacy();
        act(remote)?;
        session.synchronize_stream(remote.course())
    }

    /// Memory that was named as the host's, where it is managed: the device has it, and nobody here reads it.
    ///
    /// # Errors
    /// INVALID_VALUE where a part of it is managed memory.
    fn managed_side(&self, range: &HostRange) -> CudaResult<Option<DevicePtr>> {
        let (first, last) = (range.pointer().0, range.pointer().0 + (range.len() as u64).saturating_sub(1));
        match (self.is_managed(first), self.is_managed(last)) {
            (true, _) => Ok(Some(DevicePtr(first))),
            (false, false) => Ok(None),
            (false, true) => Err(CudaError::INVALID_VALUE),
        }
    }

    /// Host to host, in stream order: the stream is waited for.
    fn move_on_host(&self, stream: &StreamState, to: HostRange, from: HostRange) -> CudaResult<()> {
        stream.session.synchronize_stream(stream.course())?;
        self.wait_for_writes(&from)?;
        self.wait_for_writes(&to)?;
        to.copy_from(&from, from.len().min(to.len()))
    }

    fn side(&self, range: &UnifiedRange, session: &Arc<Session>) -> CudaResult<Side> {
        if self.owner(range.device(), Some(session)).is_some() {
            return Ok(Side::Device(range.device()));
        }
        check_host(&range.host())?;
        Ok(self.managed_side(&range.host())?.map_or(Side::Host(range.host()), Side::Device))
    }
}
