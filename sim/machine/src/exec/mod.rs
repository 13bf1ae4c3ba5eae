//! Execution: warps, blocks, grids and the pool of threads that runs them.
mod grid;
mod pool;
pub use grid::{Grid, Launch, LaunchError, Level, Outcome};
pub use pool::Pool;
