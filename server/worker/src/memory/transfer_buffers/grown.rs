//! The buffers of one direction: one for good, more while streams are held.
//! In: lengths and releases. Out: ranges of pinned memory, and buffers that have lain idle, to be given back.
//! A thread of its own releases buffers: the driver may wait for work before it frees memory. That work may wait for
//! other threads of the worker.

use std::sync::{Arc, Weak};
use std::time::Duration;

use floe_abi::{CudaError, CudaResult};
use floe_device::{Device, PageSize};

use crate::memory::budget::{Budget, Kept};
use crate::memory::range_allocator::{RangeAllocator, Ticket};

/// The time between two looks for idle buffers; at the second look they are released.
const LOOK: Duration = Duration::from_millis(250);

/// A buffer with its memory.
pub(super) struct PinnedBuffer<D: Device> {
    memory: Arc<D::Pinned>,
    ranges: RangeAllocator,
    /// Whether nothing has used it since the last look.
    idle: bool,
    _kept: Kept,
}

/// The buffers of one direction.
pub(super) struct Buffers<D: Device> {
    /// The first stays; the places of others may be empty.
    buffers: Vec<Option<PinnedBuffer<D>>>,
    /// Memory that was released here and that others may still hold.
    given_up: Vec<Weak<D::Pinned>>,
    /// In which pages they lie.
    pages: PageSize,
    /// The budget to which they are charged.
    budget: Budget,
    /// Whether a thread looks for idle ones.
    watched: bool,
}

/// The idle buffers that a look found.
pub(super) struct Idle<D: Device> {
    /// To be dropped.
    buffers: Vec<PinnedBuffer<D>>,
    /// Whether it is worth looking again.
    others: bool,
}

/// An owner of buffers that grow.
pub(super) trait Grows<D: Device>: Send + Sync + 'static {
    /// Takes out what has lain idle.
    fn idle(&self, device: &D) -> Idle<D>;
}

impl<D: Device> Buffers<D> {
    /// None yet.
    pub(super) fn of(pages: PageSize, budget: &Budget) -> Self {
        Self { buffers: Vec::new(), given_up: Vec::new(), pages, budget: budget.clone(), watched: false }
    }

    /// Whether the session may have one more.
    pub(super) fn may_grow(&self, bytes: usize) -> bool {
        self.budget.has(bytes as u64)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }

    /// Buffers there are.
    pub(super) fn count(&self) -> usize {
        self.buffers.iter().flatten().count()
    }

    /// Buffers whose memory is taken: those there are, and released ones that are still on their way to a client.
    pub(super) fn taken(&mut self) -> usize {
        self.given_up.retain(|memory| memory.strong_count() > 0);
        self.count() + self.given_up.len()
    }

