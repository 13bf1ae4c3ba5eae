//! Structs about memory, laid out as the C header lays them out: locations, access, allocation and pool properties.
//! Checked against the bindings when this crate compiles. Numbers a program passed stay numbers: nothing here judges
//! them.

/// Fails the build where a mirror's size, alignment or a field's offset differs from the header's.
macro_rules! same_layout {
    ($ours:ty, $theirs:ident, { $($field:ident : $raw:ident),* $(,)? }) => {
        const _: () = {
            use cudarc::driver::sys::$theirs as Raw;
            assert!(size_of::<$ours>() == size_of::<Raw>());
            assert!(align_of::<$ours>() == align_of::<Raw>());
            $(assert!(std::mem::offset_of!($ours, $field) == std::mem::offset_of!(Raw, $raw));)*
        };
    };
}
pub(crate) use same_layout;

/// `CUmemLocation`: where memory lives.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct MemLocation {
    /// One of [`crate::location_type`].
    pub kind: u32,
    /// Which of that kind: a device ordinal, a NUMA node.
    pub id: i32,
}

/// `CUmemAccessDesc`: what one location may do with a mapping.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct MemAccess {
    /// The location.
    pub location: MemLocation,
    /// One of [`crate::access_flags`].
    pub flags: u32,
}

/// The bit fields at the end of [`MemAllocationProperties`].
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct MemAllocationFlags {
    /// 1 asks for compressible memory.
    pub compression_type: u8,
    /// 1 asks for memory network cards can reach.
    pub gpu_direct_rdma_capable: u8,
    /// Bits of `CU_MEM_CREATE_USAGE_*`.
    pub usage: u16,
    /// Zero.
    pub reserved: [u8; 4],
}

/// `CUmemAllocationProp`: which memory `cuMemCreate` takes.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct MemAllocationProperties {
    /// One of [`crate::allocation_type`].
    pub kind: u32,
    /// Bits of [`crate::handle_type`].
    pub requested_handle_types: u32,
    /// The location.
    pub location: MemLocation,
    /// A pointer only Windows uses.
    pub win32_meta_data: u64,
    /// Further wishes.
    pub flags: MemAllocationFlags,
}

/// `CUmemPoolProps`: which memory a pool hands out.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemPoolProperties {
    /// One of [`crate::allocation_type`].
    pub kind: u32,
    /// Bits of [`crate::handle_type`].
    pub handle_types: u32,
    /// The location.
    pub location: MemLocation,
    /// A pointer only Windows uses.
    pub win32_security_attributes: u64,
    /// The pool's limit in bytes; 0 leaves it to the driver.
    pub max_size: usize,
    /// Bits of `CU_MEM_POOL_CREATE_USAGE_*`.
    pub usage: u16,
    /// Zero.
    pub reserved: [u8; 54],
}

impl Default for MemPoolProperties {
    fn default() -> Self {
        Self {
            kind: 0,
            handle_types: 0,
            location: MemLocation::default(),
            win32_security_attributes: 0,
            max_size: 0,
            usage: 0,
            reserved: [0; 54],
        }
    }
}

same_layout!(MemLocation, CUmemLocation_st, { kind: type_, id: id });
same_layout!(MemAccess, CUmemAccessDesc_st, { location: location, flags: flags });
same_layout!(MemAllocationFlags, CUmemAllocationProp_st__bindgen_ty_1, {
    compression_type: compressionType, gpu_direct_rdma_capable: gpuDirectRDMACapable, usage: usage,
});
same_layout!(MemAllocationProperties, CUmemAllocationProp_st, {
    kind: type_, requested_handle_types: requestedHandleTypes, location: location,
    win32_meta_data: win32HandleMetaData, flags: allocFlags,
});
same_layout!(MemPoolProperties, CUmemPoolProps_st, {
    kind: allocType, handle_types: handleTypes, location: location,
    win32_security_attributes: win32SecurityAttributes, max_size: maxSize, usage: usage, reserved: reserved,
});
