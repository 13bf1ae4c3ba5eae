//! Pages of words that sessions share.
//! In: what raises words, and the end of a session that has the page. Out: the words, which streams wait for.
//! A word never becomes lower here; and where a session ends that has the page, nobody waits for it any longer.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use floe_device::Mapped;
use floe_wire::DevicePtr;

/// Words of a page.
pub(crate) const WORDS: u32 = 512;
/// Bytes of a page.
pub(crate) const PAGE_BYTES: usize = WORDS as usize * size_of::<u64>();
/// Above every value of a program's.
pub(crate) const VALUES: u64 = 1 << 61;
/// The value of every word of a page that is over: waits compare cyclically, so it is at least any value of a program's.
pub(crate) const PAGE_IS_OVER: u64 = 1 << 62;
/// The most pages of a session.
const MOST: u64 = 4096;
/// Where pages lie in this process: outside all windows, and where no host memory of the client may lie.
pub(crate) const PLACES: std::ops::Range<u64> = 0x5800_0000_0000..0x5800_0000_0000 + MOST * PAGE_BYTES as u64;

/// The places of pages.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places(Arc<Mutex<BTreeSet<u64>>>);

/// A place that is taken as long as this is there.
#[derive(Debug)]
pub(crate) struct Place {
    places: Places,
    index: u64,
}

impl Places {
    /// A free place; `None`: the session has its most pages.
    pub(crate) fn take(&self) -> Option<Place> {
        let mut taken = floe_lock::lock(&self.0);
        let index = (0..MOST).find(|index| !taken.contains(index))?;
        taken.insert(index);
        Some(Place { places: self.clone(), index })
    }
}

impl Place {
    pub(crate) fn at(&self) -> DevicePtr {
        DevicePtr(PLACES.start + self.index * PAGE_BYTES as u64)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        floe_lock::lock(&self.places.0).remove(&self.index);
    }
}

/// A page as it is mapped here. Its place is free when it is unmapped.
struct Held<M> {
    memory: M,
    _place: Place,
}

/// A page of this session.
pub(crate) struct Page<M> {
    pub(crate) at: DevicePtr,
    /// The page's memory, for other sessions; `None`: it is theirs.
    pub(crate) file: Option<OwnedFd>,
    /// `None`: it has been let go.
    held: Mutex<Option<Held<M>>>,
    /// How many times each other session has it.
    sharers: Mutex<BTreeMap<u64, u32>>,
}

impl<M: Mapped> Page<M> {
    pub(crate) fn new(file: Option<OwnedFd>, memory: M, place: Place) -> Arc<Self> {
        let at = place.at();
        let held = Mutex::new(Some(Held { memory, _place: place }));
        Arc::new(Self { at, file, held, sharers: Mutex::default() })
    }

    /// The address of a word.
    pub(crate) fn word(&self, word: u32) -> DevicePtr {
        DevicePtr(self.at.0 + u64::from(word) * size_of::<u64>() as u64)
    }

    /// Raises a word, unless it is higher.
    pub(crate) fn raise(&self, word: u32, value: u64) {
        if let Some(held) = &*floe_lock::lock(&self.held) {
            held.memory.raise(offset(word), value);
        }
    }

    /// Adds to a word, and returns the sum.
    pub(crate) fn add(&self, word: u32, value: u64) -> u64 {
        floe_lock::lock(&self.held).as_ref().map_or(0, |held| held.memory.add(offset(word), value))
    }

    /// Another session has it, once more.
    pub(crate) fn shared_with(&self, session: u64) {
        *floe_lock::lock(&self.sharers).entry(session).or_default() += 1;
    }

    /// Another session has it once less.
    pub(crate) fn returned_by(&self, session: u64) {
        let mut sharers = floe_lock::lock(&self.sharers);
        if let Some(count) = sharers.get_mut(&session) {
            *count -= 1;
            if *count == 0 {
                sharers.remove(&session);
            }
        }
    }

    /// A session is over: if it had this page, the page is over too.
    pub(crate) fn session_over(&self, session: u64) {
        if floe_lock::lock(&self.sharers).remove(&session).is_some() {
            self.over();
        }
    }

    /// Sets every word, whatever it is: a sharer may have left one that is higher as a number, and lower where waits compare.
    fn over(&self) {
        for word in 0..WORDS {
            let now = self.add(word, 0);
            self.add(word, PAGE_IS_OVER.wrapping_sub(now));
        }
    }

    /// Unmaps it. The driver may wait for work in this. No work that names it is left.
    pub(crate) fn let_go(&self) {
        let held = floe_lock::lock(&self.held).take();
        drop(held);
    }
}

fn offset(word: u32) -> usize {
    word as usize * size_of::<u64>()
}
