//! Why bytes are not the frame or message they should be.
//! Every error names the message, the field, the offset in the payload and the value found.
//! It never carries the payload itself.

use thiserror::Error;

/// Bytes of a peer that are not the message they claim to be: a protocol violation.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}.{field} at byte {offset}: {problem}")]
pub struct DecodeError {
    /// The message's name in the table, `frame` for a header.
    pub message: &'static str,
    /// The field that was read.
    pub field: &'static str,
    /// Bytes of the payload (or header) before the value.
    pub offset: usize,
    /// The mistake there.
    pub problem: Problem,
}

/// What is wrong with one value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// The payload ends inside the value.
    #[error("needs {needed} bytes, has: {left}")]
    Short {
        /// Bytes the value needs.
        needed: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// Bytes are left after the last field.
    #[error("bytes left after the last field: {0}")]
    Long(usize),
    /// A bool that is neither 0 nor 1.
    #[error("not a bool: {0}")]
    Bool(u8),
    /// Text that is not UTF-8.
    #[error("not UTF-8 from byte: {0}")]
    Text(usize),
    /// A list of more elements than the bytes left can hold.
    #[error("a list of {count} elements does not fit the bytes left: {left}")]
    Count {
        /// Elements announced.
        count: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// No message of this direction has the kind.
    #[error("unknown kind: {0:#06x}")]
    Kind(u16),
    /// A frame longer than allowed.
    #[error("a payload of {length} bytes is over the limit: {limit}")]
    Length {
        /// Bytes announced.
        length: u32,
        /// Bytes allowed.
        limit: u32,
    },
    /// Flags this version does not know.
    #[error("unknown flags: {0:#06x}")]
    Flags(u16),
}

impl DecodeError {
    /// A frame whose kind no table entry of this direction has.
    #[must_use]
    pub fn unknown_kind(kind: u16) -> Self {
        Self { message: "frame", field: "kind", offset: 4, problem: Problem::Kind(kind) }
    }
}
