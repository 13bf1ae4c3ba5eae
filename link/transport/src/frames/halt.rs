//! Asks a reader to stop at a frame's border.
//! In: a request, which may be withdrawn. Out: the reader's word that it reads on, stops, or has a frame that it has to
//! finish. It wakes nobody: the pipe does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::LinkError;

/// A request to one reader, shared by who asks and who reads.
#[derive(Clone, Debug, Default)]
pub struct Halt(Arc<Flags>);

#[derive(Debug, Default)]
struct Flags {
    asked: AtomicBool,
    /// The reader waits for bytes at a frame's border, or for the rest of a frame that it gathers.
    waits: AtomicBool,
}

impl Halt {
    /// Asks the reader to stop before it gives out another frame, with [`LinkError::Stopped`].
    pub fn ask(&self) {
        self.0.asked.store(true, Ordering::SeqCst);
    }

    /// Lets the reader read on.
    pub fn withdraw(&self) {
        self.0.asked.store(false, Ordering::SeqCst);
    }

    /// Whether the reader is asked to stop.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.0.asked.load(Ordering::SeqCst)
    }

    /// Whether the reader only waits for bytes. Where it does after [`Halt::ask`], it gives out no frame before
    /// [`Halt::withdraw`]; where it does not, it has a frame, and takes it to its end.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.0.waits.load(Ordering::SeqCst)
    }

    /// Stops a reader that is asked to, at a frame's border.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), LinkError> {
        if self.0.asked.load(Ordering::Relaxed) { Err(LinkError::Stopped) } else { Ok(()) }
    }

    /// Stops a reader that is asked to while it waits, unless it waits for data that go straight to their place.
    #[inline]
    pub(crate) fn check_waiting(&self) -> Result<(), LinkError> {
        if self.0.waits.load(Ordering::Relaxed) { self.check() } else { Ok(()) }
    }

    /// The reader begins to wait, and does nothing else.
    pub(crate) fn begins_to_wait(&self) {
        self.0.waits.store(true, Ordering::Release);
    }

    /// What it waited for is there: it goes on, unless it is to stop.
    pub(crate) fn has_waited(&self) -> Result<(), LinkError> {
        self.0.waits.store(false, Ordering::SeqCst);
        // Beside `ask`: either the reader sees the request, or who asks sees that the reader does not wait.
        if self.0.asked.load(Ordering::SeqCst) { Err(LinkError::Stopped) } else { Ok(()) }
    }
}
