//! Waits for connections on one address.
//! In: an address. Out: links with who is at the other end.
//! A Unix socket's file is its own: a stale one is replaced, a live one is not, and it is removed at the end.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::net::sockopt;

use crate::address::Address;
use crate::connect::{prepare_tcp, prepare_unix};
use crate::error::LinkError;
use crate::link::Link;

/// Who is at the other end of an accepted connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Another or this host, by TCP.
    Tcp(SocketAddr),
    /// A process of this host, as the kernel vouches.
    Unix {
        /// Its effective user id when it connected.
        uid: u32,
        /// Its process id when it connected.
        pid: i32,
    },
}

impl std::fmt::Display for Peer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => write!(formatter, "{address}"),
            Self::Unix { uid, pid } => write!(formatter, "process {pid} of user {uid}"),
        }
    }
}

/// Waits for connections on one address.
#[derive(Debug)]
pub struct Listener {
    inner: Inner,
    address: Address,
}

#[derive(Debug)]
enum Inner {
    Tcp(TcpListener),
    Unix { listener: UnixListener, path: PathBuf, inode: u64 },
}

impl Listener {
    /// Listens on `address`; TCP port 0 takes a free one.
    ///
    /// # Errors
    /// [`LinkError::System`] naming the address.
    pub fn bind(address: &Address) -> Result<Self, LinkError> {
        bind(address).map_err(|source| LinkError::system(format!("listening on {address}"), source))
    }

    /// Where it listens, with the port it really has.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The next connection, or `None` when there is none now: wait for [`AsFd`] to become readable.
    ///
    /// # Errors
    /// [`LinkError::System`] when the operating system gives no connection, for example for want of descriptors.
    pub fn accept(&self) -> Result<Option<(Link, Peer)>, LinkError> {
        match self.accept_socket() {
            Ok((socket, peer)) => {
                match peer {
                    Peer::Tcp(_) => prepare_tcp(&socket)?,
                    Peer::Unix { .. } => prepare_unix(&socket),
                }
                Ok(Some((Link::new(socket), peer)))
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionAborted) => {
                Ok(None)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(source) => Err(LinkError::system(format!("accepting on {}", self.address), source)),
        }
    }

    fn accept_socket(&self) -> io::Result<(OwnedFd, Peer)> {
        match &self.inner {
            Inner::Tcp(listener) => {
                let (stream, peer) = listener.accept()?;
                Ok((stream.into(), Peer::Tcp(peer)))
            }
            Inner::Unix { listener, .. } => {
                let (stream, _) = listener.accept()?;
                let who = sockopt::socket_peercred(&stream)?;
                Ok((stream.into(), Peer::Unix { uid: who.uid.as_raw(), pid: who.pid.as_raw_nonzero().get() }))
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.inner {
            Inner::Tcp(listener) => listener.as_fd(),
            Inner::Unix { listener, .. } => listener.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Inner::Unix { path, inode, .. } = &self.inner
            && path.symlink_metadata().is_ok_and(|metadata| metadata.ino() == *inode)
        {
            // It may be gone already; then there is nothing to remove.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn bind(address: &Address) -> io::Result<Listener> {
    match address {
        Address::Tcp { host, port } => {
            let listener = TcpListener::bind((host.as_str(), *port))?;
            listener.set_nonblocking(true)?;
            let port = listener.local_addr()?.port();
            Ok(Listener { inner: Inner::Tcp(listener), address: Address::Tcp { host: host.clone(), port } })
        }
        // Which of the two is spoken on a port is for what the clients say first.
        Address::Tls { .. } => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "listen on tcp:// and name a certificate"))
        }
        Address::Unix(path) | Address::Shm(path) | Address::Local(path) => {
            remove_stale(path)?;
            let listener = UnixListener::bind(path)?;
            listener.set_nonblocking(true)?;
            let inode = path.symlink_metadata()?.ino();
            Ok(Listener { inner: Inner::Unix { listener, path: path.clone(), inode }, address: address.clone() })
        }
    }
}

/// Removes a socket file nobody listens on any more; anything else stays and `bind` will refuse.
fn remove_stale(path: &Path) -> io::Result<()> {
    let is_socket = path.symlink_metadata().is_ok_and(|metadata| metadata.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
        std::fs::remove_file(path)?;
    }
    Ok(())
}
