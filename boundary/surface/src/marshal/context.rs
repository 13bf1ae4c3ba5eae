//! Contexts. Creations with parameters come in; wishes in them are refused as the driver refuses them. After calls that
//! end a context, the values kept for it are destroyed. C arguments come in; which context is current stays the
//! implementation's matter.

use super::marshallers;
use crate::expansion::say_once;
use crate::export_tables::context_storage::context_gone;
use crate::prelude::*;

marshallers! {
    /// `cuCtxCreate_v3`: an execution affinity is refused as the driver refuses it without MPS.
    fn cuCtxCreate_v3(
        driver, context: *mut Context, affinity: *mut ExecAffinityParam, count: i32, flags: u32, device: Device,
    ) {
        refuse_affinity(affinity, count)?;
        // SAFETY: as the program passed it.
        unsafe { crate::generated::context::cuCtxCreate_v2(driver, context, flags, device) }
    }

    /// `cuCtxCreate_v4`, which is `cuCtxCreate` since CUDA 13: parameters that ask for nothing make a plain context.
    fn cuCtxCreate_v4(driver, context: *mut Context, parameters: *mut ContextCreateParams, flags: u32, device: Device) {
        // SAFETY: the program's struct of this type, or NULL.
        if let Some(parameters) = unsafe { c::optional(parameters) } {
            // SAFETY: the program's struct of this type, or NULL.
            unsafe { c::optional(parameters.cig) }.map_or(Ok(()), refuse_cig)?;
            refuse_affinity(parameters.affinity, parameters.affinity_count)?;
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

/// The driver's answer to an execution affinity where no MPS server partitions the GPU (driver 13.0 on an H100). A
/// count that is not positive asks for none, whatever the pointer.
fn refuse_affinity(affinity: *const ExecAffinityParam, count: i32) -> CudaResult<()> {
    match count {
        ..=0 => Ok(()),
        _ if affinity.is_null() => Err(CudaError::INVALID_VALUE),
        _ => Err(CudaError::UNSUPPORTED_EXEC_AFFINITY),
    }
}

/// The driver's answer on Linux to a context that is to share the GPU with graphics work (driver 13.0 on an H100).
fn refuse_cig(cig: &CigParam) -> CudaResult<()> {
    match cig.kind {
        cig_data::D3D12_COMMAND_QUEUE => {}
        cig_data::NV_BLOB if !cig.data.is_null() => {}
        _ => return Err(CudaError::INVALID_VALUE),
    }
    say_once("cuCtxCreate_v4", || {
        "cuCtxCreate_v4: contexts that share the GPU with graphics work (cigParams) are not supported".to_owned()
    });
    Err(CudaError::NOT_SUPPORTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_affinity_is_asked_for_by_a_positive_count_alone() {
        let one = ExecAffinityParam::default();
        for count in [0, -1] {
            assert_eq!(refuse_affinity(&one, count), Ok(()));
            assert_eq!(refuse_affinity(std::ptr::null(), count), Ok(()));
        }
        assert_eq!(refuse_affinity(std::ptr::null(), 1), Err(CudaError::INVALID_VALUE));
        assert_eq!(refuse_affinity(&one, 1), Err(CudaError::UNSUPPORTED_EXEC_AFFINITY));
    }

    #[test]
    fn impossible_graphics_work_is_invalid_and_possible_is_not_supported() {
        let answer = |kind, data: usize| refuse_cig(&CigParam { kind, data: std::ptr::without_provenance_mut(data) });
        for (kind, data) in [(0, 0), (0, 8), (2, 0), (3, 0), (3, 8)] {
            assert_eq!(answer(kind, data), Err(CudaError::INVALID_VALUE), "{kind} {data}");
        }
        for (kind, data) in [(1, 0), (1, 8), (2, 8)] {
            assert_eq!(answer(kind, data), Err(CudaError::NOT_SUPPORTED), "{kind} {data}");
        }
    }
}
