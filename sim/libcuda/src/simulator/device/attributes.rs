//! In: the number of a device attribute. Out: its value for a CPU device, or that there is none.
//! Every answer is one the rest of this crate keeps: what is not implemented is 0 here, sizes come from `limits`.

use floe_abi::device_attribute as ask;

use super::limits;
use crate::simulator::executor::TRANSFER_THREADS;

/// The inputs of one device's attributes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    /// Ordinal over the host's CPU devices.
    pub(crate) ordinal: u32,
    /// Compute capability.
    pub(crate) compute: (u32, u32),
    /// Worker threads of the machine.
    pub(crate) cores: u32,
}

impl Identity {
    /// Multiprocessors the device reports: few enough that programs size their grids for a CPU, and enough per core
    /// that blocks spread evenly.
    pub(crate) fn multiprocessors(&self) -> u32 {
        self.cores * 4
    }

    /// The PCI bus number: made up, distinct per device, and high, where host buses are rare.
    pub(crate) fn pci_bus(&self) -> u32 {
        0xe0 + self.ordinal
    }

    /// The capability as one number: 90 for 9.0.
    pub(crate) fn binary_version(&self) -> u32 {
        self.compute.0 * 10 + self.compute.1
    }
}

/// The value of an attribute; `None` for a number that names no attribute.
pub(crate) fn value(device: &Identity, attribute: u32) -> Option<i32> {
    let value = sizes(attribute)
        .or_else(|| identity(device, attribute))
        .or_else(|| abilities(attribute))
        .or_else(|| textures(attribute))?;
    Some(i32::try_from(value).unwrap_or(i32::MAX))
}

fn sizes(attribute: u32) -> Option<u32> {
    Some(match attribute {
        ask::MAX_THREADS_PER_BLOCK => limits::MAX_THREADS_PER_BLOCK,
        ask::MAX_BLOCK_DIM_X => limits::MAX_BLOCK[0],
        ask::MAX_BLOCK_DIM_Y => limits::MAX_BLOCK[1],
        ask::MAX_BLOCK_DIM_Z => limits::MAX_BLOCK[2],
        ask::MAX_GRID_DIM_X => limits::MAX_GRID[0],
        ask::MAX_GRID_DIM_Y => limits::MAX_GRID[1],
        ask::MAX_GRID_DIM_Z => limits::MAX_GRID[2],
        ask::MAX_SHARED_MEMORY_PER_BLOCK => limits::SHARED_PER_BLOCK,
        ask::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN => limits::SHARED_PER_BLOCK_OPT_IN,
        ask::MAX_SHARED_MEMORY_PER_MULTIPROCESSOR => limits::SHARED_PER_MULTIPROCESSOR,
        ask::RESERVED_SHARED_MEMORY_PER_BLOCK => limits::SHARED_RESERVED,
        ask::TOTAL_CONSTANT_MEMORY => limits::CONSTANT_MEMORY,
        ask::WARP_SIZE => limits::WARP_SIZE,
        ask::MAX_PITCH => limits::MAX_PITCH,
        ask::MAX_REGISTERS_PER_BLOCK | ask::MAX_REGISTERS_PER_MULTIPROCESSOR => limits::REGISTERS,
        ask::MAX_THREADS_PER_MULTIPROCESSOR => limits::MAX_THREADS_PER_MULTIPROCESSOR,
        ask::MAX_BLOCKS_PER_MULTIPROCESSOR => limits::MAX_BLOCKS_PER_MULTIPROCESSOR,
        ask::TEXTURE_ALIGNMENT | ask::SURFACE_ALIGNMENT => limits::TEXTURE_ALIGNMENT,
        ask::TEXTURE_PITCH_ALIGNMENT => limits::TEXTURE_PITCH_ALIGNMENT,
        _ => return None,
    })
}

fn identity(device: &Identity, attribute: u32) -> Option<u32> {
    Some(match attribute {
        ask::COMPUTE_CAPABILITY_MAJOR => device.compute.0,
        ask::COMPUTE_CAPABILITY_MINOR => device.compute.1,
        ask::MULTIPROCESSOR_COUNT => device.multiprocessors(),
        ask::TENSOR_MAP_ACCESS_SUPPORTED => u32::from(device.compute >= (9, 0)),
        ask::PCI_BUS_ID => device.pci_bus(),
        ask::PCI_DEVICE_ID | ask::PCI_DOMAIN_ID => 0,
        ask::MULTI_GPU_BOARD_GROUP_ID => device.ordinal,
        // Rates and widths have the magnitude of a server CPU, since programs print them or divide by them. Units: kHz,
        // kHz, bits, bytes.
        ask::CLOCK_RATE => 2_000_000,
        ask::MEMORY_CLOCK_RATE => 2_400_000,
        ask::GLOBAL_MEMORY_BUS_WIDTH => 64,
        ask::L2_CACHE_SIZE => 32 << 20,
        ask::ASYNC_ENGINE_COUNT => u32::try_from(TRANSFER_THREADS).unwrap_or(1),
        ask::SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO => 2,
        // No NUMA node of its own: -1 as CUDA says it.
        ask::NUMA_ID | ask::HOST_NUMA_ID => 0,
        _ => return None,
    })
}

