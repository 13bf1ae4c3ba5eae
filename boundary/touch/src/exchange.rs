//! Private pages of the program that are exchanged for those of a file, and back, in place. Whole pages come in; a file
//! that another process can map goes out, and what the program writes to its pages is in the file. No thread sees other
//! bytes meanwhile and no write is lost: who touches a page that is under way waits for it.
//!
//! It declines whatever it cannot exchange so: pages that a device has, locked pages, the first thread's stack, and all
//! memory where system calls could not wait.

use std::fs;
use std::ops::Range;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fstat, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::forks;
use crate::mapping::{is_private, shared_file};
use crate::moves::{Moves, moves};
use crate::pages;
use crate::signal::SignalsBlocked;
use crate::span::PAGE;

/// Bytes that are exchanged at a time: threads wait for these only, and no more is there twice.
const PIECE: u64 = 16 << 20;
/// Tries for a piece: a process that is forked past the C library has its pages, too.
const TRIES: usize = 3;
/// How long other users of the file may need to let go of it, a transfer that is under way for instance.
const LETTING_GO: Duration = Duration::from_secs(2);

/// Pages that are a file's, in the place of private ones, until this is dropped. Then their bytes are in private pages.
#[derive(Debug)]
pub struct Exchanged {
    /// `None` once it is given back.
    own: Option<Own>,
}

/// The same, where the calling thread has it on its stack: it may lie in no page that is under way.
#[derive(Debug)]
struct Own {
    pages: Range<u64>,
    file: OwnedFd,
    inode: u64,
    moves: &'static Moves,
}

/// The pages of a range that are wholly in it; `None` where its first or its last one holds other bytes, too.
fn whole_pages(range: &Range<u64>) -> Option<Range<u64>> {
    let is_whole = range.start.is_multiple_of(PAGE) && range.end.is_multiple_of(PAGE) && range.start < range.end;
    is_whole.then(|| range.clone())
}

/// Whether the calling thread needs these addresses itself: its stack, or its own words.
fn is_needed_here(range: &Range<u64>) -> bool {
    let here = 0u8;
    // SAFETY: asks for the address of the thread's own word.
    let own = unsafe { libc::__errno_location() };
    [std::ptr::from_ref(&here) as u64, own as u64].iter().any(|at| range.contains(at))
}

