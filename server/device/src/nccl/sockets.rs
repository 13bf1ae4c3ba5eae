//! What NCCL gets where it asks the system for sockets: a worker has no network, so none of these calls reaches the system.
//! In: the C library's socket calls of this process, once `begin` was called. Out: descriptors that stand for sockets; connections
//! that the worker's own `Network` makes, and those that `deliver` brings for a port.
//! A worker's address is the only one there is. Nothing here makes a socket or takes an address from outside this program.

mod placeholder;
mod wire;

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::sync::OnceLock;

use rustix::fs::OFlags;

use placeholder::{Kind, Table};
pub use wire::Place;

/// Makes connections to other workers.
pub trait Network: Send + Sync {
    /// This worker's address.
    fn place(&self) -> Place;
    /// A connection to what listens at a port of another worker.
    ///
    /// # Errors
    /// Why there is none, as the system would say it.
    fn connect(&self, to: Place, port: u16) -> io::Result<OwnedFd>;
}

struct Sockets {
    network: Box<dyn Network>,
    table: Table,
}

static SOCKETS: OnceLock<Sockets> = OnceLock::new();

/// Answers socket calls of this process from here on.
pub fn begin(network: Box<dyn Network>) {
    let _ = SOCKETS.set(Sockets { network, table: Table::default() });
}

/// Gives a connection to what listens at a port. `false`: nothing does, or it has too many that wait.
pub fn deliver(port: u16, connection: OwnedFd) -> bool {
    SOCKETS.get().is_some_and(|sockets| sockets.table.deliver(port, connection))
}

/// Whether something listens at a port.
pub fn listens(port: u16) -> bool {
    SOCKETS.get().is_some_and(|sockets| sockets.table.listens(port))
}

pub(super) fn failed(error: impl Into<io::Error>) -> c_int {
    let code = error.into().raw_os_error().unwrap_or(libc::EIO);
    // SAFETY: it is this thread's own variable.
    unsafe { *libc::__errno_location() = code };
    -1
}

fn code(outcome: io::Result<()>) -> c_int {
    outcome.map_or_else(failed, |()| 0)
}

/// What a descriptor stands for, if it is one of these.
fn of(fd: RawFd) -> Option<(&'static Sockets, Kind, BorrowedFd<'static>)> {
    let sockets = SOCKETS.get()?;
    if fd < 0 {
        return None;
    }
    // SAFETY: the caller's descriptor, which is only looked at; one that is closed meanwhile is an error of the call.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    Some((sockets, sockets.table.kind(borrowed)?, borrowed))
}

/// `socket`; `None`: it is the system's to answer.
pub fn socket(domain: c_int, kind: c_int) -> Option<c_int> {
    let sockets = SOCKETS.get()?;
    let stands_for = match (domain, kind & 0xf) {
        (libc::AF_INET | libc::AF_INET6, libc::SOCK_STREAM) => Kind::Fresh,
        // NCCL's way to processes of its own machine, to which it has none here.
        (libc::AF_UNIX, libc::SOCK_DGRAM) => Kind::Nowhere,
        _ => return None,
    };
    let mut flags = OFlags::empty();
    flags.set(OFlags::NONBLOCK, kind & libc::SOCK_NONBLOCK != 0);
    flags.set(OFlags::CLOEXEC, kind & libc::SOCK_CLOEXEC != 0);
    Some(sockets.table.add(stands_for, flags).map_or_else(failed, std::os::fd::IntoRawFd::into_raw_fd))
}

/// `bind`: the port is the only part of the address that is asked for.
pub fn bind(fd: RawFd, port: Option<u16>) -> Option<c_int> {
    let (sockets, kind, fd) = of(fd)?;
    Some(match kind {
        Kind::Nowhere => 0,
        Kind::Fresh => code(sockets.table.bind(fd, port.unwrap_or_default())),
        _ => failed(io::Error::from_raw_os_error(libc::EINVAL)),
    })
}

/// `listen`.
pub fn listen(fd: RawFd) -> Option<c_int> {
    let (sockets, kind, fd) = of(fd)?;
    Some(match kind {
        Kind::Nowhere => 0,
        _ => code(sockets.table.listen(fd)),
    })
}

/// `accept`: the next connection, which this thread waits for unless the descriptor says not to.
pub fn accept(fd: RawFd, flags: c_int) -> Option<c_int> {
    let (sockets, _, fd) = of(fd)?;
    let accepted = sockets.table.accept(fd).and_then(|connection| {
        let mut wanted = OFlags::empty();
        wanted.set(OFlags::NONBLOCK, flags & libc::SOCK_NONBLOCK != 0);
        rustix::fs::fcntl_setfl(&connection, wanted)?;
        Ok(connection)
    });
    Some(accepted.map_or_else(failed, std::os::fd::IntoRawFd::into_raw_fd))
}

/// `connect`: the connection takes the descriptor's place. It is there when this returns, also where the descriptor does not wait.
pub fn connect(fd: RawFd, to: Option<(Place, u16)>) -> Option<c_int> {
    let (sockets, kind, fd) = of(fd)?;
    if kind == Kind::Nowhere {
        return Some(failed(io::Error::from_raw_os_error(libc::ECONNREFUSED)));
    }
    let Some((place, port)) = to else {
        return Some(failed(io::Error::from_raw_os_error(libc::ENETUNREACH)));
    };
    Some(code(sockets.network.connect(place, port).and_then(|connection| take_place(connection, fd))))
}

/// Puts a connection where a placeholder was.
fn take_place(connection: OwnedFd, fd: BorrowedFd<'_>) -> io::Result<()> {
    rustix::fs::fcntl_setfl(&connection, rustix::fs::fcntl_getfl(fd)? & OFlags::NONBLOCK)?;
    // Where it is no TCP, there is nothing to wait for anyway.
    let _ = rustix::net::sockopt::set_tcp_nodelay(&connection, true);
    let closes = rustix::io::fcntl_getfd(fd)?.contains(rustix::io::FdFlags::CLOEXEC);
    let flags = if closes { libc::O_CLOEXEC } else { 0 };
    // SAFETY: both descriptors are open; the second is the caller's, who asked for this connection there.
    let done = unsafe { libc::dup3(connection.as_raw_fd(), fd.as_raw_fd(), flags) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// `getsockname`: this worker's address and the port.
pub fn name(fd: RawFd) -> Option<(Place, u16)> {
    let (sockets, _, fd) = of(fd)?;
    Some((sockets.network.place(), sockets.table.port(fd)))
}

/// Whether a descriptor stands for a socket: options of it mean nothing.
pub fn is_placeholder(fd: RawFd) -> bool {
    of(fd).is_some()
}

/// `shutdown`.
pub fn shutdown(fd: RawFd) -> Option<c_int> {
    let (sockets, _, fd) = of(fd)?;
    sockets.table.end(fd.as_fd());
    Some(0)
}

/// This worker's address, once there is one.
pub fn place() -> Option<Place> {
    Some(SOCKETS.get()?.network.place())
}

pub use wire::{interfaces, read_address, write_address};
