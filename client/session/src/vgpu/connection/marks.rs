//! Marks: the server's word that a stream has come so far. Streams come in; a ticket goes out, or what is to be done then. Nothing
//! here waits but who asks for a ticket's outcome.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use floe_abi::{CudaError, CudaResult};
use floe_transport::Leave;
use floe_wire::{Call, EventId, Message, SynchronizeEvent};

use super::pending::{Expected, Then};
use super::waiter::{Ticket, Waiter};
use super::{Connection, NotReady};
use crate::vgpu::order::StreamProgress;
use crate::vgpu::tally;

impl Connection {
    /// Puts work on a stream that writes no memory of the program's, and has the server say when it is over. A failure is
    /// reported by a later call, too.
    pub(crate) fn post_marked(&self, progress: &Arc<StreamProgress>, message: &impl Message) -> CudaResult<Ticket> {
        tally::posted();
        // It leaves with the mark.
        let sequence = self.sender.queue(message).map_err(|error| self.shared.lost_by(&error))?;
        progress.issue_reading(self.commands.note(sequence));
        self.mark_at_once(progress)
    }

    /// Has the server say when all work of a stream so far is over. What was posted goes with it.
    pub(crate) fn mark_at_once(&self, progress: &Arc<StreamProgress>) -> CudaResult<Ticket> {
        let message = floe_wire::SynchronizeStream { stream: floe_wire::StreamId(progress.stream()) };
        self.ask_mark(&message, progress, None, Leave::Now)
    }

    /// The same, leaving as told: the caller does not stand for it.
    pub(crate) fn mark_ahead(&self, progress: &Arc<StreamProgress>, leave: Leave) -> CudaResult<Ticket> {
        let message = floe_wire::SynchronizeStream { stream: floe_wire::StreamId(progress.stream()) };
        self.ask_mark(&message, progress, None, leave)
    }

    /// The same of an event, which records the work of this stream up to this frame.
    pub(crate) fn mark_event(
        &self,
        event: EventId,
        progress: &Arc<StreamProgress>,
        sequence: u64,
    ) -> CudaResult<Ticket> {
        self.ask_mark(&SynchronizeEvent { event }, progress, Some(sequence), Leave::Now)
    }

    /// Has the server say when an event that was just recorded is over, since it will be queried. NOT_READY holds from now on.
    pub(crate) fn follow_event(
        &self,
        event: EventId,
        progress: &Arc<StreamProgress>,
        sequence: u64,
    ) -> CudaResult<NotReady> {
        tally::posted();
        let holds = NotReady { heard: self.shared.heard.load(Ordering::Acquire) };
        self.submit(&SynchronizeEvent { event }, Expected::Progress(Arc::clone(progress), sequence), Leave::Soon)?;
        Ok(holds)
    }

    fn ask_mark(
        &self,
        message: &impl Call,
        progress: &Arc<StreamProgress>,
        sequence: Option<u64>,
        leave: Leave,
    ) -> CudaResult<Ticket> {
        tally::posted();
        let waiter = Arc::new(Waiter::default());
        self.submit(message, Expected::Mark(Arc::clone(progress), sequence, Arc::clone(&waiter)), leave)?;
        Ok(Ticket { waiter })
    }

    /// Has the server say when all work of a stream so far is over, which nobody waits for.
    pub(crate) fn mark(&self, progress: &Arc<StreamProgress>) -> CudaResult<()> {
        tally::posted();
        let message = floe_wire::SynchronizeStream { stream: floe_wire::StreamId(progress.stream()) };
        self.submit(&message, Expected::Mark(Arc::clone(progress), None, Arc::default()), Leave::Soon).map(drop)
    }

    /// Has something done when all work of a stream so far is over and all it delivers is here, or the link is gone. It must
    /// not wait, since it is done in between what the server says.
    pub(crate) fn when_over(
        &self,
        progress: &Arc<StreamProgress>,
        then: impl FnOnce() + Send + 'static,
    ) -> CudaResult<()> {
        tally::posted();
        let message = floe_wire::SynchronizeStream { stream: floe_wire::StreamId(progress.stream()) };
        let expected = Expected::Told(Arc::clone(progress), Then(Box::new(then)));
        self.submit(&message, expected, Leave::Soon)?;
        self.shared.incoming.watch();
        Ok(())
    }

    /// Waits until what was marked is over.
    pub(crate) fn outcome(&self, ticket: &Ticket) -> CudaResult<()> {
        let answer = self.answer(ticket)?;
        CudaError::from_code(answer.status).map_or(Ok(()), Err)
    }
}
