//! Pages that threads wait for while they are exchanged. Ranges come in; from then on whatever touches a page that is not
//! there sleeps, a thread as well as a system call, until the page is moved or filled. It sends no signal, and it is only
//! had where the kernel lets faults of system calls wait, too.

use std::fs::OpenOptions;
use std::io::Read as _;
use std::ops::Range;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::sync::OnceLock;

use rustix::io::Errno;

use crate::signal;

/// `UFFD_API`.
const API: u64 = 0xaa;
/// `UFFD_FEATURE_EVENT_REMAP`, `UFFD_FEATURE_MOVE` (Linux 6.8).
const FEATURES: u64 = 1 << 2 | 1 << 16;
/// `USERFAULTFD_IOC_NEW`.
const NEW: libc::c_ulong = 0xaa00;
/// `UFFDIO_API`, `UFFDIO_REGISTER`, `UFFDIO_UNREGISTER`, `UFFDIO_WAKE`, `UFFDIO_COPY`, `UFFDIO_MOVE`.
const TALK: libc::c_ulong = 0xc018_aa3f;
const REGISTER: libc::c_ulong = 0xc020_aa00;
const UNREGISTER: libc::c_ulong = 0x8010_aa01;
const WAKE: libc::c_ulong = 0x8010_aa02;
const COPY: libc::c_ulong = 0xc028_aa03;
const MOVE: libc::c_ulong = 0xc028_aa05;
/// `UFFDIO_REGISTER_MODE_MISSING`.
const MISSING: u64 = 1;
/// `UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES`: a page that is not there is zero at the new place, too.
const HOLES: u64 = 2;
/// Tries of a step that the kernel puts off.
const TRIES: usize = 1000;

/// The kernel's end.
#[derive(Debug)]
pub(crate) struct Moves {
    faults: OwnedFd,
    process: u32,
}

/// The process's; `None` where the kernel (before 6.8) or its operator has none.
pub(crate) fn moves() -> Option<&'static Moves> {
    static MOVES: OnceLock<Option<Moves>> = OnceLock::new();
    let own = MOVES.get_or_init(|| {
        let faults = by_call().or_else(by_file)?;
        let mut talk = [API, FEATURES, 0];
        // SAFETY: the three words are `struct uffdio_api`, which the kernel reads and writes.
        let talked = unsafe { libc::ioctl(faults.as_raw_fd(), TALK, talk.as_mut_ptr()) };
        let events = faults.try_clone().ok()?;
        (talked == 0 && start_reader(events)).then(|| Moves { faults, process: std::process::id() })
    });
    // A forked process would move its parent's memory.
    own.as_ref().filter(|moves| moves.process == std::process::id())
}

/// For privileged processes, or where `vm.unprivileged_userfaultfd` is 1.
fn by_call() -> Option<OwnedFd> {
    // SAFETY: makes a descriptor, and touches no memory of ours.
    descriptor(unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) })
}

/// For those that may open the device.
fn by_file() -> Option<OwnedFd> {
    let device = OpenOptions::new().read(true).write(true).open("/dev/userfaultfd").ok()?;
    // SAFETY: makes a descriptor, and touches no memory of ours.
    descriptor(unsafe { libc::ioctl(device.as_raw_fd(), NEW, libc::O_CLOEXEC) }.into())
}

