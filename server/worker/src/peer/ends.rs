//! The ends of a worker's ways to the daemon for what sessions share.
//! In: reports of what is asked for and let go. Out: plain data; where there is no daemon, none.
//! It sends nothing itself.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use crate::daemon::peer_notices::{Answers, Dial, Import, NodeWish, PeerNotice, Returned};

/// The longest wait for what is imported.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The way to say what is asked for, and what was let go.
pub trait PeerReports: Send + Sync {
    /// Asks for something of another session.
    fn import(&self, import: Import);
    /// Asks for a connection to another server.
    fn dial(&self, dial: Dial);
    /// Asks for the worker's node of NCCL's.
    fn node(&self, wish: NodeWish);
    /// Says that an import was let go, now or soon.
    fn returned(&self, returned: Returned);
}

/// A session's ways to the daemon for what it shares.
pub struct PeerEnds {
    /// The session's number.
    pub session: u64,
    /// What is asked for.
    pub reports: Box<dyn PeerReports>,
    /// The daemon's notices, each with the descriptor that came along.
    pub notices: Receiver<(PeerNotice, Option<OwnedFd>)>,
    /// The way for answers to importers.
    pub answers: Answers,
    /// Bytes that the session holds beside what its ledger counts, for the reports.
    pub beside: Arc<AtomicU64>,
    /// The longest wait for what is imported.
    pub patience: Duration,
}
