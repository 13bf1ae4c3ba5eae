//! Host functions that stand in streams.
//! In: from the driver, that a stream has got there; from the client, that the function has returned.
//! Out: the driver's callback returns, and the stream goes on. It never runs anything of the program's.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use floe_wire::FunctionId;

/// The host functions that have not returned.
#[derive(Debug, Default)]
pub(crate) struct HostFunctions {
    gates: Mutex<HashMap<u64, Arc<Gate>>>,
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
    fn gates(&self) -> MutexGuard<'_, HashMap<u64, Arc<Gate>>> {
        self.gates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A function is about to be put into a stream. `None`: there is one of that id.
    pub(crate) fn expect(&self, function: FunctionId) -> Option<Arc<Gate>> {
        let gate = Arc::new(Gate::default());
        let mut gates = self.gates();
        if gates.contains_key(&function.0) {
            return None;
        }
        gates.insert(function.0, Arc::clone(&gate));
        Some(gate)
    }

    /// The function has returned, or will not run. False: there is none of that id.
    pub(crate) fn done(&self, function: FunctionId) -> bool {
        let gate = self.gates().remove(&function.0);
        if let Some(gate) = &gate {
            gate.open();
        }
        gate.is_some()
    }

    /// Those that a context in error will never reach are given up with the context. Returns how many.
    pub(crate) fn give_up(&self) -> usize {
        self.gates().drain().map(|(_, gate)| gate.open()).count()
    }
}
