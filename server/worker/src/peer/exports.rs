//! The things of a session that others may import, and who has imported them.
//! In: blocks and pages as the issuer makes and ends them, tickets, questions of importers, the time. Out: what is given to
//! whom, and the bytes that the session still pays for although it has released them.
//! It calls no driver and waits for nothing.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use floe_abi::MemHandle;

use super::page::Page;
use super::proof::Claim;
use super::tickets::Tickets;
use crate::daemon::peer_notices::{Kind, Question, Refused};
use crate::memory::budget::{Budget, cost};

/// A block's handle, until the session releases it. Whoever exports it holds the lock meanwhile.
pub(crate) type Handle = Arc<Mutex<Option<MemHandle>>>;

/// How many times each session has something.
type Holders = BTreeMap<u64, u32>;

/// A block of the session.
#[derive(Debug)]
struct Offered {
    /// `None`: it has been released, and is no longer exported.
    handle: Option<Handle>,
    bytes: u64,
    /// Of memory that another worker has made: a driver exports nothing that it has imported.
    file: Option<Arc<OwnedFd>>,
    holders: Holders,
}

/// A block that the session has given up and others hold.
#[derive(Debug)]
struct Lent {
    /// The bytes that the session pays for until nobody holds it.
    charged: u64,
    holders: Holders,
}

/// What an importer gets.
pub(crate) enum Granted<M> {
    /// Its handle, its bytes, and its file where the driver makes none.
    Block(Handle, u64, Option<Arc<OwnedFd>>),
    Signals(Arc<Page<M>>),
    File(Arc<OwnedFd>),
}

/// The table.
pub(crate) struct Exports<M> {
    pub(crate) tickets: Tickets,
    blocks: BTreeMap<u64, Offered>,
    pages: BTreeMap<u64, Arc<Page<M>>>,
    /// Files that a move's target imports.
    files: BTreeMap<u64, Arc<OwnedFd>>,
    /// The ticket of a move, and the importer's number: what these are for is no sharing.
    pub(crate) moving: Option<(u64, u64)>,
    /// By the block's number and one more: the client may use numbers again.
    lent: BTreeMap<(u64, u64), Lent>,
    last_lent: u64,
    budget: Budget,
}

impl<M: floe_device::Mapped> Exports<M> {
    pub(crate) fn new(budget: &Budget) -> Self {
        let (blocks, pages, lent) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let files = BTreeMap::new();
        Self {
            tickets: Tickets::new(budget),
            blocks,
            pages,
            files,
            moving: None,
            lent,
            last_lent: 0,
            budget: budget.clone(),
        }
    }

    /// A new block.
    pub(crate) fn offer_block(&mut self, id: u64, memory: MemHandle, bytes: u64, file: Option<OwnedFd>) {
        let (handle, file) = (Some(Arc::new(Mutex::new(Some(memory)))), file.map(Arc::new));
        self.blocks.insert(id, Offered { handle, bytes, file, holders: Holders::new() });
    }

    /// How many blocks have a file.
    pub(crate) fn kept_files(&self) -> usize {
        self.blocks.values().filter(|block| block.file.is_some()).count()
    }

    /// Whether anybody holds anything of the session's.
    pub(crate) fn any_holder(&self) -> bool {
        let is_other = |holder: &u64| self.moving.is_none_or(|(_, importer)| importer != *holder);
        let held = self.blocks.values().map(|block| &block.holders).chain(self.lent.values().map(|lent| &lent.holders));
        held.flat_map(BTreeMap::keys).any(is_other)
    }

    /// Whether any ticket still admits somebody.
    pub(crate) fn any_ticket(&self, now: Instant) -> bool {
        self.tickets.any(now, self.moving.map(|(ticket, _)| ticket))
    }

    /// A new page.
    pub(crate) fn offer_page(&mut self, id: u64, page: &Arc<Page<M>>) {
        self.pages.insert(id, Arc::clone(page));
    }

    /// A file for a move's target.
    pub(crate) fn offer_file(&mut self, number: u64, file: OwnedFd) {
        self.files.insert(number, Arc::new(file));
    }

    /// Files are offered no longer.
    pub(crate) fn end_files(&mut self) -> BTreeMap<u64, Arc<OwnedFd>> {
        std::mem::take(&mut self.files)
    }

    /// Whether there is such an object to export.
    pub(crate) fn has(&self, kind: Kind, id: u64) -> bool {
        match kind {
            Kind::Block => self.blocks.get(&id).is_some_and(|block| block.handle.is_some()),
            Kind::Signals => self.pages.contains_key(&id),
            Kind::File => self.files.contains_key(&id),
        }
    }

    /// A block is about to be released: from here on nobody imports it. The caller waits for whoever exports it now.
    pub(crate) fn close_block(&mut self, id: u64) -> Option<Handle> {
        self.tickets.end(Kind::Block, id);
        self.blocks.get_mut(&id)?.handle.take()
    }

    /// A block that is released and still mapped is exported again.
    pub(crate) fn reopen_block(&mut self, id: u64, memory: MemHandle) {
        if let Some(block) = self.blocks.get_mut(&id) {
            block.handle = Some(Arc::new(Mutex::new(Some(memory))));
        }
    }

    /// The handle by which a block is exported.
    pub(crate) fn handle(&self, id: u64) -> Option<Handle> {
        self.blocks.get(&id)?.handle.clone()
    }

