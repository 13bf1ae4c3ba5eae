//! Errors of a PTX text, with their positions.
//! Every error has a position; syntax errors say what was found and what would have been right.
//! Nothing here holds on to the text.

use std::borrow::Cow;

use crate::ast::Position;

/// Why a text is not a module.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{position}: {problem}")]
pub struct ParseError {
    /// The position at which reading stopped.
    pub position: Position,
    /// The fault there.
    pub problem: Problem,
}

/// The fault at a position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The text does not continue as the grammar asks.
    #[error("expected {expected}, found {found}")]
    Unexpected {
        /// The expected text.
        expected: Cow<'static, str>,
        /// The text found there, shortened.
        found: String,
    },
    /// A number or name is well formed but outside what it may be.
    #[error("{what}: {value}")]
    Value {
        /// The fault of the value.
        what: &'static str,
        /// The value as written, shortened.
        value: String,
    },
    /// The text exceeds one of [`crate::Limits`].
    #[error("more than {limit} {what}")]
    Limit {
        /// The quantity over its limit.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// The bytes are not ASCII.
    #[error("the text is not ASCII from here on")]
    Encoding,
}
