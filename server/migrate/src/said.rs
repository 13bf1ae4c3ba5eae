//! What a worker says of a move.
//! In and out: plain data, as it goes from a worker to the daemon.
//! A worker may lie: what follows from a word is the coordinator's to decide.

use serde::{Deserialize, Serialize};

use crate::phase::{Phase, Progress};

/// One of the two workers of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The worker that has the session.
    Source,
    /// The worker that is to have it.
    Target,
}

/// What the session holds, as its worker says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Described {
    /// Bytes of device memory that the target must have: the session's blocks and arrays.
    pub bytes: u64,
    /// Objects that are to be made again.
    #[serde(default)]
    pub objects: u64,
}

/// A worker's word about a move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// The source: this is what the session holds, and nothing of it forbids a move.
    Described(Described),
    /// Either: this phase begins, or has come so far. The source's word says which phase the move is in. It says
    /// [`Phase::Park`] before it stops reading: the daemon then keeps the client's new connections.
    Phase(Phase, Progress),
    /// The source: it has un-parked itself, since its patience was over or something new has to be made first. The program
    /// runs, and the source tries again. The daemon allows three such retries.
    WentOn(String),
    /// The source: all state was sent. It does nothing any more until it is told to go on or to release.
    Frozen,
    /// The source: it leaves no longer, and the session goes on. Also the answer when it is told to go on.
    GaveUp(String),
    /// The target: everything has arrived, and was compared with what the source said.
    Ready,
    /// The target: it cannot be the session, and ends.
    Refused(String),
}
