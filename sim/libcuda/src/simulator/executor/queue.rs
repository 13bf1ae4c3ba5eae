//! In: work with the stream it belongs to. Out: the same work, one item at a time per stream, as soon as all its
//! predecessors are done. The order is CUDA's stream order with the legacy default stream's rules.
//! Pure state: it has no thread, no clock and no lock, and never looks into the work.

use std::collections::{BTreeMap, HashMap, VecDeque};

/// A stream, over all contexts of the process. Never handed out twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct StreamKey(pub(crate) u64);

/// How a stream behaves towards the legacy default stream of its context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamKind {
    /// The legacy default stream itself: waits for every blocking stream, and every blocking stream waits for it.
    Legacy,
    /// An ordinary stream, and every per-thread default stream.
    Blocking,
    /// Made with `CU_STREAM_NON_BLOCKING`: knows nothing of the legacy stream.
    NonBlocking,
    /// Of ours, behind work that is under way: in no hardware queue, where it would wait for what waits for it.
    Inner,
}

/// A place in a stream: everything up to and including the work with this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamPosition {
    pub(crate) stream: StreamKey,
    /// Numbers grow over all streams, so a greater number was queued later.
    pub(crate) number: u64,
}

struct Item<W> {
    number: u64,
    after: Vec<StreamPosition>,
    work: Option<W>,
}

struct Stream<W> {
    context: u64,
    kind: StreamKind,
    /// The front item is the one that runs while `running` is set.
    items: VecDeque<Item<W>>,
    running: bool,
    /// Set while the stream stands in `Queues::ready`.
    listed: bool,
    done: u64,
    last: u64,
    closing: bool,
    /// Streams whose front item waits for something in this one.
    watchers: Vec<StreamKey>,
}

/// All streams of the process and what is queued on them.
pub(crate) struct Queues<W> {
    streams: BTreeMap<StreamKey, Stream<W>>,
    legacy: HashMap<u64, StreamKey>,
    ready: VecDeque<StreamKey>,
    /// Hardware queues of a context; 0: each stream has one of its own.
    shared: u64,
    /// The last work of each shared queue, by context and number.
    last_shared: HashMap<(u64, u64), StreamPosition>,
    next_stream: u64,
    next_number: u64,
}

impl<W> Queues<W> {
    #[cfg(test)]
    pub(crate) fn new() -> Self {
        Self::sharing(0)
    }

    /// The streams of a context share this many hardware queues, as those of a GPU do: what is behind unfinished work in its
    /// queue waits for it, whichever stream that is of. 0: each stream has its own.
    pub(crate) fn sharing(shared: u64) -> Self {
        Self {
            shared,
            last_shared: HashMap::new(),
            streams: BTreeMap::new(),
            legacy: HashMap::new(),
            ready: VecDeque::new(),
            next_stream: 1,
            next_number: 1,
        }
    }

    /// Opens a stream in `context`. A context has at most one legacy stream: asking again gives the same one.
    pub(crate) fn open(&mut self, context: u64, kind: StreamKind) -> StreamKey {
        if kind == StreamKind::Legacy
            && let Some(&key) = self.legacy.get(&context)
        {
            return key;
        }
        let key = StreamKey(self.next_stream);
        self.next_stream += 1;
        let stream = Stream {
            context,
            kind,
            items: VecDeque::new(),
            running: false,
            listed: false,
            done: 0,
            last: 0,
            closing: false,
            watchers: Vec::new(),
        };
        self.streams.insert(key, stream);
        if kind == StreamKind::Legacy {
            self.legacy.insert(context, key);
        }
        key
    }

    /// Takes no more work on `key`; what is queued still runs, then the stream is forgotten.
    pub(crate) fn close(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get_mut(&key) else { return };
        stream.closing = true;
        if stream.kind == StreamKind::Legacy {
            self.legacy.remove(&stream.context);
        }
        if stream.items.is_empty() {
            self.streams.remove(&key);
        }
    }

    /// Closes all streams of `context`.
    pub(crate) fn close_of_context(&mut self, context: u64) {
        self.last_shared.retain(|(its, _), _| *its != context);
        let of_context = self.streams.iter().filter(|(_, stream)| stream.context == context);
        let keys: Vec<StreamKey> = of_context.map(|(key, _)| *key).collect();
        for key in keys {
            self.close(key);
        }
    }

