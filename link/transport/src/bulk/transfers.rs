//! Assembles transfers that are announced on the main connection and arrive on bulk connections.
//! In: announcements from the reader of commands, chunks from the readers of bulk connections. Out: complete transfers,
//! to the thread that waits for them.
//!
//! No wait here is endless while both sides keep to the protocol. One queue hands the chunks out, so every bulk
//! connection carries them in the order of their transfers. A missing chunk is therefore never behind a chunk of a
//! later transfer. A reader that waits for a later announcement delays nothing that an announced transfer lacks.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use floe_lock::lock;

use super::assembly::{Assembly, Claimed};
use crate::error::LinkError;
use crate::spin::Spin;

/// Groups of waiting readers: an announcement wakes the readers of its transfer, and hardly any others. Successive
/// transfers have different groups.
const GROUPS: usize = 8;
/// How often complete transfers are acknowledged while others are in flight, whose acknowledgement follows.
const TOLD_EVERY: Duration = Duration::from_micros(200);

/// The destination of a transfer's bytes.
pub trait Target: Send + Sync {
    /// Has `read` fill the `bytes` bytes at `offset`, in one or several parts. No byte is filled twice, and all bytes
    /// lie within the announced length.
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

/// A transfer in flight.
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
    /// Wakes the thread that waits for a complete transfer.
    whole: Condvar,
    /// Wakes the thread that waits until all are complete.
    quiet: Condvar,
    spin: Spin,
}

#[derive(Debug)]
struct State<T> {
    open: HashMap<u64, Arc<Transfer<T>>>,
    /// The transfer announced last.
    last: u64,
    /// The transfers whose announcement readers wait for.
    wanted: Vec<u64>,
    /// The transfer that a thread waits for.
    awaited: Option<u64>,
    /// Announced transfers that are not complete.
    unfinished: usize,
    /// The time of the last acknowledgement of a complete transfer.
    told: Option<Instant>,
    closed: bool,
    /// Whether no reader waits for an announcement.
    stopped: bool,
    /// Whether a thread waits until all are complete.
    wants_quiet: bool,
}

impl<T> State<T> {
    /// Counts one more complete transfer. Returns whether to acknowledge now. An acknowledgement costs more than a
    /// chunk's own system calls; the last transfer is acknowledged at once.
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

/// Whether a transfer was announced.
enum Announced<T> {
    Is(Arc<Transfer<T>>),
    /// It will not be: later ones have been, or it is complete and gone.
    Never,
    /// Readers do not wait for it now.
    NotYet,
}

/// A claimed chunk, whose bytes are read next.
pub(super) struct Claim<T> {
    transfer: Arc<Transfer<T>>,
    id: u64,
    offset: usize,
    bytes: usize,
    claimed: Claimed,
}

impl<T: Target> Claim<T> {
    /// Has `read` fill the chunk's bytes.
    pub(super) fn fill(&self, read: &mut dyn FnMut(&mut [u8]) -> Result<(), LinkError>) -> Result<(), LinkError> {
        self.transfer.target.fill(self.offset, self.bytes, read)
    }
}

/// The group of the readers that wait for a transfer.
fn group(id: u64) -> usize {
    usize::try_from(id % GROUPS as u64).unwrap_or_default()
}

impl<T: Target> Transfers<T> {
    /// Starts without transfers. A waiting thread spins for `spin` before it parks.
    #[must_use]
    pub fn new(spin: Spin) -> Self {
        let (open, wanted) = (HashMap::new(), Vec::new());
        let state = State {
            open,
            last: 0,
            wanted,
            awaited: None,
            unfinished: 0,
            told: None,
            closed: false,
            stopped: false,
            wants_quiet: false,
        };
        let (whole, quiet) = (Condvar::new(), Condvar::new());
        Self { state: Mutex::new(state), announced: Default::default(), whole, quiet, spin }
    }

    /// The transfer that was announced last.
    pub fn last(&self) -> u64 {
        lock(&self.state).last
    }

    /// Goes on behind a transfer that another process announced last.
    pub fn begin_behind(&self, last: u64) {
        lock(&self.state).last = last;
    }

    /// Waits until every announced transfer is complete, and then lets no reader wait for an announcement: it stops, and
    /// gives the chunk back to its connection. No other transfer is announced meanwhile. False: they are not complete by
    /// `deadline`, and nothing has changed.
    pub fn stop(&self, deadline: Instant) -> bool {
        let mut state = lock(&self.state);
        while state.unfinished > 0 && !state.closed {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.wants_quiet = false;
                return false;
            }
            state.wants_quiet = true;
            state = floe_lock::wait_timeout(&self.quiet, state, left);
        }
        (state.wants_quiet, state.stopped) = (false, true);
        drop(state);
        self.announced.iter().for_each(Condvar::notify_all);
        true
    }

