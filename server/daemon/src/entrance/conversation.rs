//! The messages before a session: Hello, Authenticate, the lists, the telemetry, Attach or Join.
//! In: one connection's frames, each with a deadline, and its peer. Out: replies, and at most one session, whose worker
//! gets the connection.
//! It believes no claim before its proof. No peer can make it wait, or use memory, without limit.

mod contract;

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use floe_migrate::Action;
use floe_transport::{Link, Peer, Protection, Side, TokenNumber};
use floe_users::Name;
use floe_wire::{
    Attach, Authenticate, AuthenticateReply, Class, EndSession, Ended, Field, Hello, HelloReply, Identify,
    IdentifyReply, Join, MAGIC, MOST_WORDS, Migrate, NEWEST_VERSION, OLDEST_VERSION, PeerHello, ReadTelemetry, Reply,
    Request, SETUP_PAYLOAD_LIMIT,
};

use super::limits::{SILENCE, Source, UNPROVED};
use super::token::{RANDOM_BYTES, random};
use super::tokens::Holder;
use crate::status;

pub(crate) use contract::{Admitted, Caller, ConversationError, Host, MoveRequest, Outcome, Refusal, Time};

/// The most bytes of a payload before the proof: `Hello` and `Authenticate` have some hundred.
const UNPROVED_PAYLOAD_LIMIT: u32 = 1 << 10;
/// Bytes of a client's nonce. With fewer, two questions could be equal.
const NONCE_BYTES: RangeInclusive<usize> = 16..=64;
/// The refusal for a client that does not seal.
const NOT_IN_THE_CLEAR: &str = "this server takes no clear text\n  copy its token file to the client \
     (~/.config/floe/token, or FLOE_TOKEN_FILE): it then seals tcp://; clear:// needs a server with --clear-text";
