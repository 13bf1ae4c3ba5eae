//! What daemon and worker tell each other about memory that sessions share.
//! In and out: plain data; at the daemon's end also messages of a worker that an attacker may control, with what
//! descriptors came along.
//! It decides nothing: the daemon's broker and the worker's tickets do.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg, send};
use rustix::{cmsg_space, io::IoSliceMut};
use serde::{Deserialize, Serialize};

use crate::sandbox::Reserved;

/// Bytes of a proof: HMAC-SHA256.
pub const PROOF_BYTES: usize = 32;
/// Imports that one notice or report says were let go.
pub const MOST_RETURNED: usize = 128;
/// The most bytes of a message to the daemon.
pub(crate) const ANSWER_BYTES: usize = 512;
/// The most descriptors of one message, as Linux has it.
const MOST_DESCRIPTORS: usize = 253;

/// Kinds of things that a session imports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A block of device memory.
    Block,
    /// A page of words.
    Signals,
    /// A file of a session that moves, for the worker that it goes to.
    File,
}

impl Kind {
    /// The number in proofs, and a ticket's scope.
    #[must_use]
    pub fn number(self) -> u64 {
        match self {
            Self::Block => 1,
            Self::Signals => 2,
            Self::File => 3,
        }
    }
}

/// An importer's request, as its worker reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Import {
    /// The importer's number for it; each is higher than the one before.
    pub request: u64,
    /// The exporter.
    pub session: u64,
    /// The exporter's ticket.
    pub ticket: u64,
    /// Shows that the importer knows the ticket's key.
    pub proof: [u8; PROOF_BYTES],
    /// The kind of object.
    pub kind: Kind,
    /// The exporter's number of the object.
    pub object: u64,
}

/// The longest address of a server that a worker may name.
pub const MOST_ADDRESS: usize = 256;

/// A worker's wish for a connection to another server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dial {
    /// The worker's number for it.
    pub request: u64,
    /// The server's address, of at most [`MOST_ADDRESS`] bytes.
    pub server: String,
}

/// A worker's wish for a node of NCCL's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeWish {
    /// The worker's number for it.
    pub request: u64,
    /// What the ranks of its first communicator have in common: the ticket of its unique id.
    pub key: u64,
    /// What the ranks of its job have in common, as their programs say.
    pub job: Option<u64>,
    /// Whether it is told of a node whose member with its GPU may be about to leave, rather than be another node.
    pub waits: bool,
}

/// One import that its importer has let go of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Returned {
    /// The exporter.
    pub session: u64,
    /// The kind of object.
    pub kind: Kind,
    /// The exporter's number of the object.
    pub object: u64,
}

/// Why an import is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refused {
    /// No such session, ticket or object, or a wrong proof: which of them is not said.
    Unknown,
    /// The importer has asked without success too often, or shares with too many.
    NotPermitted,
    /// The exporter has no host memory left to remember it, or too many wait for it.
    OutOfMemory,
    /// The exporter's device does not export it.
    NotSupported,
}

/// The daemon's question to an exporter's worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The importer, as the daemon knows it.
    pub importer: u64,
    /// The importer's request.
    pub import: Import,
}

/// A notice of the daemon's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerNotice {
    /// To an exporter: somebody asks.
    Asked(Question),
    /// To an importer, with a descriptor: here it is.
    Imported {
        /// The importer's request.
        request: u64,
        /// Bytes of the object.
        bytes: u64,
        /// The exporter's GPU.
        gpu: i32,
        /// What it is.
        from: Returned,
    },
    /// To an importer: it does not get it.
    Refused(u64, Refused),
    /// To an exporter: an importer has let go of these, or never got them; at most [`MOST_RETURNED`].
    Returned(u64, Vec<(Kind, u64)>),
    /// With a descriptor: the connection of this request to another server, on which nothing has been sent.
    Dialed(u64),
    /// There is no connection of this request.
    NotDialed(u64, Refused),
    /// Of this request: the name of the worker's node of NCCL's. Workers of one node have the GPUs of one server, each another.
    /// `None`: in the node that it belongs to, another has its GPU.
    Node(u64, Option<String>),
    /// To both: a session is over with which something was shared.
    Over(u64),
}

/// An exporter's answer to a [`Question`]; with a descriptor where it is `Ok`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The importer.
    pub importer: u64,
    /// The importer's request.
    pub request: u64,
    /// Bytes of the object, or why it is not exported.
    pub outcome: Result<u64, Refused>,
}

/// A worker's way for its answers.
#[derive(Debug)]
pub struct Answers(Reserved);

impl Answers {
    /// Over this descriptor.
    #[must_use]
    pub fn over(reserved: Reserved) -> Self {
        Self(reserved)
    }

    /// Answers the daemon; a descriptor goes with what is exported.
    ///
    /// # Errors
    /// When the daemon is gone.
    pub(crate) fn give(&self, answer: &Answer, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let bytes = serde_json::to_vec(answer)?;
        match descriptor {
            Some(descriptor) => floe_transport::send_with(self.0.descriptor(), &bytes, descriptor)?,
            None => send(self.0.descriptor(), &bytes, SendFlags::NOSIGNAL)?,
        };
        Ok(())
    }
}

/// A message of a worker's.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) bytes: usize,
    /// All descriptors that came with it.
    pub(crate) descriptors: Vec<OwnedFd>,
}

/// Receives a message without waiting. It takes every descriptor, so that none is closed here: that may last as long as
/// its sender likes.
pub(crate) fn receive_all(socket: &OwnedFd, target: &mut [u8]) -> Result<Message, Errno> {
    let mut room = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let mut parts = [IoSliceMut::new(target)];
    let received = recvmsg(socket, &mut parts, &mut control, RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC)?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(its) = message {
            descriptors.extend(its);
        }
    }
    Ok(Message { bytes: received.bytes, descriptors })
}
