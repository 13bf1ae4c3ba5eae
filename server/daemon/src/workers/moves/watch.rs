//! What becomes of a move, for the one who asked for it.
//! In: progress, the outcome. Out: the newest of both, and the wish to have no move.
//! It holds one of each: who reads slowly misses what is old.

use std::sync::mpsc::SyncSender;
use std::sync::{Condvar, Mutex};

use floe_migrate::{Input, Outcome, Phase, Progress};

/// What the one who asked for a move sees of it.
#[derive(Debug)]
pub(crate) struct Watch {
    state: Mutex<State>,
    changed: Condvar,
    to: SyncSender<Input>,
    /// The GPU that the session moves to.
    pub(crate) gpu: u32,
}

#[derive(Debug, Default)]
struct State {
    progress: Option<(Phase, Progress)>,
    ending: Option<Ending>,
}

/// The end of a move.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    pub(crate) outcome: Outcome,
    /// The process of the session's worker; 0: there is none.
    pub(crate) worker: u32,
}

/// What is new.
#[derive(Debug)]
pub(crate) enum News {
    Progress(Phase, Progress),
    Over(Box<Ending>),
}

impl Watch {
    pub(crate) fn new(gpu: u32, to: SyncSender<Input>) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), to, gpu }
    }

    pub(crate) fn goes(&self, phase: Phase, progress: Progress) {
        floe_lock::lock(&self.state).progress = Some((phase, progress));
        self.changed.notify_all();
    }

    pub(crate) fn is_over(&self, ending: Ending) {
        floe_lock::lock(&self.state).ending = Some(ending);
        self.changed.notify_all();
    }

    /// Waits for what is new.
    pub(crate) fn next(&self) -> News {
        let mut state = floe_lock::lock(&self.state);
        loop {
            if let Some((phase, progress)) = state.progress.take() {
                return News::Progress(phase, progress);
            }
            if let Some(ending) = state.ending.clone() {
                return News::Over(Box::new(ending));
            }
            state = self.changed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    /// The move is not wanted any more.
    pub(crate) fn cancel(&self) {
        // One that is over is not cancelled; one that has so much to read is asked again by the connection's end.
        let _ = self.to.try_send(Input::Cancelled);
    }
}
