//! XXH3-64 over a stream, whose state can be carried to another process.
//! In: bytes in any cuts, or the state of another such hash. Out: the hash of all bytes so far, or the state. No library
//! that we know of gives the state out; short inputs are hashed by the library, which also checks this file in tests.

use std::sync::LazyLock;

use twox_hash::xxhash3_64::Hasher;

/// Bytes of a stripe, and the lanes that it is added to.
const STRIPE: usize = 64;
const LANES: usize = 8;
/// Bytes of the secret, by which each stripe of a block advances eight.
const SECRET: usize = 192;
const STRIPES_IN_BLOCK: usize = (SECRET - STRIPE) / LANES;
/// Inputs up to this length are hashed in another way, as a whole.
const SHORT: usize = 240;
/// Bytes that are gathered before their stripes are added; some stay until more come, for the last stripe of all.
const BUFFER: usize = 4 * STRIPE;

const PRIME32: [u64; 3] = [0x9E37_79B1, 0x85EB_CA77, 0xC2B2_AE3D];
const PRIME64: [u64; 5] =
    [0x9E37_79B1_85EB_CA87, 0xC2B2_AE3D_27D4_EB4F, 0x1656_67B1_9E37_79F9, 0x85EB_CA77_C2B2_AE63, 0x27D4_EB2F_1656_67C5];
const AVALANCHE: u64 = 0x1656_6791_9E37_79F9;

/// The default secret.
static DEFAULT: LazyLock<[u8; SECRET]> = LazyLock::new(|| {
    let secret = Hasher::new().into_secret();
    *secret.first_chunk().expect("the default secret has 192 bytes")
});

/// A hash that goes on.
#[derive(Clone)]
pub(super) struct Hash {
    lanes: [u64; LANES],
    /// Stripes that have been added to the present block.
    stripes: usize,
    /// Bytes so far.
    total: u64,
    /// The stripe before the buffer, once there is one.
    last: [u8; STRIPE],
    buffer: [u8; BUFFER],
    filled: usize,
}

/// The state of a [`Hash`], to be carried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HashImage {
    pub(super) lanes: [u64; LANES],
    pub(super) stripes: u8,
    pub(super) total: u64,
    /// The last bytes: the stripe before the buffer, and the buffer.
    pub(super) tail: Vec<u8>,
}

impl Default for Hash {
    fn default() -> Self {
        let [a, b, c] = PRIME32;
        let [d, e, f, g, h] = PRIME64;
        Self {
            lanes: [c, d, e, f, g, b, h, a],
            stripes: 0,
            total: 0,
            last: [0; STRIPE],
            buffer: [0; BUFFER],
            filled: 0,
        }
    }
}

impl Hash {
    /// These bytes follow.
    pub(super) fn write(&mut self, mut bytes: &[u8]) {
        self.total = self.total.wrapping_add(bytes.len() as u64);
        let room = BUFFER - self.filled;
        if bytes.len() <= room {
            self.buffer[self.filled..self.filled + bytes.len()].copy_from_slice(bytes);
            self.filled += bytes.len();
            return;
        }
        let (first, rest) = bytes.split_at(room);
        self.buffer[self.filled..].copy_from_slice(first);
        let buffer = self.buffer;
        self.add(&buffer);
        bytes = rest;
        // Some bytes stay: the last stripe of all is added in another way.
        while bytes.len() > BUFFER {
            let (now, later) = bytes.split_at(BUFFER);
            self.add(now);
            bytes = later;
        }
        self.buffer[..bytes.len()].copy_from_slice(bytes);
        self.filled = bytes.len();
    }

    /// The hash of all bytes so far.
    pub(super) fn finish(&self) -> u64 {
        let buffer = &self.buffer[..self.filled];
        if self.total <= SHORT as u64 {
            return Hasher::oneshot(buffer);
        }
        let (mut lanes, mut stripes) = (self.lanes, self.stripes);
        let whole = buffer.len().saturating_sub(1) / STRIPE * STRIPE;
        for stripe in buffer[..whole].chunks_exact(STRIPE) {
            add_stripe(&mut lanes, &mut stripes, stripe);
        }
        let mut last = [0; STRIPE];
        let here = buffer.len().min(STRIPE);
        last[..STRIPE - here].copy_from_slice(&self.last[here..]);
        last[STRIPE - here..].copy_from_slice(&buffer[buffer.len() - here..]);
        accumulate(&mut lanes, &last, &DEFAULT[SECRET - STRIPE - 7..]);
        merge(&lanes, self.total)
    }

    /// Adds whole stripes, of which the last is remembered.
    fn add(&mut self, bytes: &[u8]) {
        for stripe in bytes.chunks_exact(STRIPE) {
            add_stripe(&mut self.lanes, &mut self.stripes, stripe);
        }
        self.last.copy_from_slice(&bytes[bytes.len() - STRIPE..]);
    }

    /// The state.
    pub(super) fn image(&self) -> HashImage {
        let stripes = u8::try_from(self.stripes).expect("a block has sixteen stripes");
        let mut tail = if self.total > BUFFER as u64 { self.last.to_vec() } else { Vec::new() };
        tail.extend_from_slice(&self.buffer[..self.filled]);
        HashImage { lanes: self.lanes, stripes, total: self.total, tail }
    }

