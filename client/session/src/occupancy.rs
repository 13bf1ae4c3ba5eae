//! Occupancy: how many blocks of a kernel fit a multiprocessor. A question comes in; its answer is asked of the server once
//! and remembered until an attribute of a kernel changes.

use floe_abi::{CudaError, CudaResult, Function};
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
        let answer = function.remembered((function.id(), block_size, shared, flags), || {
            let session = &function.session;
            let answer =
                session.call(&MaxActiveBlocks { kernel: KernelId(function.id()), block: block_size, shared, flags })?;
            let reply = session.connection.read(MaxActiveBlocks::decode_reply(&answer.body))?;
            Ok(i64::from(reply.blocks))
        })?;
        i32::try_from(answer).map_err(|_| CudaError::INVALID_VALUE)
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
