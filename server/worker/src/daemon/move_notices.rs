//! What daemon and worker tell each other about a move of the session to another worker.
//! In and out: plain data, and one descriptor at the beginning: the worker's end of the move stream.
//! It decides nothing: the daemon's coordinator (`floe-migrate`) does.
//!
//! Every word carries the move's number, so that a word about a move that is over is known as such.

use std::os::fd::OwnedFd;

pub use floe_migrate::{Described, Phase, Progress, Said};
use serde::{Deserialize, Serialize};

/// The most bytes of a sentence about a move; the daemon cuts longer ones.
pub const MOST_REASON: usize = 512;

/// What a session's worker is to do to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leave {
    /// The move's number; no other move of this daemon has it.
    pub number: u64,
    /// The number by which the target imports this worker's blocks: `Question::importer`, until the commit.
    pub importer: u64,
    /// Whether source and target have the same GPU. The target then keeps the memory that it imports.
    pub same_gpu: bool,
    /// Whether no memory is copied before the pause.
    pub stop_and_copy: bool,
    /// Whether the target has no GPU and keeps the session in host memory.
    #[serde(default)]
    pub keeps: bool,
    /// Milliseconds for park and drain together. If they take longer, the source goes on and says so ([`Said::WentOn`]).
    pub patience_ms: u64,
}

/// What the target of a move is started for, in its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// The move's number.
    pub number: u64,
    /// The target's own number at the broker until the commit: claims of its imports name it. After [`MoveOrder::Go`] the
    /// broker knows the target by `Task::session`, and no import of before stands there any more.
    pub importer: u64,
    /// Whether source and target have the same GPU.
    pub same_gpu: bool,
    /// Whether no memory is copied before the pause.
    pub stop_and_copy: bool,
    /// It gets no GPU and keeps the session, in so many bytes of host memory at most.
    #[serde(default)]
    pub keeps: Option<u64>,
}

/// The daemon's word to a worker about a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MoveOrder {
    /// To the source, with its end of the move stream: begin. Its answer is [`Said::Described`] or [`Said::GaveUp`].
    Leave(Leave),
    /// To the target, with its end of the move stream, ahead of all connections. Its task says the rest.
    Arrive(u64),
    /// To the source: the move of this number is off, whatever it has said. The session goes on. Its answer, once it does, is
    /// [`Said::GaveUp`].
    GoOn(u64),
    /// To the source: the session is the target's. It ends without a word to the client.
    Release(u64),
    /// To the target: it is the session. Connections of the client may come just ahead of this word: they wait for it.
    Go(u64),
}

/// An order, with the descriptor that came along: of [`MoveOrder::Leave`] and [`MoveOrder::Arrive`].
#[derive(Debug)]
pub struct Ordered {
    /// The order.
    pub order: MoveOrder,
    /// The worker's end of the move stream.
    pub stream: Option<OwnedFd>,
}

/// A worker's word about a move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveReport {
    /// The move's number.
    pub number: u64,
    /// The word.
    pub said: Said,
}
