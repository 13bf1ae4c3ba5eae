//! The conversation's sides: what it needs of the server, and what comes of it.
//! In: nothing. Out: the server as a trait, callers, outcomes, refusals. It holds no logic but names of errors.

use std::time::{Duration, Instant};

use floe_metrics::Refusal as Kind;
use floe_migrate::Action;
use floe_transport::{HostKey, LinkError, Peer, Sealer, Secret, TokenNumber};
use floe_users::Name;
use floe_wire::{
    Attach, AttachReply, DecodeError, EndSession, Join, ListGpusReply, ListSessionsReply, ReadTelemetry,
    ReadTelemetryReply,
};

use crate::entrance::limits::Source;
use crate::entrance::tokens::Holder;
use crate::error::DaemonError;
use crate::status;
use crate::usage::place::Place;
use crate::usage::sessions::Admission;

/// The peer that asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller<'a> {
    /// The other end of the connection.
    pub(crate) peer: &'a Peer,
    /// The peer whose limits it counts for and whose sessions it is shown. `None`: the operator, who has no limits and
    /// sees all.
    pub(crate) source: Option<Source>,
    /// The user's token that it has proved.
    pub(crate) token: Option<TokenNumber>,
}

/// The server as the conversation needs it.
pub(crate) trait Host {
    /// The name of another user of this machine that needs no token, since the policy has a place for it.
    fn local_user(&self, peer: &Peer) -> Option<Name>;
    /// The user with this name, if its certificate lets it in, or why not.
    fn certified(&self, name: &str) -> Result<Name, Refusal>;
    /// Whether there is a policy: the holder of the server's token is then the operator.
    fn has_policy(&self) -> bool;
    /// A request of this caller's was refused, for the audit log.
    fn refused(&self, caller: &Caller<'_>, why: &str);
    /// Whether peers must know a token.
    fn asks_for_token(&self) -> bool;
    /// The secret of the user's token with this number, or of the server's own token.
    fn secret(&self, number: Option<TokenNumber>) -> Option<Secret>;
    /// Whose a user's token is.
    fn holder(&self, number: TokenNumber) -> Option<Holder>;
    /// Whether a peer needs no token if it holds its end of the socket itself.
    fn trusts(&self, peer: &Peer) -> bool;
    /// Whether it needs none even if it may only forward others' bytes.
    fn trusts_forwarded(&self) -> bool;
    /// Whether TCP clients may connect in the clear.
    fn takes_clear_text(&self) -> bool;
    /// The key that tells this server from all others.
    fn key(&self) -> &HostKey;
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
    /// Ends a session, or says why not.
    fn end(&self, request: &EndSession<'_>, caller: &Caller<'_>, has_proved: bool) -> Result<(), Refusal>;
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
    /// Who asks; `None`: the operator.
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
            Self::Link(link) if link.refuses_certificate() => Kind::NotPermitted,
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
