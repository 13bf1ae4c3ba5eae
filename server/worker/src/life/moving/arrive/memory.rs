//! The memory of a session that arrives.
//! In: the list of the source's blocks, its hashes, bytes. Out: the same bytes in this session's blocks.
//! The source's blocks are imported and copied by the device. Those that cannot be imported come as bytes. On the source's
//! own GPU they are kept as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use floe_abi::{CudaError, CudaResult, MemHandle};
use floe_device::{Device, End, HashKey, PageSize, Pinned as _, UnitHash};

use super::wanted::{Refused, wanted};
use crate::daemon::peer_notices::{Kind, Returned};
use crate::issue::issuer::Issuer;
use crate::life::moving::differing::{Hashed, differing, hashes_of, joined, key_of};
use crate::life::moving::staging::{SOURCE, Staged, Staging, TARGET};
use crate::life::moving::words::{Answer, Description, LentBlock, MOST_BLOCKS, Piece};
use crate::life::shared::Shared;

/// Bytes that are written at a time.
const WRITTEN: usize = 4 << 20;

/// The memory as far as it has come.
pub(super) struct Memory<D: Device> {
    shared: Arc<Shared<D>>,
    description: Description,
    same_gpu: bool,
    /// By where they are staged.
    blocks: BTreeMap<u64, LentBlock>,
    /// Why blocks of these places were not taken over: the program may have freed them meanwhile.
    lacking: BTreeMap<u64, Refused>,
    /// The source's, imported.
    source: Staging<D>,
    /// This session's own.
    target: Staging<D>,
    copied: BTreeSet<u64>,
    /// The target's hashes by a key, until anything of it changes.
    hashed: Hashed,
    /// For bytes that are sent.
    pinned: Option<D::Pinned>,
}

/// What is left when the memory is there: to be let go when nobody waits for it.
pub(crate) struct Leftover<D: Device> {
    device: Arc<D>,
    source: Staging<D>,
    target: Staging<D>,
}

impl<D: Device> Leftover<D> {
    /// Lets it go.
    pub(crate) fn let_go(self) {
        let Self { device, source, target } = self;
        let imported: Vec<MemHandle> = source.all().map(|(_, staged)| staged.memory).collect();
        drop((source, target));
        // On a context beyond use the driver refuses; the memory goes with it.
        for memory in imported {
            let _ = device.mem_release(memory);
        }
    }
}

const HASHING: &str = "hashing this session's memory";

fn device(what: &str) -> impl Fn(CudaError) -> Refused {
    move |error| format!("{what}: {error}")
}

impl<D: Device> Memory<D> {
    pub(super) fn new(shared: &Arc<Shared<D>>, description: Description, same_gpu: bool) -> Self {
        let (source, target) = (Staging::new(&shared.device, SOURCE), Staging::new(&shared.device, TARGET));
        let (shared, blocks) = (Arc::clone(shared), BTreeMap::new());
        let (lacking, copied) = (BTreeMap::new(), BTreeSet::new());
        Self {
            shared,
            description,
            same_gpu,
            blocks,
            lacking,
            source,
            target,
            copied,
            hashed: Hashed::default(),
            pinned: None,
        }
    }

    /// Takes the source's list: imports what is new, lets go what is gone.
    pub(super) fn lend(&mut self, list: &[LentBlock], issuer: &mut Issuer<D>) -> Result<(), Refused> {
        if list.len() > MOST_BLOCKS {
            return Err(format!("more blocks than {MOST_BLOCKS}: {}", list.len()));
        }
        self.hashed.forget();
        let new: BTreeMap<u64, LentBlock> = list.iter().map(|block| (block.offset, *block)).collect();
        if new.len() != list.len() {
            return Err("two blocks in one place".into());
        }
        let gone: Vec<u64> =
            self.blocks.iter().filter(|(at, block)| new.get(at) != Some(block)).map(|(at, _)| *at).collect();
        gone.into_iter().for_each(|offset| self.forget(offset));
        self.demand_taken()?;
        for (offset, block) in new {
            if !self.blocks.contains_key(&offset) {
                self.add(block, issuer)?;
            }
        }
        Ok(())
    }

    /// Whether every block was taken over: also those of the last list, behind which no other one comes.
    pub(super) fn demand_taken(&self) -> Result<(), Refused> {
        match self.lacking.first_key_value() {
            Some((offset, why)) => Err(format!("block {} cannot be taken over: {why}", self.blocks[offset].block)),
            None => Ok(()),
        }
    }

