//! The blocks that a range of device memory is made of, and having them here: imported from the vGPU that owns them, mapped at its
//! own addresses. Ranges come in; calls and posts of the importing session go out. What is here already costs a look-up.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, MutexGuard};

use floe_abi::{CudaError, CudaResult, access_flags};
use floe_wire::{BlockId, DevicePtr, MapBlock, SetAccess};

use super::imports::Import;
use super::piece::Piece;
use crate::memory::blocks::Whole;
use crate::vgpu::Vgpu;
use floe_lock::lock;

impl Vgpu {
    /// Held while blocks of this vGPU are imported, come to be or go: who reaches all of them. `None` where the program
    /// has no other vGPU here.
    pub(crate) fn gate(&self) -> Option<MutexGuard<'_, BTreeMap<u8, u32>>> {
        self.has_others().then(|| lock(&self.peers.accessors))
    }

    /// The program's vGPU of this ordinal, on this server.
    fn beside(self: &Arc<Self>, ordinal: u8) -> Option<Arc<Self>> {
        if self.ordinal == ordinal { Some(Arc::clone(self)) } else { self.others().find(|it| it.ordinal == ordinal) }
    }

    /// The blocks that make up a range of this vGPU's window, if all of it is mapped.
    fn pieces(&self, range: &Range<u64>) -> Option<Vec<Piece>> {
        if !self.window.contains(&range.start) {
            return None;
        }
        let whole = lock(self.blocks_at(floe_abi::DevicePtr(range.start))).block_at(range.start);
        if let Some(whole) = whole {
            let piece = Piece::of(self.ordinal, whole);
            return (range.end <= piece.range().end).then(|| vec![piece]);
        }
        lock(&self.virtual_memory).pieces(range)
    }

    /// The program's vGPU of this server in whose window an address lies.
    fn window_at(self: &Arc<Self>, at: u64) -> Option<Arc<Self>> {
        if self.window.contains(&at) {
            Some(Arc::clone(self))
        } else {
            self.others().find(|it| it.window.contains(&at))
        }
    }

    /// Has a range of device memory mapped here, so that copies and fills of this vGPU's streams may name it. False where
    /// it cannot be: a variable of another vGPU, memory of another server, of a GPU out of this one's reach, or such
    /// that the program has taken this vGPU's access to.
    pub(crate) fn reach_range(self: &Arc<Self>, range: &Range<u64>) -> CudaResult<bool> {
        if !self.has_others() {
            return Ok(self.window.contains(&range.start));
        }
        let Some(window) = self.window_at(range.start) else { return Ok(false) };
        let is_own = Arc::ptr_eq(self, &window);
        if is_own && !self.is_programs_own(DevicePtr(range.start)) {
            return Ok(true);
        }
        let (is_here, is_denied) = {
            let imports = lock(&self.peers.imports);
            (imports.covers(range), imports.denies(range))
        };
        if is_here || is_denied {
            return Ok(!is_denied);
        }
        let pieces = window.pieces(range).ok_or(CudaError::INVALID_VALUE)?;
        for piece in pieces.iter().filter(|piece| piece.owner != self.ordinal) {
            let Some(owner) = self.beside(piece.owner) else { return Ok(false) };
            if self.ability_with(&owner)?.access == 0 {
                return Ok(false);
            }
            let _gate = owner.gate();
            self.take_in(&owner, piece, access_flags::READWRITE)?;
        }
        Ok(true)
    }

    /// Imports and maps one block, unless that is done. The owner's gate is held meanwhile.
    fn take_in(&self, owner: &Self, piece: &Piece, access: u32) -> CudaResult<()> {
        let range = piece.range();
        if lock(&self.peers.imports).covers(&range) {
            return Ok(());
        }
        self.clear_the_way(&range)?;
        let imported = match &piece.origin {
            Some((exporter, object)) => self.import(exporter, *object)?,
            None => self.import(&owner.ticket()?, piece.block)?,
        };
        if imported.bytes != piece.bytes {
            self.give_back(imported)?;
            return Err(CudaError::INVALID_HANDLE);
        }
        self.map_whole(imported.block, imported.bytes, piece.at, access)?;
        let (at, bytes) = (piece.at, piece.bytes);
        let is_accessible = access != access_flags::NONE;
        lock(&self.peers.imports).add(Import { at, bytes, block: imported.block, owner: piece.owner, is_accessible });
        Ok(())
    }

    /// Maps a block whole.
    pub(crate) fn map_whole(&self, block: u64, bytes: u64, at: u64, access: u32) -> CudaResult<()> {
        let block = BlockId(block);
        self.connection.post(&MapBlock { block, offset: 0, at: DevicePtr(at), bytes, access }).map(drop)
    }

    /// Gives this vGPU's device access to a mapping of its neighbour's physical memory, or takes it.
    pub(crate) fn access_piece(self: &Arc<Self>, piece: &Piece, access: u32) -> CudaResult<()> {
        let owner = self.beside(piece.owner).ok_or(CudaError::INVALID_DEVICE)?;
        let _gate = owner.gate();
        let is_here = lock(&self.peers.imports).covers(&piece.range());
        if is_here {
            let (at, bytes) = (DevicePtr(piece.at), piece.bytes);
            lock(&self.peers.imports).set_access(&piece.range(), access != access_flags::NONE);
            return self.connection.post(&SetAccess { at, bytes, access }).map(drop);
        }
        if access == access_flags::NONE { Ok(()) } else { self.take_in(&owner, piece, access) }
    }

    /// Kernels of this vGPU reach all memory of another from now on, for one more reason.
    pub(crate) fn reach_all_of(&self, owner: &Arc<Self>) -> CudaResult<()> {
        let mut accessors = lock(&owner.peers.accessors);
        if !accessors.contains_key(&self.ordinal) {
            let blocks = lock(&owner.blocks).all();
            for whole in blocks {
                self.take_in(owner, &Piece::of(owner.ordinal, whole), access_flags::READWRITE)?;
            }
        }
        *accessors.entry(self.ordinal).or_default() += 1;
        Ok(())
    }

    /// One reason less; what is imported stays until its owner gives it up, for copies.
    pub(crate) fn reach_less_of(&self, owner: &Self) {
        let mut accessors = lock(&owner.peers.accessors);
        if let Some(reasons) = accessors.get_mut(&self.ordinal) {
            *reasons -= 1;
            if *reasons == 0 {
                accessors.remove(&self.ordinal);
            }
        }
    }

    /// Whether kernels of this vGPU reach all memory of another.
    pub(crate) fn reaches_all_of(&self, owner: &Self) -> bool {
        lock(&owner.peers.accessors).contains_key(&self.ordinal)
    }

    /// A new block: whoever reaches all memory of this vGPU has it before the program knows its address.
    pub(crate) fn give_to_accessors(&self, accessors: &BTreeMap<u8, u32>, whole: Whole) -> CudaResult<()> {
        let piece = Piece::of(self.ordinal, whole);
        let reaching = || self.others().filter(|other| accessors.contains_key(&other.ordinal));
        let mut given = reaching().map(|other| other.take_in(self, &piece, access_flags::READWRITE));
        let Some(error) = given.find_map(Result::err) else { return Ok(()) };
        // The owner does not have it either, then.
        self.take_back(whole.at)?;
        self.connection.post(&floe_wire::UnmapRange { at: DevicePtr(whole.at), bytes: whole.bytes })?;
        self.connection.post(&floe_wire::ReleaseBlock { block: BlockId(whole.block) })?;
        Err(error)
    }
}
