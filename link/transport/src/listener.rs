//! Waits for connections on one address.
//! In: an address, or a socket that listens already. Out: links, each with its peer.
//! It owns the file of a Unix socket that it has bound: it replaces a stale one, never a live one, and removes its own at the end.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;

use crate::address::Address;
use crate::error::LinkError;
use crate::link::Link;
use crate::peer::Peer;

/// Connections that the kernel queues until they are accepted: with a thousand at once, no client has to retry after a
/// second. The kernel caps it at its own limit.
const BACKLOG: i32 = 4096;

/// Waits for connections on one address.
#[derive(Debug)]
pub struct Listener {
    inner: Inner,
    address: Address,
    /// Whether another process has this socket, too, and goes on listening.
    is_shared: bool,
}

#[derive(Debug)]
enum Inner {
    Tcp(TcpListener),
    Unix {
        listener: UnixListener,
        /// The file that goes with it; `None`: somebody else's.
        file: Option<(PathBuf, u64)>,
    },
}

impl Listener {
    /// Listens on `address`; TCP port 0 takes a free one.
    ///
    /// # Errors
    /// [`LinkError::System`] naming the address.
    pub fn bind(address: &Address) -> Result<Self, LinkError> {
        bind(address).map_err(|source| LinkError::system(format!("listening on {address}"), source))
    }

    /// A TCP socket that listens already, and that another process has, too.
    ///
    /// # Errors
    /// When it has no address.
    pub fn of_tcp(listener: TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let place = listener.local_addr()?;
        let address = Address::Tcp { host: place.ip().to_string(), port: place.port() };
        Ok(Self { inner: Inner::Tcp(listener), address, is_shared: true })
    }

    /// A Unix socket that listens already, and that another process has, too. Its file stays.
    ///
    /// # Errors
    /// When it has no path.
    pub fn of_unix(listener: UnixListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let place = listener.local_addr()?;
        let path = place.as_pathname().ok_or(io::ErrorKind::AddrNotAvailable)?;
        let address = Address::unix(path.to_owned());
        Ok(Self { inner: Inner::Unix { listener, file: None }, address, is_shared: true })
    }

    /// Whether another process has this socket, too, so that it must not be shut down.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Its address, with the actual port.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The next connection. `None`: there is none now; wait until [`AsFd`] is readable.
    ///
    /// # Errors
    /// [`LinkError::System`] when the kernel gives no connection, for example for want of descriptors.
    pub fn accept(&self) -> Result<Option<(Link, Peer)>, LinkError> {
        let Some((socket, peer)) = self.accept_socket()? else { return Ok(None) };
        Ok(Some((Link::accepted(Arc::new(socket), &peer)?, peer)))
    }

    /// As [`Listener::accept`], for a caller that makes a link by [`Link::accepted`], or closes it.
    ///
    /// # Errors
    /// As [`Listener::accept`].
    pub fn accept_socket(&self) -> Result<Option<(OwnedFd, Peer)>, LinkError> {
        use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
        match self.stay_nonblocking().and_then(|()| self.next()) {
            Ok(accepted) => Ok(Some(accepted)),
            Err(error) if matches!(error.kind(), WouldBlock | ConnectionAborted | Interrupted) => Ok(None),
            Err(source) => Err(LinkError::system(format!("accepting on {}", self.address), source)),
        }
    }

    /// Whether a socket blocks is one flag for all who have it, and whoever else has a shared one may have set it.
    fn stay_nonblocking(&self) -> io::Result<()> {
        match &self.inner {
            _ if !self.is_shared => Ok(()),
            Inner::Tcp(listener) => listener.set_nonblocking(true),
            Inner::Unix { listener, .. } => listener.set_nonblocking(true),
        }
    }

    fn next(&self) -> io::Result<(OwnedFd, Peer)> {
        match &self.inner {
            Inner::Tcp(listener) => {
                let (stream, peer) = listener.accept()?;
                Ok((stream.into(), Peer::Tcp(peer)))
            }
            Inner::Unix { listener, .. } => {
                let (stream, _) = listener.accept()?;
                // A peer that cannot be identified is refused; the next one in the queue is not to blame.
                let who = getsockopt(&stream, PeerCredentials).map_err(|_| io::ErrorKind::ConnectionAborted)?;
                Ok((stream.into(), Peer::Unix { uid: who.uid(), pid: who.pid() }))
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
        if let Inner::Unix { file: Some((path, inode)), .. } = &self.inner
            && path.symlink_metadata().is_ok_and(|metadata| metadata.ino() == *inode)
        {
            // If it is gone already, there is nothing to remove.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn bind(address: &Address) -> io::Result<Listener> {
    match address {
        Address::Tcp { host, port } => {
            let listener = TcpListener::bind((host.as_str(), *port))?;
            listener.set_nonblocking(true)?;
            rustix::net::listen(&listener, BACKLOG)?;
            let port = listener.local_addr()?.port();
            let address = Address::Tcp { host: host.clone(), port };
            Ok(Listener { inner: Inner::Tcp(listener), address, is_shared: false })
        }
        // A client's first bytes decide between the two.
        Address::Tls { .. } => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "listen on tcp:// and name a certificate"))
        }
        Address::Clear { .. } => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "listen on tcp:// and allow clear text"))
        }
        Address::Unix(path, _) => {
            remove_stale(path)?;
            let listener = UnixListener::bind(path)?;
            listener.set_nonblocking(true)?;
            let inode = path.symlink_metadata()?.ino();
            let inner = Inner::Unix { listener, file: Some((path.clone(), inode)) };
            Ok(Listener { inner, address: address.clone(), is_shared: false })
        }
    }
}

/// Removes a stale socket file. Anything else stays, and `bind` refuses.
fn remove_stale(path: &Path) -> io::Result<()> {
    let is_socket = path.symlink_metadata().is_ok_and(|metadata| metadata.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::*;

    /// Where the test listens when it is started in a process namespace of its own.
    const INSIDE: &str = "FLOE_TEST_LISTEN_AT";

    fn accept_inside(path: &Path) {
        let listener = Listener::bind(&Address::unix(path.to_owned())).unwrap();
        let accepted = std::iter::repeat_with(|| {
            std::thread::sleep(Duration::from_millis(1));
            listener.accept_socket().unwrap()
        });
        let (_, peer) = accepted.flatten().next().unwrap();
        let Peer::Unix { pid, .. } = peer else { panic!("not a Unix socket's: {peer}") };
        println!("its process: {pid}; {peer}");
    }

    #[test]
    fn a_peer_of_another_process_namespace_is_accepted_and_not_shown() {
        if let Some(path) = std::env::var_os(INSIDE) {
            return accept_inside(Path::new(&path));
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let mut inside = Command::new("unshare");
        inside.args(["--user", "--map-root-user", "--pid", "--fork"]).arg(std::env::current_exe().unwrap());
        let name = "listener::tests::a_peer_of_another_process_namespace_is_accepted_and_not_shown";
        inside.args(["--exact", name, "--nocapture"]).env(INSIDE, &path);
        let mut inside = match inside.stdout(Stdio::piped()).spawn() {
            Ok(inside) => inside,
            Err(error) => return println!("no namespaces to try: {error}"),
        };
        let connected = std::iter::repeat_with(|| {
            std::thread::sleep(Duration::from_millis(1));
            UnixStream::connect(&path)
        });
        let mut connected = connected.take_while(|_| inside.try_wait().unwrap().is_none());
        let Some(_stream) = connected.find_map(Result::ok) else {
            return println!("this machine allows no namespaces");
        };
        let output = inside.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("its process: 0; a process of user"), "{said}");
    }
}
