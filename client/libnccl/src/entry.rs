//! NCCL's functions, as the generated symbols call them: pointers are checked, read and written here.
//! In: C's arguments, for which the program keeps NCCL's contract. Out: results. Handles are looked up; no panic leaves this file.

mod config;
mod newer;
mod outputs;

use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use floe_nccl::{Call, Code, code, end};

use crate::comms::{Comm, State};
use crate::groups::{self, New, Origin};
use crate::session::{self, Failure, Outcome};
pub(crate) use config::{CallConfig, Config};
use config::{refuse_call_settings, settings};
pub(crate) use newer::*;
pub(crate) use outputs::UniqueId;
use outputs::{WORDS, begin, give, list, null, say};

/// `NCCL_SPLIT_NOCOLOR`.
const NO_COLOR: c_int = -1;
/// Gives a call's result.
pub(crate) fn guard(call: impl FnOnce() -> Outcome<()>) -> Code {
    let defect = || Failure::new(code::INTERNAL_ERROR, "a defect of floe");
    match catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| Err(defect())) {
        Ok(()) => code::SUCCESS,
        Err(failure) => {
            if failure.code != code::IN_PROGRESS {
                say(&failure.words);
                groups::note(&failure);
            }
            failure.code
        }
    }
}

/// A function that is not there, and why.
pub(crate) fn refuse(name: &'static CStr, why: &str) -> Code {
    session::refused(name);
    guard(|| {
        let name = name.to_string_lossy();
        let words = format!("{name} is not there for NCCL beside the GPU: {why} (floe run --nccl own)");
        Err(Failure::new(code::INVALID_USAGE, &words))
    })
}

pub(crate) unsafe fn nccl_mem_alloc(pointer: *mut usize, size: usize) -> Outcome<()> {
    let at = session::allocate(size)?;
    // SAFETY: our caller's contract.
    unsafe { give(pointer, at) }
}

pub(crate) unsafe fn nccl_mem_free(pointer: usize) -> Outcome<()> {
    if pointer == 0 { Ok(()) } else { session::free(pointer) }
}

pub(crate) unsafe fn nccl_get_version(version: *mut c_int) -> Outcome<()> {
    let found = session::open()?;
    // SAFETY: our caller's contract.
    unsafe { give(version, found.cast_signed()) }
}

pub(crate) unsafe fn nccl_get_unique_id(id: *mut UniqueId) -> Outcome<()> {
    let made = session::unique_id()?;
    // SAFETY: our caller's contract.
    unsafe { give(id, UniqueId(made)) }
}

pub(crate) unsafe fn nccl_comm_init_rank_config(
    comm: *mut usize,
    ranks: c_int,
    id: UniqueId,
    rank: c_int,
    config: *const Config,
) -> Outcome<()> {
    let origin = Origin::Ids { ids: id.0.to_vec(), ranks, rank };
    // SAFETY: our caller's contract.
    unsafe { begin(comm, session::device()?, origin, settings(config, None)?) }
}

pub(crate) unsafe fn nccl_comm_init_rank(comm: *mut usize, ranks: c_int, id: UniqueId, rank: c_int) -> Outcome<()> {
    // SAFETY: our caller's contract.
    unsafe { nccl_comm_init_rank_config(comm, ranks, id, rank, std::ptr::null()) }
}

pub(crate) unsafe fn nccl_comm_init_all(comms: *mut usize, count: c_int, devices: *const c_int) -> Outcome<()> {
    let devices: Vec<c_int> = if devices.is_null() {
        (0..count).collect()
    } else {
        // SAFETY: our caller's contract.
        unsafe { list(devices, count)? }
    };
    if comms.is_null() || devices.is_empty() {
        return Err(null());
    }
    let id = session::unique_id()?;
    groups::start();
    for (index, (device, rank)) in devices.iter().zip(0..).enumerate() {
        let origin = Origin::Ids { ids: id.to_vec(), ranks: count, rank };
        // SAFETY: our caller has room for as many as there are devices.
        let begun = unsafe { begin(comms.add(index), *device, origin, settings(std::ptr::null(), None)?) };
        if let Err(failure) = begun {
            groups::note(&failure);
        }
    }
    groups::end()
}

