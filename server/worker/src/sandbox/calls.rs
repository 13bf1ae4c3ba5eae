//! System calls a worker may make, by seccomp.
//! In: nothing. Out: a process all of whose threads may make the calls listed here, and no other; fewer still once the driver
//! has started.
//! `docs/sandbox.md` says how the list came about; what is not on it is refused with EPERM and ends nothing.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Compare, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter_all_threads,
};

/// Calls that are allowed with any arguments. They act on the worker's descriptors, memory, threads, clocks and signal
/// handling, and on paths, where Landlock decides.
const PLAIN: &[c_long] = &[
    // Descriptors.
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_fallocate,
    libc::SYS_fdatasync,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_ftruncate,
    libc::SYS_getdents64,
    libc::SYS_lseek,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_read,
    libc::SYS_readahead,
    libc::SYS_readv,
    libc::SYS_splice,
    libc::SYS_vmsplice,
    libc::SYS_write,
    libc::SYS_writev,
    // Paths.
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_getcwd,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_readlinkat,
    libc::SYS_statfs,
    libc::SYS_statx,
    // Waiting.
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    // Sockets that are there: the client's, and the way to the daemon.
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    // Memory.
    libc::SYS_brk,
    libc::SYS_get_mempolicy,
    libc::SYS_madvise,
    libc::SYS_mbind,
    libc::SYS_membarrier,
    libc::SYS_memfd_create,
    libc::SYS_mincore,
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_msync,
    libc::SYS_munlock,
    libc::SYS_munmap,
    libc::SYS_set_mempolicy,
    // Threads and time.
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_futex_waitv,
    libc::SYS_get_robust_list,
    libc::SYS_getcpu,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getpriority,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_getuid,
    libc::SYS_nanosleep,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_sysinfo,
    libc::SYS_times,
    libc::SYS_uname,
    // How this process takes signals; whom it sends them to is below.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sigaltstack,
];

/// Calls with which NVIDIA's driver makes sockets while it starts. It looks for MPS, and lets processes find it with
/// which it shares memory; no session does that. It removes a file without a name and does not start where that is
/// refused; Landlock keeps those with names. All of it is allowed until the context is there, and sockets with
/// addresses of this machine only.
const STARTING: &[c_long] = &[
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_sendmsg,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    libc::SYS_unlinkat,
];

