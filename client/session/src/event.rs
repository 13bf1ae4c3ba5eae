//! Events: made and recorded without waiting, asked only when what replies have told does not answer. Handles come in, codes
//! go out: NOT_READY is an answer, not a failure, and is asked for once: then the server says by itself. Timing is the
//! server's.

use std::sync::{Arc, Mutex};

use floe_abi::{Context, CudaError, CudaResult, Event, Stream, event_flags, event_record_flags};
use floe_surface::EventCalls;
use floe_surface::graph::Work;
use floe_wire::{Call, CreateEvent, DestroyEvent, ElapsedTime, EventId, QueryEvent, RecordEvent, SynchronizeEvent};

use crate::client::Client;
use crate::connection::NotReady;
use crate::handles::{Handle, Kind};
use crate::order::Course;
use crate::session::Session;
use crate::stream::StreamState;
use crate::table::lock;

/// One event.
#[derive(Debug)]
pub(crate) struct EventState {
    pub(crate) session: Arc<Session>,
    id: u64,
    context: Context,
    flags: u32,
    record: Mutex<Option<Record>>,
}

/// What an event stands for: everything on a stream up to a frame.
#[derive(Debug, Clone)]
struct Record {
    course: Arc<Course>,
    sequence: u64,
    /// A launch's own record: it may be over before the launch is, so it says nothing about the stream's work.
    within_launch: bool,
    /// What the server last answered about it.
    asked: Option<NotReady>,
}

impl Record {
    fn is_complete(&self) -> bool {
        self.course.completed() >= self.sequence
    }
}

impl EventState {
    /// Its id on the wire.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Its context's handle.
    pub(crate) fn context(&self) -> Context {
        self.context
    }

    /// Whether nothing is left to wait for, as far as is known here: never recorded, or what it records is over.
    pub(crate) fn is_known_complete(&self) -> bool {
        lock(&self.record).as_ref().is_none_or(Record::is_complete)
    }

    /// What it records, where that is not known to be over.
    fn outstanding(&self) -> Option<Record> {
        lock(&self.record).clone().filter(|record| !record.is_complete())
    }

    /// The server said that the record is not over yet.
    fn note(&self, asked: &Record, answer: NotReady) {
        // Of what a launch records nothing is said unasked.
        if asked.within_launch {
            return;
        }
        if let Some(record) = lock(&self.record).as_mut().filter(|record| record.sequence == asked.sequence) {
            record.asked = Some(answer);
        }
    }

    /// The server said that the record is over.
    fn completed(&self, record: &Record) -> CudaResult<()> {
        let session = &self.session;
        if record.within_launch {
            return session.errors.report();
        }
        session.connection.wait_for_deliveries(&record.course, record.sequence);
        session.order.stream_completed(&record.course, record.sequence);
        session.errors.report()
    }
}

impl Client {
    /// The event of a handle.
    pub(crate) fn event(&self, event: Event) -> CudaResult<Arc<EventState>> {
        let handle = Handle::of(Kind::Event, event.0).ok_or(CudaError::INVALID_HANDLE)?;
        self.session(handle).and_then(|session| session.events.get(handle.id)).ok_or(CudaError::INVALID_HANDLE)
    }

    fn record(&self, event: Event, stream: Stream, flags: u32) -> CudaResult<()> {
        // CU_EVENT_RECORD_EXTERNAL has a meaning in captures only.
        if flags > 1 {
            return Err(CudaError::INVALID_VALUE);
        }
        let state = self.event(event)?;
        if flags == event_record_flags::EXTERNAL {
            let stream = self.capturing(stream)?.ok_or(CudaError::ILLEGAL_STATE)?;
            return self.record_work(&stream, Work::Record(event));
        }
        if self.graphs.is_watching() && self.graphs.record_event(&self.stream(stream)?.for_capture(), event)? {
            return Ok(());
        }
        self.record_on(&state, &*self.working_stream(stream)?)
    }

    /// Records what the stream holds so far.
    pub(crate) fn record_on(&self, event: &EventState, stream: &StreamState) -> CudaResult<()> {
        if !Arc::ptr_eq(&event.session, &stream.session) {
            return Err(CudaError::INVALID_HANDLE);
        }
        let message = RecordEvent { event: EventId(event.id), stream: stream.id(), flags: 0 };
        // The lock is held over the post so that two threads' records end up here in the order of the wire.
        let mut record = lock(&event.record);
        let sequence = stream.session.connection.post_on(stream.course(), &message)?;
        *record = Some(Record { course: Arc::clone(stream.course()), sequence, within_launch: false, asked: None });
        Ok(())
    }
}

