//! The session's device memory, counted against its quota.
//! In: what is about to be taken, and what was given back. Out: leave to take it, or OUT_OF_MEMORY with the numbers.
//! It asks no device and takes nothing itself: whoever takes memory asks here first.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use floe_abi::CudaError;
use floe_device::{Costs, Limits};

use crate::issue::fault::Fault;

/// More memory for the session than it was granted, where the daemon divides the device's memory or keeps some for others.
pub trait Grants: Send {
    /// Asks for `total` bytes in all. Returns what the session may have in all, and what nobody has.
    fn ask(&mut self, total: u64) -> Granted;
    /// Says that no more than `total` bytes are held.
    fn hold(&mut self, total: u64);
    /// Whether the daemon divides the device's memory, since no driver does.
    fn is_of_divided_device(&self) -> bool {
        true
    }
}

/// An answer of the daemon's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Granted {
    /// Bytes the session may have in all.
    pub total: u64,
    /// Bytes nobody has.
    pub left: u64,
}

/// Bytes a session may keep beyond what it holds before it says that it holds less.
const SLACK: u64 = 64 << 20;

/// The bytes taken, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Taken {
    /// Blocks, arrays, and what modules bring.
    bytes: u64,
    limits: Limits,
    /// The largest frame of a kernel that was launched: the driver keeps the memory.
    frame: u64,
    /// Streams and nodes there are, and the most there were: the driver keeps their memory for the next.
    streams: u64,
    streams_most: u64,
    nodes: u64,
    nodes_most: u64,
    /// Contexts beside the first.
    contexts: u64,
}

impl Taken {
    /// Bytes in all; `None`: more than there can be.
    fn total(&self, costs: &Costs) -> Option<u64> {
        let per_thread = self.limits.stack.max(self.frame).saturating_sub(costs.defaults.stack);
        let printing = self.limits.printing.saturating_sub(costs.defaults.printing);
        let heap = self.limits.heap.saturating_sub(costs.defaults.heap);
        self.bytes
            .checked_add(per_thread.checked_mul(costs.resident_threads)?)?
            .checked_add(printing)?
            .checked_add(heap)?
            .checked_add(self.streams_most.checked_mul(costs.stream)?)?
            .checked_add(self.nodes_most.checked_mul(costs.node)?)?
            .checked_add(self.contexts.checked_mul(costs.context)?)
    }
}

/// A session's account.
pub(crate) struct Ledger {
    /// Bytes it may have; 0: all there is.
    quota: u64,
    costs: Costs,
    taken: Taken,
    /// The bytes held, for the reports.
    shown: Arc<AtomicU64>,
    /// Bytes beside these that others have in the session's place: memory it has released and lent, and what it holds of
    /// sessions that are over. Other threads change them, and nothing refuses them.
    beside: Arc<AtomicU64>,
    grants: Option<Box<dyn Grants>>,
    granted: u64,
}

impl Ledger {
    pub(crate) fn new(quota: u64, costs: Costs, shown: Arc<AtomicU64>, grants: Option<Box<dyn Grants>>) -> Self {
        let taken = Taken { limits: costs.defaults, ..Taken::default() };
        Self { quota, costs, taken, shown, beside: Arc::default(), grants, granted: 0 }
    }

    /// Bytes to be counted beside what is taken here.
    pub(crate) fn beside(self, beside: Arc<AtomicU64>) -> Self {
        Self { beside, ..self }
    }

    /// Whether anything bounds the session but the device.
    pub(crate) fn is_bounded(&self) -> bool {
        self.quota != 0 || self.grants.is_some()
    }

    /// Whether the session has a quota.
    pub(crate) fn has_quota(&self) -> bool {
        self.quota != 0
    }

    /// Whether the daemon shares the device's memory out.
    pub(crate) fn is_shared_out(&self) -> bool {
        self.grants.as_ref().is_some_and(|grants| grants.is_of_divided_device())
    }

    /// Takes bytes.
    pub(crate) fn take(&mut self, bytes: u64) -> Result<(), Fault> {
        let all = self.taken.bytes.checked_add(bytes).ok_or(CudaError::OUT_OF_MEMORY)?;
        self.settle(Taken { bytes: all, ..self.taken })
    }

    /// Whether the session may have what it holds and pays for, as bytes beside may be more than that.
    ///
    /// # Errors
    /// OUT_OF_MEMORY.
    pub(crate) fn cover(&mut self) -> Result<(), Fault> {
        self.settle(self.taken)
    }

    /// Gives bytes back.
    pub(crate) fn give(&mut self, bytes: u64) {
        self.less(Taken { bytes: self.taken.bytes.saturating_sub(bytes), ..self.taken });
    }

    /// The limits the context is about to have.
    pub(crate) fn limit(&mut self, set: impl FnOnce(&mut Limits)) -> Result<(), Fault> {
        let mut taken = self.taken;
        set(&mut taken.limits);
        self.settle(taken)
    }

