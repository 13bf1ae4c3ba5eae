//! A session's ways to the daemon for moves: orders in, reports out. Plain data; nothing here decides.

use std::sync::mpsc::Receiver;

use crate::daemon::move_notices::{MoveReport, Ordered};

/// The way to say what becomes of a move.
pub trait MoveReports: Send {
    /// Says it.
    fn say(&self, report: MoveReport);
}

/// A session's ways to the daemon for moves.
pub struct MoveEnds {
    /// The session's number.
    pub session: u64,
    /// The daemon's orders, each with the descriptor that came along.
    pub orders: Receiver<Ordered>,
    /// The way for reports.
    pub reports: Box<dyn MoveReports>,
}
