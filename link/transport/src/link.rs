//! One connection, before it is split into its two directions.
//! In: a connected socket. Out: frames, one at a time, with a deadline for each: what a handshake needs.
//! It reads no byte beyond the frame it returns, so the socket can be handed to another process between two frames.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use floe_wire::Message;

use crate::error::LinkError;
use crate::pipe::Pipe;
use crate::receiver::{Frame, Receiver};
use crate::sender::Sender;
use crate::socket::Socket;

/// A connection to a peer.
#[derive(Debug)]
pub struct Link {
    socket: Arc<OwnedFd>,
    pipe: Arc<dyn Pipe>,
    sender: Sender,
    receiver: Receiver,
}

impl Link {
    /// A link on a socket on which nothing has been said.
    #[must_use]
    pub fn new(socket: OwnedFd) -> Self {
        Self::resume(socket, 0, 0)
    }

    /// A link on a socket on which `sent` frames went out and `received` came in, in another process.
    #[must_use]
    pub fn resume(socket: OwnedFd, sent: u64, received: u64) -> Self {
        let socket = Arc::new(socket);
        let pipe: Arc<dyn Pipe> = Arc::new(Socket::new(Arc::clone(&socket)));
        let sender = Sender::new(Arc::clone(&pipe), sent);
        let receiver = Receiver::new(Arc::clone(&pipe), received);
        Self { socket, pipe, sender, receiver }
    }

    /// Limits the payload of frames that come in, in bytes.
    pub fn limit_payload(&mut self, bytes: u32) {
        self.receiver.limit_payload(bytes);
    }

    /// Limits the time one write may be stuck because the peer does not read; `None`: for ever.
    ///
    /// # Errors
    /// [`LinkError::System`] when the system refuses.
    pub fn limit_writes(&self, time: Option<Duration>) -> Result<(), LinkError> {
        self.pipe.limit_writes(time).map_err(|source| LinkError::system("limiting a link's writes", source))
    }

    /// Sends one message and returns its sequence.
    ///
    /// # Errors
    /// [`LinkError`] when the link is over.
    pub fn send(&mut self, message: &impl Message) -> Result<u64, LinkError> {
        self.sender.send(message, |_| ())
    }

    /// As [`Link::send`], with a descriptor as [`Sender::send_with`] has it.
    ///
    /// # Errors
    /// As [`Sender::send_with`].
    pub fn send_with(&mut self, message: &impl Message, descriptor: BorrowedFd<'_>) -> Result<u64, LinkError> {
        self.sender.send_with(message, descriptor, |_| ())
    }

    /// The next frame; `None` when the peer has closed the connection between two frames.
    ///
    /// # Errors
    /// [`LinkError`] when bytes are no frame, or none has come before `deadline`.
    pub fn receive(&mut self, deadline: Option<Instant>) -> Result<Option<Frame<'_>>, LinkError> {
        self.receiver.next_exactly(deadline)
    }

    /// The two directions, for two threads. Posted messages leave by themselves from here on.
    #[must_use]
    pub fn split(self) -> (Sender, Receiver) {
        self.sender.start_flusher();
        (self.sender, self.receiver)
    }

    /// The socket and how many frames went out and came in, for [`Link::resume`] in another process.
    ///
    /// # Errors
    /// [`LinkError::System`] when the socket cannot be duplicated.
    pub fn into_parts(self) -> Result<(OwnedFd, u64, u64), LinkError> {
        let socket = self
            .socket
            .try_clone()
            .map_err(|source| LinkError::system("duplicating a socket for another process", source))?;
        Ok((socket, self.sender.sent(), self.receiver.received()))
    }
}
