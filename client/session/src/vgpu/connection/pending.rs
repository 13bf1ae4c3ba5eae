//! The session's expectations of the server: replies that threads wait for, and data that is on its way into host
//! memory.
//! Expectations come in with a request's sequence, replies and pieces find theirs by it. A piece outside the requested
//! range is refused; it never writes beyond the program's range.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use floe_abi::{CudaError, CudaResult};
use floe_surface::HostRange;

use super::waiter::Waiter;
use crate::vgpu::errors::Errors;
use crate::vgpu::order::StreamProgress;
use floe_lock::lock;

/// Bytes of a large piece that are scattered over a box at a time.
const SCATTERED: usize = 64 << 10;

/// A reply, owned.
#[derive(Debug, Default, Clone)]
pub(crate) struct Answer {
    /// The request's CUresult.
    pub(crate) status: u32,
    /// The first failure of something posted; 0 for none.
    pub(crate) earlier: u32,
    /// A sentence.
    pub(crate) detail: String,
    /// The reply's fields.
    pub(crate) body: Vec<u8>,
}

/// The target of delivered bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    /// One after the other.
    Line(HostRange),
    /// As rows of a box.
    Box(BoxTarget),
}

/// Rows of a box in host memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BoxTarget {
    /// From the box's first byte to its last.
    pub(crate) range: HostRange,
    /// Bytes from row to row.
    pub(crate) pitch: u64,
    /// Bytes from slice to slice.
    pub(crate) slice: u64,
    /// Bytes per row; not 0.
    pub(crate) width: u64,
    /// Rows per slice; not 0.
    pub(crate) height: u64,
    /// Slices.
    pub(crate) depth: u64,
}

impl Target {
    fn bytes(&self) -> u64 {
        match self {
            Self::Line(range) => range.len() as u64,
            // The surface checked that these fit.
            Self::Box(target) => target.width * target.height * target.depth,
        }
    }

    fn range(&self) -> HostRange {
        match self {
            Self::Line(range) => *range,
            Self::Box(target) => target.range,
        }
    }

    fn holds(&self, offset: u64, bytes: usize) -> bool {
        offset.checked_add(bytes as u64).is_some_and(|end| end <= self.bytes())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> CudaResult<()> {
        if !self.holds(offset, bytes.len()) {
            return Err(CudaError::INVALID_VALUE);
        }
        match self {
            Self::Line(range) => write_at(range, offset, bytes),
            Self::Box(target) => target.scatter(offset, bytes),
        }
    }
}

/// The target of the bytes of one piece.
#[derive(Debug)]
pub(super) struct DeliveryRange {
    target: Target,
    offset: u64,
}

impl DeliveryRange {
    /// Has `read` fill the place, `bytes` in all, in one or several parts.
    pub(super) fn fill<E>(&self, bytes: usize, read: &mut dyn FnMut(&mut [u8]) -> Result<(), E>) -> Result<(), E> {
        self.fill_at(0, bytes, read)
    }

    /// The same for the `bytes` bytes that begin `from` bytes after its start.
    pub(super) fn fill_at<E>(
        &self,
        from: usize,
        bytes: usize,
        read: &mut dyn FnMut(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = self.offset + from as u64;
        if let Target::Line(range) = &self.target
            && let Some(place) = usize::try_from(start).ok().and_then(|offset| range.sub(offset, bytes).ok())
        {
            return place.lend(read);
        }
        let mut part = vec![0; bytes.min(SCATTERED)];
        let mut done = 0;
        while done < bytes {
            let part = &mut part[..SCATTERED.min(bytes - done)];
            read(part)?;
            // The whole piece was seen to lie inside the target.
            let _ = self.target.write(start + done as u64, part);
            done += part.len();
        }
        Ok(())
    }
}

impl BoxTarget {
    fn scatter(&self, mut offset: u64, mut bytes: &[u8]) -> CudaResult<()> {
        while !bytes.is_empty() {
            let (row, column) = (offset / self.width, offset % self.width);
            let (slice, row) = (row / self.height, row % self.height);
            let room = usize::try_from(self.width - column).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            write_at(&self.range, slice * self.slice + row * self.pitch + column, now)?;
            offset += now.len() as u64;
            bytes = later;
        }
        Ok(())
    }
}

fn write_at(range: &HostRange, offset: u64, bytes: &[u8]) -> CudaResult<()> {
    let offset = usize::try_from(offset).map_err(|_| CudaError::INVALID_VALUE)?;
    range.sub(offset, bytes.len())?.write(bytes)
}

/// The expectation of one request.
#[derive(Debug)]
pub(super) enum Expected {
    /// A reply somebody waits for.
    Reply(Arc<Waiter>),
    /// A reply that somebody may look at later, or nobody, and what was foretold of it.
    Early(Arc<Waiter>, Option<Foretold>),
    /// A reply nobody waits for.
    Unwatched,
    /// The word that a stream has come so far, or up to this frame, which somebody may wait for or look for.
    Mark(Arc<StreamProgress>, Option<u64>, Arc<Waiter>),
    /// The same word for queries to come, which nobody waits for.
    Progress(Arc<StreamProgress>, u64),
    /// The same word, behind which something is done that does not wait.
    Told(Arc<StreamProgress>, Then),
    /// Data, then a reply.
    Delivery(Incomplete),
}

/// Looks at a reply's fields, and does not wait.
type Check = dyn FnOnce(&[u8]) -> CudaResult<()> + Send;

/// Whether a reply says what the session has acted on already.
pub(super) struct Foretold(pub(super) Box<Check>);

impl std::fmt::Debug for Foretold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Foretold")
    }
}

