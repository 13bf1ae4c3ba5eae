//! A pipe that is a stream socket, TCP or Unix.
//! In: a connected socket. Out: its bytes and the descriptors that come with them, one at a time. It keeps at most one
//! descriptor and closes every other, so a peer cannot fill this process's table.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, writev};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, Shutdown, recv, recvmsg, send, sendmsg, sockopt,
};

use crate::error::Failure;
use crate::pipes::borrowed::SendMode;
use crate::pipes::pages::Pages;
use crate::pipes::pipe::{Pipe, Reach, Slot};

/// How often to retry the reset of a connection that the kernel does not reset yet, a millisecond apart.
const MOST_RESETS: u32 = 100;

/// Whether this process sends no descriptors.
static WITHOUT_DESCRIPTORS: AtomicBool = AtomicBool::new(false);

/// Makes this process write to sockets without `sendmsg` from here on, so that a sandbox may refuse `sendmsg`, the only
/// call that carries descriptors. Only for a process that ignores SIGPIPE, as Rust's own programs do.
pub fn write_without_descriptors() {
    WITHOUT_DESCRIPTORS.store(true, Ordering::Relaxed);
}

/// A connected stream socket.
#[derive(Debug)]
pub(crate) struct Socket {
    descriptor: Arc<OwnedFd>,
    reach: Reach,
    pages: Pages,
}

impl Socket {
    pub(crate) fn new(descriptor: Arc<OwnedFd>) -> Self {
        let is_unix = sockopt::socket_domain(&*descriptor) == Ok(AddressFamily::UNIX);
        let reach = if is_unix { Reach::Machine } else { Reach::Network };
        Self { descriptor, reach, pages: Pages::default() }
    }

