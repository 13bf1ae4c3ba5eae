//! CUPTI's functions: pointers are checked, read and written here.
//! In: C's arguments, for which the program keeps CUPTI's contract. Out: results of CUPTI; records in the program's buffers.
//! The program's functions are called without any lock of ours, since they may call back. No panic leaves this file.
#![allow(non_snake_case, reason = "the names are NVIDIA's")]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use floe_cupti::buffers::{Complete, Request, User, Writer, next_record};
use floe_cupti::clock::{Line, Pair, pair};
use floe_cupti::table::wanted;
use floe_cupti::{Code, EXTERNAL_KINDS, FLUSH_FORCED, VERSION, code, kind};

use crate::records::{self, Record};
use crate::session;

/// `CUpti_TimestampCallbackFunc`.
type Clock = unsafe extern "C" fn() -> u64;

/// What the program has set.
#[derive(Debug)]
struct State {
    user: Option<User>,
    kinds: BTreeSet<u32>,
    clock: Option<Clock>,
    first: Option<Pair>,
    /// Functions whose calls are not recorded: their kind and number.
    left_out: BTreeSet<(u32, u32)>,
    attributes: BTreeMap<u32, Vec<u8>>,
    /// Records that found no room in the program's buffers, and those that were told of.
    lost: u64,
    told: u64,
}

static STATE: Mutex<State> = Mutex::new(State {
    user: None,
    kinds: BTreeSet::new(),
    clock: None,
    first: None,
    left_out: BTreeSet::new(),
    attributes: BTreeMap::new(),
    lost: 0,
    told: 0,
});

/// The program's present buffer. One thread at a time gives records to the program.
static WRITER: Mutex<Option<Writer>> = Mutex::new(None);

/// Readings of both clocks: a thread that was interrupted in one is not in all.
const READINGS: usize = 5;
/// The most bytes of an attribute's value.
const ATTRIBUTE_BYTES: usize = 64;
/// `CUPTI_CB_DOMAIN_RESOURCE`.
const RESOURCES: u32 = 3;

fn with<R>(act: impl FnOnce(&mut State) -> R) -> R {
    act(&mut floe_lock::lock(&STATE))
}

fn guard(call: impl FnOnce() -> Code) -> Code {
    // State that a panic leaves half done is behind a lock, which later users take as they find it.
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(code::UNKNOWN)
}

/// Writes through a pointer of the program's.
///
/// # Safety
/// It is NULL or points to room for the value.
unsafe fn put<T>(to: *mut T, value: T) -> Code {
    if to.is_null() {
        return code::INVALID_PARAMETER;
    }
    // SAFETY: our caller says so.
    unsafe { to.write_unaligned(value) };
    code::SUCCESS
}

/// What a kind has the session record; `None` for one that floe has no records of.
fn bit(of: u32) -> Option<u32> {
    Some(match of {
        kind::KERNEL | kind::CONCURRENT_KERNEL => wanted::KERNELS,
        kind::MEMCPY => wanted::COPIES,
        kind::MEMSET => wanted::FILLS,
        kind::DRIVER => wanted::DRIVER,
        kind::RUNTIME => wanted::RUNTIME,
        kind::EXTERNAL_CORRELATION => wanted::EXTERNAL,
        // Kineto asks for it always. floe delays no program to have room, so there is nothing to record.
        kind::OVERHEAD => 0,
        _ => return None,
    })
}

fn bits(kinds: &BTreeSet<u32>) -> u32 {
    kinds.iter().filter_map(|kind| bit(*kind)).fold(0, |all, bit| all | bit)
}

/// The program's clock now.
fn program_now(clock: Option<Clock>) -> u64 {
    match clock {
        // SAFETY: the program named it as such a function.
        Some(clock) => unsafe { clock() },
        None => {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
        }
    }
}

