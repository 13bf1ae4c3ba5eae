//! Occupancy: how many blocks of a kernel fit a multiprocessor, and how many clusters the device. A question comes in; its
//! answer is asked of the server once for each setting of the kernel's attributes and remembered.

use floe_abi::{CudaError, CudaResult, Function, device_attribute};
use floe_surface::{Launch, OccupancyCalls};
use floe_wire::{KernelId, MaxActiveBlocks};

use crate::client::Client;
use crate::objects::function::FunctionState;
use crate::objects::function::fitting;
use crate::vgpu::attributes::Attributes;
use crate::vgpu::occupancy::{Asked, ClusterLaunch, Expected, Moment, Question};
use floe_lock::lock;

/// `ClusterOccupancy.what`: clusters on the device at once.
const MOST_ACTIVE: u32 = 0;
/// `ClusterOccupancy.what`: blocks of the largest cluster.
const LARGEST_SIZE: u32 = 1;

impl FunctionState {
    /// The answer to a question about it as it is set now. An error is not remembered.
    fn fits(&self, question: Question) -> CudaResult<u64> {
        let vgpu = &self.vgpu;
        // Before the settings: another thread may change them.
        let now = lock(&vgpu.occupancy).now();
        self.ask_with_look_up(&question, now)?;
        let asked = Asked { kernel: self.id(), settings: self.settings(), question };
        let expected = {
            let mut occupancy = lock(&vgpu.occupancy);
            if let Some(answer) = occupancy.answer(&asked) {
                return Ok(answer);
            }
            occupancy.take_expected(&asked)
        };
        let arrived = expected.map(|expected| fitting::arrives(vgpu, &asked.question, &expected)).transpose()?;
        let answer = match arrived.flatten() {
            Some(answer) => answer,
            None => {
                self.ask_what_follows(&asked, now)?;
                fitting::ask(vgpu, asked.kernel, &asked.question)?
            }
        };
        self.note(asked.settings, asked.question.clone());
        lock(&vgpu.occupancy).learn(asked, answer, now);
        Ok(answer)
    }

    /// Asks together with the kernel's look-up, where nobody has waited for that: one wait for both.
    fn ask_with_look_up(&self, question: &Question, now: Moment) -> CudaResult<()> {
        if !self.is_unsettled() {
            return Ok(());
        }
        let (vgpu, kernel) = (&self.vgpu, self.id());
        let mut questions = vec![question.clone()];
        if self.is_noted() {
            // Of the settings, those that the program has made are known.
            questions.extend(question.followers(self.settings()));
        }
        let mut tickets = Vec::with_capacity(questions.len());
        for question in questions {
            let ticket = fitting::ask_early(vgpu, kernel, &question)?;
            tickets.push((question, ticket));
        }
        self.settle()?;
        let settings = self.settings();
        let mut occupancy = lock(&vgpu.occupancy);
        for (question, ticket) in tickets {
            let asked = Asked { kernel, settings, question };
            if occupancy.may_foresee(&asked) {
                occupancy.expect(asked, Expected { ticket, setting: None }, now);
            }
        }
        Ok(())
    }

    /// Asks for the answers to questions that the program asks next, together with the one that is waited for: of a walk through
    /// the sizes of blocks, and (`--far`) those that libraries ask.
    fn ask_what_follows(&self, asked: &Asked, now: Moment) -> CudaResult<()> {
        let vgpu = &self.vgpu;
        let mut following = lock(&vgpu.occupancy).walked(asked);
        if self.is_noted() {
            following.extend(asked.question.followers(asked.settings));
        }
        for question in following {
            let following = Asked { question, ..*asked };
            if lock(&vgpu.occupancy).may_foresee(&following) {
                let ticket = fitting::ask_early(vgpu, following.kernel, &following.question)?;
                lock(&vgpu.occupancy).expect(following, Expected { ticket, setting: None }, now);
            }
        }
        Ok(())
    }

    /// The number of blocks of `block` threads with `shared` bytes of dynamic shared memory that fit a multiprocessor.
    fn blocks_per_multiprocessor(&self, block: i32, shared: u64, flags: u32) -> CudaResult<i32> {
        as_int(self.fits(Question::Blocks { block, shared, flags })?)
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
    /// Asks how a launch that was just posted went, by a question that is answered behind it. `issued_at` is the moment
    /// before.
    ///
    /// # Errors
    /// The error that the device refused the launch with.
    pub(crate) fn confirm(&self, launch: ClusterLaunch, whole: bool, issued_at: Moment) -> CudaResult<()> {
        let vgpu = &self.vgpu;
        vgpu.call(&MaxActiveBlocks { kernel: KernelId(self.id()), block: 1, shared: 0, flags: 0 })?;
        vgpu.errors.report()?;
        if whole {
            lock(&vgpu.occupancy).accept(launch, issued_at);
        }
        Ok(())
    }
}

fn as_int(count: u64) -> CudaResult<i32> {
    i32::try_from(count).map_err(|_| CudaError::INVALID_VALUE)
}

impl Client {
    fn clusters(&self, what: u32, launch: &Launch<'_>) -> CudaResult<i32> {
        let function = self.function(launch.function)?;
        let attributes = Attributes::of_launch(launch)?.without_events();
        let (grid, block, shared) = (launch.grid, launch.block, launch.shared_bytes);
        as_int(function.fits(Question::Clusters { what, grid, block, shared, attributes })?)
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
        if blocks <= 0 || block_size <= 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let function = self.function(function)?;
        let answer = function.fits(Question::AvailableShared { blocks, block: block_size })?;
        usize::try_from(answer).map_err(|_| CudaError::INVALID_VALUE)
    }
}