/// What is done behind an answer, also where none can come any more.
pub(super) struct Then(pub(super) Box<dyn FnOnce() + Send>);

impl std::fmt::Debug for Then {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Then")
    }
}

/// Data on its way into host memory.
#[derive(Debug)]
pub(super) struct Incomplete {
    target: Target,
    pub(super) left: u64,
    pub(super) progress: Arc<StreamProgress>,
    pub(super) waiter: Option<Arc<Waiter>>,
}

impl Expected {
    pub(super) fn delivery(target: Target, progress: &Arc<StreamProgress>, waiter: Option<Arc<Waiter>>) -> Self {
        Self::Delivery(Incomplete { target, left: target.bytes(), progress: Arc::clone(progress), waiter })
    }

    pub(super) fn abandon(self, error: CudaError) {
        match self {
            Self::Reply(waiter)
            | Self::Early(waiter, _)
            | Self::Mark(_, _, waiter)
            | Self::Delivery(Incomplete { waiter: Some(waiter), .. }) => waiter.fill(Err(error)),
            Self::Told(_, Then(then)) => then(),
            Self::Unwatched | Self::Progress(..) | Self::Delivery(_) => {}
        }
    }

    fn writes_into(&self, start: u64, bytes: u64) -> bool {
        let Self::Delivery(delivery) = self else {
            return false;
        };
        let range = delivery.target.range();
        let (first, length) = (range.pointer().0, range.len() as u64);
        first < start.saturating_add(bytes) && start < first.saturating_add(length)
    }
}

/// All expectations of one session.
#[derive(Debug, Default)]
pub(super) struct Pending {
    state: Mutex<State>,
    /// Notified when a piece has been written.
    written: Condvar,
    /// Notified whenever an expectation is over.
    watchers: Mutex<Vec<Arc<Waiter>>>,
    watched: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    expected: HashMap<u64, Expected>,
    /// Large pieces that are being written into the program's memory.
    writing: usize,
    /// The link is gone: nothing more can be expected.
    abandoned: bool,
}

impl Pending {
    pub(super) fn expect(&self, sequence: u64, expected: Expected, errors: &Errors) {
        let mut state = lock(&self.state);
        if state.abandoned {
            drop(state);
            expected.abandon(errors.lost());
        } else {
            state.expected.insert(sequence, expected);
        }
    }

    /// The request has been answered.
    pub(super) fn take(&self, sequence: u64) -> Option<Expected> {
        lock(&self.state).expected.remove(&sequence)
    }

    /// Tells those who wait for an expectation to be over; called when its consequences are in place.
    pub(super) fn tell(&self) {
        if self.watched.load(Ordering::Acquire) > 0 {
            lock(&self.watchers).iter().for_each(|waiter| waiter.nudge());
        }
    }

    /// Nudges this thread whenever an expectation is over.
    pub(super) fn watch(&self, waiter: &Arc<Waiter>) {
        lock(&self.watchers).push(Arc::clone(waiter));
        self.watched.fetch_add(1, Ordering::AcqRel);
    }

    /// Nudges it no more.
    pub(super) fn unwatch(&self, waiter: &Arc<Waiter>) {
        self.watched.fetch_sub(1, Ordering::AcqRel);
        lock(&self.watchers).retain(|other| !Arc::ptr_eq(other, waiter));
    }

    /// A large piece of data comes: where it goes, until [`Pending::end_piece`]. `None` where nobody asked for it.
    pub(super) fn begin_piece(&self, sequence: u64, offset: u64, bytes: usize) -> Option<DeliveryRange> {
        let mut state = lock(&self.state);
        let Some(Expected::Delivery(delivery)) = state.expected.get_mut(&sequence) else { return None };
        if !delivery.target.holds(offset, bytes) {
            return None;
        }
        delivery.left = delivery.left.checked_sub(bytes as u64)?;
        let place = DeliveryRange { target: delivery.target, offset };
        state.writing += 1;
        Some(place)
    }

