//! Occupancy: how many blocks of a kernel fit a multiprocessor, and how many clusters the device. A question comes in; its
//! answer is asked of the server once for each setting of the kernel's attributes and remembered.

use std::sync::Arc;

use floe_abi::{CudaError, CudaResult, Function, device_attribute};
use floe_surface::{Launch, OccupancyCalls};
use floe_wire::{AvailableShared, Call, ClusterOccupancy, KernelId, MaxActiveBlocks};

use crate::client::Client;
use crate::objects::function::FunctionState;
use crate::vgpu::attributes::Attributes;
use crate::vgpu::occupancy::{BlocksQuestion, ClusterLaunch, ClusterQuestion};
use floe_lock::lock;

/// Flags no occupancy question has, to keep the second kind of question apart in the same memory.
const AVAILABLE_SHARED: u32 = u32::MAX;
/// `ClusterOccupancy.what`: clusters on the device at once.
const MOST_ACTIVE: u32 = 0;
/// `ClusterOccupancy.what`: blocks of the largest cluster.
const LARGEST_SIZE: u32 = 1;

impl FunctionState {
    fn remembered(&self, key: BlocksQuestion, ask: impl FnOnce() -> CudaResult<i64>) -> CudaResult<i64> {
        if let Some(answer) = lock(&self.vgpu.occupancy).blocks.get(&key) {
            return Ok(*answer);
        }
        let answer = ask()?;
        lock(&self.vgpu.occupancy).blocks.insert(key, answer);
        Ok(answer)
    }

    /// The number of blocks of `block` threads with `shared` bytes of dynamic shared memory that fit a multiprocessor.
    fn blocks_per_multiprocessor(&self, block: i32, shared: u64, flags: u32) -> CudaResult<i32> {
        let answer = self.remembered((self.id(), self.settings(), block, shared, flags), || {
            let vgpu = &self.vgpu;
            let question = MaxActiveBlocks { kernel: KernelId(self.id()), block, shared, flags };
            let answer = vgpu.call(&question)?;
            let reply = vgpu.connection.read(MaxActiveBlocks::decode_reply(&answer.body))?;
            Ok(i64::from(reply.blocks))
        })?;
        i32::try_from(answer).map_err(|_| CudaError::INVALID_VALUE)
    }

    /// A cooperative launch's blocks are resident together: more than fit the device are refused at once, as CUDA does.
    pub(crate) fn check_cooperative(&self, grid: [u32; 3], block: [u32; 3], shared: u32) -> CudaResult<()> {
        let count = |sizes: [u32; 3]| sizes.iter().map(|size| u64::from(*size)).product::<u64>();
        let threads = i32::try_from(count(block)).map_err(|_| CudaError::INVALID_VALUE)?;
        let fit = self.blocks_per_multiprocessor(threads, u64::from(shared), 0)?;
        let multiprocessors = self.vgpu.snapshot.attribute(device_attribute::MULTIPROCESSOR_COUNT).unwrap_or(0);
        let resident = i64::from(fit).saturating_mul(i64::from(multiprocessors));
        let fits = u64::try_from(resident).is_ok_and(|resident| count(grid) <= resident);
        if fits { Ok(()) } else { Err(CudaError::COOPERATIVE_LAUNCH_TOO_LARGE) }
    }
}

impl FunctionState {
    /// Whether the device has taken such a launch before.
    pub(crate) fn has_accepted(&self, launch: &ClusterLaunch) -> bool {
        lock(&self.vgpu.occupancy).accepted.contains(launch)
    }

    /// Asks how a launch that was just posted went, by a question that is answered behind it.
    ///
    /// # Errors
    /// The error that the device refused the launch with.
    pub(crate) fn confirm(&self, launch: ClusterLaunch, whole: bool) -> CudaResult<()> {
        let vgpu = &self.vgpu;
        vgpu.call(&MaxActiveBlocks { kernel: KernelId(self.id()), block: 1, shared: 0, flags: 0 })?;
        vgpu.errors.report()?;
        if whole {
            lock(&vgpu.occupancy).accepted.insert(launch);
        }
        Ok(())
    }
}

impl Client {
    fn clusters(&self, what: u32, launch: &Launch<'_>) -> CudaResult<i32> {
        let function = self.function(launch.function)?;
        let vgpu = Arc::clone(&function.vgpu);
        let question = ClusterQuestion {
            what,
            kernel: function.id(),
            settings: function.settings(),
            grid: launch.grid,
            block: launch.block,
            shared: launch.shared_bytes,
            attributes: Attributes::of_launch(launch)?.without_events(),
        };
        if let Some(count) = lock(&vgpu.occupancy).clusters.get(&question) {
            return Ok(*count);
        }
        let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (launch.grid, launch.block);
        let answer = vgpu.call(&ClusterOccupancy {
            what,
            kernel: KernelId(function.id()),
            grid_x,
            grid_y,
            grid_z,
            block_x,
            block_y,
            block_z,
            shared: launch.shared_bytes,
            attributes: question.attributes.on_wire(),
        })?;
        let count = vgpu.connection.read(ClusterOccupancy::decode_reply(&answer.body))?.count;
        lock(&vgpu.occupancy).clusters.insert(question, count);
        Ok(count)
    }
}

impl OccupancyCalls for Client {
    fn occupancy_max_active_clusters(&self, launch: &Launch<'_>) -> CudaResult<i32> {
        self.clusters(MOST_ACTIVE, launch)
    }

    fn occupancy_max_potential_cluster_size(&self, launch: &Launch<'_>) -> CudaResult<i32> {
        self.clusters(LARGEST_SIZE, launch)
    }

    fn occupancy_max_active_blocks_per_multiprocessor(
        &self,
        function: Function,
        block_size: i32,
        shared_bytes: usize,
        flags: u32,
    ) -> CudaResult<i32> {
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
        let wanted = u64::try_from(blocks).map_err(|_| CudaError::INVALID_VALUE)?;
        if wanted == 0 || block_size <= 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let function = self.function(function)?;
        let key = (function.id(), function.settings(), block_size, wanted, AVAILABLE_SHARED);
        let answer = function.remembered(key, || {
            let vgpu = &function.vgpu;
            let answer = vgpu.call(&AvailableShared { kernel: KernelId(function.id()), blocks, block: block_size })?;
            let reply = vgpu.connection.read(AvailableShared::decode_reply(&answer.body))?;
            i64::try_from(reply.bytes).map_err(|_| CudaError::INVALID_VALUE)
        })?;
        usize::try_from(answer).map_err(|_| CudaError::INVALID_VALUE)
    }
}
