//! Physical memory of a device: one sparse memfd out of which backings are cut.
//! In goes a length, out comes a [`Backing`] that may be mapped at several addresses at once, all of them the same bytes.
//! A dropped backing gives its pages back to the system at once; new backings read as zero.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};

use super::space::{GRANULE, MemoryError};

/// The pool a device's physical memory is cut from.
#[derive(Debug)]
pub struct Store {
    file: File,
    /// Length of the file; also the most that can ever be in use.
    capacity: u64,
    /// Free ranges: offset to length.
    free: Mutex<BTreeMap<u64, u64>>,
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
        Ok(Arc::new(Self { file: File::from(descriptor), capacity, free: Mutex::new(BTreeMap::from([(0, capacity)])) }))
    }

    /// Bytes in use by backings.
    pub fn used(&self) -> u64 {
        let free = floe_lock::lock(&self.free);
        self.capacity - free.values().sum::<u64>()
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
        let rounded = length
            .checked_next_multiple_of(GRANULE)
            .filter(|rounded| *rounded > 0)
            .ok_or(MemoryError::Length { length })?;
        let mut free = floe_lock::lock(&self.free);
        let (offset, available) = free
            .iter()
            .find(|(_, available)| **available >= rounded)
            .map(|(offset, available)| (*offset, *available))
            .ok_or(MemoryError::Exhausted { length: rounded })?;
        free.remove(&offset);
        if available > rounded {
            free.insert(offset + rounded, available - rounded);
        }
        Ok(Arc::new(Backing { store: Arc::clone(self), offset, length: rounded }))
    }

    fn give_back(&self, offset: u64, length: u64) {
        let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        if rustix::fs::fallocate(&self.file, flags, offset, length).is_err() {
            // Pages that could not be punched would show old bytes to the next owner: such a range is never reused.
            return;
        }
        let mut free = floe_lock::lock(&self.free);
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

/// A piece of a store. Lives as long as somebody holds it or it is mapped.
#[derive(Debug)]
pub struct Backing {
    store: Arc<Store>,
    offset: u64,
    length: u64,
}

impl Backing {
    /// Bytes, a multiple of [`GRANULE`].
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Its offset in the store's file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The store's file, for mapping the same bytes in another process.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.store.file.as_fd()
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        self.store.give_back(self.offset, self.length);
    }
}
