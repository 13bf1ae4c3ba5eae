//! Positions in a text: lines and columns, and spans of bytes.
//! Plain data for messages and for reading a part of the text again; nothing here reads the text.

use std::fmt;

/// The position of a statement, declaration or error in the text. Both counts start at 1; columns count bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Position {
    /// Line, from 1.
    pub line: u32,
    /// Byte column within the line, from 1.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {}, column {}", self.line, self.column)
    }
}

/// A part of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// Line and column of the first byte.
    pub position: Position,
}
