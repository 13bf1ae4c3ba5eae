//! Transfers that are announced on one connection and come on others.
//! In: announcements, from who reads the commands; chunks, from who reads the bulk connections. Out: transfers that are whole,
//! to who waits for them.
//!
//! Nobody waits here for ever while both sides do as they say. On every bulk connection chunks come in the order of their
//! transfers, since one queue hands them out. So what a transfer lacks is never behind a chunk of a later one, and a reader
//! that waits for a later one's announcement holds back nothing that an announced transfer lacks.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use floe_lock::lock;

use super::assembly::{Assembly, Claimed};
use crate::error::LinkError;
use crate::spin::Spin;

/// Groups of readers that wait: those of one transfer are woken, and hardly any others. Neighbours are in different ones.
const GROUPS: usize = 8;
/// While other transfers are under way, which will be told of, the peer hears of those that are whole this often.
const TOLD_EVERY: Duration = Duration::from_micros(200);

/// Where the bytes of a transfer go.
pub trait Target: Send + Sync {
    /// Has `read` fill the `bytes` bytes at `offset`, in one or several parts. No byte is filled twice, and the whole is as
    /// long as it was announced.
    ///
    /// # Errors
    /// Those of `read`.
    fn fill(
        &self,
        offset: usize,
        bytes: usize,
        read: &mut dyn FnMut(&mut [u8]) -> Result<(), LinkError>,
    ) -> Result<(), LinkError>;
}

/// A transfer under way.
#[derive(Debug)]
struct Transfer<T> {
    target: T,
    assembly: Mutex<Assembly>,
    whole: AtomicBool,
}

/// All transfers of one direction of a session.
#[derive(Debug)]
pub struct Transfers<T> {
    state: Mutex<State<T>>,
    /// Wakes readers that wait for an announcement, by their group.
    announced: [Condvar; GROUPS],
    /// Wakes who waits for a transfer to be whole.
    whole: Condvar,
    spin: Spin,
}

#[derive(Debug)]
struct State<T> {
    open: HashMap<u64, Arc<Transfer<T>>>,
    /// The transfer announced last.
    last: u64,
    /// What readers wait for.
    wanted: Vec<u64>,
    /// The transfer that is waited for.
    awaited: Option<u64>,
    /// Announced transfers that are not whole.
    unfinished: usize,
    /// When the peer was last to be told of one that is whole.
    told: Option<Instant>,
    closed: bool,
}

impl<T> State<T> {
    /// One more is whole; whether the peer is to be told now. Each word costs more than a chunk's own system calls, and the
    /// last one is told at once.
    fn is_to_be_told(&mut self) -> bool {
        self.unfinished = self.unfinished.saturating_sub(1);
        let now = Instant::now();
        let is = self.unfinished == 0 || self.told.is_none_or(|told| now.duration_since(told) >= TOLD_EVERY);
        if is {
            self.told = Some(now);
        }
        is
    }
}

/// A chunk whose bytes are about to be read.
pub(super) struct Claim<T> {
    transfer: Arc<Transfer<T>>,
    id: u64,
    offset: usize,
    bytes: usize,
    claimed: Claimed,
}

impl<T: Target> Claim<T> {
    /// Has `read` fill the chunk's place.
    pub(super) fn fill(&self, read: &mut dyn FnMut(&mut [u8]) -> Result<(), LinkError>) -> Result<(), LinkError> {
        self.transfer.target.fill(self.offset, self.bytes, read)
    }
}

/// The group of readers that wait for a transfer.
fn group(id: u64) -> usize {
    usize::try_from(id % GROUPS as u64).unwrap_or_default()
}

impl<T: Target> Transfers<T> {
    /// None yet. Who waits for one looks again for as long as `spin` says before it sleeps.
    #[must_use]
    pub fn new(spin: Spin) -> Self {
        let (open, wanted) = (HashMap::new(), Vec::new());
        let state = State { open, last: 0, wanted, awaited: None, unfinished: 0, told: None, closed: false };
        Self { state: Mutex::new(state), announced: Default::default(), whole: Condvar::new(), spin }
    }

    /// A transfer of `bytes` comes, later than all that were announced before. False: it has too many or none.
    pub fn announce(&self, id: u64, bytes: usize, target: T) -> bool {
        let Some(assembly) = Assembly::new(bytes) else { return false };
        let transfer = Transfer { target, assembly: Mutex::new(assembly), whole: AtomicBool::new(false) };
        let mut state = lock(&self.state);
        state.last = id;
        if !state.closed {
            state.open.insert(id, Arc::new(transfer));
            state.unfinished += 1;
        }
        let (is_wanted, is_late) = (state.wanted.contains(&id), state.wanted.iter().any(|wanted| *wanted < id));
        drop(state);
        if is_late {
            // What was to come before this does not exist.
            self.announced.iter().for_each(Condvar::notify_all);
        } else if is_wanted {
            self.announced[group(id)].notify_all();
        }
        true
    }