fn both_clocks(clock: Option<Clock>) -> Pair {
    pair(READINGS, session::now, || Some(program_now(clock))).unwrap_or_default()
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityEnable(kind: u32) -> Code {
    guard(|| {
        if bit(kind).is_none() {
            return session::refuse(c"cuptiActivityEnable of this kind");
        }
        let (wanted, clock, is_first) = with(|state| {
            let more: BTreeSet<u32> = state.kinds.iter().copied().chain([kind]).collect();
            (bits(&more), state.clock, state.first.is_none())
        });
        let answer = session::want(wanted);
        if answer == code::SUCCESS {
            let first = is_first.then(|| both_clocks(clock));
            with(|state| {
                state.kinds.insert(kind);
                state.first = state.first.or(first);
            });
            hold_buffer(&mut floe_lock::lock(&WRITER));
        }
        answer
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityDisable(kind: u32) -> Code {
    guard(|| {
        let wanted = with(|state| state.kinds.remove(&kind).then(|| bits(&state.kinds)));
        wanted.map_or(code::SUCCESS, session::want)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityRegisterCallbacks(request: Option<Request>, complete: Option<Complete>) -> Code {
    let (Some(request), Some(complete)) = (request, complete) else { return code::INVALID_PARAMETER };
    with(|state| state.user = Some(User { request, complete }));
    code::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityRegisterTimestampCallback(clock: Option<Clock>) -> Code {
    guard(|| {
        let known = with(|state| state.clock);
        let same = known.map(|known| known as usize) == clock.map(|clock| clock as usize);
        // The first pair lies ahead of what is recorded.
        let first = if same { None } else { Some(both_clocks(clock)) };
        with(|state| {
            state.clock = clock;
            state.first = first.or(state.first);
        });
        code::SUCCESS
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityFlushAll(flags: u32) -> Code {
    guard(|| flush(flags & FLUSH_FORCED != 0))
}

/// Has a buffer of the program's while something is recorded, as NVIDIA's CUPTI does: Kineto flushes only then.
fn hold_buffer(held: &mut Option<Writer>) {
    let (user, records) = with(|state| (state.user, !state.kinds.is_empty()));
    let Some(user) = user.filter(|_| records) else { return };
    // SAFETY: the program's functions keep CUPTI's contract.
    unsafe { held.get_or_insert_with(|| Writer::new(user)).begin() };
}

/// Gives the program all that has been recorded.
fn flush(forced: bool) -> Code {
    let mut held = floe_lock::lock(&WRITER);
    let (user, clock, first) = with(|state| (state.user, state.clock, state.first));
    let Some(user) = user else { return code::INVALID_OPERATION };
    let Some(first) = first else { return code::SUCCESS };
    let mut rows = Vec::new();
    let answer = session::take(forced, |row| {
        // SAFETY: a row has NULL or a text that ends with a zero and lives as long as the row.
        let name = if row.name.is_null() { row.name } else { records::name(unsafe { CStr::from_ptr(row.name) }) };
        rows.push((*row, name));
    });
    let line = Line::through(first, both_clocks(clock));
    let (kernels, left_out) = with(|state| {
        let kernels = if state.kinds.contains(&kind::KERNEL) { kind::KERNEL } else { kind::CONCURRENT_KERNEL };
        (kernels, state.left_out.clone())
    });
    let mut writer = held.take().unwrap_or_else(|| Writer::new(user));
    for (row, name) in &rows {
        if left_out.contains(&(row.kind, row.function)) {
            continue;
        }
        let Some(record) = Record::of(row, *name, kernels, &line) else { continue };
        // SAFETY: the program's functions keep CUPTI's contract.
        unsafe {
            match &record {
                Record::Kernel(record) => writer.write(record),
                Record::Memcpy(record) => writer.write(record),
                Record::Memset(record) => writer.write(record),
                Record::Api(record) => writer.write(record),
                Record::External(record) => writer.write(record),
            }
        }
    }
    // SAFETY: as above.
    unsafe { writer.finish() };
    with(|state| state.lost += writer.dropped());
    hold_buffer(&mut held);
    answer
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityFlushPeriod(milliseconds: u32) -> Code {
    if milliseconds == 0 { code::SUCCESS } else { session::refuse(c"cuptiActivityFlushPeriod of a period") }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiActivityGetNextRecord(buffer: *mut u8, bytes: usize, record: *mut *mut u8) -> Code {
    if buffer.is_null() || record.is_null() {
        return code::INVALID_PARAMETER;
    }
    // SAFETY: the program gives a buffer of its own that it got back with so many bytes, and a record of it or NULL.
    match unsafe { next_record(buffer, bytes, record.read_unaligned()) } {
        // SAFETY: as above.
        Some(next) => unsafe { put(record, next) },
        None => code::MAX_LIMIT_REACHED,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiActivityGetNumDroppedRecords(_: *mut c_void, _: u32, dropped: *mut usize) -> Code {
    guard(|| {
        let at_session = session::lost();
        let new = with(|state| {
            let all = state.lost + at_session;
            let new = all.saturating_sub(state.told);
            state.told = all;
            new
        });
        // SAFETY: the program gives NULL or room for a number.
        unsafe { put(dropped, usize::try_from(new).unwrap_or(usize::MAX)) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityPushExternalCorrelationId(kind: u32, id: u64) -> Code {
    if !(1..EXTERNAL_KINDS).contains(&kind) {
        return code::INVALID_PARAMETER;
    }
    guard(|| session::push(kind, id))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiActivityPopExternalCorrelationId(kind: u32, id: *mut u64) -> Code {
    if !(1..EXTERNAL_KINDS).contains(&kind) {
        return code::INVALID_PARAMETER;
    }
    guard(|| match session::pop(kind) {
        // The program need not want it.
        Ok(_) if id.is_null() => code::SUCCESS,
        // SAFETY: the program gives room for a number.
        Ok(last) => unsafe { put(id, last) },
        Err(code) => code,
    })
}

fn leave_out(kind: u32, function: u32, enable: u8) -> Code {
    with(|state| match enable {
        0 => {
            state.left_out.insert((kind, function));
            code::SUCCESS
        }
        _ if state.left_out.remove(&(kind, function)) || state.kinds.contains(&kind) => code::SUCCESS,
        // One function alone is not recorded.
        _ => code::NOT_SUPPORTED,
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityEnableDriverApi(function: u32, enable: u8) -> Code {
    guard(|| leave_out(kind::DRIVER, function, enable))
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityEnableRuntimeApi(function: u32, enable: u8) -> Code {
    guard(|| leave_out(kind::RUNTIME, function, enable))
}

/// Keeps an attribute. They are about buffers beside the GPU, which the server's CUPTI has as it likes.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiActivitySetAttribute(attribute: u32, size: *mut usize, value: *const u8) -> Code {
    if size.is_null() || value.is_null() {
        return code::INVALID_PARAMETER;
    }
    // SAFETY: the program gives the value's size, and a value of it.
    let bytes = unsafe {
        let size = size.read_unaligned();
        if size > ATTRIBUTE_BYTES {
            return code::INVALID_PARAMETER;
        }
        std::slice::from_raw_parts(value, size).to_vec()
    };
    with(|state| state.attributes.insert(attribute, bytes));
    code::SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiActivityGetAttribute(attribute: u32, size: *mut usize, value: *mut u8) -> Code {
    if size.is_null() || value.is_null() {
        return code::INVALID_PARAMETER;
    }
    let Some(bytes) = with(|state| state.attributes.get(&attribute).cloned()) else {
        return session::refuse(c"cuptiActivityGetAttribute of one that was not set");
    };
    // SAFETY: the program gives the room's size, and room of it.
    unsafe {
        if size.read_unaligned() < bytes.len() {
            return code::INVALID_PARAMETER;
        }
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), value, bytes.len());
        put(size, bytes.len())
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiGetTimestamp(now: *mut u64) -> Code {
    guard(|| {
        let clock = with(|state| state.clock);
        // SAFETY: the program gives NULL or room for a number.
        unsafe { put(now, program_now(clock)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiGetVersion(version: *mut u32) -> Code {
    // SAFETY: the program gives NULL or room for a number.
    unsafe { put(version, VERSION) }
}

#[unsafe(no_mangle)]
extern "C" fn cuptiFinalize() -> Code {
    guard(|| {
        with(|state| state.kinds.clear());
        session::want(0)
    })
}

/// A subscriber is a number that is not 0.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiSubscribe(subscriber: *mut usize, _: *const c_void, _: *mut c_void) -> Code {
    // SAFETY: the program gives NULL or room for a handle.
    unsafe { put(subscriber, 1) }
}

#[unsafe(no_mangle)]
extern "C" fn cuptiUnsubscribe(_: usize) -> Code {
    code::SUCCESS
}

/// No call is called back. Kineto subscribes to resources, needs that to succeed, and does without being called.
fn call_back(enable: u32, domain: u32) -> Code {
    if enable == 0 || domain == RESOURCES {
        return code::SUCCESS;
    }
    session::refuse(c"callbacks of CUPTI about calls")
}

#[unsafe(no_mangle)]
extern "C" fn cuptiEnableCallback(enable: u32, _: usize, domain: u32, _: u32) -> Code {
    guard(|| call_back(enable, domain))
}

#[unsafe(no_mangle)]
extern "C" fn cuptiEnableDomain(enable: u32, _: usize, domain: u32) -> Code {
    guard(|| call_back(enable, domain))
}

/// What a result means, as CUPTI names it.
fn result_name(result: u32) -> &'static CStr {
    match result {
        code::SUCCESS => c"CUPTI_SUCCESS",
        code::INVALID_PARAMETER => c"CUPTI_ERROR_INVALID_PARAMETER",
        code::INVALID_OPERATION => c"CUPTI_ERROR_INVALID_OPERATION",
        code::MAX_LIMIT_REACHED => c"CUPTI_ERROR_MAX_LIMIT_REACHED",
        code::NOT_COMPATIBLE => c"CUPTI_ERROR_NOT_COMPATIBLE",
        code::NOT_INITIALIZED => c"CUPTI_ERROR_NOT_INITIALIZED",
        code::QUEUE_EMPTY => c"CUPTI_ERROR_QUEUE_EMPTY",
        code::INVALID_KIND => c"CUPTI_ERROR_INVALID_KIND",
        code::NOT_SUPPORTED => c"CUPTI_ERROR_NOT_SUPPORTED",
        _ => c"CUPTI_ERROR_UNKNOWN",
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiGetResultString(result: u32, text: *mut *const c_char) -> Code {
    // SAFETY: the program gives NULL or room for a pointer.
    unsafe { put(text, result_name(result).as_ptr()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiGetErrorMessage(result: u32, text: *mut *const c_char) -> Code {
    // SAFETY: as above.
    unsafe { put(text, result_name(result).as_ptr()) }
}
