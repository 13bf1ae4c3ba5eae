//! Where faults go that are nobody's here: to the action the signal had before, exactly as the system would have done it.
//! Actions come in as they are found in place; each fault goes to the last one, and where that one calls the handler it had
//! found itself, which may be ours, to the one before. What is left in the end is the system's own action.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Programs put one handler in front, or two.
const MOST: usize = 8;

/// An action of before. Written once, before it is counted.
struct Action {
    handler: AtomicUsize,
    flags: AtomicI32,
    /// Signals blocked meanwhile, of the first 64.
    mask: AtomicU64,
}

/// A thread that has passed a fault on.
struct Passing {
    /// 0: free.
    thread: AtomicU32,
    /// Where what happened is told: the same for who is called by whom we called.
    info: AtomicUsize,
    level: AtomicUsize,
}

static ACTIONS: [Action; MOST] =
    [const { Action { handler: AtomicUsize::new(libc::SIG_DFL), flags: AtomicI32::new(0), mask: AtomicU64::new(0) } };
        MOST];
static COUNT: AtomicUsize = AtomicUsize::new(0);
static PASSING: [Passing; 64] =
    [const { Passing { thread: AtomicU32::new(0), info: AtomicUsize::new(0), level: AtomicUsize::new(0) } }; 64];

/// No signals.
pub(crate) fn no_signals() -> libc::sigset_t {
    // SAFETY: a set is plain numbers, for which zeros are the empty set on Linux.
    unsafe { std::mem::zeroed() }
}

/// An action that says nothing.
pub(crate) fn no_action() -> libc::sigaction {
    // SAFETY: an action is plain numbers, of which zeros are the system's own action.
    unsafe { std::mem::zeroed() }
}

/// This action was found in place. The caller holds the lock under which actions change.
pub(crate) fn push(action: &libc::sigaction) {
    let count = COUNT.load(Ordering::Relaxed);
    let known = |level: usize| ACTIONS[level].handler.load(Ordering::Relaxed) == action.sa_sigaction;
    if count > 0 && known(count - 1) {
        return;
    }
    let level = count.min(MOST - 1);
    let place = &ACTIONS[level];
    place.flags.store(action.sa_flags, Ordering::Relaxed);
    for signal in 1..=64 {
        // SAFETY: reads a set that was found in place.
        if unsafe { libc::sigismember(&raw const action.sa_mask, signal) } == 1 {
            place.mask.fetch_or(bit(signal), Ordering::Relaxed);
        }
    }
    place.handler.store(action.sa_sigaction, Ordering::Relaxed);
    COUNT.store(level + 1, Ordering::Release);
}

/// Passes a signal on.
pub(crate) fn pass(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let thread = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
    let own = PASSING.iter().find(|passing| passing.thread.load(Ordering::Relaxed) == thread);
    let is_nested = own.is_some_and(|own| own.info.load(Ordering::Relaxed) == info as usize);
    let count = COUNT.load(Ordering::Acquire);
    let levels = match own {
        Some(own) if is_nested => own.level.load(Ordering::Relaxed),
        _ => count,
    };
    let claim =
        |passing: &&Passing| passing.thread.compare_exchange(0, thread, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    let (Some(level), Some(own)) = (levels.checked_sub(1), own.or_else(|| PASSING.iter().find(claim))) else {
        return by_system(signal, info);
    };
    own.info.store(info as usize, Ordering::Relaxed);
    own.level.store(level, Ordering::Relaxed);
    call(&ACTIONS[level], signal, info, context);
    own.level.store(levels, Ordering::Relaxed);
    if !is_nested {
        own.info.store(0, Ordering::Relaxed);
        own.thread.store(0, Ordering::Relaxed);
    }
}

fn call(action: &Action, signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let (handler, flags) = (action.handler.load(Ordering::Relaxed), action.flags.load(Ordering::Relaxed));
    // SAFETY: the system passes a handler with SA_SIGINFO what happened.
    let is_sent = unsafe { (*info).si_code } <= 0;
    match handler {
        libc::SIG_IGN if is_sent => return,
        libc::SIG_DFL | libc::SIG_IGN => return by_system(signal, info),
        _ => {}
    }
    if flags & libc::SA_RESETHAND != 0 {
        action.handler.store(libc::SIG_DFL, Ordering::Relaxed);
    }
    let (blocked, mut before) = (blocked_by(action, signal, flags), no_signals());
    // SAFETY: changes the calling thread's mask as the system would have for this handler.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const blocked, &raw mut before) };
    if flags & libc::SA_SIGINFO != 0 {
        // SAFETY: the program installed this address as a handler that takes all three.
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = unsafe { std::mem::transmute(handler) };
        handler(signal, info, context);
    } else {
        // SAFETY: the program installed this address as a handler that takes the signal's number.
        let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
        handler(signal);
    }
    // SAFETY: what it was before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
}

/// A signal, from 1 to 64, in a mask.
fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

fn blocked_by(action: &Action, signal: c_int, flags: c_int) -> libc::sigset_t {
    let mut blocked = no_signals();
    for number in 1..=64 {
        let own = flags & libc::SA_NODEFER == 0 && number == signal;
        if own || action.mask.load(Ordering::Relaxed) & bit(number) != 0 {
            // SAFETY: a set of our own.
            unsafe { libc::sigaddset(&raw mut blocked, number) };
        }
    }
    blocked
}

/// Leaves the signal to the system: an instruction that faults does so again when the handler is over, and what was sent is
/// sent once more.
fn by_system(signal: c_int, info: *mut libc::siginfo_t) {
    // SAFETY: the system's own action, as if nobody had ever been here.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    // SAFETY: the system passes a handler with SA_SIGINFO what happened.
    if unsafe { (*info).si_code } <= 0 {
        // SAFETY: the signal this thread got just now.
        unsafe { libc::raise(signal) };
    }
}
