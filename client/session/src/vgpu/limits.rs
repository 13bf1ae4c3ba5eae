//! The limits of a launch, by device and kernel. A launch's numbers and what the snapshot and the kernel's attributes
//! allow come in; nothing or the error CUDA gives at once goes out. A launch that is posted cannot be refused later in
//! time, so every limit CUDA checks synchronously is checked here.

use floe_abi::{CudaError, CudaResult, device_attribute};

use crate::vgpu::snapshot::Snapshot;

/// A device's limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeviceLimits {
    /// Blocks per axis, at most.
    pub(crate) grid: [u32; 3],
    /// Threads per axis of a block, at most.
    pub(crate) block: [u32; 3],
    /// Threads per block, at most.
    pub(crate) threads: u32,
    /// Bytes of shared memory per block, at most, when a kernel has asked for more than the default.
    pub(crate) shared: u32,
}

/// A kernel's limits, from its attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KernelLimits {
    /// Threads per block, at most.
    pub(crate) threads: u32,
    /// Bytes of static shared memory per block.
    pub(crate) static_shared: u32,
    /// Bytes of dynamic shared memory per block, at most.
    pub(crate) dynamic_shared: u32,
}

impl DeviceLimits {
    /// The limits in a snapshot; what it does not say is not limited here.
    pub(crate) fn new(snapshot: &Snapshot) -> Self {
        use device_attribute as ask;
        let read = |number: u32| {
            snapshot
                .attribute(number)
                .and_then(|value| u32::try_from(value).ok())
                .filter(|value| *value > 0)
                .unwrap_or(u32::MAX)
        };
        Self {
            grid: [ask::MAX_GRID_DIM_X, ask::MAX_GRID_DIM_Y, ask::MAX_GRID_DIM_Z].map(read),
            block: [ask::MAX_BLOCK_DIM_X, ask::MAX_BLOCK_DIM_Y, ask::MAX_BLOCK_DIM_Z].map(read),
            threads: read(ask::MAX_THREADS_PER_BLOCK),
            shared: read(ask::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN).max(read(ask::MAX_SHARED_MEMORY_PER_BLOCK)),
        }
    }

    /// Checks a launch.
    ///
    /// # Errors
    /// INVALID_VALUE for sizes of zero or over the device's limits and for shared memory over what the kernel has asked for
    /// (measured on a GPU: all of these are refused by the launch itself); LAUNCH_OUT_OF_RESOURCES for a block the device
    /// could run but this kernel cannot, for its registers or launch bounds.
    pub(crate) fn check(&self, kernel: &KernelLimits, grid: [u32; 3], block: [u32; 3], shared: u32) -> CudaResult<()> {
        let outside =
            |size: &[u32; 3], most: &[u32; 3]| size.iter().zip(most).any(|(size, most)| *size == 0 || size > most);
        if outside(&grid, &self.grid) || outside(&block, &self.block) {
            return Err(CudaError::INVALID_VALUE);
        }
        let threads: u64 = block.iter().map(|size| u64::from(*size)).product();
        if threads > u64::from(self.threads) {
            return Err(CudaError::INVALID_VALUE);
        }
        let total = u64::from(kernel.static_shared) + u64::from(shared);
        if shared > kernel.dynamic_shared || total > u64::from(self.shared) {
            return Err(CudaError::INVALID_VALUE);
        }
        if threads > u64::from(kernel.threads) {
            return Err(CudaError::LAUNCH_OUT_OF_RESOURCES);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: DeviceLimits =
        DeviceLimits { grid: [0x7fff_ffff, 65535, 65535], block: [1024, 1024, 64], threads: 1024, shared: 232_448 };
    const KERNEL: KernelLimits = KernelLimits { threads: 512, static_shared: 1024, dynamic_shared: 48 << 10 };

    fn check(grid: [u32; 3], block: [u32; 3], shared: u32) -> CudaResult<()> {
        DEVICE.check(&KERNEL, grid, block, shared)
    }

    #[test]
    fn a_launch_at_every_limit_passes() {
        assert_eq!(check([0x7fff_ffff, 65535, 65535], [8, 1, 64], 48 << 10), Ok(()));
    }

    #[test]
    fn zero_and_too_large_sizes_are_invalid() {
        for (grid, block) in [
            ([0, 1, 1], [1, 1, 1]),
            ([1, 1, 1], [1, 0, 1]),
            ([1, 70000, 1], [1, 1, 1]),
            ([1, 1, 1], [2048, 1, 1]),
            ([1, 1, 1], [1, 1, 65]),
            ([1, 1, 1], [64, 64, 1]),
        ] {
            assert_eq!(check(grid, block, 0), Err(CudaError::INVALID_VALUE), "{grid:?} {block:?}");
        }
    }

    #[test]
    fn sizes_whose_product_overflows_32_bits_are_invalid() {
        assert_eq!(check([1, 1, 1], [1024, 1024, 64], 0), Err(CudaError::INVALID_VALUE));
    }

    #[test]
    fn shared_memory_over_the_kernels_wish_is_invalid() {
        assert_eq!(check([1, 1, 1], [1, 1, 1], (48 << 10) + 1), Err(CudaError::INVALID_VALUE));
    }

    #[test]
    fn a_block_only_this_kernel_cannot_run_is_out_of_resources() {
        assert_eq!(check([1, 1, 1], [513, 1, 1], 0), Err(CudaError::LAUNCH_OUT_OF_RESOURCES));
    }
}
