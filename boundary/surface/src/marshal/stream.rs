//! Streams: capture questions in their historical forms, callbacks, and green contexts, which no stream here is of.
//! C arguments come in; what a stream is doing is the implementation's to know.

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
        // SAFETY: the program's variable.
        unsafe { c::put(green, GreenContext::NULL) };
        Ok(())
    }

    /// `cuStreamGetCaptureInfo` of CUDA 10.1.
    fn cuStreamGetCaptureInfo(driver, default_stream: Stream, stream: Stream, status: *mut u32, id: *mut u64) {
        c::present(status)?;
        let info = driver.stream_get_capture_info(stream.or(default_stream))?;
        // SAFETY: NULL or the program's variables.
        unsafe {
            c::put(status, info.status);
            c::put(id, info.id);
        }
        Ok(())
    }

    /// `cuStreamGetCaptureInfo` of CUDA 11.3.
    fn cuStreamGetCaptureInfo_v2(
        driver, default_stream: Stream, stream: Stream, status: *mut u32, id: *mut u64, graph: *mut Graph,
        dependencies: *mut u64, dependency_count: *mut usize,
    ) {
        // SAFETY: as the program passed it.
        unsafe {
            cuStreamGetCaptureInfo_v3(
                driver, default_stream, stream, status, id, graph, dependencies, std::ptr::null_mut(), dependency_count,
            )
        }
    }

    /// `cuStreamGetCaptureInfo` of CUDA 12.3.
    fn cuStreamGetCaptureInfo_v3(
        driver, default_stream: Stream, stream: Stream, status: *mut u32, id: *mut u64, graph: *mut Graph,
        dependencies: *mut u64, edges: *mut u64, dependency_count: *mut usize,
    ) {
        c::present(status)?;
        let info = driver.stream_get_capture_info(stream.or(default_stream))?;
        // SAFETY: NULL or the program's variables.
        unsafe {
            c::put(status, info.status);
            c::put(id, info.id);
            c::put(graph, info.graph);
            c::put(dependencies, 0);
            c::put(edges, 0);
            c::put(dependency_count, 0);
        }
        Ok(())
    }

    /// `cuThreadExchangeStreamCaptureMode`.
    fn cuThreadExchangeStreamCaptureMode(driver, mode: *mut u32) {
        // SAFETY: the program's variable.
        let wanted = *unsafe { c::reference(mode.cast_const()) }?;
        if wanted > capture_mode::RELAXED {
            return Err(CudaError::INVALID_VALUE);
        }
        let before = driver.thread_exchange_stream_capture_mode(wanted)?;
        // SAFETY: the program's variable.
        unsafe { c::put(mode, before) };
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
