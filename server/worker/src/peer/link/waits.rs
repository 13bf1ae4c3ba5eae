//! Words that streams wait for until a transfer is over.
//! In: pages of words, which the issuer makes. Out: waits, each with a word that no other wait has.
//! A word is used again only when its transfer is over and its stream has gone on. It never becomes lower.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use floe_device::Mapped;
use floe_wire::DevicePtr;

use crate::memory::budget::Kept;
use crate::peer::page::{Page, WORDS};

/// A word, and the value that was waited for last.
struct Free<M> {
    page: Arc<Page<M>>,
    word: u32,
    value: u64,
}

/// The words of a session's transfers.
pub(crate) struct Words<M> {
    free: Mutex<Vec<Free<M>>>,
    /// All pages, with what they cost.
    pages: Mutex<Vec<(Arc<Page<M>>, Kept)>>,
}

/// A stream's wait for a transfer. Who ends the transfer has it, and who learns that the stream has gone on.
pub(crate) struct Wait<M: Mapped> {
    words: Arc<Words<M>>,
    page: Arc<Page<M>>,
    word: u32,
    pub(crate) value: u64,
    failed: AtomicBool,
    _kept: Kept,
}

impl<M: Mapped> Words<M> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { free: Mutex::default(), pages: Mutex::default() })
    }

    /// Whether none is free.
    pub(crate) fn is_empty(&self) -> bool {
        floe_lock::lock(&self.free).is_empty()
    }

    /// Adds the words of a page.
    pub(crate) fn add(&self, page: &Arc<Page<M>>, kept: Kept) {
        floe_lock::lock(&self.pages).push((Arc::clone(page), kept));
        let all = (0..WORDS).map(|word| Free { page: Arc::clone(page), word, value: 0 });
        floe_lock::lock(&self.free).extend(all);
    }

    /// A wait, if a word is free.
    pub(crate) fn take(self: &Arc<Self>, kept: Kept) -> Option<Arc<Wait<M>>> {
        let Free { page, word, value } = floe_lock::lock(&self.free).pop()?;
        let (words, failed) = (Arc::clone(self), AtomicBool::new(false));
        Some(Arc::new(Wait { words, page, word, value: value + 1, failed, _kept: kept }))
    }

    /// Unmaps all pages. No wait is left.
    pub(crate) fn clear(&self) {
        floe_lock::lock(&self.free).clear();
        let pages = std::mem::take(&mut *floe_lock::lock(&self.pages));
        pages.iter().for_each(|(page, _)| page.let_go());
    }
}

impl<M: Mapped> Wait<M> {
    /// The word's address.
    pub(crate) fn at(&self) -> DevicePtr {
        self.page.word(self.word)
    }

    /// The transfer is over: the stream goes on.
    pub(crate) fn end(&self) {
        self.page.raise(self.word, self.value);
    }

    /// It failed, which has been noted already: the stream goes on.
    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Release);
        self.end();
    }

    /// Whether it failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }
}

impl<M: Mapped> Drop for Wait<M> {
    fn drop(&mut self) {
        let (page, word, value) = (Arc::clone(&self.page), self.word, self.value);
        floe_lock::lock(&self.words.free).push(Free { page, word, value });
    }
}
