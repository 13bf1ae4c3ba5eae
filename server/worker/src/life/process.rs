//! This process as the kernel sees it: what it inherits, where its addresses lie, and how it ends.
//! In and out: nothing but the process.
//! All unsafe code of this crate is here: four calls of the C library.
#![expect(unsafe_code, reason = "the C library has these calls, no safe wrapper among our dependencies does")]

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;

use floe_device::room;
use rustix::process::{Resource, Rlimit, setrlimit};

use super::log::Log;

/// `ADDR_NO_RANDOMIZE` of `personality(2)`.
const ADDR_NO_RANDOMIZE: libc::c_ulong = libc::ADDR_NO_RANDOMIZE as libc::c_ulong;
/// Asks `personality(2)` for the value in force.
const ASK: libc::c_ulong = 0xffff_ffff;
/// Workers are ended before others when the machine runs out of memory: 1000 is the most.
const OOM_SCORE_ADJUSTMENT: i32 = 500;

/// Has the system bound what this process takes for itself, and take it first when the machine runs out of memory.
/// The sandbox lets it change neither. 0 bytes: no limit.
pub fn bound_host_memory(session: u64, bytes: u64) {
    if bytes != 0 {
        let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
        if let Err(error) = setrlimit(Resource::Data, limit) {
            eprintln!("floe-worker: session {session}: its host memory is bounded by counting only: {error}");
        }
    }
    let adjustment = Path::new("/proc/self/oom_score_adj");
    let present = fs::read_to_string(adjustment).ok().and_then(|text| text.trim().parse::<i32>().ok());
    if present.is_some_and(|present| present < OOM_SCORE_ADJUSTMENT)
        && let Err(error) = fs::write(adjustment, OOM_SCORE_ADJUSTMENT.to_string())
    {
        eprintln!("floe-worker: session {session}: the system may end others before it when memory runs out: {error}");
    }
}

/// Restarts this program without address-space randomization, unless it runs so already. Then a driver's libraries lie
/// at the same addresses in every worker, which migration needs. Returns only without having done so.
///
/// # Errors
/// When the kernel does not allow it (some containers do not), or the program does not start again.
pub fn without_randomization() -> io::Result<()> {
    // SAFETY: personality takes and returns a number, and touches no memory of ours.
    let present = unsafe { libc::personality(ASK) };
    let present = libc::c_ulong::try_from(present).map_err(|_| io::Error::last_os_error())?;
    if present & ADDR_NO_RANDOMIZE != 0 {
        return Ok(());
    }
    // SAFETY: as above.
    if unsafe { libc::personality(present | ADDR_NO_RANDOMIZE) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    Err(std::process::Command::new("/proc/self/exe").arg0(name).args(arguments).exec())
}

/// What of the allocator is set: one arena, and blocks of up to 32 MiB (the most that it takes) never mapped one by one. It gives
/// the heap's end back by itself from 64 MiB on.
const ALLOCATOR: [(libc::c_int, libc::c_int); 3] =
    [(libc::M_ARENA_MAX, 1), (libc::M_MMAP_THRESHOLD, 32 << 20), (libc::M_TRIM_THRESHOLD, 64 << 20)];

/// Has all threads allocate from one heap, which lies where a driver places nothing. Further arenas are mapped by threads at their
/// first allocation, 64 MiB each, and large blocks one by one where the heap's end has no room. Then a driver's regions lie where that
/// has left room.
///
/// # Errors
/// When the allocator does not take it.
pub fn allocate_from_one_heap() -> io::Result<()> {
    // SAFETY: mallopt takes numbers. No other thread allocates yet: `main` calls this before it starts any.
    let takes = |(option, value)| unsafe { libc::mallopt(option, value) } == 1;
    if ALLOCATOR.into_iter().all(takes) { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
}

/// Gives the heap's free pages back to the system. Else a driver's next block of the heap has them, and writes to a part of it only.
pub(crate) fn give_back_free_pages() {
    // SAFETY: malloc_trim reads and writes the allocator's own state, under the allocator's locks, and free pages.
    unsafe { libc::malloc_trim(0) };
}

/// Has the driver place what it places below the session's ceiling. Without that the session can still run, and not move.
pub fn leave_no_room(mappings: Option<File>, ceiling: u64, log: &Log) {
    let Some(mappings) = mappings else { return };
    let filled = usize::try_from(ceiling).map_err(io::Error::other).and_then(|ceiling| room::fill(mappings, ceiling));
    if let Err(error) = filled {
        log.line(format_args!("addresses above {ceiling:#x} stay free, so it may not be able to move: {error}"));
    }
}

/// Closes every descriptor but the three standard ones. The daemon's own are not inherited, but its libraries or its
/// parent may have left some open.
///
/// # Errors
/// On kernels before 5.9, which cannot do it at once.
pub fn close_inherited() -> io::Result<()> {
    let (first, last, flags): (libc::c_uint, libc::c_uint, libc::c_uint) = (3, libc::c_uint::MAX, 0);
    // SAFETY: the process has just begun and owns no descriptor but 0, 1 and 2; closing others takes nothing from it.
    match unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Ends this process at once. The driver's exit handlers do not run, as they would wait for kernels. A kernel that
/// never ends must not keep a session alive whose client is gone. The kernel frees what the GPU holds for the process.
pub fn end(code: u8) -> ! {
    // SAFETY: nothing of this process is used after this.
    unsafe { libc::_exit(i32::from(code)) }
}
