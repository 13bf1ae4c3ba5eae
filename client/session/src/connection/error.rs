//! Why a session's connection could not be had. Each says what to do where there is something to be done; the code is what
//! the program gets.

use floe_abi::CudaError;
use floe_transport::{AddressError, LinkError, TlsError};
use floe_wire::{DecodeError, NEWEST_VERSION, OLDEST_VERSION};

use super::dial::{GOING_ON, JOINING};
use super::handshake::ATTACHING;

/// Why a vGPU could not be had.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The settings name no address.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Nobody answers there, or not as a server does.
    #[error("no floe server answers at {server}: {source}\n  start one there with: floe serve")]
    Link {
        /// Where.
        server: String,
        /// Why.
        source: LinkError,
    },
    /// It does not show a certificate that is trusted, or asks for one there is none of.
    #[error("{server} is there, and is not to be talked to: {source}")]
    Tls {
        /// Where.
        server: String,
        /// Why.
        source: LinkError,
    },
    /// Certificates or keys of this side are of no use.
    #[error(transparent)]
    Certificates(#[from] TlsError),
    /// The server closed the connection.
    #[error("the server closed the connection while {doing}: {server}")]
    Closed {
        /// Where.
        server: String,
        /// The step.
        doing: &'static str,
    },
    /// What came is not what a server says.
    #[error("{server} does not speak floe's protocol: {source}")]
    Garbled {
        /// Where.
        server: String,
        /// What is wrong.
        source: DecodeError,
    },
    /// It speaks another version of the protocol than it was offered.
    #[error(
        "{server} speaks version {version} of floe's protocol, this client {OLDEST_VERSION} to {NEWEST_VERSION}\n  take the same release of floe on both sides"
    )]
    Version {
        /// Where.
        server: String,
        /// What it picked.
        version: u32,
    },
    /// The server said no.
    #[error("{server} refused {doing}: {error}: {detail}")]
    Refused {
        /// Where.
        server: String,
        /// The step.
        doing: &'static str,
        /// Its CUDA code.
        error: CudaError,
        /// Its sentence.
        detail: String,
    },
    /// It wants a token and there is none.
    #[error(
        "{server} asks for a token and none is set\n  copy the server's token file here and set FLOE_TOKEN_FILE to its path"
    )]
    NoToken {
        /// Where.
        server: String,
    },
    /// Its own proof is wrong: it does not know the token.
    #[error("{server} does not know the token it asks for, so it is not the server the token belongs to")]
    Impostor {
        /// Where.
        server: String,
    },
    /// The reply to Attach makes no sense.
    #[error("{server} offers an address window that is not this vGPU's: {window:#x}")]
    Window {
        /// Where.
        server: String,
        /// What it offered.
        window: u64,
    },
    /// The device's granularity is none.
    #[error("{server} offers a device whose mappings have a size that cannot be: {granularity}")]
    Granularity {
        /// Where.
        server: String,
        /// What it said.
        granularity: u64,
    },
    /// The settings demand rings in shared memory and there are none.
    #[error("no shared memory for the connection to {server}: {why}\n  unix:// in the place of shm:// goes without")]
    NoRings {
        /// Where.
        server: String,
        /// What is in the way.
        why: String,
    },
    /// No thread for the link.
    #[error("no thread for the link to {server}: {source}")]
    Thread {
        /// Where.
        server: String,
        /// Why.
        source: std::io::Error,
    },
    /// No randomness for a nonce.
    #[error("the system gives no random bytes for a nonce: {0}")]
    Random(String),
}

impl ConnectError {
    /// The code `cuInit` answers with.
    pub fn code(&self) -> CudaError {
        match self {
            Self::Refused { error, doing, .. }
                if *doing == ATTACHING || *error == CudaError::SYSTEM_DRIVER_MISMATCH =>
            {
                *error
            }
            Self::Version { .. } => CudaError::SYSTEM_DRIVER_MISMATCH,
            _ => CudaError::SYSTEM_NOT_READY,
        }
    }

    /// Whether the server knows nothing of the session any more, or does not go on with it: another attempt changes nothing.
    pub(super) fn is_final(&self) -> bool {
        matches!(self, Self::Refused { doing, .. } if [JOINING, GOING_ON].contains(doing))
    }
}
