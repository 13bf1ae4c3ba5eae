//! Textures and surfaces: what kernels read through one, and how. Descriptors as the C header lays them out come in and go
//! out; unions are fields laid over each other. Nothing here follows a handle or an address they hold.

use crate::memory::same_layout;

/// `CUDA_RESOURCE_DESC`: what is read. Which fields count depends on the kind.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ResourceDescriptor {
    /// One of [`crate::resource_type`].
    pub kind: u32,
    /// Padding.
    pub padding: u32,
    /// The array's handle, or the first byte's address.
    pub place: u64,
    /// One of [`crate::array_format`], of memory.
    pub format: u32,
    /// Channels of an element of memory.
    pub channels: u32,
    /// Bytes of linear memory; elements of a row of pitched memory.
    pub extent: usize,
    /// Rows of pitched memory.
    pub height: usize,
    /// Bytes from one row of pitched memory to the next.
    pub pitch: usize,
    /// Room for kinds to come.
    pub reserved: [u64; 11],
    /// None are known.
    pub flags: u32,
    /// Padding.
    pub padding_behind: u32,
}

/// `CUDA_TEXTURE_DESC`: how a texture is read.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct TextureDescriptor {
    /// One of [`crate::address_mode`] for each axis.
    pub address_modes: [u32; 3],
    /// One of [`crate::filter_mode`].
    pub filter_mode: u32,
    /// Any of [`crate::texture_flags`].
    pub flags: u32,
    /// The most samples along the longer axis of a footprint.
    pub max_anisotropy: u32,
    /// One of [`crate::filter_mode`], between levels.
    pub level_filter_mode: u32,
    /// Added to every level.
    pub level_bias: f32,
    /// The lowest level read.
    pub least_level: f32,
    /// The highest level read.
    pub most_level: f32,
    /// The colour read outside, with that address mode.
    pub border: [f32; 4],
    /// Room for what is to come.
    pub reserved: [i32; 12],
}

/// `CUDA_RESOURCE_VIEW_DESC`: which part of an array is read, and as what.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[allow(missing_docs, reason = "the names are the header's, in words")]
pub struct ResourceViewDescriptor {
    pub format: u32,
    pub width: usize,
    pub height: usize,
    pub depth: usize,
    pub first_level: u32,
    pub last_level: u32,
    pub first_layer: u32,
    pub last_layer: u32,
    pub reserved: [u32; 16],
}

same_layout!(TextureDescriptor, CUDA_TEXTURE_DESC_st, {
    address_modes: addressMode, filter_mode: filterMode, flags: flags, max_anisotropy: maxAnisotropy,
    level_filter_mode: mipmapFilterMode, level_bias: mipmapLevelBias, least_level: minMipmapLevelClamp,
    most_level: maxMipmapLevelClamp, border: borderColor, reserved: reserved,
});
same_layout!(ResourceViewDescriptor, CUDA_RESOURCE_VIEW_DESC_st, {
    format: format, width: width, height: height, depth: depth, first_level: firstMipmapLevel,
    last_level: lastMipmapLevel, first_layer: firstLayer, last_layer: lastLayer, reserved: reserved,
});
same_layout!(ResourceDescriptor, CUDA_RESOURCE_DESC_st, { kind: resType, place: res, flags: flags });

const _: () = {
    use cudarc::driver::sys as raw;
    use std::mem::offset_of;
    type Linear = raw::CUDA_RESOURCE_DESC_st__bindgen_ty_1__bindgen_ty_3;
    type Pitched = raw::CUDA_RESOURCE_DESC_st__bindgen_ty_1__bindgen_ty_4;
    let union = offset_of!(raw::CUDA_RESOURCE_DESC_st, res);
    assert!(offset_of!(ResourceDescriptor, place) == union + offset_of!(Linear, devPtr));
    assert!(offset_of!(ResourceDescriptor, format) == union + offset_of!(Linear, format));
    assert!(offset_of!(ResourceDescriptor, channels) == union + offset_of!(Linear, numChannels));
    assert!(offset_of!(ResourceDescriptor, extent) == union + offset_of!(Linear, sizeInBytes));
    assert!(offset_of!(ResourceDescriptor, format) == union + offset_of!(Pitched, format));
    assert!(offset_of!(ResourceDescriptor, channels) == union + offset_of!(Pitched, numChannels));
    assert!(offset_of!(ResourceDescriptor, extent) == union + offset_of!(Pitched, width));
    assert!(offset_of!(ResourceDescriptor, height) == union + offset_of!(Pitched, height));
    assert!(offset_of!(ResourceDescriptor, pitch) == union + offset_of!(Pitched, pitchInBytes));
};
