//! The progress of each stream: the last frame issued on it and the last one known to have completed. Sequence numbers
//! of frames come in when work is posted and when a reply proves completion. Fences go out that say when memory may be
//! reused.
//! Nothing here asks the server: it only remembers what was learned.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};

/// The wire's id of the legacy default stream.
pub(crate) const LEGACY: u64 = 0;

/// One stream's counters. Frames are numbered over the whole session, so they compare across streams.
#[derive(Debug)]
pub(crate) struct StreamProgress {
    stream: u64,
    /// Whether it and the legacy default stream wait for each other.
    blocking: bool,
    /// The last frame that may write host memory which the device reaches, as almost all may.
    writing: AtomicU64,
    /// The last frame that writes none by itself.
    reading: AtomicU64,
    /// The last frame whose copy the program takes for over, since the call has returned.
    returned: AtomicU64,
    /// The last frame that the program takes for over, since it would have waited for it.
    presumed: AtomicU64,
    completed: AtomicU64,
    /// Destroyed: forgotten as soon as its work is known to be over.
    retired: AtomicBool,
}

impl StreamProgress {
    fn new(stream: u64, blocking: bool) -> Arc<Self> {
        Arc::new(Self {
            stream,
            blocking,
            writing: AtomicU64::new(0),
            reading: AtomicU64::new(0),
            returned: AtomicU64::new(0),
            presumed: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            retired: AtomicBool::new(false),
        })
    }

    /// The stream's id on the wire.
    pub(crate) fn stream(&self) -> u64 {
        self.stream
    }

    /// Work of frame `sequence` has been put on the stream.
    pub(crate) fn issue(&self, sequence: u64) {
        self.writing.fetch_max(sequence, Ordering::AcqRel);
    }

    /// The same of the frame that has just got its sequence, before the next one gets its own: no later one can be here.
    #[inline]
    pub(crate) fn issue_next(&self, sequence: u64) {
        // A store, since frames are numbered one at a time; `issue`, from outside that, never takes a later one away.
        self.writing.store(sequence, Ordering::Release);
    }

    /// As `issue`, of work that writes no memory of the program's by itself.
    pub(crate) fn issue_reading(&self, sequence: u64) {
        self.reading.fetch_max(sequence, Ordering::AcqRel);
    }

    /// The program goes on, and takes the copies issued so far for over.
    pub(crate) fn note_return(&self) {
        self.returned.fetch_max(self.issued(), Ordering::SeqCst);
    }

    /// The program goes on, and takes everything up to this frame for over.
    pub(crate) fn presume(&self, sequence: u64) {
        self.presumed.fetch_max(sequence, Ordering::AcqRel);
    }

    /// Whether everything up to this frame is over, as far as the program can tell.
    pub(crate) fn seems_over(&self, sequence: u64) -> bool {
        sequence <= self.presumed.load(Ordering::Acquire).max(self.completed())
    }

    /// Whether a copy that the program takes for over may not be.
    pub(crate) fn owes_copies(&self) -> bool {
        self.completed() < self.returned.load(Ordering::SeqCst)
    }

    /// The last frame put on the stream.
    pub(crate) fn issued(&self) -> u64 {
        self.writing.load(Ordering::Acquire).max(self.reading.load(Ordering::Acquire))
    }

    /// All work of frames up to this one has completed.
    pub(crate) fn completed(&self) -> u64 {
        self.completed.load(Ordering::Acquire)
    }

    /// Whether nothing put on the stream is still outstanding.
    pub(crate) fn is_idle(&self) -> bool {
        self.completed() >= self.issued()
    }

    /// Whether the server has destroyed it, or will when its work is over.
    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    fn complete(&self, sequence: u64) -> bool {
        self.completed.fetch_max(sequence, Ordering::AcqRel) < sequence
    }
}

/// Work that must have completed before something may be reused.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fence {
    waits: Vec<(Arc<StreamProgress>, u64)>,
}

impl Fence {
    /// The same, and behind other work, of whatever vGPU.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.waits.extend(other.waits);
        self
    }

    /// Whether all of it has completed.
    pub(crate) fn is_passed(&self) -> bool {
        self.waits.iter().all(|(progress, sequence)| progress.completed() >= *sequence)
    }
}

