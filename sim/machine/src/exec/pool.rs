//! Worker threads that run the blocks of submitted grids.
//! Grids go in, their completions are called on a worker thread when the last block has left it. Several grids share the
//! workers block by block; the pool holds no state of its own that a grid needs to be continued elsewhere.

use std::sync::Arc;

use super::grid::{Grid, Outcome};

/// A pool of workers.
pub struct Pool {}

impl Pool {
    /// A pool of that many threads (at least one).
    pub fn new(threads: usize) -> Self {
        let _ = threads;
        todo!()
    }

    /// Runs the grid; `done` is called once, on a worker thread, and must not block for long.
    pub fn submit(&self, grid: &Arc<Grid>, done: Box<dyn FnOnce(Outcome) + Send>) {
        let _ = (grid, done);
        todo!()
    }
}
