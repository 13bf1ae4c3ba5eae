//! Pitched copies and those of arrays: C's structs and calls come in, checked boxes go out. All of them become one method.

mod batch;
mod box_batch;

pub use batch::*;
pub use box_batch::*;

use crate::marshal::marshallers;
use crate::prelude::*;

marshallers! {
    /// `cuMemcpy2D`.
    fn cuMemcpy2D_v2(driver, default_stream: Stream, copy: *const Memcpy2d) {
        // SAFETY: the program's struct, whose ends it vouches for.
        let copy = unsafe { CopyBox::from_2d(c::reference(copy)?) }?;
        driver.memcpy_box(default_stream, &copy)
    }

    /// `cuMemcpy2DUnaligned`: pitches are never checked against a device's alignment here, so it is the same.
    fn cuMemcpy2DUnaligned_v2(driver, default_stream: Stream, copy: *const Memcpy2d) {
        // SAFETY: as the program passed it.
        unsafe { cuMemcpy2D_v2(driver, default_stream, copy) }
    }

    /// `cuMemcpy3D`.
    fn cuMemcpy3D_v2(driver, default_stream: Stream, copy: *const Memcpy3d) {
        // SAFETY: the program's struct, whose ends it vouches for.
        let copy = unsafe { CopyBox::from_3d(c::reference(copy)?) }?;
        driver.memcpy_box(default_stream, &copy)
    }

    /// `cuMemcpy2DAsync`.
    fn cuMemcpy2DAsync_v2(driver, default_stream: Stream, copy: *const Memcpy2d, stream: Stream) {
        // SAFETY: the program's struct, whose ends it vouches for.
        let copy = unsafe { CopyBox::from_2d(c::reference(copy)?) }?;
        driver.memcpy_box_async(&copy, stream.or(default_stream))
    }

    /// `cuMemcpy3DAsync`.
    fn cuMemcpy3DAsync_v2(driver, default_stream: Stream, copy: *const Memcpy3d, stream: Stream) {
        // SAFETY: the program's struct, whose ends it vouches for.
        let copy = unsafe { CopyBox::from_3d(c::reference(copy)?) }?;
        driver.memcpy_box_async(&copy, stream.or(default_stream))
    }

    /// `cuMemcpy3DPeer`.
    fn cuMemcpy3DPeer(driver, default_stream: Stream, copy: *const Memcpy3dPeer) {
        // SAFETY: the program's struct, whose ends it vouches for.
        let copy = unsafe { PeerBox::from_3d(c::reference(copy)?) }?;
        driver.memcpy_box_peer(default_stream, &copy)
    }

    /// `cuMemcpy3DPeerAsync`.
    fn cuMemcpy3DPeerAsync(driver, default_stream: Stream, copy: *const Memcpy3dPeer, stream: Stream) {
        // SAFETY: the program's struct, whose ends it vouches for.
        let copy = unsafe { PeerBox::from_3d(c::reference(copy)?) }?;
        driver.memcpy_box_peer_async(&copy, stream.or(default_stream))
    }

    /// `cuMemcpyHtoA`.
    fn cuMemcpyHtoA_v2(
        driver, default_stream: Stream, array: Array, offset: usize, source: *const c_void, bytes: usize,
    ) {
        // SAFETY: the program's memory.
        let source = CopyPlace::Host(unsafe { c::host(source.cast_mut(), bytes) }?);
        driver.memcpy_box(default_stream, &CopyBox::line(in_array(array, offset)?, source, bytes))
    }

    /// `cuMemcpyHtoAAsync`.
    fn cuMemcpyHtoAAsync_v2(
        driver, default_stream: Stream, array: Array, offset: usize, source: *const c_void, bytes: usize,
        stream: Stream,
    ) {
        // SAFETY: the program's memory.
        let source = CopyPlace::Host(unsafe { c::host(source.cast_mut(), bytes) }?);
        let copy = CopyBox::line(in_array(array, offset)?, source, bytes);
        driver.memcpy_box_async(&copy, stream.or(default_stream))
    }

    /// `cuMemcpyAtoH`.
    fn cuMemcpyAtoH_v2(
        driver, default_stream: Stream, destination: *mut c_void, array: Array, offset: usize, bytes: usize,
    ) {
        // SAFETY: the program's memory.
        let destination = CopyPlace::Host(unsafe { c::host(destination, bytes) }?);
        driver.memcpy_box(default_stream, &CopyBox::line(destination, in_array(array, offset)?, bytes))
    }

    /// `cuMemcpyAtoHAsync`.
    fn cuMemcpyAtoHAsync_v2(
        driver, default_stream: Stream, destination: *mut c_void, array: Array, offset: usize, bytes: usize,
        stream: Stream,
    ) {
        // SAFETY: the program's memory.
        let destination = CopyPlace::Host(unsafe { c::host(destination, bytes) }?);
        let copy = CopyBox::line(destination, in_array(array, offset)?, bytes);
        driver.memcpy_box_async(&copy, stream.or(default_stream))
    }

    /// `cuMemcpyDtoA`.
    fn cuMemcpyDtoA_v2(
        driver, default_stream: Stream, array: Array, offset: usize, source: DevicePtr, bytes: usize,
    ) {
        let copy = CopyBox::line(in_array(array, offset)?, on_device(source, bytes)?, bytes);
        driver.memcpy_box(default_stream, &copy)
    }

    /// `cuMemcpyAtoD`.
    fn cuMemcpyAtoD_v2(
        driver, default_stream: Stream, destination: DevicePtr, array: Array, offset: usize, bytes: usize,
    ) {
        let copy = CopyBox::line(on_device(destination, bytes)?, in_array(array, offset)?, bytes);
        driver.memcpy_box(default_stream, &copy)
    }

    /// `cuMemcpyAtoA`.
    fn cuMemcpyAtoA_v2(
        driver, default_stream: Stream, destination: Array, destination_offset: usize, source: Array,
        source_offset: usize, bytes: usize,
    ) {
        let (to, from) = (in_array(destination, destination_offset)?, in_array(source, source_offset)?);
        driver.memcpy_box(default_stream, &CopyBox::line(to, from, bytes))
    }
}

fn in_array(array: Array, offset: usize) -> CudaResult<CopyPlace> {
    if array.is_null() { Err(CudaError::INVALID_VALUE) } else { Ok(CopyPlace::Array(array, [offset, 0, 0])) }
}

fn on_device(at: DevicePtr, bytes: usize) -> CudaResult<CopyPlace> {
    let ends = at.offset(bytes as u64).is_some();
    if ends && (bytes == 0 || !at.is_null()) { Ok(CopyPlace::Device(at, bytes)) } else { Err(CudaError::INVALID_VALUE) }
}
