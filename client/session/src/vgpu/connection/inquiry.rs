//! Conversations with a server that ask for no GPU: questions, and moves of sessions.
//! In: a server's address, one message. Out: the reply, or what becomes of a move until that comes.
//! A connection has a few questions at most, and is closed after the last reply.

use std::sync::Arc;
use std::time::{Duration, Instant};

use floe_abi::CudaError;
use floe_transport::{Address, Challenge, Link, Receiver, Sender};
use floe_wire::{Call, CancelMigrate, Identify, Message as _, Migrate, Migrating, Push};

use super::error::ConnectError;
use super::handshake::{CONNECT, Dialogue, unless_cut, with_advice};
use crate::settings::Credentials;

/// The longest silence of a server about a move: longer than any move takes.
const SILENCE: Duration = Duration::from_secs(15 * 60);

/// A conversation with a server that asks for no GPU: what `floe gpus`, `floe ps`, `floe doctor` and the management
/// library need.
#[derive(Debug)]
pub struct Inquiry {
    link: Link,
    server: String,
    limit: Duration,
}

impl Inquiry {
    /// Connects, greets, and proves the token where the server asks for it.
    ///
    /// # Errors
    /// [`ConnectError`] saying what to do.
    pub fn open(server: &str, credentials: &Credentials) -> Result<Self, ConnectError> {
        Self::open_within(server, credentials, CONNECT)
    }

    /// The same with a limit for each step, questions among them.
    ///
    /// # Errors
    /// [`ConnectError`] saying what to do.
    pub fn open_within(server: &str, credentials: &Credentials, limit: Duration) -> Result<Self, ConnectError> {
        let address: Address = server.parse()?;
        let dialogue = unless_cut(limit, || Dialogue::open(server, &address, credentials, limit))?;
        Ok(Self { link: dialogue.link, server: server.to_owned(), limit })
    }

    /// Asks for a move of a session, which is told of until it is over.
    ///
    /// # Errors
    /// [`ConnectError`] when the server has left.
    pub fn migrate(mut self, message: &Migrate<'_>) -> Result<Migration, ConnectError> {
        let server = self.server;
        let sent = self.link.send(message);
        let request = sent.map_err(|source| ConnectError::Link { server: server.clone(), source })?;
        let (sender, receiver) = self.link.halves();
        Ok(Migration { sender: Arc::new(sender), receiver, request, server })
    }

    /// Asks one question; the answer is the body of the reply, for the message's `decode_reply`.
    ///
    /// # Errors
    /// [`ConnectError`] when the server refuses or leaves.
    pub fn ask<M: Call>(self, message: &M) -> Result<Vec<u8>, ConnectError> {
        self.ask_first(message).map(|(body, _)| body)
    }

    /// Asks which server this is; the answer comes with what asks the next question. The same bytes are the same server, by
    /// whatever address it is reached. `None`: it has not proved that it is the one that it says.
    ///
    /// # Errors
    /// [`ConnectError`] when the server refuses or leaves.
    pub fn identify(self) -> Result<(Option<[u8; 32]>, Self), ConnectError> {
        let challenge = Challenge::make().ok_or_else(|| ConnectError::Random("there are none".to_owned()))?;
        let (body, inquiry) = self.ask_first(&Identify { challenge: challenge.bytes() })?;
        let reply = Identify::decode_reply(&body)
            .map_err(|source| ConnectError::Garbled { server: inquiry.server.clone(), source })?;
        let own_end = inquiry.link.own_end();
        let protection = inquiry.link.protection();
        let proven = own_end.and_then(|end| challenge.proven(reply.server, reply.proof, protection, &end));
        Ok((proven, inquiry))
    }

    /// Asks one question of several; the answer comes with what asks the next one. A server ends conversations of more
    /// than 256 frames or 30 seconds.
    ///
    /// # Errors
    /// [`ConnectError`] when the server refuses or leaves.
    pub fn ask_first<M: Call>(self, message: &M) -> Result<(Vec<u8>, Self), ConnectError> {
        let Self { link, server, limit } = self;
        let mut dialogue = Dialogue { link, server: &server, limit, trip: Duration::ZERO };
        let body = dialogue.ask(message, M::NAME, limit)?;
        let link = dialogue.link;
        Ok((body, Self { link, server, limit }))
    }
}

/// A move of a session that was asked for.
#[derive(Debug)]
pub struct Migration {
    sender: Arc<Sender>,
    receiver: Receiver,
    request: u64,
    server: String,
}

/// What is new of a move.
#[derive(Debug, Clone, PartialEq)]
pub enum MigrationNews {
    /// It is in this phase, and has come so far.
    Goes(Migrating),
    /// It is over: the body of the reply, for `Migrate::decode_reply`.
    Done(Vec<u8>),
}

/// Says that a move is not wanted any more.
#[derive(Debug, Clone)]
pub struct Canceller(Arc<Sender>);

impl Canceller {
    /// Says so. Whether it came in time, the reply says.
    pub fn cancel(&self) {
        // A server that has left needs no word.
        let _ = self.0.send(&CancelMigrate {}, |_| {});
    }
}

impl Migration {
    /// Who may cancel it while it is waited for.
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        Canceller(Arc::clone(&self.sender))
    }

    /// Waits for what is new.
    ///
    /// # Errors
    /// [`ConnectError`] when the server refuses the move, has given it up, or leaves.
    pub fn news(&mut self) -> Result<MigrationNews, ConnectError> {
        let (server, doing) = (&self.server, Migrate::NAME);
        let linked = |source| ConnectError::Link { server: server.clone(), source };
        let frame = self.receiver.next_exactly(Some(Instant::now() + SILENCE)).map_err(linked)?;
        let frame = frame.ok_or_else(|| ConnectError::Closed { server: server.clone(), doing })?;
        let refused = |status, detail: &str| ConnectError::Refused {
            server: server.clone(),
            doing,
            error: CudaError::from_code(status).unwrap_or(CudaError::SYSTEM_NOT_READY),
            detail: with_advice(detail),
        };
        let push = Push::decode(frame.kind, frame.payload)
            .map_err(|source| ConnectError::Garbled { server: server.clone(), source })?;
        match push {
            Push::Migrating(news) => Ok(MigrationNews::Goes(news)),
            Push::Reply(reply) if reply.request == self.request && reply.status == 0 => {
                Ok(MigrationNews::Done(reply.body.to_vec()))
            }
            Push::Reply(reply) => Err(refused(reply.status, reply.detail)),
            Push::Ended(ended) => Err(refused(ended.status, ended.detail)),
            other => Err(refused(0, other.name())),
        }
    }
}
