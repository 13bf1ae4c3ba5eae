//! The address of a server and its transport: `tcp://host:port`, `host`, `host:port`, `[v6]:port`, and the same with
//! `tls://` and `clear://`. On this machine: `unix:///path`, `shm:///path`, or a path alone for the best transport that
//! both sides have.
//! In: text that a person wrote. Out: an address, or the mistake in the text.
//! It resolves no names and opens nothing.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use thiserror::Error;

use crate::transport::Transport;

/// The default TCP port.
pub const DEFAULT_PORT: u16 = 14833;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// TCP, sealed by the token: a host name or IP address (without brackets) and a port.
    Tcp {
        /// Name or IP address.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// TCP in the clear.
    Clear {
        /// Name or IP address.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// TLS over TCP.
    Tls {
        /// Name or IP address, which the server's certificate must name.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// A Unix socket's path, and the transport to which its sessions switch.
    Unix(PathBuf, TransportWish),
}

/// The transport to which a session switches from the socket over which client and worker meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransportWish {
    /// None: it stays on the socket.
    Stay,
    /// This one, where both sides have it.
    WherePossible(Transport),
    /// This one: without it the session fails.
    Always(Transport),
}

impl Address {
    /// A Unix socket that carries everything.
    #[must_use]
    pub fn unix(path: PathBuf) -> Self {
        Self::Unix(path, TransportWish::Stay)
    }

    /// The transport to which a session at this address switches.
    #[must_use]
    pub fn transport(&self) -> TransportWish {
        match self {
            Self::Tcp { .. } | Self::Clear { .. } | Self::Tls { .. } => TransportWish::Stay,
            Self::Unix(_, wish) => *wish,
        }
    }
}

/// Why a text is not an address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AddressError {
    /// The host is missing.
    #[error("no host in address: {0:?}")]
    NoHost(String),
    /// The port is not a number from 0 to 65535.
    #[error("not a port: {port:?} in address: {address:?}")]
    Port {
        /// The text in the port's place.
        port: String,
        /// The whole text.
        address: String,
    },
    /// A Unix socket's path must be absolute.
    #[error("not an absolute path in address: {0:?}")]
    Path(String),
    /// The scheme is unknown.
    #[error("unknown scheme (tcp://, tls://, clear://, unix:// and shm:// are known) in address: {0:?}")]
    Scheme(String),
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let tcp = |(host, port)| Self::Tcp { host, port };
        let Some((scheme, rest)) = text.split_once("://") else {
            return if text.starts_with('/') {
                Ok(Self::Unix(text.into(), TransportWish::WherePossible(Transport::Rings)))
            } else {
                host_and_port(text, text).map(tcp)
            };
        };
        match scheme {
            "tcp" => host_and_port(rest, text).map(tcp),
            "clear" => host_and_port(rest, text).map(|(host, port)| Self::Clear { host, port }),
            "tls" => host_and_port(rest, text).map(|(host, port)| Self::Tls { host, port }),
            scheme => match met_at_a_path(scheme) {
                Some(_) if !rest.starts_with('/') => Err(AddressError::Path(text.to_owned())),
                Some(wish) => Ok(Self::Unix(rest.into(), wish)),
                None => Err(AddressError::Scheme(text.to_owned())),
            },
        }
    }
}

/// The transport to which a session over a Unix socket switches, by the scheme of its address.
fn met_at_a_path(scheme: &str) -> Option<TransportWish> {
    match Transport::named(scheme) {
        Some(Transport::Socket) => None,
        Some(other) => Some(TransportWish::Always(other)),
        None => (scheme == "unix").then_some(TransportWish::Stay),
    }
}

fn host_and_port(rest: &str, whole: &str) -> Result<(String, u16), AddressError> {
    let (host, port) = if let Some((host, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        match after.strip_prefix(':') {
            None if !after.is_empty() => return Err(AddressError::NoHost(whole.to_owned())),
            port => (host, port),
        }
    } else if rest.matches(':').count() > 1 {
        (rest, None) // a bare IPv6 address
    } else {
        rest.split_once(':').map_or((rest, None), |(host, port)| (host, Some(port)))
    };
    if host.is_empty() || host.contains(['/', ' ', ',']) {
        return Err(AddressError::NoHost(whole.to_owned()));
    }
    let port = match port {
        None => DEFAULT_PORT,
        Some(text) => {
            text.parse().map_err(|_| AddressError::Port { port: text.to_owned(), address: whole.to_owned() })?
        }
    };
    Ok((host.to_owned(), port))
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, host, port) = match self {
            Self::Unix(path, TransportWish::Stay) => return write!(formatter, "unix://{}", path.display()),
            Self::Unix(path, TransportWish::WherePossible(_)) => return write!(formatter, "{}", path.display()),
            Self::Unix(path, TransportWish::Always(transport)) => {
                return write!(formatter, "{}://{}", transport.name(), path.display());
            }
            Self::Tcp { host, port } => ("tcp", host, port),
            Self::Clear { host, port } => ("clear", host, port),
            Self::Tls { host, port } => ("tls", host, port),
        };
        if host.contains(':') {
            write!(formatter, "{scheme}://[{host}]:{port}")
        } else {
            write!(formatter, "{scheme}://{host}:{port}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> Result<Address, AddressError> {
        Ok(Address::Tcp { host: host.to_owned(), port })
    }

    #[test]
    fn every_form_is_read() {
        assert_eq!("tcp://node7:5000".parse(), tcp("node7", 5000));
        assert_eq!("node7".parse(), tcp("node7", DEFAULT_PORT));
        assert_eq!("10.0.0.1:1".parse(), tcp("10.0.0.1", 1));
        assert_eq!("[::1]:9".parse(), tcp("::1", 9));
        assert_eq!("::1".parse(), tcp("::1", DEFAULT_PORT));
        assert_eq!("tcp://[fe80::2]".parse(), tcp("fe80::2", DEFAULT_PORT));
        let unix = |wish| Ok(Address::Unix("/run/floe".into(), wish));
        assert_eq!("unix:///run/floe".parse(), unix(TransportWish::Stay));
        assert_eq!("shm:///run/floe".parse(), unix(TransportWish::Always(Transport::Rings)));
        assert_eq!("/run/floe".parse(), unix(TransportWish::WherePossible(Transport::Rings)));
    }

    #[test]
    fn what_is_shown_is_read_back() {
        let local = ["unix:///run/floe", "shm:///run/floe", "/run/floe"];
        let network = ["tcp://node7:5000", "tcp://[::1]:9", "tls://node7:5000", "tls://[::1]:9", "clear://[::1]:9"];
        for text in network.into_iter().chain(local) {
            assert_eq!(text.parse::<Address>().map(|address| address.to_string()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!("node:x".parse::<Address>(), Err(AddressError::Port { port: "x".into(), address: "node:x".into() }));
        assert_eq!("".parse::<Address>(), Err(AddressError::NoHost(String::new())));
        assert_eq!(":5".parse::<Address>(), Err(AddressError::NoHost(":5".into())));
        assert_eq!("[::1]x".parse::<Address>(), Err(AddressError::NoHost("[::1]x".into())));
        assert_eq!("unix://run".parse::<Address>(), Err(AddressError::Path("unix://run".into())));
        assert_eq!("shm://run".parse::<Address>(), Err(AddressError::Path("shm://run".into())));
        assert_eq!("http://x".parse::<Address>(), Err(AddressError::Scheme("http://x".into())));
        assert_eq!("socket:///x".parse::<Address>(), Err(AddressError::Scheme("socket:///x".into())));
    }
}
