//! The layouts of records of CUDA 13.0's CUPTI: packed, and of a multiple of 8 bytes. Readers of older layouts find what
//! they know at the same places, since each layout only adds fields behind those of the one before.
//! These are plain values; what a field means is NVIDIA's documentation's to say.
#![allow(missing_docs, reason = "the fields are NVIDIA's")]

use std::ffi::{c_char, c_void};

/// `CUpti_ActivityKernel10`, kinds [`KERNEL`](crate::kind::KERNEL) and
/// [`CONCURRENT_KERNEL`](crate::kind::CONCURRENT_KERNEL).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Kernel {
    pub kind: u32,
    pub cache_config: u8,
    pub shared_config: u8,
    pub registers: u16,
    pub partitioned_requested: u32,
    pub partitioned_executed: u32,
    pub start: u64,
    pub end: u64,
    pub completed: u64,
    pub device: u32,
    pub context: u32,
    pub stream: u32,
    pub grid: [i32; 3],
    pub block: [i32; 3],
    pub static_shared: i32,
    pub dynamic_shared: i32,
    pub local_per_thread: u32,
    pub local_total: u32,
    pub correlation: u32,
    pub grid_id: i64,
    pub name: *const c_char,
    pub reserved: *const c_void,
    pub queued: u64,
    pub submitted: u64,
    pub launch_type: u8,
    pub carveout_is_requested: u8,
    pub carveout_requested: u8,
    pub padding: u8,
    pub shared_executed: u32,
    pub graph_node: u64,
    pub shared_limit_config: u32,
    pub graph: u32,
    pub access_policy: *const c_void,
    pub channel: u32,
    pub channel_type: u32,
    pub cluster: [u32; 3],
    pub cluster_policy: u32,
    pub local_total_v2: u64,
    pub most_cluster: u32,
    pub most_active_clusters: u32,
    pub is_device_launched: u8,
    pub padding_end: [u8; 7],
}

/// `CUpti_ActivityMemcpy6`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Memcpy {
    pub kind: u32,
    pub copy_kind: u8,
    pub source_kind: u8,
    pub target_kind: u8,
    pub flags: u8,
    pub bytes: u64,
    pub start: u64,
    pub end: u64,
    pub device: u32,
    pub context: u32,
    pub stream: u32,
    pub correlation: u32,
    pub runtime_correlation: u32,
    pub padding: u32,
    pub reserved: *const c_void,
    pub graph_node: u64,
    pub graph: u32,
    pub channel: u32,
    pub channel_type: u32,
    pub is_device_launched: u8,
    pub padding_middle: [u8; 3],
    pub copies: u64,
}

/// `CUpti_ActivityMemset4`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Memset {
    pub kind: u32,
    pub value: u32,
    pub bytes: u64,
    pub start: u64,
    pub end: u64,
    pub device: u32,
    pub context: u32,
    pub stream: u32,
    pub correlation: u32,
    pub flags: u16,
    pub memory_kind: u16,
    pub padding: u32,
    pub reserved: *const c_void,
    pub graph_node: u64,
    pub graph: u32,
    pub channel: u32,
    pub channel_type: u32,
    pub is_device_launched: u8,
    pub padding_end: [u8; 3],
}

/// `CUpti_ActivityAPI`, kinds [`DRIVER`](crate::kind::DRIVER) and [`RUNTIME`](crate::kind::RUNTIME).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Api {
    pub kind: u32,
    pub function: u32,
    pub start: u64,
    pub end: u64,
    pub process: u32,
    pub thread: u32,
    pub correlation: u32,
    pub answer: u32,
}

/// `CUpti_ActivityExternalCorrelation`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct External {
    pub kind: u32,
    pub external_kind: u32,
    pub external: u64,
    pub correlation: u32,
    pub reserved: u32,
}

/// A record of which all is plain data.
///
/// # Safety
/// The type is `repr(C)`, has no padding bytes, and begins with the kind. Each pointer in it may be NULL.
pub unsafe trait Record: Copy + 'static {
    /// A record in which every field is 0 or NULL.
    #[must_use]
    fn zeroed() -> Self {
        // SAFETY: implementors are numbers and pointers, of which all bits 0 are values.
        unsafe { std::mem::zeroed() }
    }
}

// SAFETY: the sizes below say that there is no padding, and pointers are only followed by those who set them.
unsafe impl Record for Kernel {}
// SAFETY: as above.
unsafe impl Record for Memcpy {}
// SAFETY: as above.
unsafe impl Record for Memset {}
// SAFETY: as above.
unsafe impl Record for Api {}
// SAFETY: as above.
unsafe impl Record for External {}

/// The bytes that a record of this kind takes; `None` for a kind that is never written.
#[must_use]
pub fn size_of_kind(kind: u32) -> Option<usize> {
    use crate::kind as of;
    Some(match kind {
        of::MEMCPY => size_of::<Memcpy>(),
        of::MEMSET => size_of::<Memset>(),
        of::KERNEL | of::CONCURRENT_KERNEL => size_of::<Kernel>(),
        of::DRIVER | of::RUNTIME => size_of::<Api>(),
        of::EXTERNAL_CORRELATION => size_of::<External>(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn fields_lie_where_nvidias_header_has_them() {
        let sizes =
            [size_of::<Kernel>(), size_of::<Memcpy>(), size_of::<Memset>(), size_of::<Api>(), size_of::<External>()];
        assert_eq!(sizes, [216, 96, 88, 40, 24]);
        let kernel = [
            offset_of!(Kernel, start),
            offset_of!(Kernel, stream),
            offset_of!(Kernel, correlation),
            offset_of!(Kernel, name),
            offset_of!(Kernel, launch_type),
            offset_of!(Kernel, graph_node),
            offset_of!(Kernel, channel),
            offset_of!(Kernel, local_total_v2),
            offset_of!(Kernel, is_device_launched),
        ];
        assert_eq!(kernel, [16, 48, 92, 104, 136, 144, 168, 192, 208]);
        let memcpy = [
            offset_of!(Memcpy, bytes),
            offset_of!(Memcpy, correlation),
            offset_of!(Memcpy, graph_node),
            offset_of!(Memcpy, is_device_launched),
            offset_of!(Memcpy, copies),
        ];
        assert_eq!(memcpy, [8, 44, 64, 84, 88]);
        let memset =
            [offset_of!(Memset, correlation), offset_of!(Memset, memory_kind), offset_of!(Memset, is_device_launched)];
        assert_eq!(memset, [44, 50, 84]);
        assert_eq!([offset_of!(Api, correlation), offset_of!(External, correlation)], [32, 16]);
    }
}
