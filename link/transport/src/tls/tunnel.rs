//! A sealed connection for a process that does not hold its keys: a pair of sockets, and two threads that seal and open
//! what passes. In: a pipe. Out: a socket that carries the same bytes in the clear, within this machine.
//! The keys stay where they were agreed on: a worker is handed the socket. Where the kernel has them there is none of this.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::error::LinkError;
use crate::pipe::Pipe;
use crate::socket::Socket;

/// Bytes that are passed on together, at most.
const CHUNK: usize = 128 << 10;

/// The clear end of a tunnel through `sealed`. It lasts until either end closes.
pub(crate) fn tunnel(sealed: Arc<dyn Pipe>) -> Result<OwnedFd, LinkError> {
    let failed = |source: std::io::Error| LinkError::system("making a tunnel for TLS", source);
    let (own, given) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(|source| failed(source.into()))?;
    let clear: Arc<dyn Pipe> = Arc::new(Socket::new(Arc::new(own)));
    for (name, from, to) in
        [("floe-open", Arc::clone(&sealed), Arc::clone(&clear)), ("floe-seal", Arc::clone(&clear), Arc::clone(&sealed))]
    {
        let (ending, started) = (Arc::clone(&from), std::thread::Builder::new().name(name.into()));
        started.spawn(move || pass(&*from, &*to)).map_err(|source| {
            ending.end();
            failed(source)
        })?;
    }
    Ok(given)
}

/// Passes bytes on until one side ends, then ends both.
fn pass(from: &dyn Pipe, to: &dyn Pipe) {
    let mut bytes = vec![0; CHUNK];
    loop {
        match from.read(&mut bytes, None) {
            Ok(None) => {}
            Ok(Some(count @ 1..)) => {
                if to.write(&bytes[..count], &[]).is_err() {
                    break;
                }
            }
            Ok(Some(0)) | Err(_) => break,
        }
    }
    to.end();
    from.end();
}
