//! Structs of the pitched copies, laid out as the C header lays them out. They come in from C by pointer and are turned
//! into typed ends by the surface. Nothing here follows an address they hold.

use crate::handles::Context;
use crate::memory::same_layout;

/// `CUDA_MEMCPY2D`: a rectangle from one place to another.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[allow(missing_docs, reason = "the names are the header's, in words")]
pub struct Memcpy2d {
    pub source_x_bytes: usize,
    pub source_y: usize,
    pub source_memory_type: u32,
    pub source_host: u64,
    pub source_device: u64,
    pub source_array: u64,
    pub source_pitch: usize,
    pub destination_x_bytes: usize,
    pub destination_y: usize,
    pub destination_memory_type: u32,
    pub destination_host: u64,
    pub destination_device: u64,
    pub destination_array: u64,
    pub destination_pitch: usize,
    pub width_bytes: usize,
    pub height: usize,
}

/// `CUDA_MEMCPY3D`: a box from one place to another.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[allow(missing_docs, reason = "the names are the header's, in words")]
pub struct Memcpy3d {
    pub source_x_bytes: usize,
    pub source_y: usize,
    pub source_z: usize,
    pub source_level: usize,
    pub source_memory_type: u32,
    /// Zero. A driver that compares two of these may look at all bytes.
    pub source_padding: u32,
    pub source_host: u64,
    pub source_device: u64,
    pub source_array: u64,
    pub reserved0: u64,
    pub source_pitch: usize,
    pub source_height: usize,
    pub destination_x_bytes: usize,
    pub destination_y: usize,
    pub destination_z: usize,
    pub destination_level: usize,
    pub destination_memory_type: u32,
    /// As `source_padding`.
    pub destination_padding: u32,
    pub destination_host: u64,
    pub destination_device: u64,
    pub destination_array: u64,
    pub reserved1: u64,
    pub destination_pitch: usize,
    pub destination_height: usize,
    pub width_bytes: usize,
    pub height: usize,
    pub depth: usize,
}

/// `CUDA_MEMCPY3D_PEER`: a box between memory of two contexts.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[allow(missing_docs, reason = "the names are the header's, in words")]
pub struct Memcpy3dPeer {
    pub source_x_bytes: usize,
    pub source_y: usize,
    pub source_z: usize,
    pub source_level: usize,
    pub source_memory_type: u32,
    pub source_host: u64,
    pub source_device: u64,
    pub source_array: u64,
    pub source_context: Context,
    pub source_pitch: usize,
    pub source_height: usize,
    pub destination_x_bytes: usize,
    pub destination_y: usize,
    pub destination_z: usize,
    pub destination_level: usize,
    pub destination_memory_type: u32,
    pub destination_host: u64,
    pub destination_device: u64,
    pub destination_array: u64,
    pub destination_context: Context,
    pub destination_pitch: usize,
    pub destination_height: usize,
    pub width_bytes: usize,
    pub height: usize,
    pub depth: usize,
}

impl Memcpy3dPeer {
    /// The same box without its contexts.
    pub fn without_contexts(&self) -> Memcpy3d {
        Memcpy3d {
            source_x_bytes: self.source_x_bytes,
            source_y: self.source_y,
            source_z: self.source_z,
            source_level: self.source_level,
            source_memory_type: self.source_memory_type,
            source_padding: 0,
            source_host: self.source_host,
            source_device: self.source_device,
            source_array: self.source_array,
            reserved0: 0,
            source_pitch: self.source_pitch,
            source_height: self.source_height,
            destination_x_bytes: self.destination_x_bytes,
            destination_y: self.destination_y,
            destination_z: self.destination_z,
            destination_level: self.destination_level,
            destination_memory_type: self.destination_memory_type,
            destination_padding: 0,
            destination_host: self.destination_host,
            destination_device: self.destination_device,
            destination_array: self.destination_array,
            reserved1: 0,
            destination_pitch: self.destination_pitch,
            destination_height: self.destination_height,
            width_bytes: self.width_bytes,
            height: self.height,
            depth: self.depth,
        }
    }
}

