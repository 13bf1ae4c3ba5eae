//! What a vGPU shares with other sessions of its server: tickets, blocks that it has imported, pages of words that streams wait
//! for. Blocks and events of other vGPUs come in; calls and posts of this vGPU's session go out. A block goes back to its owner
//! only after every return of it was posted, and no byte passes through this process.

mod exporter;
mod imports;
pub(crate) mod pieces;
mod returns;
pub(crate) mod signals;
mod words;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak, mpsc};

use floe_abi::{CudaError, CudaResult};
use floe_wire::{AskPeer, AskPeerReply, Call};

pub(crate) use exporter::Exporter;
use imports::Imports;
use signals::Page;

use crate::vgpu::Vgpu;
use crate::vgpu::order::Fence;
use floe_lock::lock;

/// Where a session runs, as other sessions have to name it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seat {
    /// The daemon's own bytes; `None` where it gave none that are as long as they should be.
    pub(crate) server: Option<[u8; 16]>,
    /// The session's number there.
    pub(crate) session: u64,
    /// The GPU's number there.
    pub(crate) gpu: u32,
}

/// What a GPU can do with the memory of another: the values of `CUdevice_P2PAttribute` 1 to 4.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PeerAbility {
    pub(crate) rank: i32,
    pub(crate) access: i32,
    pub(crate) atomics: i32,
    pub(crate) arrays: i32,
}

/// What one vGPU shares with others.
#[derive(Debug)]
pub(crate) struct Peers {
    pub(crate) seat: Seat,
    /// The program's other vGPUs of the same server.
    others: OnceLock<Vec<Weak<Vgpu>>>,
    /// The ticket by which they import, once one has.
    ticket: Mutex<Option<Exporter>>,
    /// Blocks of others that this vGPU has.
    imports: Mutex<Imports<Fence>>,
    /// The vGPUs whose kernels reach all memory of this one, by ordinal, and for how many reasons. Held while one of its
    /// blocks is imported, comes to be or goes: taken before any lock of blocks.
    accessors: Mutex<BTreeMap<u8, u32>>,
    /// Pages by who raises their words: another vGPU's ordinal, or its own for this process.
    signals: Mutex<HashMap<u8, Vec<Page>>>,
    /// The thread that ends waits for this process, once there was one.
    raiser: OnceLock<Option<mpsc::Sender<signals::Raise>>>,
    /// Whether others have returned blocks since an allocation last waited for that.
    returns: AtomicBool,
    /// A stream on which nothing is ever put, for raising words from here. With the vGPU's epoch when it was made.
    lane: Mutex<Option<(u64, u64)>>,
    /// What this GPU can do with others, by their numbers.
    abilities: Mutex<HashMap<u32, PeerAbility>>,
}

impl Peers {
    /// Nothing shared yet.
    pub(crate) fn new(seat: Seat) -> Self {
        Self {
            seat,
            others: OnceLock::new(),
            ticket: Mutex::default(),
            imports: Mutex::default(),
            accessors: Mutex::default(),
            signals: Mutex::default(),
            raiser: OnceLock::new(),
            returns: AtomicBool::new(false),
            lane: Mutex::default(),
            abilities: Mutex::default(),
        }
    }

    /// Another vGPU has posted the return of a block.
    fn note_return(&self) {
        self.returns.store(true, Ordering::Release);
    }

    /// Whether any has since this was asked last.
    fn take_returns(&self) -> bool {
        self.returns.swap(false, Ordering::AcqRel)
    }
}

impl Vgpu {
    /// Says which other vGPUs the program has on the same server. Said once.
    pub(crate) fn meet(self: &Arc<Self>, all: &[Arc<Self>]) {
        let others = all.iter().filter(|other| !Arc::ptr_eq(self, other) && self.is_beside(other));
        let _ = self.peers.others.set(others.map(Arc::downgrade).collect());
    }

    /// Whether both are of one server.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        self.peers.seat.server.is_some() && self.peers.seat.server == other.peers.seat.server
    }

    /// The program's other vGPUs of the same server.
    pub(crate) fn others(&self) -> impl Iterator<Item = Arc<Self>> {
        self.peers.others.get().into_iter().flatten().filter_map(Weak::upgrade)
    }

    /// Whether there are any.
    pub(crate) fn has_others(&self) -> bool {
        self.peers.others.get().is_some_and(|others| !others.is_empty())
    }

    /// What kernels of this vGPU can do with the memory of another: nothing where that is of another server.
    pub(crate) fn ability_with(&self, other: &Self) -> CudaResult<PeerAbility> {
        if !self.is_beside(other) {
            return Ok(PeerAbility::default());
        }
        let gpu = other.peers.seat.gpu;
        if let Some(known) = lock(&self.peers.abilities).get(&gpu) {
            return Ok(*known);
        }
        let ability = match self.call(&AskPeer { gpu }) {
            // A device without peers.
            Err(CudaError::NOT_SUPPORTED) => PeerAbility::default(),
            answer => {
                let reply = self.connection.read(AskPeer::decode_reply(&answer?.body))?;
                let AskPeerReply { rank, access, atomics, arrays } = reply;
                PeerAbility { rank, access, atomics, arrays }
            }
        };
        lock(&self.peers.abilities).insert(gpu, ability);
        Ok(ability)
    }
}