/// Older names of the same calls, which x86-64 has beside them.
#[cfg(target_arch = "x86_64")]
const OLDER: &[c_long] = &[
    libc::SYS_access,
    libc::SYS_arch_prctl,
    libc::SYS_dup2,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_getdents,
    libc::SYS_lstat,
    libc::SYS_open,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_select,
    libc::SYS_stat,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[c_long] = &[];

/// `prctl` options that name a thread, say how exact its timers are, or name memory.
const PROCESS_OPTIONS: [i32; 4] = [libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_SET_TIMERSLACK, libc::PR_SET_VMA];

/// `ioctl` numbers that type into terminals, one of which the log may be (`TIOCSTI`, `TIOCSCTTY`, `TIOCLINUX`), and those that
/// have a descriptor signal a process (`FIOSETOWN`, `SIOCSPGRP`).
const REFUSED_CONTROLS: [u64; 5] = [0x5412, 0x540E, 0x541C, 0x8901, 0x8902];
/// Kinds of `ioctl` numbers, their second byte, of file systems: they change what a file may be used for, whoever has it open
/// for reading (`FS_IOC_SETFLAGS`, `FS_IOC_FSSETXATTR`).
const REFUSED_KINDS: [u64; 2] = [0x66, 0x58];
/// `fcntl` numbers that have a descriptor signal a process: `F_SETOWN`, `F_SETSIG`, `F_SETOWN_EX`.
const REFUSED_DESCRIPTOR_COMMANDS: [u64; 3] = [8, 10, 15];
/// `fcntl` numbers from here on are Linux's own, such as leases, which keep others from opening a file. Only these of
/// them are allowed.
const LINUX_DESCRIPTOR_COMMANDS: u64 = 1024;
const ALLOWED_DESCRIPTOR_COMMANDS: [i32; 5] =
    [libc::F_DUPFD_CLOEXEC, libc::F_SETPIPE_SZ, libc::F_GETPIPE_SZ, libc::F_ADD_SEALS, libc::F_GET_SEALS];

/// Calls that free a descriptor's number or put another file there, and the argument that names it.
const KEEPING: &[(c_long, u8)] = &[
    (libc::SYS_close, 0),
    (libc::SYS_dup3, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_dup2, 1),
];

type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

/// `fallocate` modes from here on take pages away from a file (`FALLOC_FL_PUNCH_HOLE`).
const TAKES_PAGES: u64 = 2;
/// And from here on they do other things, which no file in memory does (`FALLOC_FL_NO_HIDE_STALE`).
const OTHER_MODES: u64 = 4;

/// Takes what only a driver's start needs. `reserved` is the only descriptor that `sendmsg` takes from here on. Pages are
/// taken away from the files at `own` only, which keep their numbers.
pub(super) fn restrict_further(reserved: Option<u32>, own: &[u32]) -> Result<(), String> {
    let started = started(reserved, own).map_err(|error| error.to_string())?;
    apply_filter_all_threads(&started).map_err(|error| error.to_string())
}

/// Refuses to make any new socket, and to take pages away that others count on; everything else is left to the earlier
/// filters.
fn started(reserved: Option<u32>, own: &[u32]) -> Result<BpfProgram, BackendError> {
    let refused = STARTING.iter().chain(&[libc::SYS_socket, libc::SYS_seccomp]).map(|call| (*call, Vec::new()));
    let mut refused: Rules = refused.collect();
    if let Some(reserved) = reserved {
        refused.insert(libc::SYS_sendmsg, vec![rule(vec![narrow(0, Compare::Ne, reserved.into())?])?]);
    }
    refused.insert(libc::SYS_madvise, vec![equal(2, libc::MADV_REMOVE.unsigned_abs().into())?]);
    let elsewhere = own.iter().map(|file| narrow(0, Compare::Ne, (*file).into()));
    let takes_pages: Result<_, _> = std::iter::once(narrow(1, Compare::Ge, TAKES_PAGES)).chain(elsewhere).collect();
    let takes_pages = rule(takes_pages?)?;
    refused.insert(libc::SYS_fallocate, vec![takes_pages, rule(vec![narrow(1, Compare::Ge, OTHER_MODES)?])?]);
    // No other file gets one of these numbers.
    for (call, argument) in KEEPING.iter().filter(|_| !own.is_empty()) {
        let numbers: Result<_, _> = own.iter().map(|file| equal(*argument, (*file).into())).collect();
        refused.insert(*call, numbers?);
    }
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    SeccompFilter::new(refused, SeccompAction::Allow, refuse, std::env::consts::ARCH.try_into()?)?.try_into()
}

/// Restricts every thread of this process.
pub(super) fn restrict() -> Result<(), String> {
    let words = |error: seccompiler::Error| error.to_string();
    // The list comes last: no further filter can be added under it.
    for filter in filters().map_err(|error| error.to_string())? {
        apply_filter_all_threads(&filter).map_err(words)?;
    }
    Ok(())
}

/// The filters: calls that seem to be missing, and calls that are allowed. No filter can see the flags of `clone3`, and
/// the C library takes `clone` where the kernel lacks it. The list lets `clone3` through, so that this is what the
/// kernel answers.
fn filters() -> Result<[BpfProgram; 3], BackendError> {
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let absent = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let allow = SeccompAction::Allow;
    let machine: TargetArch = std::env::consts::ARCH.try_into()?;
    let kinds: Result<_, _> = REFUSED_KINDS.iter().map(|kind| masked(1, 0xff00, kind << 8)).collect();
    let refused = BTreeMap::from([(libc::SYS_ioctl, kinds?)]);
    let refused = SeccompFilter::new(refused, allow.clone(), refuse.clone(), machine)?;
    let allowed = SeccompFilter::new(allowed()?, refuse, allow.clone(), machine)?;
    let absent = SeccompFilter::new(BTreeMap::from([(libc::SYS_clone3, Vec::new())]), allow, absent, machine)?;
    Ok([absent.try_into()?, refused.try_into()?, allowed.try_into()?])
}

fn allowed() -> Result<Rules, BackendError> {
    let mut rules: Rules = PLAIN.iter().chain(OLDER).chain(STARTING).map(|call| (*call, Vec::new())).collect();
    let own = u64::from(std::process::id());
    // For the filter that comes when the driver has started, and takes this away too.
    rules.insert(libc::SYS_seccomp, Vec::new());
    let of_this_machine = libc::AF_UNIX.unsigned_abs().into();
    rules.insert(libc::SYS_socket, vec![equal(0, of_this_machine)?]);
    rules.insert(libc::SYS_clone3, Vec::new());
    // Threads only, which also keeps namespaces out: the kernel refuses these together.
    let thread = libc::CLONE_THREAD.unsigned_abs().into();
    rules.insert(libc::SYS_clone, vec![masked(0, thread, thread)?]);
    // To this process itself, as `abort` does.
    rules.insert(libc::SYS_tgkill, vec![equal(0, own)?]);
    // A thread's own, or one of this process: the kernel takes 0 for the former, and others have no number here.
    rules.insert(libc::SYS_sched_setaffinity, vec![equal(0, 0)?]);
    let options: Result<Vec<_>, _> =
        PROCESS_OPTIONS.iter().map(|option| equal(0, option.unsigned_abs().into())).collect();
    let mut options = options?;
    // This is set already; adding a filter sets it again.
    let no_new_privs = libc::PR_SET_NO_NEW_PRIVS.unsigned_abs().into();
    options.push(rule(vec![narrow(0, Compare::Eq, no_new_privs)?, wide(1, Compare::Eq, 1)?])?);
    rules.insert(libc::SYS_prctl, options);
    // Asking for a limit, not setting one.
    rules.insert(libc::SYS_prlimit64, vec![rule(vec![wide(0, Compare::Eq, 0)?, wide(2, Compare::Eq, 0)?])?]);
    rules.insert(libc::SYS_ioctl, vec![none_of(1, &REFUSED_CONTROLS)?]);
    let older = narrow(1, Compare::Lt, LINUX_DESCRIPTOR_COMMANDS);
    let harmless = REFUSED_DESCRIPTOR_COMMANDS.iter().map(|command| narrow(1, Compare::Ne, *command));
    let older: Result<_, _> = std::iter::once(older).chain(harmless).collect();
    let newer = ALLOWED_DESCRIPTOR_COMMANDS.iter().map(|command| equal(1, command.unsigned_abs().into()));
    let commands: Result<_, _> = std::iter::once(rule(older?)).chain(newer).collect();
    rules.insert(libc::SYS_fcntl, commands?);
    // No address: neither a connection by MSG_FASTOPEN nor a datagram to somebody else. Once the driver has started,
    // before a byte of the client is read, `sendmsg` goes too, but for the reserved way to the daemon. It carries
    // descriptors: their receiver may have to wait as it closes one, and the kernel counts those in flight by user.
    let fast_open = libc::MSG_FASTOPEN.unsigned_abs().into();
    rules.insert(
        libc::SYS_sendto,
        vec![rule(vec![narrow(3, Compare::MaskedEq(fast_open), 0)?, wide(4, Compare::Eq, 0)?])?],
    );
    rules.insert(libc::SYS_sendmsg, vec![masked(2, fast_open, 0)?]);
    // Of kinds whose messages go nowhere but to the other end.
    let unix = libc::AF_UNIX.unsigned_abs().into();
    let pair = |kind: i32| {
        let kind = narrow(1, Compare::MaskedEq(0xf), kind.unsigned_abs().into())?;
        rule(vec![narrow(0, Compare::Eq, unix)?, kind])
    };
    rules.insert(libc::SYS_socketpair, vec![pair(libc::SOCK_STREAM)?, pair(libc::SOCK_SEQPACKET)?]);
    Ok(rules)
}

fn narrow(argument: u8, compare: Compare, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, Length::Dword, compare, value)
}

