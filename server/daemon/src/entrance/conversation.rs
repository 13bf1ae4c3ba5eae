//! The messages before a session: Hello, Authenticate, the lists, the telemetry, Attach or Join.
//! In: one connection's frames, each with a deadline, and its peer. Out: replies, and at most one session, whose worker
//! gets the connection.
//! It believes no claim before its proof. No peer can make it wait, or use memory, without limit.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use floe_metrics::Refusal as Kind;
use floe_migrate::Action;
use floe_transport::{Link, LinkError, Peer, Protection, Sealer, Side};
use floe_wire::{
    Attach, AttachReply, Authenticate, AuthenticateReply, Class, DecodeError, Ended, Field, Hello, HelloReply, Join,
    ListGpusReply, ListSessionsReply, MAGIC, MOST_WORDS, Migrate, NEWEST_VERSION, OLDEST_VERSION, PeerHello,
    ReadTelemetry, ReadTelemetryReply, Reply, Request, SETUP_PAYLOAD_LIMIT,
};

use super::limits::{SILENCE, Source, UNPROVED};
use super::token::{RANDOM_BYTES, Token, random};
use crate::error::DaemonError;
use crate::status;
use crate::usage::place::Place;
use crate::usage::sessions::Admission;

/// The most bytes of a payload before the proof: `Hello` and `Authenticate` have some hundred.
const UNPROVED_PAYLOAD_LIMIT: u32 = 1 << 10;
/// Bytes of a client's nonce. With fewer, two questions could be equal.
const NONCE_BYTES: RangeInclusive<usize> = 16..=64;
/// The refusal for a client that does not seal.
const NOT_IN_THE_CLEAR: &str = "this server takes no clear text\n  copy its token file to the client \
     (~/.config/floe/token, or FLOE_TOKEN_FILE): it then seals tcp://; clear:// needs a server with --clear-text";
/// A client shows no more bytes of a server's sentence.
const _: () = assert!(NOT_IN_THE_CLEAR.len() <= MOST_WORDS);
/// The longest patience that a move may ask for: a program would stand for as long.
const LONGEST_PATIENCE: Duration = Duration::from_secs(60);
/// The most frames before an attach: enough for every list, far too few for a flood.
const FRAMES: usize = 256;

/// The peer that asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller<'a> {
    /// The other end of the connection.
    pub(crate) peer: &'a Peer,
    /// The peer whose limits it counts for and whose sessions it is shown. `None`: the server's own user, who has no
    /// limits and sees all.
    pub(crate) source: Option<Source>,
}