pub(crate) unsafe fn nccl_comm_init_rank_scalable(
    comm: *mut usize,
    ranks: c_int,
    rank: c_int,
    count: c_int,
    ids: *const UniqueId,
    config: *const Config,
) -> Outcome<()> {
    // SAFETY: our caller's contract.
    let ids: Vec<u8> = unsafe { list(ids, count)? }.into_iter().flat_map(|id| id.0).collect();
    // SAFETY: our caller's contract.
    unsafe { begin(comm, session::device()?, Origin::Ids { ids, ranks, rank }, settings(config, None)?) }
}

fn ends(comm: usize, how: u32, is_gone: bool) -> Outcome<()> {
    if comm == 0 {
        return Ok(());
    }
    let comm = Comm::of(comm)?;
    match if is_gone { comm.take() } else { comm.state() } {
        State::Made(made) => session::end(made.comm, how),
        // Who makes it ends it then.
        State::Making | State::Failed(_) => Ok(()),
    }
}

pub(crate) unsafe fn nccl_comm_finalize(comm: usize) -> Outcome<()> {
    ends(comm, end::FINALIZE, false)
}

pub(crate) unsafe fn nccl_comm_destroy(comm: usize) -> Outcome<()> {
    ends(comm, end::DESTROY, true)
}

pub(crate) unsafe fn nccl_comm_abort(comm: usize) -> Outcome<()> {
    ends(comm, end::ABORT, true)
}

pub(crate) unsafe fn nccl_comm_revoke(comm: usize, flags: c_int) -> Outcome<()> {
    if flags != 0 {
        return Err(Failure::new(code::INVALID_ARGUMENT, "ncclCommRevoke has no flags"));
    }
    ends(comm, end::REVOKE, false)
}

pub(crate) unsafe fn nccl_comm_split(
    comm: usize,
    color: c_int,
    key: c_int,
    child: *mut usize,
    config: *const Config,
) -> Outcome<()> {
    let parent = Comm::of(comm)?;
    // SAFETY: our caller's contract.
    let settings = unsafe { settings(config, Some(&parent))? };
    let (device, origin) = (parent.device, Origin::Split { parent, color, key });
    if color == NO_COLOR {
        // SAFETY: our caller's contract.
        unsafe { give(child, 0)? };
        return groups::new(New { comm: None, device, origin, settings });
    }
    // SAFETY: our caller's contract.
    unsafe { begin(child, device, origin, settings) }
}

pub(crate) unsafe fn nccl_comm_shrink(
    comm: usize,
    excluded: *const c_int,
    count: c_int,
    child: *mut usize,
    config: *const Config,
    flags: c_int,
) -> Outcome<()> {
    let parent = Comm::of(comm)?;
    // SAFETY: our caller's contract.
    let excluded = unsafe { list(excluded, count)? };
    // SAFETY: the same.
    let settings = unsafe { settings(config, Some(&parent))? };
    let (device, origin) = (parent.device, Origin::Shrink { parent, excluded, flags });
    // SAFETY: the same.
    unsafe { begin(child, device, origin, settings) }
}

pub(crate) unsafe fn nccl_get_error_string(result: Code) -> *const c_char {
    let text = match result {
        code::SUCCESS => c"no error",
        code::CUDA_ERROR => c"a CUDA call of NCCL failed",
        code::SYSTEM_ERROR => c"a call to the system failed",
        code::INTERNAL_ERROR => c"NCCL failed inside",
        code::INVALID_ARGUMENT => c"an argument is wrong",
        code::INVALID_USAGE => c"NCCL is used in a wrong way, or floe does not do this",
        6 => c"another rank failed, or the network to it",
        code::IN_PROGRESS => c"it is in progress",
        8 => c"it took longer than NCCL waits",
        _ => c"not a result of NCCL",
    };
    text.as_ptr()
}

pub(crate) unsafe fn nccl_get_last_error(comm: usize) -> *const c_char {
    let own = WORDS.with_borrow(CString::clone);
    let Ok(comm) = Comm::of(comm) else {
        // It stays until the thread's next failure.
        return WORDS.with_borrow(|words| words.as_ptr());
    };
    let words = match comm.state() {
        State::Failed(failure) => CString::new(failure.words).unwrap_or_default(),
        _ => own,
    };
    let mut kept = floe_lock::lock(&comm.words);
    *kept = words;
    kept.as_ptr()
}

