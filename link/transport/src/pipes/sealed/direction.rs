//! One direction of a sealed connection: records with a length before them, each sealed under the next number.
//! In: bytes for a record, or a record. Out: the other.
//! No number is used twice under a key, and each key seals a bounded number of records: then both ends derive the next.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use rustix::io::Errno;

/// The most bytes in one record.
pub(super) const RECORD: usize = 64 << 10;
/// Bytes before a record's content: its length.
pub(super) const LENGTH: usize = 4;
/// Bytes behind it: its tag.
pub(super) const TAG: usize = 16;
/// Records under one key. Of the largest size they are 2^32 blocks; AES-GCM may seal 2^34.5 under one (RFC 8446, 5.5).
const RECORDS_OF_A_KEY: u64 = 1 << 20;
/// The context of the next key.
const NEXT_KEY: &[u8] = b"floe next key";

/// The cipher of the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suite {
    /// For clients whose processor has instructions for it.
    Aes256Gcm,
    /// For all other clients.
    ChaCha20Poly1305,
}

impl Suite {
    /// The fastest one on this processor.
    pub(super) fn suitable() -> Self {
        #[cfg(target_arch = "x86_64")]
        let has_aes = std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq");
        #[cfg(target_arch = "aarch64")]
        let has_aes =
            std::arch::is_aarch64_feature_detected!("aes") && std::arch::is_aarch64_feature_detected!("pmull");
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let has_aes = false;
        if has_aes { Self::Aes256Gcm } else { Self::ChaCha20Poly1305 }
    }

    /// Its number on the wire.
    pub(super) fn number(self) -> u8 {
        match self {
            Self::Aes256Gcm => 1,
            Self::ChaCha20Poly1305 => 2,
        }
    }

    pub(super) fn of(number: u8) -> Option<Self> {
        [Self::Aes256Gcm, Self::ChaCha20Poly1305].into_iter().find(|suite| suite.number() == number)
    }

    fn key(self, bytes: &[u8; 32]) -> LessSafeKey {
        let algorithm = match self {
            Self::Aes256Gcm => &AES_256_GCM,
            Self::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        };
        LessSafeKey::new(UnboundKey::new(algorithm, bytes).expect("both take keys of 32 bytes"))
    }
}

/// What another process needs to continue a sealed connection. Its holder can read and write the connection.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedKeys {
    /// Number of the records' cipher.
    pub suite: u8,
    /// Key of what goes out.
    pub sending: [u8; 32],
    /// Records that went out.
    pub sent: u64,
    /// Key of what comes in.
    pub receiving: [u8; 32],
    /// Records that came in.
    pub received: u64,
}

impl fmt::Debug for SealedKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SealedKeys").field("sent", &self.sent).field("received", &self.received).finish()
    }
}

/// One direction: its key and the number of its records.
pub(super) struct Direction {
    suite: Suite,
    key: [u8; 32],
    cipher: LessSafeKey,
    records: u64,
}

impl fmt::Debug for Direction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Direction").field("suite", &self.suite).field("records", &self.records).finish()
    }
}

impl Direction {
    pub(super) fn new(suite: Suite, key: [u8; 32], records: u64) -> Self {
        Self { suite, key, cipher: suite.key(&key), records }
    }

    pub(super) fn suite(&self) -> Suite {
        self.suite
    }

    /// Its key and its count, for another process.
    pub(super) fn state(&self) -> ([u8; 32], u64) {
        (self.key, self.records)
    }

    /// Makes a record of `head` and `tail`, one behind the other, at the front of `record`, and returns its size. It
    /// reads `tail` where it lies, once: it may be the program's memory.
    pub(super) fn seal(&mut self, head: &[u8], tail: &[u8], record: &mut [u8]) -> Result<usize, Errno> {
        let bytes = head.len() + tail.len();
        let length = length(bytes);
        let (before, rest) = record[..LENGTH + bytes + TAG].split_at_mut(LENGTH);
        let (first, rest) = rest.split_at_mut(head.len());
        before.copy_from_slice(&length);
        first.copy_from_slice(head);
        let sealed = self.cipher.seal_in_place_scatter(nonce(self.records), Aad::from(length), first, tail, rest);
        sealed.map_err(|_| Errno::IO)?;
        self.count();
        Ok(LENGTH + bytes + TAG)
    }

    /// Opens a record's content in place; its tag follows it. `BADMSG`: it is not the peer's next record.
    pub(super) fn open(&mut self, sealed: &mut [u8]) -> Result<(), Errno> {
        let aad = Aad::from(length(sealed.len() - TAG));
        let opened = self.cipher.open_in_place(nonce(self.records), aad, sealed);
        opened.map_err(|_| Errno::BADMSG)?;
        self.count();
        Ok(())
    }

    /// As [`Direction::open`], into `target`, which is as long as the content. A forged record leaves nothing there
    /// that its sender chose.
    pub(super) fn open_into(&mut self, sealed: &[u8], target: &mut [u8]) -> Result<(), Errno> {
        let aad = Aad::from(length(target.len()));
        let (content, tag) = sealed.split_at(target.len());
        let opened = self.cipher.open_separate_gather(nonce(self.records), aad, content, tag, target);
        opened.map_err(|_| Errno::BADMSG)?;
        self.count();
        Ok(())
    }

