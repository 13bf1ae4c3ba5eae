//! The completer: it waits for the GPU, so that the issuer need not.
//! In: tasks in issue order, each with the completion events that must have completed. Out: deliveries, output, replies, progress,
//! host functions.
//! Before it answers a request, it sends every completed delivery of an earlier command. The request's work may depend
//! on that one, so its data must reach the client first.

mod open;
mod order;
mod pace;
mod release;
mod task;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender as Channel};
use std::time::Instant;

use floe_abi::{CudaError, CudaResult};
use floe_device::{Device, Pinned as _};
use floe_transport::{LinkError, Spin, sleep_precisely};
use floe_wire::{Delivery, Progress, RunHostFunction, StreamId};

use super::events::CompletionEvent;
use crate::life::shared::Shared;
use crate::memory::transfer_buffers::DownloadRange;
use crate::wire_in::stripes;
use open::Open;
use order::Order;
pub(crate) use pace::Pace;
use release::Release;
pub(crate) use release::Releaser;
pub(crate) use task::{Action, Lane, Task};

/// The issuer's and the driver's callbacks' way to the completer.
pub(crate) struct Tasks<D: Device> {
    channel: Channel<Task<D>>,
    releases: Channel<Release<D>>,
    open: Arc<Open>,
}

impl<D: Device> Clone for Tasks<D> {
    fn clone(&self) -> Self {
        let (channel, releases) = (self.channel.clone(), self.releases.clone());
        Self { channel, releases, open: Arc::clone(&self.open) }
    }
}

impl<D: Device> Tasks<D> {
    pub(crate) fn add(&self, task: Task<D>) {
        self.open.change(1);
        if self.channel.send(task).is_err() {
            // The completer is gone because the link is; so will be this process.
            self.open.change(-1);
        }
    }

    /// Waits until every task that was added is done.
    pub(crate) fn wait_until_done(&self) {
        self.open.wait_for_none();
    }

    /// Whether every task that was added is done.
    pub(crate) fn is_idle(&self) -> bool {
        self.open() == 0
    }

    /// Tasks that were added and are not done.
    pub(crate) fn open(&self) -> usize {
        self.open.tasks().count
    }

    /// Does a task that was never added; it leaves with the next flush.
    pub(crate) fn finish(&self, shared: &Arc<Shared<D>>, task: Task<D>) -> Result<(), LinkError> {
        finish(shared, (&self.open, &self.releases), task, Ok(()))
    }
}

/// The thread's state.
pub(crate) struct Completer<D: Device> {
    shared: Arc<Shared<D>>,
    incoming: Receiver<Task<D>>,
    releases: Channel<Release<D>>,
    open: Arc<Open>,
    order: Order<D>,
    spin: Spin,
}

impl<D: Device> Completer<D> {
    /// Also what gives memory up beside it.
    pub(crate) fn new(shared: Arc<Shared<D>>, spin: Spin) -> (Self, Releaser<D>, Tasks<D>) {
        let (channel, incoming) = std::sync::mpsc::channel();
        let (releases, given_up) = std::sync::mpsc::channel();
        let open = Arc::new(Open::default());
        let tasks = Tasks { channel, releases: releases.clone(), open: Arc::clone(&open) };
        let releaser = Releaser { shared: Arc::clone(&shared), incoming: given_up, open: Arc::clone(&open) };
        (Self { shared, incoming, releases, open, order: Order::default(), spin }, releaser, tasks)
    }

    /// Runs until the link or every [`Tasks`] is gone.
    ///
    /// # Errors
    /// [`LinkError`] when no message reaches the client any more.
    pub(crate) fn run(&mut self) -> Result<(), LinkError> {
        if self.spin.is_on() {
            sleep_precisely();
        }
        let mut pace = Pace::new(self.spin);
        while self.take_in(&mut pace) {
            let mut finished = false;
            while let Some((task, outcome)) = self.order.next() {
                finish(&self.shared, (&self.open, &self.releases), task, outcome)?;
                if self.order.is_empty() {
                    // Ahead of the next wait, which the issuer may see to.
                    self.shared.queue.expect(false);
                }
                self.open.change(-1);
                finished = true;
            }
            if finished {
                self.shared.sender.flush()?;
                pace = Pace::new(self.spin);
            }
        }
        Ok(())
    }

    /// Takes new tasks in; waits for one as long as it is worth it. False: none can come any more.
    fn take_in(&mut self, pace: &mut Pace) -> bool {
        let first = if self.order.is_empty() {
            let soon = self.spin.look(|| self.incoming.try_recv().ok());
            let Some(task) = soon.or_else(|| self.incoming.recv().ok()) else { return false };
            *pace = Pace::new(self.spin);
            Some(task)
        } else {
            self.pause(pace)
        };
        let mut came = first.is_some();
        self.order.extend(first);
        while let Ok(task) = self.incoming.try_recv() {
            self.order.push(task);
            came = true;
        }
        if came {
            self.shared.queue.expect(true);
            // After a reset the context is another one.
            let _ = self.shared.device.enter();
        }
        true
    }

