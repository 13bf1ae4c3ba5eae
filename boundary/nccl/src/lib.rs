//! The table of functions by which floe's `libnccl.so.2` reaches the session that floe's `libcuda.so.1` holds in the same process.
//! In and out: plain data of C's layout. Both libraries are of one installation; the version says when they are not.
//! It holds no logic, and no function of NVIDIA's.
#![forbid(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};

/// The version of the table; any change of it gets a new one.
pub const VERSION: u32 = 2;
/// The symbol of floe's `libcuda.so.1` that gives the table: [`Find`].
pub const SYMBOL: &std::ffi::CStr = c"floe_collectives";
/// Bytes of a unique id.
pub const UNIQUE_ID_BYTES: usize = 128;
/// Numbers of a configuration.
pub const CONFIG_NUMBERS: usize = 20;
/// Bytes of a parameter's key, at most.
pub const MOST_KEY: usize = 256;

/// Gives the table of a version, or NULL.
pub type Find = unsafe extern "C" fn(version: u32) -> *const Calls;
/// `ncclResult_t`.
pub type Code = u32;

/// Results of NCCL.
pub mod code {
    /// `ncclSuccess`.
    pub const SUCCESS: u32 = 0;
    /// `ncclUnhandledCudaError`.
    pub const CUDA_ERROR: u32 = 1;
    /// `ncclSystemError`.
    pub const SYSTEM_ERROR: u32 = 2;
    /// `ncclInternalError`.
    pub const INTERNAL_ERROR: u32 = 3;
    /// `ncclInvalidArgument`.
    pub const INVALID_ARGUMENT: u32 = 4;
    /// `ncclInvalidUsage`.
    pub const INVALID_USAGE: u32 = 5;
    /// `ncclInProgress`.
    pub const IN_PROGRESS: u32 = 7;
}

/// How a communicator comes about.
pub mod how {
    /// Of unique ids.
    pub const INIT: u32 = 0;
    /// By a split.
    pub const SPLIT: u32 = 1;
    /// By leaving ranks out.
    pub const SHRINK: u32 = 2;
    /// By new ranks that join those of another.
    pub const GROW: u32 = 3;
}

/// The forms in which a parameter is read, as on the wire.
pub mod form {
    /// Its text, by key.
    pub const TEXT: u32 = 0;
    /// Not at all: whether there is such a key.
    pub const KEY: u32 = 1;
    /// A number.
    pub const I8: u32 = 2;
    /// A number.
    pub const I16: u32 = 3;
    /// A number.
    pub const I32: u32 = 4;
    /// A number.
    pub const I64: u32 = 5;
    /// A number.
    pub const U8: u32 = 6;
    /// A number.
    pub const U16: u32 = 7;
    /// A number.
    pub const U32: u32 = 8;
    /// A number.
    pub const U64: u32 = 9;
    /// Its text, if it is one.
    pub const STRING: u32 = 10;
    /// Its bytes.
    pub const BYTES: u32 = 11;
}

/// How a communicator ends.
pub mod end {
    /// `ncclCommFinalize`.
    pub const FINALIZE: u32 = 0;
    /// `ncclCommDestroy`.
    pub const DESTROY: u32 = 1;
    /// `ncclCommAbort`.
    pub const ABORT: u32 = 2;
    /// `ncclCommRevoke`.
    pub const REVOKE: u32 = 3;
}

/// A communicator to be made.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Make {
    /// One of [`how`].
    pub how: u32,
    /// The device of a new one.
    pub device: c_int,
    /// The one that is split, shrunk or grown; 0: a new rank's.
    pub parent: u64,
    /// Unique ids.
    pub ids: *const u8,
    /// Their bytes.
    pub id_bytes: usize,
    /// The number of ranks.
    pub ranks: c_int,
    /// This rank; of a split its color, of an existing rank of one that grows -1.
    pub rank: c_int,
    /// Of a split its key, of a shrink its flags.
    pub key: c_int,
    /// Ranks that are left out.
    pub excluded: *const c_int,
    /// Their number.
    pub excluded_count: usize,
    /// 0: it has its parent's configuration.
    pub has_config: u32,
    /// The configuration's numbers, in the order of the wire.
    pub config: [c_int; CONFIG_NUMBERS],
    /// Its name; NULL for none.
    pub name: *const c_char,
}

