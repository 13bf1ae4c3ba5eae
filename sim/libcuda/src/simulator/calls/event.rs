//! Events: handles of the program come in, records and waits of the executor go out.
//! Waiting for an event also shows what kernels printed, as CUDA does. Events for other processes are refused.

use floe_abi::{CudaError, CudaResult, Event, Stream, event_flags, event_record_flags};
use floe_surface::graph::Work as Recorded;
use floe_surface::{EventCalls, StreamCalls};

use crate::simulator::Simulator;
use crate::simulator::executor::events;
use crate::simulator::executor::events::{EventKey, NoTime};

/// The executor's name for a handle.
pub(crate) fn key_of(event: Event) -> EventKey {
    EventKey(event.0)
}

impl Simulator {
    fn event(&self, event: Event) -> CudaResult<events::EventState> {
        self.executor.event(key_of(event)).ok_or(CudaError::INVALID_HANDLE)
    }
}

impl Simulator {
    /// A question whether an event has happened, or a wait for it.
    ///
    /// # Errors
    /// CAPTURED_EVENT for one last recorded in a capture, STREAM_CAPTURE_UNSUPPORTED where captures forbid it.
    fn refuse_question(&self, event: Event) -> CudaResult<()> {
        self.graphs.refuse_captured(event)?;
        self.graphs.refuse_unsafe()
    }
}

impl EventCalls for Simulator {
    fn event_create(&self, flags: u32) -> CudaResult<Event> {
        use event_flags::{BLOCKING_SYNC, DISABLE_TIMING, INTERPROCESS};
        if flags & !(BLOCKING_SYNC | DISABLE_TIMING | INTERPROCESS) != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        if flags & (INTERPROCESS | DISABLE_TIMING) == INTERPROCESS {
            return Err(CudaError::INVALID_VALUE);
        }
        if flags & INTERPROCESS != 0 {
            crate::simulator::log::warn(format_args!("events for other processes are not supported by the CPU device"));
            return Err(CudaError::NOT_SUPPORTED);
        }
        let context = self.working()?;
        let event = Event(self.handles.next());
        self.executor.create_event(key_of(event), context.serial, flags & DISABLE_TIMING == 0);
        Ok(event)
    }

    fn event_record(&self, event: Event, stream: Stream) -> CudaResult<()> {
        let state = self.event(event)?;
        let (context, key) = self.stream(stream)?;
        if state.context != context.serial {
            return Err(CudaError::INVALID_HANDLE);
        }
        if self.graphs.is_watching() && self.graphs.record_event(&self.stream_for_capture(stream)?, event)? {
            return Ok(());
        }
        self.executor.record(key, key_of(event))
    }

    fn event_record_with_flags(&self, event: Event, stream: Stream, flags: u32) -> CudaResult<()> {
        match flags {
            event_record_flags::DEFAULT => self.event_record(event, stream),
            event_record_flags::EXTERNAL => {
                self.event(event)?;
                // Only a stream that is being captured may record external events.
                let captured = self.capturing(stream)?.ok_or(CudaError::ILLEGAL_STATE)?;
                self.graphs.record(&captured, Recorded::Record(event))
            }
            _ => Err(CudaError::INVALID_VALUE),
        }
    }

    fn event_query(&self, event: Event) -> CudaResult<()> {
        let state = self.event(event)?;
        self.refuse_question(event)?;
        let happened = self.executor.has_happened(key_of(event));
        self.executor.fault(state.context)?;
        if happened { Ok(()) } else { Err(CudaError::NOT_READY) }
    }

    fn event_synchronize(&self, event: Event) -> CudaResult<()> {
        let state = self.event(event)?;
        self.refuse_question(event)?;
        self.executor.wait_event(key_of(event));
        if let Some(context) = self.contexts.by_serial(state.context) {
            context.kernels.output.drain();
        }
        self.executor.fault(state.context)
    }

    fn event_destroy(&self, event: Event) -> CudaResult<()> {
        self.graphs.forget_event(event);
        if self.executor.destroy_event(key_of(event)) { Ok(()) } else { Err(CudaError::INVALID_HANDLE) }
    }

    fn event_elapsed_time(&self, start: Event, end: Event) -> CudaResult<f32> {
        let state = self.event(start)?;
        self.event(end)?;
        self.graphs.refuse_captured_time(start)?;
        self.graphs.refuse_captured_time(end)?;
        self.executor.fault(state.context)?;
        self.executor.elapsed(key_of(start), key_of(end)).map_err(|reason| match reason {
            NoTime::Invalid => CudaError::INVALID_HANDLE,
            NoTime::NotYet => CudaError::NOT_READY,
        })
    }
}
