//! In: creation, recording and completion of events. Out: whether an event has happened, and when.
//! Pure state beside the queues: it knows the place in a stream where an event was last recorded, and never waits.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::queue::StreamPosition;

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EventKey(pub(crate) u64);

/// The state of one event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventState {
    pub(crate) context: u64,
    /// Whether it takes the time.
    pub(crate) timing: bool,
    /// Its last record; `None` before the first one.
    pub(crate) recorded: Option<StreamPosition>,
    happened: Option<Instant>,
}

/// All events of the process.
#[derive(Default)]
pub(crate) struct Events {
    events: HashMap<EventKey, EventState>,
}

/// Why there is no time between two events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoTime {
    /// One of them does not exist, takes no time, or was never recorded.
    Invalid,
    /// One of them has not happened yet.
    NotYet,
}

impl Events {
    pub(crate) fn create(&mut self, key: EventKey, context: u64, timing: bool) {
        self.events.insert(key, EventState { context, timing, recorded: None, happened: None });
    }

    pub(crate) fn destroy(&mut self, key: EventKey) -> bool {
        self.events.remove(&key).is_some()
    }

    pub(crate) fn destroy_of_context(&mut self, context: u64) {
        self.events.retain(|_, event| event.context != context);
    }

    pub(crate) fn get(&self, key: EventKey) -> Option<EventState> {
        self.events.get(&key).copied()
    }

    /// The event now stands for everything up to `position`.
    pub(crate) fn record(&mut self, key: EventKey, position: StreamPosition) {
        if let Some(event) = self.events.get_mut(&key) {
            event.recorded = Some(position);
            event.happened = None;
        }
    }

    /// The stream has come to `position`. A record that was followed by a later one of the same event counts no more.
    pub(crate) fn happen(&mut self, key: EventKey, position: StreamPosition, now: Instant) {
        if let Some(event) = self.events.get_mut(&key)
            && event.recorded == Some(position)
        {
            event.happened = Some(now);
        }
    }

    /// Time from `start` to `end`, in milliseconds; negative when `end` came first.
    pub(crate) fn elapsed(&self, start: EventKey, end: EventKey) -> Result<f32, NoTime> {
        let timed = |key| self.events.get(&key).filter(|event| event.timing && event.recorded.is_some());
        let (Some(start), Some(end)) = (timed(start), timed(end)) else { return Err(NoTime::Invalid) };
        let (Some(from), Some(to)) = (start.happened, end.happened) else { return Err(NoTime::NotYet) };
        let milliseconds = |time: Duration| time.as_secs_f32() * 1e3;
        Ok(match to.checked_duration_since(from) {
            Some(time) => milliseconds(time),
            None => -milliseconds(from - to),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulator::executor::queue::StreamKey;

    const START: EventKey = EventKey(1);
    const END: EventKey = EventKey(2);

    fn position(number: u64) -> StreamPosition {
        StreamPosition { stream: StreamKey(1), number }
    }

    fn two_events() -> Events {
        let mut events = Events::default();
        events.create(START, 1, true);
        events.create(END, 1, true);
        events
    }

    #[test]
    fn elapsed_time_is_in_milliseconds_and_signed() {
        let mut events = two_events();
        let now = Instant::now();
        events.record(START, position(1));
        events.record(END, position(2));
        events.happen(START, position(1), now);
        events.happen(END, position(2), now + Duration::from_millis(250));
        assert_eq!(events.elapsed(START, END), Ok(250.0));
        assert_eq!(events.elapsed(END, START), Ok(-250.0));
    }

    #[test]
    fn unrecorded_event_has_no_time() {
        let mut events = two_events();
        events.record(START, position(1));
        assert_eq!(events.elapsed(START, END), Err(NoTime::Invalid));
    }

    #[test]
    fn event_without_timing_has_no_time() {
        let mut events = two_events();
        events.create(END, 1, false);
        events.record(START, position(1));
        events.record(END, position(2));
        assert_eq!(events.elapsed(START, END), Err(NoTime::Invalid));
    }

    #[test]
    fn superseded_record_does_not_count() {
        let mut events = two_events();
        events.record(START, position(1));
        events.record(START, position(3));
        events.record(END, position(4));
        events.happen(START, position(1), Instant::now());
        assert_eq!(events.elapsed(START, END), Err(NoTime::NotYet));
    }
}