/// The counters of all streams of one session.
#[derive(Debug)]
pub(crate) struct Order {
    streams: RwLock<HashMap<u64, Arc<StreamProgress>>>,
    legacy: Arc<StreamProgress>,
    /// Grows with each news of completion, so that a fence is not asked twice about the same state.
    news: AtomicU64,
    /// Streams that do not wait for the legacy default stream: each synchronous copy of pinned memory asks.
    unblocking: AtomicUsize,
    /// Written while the server is told that streams end, read while it is asked about one by who does not own it.
    ending: RwLock<()>,
}

impl Default for Order {
    fn default() -> Self {
        Self::new()
    }
}

impl Order {
    /// A session that has issued nothing and has the legacy default stream only.
    pub(crate) fn new() -> Self {
        let legacy = StreamProgress::new(LEGACY, true);
        let streams = RwLock::new(HashMap::from([(LEGACY, Arc::clone(&legacy))]));
        Self { streams, legacy, news: AtomicU64::new(0), unblocking: AtomicUsize::new(0), ending: RwLock::default() }
    }

    /// Adds streams or takes some away.
    fn change(&self, act: impl FnOnce(&mut HashMap<u64, Arc<StreamProgress>>)) {
        let mut streams = self.write();
        act(&mut streams);
        let unblocking = streams.values().filter(|progress| !progress.blocking).count();
        self.unblocking.store(unblocking, Ordering::Release);
    }

    /// The legacy default stream.
    pub(crate) fn legacy(&self) -> &Arc<StreamProgress> {
        &self.legacy
    }

    /// A new stream.
    pub(crate) fn add(&self, stream: u64, blocking: bool) -> Arc<StreamProgress> {
        let progress = StreamProgress::new(stream, blocking);
        self.change(|streams| drop(streams.insert(stream, Arc::clone(&progress))));
        progress
    }

    /// Names a stream to the server by `act`, unless it is destroyed. No thread destroys it meanwhile: the server takes a stream that
    /// it does not have for a broken contract.
    pub(crate) fn while_it_lasts<T>(&self, progress: &StreamProgress, act: impl FnOnce() -> T) -> Option<T> {
        let _lasts = floe_lock::read(&self.ending);
        (!progress.is_retired()).then(act)
    }

    /// Destroys a stream, of which `act` tells the server.
    pub(crate) fn destroy<T>(&self, progress: &Arc<StreamProgress>, act: impl FnOnce() -> T) -> T {
        let _ends = floe_lock::write(&self.ending);
        let told = act();
        self.retire(progress);
        told
    }

    /// All streams but the legacy one end with the context, as the server is about to be told.
    pub(crate) fn end_all(&self) {
        let _ends = floe_lock::write(&self.ending);
        let streams = self.read();
        let made = streams.values().filter(|progress| progress.stream != LEGACY);
        made.for_each(|progress| progress.retired.store(true, Ordering::Release));
    }

    /// The stream is destroyed. Its outstanding work still counts, until a synchronize of the context proves it complete.
    fn retire(&self, progress: &Arc<StreamProgress>) {
        progress.retired.store(true, Ordering::Release);
        if progress.is_idle() {
            self.change(|streams| drop(streams.remove(&progress.stream)));
        }
    }

    /// A stream of the wire that is not destroyed.
    pub(crate) fn stream(&self, stream: u64) -> Option<Arc<StreamProgress>> {
        self.progress(stream).filter(|progress| !progress.is_retired())
    }

    /// A stream of the wire, while something may be outstanding on it.
    pub(crate) fn progress(&self, stream: u64) -> Option<Arc<StreamProgress>> {
        self.read().get(&stream).cloned()
    }

    /// Everything issued on the stream up to frame `sequence` has completed. Work on a blocking stream runs after
    /// earlier work on the legacy default stream, and the other way round. So each tells something about the other.
    pub(crate) fn stream_completed(&self, progress: &Arc<StreamProgress>, sequence: u64) {
        let issued = progress.issued();
        let mut news = progress.complete(sequence);
        // With work issued after the proof, the last frame before it is not known; then nothing is concluded.
        if progress.blocking && issued <= sequence {
            if progress.stream == LEGACY {
                for other in self.read().values().filter(|other| other.blocking) {
                    news |= other.complete(issued);
                }
            } else {
                news |= self.legacy.complete(issued);
            }
        }
        self.tell(news);
    }

