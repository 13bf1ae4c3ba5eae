//! Structs about devices, laid out as the C header lays them out: what `cuDeviceGetUuid` and `cuDeviceGetProperties`
//! write. Checked against the bindings when this crate compiles. Nothing here asks a device anything.

use crate::memory::same_layout;

/// `CUuuid`: 16 bytes that name a device, also across processes.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, PartialOrd, Ord)]
pub struct Uuid {
    /// The bytes, in memory order.
    pub bytes: [u8; 16],
}

impl std::fmt::Display for Uuid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("GPU-")?;
        for (index, byte) in self.bytes.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// `CUdevprop`: what the deprecated `cuDeviceGetProperties` writes.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DeviceProperties {
    /// Threads per block, at most.
    pub max_threads_per_block: i32,
    /// Block size per axis, at most.
    pub max_threads_dim: [i32; 3],
    /// Grid size per axis, at most.
    pub max_grid_size: [i32; 3],
    /// Shared memory per block, bytes.
    pub shared_memory_per_block: i32,
    /// Constant memory, bytes.
    pub total_constant_memory: i32,
    /// Lanes of a warp.
    pub simd_width: i32,
    /// Pitch of a 2-D copy, at most, bytes.
    pub memory_pitch: i32,
    /// 32-bit registers per block.
    pub registers_per_block: i32,
    /// Clock, kHz.
    pub clock_rate: i32,
    /// Alignment of textures, bytes.
    pub texture_align: i32,
}

same_layout!(Uuid, CUuuid_st, { bytes: bytes });
same_layout!(DeviceProperties, CUdevprop_st, {
    max_threads_per_block: maxThreadsPerBlock, max_grid_size: maxGridSize, texture_align: textureAlign,
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuid_is_printed_as_tools_print_it() {
        let uuid = Uuid { bytes: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] };
        assert_eq!(uuid.to_string(), "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
    }
}
