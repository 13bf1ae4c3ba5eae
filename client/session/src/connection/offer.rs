//! Rings in shared memory, from the client's side: made before the attach, agreed on after it.
//! In: what the address says of rings, what the server and its worker say. Out: a link that has gone over, or stays as it is.

use std::os::fd::{AsFd as _, OwnedFd};

use floe_transport::{Address, RING_BYTES, Rings, RingsWish};
use floe_wire::UseRings;

use super::error::ConnectError;
use super::handshake::{ATTACH, Dialogue};
use crate::log::log;

/// What the step is called.
const STEP: &str = "the shared memory of the connection";

/// What this side offers.
pub(super) struct Offer {
    rings: Option<(Rings, OwnedFd)>,
    wish: RingsWish,
}

impl Offer {
    /// What suits the address.
    pub(super) fn of(address: &Address, server: &str) -> Result<Self, ConnectError> {
        let wish = address.rings();
        if wish == RingsWish::Never {
            return Ok(Self { rings: None, wish });
        }
        let offer = Rings::offer(RING_BYTES).map_err(|error| error.to_string());
        let offer = Self { rings: None, wish }.keep(offer, server)?;
        Ok(Self { rings: offer, wish })
    }

    /// The bytes of each ring; 0: none is offered.
    pub(super) fn bytes(&self) -> u32 {
        if self.rings.is_some() { RING_BYTES } else { 0 }
    }

    /// Has the link go over, where the server `takes` what is offered.
    pub(super) fn settle(mut self, dialogue: &mut Dialogue<'_>, takes: bool) -> Result<(), ConnectError> {
        let server = dialogue.server;
        let agreed = match (self.rings.take(), takes) {
            (Some((rings, file)), true) => use_rings(dialogue, &file)?.map(|()| rings),
            (None, true) => {
                // Its worker waits for what is not to come.
                return Err(ConnectError::NoRings {
                    server: server.to_owned(),
                    why: "it takes what nobody offers".into(),
                });
            }
            (_, false) => Err("the server takes none".to_owned()),
        };
        match self.keep(agreed, server)? {
            Some(rings) => dialogue.link.go_over(rings).map_err(|source| dialogue.broken(source)),
            None => Ok(()),
        }
    }

    /// What there is, or nothing where that will do.
    fn keep<T>(&self, outcome: Result<T, String>, server: &str) -> Result<Option<T>, ConnectError> {
        match (outcome, self.wish) {
            (Ok(there), _) => Ok(Some(there)),
            (Err(why), RingsWish::Always) => Err(ConnectError::NoRings { server: server.to_owned(), why }),
            (Err(why), RingsWish::WherePossible) => {
                log!(Info, "the connection to {server} stays on its socket: {why}");
                Ok(None)
            }
            (Err(_), RingsWish::Never) => Ok(None),
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
