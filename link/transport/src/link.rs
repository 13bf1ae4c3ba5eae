//! One connection, before it is split into its two directions.
//! In: a connected socket. Out: frames, one at a time, each with a deadline, as a handshake needs.
//! It reads no byte beyond the frame it returns, so the socket can be handed to another process between two frames.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use floe_wire::{Ended, Message};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ServerConnection};

use crate::error::LinkError;
use crate::frames::receiver::{Frame, Receiver};
use crate::frames::sender::Sender;
use crate::peer::Peer;
use crate::pipes::opening::{self, Speech};
use crate::pipes::pipe::{Pipe, Reach, Upgrade};
use crate::pipes::sealed::{self, Sealed, SealedKeys};
use crate::pipes::socket::Socket;
use crate::pipes::socket_options::{prepare_tcp, prepare_unix, watch_peer};
use crate::pipes::tls::{ClientTls, ServerTls, Tls, Tunnel, tunnel};
use crate::secret::{Protection, Secret, Secrets, Shown, TokenNumber};

/// `CUDA_ERROR_NOT_PERMITTED`, `…_NOT_SUPPORTED` and `…_SYSTEM_NOT_READY`: the codes of refusals.
const NOT_PERMITTED: u32 = 800;
const NOT_SUPPORTED: u32 = 801;
const SYSTEM_NOT_READY: u32 = 802;

/// What a server needs when clients connect by TCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answering<'a> {
    /// For TLS, where it is enabled.
    pub tls: Option<&'a ServerTls>,
    /// Whether TLS is required.
    pub tls_only: bool,
    /// The secrets of which a sealing client proves to know one.
    pub secret: Option<&'a dyn Secrets>,
}

/// Which code seals a link's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sealer {
    /// None: the bytes are in the clear.
    Nobody,
    /// TLS in this process, or in another thread of it.
    Process,
    /// This process, by the token.
    Token,
}

/// What another process needs to continue a link.
#[derive(Debug)]
pub struct Parts {
    /// The socket that carries it.
    pub socket: OwnedFd,
    /// Frames that went out.
    pub sent: u64,
    /// Frames that came in.
    pub received: u64,
    /// Its keys, where the token seals it.
    pub sealed: Option<SealedKeys>,
}

/// The holder of a link's keys.
#[derive(Debug)]
enum Keys {
    /// There are none.
    None,
    /// The pipe, which speaks TLS.
    Process,
    /// A tunnel's threads, which pass its bytes on.
    Tunnel(Tunnel),
    /// This pipe; the keys come from the token.
    Token(Arc<Sealed>),
}

/// A connection to a peer.
#[derive(Debug)]
pub struct Link {
    /// `None`: the link never had a socket of its own.
    socket: Option<Arc<OwnedFd>>,
    /// The socket, or the pipe to which both sides have switched.
    pipe: Arc<dyn Pipe>,
    has_gone_over: bool,
    keys: Keys,
    protection: Protection,
    /// What the peer has shown of who it is.
    pub(crate) shown: Box<Shown>,
    sender: Sender,
    receiver: Receiver,
}

impl Link {
    /// A link on a socket on which nothing has been sent.
    #[must_use]
    pub fn new(socket: OwnedFd) -> Self {
        Self::with(Arc::new(socket), Keys::None, 0, 0)
    }

    /// Continues a link that another process had.
    ///
    /// # Errors
    /// [`LinkError::Speech`] where its records' cipher is not known here.
    pub fn resume(parts: Parts) -> Result<Self, LinkError> {
        let Parts { socket, sent, received, sealed } = parts;
        let socket = Arc::new(socket);
        let keys = match sealed {
            None => Keys::None,
            Some(keys) => {
                let sealed = Sealed::resume(Arc::new(Socket::new(Arc::clone(&socket))), &keys);
                let unknown = "its records are sealed by a cipher that is not known here";
                Keys::Token(Arc::new(sealed.ok_or(LinkError::Speech(unknown))?))
            }
        };
        Ok(Self::with(socket, keys, sent, received))
    }

    /// A link on an accepted socket from which nothing has been read. Other holders of the socket may shut it down.
    ///
    /// # Errors
    /// [`LinkError::System`] where the socket cannot be set up.
    pub fn accepted(socket: Arc<OwnedFd>, peer: &Peer) -> Result<Self, LinkError> {
        match peer {
            Peer::Tcp(_) => prepare_tcp(&socket)?,
            Peer::Unix { .. } => prepare_unix(&socket),
        }
        Ok(Self::with(socket, Keys::None, 0, 0))
    }

