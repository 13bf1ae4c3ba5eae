//! Between the two processes of a program: messages of one packet each, over a socket that is the second's stdin.
//! In: bytes, text and descriptors. Out: the same at the other end. It knows nothing of operations.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};

use anyhow::{Context as _, Result, ensure};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType,
};

/// Longest text; the rest of a longer one is left out.
const TEXT: usize = 4000;
/// Bytes ahead of the text: what is asked for or answered, an operation's index, the bytes that are passed.
const HEAD: usize = 1 + 8 + 64;

/// What one process says to the other.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) kind: u8,
    pub(crate) index: usize,
    pub(crate) bytes: [u8; 64],
    pub(crate) text: String,
    pub(crate) descriptor: Option<OwnedFd>,
}

impl Message {
    pub(crate) fn new(kind: u8, index: usize) -> Self {
        Self { kind, index, bytes: [0; 64], text: String::new(), descriptor: None }
    }
}

/// One end.
#[derive(Debug)]
pub(crate) struct Channel(OwnedFd);

impl Channel {
    /// An end, and the descriptor of the other.
    pub(crate) fn pair() -> Result<(Self, OwnedFd)> {
        let (own, other) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Self(own), other))
    }

    /// The end that this process was started with.
    pub(crate) fn inherited() -> Result<Self> {
        Ok(Self(std::io::stdin().as_fd().try_clone_to_owned()?))
    }

    pub(crate) fn send(&self, message: &Message) -> Result<()> {
        let mut packet = vec![message.kind];
        packet.extend(u64::try_from(message.index)?.to_le_bytes());
        packet.extend(message.bytes);
        packet.extend(message.text.bytes().take(TEXT));
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors: Vec<_> = message.descriptor.iter().map(|descriptor| descriptor.as_fd()).collect();
        ensure!(descriptors.is_empty() || ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)), "no space");
        rustix::net::sendmsg(&self.0, &[IoSlice::new(&packet)], &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// The next message; `None` when the other process is gone.
    pub(crate) fn receive(&self) -> Result<Option<Message>> {
        let mut packet = vec![0; HEAD + TEXT];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut places = [IoSliceMut::new(&mut packet)];
        let got = rustix::net::recvmsg(&self.0, &mut places, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?.bytes;
        if got == 0 {
            return Ok(None);
        }
        ensure!(got >= HEAD, "a packet is too short");
        let descriptor = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        let index = u64::from_le_bytes(packet[1..9].try_into().context("eight bytes")?);
        Ok(Some(Message {
            kind: packet[0],
            index: usize::try_from(index)?,
            bytes: packet[9..HEAD].try_into().context("64 bytes")?,
            text: String::from_utf8_lossy(&packet[HEAD..got]).into_owned(),
            descriptor,
        }))
    }
}
