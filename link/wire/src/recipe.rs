//! What a command does to the objects of its session: it makes one, changes one, ends some, or none of these.
//! In: a command. Out: the objects by kind and id, and which earlier change a change takes the place of.
//! It keeps nothing and knows no object. The tables of `api/messages` say all of it.

/// A kind of objects of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ObjectKind {
    /// The session's one context; it has no id.
    Context,
    /// The client's memory that is shared.
    Memory,
    /// Pages of host memory that are mapped, by their address.
    Pages,
    /// A mirror, by its address.
    Mirror,
    /// A block of physical memory.
    Block,
    /// A mapping, by its address.
    Mapping,
    /// A library.
    Library,
    /// A kernel.
    Kernel,
    /// A stream.
    Stream,
    /// An event.
    Event,
    /// An array.
    Array,
    /// A texture.
    Texture,
    /// A surface.
    Surface,
    /// A graph.
    Graph,
    /// A page of words that sessions share.
    Signals,
    /// A ticket for importers.
    Ticket,
    /// A link to a session of another server.
    PeerLink,
}

impl ObjectKind {
    /// All kinds, by their numbers.
    pub const ALL: [Self; 17] = [
        Self::Context,
        Self::Memory,
        Self::Pages,
        Self::Mirror,
        Self::Block,
        Self::Mapping,
        Self::Library,
        Self::Kernel,
        Self::Stream,
        Self::Event,
        Self::Array,
        Self::Texture,
        Self::Surface,
        Self::Graph,
        Self::Signals,
        Self::Ticket,
        Self::PeerLink,
    ];

    /// The kind of a number.
    #[must_use]
    pub fn of(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Its number.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Its name in sentences.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Context => "context",
            Self::Memory => "shared memory",
            Self::Pages => "pages of shared memory",
            Self::Mirror => "mirror",
            Self::Block => "block",
            Self::Mapping => "mapping",
            Self::Library => "library",
            Self::Kernel => "kernel",
            Self::Stream => "stream",
            Self::Event => "event",
            Self::Array => "array",
            Self::Texture => "texture",
            Self::Surface => "surface",
            Self::Graph => "graph",
            Self::Signals => "signal page",
            Self::Ticket => "ticket",
            Self::PeerLink => "peer link",
        }
    }
}

/// An object of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Object {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its id, or its first address.
    pub id: u64,
}

impl Object {
    /// The context.
    pub const CONTEXT: Self = Self { kind: ObjectKind::Context, id: 0 };
}

impl std::fmt::Display for Object {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind, id } = *self;
        match kind {
            ObjectKind::Context => formatter.write_str("the context"),
            ObjectKind::Memory | ObjectKind::Pages | ObjectKind::Mirror | ObjectKind::Mapping => {
                write!(formatter, "{} at {id:#x}", kind.name())
            }
            _ => write!(formatter, "{} {id}", kind.name()),
        }
    }
}

/// Tells changes of one object by messages of one kind apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u64);

impl Key {
    /// This and the value of one more field. Two numbers of 32 bits never collide; the key of longer ones is a hash, which a
    /// program can only fool itself with.
    #[must_use]
    pub fn with(self, part: &(impl KeyPart + ?Sized)) -> Self {
        part.join(self)
    }
}

/// A field's value as a part of a key.
pub trait KeyPart {
    /// The key, and this.
    fn join(&self, key: Key) -> Key;
}

impl KeyPart for u32 {
    fn join(&self, key: Key) -> Key {
        Key(key.0 << 32 | u64::from(*self))
    }
}

impl KeyPart for i32 {
    fn join(&self, key: Key) -> Key {
        self.cast_unsigned().join(key)
    }
}

impl KeyPart for &str {
    /// FNV-1a.
    fn join(&self, key: Key) -> Key {
        let start = 0xcbf2_9ce4_8422_2325 ^ key.0;
        Key(self.bytes().fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)))
    }
}

/// What a command does to the objects of its session, where it succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipe {
    /// Nothing that a later command could notice but by memory and time.
    None,
    /// It makes an object.
    Makes {
        /// The new object.
        object: Object,
        /// The object that it is a part of.
        of: Option<Object>,
    },
    /// It changes an object.
    Changes {
        /// The object, or the first of a range.
        object: Object,
        /// Bytes of the range.
        bytes: Option<u64>,
        /// An earlier change by a message of the same kind with the same key is void. `None`: every change counts.
        by: Option<Key>,
        /// An object that ends by becoming part of this one.
        absorbs: Option<Object>,
    },
    /// It ends an object, or all that begin in a range.
    Ends {
        /// The object, or the first of a range.
        object: Object,
        /// Bytes of the range.
        bytes: Option<u64>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DevicePtr, FindGlobal, FindKernel, KernelId, LibraryId, Request, SetKernelAttribute, UnmapRange};

    #[test]
    fn every_kind_has_its_number() {
        for (kind, number) in ObjectKind::ALL.into_iter().zip(0..) {
            assert_eq!((kind.number(), ObjectKind::of(number)), (number, Some(kind)));
        }
        assert_eq!(ObjectKind::of(17), None);
    }

    #[test]
    fn a_command_says_what_it_makes_of_what_and_which_range_it_ends() {
        let library = Object { kind: ObjectKind::Library, id: 3 };
        let kernel = Object { kind: ObjectKind::Kernel, id: 4 };
        let find = Request::FindKernel(FindKernel { library: LibraryId(3), name: "k", kernel: KernelId(4) });
        assert_eq!(find.recipe(), Recipe::Makes { object: kernel, of: Some(library) });
        let mut named = Vec::new();
        find.names(&mut |object| named.push(object));
        assert_eq!(named, [library, kernel]);
        let unmap = Request::UnmapRange(UnmapRange { at: DevicePtr(4096), bytes: 8192 });
        let object = Object { kind: ObjectKind::Mapping, id: 4096 };
        assert_eq!(unmap.recipe(), Recipe::Ends { object, bytes: Some(8192) });
    }

    #[test]
    fn changes_of_other_settings_and_of_other_variables_have_other_keys() {
        let set = |what, number| {
            Request::SetKernelAttribute(SetKernelAttribute { kernel: KernelId(1), what, number, value: 7 }).recipe()
        };
        assert_ne!(set(0, 1), set(1, 0));
        assert_ne!(set(0, -1), set(0, 1));
        assert_eq!(set(0, 1), set(0, 1));
        let find = |name| Request::FindGlobal(FindGlobal { library: LibraryId(1), name }).recipe();
        assert_ne!(find("a"), find("b"));
    }
}
