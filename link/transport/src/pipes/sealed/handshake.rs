//! The handshake that agrees on one connection's keys: Noise's NNpsk0, with the token's key.
//! In: a socket's bytes, the secret. Out: a sealing pipe and the handshake's hash, or the reason for a refusal.
//! It trusts no byte of the peer: a first message that does not prove the token costs two hashes and one decryption.

use std::sync::Arc;
use std::time::Instant;

use snow::{Builder, HandshakeState};

use super::direction::{Direction, Suite};
use super::exact::{DOING, read_exactly};
use super::format::{FIRST_BYTES, HEAD, MAGIC, MESSAGE, MOST_FIRST_BYTES, NUMBER, NUMBERED, sealed_bytes};
use super::pipe::Sealed;
use super::refusal::refusal;
use crate::error::LinkError;
use crate::pipes::pipe::Pipe;
use crate::secret::{Secret, Secrets, TokenNumber};

/// The pattern with its algorithms.
const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_SHA256";
/// The context that both sides must share.
const PROLOGUE: &[u8] = b"floe sealed link";
/// Version of this handshake and of the records behind it.
const VERSION: u8 = 1;

/// The result of a handshake.
pub(crate) struct Agreed {
    pub(crate) pipe: Sealed,
    /// The hash of all messages and of the secret.
    pub(crate) hash: [u8; 32],
    /// The number of the user's token that seals; `None`: the server's own token does.
    pub(crate) number: Option<TokenNumber>,
}

/// The verdict on a client's first message.
pub(crate) enum Opening {
    /// It proves the token.
    Agreed(Box<Agreed>),
    /// It proves another token.
    Stranger,
    /// It seals in a way that this build does not know.
    Unknown,
}

fn head(suite: Suite, number: Option<TokenNumber>) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[..MAGIC.len()].copy_from_slice(&MAGIC);
    (head[4], head[5], head[NUMBERED]) = (VERSION, suite.number(), u8::from(number.is_some()));
    head
}

/// What a client's first message has in front of Noise's: cipher and token.
struct Front<'a> {
    suite: Suite,
    number: Option<TokenNumber>,
    /// Noise's message.
    message: &'a [u8],
}

impl<'a> Front<'a> {
    /// `None`: the client seals in a way that this build does not know, or the message is not whole.
    fn of(first: &'a [u8]) -> Option<Self> {
        let (head, rest) = first.split_at_checked(HEAD)?;
        let (number, message) = match head[NUMBERED] {
            1 => {
                let (number, message) = rest.split_first_chunk::<NUMBER>()?;
                (Some(TokenNumber(*number)), message)
            }
            _ => (None, rest),
        };
        let suite = Suite::of(head[5]).filter(|suite| head == self::head(*suite, number))?;
        Some(Self { suite, number, message })
    }
}

/// A side's state, bound to the client's request.
fn begin(secret: &Secret, suite: Suite, is_client: bool) -> Result<HandshakeState, snow::Error> {
    let number = secret.number();
    let shown = number.map(|number| number.0);
    let prologue = [PROLOGUE, &head(suite, number), shown.as_ref().map_or(&[], <[u8; NUMBER]>::as_slice)].concat();
    let builder = Builder::new(PATTERN.parse()?).psk(0, secret.sealing())?.prologue(&prologue)?;
    if is_client { builder.build_initiator() } else { builder.build_responder() }
}

fn failed(error: snow::Error) -> LinkError {
    LinkError::system(DOING, std::io::Error::other(error))
}

/// Whether a client's whole first message proves a token that the server knows. `None`: it seals in a way that this
/// build does not know. A replayed message passes as well: only records behind the handshake are surely new.
pub(crate) fn first_is_of(secrets: &dyn Secrets, first: &[u8]) -> Option<bool> {
    if first.len() < HEAD {
        return None;
    }
    // A number that is cut belongs to nobody.
    let is_whole = first.len() == sealed_bytes(first);
    let Some(Front { suite, number, message }) = Front::of(first) else { return is_known(first).then_some(false) };
    let Some(secret) = secrets.find(number).filter(|_| is_whole) else { return Some(false) };
    let state = begin(&secret, suite, false);
    Some(state.and_then(|mut state| state.read_message(message, &mut [])).is_ok())
}

