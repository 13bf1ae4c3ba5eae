//! Host functions that streams wait for.
//! In: from the driver, that a stream has got there. From the client, that the function has returned, or the data of a
//! deferred read.
//! Out: the driver's callback returns, and the stream continues. It never runs anything of the program's.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use floe_wire::FunctionId;

/// The host functions that have not returned.
#[derive(Debug, Default)]
pub(crate) struct HostFunctions {
    gates: Mutex<Gates>,
}

#[derive(Debug, Default)]
struct Gates {
    closed: HashMap<u64, Closed>,
    /// Functions abandoned with their context; the client may still be running them.
    given_up: HashSet<u64>,
}

/// Takes the data a stream waits for to where its work reads them; `false` where they are not as many as that expects.
pub(crate) type Fill = Box<dyn FnOnce(&[u8]) -> bool + Send>;

/// A function that has not returned.
struct Closed {
    gate: Arc<Gate>,
    /// For one that brings data.
    fill: Option<Fill>,
}

impl std::fmt::Debug for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Closed").field("brings_data", &self.fill.is_some()).finish_non_exhaustive()
    }
}

/// The effect of a host function's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// Its stream continues.
    GoesOn,
    /// Its stream is gone already.
    GivenUp,
    /// There is none of that id that ends like this.
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
        let mut open = floe_lock::lock(&self.open);
        while !*open {
            open = floe_lock::wait(&self.opened, open);
        }
    }

    fn open(&self) {
        *floe_lock::lock(&self.open) = true;
        self.opened.notify_all();
    }
}

impl HostFunctions {
    fn gates(&self) -> MutexGuard<'_, Gates> {
        floe_lock::lock(&self.gates)
    }

    /// A function is about to be put into a stream; one that brings data says where they go. `None`: there is one of that
    /// id.
    pub(crate) fn expect(&self, function: FunctionId, fill: Option<Fill>) -> Option<Arc<Gate>> {
        let gate = Arc::new(Gate::default());
        let mut gates = self.gates();
        if gates.closed.contains_key(&function.0) {
            return None;
        }
        gates.closed.insert(function.0, Closed { gate: Arc::clone(&gate), fill });
        Some(gate)
    }

    /// The function that was expected could not be put into its stream. The client learns of it, and may answer.
    pub(crate) fn cancel(&self, function: FunctionId) {
        let mut gates = self.gates();
        gates.closed.remove(&function.0);
        gates.given_up.insert(function.0);
    }

    /// The same for one that was never expected. False: one of that id stands in a stream.
    pub(crate) fn refuse(&self, function: FunctionId) -> bool {
        let mut gates = self.gates();
        let stands = gates.closed.contains_key(&function.0);
        if !stands {
            gates.given_up.insert(function.0);
        }
        !stands
    }

    /// Whether functions have not returned that bring no data: those may wait for another vGPU, which waits for this.
    pub(crate) fn any_of_the_program(&self) -> bool {
        self.gates().closed.values().any(|closed| closed.fill.is_none())
    }

    /// The functions that were given up and may still be answered.
    pub(crate) fn given_up(&self) -> Vec<u64> {
        self.gates().given_up.iter().copied().collect()
    }

    /// Another worker has given these up.
    pub(crate) fn were_given_up(&self, functions: &[u64]) {
        self.gates().given_up.extend(functions);
    }

    /// The function has returned.
    pub(crate) fn done(&self, function: FunctionId) -> Done {
        self.end(function, |fill| fill.is_none())
    }

    /// The data have come that the stream waits for.
    pub(crate) fn filled(&self, function: FunctionId, bytes: &[u8]) -> Done {
        self.end(function, |fill| fill.is_some_and(|fill| fill(bytes)))
    }

    fn end(&self, function: FunctionId, ends_so: impl FnOnce(Option<Fill>) -> bool) -> Done {
        let mut gates = self.gates();
        if let Some(Closed { gate, fill }) = gates.closed.remove(&function.0) {
            drop(gates);
            let ends_so = ends_so(fill);
            gate.open();
            return if ends_so { Done::GoesOn } else { Done::Unknown };
        }
        if gates.given_up.remove(&function.0) { Done::GivenUp } else { Done::Unknown }
    }

    /// Abandons the functions that a context in error will never reach. Returns their number.
    pub(crate) fn give_up(&self) -> usize {
        let mut gates = self.gates();
        let Gates { closed, given_up } = &mut *gates;
        // Functions of an earlier context may still report their end: ids are not used again.
        let open = |(function, closed): (u64, Closed)| {
            closed.gate.open();
            given_up.insert(function);
        };
        closed.drain().map(open).count()
    }
}
