//! One direction of a channel, from its reader's side: what has come, and how much of that the peer knows.
//! In: bytes as they are read. Out: counts and digests for the peer, when they are due. It reads nothing itself.

use super::history::{DigestImage, HistoryDigest, RunningDigest};

/// Bytes after which the peer is told how many have come.
pub(super) const ACKNOWLEDGE_EVERY: u64 = 1 << 20;

#[derive(Debug, Default)]
pub(super) struct Inbound {
    read: RunningDigest,
    /// How many of these bytes the peer has been told of.
    told: u64,
}

impl Inbound {
    /// What has come, for another process.
    pub(super) fn image(&self) -> DigestImage {
        self.read.image()
    }

    /// What has come to another process, which may have told the peer. `None`: it cannot be.
    pub(super) fn recall(image: &DigestImage) -> Option<Self> {
        RunningDigest::resume(image).map(|read| Self { read, told: 0 })
    }

    /// These bytes have come. Whether the peer is to be told now.
    pub(super) fn absorb(&mut self, bytes: &[u8]) -> bool {
        self.read.absorb(bytes);
        self.read.at() - self.told >= ACKNOWLEDGE_EVERY
    }

    /// What has come, where the peer has not been told or is to be told `anew`.
    pub(super) fn untold(&mut self, anew: bool) -> Option<HistoryDigest> {
        let told = std::mem::replace(&mut self.told, self.read.at());
        (told != self.read.at() || anew && self.read.at() > 0).then(|| self.read.mark())
    }

    /// What has come.
    pub(super) fn mark(&self) -> HistoryDigest {
        self.read.mark()
    }

    /// How many bytes have come.
    pub(super) fn received(&self) -> u64 {
        self.read.at()
    }
}