pub(crate) unsafe fn nccl_reset_debug_init() {}

pub(crate) unsafe fn nccl_comm_get_async_error(comm: usize, error: *mut Code) -> Outcome<()> {
    let comm = Comm::of(comm)?;
    let found = match comm.state() {
        State::Making => code::IN_PROGRESS,
        State::Failed(failure) => failure.code,
        State::Made(made) => session::ask(made.comm)?,
    };
    // SAFETY: our caller's contract.
    unsafe { give(error, found) }
}

pub(crate) unsafe fn nccl_comm_count(comm: usize, count: *mut c_int) -> Outcome<()> {
    // SAFETY: our caller's contract.
    unsafe { give(count, Comm::of(comm)?.made()?.ranks) }
}

pub(crate) unsafe fn nccl_comm_cu_device(comm: usize, device: *mut c_int) -> Outcome<()> {
    // SAFETY: our caller's contract.
    unsafe { give(device, Comm::of(comm)?.device) }
}

pub(crate) unsafe fn nccl_comm_user_rank(comm: usize, rank: *mut c_int) -> Outcome<()> {
    // SAFETY: our caller's contract.
    unsafe { give(rank, Comm::of(comm)?.made()?.rank) }
}

pub(crate) unsafe fn nccl_comm_register(comm: usize, buffer: usize, size: usize, handle: *mut usize) -> Outcome<()> {
    let made = session::register(Comm::of(comm)?.made()?.comm, buffer, size)?;
    // SAFETY: our caller's contract.
    unsafe { give(handle, usize::try_from(made).unwrap_or_default()) }
}

pub(crate) unsafe fn nccl_comm_deregister(comm: usize, handle: usize) -> Outcome<()> {
    session::deregister(Comm::of(comm)?.made()?.comm, handle as u64)
}

/// Bytes of a scalar of a type.
fn scalar_bytes(datatype: u32) -> Outcome<usize> {
    let bytes = usize::try_from(datatype).ok().and_then(|type_| [1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1].get(type_));
    bytes.copied().ok_or_else(|| Failure::new(code::INVALID_ARGUMENT, "no type of NCCL has that number"))
}

pub(crate) unsafe fn nccl_red_op_create_pre_mul_sum(
    operation: *mut u32,
    scalar: usize,
    datatype: u32,
    residence: u32,
    comm: usize,
) -> Outcome<()> {
    if scalar == 0 || residence > 1 {
        return Err(null());
    }
    let bytes = if residence == 1 { scalar_bytes(datatype)? } else { 0 };
    let made = session::create_reduction(Comm::of(comm)?.made()?.comm, datatype, scalar, bytes)?;
    // SAFETY: our caller's contract.
    unsafe { give(operation, made) }
}

pub(crate) unsafe fn nccl_red_op_destroy(operation: u32, comm: usize) -> Outcome<()> {
    session::destroy_reduction(Comm::of(comm)?.made()?.comm, operation)
}

/// Kinds of calls, as on the wire.
mod kind {
    pub(super) const ALL_REDUCE: u32 = 0;
    pub(super) const BROADCAST: u32 = 1;
    pub(super) const REDUCE: u32 = 2;
    pub(super) const ALL_GATHER: u32 = 3;
    pub(super) const REDUCE_SCATTER: u32 = 4;
    pub(super) const SEND: u32 = 5;
    pub(super) const RECEIVE: u32 = 6;
    pub(super) const ALL_TO_ALL: u32 = 7;
    pub(super) const GATHER: u32 = 8;
    pub(super) const SCATTER: u32 = 9;
}

/// A call on a communicator's handle.
fn post(comm: usize, call: Call) -> Outcome<()> {
    groups::call(Call { comm: Comm::of(comm)?.made()?.comm, ..call })
}

