//! The client's offer of a transport in place of the socket: made before the attach, agreed on after it.
//! In: what the address says of it, what the server and its worker say. Out: a link that has gone over, or stays as it is.
//! It never goes over to what the two sides have not agreed on.

use std::os::fd::{AsFd as _, OwnedFd};

use floe_transport::{Address, RING_BYTES, Rings, Transport, TransportWish};
use floe_wire::UseRings;

use super::error::ConnectError;
use super::handshake::{ATTACH, Dialogue};
use crate::log::log;

/// The name of the step, as it is logged.
const STEP: &str = "the shared memory of the connection";

/// The client's offer.
pub(super) struct Offer {
    ready: Option<Ready>,
    wish: TransportWish,
}

/// The transport that the client has ready.
enum Ready {
    /// Rings, and the descriptor of their memory.
    Rings(Rings, OwnedFd),
}

impl Offer {
    /// The offer that suits the address.
    pub(super) fn of(address: &Address, server: &str) -> Result<Self, ConnectError> {
        let offer = Self { ready: None, wish: address.transport() };
        let ready = match offer.wish {
            TransportWish::Stay => return Ok(offer),
            TransportWish::WherePossible(transport) | TransportWish::Always(transport) => Ready::new(transport),
        };
        Ok(Self { ready: offer.keep(ready, server)?.flatten(), ..offer })
    }

    /// The bytes of each ring; 0: none is offered.
    pub(super) fn ring_bytes(&self) -> u32 {
        match self.ready {
            Some(Ready::Rings(..)) => RING_BYTES,
            None => 0,
        }
    }

    /// Has the link go over to what the server has `taken`.
    pub(super) fn settle(mut self, dialogue: &mut Dialogue<'_>, taken: Transport) -> Result<(), ConnectError> {
        let server = dialogue.server;
        let agreed = match (self.ready.take(), taken) {
            (_, Transport::Socket) => Err("the server takes none".to_owned()),
            (Some(ready), taken) if ready.transport() == taken => ready.agree(dialogue)?,
            (_, transport) => {
                // Its worker waits for what is not to come.
                let (server, why) = (server.to_owned(), "it takes what nobody offers".into());
                return Err(ConnectError::NoTransport { server, transport, why });
            }
        };
        self.keep(agreed, server).map(|_| ())
    }

    /// The outcome's value, or nothing if the address allows that.
    fn keep<T>(&self, outcome: Result<T, String>, server: &str) -> Result<Option<T>, ConnectError> {
        match (outcome, self.wish) {
            (Ok(there), _) => Ok(Some(there)),
            (Err(why), TransportWish::Always(transport)) => {
                Err(ConnectError::NoTransport { server: server.to_owned(), transport, why })
            }
            (Err(why), TransportWish::WherePossible(_)) => {
                log!(Info, "the connection to {server} stays on its socket: {why}");
                Ok(None)
            }
            (Err(_), TransportWish::Stay) => Ok(None),
        }
    }
}

impl Ready {
    /// Prepares a transport; `None`: it needs nothing.
    fn new(transport: Transport) -> Result<Option<Self>, String> {
        match transport {
            Transport::Socket => Ok(None),
            Transport::Rings => match Rings::offer(RING_BYTES) {
                Ok((rings, file)) => Ok(Some(Self::Rings(rings, file))),
                Err(error) => Err(error.to_string()),
            },
        }
    }

    fn transport(&self) -> Transport {
        match self {
            Self::Rings(..) => Transport::Rings,
        }
    }

    /// Agrees with the worker, and has the link go over; why the worker does not.
    fn agree(self, dialogue: &mut Dialogue<'_>) -> Result<Result<(), String>, ConnectError> {
        match self {
            Self::Rings(rings, file) => {
                if let Err(why) = use_rings(dialogue, &file)? {
                    return Ok(Err(why));
                }
                dialogue.link.go_over(rings).map(Ok).map_err(|source| dialogue.broken(source))
            }
        }
    }
}

/// Gives the worker the memory; why it does not take it.
fn use_rings(dialogue: &mut Dialogue<'_>, file: &OwnedFd) -> Result<Result<(), String>, ConnectError> {
    let message = UseRings { bytes: RING_BYTES };
    let sent = dialogue.link.send_with(&message, file.as_fd());
    let sequence = sent.map_err(|source| dialogue.broken(source))?;
    match dialogue.reply_to(sequence, STEP, ATTACH) {
        Ok(_) => Ok(Ok(())),
        Err(ConnectError::Refused { error: floe_abi::CudaError::NOT_SUPPORTED, detail, .. }) => Ok(Err(detail)),
        Err(error) => Err(error),
    }
}
