//! Physical memory of a device: one sparse memfd out of which backings are cut, and backings in files of their own.
//! In goes a length, out comes a [`Backing`] that may be mapped at several addresses at once, all of them the same bytes.
//! A dropped backing gives its pages back to the system at once; new backings read as zero. All backings made here
//! together never exceed the capacity.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};

use rustix::fs::SeekFrom;

use super::exported::MemoryFile;
use super::space::{GRANULE, MemoryError};

/// The pool a device's physical memory is cut from.
#[derive(Debug)]
pub struct Store {
    file: File,
    /// Length of the file; also the most that can ever be in use.
    capacity: u64,
    state: Mutex<StoreState>,
}

#[derive(Debug)]
struct StoreState {
    /// Free ranges of the file: offset to length.
    free: BTreeMap<u64, u64>,
    /// Bytes of all backings, in this file or one of their own.
    used: u64,
}

impl Store {
    /// A store of at most `capacity` bytes (rounded up to granules). No memory is taken before it is written to.
    ///
    /// # Errors
    /// When the system refuses an anonymous file of that length.
    pub fn new(capacity: u64) -> Result<Arc<Self>, MemoryError> {
        let capacity = capacity.checked_next_multiple_of(GRANULE).ok_or(MemoryError::Length { length: capacity })?;
        let descriptor = rustix::fs::memfd_create("floe-device", rustix::fs::MemfdFlags::CLOEXEC)
            .map_err(|cause| MemoryError::system("memfd_create", cause))?;
        rustix::fs::ftruncate(&descriptor, capacity).map_err(|cause| MemoryError::system("ftruncate", cause))?;
        let state = StoreState { free: BTreeMap::from([(0, capacity)]), used: 0 };
        Ok(Arc::new(Self { file: File::from(descriptor), capacity, state: Mutex::new(state) }))
    }

    /// Bytes in use by backings.
    pub fn used(&self) -> u64 {
        floe_lock::lock(&self.state).used
    }

    /// Bytes the store may hold.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Cuts `length` bytes (rounded up to granules), all zero.
    ///
    /// # Errors
    /// [`MemoryError::Exhausted`] when no free range is long enough, [`MemoryError::Length`] for 0.
    pub fn create(self: &Arc<Self>, length: u64) -> Result<Arc<Backing>, MemoryError> {
        let rounded = rounded(length)?;
        let mut state = floe_lock::lock(&self.state);
        let found = state.free.iter().find(|(_, available)| **available >= rounded);
        let (offset, available) = found
            .map(|(offset, available)| (*offset, *available))
            .filter(|_| rounded <= self.capacity - state.used)
            .ok_or(MemoryError::Exhausted { length: rounded })?;
        state.free.remove(&offset);
        if available > rounded {
            state.free.insert(offset + rounded, available - rounded);
        }
        state.used += rounded;
        Ok(Arc::new(Backing { origin: Origin::Cut(Arc::clone(self)), offset, length: rounded }))
    }

    /// Makes `length` bytes (rounded up to granules), all zero, in a file of their own, which other processes may map. It
    /// says that it belongs to the device with this number on its host.
    ///
    /// # Errors
    /// As `create`; [`MemoryError::Descriptors`], or the system's refusal.
    pub fn create_exportable(self: &Arc<Self>, length: u64, device: u32) -> Result<Arc<Backing>, MemoryError> {
        let length = rounded(length)?;
        {
            let mut state = floe_lock::lock(&self.state);
            if length > self.capacity - state.used {
                return Err(MemoryError::Exhausted { length });
            }
            state.used += length;
        }
        match MemoryFile::create(length, device) {
            Ok(file) => {
                let origin = Origin::Own { file, charged: Some(Arc::clone(self)) };
                Ok(Arc::new(Backing { origin, offset: 0, length }))
            }
            Err(error) => {
                self.discharge(length);
                Err(error)
            }
        }
    }

    fn discharge(&self, length: u64) {
        floe_lock::lock(&self.state).used -= length;
    }

    fn give_back(&self, offset: u64, length: u64) {
        let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        if rustix::fs::fallocate(&self.file, flags, offset, length).is_err() {
            // Pages that could not be punched would show old bytes to the next owner: such a range is never reused.
            return;
        }
        let mut state = floe_lock::lock(&self.state);
        state.used -= length;
        let free = &mut state.free;
        let mut offset = offset;
        let mut length = length;
        if let Some((&before, &size)) = free.range(..offset).next_back()
            && before + size == offset
        {
            free.remove(&before);
            offset = before;
            length += size;
        }
        if let Some(size) = free.remove(&(offset + length)) {
            length += size;
        }
        free.insert(offset, length);
    }
}

fn rounded(length: u64) -> Result<u64, MemoryError> {
    length.checked_next_multiple_of(GRANULE).filter(|rounded| *rounded > 0).ok_or(MemoryError::Length { length })
}

#[derive(Debug)]
enum Origin {
    /// A range of the store's file.
    Cut(Arc<Store>),
    /// A file of its own, which counts in a store, or in that of another process.
    Own { file: MemoryFile, charged: Option<Arc<Store>> },
}

/// A piece of physical memory. Lives as long as somebody holds it or it is mapped, in this process or another.
#[derive(Debug)]
pub struct Backing {
    origin: Origin,
    offset: u64,
    length: u64,
}

impl Backing {
    /// Memory that a process exported, by a descriptor that may be anything. It counts in no store of this process.
    ///
    /// # Errors
    /// [`MemoryError::Foreign`] where it is none, [`MemoryError::Descriptors`], or the system's refusal.
    pub fn import(descriptor: BorrowedFd<'_>) -> Result<Arc<Self>, MemoryError> {
        let file = MemoryFile::accept(descriptor)?;
        let length = file.length();
        Ok(Arc::new(Self { origin: Origin::Own { file, charged: None }, offset: 0, length }))
    }

    /// Bytes, a multiple of [`GRANULE`].
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The file of its own, if it has one.
    pub fn own_file(&self) -> Option<&MemoryFile> {
        match &self.origin {
            Origin::Cut(_) => None,
            Origin::Own { file, .. } => Some(file),
        }
    }

    /// Its offset in its file.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The ranges within `range` that were written since the bytes were taken: the rest is zero, and takes no memory yet.
    /// What the system does not say counts as written.
    pub(super) fn written(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let (mut at, end) = (self.offset + range.start, self.offset + range.end);
        let mut written = Vec::new();
        while at < end {
            // Pages that were swapped out count as data here; `mincore` would not know them.
            let from = match rustix::fs::seek(self.file(), SeekFrom::Data(at)) {
                Ok(from) => from.max(at),
                Err(rustix::io::Errno::NXIO) => end,
                Err(_) => at,
            };
            if from >= end {
                break;
            }
            let hole = rustix::fs::seek(self.file(), SeekFrom::Hole(from));
            let to = hole.ok().filter(|to| *to > from).map_or(end, |to| to.min(end));
            written.push(from - self.offset..to - self.offset);
            at = to;
        }
        written
    }

    /// The file it lies in.
    pub(super) fn file(&self) -> BorrowedFd<'_> {
        match &self.origin {
            Origin::Cut(store) => store.file.as_fd(),
            Origin::Own { file, .. } => file.file(),
        }
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        match &self.origin {
            Origin::Cut(store) => store.give_back(self.offset, self.length),
            Origin::Own { charged, .. } => {
                if let Some(store) = charged {
                    store.discharge(self.length);
                }
            }
        }
    }
}