macro_rules! collectives {
    ($($name:ident = $kind:ident($($argument:ident: $type:ty),*) { $($field:ident: $value:expr),* };)*) => {$(
        #[allow(clippy::too_many_arguments, reason = "they are NCCL's")]
        pub(crate) unsafe fn $name($($argument: $type,)* comm: usize, stream: usize) -> Outcome<()> {
            let nothing = Call {
                comm: 0, kind: kind::$kind, datatype: 0, operation: 0, rank: 0, count: 0, send: 0, receive: 0, stream,
            };
            post(comm, Call { $($field: $value,)* ..nothing })
        }
    )*};
}

collectives! {
    nccl_reduce = REDUCE(send: usize, receive: usize, count: usize, datatype: u32, operation: u32, root: c_int)
        { count: count, datatype: datatype, send: send, receive: receive, operation: operation, rank: root };
    nccl_bcast = BROADCAST(buffer: usize, count: usize, datatype: u32, root: c_int)
        { count: count, datatype: datatype, send: buffer, receive: buffer, rank: root };
    nccl_broadcast = BROADCAST(send: usize, receive: usize, count: usize, datatype: u32, root: c_int)
        { count: count, datatype: datatype, send: send, receive: receive, rank: root };
    nccl_all_reduce = ALL_REDUCE(send: usize, receive: usize, count: usize, datatype: u32, operation: u32)
        { count: count, datatype: datatype, send: send, receive: receive, operation: operation };
    nccl_reduce_scatter = REDUCE_SCATTER(send: usize, receive: usize, count: usize, datatype: u32, operation: u32)
        { count: count, datatype: datatype, send: send, receive: receive, operation: operation };
    nccl_all_gather = ALL_GATHER(send: usize, receive: usize, count: usize, datatype: u32)
        { count: count, datatype: datatype, send: send, receive: receive };
    nccl_allto_all = ALL_TO_ALL(send: usize, receive: usize, count: usize, datatype: u32)
        { count: count, datatype: datatype, send: send, receive: receive };
    nccl_gather = GATHER(send: usize, receive: usize, count: usize, datatype: u32, root: c_int)
        { count: count, datatype: datatype, send: send, receive: receive, rank: root };
    nccl_scatter = SCATTER(send: usize, receive: usize, count: usize, datatype: u32, root: c_int)
        { count: count, datatype: datatype, send: send, receive: receive, rank: root };
    nccl_send = SEND(send: usize, count: usize, datatype: u32, peer: c_int)
        { count: count, datatype: datatype, send: send, rank: peer };
    nccl_recv = RECEIVE(receive: usize, count: usize, datatype: u32, peer: c_int)
        { count: count, datatype: datatype, receive: receive, rank: peer };
}

macro_rules! configured {
    ($($name:ident = $plain:ident($($argument:ident: $type:ty),*);)*) => {$(
        #[allow(clippy::too_many_arguments, reason = "they are NCCL's")]
        pub(crate) unsafe fn $name(
            $($argument: $type,)*
            comm: usize,
            stream: usize,
            config: *const CallConfig,
        ) -> Outcome<()> {
            // SAFETY: our caller's contract.
            unsafe {
                refuse_call_settings(config)?;
                $plain($($argument,)* comm, stream)
            }
        }
    )*};
}

configured! {
    nccl_reduce_config = nccl_reduce(send: usize, receive: usize, count: usize, datatype: u32, operation: u32, root: c_int);
    nccl_broadcast_config = nccl_broadcast(send: usize, receive: usize, count: usize, datatype: u32, root: c_int);
    nccl_all_reduce_config = nccl_all_reduce(send: usize, receive: usize, count: usize, datatype: u32, operation: u32);
    nccl_reduce_scatter_config =
        nccl_reduce_scatter(send: usize, receive: usize, count: usize, datatype: u32, operation: u32);
    nccl_all_gather_config = nccl_all_gather(send: usize, receive: usize, count: usize, datatype: u32);
    nccl_allto_all_config = nccl_allto_all(send: usize, receive: usize, count: usize, datatype: u32);
    nccl_gather_config = nccl_gather(send: usize, receive: usize, count: usize, datatype: u32, root: c_int);
    nccl_scatter_config = nccl_scatter(send: usize, receive: usize, count: usize, datatype: u32, root: c_int);
}

pub(crate) unsafe fn nccl_group_start() -> Outcome<()> {
    groups::start();
    Ok(())
}

pub(crate) unsafe fn nccl_group_end() -> Outcome<()> {
    groups::end()
}
