//! What a pool's memory would take of a device whose driver keeps it by itself, which programs ask for and trim: `RESERVED_MEM`.
//! In: allocations, what was freed on which stream, synchronizations. Out: bytes, in steps of 32 MiB, as NVIDIA's driver reserves
//! them (docs/facts/device-memory.md). Pools here share the vGPU's blocks, so this is an account and not memory. It knows no places:
//! memory in pieces takes more of a device than this says.

use std::collections::HashMap;
use std::sync::Arc;

use crate::vgpu::order::StreamProgress;

/// Bytes in which a driver reserves.
const STEP: u64 = 32 << 20;
/// Bytes in which it gives out.
const UNIT: u64 = 512;

/// The account.
#[derive(Debug, Default)]
pub(super) struct Reserve {
    /// What is given out.
    live: u64,
    /// What was freed by streams and may not be over yet.
    freed: HashMap<u64, Freed>,
    bytes: u64,
    high: u64,
    /// The program's synchronizations when it was last settled.
    settled: u64,
}

/// What one stream has freed.
#[derive(Debug)]
struct Freed {
    progress: Arc<StreamProgress>,
    bytes: u64,
    /// The work that precedes the last free.
    sequence: u64,
    /// Synchronizations before it.
    waits: u64,
}

impl Freed {
    fn is_over(&self) -> bool {
        self.progress.completed() >= self.sequence
    }
}

/// Bytes as they are given out.
fn rounded(bytes: u64) -> u64 {
    bytes.max(1).checked_next_multiple_of(UNIT).unwrap_or(bytes)
}

fn stepped(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(STEP).unwrap_or(bytes)
}

impl Reserve {
    /// Bytes are given out to a stream's work, behind so many synchronizations of the program.
    pub(super) fn give(&mut self, bytes: u64, stream: u64, threshold: u64, waits: u64) {
        self.settle(threshold, waits);
        let bytes = rounded(bytes);
        // The stream has what it freed itself at once, and others have what is over.
        self.freed.retain(|_, freed| !freed.is_over());
        if let Some(freed) = self.freed.get_mut(&stream) {
            freed.bytes -= freed.bytes.min(bytes);
        }
        self.live = self.live.saturating_add(bytes);
        self.bytes = self.bytes.max(stepped(self.held()));
        self.high = self.high.max(self.bytes);
    }

    /// Bytes are back, by a stream behind its work, or at once.
    pub(super) fn take(&mut self, bytes: u64, stream: Option<&Arc<StreamProgress>>, waits: u64) {
        let bytes = rounded(bytes);
        self.live -= self.live.min(bytes);
        let Some(progress) = stream else { return };
        let sequence = progress.issued();
        let fresh = || Freed { progress: Arc::clone(progress), bytes: 0, sequence, waits };
        let freed = self.freed.entry(progress.stream()).or_insert_with(fresh);
        (freed.bytes, freed.sequence, freed.waits) = (freed.bytes.saturating_add(bytes), sequence, waits);
    }

    /// A driver gives memory back when the program synchronizes, down to the threshold.
    pub(super) fn settle(&mut self, threshold: u64, waits: u64) {
        if self.settled == waits {
            return;
        }
        self.settled = waits;
        self.freed.retain(|_, freed| freed.waits == waits || !freed.is_over());
        self.shrink(threshold);
    }

    /// Gives back what is not held, down to so many bytes.
    pub(super) fn shrink(&mut self, keep: u64) {
        self.bytes = self.bytes.min(stepped(self.held()).max(keep));
    }

    /// What is given out, and what may still be in use.
    fn held(&self) -> u64 {
        self.freed.values().fold(self.live, |sum, freed| sum.saturating_add(freed.bytes))
    }

    /// Bytes reserved now.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The most since the last reset.
    pub(super) fn high(&self) -> u64 {
        self.high
    }

    /// From now on the most is what is reserved.
    pub(super) fn reset_high(&mut self) {
        self.high = self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vgpu::order::Order;

    const MIB: u64 = 1 << 20;

    /// The figures of an H100 (driver 580.159): each allocation alone, freed, synchronized.
    #[test]
    fn one_allocation_reserves_as_on_a_gpu_until_the_program_synchronizes() {
        for (bytes, reserved) in [
            (1, 32),
            (4096, 32),
            (2 * MIB + 1, 32),
            (32 * MIB, 32),
            (32 * MIB + 1, 64),
            (33 * MIB, 64),
            (100 * MIB, 128),
            (1 << 30, 1024),
        ] {
            let (mut reserve, order) = (Reserve::default(), Order::default());
            let stream = order.add(5, false);
            reserve.give(bytes, 5, 0, 0);
            assert_eq!((reserve.bytes(), reserve.high()), (reserved * MIB, reserved * MIB), "{bytes}");
            reserve.take(bytes, Some(&stream), 0);
            reserve.settle(0, 0);
            assert_eq!(reserve.bytes(), reserved * MIB);
            reserve.settle(0, 1);
            assert_eq!((reserve.bytes(), reserve.high()), (0, reserved * MIB));
        }
    }

    #[test]
    fn what_is_in_use_stays_and_a_threshold_keeps_more() {
        for (threshold, kept) in [(0, 32), (u64::MAX, 64)] {
            let (mut reserve, order) = (Reserve::default(), Order::default());
            let stream = order.add(5, false);
            for bytes in [MIB, MIB, 40 * MIB] {
                reserve.give(bytes, 5, threshold, 0);
            }
            assert_eq!(reserve.bytes(), 64 * MIB);
            stream.issue(7);
            reserve.take(40 * MIB, Some(&stream), 0);
            reserve.shrink(0);
            assert_eq!(reserve.bytes(), 64 * MIB, "it may be in use");
            reserve.settle(threshold, 1);
            assert_eq!(reserve.bytes(), 64 * MIB, "its stream was not waited for");
            order.stream_completed(&stream, 7);
            reserve.settle(threshold, 2);
            assert_eq!(reserve.bytes(), kept * MIB);
            reserve.shrink(0);
            assert_eq!(reserve.bytes(), 32 * MIB);
            reserve.reset_high();
            assert_eq!(reserve.high(), 32 * MIB);
        }
    }

    #[test]
    fn a_stream_has_what_it_freed_and_others_what_is_over() {
        let (mut reserve, order) = (Reserve::default(), Order::default());
        let [one, other] = [5, 6].map(|id| order.add(id, false));
        one.issue(1);
        for _ in 0..100 {
            reserve.give(20 * MIB, 5, 0, 0);
            reserve.take(20 * MIB, Some(&one), 0);
        }
        assert_eq!(reserve.high(), 32 * MIB);
        reserve.give(20 * MIB, other.stream(), 0, 0);
        assert_eq!(reserve.bytes(), 64 * MIB);
        order.stream_completed(&one, 1);
        reserve.give(20 * MIB, other.stream(), 0, 0);
        assert_eq!(reserve.bytes(), 64 * MIB);
        // What was freed at once is nobody's.
        reserve.take(40 * MIB, None, 0);
        reserve.settle(0, 1);
        assert_eq!(reserve.bytes(), 0);
    }
}
