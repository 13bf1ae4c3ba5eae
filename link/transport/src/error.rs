//! Why a link is over.
//! Every error names the action and the cause in one sentence, so it has no source to repeat it. It never decides what
//! the session does next.

use std::io;
use std::time::Duration;

use floe_ring::BadIndex;
use floe_wire::DecodeError;
use rustix::io::Errno;
use thiserror::Error;

/// Why a pipe failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The kernel refused; `PIPE` and `CONNRESET`: the peer is gone.
    System(Errno),
    /// The peer violated the protocol of the ring.
    Index(BadIndex),
    /// The connection broke, and there will be no other.
    Lost(Lost),
    /// The reader is to stop; nothing is lost.
    Stopped,
    /// The peer does not take this side's certificate: why.
    Certificate(&'static str),
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

/// Why a session does not reconnect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// No side reconnected within this grace period.
    Grace(Duration),
    /// The session has ended at the other side.
    Gone,
    /// Memory to be sent cannot be read, on this connection or another.
    Unreadable,
}

/// A server's answer in the clear where a sealed one belongs. Nobody has proved it: it is for people to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsealed {
    /// The code of the refusal, 0 if it is none.
    pub status: u32,
    /// Its words, or a note that there are none.
    pub detail: String,
}

/// Why a link is over, or could not be made.
#[derive(Debug, Error)]
pub enum LinkError {
    /// The kernel refused.
    #[error("{what}: {source}")]
    System {
        /// The action.
        what: String,
        /// The cause; a raw name, since the sentence has it already.
        r#source: io::Error,
    },
    /// The peer sent nothing in time.
    #[error("{what}: nothing after {}.{:03} s", .after.as_secs(), .after.subsec_millis())]
    TimedOut {
        /// The action.
        what: String,
        /// How long this side waited.
        after: Duration,
    },
    /// The peer closed the connection inside a frame.
    #[error("the connection ended inside a frame: {have} of {needed} bytes")]
    CutOff {
        /// Bytes of the frame that arrived.
        have: usize,
        /// Bytes that the frame needs.
        needed: usize,
    },
    /// Bytes that are no frame.
    #[error(transparent)]
    Frame(#[from] DecodeError),
    /// Frames were lost, repeated or reordered.
    #[error("frame out of sequence: {got}, expected: {expected}")]
    Sequence {
        /// The sequence the next frame must have.
        expected: u64,
        /// The sequence that it has.
        got: u64,
    },
    /// A frame's data do not have the announced length.
    #[error("a frame announces {said} bytes of data, it carries: {is}")]
    Length {
        /// The announced length.
        said: u32,
        /// The actual length.
        is: usize,
    },
    /// The peer's index of a ring is impossible.
    #[error(transparent)]
    Index(BadIndex),
    /// The peer acknowledges an impossible number of bytes.
    #[error(
        "channel {channel}: {received} bytes cannot have arrived: {acknowledged} were acknowledged, {sent} were sent"
    )]
    Acknowledgement {
        /// The channel.
        channel: u32,
        /// The number that the peer acknowledges.
        received: u64,
        /// The number that it acknowledged before.
        acknowledged: u64,
        /// The number that was sent.
        sent: u64,
    },
    /// The peer has read other bytes than those that were sent.
    #[error(
        "channel {channel}: the {received} bytes that arrived differ from those sent: one side was set back to an earlier state \
         while the session continued\n  continue a session in one process only, not in a restored image, snapshot or clone of it"
    )]
    History {
        /// The channel.
        channel: u32,
        /// How many bytes the peer reports.
        received: u64,
    },
    /// The connection broke, and no side reconnected.
    #[error("the connection broke, and nobody reconnected within {}.{:03} s", .0.as_secs(), .0.subsec_millis())]
    NotMadeAgain(Duration),
    /// The session has ended at the other side.
    #[error("the connection broke, and its session has ended")]
    Gone,
    /// Memory was freed before its copy was complete.
    #[error(
        "the source memory of a copy was freed before the copy was complete\n  wait for the copy, then free the memory"
    )]
    Unreadable,
    /// A chunk that does not fit its transfer.
    #[error("a chunk of {bytes} bytes at {offset} does not fit transfer {transfer}: {why}")]
    Chunk {
        /// The transfer it names.
        transfer: u64,
        /// The offset that it names.
        offset: u64,
        /// Its length.
        bytes: usize,
        /// The mistake.
        why: &'static str,
    },
    /// A frame of another kind on a bulk connection.
    #[error("a bulk connection carries frames of kind {expected:#06x} only, not: {got:#06x}")]
    Kind {
        /// The kind that it carries.
        expected: u16,
        /// The kind that arrived.
        got: u16,
    },
    /// The link leads to another machine, or may lead to one.
    #[error("only a link within one machine carries descriptors")]
    NoDescriptors,
    /// The two sides do not agree on TLS: a certificate is not trusted, or a peer speaks something else.
    #[error("TLS: {}", words(.0))]
    Tls(rustls::Error),
    /// The server does not take the certificate that this client has shown, or not shown.
    #[error("the server refuses this client's certificate: {0}\n  FLOE_TLS_CERTIFICATE and FLOE_TLS_KEY name another")]
    CertificateRefused(&'static str),
    /// A `tls://` address without authorities to trust.
    #[error(
        "a tls:// address needs certificate authorities\n  set FLOE_TLS_AUTHORITIES to the PEM file of those that signed the \
         server's certificate"
    )]
    NoTls,
    /// A server answers a sealed first message in the clear.
    #[error("its answer is in the clear: {}", .0.detail)]
    Unsealed(Unsealed),
    /// A server's answer does not prove that it knows the token.
    #[error("its answer does not prove that it knows the token")]
    Unproved,
    /// There is no token to seal a connection to another machine.
    #[error("no token is set, and without one nothing goes to another machine over tcp://")]
    NoToken,
    /// The peer does not protect the connection as this side must have it.
    #[error("{0}")]
    Speech(&'static str),
    /// The reader was asked to stop at a frame's border; it may go on.
    #[error("the reader was asked to stop")]
    Stopped,
    /// This side has closed the link.
    #[error("the link is closed")]
    Closed,
}

