//! Occupancy: a function and a block size come in, blocks per multiprocessor go out, by the documented rule over the
//! limits the device reports. It never looks at how busy the machine is.

use floe_abi::{CudaError, CudaResult, Function, occupancy_flags};
use floe_surface::{Launch, OccupancyCalls};

use super::occupancy_rule;
use crate::simulator::Simulator;
use crate::simulator::code::kernel::need;

impl OccupancyCalls for Simulator {
    fn occupancy_max_active_blocks_per_multiprocessor(
        &self,
        function: Function,
        block_size: i32,
        shared_bytes: usize,
        flags: u32,
    ) -> CudaResult<i32> {
        if flags > occupancy_flags::DISABLE_CACHING_OVERRIDE {
            return Err(CudaError::INVALID_VALUE);
        }
        let threads = u32::try_from(block_size).ok().filter(|threads| *threads > 0).ok_or(CudaError::INVALID_VALUE)?;
        let context = self.working()?;
        let (state, kernel) = self.resolve(function.0, &context)?;
        if shared_bytes as u64 > u64::from(state.dynamic_shared_limit(context.device, &kernel)) {
            return Ok(0);
        }
        let blocks = occupancy_rule::blocks_per_multiprocessor(
            need(&kernel),
            threads,
            shared_bytes as u64,
            state.carveout(context.device),
        );
        i32::try_from(blocks).map_err(|_| CudaError::UNKNOWN)
    }

    fn occupancy_available_dynamic_s_mem_per_block(
        &self,
        function: Function,
        blocks: i32,
        block_size: i32,
    ) -> CudaResult<usize> {
        let context = self.working()?;
        let (state, kernel) = self.resolve(function.0, &context)?;
        let (Ok(blocks), Ok(threads)) = (u32::try_from(blocks), u32::try_from(block_size)) else {
            return Err(CudaError::INVALID_VALUE);
        };
        let most = state.dynamic_shared_limit(context.device, &kernel);
        let bytes = occupancy_rule::dynamic_shared_for(need(&kernel), blocks, threads, most);
        let bytes = bytes.ok_or(CudaError::INVALID_VALUE)?;
        usize::try_from(bytes).map_err(|_| CudaError::UNKNOWN)
    }

    fn occupancy_max_active_clusters(&self, launch: &Launch<'_>) -> CudaResult<i32> {
        let context = self.working()?;
        self.resolve(launch.function.0, &context)?;
        // The device has no clusters, so none is ever active; in a dry run nothing is, which no caller need know.
        Ok(i32::from(self.is_dry_run(context.device)))
    }

    fn occupancy_max_potential_cluster_size(&self, launch: &Launch<'_>) -> CudaResult<i32> {
        let context = self.working()?;
        self.resolve(launch.function.0, &context)?;
        // Each block by itself.
        Ok(1)
    }
}

impl Simulator {
    fn is_dry_run(&self, device: usize) -> bool {
        self.devices.get(device).is_some_and(|device| device.dry_run)
    }

    /// The device has no clusters and says so in its attributes; a dry run takes them like everything else.
    ///
    /// # Errors
    /// NOT_SUPPORTED.
    pub(crate) fn need_clusters(&self, device: usize) -> CudaResult<()> {
        if self.is_dry_run(device) {
            return Ok(());
        }
        crate::simulator::log::warn_once(format_args!("thread block clusters are not supported by the CPU device"));
        Err(CudaError::NOT_SUPPORTED)
    }
}
