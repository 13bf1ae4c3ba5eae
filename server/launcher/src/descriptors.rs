//! Messages with descriptors over a seqpacket socket.
//! In: bytes and descriptors. Out: the same at the other end. It looks at neither.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::cmsg_space;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

/// The most descriptors of a message.
const MOST: usize = 4;

/// Sends a message with at most four descriptors.
///
/// # Errors
/// The system's, but for `INTR`.
pub fn send(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>], flags: SendFlags) -> Result<(), Errno> {
    let mut room = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::INVAL);
    }
    loop {
        match sendmsg(&socket, &[IoSlice::new(bytes)], &mut control, flags | SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            result => return result.map(drop),
        }
    }
}

/// Receives a message, of which no more than `target` holds is kept. Descriptors beyond four are closed.
///
/// # Errors
/// The system's, but for `INTR`.
pub fn receive(socket: impl AsFd, target: &mut [u8]) -> Result<(usize, Vec<OwnedFd>), Errno> {
    let mut room = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MOST))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let mut parts = [IoSliceMut::new(target)];
    let received = loop {
        match recvmsg(&socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            result => break result?,
        }
    };
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(its) = message {
            descriptors.extend(its);
        }
    }
    Ok((received.bytes, descriptors))
}
