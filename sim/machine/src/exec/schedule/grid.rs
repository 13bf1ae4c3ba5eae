//! A grid: one launch of a kernel, as data that workers advance block by block.
//! In goes a [`Launch`], out comes an [`Outcome`]; between, it can be stopped, saved, continued or cancelled.
//! It owns no thread.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use super::block::BlockStop;
use super::pool::Pool;
use super::warp::QUANTUM;
use crate::exec::context::{Context, Event};
use crate::exec::launch::{Launch, LaunchError, RESIDENT_BYTES};
use crate::exec::state::Block;
use crate::fault::{Fault, FaultKind};
use crate::lower::image::GRID_WORKSPACE;
use crate::snapshot::{Snapshot, SnapshotError};
use floe_lock::lock;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All blocks ran to their end.
    Done,
    /// Stopped on request; `snapshot` or another `submit` may follow.
    Stopped,
    /// Cancelled; its effects on memory are partial.
    Cancelled,
    /// A thread faulted; the rest was cancelled.
    Fault(Fault),
}

/// Turns of suspended blocks between two new blocks; a power of two.
const NEW_BLOCK_TURNS: u64 = 16;

/// One launch in progress.
pub struct Grid {
    pub(crate) launch: Launch,
    pub(crate) id: u64,
    /// Blocks in all.
    pub(crate) total: u64,
    /// Bytes of one while it runs.
    block_bytes: u64,
    /// The next block to begin.
    pub(crate) next: AtomicU64,
    /// Blocks that ended.
    pub(crate) ended: AtomicU64,
    /// Blocks that began and wait for a worker.
    pub(crate) suspended: Mutex<VecDeque<Block>>,
    suspended_count: AtomicUsize,
    /// Counts blocks taken up again, so that now and then a new one is begun instead: see `prefers_new`.
    pub(crate) turns: AtomicU64,
    stop: AtomicBool,
    cancel: AtomicBool,
    quantum: AtomicI64,
    /// Quanta that the next run may still take.
    quanta: AtomicU64,
    fault: Mutex<Option<Fault>>,
    pub(crate) workspace: Box<Workspace>,
    running: AtomicBool,
}

/// The workspace of a cooperative grid, as device code sees it.
#[repr(C, align(64))]
pub(crate) struct Workspace(pub(crate) std::cell::UnsafeCell<[u8; GRID_WORKSPACE as usize]>);

// SAFETY: only kernels write it, by the same raw and atomic accesses as device memory; the host reads it when none runs.
unsafe impl Sync for Workspace {}