    /// Lets a moment pass before the next look, unless a task comes.
    fn pause(&self, pace: &mut Pace) -> Option<Task<D>> {
        let sleep = pace.next(Instant::now())?;
        match self.incoming.recv_timeout(sleep) {
            Ok(task) => Some(task),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(sleep);
                None
            }
        }
    }
}

/// Does what is to be done, and says it with the next flush.
fn finish<D: Device>(
    shared: &Arc<Shared<D>>,
    (open, releases): (&Open, &Channel<Release<D>>),
    task: Task<D>,
    outcome: CudaResult<()>,
) -> Result<(), LinkError> {
    // The client gets what kernels wrote into the program's own memory before it learns that they are over.
    shared.mirrors.tell(&shared.sender)?;
    match task.action {
        Action::Deliver { range, offset } => match outcome {
            Ok(()) if stripes::carry(shared, &range, offset) => stripes::deliver(shared, task.sequence, range, offset),
            Ok(()) => deliver(shared, task.sequence, &range, offset),
            // The reply that follows on the same lane carries the error.
            Err(_) => Ok(()),
        },
        Action::Reply { failed } => reply(shared, task.sequence, &task.completions, failed.or(outcome.err())),
        Action::Answer(body) => {
            shared.show_printed(false)?;
            shared.queue_reply(task.sequence, 0, &body)
        }
        Action::Release { pages, failed } => {
            let error = failed.or(outcome.err());
            task.completions.iter().for_each(|completion| completion.settle());
            release(open, releases, Release::Pages { request: task.sequence, pages, error });
            Ok(())
        }
        Action::Raise { page, word, value } => {
            // What this session has said before leaves before another one goes on.
            let left = shared.sender.flush();
            page.raise(word, value);
            left
        }
        Action::BeginTransfer { link, transfer, way } => {
            match outcome {
                Ok(()) => link.begin(way, transfer),
                Err(error) => link.end(&format!("the work before a transfer failed: {error}")),
            }
            Ok(())
        }
        Action::TransferPassed { stream, reached, wait } => {
            shared.queue.wait_ends();
            let failed = if wait.has_failed() { Err(CudaError::EXTERNAL_DEVICE) } else { Ok(()) };
            report(shared, stream, reached, outcome.and(failed))
        }
        Action::TransferFails { stream, reached } => report(shared, stream, reached, Err(CudaError::EXTERNAL_DEVICE)),
        Action::DropPage(signals) => {
            release(open, releases, Release::Signals(signals));
            Ok(())
        }
        Action::Report { stream, reached } => report(shared, stream, reached, outcome),
        Action::WordsDone { stream, reached, waits } => {
            if waits {
                shared.queue.wait_ends();
            }
            shared.mirrors.tell_words(task.sequence, &shared.sender)?;
            report(shared, stream, reached, outcome)
        }
        Action::RunHostFunction(function) => {
            shared.show_printed(outcome.is_err())?;
            shared.sender.queue(&RunHostFunction { function, status: 0 }).map(|_| ())
        }
    }
}

/// Has memory given up beside this thread.
fn release<D: Device>(open: &Open, releases: &Channel<Release<D>>, release: Release<D>) {
    open.change(1);
    if let Err(unsent) = releases.send(release) {
        // The session is over: what it holds of the device goes with the process.
        std::mem::forget(unsent);
        open.change(-1);
    }
}

/// Answers a request whose work is over.
fn reply<D: Device>(
    shared: &Shared<D>,
    request: u64,
    completions: &[Arc<CompletionEvent<D>>],
    error: Option<CudaError>,
) -> Result<(), LinkError> {
    let failed = error.is_some() || shared.failures.any();
    if failed || shared.printing.is_possible() {
        completions.iter().for_each(|completion| completion.settle());
    }
    if error.is_some_and(CudaError::is_sticky) {
        // No event can be recorded any more, and what the kernel said last is still to be written out.
        let _ = shared.device.ctx_synchronize();
    }
    shared.show_printed(failed)?;
    shared.queue_reply(request, error.map_or(0, CudaError::code), &[])
}

fn report<D: Device>(
    shared: &Shared<D>,
    stream: StreamId,
    reached: u64,
    outcome: CudaResult<()>,
) -> Result<(), LinkError> {
    let status = outcome.map_or_else(CudaError::code, |()| 0);
    shared.show_printed(outcome.is_err())?;
    shared.sender.queue(&Progress { stream, sequence: reached, status }).map(|_| ())
}

/// Sends a piece from where the device wrote it.
fn deliver<D: Device>(
    shared: &Shared<D>,
    request: u64,
    range: &DownloadRange<D>,
    offset: u64,
) -> Result<(), LinkError> {
    let mut sent = Ok(0);
    range.memory.lend(range.offset, range.bytes, &mut |bytes| {
        sent = shared.sender.queue(&Delivery { request, offset, bytes });
    });
    sent.map(|_| ())
}
