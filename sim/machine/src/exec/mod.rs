//! Execution: from handlers for one instruction up to the pool of threads that runs grids.
//! `instructions` executes, `schedule` decides which instruction is next; handlers see `context`, `lanes` and
//! `address`.
//! Only `state` holds state.

mod address;
mod context;
mod instructions;
mod lanes;
mod launch;
mod level;
mod schedule;
mod state;

pub use launch::{BLOCK_LIMIT, GRID_LIMIT, Launch, LaunchError, SHARED_LIMIT, THREAD_LIMIT};
pub use level::Level;
pub use schedule::{Completion, Grid, Outcome, Pool};

pub(crate) use address::{Generic, Global, Local, Parameter, Shared, SpaceKind};
pub(crate) use context::{CONSTANT, Handler, Handlers, Inst, baseline_handlers, guarded, handlers};
pub(crate) use instructions::alu::{
    Carry3, Comparison2, Four, Function1, Function2, Function3, Function4, OfPredicates, One, PredicateLogic, Select,
    SetPredicate, TestPredicate, Three, Two, WithCarry, combine,
};
pub(crate) use instructions::async_copy::{BulkCopy, CopyAsync, SourceBytes, SourceUnless, WholeSource};
pub(crate) use instructions::atomic;
pub(crate) use instructions::bulk::{BulkAddress, BulkMove, BulkPlan, BulkTensor, Combination, Operator};
pub(crate) use instructions::control::{
    BlockBarrier, Branch, BranchIf, BranchIndexed, Call, Exit, Fence, Nothing, Return, Sleep, Trap,
};
pub(crate) use instructions::matrix::{Multiply, Transpose};
pub(crate) use instructions::matrix_memory::{LoadFragment, LoadRows, StoreFragment, StoreRows};
pub(crate) use instructions::matrix_plan::{
    Element, FragmentPlan, MatrixFragment, MatrixMemory, MatrixPlans, MultiplyPlan, Role, RowsPlan,
};
pub(crate) use instructions::mbarrier::{
    Arrive, ArriveMore, ArriveOnly, Change, ChangeBarrier, Complete, Expect, Initialise, Invalidate, PendingCount,
    TestBarrier, Withdraw, WithdrawOnly,
};
pub(crate) use instructions::memory::{
    Byte, ByteSigned16, ByteSigned32, ByteSignedWide, ByteWide, Double, Half, HalfSigned32, HalfSignedWide, HalfWide,
    Load, LoadParameter, LoadSharedWord, LoadWords, Narrow, Store, StoreSharedWord, StoreWords, Wide, Word,
    WordSignedWide, WordWide,
};
pub(crate) use instructions::mov::{
    Extend, Extract, ExtractWide, InWindow, Join, LeaveWindow, Move, MovePredicate, NarrowAddress, Pair, ReadSpecial,
    Special, Widen,
};
pub(crate) use instructions::run::SharedRun;
pub(crate) use instructions::run_plan::{LEAST, RunPlan, fuse};
pub(crate) use instructions::shuffle::{
    ActiveMask, All, Any, Ballot, Butterfly, Down, Elect, Indexed, MatchAll, MatchAny, ReduceAdd, ReduceAnd,
    ReduceMaxSigned, ReduceMaxUnsigned, ReduceMinSigned, ReduceMinUnsigned, ReduceOr, ReduceXor, Reduction, Shuffle,
    Uniform, Up, VotePredicate, WarpBarrier,
};
pub(crate) use instructions::stack::{Allocate, RestoreStack, SaveStack};
pub(crate) use instructions::texture::{LoadSurface, ReadTexture, StoreSurface};
pub(crate) use instructions::texture_plan::{Beyond, Reading, SurfacePlan, TextureLevel, TexturePlan};
pub(crate) use lanes::LANES;
pub(crate) use schedule::{FRAMES_LIMIT, barrier_kind};
pub(crate) use state::{AlignedBytes, BARRIERS, Barrier, Block, Fragment, Frame, Wait, Warp};