fn abilities(attribute: u32) -> Option<u32> {
    if is_able(attribute) {
        Some(1)
    } else if is_unable(attribute) {
        Some(0)
    } else {
        None
    }
}

/// Yes-or-no attributes that the device has.
fn is_able(attribute: u32) -> bool {
    matches!(
        attribute,
        ask::GPU_OVERLAP
            | ask::CONCURRENT_KERNELS
            | ask::UNIFIED_ADDRESSING
            | ask::STREAM_PRIORITIES_SUPPORTED
            | ask::GLOBAL_L1_CACHE_SUPPORTED
            | ask::LOCAL_L1_CACHE_SUPPORTED
            | ask::COMPUTE_PREEMPTION_SUPPORTED
            | ask::COOPERATIVE_LAUNCH
            | ask::MANAGED_MEMORY
            | ask::VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED
            | ask::MEMORY_POOLS_SUPPORTED
            | ask::HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED
            | ask::HOST_REGISTER_SUPPORTED
            | ask::CAN_MAP_HOST_MEMORY
            | ask::READ_ONLY_HOST_REGISTER_SUPPORTED
            | ask::UNIFIED_FUNCTION_POINTERS
            | ask::MEM_SYNC_DOMAIN_COUNT
            | ask::CAN_USE_64_BIT_STREAM_MEM_OPS
            | ask::CAN_USE_STREAM_WAIT_VALUE_NOR
    )
}

/// Yes-or-no attributes that it lacks.
fn is_unable(attribute: u32) -> bool {
    matches!(
        attribute,
        ask::KERNEL_EXEC_TIMEOUT
            | ask::INTEGRATED
            | ask::COMPUTE_MODE
            | ask::ECC_ENABLED
            | ask::TCC_DRIVER
            | ask::MULTI_GPU_BOARD
            | ask::HOST_NATIVE_ATOMIC_SUPPORTED
            | ask::PAGEABLE_MEMORY_ACCESS
            // The host could touch it at any time here. But a program is to do on this device what it does on a vGPU.
            | ask::CONCURRENT_MANAGED_ACCESS
            | ask::CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
            | ask::CAN_USE_STREAM_MEM_OPS_V1
            | ask::CAN_USE_64_BIT_STREAM_MEM_OPS_V1
            | ask::CAN_USE_STREAM_WAIT_VALUE_NOR_V1
            | ask::COOPERATIVE_MULTI_DEVICE_LAUNCH
            | ask::CAN_FLUSH_REMOTE_WRITES
            | ask::PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES
            | ask::DIRECT_MANAGED_MEM_ACCESS_FROM_HOST
            | ask::HANDLE_TYPE_WIN32_HANDLE_SUPPORTED
            | ask::HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED
            | ask::HANDLE_TYPE_FABRIC_SUPPORTED
            | ask::GENERIC_COMPRESSION_SUPPORTED
            | ask::MAX_PERSISTING_L2_CACHE_SIZE
            | ask::MAX_ACCESS_POLICY_WINDOW_SIZE
            | ask::GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED
            | ask::SPARSE_CUDA_ARRAY_SUPPORTED
            | ask::TIMELINE_SEMAPHORE_INTEROP_SUPPORTED
            | ask::GPU_DIRECT_RDMA_SUPPORTED
            | ask::GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS
            | ask::GPU_DIRECT_RDMA_WRITES_ORDERING
            | ask::MEMPOOL_SUPPORTED_HANDLE_TYPES
            | ask::CLUSTER_LAUNCH
            | ask::DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED
            | ask::DMA_BUF_SUPPORTED
            | ask::IPC_EVENT_SUPPORTED
            | ask::NUMA_CONFIG
            | ask::MULTICAST_SUPPORTED
            | ask::MPS_ENABLED
            | ask::D3D12_CIG_SUPPORTED
            | ask::MEM_DECOMPRESS_ALGORITHM_MASK
            | ask::MEM_DECOMPRESS_MAXIMUM_LENGTH
            | ask::VULKAN_CIG_SUPPORTED
            | ask::GPU_PCI_DEVICE_ID
            | ask::GPU_PCI_SUBSYSTEM_ID
            | ask::HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
            | ask::HOST_NUMA_MEMORY_POOLS_SUPPORTED
            | ask::HOST_NUMA_MULTINODE_IPC_SUPPORTED
            | ask::HOST_MEMORY_POOLS_SUPPORTED
            | ask::HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
            | ask::HOST_ALLOC_DMA_BUF_SUPPORTED
            | ask::ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED
    )
}

