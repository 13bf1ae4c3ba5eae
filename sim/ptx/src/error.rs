//! What is wrong with a PTX text, and where.
//! Every error has a position; syntax errors say what was found and what would have been right.
//! Nothing here holds on to the text.

use std::borrow::Cow;

use crate::ast::Position;

/// Why a text is not a module.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{position}: {problem}")]
pub struct ParseError {
    /// Where reading stopped.
    pub position: Position,
    /// What is wrong there.
    pub problem: Problem,
}

/// What is wrong at a position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The text does not continue as the grammar asks.
    #[error("expected {expected}, found {found}")]
    Unexpected {
        /// What would have been right.
        expected: Cow<'static, str>,
        /// What stands there, shortened.
        found: String,
    },
    /// A number or name is well formed but outside what it may be.
    #[error("{what}: {value}")]
    Value {
        /// What is wrong with the value.
        what: &'static str,
        /// The value as written, shortened.
        value: String,
    },
    /// The text exceeds one of [`crate::Limits`].
    #[error("more than {limit} {what}")]
    Limit {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// The bytes are not UTF-8.
    #[error("the text is not UTF-8 from here on")]
    Encoding,
}