    /// Everything issued up to frame `sequence` on any stream has completed.
    pub(crate) fn all_completed(&self, sequence: u64) {
        let (mut news, mut retired) = (false, false);
        for progress in self.read().values() {
            news |= progress.complete(sequence);
            retired |= progress.is_retired();
        }
        if retired {
            let is_over = |progress: &StreamProgress| progress.is_retired() && progress.is_idle();
            self.change(|streams| streams.retain(|_, progress| !is_over(progress)));
        }
        self.tell(news);
    }

    /// The context is gone with all its streams but the legacy one, and so is their work.
    pub(crate) fn reset(&self, sequence: u64) {
        self.all_completed(sequence);
        self.end_all();
        self.change(|streams| streams.retain(|stream, _| *stream == LEGACY));
    }

    /// Whether new work of a stream waits for outstanding work of the legacy default stream.
    pub(crate) fn waits_for_legacy(&self, progress: &StreamProgress) -> bool {
        progress.blocking && progress.stream != LEGACY && !self.legacy.is_idle()
    }

    /// Whether there are streams that do not wait for the legacy default stream.
    pub(crate) fn has_unblocking(&self) -> bool {
        self.unblocking.load(Ordering::Acquire) != 0
    }

    /// The streams, destroyed ones too, whose copies the program takes for over and which may not be.
    pub(crate) fn owing_copies(&self) -> Vec<Arc<StreamProgress>> {
        self.read().values().filter(|progress| progress.owes_copies()).cloned().collect()
    }

    /// The streams, destroyed ones too, on which something is outstanding, and up to which frame.
    pub(crate) fn busy(&self) -> Vec<(Arc<StreamProgress>, u64)> {
        self.places(|progress| !progress.is_idle())
    }

    /// The streams that wait for the legacy default stream, and their last frames.
    pub(crate) fn blocking(&self) -> Vec<(Arc<StreamProgress>, u64)> {
        self.places(|progress| progress.blocking)
    }

    fn places(&self, chosen: impl Fn(&StreamProgress) -> bool) -> Vec<(Arc<StreamProgress>, u64)> {
        let streams = self.read();
        let chosen = streams.values().filter(|progress| chosen(progress));
        chosen.map(|progress| (Arc::clone(progress), progress.issued())).collect()
    }

    /// Whether something is outstanding on a stream, but this one, that the legacy default stream waits for.
    pub(crate) fn has_busy_blocking(&self, but: Option<&StreamProgress>) -> bool {
        let counts = |other: &StreamProgress| but.is_none_or(|own| other.stream != own.stream);
        let stands = |other: &StreamProgress| other.blocking && other.stream != LEGACY && !other.is_idle();
        self.read().values().any(|progress| counts(progress) && stands(progress))
    }

    /// The streams, but destroyed ones, whose later work does not run after all of `progress` by itself.
    pub(crate) fn others_than(&self, progress: Option<&StreamProgress>) -> Vec<u64> {
        let follows = |other: &StreamProgress| {
            // What a blocking stream holds the legacy default stream waits for.
            progress.is_some_and(|own| other.stream == own.stream || other.stream == LEGACY && own.blocking)
        };
        self.read().values().filter(|other| !other.is_retired() && !follows(other)).map(|other| other.stream).collect()
    }

    /// Whether nothing is outstanding, as far as the program can tell: anywhere, or on streams that wait for the legacy default
    /// stream.
    pub(crate) fn seems_idle(&self, everywhere: bool) -> bool {
        self.read()
            .values()
            .filter(|progress| everywhere || progress.blocking)
            .all(|progress| progress.seems_over(progress.issued()))
    }

    /// Whether nothing has been issued since this frame that a synchronize of the stream would wait for.
    pub(crate) fn is_last(&self, sequence: u64, progress: &StreamProgress) -> bool {
        let counts =
            |other: &StreamProgress| other.stream == progress.stream || progress.stream == LEGACY && other.blocking;
        self.read().values().filter(|other| counts(other)).all(|other| other.issued() <= sequence)
    }

