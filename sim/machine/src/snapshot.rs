//! A stopped grid as plain data: what has run, what is in the middle of running, registers by their PTX numbers.
//! Comes from [`Grid::snapshot`](crate::Grid::snapshot), goes through bytes to [`Grid::resume`](crate::Grid::resume) in
//! the same or another process. It holds no address of this process and no device memory, which travels separately.

mod bytes;
mod error;
mod place;
mod state;

use std::sync::atomic::Ordering;

use bytes::{Reader, Writer};
pub use error::SnapshotError;

use crate::exec::Grid;
use floe_lock::lock;

/// Begins every snapshot: name and version of the encoding.
const MAGIC: u64 = u64::from_le_bytes(*b"floesnp1");

/// State of a stopped grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    bytes: Vec<u8>,
}

impl Snapshot {
    /// The snapshot as bytes.
    pub fn to_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A snapshot from bytes; whether they fit a launch is checked by `Grid::resume`.
    ///
    /// # Errors
    /// [`SnapshotError::Malformed`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SnapshotError> {
        if Reader::new(bytes).u64()? != MAGIC {
            return Err(SnapshotError::Malformed { what: "magic number" });
        }
        Ok(Self { bytes: bytes.to_vec() })
    }

    /// Writes down a grid that no worker is in.
    pub(crate) fn take(grid: &Grid) -> Self {
        let mut writer = Writer::default();
        let launch = &grid.launch;
        let (program, kernel) = launch.kernel.identity;
        writer.u64(MAGIC);
        writer.u64(program);
        writer.u32(kernel);
        launch.grid.iter().chain(&launch.block).for_each(|size| writer.u32(*size));
        writer.u32(launch.dynamic_shared);
        writer.slice(&launch.parameters);
        writer.u64(grid.next.load(Ordering::Acquire).min(grid.total));
        writer.u64(grid.ended.load(Ordering::Acquire));
        writer.u64(grid.turns.load(Ordering::Acquire));
        // SAFETY: no worker is in the grid, so nobody writes the workspace.
        writer.slice(unsafe { &*grid.workspace.0.get() });
        let suspended = lock(&grid.suspended);
        writer.u32(suspended.len() as u32);
        for block in suspended.iter() {
            state::write_block(&mut writer, &launch.kernel.image, block);
        }
        Self { bytes: writer.finish() }
    }

    /// Puts the state into a grid that has not begun.
    pub(crate) fn restore(&self, grid: &Grid) -> Result<(), SnapshotError> {
        let mut reader = Reader::new(&self.bytes);
        let launch = &grid.launch;
        let differs = |what| SnapshotError::Mismatch { what };
        if reader.u64()? != MAGIC {
            return Err(SnapshotError::Malformed { what: "magic number" });
        }
        if (reader.u64()?, reader.u32()?) != launch.kernel.identity {
            return Err(differs("program or kernel"));
        }
        for size in launch.grid.iter().chain(&launch.block) {
            if reader.u32()? != *size {
                return Err(differs("launch"));
            }
        }
        if reader.u32()? != launch.dynamic_shared || reader.slice()? != launch.parameters {
            return Err(differs("launch"));
        }
        let (next, ended, turns) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let workspace = reader.slice()?;
        let count = u64::from(reader.u32()?);
        if next > grid.total || ended.checked_add(count) != Some(next) {
            return Err(SnapshotError::Malformed { what: "number of blocks" });
        }
        let mut blocks = Vec::new();
        for _ in 0..count {
            blocks.push(state::read_block(&mut reader, launch, next)?);
        }
        reader.end()?;
        // SAFETY: the grid is not running, so nobody else uses the workspace.
        let target = unsafe { &mut *grid.workspace.0.get() };
        if workspace.len() != target.len() {
            return Err(SnapshotError::Malformed { what: "workspace" });
        }
        target.copy_from_slice(workspace);
        grid.next.store(next, Ordering::Release);
        grid.turns.store(turns, Ordering::Release);
        grid.ended.store(ended, Ordering::Release);
        lock(&grid.suspended).extend(blocks);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Snapshot, SnapshotError};

    #[test]
    fn bytes_that_are_no_snapshot_are_refused() {
        let error = |bytes: &[u8]| Snapshot::from_bytes(bytes).expect_err("refused");
        assert_eq!(error(b""), SnapshotError::Malformed { what: "it ends too early" });
        assert_eq!(error(b"12345678"), SnapshotError::Malformed { what: "magic number" });
    }
}
