//! Errors of a snapshot: what does not fit comes in, an error that names it goes out.
//! It decides nothing.

/// Why a snapshot cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// The bytes are not a snapshot, or cut short.
    #[error("not a snapshot: {what}")]
    Malformed {
        /// The fault.
        what: &'static str,
    },
    /// Taken of another program, kernel or launch.
    #[error("snapshot is of another {what}")]
    Mismatch {
        /// The part that differs.
        what: &'static str,
    },
    /// The grid is running.
    #[error("the grid is not stopped")]
    NotStopped,
}
