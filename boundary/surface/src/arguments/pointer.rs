//! Attributes of an address, each with the width that C expects. The implementation gives a typed answer, the surface
//! writes it through the program's pointer. It never reads through one.

use floe_abi::{Context, DevicePtr, HostPointer, MemPool, pointer_attribute};

/// The answer to one of `pointer_attribute`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PointerAttribute {
    /// The context the memory was made in or registered with.
    Context(Context),
    /// One of `memory_type`.
    MemoryType(u32),
    /// The address to use on the device.
    DevicePointer(DevicePtr),
    /// The address to use on the host.
    HostPointer(HostPointer),
    /// Copies of this memory always wait.
    SyncMemops(bool),
    /// A number no other allocation of the process ever has.
    BufferId(u64),
    /// Made by `cuMemAllocManaged`.
    IsManaged(bool),
    /// The device of the memory; −2 where there is none.
    DeviceOrdinal(i32),
    /// Can be handed to another process the old way.
    IsLegacyIpcCapable(bool),
    /// First address of the allocation.
    RangeStart(DevicePtr),
    /// The allocation's size in bytes.
    RangeSize(usize),
    /// Is mapped.
    Mapped(bool),
    /// Bits of `handle_type`.
    AllowedHandleTypes(u64),
    /// Network cards can reach it.
    IsGpuDirectRdmaCapable(bool),
    /// The access that the context's device has.
    AccessFlags(u32),
    /// The pool it is from, or NULL.
    MemPool(MemPool),
    /// Size of the mapping in bytes.
    MappingSize(usize),
    /// First address of the mapping.
    MappingBase(DevicePtr),
    /// A number of the physical memory behind it.
    MemoryBlockId(u64),
    /// Can be the target of hardware decompression.
    IsHardwareDecompressCapable(bool),
}

/// Bytes of an answer, in the width C reads: a word or an `int`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// `unsigned int`, `int` and truth values.
    Int(u32),
    /// Pointers, sizes and ids.
    Word(u64),
}

impl PointerAttribute {
    /// A value to be written through the program's pointer.
    #[allow(clippy::cast_sign_loss, reason = "an ordinal of -2 keeps its bits")]
    pub(crate) fn width(self) -> Width {
        match self {
            Self::Context(Context(word))
            | Self::DevicePointer(DevicePtr(word))
            | Self::HostPointer(HostPointer(word))
            | Self::BufferId(word)
            | Self::RangeStart(DevicePtr(word))
            | Self::AllowedHandleTypes(word)
            | Self::MemPool(MemPool(word))
            | Self::MappingBase(DevicePtr(word))
            | Self::MemoryBlockId(word) => Width::Word(word),
            Self::RangeSize(size) | Self::MappingSize(size) => Width::Word(size as u64),
            Self::MemoryType(number) | Self::AccessFlags(number) => Width::Int(number),
            Self::DeviceOrdinal(number) => Width::Int(number as u32),
            Self::SyncMemops(truth)
            | Self::IsManaged(truth)
            | Self::IsLegacyIpcCapable(truth)
            | Self::Mapped(truth)
            | Self::IsGpuDirectRdmaCapable(truth)
            | Self::IsHardwareDecompressCapable(truth) => Width::Int(u32::from(truth)),
        }
    }

    /// The answer of `cuPointerGetAttributes` for an unknown address, as driver 580 gives it. It is zero in the
    /// attribute's width, −2 for the device, and the address itself as host pointer. The range's attributes are not
    /// written. `None` for an attribute without a meaning.
    pub(crate) fn unknown(attribute: u32, address: DevicePtr) -> Option<Option<Self>> {
        use pointer_attribute as ask;
        Some(Some(match attribute {
            ask::CONTEXT => Self::Context(Context::NULL),
            ask::MEMORY_TYPE => Self::MemoryType(0),
            ask::DEVICE_POINTER => Self::DevicePointer(DevicePtr::NULL),
            ask::HOST_POINTER => Self::HostPointer(HostPointer(address.0)),
            ask::SYNC_MEMOPS => Self::SyncMemops(false),
            ask::BUFFER_ID => Self::BufferId(0),
            ask::IS_MANAGED => Self::IsManaged(false),
            ask::DEVICE_ORDINAL => Self::DeviceOrdinal(-2),
            ask::IS_LEGACY_CUDA_IPC_CAPABLE => Self::IsLegacyIpcCapable(false),
            ask::RANGE_START_ADDR | ask::RANGE_SIZE => return Some(None),
            ask::MAPPED => Self::Mapped(false),
            ask::ALLOWED_HANDLE_TYPES => Self::AllowedHandleTypes(0),
            ask::IS_GPU_DIRECT_RDMA_CAPABLE => Self::IsGpuDirectRdmaCapable(false),
            ask::ACCESS_FLAGS => Self::AccessFlags(0),
            ask::MEMPOOL_HANDLE => Self::MemPool(MemPool::NULL),
            ask::MAPPING_SIZE => Self::MappingSize(0),
            ask::MAPPING_BASE_ADDR => Self::MappingBase(DevicePtr::NULL),
            ask::MEMORY_BLOCK_ID => Self::MemoryBlockId(0),
            ask::IS_HW_DECOMPRESS_CAPABLE => Self::IsHardwareDecompressCapable(false),
            _ => return None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_address_is_its_own_host_pointer_and_lies_in_no_range() {
        let address = DevicePtr(0x7f00_1000);
        let host = PointerAttribute::unknown(pointer_attribute::HOST_POINTER, address);
        assert_eq!(host, Some(Some(PointerAttribute::HostPointer(HostPointer(0x7f00_1000)))));
        assert_eq!(PointerAttribute::unknown(pointer_attribute::RANGE_SIZE, address), Some(None));
        assert_eq!(PointerAttribute::unknown(pointer_attribute::P2P_TOKENS, address), None);
    }

    #[test]
    fn truth_values_and_ordinals_are_four_bytes_wide() {
        assert_eq!(PointerAttribute::IsManaged(true).width(), Width::Int(1));
        assert_eq!(PointerAttribute::DeviceOrdinal(-2).width(), Width::Int(0xFFFF_FFFE));
        assert_eq!(PointerAttribute::RangeSize(4096).width(), Width::Word(4096));
    }
}
