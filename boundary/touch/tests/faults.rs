//! Faults of a process that watches pages: those of watched pages reach the fault handler, all others the program's own
//! action. Each case runs this program once more as a process of its own, since most cases end by a signal.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, OnceLock};

use floe_touch::{Access, FaultHandler, HostFunctionContext, PAGE, PageFault, Span, Watch, install};

const AT: u64 = 0x5200_0000_0000;
const PAGES: Range<u64> = AT..AT + 16 * PAGE;
/// Which case this process is to be.
const CASE: &str = "FLOE_TOUCH_CASE";

/// Opens touched pages, but for the last one, which it refuses.
struct Opens {
    span: Span,
    faults: AtomicU32,
    in_host_function: AtomicU32,
}

impl FaultHandler for Opens {
    fn handle(&self, fault: PageFault) -> bool {
        self.faults.fetch_add(1, Ordering::SeqCst);
        self.in_host_function.fetch_add(u32::from(fault.in_host_function), Ordering::SeqCst);
        let page = fault.address - fault.address % PAGE;
        let access = if fault.writes { Access::Open } else { Access::Reads };
        page + PAGE < PAGES.end && self.span.allow(&(page..page + PAGE), access)
    }
}

fn watched() -> (&'static Opens, Watch) {
    static OPENS: OnceLock<Arc<Opens>> = OnceLock::new();
    let span = Span::take(PAGES.start, PAGES.end - PAGES.start).unwrap();
    let opens = Arc::new(Opens { span, faults: AtomicU32::new(0), in_host_function: AtomicU32::new(0) });
    let watch = Watch::start(PAGES, Arc::clone(OPENS.get_or_init(|| opens)) as Arc<dyn FaultHandler>).unwrap();
    (OPENS.get().unwrap(), watch)
}

fn read(at: u64) -> u8 {
    // SAFETY: a page of the span's, or one whose fault is the case's point.
    unsafe { (at as *const u8).read_volatile() }
}

fn write(at: u64, byte: u8) {
    // SAFETY: as above.
    unsafe { (at as *mut u8).write_volatile(byte) };
}

/// Nothing is ever mapped there.
const NOWHERE: u64 = 0x10;

fn install_action(handler: usize, flags: c_int) -> usize {
    // SAFETY: plain numbers, of which zeros are no action.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    (action.sa_sigaction, action.sa_flags) = (handler, flags);
    // SAFETY: the handlers below take what their flags say.
    assert_eq!(unsafe { libc::sigaction(libc::SIGSEGV, &raw const action, &raw mut before) }, 0);
    before.sa_sigaction
}

extern "C" fn exit_42(_signal: c_int) {
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(42) };
}

/// The action before the program's handler, which that one calls.
static BEFORE: AtomicUsize = AtomicUsize::new(0);
static PASSED: AtomicU32 = AtomicU32::new(0);

extern "C" fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    if PASSED.fetch_add(1, Ordering::SeqCst) > 10 {
        // SAFETY: ends the process at once: the handlers pass the fault round and round.
        unsafe { libc::_exit(99) };
    }
    // SAFETY: the handler that was installed with SA_SIGINFO before.
    let before: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
        unsafe { std::mem::transmute(BEFORE.load(Ordering::SeqCst)) };
    before(signal, info, context);
}

thread_local! {
    /// Where a thread continues that leaves its handler by a jump.
    static BACK: Cell<*const libc::ucontext_t> = const { Cell::new(ptr::null()) };
}

extern "C" fn jump_out(_signal: c_int) {
    // SAFETY: the thread stands in `swapcontext`, which wrote this.
    unsafe { libc::setcontext(BACK.get()) };
}

extern "C" fn fault() {
    read(NOWHERE);
}

/// Faults on a stack of its own. The handler continues here and never returns, as one that calls `siglongjmp`.
fn fault_and_jump_out() {
    let mut stack = vec![0_u8; 64 << 10];
    // SAFETY: plain numbers and addresses, to be filled.
    let mut back: libc::ucontext_t = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut faults: libc::ucontext_t = unsafe { std::mem::zeroed() };
    // SAFETY: a struct of our own; nobody goes back to here.
    assert_eq!(unsafe { libc::getcontext(&raw mut faults) }, 0);
    (faults.uc_stack.ss_sp, faults.uc_stack.ss_size) = (stack.as_mut_ptr().cast(), stack.len());
    // SAFETY: was got above, and its stack lives as long as this call.
    unsafe { libc::makecontext(&raw mut faults, fault, 0) };
    BACK.set(&raw const back);
    // SAFETY: both are whole; the handler comes back here, once.
    assert_eq!(unsafe { libc::swapcontext(&raw mut back, &raw const faults) }, 0);
}

