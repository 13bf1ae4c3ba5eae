//! Libraries that are loaded, and the kernels of theirs that the client has ids for.
//! In: what the driver gave, and what it is charged. Out: the same, by id. It calls no driver.

use floe_abi::Function;
use floe_device::{Code, Content};
use floe_wire::LibraryId;

use crate::issue::cache::Hash;
use crate::memory::budget::Kept;

/// A library that is loaded.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) code: Code,
    /// What it was made of, with the hashes.
    pub(crate) contents: Vec<(Hash, Content)>,
    /// Bytes of the device's memory it is charged.
    pub(crate) charge: u64,
    /// Whether the program has found a kernel of it, or asked where one of its variables is.
    pub(crate) has_found: bool,
    /// Host memory it is charged.
    pub(crate) kept: Kept,
}

impl Loaded {
    /// Whether the program may have run its kernels or used its variables: it has found some, or it was loaded at once.
    pub(crate) fn may_have_run(&self) -> bool {
        matches!(self.code, Code::Module(_)) || self.has_found
    }
}

/// A kernel the client has an id for.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) function: Function,
    pub(crate) library: LibraryId,
    /// Bytes of its parameter block, where the driver can say.
    pub(crate) parameter_bytes: Option<usize>,
    /// Bytes of local memory of a thread.
    pub(crate) frame: u64,
}