    /// Waits until an announced transfer is whole, and forgets it; what it was filled into. `None`: the session is over, or
    /// there is no such transfer. One thread at a time waits here.
    pub fn take(&self, id: u64) -> Option<Taken<T>> {
        let transfer = Arc::clone(lock(&self.state).open.get(&id)?);
        let is_whole = || transfer.whole.load(Ordering::Acquire);
        if !is_whole() {
            // Nothing is concluded from this: it only passes the time before the sleep.
            let _ = self.spin.look(|| is_whole().then_some(()));
        }
        let mut state = lock(&self.state);
        while !is_whole() && !state.closed {
            state.awaited = Some(id);
            state = floe_lock::wait(&self.whole, state);
        }
        state.awaited = None;
        state.open.remove(&id);
        is_whole().then(|| Taken(Arc::clone(&transfer)))
    }

    /// Claims a chunk's place, after waiting for its transfer to be announced.
    pub(super) fn claim(&self, id: u64, offset: u64, bytes: usize) -> Result<Claim<T>, LinkError> {
        let wrong = |why| LinkError::Chunk { transfer: id, offset, bytes, why };
        let transfer = self.announced(id)?.ok_or_else(|| wrong("there is no such transfer"))?;
        let claimed = lock(&transfer.assembly).claim(offset, bytes).map_err(wrong)?;
        let offset = usize::try_from(offset).map_err(|_| wrong("it begins behind it"))?;
        Ok(Claim { transfer, id, offset, bytes, claimed })
    }

    fn announced(&self, id: u64) -> Result<Option<Arc<Transfer<T>>>, LinkError> {
        let mut state = lock(&self.state);
        loop {
            if state.closed {
                return Err(LinkError::Closed);
            }
            let found = state.open.get(&id).cloned();
            if found.is_some() || id <= state.last {
                return Ok(found);
            }
            state.wanted.push(id);
            state = floe_lock::wait(&self.announced[group(id)], state);
            if let Some(index) = state.wanted.iter().position(|wanted| *wanted == id) {
                state.wanted.swap_remove(index);
            }
        }
    }

    /// The chunk is in its place; whether the peer is to be told now of what is whole with it or was before.
    pub(super) fn complete(&self, claim: Claim<T>) -> bool {
        let Claim { transfer, id, claimed, .. } = claim;
        if !lock(&transfer.assembly).complete(claimed) {
            return false;
        }
        transfer.whole.store(true, Ordering::Release);
        let (is_awaited, is_to_be_told) = {
            let mut state = lock(&self.state);
            (state.awaited == Some(id), state.is_to_be_told())
        };
        if is_awaited {
            self.whole.notify_all();
        }
        is_to_be_told
    }

    /// The session is over: nobody waits here any more, and what is not whole never will be.
    pub fn close(&self) {
        let open = {
            let mut state = lock(&self.state);
            state.closed = true;
            std::mem::take(&mut state.open)
        };
        drop(open);
        self.announced.iter().for_each(Condvar::notify_all);
        self.whole.notify_all();
    }
}

/// A transfer that is whole.
#[derive(Debug)]
pub struct Taken<T>(Arc<Transfer<T>>);

impl<T> std::ops::Deref for Taken<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.target
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nowhere;

    impl Target for Nowhere {
        fn fill(
            &self,
            _: usize,
            _: usize,
            _: &mut dyn FnMut(&mut [u8]) -> Result<(), LinkError>,
        ) -> Result<(), LinkError> {
            Ok(())
        }
    }

    #[test]
    fn the_peer_hears_of_the_first_and_the_last_that_is_whole_and_of_others_now_and_then() {
        let transfers = Transfers::new(Spin::default());
        let told = |id| transfers.complete(transfers.claim(id, 0, 100).expect("it was announced"));
        (1..=4).for_each(|id| assert!(transfers.announce(id, 100, Nowhere)));
        assert!(told(2));
        // So that a slow machine is not late.
        lock(&transfers.state).told = Some(Instant::now() + TOLD_EVERY * 1_000_000);
        assert!(!told(1) && !told(4));
        assert!(told(3), "none is under way that would tell of it");
    }

    #[test]
    fn the_peer_hears_in_time_while_others_are_under_way() {
        let transfers = Transfers::new(Spin::default());
        (1..=2).for_each(|id| assert!(transfers.announce(id, 100, Nowhere)));
        lock(&transfers.state).told = Instant::now().checked_sub(TOLD_EVERY);
        assert!(transfers.complete(transfers.claim(1, 0, 100).expect("it was announced")));
    }
}
