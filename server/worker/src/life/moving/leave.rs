//! The side of a move that a session leaves.
//! In: the daemon's orders, the move stream. Out: the session at the other end of it; or the session goes on here, as if
//! nothing had been. Until the daemon's word nothing of it is given up.

pub(super) mod departure;
mod lending;
mod objects;
pub(super) mod off;
pub(super) mod partner;
mod pause;
pub(super) mod sides;

use std::sync::{Arc, Mutex};

use floe_device::Device;

use crate::daemon::move_notices::Said;
use crate::issue::errands::Errands;
use crate::issue::issuer::Issuer;
use crate::life::ending::Ending;
use crate::life::moving::ends::MoveEnds;
use crate::life::moving::stream::MoveStream;
use crate::life::parking::Parking;
use crate::life::shared::Shared;
use departure::Departure;
use off::Off;
use sides::{Daemon, Session, next_leave};

/// The thread that takes the daemon's orders about moves.
pub(crate) struct Leaving<D: Device> {
    pub(crate) shared: Arc<Shared<D>>,
    pub(crate) errands: Arc<Errands<Issuer<D>>>,
    pub(crate) parking: Parking<D>,
    pub(crate) ends: MoveEnds,
    /// The vGPU's ordinal in the client.
    pub(crate) ordinal: u32,
}

impl<D: Device> Leaving<D> {
    /// Takes orders until there are none any more. Returns why the session is over, if it is for a move.
    pub(crate) fn run(&self) -> Option<Ending> {
        while let Some((daemon, stream)) = next_leave(&self.ends) {
            match self.leave(&daemon, stream) {
                Ok(()) => return Some(Ending::Moved),
                Err(Off::Lost(words)) => return Some(Ending::Bug(words)),
                Err(_) => {}
            }
        }
        None
    }

    fn leave(&self, daemon: &Daemon<'_>, stream: MoveStream) -> Result<(), Off> {
        let Self { shared, errands, parking, ends, .. } = self;
        let session = Session { shared, errands, parking, number: ends.session, ordinal: self.ordinal };
        let lending = Arc::new(Mutex::new(lending::Lending::new(shared)));
        let mut departure = Departure::new(&session, daemon, stream, &lending);
        let left = departure.go();
        if let Err(off) = &left {
            // Before anything is waited for.
            let is_lost = matches!(off, Off::Lost(_));
            if !is_lost {
                shared.log.line(format_args!("move {}: the session stays: {off}", daemon.order.number));
                daemon.say(Said::GaveUp(off.to_string()));
            }
            errands.goes_on();
            lending::end(errands, &lending);
            if !is_lost {
                departure.end();
            }
        }
        left
    }
}
