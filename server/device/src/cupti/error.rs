//! What CUPTI answers. In: results. Out: errors that name the function. It holds no more.

use floe_cupti::code;

/// A failure of CUPTI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{function} of CUPTI answers: {code}")]
pub struct CuptiError {
    /// The function.
    pub function: &'static str,
    /// `CUptiResult`.
    pub code: u32,
}

/// Turns a result into one.
pub(super) fn done(function: &'static str, code: u32) -> Result<(), CuptiError> {
    if code == code::SUCCESS { Ok(()) } else { Err(CuptiError { function, code }) }
}
