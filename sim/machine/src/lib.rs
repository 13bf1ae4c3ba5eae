//! Module to running warps: PTX texts go in, grids run on worker threads, device memory holds what they leave.
//! A SIMT interpreter: one instruction is executed for the 32 lanes of a warp at a time. All execution state is plain
//! data, so that a running grid can be stopped, saved and continued. It knows nothing of streams, contexts or the C
//! API.
//!
//! ```text
//! let memory  = Memory::reserve(base, size)?;                 // device addresses; map() backings of a Store
//! let program = Program::load(&texts, &memory, &mut |bytes, align| allocate(bytes, align))?;
//! let kernel  = program.kernel("saxpy")?;                     // lowered at first use, refused if not executable
//! let grid    = Grid::new(Launch { kernel, grid: [64,1,1], block: [256,1,1], dynamic_shared: 0,
//!                                  parameters, cooperative: false, services })?;
//! let pool    = Pool::new(cores);
//! grid.run(&pool) -> Outcome                                  // waits; or
//! pool.submit(&grid, Box::new(|outcome| ...));                // callback on a worker thread (a `Completion`)
//! grid.stop(); … Outcome::Stopped; grid.snapshot()?.to_bytes(); Grid::resume(launch, &Snapshot::from_bytes(..)?)?
//! ```
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // lanes are bits: the interpreter's casts are meant

mod conditions;
mod exec;
mod fault;
pub mod isa;
mod lower;
pub mod memory;
mod program;
pub mod scalar;
mod services;
mod snapshot;
mod tensor;
mod texture;

pub use conditions::{Condition, Conditions};
pub use exec::{
    BLOCK_LIMIT, Completion, GRID_LIMIT, Grid, Launch, LaunchError, Level, Outcome, Pool, SHARED_LIMIT, THREAD_LIMIT,
};
pub use fault::{Fault, FaultKind};
pub use memory::{Backing, FileIdentity, GRANULE, Mapped, Memory, MemoryError, MemoryFile, Store};
pub use program::{Kernel, KernelParameter, LoadError, Program};
pub use services::{Heap, Services, Sink};
pub use snapshot::{Snapshot, SnapshotError};
pub use tensor::{MAP_BYTES, TENSOR_AXES, TensorElement, TensorMap};
pub use texture::{Channel, Choice, Outside, Sampling, Surface, Texels, Texture, Views};
