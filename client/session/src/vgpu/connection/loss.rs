//! The end of a session's link, as the program sees it.
//! In: a link that fails, the server's word that the session was ended. Out: one line for the user, and an answer to every thread
//! that waits. What the server says of an end goes before what the link's failure looks like.

use std::time::{Duration, Instant};

use floe_abi::CudaError;
use floe_lock::lock;
use floe_transport::LinkError;

use super::Shared;
use crate::log::log;

/// The time that the last words of a session may take to their reader. It finds the end of the connection behind them, so this is
/// waited for only where nothing has the reader run.
const OWN_WORDS: Duration = Duration::from_secs(2);
/// The interval at which a thread looks whether they are read.
const LOOK: Duration = Duration::from_millis(1);

impl Shared {
    /// The link failed while something was sent.
    #[cold]
    pub(super) fn lost_by(&self, error: &LinkError) -> CudaError {
        if self.keeper.is_none() {
            self.await_own_words();
        }
        self.lose(CudaError::DEVICE_UNAVAILABLE, &error.to_string());
        self.errors.lost()
    }

    /// A session that ends says why on its own connection, where it can.
    pub(super) fn await_own_words(&self) {
        let until = Instant::now() + OWN_WORDS;
        while !self.errors.is_lost() && Instant::now() < until {
            self.incoming.watch();
            std::thread::sleep(LOOK);
        }
    }

    /// The link is over: logs it once, and answers every waiting thread.
    pub(super) fn lose(&self, error: CudaError, reason: &str) {
        let last = self.keeper.as_ref().and_then(|keeper| keeper.last_trouble());
        let last = last.map(|trouble| format!("\n  the last attempt: {trouble}")).unwrap_or_default();
        self.over(error, format_args!("the connection to the server is lost, the device is gone: {reason}{last}"));
    }

    /// The server has ended the session, for this reason.
    pub(super) fn ended(&self, error: CudaError, reason: &str) {
        self.over(error, format_args!("the device is gone: {reason}"));
    }

    fn over(&self, error: CudaError, words: std::fmt::Arguments<'_>) {
        // Who sees the loss may end the program at once: the words go first, and nobody goes on before they are out.
        let saying = lock(&self.saying);
        if !self.errors.is_lost() {
            log!(Error, "{words}");
            self.errors.lose(error);
        }
        drop(saying);
        // Every reader and writer ends now.
        self.sender.close();
        self.bulk.close();
        self.pending.abandon(self.errors.lost());
        self.host.abandon();
    }
}