    /// Whether nothing is outstanding anywhere.
    pub(crate) fn is_idle(&self) -> bool {
        self.read().values().all(|progress| progress.is_idle())
    }

    /// Whether nothing is outstanding that may write host memory by itself.
    pub(crate) fn writes_nothing(&self) -> bool {
        self.read().values().all(|progress| progress.completed() >= progress.writing.load(Ordering::Acquire))
    }

    /// A fence behind everything issued so far.
    pub(crate) fn fence(&self) -> Fence {
        self.fence_over(|_| true)
    }

    /// A fence behind all work that precedes work issued now on this stream. That is the stream's own work and, for
    /// streams that wait for the legacy default stream, that stream's work, or the other way round.
    pub(crate) fn fence_behind(&self, progress: &StreamProgress) -> Fence {
        self.fence_over(|other| {
            let legacy = progress.stream == LEGACY || other.stream == LEGACY;
            other.stream == progress.stream || progress.blocking && other.blocking && legacy
        })
    }

    fn fence_over(&self, is_ahead: impl Fn(&StreamProgress) -> bool) -> Fence {
        let waits = self
            .read()
            .values()
            .filter(|progress| is_ahead(progress) && !progress.is_idle())
            .map(|progress| (Arc::clone(progress), progress.issued()))
            .collect();
        Fence { waits }
    }

    /// A number that changes when any stream is known to have come further.
    pub(crate) fn news(&self) -> u64 {
        self.news.load(Ordering::Acquire)
    }

