//! Mirrors that are closed to the program while it takes work for over that may not be (`--far`): small ones, in pages of
//! floe's own. A touch waits for that work. What the device writes meanwhile goes by the file behind the pages.

use std::sync::Arc;

use floe_surface::{HostPages, HostRange};
use floe_touch::{FaultHandler, Shutter};
use rustix::io::{pread, pwrite};

use crate::memory::host_memory::PLACES;
use crate::memory::host_memory::arena::{Arena, is_place};

/// The largest. System calls fail that are given closed pages, so what programs read files into stays open: words that kernels
/// and program show each other are smaller.
pub(crate) const MOST_CLOSED: usize = 64 << 10;

/// A mirror's pages.
#[derive(Debug)]
pub(super) struct Closable {
    shutter: Shutter,
    arena: &'static Arena,
    /// Where it begins in the file.
    offset: u64,
}

impl Closable {
    /// A range's own pages, of the arena; `None` where it must stay open.
    pub(super) fn of(range: &HostRange, pages: HostPages, opener: Arc<dyn FaultHandler>) -> Option<Self> {
        let start = range.pointer().0;
        let fits = range.len() <= MOST_CLOSED && is_place(start) && pages.addresses().start == start;
        // The pinned block ends its mirror before its pages go.
        let shutter = Some(()).filter(|()| fits).and_then(|()| Shutter::over(pages, opener))?;
        Some(Self { shutter, arena: Arena::of_process()?, offset: start - PLACES })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.shutter.is_closed()
    }

    pub(super) fn close(&mut self) -> bool {
        self.shutter.close()
    }

    pub(super) fn open(&mut self) -> bool {
        self.shutter.open()
    }

    /// Reads bytes whether it is closed or not. False: they are not there.
    pub(super) fn read(&self, start: usize, into: &mut [u8]) -> bool {
        pread(self.arena.file(), &mut *into, self.offset + start as u64) == Ok(into.len())
    }

    /// Writes bytes whether it is closed or not. False: they are not there.
    pub(super) fn write(&self, start: usize, bytes: &[u8]) -> bool {
        pwrite(self.arena.file(), bytes, self.offset + start as u64) == Ok(bytes.len())
    }
}
