//! In: a kernel's needs per thread and per block. Out: the number of its blocks that one multiprocessor holds, by the
//! rule of NVIDIA's occupancy calculator.
//! Pure arithmetic over `limits`; it never looks at a module.

use super::limits;

/// A kernel's needs, as far as occupancy is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    /// Registers per thread.
    pub(crate) registers: u32,
    /// Static shared memory per block, bytes.
    pub(crate) shared_static: u32,
}

fn round_up(value: u64, unit: u64) -> u64 {
    value.div_ceil(unit) * unit
}

fn warps(threads: u32) -> u64 {
    u64::from(threads.div_ceil(limits::WARP_SIZE))
}

fn blocks_by_registers(need: Need, threads: u32) -> u64 {
    if need.registers == 0 {
        return u64::MAX;
    }
    let per_warp =
        round_up(u64::from(need.registers) * u64::from(limits::WARP_SIZE), u64::from(limits::REGISTER_UNIT_PER_WARP));
    // Each scheduler has its own quarter of the register file, so a warp that does not fit a quarter's rest is lost.
    let schedulers = u64::from(limits::SCHEDULERS);
    let warps_per_scheduler = u64::from(limits::REGISTERS) / schedulers / per_warp;
    warps_per_scheduler * schedulers / warps(threads)
}

/// Shared memory that one block takes out of its multiprocessor, bytes.
fn shared_of_block(need: Need, dynamic: u64) -> u64 {
    let bytes =
        u64::from(need.shared_static).saturating_add(dynamic).saturating_add(u64::from(limits::SHARED_RESERVED));
    bytes.div_ceil(u64::from(limits::SHARED_UNIT)).saturating_mul(u64::from(limits::SHARED_UNIT))
}

/// Blocks of `threads` threads with `dynamic` bytes of dynamic shared memory that one multiprocessor holds, of whose
/// shared memory the kernel prefers `percent`. Zero when not even one fits.
pub(crate) fn blocks_per_multiprocessor(need: Need, threads: u32, dynamic: u64, percent: Option<u32>) -> u32 {
    if threads == 0 || threads > limits::MAX_THREADS_PER_BLOCK {
        return 0;
    }
    let by_threads = u64::from(limits::MAX_THREADS_PER_MULTIPROCESSOR / limits::WARP_SIZE) / warps(threads);
    let block = shared_of_block(need, dynamic);
    let whole = percent.map_or(limits::SHARED_PER_MULTIPROCESSOR.into(), |percent| carveout(percent, block));
    let by_shared = whole / block;
    let blocks = by_threads
        .min(blocks_by_registers(need, threads))
        .min(by_shared)
        .min(u64::from(limits::MAX_BLOCKS_PER_MULTIPROCESSOR));
    u32::try_from(blocks).unwrap_or(limits::MAX_BLOCKS_PER_MULTIPROCESSOR)
}

/// Dynamic shared memory that a block may use while `blocks` of them share a multiprocessor, bytes, at most `most`.
/// `None` when so many blocks do not fit even without any. As a GPU's driver answers it, what the system reserves for
/// each block is not taken off.
pub(crate) fn dynamic_shared_for(need: Need, blocks: u32, threads: u32, most: u32) -> Option<u64> {
    if blocks == 0 || blocks > blocks_per_multiprocessor(need, threads, 0, None) {
        return None;
    }
    let unit = u64::from(limits::SHARED_UNIT);
    let share = u64::from(limits::SHARED_PER_MULTIPROCESSOR) / u64::from(blocks) / unit * unit;
    Some(share.saturating_sub(need.shared_static.into()).min(most.into()))
}

/// Sizes a multiprocessor's shared memory can be set to, KiB.
const CARVEOUTS: [u32; 10] = [0, 8, 16, 32, 64, 100, 132, 164, 196, 228];

/// Bytes of a multiprocessor's shared memory for a kernel that prefers `percent` of it: the next size up, and at least
/// one block's need.
fn carveout(percent: u32, block: u64) -> u64 {
    let wanted = u64::from(limits::SHARED_PER_MULTIPROCESSOR) * u64::from(percent.min(100)) / 100;
    let sizes = CARVEOUTS.iter().map(|size| u64::from(*size) << 10);
    let mut fitting = sizes.filter(|size| *size >= wanted && *size >= block);
    fitting.next().unwrap_or(limits::SHARED_PER_MULTIPROCESSOR.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(registers: u32, shared_static: u32) -> Need {
        Need { registers, shared_static }
    }

    #[test]
    fn small_kernel_is_limited_by_threads() {
        assert_eq!(blocks_per_multiprocessor(need(16, 0), 256, 0, None), 8);
    }

    #[test]
    fn tiny_blocks_are_limited_by_the_number_of_blocks() {
        assert_eq!(blocks_per_multiprocessor(need(16, 0), 32, 0, None), 32);
    }

    #[test]
    fn registers_limit_a_heavy_kernel() {
        // 128 registers: 4096 per warp, 4 warps per scheduler, 16 warps, 2 blocks of 8 warps.
        assert_eq!(blocks_per_multiprocessor(need(128, 0), 256, 0, None), 2);
    }

    #[test]
    fn shared_memory_limits_with_the_reserved_kilobyte() {
        // 48 KiB + 1 KiB reserved: 4 blocks in 228 KiB.
        assert_eq!(blocks_per_multiprocessor(need(16, 48 << 10), 128, 0, None), 4);
    }

    #[test]
    fn a_block_that_asks_for_everything_still_fits_once() {
        assert_eq!(blocks_per_multiprocessor(need(16, 0), 128, 227 << 10, None), 1);
    }

    #[test]
    fn too_much_shared_memory_fits_no_block() {
        assert_eq!(blocks_per_multiprocessor(need(16, 0), 128, 228 << 10, None), 0);
    }

    #[test]
    fn absurd_dynamic_size_does_not_overflow() {
        assert_eq!(blocks_per_multiprocessor(need(16, 0), 128, u64::MAX, None), 0);
    }

    #[test]
    fn dynamic_shared_memory_left_for_some_blocks_is_an_h200s() {
        assert_eq!(dynamic_shared_for(need(8, 0), 1, 128, 49152), Some(49152));
        assert_eq!(dynamic_shared_for(need(8, 0), 7, 128, 49152), Some(33280));
        assert_eq!(dynamic_shared_for(need(8, 4000), 16, 128, 45152), Some(10592));
        assert_eq!(dynamic_shared_for(need(8, 0), 17, 128, 49152), None);
    }

    #[test]
    fn preferred_carveout_limits_as_on_an_h200() {
        assert_eq!(blocks_per_multiprocessor(need(8, 0), 32, 20_000, Some(50)), 6);
        assert_eq!(blocks_per_multiprocessor(need(8, 0), 32, 20_000, None), 11);
        assert_eq!(blocks_per_multiprocessor(need(8, 0), 32, 200 << 10, Some(0)), 1);
    }
}
