//! Pitched copies: four C structs' worth of forms become one box. C's structs come in, checked boxes go out.

mod batch;
mod box_batch;

pub use batch::*;
pub use box_batch::*;

use super::marshallers;
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
}
