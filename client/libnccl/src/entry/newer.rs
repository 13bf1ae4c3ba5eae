//! The functions that came with NCCL 2.29 and later: growing communicators, suspending them, their memory, estimates, parameters.
//! In: C's arguments, for which the program keeps NCCL's contract. Out: results. Texts that it gives are the thread's own.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::io::Write as _;
use std::sync::Mutex;

use floe_nccl::{MOST_KEY, code, form};

use super::config::{Config, settings};
use super::outputs::{UniqueId, begin, give, null, say};
use crate::comms::Comm;
use crate::groups::{self, Origin};
use crate::session::{self, Failure, Outcome};

/// The mark of `NCCL_SIM_INFO_INITIALIZER`.
const SIMULATION_MAGIC: u32 = 0x7468_5283;
/// `NCCL_SUSPEND_MEM`.
const SUSPEND_MEMORY: c_int = 1;
/// Handles of parameters are far from NULL and from communicators'.
const FIRST_PARAMETER: usize = 0x6e63_7061_0000;

/// `ncclSimInfo_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Simulation {
    size: usize,
    magic: u32,
    version: u32,
    time: f32,
}

/// What a thread was given last of parameters, which stays until it asks again.
#[derive(Default)]
struct Given {
    string: CString,
    value: CString,
    keys: Vec<CString>,
    table: Vec<*const c_char>,
}

thread_local! {
    static GIVEN: RefCell<Given> = RefCell::default();
}

/// Keys of parameters by their handles.
static PARAMETERS: Mutex<Vec<CString>> = Mutex::new(Vec::new());

pub(crate) unsafe fn nccl_comm_get_unique_id(comm: usize, id: *mut UniqueId) -> Outcome<()> {
    let made = session::grow_id(Comm::of(comm)?.made()?.comm)?;
    // SAFETY: our caller's contract.
    unsafe { give(id, UniqueId(made)) }
}

pub(crate) unsafe fn nccl_comm_grow(
    comm: usize,
    ranks: c_int,
    id: *const UniqueId,
    rank: c_int,
    child: *mut usize,
    config: *const Config,
) -> Outcome<()> {
    // SAFETY: our caller's contract.
    let id = if id.is_null() { Vec::new() } else { unsafe { id.read() }.0.to_vec() };
    let wrong = |words: &str| Err(Failure::new(code::INVALID_ARGUMENT, words));
    let (device, parent) = if comm == 0 {
        if rank < 0 || rank >= ranks || id.is_empty() {
            return wrong("a new rank of ncclCommGrow has a unique id and a rank among all");
        }
        (session::device()?, None)
    } else {
        let parent = Comm::of(comm)?;
        if rank != -1 {
            return wrong("an existing rank of ncclCommGrow has the rank -1");
        }
        if ranks <= parent.made()?.ranks {
            return wrong("ncclCommGrow makes more ranks than there are");
        }
        (parent.device, Some(parent))
    };
    // SAFETY: our caller's contract.
    let settings = unsafe { settings(config, parent.as_deref())? };
    // SAFETY: the same.
    unsafe { begin(child, device, Origin::Grow { parent, id, ranks, rank }, settings) }
}

pub(crate) unsafe fn nccl_comm_suspend(comm: usize, flags: c_int) -> Outcome<()> {
    let comm = Comm::of(comm)?.made()?.comm;
    // As NCCL does, which knows one flag and passes over others.
    if flags & SUSPEND_MEMORY == 0 { Ok(()) } else { groups::suspend(comm, flags & SUSPEND_MEMORY) }
}

pub(crate) unsafe fn nccl_comm_resume(comm: usize) -> Outcome<()> {
    groups::suspend(Comm::of(comm)?.made()?.comm, 0)
}

pub(crate) unsafe fn nccl_comm_mem_stats(comm: usize, stat: u32, value: *mut u64) -> Outcome<()> {
    let read = session::memory(Comm::of(comm)?.made()?.comm, stat)?;
    // SAFETY: our caller's contract.
    unsafe { give(value, read) }
}

