//! The 64 bytes that let another process import: of an allocation, an event, physical memory, a pool, or an allocation of a
//! pool. What they name comes in and bytes go out, and back. Bytes of strangers become a passport or are refused; whether
//! it opens anything is the exporter's worker's to say.

use floe_abi::CudaError;

/// Bytes of a passport: CUDA's handles have as many.
pub(crate) const BYTES: usize = 64;
const MAGIC: [u8; 3] = *b"fip";
const VERSION: u8 = 2;
/// What keys are derived for; a new format gets a new text.
const PURPOSE: &str = "floe, key of a ticket that a program passes on, 2";
/// Ids of sessions' objects stay below this.
const ID_LIMIT: u64 = 1 << 40;
/// Sizes and offsets stay below this.
const SIZE_LIMIT: u64 = 1 << 48;

/// What a passport is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Subject {
    /// An allocation of `cuMemAlloc`.
    Allocation = 1,
    /// An event of several processes.
    Event = 2,
    /// Physical memory of `cuMemCreate`.
    Physical = 3,
    /// A pool. It opens no memory by itself.
    Pool = 4,
    /// An allocation of an exported pool.
    PoolAllocation = 5,
}

/// A secret that the ticket's key is derived from: keys are twice as long as there is room for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Secret(pub(crate) [u8; 16]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Secret {
    /// A new one.
    ///
    /// # Errors
    /// OPERATING_SYSTEM where the system gives no random bytes.
    pub(crate) fn new() -> Result<Self, CudaError> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|_| CudaError::OPERATING_SYSTEM)?;
        Ok(Self(bytes))
    }
}

/// Everything that another process needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Passport {
    pub(crate) subject: Subject,
    /// The first bytes of what the daemon chose at its start.
    pub(crate) server: [u8; 8],
    /// The exporter's session.
    pub(crate) session: u64,
    pub(crate) secret: Secret,
    pub(crate) ticket: u64,
    /// The block, the page or the pool.
    pub(crate) object: u64,
    /// Where the allocation begins in its block.
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// The pool that the allocation is of.
    pub(crate) pool: u64,
}

/// Bytes that are no passport of this kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Forged {
    /// They never were one.
    #[error("these are no bytes of floe's")]
    Garbage,
    /// Another release made it.
    #[error("another version of floe made it: {0}")]
    Version(u8),
    /// It is of something else.
    #[error("it is of something else: {0}")]
    Subject(u8),
    /// A part says what no exporter says.
    #[error("its sizes cannot be")]
    Sizes,
}

impl Passport {
    /// The bytes to pass on.
    ///
    /// # Errors
    /// NOT_SUPPORTED for numbers that no session reaches.
    pub(crate) fn to_bytes(self) -> Result<[u8; BYTES], CudaError> {
        let fits = self.ticket < ID_LIMIT && self.object < ID_LIMIT && self.pool < ID_LIMIT;
        if !fits || self.offset >= SIZE_LIMIT || self.bytes >= SIZE_LIMIT {
            return Err(CudaError::NOT_SUPPORTED);
        }
        let mut bytes = [0; BYTES];
        bytes[..3].copy_from_slice(&MAGIC);
        bytes[3] = VERSION << 4 | self.subject as u8;
        bytes[4..12].copy_from_slice(&self.server);
        bytes[12..20].copy_from_slice(&self.session.to_le_bytes());
        bytes[20..36].copy_from_slice(&self.secret.0);
        bytes[36..41].copy_from_slice(&self.ticket.to_le_bytes()[..5]);
        bytes[41..46].copy_from_slice(&self.object.to_le_bytes()[..5]);
        bytes[46..52].copy_from_slice(&self.offset.to_le_bytes()[..6]);
        bytes[52..58].copy_from_slice(&self.bytes.to_le_bytes()[..6]);
        bytes[58..63].copy_from_slice(&self.pool.to_le_bytes()[..5]);
        Ok(bytes)
    }

    /// Reads bytes that should be of `subject`.
    pub(crate) fn read(bytes: &[u8; BYTES], subject: Subject) -> Result<Self, Forged> {
        if bytes[..3] != MAGIC || bytes[63] != 0 {
            return Err(Forged::Garbage);
        }
        let (version, said) = (bytes[3] >> 4, bytes[3] & 15);
        if version != VERSION {
            return Err(Forged::Version(version));
        }
        if said != subject as u8 {
            return Err(Forged::Subject(said));
        }
        let passport = Self {
            subject,
            server: part(bytes, 4),
            session: u64::from_le_bytes(part(bytes, 12)),
            secret: Secret(part(bytes, 20)),
            ticket: number::<5>(bytes, 36),
            object: number::<5>(bytes, 41),
            offset: number::<6>(bytes, 46),
            bytes: number::<6>(bytes, 52),
            pool: number::<5>(bytes, 58),
        };
        // Half of what the field holds is more than any window has, so offset and bytes can be added.
        if passport.offset >= SIZE_LIMIT / 2 || passport.bytes >= SIZE_LIMIT / 2 {
            return Err(Forged::Sizes);
        }
        Ok(passport)
    }

    /// The key of its ticket, for what it says that it is of: with another subject, place or size it is another key.
    pub(crate) fn key(&self) -> [u8; 32] {
        let mut deriver = blake3::Hasher::new_derive_key(PURPOSE);
        deriver.update(&self.secret.0).update(&[self.subject as u8]);
        for number in [self.object, self.offset, self.bytes, self.pool] {
            deriver.update(&number.to_le_bytes());
        }
        *deriver.finalize().as_bytes()
    }

