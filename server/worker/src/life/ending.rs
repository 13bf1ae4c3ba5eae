//! Why a session ends.
//! In: what became of its connections, and of the device. Out: one reason, and the error that the client gets.

use std::time::Duration;

use floe_abi::CudaError;
use floe_transport::LinkError;
use thiserror::Error;

/// Why a session ended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Ending {
    /// The client closed its connection.
    #[error("the client left")]
    ClientLeft,
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Link(String),
    /// A protocol violation by the client.
    #[error("protocol violation by the client: {0}")]
    ProtocolViolation(String),
    /// The device cannot serve the session.
    #[error("the device cannot serve the session: {what}: {error}")]
    Device {
        /// The operation that failed.
        what: String,
        /// The driver's error.
        error: CudaError,
    },
    /// The client sent nothing for as long as the operator allows.
    #[error("the client sent nothing for {} s, and the server's operator allows no more", .0.as_secs_f64())]
    Idle(Duration),
    /// The daemon has it end, in these words.
    #[error("{0}")]
    Ordered(String),
    /// Another worker of this server serves it from here on.
    #[error("the session has moved to another worker")]
    Moved,
    /// A session that was to move here stays where it was.
    #[error("the session did not arrive: {0}")]
    NotArrived(String),
    /// The worker itself failed.
    #[error("the worker failed: {0}")]
    Bug(String),
}

impl Ending {
    /// The CUDA error that the client gets; `None` when the client is gone.
    #[must_use]
    pub fn told(&self) -> Option<CudaError> {
        match self {
            Self::ClientLeft | Self::Link(_) | Self::Moved | Self::NotArrived(_) => None,
            Self::ProtocolViolation(_) => Some(CudaError::INVALID_VALUE),
            Self::Device { error, .. } => Some(*error),
            Self::Idle(_) | Self::Ordered(_) => Some(CudaError::DEVICE_UNAVAILABLE),
            Self::Bug(_) => Some(CudaError::UNKNOWN),
        }
    }

    pub(crate) fn no_thread(error: &std::io::Error) -> Self {
        Self::Bug(format!("a thread does not start: {error}"))
    }
}

/// Why nothing more comes in on a connection.
#[derive(Debug)]
pub(crate) enum InputEnd {
    /// The client has gone, or is about to.
    Closed,
    /// The session is over.
    Over,
    /// The reader is to rest; the connection goes on.
    Stopped,
    /// A protocol violation by the client.
    ProtocolViolation(String),
    /// The connection broke.
    Link(LinkError),
}

impl InputEnd {
    /// Why the session is over; `None` where somebody else knows that.
    pub(crate) fn ending(self) -> Option<Ending> {
        match self {
            Self::Closed => Some(Ending::ClientLeft),
            Self::Over | Self::Stopped => None,
            Self::ProtocolViolation(words) => Some(Ending::ProtocolViolation(words)),
            Self::Link(error) => Some(link_ending(&error)),
        }
    }
}

impl From<LinkError> for InputEnd {
    fn from(error: LinkError) -> Self {
        match error {
            // A client that goes in the middle of a frame goes all the same.
            LinkError::CutOff { .. } => Self::Closed,
            LinkError::Closed => Self::Over,
            LinkError::Stopped => Self::Stopped,
            error if error.is_broken_contract() => Self::ProtocolViolation(error.to_string()),
            error => Self::Link(error),
        }
    }
}

/// To a sending thread, a client that has left is a broken connection.
pub(crate) fn link_ending(error: &LinkError) -> Ending {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
    match error {
        LinkError::System { source, .. } if matches!(source.kind(), BrokenPipe | ConnectionReset) => Ending::ClientLeft,
        LinkError::NotMadeAgain(grace) => {
            Ending::Link(format!("its client did not make it again within {:.3} s", grace.as_secs_f64()))
        }
        other => Ending::Link(other.to_string()),
    }
}
