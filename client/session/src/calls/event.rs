//! Events: made and recorded without waiting, queried at the server only if earlier replies do not give the answer.
//! Handles come in, codes go out: NOT_READY is an answer, not a failure, and is asked for once: then the server says by
//! itself. Timing is the server's.

use std::sync::Arc;

use floe_abi::{CudaError, CudaResult, Event, Stream, event_flags, event_record_flags};
use floe_surface::EventCalls;
use floe_surface::graph::Work;
use floe_wire::{Call, CreateEvent, ElapsedTime, EventId, QueryEvent, SynchronizeEvent};

use crate::client::Client;
use crate::objects::event::EventState;
use crate::vgpu::handles::{Handle, Kind};

impl Client {
    /// The event of a handle.
    pub(crate) fn event(&self, event: Event) -> CudaResult<Arc<EventState>> {
        let handle = Handle::of(Kind::Event, event.0).ok_or(CudaError::INVALID_HANDLE)?;
        self.device_of(handle).and_then(|device| device.objects.events.get(handle.id)).ok_or(CudaError::INVALID_HANDLE)
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
        state.record_on(&*self.ordered_stream(stream)?)
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
        let vgpu = &context.vgpu;
        let id = vgpu.next_id();
        // Until it is handed to another process it is an event like others.
        vgpu.connection.post(&CreateEvent { event: EventId(id), flags: flags & !event_flags::INTERPROCESS })?;
        let state = EventState::new(Arc::clone(vgpu), id, context.handle(), flags);
        self.objects(vgpu)?.events.insert(id, Arc::new(state));
        Ok(Event(Handle::new(Kind::Event, vgpu.ordinal, id).value()))
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
        event.vgpu.errors.report()?;
        if let Some(shared) = event.shared()? {
            return shared.query(&event.vgpu);
        }
        let Some(record) = event.outstanding().filter(|record| !record.seems_over()) else {
            return Ok(());
        };
        event.note_query();
        // A kernel may be waiting for what the program has just written.
        event.vgpu.send_mirrors()?;
        if event.vgpu.far.is_on() {
            return event.query_ahead(&record);
        }
        let connection = &event.vgpu.connection;
        if record.asked.is_some_and(|asked| connection.holds(asked)) {
            event.vgpu.errors.report()?;
            return if record.is_complete() { event.completed(&record) } else { Err(CudaError::NOT_READY) };
        }
        let begun = event.ask(|_| connection.begin_query(&QueryEvent { event: EventId(event.id()) }))?;
        let Some((record, question)) = begun else { return event.vgpu.errors.report() };
        match connection.answer_query(&question)? {
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
        event.vgpu.errors.report()?;
        if let Some(shared) = event.shared()? {
            return shared.synchronize(&event.vgpu);
        }
        if event.ask(|record| event.goes_on(record))?.is_none_or(|(_, goes_on)| goes_on) {
            event.vgpu.count_wait();
            return Ok(());
        }
        event.vgpu.send_mirrors()?;
        let (connection, message) = (&event.vgpu.connection, SynchronizeEvent { event: EventId(event.id()) });
        let Some((record, (ticket, _))) = event.ask(|_| connection.begin_at_once(&message))? else {
            event.vgpu.count_wait();
            return event.vgpu.errors.report();
        };
        connection.wait(&ticket)?;
        event.completed(&record)?;
        event.vgpu.note_wait();
        Ok(())
    }

    fn event_destroy(&self, event: Event) -> CudaResult<()> {
        let handle = Handle::of(Kind::Event, event.0).ok_or(CudaError::INVALID_HANDLE)?;
        let state = self
            .device_of(handle)
            .and_then(|device| device.objects.events.remove(handle.id))
            .ok_or(CudaError::INVALID_HANDLE)?;
        self.graphs.forget_event(event);
        state.abandon()
    }

    fn event_elapsed_time(&self, start: Event, end: Event) -> CudaResult<f32> {
        self.graphs.refuse_captured_time(start)?;
        self.graphs.refuse_captured_time(end)?;
        let (start, end) = (self.event(start)?, self.event(end)?);
        if start.is_untimed() || end.is_untimed() || !Arc::ptr_eq(&start.vgpu, &end.vgpu) {
            return Err(CudaError::INVALID_HANDLE);
        }
        start.vgpu.errors.report()?;
        start.vgpu.settle_presumed()?;
        let answer = start.vgpu.call(&ElapsedTime { start: EventId(start.id()), end: EventId(end.id()) })?;
        let reply = start.vgpu.connection.read(ElapsedTime::decode_reply(&answer.body))?;
        Ok(reply.milliseconds)
    }
}