    /// Queues `work` behind all earlier work of its stream, and behind `after`. `None`: the stream is closed.
    pub(crate) fn enqueue(&mut self, key: StreamKey, after: &[StreamPosition], work: W) -> Option<StreamPosition> {
        let (context, kind) = match self.streams.get(&key) {
            Some(stream) if !stream.closing => (stream.context, stream.kind),
            _ => return None,
        };
        let mut follow: Vec<StreamPosition> =
            after.iter().copied().filter(|position| !self.is_done(*position)).collect();
        self.follow_default_stream(context, kind, &mut follow);
        let shares = self.shared > 0 && kind != StreamKind::Inner;
        let queue = (context, key.0.checked_rem(self.shared).unwrap_or_default());
        follow.extend(
            self.last_shared.get(&queue).filter(|_| shares).copied().filter(|position| !self.is_done(*position)),
        );
        let number = self.next_number;
        self.next_number += 1;
        let stream = self.streams.get_mut(&key)?;
        stream.items.push_back(Item { number, after: follow, work: Some(work) });
        stream.last = number;
        let position = StreamPosition { stream: key, number };
        if shares {
            self.last_shared.insert(queue, position);
        }
        self.list_if_ready(key);
        Some(position)
    }

    fn follow_default_stream(&self, context: u64, kind: StreamKind, follow: &mut Vec<StreamPosition>) {
        match kind {
            StreamKind::NonBlocking | StreamKind::Inner => {}
            StreamKind::Blocking => follow.extend(self.legacy.get(&context).and_then(|&key| self.unfinished(key))),
            StreamKind::Legacy => follow.extend(
                self.streams
                    .iter()
                    .filter(|(_, other)| other.context == context && other.kind == StreamKind::Blocking)
                    .filter_map(|(&other, _)| self.unfinished(other)),
            ),
        }
    }

    /// The place of the last work queued on `key`, if it is not done yet.
    pub(crate) fn unfinished(&self, key: StreamKey) -> Option<StreamPosition> {
        let stream = self.streams.get(&key)?;
        (!stream.items.is_empty()).then_some(StreamPosition { stream: key, number: stream.last })
    }

    /// The places of the last unfinished work of every stream of `context`, closed ones included.
    pub(crate) fn unfinished_of_context(&self, context: u64) -> Vec<StreamPosition> {
        let streams = self.streams.iter().filter(|(_, stream)| stream.context == context);
        streams.filter_map(|(&key, _)| self.unfinished(key)).collect()
    }

    /// The places of the last unfinished work of all streams there are.
    pub(crate) fn unfinished_of_all(&self) -> Vec<StreamPosition> {
        self.streams.keys().filter_map(|key| self.unfinished(*key)).collect()
    }

    /// The places of the last unfinished work that a call on `key` must wait for. For the default stream this includes
    /// every blocking stream.
    pub(crate) fn unfinished_before(&self, key: StreamKey) -> Vec<StreamPosition> {
        let mut positions: Vec<StreamPosition> = self.unfinished(key).into_iter().collect();
        if let Some(stream) = self.streams.get(&key)
            && stream.kind == StreamKind::Legacy
        {
            self.follow_default_stream(stream.context, stream.kind, &mut positions);
        }
        positions
    }

    /// Whether everything up to `position` is done. A stream that is gone has done everything.
    pub(crate) fn is_done(&self, position: StreamPosition) -> bool {
        self.streams.get(&position.stream).is_none_or(|stream| stream.done >= position.number)
    }

    fn blocker(&self, key: StreamKey) -> Option<StreamPosition> {
        let front = self.streams.get(&key)?.items.front()?;
        front.after.iter().copied().find(|position| !self.is_done(*position))
    }

    /// The stream that has to do something first before the front of `key` can run.
    pub(crate) fn waits_for(&self, key: StreamKey) -> Option<StreamKey> {
        self.blocker(key).map(|position| position.stream)
    }

    /// Lists the stream as ready, or leaves word with the stream it waits for.
    fn list_if_ready(&mut self, key: StreamKey) {
        let blocker = self.blocker(key);
        let Some(stream) = self.streams.get_mut(&key) else { return };
        if stream.running || stream.listed || stream.items.is_empty() {
            return;
        }
        match blocker {
            None => {
                stream.listed = true;
                self.ready.push_back(key);
            }
            Some(position) => {
                if let Some(other) = self.streams.get_mut(&position.stream)
                    && !other.watchers.contains(&key)
                {
                    other.watchers.push(key);
                }
            }
        }
    }

