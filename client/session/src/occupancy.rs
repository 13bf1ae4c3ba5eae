//! Occupancy: how many blocks of a kernel fit a multiprocessor. A question comes in; its answer is asked of the server once
//! and remembered until an attribute of a kernel changes.

use floe_abi::{CudaError, CudaResult, Function, device_attribute};
use floe_surface::OccupancyCalls;
use floe_wire::{AvailableShared, Call, KernelId, MaxActiveBlocks};

use crate::client::Client;
use crate::kernel::FunctionState;
use crate::table::lock;

/// Flags no occupancy question has, to keep the second kind of question apart in the same memory.
const AVAILABLE_SHARED: u32 = u32::MAX;

impl FunctionState {
    fn remembered(&self, key: (u64, i32, u64, u32), ask: impl FnOnce() -> CudaResult<i64>) -> CudaResult<i64> {
        if let Some(answer) = lock(&self.session.occupancy).get(&key) {
            return Ok(*answer);
        }
        let answer = ask()?;
        lock(&self.session.occupancy).insert(key, answer);
        Ok(answer)
    }

    /// How many blocks of `block` threads with `shared` bytes of dynamic shared memory fit a multiprocessor.
    fn blocks_per_multiprocessor(&self, block: i32, shared: u64, flags: u32) -> CudaResult<i32> {
        let answer = self.remembered((self.id(), block, shared, flags), || {
            let session = &self.session;
            let question = MaxActiveBlocks { kernel: KernelId(self.id()), block, shared, flags };
            let answer = session.call(&question)?;
            let reply = session.connection.read(MaxActiveBlocks::decode_reply(&answer.body))?;
            Ok(i64::from(reply.blocks))
        })?;
        i32::try_from(answer).map_err(|_| CudaError::INVALID_VALUE)
    }

    /// A cooperative launch's blocks are resident together: more than fit the device are refused at once, as CUDA does.
    pub(crate) fn check_cooperative(&self, grid: [u32; 3], block: [u32; 3], shared: u32) -> CudaResult<()> {
        let count = |sizes: [u32; 3]| sizes.iter().map(|size| u64::from(*size)).product::<u64>();
        let threads = i32::try_from(count(block)).map_err(|_| CudaError::INVALID_VALUE)?;
        let fit = self.blocks_per_multiprocessor(threads, u64::from(shared), 0)?;
        let multiprocessors = self.session.snapshot.attribute(device_attribute::MULTIPROCESSOR_COUNT).unwrap_or(0);
        let resident = i64::from(fit).saturating_mul(i64::from(multiprocessors));
        let fits = u64::try_from(resident).is_ok_and(|resident| count(grid) <= resident);
        if fits { Ok(()) } else { Err(CudaError::COOPERATIVE_LAUNCH_TOO_LARGE) }
    }
}

impl OccupancyCalls for Client {
    fn occupancy_max_active_blocks_per_multiprocessor(
        &self,
        function: Function,
        block_size: i32,
        shared_bytes: usize,
        flags: u32,
    ) -> CudaResult<i32> {
        let _call = self.enter();
        if block_size <= 0 || flags > 1 {
            return Err(CudaError::INVALID_VALUE);
        }
        let function = self.function(function)?;
        let shared = shared_bytes as u64;
        function.blocks_per_multiprocessor(block_size, shared, flags)
    }

    fn occupancy_available_dynamic_s_mem_per_block(
        &self,
        function: Function,
        blocks: i32,
        block_size: i32,
    ) -> CudaResult<usize> {
        let _call = self.enter();
        let wanted = u64::try_from(blocks).map_err(|_| CudaError::INVALID_VALUE)?;
        if wanted == 0 || block_size <= 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let function = self.function(function)?;
        let key = (function.id(), block_size, wanted, AVAILABLE_SHARED);
        let answer = function.remembered(key, || {
            let session = &function.session;
            let answer =
                session.call(&AvailableShared { kernel: KernelId(function.id()), blocks, block: block_size })?;
            let reply = session.connection.read(AvailableShared::decode_reply(&answer.body))?;
            i64::try_from(reply.bytes).map_err(|_| CudaError::INVALID_VALUE)
        })?;
        usize::try_from(answer).map_err(|_| CudaError::INVALID_VALUE)
    }
}