/// What TLS says, where it would print a value of this crate's instead of its text.
fn words(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(rustls::CertificateError::Other(own)) => {
            format!("invalid peer certificate: {}", own.0)
        }
        other => other.to_string(),
    }
}

impl LinkError {
    pub(crate) fn system(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::System { what: what.into(), source: source.into() }
    }

    /// The cause without the action, for sentences that name the action themselves.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::System { source, .. } => plain(source),
            Self::TimedOut { after, .. } => format!("no answer in {} s", after.as_secs_f32()),
            other => other.to_string(),
        }
    }

    /// The error of a link whose pipe failed.
    pub(crate) fn during(what: &str, failure: Failure) -> Self {
        match failure {
            Failure::System(source) => Self::system(what, source),
            Failure::Index(source) => Self::Index(source),
            Failure::Stopped => Self::Stopped,
            Failure::Certificate(why) => Self::CertificateRefused(why),
            Failure::Lost(Lost::Grace(grace)) => Self::NotMadeAgain(grace),
            Failure::Lost(Lost::Gone) => Self::Gone,
            Failure::Lost(Lost::Unreadable) => Self::Unreadable,
        }
    }

    /// Whether an established connection was cut.
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

    /// Whether the peer's certificate was refused.
    #[must_use]
    pub fn refuses_certificate(&self) -> bool {
        matches!(self, Self::Tls(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented))
    }

    /// Whether the peer violated the protocol, as opposed to having left.
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

/// The kernel's reason as part of a sentence: without its number, in lower case.
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
