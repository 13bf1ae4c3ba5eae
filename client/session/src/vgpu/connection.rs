//! One session's link: posting, calling, and waiting. Messages come in from calls. Answers go to their callers,
//! deliveries into the program's memory, output to its descriptors. A link that ends answers every caller with its
//! error, so none waits for ever.

mod commands;
mod dial;
mod error;
mod handshake;
mod host_functions;
mod in_advance;
mod incoming;
mod inquiry;
mod keeper;
mod loss;
mod marks;
mod offer;
mod pending;
mod receive;
mod room;
mod stripes;
mod waiter;

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use floe_abi::{CudaError, CudaResult};
use floe_transport::{Channels, Leave, Link, Sender, Spin, Wait};
use floe_wire::{Call, CopyLate, DecodeError, Message};

pub(crate) use dial::Joining;
pub use error::ConnectError;
pub(crate) use handshake::{Attached, Greeting, attach};
pub(crate) use host_functions::{Around, HostWork};
pub use inquiry::{Canceller, Inquiry, Migration, MigrationNews};
pub(crate) use pending::{Answer, BoxTarget, Target};
pub(crate) use waiter::Ticket;

use crate::log::log;
use crate::memory::mirrors::Mirrors;
use crate::vgpu::errors::Errors;
use crate::vgpu::order::{Order, StreamProgress};
use crate::vgpu::statistics::Statistics;
use crate::vgpu::tally;
use commands::Commands;
use host_functions::HostFunctions;
use incoming::Incoming;
use keeper::Keeper;
use pending::{Expected, Pending};
use stripes::Bulk;
use waiter::Waiter;

/// A session's link.
#[derive(Debug)]
pub(crate) struct Connection {
    sender: Sender,
    pub(crate) commands: Commands,
    shared: Arc<Shared>,
}

/// The state that all threads of the link share.
#[derive(Debug)]
struct Shared {
    /// Ends the link when one direction of it fails.
    sender: Sender,
    incoming: Incoming,
    errors: Arc<Errors>,
    /// Held while the user is told that the link is over.
    saying: Mutex<()>,
    order: Arc<Order>,
    pending: Arc<Pending>,
    bulk: Bulk,
    /// Copies to the host that nobody waits for and that are still in flight.
    deliveries: AtomicUsize,
    host: HostFunctions,
    /// Grows with everything the server says from which a program could conclude how far a stream has come.
    heard: Arc<AtomicU64>,
    mirrors: Arc<Mirrors>,
    /// Makes the connections again that break, where the server keeps the session meanwhile.
    keeper: Option<Arc<Keeper>>,
}

/// A query's NOT_READY, which holds until the server reports progress.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NotReady {
    heard: u64,
}

/// A query that is on its way.
#[derive(Debug)]
pub(crate) struct Question {
    ticket: Ticket,
    sequence: u64,
    /// What its NOT_READY would be.
    holds: NotReady,
}

impl Connection {
    /// Takes over an attached link and starts to receive; further connections join it as they are made.
    pub(crate) fn start(
        link: Link,
        joining: Joining,
        channels: Option<Channels>,
        statistics: Arc<Statistics>,
        errors: Arc<Errors>,
        order: Arc<Order>,
        mirrors: Arc<Mirrors>,
    ) -> std::io::Result<Self> {
        let (sender, receiver) = link.split();
        let (host, arrivals) = HostFunctions::new();
        let joining = Arc::new(joining);
        let keeper = channels.map(|channels| Keeper::new(channels, &joining, Arc::clone(&statistics)));
        let shared = Arc::new(Shared {
            sender: sender.clone(),
            incoming: Incoming::new(receiver, Spin::of_process()),
            errors,
            saying: Mutex::default(),
            order,
            pending: Arc::default(),
            bulk: Bulk::new(Spin::of_process(), statistics),
            deliveries: AtomicUsize::new(0),
            host,
            heard: Arc::default(),
            mirrors,
            keeper,
        });
        host_functions::start(&shared, &sender, arrivals)?;
        let background = Arc::clone(&shared);
        std::thread::Builder::new().name("floe-receive".into()).spawn(move || background.incoming.run(&background))?;
        if let Some(keeper) = &shared.keeper {
            keeper.start(&shared)?;
        }
        stripes::start(&shared, &joining)?;
        Ok(Self { sender, commands: Commands::default(), shared })
    }

    /// Sends a message nobody answers; returns its sequence. Does not wait.
    pub(crate) fn post(&self, message: &impl Message) -> CudaResult<u64> {
        tally::posted();
        match self.sender.post(message) {
            Ok(sequence) => Ok(self.commands.note(sequence)),
            Err(error) => Err(self.shared.lost_by(&error)),
        }
    }

