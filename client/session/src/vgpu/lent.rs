//! Pinned memory of the program that is sent from where it lies. A range comes in when a copy is queued and leaves when
//! nobody reads it any more. That is when the socket has its bytes or, if the memory may be reused, when the server has
//! them. A caller that frees such memory waits here; a link that ends gives all back.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use floe_surface::HostRange;
use floe_transport::SendMode;

use crate::vgpu::tally;
use floe_lock::lock;

/// The ranges that are on their way to one server.
#[derive(Debug, Default)]
pub(crate) struct LentRanges {
    /// Start and bytes.
    ranges: Mutex<Vec<(u64, u64)>>,
    count: AtomicUsize,
    back: Condvar,
}

/// One range on its way. Given back when dropped.
#[derive(Debug)]
pub(crate) struct LentRange {
    range: HostRange,
    send_mode: SendMode,
    home: Arc<LentRanges>,
}

impl LentRanges {
    /// Lends a range, which nobody writes until it is back, or, where it is pinned, until its copy has completed.
    pub(crate) fn lend(self: &Arc<Self>, range: HostRange, send_mode: SendMode) -> LentRange {
        lock(&self.ranges).push(place(&range));
        self.count.fetch_add(1, Ordering::AcqRel);
        LentRange { range, send_mode, home: Arc::clone(self) }
    }

    /// Whether anything is on its way.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Waits until none of these bytes is on its way.
    pub(crate) fn wait_until_back(&self, start: u64, bytes: u64) {
        if self.is_empty() {
            return;
        }
        let overlaps =
            |(from, length): &(u64, u64)| *from < start.saturating_add(bytes) && start < from.saturating_add(*length);
        let mut ranges = lock(&self.ranges);
        while ranges.iter().any(overlaps) {
            let _waits = tally::wait();
            ranges = floe_lock::wait(&self.back, ranges);
        }
    }
}

fn place(range: &HostRange) -> (u64, u64) {
    (range.pointer().0, range.len() as u64)
}

impl floe_transport::BorrowedBuffer for LentRange {
    fn len(&self) -> usize {
        self.range.len()
    }

    fn with_bytes(&self, write: &mut dyn FnMut(&[u8])) {
        self.range.show(write);
    }

    fn send_mode(&self) -> SendMode {
        self.send_mode
    }
}

impl Drop for LentRange {
    fn drop(&mut self) {
        let own = place(&self.range);
        let mut ranges = lock(&self.home.ranges);
        if let Some(index) = ranges.iter().position(|range| *range == own) {
            ranges.swap_remove(index);
        }
        drop(ranges);
        self.home.count.fetch_sub(1, Ordering::AcqRel);
        self.home.back.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use floe_surface::HostBlock;

    use super::*;

    #[test]
    fn freeing_borrowed_memory_waits_until_it_is_returned() {
        let block = HostBlock::new(64).unwrap();
        let (start, lent) = (block.pointer().0, Arc::new(LentRanges::default()));
        let range = lent.lend(block.range().sub(16, 16).unwrap(), SendMode::Pages);
        lent.wait_until_back(start, 16);
        lent.wait_until_back(start + 32, 32);
        std::thread::scope(|scope| {
            // It goes back where this fails, too.
            let range = range;
            let waiting = scope.spawn(|| lent.wait_until_back(start + 31, 1));
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!waiting.is_finished());
            drop(range);
        });
        assert!(lent.is_empty());
    }
}