    fn tell(&self, news: bool) {
        if news {
            self.news.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, HashMap<u64, Arc<StreamProgress>>> {
        floe_lock::read(&self.streams)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, HashMap<u64, Arc<StreamProgress>>> {
        floe_lock::write(&self.streams)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_over_nothing_is_passed_at_once() {
        assert!(Order::new().fence().is_passed());
    }

    #[test]
    fn a_fence_over_two_sessions_waits_for_both() {
        let (first, second) = (Order::new(), Order::new());
        let (a, b) = (first.add(1, false), second.add(1, false));
        a.issue(5);
        b.issue(3);
        let fence = first.fence().and(second.fence());
        first.stream_completed(&a, 5);
        assert!(!fence.is_passed());
        second.stream_completed(&b, 3);
        assert!(fence.is_passed());
    }

    #[test]
    fn a_fence_waits_for_every_stream_that_was_busy() {
        let order = Order::new();
        let (a, b) = (order.add(1, false), order.add(2, false));
        a.issue(5);
        b.issue(6);
        let fence = order.fence();
        order.stream_completed(&a, 7);
        assert!(!fence.is_passed());
        order.stream_completed(&b, 8);
        assert!(fence.is_passed());
    }

    #[test]
    fn work_issued_after_a_fence_does_not_hold_it() {
        let order = Order::new();
        let a = order.add(1, false);
        a.issue(5);
        let fence = order.fence();
        a.issue(9);
        order.stream_completed(&a, 6);
        assert!(fence.is_passed());
        assert!(!a.is_idle());
    }

    #[test]
    fn a_fence_behind_one_stream_waits_for_those_it_runs_after() {
        let order = Order::new();
        let (blocking, other, free) = (order.add(1, true), order.add(2, true), order.add(3, false));
        for (progress, sequence) in [(order.legacy(), 4), (&blocking, 5), (&other, 6), (&free, 7)] {
            progress.issue(sequence);
        }
        let behind = |progress: &StreamProgress| {
            let mut streams: Vec<u64> =
                order.fence_behind(progress).waits.iter().map(|(progress, _)| progress.stream).collect();
            streams.sort_unstable();
            streams
        };
        assert_eq!(behind(order.legacy()), [LEGACY, 1, 2]);
        assert_eq!(behind(&blocking), [LEGACY, 1]);
        assert_eq!(behind(&free), [3]);
    }

    #[test]
    fn completion_on_the_legacy_stream_tells_about_blocking_streams_only() {
        let order = Order::new();
        let (blocking, free) = (order.add(1, true), order.add(2, false));
        blocking.issue(3);
        free.issue(4);
        order.legacy().issue(5);
        order.stream_completed(&Arc::clone(order.legacy()), 6);
        assert!(blocking.is_idle());
        assert!(!free.is_idle());
    }

    #[test]
    fn completion_on_the_idle_legacy_stream_tells_nothing_about_later_work_elsewhere() {
        let order = Order::new();
        let blocking = order.add(1, true);
        blocking.issue(3);
        order.stream_completed(&Arc::clone(order.legacy()), 4);
        assert!(!blocking.is_idle());
    }

    #[test]
    fn completion_on_a_blocking_stream_tells_about_earlier_legacy_work() {
        let order = Order::new();
        let blocking = order.add(1, true);
        order.legacy().issue(2);
        blocking.issue(3);
        order.stream_completed(&blocking, 4);
        assert!(order.legacy().is_idle());
    }

    #[test]
    fn a_destroyed_stream_with_work_holds_fences_until_the_context_is_synchronized() {
        let order = Order::new();
        let a = order.add(1, false);
        a.issue(3);
        order.retire(&a);
        let fence = order.fence();
        assert!(!fence.is_passed());
        order.all_completed(9);
        assert!(fence.is_passed());
    }

    #[test]
    fn a_frame_that_is_noted_late_takes_no_later_one_away() {
        let order = Order::new();
        let a = order.add(1, false);
        a.issue_next(5);
        a.issue(4);
        assert_eq!(a.issued(), 5);
        a.issue(7);
        a.issue_next(8);
        assert_eq!(a.issued(), 8);
    }

    #[test]
    fn frames_noted_by_many_threads_leave_the_last_one() {
        let order = Order::new();
        let (progress, numbers) = (order.add(1, false), std::sync::Mutex::new(0_u64));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for turn in 0..2000 {
                        let mut number = numbers.lock().unwrap();
                        *number += 1;
                        let sequence = *number;
                        if turn % 3 == 0 {
                            drop(number);
                            progress.issue(sequence);
                        } else {
                            progress.issue_next(sequence);
                            drop(number);
                        }
                        assert!(progress.issued() >= sequence);
                    }
                });
            }
        });
        assert_eq!(progress.issued(), 8000);
    }

    #[test]
    fn work_that_only_reads_host_memory_is_outstanding_and_writes_none() {
        let order = Order::new();
        let a = order.add(1, false);
        a.issue_reading(3);
        assert!(!order.is_idle() && order.writes_nothing());
        a.issue(4);
        assert!(!order.writes_nothing());
        order.stream_completed(&a, 5);
        a.issue_reading(6);
        assert!(order.writes_nothing());
    }

    #[test]
    fn streams_that_do_not_wait_are_counted_until_they_are_gone() {
        let order = Order::new();
        order.add(1, true);
        assert!(!order.has_unblocking());
        let (idle, busy) = (order.add(2, false), order.add(3, false));
        busy.issue(5);
        order.retire(&idle);
        order.retire(&busy);
        assert!(order.has_unblocking(), "one has work outstanding");
        order.all_completed(5);
        assert!(!order.has_unblocking());
        order.add(4, false);
        order.reset(6);
        assert!(!order.has_unblocking());
    }

    #[test]
    fn no_stream_is_named_to_the_server_behind_its_end() {
        let order = Order::new();
        for id in 1..500 {
            let (stream, told) = (order.add(id, false), std::sync::Mutex::new(Vec::new()));
            let tell = |word| told.lock().unwrap().push(word);
            std::thread::scope(|scope| {
                scope.spawn(|| while order.while_it_lasts(&stream, || tell("ask")).is_some() {});
                if id % 2 == 0 {
                    order.destroy(&stream, || tell("end"));
                } else {
                    order.end_all();
                    tell("end");
                }
            });
            let told = told.into_inner().unwrap();
            assert_eq!(told.iter().position(|word| *word == "end"), Some(told.len() - 1), "{id}");
        }
    }

    #[test]
    fn news_changes_only_when_something_completed() {
        let order = Order::new();
        let a = order.add(1, false);
        a.issue(3);
        let before = order.news();
        order.stream_completed(&a, 4);
        let after = order.news();
        assert_ne!(before, after);
        order.stream_completed(&a, 4);
        assert_eq!(order.news(), after);
    }
}