    /// Takes a buffer's memory from the device.
    pub(super) fn add(&mut self, device: &D, bytes: usize) -> CudaResult<()> {
        let kept = self.budget.keep(bytes as u64).map_err(|_| CudaError::OUT_OF_MEMORY)?;
        let memory = Arc::new(device.pin(bytes, self.pages)?);
        let buffer = PinnedBuffer { memory, ranges: RangeAllocator::new(bytes), idle: false, _kept: kept };
        match self.buffers.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(buffer),
            None => self.buffers.push(Some(buffer)),
        }
        Ok(())
    }

    /// All memory.
    pub(super) fn memories(&self) -> impl Iterator<Item = &D::Pinned> {
        self.buffers.iter().flatten().map(|buffer| &*buffer.memory)
    }

    /// The memory of a buffer a range of which is in use.
    pub(super) fn memory(&self, buffer: usize) -> Arc<D::Pinned> {
        Arc::clone(&self.buffers[buffer].as_ref().expect("a buffer in use stays").memory)
    }

    /// A range: its buffer, its ticket there, its offset.
    pub(super) fn allocate(&mut self, bytes: usize) -> Option<(usize, Ticket, usize)> {
        let mut buffers = self.buffers.iter_mut().enumerate();
        buffers.find_map(|(index, buffer)| {
            let buffer = buffer.as_mut()?;
            let (ticket, offset) = buffer.ranges.allocate(bytes)?;
            buffer.idle = false;
            Some((index, ticket, offset))
        })
    }

    pub(super) fn release(&mut self, buffer: usize, ticket: Ticket) {
        // After a reset the buffer may be another, or none.
        if let Some(buffer) = self.buffers.get_mut(buffer).and_then(Option::as_mut) {
            buffer.ranges.release(ticket);
        }
    }

    /// Gives all memory up.
    pub(super) fn clear(&mut self) {
        let buffers = self.buffers.drain(..).flatten();
        self.given_up.extend(buffers.map(|buffer| Arc::downgrade(&buffer.memory)));
    }

    /// Takes out the buffers that have lain idle for a look, but the first.
    pub(super) fn idle(&mut self) -> Idle<D> {
        let mut found = Vec::new();
        for place in self.buffers.iter_mut().skip(1) {
            let Some(buffer) = place else { continue };
            let is_idle = buffer.ranges.is_empty();
            if std::mem::replace(&mut buffer.idle, is_idle) && is_idle {
                found.extend(place.take());
            }
        }
        self.watched = self.count() > 1;
        Idle { buffers: found, others: self.watched }
    }

    /// Has a thread give buffers of `home`, whose these are, back when they lie idle, until there is but one.
    pub(super) fn watch(&mut self, device: &Arc<D>, home: &Arc<impl Grows<D>>) {
        if self.watched || self.count() < 2 {
            return;
        }
        let (device, home) = (Arc::clone(device), Arc::clone(home));
        let body = move || {
            loop {
                std::thread::sleep(LOOK);
                // After a reset the context is another one; one beyond use refuses, and the memory goes all the same.
                let _ = device.enter();
                let Idle { buffers, others } = home.idle(&device);
                drop(buffers);
                if !others {
                    return;
                }
            }
        };
        // Without a thread they stay until another is asked for.
        self.watched = std::thread::Builder::new().name("floe-buffers".into()).spawn(body).is_ok();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use crate::tests::Fake;

    fn buffers(count: usize) -> (Fake, Buffers<Fake>) {
        let (device, mut buffers) = (Fake::default(), Buffers::of(PageSize::Large, &Budget::default()));
        for _ in 0..count {
            buffers.add(&device, 1024).unwrap();
        }
        (device, buffers)
    }

    #[test]
    fn a_grown_buffer_that_lies_idle_between_two_looks_is_given_back_and_the_first_stays() {
        let (device, mut buffers) = buffers(3);
        let taken: Vec<_> = (0..3).map(|_| buffers.allocate(1000).unwrap()).collect();
        assert_eq!(taken.iter().map(|(buffer, ..)| *buffer).collect::<Vec<_>>(), [0, 1, 2]);
        buffers.release(1, taken[1].1);
        assert_eq!((buffers.idle().buffers.len(), buffers.count()), (0, 3), "it was in use until now");
        assert_eq!((buffers.idle().buffers.len(), buffers.count()), (1, 2));
        assert_eq!(buffers.allocate(1000), None);
        buffers.add(&device, 1024).unwrap();
        let (buffer, ticket, _) = buffers.allocate(1000).unwrap();
        assert_eq!(buffer, 1, "its place is taken again");
        for (buffer, ticket) in [(1, ticket), (2, taken[2].1), (0, taken[0].1)] {
            buffers.release(buffer, ticket);
        }
        assert!(buffers.idle().others);
        assert!(!buffers.idle().others);
        assert_eq!(buffers.count(), 1);
    }

    #[test]
    fn memory_that_is_given_up_counts_until_nobody_has_it() {
        let (_device, mut buffers) = buffers(2);
        let memory = buffers.memory(0);
        buffers.clear();
        assert_eq!((buffers.count(), buffers.taken()), (0, 1));
        drop(memory);
        assert_eq!(buffers.taken(), 0);
    }

    #[test]
    fn a_buffer_that_is_used_between_two_looks_stays() {
        let (_device, mut buffers) = buffers(2);
        buffers.allocate(1024).unwrap();
        for _ in 0..3 {
            let (buffer, ticket, _) = buffers.allocate(1024).unwrap();
            buffers.release(buffer, ticket);
            assert!(buffers.idle().buffers.is_empty());
        }
    }
}