    /// The piece is in its place, or never will be.
    pub(super) fn end_piece(&self) {
        lock(&self.state).writing -= 1;
        self.written.notify_all();
    }

    /// A piece of data has come. `false` where nobody asked for it.
    pub(super) fn deliver(&self, sequence: u64, offset: u64, bytes: &[u8]) -> bool {
        let mut state = lock(&self.state);
        let Some(Expected::Delivery(delivery)) = state.expected.get_mut(&sequence) else {
            return false;
        };
        // The lock is held while the bytes are written: whoever sees the expectation gone sees the bytes.
        let Some(left) = delivery.left.checked_sub(bytes.len() as u64) else {
            return false;
        };
        delivery.left = left;
        delivery.target.write(offset, bytes).is_ok()
    }

    pub(super) fn writes_into(&self, start: u64, bytes: u64) -> bool {
        lock(&self.state).expected.values().any(|expected| expected.writes_into(start, bytes))
    }

    /// Whether copies of this stream up to this frame have not brought all their bytes.
    pub(super) fn awaits_delivery(&self, stream: u64, sequence: u64) -> bool {
        lock(&self.state).expected.iter().any(|(request, expected)| {
            *request <= sequence
                && matches!(expected, Expected::Delivery(delivery) if delivery.progress.stream() == stream)
        })
    }

    /// The link is gone: everybody is answered with this error, now and later.
    pub(super) fn abandon(&self, error: CudaError) {
        let all: Vec<Expected> = {
            let mut state = lock(&self.state);
            state.abandoned = true;
            // A thread that gets its answer may free the memory that is being written. The link is closed, so this wait
            // ends soon.
            while state.writing > 0 {
                state = floe_lock::wait(&self.written, state);
            }
            state.expected.drain().map(|(_, expected)| expected).collect()
        };
        for expected in all {
            expected.abandon(error);
        }
        self.tell();
    }
}

#[cfg(test)]
mod tests {
    use floe_surface::HostBlock;

    use super::*;
    use crate::vgpu::order::Order;

    fn boxed(block: &HostBlock) -> Target {
        Target::Box(BoxTarget {
            range: block.range().sub(1, 14).unwrap(),
            pitch: 4,
            slice: 8,
            width: 2,
            height: 2,
            depth: 2,
        })
    }

    #[test]
    fn rows_are_scattered_also_when_a_piece_ends_inside_one() {
        let block = HostBlock::new(16).unwrap();
        let target = boxed(&block);
        target.write(0, &[1, 2, 3]).unwrap();
        target.write(3, &[4, 5, 6, 7, 8]).unwrap();
        assert_eq!(block.range().to_vec(), [0, 1, 2, 0, 0, 3, 4, 0, 0, 5, 6, 0, 0, 7, 8, 0]);
    }

    #[test]
    fn a_piece_outside_what_was_asked_for_is_refused() {
        let block = HostBlock::new(16).unwrap();
        assert!(boxed(&block).write(7, &[1, 2]).is_err());
        assert!(boxed(&block).write(u64::MAX, &[1]).is_err());
        assert!(Target::Line(block.range()).write(10, &[0; 7]).is_err());
    }

    #[test]
    fn more_data_than_asked_for_is_refused() {
        let block = HostBlock::new(4).unwrap();
        let (pending, errors, order) = (Pending::default(), Errors::default(), Order::new());
        let target = Target::Line(block.range());
        pending.expect(1, Expected::delivery(target, order.legacy(), None), &errors);
        assert!(pending.deliver(1, 0, &[1; 4]));
        assert!(!pending.deliver(1, 0, &[1]));
        assert!(!pending.deliver(2, 0, &[1]));
    }

    #[test]
    fn overlap_with_a_pending_write_is_seen() {
        let block = HostBlock::new(64).unwrap();
        let (pending, errors, order) = (Pending::default(), Errors::default(), Order::new());
        let target = Target::Line(block.range().sub(16, 16).unwrap());
        pending.expect(1, Expected::delivery(target, order.legacy(), None), &errors);
        let at = block.pointer().0;
        assert!(pending.writes_into(at, 17));
        assert!(!pending.writes_into(at, 16));
        assert!(pending.writes_into(at + 31, 8));
        assert!(!pending.writes_into(at + 32, 8));
    }

    #[test]
    fn a_question_after_the_link_is_gone_is_answered_at_once() {
        let (pending, errors) = (Pending::default(), Errors::default());
        errors.lose(CudaError::DEVICE_UNAVAILABLE);
        pending.abandon(errors.lost());
        let waiter = Arc::new(Waiter::default());
        pending.expect(1, Expected::Reply(Arc::clone(&waiter)), &errors);
        assert_eq!(waiter.take().unwrap().unwrap_err(), CudaError::DEVICE_UNAVAILABLE);
    }
}
