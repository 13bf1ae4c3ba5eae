//! The blocks of a session that leaves, opened to the worker that it goes to.
//! In: the session's blocks as they are, when asked. Out: the list of what the target imports, their hashes and bytes.
//! It looks at the session between two commands only. What the program has released meanwhile is let go of by the move's own
//! thread: taking a mapping away waits for the program's work, which may wait for its next command.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use floe_abi::{CudaError, CudaResult, MemHandle};
use floe_device::{Device, HashKey, PageSize, Pinned as _, UnitHash};
use floe_wire::DevicePtr;

use super::off::Off;
use crate::issue::errands::Errands;
use crate::issue::issuer::Issuer;
use crate::issue::issuer::moving::leaving::PresentBlock;
use crate::life::moving::staging::{SOURCE, Staged, Staging};
use crate::life::moving::words::LentBlock;
use crate::life::shared::Shared;

/// The longest time for the session to come to a border when a move is over.
const END: Duration = Duration::from_secs(60);
/// Bytes that are read at a time.
const READ: usize = 4 << 20;

/// The lent blocks.
pub(crate) struct Lending<D: Device> {
    shared: Arc<Shared<D>>,
    staging: Staging<D>,
    /// By number: where it is staged, and its handle.
    lent: BTreeMap<u64, Lent>,
    /// The move's own handles of blocks that are gone.
    gone: Vec<MemHandle>,
    /// Where the next is staged. No place is used twice, so a place says which block it is.
    next: u64,
    /// For bytes that are read here. It is kept, since giving it back waits for the program's work.
    pinned: Option<D::Pinned>,
}

#[derive(Clone, Copy, Debug)]
struct Lent {
    offset: u64,
    memory: MemHandle,
    /// A handle of the move's own: the program has released the block.
    retained: Option<MemHandle>,
}

impl<D: Device> Lending<D> {
    pub(super) fn new(shared: &Arc<Shared<D>>) -> Self {
        let staging = Staging::new(&shared.device, SOURCE);
        Self { shared: Arc::clone(shared), staging, lent: BTreeMap::new(), gone: Vec::new(), next: 0, pinned: None }
    }

    /// Brings the list up to date, at a border between two commands.
    pub(super) fn refresh(&mut self, issuer: &Issuer<D>) -> CudaResult<Vec<LentBlock>> {
        let present = issuer.present_blocks();
        let is_there = |id: u64, lent: &Lent| {
            let same = |block: &&PresentBlock| block.block == id && block.memory == lent.memory;
            present.iter().any(|block| same(&block))
        };
        let gone: Vec<u64> = self.lent.iter().filter(|(id, lent)| !is_there(**id, lent)).map(|(id, _)| *id).collect();
        gone.into_iter().for_each(|id| self.forget(id));
        for block in &present {
            self.lend(block)?;
        }
        Ok(self.list())
    }

    /// The list as it is.
    pub(super) fn list(&self) -> Vec<LentBlock> {
        let of = |(offset, staged): (u64, Staged)| LentBlock { block: staged.block, bytes: staged.bytes, offset };
        self.staging.all().map(of).collect()
    }

    fn lend(&mut self, block: &PresentBlock) -> CudaResult<()> {
        let retained = match (self.lent.get(&block.block), block.only_mapped_at) {
            (Some(Lent { retained: Some(_), .. }), _) | (Some(_), None) => return Ok(()),
            // It was lent, and was released meanwhile: it can be imported by another handle only.
            (_, Some(at)) => Some(self.shared.device.retain_memory(at)?),
            (None, None) => None,
        };
        if let Some(memory) = retained {
            self.shared.hub.reopen_block(block.block, memory);
        }
        if let Some(lent) = self.lent.get_mut(&block.block) {
            lent.retained = retained;
            return Ok(());
        }
        let offset = self.next;
        let lent = Lent { offset, memory: block.memory, retained };
        self.lent.insert(block.block, lent);
        let staged = Staged { block: block.block, bytes: block.bytes, memory: retained.unwrap_or(block.memory) };
        self.staging.add(offset, staged)?;
        self.next = offset + block.bytes;
        Ok(())
    }

