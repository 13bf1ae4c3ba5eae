//! Communicators as programs hold them: handles that are looked up, never followed.
//! In: handles of C. Out: what is known of a communicator here, while it is made and after. It asks nobody.

use std::collections::BTreeMap;
use std::ffi::{CString, c_int};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use floe_nccl::{Made, code};

use crate::session::{Failure, Outcome};

/// Handles are far from NULL and from small numbers, which programs pass by mistake.
const FIRST: usize = 0x6e63_636c_0000;

/// How far a communicator is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It is being made.
    Making,
    /// It was made.
    Made(Made),
    /// It could not be made.
    Failed(Failure),
}

/// A communicator.
#[derive(Debug)]
pub(crate) struct Comm {
    pub(crate) handle: usize,
    pub(crate) device: c_int,
    /// Whether calls wait until it is made, and until others are made of it.
    pub(crate) blocks: bool,
    state: Mutex<State>,
    /// The words that `ncclGetLastError` gave last, which the program may still read.
    pub(crate) words: Mutex<CString>,
}

static ALL: Mutex<BTreeMap<usize, Arc<Comm>>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicUsize = AtomicUsize::new(FIRST);

impl Comm {
    /// One that is about to be made, on a device.
    pub(crate) fn begin(device: c_int, blocks: bool) -> Arc<Self> {
        let handle = NEXT.fetch_add(16, Ordering::Relaxed);
        let comm = Arc::new(Self { handle, device, blocks, state: Mutex::new(State::Making), words: Mutex::default() });
        floe_lock::lock(&ALL).insert(handle, Arc::clone(&comm));
        comm
    }

    /// The one of a handle.
    pub(crate) fn of(handle: usize) -> Outcome<Arc<Self>> {
        let found = floe_lock::lock(&ALL).get(&handle).cloned();
        found.ok_or_else(|| Failure::new(code::INVALID_ARGUMENT, "not a communicator's handle"))
    }

    /// Its handle is nobody's from here on.
    pub(crate) fn forget(&self) {
        floe_lock::lock(&ALL).remove(&self.handle);
    }

    /// Its handle is nobody's from here on: how far it was.
    pub(crate) fn take(&self) -> State {
        let mut all = floe_lock::lock(&ALL);
        all.remove(&self.handle);
        self.state()
    }

    /// `false`: its handle has become nobody's meanwhile.
    pub(crate) fn is(&self, state: State) -> bool {
        let all = floe_lock::lock(&ALL);
        *floe_lock::lock(&self.state) = state;
        all.contains_key(&self.handle)
    }

    pub(crate) fn state(&self) -> State {
        floe_lock::lock(&self.state).clone()
    }

    /// What was made.
    pub(crate) fn made(&self) -> Outcome<Made> {
        match self.state() {
            State::Made(made) => Ok(made),
            State::Making => Err(Failure::new(code::INVALID_USAGE, "the communicator is still being made")),
            State::Failed(failure) => Err(failure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_known_until_it_is_forgotten() {
        let comm = Comm::begin(3, true);
        assert_eq!(Comm::of(comm.handle).map(|found| found.device), Ok(3));
        assert_eq!(comm.made().map_err(|failure| failure.code), Err(code::INVALID_USAGE));
        let made = State::Made(Made { comm: 7, rank: 1, ranks: 2 });
        assert!(comm.is(made.clone()));
        assert_eq!(comm.made().map(|made| made.ranks), Ok(2));
        assert_eq!(comm.take(), made);
        assert!(!comm.is(made), "nobody has it any more");
        assert_eq!(Comm::of(comm.handle).map(drop).map_err(|failure| failure.code), Err(code::INVALID_ARGUMENT));
        assert!(Comm::of(0).is_err());
    }
}
