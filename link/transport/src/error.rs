//! Why a link is over.
//! Every error says what was being done; the operating system's reason is the source.
//! It never says what the session should do about it.

use std::io;
use std::time::Duration;

use floe_wire::DecodeError;
use thiserror::Error;

/// Why a link is over, or could not be made.
#[derive(Debug, Error)]
pub enum LinkError {
    /// The operating system refused.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The peer said nothing in time.
    #[error("{what}: nothing after {}.{:03} s", .after.as_secs(), .after.subsec_millis())]
    TimedOut {
        /// What was being done.
        what: String,
        /// How long it was waited for.
        after: Duration,
    },
    /// The peer closed the connection inside a frame.
    #[error("the connection ended inside a frame: {have} of {needed} bytes")]
    CutOff {
        /// Bytes of the frame that came.
        have: usize,
        /// Bytes the frame has.
        needed: usize,
    },
    /// A frame that is none.
    #[error(transparent)]
    Frame(#[from] DecodeError),
    /// Frames were lost, repeated or reordered.
    #[error("frame out of sequence: {got}, expected: {expected}")]
    Sequence {
        /// The sequence the next frame must have.
        expected: u64,
        /// The one it has.
        got: u64,
    },
    /// A frame's data are not as long as its head says.
    #[error("a frame says it carries {said} bytes of data, it carries: {is}")]
    Length {
        /// What the head says.
        said: u32,
        /// What there is.
        is: usize,
    },
    /// The link leads to another machine, or might.
    #[error("only a link over a Unix socket carries descriptors")]
    NoDescriptors,
    /// This side has closed the link.
    #[error("the link is closed")]
    Closed,
}

impl LinkError {
    pub(crate) fn system(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::System { what: what.into(), source: source.into() }
    }

    /// Whether the peer broke the contract, as opposed to having gone away.
    #[must_use]
    pub fn is_broken_contract(&self) -> bool {
        matches!(self, Self::Frame(_) | Self::Sequence { .. } | Self::CutOff { .. } | Self::Length { .. })
    }
}