pub(crate) unsafe fn nccl_group_simulate_end(simulation: *mut Simulation) -> Outcome<()> {
    if simulation.is_null() {
        return groups::simulate_end().map(drop);
    }
    // SAFETY: the structure begins with its size, its mark and its version.
    let (size, magic) = unsafe { ((&raw const (*simulation).size).read(), (&raw const (*simulation).magic).read()) };
    if magic != SIMULATION_MAGIC || size < std::mem::offset_of!(Simulation, time) {
        let words = "an ncclSimInfo_t without NCCL_SIM_INFO_INITIALIZER";
        groups::note(&Failure::new(code::INVALID_ARGUMENT, words));
    }
    if let Some(time) = groups::simulate_end()?
        && size >= std::mem::offset_of!(Simulation, time) + size_of::<f32>()
    {
        // SAFETY: the program's structure is so long.
        unsafe { (&raw mut (*simulation).time).write(time) };
    }
    Ok(())
}

/// As NCCL does where ranks have no symmetric memory: there is no window, and collectives take the memory as any other.
pub(crate) unsafe fn nccl_comm_window_register(
    comm: usize,
    buffer: usize,
    size: usize,
    window: *mut usize,
    _flags: c_int,
) -> Outcome<()> {
    Comm::of(comm)?;
    // SAFETY: our caller's contract.
    unsafe { give(window, 0)? };
    if buffer == 0 || size == 0 { Err(null()) } else { Ok(()) }
}

fn no_window(window: usize) -> Outcome<()> {
    let other = || Failure::new(code::INVALID_ARGUMENT, "a window that ncclCommWindowRegister did not give");
    if window == 0 { Ok(()) } else { Err(other()) }
}

pub(crate) unsafe fn nccl_comm_window_deregister(comm: usize, window: usize) -> Outcome<()> {
    Comm::of(comm)?;
    no_window(window)
}

pub(crate) unsafe fn nccl_win_get_user_ptr(comm: usize, window: usize, pointer: *mut usize) -> Outcome<()> {
    Comm::of(comm)?;
    no_window(window)?;
    // SAFETY: our caller's contract.
    unsafe { give(pointer, 0) }
}

/// # Safety
/// `key` is NULL or ends.
unsafe fn key_of(key: *const c_char) -> Outcome<CString> {
    if key.is_null() {
        return Err(null());
    }
    // SAFETY: our caller says so.
    let key = unsafe { CStr::from_ptr(key) };
    if key.count_bytes() > MOST_KEY {
        return Err(Failure::new(code::INVALID_ARGUMENT, "no parameter of NCCL has so long a key"));
    }
    Ok(key.to_owned())
}

fn parameter(handle: usize) -> Outcome<CString> {
    let index = handle.checked_sub(FIRST_PARAMETER).filter(|offset| offset % 16 == 0).map(|offset| offset / 16);
    let found = index.and_then(|index| floe_lock::lock(&PARAMETERS).get(index).cloned());
    found.ok_or_else(|| Failure::new(code::INVALID_ARGUMENT, "not a handle of ncclParamBind"))
}

/// A text of C: up to the first zero.
fn text(bytes: Vec<u8>) -> CString {
    CString::new(bytes.split(|byte| *byte == 0).next().unwrap_or_default()).unwrap_or_default()
}

pub(crate) unsafe fn nccl_param_bind(handle: *mut usize, key: *const c_char) -> Outcome<()> {
    // SAFETY: our caller's contract.
    let key = unsafe { key_of(key)? };
    session::parameter(&key, form::KEY)?;
    let mut all = floe_lock::lock(&PARAMETERS);
    let index = all.iter().position(|known| *known == key).unwrap_or(all.len());
    if index == all.len() {
        all.push(key);
    }
    // SAFETY: our caller's contract.
    unsafe { give(handle, FIRST_PARAMETER + 16 * index) }
}

/// A number of as many bytes.
///
/// # Safety
/// `to` is NULL or has room.
unsafe fn number<const BYTES: usize>(handle: usize, to: *mut [u8; BYTES], form: u32) -> Outcome<()> {
    let bytes = session::parameter(&parameter(handle)?, form)?;
    let wrong = || Failure::new(code::INTERNAL_ERROR, "the server's number has another length");
    let value: [u8; BYTES] = bytes.try_into().map_err(|_| wrong())?;
    // SAFETY: our caller says so.
    unsafe { give(to, value) }
}