    /// The number of streams with work that could run now.
    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Whether a ready stream's front `accepts`.
    pub(crate) fn has_ready(&self, accepts: impl Fn(&W) -> bool) -> bool {
        self.ready.iter().any(|key| self.front(*key).is_some_and(&accepts))
    }

    /// The next work that may run, of the first ready stream whose front `accepts`. The caller must `finish` it.
    pub(crate) fn take(&mut self, accepts: impl Fn(&W) -> bool) -> Option<(StreamPosition, W)> {
        let index = self.ready.iter().position(|key| self.front(*key).is_some_and(&accepts))?;
        let key = self.ready.remove(index)?;
        self.start(key)
    }

    /// The front of `key`, if it may run now and `accepts` it. The caller must `finish` it.
    pub(crate) fn take_from(&mut self, key: StreamKey, accepts: impl Fn(&W) -> bool) -> Option<(StreamPosition, W)> {
        if !self.streams.get(&key)?.listed || !self.front(key).is_some_and(accepts) {
            return None;
        }
        self.ready.retain(|other| *other != key);
        self.start(key)
    }

    fn front(&self, key: StreamKey) -> Option<&W> {
        self.streams.get(&key)?.items.front()?.work.as_ref()
    }

    fn start(&mut self, key: StreamKey) -> Option<(StreamPosition, W)> {
        let stream = self.streams.get_mut(&key)?;
        stream.listed = false;
        stream.running = true;
        let item = stream.items.front_mut()?;
        let work = item.work.take()?;
        Some((StreamPosition { stream: key, number: item.number }, work))
    }

    /// The context `key` belongs to.
    pub(crate) fn context(&self, key: StreamKey) -> Option<u64> {
        self.streams.get(&key).map(|stream| stream.context)
    }

