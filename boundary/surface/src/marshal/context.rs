//! Contexts: forms of creation with parameters nobody can honour, and the calls that may end a context, after which the
//! values kept for it are destroyed. C arguments come in; which context is current stays the implementation's matter.

use super::marshallers;
use crate::context_storage::context_gone;
use crate::prelude::*;

marshallers! {
    /// `cuCtxCreate_v3`: execution affinity is NOT_SUPPORTED, since no device here has it.
    fn cuCtxCreate_v3(driver, context: *mut Context, affinity: *mut c_void, count: i32, flags: u32, device: Device) {
        if !affinity.is_null() && count != 0 {
            return Err(CudaError::UNSUPPORTED_EXEC_AFFINITY);
        }
        // SAFETY: as the program passed it.
        unsafe { crate::generated::context::cuCtxCreate_v2(driver, context, flags, device) }
    }

    /// `cuCtxCreate_v4`: parameters (affinity, graphics sharing) are NOT_SUPPORTED.
    fn cuCtxCreate_v4(driver, context: *mut Context, parameters: *mut c_void, flags: u32, device: Device) {
        if !parameters.is_null() {
            return Err(CudaError::NOT_SUPPORTED);
        }
        // SAFETY: as the program passed it.
        unsafe { crate::generated::context::cuCtxCreate_v2(driver, context, flags, device) }
    }

    /// `cuCtxDestroy`: the values kept for the context go with it.
    fn cuCtxDestroy_v2(driver, context: Context) {
        driver.ctx_destroy(context)?;
        context_gone(context);
        Ok(())
    }

    /// `cuDevicePrimaryCtxRelease`: the last reference takes the values kept for the context along.
    fn cuDevicePrimaryCtxRelease_v2(driver, device: Device) {
        let context = driver.primary_context(device)?;
        driver.device_primary_ctx_release(device)?;
        let (_, active) = driver.device_primary_ctx_get_state(device)?;
        if !active {
            context_gone(context);
        }
        Ok(())
    }

    /// `cuDevicePrimaryCtxReset`: the values kept for the context go with it.
    fn cuDevicePrimaryCtxReset_v2(driver, device: Device) {
        let context = driver.primary_context(device)?;
        driver.device_primary_ctx_reset(device)?;
        context_gone(context);
        Ok(())
    }

    /// `cuCtxGetDevice` of CUDA 13: NULL means the current context.
    fn cuCtxGetDevice_v2(driver, device: *mut Device, context: Context) {
        c::present(device)?;
        let answer = if context.is_null() { driver.ctx_get_device()? } else { driver.ctx_get_device_of(context)? };
        // SAFETY: the program's variable.
        unsafe { c::put(device, answer) };
        Ok(())
    }

    /// `cuCtxSynchronize` of CUDA 13: NULL means the current context.
    fn cuCtxSynchronize_v2(driver, context: Context) {
        if context.is_null() { driver.ctx_synchronize() } else { driver.ctx_synchronize_of(context) }
    }
}