    /// The limits as they are.
    pub(crate) fn limits(&self) -> Limits {
        self.taken.limits
    }

    /// The limits are as they were before.
    pub(crate) fn limits_are(&mut self, limits: Limits) {
        self.less(Taken { limits, ..self.taken });
    }

    /// Whether a kernel with this frame needs more memory than there is for threads.
    pub(crate) fn is_larger(&self, frame: u64) -> bool {
        frame > self.taken.frame
    }

    /// The largest frame of a kernel that was launched.
    pub(crate) fn largest_frame(&self) -> u64 {
        self.taken.frame
    }

    /// A kernel with this frame is about to be launched.
    pub(crate) fn frame(&mut self, bytes: u64) -> Result<(), Fault> {
        self.settle(Taken { frame: self.taken.frame.max(bytes), ..self.taken })
    }

    /// A stream more.
    pub(crate) fn stream(&mut self) -> Result<(), Fault> {
        let streams = self.taken.streams + 1;
        self.settle(Taken { streams, streams_most: self.taken.streams_most.max(streams), ..self.taken })
    }

    /// A stream less.
    pub(crate) fn stream_ends(&mut self) {
        self.taken.streams = self.taken.streams.saturating_sub(1);
    }

    /// A context beside the first.
    pub(crate) fn context(&mut self) -> Result<(), Fault> {
        self.settle(Taken { contexts: self.taken.contexts + 1, ..self.taken })
    }

    /// A context less.
    pub(crate) fn context_ends(&mut self) {
        self.less(Taken { contexts: self.taken.contexts.saturating_sub(1), ..self.taken });
    }

    /// Nodes of a graph that is about to be instantiated.
    pub(crate) fn nodes(&mut self, count: u64) -> Result<(), Fault> {
        let nodes = self.taken.nodes.saturating_add(count);
        self.settle(Taken { nodes, nodes_most: self.taken.nodes_most.max(nodes), ..self.taken })
    }

    /// Nodes of an instantiated graph that is gone.
    pub(crate) fn nodes_end(&mut self, count: u64) {
        self.taken.nodes = self.taken.nodes.saturating_sub(count);
    }

    /// Everything is the device's again.
    pub(crate) fn clear(&mut self) {
        self.less(Taken { limits: self.costs.defaults, ..Taken::default() });
    }

    /// Bytes held, also beside.
    pub(crate) fn used(&self) -> u64 {
        self.taken.total(&self.costs).unwrap_or(u64::MAX).saturating_add(self.beside.load(Ordering::Relaxed))
    }

    /// Free and total bytes as the session has them, of a device that has `free` of `total`.
    pub(crate) fn memory_info(&mut self, free: u64, total: u64) -> (u64, u64) {
        let used = self.used();
        let mut left = if self.quota == 0 { free } else { free.min(self.quota.saturating_sub(used)) };
        if let Some(grants) = &mut self.grants {
            let Granted { total, left: nobodys } = grants.ask(self.granted);
            self.granted = total;
            left = left.min(nobodys.saturating_add(self.granted.saturating_sub(used)));
        }
        (left, if self.quota == 0 { total } else { self.quota.min(total) })
    }

    fn settle(&mut self, taken: Taken) -> Result<(), Fault> {
        let own = taken.total(&self.costs).ok_or(CudaError::OUT_OF_MEMORY)?;
        let total = own.saturating_add(self.beside.load(Ordering::Relaxed));
        if self.quota != 0 && total > self.quota {
            let words = format!("{total} bytes would be over the quota: {}", self.quota);
            return Err(Fault::Explained(CudaError::OUT_OF_MEMORY, words));
        }
        if let Some(grants) = self.grants.as_mut().filter(|_| total > self.granted) {
            let granted = grants.ask(total);
            self.granted = granted.total;
            if total > granted.total {
                let (has, left) = (granted.total, granted.left);
                let words = format!("{total} bytes would be over what the session has and nobody else: {has} + {left}");
                return Err(Fault::Explained(CudaError::OUT_OF_MEMORY, words));
            }
        }
        self.taken = taken;
        self.shown.store(own, Ordering::Relaxed);
        Ok(())
    }