    fn send(&self, mut head: &[u8], mut tail: &[u8], flags: SendFlags) -> Result<(), Failure> {
        while !head.is_empty() || !tail.is_empty() {
            match write_parts(&self.descriptor, head, tail, flags) {
                Ok(count) => {
                    let from_head = count.min(head.len());
                    head = &head[from_head..];
                    tail = &tail[count - from_head..];
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn receive(&self, target: &mut [u8], slot: Slot<'_>, flags: RecvFlags) -> Result<Option<usize>, Failure> {
        let received = match slot {
            None => recv(&*self.descriptor, target, flags).map(|(_, count)| count),
            Some(slot) => receive_with(&self.descriptor, target, slot, flags),
        };
        match received {
            Ok(count) => Ok(Some(count)),
            Err(Errno::INTR | Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Pipe for Socket {
    fn write(&self, head: &[u8], tail: &[u8]) -> Result<(), Failure> {
        self.send(head, tail, SendFlags::empty())
    }

    fn write_kept(&self, head: &[u8], tail: &[u8], send_mode: SendMode) -> Result<(), Failure> {
        if !self.pages.suit(tail) {
            return self.write(head, tail);
        }
        self.send(head, &[], SendFlags::MORE)?;
        let given = self.pages.give(&self.descriptor, tail, send_mode == SendMode::Pages)?;
        self.write(&[], &tail[given..])
    }

    fn write_with(&self, head: &[u8], tail: &[u8], descriptor: BorrowedFd<'_>) -> Result<(), Failure> {
        // It travels with the first byte, so the receiver has it when it has the frame.
        let sent = send_with(&self.descriptor, head, descriptor)?;
        self.write(&head[sent..], tail)
    }

    fn limit_writes(&self, time: Option<Duration>) -> Result<(), Failure> {
        Ok(sockopt::set_socket_timeout(&*self.descriptor, sockopt::Timeout::Send, time)?)
    }

    fn read_now(&self, target: &mut [u8], slot: Slot<'_>) -> Result<Option<usize>, Failure> {
        self.receive(target, slot, RecvFlags::DONTWAIT)
    }

    fn read(&self, target: &mut [u8], slot: Slot<'_>) -> Result<Option<usize>, Failure> {
        self.receive(target, slot, RecvFlags::empty())
    }

    fn wait(&self, time: Option<Duration>) -> Result<bool, Failure> {
        let time = time.map(timespec);
        match poll(&mut [PollFd::new(&*self.descriptor, PollFlags::IN)], time.as_ref()) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    fn end(&self) {
        // A socket that is not connected needs no shutdown.
        let _ = rustix::net::shutdown(&*self.descriptor, Shutdown::Both);
        if self.pages.any_to_take_back() {
            reset(&self.descriptor);
        }
    }

    fn reach(&self) -> Reach {
        self.reach
    }
}

/// Writes as many bytes as there is room for.
fn write_parts(socket: &OwnedFd, head: &[u8], tail: &[u8], flags: SendFlags) -> Result<usize, Errno> {
    // No SIGPIPE: the client's library lives in a program that may not expect one.
    let flags = flags | SendFlags::NOSIGNAL;
    if head.is_empty() || tail.is_empty() {
        return send(socket, if tail.is_empty() { head } else { tail }, flags);
    }
    let parts = [IoSlice::new(head), IoSlice::new(tail)];
    if WITHOUT_DESCRIPTORS.load(Ordering::Relaxed) {
        return writev(socket, &parts);
    }
    sendmsg(socket, &parts, &mut SendAncillaryBuffer::default(), flags)
}

/// Resets a connection: unsent pages must not leave, since their owner may change them from here on. A peer on this
/// machine still shares the pages that it has not read yet.
fn reset(socket: &OwnedFd) {
    // Where this fails, closing the last descriptor resets it.
    let _ = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
    for _ in 0..MOST_RESETS {
        // Some kernels (6.4 and backports from it) refuse while a thread sleeps there; the shutdown has woken it.
        if rustix::net::connect_unspec(socket) != Err(Errno::BUSY) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Reads bytes of a Unix socket and keeps the descriptor that came last.
///
/// # Errors
/// The system's own, `INTR` among them.
pub fn receive_with(
    socket: &OwnedFd,
    target: &mut [u8],
    slot: &mut Option<OwnedFd>,
    flags: RecvFlags,
) -> Result<usize, Errno> {
    // The kernel closes descriptors beyond this room.
    let mut room = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let mut parts = [IoSliceMut::new(target)];
    let received = recvmsg(socket, &mut parts, &mut control, flags | RecvFlags::CMSG_CLOEXEC)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut descriptors) = message {
            *slot = descriptors.next().or(slot.take());
            // The room's padding may hold another.
            descriptors.for_each(drop);
        }
    }
    Ok(received.bytes)
}

/// Sends the first of the bytes over a Unix socket, with a descriptor; returns how many.
///
/// # Errors
/// The system's own, but for `INTR`.
pub fn send_with(socket: &OwnedFd, bytes: &[u8], descriptor: BorrowedFd<'_>) -> Result<usize, Errno> {
    send_flagged(socket, bytes, descriptor, SendFlags::empty())
}

/// As [`send_with`], without waiting for room.
///
/// # Errors
/// `AGAIN` where there is no room, else as [`send_with`].
pub fn try_send_with(socket: &OwnedFd, bytes: &[u8], descriptor: BorrowedFd<'_>) -> Result<usize, Errno> {
    send_flagged(socket, bytes, descriptor, SendFlags::DONTWAIT)
}

fn send_flagged(socket: &OwnedFd, bytes: &[u8], descriptor: BorrowedFd<'_>, flags: SendFlags) -> Result<usize, Errno> {
    let descriptors = [descriptor];
    let mut room = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    loop {
        match sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags | SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec::try_from(duration).unwrap_or(Timespec { tv_sec: i64::from(i32::MAX), tv_nsec: 0 })
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read as _};
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::pipes::pages;

    /// Bytes of a socket's buffer at either end; the kernel may multiply them a few times.
    const BUFFER: usize = 1 << 20;

    /// Whether a socket soon stays full for longer than its bytes need to reach its peer. It then holds bytes for which
    /// the peer has no room.
    fn is_soon_full(socket: &Socket) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut looks = (0..10_000).map(|_| {
            std::thread::sleep(Duration::from_millis(1));
            poll(&mut [PollFd::new(&*socket.descriptor, PollFlags::OUT)], Some(&now)) == Ok(0)
        });
        let mut in_a_row = 0;
        looks.any(|is_full| {
            in_a_row = if is_full { in_a_row + 1 } else { 0 };
            in_a_row == 20
        })
    }

    /// How a peer's reads end: a thread that may send zero-copy writes so much, and the socket is ended meanwhile.
    fn end_of(bytes: usize, send_mode: SendMode) -> Result<usize, ErrorKind> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        // Some systems' default sizes are larger than a test's data. Connections inherit their listener's.
        sockopt::set_socket_recv_buffer_size(&listener, BUFFER).expect("set");
        let near = TcpStream::connect(listener.local_addr().expect("its address")).expect("connected");
        sockopt::set_socket_send_buffer_size(&near, BUFFER).expect("set");
        let mut peer = listener.accept().expect("accepted").0;
        peer.set_read_timeout(Some(Duration::from_secs(20))).expect("limited");
        let socket = Socket::new(Arc::new(near.into()));
        let data = vec![1; bytes];
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| {
                if send_mode != SendMode::Copy {
                    pages::offer();
                }
                socket.write_kept(&[1; 24], &data, send_mode)
            });
            let mut first = [0; 1000];
            let (came, is_full) = (peer.read_exact(&mut first), is_soon_full(&socket));
            // Nobody writes any more.
            socket.end();
            came.expect("they come");
            assert!(is_full, "the peer has all that was sent");
            assert!(writing.join().expect("it does not panic").is_err(), "all of it fits into a socket");
        });
        let mut rest = Vec::new();
        peer.read_to_end(&mut rest).map_err(|error| error.kind())
    }

    #[test]
    fn an_ended_socket_sends_none_of_the_pages_it_still_holds() {
        const MORE_THAN_FITS: usize = 64 * BUFFER;
        assert_eq!(end_of(MORE_THAN_FITS, SendMode::Pages), Err(ErrorKind::ConnectionReset));
        assert!(end_of(MORE_THAN_FITS, SendMode::Copy).is_ok());
        assert!(end_of(MORE_THAN_FITS, SendMode::PagesForGood).is_ok(), "they may still come");
    }
}