    fn with(socket: Arc<OwnedFd>, keys: Keys, sent: u64, received: u64) -> Self {
        let pipe: Arc<dyn Pipe> = match &keys {
            Keys::Token(sealed) => Arc::clone(sealed) as _,
            _ => Arc::new(Socket::new(Arc::clone(&socket))),
        };
        let protection = clear_protection(&*pipe);
        let sender = Sender::new(Arc::clone(&pipe), sent);
        let receiver = Receiver::new(Arc::clone(&pipe), received);
        Self {
            socket: Some(socket),
            pipe,
            has_gone_over: false,
            keys,
            protection,
            shown: Box::default(),
            sender,
            receiver,
        }
    }

    /// The protection of its bytes, as both ends of the connection see it until it is handed to another process.
    #[must_use]
    pub fn protection(&self) -> &Protection {
        &self.protection
    }

    /// The number of the user's token that seals it; `None` where the server's own token does, or none.
    #[must_use]
    pub fn token_number(&self) -> Option<TokenNumber> {
        self.shown.number
    }

    /// Which code seals its records.
    #[must_use]
    pub fn sealer(&self) -> Sealer {
        match self.keys {
            Keys::None => Sealer::Nobody,
            Keys::Process | Keys::Tunnel(_) => Sealer::Process,
            Keys::Token(_) => Sealer::Token,
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

    /// Switches to the agreed transport from the next frame on. The socket stays: it shows when the peer is gone, and
    /// carries descriptors.
    ///
    /// # Errors
    /// As [`Upgrade::into_pipe`], [`LinkError::NoDescriptors`] where the link has no socket; then nothing has changed.
    pub fn go_over(&mut self, agreed: impl Upgrade) -> Result<(), LinkError> {
        let socket = self.socket.as_ref().ok_or(LinkError::NoDescriptors)?;
        let pipe = agreed.into_pipe(Arc::clone(socket))?;
        self.go_on_with(pipe);
        Ok(())
    }

    /// Switches to this pipe from the next frame on.
    fn go_on_with(&mut self, pipe: Arc<dyn Pipe>) {
        self.sender = Sender::new(Arc::clone(&pipe), self.sender.sent());
        self.receiver.go_over(Arc::clone(&pipe));
        (self.pipe, self.has_gone_over) = (pipe, true);
    }

    /// Makes the kernel drop the connection soon after the peer host stops answering.
    pub(crate) fn watch_peer(&self) {
        if let Some(socket) = &self.socket {
            watch_peer(socket);
        }
    }

    /// The socket that carries it, or shows when its peer is gone. `None`: the link never had a socket of its own.
    /// Ending the link shuts the socket down.
    #[must_use]
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(|socket| socket.as_fd())
    }

    /// The same, shared.
    pub(crate) fn own_socket(&self) -> Option<Arc<OwnedFd>> {
        self.socket.clone()
    }

    /// The pipe that carries it.
    pub(crate) fn pipe(&self) -> Arc<dyn Pipe> {
        Arc::clone(&self.pipe)
    }

    /// The pipe that carried it, for another link to continue.
    ///
    /// # Panics
    /// When bytes were read ahead.
    pub(crate) fn into_pipe(self) -> Arc<dyn Pipe> {
        self.receiver.assert_nothing_ahead();
        self.read_ahead();
        self.pipe
    }

    /// Allows reading ahead from here on.
    fn read_ahead(&self) {
        if let Keys::Token(sealed) = &self.keys {
            sealed.read_ahead();
        }
    }

    /// The link over a pipe that wraps its present one.
    pub(crate) fn go_on_over(mut self, pipe: Arc<dyn Pipe>) -> Self {
        self.read_ahead();
        self.go_on_with(pipe);
        self
    }

    /// A link over a pipe on which nothing has been sent, without a socket of its own. It cannot be handed to another
    /// process.
    #[must_use]
    pub fn over(pipe: Arc<dyn Pipe>) -> Self {
        let (sender, receiver) = (Sender::new(Arc::clone(&pipe), 0), Receiver::new(Arc::clone(&pipe), 0));
        let (keys, protection) = (Keys::None, clear_protection(&*pipe));
        Self { socket: None, pipe, has_gone_over: true, keys, protection, shown: Box::default(), sender, receiver }
    }

    /// Agrees on TLS with a server whose certificate names `host`. Nothing has been sent on the link.
    ///
    /// # Errors
    /// [`LinkError::Tls`] where the server is not to be trusted, else as a frame's.
    pub(crate) fn secure(&mut self, tls: &ClientTls, host: &str, deadline: Instant) -> Result<(), LinkError> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| LinkError::Tls(rustls::Error::General(format!("not a name for a certificate: {host}"))))?;
        let connection = ClientConnection::new(Arc::clone(&tls.0), name).map_err(LinkError::Tls)?;
        let pipe = Tls::agree(Arc::clone(&self.pipe), connection.into(), deadline)?;
        self.go_on_with_keys(pipe)
    }

    fn go_on_with_keys(&mut self, tls: Tls) -> Result<(), LinkError> {
        self.protection = Protection::Tls(tls.exported()?);
        self.go_on_with(Arc::new(tls));
        self.keys = Keys::Process;
        Ok(())
    }

    /// Agrees with a peer that knows the same secret on keys, which seal everything from here on. The peer answers with
    /// [`Link::answer_seal`], or is a server and nothing has been sent on the link.
    ///
    /// # Errors
    /// [`LinkError::Unproved`] where the server does not know the secret, [`LinkError::Unsealed`] where it answers in
    /// the clear, else as a frame's.
    pub fn seal(&mut self, secret: &Secret, deadline: Instant) -> Result<(), LinkError> {
        let agreed = sealed::open(Arc::clone(&self.pipe), secret, deadline)?;
        self.go_on_sealed(agreed);
        Ok(())
    }

    /// Answers a peer that seals the link by [`Link::seal`], between two frames. A replayed first message passes, too:
    /// only frames behind it are surely new.
    ///
    /// # Errors
    /// [`LinkError::Unproved`] where the peer does not know the secret or seals in an unknown way, else as a frame's.
    pub fn answer_seal(&mut self, secret: &Secret, deadline: Instant) -> Result<(), LinkError> {
        match sealed::accept(Arc::clone(&self.pipe), secret, deadline)? {
            sealed::Opening::Agreed(agreed) => {
                self.go_on_sealed(*agreed);
                Ok(())
            }
            sealed::Opening::Stranger | sealed::Opening::Unknown => Err(LinkError::Unproved),
        }
    }

    /// Ends sealing between two frames, where both peers do: everything from here on is in the clear. A link that is not
    /// sealed stays as it is.
    ///
    /// # Errors
    /// [`LinkError::Speech`] where the peer has sent more of a sealed record.
    pub fn unseal(&mut self) -> Result<(), LinkError> {
        let (Keys::Token(sealed), Some(socket)) = (&self.keys, &self.socket) else { return Ok(()) };
        sealed.keys().ok_or(LinkError::Speech("it sent sealed bytes behind the last sealed frame"))?;
        let pipe: Arc<dyn Pipe> = Arc::new(Socket::new(Arc::clone(socket)));
        self.protection = clear_protection(&*pipe);
        self.go_on_with(pipe);
        (self.keys, self.has_gone_over) = (Keys::None, false);
        Ok(())
    }

    fn go_on_sealed(&mut self, agreed: sealed::Agreed) {
        self.shown.number = agreed.number;
        let pipe = Arc::new(agreed.pipe);
        self.go_on_with(Arc::clone(&pipe) as _);
        (self.keys, self.has_gone_over) = (Keys::Token(pipe), false);
        self.protection = Protection::Sealed(agreed.hash);
    }

    /// Reads a client's first bytes and returns its link: in the clear, sealed or by TLS, as the client begins. Nothing
    /// has been sent on the link. The socket of any can be handed to another process.
    ///
    /// # Errors
    /// [`LinkError::Tls`]: they do not agree. [`LinkError::Speech`]: the client does not protect the link as it must,
    /// is not understood, or does not know the token. [`LinkError::TimedOut`]. A client that seals gets the reason.
    pub fn answer(self, by: &Answering<'_>, deadline: Instant) -> Result<Self, LinkError> {
        match (self.speech(deadline)?, by.tls) {
            (Speech::Tls, None) => Err(LinkError::Speech("it speaks TLS, and this server has no certificate")),
            (Speech::Tls, Some(tls)) => self.answer_tls(tls, deadline),
            (Speech::Sealed, _) => self.answer_sealed(by, deadline),
            (Speech::Clear, _) if by.tls_only => {
                Err(LinkError::Speech("it does not speak TLS, and this server speaks TLS only"))
            }
            (Speech::Clear, _) => Ok(self),
        }
    }

    fn answer_tls(mut self, tls: &ServerTls, deadline: Instant) -> Result<Self, LinkError> {
        let connection = ServerConnection::new(Arc::clone(&tls.config)).map_err(LinkError::Tls)?;
        let agreed = Tls::agree(Arc::clone(&self.pipe), connection.into(), deadline)?;
        let users = if tls.names_users() { agreed.users() } else { Vec::new() };
        self.go_on_with_keys(agreed)?;
        let mut link = self.through_tunnel()?;
        link.shown.users = users;
        Ok(link)
    }

    fn answer_sealed(mut self, by: &Answering<'_>, deadline: Instant) -> Result<Self, LinkError> {
        if by.tls_only {
            return self.refuse(SYSTEM_NOT_READY, "this server speaks TLS only: reach it by tls://");
        }
        let Some(secrets) = by.secret else {
            return self.refuse(NOT_SUPPORTED, "this server knows no token");
        };
        match sealed::accept(Arc::clone(&self.pipe), secrets, deadline)? {
            sealed::Opening::Agreed(agreed) => {
                self.go_on_sealed(*agreed);
                Ok(self)
            }
            sealed::Opening::Stranger => Err(self.turn_away()),
            sealed::Opening::Unknown => {
                self.refuse(SYSTEM_NOT_READY, "this server seals in another way: use the same release on both sides")
            }
        }
    }

    /// Refuses a client that seals by another token, and returns the reason that it was given. It does not wait on a
    /// connection on which nothing was sent.
    #[must_use]
    pub fn turn_away(self) -> LinkError {
        self.say_no(NOT_PERMITTED, "the token is wrong")
    }

    fn refuse(self, status: u32, why: &'static str) -> Result<Self, LinkError> {
        Err(self.say_no(status, why))
    }

    /// Tells a sealing client in the clear why it is refused.
    fn say_no(mut self, status: u32, why: &'static str) -> LinkError {
        // A client that is gone needs no answer.
        let _ = self.send(&Ended { status, detail: why });
        LinkError::Speech(why)
    }

    fn through_tunnel(self) -> Result<Self, LinkError> {
        let Some(socket) = self.socket.clone() else { return Ok(self) };
        let protection = self.protection;
        let (clear, tunnel) = tunnel(self.into_pipe(), socket)?;
        Ok(Self { keys: Keys::Tunnel(tunnel), protection, ..Self::new(clear) })
    }

    /// Its tunnel, which stays with this process when the link is handed to another.
    #[must_use]
    pub fn tunnel(&self) -> Option<Tunnel> {
        if let Keys::Tunnel(tunnel) = &self.keys { Some(tunnel.clone()) } else { None }
    }

    /// What the peer's first bytes begin. They stay unread.
    fn speech(&self, deadline: Instant) -> Result<Speech, LinkError> {
        self.socket.as_ref().map_or(Ok(Speech::Clear), |socket| opening::await_speech(socket.as_fd(), deadline))
    }

    /// Splits it into its two directions, for two threads. Posted messages leave by themselves from here on.
    #[must_use]
    pub fn split(self) -> (Sender, Receiver) {
        self.read_ahead();
        self.sender.start_flusher();
        (self.sender, self.receiver)
    }

    /// Splits it without a flusher: a poster owes a flush, so this suits callers that only send.
    #[must_use]
    pub fn halves(self) -> (Sender, Receiver) {
        self.read_ahead();
        (self.sender, self.receiver)
    }

    /// What [`Link::resume`] needs in another process.
    ///
    /// # Errors
    /// [`LinkError::System`] when the socket cannot be duplicated, [`LinkError::Speech`] where a sealed record has
    /// unread bytes.
    ///
    /// # Panics
    /// When it has switched to another pipe, TLS of this process included: such a pipe stays in its process.
    pub fn into_parts(self) -> Result<Parts, LinkError> {
        let socket = self
            .socket
            .filter(|_| !self.has_gone_over)
            .expect("a link that has gone over to another pipe is not handed on");
        let socket = socket
            .try_clone()
            .map_err(|source| LinkError::system("duplicating a socket for another process", source))?;
        let ahead = LinkError::Speech("it sent more than it may before its worker has the connection");
        let sealed = match &self.keys {
            Keys::Token(sealed) => Some(sealed.keys().ok_or(ahead)?),
            _ => None,
        };
        Ok(Parts { socket, sent: self.sender.sent(), received: self.receiver.received(), sealed })
    }
}

/// The protection of unsealed bytes.
fn clear_protection(pipe: &dyn Pipe) -> Protection {
    if pipe.reach() == Reach::Machine { Protection::Local } else { Protection::Clear }
}
