//! Streams: callbacks, and green contexts, which no stream here is of.
//! C arguments come in; what a stream is doing is the implementation's to know.

mod capture;

pub use capture::*;

use super::marshallers;
use crate::prelude::*;

marshallers! {
    /// `cuStreamGetCtx_v2`.
    fn cuStreamGetCtx_v2(
        driver, default_stream: Stream, stream: Stream, context: *mut Context, green: *mut GreenContext,
    ) {
        let answer = driver.stream_get_ctx(stream.or(default_stream))?;
        // SAFETY: NULL or the program's variables.
        unsafe {
            c::put(context, answer);
            c::put(green, GreenContext::NULL);
        }
        Ok(())
    }

    /// `cuStreamGetGreenCtx`: success and NULL; an error here breaks cuBLAS.
    fn cuStreamGetGreenCtx(driver, default_stream: Stream, stream: Stream, green: *mut GreenContext) {
        c::present(green)?;
        driver.stream_get_ctx(stream.or(default_stream))?;
        // SAFETY: the program's variable.
        unsafe { c::put(green, GreenContext::NULL) };
        Ok(())
    }

    /// `cuStreamAddCallback`: `flags` must be 0.
    fn cuStreamAddCallback(
        driver, default_stream: Stream, stream: Stream, callback: *const c_void, user: *mut c_void, flags: u32,
    ) {
        if callback.is_null() || flags != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        // SAFETY: the program passed a function of this type where C declares one, to be called with `user` and the
        // stream as it was passed.
        let made = unsafe {
            let function =
                std::mem::transmute::<*const c_void, unsafe extern "C" fn(u64, u32, *mut c_void)>(callback);
            StreamCallback::new(function, stream.0, user)
        };
        driver.stream_add_callback(stream.or(default_stream), made)
    }
}
