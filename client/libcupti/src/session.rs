//! The session's functions, found in floe's `libcuda.so.1` of this process.
//! In: plain data. Out: results of CUPTI, and rows. It never falls back to another library.

use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

use floe_cupti::table::{Calls, Find, Row, SYMBOL, VERSION};
use floe_cupti::{Code, code};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

fn calls() -> Option<&'static Calls> {
    static FOUND: OnceLock<Option<&'static Calls>> = OnceLock::new();
    *FOUND.get_or_init(find)
}

fn find() -> Option<&'static Calls> {
    // SAFETY: loading runs initialisers of the libcuda that this process has or finds, as the CUDA runtime does.
    let library = unsafe { Library::open(Some("libcuda.so.1"), RTLD_NOW | RTLD_LOCAL) }.ok()?;
    // SAFETY: a library that has this symbol is floe's, where it is such a function.
    let find = unsafe { library.get::<Find>(SYMBOL.to_bytes_with_nul()) }.ok().map(|find| *find)?;
    // floe's stays to the process's end.
    std::mem::forget(library);
    // SAFETY: the function takes a number and gives NULL or a table that stays.
    unsafe { find(VERSION).as_ref() }
}

/// A result of the session's; NOT_INITIALIZED where this process has another libcuda.
fn answer(ask: impl FnOnce(&Calls) -> Code) -> Code {
    calls().map_or(code::NOT_INITIALIZED, ask)
}

/// Has these bits be recorded from here on, and nothing else.
pub(crate) fn want(wanted: u32) -> Code {
    // SAFETY: a number.
    answer(|calls| unsafe { (calls.want)(wanted) })
}

/// The program's id for the calls of this thread.
pub(crate) fn push(kind: u32, id: u64) -> Code {
    // SAFETY: numbers.
    answer(|calls| unsafe { (calls.push)(kind, id) })
}

/// The last id of that kind, which ends.
pub(crate) fn pop(kind: u32) -> Result<u64, Code> {
    let mut id = 0;
    // SAFETY: a number, and the output is our own.
    match answer(|calls| unsafe { (calls.pop)(kind, &raw mut id) }) {
        code::SUCCESS => Ok(id),
        code => Err(code),
    }
}

/// All that has been recorded since the last time.
pub(crate) fn take<R>(forced: bool, mut keep: impl FnMut(&Row) -> R) -> Code {
    unsafe extern "C" fn each<F: FnMut(&Row) -> R, R>(user: *mut c_void, row: *const Row) {
        // SAFETY: `user` is the closure below, which lives as long as the call; the row does, too.
        let (keep, row) = unsafe { (&mut *user.cast::<F>(), &*row) };
        keep(row);
    }
    fn of<F: FnMut(&Row) -> R, R>(_: &F) -> floe_cupti::table::Take {
        each::<F, R>
    }
    let function = of(&keep);
    // SAFETY: the function takes this closure, which outlives the call.
    answer(|calls| unsafe { (calls.take)(forced.into(), function, (&raw mut keep).cast()) })
}

/// The program's monotonic clock in nanoseconds; 0 where this process has another libcuda.
pub(crate) fn now() -> u64 {
    // SAFETY: it takes nothing.
    calls().map_or(0, |calls| unsafe { (calls.now)() })
}

/// Records that were lost so far.
pub(crate) fn lost() -> u64 {
    // SAFETY: it takes nothing.
    calls().map_or(0, |calls| unsafe { (calls.lost)() })
}

/// Has the log name a function that is not there.
pub(crate) fn refuse(name: &'static CStr) -> Code {
    if let Some(calls) = calls() {
        // SAFETY: the name is our own and ends.
        unsafe { (calls.refused)(name.as_ptr()) };
    }
    code::NOT_SUPPORTED
}
