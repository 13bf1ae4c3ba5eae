//! The reasons why a session's connection could not be made. Each names its cause once, within its sentence, so none
//! has a source that repeats it. The next line says what to do, if anything; the program gets the code.

use floe_abi::CudaError;
use floe_transport::{Address, AddressError, LinkError, TlsError, Transport, Unsealed};
use floe_wire::{DecodeError, NEWEST_VERSION, OLDEST_VERSION};

use super::dial::{GOING_ON, JOINING};
use super::handshake::ATTACHING;

/// The reason why a vGPU could not be attached.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The settings name no address.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Nobody answers there.
    #[error("no server at {server}: {}\n  {}", source.reason(), advice(source))]
    Unreachable {
        /// The server's address.
        server: String,
        /// The cause.
        r#source: LinkError,
    },
    /// The connection broke before there was a session, or the peer is no server.
    #[error("the connection to {server} broke: {}\n  is it a floe server? its log says why it closed the connection", source.reason())]
    Link {
        /// The server's address.
        server: String,
        /// The cause.
        r#source: LinkError,
    },
    /// It does not show a certificate that is trusted, or asks for one there is none of.
    #[error("no TLS connection to {server}: {source}")]
    Tls {
        /// The server's address.
        server: String,
        /// The cause.
        r#source: LinkError,
    },
    /// Certificates or keys of this side are of no use.
    #[error(transparent)]
    Certificates(#[from] TlsError),
    /// It knows no token, and this client has one.
    #[error("{server} knows no token, so it may be anybody\n  where it is meant to know none: FLOE_NO_TOKEN=1")]
    KnowsNoToken {
        /// The server's address.
        server: String,
    },
    /// A server answers in the clear where a sealed answer belongs.
    #[error(
        "{server} does not speak sealed: {detail}\n  take the same release of floe on both sides; clear:// and tls:// are for \
         servers that are started so"
    )]
    Unsealed {
        /// The server's address.
        server: String,
        /// Its words, which nobody has proved.
        detail: String,
    },
    /// There is no token to seal with.
    #[error(
        "no token is set for {server}, and without one nothing goes to another machine over tcp://\n  {}",
        COPY_TOKEN
    )]
    NothingToSealWith {
        /// The server's address.
        server: String,
    },
    /// It does not ask for the token that is set, so nothing tells who it is.
    #[error(
        "{server} asks for no proof of the token that is set, so it may be anybody\n  where it is meant to know none: \
         FLOE_NO_TOKEN=1"
    )]
    NoProof {
        /// The server's address.
        server: String,
    },
    /// The server closed the connection.
    #[error("the server closed the connection while {doing}: {server}")]
    Closed {
        /// The server's address.
        server: String,
        /// The step.
        doing: &'static str,
    },
    /// The bytes that came are no message of a server.
    #[error("{server} does not speak floe's protocol: {source}\n  is it a floe server?")]
    Garbled {
        /// The server's address.
        server: String,
        /// The decoder's error.
        r#source: DecodeError,
    },
    /// It speaks another version of the protocol than it was offered.
    #[error(
        "{server} speaks version {version} of floe's protocol, this client {OLDEST_VERSION} to {NEWEST_VERSION}\n  take the same release of floe on both sides"
    )]
    Version {
        /// The server's address.
        server: String,
        /// The version that it picked.
        version: u32,
    },
    /// The server said no.
    #[error("{server} refused {doing}: {}", reason(*error, detail))]
    Refused {
        /// The server's address.
        server: String,
        /// The step.
        doing: &'static str,
        /// Its CUDA code.
        error: CudaError,
        /// Its sentence.
        detail: String,
    },
    /// It has another token.
    #[error("{server} refused the token: it is not the one this server made\n  {}", COPY_TOKEN)]
    WrongToken {
        /// The server's address.
        server: String,
    },
    /// It wants a token and there is none.
    #[error("{server} asks for a token and none is set\n  {}", COPY_TOKEN)]
    NoToken {
        /// The server's address.
        server: String,
    },
    /// Its own proof is wrong: it does not know the token.
    #[error("{server} does not prove that it knows the token, so it is not the server the token belongs to")]
    Impostor {
        /// The server's address.
        server: String,
    },
    /// The reply to Attach makes no sense.
    #[error("{server} offers an address window that is not this vGPU's: {window:#x}")]
    Window {
        /// The server's address.
        server: String,
        /// The window that it offered.
        window: u64,
    },
    /// The device's granularity is none.
    #[error("{server} offers a device with an impossible mapping granularity: {granularity}")]
    Granularity {
        /// The server's address.
        server: String,
        /// The granularity that it named.
        granularity: u64,
    },
    /// The address demands a transport that the session cannot have.
    #[error(
        "no {} for the connection to {server}: {why}\n  unix:// in the place of {}:// goes without",
        .transport.carrier(),
        .transport.name()
    )]
    NoTransport {
        /// The server's address.
        server: String,
        /// Which.
        transport: Transport,
        /// The obstacle.
        why: String,
    },
    /// No thread for the link.
    #[error("no thread for the link to {server}: {source}")]
    Thread {
        /// The server's address.
        server: String,
        /// The cause.
        r#source: std::io::Error,
    },
    /// No randomness for a nonce.
    #[error("the system gives no random bytes for a nonce: {0}")]
    Random(String),
}

