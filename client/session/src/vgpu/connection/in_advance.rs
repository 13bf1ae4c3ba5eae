//! Questions whose answers are looked at later. A question comes in, a ticket goes out; nobody waits before the answer is needed,
//! and an answer that nobody looks at loses nothing: what it says of earlier failures is noted as it comes.

use std::sync::Arc;

use floe_abi::CudaResult;
use floe_transport::Leave;
use floe_wire::Call;

use super::Connection;
use super::pending::{Answer, Expected, Foretold};
use super::waiter::{Ticket, Waiter};
use crate::vgpu::tally;

impl Connection {
    /// Asks something that nobody may need to know, together with what is sent next, or at `flush`.
    pub(crate) fn ask_early<M: Call>(&self, message: &M) -> CudaResult<Ticket> {
        self.post_question(message, None)
    }

    /// The same of a question whose answer is acted on already: what `check` says of a reply that is a success is an error of
    /// the vGPU, of which the next wait tells. It must not wait.
    pub(crate) fn ask_foretold<M: Call>(
        &self,
        message: &M,
        check: impl FnOnce(&[u8]) -> CudaResult<()> + Send + 'static,
    ) -> CudaResult<Ticket> {
        self.post_question(message, Some(Foretold(Box::new(check))))
    }

    fn post_question<M: Call>(&self, message: &M, foretold: Option<Foretold>) -> CudaResult<Ticket> {
        tally::posted();
        let waiter = Arc::new(Waiter::default());
        self.submit(message, Expected::Early(Arc::clone(&waiter), foretold), Leave::Soon)?;
        Ok(Ticket { waiter })
    }

    /// Asks something whose answer is looked at when it is here; the frame's sequence goes with it.
    pub(crate) fn ask_ahead<M: Call>(&self, message: &M) -> CudaResult<(Ticket, u64)> {
        tally::posted();
        let waiter = Arc::new(Waiter::default());
        let sequence = self.submit(message, Expected::Reply(Arc::clone(&waiter)), Leave::Now)?;
        self.watch();
        Ok((Ticket { waiter }, sequence))
    }

    /// An answer that was asked for earlier; it is waited for only where it is not here.
    pub(crate) fn arrived(&self, ticket: &Ticket) -> CudaResult<Answer> {
        self.look();
        if ticket.is_answered() { self.received(&ticket.waiter) } else { self.answer(ticket) }
    }

    /// Waits for an answer, which stays for others that wait for it.
    pub(crate) fn await_answer(&self, ticket: &Ticket) -> CudaResult<()> {
        let _waits = tally::wait();
        self.shared.incoming.wait(&self.shared, &ticket.waiter, &|| ticket.is_answered());
        ticket.waiter.status().unwrap_or_else(|| Err(self.shared.errors.lost()))
    }

    /// The status of an answer, if it is here.
    pub(crate) fn status(&self, ticket: &Ticket) -> Option<CudaResult<()>> {
        self.look();
        let answer = || self.received(&ticket.waiter).and_then(|answer| Self::judge(answer).map(drop));
        ticket.is_answered().then(answer)
    }
}
