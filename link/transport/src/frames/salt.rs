//! Random words ahead of large frames, by which one history of a connection is told from another.
//! In: the system's random numbers and clock. Out: words that no other process says.
//! It digests nothing: that is for who reads and writes a connection that may be made again.

use floe_wire::{Message as _, Salt};

/// Bytes of a payload from which on a word is said ahead of it, and its own do not count. To hash so many takes as long as to
/// have a word from the system.
pub(crate) const SALTED_FROM: usize = 4 << 10;

/// A word that no other process says, not even one that is the copy of this one: the system's random numbers are not part of a
/// process, and the clock goes on where a whole machine is set back.
pub(crate) fn salt() -> Salt {
    // A system without random numbers has a clock.
    let random = getrandom::u64().unwrap_or_default();
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Salt { word: random ^ clock.as_secs().rotate_left(32) ^ u64::from(clock.subsec_nanos()) }
}

/// Whether a frame of this kind is dropped by who reads a place.
pub(crate) fn is_salt(kind: u16) -> bool {
    kind == Salt::KIND
}
