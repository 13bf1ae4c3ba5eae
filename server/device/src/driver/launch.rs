//! Launches and calls back. Parameters come in as one packed block, which the driver takes without knowing a layout.
//! Work of this process goes in as a closure, which the driver calls when its stream gets there. Geometry is the
//! driver's to judge.

use crate::Driver;
use crate::driver::missing;
use floe_abi::{
    CudaError, CudaResult, Function, LAUNCH_PARAM_BUFFER_POINTER, LAUNCH_PARAM_BUFFER_SIZE, LAUNCH_PARAM_END,
    LaunchAttribute, LaunchConfig, Stream,
};
use std::ffi::c_void;

/// One launch as the worker has it.
#[derive(Debug, Clone, Copy)]
pub struct LaunchRequest<'a> {
    /// What runs; may be a kernel's handle.
    pub function: Function,
    /// Blocks per axis.
    pub grid: [u32; 3],
    /// Threads per axis.
    pub block: [u32; 3],
    /// Dynamic shared memory, bytes per block.
    pub shared_bytes: u32,
    /// Where it is queued.
    pub stream: Stream,
    /// Attributes, handles in them already this driver's.
    pub attributes: &'a [LaunchAttribute],
    /// The parameter block, every parameter at its offset.
    pub parameters: &'a [u8],
}

/// Work for the driver's own thread: it must be short and make no driver call.
pub type HostCall = Box<dyn FnOnce() + Send>;

impl Driver {
    /// Queues a launch. `cuLaunchKernelEx`, or `cuLaunchKernel` where there are no attributes and the library is too old.
    ///
    /// # Errors
    /// The driver's error; NOT_SUPPORTED where the library lacks the function.
    pub fn launch_kernel(&self, request: &LaunchRequest<'_>) -> CudaResult<()> {
        with_parameters(request.parameters, |extra| match self.calls.cuLaunchKernelEx {
            Some(call) => {
                let config = config(request)?;
                // SAFETY: configuration, attributes and parameters live through the call, which copies them.
                unsafe { call(&raw const config, request.function, std::ptr::null_mut(), extra) }.into_result()
            }
            None if request.attributes.is_empty() => self.launch_plain(request, extra),
            None => Err(missing("cuLaunchKernelEx")),
        })
    }

    /// The clusters of such a launch that are on the device at once. `cuOccupancyMaxActiveClusters`.
    ///
    /// # Errors
    /// The driver's error; NOT_SUPPORTED where the library lacks the function.
    pub fn occupancy_max_active_clusters(&self, request: &LaunchRequest<'_>) -> CudaResult<i32> {
        let call = self.calls.cuOccupancyMaxActiveClusters.ok_or_else(|| missing("cuOccupancyMaxActiveClusters"))?;
        let (mut count, config) = (0, config(request)?);
        // SAFETY: configuration and attributes live through the call.
        unsafe { call(&raw mut count, request.function, &raw const config) }.into_result()?;
        Ok(count)
    }

    /// The blocks of the largest cluster of such a launch. `cuOccupancyMaxPotentialClusterSize`.
    ///
    /// # Errors
    /// As [`Driver::occupancy_max_active_clusters`].
    pub fn occupancy_max_potential_cluster_size(&self, request: &LaunchRequest<'_>) -> CudaResult<i32> {
        let call = self
            .calls
            .cuOccupancyMaxPotentialClusterSize
            .ok_or_else(|| missing("cuOccupancyMaxPotentialClusterSize"))?;
        let (mut size, config) = (0, config(request)?);
        // SAFETY: as above.
        unsafe { call(&raw mut size, request.function, &raw const config) }.into_result()?;
        Ok(size)
    }

    fn launch_plain(&self, request: &LaunchRequest<'_>, extra: *mut *mut c_void) -> CudaResult<()> {
        let call = self.calls.cuLaunchKernel.ok_or_else(|| missing("cuLaunchKernel"))?;
        let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (request.grid, request.block);
        // SAFETY: the parameters live through the call, which copies them.
        unsafe {
            call(
                request.function,
                grid_x,
                grid_y,
                grid_z,
                block_x,
                block_y,
                block_z,
                request.shared_bytes,
                request.stream,
                std::ptr::null_mut(),
                extra,
            )
        }
        .into_result()
    }

    /// Queues a call of this process: `work` runs on the driver's thread when all work before it has completed without
    /// error. After an error in the context it may never run. `cuLaunchHostFunc`.
    ///
    /// # Errors
    /// The driver's error; then `work` is dropped unrun. NOT_SUPPORTED where the library lacks the function.
    pub fn launch_host_func(&self, stream: Stream, work: HostCall) -> CudaResult<()> {
        let call = self.calls.cuLaunchHostFunc.ok_or_else(|| missing("cuLaunchHostFunc"))?;
        // Boxed twice, since a pointer to a closure of unknown type is two words and C has room for one.
        let work = Box::into_raw(Box::new(work));
        let function = run as unsafe extern "C" fn(*mut c_void) as *const c_void;
        // SAFETY: `run` takes what is passed here, once.
        let queued = unsafe { call(stream, function, work.cast()) }.into_result();
        if queued.is_err() {
            // SAFETY: the driver refused, so it will never call `run` with it.
            drop(unsafe { Box::from_raw(work) });
        }
        queued
    }
}

/// Calls `act` with the list that names a parameter block, valid until it returns.
pub(crate) fn with_parameters<R>(parameters: &[u8], act: impl FnOnce(*mut *mut c_void) -> R) -> R {
    let mut size = parameters.len();
    let mut extra: [*mut c_void; 5] = [
        key(LAUNCH_PARAM_BUFFER_POINTER),
        parameters.as_ptr().cast_mut().cast(),
        key(LAUNCH_PARAM_BUFFER_SIZE),
        (&raw mut size).cast(),
        key(LAUNCH_PARAM_END),
    ];
    // A kernel without parameters gets no block: drivers refuse one of no bytes.
    act(if size == 0 { std::ptr::null_mut() } else { extra.as_mut_ptr() })
}

/// A number where C's list has pointers.
#[allow(clippy::cast_possible_truncation, reason = "CUDA has no 32-bit hosts any more; the keys are 0, 1 and 2")]
fn key(number: u64) -> *mut c_void {
    std::ptr::without_provenance_mut(number as usize)
}

/// Runs one piece of work. A panic ends here: the driver's frames must not unwind.
unsafe extern "C" fn run(work: *mut c_void) {
    // SAFETY: `launch_host_func` made this box and gave it to the driver, which calls once.
    let work = unsafe { Box::from_raw(work.cast::<HostCall>()) };
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err() {
        eprintln!("floe: work queued on a stream failed; the lines above say where");
    }
}

fn config(request: &LaunchRequest<'_>) -> CudaResult<LaunchConfig> {
    Ok(LaunchConfig {
        grid: request.grid,
        block: request.block,
        shared_bytes: request.shared_bytes,
        stream: request.stream,
        attributes: if request.attributes.is_empty() { 0 } else { request.attributes.as_ptr() as u64 },
        attribute_count: u32::try_from(request.attributes.len()).map_err(|_| CudaError::INVALID_VALUE)?,
    })
}
