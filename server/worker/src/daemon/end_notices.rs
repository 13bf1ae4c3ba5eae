//! The daemon's word to a worker that its session is to end, and why.
//! In and out: plain data.
//! The daemon kills the worker soon after in any case: the word is for the client.

use serde::{Deserialize, Serialize};

/// The most bytes of a sentence about an end; the daemon cuts longer ones.
pub const MOST_WORDS: usize = 512;

/// The session is to end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndOrder {
    /// Why, for the client: a sentence with the session's number.
    pub words: String,
}