    /// Replaces a key after its last record by the next, from which the old one cannot be derived.
    fn count(&mut self) {
        self.records += 1;
        if self.records.is_multiple_of(RECORDS_OF_A_KEY) {
            let next = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &self.key), NEXT_KEY);
            self.key.copy_from_slice(next.as_ref());
            self.cipher = self.suite.key(&self.key);
        }
    }
}

fn length(bytes: usize) -> [u8; LENGTH] {
    u32::try_from(bytes).expect("a record is short").to_le_bytes()
}

fn nonce(record: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&record.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    /// Makes a record of these bytes in two parts, and returns all but its length.
    fn sealed(direction: &mut Direction, content: &[u8]) -> Vec<u8> {
        let mut record = vec![0xAA; LENGTH + content.len() + TAG];
        let (head, tail) = content.split_at(content.len() / 3);
        assert_eq!(direction.seal(head, tail, &mut record), Ok(record.len()));
        assert_eq!(record[..LENGTH], u32::try_from(content.len()).unwrap().to_le_bytes());
        record.split_off(LENGTH)
    }

    fn pair(suite: Suite, records: u64) -> [Direction; 2] {
        [0, 1].map(|_| Direction::new(suite, [9; 32], records))
    }

    /// Opens it both ways, which must agree: in place by a copy of the direction, and into other memory by the
    /// direction.
    fn opened(direction: &mut Direction, sealed: &[u8]) -> Result<Vec<u8>, Errno> {
        let (key, records) = direction.state();
        let mut in_place = sealed.to_vec();
        let here = Direction::new(direction.suite(), key, records).open(&mut in_place);
        let mut target = vec![0xBB; sealed.len() - TAG];
        let there = direction.open_into(sealed, &mut target);
        assert_eq!(here, there);
        there?;
        assert_eq!(in_place[..target.len()], target);
        Ok(target)
    }

    #[test]
    fn records_open_in_their_order_only() {
        for suite in [Suite::Aes256Gcm, Suite::ChaCha20Poly1305] {
            let [mut near, mut far] = pair(suite, 0);
            let (first, second) = (sealed(&mut near, b"first"), sealed(&mut near, b"second"));
            assert_eq!(opened(&mut far, &second), Err(Errno::BADMSG), "too early");
            assert_eq!(opened(&mut far, &first).unwrap(), b"first");
            assert_eq!(opened(&mut far, &first), Err(Errno::BADMSG), "replayed");
            let shorter = [&second[..5], &second[6..]].concat();
            assert_eq!(opened(&mut far, &shorter), Err(Errno::BADMSG), "shorter");
            for bit in 0..8 * second.len() {
                let mut changed = second.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(opened(&mut far, &changed), Err(Errno::BADMSG), "bit {bit}");
            }
            assert_eq!(opened(&mut far, &second).unwrap(), b"second");
        }
    }

    #[test]
    fn records_of_any_length_in_any_two_parts_open_to_what_was_sealed() {
        for suite in [Suite::Aes256Gcm, Suite::ChaCha20Poly1305] {
            let [mut near, mut far] = pair(suite, 0);
            for bytes in [1, 15, 16, 17, 63, 64, 65, 255, 257, 4095, RECORD - 1, RECORD] {
                let content: Vec<u8> = (0..bytes).map(|index| (index * 7 + index / 256).to_le_bytes()[0]).collect();
                for head in [0, 1, 15, 16, 36, bytes / 2, bytes].into_iter().filter(|head| *head <= bytes) {
                    let mut record = vec![0; LENGTH + bytes + TAG];
                    near.seal(&content[..head], &content[head..], &mut record).unwrap();
                    assert!(opened(&mut far, &record[LENGTH..]).unwrap() == content, "{head} of {bytes} bytes");
                }
            }
        }
    }

    #[test]
    fn a_forged_record_leaves_nothing_that_its_sender_chose() {
        for suite in [Suite::Aes256Gcm, Suite::ChaCha20Poly1305] {
            let [mut near, mut far] = pair(suite, 0);
            let content = vec![0x5A; 5000];
            let mut wrong = sealed(&mut near, &content);
            *wrong.last_mut().unwrap() ^= 1;
            let mut target = vec![0; content.len()];
            assert_eq!(far.open_into(&wrong, &mut target), Err(Errno::BADMSG));
            assert!(!target.windows(4).any(|window| window == [0x5A; 4]), "{suite:?}");
        }
    }

    #[test]
    fn a_key_gives_way_to_the_next_at_both_ends() {
        let [mut near, mut far] = pair(Suite::suitable(), RECORDS_OF_A_KEY - 2);
        let mut keys = Vec::new();
        for _ in 0..4 {
            keys.push(near.state().0);
            let record = sealed(&mut near, b"x");
            let mut content = [0];
            far.open_into(&record, &mut content).unwrap();
            assert_eq!((&content, near.state()), (b"x", far.state()));
        }
        assert!(keys[0] == keys[1] && keys[2] == keys[3] && keys[1] != keys[2]);
    }

    #[test]
    fn keys_show_nothing_of_themselves() {
        let keys = SealedKeys { suite: 1, sending: [200; 32], sent: 1, receiving: [201; 32], received: 2 };
        let shown = format!("{keys:?} {:?}", pair(Suite::Aes256Gcm, 3)[0]);
        assert!(!shown.contains("200") && !shown.contains("201") && !shown.contains('9'), "{shown}");
    }
}