/// A file with memory for so many bytes, which cannot become shorter.
fn make_file(bytes: u64) -> Option<OwnedFd> {
    // The system ends a process that asks for more than its limit of files.
    if getrlimit(Resource::Fsize).current.is_some_and(|most| most < bytes) {
        return None;
    }
    let file = memfd_create("floe-registered", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).ok()?;
    ftruncate(&file, bytes).ok()?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW).ok()?;
    let mut done = 0;
    while done < bytes {
        let piece = PIECE.min(bytes - done);
        match fallocate(&file, FallocateFlags::empty(), done, piece) {
            Ok(()) => done += piece,
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    Some(file)
}

fn maps() -> Option<String> {
    fs::read_to_string("/proc/self/maps").ok()
}

fn length(range: &Range<u64>) -> u64 {
    range.end - range.start
}

impl Exchanged {
    /// Exchanges private pages for those of a new file. `None` where that cannot be: then nothing has changed.
    #[must_use]
    pub fn begin(range: &Range<u64>) -> Option<Self> {
        let pages = whole_pages(range)?;
        let moves = moves()?;
        if is_needed_here(&pages) || !is_private(&maps()?, &pages) {
            return None;
        }
        let file = make_file(length(&pages))?;
        let inode = fstat(&file).ok()?.st_ino;
        let mut own = Own { pages: pages.start..pages.start, file, inode, moves };
        let taken = own.take_all(pages.end);
        if !taken && !own.pages.is_empty() {
            own.give_back();
        }
        taken.then_some(Self { own: Some(own) })
    }

    /// The file, whose first byte is that of the first page.
    ///
    /// # Errors
    /// The system's, where it has no descriptor left.
    pub fn file(&self) -> Result<OwnedFd, Errno> {
        self.own.as_ref().map_or(Err(Errno::BADF), |own| rustix::io::fcntl_dupfd_cloexec(&own.file, 0))
    }
}

impl Own {
    /// Exchanges pages up to an address, piece by piece. False where one cannot be: then those before it are.
    fn take_all(&mut self, end: u64) -> bool {
        // From here on nobody forks, and no handler of the program's runs here, which might wait for what we move.
        let mut table = forks::table();
        let _blocked = SignalsBlocked::begin();
        table.reserve();
        let mut taken = true;
        while taken && self.pages.end < end {
            let piece = self.pages.end..end.min(self.pages.end + PIECE);
            // The kernel moves no page that a child has, too: each is to be this process's own before.
            taken = (0..TRIES).any(|_| pages::populate(&piece) && self.take(&piece));
            if taken {
                self.pages.end = piece.end;
            }
        }
        if !self.pages.is_empty() {
            table.add(&self.pages, self.inode);
        }
        taken
    }

    /// Exchanges one piece. From the first page that is moved on, no memory is taken and no lock: a thread that waits for
    /// a page may hold it.
    fn take(&self, piece: &Range<u64>) -> bool {
        let (bytes, offset) = (length(piece), piece.start - self.pages.start);
        let Some(place) = pages::shared(self.file.as_fd(), offset, bytes) else { return false };
        let Some(aside) = pages::private(bytes) else {
            // SAFETY: mapped just now, known to nobody.
            unsafe { pages::unmap(place, bytes) };
            return false;
        };
        let taken = self.take_by(piece, place, aside);
        if !taken {
            // SAFETY: nobody has learnt of it.
            unsafe { pages::unmap(place, bytes) };
        }
        // SAFETY: its pages, if it has any, were copied; nobody else knows it.
        unsafe { pages::unmap(aside, bytes) };
        taken
    }

    /// The same: `place` is to be in the piece's place, and `aside` holds the pages on the way.
    fn take_by(&self, piece: &Range<u64>, place: u64, aside: u64) -> bool {
        let (bytes, moves) = (length(piece), self.moves);
        let beside = aside..aside + bytes;
        if !moves.hold(&beside) || !moves.hold(piece) {
            moves.release(&beside);
            return false;
        }
        // SAFETY: the piece is private memory (the kernel refuses other), whose users wait. Nobody knows the other place.
        let (moved, done) = unsafe { moves.shift(piece.start, aside, bytes) };
        // Holes are to be read as zeros.
        moves.release(&beside);
        let replaced = done.is_ok() && {
            // SAFETY: both are mapped, and nobody knows either.
            unsafe { pages::copy(aside, place, bytes) };
            // SAFETY: all bytes of the piece are in the file that `place` maps.
            unsafe { pages::replace(place, piece) }
        };
        if replaced {
            moves.wake(piece);
            return true;
        }
        // What is there again is the program's; who waits for the rest gets it with the next call. Nobody else uses the
        // pages, so the kernel puts this off at most.
        let mut back = 0;
        while back < moved {
            // SAFETY: as above, the other way.
            back += unsafe { moves.shift(aside + back, piece.start + back, moved - back) }.0;
        }
        moves.release(piece);
        false
    }

    /// Puts private pages in the place of the file's.
    fn give_back(&self) {
        let mut table = forks::table();
        let _blocked = SignalsBlocked::begin();
        let mapped = maps().is_some_and(|maps| {
            shared_file(&maps, &self.pages).is_some_and(|found| {
                let offset = found.offset + self.pages.start - found.addresses.start;
                found.inode == self.inode && offset == 0
            })
        });
        // The program has unmapped pages, and something else may lie there: that is not touched.
        if !mapped || self.give_back_mapped() {
            table.remove(&self.pages);
        }
    }

    /// Whether they are private now. Otherwise a device of the program's still has the file's pages, and they stay.
    fn give_back_mapped(&self) -> bool {
        let (bytes, moves) = (length(&self.pages), self.moves);
        let Some(source) = pages::reading(self.file.as_fd(), 0, bytes) else { return false };
        let place = pages::private(bytes).filter(|place| moves.hold(&(*place..place + bytes)));
        // SAFETY: the bytes are in the file. Who touches the pages from here on waits.
        if !place.is_some_and(|place| unsafe { pages::replace(place, &self.pages) }) {
            // SAFETY: known to nobody.
            unsafe { pages::unmap(source, bytes) };
            return false;
        }
        if !self.seal() && has_pinned_pages() {
            let shared = pages::shared(self.file.as_fd(), 0, bytes);
            // SAFETY: nothing is in these pages, and their users wait.
            if shared.is_some_and(|shared| unsafe { pages::replace(shared, &self.pages) }) {
                moves.wake(&self.pages);
                // SAFETY: known to nobody.
                unsafe { pages::unmap(source, bytes) };
                return false;
            }
        }
        self.fill(source);
        true
    }

    /// Waits until nobody can write to the file, by a mapping or a transfer under way. False if somebody goes on.
    fn seal(&self) -> bool {
        let begun = Instant::now();
        loop {
            match fcntl_add_seals(&self.file, SealFlags::WRITE) {
                Ok(()) => return true,
                Err(Errno::BUSY | Errno::INTR) if begun.elapsed() < LETTING_GO => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(_) => return false,
            }
        }
    }

    /// Fills the empty private pages with the file's bytes, which are mapped at `source`, too.
    fn fill(&self, source: u64) {
        let bytes = length(&self.pages);
        // SAFETY: `source` maps all of the file, and nobody waits for it.
        let (done, filled) = unsafe { self.moves.fill(source, self.pages.start, bytes) };
        let rest = self.pages.start + done..self.pages.end;
        // Without memory for copies the rest is a private mapping of the file, which nobody writes any more.
        // SAFETY: the rest is empty, and its users wait.
        if filled.is_err() && unsafe { pages::replace(source + done, &rest) } {
            self.moves.release(&self.pages);
            // SAFETY: known to nobody.
            unsafe { pages::unmap(source, done) };
            return;
        }
        self.moves.release(&self.pages);
        // SAFETY: known to nobody.
        unsafe { pages::unmap(source, bytes) };
    }
}

impl Drop for Exchanged {
    fn drop(&mut self) {
        // A forked process has copies.
        if let Some(own) = self.own.take().filter(|_| moves().is_some()) {
            own.give_back();
        }
    }
}

/// Whether a device, or the kernel for a transfer, has pages of this process for long. Without memory: threads wait.
fn has_pinned_pages() -> bool {
    let mut words = [0u8; 16 << 10];
    let Ok(status) = rustix::fs::open("/proc/self/status", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty())
    else {
        return false;
    };
    let Ok(read) = rustix::io::read(&status, &mut words) else { return false };
    let status = words.get(..read).unwrap_or_default();
    let line = status.split(|byte| *byte == b'\n').find(|line| line.starts_with(b"VmPin:"));
    line.is_some_and(|line| line.iter().any(|byte| (b'1'..=b'9').contains(byte)))
}