fn wide(argument: u8, compare: Compare, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, Length::Qword, compare, value)
}

/// Any value but these.
fn none_of(argument: u8, values: &[u64]) -> Result<SeccompRule, BackendError> {
    let conditions: Result<_, _> = values.iter().map(|value| narrow(argument, Compare::Ne, *value)).collect();
    rule(conditions?)
}

fn rule(conditions: Vec<SeccompCondition>) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(conditions)
}

fn equal(argument: u8, value: u64) -> Result<SeccompRule, BackendError> {
    rule(vec![narrow(argument, Compare::Eq, value)?])
}

fn masked(argument: u8, mask: u64, value: u64) -> Result<SeccompRule, BackendError> {
    rule(vec![narrow(argument, Compare::MaskedEq(mask), value)?])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    #[test]
    fn filters_are_made_for_this_machine() {
        assert!(filters().unwrap().iter().all(|program| !program.is_empty()));
    }

    #[test]
    fn calls_that_start_programs_reach_others_or_make_sockets_are_not_on_the_list() {
        let rules = allowed().unwrap();
        for call in [
            libc::SYS_execve,
            libc::SYS_execveat,
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_pidfd_open,
            libc::SYS_pidfd_getfd,
            libc::SYS_pidfd_send_signal,
            libc::SYS_kill,
            libc::SYS_tkill,
            libc::SYS_rt_sigqueueinfo,
            libc::SYS_accept4,
            libc::SYS_sendmmsg,
            libc::SYS_mount,
            libc::SYS_unshare,
            libc::SYS_setns,
            libc::SYS_bpf,
            libc::SYS_keyctl,
            libc::SYS_userfaultfd,
            libc::SYS_io_uring_setup,
            libc::SYS_perf_event_open,
            libc::SYS_kexec_load,
            libc::SYS_init_module,
            libc::SYS_finit_module,
            libc::SYS_fchmod,
            libc::SYS_fchmodat,
            libc::SYS_renameat2,
            libc::SYS_personality,
            libc::SYS_setrlimit,
            libc::SYS_memfd_secret,
            libc::SYS_close_range,
        ] {
            assert!(!rules.contains_key(&call), "call {call} is allowed");
        }
    }
}
