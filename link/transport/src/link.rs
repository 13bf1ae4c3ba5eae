//! One connection, before it is split into its two directions.
//! In: a connected socket. Out: frames, one at a time, with a deadline for each: what a handshake needs.
//! It reads no byte beyond the frame it returns, so the socket can be handed to another process between two frames.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use floe_wire::Message;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ServerConnection};

use crate::connect::watch_peer;
use crate::error::LinkError;
use crate::lasting::Place;
use crate::pipe::Pipe;
use crate::receiver::{Frame, Receiver};
use crate::rings::Rings;
use crate::sender::Sender;
use crate::socket::Socket;
use crate::tls::{ClientTls, Kernel, RECORD_HEAD, ServerTls, Tls, tunnel};

/// Who makes a link's bytes into TLS's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sealer {
    /// Nobody: they go as they are.
    Nobody,
    /// This process, or another thread of it.
    Process,
    /// The system's kernel.
    Kernel,
}

/// What another process needs to go on with a link.
#[derive(Debug)]
pub struct Parts {
    /// What carries it.
    pub socket: OwnedFd,
    /// Frames that went out.
    pub sent: u64,
    /// Frames that came in.
    pub received: u64,
    /// Where the kernel makes the socket's bytes into records: how many bytes its key may still seal.
    pub may_seal: Option<u64>,
}

/// Where a link's keys are.
#[derive(Debug)]
enum Keys {
    /// There are none.
    None,
    /// Here, or in the kernel later.
    Process(Arc<Tls>),
    /// With threads that pass its bytes on.
    Tunnel,
    /// In the kernel.
    Kernel(Arc<Kernel>),
}

/// A connection to a peer.
#[derive(Debug)]
pub struct Link {
    /// `None`: it has never had one of its own.
    socket: Option<Arc<OwnedFd>>,
    /// The socket, or what both sides have gone over to.
    pipe: Arc<dyn Pipe>,
    has_gone_over: bool,
    keys: Keys,
    sender: Sender,
    receiver: Receiver,
}

impl Link {
    /// A link on a socket on which nothing has been said.
    #[must_use]
    pub fn new(socket: OwnedFd) -> Self {
        Self::resume(Parts { socket, sent: 0, received: 0, may_seal: None })
    }

    /// The link that another process had.
    #[must_use]
    pub fn resume(parts: Parts) -> Self {
        let Parts { socket, sent, received, may_seal } = parts;
        let socket = Arc::new(socket);
        let kernel = may_seal.map(|left| Arc::new(Kernel::new(Arc::clone(&socket), left)));
        let (pipe, keys): (Arc<dyn Pipe>, _) = match kernel {
            None => (Arc::new(Socket::new(Arc::clone(&socket))), Keys::None),
            Some(kernel) => (Arc::clone(&kernel) as _, Keys::Kernel(kernel)),
        };
        let sender = Sender::new(Arc::clone(&pipe), sent);
        let receiver = Receiver::new(Arc::clone(&pipe), received);
        Self { socket: Some(socket), pipe, has_gone_over: false, keys, sender, receiver }
    }

    /// Who makes its bytes into TLS's records.
    #[must_use]
    pub fn sealer(&self) -> Sealer {
        match self.keys {
            Keys::None => Sealer::Nobody,
            Keys::Process(_) | Keys::Tunnel => Sealer::Process,
            Keys::Kernel(_) => Sealer::Kernel,
        }
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
        let socket = self.socket.as_ref().ok_or(LinkError::NoDescriptors)?;
        let pipe = rings.with(Arc::clone(socket))?;
        self.go_on_with(Arc::new(pipe));
        Ok(())
    }

    /// Everything from the next frame on goes through this pipe.
    fn go_on_with(&mut self, pipe: Arc<dyn Pipe>) {
        self.sender = Sender::new(Arc::clone(&pipe), self.sender.sent());
        self.receiver.go_over(Arc::clone(&pipe));
        (self.pipe, self.has_gone_over) = (pipe, true);
    }

    /// Has the system end it soon when the peer's machine does not answer.
    pub(crate) fn watch_peer(&self) {
        if let Some(socket) = &self.socket {
            watch_peer(socket);
        }
    }

    /// What carries it.
    pub(crate) fn pipe(&self) -> Arc<dyn Pipe> {
        Arc::clone(&self.pipe)
    }

    /// What has carried it, for another link to go on with.
    ///
    /// # Panics
    /// When bytes were read ahead.
    pub(crate) fn into_pipe(self) -> Arc<dyn Pipe> {
        self.receiver.assert_nothing_ahead();
        self.read_ahead();
        self.pipe
    }

    /// Has the kernel make its records from here on, where it can and the keys may be the kernel's. For a connection that is made
    /// again when it ends: the kernel does not change keys, and a link with one that has sealed enough is over.
    ///
    /// # Panics
    /// When bytes were read ahead.
    pub fn go_into_kernel(&mut self) {
        let (Some(socket), Keys::Process(_)) = (self.socket.clone(), &self.keys) else { return };
        let Keys::Process(tls) = std::mem::replace(&mut self.keys, Keys::None) else { return };
        // Nothing but this holds it then.
        self.go_on_with(Arc::new(Socket::new(Arc::clone(&socket))));
        match tls.into_kernel(&socket) {
            Ok(kernel) => {
                let kernel = Arc::new(kernel);
                self.go_on_with(Arc::clone(&kernel) as _);
                (self.keys, self.has_gone_over) = (Keys::Kernel(kernel), false);
            }
            Err(tls) => {
                self.go_on_with(Arc::clone(&tls) as _);
                self.keys = Keys::Process(tls);
            }
        }
    }

