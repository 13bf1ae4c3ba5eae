//! Occupancy. The search for a block size calls the program's own function for each size. So it runs here, and asks the
//! implementation only how many blocks fit. C arguments come in, block and grid size go out.

use super::launch::described;
use crate::Driver;
use crate::arguments::launch::KernelArguments;
use crate::marshal::marshallers;
use crate::prelude::*;

/// Dynamic shared memory in bytes for a block size, as the program computes it.
type SharedBytesFor = unsafe extern "C" fn(i32) -> usize;

marshallers! {
    /// `cuOccupancyMaxActiveBlocksPerMultiprocessor`.
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        driver, blocks: *mut i32, function: Function, block_size: i32, shared_bytes: usize,
    ) {
        c::present(blocks)?;
        let count = driver.occupancy_max_active_blocks_per_multiprocessor(function, block_size, shared_bytes, 0)?;
        // SAFETY: the program's variable.
        unsafe { c::put(blocks, count) };
        Ok(())
    }

    /// `cuOccupancyMaxPotentialBlockSize`.
    fn cuOccupancyMaxPotentialBlockSize(
        driver, grid_size: *mut i32, block_size: *mut i32, function: Function, shared_bytes_for: *const c_void,
        shared_bytes: usize, limit: i32,
    ) {
        // SAFETY: as the program passed it.
        unsafe {
            cuOccupancyMaxPotentialBlockSizeWithFlags(
                driver, grid_size, block_size, function, shared_bytes_for, shared_bytes, limit, 0,
            )
        }
    }

    /// `cuOccupancyMaxPotentialBlockSizeWithFlags`.
    fn cuOccupancyMaxPotentialBlockSizeWithFlags(
        driver, grid_size: *mut i32, block_size: *mut i32, function: Function, shared_bytes_for: *const c_void,
        shared_bytes: usize, limit: i32, flags: u32,
    ) {
        c::present(grid_size)?;
        c::present(block_size)?;
        let shared = |size: i32| {
            if shared_bytes_for.is_null() {
                return shared_bytes;
            }
            // SAFETY: the program passed a function of this type where C declares one.
            unsafe { std::mem::transmute::<*const c_void, SharedBytesFor>(shared_bytes_for)(size) }
        };
        let (grid, block) = best_block_size(driver, function, shared, limit, flags)?;
        // SAFETY: the program's variables.
        unsafe {
            c::put(grid_size, grid);
            c::put(block_size, block);
        }
        Ok(())
    }
}

marshallers! {
    /// `cuOccupancyMaxActiveClusters`.
    fn cuOccupancyMaxActiveClusters(driver, clusters: *mut i32, function: Function, config: *const LaunchConfig) {
        c::present(clusters)?;
        // SAFETY: the program's struct.
        let launch = unsafe { described(config, function, Stream::LEGACY, KernelArguments::NONE) }?;
        let count = driver.occupancy_max_active_clusters(&launch)?;
        // SAFETY: the program's variable.
        unsafe { c::put(clusters, count) };
        Ok(())
    }

    /// `cuOccupancyMaxPotentialClusterSize`.
    fn cuOccupancyMaxPotentialClusterSize(driver, size: *mut i32, function: Function, config: *const LaunchConfig) {
        c::present(size)?;
        // SAFETY: the program's struct.
        let launch = unsafe { described(config, function, Stream::LEGACY, KernelArguments::NONE) }?;
        let blocks = driver.occupancy_max_potential_cluster_size(&launch)?;
        // SAFETY: the program's variable.
        unsafe { c::put(size, blocks) };
        Ok(())
    }
}

/// The block size with the most threads per multiprocessor: a multiple of the warp, or the limit itself. Of equals it
/// is the largest, which is found first.
fn best_block_size(
    driver: &impl Driver,
    function: Function,
    shared: impl Fn(i32) -> usize,
    limit: i32,
    flags: u32,
) -> CudaResult<(i32, i32)> {
    let device = driver.ctx_get_device()?;
    let ask = |attribute| driver.device_get_attribute(attribute, device);
    let warp = ask(device_attribute::WARP_SIZE)?.max(1);
    let full = ask(device_attribute::MAX_THREADS_PER_MULTIPROCESSOR)?;
    let mut largest = ask(device_attribute::MAX_THREADS_PER_BLOCK)?
        .min(driver.func_get_attribute(function_attribute::MAX_THREADS_PER_BLOCK, function)?);
    if limit > 0 {
        largest = largest.min(limit);
    }
    let (mut best, mut best_blocks, mut best_threads) = (0, 0, 0);
    let mut size = largest;
    while size > 0 {
        let blocks = driver.occupancy_max_active_blocks_per_multiprocessor(function, size, shared(size), flags)?;
        let threads = blocks.saturating_mul(size);
        if threads > best_threads {
            (best, best_blocks, best_threads) = (size, blocks, threads);
        }
        if best_threads >= full {
            break;
        }
        // After a limit that is no multiple of the warp come the multiples below it.
        size = if size % warp == 0 { size - warp } else { size - size % warp };
    }
    let grid = best_blocks.saturating_mul(ask(device_attribute::MULTIPROCESSOR_COUNT)?);
    Ok((grid, best))
}
