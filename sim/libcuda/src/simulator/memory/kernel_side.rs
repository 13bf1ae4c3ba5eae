//! Services of the host to a context's kernels: printf's buffer, the heap of device `malloc`, the stack's limit.
//! Limits of the program come in, the machine's services go out, made at the first launch and kept.
//! The heap outlives changes of the other limits, since kernels hold addresses in it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use floe_abi::{CudaError, CudaResult, limit as ask};
use floe_machine::{Conditions, Heap, Memory, Services, Texture, Views};

use super::device_memory::KernelHeap;
use crate::simulator::device::CpuDevice;
use crate::simulator::device::limits;
use crate::simulator::executor::output::Output;
use floe_lock::lock;

const DEFAULT_STACK: u64 = 1 << 10;
/// As measured on an H200, where it is also never less than the next.
const DEFAULT_OUTPUT: u64 = 8_650_752;
const MIN_OUTPUT: u64 = 512 << 10;
const DEFAULT_HEAP: u64 = 8 << 20;
/// What an H200 makes of less, zero included.
const MIN_HEAP: u64 = 4 << 20;
/// CUDA's own bound per thread.
const MAX_STACK: u64 = 512 << 10;
/// Most a program can ask for output or heap.
const MAX_BUFFER: u64 = 64 << 30;

struct KernelSideState {
    stack: u64,
    output_limit: u64,
    heap_limit: u64,
    services: Option<Arc<Services>>,
    references: Arc<HashMap<u64, Arc<Texture>>>,
    heap: Option<(Arc<Heap>, KernelHeap)>,
}

/// One context's kernels, as the host serves them.
pub(crate) struct KernelSide {
    pub(crate) output: Arc<Output>,
    pub(crate) conditions: Arc<Conditions>,
    views: Arc<Views>,
    state: Mutex<KernelSideState>,
}

impl KernelSide {
    /// With CUDA's default limits, and the process's textures.
    pub(crate) fn new(views: Arc<Views>) -> Self {
        let state = KernelSideState {
            stack: DEFAULT_STACK,
            output_limit: DEFAULT_OUTPUT,
            heap_limit: DEFAULT_HEAP,
            services: None,
            references: Arc::default(),
            heap: None,
        };
        let limit = usize::try_from(DEFAULT_OUTPUT).unwrap_or(usize::MAX);
        Self { output: Arc::new(Output::new(limit)), conditions: Arc::default(), views, state: Mutex::new(state) }
    }

    /// The services of kernels that are launched now.
    pub(crate) fn services(&self, device: &CpuDevice, memory: &Arc<Memory>) -> Arc<Services> {
        let mut state = lock(&self.state);
        if let Some(services) = &state.services {
            return Arc::clone(services);
        }
        if state.heap.is_none() {
            let mapped = device.memory.map_kernel_heap(state.heap_limit);
            state.heap = mapped.map(|mapped| (Arc::new(Heap::new(mapped.address, state.heap_limit)), mapped));
        }
        let output = Arc::clone(&self.output);
        let services = Arc::new(Services {
            printf: Box::new(move |bytes| output.push(bytes)),
            assertion: Box::new(crate::simulator::executor::output::write_error),
            views: Arc::clone(&self.views),
            references: Arc::clone(&state.references),
            conditions: Arc::clone(&self.conditions),
            heap: state.heap.as_ref().map(|(heap, _)| Arc::clone(heap)),
            multiprocessors: device.identity.multiprocessors(),
            stack_limit: u32::try_from(state.stack).unwrap_or(u32::MAX),
            ..Services::new(Arc::clone(memory))
        });
        state.services = Some(Arc::clone(&services));
        services
    }

    /// Kernels that are launched from now on read this by the texture reference at an address, or 0.
    pub(crate) fn bind_reference(&self, address: u64, texture: Option<Texture>) {
        let mut state = lock(&self.state);
        let references = Arc::make_mut(&mut state.references);
        match texture {
            Some(texture) => drop(references.insert(address, Arc::new(texture))),
            None => drop(references.remove(&address)),
        }
        // Kernels that were launched before have theirs.
        state.services = None;
    }

    /// The context ends: nothing of its runs any more.
    pub(crate) fn close(&self, device: &CpuDevice) {
        let mut state = lock(&self.state);
        state.services = None;
        if let Some((_, mapped)) = state.heap.take() {
            device.memory.unmap_kernel_heap(&mapped);
        }
    }

    /// # Errors
    /// UNSUPPORTED_LIMIT for limits this device has not, INVALID_VALUE for numbers that are no limit.
    pub(crate) fn limit(&self, limit: u32) -> CudaResult<u64> {
        let state = lock(&self.state);
        match limit {
            ask::STACK_SIZE => Ok(state.stack),
            ask::PRINTF_FIFO_SIZE => Ok(state.output_limit),
            ask::MALLOC_HEAP_SIZE => Ok(state.heap_limit),
            ask::MAX_L2_FETCH_GRANULARITY => Ok(64),
            ask::PERSISTING_L2_CACHE_SIZE | ask::CIG_ENABLED => Ok(0),
            ask::SHMEM_SIZE => Ok(limits::SHARED_PER_BLOCK_OPT_IN.into()),
            limit if limit < ask::MAX => Err(CudaError::UNSUPPORTED_LIMIT),
            _ => Err(CudaError::INVALID_VALUE),
        }
    }

    /// # Errors
    /// As `limit`, and INVALID_VALUE for a value out of range, or a heap that kernels may use already.
    pub(crate) fn set_limit(&self, limit: u32, value: u64) -> CudaResult<()> {
        let mut state = lock(&self.state);
        match limit {
            ask::STACK_SIZE if value <= MAX_STACK => {
                // A multiple of 16, as on a GPU; kernels launched from now on get it.
                state.stack = value.next_multiple_of(16);
                state.services = None;
                Ok(())
            }
            ask::PRINTF_FIFO_SIZE if value <= MAX_BUFFER => {
                state.output_limit = value.max(MIN_OUTPUT);
                self.output.set_limit(usize::try_from(state.output_limit).unwrap_or(usize::MAX));
                Ok(())
            }
            // CUDA too allows it only before the first kernel.
            ask::MALLOC_HEAP_SIZE if value <= MAX_BUFFER && state.heap.is_none() => {
                state.heap_limit = value.max(MIN_HEAP);
                Ok(())
            }
            ask::STACK_SIZE | ask::PRINTF_FIFO_SIZE | ask::MALLOC_HEAP_SIZE => Err(CudaError::INVALID_VALUE),
            // Hints.
            ask::MAX_L2_FETCH_GRANULARITY | ask::PERSISTING_L2_CACHE_SIZE => Ok(()),
            limit if limit < ask::MAX => Err(CudaError::UNSUPPORTED_LIMIT),
            _ => Err(CudaError::INVALID_VALUE),
        }
    }
}
