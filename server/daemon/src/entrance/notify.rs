//! What the service manager hears of the daemon's life: it is ready, it ends.
//! In: a word. Out: a datagram at the socket that `NOTIFY_SOCKET` names, as sd_notify(3) has it; without the variable nothing.
//! It never waits, and a manager that does not listen is no failure.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The daemon accepts connections.
pub(crate) const READY: &str = "READY=1\nSTATUS=accepting connections";
/// The daemon ends its sessions, and then itself.
pub(crate) const STOPPING: &str = "STOPPING=1\nSTATUS=ending sessions";

/// The variable that names the manager's socket.
const SOCKET: &str = "NOTIFY_SOCKET";

/// Whether this process was started by a service manager that wants to hear.
pub(crate) fn is_asked_for() -> bool {
    std::env::var_os(SOCKET).is_some()
}

/// Tells the service manager, if this process was started by one that wants to hear.
pub(crate) fn tell(word: &str) {
    let Some(name) = std::env::var_os(SOCKET) else { return };
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&name),
    };
    let send = |address| {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        socket.send_to_addr(word.as_bytes(), &address)
    };
    if let Err(error) = address.and_then(send) {
        crate::warn(format_args!("the service manager was not told: {error}"));
    }
}
