//! Bytes that links of one session have carried, counted together.
//! In: what readers and writers of frames took and gave. Out: two sums, for any thread.
//! It counts frames, not what carries them: neither seals, nor what a connection that broke has to carry again.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes in both directions.
#[derive(Debug, Default)]
pub struct Traffic {
    received: Line,
    sent: Line,
}

/// A sum in a cache line of its own: readers and writers are threads of several processors.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Line(AtomicU64);

impl Traffic {
    /// Bytes that came from the peer.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received.0.load(Ordering::Relaxed)
    }

    /// Bytes that were sent to the peer, or are on their way into the pipe.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent.0.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn has_received(&self, bytes: usize) {
        self.received.0.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn has_sent(&self, bytes: usize) {
        self.sent.0.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}
