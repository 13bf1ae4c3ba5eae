//! Host functions that stand in streams.
//! In: from the driver, that a stream has got there; from the client, that the function has returned.
//! Out: the driver's callback returns, and the stream goes on. It never runs anything of the program's.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use floe_wire::FunctionId;

/// The host functions that have not returned.
#[derive(Debug, Default)]
pub(crate) struct HostFunctions {
    gates: Mutex<Gates>,
}

#[derive(Debug, Default)]
struct Gates {
    closed: HashMap<u64, Arc<Gate>>,
    /// Given up with their context; the client may still be running them.
    given_up: HashSet<u64>,
}

/// What the end of a host function means here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// Its stream goes on.
    GoesOn,
    /// Its stream is gone already.
    GivenUp,
    /// There is none of that id.
    Unknown,
}

/// Holds the driver's callback until the client has said that the function returned.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    /// Waits until the function has returned.
    pub(crate) fn pass(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        while !*open {
            open = self.opened.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn open(&self) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.opened.notify_all();
    }
}

impl HostFunctions {
    fn gates(&self) -> MutexGuard<'_, Gates> {
        self.gates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A function is about to be put into a stream. `None`: there is one of that id.
    pub(crate) fn expect(&self, function: FunctionId) -> Option<Arc<Gate>> {
        let gate = Arc::new(Gate::default());
        let mut gates = self.gates();
        if gates.closed.contains_key(&function.0) {
            return None;
        }
        gates.closed.insert(function.0, Arc::clone(&gate));
        Some(gate)
    }

    /// The function has returned, or will not run.
    pub(crate) fn done(&self, function: FunctionId) -> Done {
        let mut gates = self.gates();
        if let Some(gate) = gates.closed.remove(&function.0) {
            gate.open();
            return Done::GoesOn;
        }
        if gates.given_up.remove(&function.0) { Done::GivenUp } else { Done::Unknown }
    }

    /// Those that a context in error will never reach are given up with the context. Returns how many.
    pub(crate) fn give_up(&self) -> usize {
        let mut gates = self.gates();
        let Gates { closed, given_up } = &mut *gates;
        // What an earlier context's functions have not said by now, they may still say: ids are not used again.
        let open = |(function, gate): (u64, Arc<Gate>)| {
            gate.open();
            given_up.insert(function);
        };
        closed.drain().map(open).count()
    }
}
