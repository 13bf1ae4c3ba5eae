//! The history digest: a running hash of a channel's bytes, in one direction.
//! In: the bytes as they come, and the lengths of large payloads. Out: how many bytes have come, and their digest. It keeps no
//! bytes, and is no defence against a peer that lies: that one harms its own session only.
//!
//! Frames with a payload below [`SALTED_FROM`] count with every byte. Of larger ones the header counts, and the `Salt` ahead of
//! it: a fresh random word, so that two processes that once were one differ there, whatever data they send. So large data cost
//! no hashing. The digest does not depend on where the stream is cut into reads and writes.

use floe_wire::{DecodeError, Field, HEADER_BYTES, Reader};

mod hash;

use hash::{Hash, HashImage};

use crate::frames::salt::SALTED_FROM;

/// Bytes of a header that say how many follow it.
const LENGTH_BYTES: usize = size_of::<u32>();

/// How many bytes have come on a channel, and their digest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryDigest {
    /// Bytes since the channel began.
    pub received: u64,
    /// What tells them from others.
    pub digest: u64,
}

impl HistoryDigest {
    /// Before the first byte, and on the channel of acknowledgements, which has no history.
    #[must_use]
    pub fn none() -> Self {
        RunningDigest::default().mark()
    }
}

/// The bytes of one direction of a channel, up to one of them.
#[derive(Clone)]
pub(super) struct RunningDigest {
    hash: Hash,
    at: u64,
    /// The header that has begun: how much of it has come, and the first bytes of it.
    header: usize,
    length: [u8; LENGTH_BYTES],
    /// Bytes of the payload that are to come.
    left: u64,
    /// Whether these count.
    counts: bool,
}

impl Default for RunningDigest {
    fn default() -> Self {
        Self { hash: Hash::default(), at: 0, header: 0, length: [0; LENGTH_BYTES], left: 0, counts: true }
    }
}

impl std::fmt::Debug for RunningDigest {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "RunningDigest {{ at: {} }}", self.at)
    }
}

impl RunningDigest {
    /// How many bytes there have been.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Where it is.
    pub(super) fn mark(&self) -> HistoryDigest {
        HistoryDigest { received: self.at, digest: self.hash.finish() }
    }

    /// These bytes follow.
    pub(super) fn absorb(&mut self, bytes: &[u8]) {
        self.at += bytes.len() as u64;
        let (mut counted, mut at) = (0, 0);
        while at < bytes.len() {
            let rest = bytes.len() - at;
            if self.left == 0 {
                at += self.header(&bytes[at..]);
                continue;
            }
            let now = usize::try_from(self.left).map_or(rest, |left| left.min(rest));
            if !self.counts {
                self.hash.write(&bytes[counted..at]);
                counted = at + now;
            }
            self.left -= now as u64;
            at += now;
        }
        self.hash.write(&bytes[counted..]);
    }

    /// So many bytes follow that do not count: they are of one large payload.
    pub(super) fn pass_over(&mut self, bytes: u64) {
        debug_assert!(
            bytes <= self.left && (!self.counts || bytes == 0),
            "only bytes of large payloads are passed over"
        );
        self.at += bytes;
        self.left = self.left.saturating_sub(bytes);
    }

    /// Follows a header for as far as these bytes have it; so many of them are its.
    fn header(&mut self, bytes: &[u8]) -> usize {
        let now = (HEADER_BYTES - self.header).min(bytes.len());
        for byte in &bytes[..now] {
            if let Some(channel) = self.length.get_mut(self.header) {
                *channel = *byte;
            }
            self.header += 1;
        }
        if self.header == HEADER_BYTES {
            self.header = 0;
            self.left = u32::from_le_bytes(self.length).into();
            self.counts = self.left < SALTED_FROM as u64;
        }
        now
    }
}

/// Where a [`RunningDigest`] is, to be carried to another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DigestImage {
    hash: HashImage,
    at: u64,
    header: u8,
    length: [u8; LENGTH_BYTES],
    left: u64,
    counts: bool,
}

impl RunningDigest {
    /// Where it is.
    pub(super) fn image(&self) -> DigestImage {
        DigestImage {
            hash: self.hash.image(),
            at: self.at,
            header: u8::try_from(self.header).expect("a header is short"),
            length: self.length,
            left: self.left,
            counts: self.counts,
        }
    }

    /// The digest that goes on from there. `None`: none is ever there.
    pub(super) fn resume(image: &DigestImage) -> Option<Self> {
        let DigestImage { hash, at, header, length, left, counts } = image;
        let header = usize::from(*header);
        let announced = u64::from(u32::from_le_bytes(*length));
        let is_possible = hash.total <= *at
            && header < HEADER_BYTES
            && (*left == 0 || header == 0 && *left <= announced && *counts == (announced < SALTED_FROM as u64));
        let hash = Hash::resume(hash).filter(|_| is_possible)?;
        Some(Self { hash, at: *at, header, length: *length, left: *left, counts: *counts })
    }
}

impl DigestImage {
    /// How many bytes there have been.
    #[must_use]
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Whether any digest is ever there.
    #[must_use]
    pub fn is_possible(&self) -> bool {
        RunningDigest::resume(self).is_some()
    }
}

impl<'a> Field<'a> for DigestImage {
    const LEAST: usize = 8 * 8 + 1 + 8 + 4 + 8 + 1 + 4 + 8 + 1;

    fn write(&self, out: &mut Vec<u8>) {
        let HashImage { lanes, stripes, total, tail } = &self.hash;
        lanes.iter().for_each(|lane| lane.write(out));
        stripes.write(out);
        total.write(out);
        tail.as_slice().write(out);
        self.at.write(out);
        self.header.write(out);
        u32::from_le_bytes(self.length).write(out);
        self.left.write(out);
        self.counts.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let mut lanes = [0; 8];
        for lane in &mut lanes {
            *lane = u64::read(reader)?;
        }
        let (stripes, total) = (u8::read(reader)?, u64::read(reader)?);
        let hash = HashImage { lanes, stripes, total, tail: <&[u8]>::read(reader)?.to_vec() };
        let (at, header) = (u64::read(reader)?, u8::read(reader)?);
        let length = u32::read(reader)?.to_le_bytes();
        Ok(Self { hash, at, header, length, left: u64::read(reader)?, counts: bool::read(reader)? })
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(super) use tests::{frame, marked};
