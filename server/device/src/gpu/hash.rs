//! Hashes of device memory: by a kernel of floe's own on a GPU, by reading it where the device is the CPU.
//! In: a range, a key. Out: a hash for each unit. It changes no memory of the session's.
//! The kernel and its stream are there from the start of every context, before anything of the program's: what is made
//! later lies at the same addresses in every worker, whether it ever hashes or not.

use floe_abi::{CudaError, CudaResult, DevicePtr, Function, Stream, stream_flags};

use super::numbers::size;
use super::{Gpu, PinnedMemory};
use crate::device::{Device, Pinned as _};
use crate::hash::{HASH_KERNEL, HASH_UNIT, HashKey, UNIT_HASH_BYTES, UnitHash, hash_grid, whole_units};
use crate::requests::PageSize;
use crate::{Content, Driver, LaunchRequest, LoadImage};

/// Where the kernel writes: behind everything that a move stages.
const RESULTS: u64 = 0x51ff_c000_0000;
/// Bytes of its results: a granule of memory.
const RESULT_BYTES: u64 = 2 << 20;
/// Addresses that are reserved for them: NVIDIA's driver places few where it likes, whatever is wished (2 MiB on an H100, which
/// honours 32 MiB: docs/facts/h200.md).
const RESULT_ADDRESSES: u64 = 1 << 30;
/// Bytes that one launch hashes.
const LAUNCH: u64 = RESULT_BYTES / UNIT_HASH_BYTES as u64 * HASH_UNIT;
/// Bytes that are read at a time where there is no kernel.
const READ: u64 = 4 << 20;
/// Read and write.
const ACCESS: u32 = 3;

/// What a context has of floe's own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own {
    /// The stream of what the worker does by itself.
    pub(super) stream: Stream,
    /// The kernel; none: the device is the CPU, or it has not loaded.
    kernel: Result<Function, CudaError>,
}

impl Own {
    /// Makes it, in the context that is current.
    pub(super) fn new(driver: &Driver) -> CudaResult<Self> {
        // A program's setting may forbid texts: then memory is read to be hashed, and everything else is as ever.
        let kernel = if driver.is_cpu_device() { Err(CudaError::NOT_SUPPORTED) } else { load(driver) };
        let (least, _) = driver.ctx_get_stream_priority_range()?;
        let stream = driver.stream_create_with_priority(stream_flags::NON_BLOCKING, least)?;
        Ok(Self { stream, kernel })
    }
}

fn load(driver: &Driver) -> CudaResult<Function> {
    let image = LoadImage::single(Content::from(HASH_KERNEL.as_bytes()));
    let module = driver.module_load_data(&image, &[]).result?;
    driver.module_get_function(module, c"floe_hash")
}

/// Memory that hashing needs. It is made once and kept: giving host memory back to a driver waits for everything that the
/// program has issued.
#[derive(Debug)]
pub(super) struct Scratch {
    copied: PinnedMemory,
    /// Whether there is room for a kernel's results.
    has_results: bool,
}

impl Scratch {
    /// Of a GPU where the kernel writes its results, too, at addresses that nobody else has.
    fn of(gpu: &Gpu, own: Own) -> CudaResult<Self> {
        if own.kernel.is_err() {
            return Ok(Self { copied: gpu.pin(size(READ)?, PageSize::Small)?, has_results: false });
        }
        let at = gpu.reserve(RESULT_ADDRESSES, DevicePtr(RESULTS))?;
        if at.0 != RESULTS {
            gpu.free_addresses(at, RESULT_ADDRESSES)?;
            return Err(CudaError::OUT_OF_MEMORY);
        }
        let made = back_results(gpu).and_then(|()| gpu.pin(size(RESULT_BYTES)?, PageSize::Large));
        if made.is_err() {
            unmap_results(gpu);
        }
        Ok(Self { copied: made?, has_results: true })
    }
}

