//! What daemon and worker tell each other about the session's turns on a GPU that is shared by the daemon.
//! In and out: plain data.
//! It decides nothing: the daemon's scheduler (`floe-shares`) does.

use std::sync::mpsc::{Receiver, Sender};

use serde::{Deserialize, Serialize};

/// The daemon's order to a worker. A worker that has had none submits as it likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnOrder {
    /// The order's number, which reports name; each is higher than the one before.
    pub number: u64,
    /// What to do.
    pub word: Word,
}

/// What a worker is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// Submit as if there were no turns.
    Free,
    /// Submit, and rest when there is nothing to do. Others wait: keep little in flight, and rest soon.
    Go {
        /// Whether others wait.
        others_wait: bool,
        /// Whether to keep still less in flight, as this turn may end at any time. An older daemon does not say.
        #[serde(default)]
        brief: bool,
    },
    /// Submit nothing more. The answer is [`TurnSaid::Rests`].
    Stop,
}

/// A worker's word about its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnReport {
    /// The last order that the worker has had.
    pub order: u64,
    /// The word.
    pub said: TurnSaid,
}

/// What a worker says of its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnSaid {
    /// What it submitted is done, and it submits nothing more.
    Rests {
        /// Whether it has commands.
        wants: bool,
    },
    /// It submits nothing more, and what it submitted may wait for its program or for another session.
    Holds,
    /// It has commands, and has stopped.
    Wants,
}

/// What the thread that keeps a session's turns is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnEvent {
    /// By the daemon.
    Ordered(TurnOrder),
    /// By the issuer: it has stopped for the stop of this number.
    Stopped(u64),
    /// By the issuer: it has stopped for the stop of this number, and there are commands.
    Wants(u64),
}

/// A session's ways to the daemon for its turns.
pub struct TurnEnds {
    /// Where orders come, and the issuer's words.
    pub events: (Sender<TurnEvent>, Receiver<TurnEvent>),
    /// Reports to the daemon.
    pub report: Box<dyn Fn(TurnReport) + Send>,
}
