//! Streams.
//! In: the client's ids; 0 is the legacy default stream. Out: the driver's streams, and answers when they are done.
//! It remembers which streams have ever had work, and the work of destroyed ones, for waits for the whole context.

use std::sync::Arc;

use floe_abi::{CudaError, CudaResult, Stream, stream_flags};
use floe_device::Device;
use floe_wire::{
    CreateApartStream, CreateStream, DestroyStream, QueryStream, StreamId, StreamRequests, SynchronizeStream, WaitEvent,
};

use super::{Answer, Issuer, body};
use crate::complete::completer::Lane;
use crate::complete::events::CompletionEvent;
use crate::issue::apart::{ApartStream, Inside};
use crate::issue::fault::Fault;
use crate::issue::objects::stream::StreamObject;
use crate::life::shared::Shared;

/// Destroyed streams' completion events from which on the completed ones are dropped.
const ORPHANS: usize = 16;

impl<D: Device> StreamRequests for Issuer<D> {
    fn create_stream(&mut self, message: CreateStream) -> Result<Answer, Fault> {
        self.streams.check_posted(message.stream.0)?;
        let created = self.new_stream(&message);
        let CreateStream { flags, priority, .. } = message;
        let bound = created.as_ref();
        let bound = bound.map(|stream| StreamObject {
            stream: *stream,
            flags,
            priority,
            used: false,
            is_apart: false,
            last: None,
        });
        self.streams.bind(message.stream.0, bound.map_err(Fault::code));
        created?;
        Ok(Answer::Nothing)
    }

    fn create_apart_stream(&mut self, message: CreateApartStream) -> Result<Answer, Fault> {
        let id = message.stream.0;
        self.streams.check_new(id)?;
        if self.apart.is_some() {
            let words = "a session has one stream apart".to_owned();
            return Err(Fault::Explained(CudaError::INVALID_VALUE, words));
        }
        self.allowance.ledger.context()?;
        let made = self.new_apart_stream().inspect_err(|_| self.allowance.ledger.context_ends())?;
        let (stream, flags) = (made.handle(), stream_flags::NON_BLOCKING);
        self.apart = Some(made);
        let object = StreamObject { stream, flags, priority: 0, used: false, is_apart: true, last: None };
        self.streams.bind(id, Ok(object));
        body(&())
    }

    fn destroy_stream(&mut self, message: DestroyStream) -> Result<Answer, Fault> {
        let Some(object) = self.streams.remove(message.stream.0)? else { return Ok(Answer::Nothing) };
        if object.used {
            // On a context beyond use there is no work left to wait for.
            self.orphans.extend(self.record(object.stream).ok());
            if self.orphans.len() > ORPHANS {
                self.orphans.retain(|completion| completion.outcome().is_none());
            }
        }
        // The one apart stays until the context is reset: others may look at its events.
        if !object.is_apart {
            self.allowance.ledger.stream_ends();
            self.device().stream_destroy(object.stream)?;
        }
        Ok(Answer::Nothing)
    }

    fn wait_event(&mut self, message: WaitEvent) -> Result<Answer, Fault> {
        let stream = self.use_stream(message.stream)?;
        let event = self.events.get(message.event.0)?.recorded()?.event();
        self.device().stream_wait_event(stream, event, message.flags)?;
        Ok(Answer::Nothing)
    }

    fn synchronize_stream(&mut self, message: SynchronizeStream) -> Result<Answer, Fault> {
        let sequence = self.sequence;
        let known = if message.stream.0 == 0 { None } else { self.streams.get(message.stream.0)?.last.clone() };
        let completions = match known {
            Some(completion) => Ok(vec![completion]),
            None => self.record_or_wait(self.any_stream(message.stream)?).map(|completion| vec![completion]),
        };
        Ok(self.answer_after(sequence, Lane::Stream(message.stream.0), completions))
    }

    fn query_stream(&mut self, message: QueryStream) -> Result<Answer, Fault> {
        let sequence = self.sequence;
        let result = self.device().stream_query(self.stream(message.stream)?);
        if result == Err(CudaError::NOT_READY) {
            // Without a completion event nothing is reported, and the client asks again.
            if let Ok(completion) = self.pool.record(self.stream(message.stream)?) {
                self.report_when(sequence, completion, message.stream, sequence);
            }
            return Err(CudaError::NOT_READY.into());
        }
        // Its deliveries go out first.
        Ok(self.answer_after(sequence, Lane::Alone(sequence), result.map(|()| Vec::new())))
    }
}