    /// As `settle`, for what is no more than before.
    fn less(&mut self, taken: Taken) {
        self.taken = taken;
        let total = self.used();
        self.shown.store(taken.total(&self.costs).unwrap_or(u64::MAX), Ordering::Relaxed);
        if let Some(grants) = self.grants.as_mut().filter(|_| self.granted.saturating_sub(total) >= SLACK) {
            grants.hold(total);
            self.granted = total;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn costs() -> Costs {
        let defaults = Limits { stack: 1024, printing: MIB, heap: 8 * MIB };
        Costs { resident_threads: 1024, stream: MIB, node: 1024, context: 100 * MIB, defaults }
    }

    fn ledger(quota: u64) -> Ledger {
        Ledger::new(quota, costs(), Arc::default(), None)
    }

    fn refused(outcome: Result<(), Fault>) -> bool {
        matches!(outcome, Err(Fault::Explained(CudaError::OUT_OF_MEMORY, _) | Fault::Program(CudaError::OUT_OF_MEMORY)))
    }

    #[test]
    fn a_new_context_holds_nothing_and_limits_hold_what_is_beyond_their_defaults() {
        let mut ledger = ledger(16 * MIB);
        assert_eq!(ledger.used(), 0);
        ledger.limit(|limits| limits.heap = 12 * MIB).expect("4 MiB more");
        assert!(refused(ledger.take(13 * MIB)), "what the heap holds is not left");
        ledger.take(12 * MIB).expect("all that is left");
        assert_eq!(ledger.memory_info(100 * MIB, 200 * MIB), (0, 16 * MIB));
        ledger.limit(|limits| limits.heap = 8 * MIB).expect("less");
        assert_eq!(ledger.memory_info(100 * MIB, 200 * MIB), (4 * MIB, 16 * MIB));
    }

    #[test]
    fn stacks_and_frames_are_of_every_resident_thread_and_share_their_memory() {
        let mut ledger = ledger(16 * MIB);
        ledger.limit(|limits| limits.stack = 9 << 10).expect("8 MiB");
        assert_eq!(ledger.used(), 8 * MIB);
        ledger.frame(8 << 10).expect("there is room for it in the stacks");
        assert_eq!(ledger.used(), 8 * MIB);
        assert!(refused(ledger.frame(64 << 10)));
        ledger.limit(|limits| limits.stack = 1024).expect("less");
        assert_eq!(ledger.used(), 7 * MIB, "what the largest frame took stays taken");
        assert!(refused(ledger.limit(|limits| limits.stack = u64::MAX)));
        assert!(refused(ledger.take(u64::MAX)) && ledger.used() == 7 * MIB);
    }

    #[test]
    fn memory_that_the_driver_keeps_for_streams_and_graphs_stays_charged() {
        let mut ledger = ledger(4 * MIB);
        for _ in 0..3 {
            ledger.stream().expect("room");
        }
        ledger.stream_ends();
        ledger.stream().expect("the driver has it");
        ledger.nodes(1024).expect("room");
        ledger.nodes_end(1024);
        assert_eq!(ledger.used(), 4 * MIB);
        assert!(refused(ledger.stream()) && refused(ledger.nodes(1025)));
        ledger.clear();
        assert_eq!(ledger.used(), 0);
    }

    #[test]
    fn bytes_beside_count_against_the_quota_and_are_never_refused() {
        let beside = Arc::new(AtomicU64::new(0));
        let mut ledger = ledger(16 * MIB).beside(Arc::clone(&beside));
        ledger.take(8 * MIB).expect("room");
        beside.store(12 * MIB, Ordering::Relaxed);
        assert_eq!((ledger.used(), ledger.memory_info(100 * MIB, 200 * MIB)), (20 * MIB, (0, 16 * MIB)));
        assert!(refused(ledger.take(1)) && refused(ledger.cover()));
        ledger.give(8 * MIB);
        ledger.cover().expect("12 of 16 MiB");
        ledger.take(4 * MIB).expect("room again");
        beside.store(0, Ordering::Relaxed);
        assert_eq!(ledger.used(), 4 * MIB);
    }

    /// A daemon with a device of this many bytes, and what others have of it.
    struct Daemon(Arc<Mutex<(u64, u64)>>, u64);

    impl Grants for Daemon {
        fn ask(&mut self, total: u64) -> Granted {
            let (all, others) = *self.0.lock().expect("one thread");
            if total <= all - others {
                self.1 = total;
            }
            Granted { total: self.1, left: all - others - self.1 }
        }

        fn hold(&mut self, total: u64) {
            self.1 = total;
        }
    }

    #[test]
    fn memory_of_others_is_not_granted() {
        let daemon = Arc::new(Mutex::new((100 * MIB, 30 * MIB)));
        let grants = Box::new(Daemon(Arc::clone(&daemon), 0));
        let mut ledger = Ledger::new(0, costs(), Arc::default(), Some(grants));
        assert_eq!(ledger.memory_info(100 * MIB, 100 * MIB), (70 * MIB, 100 * MIB));
        assert!(refused(ledger.take(71 * MIB)));
        ledger.take(70 * MIB).expect("all that is left");
        assert_eq!(ledger.memory_info(30 * MIB, 100 * MIB), (0, 100 * MIB));
        ledger.give(70 * MIB);
        daemon.lock().expect("one thread").1 = 0;
        assert_eq!(ledger.memory_info(100 * MIB, 100 * MIB), (100 * MIB, 100 * MIB));
    }
}
