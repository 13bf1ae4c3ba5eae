//! Opens a connection to a server and sets the socket up.
//! In: an address and a time limit. Out: a link on which nothing has been said yet.
//! It tries each address a name has, in order, within the one time limit.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::address::Address;
use crate::error::LinkError;
use crate::link::Link;
use crate::pipes::socket_options::{prepare_tcp, prepare_unix};
use crate::pipes::tls::ClientTls;
use crate::secret::Secret;

/// What a client goes by when it connects.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trust<'a> {
    /// What a `tls://` address needs.
    pub tls: Option<&'a ClientTls>,
    /// What seals a `tcp://` address.
    pub secret: Option<&'a Secret>,
}

/// Connects to `address` within `timeout`. A `tcp://` address is sealed by the secret. Without one it is in the clear where the
/// server is on this machine, and not had elsewhere.
///
/// # Errors
/// [`LinkError`] naming the address when it does not resolve, refuses, or does not answer in time; [`LinkError::Tls`] where
/// its certificate is not trusted, [`LinkError::NoTls`] and [`LinkError::NoToken`] where what it needs is missing,
/// [`LinkError::Unproved`] and [`LinkError::Unsealed`] where a server does not seal by the same secret.
pub fn connect(address: &Address, timeout: Duration, trust: &Trust<'_>) -> Result<Link, LinkError> {
    let deadline = Instant::now() + timeout;
    match address {
        Address::Unix(path, _) => {
            let stream = UnixStream::connect(path)
                .map_err(|source| LinkError::system(format!("connecting to {address}"), source))?;
            let socket = stream.into();
            prepare_unix(&socket);
            Ok(Link::new(socket))
        }
        Address::Clear { host, port } => Ok(connect_tcp(address, host, *port, timeout)?.0),
        Address::Tcp { host, port } => {
            let (mut link, place) = connect_tcp(address, host, *port, timeout)?;
            match trust.secret {
                Some(secret) => link.seal(secret, deadline)?,
                None if place.ip().to_canonical().is_loopback() => {}
                None => return Err(LinkError::NoToken),
            }
            Ok(link)
        }
        Address::Tls { host, port } => {
            let tls = trust.tls.ok_or(LinkError::NoTls)?;
            let (mut link, _) = connect_tcp(address, host, *port, timeout)?;
            link.secure(tls, host, deadline)?;
            Ok(link)
        }
    }
}

/// A link on which nothing has been said, and where it leads.
fn connect_tcp(address: &Address, host: &str, port: u16, timeout: Duration) -> Result<(Link, SocketAddr), LinkError> {
    let what = || format!("connecting to {address}");
    let end = Instant::now() + timeout;
    let mut failure = None;
    // The resolver's own words are of its making: "failed to lookup address information", and the reason behind them.
    let unknown = |_| LinkError::system(what(), std::io::Error::new(std::io::ErrorKind::NotFound, "host not found"));
    for place in (host, port).to_socket_addrs().map_err(unknown)? {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(failure.unwrap_or(LinkError::TimedOut { what: what(), after: timeout }));
        }
        match TcpStream::connect_timeout(&place, left) {
            Ok(stream) => {
                let socket = stream.into();
                prepare_tcp(&socket)?;
                return Ok((Link::new(socket), place));
            }
            Err(source) if source.kind() == std::io::ErrorKind::TimedOut => {
                failure = Some(LinkError::TimedOut { what: what(), after: timeout });
            }
            Err(source) => failure = Some(LinkError::system(what(), source)),
        }
    }
    let none = || std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address");
    Err(failure.unwrap_or_else(|| LinkError::system(what(), none())))
}