    /// The session has given a block up. Returns its bytes where other sessions hold it, and its file to be closed.
    pub(crate) fn end_block(&mut self, id: u64) -> (u64, Option<Arc<OwnedFd>>) {
        let Some(Offered { bytes, holders, file, .. }) = self.blocks.remove(&id) else { return (0, None) };
        if holders.is_empty() {
            return (0, file);
        }
        // A program is not told that it moves, so what only the move holds is not charged to it.
        let is_other = |holder: &u64| self.moving.is_none_or(|(_, importer)| importer != *holder);
        let charged = if holders.keys().any(is_other) { bytes } else { 0 };
        self.last_lent += 1;
        self.lent.insert((id, self.last_lent), Lent { charged, holders });
        (charged, file)
    }

    /// The page of this number.
    pub(crate) fn page(&self, id: u64) -> Option<Arc<Page<M>>> {
        self.pages.get(&id).cloned()
    }

    /// A page is dropped.
    pub(crate) fn end_page(&mut self, id: u64) {
        self.tickets.end(Kind::Signals, id);
        self.pages.remove(&id);
    }

    /// Gives an importer what it asks for, if a ticket admits it.
    pub(crate) fn grant(&mut self, now: Instant, own: u64, question: &Question) -> Result<Granted<M>, Refused> {
        let (importer, import) = (question.importer, &question.import);
        let claim = Claim { exporter: own, ..Claim::of(importer, import) };
        if !self.tickets.admits(now, &claim, &import.proof) || !self.has(import.kind, import.object) {
            return Err(Refused::Unknown);
        }
        let granted = match import.kind {
            Kind::Block => {
                // It counts what it has by the block's number: two blocks of one number would be paid for as one.
                if self.lent_to(importer, import.object).is_some() {
                    return Err(Refused::NotSupported);
                }
                let block = self.blocks.get_mut(&import.object).ok_or(Refused::Unknown)?;
                let handle = block.handle.clone().ok_or(Refused::Unknown)?;
                // An importer costs the session as much as it has blocks, however often it imports them.
                let count = block.holders.get(&importer).copied().unwrap_or(0);
                let count = count.checked_add(1).ok_or(Refused::OutOfMemory)?;
                if count == 1 {
                    self.budget.take(cost::HOLDER).map_err(|_| Refused::OutOfMemory)?;
                }
                block.holders.insert(importer, count);
                Granted::Block(handle, block.bytes, block.file.clone())
            }
            Kind::Signals => {
                let page = self.pages.get(&import.object).ok_or(Refused::Unknown)?;
                page.shared_with(importer);
                Granted::Signals(Arc::clone(page))
            }
            Kind::File => Granted::File(Arc::clone(self.files.get(&import.object).ok_or(Refused::Unknown)?)),
        };
        self.tickets.use_up(import.ticket);
        Ok(granted)
    }

    /// An importer has let go of something. Returns the bytes that the session pays for no longer.
    pub(crate) fn returned(&mut self, importer: u64, kind: Kind, object: u64) -> u64 {
        match kind {
            Kind::File => 0,
            Kind::Signals => {
                if let Some(page) = self.pages.get(&object) {
                    page.returned_by(importer);
                }
                0
            }
            Kind::Block => {
                if let Some(key) = self.lent_to(importer, object)
                    && let Some(lent) = self.lent.get_mut(&key)
                {
                    self.budget.give(cost::HOLDER * u64::from(let_go(&mut lent.holders, importer, 1)));
                    return self.forget_lent(key);
                }
                if let Some(block) = self.blocks.get_mut(&object) {
                    self.budget.give(cost::HOLDER * u64::from(let_go(&mut block.holders, importer, 1)));
                }
                0
            }
        }
    }

    /// A session is over and holds nothing. Returns the bytes that this one pays for no longer.
    pub(crate) fn session_over(&mut self, importer: u64) -> u64 {
        let mut count = 0;
        for block in self.blocks.values_mut() {
            count += u64::from(let_go(&mut block.holders, importer, u32::MAX));
        }
        for lent in self.lent.values_mut() {
            count += u64::from(let_go(&mut lent.holders, importer, u32::MAX));
        }
        self.budget.give(cost::HOLDER * count);
        let gone: Vec<_> = self.lent.iter().filter(|(_, lent)| lent.holders.is_empty()).map(|(key, _)| *key).collect();
        gone.into_iter().map(|key| self.forget_lent(key)).sum()
    }

    /// A block that the session has given up and this importer holds, by its number.
    fn lent_to(&self, importer: u64, object: u64) -> Option<(u64, u64)> {
        let mut lent = self.lent.range((object, 0)..=(object, u64::MAX));
        lent.find(|(_, lent)| lent.holders.contains_key(&importer)).map(|(key, _)| *key)
    }

    fn forget_lent(&mut self, key: (u64, u64)) -> u64 {
        match self.lent.get(&key) {
            Some(lent) if lent.holders.is_empty() => self.lent.remove(&key).map_or(0, |lent| lent.charged),
            _ => 0,
        }
    }
}

/// Takes up to so many of a holder's off. Whether it holds nothing any more, but did.
fn let_go(holders: &mut Holders, holder: u64, most: u32) -> bool {
    let Some(count) = holders.get_mut(&holder) else { return false };
    *count = count.saturating_sub(most);
    let is_last = *count == 0;
    if is_last {
        holders.remove(&holder);
    }
    is_last
}