impl<D: Device> Issuer<D> {
    /// The stream to issue work on.
    pub(super) fn use_stream(&mut self, id: StreamId) -> Result<Stream, Fault> {
        if id.0 == 0 {
            self.legacy_used = true;
            return Ok(Stream::LEGACY);
        }
        let object = self.streams.get_mut(id.0)?;
        if object.is_apart {
            return Err(not_for_all());
        }
        object.used = true;
        object.last = None;
        Ok(object.stream)
    }

    /// The stream to issue copies and fills on, which are issued [`Issuer::inside`].
    pub(super) fn use_for_bytes(&mut self, id: StreamId) -> Result<Stream, Fault> {
        match self.streams.get_mut(id.0) {
            Ok(object) if object.is_apart => {
                (object.used, object.last) = (true, None);
                Ok(object.stream)
            }
            _ => self.use_stream(id),
        }
    }

    /// Has the calling thread in the context of this stream, if that is not the program's, until what is returned is dropped.
    pub(super) fn inside(&self, stream: Stream) -> CudaResult<Option<Inside<'_, D>>> {
        self.apart_of(stream).map(ApartStream::inside).transpose()
    }

    /// Records what a stream holds so far.
    pub(super) fn record(&self, stream: Stream) -> CudaResult<Arc<CompletionEvent<D>>> {
        self.apart_of(stream).map_or_else(|| self.pool.record(stream), ApartStream::record)
    }

    /// Waits for what the stream apart holds: its context's work is none of the program's.
    pub(super) fn wait_for_apart(&self) {
        let inside = self.apart.as_ref().map(ApartStream::inside).transpose();
        // A context beyond use says so at once, and does nothing more either.
        if let Ok(Some(_inside)) = inside {
            let _ = self.device().ctx_synchronize();
        }
    }

    fn apart_of(&self, stream: Stream) -> Option<&ApartStream<D>> {
        self.apart.as_ref().filter(|apart| apart.handle() == stream)
    }

    fn new_apart_stream(&self) -> Result<ApartStream<D>, Fault> {
        let Shared { device, links, .. } = &*self.shared;
        let apart = links.apart.get(device, &self.allowance.budget)?;
        Ok(ApartStream::new(device, apart)?)
    }

    /// The completion event stands behind everything the stream holds. The legacy default stream's would not: work of others may be
    /// in order with it.
    pub(super) fn note_last(&mut self, id: StreamId, completion: &Arc<CompletionEvent<D>>) {
        if let Ok(object) = self.streams.get_mut(id.0) {
            object.last = Some(Arc::clone(completion));
        }
    }

    /// The program's stream of this id.
    pub(super) fn stream(&self, id: StreamId) -> Result<Stream, Fault> {
        if id.0 == 0 {
            return Ok(Stream::LEGACY);
        }
        let object = self.streams.get(id.0)?;
        if object.is_apart { Err(not_for_all()) } else { Ok(object.stream) }
    }

    fn any_stream(&self, id: StreamId) -> Result<Stream, Fault> {
        if id.0 == 0 { Ok(Stream::LEGACY) } else { Ok(self.streams.get(id.0)?.stream) }
    }

    fn new_stream(&mut self, message: &CreateStream) -> Result<Stream, Fault> {
        self.allowance.ledger.stream()?;
        let created = self.device().stream_create_with_priority(message.flags, message.priority);
        if created.is_err() {
            self.allowance.ledger.stream_ends();
        }
        Ok(created?)
    }

    /// Completion events on every stream that has ever had work, destroyed ones included.
    pub(super) fn record_everything(&self) -> Result<Vec<Arc<CompletionEvent<D>>>, CudaError> {
        let mut completions = self.orphans.clone();
        let used = self.streams.values().filter(|object| object.used).map(|object| object.stream);
        for stream in used.chain(self.legacy_used.then_some(Stream::LEGACY)) {
            completions.push(self.record(stream)?);
        }
        Ok(completions)
    }

    /// Destroys all streams; errors of a context beyond use do not matter, it goes with them.
    pub(super) fn drop_streams(&mut self) {
        self.orphans.clear();
        self.legacy_used = false;
        for object in self.streams.drain().filter(|object| !object.is_apart) {
            let _ = self.shared.device.stream_destroy(object.stream);
        }
        self.apart = None;
    }
}

fn not_for_all() -> Fault {
    Fault::Explained(CudaError::INVALID_HANDLE, "a stream apart takes copies and fills only".into())
}
