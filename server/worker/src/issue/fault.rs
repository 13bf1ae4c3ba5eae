//! Errors of a command, by who must act.
//! In: driver errors and broken promises. Out: one value the session answers or ends with.
//! A device's failure shows as the driver's error and is answered like the program's mistakes.

use floe_abi::CudaError;
use floe_wire::DecodeError;
use thiserror::Error;

/// Why a command was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Fault {
    /// The program, or the device: a CUDA error goes back.
    #[error("{0}")]
    Program(CudaError),
    /// As `Program`, with a sentence for the log.
    #[error("{0}: {1}")]
    Explained(CudaError, String),
    /// A protocol violation by the client: the session ends.
    #[error("{0}")]
    ProtocolViolation(String),
}

impl Fault {
    /// The answer to later uses of an object whose creation failed so.
    pub(crate) fn code(&self) -> CudaError {
        match self {
            Self::Program(error) | Self::Explained(error, _) => *error,
            Self::ProtocolViolation(_) => CudaError::INVALID_HANDLE,
        }
    }
}

impl From<CudaError> for Fault {
    fn from(error: CudaError) -> Self {
        Self::Program(error)
    }
}

impl From<DecodeError> for Fault {
    fn from(error: DecodeError) -> Self {
        Self::ProtocolViolation(error.to_string())
    }
}

/// A protocol violation by the client, which the words name.
pub(crate) fn violation<T>(words: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::ProtocolViolation(words.into()))
}
