//! The words of the move stream.
//! In and out: plain data. The session that leaves asks, and the one that arrives answers each step before the next.
//! Nothing here is checked: whoever takes a word checks it against what it has.

use serde::{Deserialize, Serialize};

/// The version of these words. Workers of another one do not move sessions between each other.
pub(crate) const VERSION: u32 = 5;
/// Bytes of a key of the move's ticket.
pub(crate) const KEY: usize = crate::peer::proof::KEY_BYTES;

/// A step of the session that leaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Step {
    /// The first: what the session is.
    Describe(Description),
    /// The session's blocks as they are now. Those that are new are imported; those that are gone are let go.
    Blocks(Vec<LentBlock>),
    /// Which contents of libraries will be asked for: hashes and bytes. Those that the target lacks are sent.
    Code(Vec<([u8; 32], u64)>),
    /// Behind it: contents of this hash.
    CodeBytes([u8; 32]),
    /// Descriptors of these objects are offered as files. Who keeps the session takes them now: its source ends before they are used.
    Files(Vec<u64>),
    /// Where variables lie now, so that the objects can be made accordingly.
    Places(Vec<Variable>),
    /// Behind it: an image of the session's objects, as messages.
    Objects,
    /// The variables that have to be at these places.
    Variables(Vec<Variable>),
    /// All that has not been copied yet is copied.
    Copy,
    /// All blocks are hashed by this key, while the source hashes its own.
    Hash([u64; 2]),
    /// Behind it: the hashes of all blocks, one behind the other in the order of `Blocks`. What differs is copied.
    Compare {
        /// The points of the hash.
        key: [u64; 2],
        /// Whether nothing changes any more: then what was copied is compared again, and has to agree.
        last: bool,
    },
    /// Behind it: bytes of a block, where blocks cannot be imported.
    Bytes(Piece),
    /// Behind it: the bytes of things that are not memory of blocks, so many of each.
    Contents(Vec<(Contents, u64)>),
    /// Behind it: the link's image. The rest of the state.
    Last(Box<Last>),
    /// Everything was said: the digest of all tables. The target is the session as soon as the daemon says so.
    Frozen([u8; 32]),
}

/// What a session is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Description {
    pub(crate) version: u32,
    /// The source's number, for imports.
    pub(crate) session: u64,
    /// The move's ticket for the session's blocks and descriptors.
    pub(crate) ticket: u64,
    pub(crate) key: [u8; KEY],
    /// The vGPU's ordinal in the client.
    pub(crate) ordinal: u32,
    pub(crate) granularity: u64,
    pub(crate) link: LinkKind,
    /// Whether the source has no device, and so no blocks that could be imported: all bytes are sent.
    #[serde(default)]
    pub(crate) kept: bool,
}

/// How the session reaches its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LinkKind {
    /// By connections that the client makes again.
    Connections {
        /// Whether the client is on this machine.
        local: bool,
    },
    /// By rings, whose memory and socket are the files of these numbers.
    Rings {
        /// Bytes of a ring.
        bytes: u64,
        /// Whether the worker's side made the memory.
        offered: bool,
    },
}

/// The number of the file that is the memory of rings.
pub(crate) const RING_MEMORY: u64 = 1;
/// Of the socket over which client and worker met.
pub(crate) const RING_SOCKET: u64 = 2;
/// Of a descriptor of the client's that no command has taken.
pub(crate) const UNTAKEN: u64 = 3;

/// Where a descriptor of the client's is that no command has taken. A client passes one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Untaken {
    /// Its frame was not given out.
    Link,
    /// Its command was read and not begun.
    Command,
}

/// More blocks than any session has.
pub(crate) const MOST_BLOCKS: usize = 1 << 20;

/// A block that the target imports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LentBlock {
    pub(crate) block: u64,
    pub(crate) bytes: u64,
    /// Where both sides stage it.
    pub(crate) offset: u64,
}

/// A piece of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Piece {
    pub(crate) block: u64,
    pub(crate) offset: u64,
}

/// Something that has bytes beside blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Contents {
    /// A variable.
    Variable(Variable),
    /// Rows of an array, from the first of a slice on.
    Array { array: u64, slice: u64 },
    /// Mirrored host memory.
    Mirror { at: u64 },
}

/// A variable of a library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Variable {
    pub(crate) library: u64,
    pub(crate) name: String,
    pub(crate) at: u64,
    pub(crate) bytes: u64,
}

/// What the session knows beside its objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Last {
    /// The failure that no reply has carried yet; 0: none.
    pub(crate) failure: u32,
    /// Host functions that were given up, and may still be answered.
    pub(crate) given_up: Vec<u64>,
    /// When events were recorded, and the present.
    pub(crate) times: Times,
    /// The transfer that the client announced last.
    pub(crate) last_transfer: u64,
    /// Whether a descriptor of the client's goes along, as the file `UNTAKEN`.
    #[serde(default)]
    pub(crate) descriptor: Option<Untaken>,
    /// Bytes of the link's image, the first behind the word.
    pub(crate) link: u64,
    /// The commands that were read and not begun: sequence, kind, and bytes, which follow each other behind the image.
    pub(crate) unissued: Vec<(u64, u16, u64)>,
}

/// When events were recorded, in milliseconds on a line that begins anywhere. Numbers are bits of 64-bit floats.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Times {
    /// The present on that line.
    pub(crate) now: u64,
    /// The same on the machine's own clock, in nanoseconds.
    pub(crate) clock: u64,
    pub(crate) events: Vec<EventTime>,
}

/// When an event was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EventTime {
    pub(crate) event: u64,
    /// Milliseconds on the session's line of time, as bits.
    pub(crate) at: u64,
}

/// An answer of the session that arrives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// It is done.
    Done,
    /// Contents of these places in the list are lacking.
    Lacks(Vec<usize>),
    /// So many bytes were copied.
    Copied(u64),
    /// So many bytes were copied. These pieces of blocks that cannot be imported have to be sent: block, offset, bytes.
    Send { copied: u64, pieces: Vec<(u64, u64, u64)> },
    /// The target cannot be the session.
    Refused(String),
}
