//! Where in this process a driver finds room for what it places itself.
//! In: an address, the session's ceiling, and the process's mappings. Out: no free address from the ceiling on, so that the
//! driver's own history decides where things lie, and not where the system has put this process's libraries. Memory that has
//! to lie at an address there gets it lent. Below the ceiling, addresses are kept from the driver for a while.
//!
//! A driver takes the highest free addresses for modules' variables. With address-space randomization these differ from
//! process to process, below a ceiling they are equal for equal histories (docs/facts/h200.md). Each session has a ceiling
//! of its own, so what lies below it is as hard to guess as before.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::ops::Range;
use std::sync::Mutex;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Looks at the mappings: other threads map something meanwhile.
const LOOKS: u32 = 16;
/// Addresses below any that are kept free: this process maps memory, too, while a driver finds no more room above.
const LEAST_ROOM: usize = 1 << 40;
/// The stack grows into the hole below it.
const STACK: &str = "[stack]";

/// What was filled, and what of it is lent: starts and ends.
static FILLED: Mutex<Filled> = Mutex::new(Filled { mappings: None, holes: Vec::new(), lent: BTreeMap::new() });

#[derive(Debug)]
struct Filled {
    /// The process's mappings, where they may still be read.
    mappings: Option<File>,
    holes: Vec<Range<usize>>,
    lent: BTreeMap<usize, usize>,
}

/// The list of the process's mappings, opened while it may open files.
///
/// # Errors
/// The system's own.
pub fn mappings() -> io::Result<File> {
    File::open("/proc/self/maps")
}

/// Fills every hole from `ceiling` on. Mappings that are there stay, and so does the room of the stack.
///
/// # Errors
/// The system's own; what was filled until then stays filled.
pub fn fill(mut mappings: File, ceiling: usize) -> io::Result<()> {
    let mut filled = floe_lock::lock(&FILLED);
    let whole = fill_all(&mut mappings, ceiling..usize::MAX, &mut filled.holes);
    filled.mappings = Some(mappings);
    whole
}

fn fill_all(mappings: &mut File, within: Range<usize>, filled: &mut Vec<Range<usize>>) -> io::Result<()> {
    for _ in 0..LOOKS {
        if fill_once(mappings, within.clone(), filled)? {
            return Ok(());
        }
    }
    Err(Errno::EXIST.into())
}

/// Addresses that are nobody's, until this is dropped.
#[derive(Debug)]
pub struct Kept(Vec<Range<usize>>);

impl Drop for Kept {
    fn drop(&mut self) {
        for range in self.0.drain(..) {
            let at = std::ptr::with_exposed_provenance_mut::<c_void>(range.start);
            // SAFETY: `keep` mapped these pages where nothing was, without access, and told nobody of them.
            let given_back = unsafe { munmap(at, range.len()) };
            debug_assert!(given_back.is_ok(), "{range:x?} stays taken");
        }
    }
}

/// Fills every hole within a range, so that a driver finds no room there for what it places itself.
///
/// # Errors
/// INVAL where the range begins within the first terabyte; NOENT where the process was never filled; the system's own.
pub fn keep(within: Range<usize>) -> io::Result<Kept> {
    if within.start < LEAST_ROOM {
        return Err(Errno::INVAL.into());
    }
    let mut filled = floe_lock::lock(&FILLED);
    let mappings = filled.mappings.as_mut().ok_or(Errno::NOENT)?;
    let mut kept = Kept(Vec::new());
    fill_all(mappings, within, &mut kept.0)?;
    Ok(kept)
}

