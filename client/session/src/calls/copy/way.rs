//! Which way a copy's bytes take between the program's memory and a vGPU: the table of docs/explanation/copies.md as two functions.
//! The circumstances of the memory come in, with mode and size; a way goes out, for others to carry out. Nothing is
//! copied here.

use floe_transport::SendMode;

use super::extent::Extent;
use crate::memory::sending::{Reading, Sending};
use crate::memory::staging;

/// Bytes of a synchronous copy from which on the wait for a DMA pays. The processor copies fewer bytes in less time
/// than an answer takes, and the program then waits for nothing. Of this many, copies by slots took 22 us where one
/// followed the other, and a DMA with its wait 13 (H200 host).
const WORTH_WAITING: usize = 64 << 10;
/// Bytes of a copy from which on it is worth waking another thread to write it.
const BORROWED_FROM: usize = 128 << 10;

/// Whether the program continues at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// The call returns when the copy is done, or as good as.
    Waits,
    /// The call returns when the copy is queued, where the memory allows it.
    Queues,
    /// The copy is part of a graph or a batch: whatever the memory, it is read and written when the stream gets there.
    Recorded,
}

impl Mode {
    /// Whether the program continues before the memory has been read or written.
    fn goes_on(self, is_pinned: impl FnOnce() -> bool) -> bool {
        match self {
            Self::Waits => false,
            Self::Queues => is_pinned(),
            Self::Recorded => true,
        }
    }
}

/// How the program pinned memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pinned {
    /// CUDA allocated it. Its pages go back to the system, which gives them to nobody while a socket holds them.
    Allocated,
    /// The program registered memory of its own, which is something else's when it is not registered any more.
    Registered,
}

/// The circumstances that a way depends on besides mode and size. Each is asked at most once, and only where it
/// decides.
pub(super) trait Circumstances {
    /// How the program's memory is pinned, if it is.
    fn pinned(&self) -> Option<Pinned>;
    /// Whether the vGPU's worker maps the program's memory.
    fn is_shared(&self) -> bool;
    /// Whether kernels of any vGPU may write the memory, of which the client has a copy.
    fn is_mirrored(&self) -> bool;
    /// Whether the stream's device has a mirror of all of it.
    fn is_mirror_of_device(&self) -> bool;
    /// Whether bytes on their way from a server will be written there.
    fn is_arriving(&self) -> bool;
    /// The same, or whether host functions may write anything.
    fn may_change(&self) -> bool;
    /// Whether no outstanding work of the vGPU may write memory of the program's.
    fn nothing_writes(&self) -> bool;
    /// Whether the worker takes staging slots.
    fn has_slots(&self) -> bool;
    /// Whether there are bulk connections.
    fn has_bulk(&self) -> bool;
}

/// The work that has to be over before bytes leave.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct First {
    /// All work of the stream.
    pub(super) stream: bool,
    /// Copies to the host that write the same bytes.
    pub(super) writers: bool,
}

/// The way of bytes to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToDevice {
    /// The worker's device reads the program's memory. A program that waits waits for the stream.
    ByDevice,
    /// The same by the device's mirror, which has what the program wrote and what kernels ahead of the copy write.
    ByMirror,
    /// The client reads the bytes when the stream gets there.
    Deferred,
    /// Through staging slots; bytes that find no slot are read so and travel.
    Slots(Reading),
    /// They travel.
    Sent(Sending),
    /// Rows of a box travel without their gaps.
    Packed,
}

/// The way of bytes from the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToHost {
    /// The worker's device writes the program's memory. A program that waits waits for the stream.
    ByDevice,
    /// Through staging slots; bytes that find no slot are delivered, and waited for.
    Slots,
    /// The server sends them, and the call waits until they are there.
    Awaited,
    /// The server sends them, and the call returns before.
    Delivered,
}

/// The way of a copy to the device, and what has to be over first.
pub(super) fn to_device(end: &impl Circumstances, mode: Mode, extent: &Extent) -> (First, ToDevice) {
    let bytes = extent.bytes();
    let sends = extent.is_line() && mode == Mode::Waits && bytes < WORTH_WAITING && end.nothing_writes();
    let is_shared = !sends && end.is_shared();
    if is_shared && !end.is_arriving() {
        return (First::default(), ToDevice::ByDevice);
    }
    // Shared memory that the device may not read now has bytes arriving.
    let changes = is_shared || end.may_change();
    let is_mirrored = end.is_mirrored();
    if is_mirrored && !changes && mode == Mode::Queues && end.is_mirror_of_device() {
        return (First::default(), ToDevice::ByMirror);
    }
    let is_deferred = changes && mode.goes_on(|| end.pinned().is_some());
    // Kernels issued before may write mirrored memory, and their writes arrive with the wait; a deferred read is asked for behind
    // them. CUDA reads the source of a synchronous copy when the stream gets there. The call itself reads pageable memory, so only
    // the writers of that must be over.
    let stream = is_mirrored && !is_deferred || changes && mode == Mode::Waits;
    let first = First { stream, writers: changes && !is_deferred };
    match extent {
        _ if is_deferred => (first, ToDevice::Deferred),
        Extent::Box(_) => (first, ToDevice::Packed),
        Extent::Line(_) => (first, sent(end, mode, bytes)),
    }
}

/// The way of bytes in a line that the client reads now, or may read at any time.
fn sent(end: &impl Circumstances, mode: Mode, bytes: usize) -> ToDevice {
    let reading = match (bytes >= BORROWED_FROM).then(|| end.pinned()).flatten() {
        None => Reading::AT_ONCE,
        Some(Pinned::Allocated) => Reading { is_borrowed: mode != Mode::Waits, send_mode: SendMode::Pages },
        Some(Pinned::Registered) => Reading { is_borrowed: mode != Mode::Waits, send_mode: SendMode::Copy },
    };
    if !reading.is_borrowed && bytes >= staging::FROM && end.has_slots() {
        return ToDevice::Slots(reading);
    }
    ToDevice::Sent(Sending::of(bytes, reading, end.has_bulk()))
}

/// The way of a copy from the device.
pub(super) fn to_host(end: &impl Circumstances, mode: Mode, extent: &Extent) -> ToHost {
    if end.is_shared() && !end.is_arriving() {
        return ToHost::ByDevice;
    }
    // A kernel behind the copy may read mirrored memory at the server, so that has to be there.
    if mode.goes_on(|| end.pinned().is_some()) && !end.is_mirrored() {
        return ToHost::Delivered;
    }
    let may_stage = extent.is_line() && extent.bytes() >= staging::FROM;
    if may_stage && end.has_slots() { ToHost::Slots } else { ToHost::Awaited }
}

#[cfg(test)]
mod tests;