    fn forget(&mut self, offset: u64) {
        let Some(block) = self.blocks.remove(&offset) else { return };
        self.copied.remove(&offset);
        self.lacking.remove(&offset);
        self.target.remove(offset);
        if let Some(staged) = self.source.remove(offset) {
            let _ = self.shared.device.mem_release(staged.memory);
            let Description { session, .. } = self.description;
            self.shared.hub.give_back(Returned { session, kind: Kind::Block, object: block.block });
        }
    }

    fn add(&mut self, block: LentBlock, issuer: &mut Issuer<D>) -> Result<(), Refused> {
        let LentBlock { block: id, bytes, offset } = block;
        let imported = self.import(block);
        match (imported, self.same_gpu) {
            (Ok((memory, file)), true) => issuer.adopt(id, memory, bytes, file),
            // The next list shows whether it is still there, or the end that no next one came.
            (Err(why), true) => drop(self.lacking.insert(offset, why)),
            (Ok((memory, _)), false) => {
                let staged = Staged { block: id, bytes, memory };
                self.source.add(offset, staged).map_err(device("mapping the source's memory"))?;
            }
            // Its bytes are sent.
            (Err(_), false) => {}
        }
        self.blocks.insert(offset, block);
        Ok(())
    }

    fn import(&self, block: LentBlock) -> Result<(MemHandle, OwnedFd), Refused> {
        if self.description.kept {
            return Err("the other worker has no device".into());
        }
        let LentBlock { block: id, bytes, .. } = block;
        let imported = self.shared.hub.ask(&wanted(&self.description, Kind::Block, id)?);
        let imported = imported.map_err(|fault| fault.to_string())?;
        let reached = self.shared.device.peer_attributes(imported.gpu).map_err(device("asking for the other GPU"))?;
        if imported.bytes != bytes || reached[1] == 0 {
            let Description { session, .. } = self.description;
            self.shared.hub.give_back(Returned { session, kind: Kind::Block, object: id });
            return Err(format!("{} bytes on GPU {}", imported.bytes, imported.gpu));
        }
        let memory = self.shared.device.import_memory(imported.file.as_fd()).map_err(device("importing"))?;
        Ok((memory, imported.file))
    }

    /// Stages this session's own blocks.
    fn stage(&mut self, issuer: &Issuer<D>) -> Result<(), Refused> {
        match self.stage_made(issuer)? {
            None => Ok(()),
            Some(LentBlock { block, bytes, .. }) => Err(format!("no block {block} of {bytes} bytes was made")),
        }
    }

    /// Stages those that were made. That takes a driver a fifth of their copy's time, and so is done while the program
    /// runs. Returns one that was not made.
    pub(super) fn stage_made(&mut self, issuer: &Issuer<D>) -> Result<Option<LentBlock>, Refused> {
        if self.same_gpu {
            return Ok(None);
        }
        let mut unmade = None;
        let missing = |(offset, _): &(&u64, &LentBlock)| self.target.get(**offset).is_none();
        let missing: Vec<LentBlock> = self.blocks.iter().filter(missing).map(|(_, block)| *block).collect();
        if missing.is_empty() {
            return Ok(None);
        }
        let own: BTreeMap<u64, _> = issuer.present_blocks().into_iter().map(|block| (block.block, block)).collect();
        for lent in missing {
            let LentBlock { block, bytes, offset } = lent;
            let Some(present) = own.get(&block).filter(|present| present.bytes == bytes) else {
                unmade = Some(lent);
                continue;
            };
            let staged = |memory| Staged { block, bytes, memory };
            let added = match present.only_mapped_at {
                None => self.target.add(offset, staged(present.memory)),
                Some(at) => self.shared.device.retain_memory(at).and_then(|memory| {
                    let added = self.target.add(offset, staged(memory));
                    // The mapping keeps it.
                    self.shared.device.mem_release(memory).and(added)
                }),
            };
            added.map_err(device("mapping this session's memory"))?;
        }
        Ok(unmade)
    }

    /// Copies what has not been copied yet.
    pub(super) fn copy(&mut self, issuer: &Issuer<D>) -> Result<Answer, Refused> {
        if self.same_gpu {
            return Ok(Answer::Copied(0));
        }
        self.stage(issuer)?;
        let new: Vec<LentBlock> =
            self.blocks.iter().filter(|(at, _)| !self.copied.contains(at)).map(|(_, block)| *block).collect();
        let pieces = new.iter().map(|block| (block.offset, 0, block.bytes));
        let answer = self.pull(&pieces.collect::<Vec<_>>())?;
        self.copied.extend(new.iter().map(|block| block.offset));
        Ok(answer)
    }