/// The advice about a missing or wrong token.
const COPY_TOKEN: &str = "copy the server's token file here: ~/.config/floe/token, or where FLOE_TOKEN_FILE says";

/// The advice for an address at which nobody answers.
fn advice(source: &LinkError) -> &'static str {
    use std::io::ErrorKind as Is;
    match source {
        LinkError::System { source, .. } => match source.kind() {
            Is::ConnectionRefused => "start one there: floe serve",
            Is::NotFound if source.raw_os_error().is_some() => "start one: floe serve, which says where its socket is",
            Is::NotFound => "write the name as the network knows it, or the address: HOST:GPU, HOST:PORT:GPU",
            Is::PermissionDenied => {
                "only the server's own user may use this socket; others use its TCP address and token"
            }
            _ => "is the network there, and the machine in reach?",
        },
        _ => "is the machine up, and its port open to this one?",
    }
}

/// A server's own words; its code where it has none.
fn reason(error: CudaError, detail: &str) -> String {
    if detail.is_empty() { error.to_string() } else { detail.to_owned() }
}

impl ConnectError {
    /// Why there is no connection.
    pub(super) fn of_connecting(server: &str, address: &Address, source: LinkError) -> Self {
        use std::io::ErrorKind as Is;
        let server = server.to_owned();
        let code = |unsealed: &Unsealed| CudaError::from_code(unsealed.status);
        match source {
            LinkError::Tls(_) | LinkError::NoTls => Self::Tls { server, source },
            LinkError::NoToken => Self::NothingToSealWith { server },
            LinkError::Unproved => Self::Impostor { server },
            LinkError::Unsealed(why) if code(&why) == Some(CudaError::NOT_PERMITTED) => Self::WrongToken { server },
            LinkError::Unsealed(why) if code(&why) == Some(CudaError::NOT_SUPPORTED) => Self::KnowsNoToken { server },
            LinkError::Unsealed(Unsealed { detail, .. }) => Self::Unsealed { server, detail },
            LinkError::CutOff { .. } => Self::Link { server, source },
            // It answered, and went away while keys were agreed on.
            LinkError::System { source: ref why, .. }
                if [Is::ConnectionReset, Is::BrokenPipe].contains(&why.kind()) =>
            {
                Self::Link { server, source }
            }
            source => Self::Unreachable { server: address.to_string(), source },
        }
    }

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

    /// Whether the connection was cut: another may not be.
    pub(super) fn is_cut(&self) -> bool {
        match self {
            Self::Closed { .. } => true,
            Self::Link { source, .. } | Self::Tls { source, .. } => source.is_cut(),
            _ => false,
        }
    }

    /// Whether the server no longer knows the session, or does not resume it: another attempt changes nothing.
    pub(super) fn is_final(&self) -> bool {
        matches!(self, Self::Refused { doing, .. } if [JOINING, GOING_ON].contains(doing))
    }

    /// Why the server has ended the session, if it says so.
    pub(super) fn end(&self) -> Option<&str> {
        match self {
            Self::Refused { error: CudaError::DEVICE_UNAVAILABLE, detail, .. } if self.is_final() => Some(detail),
            _ => None,
        }
    }
}
