//! Structs of a launch, laid out as the C header lays them out. An attribute's value is 64 bytes whose meaning its
//! number decides; the accessors read the shapes that occur. Nothing here checks a launch against a device.

use crate::handles::Stream;
use crate::memory::same_layout;

/// `CU_LAUNCH_PARAM_END`: ends the `extra` list of a launch.
pub const LAUNCH_PARAM_END: u64 = 0;
/// `CU_LAUNCH_PARAM_BUFFER_POINTER`: the next word is the address of all parameters.
pub const LAUNCH_PARAM_BUFFER_POINTER: u64 = 1;
/// `CU_LAUNCH_PARAM_BUFFER_SIZE`: the next word is the address of their size.
pub const LAUNCH_PARAM_BUFFER_SIZE: u64 = 2;

/// `CUlaunchAttributeValue`: 64 bytes, read as the attribute's number says.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct LaunchAttributeValue {
    /// The bytes as eight little-endian words.
    pub words: [u64; 8],
}

impl LaunchAttributeValue {
    /// A value that holds one `int`.
    pub const fn from_u32(value: u32) -> Self {
        Self { words: [value as u64, 0, 0, 0, 0, 0, 0, 0] }
    }

    /// The value's first `int`.
    #[allow(clippy::cast_possible_truncation, reason = "the low half is what is meant")]
    pub const fn as_u32(&self) -> u32 {
        self.words[0] as u32
    }

    /// The flags behind an event, as events of launches have them.
    #[allow(clippy::cast_possible_truncation, reason = "the low half is what is meant")]
    pub const fn as_event_flags(&self) -> u32 {
        self.words[1] as u32
    }

    /// The value as three `unsigned int`, as cluster dimensions are.
    #[allow(clippy::cast_possible_truncation, reason = "the halves are what is meant")]
    pub const fn as_dimensions(&self) -> [u32; 3] {
        [self.words[0] as u32, (self.words[0] >> 32) as u32, self.words[1] as u32]
    }
}

/// `CUlaunchAttribute`: one attribute of a launch.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct LaunchAttribute {
    /// One of [`crate::launch_attribute`].
    pub id: u32,
    /// Zero.
    pub padding: [u8; 4],
    /// The value.
    pub value: LaunchAttributeValue,
}

/// `CUlaunchConfig`: the arguments of `cuLaunchKernelEx` beside function and parameters.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaunchConfig {
    /// Blocks per axis.
    pub grid: [u32; 3],
    /// Threads per axis.
    pub block: [u32; 3],
    /// Dynamic shared memory, bytes per block.
    pub shared_bytes: u32,
    /// The stream that it is queued in.
    pub stream: Stream,
    /// Address of the attributes.
    pub attributes: u64,
    /// Their number.
    pub attribute_count: u32,
}

same_layout!(LaunchAttributeValue, CUlaunchAttributeValue_union, {});
same_layout!(LaunchAttribute, CUlaunchAttribute_st, { id: id, value: value });
same_layout!(LaunchConfig, CUlaunchConfig_st, {
    grid: gridDimX, block: blockDimX, shared_bytes: sharedMemBytes, stream: hStream, attributes: attrs,
    attribute_count: numAttrs,
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_dimensions_are_read_from_three_ints() {
        let value = LaunchAttributeValue { words: [2 | (3 << 32), 4, 0, 0, 0, 0, 0, 0] };
        assert_eq!(value.as_dimensions(), [2, 3, 4]);
        assert_eq!(value.as_u32(), 2);
    }
}
