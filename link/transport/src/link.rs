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
use crate::rings::Rings;
use crate::sender::Sender;
use crate::socket::Socket;

/// A connection to a peer.
#[derive(Debug)]
pub struct Link {
    socket: Arc<OwnedFd>,
    /// The socket, or what both sides have gone over to.
    pipe: Arc<dyn Pipe>,
    has_gone_over: bool,
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
        Self { socket, pipe, has_gone_over: false, sender, receiver }
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
        self.pipe.limit_writes(time).map_err(|failure| LinkError::during("limiting a link's writes", failure))
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

    /// Takes one descriptor that comes with a frame, as [`Receiver::take_descriptors`].
    pub fn take_descriptors(&mut self, take: bool) {
        self.receiver.take_descriptors(take);
    }

    /// The descriptor that came last, as [`Receiver::descriptor`].
    pub fn descriptor(&mut self) -> Option<OwnedFd> {
        self.receiver.descriptor()
    }

    /// Everything from the next frame on goes through rings that both sides have agreed on. The socket stays, to tell when the
    /// peer is gone and for descriptors.
    ///
    /// # Errors
    /// [`LinkError::System`] where there is no thread to watch the socket; then nothing has changed.
    pub fn go_over(&mut self, rings: Rings) -> Result<(), LinkError> {
        let pipe: Arc<dyn Pipe> = Arc::new(rings.with(Arc::clone(&self.socket))?);
        self.sender = Sender::new(Arc::clone(&pipe), self.sender.sent());
        self.receiver.go_over(Arc::clone(&pipe));
        (self.pipe, self.has_gone_over) = (pipe, true);
        Ok(())
    }

    /// The two directions, for two threads. Posted messages leave by themselves from here on.
    #[must_use]
    pub fn split(self) -> (Sender, Receiver) {
        self.sender.start_flusher();
        (self.sender, self.receiver)
    }

    /// The two directions as they are: who posts owes a flush, so this is for who only sends.
    #[must_use]
    pub fn halves(self) -> (Sender, Receiver) {
        (self.sender, self.receiver)
    }

    /// The socket and how many frames went out and came in, for [`Link::resume`] in another process.
    ///
    /// # Errors
    /// [`LinkError::System`] when the socket cannot be duplicated.
    ///
    /// # Panics
    /// When it has gone over to rings: these stay where they are.
    pub fn into_parts(self) -> Result<(OwnedFd, u64, u64), LinkError> {
        assert!(!self.has_gone_over, "a link over rings is not handed on");
        let socket = self
            .socket
            .try_clone()
            .map_err(|source| LinkError::system("duplicating a socket for another process", source))?;
        Ok((socket, self.sender.sent(), self.receiver.received()))
    }
}
