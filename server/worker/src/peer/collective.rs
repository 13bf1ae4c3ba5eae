//! The session's communicators, by the client's ids, and NCCL once it is loaded.
//! In: ids from the wire, what NCCL gives and says. Out: communicators for calls; what has failed, for who asks.
//! It makes no connection and calls NCCL only to ask a communicator for its error.

mod held;
pub(crate) mod keys;
pub(crate) mod network;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use floe_abi::CudaError;
use floe_device::nccl::sockets::Place;
use floe_device::nccl::{Comm, Nccl, NcclError, result};

use crate::issue::fault::{Fault, violation};
use crate::memory::budget::{Budget, Kept, cost};
use held::Holds;
use keys::{Keys, hash_of};

/// Communicators of a session at once.
const MOST: usize = 1024;
/// Threads that wait in NCCL at once.
const MOST_WAITING: usize = 256;
/// Ids for new ranks with which nobody has grown: NCCL has a thread for each.
const MOST_GROW_IDS: usize = 256;
/// How long an abort waits for the issuer to leave a communicator that is about to go.
const LEAVING: Duration = Duration::from_millis(200);
/// The first byte of a worker's address: of addresses that no network routes.
const PREFIX: u8 = 0xfd;

/// A communicator that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ready {
    pub(crate) comm: Comm,
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
}

/// How a communicator ends.
type End = fn(&Nccl, Comm) -> Result<(), NcclError>;

struct Entry {
    /// `None`: it is being made.
    ready: Option<Ready>,
    failed: Option<NcclError>,
    /// The ticket of the key that its ranks have.
    key: u64,
    /// Its memory is given up, or is about to be.
    is_suspended: bool,
    /// Ids for new ranks with which it has not grown.
    grow_ids: usize,
    /// Calls of the issuer that are using it.
    users: usize,
    handles: BTreeMap<u64, usize>,
    _kept: Kept,
}

/// The communicators of a session.
pub(crate) struct Collectives {
    library: Option<PathBuf>,
    pub(crate) place: Place,
    /// Whether the daemon says which node the worker is of.
    has_nodes: bool,
    /// What the ranks of the program's job have in common, if it says so.
    job: OnceLock<u64>,
    /// Set once the worker is of a node, ahead of its first communicator.
    joined: OnceLock<()>,
    nccl: OnceLock<Arc<Nccl>>,
    comms: Mutex<BTreeMap<u64, Entry>>,
    held: Holds<Comm, End>,
    pub(crate) keys: Keys,
    waiting: AtomicUsize,
    /// Ids for new ranks, also of communicators that have ended: NCCL has each until new ranks have come.
    grow_ids: AtomicUsize,
    budget: Budget,
}

fn unknown(id: u64) -> Fault {
    Fault::Explained(CudaError::INVALID_HANDLE, format!("no communicator has the id: {id}"))
}

impl Collectives {
    /// Those of a session, whose server has NCCL or not, and says its node or not.
    pub(crate) fn new(library: Option<PathBuf>, has_nodes: bool, session: u64, budget: &Budget) -> Self {
        let mut place = [0; 16];
        // Without random bytes it has the address of another worker with that number, and the keys tell them apart.
        let _ = getrandom::fill(&mut place[1..8]);
        place[0] = PREFIX;
        place[8..].copy_from_slice(&session.to_be_bytes());
        Self {
            library,
            place,
            has_nodes,
            job: OnceLock::new(),
            joined: OnceLock::new(),
            nccl: OnceLock::new(),
            comms: Mutex::default(),
            held: Holds::default(),
            keys: Keys::new(budget),
            waiting: AtomicUsize::new(0),
            grow_ids: AtomicUsize::new(0),
            budget: budget.clone(),
        }
    }

    /// The library that the operator named.
    pub(crate) fn library(&self) -> Result<&Path, Fault> {
        let none =
            || Fault::Explained(CudaError::NOT_SUPPORTED, "this server has no NCCL: floe serve --nccl PATH".into());
        self.library.as_deref().ok_or_else(none)
    }

