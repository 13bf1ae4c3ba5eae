//! Worker threads that run the blocks of submitted grids.
//! Grids go in, their completions are called on a worker thread when the last block has left it. Several grids share the
//! workers block by block; the pool holds no state of its own that a grid needs to be continued elsewhere.

use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::grid::{Grid, Outcome};
use crate::exec::state::Block;
use floe_lock::lock;

/// Called once when a run is over.
pub type Completion = Box<dyn FnOnce(Outcome) + Send>;

/// Longest time that a worker stays with one grid while others wait.
const SLICE: Duration = Duration::from_millis(2);

/// A pool of workers. Dropping it waits for the workers; grids still in it are stopped.
pub struct Pool {
    shared: Arc<PoolShared>,
    workers: Vec<JoinHandle<()>>,
}

struct PoolShared {
    state: Mutex<PoolState>,
    /// Signalled when there may be work.
    work: Condvar,
}

#[derive(Default)]
struct PoolState {
    jobs: VecDeque<Job>,
    closing: bool,
}

struct Job {
    grid: Arc<Grid>,
    done: Option<Completion>,
    /// Workers in it.
    active: usize,
}

impl Pool {
    /// A pool of that many threads (at least one).
    pub fn new(threads: usize) -> Self {
        let shared = Arc::new(PoolShared { state: Mutex::default(), work: Condvar::new() });
        let workers = (0..threads.max(1))
            .map(|number| {
                let shared = Arc::clone(&shared);
                std::thread::Builder::new()
                    .name(format!("floe-sm-{number}"))
                    .spawn(move || shared.serve(number as u32))
                    .expect("the system starts a thread")
            })
            .collect();
        Self { shared, workers }
    }

    /// Number of workers.
    pub fn threads(&self) -> usize {
        self.workers.len()
    }

    /// Runs the grid; `done` is called once, on a worker thread, and must not block for long.
    pub fn submit(&self, grid: &Arc<Grid>, done: Completion) {
        grid.begin_run();
        let job = Job { grid: Arc::clone(grid), done: Some(done), active: 0 };
        lock(&self.shared.state).jobs.push_back(job);
        self.shared.work.notify_all();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.closing = true;
        for job in &state.jobs {
            job.grid.stop();
        }
        drop(state);
        self.shared.work.notify_all();
        for worker in self.workers.drain(..) {
            // A worker that panicked has printed its reason; no receiver is left.
            let _ = worker.join();
        }
    }
}

impl PoolShared {
    fn serve(&self, worker: u32) {
        let mut spare: Option<(u64, Block)> = None;
        loop {
            let Some(grid) = self.next_grid() else {
                return;
            };
            // Storage of a block fits blocks of the same grid best; that of another grid is let go.
            let mut block = spare.take().filter(|(id, _)| *id == grid.id).map(|(_, block)| block);
            let since = Instant::now();
            let blocks = Cell::new(0_u32);
            let leave = |suspended: bool| {
                // Asking the clock after every block would cost small blocks dearly.
                blocks.set(blocks.get() + 1);
                let ask = suspended || blocks.get().is_multiple_of(16);
                ask && since.elapsed() > SLICE && lock(&self.state).jobs.len() > 1
            };
            let work = AssertUnwindSafe(|| grid.work(worker, &mut block, &leave));
            if catch_unwind(work).is_err() {
                // A bug of the machine must not take the other grids with it; the message is on standard error already.
                grid.fail();
                block = None;
            }
            spare = block.map(|block| (grid.id, block));
            self.left(&grid);
        }
    }

    /// Waits for a grid with something to do; `None` when the pool closes.
    fn next_grid(&self) -> Option<Arc<Grid>> {
        let mut state = lock(&self.state);
        loop {
            if let Some(job) = state.finished() {
                drop(state);
                job.complete();
                state = lock(&self.state);
                continue;
            }
            if let Some(position) = state.jobs.iter().position(|job| job.grid.has_work()) {
                let mut job = state.jobs.remove(position).expect("just found");
                job.active += 1;
                let grid = Arc::clone(&job.grid);
                // To the back: the next worker looks at another grid first.
                state.jobs.push_back(job);
                return Some(grid);
            }
            if state.closing && state.jobs.is_empty() {
                return None;
            }
            state = floe_lock::wait(&self.work, state);
        }
    }

    /// A worker left the grid.
    fn left(&self, grid: &Arc<Grid>) {
        let mut state = lock(&self.state);
        if let Some(job) = state.jobs.iter_mut().find(|job| Arc::ptr_eq(&job.grid, grid)) {
            job.active -= 1;
        }
        drop(state);
        // Blocks may have been put back for others, or the run may be over.
        self.work.notify_all();
    }
}

impl PoolState {
    /// Takes out a job that no worker is in and that has nothing left to do.
    fn finished(&mut self) -> Option<Job> {
        let position = self.jobs.iter().position(|job| job.active == 0 && job.grid.is_over())?;
        self.jobs.remove(position)
    }
}

impl Job {
    fn complete(mut self) {
        let outcome = self.grid.end_run();
        if let Some(done) = self.done.take() {
            done(outcome);
        }
    }
}
