//! Why a link is over.
//! Every error says what was being done; the operating system's reason is the source.
//! It never says what the session should do about it.

use std::io;
use std::time::Duration;

use floe_ring::BadIndex;
use floe_wire::DecodeError;
use rustix::io::Errno;
use thiserror::Error;

use crate::lasting::Lost;

/// Why a pipe does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The operating system refuses; `PIPE` and `CONNRESET` say that the peer is gone.
    System(Errno),
    /// The peer broke what the two sides of a ring have agreed on.
    Index(BadIndex),
    /// The connection broke, and there will be no other.
    Lost(Lost),
}

impl From<Errno> for Failure {
    fn from(source: Errno) -> Self {
        Self::System(source)
    }
}

impl From<BadIndex> for Failure {
    fn from(source: BadIndex) -> Self {
        Self::Index(source)
    }
}

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
    /// The peer says it is where it cannot be in a ring.
    #[error(transparent)]
    Index(BadIndex),
    /// The peer says that more or fewer bytes have come than can have.
    #[error("place {place}: {received} bytes cannot have come: {acknowledged} had before, {sent} were sent")]
    Acknowledgement {
        /// The connection's place in its session.
        place: u32,
        /// What the peer says.
        received: u64,
        /// What it said before.
        acknowledged: u64,
        /// What was sent.
        sent: u64,
    },
    /// The connection broke, and nobody made it again.
    #[error("the connection broke and was not made again within {}.{:03} s", .0.as_secs(), .0.subsec_millis())]
    NotMadeAgain(Duration),
    /// The session has ended at the other side.
    #[error("the connection broke, and its session is not there any more")]
    Gone,
    /// Memory was given up before its copy was over.
    #[error("memory that a copy was to read is not there any more\n  free it behind a wait for the copy")]
    Unreadable,
    /// A part of bulk data that has no place.
    #[error("a chunk of {bytes} bytes at {offset} does not fit transfer {transfer}: {why}")]
    Chunk {
        /// The transfer it names.
        transfer: u64,
        /// Where it says it belongs.
        offset: u64,
        /// Its length.
        bytes: usize,
        /// What is wrong.
        why: &'static str,
    },
    /// A frame on a bulk connection that carries no bulk data.
    #[error("a bulk connection carries frames of kind {expected:#06x} only, not: {got:#06x}")]
    Kind {
        /// The kind of what it carries.
        expected: u16,
        /// The kind that came.
        got: u16,
    },
    /// The link leads to another machine, or might.
    #[error("only a link within one machine carries descriptors")]
    NoDescriptors,
    /// The two sides do not agree on TLS: a certificate is not trusted, or a peer speaks something else.
    #[error("TLS: {0}")]
    Tls(rustls::Error),
    /// A `tls://` address without authorities to trust.
    #[error(
        "no certificate authorities are named for a tls:// address\n  set FLOE_TLS_AUTHORITIES to the PEM file of those that \
         signed the server's certificate"
    )]
    NoTls,
    /// A peer that does not speak TLS where only TLS is spoken, or the other way round.
    #[error("{0}")]
    Speech(&'static str),
    /// This side has closed the link.
    #[error("the link is closed")]
    Closed,
}

impl LinkError {
    pub(crate) fn system(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::System { what: what.into(), source: source.into() }
    }

    /// What a pipe's failure means to the link.
    pub(crate) fn during(what: &str, failure: Failure) -> Self {
        match failure {
            Failure::System(source) => Self::system(what, source),
            Failure::Index(source) => Self::Index(source),
            Failure::Lost(Lost::Grace(grace)) => Self::NotMadeAgain(grace),
            Failure::Lost(Lost::Gone) => Self::Gone,
            Failure::Lost(Lost::Unreadable) => Self::Unreadable,
        }
    }

    /// Whether the peer broke the contract, as opposed to having gone away.
    #[must_use]
    pub fn is_broken_contract(&self) -> bool {
        matches!(
            self,
            Self::Frame(_)
                | Self::Sequence { .. }
                | Self::CutOff { .. }
                | Self::Length { .. }
                | Self::Chunk { .. }
                | Self::Acknowledgement { .. }
                | Self::Kind { .. }
                | Self::Index(_)
        )
    }
}