    /// The hash that goes on from a state. `None`: no hash has such a state.
    pub(super) fn resume(image: &HashImage) -> Option<Self> {
        let HashImage { lanes, stripes, total, tail } = image;
        let stripes = usize::from(*stripes);
        let has_last = *total > BUFFER as u64;
        let (last, buffer) = if has_last { tail.split_at_checked(STRIPE)? } else { (&[][..], &tail[..]) };
        let added = total.checked_sub(buffer.len() as u64)?;
        let is_whole = added.is_multiple_of(BUFFER as u64) && (added > 0) == has_last;
        let in_block = usize::try_from(added / STRIPE as u64 % STRIPES_IN_BLOCK as u64).ok()?;
        let is_begun = has_last || *lanes == Self::default().lanes;
        let fits = buffer.len() <= BUFFER && (*total == 0 || !buffer.is_empty());
        if !is_whole || !is_begun || !fits || stripes != in_block {
            return None;
        }
        let mut hash = Self { lanes: *lanes, stripes, total: *total, filled: buffer.len(), ..Self::default() };
        hash.buffer[..buffer.len()].copy_from_slice(buffer);
        if has_last {
            hash.last.copy_from_slice(last);
        }
        Some(hash)
    }
}

fn word(bytes: &[u8], index: usize) -> u64 {
    u64::from_le_bytes(*bytes[index * LANES..].first_chunk().expect("a word lies there"))
}

/// Adds the next stripe of a block; the last one ends it.
fn add_stripe(lanes: &mut [u64; LANES], stripes: &mut usize, stripe: &[u8]) {
    accumulate(lanes, stripe, &DEFAULT[*stripes * LANES..]);
    *stripes += 1;
    if *stripes == STRIPES_IN_BLOCK {
        *stripes = 0;
        let secret = &DEFAULT[SECRET - STRIPE..];
        for (index, lane) in lanes.iter_mut().enumerate() {
            *lane = (*lane ^ (*lane >> 47) ^ word(secret, index)).wrapping_mul(PRIME32[0]);
        }
    }
}

fn accumulate(lanes: &mut [u64; LANES], stripe: &[u8], secret: &[u8]) {
    for index in 0..LANES {
        let value = word(stripe, index);
        let keyed = value ^ word(secret, index);
        lanes[index ^ 1] = lanes[index ^ 1].wrapping_add(value);
        lanes[index] = lanes[index].wrapping_add((keyed & u64::from(u32::MAX)).wrapping_mul(keyed >> 32));
    }
}

/// The hash of the lanes.
fn merge(lanes: &[u64; LANES], total: u64) -> u64 {
    let secret = &DEFAULT[11..];
    let mut hash = total.wrapping_mul(PRIME64[0]);
    for pair in 0..LANES / 2 {
        let (one, other) = (lanes[2 * pair] ^ word(secret, 2 * pair), lanes[2 * pair + 1] ^ word(secret, 2 * pair + 1));
        let product = u128::from(one) * u128::from(other);
        let [low, high] = [product, product >> 64].map(|half| u64::try_from(half & u128::from(u64::MAX)).unwrap_or(0));
        hash = hash.wrapping_add(low ^ high);
    }
    hash = (hash ^ (hash >> 37)).wrapping_mul(AVALANCHE);
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use std::hash::Hasher as _;

    use proptest::prelude::*;

    use super::*;

    fn bytes(count: usize) -> Vec<u8> {
        (0..count).map(|index| (index.wrapping_mul(2_654_435_761) >> 7).to_le_bytes()[0]).collect()
    }

    fn library(bytes: &[u8]) -> u64 {
        let mut hasher = Hasher::new();
        hasher.write(bytes);
        hasher.finish()
    }

    #[test]
    fn each_length_hashes_as_the_library_does() {
        let all = bytes(5000);
        let (mut hash, mut step) = (Hash::default(), 0);
        for count in 0..all.len() {
            hash.write(&all[count..=count]);
            assert_eq!(hash.finish(), library(&all[..=count]), "{count}");
            let mut whole = Hash::default();
            whole.write(&all[..=count]);
            step += 1;
            assert_eq!(whole.finish(), hash.finish(), "{step}");
        }
    }

    proptest! {
        #[test]
        fn any_cuts_and_carries_hash_as_the_library_does(
            cuts in prop::collection::vec((0_usize..3000, any::<bool>()), 1..20),
        ) {
            let all = bytes(cuts.iter().map(|(cut, _)| cut).sum());
            let (mut hash, mut at) = (Hash::default(), 0);
            for (cut, is_carried) in cuts {
                hash.write(&all[at..at + cut]);
                at += cut;
                if is_carried {
                    hash = Hash::resume(&hash.image()).expect("it is a state");
                }
                prop_assert_eq!(hash.finish(), library(&all[..at]));
            }
        }

        #[test]
        fn a_state_that_cannot_be_is_refused_or_harmless(
            stripes in any::<u8>(),
            total in prop_oneof![0_u64..2000, any::<u64>()],
            tail in prop::collection::vec(any::<u8>(), 0..400),
            lanes in any::<[u64; LANES]>(),
        ) {
            if let Some(mut hash) = Hash::resume(&HashImage { lanes, stripes, total, tail }) {
                hash.write(&bytes(3000));
                let _ = hash.finish();
            }
        }
    }
}
