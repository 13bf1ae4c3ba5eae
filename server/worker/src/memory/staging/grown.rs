//! The rings of one direction: one for good, more while streams are held.
//! In: lengths and releases. Out: ranges of pinned memory, and rings that have lain idle, to be given back.
//! Who gives a ring back is a thread of its own: the driver may wait for work before it lets go of memory, and that work for
//! what other threads here still have to do.

use std::sync::{Arc, Weak};
use std::time::Duration;

use floe_abi::{CudaError, CudaResult};
use floe_device::{Device, PageSize};

use crate::memory::budget::{Budget, Kept};
use crate::memory::ring::{Ring, Ticket};

/// How often it is looked whether grown rings lie idle; the second time they are given back.
const LOOK: Duration = Duration::from_millis(250);

/// A ring with its memory.
pub(super) struct PinnedRing<D: Device> {
    memory: Arc<D::Pinned>,
    ring: Ring,
    /// Whether nothing has used it since the last look.
    idle: bool,
    _kept: Kept,
}

/// The rings of one direction.
pub(super) struct Rings<D: Device> {
    /// The first stays; the places of others may be empty.
    rings: Vec<Option<PinnedRing<D>>>,
    /// Memory that was given up here and that others may still have.
    given_up: Vec<Weak<D::Pinned>>,
    /// In which pages they lie.
    pages: PageSize,
    /// What they are charged to.
    budget: Budget,
    /// Whether a thread looks for idle ones.
    watched: bool,
}

/// What was found at a look for idle rings.
pub(super) struct Idle<D: Device> {
    /// To be dropped.
    rings: Vec<PinnedRing<D>>,
    /// Whether it is worth looking again.
    others: bool,
}

/// What has rings that grow.
pub(super) trait Grows<D: Device>: Send + Sync + 'static {
    /// Takes out what has lain idle.
    fn idle(&self, device: &D) -> Idle<D>;
}

impl<D: Device> Rings<D> {
    /// None yet.
    pub(super) fn of(pages: PageSize, budget: &Budget) -> Self {
        Self { rings: Vec::new(), given_up: Vec::new(), pages, budget: budget.clone(), watched: false }
    }

    /// Whether the session may have one more.
    pub(super) fn may_grow(&self, bytes: usize) -> bool {
        self.budget.has(bytes as u64)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rings.is_empty()
    }

    /// Rings there are.
    pub(super) fn count(&self) -> usize {
        self.rings.iter().flatten().count()
    }

    /// Rings whose memory is taken: those there are, and those given up that are still on their way to a client.
    pub(super) fn taken(&mut self) -> usize {
        self.given_up.retain(|memory| memory.strong_count() > 0);
        self.count() + self.given_up.len()
    }

    /// Takes a ring's memory from the device.
    pub(super) fn add(&mut self, device: &D, bytes: usize) -> CudaResult<()> {
        let kept = self.budget.keep(bytes as u64).map_err(|_| CudaError::OUT_OF_MEMORY)?;
        let memory = Arc::new(device.pin(bytes, self.pages)?);
        let ring = PinnedRing { memory, ring: Ring::new(bytes), idle: false, _kept: kept };
        match self.rings.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(ring),
            None => self.rings.push(Some(ring)),
        }
        Ok(())
    }

    /// All memory.
    pub(super) fn memories(&self) -> impl Iterator<Item = &D::Pinned> {
        self.rings.iter().flatten().map(|ring| &*ring.memory)
    }

    /// The memory of a ring a range of which is in use.
    pub(super) fn memory(&self, ring: usize) -> Arc<D::Pinned> {
        Arc::clone(&self.rings[ring].as_ref().expect("a ring in use stays").memory)
    }

    /// A range: its ring, its ticket there, its offset.
    pub(super) fn allocate(&mut self, bytes: usize) -> Option<(usize, Ticket, usize)> {
        let mut rings = self.rings.iter_mut().enumerate();
        rings.find_map(|(index, ring)| {
            let ring = ring.as_mut()?;
            let (ticket, offset) = ring.ring.allocate(bytes)?;
            ring.idle = false;
            Some((index, ticket, offset))
        })
    }

    pub(super) fn release(&mut self, ring: usize, ticket: Ticket) {
        // After a reset the ring may be another, or none.
        if let Some(ring) = self.rings.get_mut(ring).and_then(Option::as_mut) {
            ring.ring.release(ticket);
        }
    }

    /// Gives all memory up.
    pub(super) fn clear(&mut self) {
        let rings = self.rings.drain(..).flatten();
        self.given_up.extend(rings.map(|ring| Arc::downgrade(&ring.memory)));
    }

    /// Takes out the rings that have lain idle for a look, but the first.
    pub(super) fn idle(&mut self) -> Idle<D> {
        let mut found = Vec::new();
        for place in self.rings.iter_mut().skip(1) {
            let Some(ring) = place else { continue };
            let is_idle = ring.ring.is_empty();
            if std::mem::replace(&mut ring.idle, is_idle) && is_idle {
                found.extend(place.take());
            }
        }
        self.watched = self.count() > 1;
        Idle { rings: found, others: self.watched }
    }

    /// Has a thread give rings of `home`, whose these are, back when they lie idle, until there is but one.
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
                let Idle { rings, others } = home.idle(&device);
                drop(rings);
                if !others {
                    return;
                }
            }
        };
        // Without a thread they stay until another is asked for.
        self.watched = std::thread::Builder::new().name("floe-rings".into()).spawn(body).is_ok();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use crate::tests::Fake;

    fn rings(count: usize) -> (Fake, Rings<Fake>) {
        let (device, mut rings) = (Fake::default(), Rings::of(PageSize::Large, &Budget::default()));
        for _ in 0..count {
            rings.add(&device, 1024).unwrap();
        }
        (device, rings)
    }

    #[test]
    fn a_grown_ring_that_lies_idle_between_two_looks_is_given_back_and_the_first_stays() {
        let (device, mut rings) = rings(3);
        let taken: Vec<_> = (0..3).map(|_| rings.allocate(1000).unwrap()).collect();
        assert_eq!(taken.iter().map(|(ring, ..)| *ring).collect::<Vec<_>>(), [0, 1, 2]);
        rings.release(1, taken[1].1);
        assert_eq!((rings.idle().rings.len(), rings.count()), (0, 3), "it was in use until now");
        assert_eq!((rings.idle().rings.len(), rings.count()), (1, 2));
        assert_eq!(rings.allocate(1000), None);
        rings.add(&device, 1024).unwrap();
        let (ring, ticket, _) = rings.allocate(1000).unwrap();
        assert_eq!(ring, 1, "its place is taken again");
        for (ring, ticket) in [(1, ticket), (2, taken[2].1), (0, taken[0].1)] {
            rings.release(ring, ticket);
        }
        assert!(rings.idle().others);
        assert!(!rings.idle().others);
        assert_eq!(rings.count(), 1);
    }

    #[test]
    fn memory_that_is_given_up_counts_until_nobody_has_it() {
        let (_device, mut rings) = rings(2);
        let memory = rings.memory(0);
        rings.clear();
        assert_eq!((rings.count(), rings.taken()), (0, 1));
        drop(memory);
        assert_eq!(rings.taken(), 0);
    }

    #[test]
    fn a_ring_that_is_used_between_two_looks_stays() {
        let (_device, mut rings) = rings(2);
        rings.allocate(1024).unwrap();
        for _ in 0..3 {
            let (ring, ticket, _) = rings.allocate(1024).unwrap();
            rings.release(ring, ticket);
            assert!(rings.idle().rings.is_empty());
        }
    }
}
