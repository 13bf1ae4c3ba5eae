//! Blocks of physical memory, and where they are mapped.
//! In: what the driver gave. Out: the same, by id or address. It holds no logic.

use std::os::fd::OwnedFd;

use floe_abi::MemHandle;
use floe_wire::BlockId;

/// A piece of physical memory.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) memory: MemHandle,
    pub(crate) bytes: u64,
    pub(crate) mappings: usize,
    pub(crate) released: bool,
}

/// Memory of another worker that a block will be made of.
#[derive(Debug)]
pub(crate) struct Adopted {
    pub(crate) memory: MemHandle,
    pub(crate) bytes: u64,
    /// By which it is exported again. `None`: it is not.
    pub(crate) file: Option<OwnedFd>,
}

/// A range of the window at which a block shows.
#[derive(Debug)]
pub(crate) struct Mapping {
    pub(crate) bytes: u64,
    pub(crate) block: BlockId,
    /// Its first byte in the block.
    pub(crate) offset: u64,
}