fn handlers_that_jump_out_leave_nothing_behind() {
    install_action(jump_out as extern "C" fn(c_int) as usize, 0);
    let (opens, _watch) = watched();
    for turn in 0..1000 {
        fault_and_jump_out();
        write(AT + turn % 15 * PAGE, 1);
    }
    assert_eq!(opens.faults.load(Ordering::SeqCst), 15);
    // More threads than there are places for, first all alive, then ended.
    for _ in 0..2 {
        let all = Arc::new(Barrier::new(100));
        let jump = |all: Arc<Barrier>| {
            (0..3).for_each(|_| fault_and_jump_out());
            all.wait();
        };
        let threads: Vec<_> =
            (0..100).map(|_| Arc::clone(&all)).map(|all| std::thread::spawn(move || jump(all))).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
    opens.span.allow(&(AT..AT + PAGE), Access::Closed);
    assert_eq!((read(AT), opens.faults.load(Ordering::SeqCst)), (1, 16));
    // A handler that passes faults on is still recognised as nested.
    let passes = pass_on as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize;
    BEFORE.store(install_action(passes, libc::SA_SIGINFO), Ordering::SeqCst);
    install();
    for turn in 1..=3 {
        fault_and_jump_out();
        assert_eq!(PASSED.load(Ordering::SeqCst), turn);
    }
}

fn page_faults_are_answered() {
    let (opens, _watch) = watched();
    assert_eq!(read(AT), 0);
    write(AT, 7);
    write(AT + PAGE, 8);
    assert_eq!((read(AT), read(AT + PAGE), opens.faults.load(Ordering::SeqCst)), (7, 8, 3));
    let turn = HostFunctionContext::begin();
    assert_eq!((read(AT + 2 * PAGE), opens.in_host_function.load(Ordering::SeqCst)), (0, 1));
    drop(turn);
    assert_eq!((read(AT + 3 * PAGE), opens.in_host_function.load(Ordering::SeqCst)), (0, 1));
}

fn many_threads_fault_at_once() {
    let (opens, _watch) = watched();
    let threads: Vec<_> = (0..8)
        .map(|thread| {
            std::thread::spawn(move || {
                (0..2000u64).for_each(|turn| write(AT + (turn * 7 + thread) % 15 * PAGE + thread, 1));
            })
        })
        .collect();
    let closing = std::thread::spawn(move || {
        for turn in 0..2000 {
            let page = AT + turn % 15 * PAGE;
            opens.span.allow(&(page..page + PAGE), Access::Closed);
        }
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    closing.join().unwrap();
    assert!(opens.faults.load(Ordering::SeqCst) >= 15);
}

/// The cases: what each does, and how its process ends.
fn run(case: &str) {
    match case {
        "answered" => page_faults_are_answered(),
        "jumps" => handlers_that_jump_out_leave_nothing_behind(),
        "threads" => many_threads_fault_at_once(),
        "before" => {
            install_action(exit_42 as extern "C" fn(c_int) as usize, 0);
            let (_, _watch) = watched();
            assert_eq!(read(AT), 0);
            read(NOWHERE);
        }
        "later" => {
            let (_, _watch) = watched();
            install_action(exit_42 as extern "C" fn(c_int) as usize, 0);
            install();
            assert_eq!(read(AT), 0);
            read(NOWHERE);
        }
        "passes" => {
            let (_, _watch) = watched();
            let handler = pass_on as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize;
            BEFORE.store(install_action(handler, libc::SA_SIGINFO), Ordering::SeqCst);
            install();
            assert_eq!(read(AT), 0);
            read(NOWHERE);
        }
        "ignored" => {
            install_action(libc::SIG_IGN, 0);
            let (_, _watch) = watched();
            // SAFETY: a signal that is ignored.
            unsafe { libc::raise(libc::SIGSEGV) };
            std::process::exit(17);
        }
        "sent" => {
            let (_, _watch) = watched();
            // SAFETY: nobody handles it: it ends the process.
            unsafe { libc::raise(libc::SIGSEGV) };
        }
        "nobody" => {
            let (_, _watch) = watched();
            read(NOWHERE);
        }
        "refused" => {
            let (_, _watch) = watched();
            read(PAGES.end - PAGE);
        }
        "given up" => {
            let (_, watch) = watched();
            drop(watch);
            read(AT);
        }
        "forked" => {
            let (_, _watch) = watched();
            // SAFETY: the child only touches and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                read(AT);
                // SAFETY: ends the child at once.
                unsafe { libc::_exit(0) };
            }
            let mut status = 0;
            // SAFETY: our own child.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            std::process::exit(if libc::WIFSIGNALED(status) { 17 } else { 1 });
        }
        _ => unreachable!("{case}"),
    }
}

/// Runs a case: its exit code, or the signal that ended it, negative.
fn outcome(case: &str) -> i32 {
    let program = std::env::current_exe().unwrap();
    let status = Command::new(program)
        .args(["--exact", "this_process_is_a_case", "--nocapture", "--test-threads=1"])
        .env(CASE, case)
        .status()
        .unwrap();
    status.code().unwrap_or_else(|| -status.signal().unwrap())
}

#[test]
fn this_process_is_a_case() {
    if let Ok(case) = std::env::var(CASE) {
        // SAFETY: only this thread uses it. Rust's own handler of stack overflows is none of the program's.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
        run(&case);
    }
}

#[test]
fn page_faults_of_watched_pages_are_answered() {
    assert_eq!([outcome("answered"), outcome("threads")], [0, 0]);
}

#[test]
fn other_faults_go_to_the_program_whenever_it_installed_its_handler() {
    assert_eq!([outcome("before"), outcome("later")], [42, 42]);
}

#[test]
fn a_handler_that_calls_the_one_before_ends_as_that_one_does() {
    assert_eq!(outcome("passes"), -libc::SIGSEGV);
}

#[test]
fn a_handler_that_jumps_out_may_do_so_again_and_again() {
    assert_eq!(outcome("jumps"), 0);
}

#[test]
fn without_a_handler_the_kernel_acts() {
    assert_eq!(["ignored", "sent", "nobody"].map(outcome), [17, -libc::SIGSEGV, -libc::SIGSEGV]);
}

#[test]
fn pages_that_the_handler_refuses_or_has_left_fault() {
    assert_eq!(["refused", "given up"].map(outcome), [-libc::SIGSEGV, -libc::SIGSEGV]);
}

#[test]
fn a_forked_child_has_none_of_it() {
    assert_eq!(outcome("forked"), 17);
}
