//! The two that a departure has to do with: the session in its worker, and the daemon.
//! In: the daemon's orders. Out: reports to it. They decide nothing.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};

use floe_device::Device;

use super::off::Off;
use crate::daemon::move_notices::{Leave, MoveOrder, MoveReport, Ordered, Said};
use crate::issue::errands::Errands;
use crate::issue::issuer::Issuer;
use crate::life::moving::ends::{MoveEnds, MoveReports};
use crate::life::moving::stream::MoveStream;
use crate::life::parking::Parking;
use crate::life::shared::Shared;

/// What a move has of its session's worker.
pub(super) struct Session<'a, D: Device> {
    pub(super) shared: &'a Arc<Shared<D>>,
    pub(super) errands: &'a Arc<Errands<Issuer<D>>>,
    pub(super) parking: &'a Parking<D>,
    /// The session's number, and its vGPU's ordinal in the client.
    pub(super) number: u64,
    pub(super) ordinal: u32,
}

/// The way to the daemon for one move.
pub(in crate::life::moving) struct Daemon<'a> {
    pub(in crate::life::moving) orders: &'a Receiver<Ordered>,
    pub(in crate::life::moving) reports: &'a dyn MoveReports,
    pub(in crate::life::moving) order: Leave,
}

impl Daemon<'_> {
    pub(in crate::life::moving) fn say(&self, said: Said) {
        self.reports.say(MoveReport { number: self.order.number, said });
    }

    /// Whether the daemon has ended the move meanwhile.
    pub(in crate::life::moving) fn demand_on(&self) -> Result<(), Off> {
        loop {
            match self.orders.try_recv() {
                Ok(Ordered { order: MoveOrder::GoOn(number), .. }) if number == self.order.number => {
                    return Err(Off::ended());
                }
                Ok(_) => {}
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return Ok(()),
            }
        }
    }

    /// Waits for the daemon's last word. Ok: the session is the target's.
    pub(in crate::life::moving) fn last_word(&self) -> Result<(), Off> {
        loop {
            match self.orders.recv() {
                Ok(Ordered { order: MoveOrder::Release(number), .. }) if number == self.order.number => return Ok(()),
                Ok(Ordered { order: MoveOrder::GoOn(number), .. }) if number == self.order.number => {
                    return Err(Off::ended());
                }
                Ok(_) => {}
                // Without the daemon this process ends soon, and so does the other one.
                Err(_) => return Err(Off::Ended("the daemon is gone".into())),
            }
        }
    }
}

/// The daemon's next order to leave, and this worker's end of the move stream. `None`: there are no orders any more. Words about
/// a move that is over here already are answered.
pub(in crate::life::moving) fn next_leave(ends: &MoveEnds) -> Option<(Daemon<'_>, MoveStream)> {
    let gave_up = |number, why: &str| ends.reports.say(MoveReport { number, said: Said::GaveUp(why.into()) });
    while let Ok(Ordered { order, stream }) = ends.orders.recv() {
        match (order, stream) {
            (MoveOrder::Leave(order), Some(stream)) => {
                let daemon = Daemon { orders: &ends.orders, reports: &*ends.reports, order };
                return Some((daemon, MoveStream::over(stream)));
            }
            (MoveOrder::Leave(order), None) => gave_up(order.number, "no stream to the other worker came along"),
            (MoveOrder::GoOn(number), _) => gave_up(number, "the move was over"),
            _ => {}
        }
    }
    None
}