impl Gpu {
    /// Why memory is hashed by reading it here, which is slow, where the GPU should do it.
    #[must_use]
    pub fn lacks_own_kernel(&self) -> Option<CudaError> {
        floe_lock::lock(&self.own).kernel.err().filter(|_| !self.driver.is_cpu_device())
    }
}

/// Gives back what hashing had, where a context ends.
pub(super) fn end_scratch(gpu: &Gpu, scratch: Option<Scratch>) {
    let Some(Scratch { copied, has_results }) = scratch else { return };
    drop(copied);
    if has_results {
        unmap_results(gpu);
    }
}

fn back_results(gpu: &Gpu) -> CudaResult<()> {
    let memory = gpu.create_memory(RESULT_BYTES)?;
    let mapped = gpu.map(DevicePtr(RESULTS), RESULT_BYTES, 0, memory);
    // The mapping keeps it.
    gpu.driver.mem_release(memory)?;
    mapped?;
    gpu.set_access(DevicePtr(RESULTS), RESULT_BYTES, ACCESS)
}

fn unmap_results(gpu: &Gpu) {
    // Where nothing was mapped, the driver says so.
    let _ = gpu.unmap(DevicePtr(RESULTS), RESULT_BYTES);
    let _ = gpu.free_addresses(DevicePtr(RESULTS), RESULT_ADDRESSES);
}

/// The hashes of a range that is mapped.
pub(super) fn hash(gpu: &Gpu, at: DevicePtr, bytes: u64, key: HashKey) -> CudaResult<Vec<UnitHash>> {
    whole_units(bytes)?;
    gpu.reach.demand(gpu.driver, at, bytes)?;
    // In this order: while it is held no other context begins.
    let mut scratch = floe_lock::lock(&gpu.scratch);
    let own = *floe_lock::lock(&gpu.own);
    let copied = match &mut *scratch {
        Some(scratch) => &scratch.copied,
        none => &none.insert(Scratch::of(gpu, own)?).copied,
    };
    match own.kernel {
        Ok(kernel) => by_kernel(gpu, copied, (own.stream, kernel), (at, bytes), key),
        Err(_) => read(gpu, copied, own.stream, (at, bytes), key),
    }
}

/// Reads the range and hashes what comes.
fn read(
    gpu: &Gpu,
    memory: &PinnedMemory,
    stream: Stream,
    (at, bytes): (DevicePtr, u64),
    key: HashKey,
) -> CudaResult<Vec<UnitHash>> {
    let mut hashes = Vec::new();
    for start in (0..bytes).step_by(size(READ)?) {
        let count = size((bytes - start).min(READ))?;
        memory.download(0, DevicePtr(at.0 + start), count, stream)?;
        gpu.driver.stream_synchronize(stream)?;
        memory.lend(0, count, &mut |read| hashes.extend(key.hashes(read)));
    }
    Ok(hashes)
}

/// Has the kernel hash the range, so much at a time as there is room for results.
fn by_kernel(
    gpu: &Gpu,
    copied: &PinnedMemory,
    (stream, function): (Stream, Function),
    (at, bytes): (DevicePtr, u64),
    key: HashKey,
) -> CudaResult<Vec<UnitHash>> {
    let mut hashes = Vec::with_capacity(size(bytes / HASH_UNIT)?);
    for start in (0..bytes).step_by(size(LAUNCH)?) {
        let units = whole_units((bytes - start).min(LAUNCH))?;
        let (grid, block, parameters) = hash_grid(at.0 + start, units, RESULTS, key)?;
        gpu.driver.launch_kernel(&LaunchRequest {
            function,
            grid,
            block,
            shared_bytes: 0,
            stream,
            attributes: &[],
            parameters: &parameters,
        })?;
        let count = size(units)? * UNIT_HASH_BYTES;
        copied.download(0, DevicePtr(RESULTS), count, stream)?;
        gpu.driver.stream_synchronize(stream)?;
        copied.lend(0, count, &mut |read| hashes.extend_from_slice(read.as_chunks().0));
    }
    Ok(hashes)
}
