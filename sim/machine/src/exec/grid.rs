//! A grid: one launch of a kernel, as data that workers advance block by block.
//! In goes a [`Launch`], out comes an [`Outcome`]; between, it can be stopped, saved, continued or cancelled.
//! It owns no thread.

use std::sync::Arc;

use super::pool::Pool;
use crate::fault::Fault;
use crate::program::Kernel;
use crate::services::Services;
use crate::snapshot::{Snapshot, SnapshotError};

/// Vector instructions handlers are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Whatever every x86-64 has (or another architecture's baseline).
    Baseline,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512 F, BW, DQ, VL.
    Avx512,
}

/// A launch.
#[derive(Clone)]
pub struct Launch {
    /// What runs.
    pub kernel: Arc<Kernel>,
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub dynamic_shared: u32,
    /// The parameter buffer, `kernel.parameter_bytes` long.
    pub parameters: Vec<u8>,
    /// Whether all blocks must be resident together.
    pub cooperative: bool,
    /// The device.
    pub services: Arc<Services>,
}

/// Why a launch is refused; nothing ran.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// A dimension is 0 or beyond the device's limits.
    #[error("{what}: {value}")]
    Dimension {
        /// Which.
        what: &'static str,
        /// Its value.
        value: u64,
    },
    /// The parameter buffer's length is not the kernel's.
    #[error("parameter bytes: {given}, kernel has: {expected}")]
    Parameters {
        /// Given.
        given: usize,
        /// The kernel's.
        expected: u32,
    },
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All blocks ran to their end.
    Done,
    /// Stopped on request; `snapshot` or another `submit` may follow.
    Stopped,
    /// Cancelled; its effects on memory are partial.
    Cancelled,
    /// A thread faulted; the rest was cancelled.
    Fault(Fault),
}

/// One launch in progress.
pub struct Grid {}

impl Grid {
    /// A grid ready to run.
    ///
    /// # Errors
    /// [`LaunchError`].
    pub fn new(launch: Launch) -> Result<Arc<Self>, LaunchError> {
        let _ = launch;
        todo!()
    }

    /// A grid that continues where the snapshot was taken; the launch must be the same, its memory may be another mapping.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn resume(launch: Launch, snapshot: &Snapshot) -> Result<Arc<Self>, SnapshotError> {
        let _ = (launch, snapshot);
        todo!()
    }

    /// Runs on the pool and waits for the end.
    pub fn run(self: &Arc<Self>, pool: &Pool) -> Outcome {
        let _ = pool;
        todo!()
    }

    /// Asks for a stop at the next quantum; the run then ends with [`Outcome::Stopped`].
    pub fn stop(&self) {
        todo!()
    }

    /// Asks for an end without completion; the run then ends with [`Outcome::Cancelled`].
    pub fn cancel(&self) {
        todo!()
    }

    /// State of a grid whose run ended with [`Outcome::Stopped`] (or has not begun).
    ///
    /// # Errors
    /// [`SnapshotError::NotStopped`].
    pub fn snapshot(&self) -> Result<Snapshot, SnapshotError> {
        todo!()
    }
}
