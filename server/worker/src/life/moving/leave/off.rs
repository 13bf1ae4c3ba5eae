//! Why a session does not leave.
//! In: errors of what a move needs. Out: words for people, and whether it is worth trying again.

use floe_abi::CudaError;
use thiserror::Error;

use crate::issue::errands::NotDone;
use crate::issue::fault::Fault;
use crate::life::moving::stream::StreamError;
use crate::life::parking::NotParked;

/// Why a session does not leave, or not now.
#[derive(Debug, Error)]
pub(crate) enum Off {
    /// The move is over: the session stays.
    #[error("{0}")]
    Ended(String),
    /// The pause was given up, and another one may do.
    #[error("{0}")]
    NotNow(String),
    /// The session cannot go on here either.
    #[error("{0}")]
    Lost(String),
}

impl Off {
    /// The daemon has ended the move.
    pub(crate) fn ended() -> Self {
        Self::Ended("the daemon has ended the move".into())
    }

    /// A device's error, with what was tried.
    pub(crate) fn device(what: &'static str) -> impl Fn(CudaError) -> Self {
        move |error| Self::Ended(format!("{what}: {error}"))
    }
}

impl From<StreamError> for Off {
    fn from(error: StreamError) -> Self {
        Self::Ended(error.to_string())
    }
}

impl From<NotDone> for Off {
    fn from(error: NotDone) -> Self {
        match error {
            NotDone::Late => Self::NotNow(error.to_string()),
            NotDone::Over => Self::Ended(error.to_string()),
        }
    }
}

impl From<NotParked> for Off {
    fn from(error: NotParked) -> Self {
        match error {
            NotParked::WithinFrame | NotParked::WithinTransfer => Self::NotNow(error.to_string()),
            NotParked::Over | NotParked::Parked | NotParked::NotTaken(_) => Self::Ended(error.to_string()),
        }
    }
}

impl From<Fault> for Off {
    fn from(fault: Fault) -> Self {
        Self::Ended(fault.to_string())
    }
}