    /// Whether the exporter's server is this one.
    pub(crate) fn is_of(&self, server: &[u8; 16]) -> bool {
        self.server == server[..8]
    }
}

/// The bytes from `at` on.
fn part<const N: usize>(bytes: &[u8; BYTES], at: usize) -> [u8; N] {
    std::array::from_fn(|index| bytes[at + index])
}

/// A number of `N` bytes.
fn number<const N: usize>(bytes: &[u8; BYTES], at: usize) -> u64 {
    let mut whole = [0; 8];
    whole[..N].copy_from_slice(&part::<N>(bytes, at));
    u64::from_le_bytes(whole)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn passport() -> Passport {
        Passport {
            subject: Subject::Allocation,
            server: *b"daemon!!",
            session: 0x0123_4567_89ab_cdef,
            secret: Secret(*b"sixteen bytes of"),
            ticket: 0x1_0203_0405 & (ID_LIMIT - 1),
            object: 7,
            offset: 0x200,
            bytes: 0x10_0000,
            pool: 9,
        }
    }

    #[test]
    fn the_bytes_are_what_they_were_in_version_2() {
        let mut golden = Vec::new();
        golden.extend_from_slice(b"fip\x21daemon!!");
        golden.extend_from_slice(&[0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01]);
        golden.extend_from_slice(b"sixteen bytes of");
        golden.extend_from_slice(&[5, 4, 3, 2, 1, 7, 0, 0, 0, 0]);
        golden.extend_from_slice(&[0, 2, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0]);
        golden.extend_from_slice(&[9, 0, 0, 0, 0, 0]);
        assert_eq!(passport().to_bytes().unwrap().as_slice(), golden);
    }

    #[test]
    fn the_key_is_of_all_that_the_passport_says_it_is_of() {
        let key = passport().key();
        let others = [
            Passport { secret: Secret(*b"sixteen bytes or"), ..passport() },
            Passport { subject: Subject::Physical, ..passport() },
            Passport { object: 8, ..passport() },
            Passport { offset: 0x400, ..passport() },
            Passport { bytes: 0x20_0000, ..passport() },
            Passport { pool: 0, ..passport() },
        ];
        assert!(others.iter().all(|other| other.key() != key));
        // These the worker knows by the session and the ticket.
        assert_eq!(Passport { session: 1, ticket: 2, ..passport() }.key(), key);
        let mut said = b"sixteen bytes of\x01".to_vec();
        [7u64, 0x200, 0x10_0000, 9].iter().for_each(|number| said.extend(number.to_le_bytes()));
        assert_eq!(key, blake3::derive_key(PURPOSE, &said));
    }

    #[test]
    fn another_subject_another_version_and_garbage_are_told_apart() {
        let bytes = passport().to_bytes().unwrap();
        assert_eq!(Passport::read(&bytes, Subject::Event), Err(Forged::Subject(1)));
        let changed = |at: usize, to: u8| {
            let mut bytes = bytes;
            bytes[at] = to;
            Passport::read(&bytes, Subject::Allocation)
        };
        assert_eq!(changed(3, 0x11), Err(Forged::Version(1)));
        assert_eq!(changed(0, b'F'), Err(Forged::Garbage));
        assert_eq!(changed(63, 1), Err(Forged::Garbage));
        assert_eq!(changed(51, 0xff), Err(Forged::Sizes));
        assert_eq!(Passport::read(&[0; BYTES], Subject::Allocation), Err(Forged::Garbage));
        assert_eq!(Passport::read(&[0xff; BYTES], Subject::Allocation), Err(Forged::Garbage));
    }

    #[test]
    fn another_daemons_passport_is_known() {
        assert!(passport().is_of(b"daemon!!and more"));
        assert!(!passport().is_of(b"daemon!?and more"));
    }

    #[test]
    fn numbers_without_room_are_refused_and_never_cut() {
        let refused = |passport: Passport| passport.to_bytes() == Err(CudaError::NOT_SUPPORTED);
        assert!(refused(Passport { ticket: ID_LIMIT, ..passport() }));
        assert!(refused(Passport { object: ID_LIMIT, ..passport() }));
        assert!(refused(Passport { pool: u64::MAX, ..passport() }));
        assert!(refused(Passport { offset: SIZE_LIMIT, ..passport() }));
        assert!(refused(Passport { bytes: SIZE_LIMIT, ..passport() }));
    }

    #[test]
    fn a_secret_is_shown_to_nobody() {
        assert!(!format!("{:?}", passport()).contains("115"));
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_as_it_was(bytes: [u8; 60], kind in 0u8..8) {
            let mut whole = [0; BYTES];
            whole[..3].copy_from_slice(&MAGIC);
            whole[3] = VERSION << 4 | kind;
            whole[4..63].copy_from_slice(&bytes[..59]);
            for subject in [Subject::Allocation, Subject::Event, Subject::Physical, Subject::Pool, Subject::PoolAllocation] {
                if let Ok(passport) = Passport::read(&whole, subject) {
                    prop_assert_eq!(passport.to_bytes().unwrap(), whole);
                    prop_assert!(passport.offset.checked_add(passport.bytes).is_some());
                }
            }
        }

        #[test]
        fn hostile_bytes_end_in_an_error_or_a_passport(bytes in prop::array::uniform32(any::<u8>()), at in 0usize..32) {
            let mut whole = passport().to_bytes().unwrap();
            for (index, byte) in bytes.into_iter().enumerate() {
                whole[(at + index) % BYTES] = byte;
            }
            let _ = Passport::read(&whole, Subject::Allocation);
        }
    }
}