    /// Copies pieces of blocks: where the block is staged, the piece's offset in it, bytes. Says which have to be sent.
    fn pull(&mut self, pieces: &[(u64, u64, u64)]) -> Result<Answer, Refused> {
        self.hashed.forget();
        let (device_, stream) = (&self.shared.device, self.shared.device.own_stream());
        let (mut here, mut asked) = (Vec::new(), Vec::new());
        for &(block, offset, bytes) in pieces {
            if self.source.get(block).is_some() {
                here.push((block + offset, bytes));
            } else {
                asked.push((self.blocks.get(&block).map_or(0, |lent| lent.block), offset, bytes));
            }
        }
        let mut copied = 0;
        for (at, bytes) in joined(here) {
            let (to, from) = (self.target.at(at), self.source.at(at));
            let copy = device_.copy(End::Device(to), End::Device(from), bytes, stream);
            copy.map_err(device("copying the source's memory"))?;
            copied += bytes;
        }
        device_.stream_synchronize(stream).map_err(device("copying the source's memory"))?;
        Ok(if asked.is_empty() { Answer::Copied(copied) } else { Answer::Send { copied, pieces: asked } })
    }

    /// Hashes this session's memory, while the source hashes its own.
    pub(super) fn hash(&mut self, issuer: &Issuer<D>, key: [u64; 2]) -> Result<Answer, Refused> {
        self.stage(issuer)?;
        let key = key_of(key)?;
        self.hashed.keep(key, self.target.hashes(key).map_err(device(HASHING))?);
        Ok(Answer::Done)
    }

    /// Compares with the source's hashes, and copies what differs: all of a block that is new.
    pub(super) fn compare(
        &mut self,
        issuer: &Issuer<D>,
        key: [u64; 2],
        body: &[u8],
        last: bool,
    ) -> Result<Answer, Refused> {
        self.stage(issuer)?;
        let (key, theirs) = (key_of(key)?, hashes_of(body));
        let ours = match self.hashed.take(key) {
            Some(hashes) => hashes,
            None => self.target.hashes(key).map_err(device(HASHING))?,
        };
        if self.target.all().count() != self.blocks.len() || ours.len() != theirs.len() {
            return Err(format!("hashes of {} units, not of: {}", theirs.len(), ours.len()));
        }
        let differing = differing(self.target.all().map(|(offset, staged)| (offset, staged.bytes)), &ours, theirs);
        let answer = self.pull(&differing)?;
        self.copied.extend(self.blocks.keys());
        if last && matches!(answer, Answer::Copied(1..)) {
            self.demand_same(&differing, key, theirs)?;
        }
        Ok(answer)
    }

    /// What was copied has to have the source's hashes. The rest has shown that it does.
    fn demand_same(&self, copied: &[(u64, u64, u64)], key: HashKey, theirs: &[UnitHash]) -> Result<(), Refused> {
        let pieces: Vec<(u64, u64)> = copied.iter().map(|(block, offset, bytes)| (block + offset, *bytes)).collect();
        let ours = self.target.hashes_of(&pieces, key).map_err(device(HASHING))?;
        let is_same = |(first, hashes): &(u64, Vec<UnitHash>)| {
            let from = usize::try_from(*first).unwrap_or(usize::MAX);
            theirs.get(from..from.saturating_add(hashes.len())).is_some_and(|theirs| theirs == hashes.as_slice())
        };
        if ours.iter().all(is_same) { Ok(()) } else { Err("memory differs after it was copied".into()) }
    }

    /// Bytes of a block that cannot be imported.
    pub(super) fn take(&mut self, piece: Piece, bytes: &[u8]) -> Result<(), Refused> {
        let Piece { block, offset } = piece;
        let found = self.blocks.values().find(|lent| lent.block == block).copied();
        let (Some(lent), count) = (found, bytes.len() as u64) else { return Err(format!("no block has: {block}")) };
        let fits = offset.checked_add(count).is_some_and(|end| end <= lent.bytes);
        if !fits || self.target.get(lent.offset).is_none() {
            return Err(format!("{count} bytes from {offset} on of block {block} of: {}", lent.bytes));
        }
        self.write(lent.offset + offset, bytes).map_err(device("writing this session's memory"))
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> CudaResult<()> {
        self.hashed.forget();
        let (device, stream) = (&self.shared.device, self.shared.device.own_stream());
        let pinned = match &mut self.pinned {
            Some(pinned) => &*pinned,
            none => none.insert(device.pin(WRITTEN, PageSize::Small)?),
        };
        for (index, part) in bytes.chunks(WRITTEN).enumerate() {
            pinned.write(0, part);
            device.upload(self.target.at(at + (index * WRITTEN) as u64), pinned, 0, part.len(), stream)?;
            device.stream_synchronize(stream)?;
        }
        Ok(())
    }

    /// What is to be let go when the session goes on.
    pub(super) fn left(self) -> Leftover<D> {
        let Self { shared, source, target, .. } = self;
        Leftover { device: Arc::clone(&shared.device), source, target }
    }
}
