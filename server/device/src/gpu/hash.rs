//! Hashes of device memory: by a kernel of floe's own on a GPU, by reading it where the device is the CPU.
//! In: a range, a key. Out: a hash for each unit. It changes no memory of the session's.
//! The kernel and its stream are there from the start of every context, before anything of the program's: what is made
//! later lies at the same addresses in every worker, whether it ever hashes or not.

use floe_abi::{CudaError, CudaResult, DevicePtr, Function, Stream, stream_flags};

use super::numbers::size;
use super::{Gpu, PinnedMemory};
use crate::device::{Device, Pinned as _};
use crate::hash::{HASH_KERNEL, HASH_UNIT, HashKey, UnitHash, hash_grid, whole_units};
use crate::requests::PageSize;
use crate::{Content, Driver, LaunchRequest, LoadImage};

/// Where the kernel writes: behind everything that a move stages.
const RESULTS: u64 = 0x51ff_c000_0000;
/// Bytes of its results: a granule of memory.
const RESULT_BYTES: u64 = 2 << 20;
/// Bytes that one launch hashes.
const LAUNCH: u64 = RESULT_BYTES / UnitHash::BYTES as u64 * HASH_UNIT;
/// Bytes that are read at a time where there is no kernel.
const READ: u64 = 4 << 20;
/// Read and write.
const ACCESS: u32 = 3;

/// What a context has of floe's own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own {
    /// The stream of what the worker does by itself.
    pub(super) stream: Stream,
    /// The kernel; `None`: the device is the CPU.
    kernel: Option<Function>,
}

impl Own {
    /// Makes it, in the context that is current.
    pub(super) fn new(driver: &Driver) -> CudaResult<Self> {
        let kernel = if driver.is_cpu_device() { None } else { Some(load(driver)?) };
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

/// The hashes of a range that is mapped.
pub(super) fn hash(gpu: &Gpu, own: Own, at: DevicePtr, bytes: u64, key: HashKey) -> CudaResult<Vec<UnitHash>> {
    whole_units(bytes)?;
    gpu.reach.demand(gpu.driver, at, bytes)?;
    match own.kernel {
        Some(kernel) => Results::of(gpu)?.all(own.stream, kernel, (at, bytes), key),
        None => read(gpu, own.stream, (at, bytes), key),
    }
}

/// Reads the range and hashes what comes.
fn read(gpu: &Gpu, stream: Stream, (at, bytes): (DevicePtr, u64), key: HashKey) -> CudaResult<Vec<UnitHash>> {
    let room = size(READ.min(bytes.max(HASH_UNIT)))?;
    let (memory, mut hashes) = (gpu.pin(room, PageSize::Small)?, Vec::new());
    for start in (0..bytes).step_by(room) {
        let count = size((bytes - start).min(READ))?;
        memory.download(0, DevicePtr(at.0 + start), count, stream)?;
        gpu.driver.stream_synchronize(stream)?;
        memory.lend(0, count, &mut |read| hashes.extend(key.hashes(read)));
    }
    Ok(hashes)
}

/// Memory for the results of a launch, at addresses that nobody else has.
struct Results<'a> {
    gpu: &'a Gpu,
    copied: PinnedMemory,
}

impl<'a> Results<'a> {
    fn of(gpu: &'a Gpu) -> CudaResult<Self> {
        let copied = gpu.pin(size(RESULT_BYTES)?, PageSize::Large)?;
        let at = gpu.reserve(RESULT_BYTES, DevicePtr(RESULTS))?;
        let results = Self { gpu, copied };
        if at.0 != RESULTS {
            gpu.free_addresses(at, RESULT_BYTES)?;
            return Err(CudaError::OUT_OF_MEMORY);
        }
        let memory = gpu.create_memory(RESULT_BYTES)?;
        let mapped = gpu.map(at, RESULT_BYTES, 0, memory);
        // The mapping keeps it.
        gpu.driver.mem_release(memory)?;
        mapped?;
        gpu.set_access(at, RESULT_BYTES, ACCESS)?;
        Ok(results)
    }

    fn all(
        &self,
        stream: Stream,
        kernel: Function,
        (at, bytes): (DevicePtr, u64),
        key: HashKey,
    ) -> CudaResult<Vec<UnitHash>> {
        let mut hashes = Vec::with_capacity(size(bytes / HASH_UNIT)?);
        for start in (0..bytes).step_by(size(LAUNCH)?) {
            let units = whole_units((bytes - start).min(LAUNCH))?;
            let (grid, block, parameters) = hash_grid(at.0 + start, units, RESULTS, key)?;
            self.gpu.driver.launch_kernel(&LaunchRequest {
                function: kernel,
                grid,
                block,
                shared_bytes: 0,
                stream,
                attributes: &[],
                parameters: &parameters,
            })?;
            let count = size(units)? * UnitHash::BYTES;
            self.copied.download(0, DevicePtr(RESULTS), count, stream)?;
            self.gpu.driver.stream_synchronize(stream)?;
            self.copied.lend(0, count, &mut |read| hashes.extend(of_bytes(read)));
        }
        Ok(hashes)
    }
}

fn of_bytes(bytes: &[u8]) -> impl Iterator<Item = UnitHash> {
    bytes.chunks_exact(UnitHash::BYTES).filter_map(|hash| hash.try_into().ok()).map(UnitHash::of_bytes)
}

impl Drop for Results<'_> {
    fn drop(&mut self) {
        // Where nothing was mapped, the driver says so.
        let _ = self.gpu.unmap(DevicePtr(RESULTS), RESULT_BYTES);
        let _ = self.gpu.free_addresses(DevicePtr(RESULTS), RESULT_BYTES);
    }
}
