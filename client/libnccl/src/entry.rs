//! NCCL's functions, as the generated symbols call them: pointers are checked, read and written here.
//! In: C's arguments, for which the program keeps NCCL's contract. Out: results. Handles are looked up; no panic leaves this file.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use floe_nccl::{CONFIG_NUMBERS, Call, Code, UNIQUE_ID_BYTES, code, end};

use crate::comms::{Comm, State};
use crate::groups::{self, New, Origin, Settings};
use crate::session::{self, Failure, Outcome};

/// `ncclUniqueId`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct UniqueId([u8; UNIQUE_ID_BYTES]);

/// `ncclConfig_t` of NCCL 2.28; programs of older versions say that theirs is shorter.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Config {
    size: usize,
    magic: u32,
    version: u32,
    blocking: c_int,
    cga_cluster_size: c_int,
    min_ctas: c_int,
    max_ctas: c_int,
    net_name: *const c_char,
    split_share: c_int,
    traffic_class: c_int,
    comm_name: *const c_char,
    collnet_enable: c_int,
    cta_policy: c_int,
    shrink_share: c_int,
    nvls_ctas: c_int,
    channels_per_net_peer: c_int,
    nvlink_centric: c_int,
}

const MAGIC: u32 = 0xcafe_beef;
const UNDEFINED: c_int = c_int::MIN;
/// `NCCL_SPLIT_NOCOLOR`.
const NO_COLOR: c_int = -1;
/// Bytes before the first setting.
const HEAD: usize = 16;

thread_local! {
    /// What `ncclGetLastError(NULL)` gives this thread.
    static WORDS: RefCell<CString> = RefCell::default();
}

fn say(words: &str) {
    WORDS.set(CString::new(words.replace('\0', " ")).unwrap_or_default());
}

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

/// A function that is not there.
pub(crate) fn refuse(name: &'static CStr) -> Code {
    session::refused(name);
    guard(|| {
        let words = format!("{} is not there for NCCL beside the GPU (floe run --nccl own)", name.to_string_lossy());
        Err(Failure::new(code::INVALID_USAGE, &words))
    })
}

fn null() -> Failure {
    Failure::new(code::INVALID_ARGUMENT, "a pointer is NULL")
}

/// # Safety
/// `to` is NULL or has room.
unsafe fn give<T>(to: *mut T, value: T) -> Outcome<()> {
    if to.is_null() {
        return Err(null());
    }
    // SAFETY: it is not NULL, and our caller says that there is room.
    unsafe { to.write(value) };
    Ok(())
}

/// # Safety
/// `at` is NULL or has as many.
unsafe fn list<T: Copy>(at: *const T, count: c_int) -> Outcome<Vec<T>> {
    match usize::try_from(count) {
        Ok(count) if !at.is_null() => {
            // SAFETY: our caller says so.
            Ok(unsafe { std::slice::from_raw_parts(at, count) }.to_vec())
        }
        Ok(0) => Ok(Vec::new()),
        _ => Err(null()),
    }
}

/// # Safety
/// `config` is NULL or has as many bytes as its first field says, and its name ends.
unsafe fn settings(config: *const Config) -> Outcome<Settings> {
    let mut read = Config {
        size: 0,
        magic: MAGIC,
        version: 0,
        blocking: UNDEFINED,
        cga_cluster_size: UNDEFINED,
        min_ctas: UNDEFINED,
        max_ctas: UNDEFINED,
        net_name: std::ptr::null(),
        split_share: UNDEFINED,
        traffic_class: UNDEFINED,
        comm_name: std::ptr::null(),
        collnet_enable: UNDEFINED,
        cta_policy: UNDEFINED,
        shrink_share: UNDEFINED,
        nvls_ctas: UNDEFINED,
        channels_per_net_peer: UNDEFINED,
        nvlink_centric: UNDEFINED,
    };
    if !config.is_null() {
        // SAFETY: every version of the structure begins with its size.
        let size = unsafe { config.cast::<usize>().read() };
        if size < HEAD {
            return Err(Failure::new(code::INVALID_ARGUMENT, "a configuration without NCCL_CONFIG_INITIALIZER"));
        }
        let bytes = size.min(size_of::<Config>());
        // SAFETY: the program's has `size` bytes and ours no fewer than are copied; any bytes are values of its fields.
        unsafe { std::ptr::copy_nonoverlapping(config.cast::<u8>(), (&raw mut read).cast::<u8>(), bytes) };
        if read.magic != MAGIC {
            return Err(Failure::new(code::INVALID_ARGUMENT, "a configuration without NCCL_CONFIG_INITIALIZER"));
        }
    }
    let name = (!read.comm_name.is_null()).then(|| {
        // SAFETY: the program's text ends.
        unsafe { CStr::from_ptr(read.comm_name) }.to_owned()
    });
    let numbers: [c_int; CONFIG_NUMBERS] = [
        read.cga_cluster_size,
        read.min_ctas,
        read.max_ctas,
        read.split_share,
        read.traffic_class,
        read.collnet_enable,
        read.cta_policy,
        read.shrink_share,
        read.nvls_ctas,
        read.channels_per_net_peer,
        read.nvlink_centric,
    ];
    Ok(Settings { blocks: read.blocking != 0, numbers, name })
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

/// Begins a communicator on a device, gives its handle, and makes it now or with its group.
///
/// # Safety
/// `comm` is NULL or has room.
unsafe fn begin(comm: *mut usize, device: c_int, origin: Origin, settings: Settings) -> Outcome<()> {
    let own = Comm::begin(device);
    // SAFETY: our caller says so.
    unsafe { give(comm, own.handle) }.inspect_err(|_| own.forget())?;
    let made = groups::new(New { comm: Some(Arc::clone(&own)), device, origin, settings });
    if let Err(failure) = &made
        && failure.code != code::IN_PROGRESS
    {
        own.forget();
        // SAFETY: as above.
        unsafe { give(comm, 0)? };
    }
    made
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
    unsafe { begin(comm, session::device()?, origin, settings(config)?) }
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
        let begun = unsafe { begin(comms.add(index), *device, origin, settings(std::ptr::null())?) };
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
    unsafe { begin(comm, session::device()?, Origin::Ids { ids, ranks, rank }, settings(config)?) }
}

fn ends(comm: usize, how: u32, is_gone: bool) -> Outcome<()> {
    if comm == 0 {
        return Ok(());
    }
    let comm = Comm::of(comm)?;
    let ended = match comm.state() {
        State::Made(made) => session::end(made.comm, how),
        // The worker ends what nobody waits for any more with the session.
        State::Making | State::Failed(_) => Ok(()),
    };
    if is_gone {
        comm.forget();
    }
    ended
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
    let (device, origin) = (parent.device, Origin::Split { parent, color, key });
    // SAFETY: our caller's contract.
    let settings = unsafe { settings(config)? };
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
    let (device, origin) = (parent.device, Origin::Shrink { parent, excluded, flags });
    // SAFETY: our caller's contract.
    unsafe { begin(child, device, origin, settings(config)?) }
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

pub(crate) unsafe fn nccl_group_start() -> Outcome<()> {
    groups::start();
    Ok(())
}

pub(crate) unsafe fn nccl_group_end() -> Outcome<()> {
    groups::end()
}
