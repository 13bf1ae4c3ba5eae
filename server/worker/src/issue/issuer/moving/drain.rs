//! Whether everything that was issued is over and said.
//! In: an issuer that stands at a border. Out: nothing is left, what is left, or that the context is beyond use.
//! It waits for nothing: who asks looks again.

use std::fmt;

use floe_abi::CudaError;
use floe_device::Device;

use crate::issue::issuer::Issuer;

/// Work that is not over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    /// Tasks of the completer.
    pub(crate) tasks: usize,
    /// Host functions that stand in streams.
    pub(crate) host_functions: usize,
    /// Operations that wait for a word of memory.
    pub(crate) waits: usize,
    /// Streams with work.
    pub(crate) streams: usize,
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { host_functions: 1.., .. } => write!(f, "host functions have not returned: {}", self.host_functions),
            Self { waits: 1.., .. } => write!(f, "streams wait for words of memory: {}", self.waits),
            Self { streams: 1.., .. } => write!(f, "streams have work that takes longer: {}", self.streams),
            _ => write!(f, "the client has not been told of all work: {}", self.tasks),
        }
    }
}

impl<D: Device> Issuer<D> {
    /// Marks everything that was issued so far.
    pub(crate) fn begin_drain(&mut self) -> Result<(), CudaError> {
        self.draining = self.record_everything()?;
        Ok(())
    }

    /// What is left of what was marked; `None`: everything is over, and the client was told.
    pub(crate) fn left_of_drain(&mut self) -> Result<Option<Left>, CudaError> {
        let mut streams = 0;
        for completion in &self.draining {
            match completion.outcome() {
                Some(outcome) => outcome?,
                None => streams += 1,
            }
        }
        let (tasks, (host_functions, waits)) = (self.tasks.open(), self.shared.queue.held());
        if streams + tasks + host_functions + waits > 0 {
            return Ok(Some(Left { tasks, host_functions, waits, streams }));
        }
        if self.shared.printing.is_possible() {
            // What kernels have printed is written out by a wait only, also by one for work that is over.
            self.draining.iter().for_each(|completion| completion.settle());
        }
        self.draining.clear();
        self.orphans.clear();
        Ok(None)
    }
}