macro_rules! numbers {
    ($($name:ident: $bytes:literal = $form:ident;)*) => {$(
        pub(crate) unsafe fn $name(handle: usize, to: *mut [u8; $bytes]) -> Outcome<()> {
            // SAFETY: our caller's contract; a number of C is its bytes, and an array of them may lie anywhere.
            unsafe { number(handle, to, form::$form) }
        }
    )*};
}

numbers! {
    nccl_param_get_i8: 1 = I8;
    nccl_param_get_i16: 2 = I16;
    nccl_param_get_i32: 4 = I32;
    nccl_param_get_i64: 8 = I64;
    nccl_param_get_u8: 1 = U8;
    nccl_param_get_u16: 2 = U16;
    nccl_param_get_u32: 4 = U32;
    nccl_param_get_u64: 8 = U64;
}

pub(crate) unsafe fn nccl_param_get_str(handle: usize, string: *mut *const c_char) -> Outcome<()> {
    let value = text(session::parameter(&parameter(handle)?, form::STRING)?);
    let at = GIVEN.with_borrow_mut(|given| {
        given.string = value;
        given.string.as_ptr()
    });
    // SAFETY: our caller's contract.
    unsafe { give(string, at) }
}

pub(crate) unsafe fn nccl_param_get(handle: usize, to: *mut u8, most: c_int, length: *mut c_int) -> Outcome<()> {
    let room = usize::try_from(most).unwrap_or(0);
    if to.is_null() || length.is_null() || room == 0 {
        return Err(null());
    }
    let bytes = session::parameter(&parameter(handle)?, form::BYTES)?;
    if bytes.len() > room {
        // SAFETY: our caller's contract.
        unsafe { give(length, 0)? };
        return Err(Failure::new(code::INVALID_ARGUMENT, "the parameter has more bytes than there is room for"));
    }
    // SAFETY: the program has so much room, and it is not our own.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    // SAFETY: our caller's contract.
    unsafe { give(length, c_int::try_from(bytes.len()).unwrap_or(0)) }
}

pub(crate) unsafe fn nccl_param_get_parameter(
    key: *const c_char,
    value: *mut *const c_char,
    length: *mut c_int,
) -> Outcome<()> {
    if value.is_null() || length.is_null() {
        return Err(null());
    }
    // SAFETY: our caller's contract.
    let read = unsafe { key_of(key) }.and_then(|key| session::parameter(&key, form::TEXT));
    let (at, bytes) = match &read {
        Err(_) => (std::ptr::null(), 0),
        Ok(bytes) => GIVEN.with_borrow_mut(|given| {
            given.value = text(bytes.clone());
            (given.value.as_ptr(), given.value.count_bytes())
        }),
    };
    // SAFETY: our caller's contract.
    unsafe { give(value, at)? };
    // SAFETY: the same.
    unsafe { give(length, c_int::try_from(bytes).unwrap_or(0))? };
    read.map(drop)
}

pub(crate) unsafe fn nccl_param_get_all_parameter_keys(
    table: *mut *const *const c_char,
    length: *mut c_int,
) -> Outcome<()> {
    if table.is_null() || length.is_null() {
        return Err(null());
    }
    let keys: Vec<CString> = session::parameter_keys()?.into_iter().map(text).collect();
    let (at, count) = GIVEN.with_borrow_mut(|given| {
        given.table = keys.iter().map(|key| key.as_ptr()).collect();
        given.keys = keys;
        (given.table.as_ptr(), given.table.len())
    });
    // SAFETY: our caller's contract.
    unsafe { give(table, at)? };
    // SAFETY: the same.
    unsafe { give(length, c_int::try_from(count).unwrap_or(0)) }
}

/// NCCL writes to the standard output, whatever its log's level.
pub(crate) unsafe fn nccl_param_dump_all() {
    let dumped = session::parameter_keys().and_then(|keys| {
        let mut all = b"=== ncclParam Registry Dump ===\n".to_vec();
        for key in keys {
            let value = session::parameter(&text(key.clone()), form::TEXT)?;
            let value: &[u8] = if value.is_empty() { b"<unset>" } else { &value };
            all.extend([&key, &b"="[..], value, b"\n"].concat());
        }
        Ok(all)
    });
    match dumped {
        // Where nobody reads it, nothing is lost.
        Ok(all) => drop(std::io::stdout().write_all(&all)),
        Err(failure) => say(&failure.words),
    }
}