same_layout!(Memcpy2d, CUDA_MEMCPY2D_st, {
    source_x_bytes: srcXInBytes, source_y: srcY, source_memory_type: srcMemoryType, source_host: srcHost,
    source_device: srcDevice, source_array: srcArray, source_pitch: srcPitch, destination_x_bytes: dstXInBytes,
    destination_y: dstY, destination_memory_type: dstMemoryType, destination_host: dstHost,
    destination_device: dstDevice, destination_array: dstArray, destination_pitch: dstPitch,
    width_bytes: WidthInBytes, height: Height,
});
same_layout!(Memcpy3d, CUDA_MEMCPY3D_st, {
    source_x_bytes: srcXInBytes, source_y: srcY, source_z: srcZ, source_level: srcLOD,
    source_memory_type: srcMemoryType, source_host: srcHost, source_device: srcDevice, source_array: srcArray,
    source_pitch: srcPitch, source_height: srcHeight, destination_x_bytes: dstXInBytes, destination_y: dstY,
    destination_z: dstZ, destination_level: dstLOD, destination_memory_type: dstMemoryType,
    destination_host: dstHost, destination_device: dstDevice, destination_array: dstArray,
    destination_pitch: dstPitch, destination_height: dstHeight, width_bytes: WidthInBytes, height: Height,
    depth: Depth,
});
same_layout!(Memcpy3dPeer, CUDA_MEMCPY3D_PEER_st, {
    source_x_bytes: srcXInBytes, source_y: srcY, source_z: srcZ, source_level: srcLOD,
    source_memory_type: srcMemoryType, source_host: srcHost, source_device: srcDevice, source_array: srcArray,
    source_context: srcContext, source_pitch: srcPitch, source_height: srcHeight, destination_x_bytes: dstXInBytes,
    destination_y: dstY, destination_z: dstZ, destination_level: dstLOD, destination_memory_type: dstMemoryType,
    destination_host: dstHost, destination_device: dstDevice, destination_array: dstArray,
    destination_context: dstContext, destination_pitch: dstPitch, destination_height: dstHeight,
    width_bytes: WidthInBytes, height: Height, depth: Depth,
});

/// `CUmemcpyAttributes`: what holds for some copies of a batch.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MemcpyAttributes {
    /// When the source is read; one of [`crate::source_access_order`].
    pub source_access_order: u32,
    /// The location of a source without a fixed place.
    pub source_hint: crate::memory::MemLocation,
    /// The location of a destination without a fixed place.
    pub destination_hint: crate::memory::MemLocation,
    /// Wishes that change no result.
    pub flags: u32,
}

crate::memory::same_layout!(MemcpyAttributes, CUmemcpyAttributes_st, {
    source_access_order: srcAccessOrder, source_hint: srcLocHint, destination_hint: dstLocHint, flags: flags,
});

/// `CUmemcpy3DOperand`: one end of a box in a batch. Its two kinds share the fields.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Memcpy3dOperand {
    /// One of [`crate::copy_operand_type`].
    pub kind: u32,
    /// Padding.
    pub padding: u32,
    /// The first byte's address; an array's handle.
    pub place: u64,
    /// Bytes from one row to the next, 0 for rows without a gap; in an array the first element.
    pub row_length: usize,
    /// Rows from one layer to the next, 0 for layers without a gap; in an array the first row.
    pub layer_height: usize,
    /// The location of memory without a fixed place; in an array the first layer.
    pub hint: crate::memory::MemLocation,
}

/// `CUDA_MEMCPY3D_BATCH_OP`: one box of a batch.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Memcpy3dBatchOperation {
    /// Read from here.
    pub source: Memcpy3dOperand,
    /// Written there.
    pub destination: Memcpy3dOperand,
    /// Bytes per row, rows per layer, layers.
    pub extent: [usize; 3],
    /// When the source is read; one of [`crate::source_access_order`].
    pub source_access_order: u32,
    /// Wishes that change no result.
    pub flags: u32,
}

same_layout!(Memcpy3dBatchOperation, CUDA_MEMCPY3D_BATCH_OP_st, {
    source: src, destination: dst, extent: extent, source_access_order: srcAccessOrder, flags: flags,
});

const _: () = {
    use cudarc::driver::sys as raw;
    use std::mem::offset_of;
    type Pointer = raw::CUmemcpy3DOperand_st__bindgen_ty_1__bindgen_ty_1;
    assert!(size_of::<Memcpy3dOperand>() == size_of::<raw::CUmemcpy3DOperand_st>());
    let union = offset_of!(raw::CUmemcpy3DOperand_st, op);
    assert!(offset_of!(Memcpy3dOperand, place) == union + offset_of!(Pointer, ptr));
    assert!(offset_of!(Memcpy3dOperand, row_length) == union + offset_of!(Pointer, rowLength));
    assert!(offset_of!(Memcpy3dOperand, layer_height) == union + offset_of!(Pointer, layerHeight));
    assert!(offset_of!(Memcpy3dOperand, hint) == union + offset_of!(Pointer, locHint));
};