impl EventState {
    /// Whether a launch may record it: it must have no clock.
    pub(crate) fn is_for_launches(&self) -> bool {
        self.flags & event_flags::DISABLE_TIMING != 0 && self.flags & event_flags::INTERPROCESS == 0
    }

    /// Posts the launch that records the event by one of its attributes.
    pub(crate) fn record_by(&self, course: &Arc<Course>, launch: impl FnOnce() -> CudaResult<u64>) -> CudaResult<()> {
        // As for a record of its own, the lock keeps the order of the wire.
        let mut record = lock(&self.record);
        let sequence = launch()?;
        course.issue(sequence);
        *record = Some(Record { course: Arc::clone(course), sequence, within_launch: true, asked: None });
        Ok(())
    }
}

impl EventCalls for Client {
    fn event_create(&self, flags: u32) -> CudaResult<Event> {
        let known = event_flags::BLOCKING_SYNC | event_flags::DISABLE_TIMING | event_flags::INTERPROCESS;
        let interprocess = flags & event_flags::INTERPROCESS != 0;
        if flags & !known != 0 || interprocess && flags & event_flags::DISABLE_TIMING == 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let context = self.working()?;
        let session = &context.session;
        let id = session.next_id();
        // Handing the event to another process is refused when it is tried; until then it is an event like others.
        session.connection.post(&CreateEvent { event: EventId(id), flags: flags & !event_flags::INTERPROCESS })?;
        session.events.insert(
            id,
            Arc::new(EventState {
                session: Arc::clone(session),
                id,
                context: context.handle(),
                flags,
                record: Mutex::default(),
            }),
        );
        Ok(Event(Handle::new(Kind::Event, session.ordinal, id).value()))
    }

    fn event_record(&self, event: Event, stream: Stream) -> CudaResult<()> {
        self.record(event, stream, 0)
    }

    fn event_record_with_flags(&self, event: Event, stream: Stream, flags: u32) -> CudaResult<()> {
        self.record(event, stream, flags)
    }

    fn event_query(&self, event: Event) -> CudaResult<()> {
        self.graphs.refuse_captured(event)?;
        self.graphs.refuse_unsafe()?;
        let event = self.event(event)?;
        event.session.errors.report()?;
        let Some(record) = event.outstanding() else {
            return Ok(());
        };
        // A kernel may be waiting for what the program has just written.
        event.session.send_mirrors()?;
        let connection = &event.session.connection;
        if record.asked.is_some_and(|asked| connection.holds(asked)) {
            event.session.errors.report()?;
            return if record.is_complete() { event.completed(&record) } else { Err(CudaError::NOT_READY) };
        }
        match connection.query(&QueryEvent { event: EventId(event.id) })? {
            Ok(_) => event.completed(&record),
            Err(asked) => {
                event.note(&record, asked);
                Err(CudaError::NOT_READY)
            }
        }
    }

    fn event_synchronize(&self, event: Event) -> CudaResult<()> {
        self.graphs.refuse_captured(event)?;
        let event = self.event(event)?;
        event.session.errors.report()?;
        let Some(record) = event.outstanding() else {
            return Ok(());
        };
        event.session.send_mirrors()?;
        event.session.call(&SynchronizeEvent { event: EventId(event.id) })?;
        event.completed(&record)?;
        event.session.open_after_wait();
        Ok(())
    }

    fn event_destroy(&self, event: Event) -> CudaResult<()> {
        let handle = Handle::of(Kind::Event, event.0).ok_or(CudaError::INVALID_HANDLE)?;
        let state = self
            .session(handle)
            .and_then(|session| session.events.remove(handle.id))
            .ok_or(CudaError::INVALID_HANDLE)?;
        self.graphs.forget_event(event);
        state.session.connection.post(&DestroyEvent { event: EventId(state.id) })?;
        Ok(())
    }

    fn event_elapsed_time(&self, start: Event, end: Event) -> CudaResult<f32> {
        self.graphs.refuse_captured(start)?;
        self.graphs.refuse_captured(end)?;
        let (start, end) = (self.event(start)?, self.event(end)?);
        let untimed =
            |event: &EventState| event.flags & event_flags::DISABLE_TIMING != 0 || lock(&event.record).is_none();
        if untimed(&start) || untimed(&end) || !Arc::ptr_eq(&start.session, &end.session) {
            return Err(CudaError::INVALID_HANDLE);
        }
        start.session.errors.report()?;
        let answer = start.session.call(&ElapsedTime { start: EventId(start.id), end: EventId(end.id) })?;
        let reply = start.session.connection.read(ElapsedTime::decode_reply(&answer.body))?;
        Ok(reply.milliseconds)
    }
}