    /// A block is gone, or is not lent any longer.
    fn forget(&mut self, id: u64) {
        let Some(lent) = self.lent.remove(&id) else { return };
        self.staging.set_aside(lent.offset);
        if let Some(memory) = lent.retained {
            self.shared.hub.close_reopened(id, memory);
            self.gone.push(memory);
        }
    }

    /// Gives back the memory of all blocks that are gone. It may wait for the program's work.
    pub(super) fn give_back(&mut self) {
        self.staging.let_go();
        for memory in std::mem::take(&mut self.gone) {
            // On a context beyond use the driver refuses; the memory goes with it.
            let _ = self.shared.device.mem_release(memory);
        }
    }

    /// Bytes of everything that is lent.
    pub(super) fn bytes(&self) -> u64 {
        self.staging.bytes()
    }

    /// The hashes of everything, in the order of the list.
    pub(super) fn hashes(&self, key: HashKey) -> CudaResult<Vec<UnitHash>> {
        self.staging.hashes(key)
    }

    /// Reads a piece of a block.
    pub(super) fn read(&mut self, block: u64, offset: u64, bytes: u64) -> CudaResult<Vec<u8>> {
        let lent = self.lent.get(&block).ok_or(CudaError::INVALID_VALUE)?;
        let whole = self.staging.get(lent.offset).map_or(0, |staged| staged.bytes);
        if offset.checked_add(bytes).is_none_or(|end| end > whole) {
            return Err(CudaError::INVALID_VALUE);
        }
        let at = self.staging.at(lent.offset + offset);
        let device = &self.shared.device;
        let pinned = match &mut self.pinned {
            Some(pinned) => &*pinned,
            none => none.insert(device.pin(READ, PageSize::Small)?),
        };
        read(&**device, pinned, at, bytes)
    }
}

/// Reads device memory, piece by piece.
fn read<D: Device>(device: &D, pinned: &D::Pinned, at: DevicePtr, bytes: u64) -> CudaResult<Vec<u8>> {
    let all = usize::try_from(bytes).map_err(|_| CudaError::INVALID_VALUE)?;
    let mut read = Vec::with_capacity(all);
    while read.len() < all {
        let count = READ.min(all - read.len());
        device.download(pinned, 0, DevicePtr(at.0 + read.len() as u64), count, device.own_stream())?;
        device.stream_synchronize(device.own_stream())?;
        pinned.lend(0, count, &mut |bytes| read.extend_from_slice(bytes));
    }
    Ok(read)
}

/// Takes back everything that was lent, between two commands: the session stays.
pub(super) fn end<D: Device>(errands: &Arc<Errands<Issuer<D>>>, lending: &Arc<Mutex<Lending<D>>>) {
    let own = Arc::clone(lending);
    let take_back = move |_: &mut Issuer<D>| {
        let mut lending = floe_lock::lock(&own);
        let all: Vec<u64> = lending.lent.keys().copied().collect();
        all.into_iter().for_each(|id| lending.forget(id));
    };
    // A session that comes to no border any more keeps what was staged: its end frees it.
    if errands.call(Instant::now() + END, take_back).is_ok() {
        // By this thread: the issuer goes on.
        floe_lock::lock(lending).give_back();
    }
}

/// Has the session bring the list up to date at its next border.
pub(super) fn refresh<D: Device>(
    errands: &Arc<Errands<Issuer<D>>>,
    lending: &Arc<Mutex<Lending<D>>>,
    deadline: Instant,
) -> Result<Vec<LentBlock>, Off> {
    let lending = Arc::clone(lending);
    let refreshed = errands.call(deadline, move |issuer| floe_lock::lock(&lending).refresh(issuer))?;
    refreshed.map_err(Off::device("lending the session's memory"))
}