/// The refusal of a token that is nobody's, or nobody's any more.
pub(crate) const WRONG_TOKEN: &str = "the token is wrong";
/// A client shows no more bytes of a server's sentence.
const _: () = assert!(NOT_IN_THE_CLEAR.len() <= MOST_WORDS);
/// The longest patience that a move may ask for: a program would stand for as long.
const LONGEST_PATIENCE: Duration = Duration::from_secs(60);
/// The most frames before an attach: enough for every list, far too few for a flood.
const FRAMES: usize = 256;

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
    let local = host.local_user(peer);
    let (nonce, stage) = (random()?, Stage::Silent);
    let (is_known, certified, has_token, holder) = (false, None, false, None);
    let mut conversation =
        Conversation { link, peer, host, pass, nonce, stage, is_known, local, certified, has_token, holder };
    for _ in 0..FRAMES {
        match conversation.step() {
            Ok(Step::Go) => {}
            Ok(Step::Over(outcome)) => return Ok(*outcome),
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
    Over(Box<Outcome>),
}

impl Step {
    fn over(outcome: Outcome) -> Self {
        Self::Over(Box::new(outcome))
    }
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
    /// The account's name, if the policy has a place for this user of the machine.
    local: Option<Name>,
    /// The user that the peer's certificate names.
    certified: Option<Name>,
    /// Whether the peer has proved the server's token.
    has_token: bool,
    /// The user whose token the peer has proved.
    holder: Option<Holder>,
}

/// The refusal of a token that begins nothing new.
pub(crate) fn revoked(name: Name) -> String {
    format!("this token of {name} is revoked: it begins no session\n  ask the operator for another")
}

impl Conversation<'_> {
    fn step(&mut self) -> Result<Step, ConversationError> {
        let deadline = self.pass.deadline(Instant::now());
        // No other peer's descriptors are taken, and none later.
        let may_show_itself = self.host.trusts(self.peer) || self.local.is_some();
        self.link.take_descriptors(self.stage == Stage::Silent && may_show_itself);
        let Some(frame) = self.link.receive(Some(deadline))? else { return Ok(Step::over(Outcome::Left)) };
        let sequence = frame.sequence;
        let payload = frame.payload.to_vec();
        let request = Request::decode(frame.kind, &payload)?;
        if !self.is_let_in() {
            return self.refuse(sequence, status::NOT_PERMITTED, WRONG_TOKEN.to_owned());
        }
        match (self.stage, request) {
            (Stage::Silent, Request::Hello(hello)) => self.greet(sequence, &hello),
            (Stage::Silent, Request::PeerHello(hello)) => self.lead_to_peer(sequence, &hello),
            (Stage::Greeted, Request::Authenticate(proof)) => self.authenticate(sequence, &proof),
            (Stage::Welcome, Request::Identify(request)) => self.identify(sequence, &request),
            (Stage::Welcome, Request::ListGpus(_)) => self.list_gpus(sequence),
            (Stage::Welcome, Request::ListSessions(_)) => self.list_sessions(sequence),
            (Stage::Welcome, Request::ReadTelemetry(request)) => self.read_telemetry(sequence, &request),
            (Stage::Welcome, Request::Attach(attach)) => self.attach(sequence, &attach),
            (Stage::Welcome, Request::EndSession(end)) => self.end_session(sequence, &end),
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
        match self.certified_user() {
            Ok(Some(name)) => self.certified = Some(name),
            Ok(None) => {}
            Err(refusal) => return self.refuse(sequence, refusal.status, refusal.detail),
        }
        self.is_known = self.shows_itself();
        let authenticate = self.host.asks_for_token() && !self.is_known;
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
                Ok(Step::over(Outcome::Peer(hello.session)))
            }
            Err(refusal) => self.refuse(sequence, refusal.status, refusal.detail),
        }
    }

    /// The user that the certificate of this connection names; `None`: it has shown none, or one that names nobody.
    fn certified_user(&self) -> Result<Option<Name>, Refusal> {
        match self.link.users() {
            [] => Ok(None),
            [name] => self.host.certified(name).map(Some),
            [first, second, ..] => {
                let (first, second) = (floe_wire::printable(first), floe_wire::printable(second));
                let detail = format!("the client's certificate names more than one user: {first}, {second}");
                Err(Refusal { status: status::NOT_PERMITTED, detail })
            }
        }
    }

    /// Whether the peer had proved who it is before its first frame. It did so by the token that seals its connection,
    /// by a certificate that names a user, or as a process of this machine that needs none.
    fn shows_itself(&mut self) -> bool {
        match self.link.protection() {
            Protection::Sealed(_) => self.has_proved_token(self.link.token_number()),
            Protection::Local if self.host.trusts(self.peer) => {
                let shown = self.link.descriptor();
                self.host.trusts_forwarded() || self.peer.is_shown_by(shown.as_ref())
            }
            // Nobody else's bytes pass as this user's.
            Protection::Local if self.local.is_some() => {
                let shown = self.link.descriptor();
                self.peer.is_shown_by(shown.as_ref())
            }
            Protection::Tls(_) => self.certified.is_some(),
            Protection::Local | Protection::Clear => false,
        }
    }

    /// The peer has proved the token of this number, or the server's. False: the token is nobody's any more.
    fn has_proved_token(&mut self, number: Option<TokenNumber>) -> bool {
        match number {
            Some(number) => self.holder = self.host.holder(number),
            None => self.has_token = true,
        }
        self.has_token || self.holder.is_some()
    }

    /// Whether the token that the peer has proved is still somebody's. It may be revoked while the connection lasts.
    fn is_let_in(&mut self) -> bool {
        let Some(Holder { number, .. }) = self.holder else { return true };
        let now = self.host.holder(number);
        self.holder = now.or(self.holder);
        now.is_some()
    }

    fn authenticate(&mut self, sequence: u64, message: &Authenticate<'_>) -> Result<Step, ConversationError> {
        if !NONCE_BYTES.contains(&message.nonce.len()) {
            let words = format!("a client's nonce has 16 to 64 bytes, this one: {}", message.nonce.len());
            return self.refuse(sequence, status::INVALID_VALUE, words);
        }
        let (protection, theirs) = (*self.link.protection(), message.nonce);
        let number = match message.number {
            [] => None,
            number => match number.try_into() {
                Ok(number) => Some(TokenNumber(number)),
                Err(_) => {
                    let words = format!("a token's number has 8 bytes, this one: {}", number.len());
                    return self.refuse(sequence, status::INVALID_VALUE, words);
                }
            },
        };
        let secret = self.host.secret(number);
        let secret =
            secret.filter(|secret| secret.proves(Side::Client, &protection, &self.nonce, theirs, message.proof));
        let Some(secret) = secret.filter(|_| self.has_proved_token(number)) else {
            return self.refuse(sequence, status::NOT_PERMITTED, WRONG_TOKEN.to_owned());
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

    /// A peer that proves the token through somebody else's socket is not the socket's user. With a policy the server's
    /// token is the operator's.
    fn caller(&self) -> Caller<'_> {
        let is_operator = self.has_token && self.host.has_policy();
        let source = match (self.host.trusts(self.peer), self.is_known, self.local) {
            _ if self.holder.is_some() => self.holder.map(|holder| Source::Named(holder.name)),
            _ if is_operator => None,
            _ if self.certified.is_some() => self.certified.map(Source::Named),
            (true, true, _) => None,
            (true, false, _) => Some(Source::behind(self.peer)),
            (false, true, Some(name)) => Some(Source::Named(name)),
            (false, ..) => Some(Source::of(self.peer)),
        };
        Caller { peer: self.peer, source, token: self.holder.map(|holder| holder.number) }
    }

    fn identify(&mut self, sequence: u64, request: &Identify<'_>) -> Result<Step, ConversationError> {
        let key = self.host.key();
        match key.proof(request.challenge, self.link.protection(), self.peer) {
            Some(proof) => self.answer(sequence, &IdentifyReply { server: key.public(), proof: &proof }),
            None => self.refuse(sequence, status::INVALID_VALUE, "a challenge is a public key of X25519".to_owned()),
        }
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
        if let Some(Holder { name, .. }) = self.holder.filter(|holder| holder.is_drained) {
            return self.refuse(sequence, status::NOT_PERMITTED, revoked(name));
        }
        match self.host.admit(request, &self.caller(), self.link.sealer()) {
            Ok(Admitted::Session(admission)) => {
                let mut body = Vec::new();
                self.host.attached(&admission).write(&mut body);
                // If the peer left before this reply, it has no session: the admission takes the row along.
                self.reply(sequence, &body)?;
                Ok(Step::over(Outcome::Attached(admission)))
            }
            Ok(Admitted::Waits(place)) => Ok(Step::over(Outcome::Waits(sequence, place))),
            Err(refusal) => self.refuse(sequence, refusal.status, refusal.detail),
        }
    }

    fn join(&mut self, sequence: u64, request: &Join<'_>) -> Result<Step, ConversationError> {
        match self.host.join(request) {
            Ok(()) => {
                self.reply(sequence, &[])?;
                Ok(Step::over(Outcome::Joined(request.session)))
            }
            Err(refusal) => self.refuse(sequence, refusal.status, refusal.detail),
        }
    }

    fn end_session(&mut self, sequence: u64, request: &EndSession<'_>) -> Result<Step, ConversationError> {
        match self.host.end(request, &self.caller(), self.has_proved()) {
            Ok(()) => self.reply(sequence, &[]),
            Err(refusal) => self.refuse(sequence, refusal.status, refusal.detail),
        }
    }

    /// Whether the peer has proved who it is. Over TCP an address alone proves nothing, and this server may ask for no
    /// token.
    fn has_proved(&self) -> bool {
        matches!(self.peer, Peer::Unix { .. }) || self.certified.is_some() || self.host.asks_for_token()
    }

    /// The reply comes when the move is over.
    fn migrate(&mut self, sequence: u64, request: &Migrate<'_>) -> Result<Step, ConversationError> {
        let Some(action) = Action::numbered(request.action) else {
            let detail = format!("nothing that is done with sessions has the number {}", request.action);
            return self.refuse(sequence, status::INVALID_VALUE, detail);
        };
        Ok(Step::over(Outcome::Migrate(MoveRequest {
            sequence,
            session: request.session,
            key: request.key.to_vec(),
            action,
            gpu: (request.gpu != u32::MAX).then_some(request.gpu),
            stop_and_copy: request.stop_and_copy,
            patience: Duration::from_millis(request.patience_ms.into()).min(LONGEST_PATIENCE),
            source: self.caller().source,
            has_proved: self.has_proved(),
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
        self.host.refused(&self.caller(), &detail);
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
