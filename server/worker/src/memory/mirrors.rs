//! Host memory of the client that kernels reach, at the same address in this process.
//! In: mappings and what the client has changed. Out: what the device has changed, before anything that says work is over.
//! A byte that has not changed is never sent: the client may be about to change it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use floe_abi::{CudaError, WordOperation};
use floe_device::{Mapped, PAGE};
use floe_transport::{LinkError, Sender};
use floe_wire::{DevicePtr, MirrorChanged, MirrorRun, changed_runs};

use crate::issue::fault::{Fault, violation};
use crate::memory::budget::{Budget, Kept, cost};

mod word_writes;

use word_writes::WordWrites;

/// The bytes that are compared, and sent in one message, at a time.
const PIECE: usize = 64 << 10;

struct Mirror<P> {
    memory: P,
    /// The client's bytes, as far as the worker knows.
    known: Vec<u8>,
    room: Room,
}

/// What a mirror takes of the session's host memory, until it is dropped.
#[derive(Debug)]
pub(crate) struct Room {
    /// Bytes of its pages, which it has whole.
    pages: u64,
    _kept: Kept,
}

/// The mirrors of a session.
pub(crate) struct Mirrors<P> {
    any: AtomicBool,
    /// Bytes of the pages of all together.
    most: u64,
    budget: Budget,
    by_start: Mutex<BTreeMap<u64, Mirror<P>>>,
    /// Locked behind the others.
    writes: Mutex<WordWrites>,
}

impl<P> Mirrors<P> {
    /// None yet, and never more than `most` bytes.
    pub(crate) fn new(most: u64, budget: &Budget) -> Self {
        Self {
            any: AtomicBool::new(false),
            most,
            budget: budget.clone(),
            by_start: Mutex::default(),
            writes: Mutex::default(),
        }
    }
}

impl<P: Mapped> Mirrors<P> {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Mirror<P>>> {
        floe_lock::lock(&self.by_start)
    }

    /// Room for a mirror there; a start that is one already and an empty one are protocol violations. OUT_OF_MEMORY beyond
    /// what a session may have.
    pub(crate) fn room(&self, at: DevicePtr, bytes: u64) -> Result<Room, Fault> {
        let mirrors = self.lock();
        if bytes == 0 {
            return violation(format!("an empty mirror at: {:#x}", at.0));
        }
        let held: u64 = mirrors.values().map(|mirror| mirror.room.pages).sum();
        let pages = (at.0 % PAGE as u64).saturating_add(bytes).checked_next_multiple_of(PAGE as u64);
        let pages = pages.filter(|pages| *pages <= self.most.saturating_sub(held));
        // Changes have offsets of 32 bits.
        let Some(pages) = pages.filter(|_| u32::try_from(bytes).is_ok()) else {
            let words = format!(
                "{bytes} bytes, in whole pages, more than {held} of mirrored memory, of at most (--mirrored-memory): {}",
                self.most
            );
            return Err(Fault::Explained(CudaError::OUT_OF_MEMORY, words));
        };
        if mirrors.contains_key(&at.0) {
            return violation(format!("a mirror starts there already: {:#x}", at.0));
        }
        // Its memory, and the client's bytes.
        let _kept = self.budget.keep(pages.saturating_mul(2).saturating_add(cost::REGISTRATION))?;
        Ok(Room { pages, _kept })
    }