/// Whether a head is one of this build's.
fn is_known(first: &[u8]) -> bool {
    let number = (first[NUMBERED] == 1).then_some(TokenNumber([0; NUMBER]));
    Suite::of(first[5]).is_some_and(|suite| first[..HEAD] == head(suite, number))
}

/// Agrees with a server.
pub(crate) fn open(under: Arc<dyn Pipe>, secret: &Secret, deadline: Instant) -> Result<Agreed, LinkError> {
    let suite = Suite::suitable();
    let mut state = begin(secret, suite, true).map_err(failed)?;
    let number = secret.number();
    let mut first = head(suite, number).to_vec();
    first.extend(number.iter().flat_map(|number| number.0));
    let mut message = [0; MESSAGE];
    state.write_message(&[], &mut message).map_err(failed)?;
    first.extend(message);
    under.write(&first, &[]).map_err(|failure| LinkError::during(DOING, failure))?;
    let (mut magic, mut answer) = ([0; MAGIC.len()], [0; FIRST_BYTES]);
    read_exactly(&*under, &mut magic, deadline)?;
    if magic != MAGIC {
        return Err(LinkError::Unsealed(refusal(&*under, &magic, deadline)));
    }
    answer[..MAGIC.len()].copy_from_slice(&magic);
    read_exactly(&*under, &mut answer[MAGIC.len()..], deadline)?;
    let read = state.read_message(&answer[HEAD..], &mut []);
    if answer[..HEAD] != head(suite, number) || read.is_err() {
        return Err(LinkError::Unproved);
    }
    Ok(agreed(under, state, (suite, number), true))
}

/// Answers a client, whose first message it reads.
pub(crate) fn accept(under: Arc<dyn Pipe>, secrets: &dyn Secrets, deadline: Instant) -> Result<Opening, LinkError> {
    let mut first = [0; MOST_FIRST_BYTES];
    read_exactly(&*under, &mut first[..FIRST_BYTES], deadline)?;
    let bytes = sealed_bytes(&first);
    read_exactly(&*under, &mut first[FIRST_BYTES..bytes], deadline)?;
    let Some(Front { suite, number, message }) = Front::of(&first[..bytes]) else { return Ok(Opening::Unknown) };
    let Some(secret) = secrets.find(number) else { return Ok(Opening::Stranger) };
    let mut state = begin(&secret, suite, false).map_err(failed)?;
    if state.read_message(message, &mut []).is_err() {
        return Ok(Opening::Stranger);
    }
    let mut answer = [0; HEAD + MESSAGE];
    answer[..HEAD].copy_from_slice(&first[..HEAD]);
    state.write_message(&[], &mut answer[HEAD..]).map_err(failed)?;
    under.write(&answer, &[]).map_err(|failure| LinkError::during(DOING, failure))?;
    Ok(Opening::Agreed(Box::new(agreed(under, state, (suite, number), false))))
}

fn agreed(
    under: Arc<dyn Pipe>,
    mut state: HandshakeState,
    (suite, number): (Suite, Option<TokenNumber>),
    is_client: bool,
) -> Agreed {
    let mut hash = [0; 32];
    hash.copy_from_slice(state.get_handshake_hash());
    let (clients, servers) = state.dangerously_get_raw_split();
    let (sending, receiving) = if is_client { (clients, servers) } else { (servers, clients) };
    let pipe = Sealed::new(under, Direction::new(suite, sending, 0), Direction::new(suite, receiving, 0));
    Agreed { pipe, hash, number }
}
