//! What a session's link has carried, and how often its client waited.
//! In: the counts of the connections' readers and writers, and answered requests. Out: sums for the reports.
//! Each worker counts from zero. The daemon adds up what a session's workers have counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use floe_transport::Traffic;

use crate::daemon::contract::Counts;

/// Counts of a running session.
#[derive(Debug, Default)]
pub struct Carried {
    link: Arc<Traffic>,
    waits: AtomicU64,
}

impl Carried {
    /// For the session's connections to its client: bytes of their frames.
    pub(crate) fn link(&self) -> &Arc<Traffic> {
        &self.link
    }

    /// One more request is answered.
    pub(crate) fn answers(&self) {
        self.waits.fetch_add(1, Ordering::Relaxed);
    }

    /// The counts now.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let waits = self.waits.load(Ordering::Relaxed);
        Counts { received: self.link.received(), sent: self.link.sent(), waits }
    }
}
