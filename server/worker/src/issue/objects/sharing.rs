//! The client's memory that is shared, and which pages of it and of the program's files are mapped here.
//! In: addresses. Out: ends of copies in mapped pages, or what is wrong with the address. It maps nothing itself.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use floe_abi::CudaError;
use floe_device::{End, Mapped};
use floe_wire::DevicePtr;

use crate::issue::fault::{Fault, violation};
use crate::memory::shared_pages::{Held, SharedPages};

/// Bytes of a page.
pub(crate) const PAGE: u64 = floe_device::PAGE as u64;

/// Files of a session whose descriptors are kept.
const MOST_FILES: usize = 64;

/// The shared memory.
pub(crate) struct Sharing<P> {
    pub(crate) memory: Option<Memory>,
    /// By first address.
    pub(crate) ranges: BTreeMap<u64, SharedPages<P>>,
    pub(crate) held: Arc<Held>,
    /// The files of pages that are not of `memory`, by the pages' first address. Pages of one file share its descriptor.
    files: BTreeMap<u64, ([u64; 2], Arc<OwnedFd>)>,
}

/// The client's memory: its first byte lies at `at`.
pub(crate) struct Memory {
    pub(crate) file: OwnedFd,
    pub(crate) at: u64,
    pub(crate) bytes: u64,
}

impl Memory {
    fn holds(&self, at: u64) -> bool {
        at >= self.at && at - self.at < self.bytes
    }
}

impl<P> Default for Sharing<P> {
    fn default() -> Self {
        Self { memory: None, ranges: BTreeMap::new(), held: Arc::default(), files: BTreeMap::new() }
    }
}

impl<P: Mapped> Sharing<P> {
    /// The end of a copy of `bytes` at an address. Addresses of shared memory that is not mapped are nobody's.
    pub(crate) fn end(&self, at: DevicePtr, bytes: u64) -> Result<End<'_, P>, Fault> {
        let outside =
            || Fault::Explained(CudaError::INVALID_VALUE, format!("not shared: {bytes} bytes at {:#x}", at.0));
        let is_inside = |(start, pages): &(&u64, &SharedPages<P>)| at.0 - **start < pages.memory().bytes() as u64;
        let Some((start, pages)) = self.ranges.range(..=at.0).next_back().filter(is_inside) else {
            let is_ours = self.memory.as_ref().is_some_and(|memory| memory.holds(at.0));
            return if is_ours { Err(outside()) } else { Ok(End::Device(at)) };
        };
        let (memory, offset) = (pages.memory(), at.0 - start);
        let fits = offset.checked_add(bytes).is_some_and(|end| end <= memory.bytes() as u64);
        if fits { Ok(End::Host(memory, usize::try_from(offset).map_err(|_| outside())?)) } else { Err(outside()) }
    }

    /// Whether pages may be mapped there, and where they lie in the client's memory.
    pub(crate) fn check_new(&self, at: u64, bytes: u64) -> Result<(&Memory, u64), Fault> {
        let Some(memory) = &self.memory else { return violation("no memory is shared") };
        let offset = at.checked_sub(memory.at).filter(|offset| *offset < memory.bytes);
        let inside = offset.filter(|offset| bytes <= memory.bytes - offset);
        let whole = bytes > 0 && at.is_multiple_of(PAGE) && bytes.is_multiple_of(PAGE);
        let Some(offset) = inside.filter(|_| whole) else {
            return violation(format!("not pages of the shared memory: {bytes} bytes at {at:#x}"));
        };
        // The whole lies where addresses end, so this does not overflow.
        let before = self.ranges.range(..at + bytes).next_back();
        if before.is_some_and(|(start, range)| start + range.memory().bytes() as u64 > at) {
            return violation(format!("pages are mapped there already: {bytes} bytes at {at:#x}"));
        }
        Ok((memory, offset))
    }

    /// Whether any of these addresses is of the client's own memory, whose pages are mapped by name.
    pub(crate) fn takes_from_memory(&self, at: u64, bytes: u64) -> bool {
        self.memory.as_ref().is_some_and(|memory| at < memory.at + memory.bytes && memory.at < at + bytes)
    }

    /// Keeps the file of mapped pages, for another worker to map them too; not one of more files than descriptors are kept.
    pub(crate) fn keep_file(&mut self, at: u64, file: OwnedFd) {
        let Ok(stat) = rustix::fs::fstat(&file) else { return };
        let name = [stat.st_dev, stat.st_ino];
        let mut files: BTreeMap<[u64; 2], &Arc<OwnedFd>> = BTreeMap::new();
        files.extend(self.files.values().map(|(name, file)| (*name, file)));
        let kept = match files.get(&name) {
            Some(kept) => Arc::clone(kept),
            None if files.len() < MOST_FILES => Arc::new(file),
            None => return,
        };
        self.files.insert(at, (name, kept));
    }

    /// The descriptors by which another worker maps the same: the memory's, and those of files by the pages' addresses.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = (u64, BorrowedFd<'_>)> {
        self.files.iter().map(|(at, (_, file))| (*at, file.as_fd()))
    }

    /// Pages whose descriptor is not kept.
    pub(crate) fn unkept(&self) -> impl Iterator<Item = u64> {
        let known = |at: &u64| self.files.contains_key(at) || self.memory.as_ref().is_some_and(|it| it.holds(*at));
        self.ranges.keys().copied().filter(move |at| !known(at))
    }

    /// Takes a mapping out.
    pub(crate) fn remove(&mut self, at: DevicePtr) -> Result<SharedPages<P>, Fault> {
        self.files.remove(&at.0);
        self.ranges.remove(&at.0).map_or_else(|| violation(format!("no shared pages start at: {:#x}", at.0)), Ok)
    }

    /// Ends every mapping; the memory can be mapped again. No work that names it is left.
    pub(crate) fn clear(&mut self) {
        self.files.clear();
        self.ranges.clear();
    }
}