/// A communicator that was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Made {
    /// Its number; 0: the rank takes no part.
    pub comm: u64,
    /// This rank.
    pub rank: c_int,
    /// The number of ranks.
    pub ranks: c_int,
}

/// A communicator to be suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Suspend {
    /// Its number.
    pub comm: u64,
    /// NCCL's flags; 0: it is resumed.
    pub flags: c_int,
}

/// Takes bytes for the list that it was given with.
pub type Append = unsafe extern "C" fn(list: *mut c_void, bytes: *const u8, count: usize);

/// One call of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Call {
    /// The communicator's number.
    pub comm: u64,
    /// The kind, as on the wire.
    pub kind: u32,
    /// `ncclDataType_t`.
    pub datatype: u32,
    /// `ncclRedOp_t`.
    pub operation: u32,
    /// The root or the peer.
    pub rank: c_int,
    /// Elements.
    pub count: usize,
    /// What is read.
    pub send: usize,
    /// What is written.
    pub receive: usize,
    /// `CUstream`.
    pub stream: usize,
}

/// The functions. Each gives a result of NCCL; [`Calls::last_error`] has this thread's words for the last that failed.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Calls {
    /// [`VERSION`].
    pub version: u32,
    /// The server's NCCL's version.
    pub open: unsafe extern "C" fn(version: *mut u32) -> Code,
    /// The current device.
    pub device: unsafe extern "C" fn(device: *mut c_int) -> Code,
    /// A new unique id, of [`UNIQUE_ID_BYTES`].
    pub unique_id: unsafe extern "C" fn(id: *mut u8) -> Code,
    /// Makes communicators together, and waits.
    pub make: unsafe extern "C" fn(makes: *const Make, count: usize, made: *mut Made) -> Code,
    /// The calls of a group.
    pub group: unsafe extern "C" fn(calls: *const Call, count: usize) -> Code,
    /// A communicator's asynchronous error.
    pub ask: unsafe extern "C" fn(comm: u64, error: *mut Code) -> Code,
    /// Ends it by one of [`end`].
    pub end: unsafe extern "C" fn(comm: u64, how: u32) -> Code,
    /// An operation with a scalar: of `bytes` at `scalar`, or in device memory there where `bytes` is 0.
    pub create_reduction:
        unsafe extern "C" fn(comm: u64, datatype: u32, scalar: usize, bytes: usize, operation: *mut u32) -> Code,
    /// Destroys it.
    pub destroy_reduction: unsafe extern "C" fn(comm: u64, operation: u32) -> Code,
    /// Registers memory.
    pub register: unsafe extern "C" fn(comm: u64, at: usize, bytes: usize, handle: *mut u64) -> Code,
    /// Undoes it.
    pub deregister: unsafe extern "C" fn(comm: u64, handle: u64) -> Code,
    /// A unique id with which new ranks join those of a communicator.
    pub grow_id: unsafe extern "C" fn(comm: u64, id: *mut u8) -> Code,
    /// Suspends and resumes communicators together, and waits.
    pub suspend: unsafe extern "C" fn(list: *const Suspend, count: usize) -> Code,
    /// What NCCL counts of a communicator's memory, by `ncclCommMemStat_t`.
    pub memory: unsafe extern "C" fn(comm: u64, stat: u32, value: *mut u64) -> Code,
    /// NCCL's estimate of the microseconds of a group's calls, which are not made.
    pub simulate: unsafe extern "C" fn(calls: *const Call, count: usize, time: *mut f32) -> Code,
    /// A parameter of the server's NCCL, in one of [`form`].
    pub parameter: unsafe extern "C" fn(key: *const c_char, form: u32, append: Append, list: *mut c_void) -> Code,
    /// The keys of all parameters.
    pub parameter_keys: unsafe extern "C" fn(append: Append, list: *mut c_void) -> Code,
    /// Device memory of the current context.
    pub allocate: unsafe extern "C" fn(at: *mut usize, bytes: usize) -> Code,
    /// Frees it.
    pub free: unsafe extern "C" fn(at: usize) -> Code,
    /// Writes the words, with a zero behind them, into `room` bytes.
    pub last_error: unsafe extern "C" fn(words: *mut c_char, room: usize),
    /// Says once that a function is not there.
    pub refused: unsafe extern "C" fn(name: *const c_char),
}