    /// From here on more may be read than what is asked for.
    fn read_ahead(&self) {
        if let Keys::Process(tls) = &self.keys {
            tls.read_ahead();
        }
    }

    /// The link from here on at a place of a session, which the pipe is the connection of.
    pub(crate) fn go_on_at(mut self, place: Arc<Place>) -> Self {
        self.read_ahead();
        self.go_on_with(place);
        self
    }

    /// A link at a place of a session on which nothing has been said.
    pub(crate) fn over(place: Arc<Place>) -> Self {
        let pipe: Arc<dyn Pipe> = place;
        let (sender, receiver) = (Sender::new(Arc::clone(&pipe), 0), Receiver::new(Arc::clone(&pipe), 0));
        Self { socket: None, pipe, has_gone_over: true, keys: Keys::None, sender, receiver }
    }

    /// Agrees on TLS with a server whose certificate is for `host`. Nothing has been said on the link.
    ///
    /// # Errors
    /// [`LinkError::Tls`] where the server is not to be trusted, else as a frame's.
    pub(crate) fn secure(&mut self, tls: &ClientTls, host: &str, deadline: Instant) -> Result<(), LinkError> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| LinkError::Tls(rustls::Error::General(format!("no name a certificate can be for: {host}"))))?;
        let connection = ClientConnection::new(Arc::clone(&tls.0), name).map_err(LinkError::Tls)?;
        let pipe = Tls::agree(Arc::clone(&self.pipe), connection.into(), tls.is_for_kernel(), deadline)?;
        self.go_on_with_keys(pipe);
        Ok(())
    }

    fn go_on_with_keys(&mut self, tls: Tls) {
        let tls = Arc::new(tls);
        self.go_on_with(Arc::clone(&tls) as _);
        self.keys = Keys::Process(tls);
    }

    /// The link behind what a client says first, on which nothing has been said: itself, or where the client begins to speak
    /// TLS, one whose bytes are sealed by the kernel or by threads of this process. The socket of any can be handed on.
    ///
    /// # Errors
    /// [`LinkError::Tls`] where they do not agree, [`LinkError::Speech`] where a client speaks TLS to a server without, or
    /// does not where it must, [`LinkError::TimedOut`].
    pub fn answer(mut self, tls: Option<&ServerTls>, must: bool, deadline: Instant) -> Result<Self, LinkError> {
        match (self.speaks_tls(deadline)?, tls) {
            (false, _) if must => Err(LinkError::Speech("it does not speak TLS, and nothing else is spoken here")),
            (false, _) => Ok(self),
            (true, None) => Err(LinkError::Speech("it speaks TLS, and this server has no certificate")),
            (true, Some(tls)) => {
                let connection = ServerConnection::new(Arc::clone(&tls.0)).map_err(LinkError::Tls)?;
                let agreed = Tls::agree(Arc::clone(&self.pipe), connection.into(), tls.is_for_kernel(), deadline)?;
                self.go_on_with_keys(agreed);
                self.go_into_kernel();
                if self.sealer() == Sealer::Kernel { Ok(self) } else { self.through_tunnel() }
            }
        }
    }

    fn through_tunnel(self) -> Result<Self, LinkError> {
        let clear = tunnel(self.into_pipe())?;
        Ok(Self { keys: Keys::Tunnel, ..Self::new(clear) })
    }

    /// Whether the peer's first bytes are TLS's. They stay where they are.
    fn speaks_tls(&self, deadline: Instant) -> Result<bool, LinkError> {
        /// Between looks while only a part of the first bytes has come.
        const AGAIN: Duration = Duration::from_millis(1);
        const DOING: &str = "waiting for a client's first bytes";
        let failed = |source: Errno| LinkError::system(DOING, source);
        let Some(socket) = &self.socket else { return Ok(false) };
        let began = Instant::now();
        let mut first = [0; RECORD_HEAD.len() + 1];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(LinkError::TimedOut { what: DOING.into(), after: deadline - began });
            }
            self.pipe.wait(Some(left)).map_err(|failure| LinkError::during(DOING, failure))?;
            match recv(&**socket, &mut first, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return Ok(false),
                // The third byte is part of a version as well; of a frame's length it would make one that is refused.
                Ok((_, 3)) => return Ok(first.starts_with(&RECORD_HEAD) && first[2] != 0),
                Ok(_) => std::thread::sleep(AGAIN),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(source) => return Err(failed(source)),
            }
        }
    }

    /// The two directions, for two threads. Posted messages leave by themselves from here on.
    #[must_use]
    pub fn split(self) -> (Sender, Receiver) {
        self.read_ahead();
        self.sender.start_flusher();
        (self.sender, self.receiver)
    }

    /// The two directions as they are: who posts owes a flush, so this is for who only sends.
    #[must_use]
    pub fn halves(self) -> (Sender, Receiver) {
        self.read_ahead();
        (self.sender, self.receiver)
    }

    /// What [`Link::resume`] needs in another process.
    ///
    /// # Errors
    /// [`LinkError::System`] when the socket cannot be duplicated.
    ///
    /// # Panics
    /// When it has gone over to rings or to TLS of this process: these stay where they are.
    pub fn into_parts(self) -> Result<Parts, LinkError> {
        let socket = self.socket.filter(|_| !self.has_gone_over).expect("a link over rings or TLS is not handed on");
        let socket = socket
            .try_clone()
            .map_err(|source| LinkError::system("duplicating a socket for another process", source))?;
        let may_seal = if let Keys::Kernel(kernel) = &self.keys { Some(kernel.left()) } else { None };
        Ok(Parts { socket, sent: self.sender.sent(), received: self.receiver.received(), may_seal })
    }
}
