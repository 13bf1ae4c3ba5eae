//! The signal handler. A page fault of a watched page waits until its fault handler has decided; every other fault goes
//! to the action the signal had before. The first watch installs the handler; later calls reinstall it if the program
//! has installed its own, which then gets the faults of other pages. In a forked child nothing is watched.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::{chain, registry};

/// The process whose page faults are handled.
static OWN: AtomicI32 = AtomicI32::new(0);

/// Installs the signal handler in front of all others. Call it before pages are closed and after waits: a program may
/// install a handler at any time.
pub fn install() {
    static INSTALLING: Mutex<()> = Mutex::new(());
    if others().is_none() {
        return;
    }
    let _installing = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    // Another thread may have installed it before this one had the lock.
    let Some(present) = others() else { return };
    OWN.store(process(), Ordering::Release);
    // Before ours is in place: the first fault may come at once.
    chain::push(&present);
    let before = replace(present);
    // The program may have installed another one meanwhile; a known one is not pushed twice.
    if let Some(before) = before.filter(is_others) {
        chain::push(&before);
    }
}

/// Replaces this action by our own; returns the one that was installed.
fn replace(present: libc::sigaction) -> Option<libc::sigaction> {
    let (mut own, mut before) = (present, chain::no_action());
    own.sa_sigaction = own_action();
    // It runs on the program's own signal stack where there is one. Functions that the handler calls may fault again.
    own.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_RESTART;
    // SAFETY: a set of our own, to be made empty.
    unsafe { libc::sigemptyset(&raw mut own.sa_mask) };
    // SAFETY: the action is whole, its handler is one for SA_SIGINFO, and the one before goes into a struct of our own.
    let installed = unsafe { libc::sigaction(libc::SIGSEGV, &raw const own, &raw mut before) };
    (installed == 0).then_some(before)
}

/// Blocks signals in the calling thread, but those of its own instructions. A handler of the program that ran here
/// might touch a page that this thread is to open.
pub(crate) fn block_signals() {
    let _ = change_signals(libc::SIG_BLOCK, &all_signals());
}

/// The same until this is dropped.
pub(crate) struct SignalsBlocked {
    before: libc::sigset_t,
}

impl SignalsBlocked {
    /// Begins it for the calling thread.
    pub(crate) fn begin() -> Self {
        Self { before: change_signals(libc::SIG_BLOCK, &all_signals()) }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        let _ = change_signals(libc::SIG_SETMASK, &self.before);
    }
}

/// All signals but those of a thread's own instructions.
fn all_signals() -> libc::sigset_t {
    let mut all = chain::no_signals();
    // SAFETY: a set of our own, to be filled.
    unsafe { libc::sigfillset(&raw mut all) };
    for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGABRT] {
        // SAFETY: a set of our own.
        unsafe { libc::sigdelset(&raw mut all, signal) };
    }
    all
}

/// Changes the calling thread's blocked signals; returns those before.
fn change_signals(how: c_int, signals: &libc::sigset_t) -> libc::sigset_t {
    let mut before = chain::no_signals();
    // SAFETY: changes the calling thread alone, which asks for it. Both sets are our own.
    unsafe { libc::pthread_sigmask(how, std::ptr::from_ref(signals), &raw mut before) };
    before
}

fn process() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

fn own_action() -> usize {
    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_fault;
    handler as usize
}

fn is_others(action: &libc::sigaction) -> bool {
    action.sa_sigaction != own_action()
}

/// The action in place, where it is not ours.
fn others() -> Option<libc::sigaction> {
    present().filter(is_others)
}

fn present() -> Option<libc::sigaction> {
    let mut action = chain::no_action();
    // SAFETY: asks only, into a struct of our own.
    let asked = unsafe { libc::sigaction(libc::SIGSEGV, std::ptr::null(), &raw mut action) };
    (asked == 0).then_some(action)
}

extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the thread's own word, which is always there.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { errno.read() };
    // SAFETY: the system passes a handler with SA_SIGINFO what happened.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as u64) };
    // A signal that a process sent is no fault.
    let is_fault = code > 0 && code != libc::SI_KERNEL;
    if !(is_fault && registry::is_watched(address) && retries(address, context)) {
        chain::pass(signal, info, context);
    }
    // SAFETY: as above.
    unsafe { errno.write(before) };
}

fn retries(address: u64, context: *mut c_void) -> bool {
    if process() != OWN.load(Ordering::Acquire) {
        say("floe: a forked process touched managed memory, which is its parent's alone\n");
        return false;
    }
    registry::wait(address, writes(context))
}

/// Whether the thread writes: bit 1 of the processor's page fault code.
#[cfg(target_arch = "x86_64")]
fn writes(context: *mut c_void) -> bool {
    let context = context.cast::<libc::ucontext_t>();
    let place = usize::try_from(libc::REG_ERR).unwrap_or_default();
    // SAFETY: the system passes a handler with SA_SIGINFO the interrupted thread's registers.
    let code = unsafe { (*context).uc_mcontext.gregs[place] };
    code & 2 != 0
}

/// A read taken for a write costs a needless send, never lost bytes.
#[cfg(not(target_arch = "x86_64"))]
fn writes(_context: *mut c_void) -> bool {
    true
}

/// Writes to stderr without a lock or memory.
fn say(words: &str) {
    // SAFETY: bytes of our own.
    unsafe { libc::write(2, words.as_ptr().cast(), words.len()) };
}
