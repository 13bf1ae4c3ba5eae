//! What is said before a session: Hello, Authenticate, the lists, the telemetry, Attach or Join.
//! In: frames of one connection, each with a deadline, and who is at the other end. Out: replies, and at most one session
//! to whose worker the connection then belongs.
//! Nothing is believed before it is proved, and nobody can make it wait or remember without limit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use floe_transport::{Link, LinkError, Peer, Sealer};
use floe_wire::{
    Attach, AttachReply, Authenticate, AuthenticateReply, Class, DecodeError, Ended, Field, Hello, HelloReply, Join,
    ListGpusReply, ListSessionsReply, MAGIC, NEWEST_VERSION, OLDEST_VERSION, ReadTelemetry, ReadTelemetryReply, Reply,
    Request, SETUP_PAYLOAD_LIMIT,
};
use floe_worker::hand_over::Giver;

use crate::error::DaemonError;
use crate::sessions::Admission;
use crate::status;
use crate::token::{RANDOM_BYTES, Token, random};

/// How long a peer may be silent before it has a session.
pub(crate) const SILENCE: Duration = Duration::from_secs(10);
/// How much a peer may ask before it attaches: enough for every list, far too little for a flood.
const FRAMES: usize = 256;

/// What the conversation asks of the server.
pub(crate) trait Host {
    /// The token peers must know.
    fn token(&self) -> Option<&Token>;
    /// May a peer come in without one?
    fn trusts(&self, peer: &Peer) -> bool;
    /// The reply to `ListGpus`, encoded.
    fn gpus(&self, answer: &mut dyn FnMut(ListGpusReply<'_>));
    /// The reply to `ListSessions`, encoded.
    fn sessions(&self, answer: &mut dyn FnMut(ListSessionsReply<'_>));
    /// The reply to `ReadTelemetry`, encoded.
    fn telemetry(&self, request: &ReadTelemetry<'_>, answer: &mut dyn FnMut(ReadTelemetryReply<'_>));
    /// Room for a session, or why there is none.
    fn admit(&self, request: &Attach<'_>, peer: &Peer, sealer: Sealer) -> Result<Admission, Refusal>;
    /// The peer has gone before it could be told of its session: there is none.
    fn withdraw(&self, admission: &Admission);
    /// The reply to `Attach`.
    fn attached<'a>(&'a self, admission: &'a Admission) -> AttachReply<'a>;
    /// The way to the worker of a session that is there, or why a connection may not join it.
    fn join(&self, request: &Join<'_>) -> Result<Arc<Giver>, Refusal>;
}

/// What a conversation came to.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The peer left.
    Left,
    /// It has a session; its connection is at a frame's border.
    Attached(Admission),
    /// Its connection, at a frame's border, belongs to the worker this leads to.
    Joined(Arc<Giver>),
}

/// Why an Attach or a Join is refused: the CUDA code the program gets, and a sentence.
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
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Daemon(#[from] DaemonError),
}

/// Leads the conversation to its outcome.
pub(crate) fn lead(link: &mut Link, peer: &Peer, host: &dyn Host) -> Result<Outcome, ConversationError> {
    link.limit_payload(SETUP_PAYLOAD_LIMIT);
    link.limit_writes(Some(SILENCE))?;
    let mut conversation = Conversation { link, peer, host, nonce: random()?, stage: Stage::Silent };
    for _ in 0..FRAMES {
        match conversation.step() {
            Ok(Step::Go) => {}
            Ok(Step::Over(outcome)) => {
                return match (link.limit_writes(None), outcome) {
                    (Ok(()), outcome) => Ok(outcome),
                    (Err(error), Outcome::Attached(admission)) => {
                        host.withdraw(&admission);
                        Err(error.into())
                    }
                    (Err(error), _) => Err(error.into()),
                };
            }
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
    /// Nothing has been said.
    Silent,
    /// Hello was said; a proof is awaited.
    Greeted,
    /// May ask for anything.
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
    nonce: [u8; RANDOM_BYTES],
    stage: Stage,
}

impl Conversation<'_> {
    fn step(&mut self) -> Result<Step, ConversationError> {
        let deadline = Instant::now() + SILENCE;
        let Some(frame) = self.link.receive(Some(deadline))? else { return Ok(Step::Over(Outcome::Left)) };
        let sequence = frame.sequence;
        let payload = frame.payload.to_vec();
        let request = Request::decode(frame.kind, &payload)?;
        match (self.stage, request) {
            (Stage::Silent, Request::Hello(hello)) => self.greet(sequence, &hello),
            (Stage::Greeted, Request::Authenticate(proof)) => self.authenticate(sequence, &proof),
            (Stage::Welcome, Request::ListGpus(_)) => self.list_gpus(sequence),
            (Stage::Welcome, Request::ListSessions(_)) => self.list_sessions(sequence),
            (Stage::Welcome, Request::ReadTelemetry(request)) => self.read_telemetry(sequence, &request),
            (Stage::Welcome, Request::Attach(attach)) => self.attach(sequence, &attach),
            (Stage::Welcome, Request::Join(join)) => self.join(sequence, &join),
            (_, other) => Err(ConversationError::Refused(format!("out of turn: {}", other.name()))),
        }
    }

    fn greet(&mut self, sequence: u64, hello: &Hello<'_>) -> Result<Step, ConversationError> {
        if hello.magic != MAGIC {
            return Err(ConversationError::Refused(format!("not floe's greeting: {:#010x}", hello.magic)));
        }
        let version = hello.newest.min(NEWEST_VERSION);
        if version < hello.oldest || version < OLDEST_VERSION {
            let words = format!(
                "no common protocol version: the client speaks {} to {}, this server {OLDEST_VERSION} to {NEWEST_VERSION}",
                hello.oldest, hello.newest
            );
            return self.refuse(sequence, status::SYSTEM_DRIVER_MISMATCH, words);
        }
        let authenticate = self.host.token().is_some() && !self.host.trusts(self.peer);
        self.stage = if authenticate { Stage::Greeted } else { Stage::Welcome };
        let server = concat!("floed ", env!("CARGO_PKG_VERSION"));
        let nonce = self.nonce;
        self.answer(sequence, &HelloReply { version, server, authenticate, nonce: &nonce })
    }

    fn authenticate(&mut self, sequence: u64, message: &Authenticate<'_>) -> Result<Step, ConversationError> {
        let token = self.host.token().filter(|token| token.client_knows(&self.nonce, message.nonce, message.proof));
        let Some(token) = token else {
            return self.refuse(sequence, status::NOT_PERMITTED, "the token is wrong".to_owned());
        };
        let proof = token.proof_of_server(&self.nonce, message.nonce);
        self.stage = Stage::Welcome;
        self.answer(sequence, &AuthenticateReply { proof: &proof })
    }

    fn list_gpus(&mut self, sequence: u64) -> Result<Step, ConversationError> {
        let mut body = Vec::new();
        self.host.gpus(&mut |reply| reply.write(&mut body));
        self.reply(sequence, &body)
    }

    fn list_sessions(&mut self, sequence: u64) -> Result<Step, ConversationError> {
        let mut body = Vec::new();
        self.host.sessions(&mut |reply| reply.write(&mut body));
        self.reply(sequence, &body)
    }

    fn read_telemetry(&mut self, sequence: u64, request: &ReadTelemetry<'_>) -> Result<Step, ConversationError> {
        let mut body = Vec::new();
        self.host.telemetry(request, &mut |reply| reply.write(&mut body));
        self.reply(sequence, &body)
    }

    fn attach(&mut self, sequence: u64, request: &Attach<'_>) -> Result<Step, ConversationError> {
        match self.host.admit(request, self.peer, self.link.sealer()) {
            Ok(admission) => {
                let mut body = Vec::new();
                self.host.attached(&admission).write(&mut body);
                match self.reply(sequence, &body) {
                    Ok(_) => Ok(Step::Over(Outcome::Attached(admission))),
                    Err(error) => {
                        self.host.withdraw(&admission);
                        Err(error)
                    }
                }
            }
            Err(refusal) => self.refuse(sequence, refusal.status, refusal.detail),
        }
    }

    fn join(&mut self, sequence: u64, request: &Join<'_>) -> Result<Step, ConversationError> {
        match self.host.join(request) {
            Ok(giver) => {
                self.reply(sequence, &[])?;
                Ok(Step::Over(Outcome::Joined(giver)))
            }
            Err(refusal) => self.refuse(sequence, refusal.status, refusal.detail),
        }
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

    /// Says no to one request; the connection closes after it.
    fn refuse(&mut self, request: u64, status: u32, detail: String) -> Result<Step, ConversationError> {
        self.link.send(&Reply { request, status, earlier: 0, detail: &detail, body: &[] })?;
        self.stage = Stage::Silent;
        Err(ConversationError::Refused(detail))
    }

    /// Tells a peer that broke the contract why the connection closes, if it still reads.
    fn say_why(&mut self, error: &ConversationError) {
        let status = match error {
            ConversationError::Decode(_) => status::INVALID_VALUE,
            ConversationError::Link(link) if link.is_broken_contract() => status::INVALID_VALUE,
            // Gone, silent, or told already by the reply that refused it.
            ConversationError::Link(_) => return,
            ConversationError::Refused(_) | ConversationError::Daemon(_) => status::SYSTEM_NOT_READY,
        };
        // The peer may be gone; then nobody needs to know.
        let _ = self.link.send(&Ended { status, detail: &error.to_string() });
    }
}

/// A message the daemon answers is a call; anything else in [`Request`] belongs to a worker.
const _: () = assert!(matches!(<Hello<'static> as floe_wire::Message>::CLASS, Class::Call));

#[cfg(test)]
mod tests;