    /// NCCL, loaded by the first call.
    pub(crate) fn open(&self, load: impl FnOnce(&Path) -> Result<Nccl, String>) -> Result<Arc<Nccl>, Fault> {
        if let Some(nccl) = self.nccl.get() {
            return Ok(Arc::clone(nccl));
        }
        let nccl = load(self.library()?).map_err(|words| Fault::Explained(CudaError::NOT_SUPPORTED, words))?;
        Ok(Arc::clone(self.nccl.get_or_init(|| Arc::new(nccl))))
    }

    /// The program's ranks have this in common with those of its job.
    pub(crate) fn is_of_job(&self, words: &str) {
        let _ = self.job.set(hash_of("floe 2026-11 job of ranks", words.as_bytes()));
    }

    /// Has NCCL be of the node that `ask` gives for the first communicator's key and the job, before it makes that one. Later ones
    /// change nothing. Without an answer the worker is a node of its own.
    pub(crate) fn join_node(&self, nccl: &Nccl, key: u64, ask: impl FnOnce(u64, Option<u64>) -> Option<String>) {
        self.joined.get_or_init(|| {
            if let Some(name) = self.has_nodes.then(|| ask(key, self.job.get().copied())).flatten() {
                nccl.is_of_node(&name);
            }
        });
    }

    /// The node that the worker is of its own.
    pub(crate) fn own_node(&self) -> String {
        self.place.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// NCCL, which the client has opened.
    pub(crate) fn nccl(&self) -> Result<Arc<Nccl>, Fault> {
        self.nccl.get().map_or_else(|| violation("NCCL was not opened"), |nccl| Ok(Arc::clone(nccl)))
    }

    fn comms(&self) -> MutexGuard<'_, BTreeMap<u64, Entry>> {
        floe_lock::lock(&self.comms)
    }