    /// The work taken from `key` is done: what waited for it becomes ready.
    pub(crate) fn finish(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get_mut(&key) else { return };
        stream.running = false;
        if let Some(item) = stream.items.pop_front() {
            stream.done = item.number;
        }
        let watchers = std::mem::take(&mut stream.watchers);
        let over = stream.closing && stream.items.is_empty();
        if over {
            self.streams.remove(&key);
        } else {
            self.list_if_ready(key);
        }
        for watcher in watchers {
            self.list_if_ready(watcher);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTEXT: u64 = 7;

    fn run_one(queues: &mut Queues<&'static str>) -> Option<&'static str> {
        let (position, work) = queues.take(|_| true)?;
        queues.finish(position.stream);
        Some(work)
    }

    #[test]
    fn work_of_one_stream_keeps_its_order() {
        let mut queues = Queues::new();
        let stream = queues.open(CONTEXT, StreamKind::NonBlocking);
        queues.enqueue(stream, &[], "first");
        queues.enqueue(stream, &[], "second");
        let (position, work) = queues.take(|_| true).expect("the first is ready");
        assert_eq!(work, "first");
        assert!(queues.take(|_| true).is_none(), "the second must wait while the first runs");
        queues.finish(position.stream);
        assert_eq!(run_one(&mut queues), Some("second"));
    }

    #[test]
    fn two_streams_run_side_by_side() {
        let mut queues = Queues::new();
        let left = queues.open(CONTEXT, StreamKind::Blocking);
        let right = queues.open(CONTEXT, StreamKind::Blocking);
        queues.enqueue(left, &[], "left");
        queues.enqueue(right, &[], "right");
        assert!(queues.take(|_| true).is_some());
        assert!(queues.take(|_| true).is_some());
    }

    #[test]
    fn work_in_a_shared_queue_waits_for_what_is_before_it() {
        let mut queues = Queues::sharing(2);
        let streams = [(); 3].map(|()| queues.open(CONTEXT, StreamKind::NonBlocking));
        let apart = queues.open(CONTEXT + 1, StreamKind::NonBlocking);
        for (stream, work) in streams.iter().chain([&apart]).zip(["stands", "beside", "behind", "apart"]) {
            queues.enqueue(*stream, &[], work);
        }
        let (stands, _) = queues.take(|work| *work == "stands").expect("ready");
        assert_eq!(
            (run_one(&mut queues), run_one(&mut queues), run_one(&mut queues)),
            (Some("beside"), Some("apart"), None)
        );
        queues.finish(stands.stream);
        assert_eq!(run_one(&mut queues), Some("behind"));
    }

    #[test]
    fn legacy_stream_waits_for_blocking_streams_and_they_for_it() {
        let mut queues = Queues::new();
        let legacy = queues.open(CONTEXT, StreamKind::Legacy);
        let blocking = queues.open(CONTEXT, StreamKind::Blocking);
        queues.enqueue(blocking, &[], "before");
        queues.enqueue(legacy, &[], "default");
        queues.enqueue(blocking, &[], "after");
        let order: Vec<_> = std::iter::from_fn(|| run_one(&mut queues)).collect();
        assert_eq!(order, ["before", "default", "after"]);
    }

    #[test]
    fn non_blocking_stream_ignores_the_legacy_stream() {
        let mut queues = Queues::new();
        let legacy = queues.open(CONTEXT, StreamKind::Legacy);
        let free = queues.open(CONTEXT, StreamKind::NonBlocking);
        queues.enqueue(legacy, &[], "default");
        queues.enqueue(free, &[], "free");
        let (_, first) = queues.take(|_| true).expect("ready");
        let (_, second) = queues.take(|_| true).expect("ready at the same time");
        assert_eq!((first, second), ("default", "free"));
    }

    #[test]
    fn legacy_streams_of_two_contexts_do_not_meet() {
        let mut queues = Queues::new();
        let other = queues.open(CONTEXT + 1, StreamKind::Blocking);
        let legacy = queues.open(CONTEXT, StreamKind::Legacy);
        queues.enqueue(other, &[], "other");
        queues.enqueue(legacy, &[], "default");
        assert!(queues.take(|_| true).is_some());
        assert!(queues.take(|_| true).is_some());
    }

    #[test]
    fn work_waits_for_a_position_of_another_stream() {
        let mut queues = Queues::new();
        let producer = queues.open(CONTEXT, StreamKind::NonBlocking);
        let consumer = queues.open(CONTEXT, StreamKind::NonBlocking);
        let position = queues.enqueue(producer, &[], "produce").expect("open");
        queues.enqueue(consumer, &[position], "consume");
        let (running, work) = queues.take(|_| true).expect("ready");
        assert_eq!(work, "produce");
        assert!(queues.take(|_| true).is_none());
        queues.finish(running.stream);
        assert_eq!(run_one(&mut queues), Some("consume"));
    }

    #[test]
    fn waiting_for_two_positions_needs_both() {
        let mut queues = Queues::new();
        let streams = [(); 3].map(|()| queues.open(CONTEXT, StreamKind::NonBlocking));
        let first = queues.enqueue(streams[0], &[], "a").expect("open");
        let second = queues.enqueue(streams[1], &[], "b").expect("open");
        queues.enqueue(streams[2], &[first, second], "c");
        assert_eq!(run_one(&mut queues), Some("a"));
        assert_eq!(run_one(&mut queues), Some("b"));
        assert_eq!(run_one(&mut queues), Some("c"));
    }

    #[test]
    fn closed_stream_finishes_its_work_and_counts_as_done() {
        let mut queues = Queues::new();
        let stream = queues.open(CONTEXT, StreamKind::Blocking);
        let position = queues.enqueue(stream, &[], "last").expect("open");
        queues.close(stream);
        assert!(queues.enqueue(stream, &[], "too late").is_none());
        assert!(!queues.is_done(position));
        assert_eq!(run_one(&mut queues), Some("last"));
        assert!(queues.is_done(position));
    }

    #[test]
    fn unfinished_before_the_legacy_stream_names_blocking_streams() {
        let mut queues = Queues::new();
        let legacy = queues.open(CONTEXT, StreamKind::Legacy);
        let blocking = queues.open(CONTEXT, StreamKind::Blocking);
        let free = queues.open(CONTEXT, StreamKind::NonBlocking);
        let position = queues.enqueue(blocking, &[], "work").expect("open");
        queues.enqueue(free, &[], "other");
        assert_eq!(queues.unfinished_before(legacy), [position]);
    }

    #[test]
    fn taking_leaves_work_that_is_not_accepted() {
        let mut queues = Queues::new();
        let left = queues.open(CONTEXT, StreamKind::NonBlocking);
        let right = queues.open(CONTEXT, StreamKind::NonBlocking);
        queues.enqueue(left, &[], "host");
        queues.enqueue(right, &[], "copy");
        assert_eq!(queues.take(|work| *work != "host").map(|(_, work)| work), Some("copy"));
        assert_eq!(queues.ready(), 1);
        assert!(queues.take_from(left, |work| *work == "host").is_some());
    }
}
