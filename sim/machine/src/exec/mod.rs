//! Execution: from handlers for one instruction up to the pool of threads that runs grids.
//! `lanes`, `context`, `alu`, `mov`, `memory`, `stack`, `run`, `atomic`, `shuffle`, `texture`, `control` execute instructions; `warp`, `call`,
//! `barrier`, `block`, `grid`, `pool` decide which one is next. State is in `state`, and only there.

mod address;
mod alu;
pub(crate) mod atomic;
mod barrier;
mod block;
mod builtin;
mod call;
mod context;
mod control;
mod format;
mod grid;
mod lanes;
mod launch;
mod memory;
mod mov;
mod pool;
mod run;
mod shuffle;
mod stack;
mod state;
mod texture;
mod warp;

pub use grid::{Grid, Level, Outcome};
pub use launch::{BLOCK_LIMIT, GRID_LIMIT, Launch, LaunchError, SHARED_LIMIT, THREAD_LIMIT};
pub use pool::{Completion, Pool};

pub(crate) use address::{Generic, Global, Local, Parameter, Shared, SpaceKind};
pub(crate) use alu::{
    Carry3, Comparison2, Four, Function1, Function2, Function3, Function4, OfPredicates, One, PredicateLogic, Select,
    SetPredicate, TestPredicate, Three, Two, WithCarry, combine,
};
pub(crate) use barrier::kind as barrier_kind;
pub(crate) use call::FRAMES_LIMIT;
pub(crate) use context::{CONSTANT, Handler, Handlers, Inst, baseline_handlers, guarded, handlers};
pub(crate) use control::{
    BlockBarrier, Branch, BranchIf, BranchIndexed, Call, Exit, Fence, Nothing, Return, Sleep, Trap,
};
pub(crate) use grid::lock;
pub(crate) use lanes::LANES;
pub(crate) use memory::{
    Byte, ByteSigned16, ByteSigned32, ByteSignedWide, ByteWide, Double, Half, HalfSigned32, HalfSignedWide, HalfWide,
    Load, LoadParameter, LoadSharedWord, LoadWords, Narrow, Store, StoreSharedWord, StoreWords, Wide, Word,
    WordSignedWide, WordWide,
};
pub(crate) use mov::{
    Extend, Extract, ExtractWide, InWindow, Join, LeaveWindow, Move, MovePredicate, NarrowAddress, Pair, ReadSpecial,
    Special, Widen,
};
pub(crate) use run::{LEAST, RunPlan, SharedRun, fuse};
pub(crate) use shuffle::{
    ActiveMask, All, Any, Ballot, Butterfly, Down, Elect, Indexed, MatchAll, MatchAny, ReduceAdd, ReduceAnd,
    ReduceMaxSigned, ReduceMaxUnsigned, ReduceMinSigned, ReduceMinUnsigned, ReduceOr, ReduceXor, Reduction, Shuffle,
    Uniform, Up, VotePredicate, WarpBarrier,
};
pub(crate) use stack::{Allocate, RestoreStack, SaveStack};
pub(crate) use state::{AlignedBytes, BARRIERS, Barrier, Block, Fragment, Frame, Wait, Warp};
pub(crate) use texture::{Beyond, LoadSurface, ReadTexture, Reading, StoreSurface, SurfacePlan, TexturePlan};
