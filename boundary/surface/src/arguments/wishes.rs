//! Flags and members of structs that both libraries judge alike: of contexts, of physical memory, of pools. What a program
//! asks for comes in; what it gets goes out, or a refusal that names the wish. Sizes and places are the implementation's.

use crate::arguments::shareable::ShareableKind;
use crate::process::refusals::refused_once;
use floe_abi::{
    CudaError, CudaResult, Device, MemAllocationFlags, MemAllocationProperties, MemLocation, MemPoolProperties,
    allocation_type, compression_type, context_flags, handle_type, location_type, mem_create_usage,
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

/// The device that memory is to be on.
///
/// # Errors
/// NOT_SUPPORTED for the host, INVALID_VALUE for places that CUDA does not name.
pub fn device_of_place(place: &MemLocation) -> CudaResult<Device> {
    accessing_device(place)?.ok_or_else(|| {
        refused_once(format_args!("memory can only be on a device: CUmemLocationType {}", place.kind));
        CudaError::NOT_SUPPORTED
    })
}

/// The device whose access is asked for; `None` for the host.
///
/// # Errors
/// INVALID_VALUE for places that CUDA does not name.
pub fn accessing_device(place: &MemLocation) -> CudaResult<Option<Device>> {
    match place.kind {
        location_type::DEVICE => Ok(Some(Device(place.id))),
        location_type::HOST | location_type::HOST_NUMA | location_type::HOST_NUMA_CURRENT => Ok(None),
        _ => Err(CudaError::INVALID_VALUE),
    }
}

/// Whether memory and pools can have handles of all these kinds.
///
/// # Errors
/// INVALID_VALUE for kinds that CUDA does not name, NOT_SUPPORTED for Windows's.
pub fn check_handle_types(kinds: u32) -> CudaResult<()> {
    if kinds & !handle_type::KNOWN != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    if kinds & !ShareableKind::ALL != 0 {
        refused_once(format_args!(
            "memory is shared by descriptors and fabric handles, not by handles of the kinds: {kinds:#x}"
        ));
        return Err(CudaError::NOT_SUPPORTED);
    }
    Ok(())
}

/// Whether CUDA names all that is asked of physical memory.
///
/// # Errors
/// INVALID_VALUE where not.
pub fn check_memory_flags(asked: &MemAllocationFlags) -> CudaResult<()> {
    let known = asked.compression_type <= compression_type::GENERIC && asked.usage & !mem_create_usage::KNOWN == 0;
    if known { Ok(()) } else { Err(CudaError::INVALID_VALUE) }
}

/// The properties that physical memory gets for those asked for. It is neither compressed nor reached by network cards, and
/// a program that asks for its properties learns so.
///
/// # Errors
/// INVALID_VALUE for what CUDA does not name, NOT_SUPPORTED for memory of sparse arrays.
pub fn granted_memory(asked: &MemAllocationProperties) -> CudaResult<MemAllocationProperties> {
    check_memory_flags(&asked.flags)?;
    if asked.flags.usage & mem_create_usage::TILE_POOL != 0 {
        refused_once(format_args!(
            "cuMemCreate: memory of sparse arrays (CU_MEM_CREATE_USAGE_TILE_POOL) is not supported"
        ));
        return Err(CudaError::NOT_SUPPORTED);
    }
    let flags = MemAllocationFlags { compression_type: 0, gpu_direct_rdma_capable: 0, ..asked.flags };
    Ok(MemAllocationProperties { flags, ..*asked })
}

/// Whether there can be such a pool; its place is another question. The one usage that CUDA names, for hardware that
/// decompresses, changes nothing: no function that decompresses is there.
///
/// # Errors
/// INVALID_VALUE for kinds, handles and usages that CUDA does not name, NOT_SUPPORTED for managed memory and Windows's handles.
pub fn check_pool(properties: &MemPoolProperties) -> CudaResult<()> {
    match properties.kind {
        allocation_type::PINNED => {}
        allocation_type::MANAGED => {
            refused_once(format_args!("pools of managed memory are not supported"));
            return Err(CudaError::NOT_SUPPORTED);
        }
        _ => return Err(CudaError::INVALID_VALUE),
    }
    if properties.usage & !mem_create_usage::HW_DECOMPRESS != 0 || properties.reserved.iter().any(|byte| *byte != 0) {
        return Err(CudaError::INVALID_VALUE);
    }
    check_handle_types(properties.handle_types)
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
    fn memory_is_on_a_device_and_no_place_is_taken_for_another() {
        let of = |kind| device_of_place(&MemLocation { kind, id: 3 });
        assert_eq!(of(location_type::DEVICE), Ok(Device(3)));
        for kind in [location_type::HOST, location_type::HOST_NUMA, location_type::HOST_NUMA_CURRENT] {
            assert_eq!(of(kind), Err(CudaError::NOT_SUPPORTED), "{kind}");
            assert_eq!(accessing_device(&MemLocation { kind, id: 3 }), Ok(None), "{kind}");
        }
        for kind in [location_type::INVALID, 5, u32::MAX] {
            assert_eq!(of(kind), Err(CudaError::INVALID_VALUE), "{kind}");
        }
    }

    #[test]
    fn handles_of_windows_are_refused_and_unknown_ones_are_invalid() {
        assert_eq!([0, 1, 8, 9].map(check_handle_types), [Ok(()); 4]);
        assert_eq!([2, 4, 3, 15].map(check_handle_types), [Err(CudaError::NOT_SUPPORTED); 4]);
        assert_eq!([16, 17, 0x7fff_ffff].map(check_handle_types), [Err(CudaError::INVALID_VALUE); 3]);
    }

    #[test]
    fn pools_have_the_one_usage_there_is() {
        let answer = |kind, usage| check_pool(&MemPoolProperties { kind, usage, ..MemPoolProperties::default() });
        let pinned = |usage| answer(allocation_type::PINNED, usage);
        assert_eq!([pinned(0), pinned(mem_create_usage::HW_DECOMPRESS)], [Ok(()); 2]);
        assert_eq!([pinned(1), pinned(0x8000), answer(3, 0)], [Err(CudaError::INVALID_VALUE); 3]);
        assert_eq!(answer(allocation_type::MANAGED, 0), Err(CudaError::NOT_SUPPORTED));
    }
}