    /// Whether there are any.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    pub(crate) fn add(&self, at: DevicePtr, memory: P, room: Room) {
        let known = vec![0; memory.bytes()];
        self.lock().insert(at.0, Mirror { memory, known, room });
        self.any.store(true, Ordering::Release);
    }

    pub(crate) fn remove(&self, at: DevicePtr) -> Result<(), Fault> {
        let mut mirrors = self.lock();
        let removed = mirrors.remove(&at.0);
        self.any.store(!mirrors.is_empty(), Ordering::Release);
        // A driver may wait for work before it lets go of the memory, and that work for what a reader brings.
        drop(mirrors);
        match removed {
            Some(_) => Ok(()),
            None => violation(format!("no mirror starts at: {:#x}", at.0)),
        }
    }

    /// The mirrors: where each begins, and its bytes.
    pub(crate) fn ranges(&self) -> Vec<(u64, u64)> {
        self.lock().iter().map(|(at, mirror)| (*at, mirror.known.len() as u64)).collect()
    }

    /// Whether a mirror begins there.
    pub(crate) fn begins(&self, at: u64) -> bool {
        self.any.load(Ordering::Acquire) && self.lock().contains_key(&at)
    }

    /// Whether the address is mirrored memory.
    pub(crate) fn holds(&self, at: u64) -> bool {
        if !self.any.load(Ordering::Acquire) {
            return false;
        }
        let mirrors = self.lock();
        mirrors.range(..=at).next_back().is_some_and(|(start, mirror)| at - start < mirror.known.len() as u64)
    }

    /// Ends all of them.
    pub(crate) fn clear(&self) {
        let all = std::mem::take(&mut *self.lock());
        self.any.store(false, Ordering::Release);
        floe_lock::lock(&self.writes).clear();
        drop(all);
    }

    /// The client's changes. Of a mirror that has ended they are nothing: a reset may be on its way to the client.
    ///
    /// # Errors
    /// How they violate the protocol.
    pub(crate) fn write(&self, at: DevicePtr, runs: &[MirrorRun<'_>]) -> Result<(), String> {
        let mut mirrors = self.lock();
        let Some(mirror) = mirrors.get_mut(&at.0) else { return Ok(()) };
        for run in runs {
            let start = usize::try_from(run.offset).unwrap_or(usize::MAX);
            let end = start.checked_add(run.bytes.len());
            let Some(known) = end.and_then(|end| mirror.known.get_mut(start..end)) else {
                let (bytes, whole) = (run.bytes.len(), mirror.known.len());
                return Err(format!("{bytes} bytes at {start} of a mirror of: {whole}"));
            };
            known.copy_from_slice(run.bytes);
            mirror.memory.write(start, run.bytes);
        }
        Ok(())
    }

    /// All of them, with the bytes that client and worker have in common.
    pub(crate) fn contents(&self) -> Vec<(u64, Vec<u8>)> {
        self.lock().iter().map(|(at, mirror)| (*at, mirror.known.clone())).collect()
    }

    /// A mirror has these bytes, and the client has them too. False: there is none such.
    pub(crate) fn recall(&self, at: u64, bytes: &[u8]) -> bool {
        let mut mirrors = self.lock();
        let Some(mirror) = mirrors.get_mut(&at).filter(|mirror| mirror.known.len() == bytes.len()) else {
            return false;
        };
        mirror.known.copy_from_slice(bytes);
        mirror.memory.write(0, bytes);
        true
    }

    /// A command is about to write words of mirrors. The client is told of them when it is complete.
    pub(crate) fn begin_words<'a>(&self, sequence: u64, words: impl Iterator<Item = &'a WordOperation>) {
        let words: Vec<_> =
            words.filter(|word| matches!(word, WordOperation::Write { at, .. } if self.holds(at.0))).collect();
        floe_lock::lock(&self.writes).add(sequence, words.into_iter());
    }

    /// A command that began words is not carried out.
    pub(crate) fn forget_words(&self, sequence: u64) {
        drop(floe_lock::lock(&self.writes).end(sequence));
    }

    /// Tells the client of the words of a command that is complete, each whole. What came before them has been sent.
    pub(crate) fn tell_words(&self, sequence: u64, sender: &Sender) -> Result<(), LinkError> {
        let words = floe_lock::lock(&self.writes).end(sequence);
        let mut mirrors = self.lock();
        for word in words {
            let Some((at, mirror)) = mirrors.range_mut(..=word.start).next_back() else { continue };
            let offset = |address: u64| usize::try_from(address - at).ok();
            let Some((start, end)) = offset(word.start).zip(offset(word.end)) else { continue };
            let Some(known) = mirror.known.get_mut(start..end) else { continue };
            let mut now = vec![0; known.len()];
            mirror.memory.read(start, &mut now);
            if known != now {
                let runs = vec![MirrorRun { offset: u32::try_from(start).unwrap_or(u32::MAX), bytes: &now }];
                sender.queue(&MirrorChanged { at: DevicePtr(*at), runs })?;
                known.copy_from_slice(&now);
            }
        }
        Ok(())
    }

    /// Tells the client what the device has changed since the last time, but for words that commands are writing.
    pub(crate) fn tell(&self, sender: &Sender) -> Result<(), LinkError> {
        if !self.any.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut now = vec![0; PIECE];
        let mut mirrors = self.lock();
        let writes = floe_lock::lock(&self.writes);
        for (at, mirror) in mirrors.iter_mut() {
            let mut start = 0;
            for known in mirror.known.chunks_mut(PIECE) {
                let now = &mut now[..known.len()];
                mirror.memory.read(start, now);
                writes.leave(at + start as u64, known, now);
                let runs = changed_runs(known, now, u32::try_from(start).unwrap_or(u32::MAX));
                if !runs.is_empty() {
                    sender.queue(&MirrorChanged { at: DevicePtr(*at), runs })?;
                    known.copy_from_slice(now);
                }
                start += known.len();
            }
        }
        Ok(())
    }
}