    /// As `post`, of work that is put on a stream.
    pub(crate) fn post_on(&self, progress: &StreamProgress, message: &impl Message) -> CudaResult<u64> {
        tally::posted();
        match self.sender.post_numbered(message, |sequence| progress.issue_next(sequence), Leave::Soon) {
            Ok(sequence) => Ok(self.commands.note(sequence)),
            Err(error) => Err(self.shared.lost_by(&error)),
        }
    }

    /// As `post`, for a message whose trailing bytes `fill` writes.
    pub(crate) fn post_filled<M: Message>(
        &self,
        message: &M,
        length: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> CudaResult<u64> {
        tally::posted();
        let sent = self.sender.post_filled(message, length, fill).map_err(|error| self.shared.lost_by(&error))?;
        Ok(self.commands.note(sent))
    }

    /// Sends a message and waits for its reply; a status that is not success is the error.
    pub(crate) fn call<M: Call>(&self, message: &M) -> CudaResult<(Answer, u64)> {
        let (ticket, sequence) = self.begin_at_once(message)?;
        self.wait(&ticket).map(|answer| (answer, sequence))
    }

    /// Sends a message, which has its place among all when this returns. The ticket is for `wait` or `answer`.
    pub(crate) fn begin_at_once<M: Call>(&self, message: &M) -> CudaResult<(Ticket, u64)> {
        tally::called();
        let waiter = Arc::new(Waiter::default());
        let expected = Expected::Reply(Arc::clone(&waiter));
        let sequence = self.submit(message, expected, Leave::Now)?;
        Ok((Ticket { waiter }, sequence))
    }

    /// Sends a message together with the next one that is waited for, or at `flush`. The ticket is for `answer`.
    pub(crate) fn begin<M: Call>(&self, message: &M) -> CudaResult<Ticket> {
        tally::called();
        let waiter = Arc::new(Waiter::default());
        self.submit(message, Expected::Reply(Arc::clone(&waiter)), Leave::Soon)?;
        Ok(Ticket { waiter })
    }

    /// Sends what was begun.
    pub(crate) fn flush(&self) -> CudaResult<()> {
        self.sender.flush().map_err(|error| self.shared.lost_by(&error))
    }

    /// As `call`, with the answer whatever its status.
    pub(crate) fn ask<M: Call>(&self, message: &M) -> CudaResult<Answer> {
        self.answer(&self.begin_at_once(message)?.0)
    }

    /// Whether the server is on this machine and can be given descriptors.
    pub(crate) fn carries_descriptors(&self) -> bool {
        self.sender.carries_descriptors()
    }

    /// As `ask`, with a descriptor for the server.
    pub(crate) fn ask_with<M: Call>(&self, message: &M, descriptor: BorrowedFd<'_>) -> CudaResult<Answer> {
        tally::called();
        let (shared, waiter) = (&self.shared, Arc::new(Waiter::default()));
        let expected = Expected::Reply(Arc::clone(&waiter));
        let numbered = |sequence| shared.pending.expect(sequence, expected, &shared.errors);
        self.sender.send_with(message, descriptor, numbered).map_err(|error| shared.lost_by(&error))?;
        self.answer(&Ticket { waiter })
    }

    /// Asks whether something has completed. NOT_READY is `Err` with how long that holds: the server says by itself when it
    /// does not any more.
    pub(crate) fn query<M: Call>(&self, message: &M) -> CudaResult<Result<u64, NotReady>> {
        self.answer_query(&self.begin_query(message)?)
    }

    /// The same question, which has its place among all messages when this returns.
    pub(crate) fn begin_query<M: Call>(&self, message: &M) -> CudaResult<Question> {
        let heard = self.shared.heard.load(Ordering::Acquire);
        let (ticket, sequence) = self.begin_at_once(message)?;
        Ok(Question { ticket, sequence, holds: NotReady { heard } })
    }

    /// Its answer.
    pub(crate) fn answer_query(&self, question: &Question) -> CudaResult<Result<u64, NotReady>> {
        match self.wait(&question.ticket) {
            Ok(_) => Ok(Ok(question.sequence)),
            Err(CudaError::NOT_READY) => Ok(Err(question.holds)),
            Err(error) => Err(error),
        }
    }

    /// Whether a query's answer still holds, as far as it is known here: the server has reported nothing since from
    /// which a program could conclude otherwise.
    pub(crate) fn holds(&self, answer: NotReady) -> bool {
        self.shared.incoming.look(&self.shared);
        self.shared.heard.load(Ordering::Acquire) == answer.heard
    }

    /// Posts a message whose trailing bytes are borrowed. Does not wait for them to be sent.
    pub(crate) fn post_borrowed(
        &self,
        message: &impl Message,
        lent: Box<dyn floe_transport::BorrowedBuffer>,
    ) -> CudaResult<u64> {
        tally::posted();
        let sent = self.sender.post_borrowed(message, lent).map_err(|error| self.shared.lost_by(&error))?;
        Ok(self.commands.note(sent))
    }

    /// Sends a message whose reply nobody waits for; a failure is reported by a later call.
    pub(crate) fn post_call<M: Call>(&self, message: &M) -> CudaResult<u64> {
        tally::posted();
        self.submit(message, Expected::Unwatched, Leave::Soon)
    }

    /// Asks for data that goes to `target` when it comes. The ticket waits for the last byte.
    pub(crate) fn fetch<M: Call>(
        &self,
        message: &M,
        target: Target,
        progress: &Arc<StreamProgress>,
    ) -> CudaResult<Ticket> {
        tally::called();
        let waiter = Arc::new(Waiter::default());
        let expected = Expected::delivery(target, progress, Some(Arc::clone(&waiter)));
        let sequence = self.submit(message, expected, Leave::Now)?;
        progress.issue(sequence);
        Ok(Ticket { waiter })
    }

    /// As `fetch`, with nobody waiting: a later synchronize covers it.
    pub(crate) fn post_fetch<M: Call>(
        &self,
        message: &M,
        target: Target,
        progress: &Arc<StreamProgress>,
    ) -> CudaResult<()> {
        tally::posted();
        self.shared.deliveries.fetch_add(1, Ordering::AcqRel);
        let expected = Expected::delivery(target, progress, None);
        let sequence = self.submit(message, expected, Leave::Soon).inspect_err(|_| {
            self.shared.deliveries.fetch_sub(1, Ordering::AcqRel);
        })?;
        progress.issue(sequence);
        Ok(())
    }

    /// Reads what the server has said, without waiting.
    pub(crate) fn look(&self) {
        self.shared.incoming.look(&self.shared);
    }

    /// Waits for what a ticket stands for.
    pub(crate) fn wait(&self, ticket: &Ticket) -> CudaResult<Answer> {
        Self::judge(self.answer(ticket)?)
    }

    /// An answer whose status is success, or the error it is; what it says of it goes to the user.
    pub(crate) fn judge(answer: Answer) -> CudaResult<Answer> {
        match CudaError::from_code(answer.status) {
            None => Ok(answer),
            Some(error) => {
                tell(error, &answer.detail);
                Err(error)
            }
        }
    }

    /// Waits for the answer and remembers what it says of earlier failures.
    pub(crate) fn answer(&self, ticket: &Ticket) -> CudaResult<Answer> {
        let waiter = &ticket.waiter;
        let waits = tally::wait();
        self.shared.incoming.wait(&self.shared, waiter, &|| waiter.is_filled());
        drop(waits);
        self.received(waiter)
    }

    fn received(&self, waiter: &Waiter) -> CudaResult<Answer> {
        let answer = waiter.take().unwrap_or_else(|| Err(self.shared.errors.lost()))?;
        if let Some(earlier) = CudaError::from_code(answer.earlier) {
            self.shared.errors.note(earlier);
            if answer.status == 0 {
                tell(earlier, &answer.detail);
            }
        }
        if let Some(error) = CudaError::from_code(answer.status).filter(|error| error.is_sticky()) {
            self.shared.errors.note(error);
        }
        Ok(answer)
    }

    /// Puts a host function on a stream.
    pub(crate) fn host_function(&self, progress: &Arc<StreamProgress>, id: u64, work: HostWork) -> CudaResult<()> {
        let message = floe_wire::HostFunction {
            stream: floe_wire::StreamId(progress.stream()),
            function: floe_wire::FunctionId(id),
        };
        self.in_order(progress, id, work, &message)
    }

    /// Puts a copy on a stream whose bytes `work`, of this id, reads when the stream gets there.
    pub(crate) fn late_copy(
        &self,
        progress: &Arc<StreamProgress>,
        message: &CopyLate,
        work: HostWork,
    ) -> CudaResult<()> {
        self.in_order(progress, message.function.0, work, message)
    }

    /// Posts a message behind which the stream waits for `work`.
    fn in_order(
        &self,
        progress: &Arc<StreamProgress>,
        id: u64,
        work: HostWork,
        message: &impl Message,
    ) -> CudaResult<()> {
        self.shared.host.add(id, work);
        let sequence = self.post(message).inspect_err(|_| {
            self.shared.host.cancel(id);
        })?;
        progress.issue(sequence);
        self.shared.incoming.watch();
        Ok(())
    }

    /// Whether threads that wait sleep soon, as a context made with BLOCKING_SYNC wants it.
    pub(crate) fn sleep_soon(&self, soon: bool) {
        self.shared.incoming.sleep_soon(soon);
    }

    /// Has what the server says by itself read, also while nobody waits.
    pub(crate) fn watch(&self) {
        self.shared.incoming.watch();
    }

    /// Has something done around each function of the program that a stream stands for.
    pub(crate) fn around_functions(&self, around: Box<dyn Around>) {
        self.shared.host.around(around);
    }

    /// Whether host functions are waiting or running that may write the program's memory.
    pub(crate) fn host_functions_may_write(&self) -> bool {
        self.shared.host.may_write()
    }

    /// Whether a function of the program is running that a stream stands for.
    pub(crate) fn runs_function(&self) -> bool {
        self.shared.host.is_running()
    }

    /// Whether host functions are waiting or running.
    pub(crate) fn has_host_functions(&self) -> bool {
        self.shared.host.is_busy()
    }

    /// The server has abandoned the host functions that have not run.
    pub(crate) fn give_up_host_functions(&self) {
        self.shared.host.give_up();
    }

    /// Whether work in flight still uses memory of the program's: copies to the host, host functions.
    pub(crate) fn uses_host_memory(&self) -> bool {
        self.has_host_functions() || self.shared.deliveries.load(Ordering::Acquire) != 0
    }

    /// Whether copies to the host are still in flight that nobody waits for.
    pub(crate) fn delivers(&self) -> bool {
        self.shared.deliveries.load(Ordering::Acquire) != 0
    }

    /// Whether a copy to the host that is still in flight writes any of these bytes.
    pub(crate) fn writes_into(&self, start: u64, bytes: u64) -> bool {
        self.shared.deliveries.load(Ordering::Acquire) != 0 && self.shared.pending.writes_into(start, bytes)
    }

    /// Waits until no copy to the host writes any of these bytes any more.
    pub(crate) fn wait_for_writes(&self, start: u64, bytes: u64) {
        if self.writes_into(start, bytes) {
            let _waits = tally::wait();
            self.wait_until(|| !self.shared.pending.writes_into(start, bytes));
        }
    }

    /// Waits until what copies of this stream up to this frame read has arrived. The server has said that they completed.
    pub(crate) fn wait_for_deliveries(&self, progress: &StreamProgress, sequence: u64) {
        if self.shared.deliveries.load(Ordering::Acquire) != 0 {
            self.wait_until(|| !self.shared.pending.awaits_delivery(progress.stream(), sequence));
        }
    }

    /// Waits for something that becomes true when an expectation is over.
    fn wait_until(&self, is_over: impl Fn() -> bool) {
        let waiter = Arc::new(Waiter::default());
        self.shared.pending.watch(&waiter);
        self.shared.incoming.wait(&self.shared, &waiter, &is_over);
        self.shared.pending.unwatch(&waiter);
    }

    /// Reads the body of an answer; a body that is no such reply ends the session.
    pub(crate) fn read<T>(&self, decoded: Result<T, DecodeError>) -> CudaResult<T> {
        decoded.map_err(|error| {
            self.shared
                .lose(CudaError::DEVICE_UNAVAILABLE, &format!("the server answered what cannot be read: {error}"));
            self.shared.errors.lost()
        })
    }

    /// Sends what is posted and ends the link. Does not wait for an answer.
    pub(crate) fn close(&self) {
        self.shared.errors.lose(CudaError::DEINITIALIZED);
        // A server that is gone already needs no goodbye.
        let _ = self.sender.flush();
        if let Some(keeper) = &self.shared.keeper {
            keeper.say_goodbye();
        }
        self.sender.close();
        self.shared.bulk.close();
    }

    fn submit<M: Call>(&self, message: &M, expected: Expected, leave: Leave) -> CudaResult<u64> {
        let shared = &self.shared;
        let numbered = |sequence| shared.pending.expect(sequence, expected, &shared.errors);
        let sent = self.sender.post_numbered(message, numbered, leave);
        sent.map(|sequence| self.commands.note(sequence)).map_err(|error| shared.lost_by(&error))
    }
}

impl Drop for Connection {
    /// A server that keeps sessions without a link would keep this one.
    fn drop(&mut self) {
        self.close();
    }
}

/// Passes a failure's sentence on to the user. Answers that programs ask for and act on are no news.
fn tell(error: CudaError, detail: &str) {
    let detail = floe_wire::printable(detail.trim_end());
    match error {
        _ if detail.is_empty() => {}
        CudaError::NOT_READY => {}
        CudaError::NOT_FOUND | CudaError::OUT_OF_MEMORY => log!(Info, "{error}: {detail}"),
        _ => log!(Warn, "{error}: {detail}"),
    }
}

impl Shared {
    /// Something waits for the server, until this is dropped.
    fn waiting(&self) -> Option<Wait<'_>> {
        self.keeper.as_ref().map(|keeper| keeper.waiting())
    }
}