    /// Lets readers wait for announcements again.
    pub fn go_on(&self) {
        lock(&self.state).stopped = false;
    }

    /// Announces a transfer of `bytes`, later than all before. False: it is empty or too large.
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
            // A transfer before this one was never announced: it does not exist.
            self.announced.iter().for_each(Condvar::notify_all);
        } else if is_wanted {
            self.announced[group(id)].notify_all();
        }
        true
    }

    /// Waits until an announced transfer is complete, forgets it and returns its target. `None`: the session is over,
    /// or there is no such transfer. One thread at a time waits here.
    pub fn take(&self, id: u64) -> Option<Taken<T>> {
        let transfer = Arc::clone(lock(&self.state).open.get(&id)?);
        let is_whole = || transfer.whole.load(Ordering::Acquire);
        if !is_whole() {
            // A hint only: it spins before the park.
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

    /// Claims a chunk, after waiting for its transfer's announcement. `None`: nobody waits for announcements now.
    pub(super) fn claim(&self, id: u64, offset: u64, bytes: usize) -> Result<Option<Claim<T>>, LinkError> {
        let wrong = |why| LinkError::Chunk { transfer: id, offset, bytes, why };
        let transfer = match self.announced(id)? {
            Announced::Is(transfer) => transfer,
            Announced::Never => return Err(wrong("there is no such transfer")),
            Announced::NotYet => return Ok(None),
        };
        let claimed = lock(&transfer.assembly).claim(offset, bytes).map_err(wrong)?;
        let offset = usize::try_from(offset).map_err(|_| wrong("it begins behind the end"))?;
        Ok(Some(Claim { transfer, id, offset, bytes, claimed }))
    }

    fn announced(&self, id: u64) -> Result<Announced<T>, LinkError> {
        let mut state = lock(&self.state);
        loop {
            if state.closed {
                return Err(LinkError::Closed);
            }
            if let Some(found) = state.open.get(&id) {
                return Ok(Announced::Is(Arc::clone(found)));
            }
            if id <= state.last {
                return Ok(Announced::Never);
            }
            if state.stopped {
                return Ok(Announced::NotYet);
            }
            state.wanted.push(id);
            state = floe_lock::wait(&self.announced[group(id)], state);
            if let Some(index) = state.wanted.iter().position(|wanted| *wanted == id) {
                state.wanted.swap_remove(index);
            }
        }
    }

    /// Completes a chunk that is in its place. Returns whether to acknowledge complete transfers now.
    pub(super) fn complete(&self, claim: Claim<T>) -> bool {
        let Claim { transfer, id, claimed, .. } = claim;
        if !lock(&transfer.assembly).complete(claimed) {
            return false;
        }
        transfer.whole.store(true, Ordering::Release);
        let (is_awaited, is_to_be_told, is_quiet) = {
            let mut state = lock(&self.state);
            let is_to_be_told = state.is_to_be_told();
            (state.awaited == Some(id), is_to_be_told, state.wants_quiet && state.unfinished == 0)
        };
        if is_quiet {
            self.quiet.notify_all();
        }
        if is_awaited {
            self.whole.notify_all();
        }
        is_to_be_told
    }

    /// Ends all waits: the session is over, and incomplete transfers stay incomplete.
    pub fn close(&self) {
        let open = {
            let mut state = lock(&self.state);
            state.closed = true;
            std::mem::take(&mut state.open)
        };
        drop(open);
        self.announced.iter().for_each(Condvar::notify_all);
        self.whole.notify_all();
        self.quiet.notify_all();
    }
}

/// A complete transfer.
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
        let told = |id| transfers.complete(transfers.claim(id, 0, 100).expect("it fits").expect("it was announced"));
        (1..=4).for_each(|id| assert!(transfers.announce(id, 100, Nowhere)));
        assert!(told(2));
        // Keeps a slow machine within the interval.
        lock(&transfers.state).told = Some(Instant::now() + TOLD_EVERY * 1_000_000);
        assert!(!told(1) && !told(4));
        assert!(told(3), "no other transfer is in flight");
    }

    #[test]
    fn the_peer_hears_in_time_while_others_are_under_way() {
        let transfers = Transfers::new(Spin::default());
        (1..=2).for_each(|id| assert!(transfers.announce(id, 100, Nowhere)));
        lock(&transfers.state).told = Instant::now().checked_sub(TOLD_EVERY);
        assert!(transfers.complete(transfers.claim(1, 0, 100).expect("it fits").expect("it was announced")));
    }
}
