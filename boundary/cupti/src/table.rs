//! The table of functions by which floe's `libcupti.so.13` reaches the session that floe's `libcuda.so.1` holds in the same
//! process. In and out: plain data of C's layout. Both libraries are of one installation; the version says when they are not.

use std::ffi::{c_char, c_void};

use crate::Code;

/// The version of the table; any change of it gets a new one.
pub const VERSION: u32 = 1;
/// The symbol of floe's `libcuda.so.1` that gives the table: [`Find`].
pub const SYMBOL: &std::ffi::CStr = c"floe_activities";

/// Gives the table of a version, or NULL.
pub type Find = unsafe extern "C" fn(version: u32) -> *const Calls;
/// Takes a row. It and its name live as long as the call.
pub type Take = unsafe extern "C" fn(user: *mut c_void, row: *const Row);

/// What is recorded, as bits.
pub mod wanted {
    /// Kernels.
    pub const KERNELS: u32 = 1;
    /// Copies.
    pub const COPIES: u32 = 2;
    /// Fills.
    pub const FILLS: u32 = 4;
    /// Calls of the driver API.
    pub const DRIVER: u32 = 8;
    /// Calls of the runtime API.
    pub const RUNTIME: u32 = 16;
    /// The program's ids for calls.
    pub const EXTERNAL: u32 = 32;
    /// What servers record.
    pub const OF_GPUS: u32 = KERNELS | COPIES | FILLS;
}

/// One activity: of a GPU, or a call. Times are nanoseconds of the program's monotonic clock.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Row {
    /// One of [`kind`](crate::kind).
    pub kind: u32,
    /// The call it belongs to; 0 where that is not known.
    pub correlation: u32,
    /// Its beginning.
    pub begin: u64,
    /// Its end.
    pub end: u64,
    /// The device's ordinal.
    pub device: u32,
    /// The stream's number, which the server gave.
    pub stream: u32,
    /// A kernel's blocks.
    pub grid: [u32; 3],
    /// A block's threads.
    pub block: [u32; 3],
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of a block's static shared memory.
    pub static_shared: u32,
    /// Bytes of a block's dynamic shared memory.
    pub dynamic_shared: u32,
    /// Bytes of a thread's local memory.
    pub local: u32,
    /// `CUpti_ActivityMemcpyKind`.
    pub copy_kind: u8,
    /// The memory that is read.
    pub source_kind: u8,
    /// The memory that is written.
    pub target_kind: u8,
    /// Whether the program does not wait for it.
    pub is_async: u8,
    /// A fill's value.
    pub value: u32,
    /// Bytes that are copied or filled; of an external correlation the program's id.
    pub bytes: u64,
    /// Copies that are one record.
    pub copies: u64,
    /// The executable graph it belongs to; 0: none.
    pub graph: u32,
    /// Of a call: `CUpti_CallbackId`; of an external correlation its kind.
    pub function: u32,
    /// The node of that graph.
    pub node: u64,
    /// Of a call: the thread.
    pub thread: u32,
    /// Of a call: its result.
    pub answer: u32,
    /// A kernel's name; NULL where it has none.
    pub name: *const c_char,
}

impl Row {
    /// Of a kind, with nothing else said.
    #[must_use]
    pub const fn new(kind: u32) -> Self {
        Self {
            kind,
            correlation: 0,
            begin: 0,
            end: 0,
            device: 0,
            stream: 0,
            grid: [0; 3],
            block: [0; 3],
            registers: 0,
            static_shared: 0,
            dynamic_shared: 0,
            local: 0,
            copy_kind: 0,
            source_kind: 0,
            target_kind: 0,
            is_async: 0,
            value: 0,
            bytes: 0,
            copies: 0,
            graph: 0,
            function: 0,
            node: 0,
            thread: 0,
            answer: 0,
            name: std::ptr::null(),
        }
    }
}

/// The functions.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Calls {
    /// [`VERSION`].
    pub version: u32,
    /// Has these [`wanted`] be recorded from here on, and nothing else.
    pub want: unsafe extern "C" fn(wanted: u32) -> Code,
    /// Calls of this thread belong to the program's id, until it is taken away.
    pub push: unsafe extern "C" fn(kind: u32, id: u64) -> Code,
    /// Takes the last id of that kind away.
    pub pop: unsafe extern "C" fn(kind: u32, id: *mut u64) -> Code,
    /// Gives all that has been recorded since the last time. Forced: also of work that has not ended.
    pub take: unsafe extern "C" fn(forced: u32, take: Take, user: *mut c_void) -> Code,
    /// The program's monotonic clock in nanoseconds.
    pub now: unsafe extern "C" fn() -> u64,
    /// Records that were lost so far, here or at servers.
    pub lost: unsafe extern "C" fn() -> u64,
    /// Has the log name a function that is not there.
    pub refused: unsafe extern "C" fn(name: *const c_char),
}
