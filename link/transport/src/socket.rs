//! A pipe that is a stream socket, TCP or Unix.
//! In: a connected socket. Out: its bytes and the descriptors that come with them, one at a time.
//! It keeps one descriptor at most and closes every other: a peer cannot fill this process's table.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, Shutdown, recv, recvmsg, sendmsg, sockopt,
};

use crate::error::Failure;
use crate::pipe::{Pipe, Reach, Slot};

/// A connected stream socket.
#[derive(Debug)]
pub(crate) struct Socket {
    descriptor: Arc<OwnedFd>,
    reach: Reach,
}

impl Socket {
    pub(crate) fn new(descriptor: Arc<OwnedFd>) -> Self {
        let is_unix = sockopt::socket_domain(&*descriptor) == Ok(AddressFamily::UNIX);
        Self { descriptor, reach: if is_unix { Reach::Machine } else { Reach::Network } }
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
    fn write(&self, mut head: &[u8], mut tail: &[u8]) -> Result<(), Failure> {
        while !head.is_empty() || !tail.is_empty() {
            let parts = [IoSlice::new(head), IoSlice::new(tail)];
            // No SIGPIPE: the client's library lives in a program that may not expect one.
            match sendmsg(&*self.descriptor, &parts, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL) {
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

    fn write_with(&self, head: &[u8], tail: &[u8], descriptor: BorrowedFd<'_>) -> Result<(), Failure> {
        // It goes with the first byte, so the receiver has it when it has the frame.
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
        // A socket that is not connected any more is as closed as it gets.
        let _ = rustix::net::shutdown(&*self.descriptor, Shutdown::Both);
    }

    fn reach(&self) -> Reach {
        self.reach
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
    // Descriptors beyond this room are closed by the system.
    let mut room = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let mut parts = [IoSliceMut::new(target)];
    let received = recvmsg(socket, &mut parts, &mut control, flags | RecvFlags::CMSG_CLOEXEC)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut descriptors) = message {
            *slot = descriptors.next().or(slot.take());
            // The room's padding may have held another.
            descriptors.for_each(drop);
        }
    }
    Ok(received.bytes)
}

/// Sends the first of the bytes over a Unix socket, with a descriptor; how many.
///
/// # Errors
/// The system's own, but for `INTR`.
pub fn send_with(socket: &OwnedFd, bytes: &[u8], descriptor: BorrowedFd<'_>) -> Result<usize, Errno> {
    let descriptors = [descriptor];
    let mut room = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    loop {
        match sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec::try_from(duration).unwrap_or(Timespec { tv_sec: i64::from(i32::MAX), tv_nsec: 0 })
}
