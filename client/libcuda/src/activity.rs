//! The table of functions for floe's `libcupti.so.13`: C's pointers come in, the session's typed calls go out.
//! In: calls of the one library that looks the table up. Out: results of CUPTI, and rows. No panic leaves it. It finds out
//! who makes a driver call, too: the stack is looked through as far as to the caller.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use floe_cupti::table::{Calls, Take, VERSION};
use floe_cupti::{Code, code};
use floe_session::{Caller, Client};

static CALLS: Calls = Calls { version: VERSION, want, push, pop, take, now, lost, refused };

/// The table of that version; NULL where this library has another. CUDA has no such name.
#[unsafe(no_mangle)]
extern "C" fn floe_activities(version: u32) -> *const Calls {
    if version != VERSION {
        return std::ptr::null();
    }
    Client::of_process().find_callers_by(caller);
    &raw const CALLS
}

fn guard(act: impl FnOnce() -> Code) -> Code {
    // State that a panic leaves half done is behind locks, which later users take as they find it.
    catch_unwind(AssertUnwindSafe(act)).unwrap_or(code::UNKNOWN)
}

unsafe extern "C" fn want(wanted: u32) -> Code {
    guard(|| Client::of_process().want_activities(wanted).map_or(code::NOT_SUPPORTED, |()| code::SUCCESS))
}

unsafe extern "C" fn push(kind: u32, id: u64) -> Code {
    guard(|| if Client::push_activity_id(kind, id) { code::SUCCESS } else { code::MAX_LIMIT_REACHED })
}

unsafe extern "C" fn pop(kind: u32, id: *mut u64) -> Code {
    guard(|| {
        let Some(last) = Client::pop_activity_id(kind) else { return code::QUEUE_EMPTY };
        // SAFETY: the library gives room for it.
        unsafe { id.write(last) };
        code::SUCCESS
    })
}

unsafe extern "C" fn take(forced: u32, take: Take, user: *mut c_void) -> Code {
    guard(|| {
        // SAFETY: the library's function takes rows with what it has given for them.
        let mut give = |row: &floe_cupti::table::Row| unsafe { take(user, row) };
        let taken = Client::of_process().take_activities(forced != 0, &mut give);
        taken.map_or(code::UNKNOWN, |()| code::SUCCESS)
    })
}

unsafe extern "C" fn now() -> u64 {
    Client::activity_clock()
}

unsafe extern "C" fn lost() -> u64 {
    Client::of_process().lost_activities()
}

unsafe extern "C" fn refused(name: *const c_char) {
    if name.is_null() {
        return;
    }
    // SAFETY: it is a name of the library's own.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let _ = catch_unwind(AssertUnwindSafe(|| Client::refuse_activity(&name)));
}

/// What an address of code belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Home {
    ThisLibrary,
    Runtime,
    Another,
}

/// The names of libraries that are NVIDIA's CUDA runtime begin so.
const RUNTIME: &[u8] = b"libcudart.so";
/// Frames that are looked at: a call has few of this library's.
const MOST_FRAMES: u32 = 64;

type Context = c_void;

unsafe extern "C" {
    fn _Unwind_Backtrace(each: unsafe extern "C" fn(*mut Context, *mut c_void) -> c_int, user: *mut c_void) -> c_int;
    fn _Unwind_GetIP(context: *mut Context) -> usize;
}

/// `_URC_NO_REASON`: goes on.
const GO_ON: c_int = 0;
/// `_URC_END_OF_STACK`: stops.
const STOP: c_int = 5;

fn look_up(address: usize) -> (usize, Home) {
    let mut found = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: any address may be asked for, and the output is our own.
    let is_found = unsafe { libc::dladdr(std::ptr::without_provenance(address), &raw mut found) } != 0;
    if !is_found || found.dli_fname.is_null() {
        return (0, Home::Another);
    }
    // SAFETY: the loader's name of a library ends with a zero and lives as long as the library, whose code is on the stack.
    let path = unsafe { CStr::from_ptr(found.dli_fname) }.to_bytes();
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    (found.dli_fbase.addr(), if name.starts_with(RUNTIME) { Home::Runtime } else { Home::Another })
}

fn home(address: usize) -> Home {
    thread_local! {
        static KNOWN: RefCell<HashMap<usize, Home>> = RefCell::default();
    }
    /// Addresses at once: a program has few from which it makes driver calls.
    const MOST: usize = 1 << 14;
    let known = KNOWN.with_borrow(|known| known.get(&address).copied());
    known.unwrap_or_else(|| {
        let (base, home) = look_up(address);
        let is_own = base != 0 && base == look_up(caller as *const () as usize).0;
        let home = if is_own { Home::ThisLibrary } else { home };
        KNOWN.with_borrow_mut(|known| {
            if known.len() >= MOST {
                known.clear();
            }
            known.insert(address, home);
        });
        home
    })
}

struct Search {
    found: Home,
    frames: u32,
}

unsafe extern "C" fn each_frame(context: *mut Context, user: *mut c_void) -> c_int {
    // SAFETY: `caller` passes its search, and the unwinder its own context.
    let (search, address) = unsafe { (&mut *user.cast::<Search>(), _Unwind_GetIP(context)) };
    search.frames += 1;
    // An address of return may be the first behind a function that never returns.
    search.found = home(address.saturating_sub(1));
    if search.found == Home::ThisLibrary && search.frames < MOST_FRAMES { GO_ON } else { STOP }
}

/// Who makes this thread's present driver call: the first on the stack that is not of this library.
fn caller() -> Caller {
    let mut search = Search { found: Home::Another, frames: 0 };
    // SAFETY: the function gets this search, which outlives the call, and never unwinds itself.
    unsafe { _Unwind_Backtrace(each_frame, (&raw mut search).cast()) };
    // SAFETY: it takes nothing.
    let thread = unsafe { libc::pthread_self() };
    // CUPTI has the lower half, as programs that look for their threads among its records do.
    let thread = u32::try_from(thread & 0xffff_ffff).unwrap_or_default();
    Caller { is_runtime: search.found == Home::Runtime, thread }
}
