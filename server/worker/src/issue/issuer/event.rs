//! Events of the program's.
//! In: the client's ids. Out: the driver's events, and answers when they have completed.
//! An event that somebody waits for is replaced when it is recorded again, so that the wait keeps its meaning.

use std::sync::Arc;

use floe_abi::CudaError;
use floe_device::Device;
use floe_wire::{
    CreateEvent, DestroyEvent, ElapsedTime, ElapsedTimeReply, EventId, EventRequests, QueryEvent, RecordEvent,
    SynchronizeEvent,
};

use super::{Answer, Issuer};
use crate::complete::completer::Lane;
use crate::complete::events::CompletionEvent;
use crate::issue::fault::Fault;
use crate::issue::objects::event::EventObject;

impl<D: Device> EventRequests for Issuer<D> {
    fn create_event(&mut self, message: CreateEvent) -> Result<Answer, Fault> {
        let CreateEvent { event, flags } = message;
        self.events.check_posted(event.0)?;
        let created = CompletionEvent::of_program(&self.shared.device, flags);
        let failure = created.as_ref().err().copied();
        self.events.bind(
            event.0,
            created.map(|completion| EventObject { completion, flags, recorded: None, failed: None, time: None }),
        );
        failure.map_or(Ok(Answer::Nothing), |error| Err(error.into()))
    }

    fn record_event(&mut self, message: RecordEvent) -> Result<Answer, Fault> {
        let sequence = self.sequence;
        self.record_now(message).inspect_err(|fault| self.note_failed_record(message.event, fault))?;
        self.events.get_mut(message.event.0)?.recorded = Some((message.stream, sequence));
        Ok(Answer::Nothing)
    }

    fn synchronize_event(&mut self, message: SynchronizeEvent) -> Result<Answer, Fault> {
        let sequence = self.sequence;
        let object = self.events.get(message.event.0)?.recorded()?;
        // Right behind its record it is in order with what else is asked of the stream: one of all is looked at.
        let lane = match object.recorded {
            Some((stream, reached)) if reached.checked_add(1) == Some(sequence) => Lane::Stream(stream.0),
            _ => Lane::Alone(sequence),
        };
        let completion = Arc::clone(&object.completion);
        Ok(self.answer_after(sequence, lane, Ok(vec![completion])))
    }

    fn query_event(&mut self, message: QueryEvent) -> Result<Answer, Fault> {
        let sequence = self.sequence;
        let object = self.events.get(message.event.0)?.recorded()?;
        match object.completion.outcome() {
            None => {
                if let Some((stream, reached)) = object.recorded {
                    self.report_when(sequence, Arc::clone(&object.completion), stream, reached);
                }
                Err(CudaError::NOT_READY.into())
            }
            // Earlier deliveries go out first.
            Some(outcome) => Ok(self.answer_after(sequence, Lane::Alone(sequence), outcome.map(|()| Vec::new()))),
        }
    }

    fn elapsed_time(&mut self, message: ElapsedTime) -> Result<Answer, Fault> {
        let sequence = self.sequence;
        let [start, end] = [message.start, message.end].map(|event| self.events.get(event.0));
        let (start, end) = (start?.recorded()?, end?.recorded()?);
        let milliseconds = if start.time.is_none() && end.time.is_none() {
            self.device().event_elapsed_time(start.event(), end.event())?
        } else {
            self.elapsed_across_moves(start, end)?
        };
        // It says that both are complete.
        Ok(self.answer_behind_complete(sequence, &ElapsedTimeReply { milliseconds }))
    }

    fn destroy_event(&mut self, message: DestroyEvent) -> Result<Answer, Fault> {
        // The driver's event goes with the last wait for it.
        self.events.remove(message.event.0)?;
        Ok(Answer::Nothing)
    }
}

impl<D: Device> Issuer<D> {
    fn record_now(&mut self, message: RecordEvent) -> Result<(), Fault> {
        let stream = self.use_stream(message.stream)?;
        let event = self.recordable_event(message.event)?;
        match message.flags {
            0 => self.device().event_record(event, stream)?,
            flags => self.device().event_record_with_flags(event, stream, flags)?,
        }
        Ok(())
    }

    /// The event was to be recorded by a command that failed.
    pub(super) fn note_failed_record(&mut self, event: EventId, fault: &Fault) {
        if let Ok(object) = self.events.get_mut(event.0) {
            (object.recorded, object.failed) = (None, Some(fault.code()));
        }
    }

    /// The driver's event to be recorded now.
    pub(super) fn recordable_event(&mut self, event: EventId) -> Result<floe_abi::Event, Fault> {
        let object = self.events.get_mut(event.0)?;
        if Arc::strong_count(&object.completion) > 1 {
            object.completion = CompletionEvent::of_program(&self.shared.device, object.flags)?;
        }
        (object.recorded, object.failed, object.time) = (None, None, None);
        Ok(object.completion.event())
    }
}