fn descriptor(made: libc::c_long) -> Option<OwnedFd> {
    let number = i32::try_from(made).ok().filter(|number| *number >= 0)?;
    // SAFETY: the kernel has just made it for us alone.
    Some(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Starts the thread that reads what the kernel says: a thread that moves a mapping goes on only when it is read. All
/// else it says needs no answer.
fn start_reader(events: OwnedFd) -> bool {
    let read = move || {
        signal::block_signals();
        let mut events = std::fs::File::from(events);
        // `struct uffd_msg` has 32 bytes.
        let mut messages = [0; 16 * 32];
        loop {
            match events.read(&mut messages) {
                Ok(0) => return,
                Err(error) if error.raw_os_error() != Some(libc::EINTR) => return,
                _ => {}
            }
        }
    };
    std::thread::Builder::new().name("floe-exchange".into()).spawn(read).is_ok()
}

fn last() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}

impl Moves {
    /// From now on who touches a page there that is not present waits. False where the kernel refuses.
    pub(crate) fn hold(&self, pages: &Range<u64>) -> bool {
        let mut register = [pages.start, pages.end - pages.start, MISSING, 0];
        // SAFETY: the four words are `struct uffdio_register`. Contents and access of the pages stay as they are.
        unsafe { libc::ioctl(self.faults.as_raw_fd(), REGISTER, register.as_mut_ptr()) == 0 }
    }

    /// Ends `hold`: who waits goes on.
    pub(crate) fn release(&self, pages: &Range<u64>) {
        let mut range = [pages.start, pages.end - pages.start];
        // SAFETY: the two words are `struct uffdio_range`. Contents and access of the pages stay as they are.
        let _ = unsafe { libc::ioctl(self.faults.as_raw_fd(), UNREGISTER, range.as_mut_ptr()) };
        self.wake(pages);
    }

    /// Who waits for these pages looks again; also where other memory was mapped there meanwhile.
    pub(crate) fn wake(&self, pages: &Range<u64>) {
        let mut range = [pages.start, pages.end - pages.start];
        // SAFETY: the two words are `struct uffdio_range`. No memory changes.
        let _ = unsafe { libc::ioctl(self.faults.as_raw_fd(), WAKE, range.as_mut_ptr()) };
    }

    /// Moves pages of private memory, each at once, to addresses that are held and have none. Returns how many bytes were
    /// moved, with the reason where it is not all. The kernel moves no page that it or a device uses at the moment.
    ///
    /// # Safety
    /// Both ranges are private memory without a file. Who uses the first is held off from pages that are gone.
    pub(crate) unsafe fn shift(&self, from: u64, to: u64, bytes: u64) -> (u64, Result<(), Errno>) {
        // SAFETY: passed on; the words are `struct uffdio_move`.
        self.each(bytes, |at| unsafe { self.step(MOVE, [to + at, from + at, bytes - at, HOLES, 0]) })
    }

    /// Fills held pages that are not there with copies; who waits for them goes on.
    ///
    /// # Safety
    /// `from` is readable, and nobody waits for what lies there.
    pub(crate) unsafe fn fill(&self, from: u64, to: u64, bytes: u64) -> (u64, Result<(), Errno>) {
        // SAFETY: passed on; the words are `struct uffdio_copy`.
        self.each(bytes, |at| unsafe { self.step(COPY, [to + at, from + at, bytes - at, 0, 0]) })
    }

    /// Repeats steps until all bytes are done.
    fn each(&self, bytes: u64, step: impl Fn(u64) -> Result<u64, Errno>) -> (u64, Result<(), Errno>) {
        let (mut done, mut tries) = (0, 0);
        while done < bytes {
            match step(done) {
                Ok(more) => (done, tries) = (done + more, 0),
                Err(Errno::AGAIN | Errno::BUSY | Errno::INTR) if tries < TRIES => tries += 1,
                Err(error) => return (done, Err(error)),
            }
            if tries > 0 {
                std::thread::yield_now();
            }
        }
        (done, Ok(()))
    }

    /// One call of the kernel: how many bytes it did, at least one page.
    ///
    /// # Safety
    /// As for `shift` and `fill`.
    unsafe fn step(&self, what: libc::c_ulong, mut words: [u64; 5]) -> Result<u64, Errno> {
        // SAFETY: passed on; the kernel reads four of the words, and writes the fifth.
        let done = unsafe { libc::ioctl(self.faults.as_raw_fd(), what, words.as_mut_ptr()) };
        let error = if done == 0 { None } else { Some(last()) };
        match (error, i64::from_ne_bytes(words[4].to_ne_bytes())) {
            (None | Some(Errno::AGAIN), bytes @ 1..) => Ok(bytes.unsigned_abs()),
            (Some(error), _) => Err(error),
            (None, _) => Err(Errno::INVAL),
        }
    }
}
