//! Handles a program holds: numbers that name a kind, a vGPU and an object the client chose the id of. Kind, ordinal and
//! id come in, an opaque value goes out, and back. They are no addresses: nobody may follow them, and none is used twice.

/// The kind of object that a handle names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A context.
    Context = 0x11,
    /// A module of one context.
    Module = 0x12,
    /// A library, the same in every context.
    Library = 0x13,
    /// A kernel of a library, the same in every context.
    Kernel = 0x14,
    /// A kernel in one context.
    Function = 0x15,
    /// A stream.
    Stream = 0x16,
    /// An event.
    Event = 0x17,
    /// A memory pool.
    Pool = 0x18,
    /// Physical memory not yet mapped.
    Physical = 0x19,
    /// An array.
    Array = 0x1a,
    /// A mipmapped array.
    MipmappedArray = 0x1b,
}

impl Kind {
    const ALL: [Self; 11] = [
        Self::Context,
        Self::Module,
        Self::Library,
        Self::Kernel,
        Self::Function,
        Self::Stream,
        Self::Event,
        Self::Pool,
        Self::Physical,
        Self::Array,
        Self::MipmappedArray,
    ];

    /// The kind with this number; they follow one another.
    #[inline]
    fn of(number: u64) -> Option<Self> {
        let index = usize::try_from(number.checked_sub(Self::ALL[0] as u64)?).ok()?;
        Self::ALL.get(index).copied()
    }
}

/// A handle taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Handle {
    /// The kind of object that it names.
    pub(crate) kind: Kind,
    /// The vGPU's ordinal; 0 for what belongs to the process.
    pub(crate) ordinal: u8,
    /// The object's id there, below 2^36.
    pub(crate) id: u64,
}

// Some libraries keep flags in a pointer's low bits, so these stay zero as an allocator would leave them. The kind stands
// above the bits of any user-space address of x86-64 or AArch64 (48), so a handle is never mistaken for a host pointer.
const ID_SHIFT: u32 = 4;
const ORDINAL_SHIFT: u32 = 40;
const KIND_SHIFT: u32 = 48;
/// Ids stay below this.
pub(crate) const ID_LIMIT: u64 = 1 << (ORDINAL_SHIFT - ID_SHIFT);

impl Handle {
    /// A handle of these parts. Ids come from counters that end a session long before they reach the limit.
    pub(crate) fn new(kind: Kind, ordinal: u8, id: u64) -> Self {
        debug_assert!(id < ID_LIMIT, "id {id} does not fit a handle");
        Self { kind, ordinal, id }
    }

    /// The value a program sees.
    pub(crate) fn value(self) -> u64 {
        (self.kind as u64) << KIND_SHIFT | u64::from(self.ordinal) << ORDINAL_SHIFT | self.id << ID_SHIFT
    }

    /// Takes a program's value apart; `None` where it is none of ours.
    #[inline]
    pub(crate) fn parse(value: u64) -> Option<Self> {
        let kind = Kind::of(value >> KIND_SHIFT)?;
        if value & ((1 << ID_SHIFT) - 1) != 0 {
            return None;
        }
        let ordinal = u8::try_from(value >> ORDINAL_SHIFT & 0xff).ok()?;
        let id = (value >> ID_SHIFT) & (ID_LIMIT - 1);
        (id != 0).then_some(Self { kind, ordinal, id })
    }

    /// The handle if it is of this kind.
    #[inline]
    pub(crate) fn of(kind: Kind, value: u64) -> Option<Self> {
        Self::parse(value).filter(|handle| handle.kind == kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_survive_the_way_through_a_value() {
        for kind in Kind::ALL {
            for ordinal in [0, 1, 255] {
                for id in [1, 77, ID_LIMIT - 1] {
                    let handle = Handle::new(kind, ordinal, id);
                    assert_eq!(Handle::parse(handle.value()), Some(handle));
                }
            }
        }
    }

    #[test]
    fn a_number_is_a_kinds_own_or_none() {
        for number in 0..=u64::from(u16::MAX) {
            let by_looking = Kind::ALL.into_iter().find(|kind| *kind as u64 == number);
            assert_eq!(Kind::of(number), by_looking);
        }
    }

    #[test]
    fn a_handle_of_another_kind_is_refused() {
        let event = Handle::new(Kind::Event, 0, 3).value();
        assert_eq!(Handle::of(Kind::Stream, event), None);
    }

    #[test]
    fn pointers_special_streams_and_garbage_are_no_handles() {
        for value in [0, 1, 2, 0x7fff_ffff_f000, 0x2000_0000_0000, u64::MAX, u64::MAX - 1] {
            assert_eq!(Handle::parse(value), None, "{value:#x}");
        }
        let stream = Handle::new(Kind::Stream, 0, 3).value();
        assert_eq!(Handle::parse(stream + 1), None);
    }

    #[test]
    fn low_bits_are_free_as_a_pointers() {
        assert_eq!(Handle::new(Kind::Event, 3, 5).value() % 16, 0);
    }
}
