//! A wait that the issuer polls itself while it has nothing else to do.
//! In: the tasks of one command, where the completer has none. Out: each task when the GPU has come so far, or all of
//! them for the completer. It never delays a command: the next one ends it. A kept task sends no more than a reply of
//! the issuer, but for output of kernels.
//!
//! Most programs wait with nothing behind the wait. Without it each launch and its wait would pay for a switch to the
//! completer, and for the driver's locks and events in another processor's cache.

use std::collections::VecDeque;
use std::time::Instant;

use floe_device::Device;
use floe_transport::Spin;

use crate::complete::completer::{Action, Pace, Task, Tasks};

/// The most bytes of a delivery: as much as a reply may be, whose sender waits for no reader.
const MOST_BYTES: usize = 4 << 10;

/// The tasks that the issuer keeps: a delivery and the reply behind it, or a reply.
pub(crate) struct InlineWait<D: Device> {
    kept: VecDeque<Task<D>>,
    spin: Spin,
    pace: Pace,
}

/// The issuer's next step.
pub(crate) enum Next<D: Device> {
    /// Finish this: its work is over and has not failed.
    Finish(Task<D>),
    /// Poll again at once.
    PollAgain,
    /// Give the completer what is kept: it failed, or takes long.
    ToCompleter,
    /// There is nothing any more.
    Nothing,
}

impl<D: Device> InlineWait<D> {
    pub(crate) fn new(spin: Spin) -> Self {
        Self { kept: VecDeque::with_capacity(2), spin, pace: Pace::new(spin) }
    }

    pub(crate) fn is_kept(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Keeps a task, or gives it back.
    pub(crate) fn keep(&mut self, task: Task<D>, tasks: &Tasks<D>) -> Option<Task<D>> {
        if !self.is_for_here(&task, tasks) {
            return Some(task);
        }
        if self.kept.is_empty() {
            self.pace = Pace::new(self.spin);
        }
        self.kept.push_back(task);
        None
    }

    /// Nothing that the completer has must come before it, and it is soon said.
    fn is_for_here(&self, task: &Task<D>, tasks: &Tasks<D>) -> bool {
        match (&task.action, self.kept.back()) {
            (Action::Deliver { range, .. }, None) => range.bytes <= MOST_BYTES && tasks.is_idle(),
            (Action::Reply { failed: None }, None) => tasks.is_idle(),
            // A second delivery may find no room before the first has left.
            (Action::Reply { failed: None }, Some(last)) => last.sequence == task.sequence,
            _ => false,
        }
    }

    /// Looks whether the first has come to its end.
    pub(crate) fn poll(&mut self) -> Next<D> {
        let Some(first) = self.kept.front() else { return Next::Nothing };
        match first.outcome(|completion| completion.outcome()) {
            Some(Ok(())) => self.kept.pop_front().map_or(Next::Nothing, Next::Finish),
            Some(Err(_)) => Next::ToCompleter,
            None => self.pace.next(Instant::now()).map_or(Next::PollAgain, |_| Next::ToCompleter),
        }
    }

    /// All that is kept, in its order.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = Task<D>> {
        self.kept.drain(..)
    }
}
