//! What a vGPU shares with other sessions of its server: tickets, blocks that it has imported, pages of words that streams wait
//! for. Blocks and events of other vGPUs come in; calls and posts of this vGPU's session go out. A block goes back to its owner
//! only after every return of it was posted, and no byte passes through this process.

mod beside;
mod exporter;
mod imports;
pub(crate) mod links;
pub(crate) mod piece;
mod pieces;
mod returns;
pub(crate) mod signals;
pub(crate) mod ticket;
mod ways;
mod words;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, Weak, mpsc};

use imports::Imports;
pub(crate) use ticket::Exporter;
use ways::Way;
use words::Page;

use crate::vgpu::order::Fence;

/// Where a session runs, as other sessions have to name it.
#[derive(Debug, Clone)]
pub(crate) struct Seat {
    /// The daemon's own bytes; `None` where it gave none that are as long as they should be.
    pub(crate) server: Option<[u8; 16]>,
    /// The session's number there.
    pub(crate) session: u64,
    /// The GPU's number there.
    pub(crate) gpu: u32,
    /// The daemon's address, as this process reaches it.
    pub(crate) address: String,
    /// Whether what travels between it and this process is sealed.
    pub(crate) is_sealed: bool,
}

/// What a GPU can do with the memory of another: the values of `CUdevice_P2PAttribute` 1 to 4.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PeerAbility {
    pub(crate) rank: i32,
    pub(crate) access: i32,
    pub(crate) atomics: i32,
    pub(crate) arrays: i32,
}

/// Something whose end is seen by others when it is dropped.
type Held = Box<dyn Send>;

/// What one vGPU shares with others, each a `V`.
#[derive(Debug)]
pub(crate) struct Peers<V> {
    pub(crate) seat: Seat,
    /// The program's other vGPUs of the same server.
    others: OnceLock<Vec<Weak<V>>>,
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
    raiser: OnceLock<Option<mpsc::Sender<Held>>>,
    /// Whether any other session has, or may have, memory of this one, or this one of another.
    shares: AtomicBool,
    /// Whether others have returned blocks since an allocation last waited for that.
    returns: AtomicBool,
    /// Links to vGPUs of other servers, by their ordinals, at the one of the lower ordinal.
    links: Mutex<HashMap<u8, Way>>,
    /// What this GPU can do with others, by their numbers.
    abilities: Mutex<HashMap<u32, PeerAbility>>,
}

impl<V> Peers<V> {
    /// Nothing shared yet.
    pub(crate) fn new(seat: Seat) -> Self {
        Self {
            seat,
            others: OnceLock::new(),
            ticket: Mutex::default(),
            shares: AtomicBool::default(),
            imports: Mutex::default(),
            accessors: Mutex::default(),
            signals: Mutex::default(),
            raiser: OnceLock::new(),
            returns: AtomicBool::new(false),
            links: Mutex::default(),
            abilities: Mutex::default(),
        }
    }

    /// Another session has memory of this one from now on, or this one of another.
    fn begin_to_share(&self) {
        // Ordered with `shares` behind a noted return: one of the two sides sees the other.
        self.shares.store(true, Ordering::SeqCst);
    }

    /// Whether another session may have memory that this one writes.
    pub(crate) fn shares(&self) -> bool {
        self.shares.load(Ordering::SeqCst)
    }

    /// Another vGPU has posted the return of a block.
    fn note_return(&self) {
        self.returns.store(true, Ordering::Release);
    }

    /// Whether any has since this was asked last.
    fn take_returns(&self) -> bool {
        self.returns.swap(false, Ordering::AcqRel)
    }

    /// The thread that ends waits of this vGPU's streams, by dropping what holds them, where the system gives one.
    fn raiser(&self) -> Option<&mpsc::Sender<Held>> {
        let start = || {
            let (raises, arriving) = mpsc::channel();
            let run = move || arriving.into_iter().for_each(drop::<Held>);
            std::thread::Builder::new().name("floe-raise".into()).spawn(run).ok().map(|_| raises)
        };
        self.raiser.get_or_init(start).as_ref()
    }
}
