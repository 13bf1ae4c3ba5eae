//! Opens a connection to a server and sets the socket up.
//! In: an address and a time limit. Out: a link on which nothing has been sent yet.
//! It tries each address of a name in order, within one time limit.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::address::Address;
use crate::error::LinkError;
use crate::link::Link;
use crate::pipes::socket_options::{prepare_tcp, prepare_unix};
use crate::pipes::tls::ClientTls;
use crate::secret::Secret;

/// What a client needs to connect.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trust<'a> {
    /// For a `tls://` address.
    pub tls: Option<&'a ClientTls>,
    /// The secret that seals a `tcp://` address.
    pub secret: Option<&'a Secret>,
}

/// Connects to `address` within `timeout`. The secret seals a `tcp://` address. Without a secret, a server on this
/// machine is reached in the clear, and any other is refused.
///
/// # Errors
/// [`LinkError`] naming the address when it does not resolve, refuses, or does not answer in time. [`LinkError::Tls`]:
/// its certificate is not trusted. [`LinkError::NoTls`], [`LinkError::NoToken`]: the certificates or the token it needs
/// are missing. [`LinkError::Unproved`], [`LinkError::Unsealed`]: the server does not seal by the same secret.
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

/// A link on which nothing has been sent, and the socket address it leads to.
fn connect_tcp(address: &Address, host: &str, port: u16, timeout: Duration) -> Result<(Link, SocketAddr), LinkError> {
    let what = || format!("connecting to {address}");
    let end = Instant::now() + timeout;
    let mut failure = None;
    // Replaces the resolver's own words: "failed to lookup address information", and a reason.
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