/// The server as the conversation needs it.
pub(crate) trait Host {
    /// The token that peers must know.
    fn token(&self) -> Option<&Token>;
    /// Whether a peer needs no token if it holds its end of the socket itself.
    fn trusts(&self, peer: &Peer) -> bool;
    /// Whether it needs none even if it may only forward others' bytes.
    fn trusts_forwarded(&self) -> bool;
    /// Whether TCP clients may connect in the clear.
    fn takes_clear_text(&self) -> bool;
    /// The reply to `ListGpus`, encoded.
    fn gpus(&self, answer: &mut dyn FnMut(ListGpusReply<'_>));
    /// The reply to `ListSessions`, encoded: only what this caller may see.
    fn sessions(&self, caller: &Caller<'_>, answer: &mut dyn FnMut(ListSessionsReply<'_>));
    /// The reply to `ReadTelemetry`, encoded: only what this caller may see.
    fn telemetry(
        &self,
        caller: &Caller<'_>,
        request: &ReadTelemetry<'_>,
        answer: &mut dyn FnMut(ReadTelemetryReply<'_>),
    );
    /// Admits a session, has it wait, or says why not.
    fn admit(&self, request: &Attach<'_>, caller: &Caller<'_>, sealer: Sealer) -> Result<Admitted, Refusal>;
    /// The reply to `Attach`.
    fn attached<'a>(&'a self, admission: &'a Admission) -> AttachReply<'a>;
    /// Whether a connection of another worker, which may be of this machine, may go to this session's, or why not.
    fn peer(&self, session: u64, is_local: bool) -> Result<(), Refusal>;
    /// Whether a connection may join the session, or why not.
    fn join(&self, request: &Join<'_>) -> Result<(), Refusal>;
}

/// What becomes of an admissible request.
pub(crate) enum Admitted {
    /// It has its session.
    Session(Admission),
    /// It waits for room, at this place.
    Waits(Place),
}

/// A peer's deadlines.
pub(crate) trait Time {
    /// The deadline for its next frame.
    fn deadline(&self, now: Instant) -> Instant;
    /// The peer has proved who it is, or need not. From here on it counts as `source`.
    fn prove(&mut self, now: Instant, source: Source);
}

/// The result of a conversation.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The peer left.
    Left,
    /// The peer has a session. Its connection is at a frame's border.
    Attached(Admission),
    /// The connection, at a frame's border, belongs to the worker of this session.
    Joined(u64),
    /// The same of a connection that another server's worker has opened. It has proved nothing: the worker asks for that.
    Peer(u64),
    /// The peer's Attach of this sequence waits for room. Its connection is at a frame's border.
    Waits(u64, Place),
    /// The peer wants a session moved. Its connection is at a frame's border, and hears of the move.
    Migrate(MoveRequest),
}

/// A peer's wish to have a session moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MoveRequest {
    /// The message's sequence, for the reply.
    pub(crate) sequence: u64,
    pub(crate) session: u64,
    /// The session's key, or nothing.
    pub(crate) key: Vec<u8>,
    pub(crate) action: Action,
    /// The GPU; `None`: another one that this server chooses.
    pub(crate) gpu: Option<u32>,
    pub(crate) stop_and_copy: bool,
    pub(crate) patience: Duration,
    /// Who asks; `None`: the server's own user.
    pub(crate) source: Option<Source>,
    /// Whether the peer has proved who it is, by the token or as a user of this machine.
    pub(crate) has_proved: bool,
}

/// Why an Attach or a Join is refused: the program's CUDA code, and a sentence.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u32,
    pub(crate) detail: String,
}

/// Why a conversation ended without a session.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConversationError {
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The peer says what it may not.
    #[error("{0}")]
    Refused(String),
    /// A request was answered with a refusal.
    #[error("{detail}")]
    Answered { status: u32, detail: String },
    #[error(transparent)]
    Daemon(#[from] DaemonError),
}

impl ConversationError {
    /// The kind of the refusal, by which it is counted.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Answered { status: status::NOT_PERMITTED, .. } | Self::Link(LinkError::Speech(_)) => {
                Kind::NotPermitted
            }
            Self::Answered { status: status::SYSTEM_DRIVER_MISMATCH, .. } => Kind::Version,
            Self::Answered { .. } => Kind::Request,
            Self::Refused(_) | Self::Decode(_) => Kind::Protocol,
            Self::Link(LinkError::TimedOut { .. }) => Kind::Silent,
            Self::Link(link) if link.is_broken_contract() && !link.is_cut() => Kind::Protocol,
            Self::Link(_) => Kind::Connection,
            Self::Daemon(_) => Kind::Server,
        }
    }
}

/// Runs the conversation. Writes stay limited in time after it; the caller that gives the link to a worker lifts the
/// limit.
pub(crate) fn lead(
    link: &mut Link,
    peer: &Peer,
    host: &dyn Host,
    pass: &mut dyn Time,
) -> Result<Outcome, ConversationError> {
    link.limit_payload(UNPROVED_PAYLOAD_LIMIT);
    link.limit_writes(Some(UNPROVED))?;
    let mut conversation =
        Conversation { link, peer, host, pass, nonce: random()?, stage: Stage::Silent, is_known: false };
    for _ in 0..FRAMES {
        match conversation.step() {
            Ok(Step::Go) => {}
            Ok(Step::Over(outcome)) => return Ok(outcome),
            Err(error) => {
                conversation.say_why(&error);
                return Err(error);
            }
        }
    }
    let error = ConversationError::Refused(format!("more than {FRAMES} frames before an Attach"));
    conversation.say_why(&error);
    Err(error)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The peer has sent nothing.
    Silent,
    /// The peer has sent Hello and must send its proof.
    Greeted,
    /// The peer may send any request.
    Welcome,
}

