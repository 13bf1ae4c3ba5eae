//! Flags and members of structs that both libraries judge alike: of contexts, of physical memory, of pools. What a program
//! asks for comes in; what it gets goes out, or a refusal that names the wish. Sizes and places are the implementation's.

use crate::process::refusals::refused_once;
use floe_abi::{
    CudaError, CudaResult, MemAllocationFlags, MemAllocationProperties, MemPoolProperties, compression_type,
    context_flags, mem_create_usage,
};

/// Whether a context can have these flags.
///
/// # Errors
/// INVALID_VALUE for bits and kinds of waiting that CUDA does not name, NOT_SUPPORTED for dumps of a faulting context.
pub fn check_context_flags(flags: u32) -> CudaResult<()> {
    let waits = flags & context_flags::SCHED_MASK;
    if flags & !context_flags::FLAGS_MASK != 0 || !(waits == 0 || waits.is_power_of_two()) {
        return Err(CudaError::INVALID_VALUE);
    }
    if flags & (context_flags::COREDUMP_ENABLE | context_flags::USER_COREDUMP_ENABLE) != 0 {
        refused_once(format_args!("core dumps of a context are not supported: flags {flags:#x}"));
        return Err(CudaError::NOT_SUPPORTED);
    }
    Ok(())
}

/// The properties that physical memory gets for those asked for. It is neither compressed nor reached by network cards, and
/// a program that asks for its properties learns so.
///
/// # Errors
/// INVALID_VALUE for what CUDA does not name, NOT_SUPPORTED for memory of sparse arrays.
pub fn granted_memory(asked: &MemAllocationProperties) -> CudaResult<MemAllocationProperties> {
    let MemAllocationFlags { compression_type: compression, usage, .. } = asked.flags;
    if compression > compression_type::GENERIC || usage & !mem_create_usage::KNOWN != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    if usage & mem_create_usage::TILE_POOL != 0 {
        refused_once(format_args!(
            "cuMemCreate: memory of sparse arrays (CU_MEM_CREATE_USAGE_TILE_POOL) is not supported"
        ));
        return Err(CudaError::NOT_SUPPORTED);
    }
    let flags = MemAllocationFlags { compression_type: 0, gpu_direct_rdma_capable: 0, ..asked.flags };
    Ok(MemAllocationProperties { flags, ..*asked })
}

/// Whether a pool can have this usage. The one that CUDA names, for hardware that decompresses, changes nothing: no
/// function that decompresses is there.
///
/// # Errors
/// INVALID_VALUE for any other.
pub fn check_pool_usage(properties: &MemPoolProperties) -> CudaResult<()> {
    let known = properties.usage & !mem_create_usage::HW_DECOMPRESS == 0;
    if known { Ok(()) } else { Err(CudaError::INVALID_VALUE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_wait_in_one_way_and_dump_no_core() {
        use context_flags as is;
        let answers = [
            (0, Ok(())),
            (is::SCHED_SPIN | is::MAP_HOST | is::LMEM_RESIZE_TO_MAX, Ok(())),
            (is::SCHED_YIELD | is::SYNC_MEMOPS, Ok(())),
            (is::SCHED_BLOCKING_SYNC, Ok(())),
            (is::SCHED_SPIN | is::SCHED_YIELD, Err(CudaError::INVALID_VALUE)),
            (is::SCHED_MASK, Err(CudaError::INVALID_VALUE)),
            (is::FLAGS_MASK + 1, Err(CudaError::INVALID_VALUE)),
            (is::COREDUMP_ENABLE, Err(CudaError::NOT_SUPPORTED)),
            (is::USER_COREDUMP_ENABLE | is::SCHED_SPIN, Err(CudaError::NOT_SUPPORTED)),
        ];
        for (flags, answer) in answers {
            assert_eq!(check_context_flags(flags), answer, "{flags:#x}");
        }
    }

    fn memory(compression: u8, rdma: u8, usage: u16) -> MemAllocationProperties {
        let flags = MemAllocationFlags {
            compression_type: compression,
            gpu_direct_rdma_capable: rdma,
            usage,
            reserved: [0; 4],
        };
        MemAllocationProperties { kind: 1, flags, ..MemAllocationProperties::default() }
    }

    #[test]
    fn memory_says_that_it_is_neither_compressed_nor_reached_by_network_cards() {
        let usage = mem_create_usage::HW_DECOMPRESS | mem_create_usage::GPU_DIRECT_RDMA_OVER_PCIE;
        assert_eq!(granted_memory(&memory(compression_type::GENERIC, 1, usage)), Ok(memory(0, 0, usage)));
        assert_eq!(granted_memory(&memory(0, 0, 0)), Ok(memory(0, 0, 0)));
    }

    #[test]
    fn memory_of_sparse_arrays_and_of_unknown_kinds_is_refused() {
        let answer = |compression, usage| granted_memory(&memory(compression, 0, usage));
        assert_eq!(answer(0, mem_create_usage::TILE_POOL), Err(CudaError::NOT_SUPPORTED));
        assert_eq!(answer(0, 8), Err(CudaError::INVALID_VALUE));
        assert_eq!(answer(2, 0), Err(CudaError::INVALID_VALUE));
    }

    #[test]
    fn pools_have_the_one_usage_there_is() {
        let answer = |usage| check_pool_usage(&MemPoolProperties { usage, ..MemPoolProperties::default() });
        assert_eq!([answer(0), answer(mem_create_usage::HW_DECOMPRESS)], [Ok(()); 2]);
        assert_eq!([answer(1), answer(0x8000)], [Err(CudaError::INVALID_VALUE); 2]);
    }
}
