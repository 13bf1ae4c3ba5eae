//! Constants about arrays, textures and surfaces: the numbers come from the CUDA headers by way of the bindings crate, the
//! names lose their prefix. Values are plain integers, since what C passes in may be a number nobody has named yet.
//! Nothing here decides whether a value is supported.

/// Formats of an element's channel.
pub mod array_format {
    use cudarc::driver::sys::CUarray_format_enum as Raw;
    /// `CU_AD_FORMAT_UNSIGNED_INT8`.
    pub const UNSIGNED_INT8: u32 = Raw::CU_AD_FORMAT_UNSIGNED_INT8 as u32;
    /// `CU_AD_FORMAT_UNSIGNED_INT16`.
    pub const UNSIGNED_INT16: u32 = Raw::CU_AD_FORMAT_UNSIGNED_INT16 as u32;
    /// `CU_AD_FORMAT_UNSIGNED_INT32`.
    pub const UNSIGNED_INT32: u32 = Raw::CU_AD_FORMAT_UNSIGNED_INT32 as u32;
    /// `CU_AD_FORMAT_SIGNED_INT8`.
    pub const SIGNED_INT8: u32 = Raw::CU_AD_FORMAT_SIGNED_INT8 as u32;
    /// `CU_AD_FORMAT_SIGNED_INT16`.
    pub const SIGNED_INT16: u32 = Raw::CU_AD_FORMAT_SIGNED_INT16 as u32;
    /// `CU_AD_FORMAT_SIGNED_INT32`.
    pub const SIGNED_INT32: u32 = Raw::CU_AD_FORMAT_SIGNED_INT32 as u32;
    /// `CU_AD_FORMAT_HALF`.
    pub const HALF: u32 = Raw::CU_AD_FORMAT_HALF as u32;
    /// `CU_AD_FORMAT_FLOAT`.
    pub const FLOAT: u32 = Raw::CU_AD_FORMAT_FLOAT as u32;

    /// Whether CUDA names a format, also of those for video, for compressed blocks and of normalized integers. These have no
    /// names here; from 81 to 94 they are of headers after 13.0.
    pub const fn is_known(format: u32) -> bool {
        matches!(format, 1..=3 | 8..=10 | HALF | FLOAT | 80..=94 | 145..=159 | 161..=169 | 176..=181 | 192..=203)
    }
}

/// Flags of an array.
pub mod array_flags {
    use cudarc::driver::sys as raw;
    /// `CUDA_ARRAY3D_LAYERED`.
    pub const LAYERED: u32 = raw::CUDA_ARRAY3D_LAYERED;
    /// `CUDA_ARRAY3D_SURFACE_LDST`.
    pub const SURFACE_LDST: u32 = raw::CUDA_ARRAY3D_SURFACE_LDST;
    /// `CUDA_ARRAY3D_CUBEMAP`.
    pub const CUBEMAP: u32 = raw::CUDA_ARRAY3D_CUBEMAP;
    /// `CUDA_ARRAY3D_TEXTURE_GATHER`.
    pub const TEXTURE_GATHER: u32 = raw::CUDA_ARRAY3D_TEXTURE_GATHER;
    /// All that there are, up to `CUDA_ARRAY3D_VIDEO_ENCODE_DECODE`.
    pub const KNOWN: u32 = 2 * raw::CUDA_ARRAY3D_VIDEO_ENCODE_DECODE - 1;
}

/// Kinds of memory that a texture or surface reads.
pub mod resource_type {
    use cudarc::driver::sys::CUresourcetype_enum as Raw;
    /// `CU_RESOURCE_TYPE_ARRAY`.
    pub const ARRAY: u32 = Raw::CU_RESOURCE_TYPE_ARRAY as u32;
    /// `CU_RESOURCE_TYPE_MIPMAPPED_ARRAY`.
    pub const MIPMAPPED_ARRAY: u32 = Raw::CU_RESOURCE_TYPE_MIPMAPPED_ARRAY as u32;
    /// `CU_RESOURCE_TYPE_LINEAR`.
    pub const LINEAR: u32 = Raw::CU_RESOURCE_TYPE_LINEAR as u32;
    /// `CU_RESOURCE_TYPE_PITCH2D`.
    pub const PITCH2D: u32 = Raw::CU_RESOURCE_TYPE_PITCH2D as u32;
}

/// Formats in which a texture reads an array's bytes.
pub mod resource_view_format {
    use cudarc::driver::sys::CUresourceViewFormat_enum as Raw;
    /// `CU_RES_VIEW_FORMAT_UNSIGNED_BC7`, the last.
    pub const UNSIGNED_BC7: u32 = Raw::CU_RES_VIEW_FORMAT_UNSIGNED_BC7 as u32;
}

/// Address modes: how a texture answers coordinates outside it.
pub mod address_mode {
    use cudarc::driver::sys::CUaddress_mode_enum as Raw;
    /// `CU_TR_ADDRESS_MODE_WRAP`.
    pub const WRAP: u32 = Raw::CU_TR_ADDRESS_MODE_WRAP as u32;
    /// `CU_TR_ADDRESS_MODE_CLAMP`.
    pub const CLAMP: u32 = Raw::CU_TR_ADDRESS_MODE_CLAMP as u32;
    /// `CU_TR_ADDRESS_MODE_MIRROR`.
    pub const MIRROR: u32 = Raw::CU_TR_ADDRESS_MODE_MIRROR as u32;
    /// `CU_TR_ADDRESS_MODE_BORDER`.
    pub const BORDER: u32 = Raw::CU_TR_ADDRESS_MODE_BORDER as u32;
}

/// Filter modes: how a texture answers between elements.
pub mod filter_mode {
    use cudarc::driver::sys::CUfilter_mode_enum as Raw;
    /// `CU_TR_FILTER_MODE_POINT`.
    pub const POINT: u32 = Raw::CU_TR_FILTER_MODE_POINT as u32;
    /// `CU_TR_FILTER_MODE_LINEAR`.
    pub const LINEAR: u32 = Raw::CU_TR_FILTER_MODE_LINEAR as u32;
}

/// Flags of an array that a texture reference reads.
pub mod texture_array_flags {
    use cudarc::driver::sys as raw;
    /// `CU_TRSA_OVERRIDE_FORMAT`: the array's own format counts, as it always does here.
    pub const OVERRIDE_FORMAT: u32 = raw::CU_TRSA_OVERRIDE_FORMAT;
}

/// Flags of a texture.
pub mod texture_flags {
    use cudarc::driver::sys as raw;
    /// `CU_TRSF_READ_AS_INTEGER`.
    pub const READ_AS_INTEGER: u32 = raw::CU_TRSF_READ_AS_INTEGER;
    /// `CU_TRSF_NORMALIZED_COORDINATES`.
    pub const NORMALIZED_COORDINATES: u32 = raw::CU_TRSF_NORMALIZED_COORDINATES;
    /// `CU_TRSF_SRGB`.
    pub const SRGB: u32 = raw::CU_TRSF_SRGB;
    /// `CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION`.
    pub const DISABLE_TRILINEAR_OPTIMIZATION: u32 = raw::CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION;
    /// `CU_TRSF_SEAMLESS_CUBEMAP`.
    pub const SEAMLESS_CUBEMAP: u32 = raw::CU_TRSF_SEAMLESS_CUBEMAP;
}
