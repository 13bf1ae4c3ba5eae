//! Passes faults of other pages to the action that the signal had before, as the kernel would have done. Actions come
//! in as they are found. Each fault goes to the last one; if that one calls the handler it had found, which may be
//! ours, the fault goes to the one before. The kernel's own action comes last. A handler may also leave by a jump and
//! never return.

use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Programs install one handler, or two.
const MOST: usize = 8;

/// An earlier action. Written once, before it is counted.
struct Action {
    handler: AtomicUsize,
    flags: AtomicI32,
    /// Signals blocked meanwhile, of the first 64.
    mask: AtomicU64,
}

/// A thread that passes a fault on. Only this thread writes the entry, but for a thread that takes it over.
struct Passing {
    /// 0: free.
    thread: AtomicU32,
    /// Grows with every claim: the smallest belongs to the oldest entry.
    since: AtomicU64,
    info: AtomicUsize,
    level: AtomicUsize,
    frame: AtomicUsize,
}

/// One call of an earlier handler.
#[derive(Clone, Copy)]
struct Step {
    /// Address of the signal's information: the same in a nested call, which the called handler makes.
    info: usize,
    level: usize,
    /// Stack address of our call: nested calls lie below it.
    frame: usize,
}

static ACTIONS: [Action; MOST] =
    [const { Action { handler: AtomicUsize::new(libc::SIG_DFL), flags: AtomicI32::new(0), mask: AtomicU64::new(0) } };
        MOST];
static COUNT: AtomicUsize = AtomicUsize::new(0);
static CLAIMS: AtomicU64 = AtomicU64::new(0);
static PASSING: [Passing; 64] = [const { Passing::new() }; 64];

impl Passing {
    const fn new() -> Self {
        let (thread, since) = (AtomicU32::new(0), AtomicU64::new(0));
        Self { thread, since, info: AtomicUsize::new(0), level: AtomicUsize::new(0), frame: AtomicUsize::new(0) }
    }

    fn of(thread: u32) -> Option<&'static Self> {
        PASSING.iter().find(|passing| passing.thread.load(Ordering::Relaxed) == thread)
    }

    /// An entry for this thread: a free one, else one of a thread that has ended, else the oldest. The thread that
    /// loses its entry has most likely left its handler by a jump. If not, it only calls one handler twice.
    fn claim(thread: u32) -> &'static Self {
        loop {
            let free = || Self::of(0).map(|free| (free, 0));
            let taken = || PASSING.iter().map(|passing| (passing, passing.thread.load(Ordering::Relaxed)));
            let ended = || taken().find(|(_, thread)| has_ended(*thread));
            let oldest = || taken().min_by_key(|(passing, _)| passing.since.load(Ordering::Relaxed));
            let found = free().or_else(ended).or_else(oldest);
            if let Some(own) = found.and_then(|(passing, before)| passing.take(before, thread)) {
                return own;
            }
        }
    }

    /// Takes the entry from the thread before, unless another thread was quicker.
    fn take(&'static self, before: u32, thread: u32) -> Option<&'static Self> {
        self.thread.compare_exchange(before, thread, Ordering::Relaxed, Ordering::Relaxed).ok()?;
        self.since.store(CLAIMS.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        Some(self)
    }

    fn step(&self) -> Step {
        let [info, level, frame] = [&self.info, &self.level, &self.frame].map(|word| word.load(Ordering::Relaxed));
        Step { info, level, frame }
    }

    fn set(&self, step: Step) {
        self.info.store(step.info, Ordering::Relaxed);
        self.level.store(step.level, Ordering::Relaxed);
        self.frame.store(step.frame, Ordering::Relaxed);
    }

    /// The handler has returned: restores the step before it, if there was one.
    fn go_back(&self, thread: u32, before: Option<Step>) {
        if self.thread.load(Ordering::Relaxed) != thread {
            return;
        }
        self.set(before.unwrap_or(Step { info: 0, level: 0, frame: 0 }));
        if before.is_none() {
            let _ = self.thread.compare_exchange(thread, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

/// Whether no thread of this process has the number any more.
fn has_ended(thread: u32) -> bool {
    let process = rustix::process::getpid().as_raw_nonzero().get();
    // SAFETY: signal 0 is sent to nobody; the call only says whether the thread is there.
    unsafe { libc::syscall(libc::SYS_tgkill, process, thread, 0) != 0 }
}

/// No signals.
pub(crate) fn no_signals() -> libc::sigset_t {
    // SAFETY: a set is plain numbers, for which zeros are the empty set on Linux.
    unsafe { std::mem::zeroed() }
}

/// An empty action.
pub(crate) fn no_action() -> libc::sigaction {
    // SAFETY: an action is plain numbers, of which zeros are the system's own action.
    unsafe { std::mem::zeroed() }
}

/// Adds an action that was found installed. The caller holds the lock under which actions change.
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
    let here = 0_u8;
    let frame = black_box(ptr::from_ref(&here)).addr();
    let thread = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
    let own = Passing::of(thread);
    // Stacks grow down: a call made at this frame or below it was left by a jump, or this one would lie below it.
    let before = own.map(Passing::step).filter(|before| frame < before.frame);
    let nested = before.filter(|before| before.info == info.addr());
    let levels = nested.map_or_else(|| COUNT.load(Ordering::Acquire), |nested| nested.level);
    let Some(level) = levels.checked_sub(1) else {
        return by_system(signal, info);
    };
    let own = own.unwrap_or_else(|| Passing::claim(thread));
    own.set(Step { info: info.addr(), level, frame });
    call(&ACTIONS[level], signal, info, context);
    own.go_back(thread, before);
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

/// Leaves the signal to the kernel. A faulting instruction faults again when the handler returns; a signal that was
/// sent is sent once more.
fn by_system(signal: c_int, info: *mut libc::siginfo_t) {
    // SAFETY: restores the kernel's own action.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    // SAFETY: the system passes a handler with SA_SIGINFO what happened.
    if unsafe { (*info).si_code } <= 0 {
        // SAFETY: the signal this thread got just now.
        unsafe { libc::raise(signal) };
    }
}