/// False: somebody has mapped something between the look and the filling.
fn fill_once(mappings: &mut File, within: Range<usize>, filled: &mut Vec<Range<usize>>) -> io::Result<bool> {
    let mut text = String::new();
    mappings.rewind()?;
    mappings.read_to_string(&mut text)?;
    let mut is_whole = true;
    for hole in holes(&text, within) {
        match map_nothing(&hole, MapFlags::FIXED_NOREPLACE) {
            Ok(()) => filled.push(hole),
            Err(Errno::EXIST) => is_whole = false,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(is_whole)
}

/// The holes within a range, and below the last mapping before the stack.
fn holes(mappings: &str, within: Range<usize>) -> Vec<Range<usize>> {
    let range = |line: &str| {
        let (start, rest) = line.split_once('-')?;
        let end = rest.split(' ').next()?;
        Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
    };
    let (mut holes, mut from) = (Vec::new(), within.start);
    for taken in mappings.lines().take_while(|line| !line.ends_with(STACK)).filter_map(range) {
        let end = taken.start.min(within.end);
        if end > from {
            holes.push(from..end);
        }
        from = from.max(taken.end);
    }
    holes
}

fn map_nothing(range: &Range<usize>, how: MapFlags) -> Result<(), Errno> {
    let at = std::ptr::with_exposed_provenance_mut::<c_void>(range.start);
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | how;
    // SAFETY: either the flag makes the kernel refuse pages that are mapped, or the range was lent and its borrower, who gives
    // it back here, is through with it. Nobody reaches pages without access.
    unsafe { mmap_anonymous(at, range.len(), ProtFlags::empty(), flags) }.map(drop)
}

/// Addresses that were filled and are somebody's; filled again when dropped.
#[derive(Debug)]
pub(crate) struct Lent(Range<usize>);

impl Lent {
    /// Takes a range that was filled, all of it, and is nobody's. Whoever has it may map over it.
    pub(crate) fn take(range: Range<usize>) -> Option<Self> {
        let mut filled = floe_lock::lock(&FILLED);
        let is_inside = filled.holes.iter().any(|hole| hole.start <= range.start && range.end <= hole.end);
        let before = filled.lent.range(..range.end).next_back();
        if !is_inside || range.is_empty() || before.is_some_and(|(_, end)| *end > range.start) {
            return None;
        }
        filled.lent.insert(range.start, range.end);
        Some(Self(range))
    }
}

impl Lent {
    /// Gives back what could not be mapped. A kernel may have taken away what filled it, and somebody else may have found the
    /// hole: then it is never lent again.
    pub(crate) fn was_not_used(self) {
        let mut filled = floe_lock::lock(&FILLED);
        if map_nothing(&self.0, MapFlags::FIXED_NOREPLACE).is_ok() {
            filled.lent.remove(&self.0.start);
        }
        drop(filled);
        std::mem::forget(self);
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut filled = floe_lock::lock(&FILLED);
        // Pages without access cost nothing: where the system cannot map them, the range stays lent.
        if map_nothing(&self.0, MapFlags::FIXED).is_ok() {
            filled.lent.remove(&self.0.start);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    const MAPPINGS: &str = "\
00400000-00500000 r-xp 00000000 08:01 1   /bin/worker
7000000000-7000001000 rw-p 00000000 00:00 0
7e0000000000-7e0000010000 r--p 00000000 08:01 1   /lib/a.so
7e0000010000-7e0000020000 r-xp 00000000 08:01 1   /lib/a.so
7e0000100000-7e0000110000 r-xp 00000000 08:01 1   /lib/ld.so
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0   [stack]
7ffc00100000-7ffc00104000 r--p 00000000 00:00 0   [vvar]
";

    #[test]
    fn holes_end_at_the_last_mapping_below_the_stack() {
        let found = holes(MAPPINGS, 0x7d00_0000_0000..usize::MAX);
        assert_eq!(found, [0x7d00_0000_0000..0x7e00_0000_0000, 0x7e00_0002_0000..0x7e00_0010_0000]);
        assert_eq!(holes(MAPPINGS, 0x7e00_0001_8000..usize::MAX)[..], found[1..]);
        assert!(holes(MAPPINGS, 0x7fff_0000_0000..usize::MAX).is_empty());
        let parts = holes(MAPPINGS, 0x7dff_ffff_0000..0x7e00_0005_0000);
        assert_eq!(parts, [0x7dff_ffff_0000..0x7e00_0000_0000, 0x7e00_0002_0000..0x7e00_0005_0000]);
        assert!(holes(MAPPINGS, 0x7e00_0000_1000..0x7e00_0001_0000).is_empty());
    }

    #[test]
    fn a_look_that_is_out_of_date_fills_what_it_can_and_says_so() {
        // SAFETY: a new mapping at an address of the system's choice concerns nobody else.
        let taken = unsafe { mmap_anonymous(std::ptr::null_mut(), 4096, ProtFlags::READ, MapFlags::PRIVATE) };
        let start = taken.unwrap() as usize;
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, format!("{:x}-{:x} r--p\n", start + 4096, start + 8192).as_bytes())
            .unwrap();
        let mut filled = Vec::new();
        assert!(!fill_once(&mut file, start..usize::MAX, &mut filled).unwrap() && filled.is_empty(), "somebody has it");
        // Not `fill`: it would leave this list behind for the whole process, and so for the test beside this one.
        let refused = fill_all(&mut file, start..usize::MAX, &mut filled).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_process_that_is_filled_maps_below_its_ceiling_and_lends_what_is_above() {
        let ceiling = 0x7000_0000_0000 + (usize::try_from(std::process::id()).unwrap() << 21);
        fill(mappings().unwrap(), ceiling).unwrap();
        let at = |bytes| {
            // SAFETY: a new mapping at an address of the system's choice concerns nobody else.
            let at = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::PRIVATE) };
            at.unwrap() as usize
        };
        let [large, other] = [64 << 20, 1 << 30].map(at);
        assert!(large < ceiling && other < ceiling, "{large:#x} {other:#x} {ceiling:#x}");
        assert!(keep(48 << 20..usize::MAX).is_err(), "nothing could be mapped any more");
        let end = other - (16 << 30);
        let kept = keep(end..usize::MAX).unwrap();
        assert!(at(1 << 30) < end);
        drop(kept);
        let below = at(8 << 30);
        assert!(below > end, "the hole above it is free again");
        let kept = keep(below - (2 << 30)..below).unwrap();
        assert!(at(1 << 30) <= below - (3 << 30), "nothing lies there");
        drop(kept);
        let range = ceiling + (1 << 21)..ceiling + (1 << 21) + 4096;
        let lent = Lent::take(range.clone()).unwrap();
        assert!(Lent::take(range.clone()).is_none(), "it is somebody's");
        assert!(Lent::take(range.start - 4096..range.end).is_none(), "a part of it is");
        assert!(Lent::take(ceiling - 4096..ceiling).is_none(), "it was not filled");
        drop(lent);
        let lent = Lent::take(range.clone()).unwrap();
        // What fills it is still there, as far as this can be known.
        lent.was_not_used();
        assert!(Lent::take(range).is_none());
    }
}