    /// A thread is about to wait in NCCL.
    pub(crate) fn begin_waiting(&self) -> Result<(), Fault> {
        let more = |count| (count < MOST_WAITING).then_some(count + 1);
        match self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(()),
            Err(_) => {
                Err(Fault::Explained(CudaError::OUT_OF_MEMORY, format!("more than {MOST_WAITING} calls wait in NCCL")))
            }
        }
    }

    /// It does not wait any longer.
    pub(crate) fn end_waiting(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// A communicator is being made, of ranks that have the key of that ticket.
    pub(crate) fn begin(&self, id: u64, key: u64) -> Result<(), Fault> {
        let mut comms = self.comms();
        if id == 0 || comms.contains_key(&id) {
            return violation(format!("communicator id is taken: {id}"));
        }
        if comms.len() >= MOST {
            return Err(Fault::Explained(CudaError::OUT_OF_MEMORY, format!("more communicators than: {MOST}")));
        }
        let _kept = self.budget.keep(cost::COMM)?;
        let handles = BTreeMap::new();
        let entry =
            Entry { ready: None, failed: None, key, is_suspended: false, grow_ids: 0, users: 0, handles, _kept };
        comms.insert(id, entry);
        Ok(())
    }

    /// Whether it has not been aborted, also with its context, since it was begun.
    pub(crate) fn is_wanted(&self, id: u64) -> bool {
        self.comms().contains_key(&id)
    }

    /// It was made, or not. `false`: nobody wants it any more.
    pub(crate) fn made(&self, id: u64, ready: Option<Ready>) -> bool {
        let mut comms = self.comms();
        let Some(entry) = comms.get_mut(&id) else { return false };
        entry.ready = ready;
        if ready.is_none() {
            comms.remove(&id);
        }
        true
    }

    /// A communicator that can be used.
    pub(crate) fn ready(&self, id: u64) -> Result<Ready, Fault> {
        let ready = self.comms().get(&id).and_then(|entry| entry.ready);
        ready.ok_or_else(|| unknown(id))
    }

    /// The same, which a thread is about to use: it is not freed before `leave`.
    pub(crate) fn hold(&self, id: u64) -> Result<Ready, Fault> {
        let comms = self.comms();
        let ready = comms.get(&id).and_then(|entry| entry.ready).ok_or_else(|| unknown(id))?;
        self.held.enter(ready.comm);
        Ok(ready)
    }

    /// The thread uses it no longer.
    pub(crate) fn leave(&self, nccl: &Nccl, comm: Comm) -> Result<(), NcclError> {
        self.held.leave(comm).map_or(Ok(()), |end| end(nccl, comm))
    }

    /// Destroys one that was taken out, or has the last thread that uses it do so.
    pub(crate) fn destroy(&self, nccl: &Nccl, comm: Comm) -> Result<(), NcclError> {
        match self.held.end(comm, Nccl::destroy) {
            Ok(()) => self.leave(nccl, comm),
            Err(destroy) => destroy(nccl, comm),
        }
    }

    /// The same for an abort: its work ends at once, and with it what threads wait for there.
    pub(crate) fn abort(&self, nccl: &Nccl, comm: Comm) -> Result<(), NcclError> {
        match self.held.end(comm, Nccl::abort) {
            Ok(()) => {
                // One that ends already has no work.
                let _ = nccl.revoke(comm);
                self.leave(nccl, comm)
            }
            Err(abort) => abort(nccl, comm),
        }
    }

    /// One that can be used for work.
    pub(crate) fn usable(&self, id: u64) -> Result<Ready, Fault> {
        let ready = self.ready(id)?;
        if self.comms().get(&id).is_some_and(|entry| entry.is_suspended) {
            return Err(Fault::Explained(CudaError::INVALID_VALUE, "the communicator is suspended".to_owned()));
        }
        Ok(ready)
    }

    /// It is suspended from here on, or no longer.
    pub(crate) fn is_suspended(&self, id: u64, is_suspended: bool) {
        if let Some(entry) = self.comms().get_mut(&id) {
            entry.is_suspended = is_suspended;
        }
    }

    /// An id for new ranks is about to be made.
    pub(crate) fn begin_grow_id(&self, id: u64) -> Result<(), Fault> {
        let more = |count| (count < MOST_GROW_IDS).then_some(count + 1);
        if self.grow_ids.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            let words = format!("more ids for new ranks that did not come than: {MOST_GROW_IDS}");
            return Err(Fault::Explained(CudaError::OUT_OF_MEMORY, words));
        }
        if let Some(entry) = self.comms().get_mut(&id) {
            entry.grow_ids += 1;
        }
        Ok(())
    }

    /// It was not made, or new ranks have come with it.
    pub(crate) fn end_grow_id(&self, id: u64) {
        if let Some(entry) = self.comms().get_mut(&id).filter(|entry| entry.grow_ids > 0) {
            entry.grow_ids -= 1;
            self.grow_ids.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The ticket of the key that its ranks have.
    pub(crate) fn key_of(&self, id: u64) -> Result<u64, Fault> {
        self.comms().get(&id).map(|entry| entry.key).ok_or_else(|| CudaError::INVALID_HANDLE.into())
    }

    /// Has the issuer use communicators: an abort waits a while for its end.
    pub(crate) fn use_all<T>(&self, ids: &[u64], act: impl FnOnce() -> T) -> T {
        let count = |change: fn(usize) -> usize| {
            let mut comms = self.comms();
            for id in ids {
                if let Some(entry) = comms.get_mut(id) {
                    entry.users = change(entry.users);
                }
            }
        };
        count(|users| users + 1);
        let done = act();
        count(|users| users.saturating_sub(1));
        done
    }

    /// Its work has failed.
    pub(crate) fn fail(&self, id: u64, error: &NcclError) {
        if let Some(entry) = self.comms().get_mut(&id) {
            entry.failed.get_or_insert_with(|| error.clone());
        }
    }

    /// Its asynchronous error.
    pub(crate) fn ask(&self, id: u64) -> (u32, String) {
        let comms = self.comms();
        let (Some(entry), Some(nccl)) = (comms.get(&id), self.nccl.get()) else {
            // The command that makes it may not have got here.
            return (result::IN_PROGRESS, String::new());
        };
        match (&entry.failed, entry.ready) {
            (Some(error), _) => (error.code, error.words.clone()),
            (None, None) => (result::IN_PROGRESS, String::new()),
            (None, Some(ready)) => match nccl.async_error(ready.comm) {
                result::SUCCESS => (result::SUCCESS, String::new()),
                code => (code, nccl.last_error()),
            },
        }
    }

    /// Takes a communicator out: it is about to be destroyed.
    pub(crate) fn take(&self, id: u64) -> Option<Ready> {
        let deadline = Instant::now() + LEAVING;
        while self.comms().get(&id).is_some_and(|entry| entry.users > 0) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.comms().remove(&id)?.ready
    }

    /// Aborts all: the context is about to end.
    pub(crate) fn abort_all(&self) {
        let all: Vec<_> = std::mem::take(&mut *self.comms()).into_values().filter_map(|entry| entry.ready).collect();
        let Some(nccl) = self.nccl.get() else { return };
        // What NCCL says of one that is in ruins is no news.
        all.into_iter().for_each(|ready| drop(self.abort(nccl, ready.comm)));
    }

    /// Keeps a handle of NCCL's; the number for the client.
    pub(crate) fn keep_handle(&self, id: u64, handle: usize) -> Result<u64, Fault> {
        let mut comms = self.comms();
        let Some(entry) = comms.get_mut(&id) else { return Err(CudaError::INVALID_HANDLE.into()) };
        let number = entry.handles.keys().next_back().map_or(1, |last| last + 1);
        self.budget.has(cost::MAPPING).then_some(()).ok_or(CudaError::OUT_OF_MEMORY)?;
        entry.handles.insert(number, handle);
        Ok(number)
    }

    /// Takes a handle out.
    pub(crate) fn take_handle(&self, id: u64, number: u64) -> Result<usize, Fault> {
        let taken = self.comms().get_mut(&id).and_then(|entry| entry.handles.remove(&number));
        taken.ok_or_else(|| CudaError::INVALID_HANDLE.into())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    #[test]
    fn ids_are_checked_and_cost_host_memory_while_they_last() {
        let budget = Budget::new(1 << 30);
        let all = Collectives::new(None, false, 7, &budget);
        assert!(matches!(all.begin(0, 9), Err(Fault::ProtocolViolation(_))));
        all.begin(1, 9).unwrap();
        assert!(matches!(all.begin(1, 9), Err(Fault::ProtocolViolation(_))));
        assert_eq!(budget.kept(), cost::COMM);
        assert!(matches!(all.ready(1), Err(Fault::Explained(CudaError::INVALID_HANDLE, _))), "it is being made");
        assert!(matches!(all.ready(2), Err(Fault::Explained(CudaError::INVALID_HANDLE, _))));
        assert!(all.made(1, None), "it failed");
        assert_eq!(budget.kept(), 0);
        assert!(!all.is_wanted(1) && !all.made(1, None), "nobody wants it any more");
    }

    #[test]
    fn a_session_has_so_many_communicators_and_no_nccl_where_the_operator_named_none() {
        let all = Collectives::new(None, false, 7, &Budget::default());
        (1..=MOST as u64).for_each(|id| all.begin(id, 9).unwrap());
        assert!(matches!(all.begin(MOST as u64 + 1, 9), Err(Fault::Explained(CudaError::OUT_OF_MEMORY, _))));
        assert!(matches!(all.library(), Err(Fault::Explained(CudaError::NOT_SUPPORTED, _))));
        assert!(matches!(all.nccl(), Err(Fault::ProtocolViolation(_))));
        assert_eq!(std::iter::from_fn(|| all.begin_waiting().ok()).count(), MOST_WAITING);
        all.end_waiting();
        assert!(all.begin_waiting().is_ok());
    }

    #[test]
    fn a_worker_has_an_address_of_its_session_and_of_nobody_elses() {
        let [one, other] = [(); 2].map(|()| Collectives::new(None, false, 7, &Budget::default()).place);
        assert_eq!((one[0], &one[8..]), (PREFIX, &7_u64.to_be_bytes()[..]));
        assert_ne!(one, other, "two servers may have sessions of one number");
    }
}
