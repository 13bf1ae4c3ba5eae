//! What happens before what: vector clocks of the host and of the streams.
//! In: the operations that order work. Out: whether one piece of work is known to be over before another. It never
//! assumes an order that CUDA does not promise, so a stream's event says nothing of the default stream before it.

use std::collections::BTreeMap;

use crate::operation::{Id, Stream, Which};

/// The work of each stream that is over.
pub(crate) type Clock = BTreeMap<Stream, u64>;

fn join(to: &mut Clock, from: &Clock) {
    for (stream, time) in from {
        let known = to.entry(*stream).or_default();
        *known = (*known).max(*time);
    }
}

/// A piece of work: its stream, and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) stream: Stream,
    time: u64,
}

impl Moment {
    pub(crate) fn is_before(&self, clock: &Clock) -> bool {
        clock.get(&self.stream).is_some_and(|time| *time >= self.time)
    }
}

#[derive(Debug, Default, Clone)]
pub(crate) struct Order {
    host: Clock,
    streams: BTreeMap<Stream, Clock>,
    /// Whether a stream and the default stream wait for each other.
    blocking: BTreeMap<Stream, bool>,
    /// The last work of each vGPU's default stream.
    barriers: BTreeMap<usize, Clock>,
    events: BTreeMap<Id, Recorded>,
}

/// An event: the vGPU that it is of, and what was over at its last record.
#[derive(Debug, Clone)]
struct Recorded {
    vgpu: usize,
    clock: Clock,
    /// Other processes have it too.
    is_opened: bool,
}

/// The default stream has several names.
pub(crate) fn named(stream: Stream) -> Stream {
    let which = if stream.which == Which::Default { Which::Legacy } else { stream.which };
    Stream { which, ..stream }
}

impl Order {
    /// The streams of a vGPU without its defaults are made.
    pub(crate) fn create(&mut self, stream: Stream, blocking: bool) {
        self.blocking.insert(stream, blocking);
        self.streams.insert(stream, Clock::new());
    }

    pub(crate) fn has(&self, stream: Stream) -> bool {
        !matches!(stream.which, Which::Own(_)) || self.blocking.contains_key(&stream)
    }

    pub(crate) fn destroy(&mut self, stream: Stream) {
        self.blocking.remove(&stream);
    }

    pub(crate) fn streams_of(&self, vgpu: usize) -> Vec<Stream> {
        self.blocking.keys().filter(|stream| stream.vgpu == vgpu).copied().collect()
    }

    pub(crate) fn events(&self) -> Vec<Id> {
        self.events.keys().copied().collect()
    }

    pub(crate) fn events_of(&self, vgpu: usize) -> Vec<Id> {
        self.events.keys().copied().filter(|event| self.has_event(*event, vgpu)).collect()
    }

    /// Whether the process of a vGPU has an event, where each has its own.
    pub(crate) fn has_event(&self, event: Id, vgpu: usize) -> bool {
        self.events.get(&event).is_some_and(|event| event.vgpu == vgpu || event.is_opened)
    }

    /// Whether a stream of a vGPU may record an event, which may be new.
    pub(crate) fn may_record(&self, event: Id, vgpu: usize) -> bool {
        !self.events.contains_key(&event) || self.has_event(event, vgpu)
    }

    /// The vGPU that an event is of.
    pub(crate) fn vgpu_of(&self, event: Id) -> Option<usize> {
        self.events.get(&event).map(|event| event.vgpu)
    }

    /// Every process has the event from here on; false where that is so already.
    pub(crate) fn open_event(&mut self, event: Id) -> bool {
        self.events.get_mut(&event).is_some_and(|event| !std::mem::replace(&mut event.is_opened, true))
    }

    pub(crate) fn host(&self) -> &Clock {
        &self.host
    }

    /// What is over when new work of a stream begins.
    pub(crate) fn before(&self, stream: Stream) -> Clock {
        let stream = named(stream);
        let mut clock = self.streams.get(&stream).cloned().unwrap_or_default();
        join(&mut clock, &self.host);
        let blocks = |stream: &Stream| {
            stream.which == Which::PerThread || self.blocking.get(stream).is_some_and(|blocking| *blocking)
        };
        if stream.which == Which::Legacy {
            let others = self.streams.iter().filter(|(other, _)| other.vgpu == stream.vgpu && blocks(other));
            others.for_each(|(_, other)| join(&mut clock, other));
        } else if blocks(&stream)
            && let Some(barrier) = self.barriers.get(&stream.vgpu)
        {
            join(&mut clock, barrier);
        }
        clock
    }

    /// New work of a stream.
    pub(crate) fn work(&mut self, stream: Stream) -> Moment {
        let mut clock = self.before(stream);
        let stream = named(stream);
        let time = clock.entry(stream).or_default();
        *time += 1;
        let moment = Moment { stream, time: *time };
        if stream.which == Which::Legacy {
            self.barriers.insert(stream.vgpu, clock.clone());
        }
        self.streams.insert(stream, clock);
        moment
    }

    /// What a stream's own work and waits have behind them: without what only the default stream orders.
    pub(crate) fn reached(&self, stream: Stream) -> Clock {
        let mut clock = self.streams.get(&named(stream)).cloned().unwrap_or_default();
        join(&mut clock, &self.host);
        clock
    }

    pub(crate) fn record(&mut self, event: Id, stream: Stream) {
        let clock = self.reached(stream);
        let made = Recorded { vgpu: stream.vgpu, clock: Clock::new(), is_opened: false };
        self.events.entry(event).or_insert(made).clock = clock;
    }

    /// False where the event is not recorded.
    pub(crate) fn wait_event(&mut self, event: Id, stream: Stream) -> bool {
        let Some(Recorded { clock, .. }) = self.events.get(&event) else { return false };
        join(self.streams.entry(named(stream)).or_default(), clock);
        true
    }

    pub(crate) fn synchronize_event(&mut self, event: Id) -> bool {
        let Some(Recorded { clock, .. }) = self.events.get(&event) else { return false };
        join(&mut self.host, clock);
        true
    }

    pub(crate) fn synchronize_stream(&mut self, stream: Stream) {
        let clock = self.reached(stream);
        join(&mut self.host, &clock);
    }

    pub(crate) fn synchronize_vgpu(&mut self, vgpu: usize) {
        let clocks = self.streams.iter().filter(|(stream, _)| stream.vgpu == vgpu);
        clocks.for_each(|(_, clock)| join(&mut self.host, clock));
    }

    /// `to` waits for what `from` has done so far.
    pub(crate) fn signal(&mut self, from: Stream, to: Stream) {
        let clock = self.reached(from);
        join(self.streams.entry(named(to)).or_default(), &clock);
    }

    /// Streams of a vGPU whose work the host does not know to be over.
    pub(crate) fn outstanding(&self, vgpu: usize) -> Vec<Stream> {
        let is_over = |stream: &Stream, clock: &Clock| {
            clock.get(stream).is_none_or(|time| Moment { stream: *stream, time: *time }.is_before(&self.host))
        };
        let of_it = self.streams.iter().filter(|(stream, _)| stream.vgpu == vgpu);
        of_it.filter(|(stream, clock)| !is_over(stream, clock)).map(|(stream, _)| *stream).collect()
    }

    /// The vGPU's streams and events are gone.
    pub(crate) fn reset(&mut self, vgpu: usize) {
        self.synchronize_vgpu(vgpu);
        self.blocking.retain(|stream, _| stream.vgpu != vgpu);
        self.events.retain(|_, event| event.vgpu != vgpu && !event.is_opened);
    }
}