/// How large textures and surfaces are; there are no cubes and no mipmaps, whose sizes are 0.
fn textures(attribute: u32) -> Option<u32> {
    let size = match attribute {
        ask::MAXIMUM_TEXTURE1D_WIDTH | ask::MAXIMUM_SURFACE1D_WIDTH => limits::TEXTURE_1D,
        ask::MAXIMUM_TEXTURE2D_WIDTH | ask::MAXIMUM_TEXTURE2D_GATHER_WIDTH | ask::MAXIMUM_SURFACE2D_WIDTH => {
            limits::TEXTURE_2D[0]
        }
        ask::MAXIMUM_TEXTURE2D_HEIGHT | ask::MAXIMUM_TEXTURE2D_GATHER_HEIGHT | ask::MAXIMUM_SURFACE2D_HEIGHT => {
            limits::TEXTURE_2D[1]
        }
        ask::MAXIMUM_TEXTURE3D_WIDTH | ask::MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE | ask::MAXIMUM_SURFACE3D_WIDTH => {
            limits::TEXTURE_3D[0]
        }
        ask::MAXIMUM_TEXTURE3D_HEIGHT | ask::MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE | ask::MAXIMUM_SURFACE3D_HEIGHT => {
            limits::TEXTURE_3D[1]
        }
        ask::MAXIMUM_TEXTURE3D_DEPTH | ask::MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE | ask::MAXIMUM_SURFACE3D_DEPTH => {
            limits::TEXTURE_3D[2]
        }
        ask::MAXIMUM_TEXTURE1D_LAYERED_WIDTH | ask::MAXIMUM_SURFACE1D_LAYERED_WIDTH => limits::TEXTURE_1D_LAYERED[0],
        ask::MAXIMUM_TEXTURE1D_LAYERED_LAYERS | ask::MAXIMUM_SURFACE1D_LAYERED_LAYERS => limits::TEXTURE_1D_LAYERED[1],
        ask::MAXIMUM_TEXTURE2D_LAYERED_WIDTH | ask::MAXIMUM_SURFACE2D_LAYERED_WIDTH => limits::TEXTURE_2D_LAYERED[0],
        ask::MAXIMUM_TEXTURE2D_LAYERED_HEIGHT | ask::MAXIMUM_SURFACE2D_LAYERED_HEIGHT => limits::TEXTURE_2D_LAYERED[1],
        ask::MAXIMUM_TEXTURE2D_LAYERED_LAYERS | ask::MAXIMUM_SURFACE2D_LAYERED_LAYERS => limits::TEXTURE_2D_LAYERED[2],
        ask::MAXIMUM_TEXTURE1D_LINEAR_WIDTH => limits::TEXTURE_1D_LINEAR,
        ask::MAXIMUM_TEXTURE2D_LINEAR_WIDTH => limits::TEXTURE_2D_LINEAR[0],
        ask::MAXIMUM_TEXTURE2D_LINEAR_HEIGHT => limits::TEXTURE_2D_LINEAR[1],
        ask::MAXIMUM_TEXTURE2D_LINEAR_PITCH => limits::TEXTURE_2D_LINEAR[2],
        _ => return absent_textures(attribute),
    };
    Some(size)
}

fn absent_textures(attribute: u32) -> Option<u32> {
    let sizes = [
        ask::MAXIMUM_TEXTURE1D_WIDTH..=ask::MAXIMUM_TEXTURE2D_LAYERED_LAYERS,
        ask::MAXIMUM_TEXTURE1D_LAYERED_WIDTH..=ask::MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE,
        ask::MAXIMUM_TEXTURECUBEMAP_WIDTH..=ask::MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT,
        ask::MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH..=ask::MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH,
    ];
    sizes.iter().any(|range| range.contains(&attribute)).then_some(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: Identity = Identity { ordinal: 1, compute: (9, 0), cores: 16 };

    /// The last attribute CUDA 13.0 names.
    const LAST: u32 = ask::ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED;

    #[test]
    fn every_attribute_cuda_names_has_a_value() {
        // 92 and 93 and the like were removed from the header; what it names is listed in the vocabulary.
        let unnamed: Vec<u32> = (1..=LAST).filter(|attribute| value(&DEVICE, *attribute).is_none()).collect();
        assert!(unnamed.len() <= 3, "no value for: {unnamed:?}");
    }

    #[test]
    fn number_beyond_the_last_has_no_value() {
        assert_eq!(value(&DEVICE, 0), None);
        assert_eq!(value(&DEVICE, 100_000), None);
    }

    #[test]
    fn identity_shows_in_the_attributes() {
        assert_eq!(value(&DEVICE, ask::MULTIPROCESSOR_COUNT), Some(64));
        assert_eq!(value(&DEVICE, ask::COMPUTE_CAPABILITY_MAJOR), Some(9));
        assert_eq!(value(&DEVICE, ask::PCI_BUS_ID), Some(0xe1));
    }

    #[test]
    fn the_device_has_textures_but_no_cubes_and_maps_addresses_and_host_memory() {
        assert_eq!(value(&DEVICE, ask::MAXIMUM_TEXTURE2D_WIDTH), Some(131_072));
        assert_eq!(value(&DEVICE, ask::MAXIMUM_TEXTURECUBEMAP_WIDTH), Some(0));
        assert_eq!(value(&DEVICE, ask::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), Some(1));
        assert_eq!(value(&DEVICE, ask::CAN_MAP_HOST_MEMORY), Some(1));
    }
}
