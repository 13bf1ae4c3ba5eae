//! A stopped grid as plain data: what has run, what is in the middle of running, registers by PTX name order.
//! Comes from [`Grid::snapshot`](crate::Grid::snapshot), goes through bytes to [`Grid::resume`](crate::Grid::resume) in
//! the same or another process. It holds no address of this process and no device memory, which travels separately.

use crate::exec::Grid;

/// State of a stopped grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub(crate) bytes: Vec<u8>,
}

/// Why a snapshot cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// The bytes are not a snapshot, or cut short.
    #[error("not a snapshot: {what}")]
    Malformed {
        /// What is wrong.
        what: &'static str,
    },
    /// Taken of another program, kernel or launch.
    #[error("snapshot is of another {what}")]
    Mismatch {
        /// What differs.
        what: &'static str,
    },
    /// The grid is running.
    #[error("the grid is not stopped")]
    NotStopped,
}

impl Snapshot {
    pub(crate) fn take(grid: &Grid) -> Self {
        let _ = grid;
        todo!()
    }
    pub(crate) fn restore(&self, grid: &Grid) -> Result<(), SnapshotError> {
        let _ = grid;
        todo!()
    }
    /// The snapshot as bytes.
    pub fn to_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A snapshot from bytes; whether they fit a launch is checked by `Grid::resume`.
    ///
    /// # Errors
    /// [`SnapshotError::Malformed`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SnapshotError> {
        Ok(Self { bytes: bytes.to_vec() })
    }
}
