//! Pitched copies, as C's structs. They come in filled by the caller and go to the driver as they are. Only the struct
//! says which side is host memory, so the caller vouches for it.

use crate::Driver;
use crate::driver::missing;
use floe_abi::{CudaResult, Memcpy2d, Memcpy3d, Stream};

impl Driver {
    /// Copies a rectangle. `cuMemcpy2D`.
    ///
    /// # Errors
    /// The driver's error; NOT_SUPPORTED where the library lacks the function.
    ///
    /// # Safety
    /// Host sides are valid for the whole rectangle until the copy has completed.
    pub unsafe fn memcpy_2d(&self, copy: &Memcpy2d) -> CudaResult<()> {
        let call = self.calls.cuMemcpy2D_v2.ok_or_else(|| missing("cuMemcpy2D_v2"))?;
        // SAFETY: our caller vouches for the sides; the struct lives through the call.
        unsafe { call(std::ptr::from_ref(copy)) }.into_result()
    }

    /// Queues the copy of a rectangle. `cuMemcpy2DAsync`.
    ///
    /// # Errors
    /// As [`Driver::memcpy_2d`].
    ///
    /// # Safety
    /// As [`Driver::memcpy_2d`].
    pub unsafe fn memcpy_2d_async(&self, copy: &Memcpy2d, stream: Stream) -> CudaResult<()> {
        let call = self.calls.cuMemcpy2DAsync_v2.ok_or_else(|| missing("cuMemcpy2DAsync_v2"))?;
        // SAFETY: our caller vouches for the sides; the struct lives through the call.
        unsafe { call(std::ptr::from_ref(copy), stream) }.into_result()
    }

    /// Copies a box. `cuMemcpy3D`.
    ///
    /// # Errors
    /// As [`Driver::memcpy_2d`].
    ///
    /// # Safety
    /// As [`Driver::memcpy_2d`].
    pub unsafe fn memcpy_3d(&self, copy: &Memcpy3d) -> CudaResult<()> {
        let call = self.calls.cuMemcpy3D_v2.ok_or_else(|| missing("cuMemcpy3D_v2"))?;
        // SAFETY: our caller vouches for the sides; the struct lives through the call.
        unsafe { call(std::ptr::from_ref(copy)) }.into_result()
    }

    /// Queues the copy of a box. `cuMemcpy3DAsync`.
    ///
    /// # Errors
    /// As [`Driver::memcpy_2d`].
    ///
    /// # Safety
    /// As [`Driver::memcpy_2d`].
    pub unsafe fn memcpy_3d_async(&self, copy: &Memcpy3d, stream: Stream) -> CudaResult<()> {
        let call = self.calls.cuMemcpy3DAsync_v2.ok_or_else(|| missing("cuMemcpy3DAsync_v2"))?;
        // SAFETY: our caller vouches for the sides; the struct lives through the call.
        unsafe { call(std::ptr::from_ref(copy), stream) }.into_result()
    }
}
