//! Launches: the three forms of a kernel launch become one method, host functions become values that can be called
//! later. C arguments come in; geometry is checked by the implementation, which knows the device.

use crate::arguments::attributes::check_attributes;
use crate::arguments::launch::KernelArguments;
use crate::marshal::marshallers;
use crate::prelude::*;

/// No launch has more attributes than there are kinds; a longer list is an error.
const MOST_ATTRIBUTES: u32 = 64;

marshallers! {
    /// `cuLaunchKernel`.
    fn cuLaunchKernel(
        driver, default_stream: Stream, function: Function, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32,
        block_y: u32, block_z: u32, shared_bytes: u32, stream: Stream, parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) {
        driver.launch_kernel(&Launch {
            function,
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            shared_bytes,
            stream: stream.or(default_stream),
            cooperative: false,
            attributes: &[],
            // SAFETY: as the program passed it.
            arguments: unsafe { KernelArguments::new(parameters, extra) }?,
        })
    }

    /// `cuLaunchCooperativeKernel`.
    fn cuLaunchCooperativeKernel(
        driver, default_stream: Stream, function: Function, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32,
        block_y: u32, block_z: u32, shared_bytes: u32, stream: Stream, parameters: *mut *mut c_void,
    ) {
        let cooperative = LaunchAttribute {
            id: launch_attribute::COOPERATIVE,
            value: LaunchAttributeValue::from_u32(1),
            ..LaunchAttribute::default()
        };
        driver.launch_kernel(&Launch {
            function,
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            shared_bytes,
            stream: stream.or(default_stream),
            cooperative: true,
            attributes: &[cooperative],
            // SAFETY: as the program passed it.
            arguments: unsafe { KernelArguments::new(parameters, std::ptr::null_mut()) }?,
        })
    }

    /// `cuLaunchKernelEx`.
    fn cuLaunchKernelEx(
        driver, default_stream: Stream, config: *const LaunchConfig, function: Function,
        parameters: *mut *mut c_void, extra: *mut *mut c_void,
    ) {
        // SAFETY: as the program passed them.
        let launch = unsafe { described(config, function, default_stream, KernelArguments::new(parameters, extra)?) }?;
        driver.launch_kernel(&launch)
    }

    /// `cuLaunchHostFunc`.
    fn cuLaunchHostFunc(
        driver, default_stream: Stream, stream: Stream, function: *const c_void, user: *mut c_void,
    ) {
        if function.is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        // SAFETY: the program passed a function of this type where C declares one, to be called with `user`.
        let function = unsafe { HostFunction::new(std::mem::transmute::<*const c_void, unsafe extern "C" fn(*mut c_void)>(function), user) };
        driver.launch_host_func(stream.or(default_stream), function)
    }
}

/// The launch a configuration describes.
///
/// # Safety
/// `config` is NULL or the program's struct, its attributes an array of the count beside it.
pub(super) unsafe fn described<'a>(
    config: *const LaunchConfig,
    function: Function,
    default_stream: Stream,
    arguments: KernelArguments,
) -> CudaResult<Launch<'a>> {
    // SAFETY: our caller vouches for it.
    let config = unsafe { c::reference(config) }?;
    if config.attribute_count > MOST_ATTRIBUTES {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: the struct's array with the count beside it.
    let attributes = unsafe { c::slice(config.attributes as *const LaunchAttribute, config.attribute_count as usize) }?;
    check_attributes(attributes)?;
    let launch = Launch {
        function,
        grid: config.grid,
        block: config.block,
        shared_bytes: config.shared_bytes,
        stream: config.stream.or(default_stream),
        cooperative: false,
        attributes: &[],
        arguments,
    };
    Ok(launch.with_attributes(attributes))
}
