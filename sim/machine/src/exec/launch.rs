//! A launch: a kernel, its grid, its parameters, and whether a device could run it at all.
//! In goes what a program asks for, out comes nothing or why it is refused, before anything ran.
//! Nothing here runs.

use std::sync::Arc;

use super::lanes::LANES;
use crate::program::Kernel;
use crate::services::Services;

/// A launch.
#[derive(Clone)]
pub struct Launch {
    /// The kernel.
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

/// Largest grid dimensions, as all current GPUs have them.
pub const GRID_LIMIT: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];
/// Largest block dimensions.
pub const BLOCK_LIMIT: [u32; 3] = [1024, 1024, 64];
/// Most threads of a block.
pub const THREAD_LIMIT: u32 = 1024;
/// Most bytes of shared memory of a block, static and dynamic: that of a compute capability 9.0 device.
pub const SHARED_LIMIT: u32 = 227 << 10;

/// Most bytes of local memory of a thread: variables as GPUs allow them, and as much stack again.
const LOCAL_LIMIT: u64 = 1 << 20;
/// Most bytes that a block's registers, local and shared memory take while it runs.
const BLOCK_BYTES: u64 = 512 << 20;
/// Limit on the bytes of running blocks: beyond it no block begins while others wait. A GPU has such a limit too, and a
/// kernel that waits for one more block waits for ever.
pub(super) const RESIDENT_BYTES: u64 = 1 << 30;

impl Launch {
    /// Bytes of local memory of a thread: the kernel's variables, and the stack where it needs one.
    pub(crate) fn local_bytes(&self) -> u64 {
        let image = &self.kernel.image;
        let stack = if image.uses_stack { u64::from(self.services.stack_limit) } else { 0 };
        (u64::from(image.functions[0].local_bytes).next_multiple_of(16) + stack).next_multiple_of(16)
    }

    /// Bytes that a block takes while it runs, before it calls anything.
    pub(super) fn block_bytes(&self) -> u64 {
        let warps = u64::from(self.block.iter().product::<u32>()).div_ceil(LANES as u64);
        let of_warp = u64::from(self.kernel.image.functions[0].frame_bytes) + LANES as u64 * self.local_bytes();
        warps * of_warp + u64::from(self.kernel.shared_bytes(self.dynamic_shared))
    }

    pub(super) fn check(&self) -> Result<(), LaunchError> {
        let dimension = |what, value: u64, limit: u64| {
            if value == 0 || value > limit { Err(LaunchError::Dimension { what, value }) } else { Ok(()) }
        };
        for axis in 0..3 {
            dimension("grid dimension", u64::from(self.grid[axis]), u64::from(GRID_LIMIT[axis]))?;
            dimension("block dimension", u64::from(self.block[axis]), u64::from(BLOCK_LIMIT[axis]))?;
        }
        let threads: u64 = self.block.iter().map(|size| u64::from(*size)).product();
        dimension("threads of a block", threads, u64::from(self.kernel.max_threads.min(THREAD_LIMIT)))?;
        if let Some(required) = self.kernel.required_block
            && required.iter().map(|size| u64::from(*size)).product::<u64>() != threads
        {
            return Err(LaunchError::Dimension { what: "threads of a block against .reqntid", value: threads });
        }
        let shared = u64::from(self.kernel.static_shared) + u64::from(self.dynamic_shared);
        if shared > u64::from(SHARED_LIMIT) {
            return Err(LaunchError::Dimension { what: "bytes of shared memory", value: shared });
        }
        dimension("bytes of local memory of a thread", self.local_bytes().max(1), LOCAL_LIMIT)?;
        dimension("bytes of a block while it runs", self.block_bytes(), BLOCK_BYTES)?;
        if self.cooperative {
            let blocks: u64 = self.grid.iter().map(|size| u64::from(*size)).product();
            dimension("bytes of all blocks together", blocks.saturating_mul(self.block_bytes()), 4 * RESIDENT_BYTES)?;
        }
        if self.parameters.len() != self.kernel.parameter_bytes as usize {
            return Err(LaunchError::Parameters {
                given: self.parameters.len(),
                expected: self.kernel.parameter_bytes,
            });
        }
        Ok(())
    }
}
