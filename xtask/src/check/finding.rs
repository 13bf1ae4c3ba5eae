//! Findings of a check, as text: the fault with its value last, then what to do. It never decides anything.

use std::fmt;

/// A thing that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    what: String,
    advice: String,
}

impl Finding {
    /// Says what is wrong, and what to do.
    pub(crate) fn new(what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { what: what.into(), advice: advice.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        self.advice.lines().try_for_each(|line| write!(f, "\n    {line}"))
    }
}
