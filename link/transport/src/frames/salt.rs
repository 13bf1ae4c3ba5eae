//! Salt: random words ahead of large frames, by which two histories of a connection differ.
//! In: the kernel's random numbers and clock. Out: words that no other process sends.
//! It digests nothing: the pipe of a resumable session does.

use floe_wire::{Message as _, Salt};

/// The fewest payload bytes that get a random word in front and are not digested themselves. Hashing so many takes as
/// long as getting a word from the kernel.
pub(crate) const SALTED_FROM: usize = 4 << 10;

/// A word that no other process sends, not even a copy of this one. The kernel's random numbers are not part of a
/// process, and the clock advances even where a whole machine is set back.
pub(crate) fn salt() -> Salt {
    // A kernel without random numbers has a clock.
    let random = getrandom::u64().unwrap_or_default();
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Salt { word: random ^ clock.as_secs().rotate_left(32) ^ u64::from(clock.subsec_nanos()) }
}

/// Whether a reader drops frames of this kind.
pub(crate) fn is_salt(kind: u16) -> bool {
    kind == Salt::KIND
}
