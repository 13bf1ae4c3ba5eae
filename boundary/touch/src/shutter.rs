//! Pages of the owner's that are closed to the program for a while, and opened when it touches them. It knows nothing of what
//! they hold: whoever writes them meanwhile does so by their file.

use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;

use floe_surface::HostPages;

use crate::registry::FaultHandler;
use crate::signal;
use crate::span::Access;
use crate::watch::Watch;

/// Whole pages of a block of host memory. Dropping this opens them.
#[derive(Debug)]
pub struct Shutter {
    pages: HostPages,
    _watch: Watch,
    is_closed: bool,
}

impl Shutter {
    /// Watches pages, which stay open for now and are a block's as long as this lives. The handler is asked when the program
    /// touches one that is closed. `None` where they cannot be watched.
    pub fn over(pages: HostPages, handler: Arc<dyn FaultHandler>) -> Option<Self> {
        let watch = Watch::start(pages.addresses(), handler)?;
        Some(Self { pages, _watch: watch, is_closed: false })
    }

    /// Whether they are closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Closes them: a touch is a page fault. False where the system refuses.
    pub fn close(&mut self) -> bool {
        // The program may have a handler of its own meanwhile.
        signal::install();
        self.is_closed = self.is_closed || self.protect(Access::Closed);
        self.is_closed
    }

    /// Opens them. False where the system refuses.
    pub fn open(&mut self) -> bool {
        self.is_closed = self.is_closed && !self.protect(Access::Open);
        !self.is_closed
    }

    fn protect(&self, access: Access) -> bool {
        let Range { start, end } = self.pages.addresses();
        let Ok(bytes) = usize::try_from(end - start) else { return false };
        // SAFETY: `HostPages` are a block's alone, which holds no object of Rust's; whoever closes them keeps the block until this
        // is dropped. A page that the block has given back is nobody's, and the kernel refuses.
        unsafe { libc::mprotect(start as *mut c_void, bytes, access.protection()) == 0 }
    }
}

impl Drop for Shutter {
    fn drop(&mut self) {
        self.open();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use floe_surface::HostBlock;

    use super::*;
    use crate::PageFault;

    /// Writes to the page by its file and opens it at a touch, and counts the touches.
    #[derive(Default)]
    struct Opens {
        shutter: Mutex<Option<Shutter>>,
        touches: Mutex<u32>,
    }

    impl FaultHandler for Opens {
        fn handle(&self, _fault: PageFault) -> bool {
            *self.touches.lock().expect("no panic") += 1;
            self.shutter.lock().expect("no panic").as_mut().is_some_and(Shutter::open)
        }
    }

    #[test]
    fn a_touch_of_closed_pages_waits_until_they_are_open_and_sees_what_was_written_meanwhile() {
        let file = rustix::fs::memfd_create("shutter", rustix::fs::MemfdFlags::CLOEXEC).expect("a file");
        rustix::fs::ftruncate(&file, 4096).expect("a page");
        let place = floe_abi::HostPointer(0x5200_0000_0000);
        let block = HostBlock::shared(place, 5, std::os::fd::AsFd::as_fd(&file), 0).expect("free");
        let opens = Arc::new(Opens::default());
        *opens.shutter.lock().expect("no panic") = Some(Shutter::over(block.pages(), opens.clone()).expect("watched"));
        let seen = || (block.range().to_vec()[0], *opens.touches.lock().expect("no panic"));
        assert_eq!(seen(), (0, 0), "open pages are not asked about");
        for (round, value) in [(1, 7), (2, 8)] {
            assert!(opens.shutter.lock().expect("no panic").as_mut().is_some_and(Shutter::close));
            rustix::io::pwrite(&file, &[value], 0).expect("written");
            assert_eq!(seen(), (value, round));
        }
        opens.shutter.lock().expect("no panic").as_mut().map(Shutter::close);
        *opens.shutter.lock().expect("no panic") = None;
        assert_eq!(seen(), (8, 2), "open when nobody closes them any more");
    }
}
