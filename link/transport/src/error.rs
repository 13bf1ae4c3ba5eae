//! Why a link is over.
//! Every error says what was being done and why it failed in one sentence, so it has no source that says it again.
//! It never says what the session should do about it.

use std::io;
use std::time::Duration;

use floe_ring::BadIndex;
use floe_wire::DecodeError;
use rustix::io::Errno;
use thiserror::Error;

/// Why a pipe does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
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

/// Why a session's connection is not made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Nobody came back for so long.
    Grace(Duration),
    /// The session is not there any more.
    Gone,
    /// What is to be sent cannot be read, on this connection or another.
    Unreadable,
}

/// What a server said in the clear where a sealed answer belongs. Nobody has proved it: it is for people to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsealed {
    /// The code of the refusal, 0 where it is none.
    pub status: u32,
    /// Its words, or that there are none.
    pub detail: String,
}

/// Why a link is over, or could not be made.
#[derive(Debug, Error)]
pub enum LinkError {
    /// The operating system refused.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: String,
        /// Why it failed; a raw name, since the sentence has it already.
        r#source: io::Error,
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
    #[error("channel {channel}: {received} bytes cannot have come: {acknowledged} had before, {sent} were sent")]
    Acknowledgement {
        /// The channel.
        channel: u32,
        /// What the peer says.
        received: u64,
        /// What it said before.
        acknowledged: u64,
        /// What was sent.
        sent: u64,
    },
    /// What the peer has read is not what was sent.
    #[error(
        "channel {channel}: the {received} bytes that came are not those that were sent: one side has been set back to an earlier \
         state while the session went on\n  a session goes on in one process only: a restored image, snapshot or clone of it \
         cannot"
    )]
    History {
        /// The channel.
        channel: u32,
        /// How many the peer says it has.
        received: u64,
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
    /// A server answers a sealed greeting in the clear.
    #[error("it does not answer sealed: {}", .0.detail)]
    Unsealed(Unsealed),
    /// A server's answer does not prove that it knows the token.
    #[error("its answer does not prove that it knows the token")]
    Unproved,
    /// There is no token to seal a connection to another machine with.
    #[error("no token is set, and without one nothing goes to another machine over tcp://")]
    NoToken,
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

    /// Why it failed, without what was being done: for sentences that say that themselves.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::System { source, .. } => plain(source),
            Self::TimedOut { after, .. } => format!("no answer in {} s", after.as_secs_f32()),
            other => other.to_string(),
        }
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

    /// Whether a connection that was there ended in the midst.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        match self {
            Self::CutOff { .. } => true,
            Self::System { source, .. } => {
                matches!(source.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
            }
            _ => false,
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
                | Self::History { .. }
                | Self::Kind { .. }
                | Self::Index(_)
        )
    }
}

/// The system's reason as part of a sentence: without its number, in lower case.
#[must_use]
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split_once(" (os error").map_or(text.as_str(), |(words, _)| words);
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn a_reason_is_part_of_a_sentence_and_said_once() {
        let refused = || io::Error::from_raw_os_error(Errno::CONNREFUSED.raw_os_error());
        assert_eq!(plain(&refused()), "connection refused");
        assert_eq!(plain(&io::Error::other("")), "");
        let error = LinkError::system("connecting to tcp://h:1", refused());
        assert_eq!(error.reason(), "connection refused");
        assert!(error.to_string().starts_with("connecting to tcp://h:1: Connection refused"), "{error}");
        assert!(error.source().is_none());
        let late = LinkError::TimedOut { what: "connecting".into(), after: Duration::from_secs(10) };
        assert_eq!(late.reason(), "no answer in 10 s");
    }
}