impl Grid {
    /// A grid ready to run.
    ///
    /// # Errors
    /// [`LaunchError`].
    pub fn new(launch: Launch) -> Result<Arc<Self>, LaunchError> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        launch.check()?;
        let total = launch.grid.iter().map(|size| u64::from(*size)).product();
        let block_bytes = launch.block_bytes();
        Ok(Arc::new(Self {
            launch,
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            total,
            block_bytes,
            next: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            suspended: Mutex::new(VecDeque::new()),
            suspended_count: AtomicUsize::new(0),
            turns: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            cancel: AtomicBool::new(false),
            quantum: AtomicI64::new(QUANTUM),
            quanta: AtomicU64::new(u64::MAX),
            fault: Mutex::new(None),
            workspace: Box::new(Workspace(std::cell::UnsafeCell::new([0; GRID_WORKSPACE as usize]))),
            running: AtomicBool::new(false),
        }))
    }

    /// What it was made of.
    pub fn launch(&self) -> &Launch {
        &self.launch
    }

    /// A grid that continues where the snapshot was taken; the launch must be the same, its memory may be another mapping.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn resume(launch: Launch, snapshot: &Snapshot) -> Result<Arc<Self>, SnapshotError> {
        let grid = Self::new(launch).map_err(|_| SnapshotError::Mismatch { what: "launch" })?;
        snapshot.restore(&grid)?;
        grid.suspended_count.store(lock(&grid.suspended).len(), Ordering::Relaxed);
        Ok(grid)
    }

    /// Runs on the pool and waits for the end.
    pub fn run(self: &Arc<Self>, pool: &Pool) -> Outcome {
        let result = Arc::new((Mutex::new(None), Condvar::new()));
        let theirs = Arc::clone(&result);
        pool.submit(
            self,
            Box::new(move |outcome| {
                *lock(&theirs.0) = Some(outcome);
                theirs.1.notify_all();
            }),
        );
        let mut outcome = lock(&result.0);
        loop {
            if let Some(outcome) = outcome.take() {
                return outcome;
            }
            outcome = floe_lock::wait(&result.1, outcome);
        }
    }

    /// Asks for a stop at the next quantum; the run then ends with [`Outcome::Stopped`].
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Asks for an end without completion; the run then ends with [`Outcome::Cancelled`].
    pub fn cancel(&self) {
        self.cancel.store(true, Ordering::Release);
        self.stop();
    }

    /// Sets how many warp instructions (of loops) a worker runs before it looks whether a stop was asked for; from the next
    /// run on. The default, 10 000, is some 50 microseconds; 0 looks at every turn of every loop and every warp.
    pub fn set_quantum(&self, instructions: u32) {
        self.quantum.store(i64::from(instructions), Ordering::Relaxed);
    }

    /// Sets how many quanta the workers together may take before the run ends with [`Outcome::Stopped`]; from the next run
    /// on. For runs whose length must not depend on time, such as tests of kernels that may never end.
    pub fn set_quanta(&self, quanta: u64) {
        self.quanta.store(quanta, Ordering::Relaxed);
    }

    /// A quantum of some worker is over, or a turn of a block that only waits: whether to leave.
    fn count_quantum(&self) -> bool {
        let count = |left: u64| (left != u64::MAX).then(|| left.saturating_sub(1));
        if self.quanta.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count) == Ok(0) {
            self.stop();
        }
        self.is_interrupted()
    }

    /// State of a grid whose run ended with [`Outcome::Stopped`] (or has not begun).
    ///
    /// # Errors
    /// [`SnapshotError::NotStopped`].
    pub fn snapshot(&self) -> Result<Snapshot, SnapshotError> {
        if self.running.load(Ordering::Acquire) || lock(&self.fault).is_some() {
            return Err(SnapshotError::NotStopped);
        }
        Ok(Snapshot::take(self))
    }

    /// The number of ended blocks, and of all blocks.
    pub fn progress(&self) -> (u64, u64) {
        (self.ended.load(Ordering::Relaxed), self.total)
    }

    /// A run begins; requests of an earlier one are forgotten.
    pub(crate) fn begin_run(&self) {
        self.stop.store(self.cancel.load(Ordering::Acquire), Ordering::Release);
        self.running.store(true, Ordering::Release);
    }

    /// The run is over: no worker is in it.
    pub(crate) fn end_run(&self) -> Outcome {
        self.running.store(false, Ordering::Release);
        if let Some(fault) = lock(&self.fault).clone() {
            return Outcome::Fault(fault);
        }
        if self.ended.load(Ordering::Acquire) == self.total {
            return Outcome::Done;
        }
        if self.cancel.load(Ordering::Acquire) { Outcome::Cancelled } else { Outcome::Stopped }
    }

    /// Whether workers should leave.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether a worker would find something to do.
    pub(crate) fn has_work(&self) -> bool {
        !self.is_interrupted()
            && (self.next.load(Ordering::Relaxed) < self.total || self.suspended_count.load(Ordering::Relaxed) > 0)
    }

    /// Whether nothing is left to do, once no worker is in it.
    pub(crate) fn is_over(&self) -> bool {
        self.is_interrupted() || self.ended.load(Ordering::Acquire) == self.total
    }

    /// The next block: one that waits, or a new one in `spare`'s storage.
    fn take(&self, spare: &mut Option<Block>) -> Option<Block> {
        let waiting = self.suspended_count.load(Ordering::Acquire) > 0;
        if waiting
            && (!self.prefers_new() || self.is_full())
            && let Some(block) = self.take_suspended()
        {
            return Some(block);
        }
        if let Some(number) = self.take_number() {
            let mut block = spare.take().unwrap_or_default();
            block.begin(&self.launch.kernel.image, &self.launch, number);
            return Some(block);
        }
        if waiting { self.take_suspended() } else { None }
    }

    /// Whether a new block should begin although others wait: what they wait for may be a block that has not begun. Spinning
    /// blocks let in one new block each, blocks that were merely long one in sixteen turns.
    fn prefers_new(&self) -> bool {
        self.turns.fetch_add(1, Ordering::Relaxed) % NEW_BLOCK_TURNS == NEW_BLOCK_TURNS - 1
    }

    /// Whether the blocks that have begun take as much memory as they may.
    fn is_full(&self) -> bool {
        let begun = self.next.load(Ordering::Relaxed).saturating_sub(self.ended.load(Ordering::Relaxed));
        !self.launch.cooperative && begun.saturating_mul(self.block_bytes) >= RESIDENT_BYTES
    }

    fn take_number(&self) -> Option<u64> {
        if self.next.load(Ordering::Relaxed) >= self.total {
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if number >= self.total {
            // Another worker took the last one; the counter must not run on.
            self.next.store(self.total, Ordering::Relaxed);
            return None;
        }
        Some(number)
    }

    fn take_suspended(&self) -> Option<Block> {
        let mut suspended = lock(&self.suspended);
        let block = suspended.pop_front();
        self.suspended_count.store(suspended.len(), Ordering::Release);
        block
    }

    fn put_back(&self, block: Block) {
        let mut suspended = lock(&self.suspended);
        suspended.push_back(block);
        self.suspended_count.store(suspended.len(), Ordering::Release);
    }

    /// A worker's turn: runs blocks until none is left, a stop is asked for, or `leave` asks to leave between blocks.
    /// `leave` gets whether the last block was suspended rather than ended.
    pub(crate) fn work(&self, worker: u32, spare: &mut Option<Block>, leave: &dyn Fn(bool) -> bool) {
        let mut context = self.context(worker);
        let image = &self.launch.kernel.image;
        while !self.is_interrupted() {
            let Some(mut block) = self.take(spare) else {
                return;
            };
            match block.run(&mut context, image, &|| self.count_quantum()) {
                BlockStop::Ended => {
                    self.ended.fetch_add(1, Ordering::AcqRel);
                    *spare = Some(block);
                }
                BlockStop::Suspended => {
                    self.put_back(block);
                    self.count_quantum();
                    if leave(true) {
                        return;
                    }
                }
                BlockStop::Spinning => {
                    self.turns.fetch_or(NEW_BLOCK_TURNS - 1, Ordering::Relaxed);
                    self.put_back(block);
                    self.count_quantum();
                    std::thread::yield_now();
                    if leave(true) {
                        return;
                    }
                }
                BlockStop::Fault(fault) => {
                    lock(&self.fault).get_or_insert(fault);
                    self.stop();
                }
            }
            if leave(false) {
                return;
            }
        }
    }

    /// The machine itself failed while it ran this grid.
    pub(crate) fn fail(&self) {
        let name = self.launch.kernel.name.clone();
        let fault = Fault { kernel: name, ..Fault::host(FaultKind::IllegalInstruction, 0) };
        lock(&self.fault).get_or_insert(fault);
        self.stop();
    }

    fn context(&self, worker: u32) -> Context {
        let launch = &self.launch;
        let image = &launch.kernel.image;
        Context {
            constants: image.constants.as_ptr().wrapping_sub(crate::exec::context::CONSTANT as usize),
            code: image.code.as_ptr(),
            view: launch.services.memory.view(),
            shared: std::ptr::null_mut(),
            shared_bytes: 0,
            local: std::ptr::null_mut(),
            local_stride: 0,
            parameters: launch.parameters.as_ptr(),
            parameter_bytes: launch.parameters.len() as u32,
            budget: 0,
            quantum: self.quantum.load(Ordering::Relaxed),
            divergent: false,
            polled: false,
            spins: 0,
            clocked: false,
            live: 0,
            fault: FaultKind::Trap,
            event: Event::None,
            targets: [0; 32],
            block_index: [0; 3],
            grid_size: launch.grid,
            block_size: launch.block,
            grid_id: self.id,
            dynamic_shared: launch.dynamic_shared,
            worker,
            warp: std::ptr::null_mut(),
            frame: 0,
            workspace: if launch.cooperative { self.workspace.0.get().cast() } else { std::ptr::null_mut() },
            image: std::ptr::from_ref::<crate::lower::image::Image>(image),
            services: Arc::as_ptr(&launch.services),
        }
    }
}
