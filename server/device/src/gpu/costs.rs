//! What the driver takes by itself of the GPU's memory: limits of the context, and figures that were measured.
//! It keeps nothing.

use floe_abi::{CudaResult, Device, limit};

use super::numbers::wide;
use crate::Driver;
use crate::requests::{Costs, Limits};

/// `CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT` and `…_MAX_THREADS_PER_MULTIPROCESSOR`.
const RESIDENT: [u32; 2] = [16, 39];
/// What an H100's driver takes for a stream: 512 MiB for 936 of them (docs/facts/device-memory.md).
const STREAM_BYTES: u64 = 576 << 10;
/// What it takes for a kernel of an instantiated graph: 44 MiB for 20,000.
const NODE_BYTES: u64 = 2560;
/// What a context takes beside the first: 523 MiB (docs/facts/h200.md).
const CONTEXT_BYTES: u64 = 528 << 20;

/// What contexts, streams, threads and graphs take.
pub(super) fn costs(driver: &Driver, device: Device) -> CudaResult<Costs> {
    let attribute =
        |number| driver.device_get_attribute(number, device).map(|value| u64::from(value.max(0).unsigned_abs()));
    let [processors, threads] = RESIDENT.map(attribute);
    let begins_with = |number| driver.ctx_get_limit(number).map(wide);
    let defaults = Limits {
        stack: begins_with(limit::STACK_SIZE)?,
        printing: begins_with(limit::PRINTF_FIFO_SIZE)?,
        heap: begins_with(limit::MALLOC_HEAP_SIZE)?,
    };
    let resident_threads = processors?.saturating_mul(threads?);
    // The CPU device keeps its streams and graphs in host memory.
    let [stream, node, context] =
        if driver.is_cpu_device() { [0; 3] } else { [STREAM_BYTES, NODE_BYTES, CONTEXT_BYTES] };
    Ok(Costs { resident_threads, stream, node, context, defaults })
}