enum Step {
    Go,
    Over(Outcome),
}

struct Conversation<'a> {
    link: &'a mut Link,
    peer: &'a Peer,
    host: &'a dyn Host,
    pass: &'a mut dyn Time,
    nonce: [u8; RANDOM_BYTES],
    stage: Stage,
    /// Whether the peer had proved who it is before its first frame.
    is_known: bool,
}

impl Conversation<'_> {
    fn step(&mut self) -> Result<Step, ConversationError> {
        let deadline = self.pass.deadline(Instant::now());
        // No other peer's descriptors are taken, and none later.
        self.link.take_descriptors(self.stage == Stage::Silent && self.host.trusts(self.peer));
        let Some(frame) = self.link.receive(Some(deadline))? else { return Ok(Step::Over(Outcome::Left)) };
        let sequence = frame.sequence;
        let payload = frame.payload.to_vec();
        let request = Request::decode(frame.kind, &payload)?;
        match (self.stage, request) {
            (Stage::Silent, Request::Hello(hello)) => self.greet(sequence, &hello),
            (Stage::Silent, Request::PeerHello(hello)) => self.lead_to_peer(sequence, &hello),
            (Stage::Greeted, Request::Authenticate(proof)) => self.authenticate(sequence, &proof),
            (Stage::Welcome, Request::ListGpus(_)) => self.list_gpus(sequence),
            (Stage::Welcome, Request::ListSessions(_)) => self.list_sessions(sequence),
            (Stage::Welcome, Request::ReadTelemetry(request)) => self.read_telemetry(sequence, &request),
            (Stage::Welcome, Request::Attach(attach)) => self.attach(sequence, &attach),
            (Stage::Welcome, Request::Join(join)) => self.join(sequence, &join),
            (Stage::Welcome, Request::Migrate(migrate)) => self.migrate(sequence, &migrate),
            (_, other) => Err(ConversationError::Refused(format!("unexpected message: {}", other.name()))),
        }
    }

    fn greet(&mut self, sequence: u64, hello: &Hello<'_>) -> Result<Step, ConversationError> {
        if hello.magic != MAGIC {
            return Err(ConversationError::Refused(format!("not floe's greeting: {:#010x}", hello.magic)));
        }
        let version = hello.newest.min(NEWEST_VERSION);
        if version < hello.oldest || version < OLDEST_VERSION {
            let words = format!(
                "no common protocol version: the client speaks {} to {}, this server {OLDEST_VERSION} to {NEWEST_VERSION}\n  take \
                 the same release of floe on both sides",
                hello.oldest, hello.newest
            );
            return self.refuse(sequence, status::SYSTEM_DRIVER_MISMATCH, words);
        }
        if *self.link.protection() == Protection::Clear && !self.host.takes_clear_text() {
            return self.refuse(sequence, status::NOT_PERMITTED, NOT_IN_THE_CLEAR.to_owned());
        }
        self.is_known = self.shows_itself();
        let authenticate = self.host.token().is_some() && !self.is_known;
        self.stage = Stage::Greeted;
        if !authenticate {
            self.is_welcome()?;
        }
        let server = concat!("floed ", env!("CARGO_PKG_VERSION"));
        let nonce = self.nonce;
        self.answer(sequence, &HelloReply { version, server, authenticate, nonce: &nonce })
    }

    /// Another server's worker wants to speak to a session's. What it says to this process is not secret.
    fn lead_to_peer(&mut self, sequence: u64, hello: &PeerHello) -> Result<Step, ConversationError> {
        if hello.magic != MAGIC {
            return Err(ConversationError::Refused(format!("not floe's greeting: {:#010x}", hello.magic)));
        }
        if hello.version != NEWEST_VERSION {
            let words = format!(
                "the other server speaks protocol {}, this one {NEWEST_VERSION}\n  take the same release of floe on both",
                hello.version
            );
            return self.refuse(sequence, status::SYSTEM_DRIVER_MISMATCH, words);
        }
        match self.host.peer(hello.session, matches!(self.link.protection(), Protection::Local)) {
            Ok(()) => {
                self.reply(sequence, &[])?;
                Ok(Step::Over(Outcome::Peer(hello.session)))
            }
            Err(refusal) => self.refuse(sequence, refusal.status, refusal.detail),
        }
    }

    /// Whether the peer had proved who it is before its first frame. It did so by the token that seals its connection,
    /// or as a process of this machine that needs none.
    fn shows_itself(&mut self) -> bool {
        match self.link.protection() {
            Protection::Sealed(_) => true,
            Protection::Local if self.host.trusts(self.peer) => {
                let shown = self.link.descriptor();
                self.host.trusts_forwarded() || self.peer.is_shown_by(shown.as_ref())
            }
            Protection::Local | Protection::Clear | Protection::Tls(_) => false,
        }
    }

    fn authenticate(&mut self, sequence: u64, message: &Authenticate<'_>) -> Result<Step, ConversationError> {
        if !NONCE_BYTES.contains(&message.nonce.len()) {
            let words = format!("a client's nonce has 16 to 64 bytes, this one: {}", message.nonce.len());
            return self.refuse(sequence, status::INVALID_VALUE, words);
        }
        let (protection, theirs) = (*self.link.protection(), message.nonce);
        let secret = self.host.token().map(Token::secret);
        let secret =
            secret.filter(|secret| secret.proves(Side::Client, &protection, &self.nonce, theirs, message.proof));
        let Some(secret) = secret else {
            return self.refuse(sequence, status::NOT_PERMITTED, "the token is wrong".to_owned());
        };
        let proof = secret.proof(Side::Server, &protection, &self.nonce, theirs);
        self.is_welcome()?;
        self.answer(sequence, &AuthenticateReply { proof: &proof })
    }

    /// The peer has proved who it is, or need not.
    fn is_welcome(&mut self) -> Result<(), ConversationError> {
        self.stage = Stage::Welcome;
        let source = self.caller().source.unwrap_or_else(|| Source::of(self.peer));
        self.pass.prove(Instant::now(), source);
        self.link.limit_payload(SETUP_PAYLOAD_LIMIT);
        Ok(self.link.limit_writes(Some(SILENCE))?)
    }

    /// A peer that proves the token through somebody else's socket is not the socket's user.
    fn caller(&self) -> Caller<'_> {
        let source = match (self.host.trusts(self.peer), self.is_known) {
            (true, true) => None,
            (true, false) => Some(Source::behind(self.peer)),
            (false, _) => Some(Source::of(self.peer)),
        };
        Caller { peer: self.peer, source }
    }

    fn list_gpus(&mut self, sequence: u64) -> Result<Step, ConversationError> {
        let mut body = Vec::new();
        self.host.gpus(&mut |reply| reply.write(&mut body));
        self.reply(sequence, &body)
    }

    fn list_sessions(&mut self, sequence: u64) -> Result<Step, ConversationError> {
        let mut body = Vec::new();
        self.host.sessions(&self.caller(), &mut |reply| reply.write(&mut body));
        self.reply(sequence, &body)
    }

    fn read_telemetry(&mut self, sequence: u64, request: &ReadTelemetry<'_>) -> Result<Step, ConversationError> {
        let mut body = Vec::new();
        self.host.telemetry(&self.caller(), request, &mut |reply| reply.write(&mut body));
        self.reply(sequence, &body)
    }

    fn attach(&mut self, sequence: u64, request: &Attach<'_>) -> Result<Step, ConversationError> {
        match self.host.admit(request, &self.caller(), self.link.sealer()) {
            Ok(Admitted::Session(admission)) => {
                let mut body = Vec::new();
                self.host.attached(&admission).write(&mut body);
                // If the peer left before this reply, it has no session: the admission takes the row along.
                self.reply(sequence, &body)?;
                Ok(Step::Over(Outcome::Attached(admission)))
            }
            Ok(Admitted::Waits(place)) => Ok(Step::Over(Outcome::Waits(sequence, place))),
            Err(refusal) => self.refuse(sequence, refusal.status, refusal.detail),
        }
    }

    fn join(&mut self, sequence: u64, request: &Join<'_>) -> Result<Step, ConversationError> {
        match self.host.join(request) {
            Ok(()) => {
                self.reply(sequence, &[])?;
                Ok(Step::Over(Outcome::Joined(request.session)))
            }
            Err(refusal) => self.refuse(sequence, refusal.status, refusal.detail),
        }
    }

    /// The reply comes when the move is over.
    fn migrate(&mut self, sequence: u64, request: &Migrate<'_>) -> Result<Step, ConversationError> {
        let Some(action) = Action::numbered(request.action) else {
            let detail = format!("nothing that is done with sessions has the number {}", request.action);
            return self.refuse(sequence, status::INVALID_VALUE, detail);
        };
        // Over TCP an address alone proves nothing, and this server may ask for no token.
        let has_proved = matches!(self.peer, Peer::Unix { .. }) || self.host.token().is_some();
        Ok(Step::Over(Outcome::Migrate(MoveRequest {
            sequence,
            session: request.session,
            key: request.key.to_vec(),
            action,
            gpu: (request.gpu != u32::MAX).then_some(request.gpu),
            stop_and_copy: request.stop_and_copy,
            patience: Duration::from_millis(request.patience_ms.into()).min(LONGEST_PATIENCE),
            source: self.caller().source,
            has_proved,
        })))
    }

    fn answer<'r>(&mut self, sequence: u64, reply: &impl Field<'r>) -> Result<Step, ConversationError> {
        let mut body = Vec::new();
        reply.write(&mut body);
        self.reply(sequence, &body)
    }

    fn reply(&mut self, request: u64, body: &[u8]) -> Result<Step, ConversationError> {
        self.link.send(&Reply { request, status: status::SUCCESS, earlier: 0, detail: "", body })?;
        Ok(Step::Go)
    }

    /// Refuses one request. The connection closes after it.
    fn refuse(&mut self, request: u64, status: u32, detail: String) -> Result<Step, ConversationError> {
        self.link.send(&Reply { request, status, earlier: 0, detail: &detail, body: &[] })?;
        self.stage = Stage::Silent;
        Err(ConversationError::Answered { status, detail })
    }

    /// Tells a peer that violated the protocol why the connection closes, if it still reads.
    fn say_why(&mut self, error: &ConversationError) {
        let status = match error {
            ConversationError::Decode(_) => status::INVALID_VALUE,
            ConversationError::Link(link) if link.is_broken_contract() => status::INVALID_VALUE,
            // The peer has left, is silent, or knows it from the reply that refused it.
            ConversationError::Link(_) => return,
            ConversationError::Refused(_) | ConversationError::Answered { .. } | ConversationError::Daemon(_) => {
                status::SYSTEM_NOT_READY
            }
        };
        // A peer that has left does not need it.
        let _ = self.link.send(&Ended { status, detail: &error.to_string() });
    }
}

/// The daemon answers calls only; all else in [`Request`] belongs to a worker.
const _: () = assert!(matches!(<Hello<'static> as floe_wire::Message>::CLASS, Class::Call));

#[cfg(test)]
mod tests;
