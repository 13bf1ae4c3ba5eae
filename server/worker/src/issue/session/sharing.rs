//! Host memory that client and worker share: the client's own pages, mapped here at the addresses they have there.
//! In: the client's descriptor, then which pages. Out: ends of copies, for addresses that lie in such pages.
//! A page is mapped only where nothing is, and only from memory that cannot shrink: reading it never ends this process.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, PoisonError};

use floe_abi::CudaError;
use floe_device::{Device, End, Mapped};
use floe_ring::demand_memory;
use floe_wire::{DevicePtr, MapShared, MapSharedReply, ShareMemory, SharingRequests, UnmapShared};

use super::mirror::is_place;
use super::{Answer, Session, body};
use crate::complete::completer::{Action, Lane, Task};
use crate::issue::fault::{Fault, broken};
use crate::memory::shared_pages::{Held, SharedPages};

/// Bytes of a page.
const PAGE: u64 = floe_device::PAGE as u64;
/// Mappings of a session. A process has some sixty thousand, and the driver wants most of them.
const MOST_RANGES: usize = 16 << 10;

/// What is shared.
pub(crate) struct Sharing<P> {
    memory: Option<Memory>,
    /// By first address.
    ranges: BTreeMap<u64, SharedPages<P>>,
    held: Arc<Held>,
}

/// The client's memory: its first byte lies at `at`.
struct Memory {
    file: OwnedFd,
    at: u64,
    bytes: u64,
}

impl<P> Default for Sharing<P> {
    fn default() -> Self {
        Self { memory: None, ranges: BTreeMap::new(), held: Arc::default() }
    }
}

impl<P: Mapped> Sharing<P> {
    /// The end of a copy of `bytes` at an address. Addresses of shared memory that is not mapped are nobody's.
    pub(super) fn end(&self, at: DevicePtr, bytes: u64) -> Result<End<'_, P>, Fault> {
        let is_ours = |memory: &Memory| at.0 >= memory.at && at.0 - memory.at < memory.bytes;
        if !self.memory.as_ref().is_some_and(is_ours) {
            return Ok(End::Device(at));
        }
        let outside =
            || Fault::Explained(CudaError::INVALID_VALUE, format!("not shared: {bytes} bytes at {:#x}", at.0));
        let (start, pages) = self.ranges.range(..=at.0).next_back().ok_or_else(outside)?;
        let (memory, offset) = (pages.memory(), at.0 - start);
        let fits = offset.checked_add(bytes).is_some_and(|end| end <= memory.bytes() as u64);
        if fits { Ok(End::Host(memory, usize::try_from(offset).map_err(|_| outside())?)) } else { Err(outside()) }
    }

    /// Whether pages may be mapped there, and where they lie in the client's memory.
    fn check_new(&self, at: u64, bytes: u64) -> Result<(&Memory, u64), Fault> {
        let Some(memory) = &self.memory else { return broken("no memory is shared") };
        let offset = at.checked_sub(memory.at).filter(|offset| *offset < memory.bytes);
        let inside = offset.filter(|offset| bytes <= memory.bytes - offset);
        let whole = bytes > 0 && at.is_multiple_of(PAGE) && bytes.is_multiple_of(PAGE);
        let Some(offset) = inside.filter(|_| whole) else {
            return broken(format!("not pages of the shared memory: {bytes} bytes at {at:#x}"));
        };
        // The whole lies where addresses end, so this does not overflow.
        let before = self.ranges.range(..at + bytes).next_back();
        if before.is_some_and(|(start, range)| start + range.memory().bytes() as u64 > at) {
            return broken(format!("pages are mapped there already: {bytes} bytes at {at:#x}"));
        }
        Ok((memory, offset))
    }

    /// Takes a mapping out.
    fn remove(&mut self, at: DevicePtr) -> Result<SharedPages<P>, Fault> {
        self.ranges.remove(&at.0).map_or_else(|| broken(format!("no shared pages start at: {:#x}", at.0)), Ok)
    }

    /// Ends every mapping; the memory can be mapped again. No work that names it is left.
    pub(super) fn clear(&mut self) {
        self.ranges.clear();
    }
}

impl<D: Device> SharingRequests for Session<D> {
    fn share_memory(&mut self, message: ShareMemory) -> Result<Answer, Fault> {
        let ShareMemory { at, bytes } = message;
        if self.sharing.memory.is_some() {
            return broken("memory is shared already");
        }
        let refuse = |words: String| Err(Fault::Explained(CudaError::NOT_SUPPORTED, words));
        let file = self.shared.descriptor.lock().unwrap_or_else(PoisonError::into_inner).take();
        if self.allowance.shared_memory == 0 {
            return refuse("this server shares no memory".into());
        }
        let Some(file) = file else { return refuse("no descriptor came with the message".into()) };
        if !at.0.is_multiple_of(PAGE) || !is_place(at.0, bytes) {
            return refuse(format!("no place for host memory of {bytes} bytes: {:#x}", at.0));
        }
        if let Err(error) = demand_memory(&file, bytes) {
            return refuse(error.to_string());
        }
        self.sharing.memory = Some(Memory { file, at: at.0, bytes });
        body(&())
    }

    fn map_shared(&mut self, message: MapShared) -> Result<Answer, Fault> {
        let MapShared { at, bytes } = message;
        let (memory, offset) = self.sharing.check_new(at.0, bytes)?;
        let (held, ranges) = self.sharing.held.now();
        let most = self.allowance.shared_memory;
        if bytes > most.saturating_sub(held) || ranges >= MOST_RANGES {
            let words = format!("{bytes} bytes more than {held} of shared memory, of at most: {most}");
            return Err(Fault::Explained(CudaError::OUT_OF_MEMORY, words));
        }
        let size = usize::try_from(bytes).map_err(|_| CudaError::OUT_OF_MEMORY)?;
        let memory = self.device().share_host(memory.file.as_fd(), offset, at, size)?;
        let reached = memory.is_reached();
        let pages = SharedPages::new(memory, &self.sharing.held, bytes);
        self.sharing.ranges.insert(at.0, pages);
        body(&MapSharedReply { reached })
    }

    /// The pages go when the work that may name them has completed, which is not waited for here.
    fn unmap_shared(&mut self, message: UnmapShared) -> Result<Answer, Fault> {
        let sequence = self.sequence;
        let pages = self.sharing.remove(message.at)?;
        let (marks, failed) = match self.mark_everything() {
            Ok(marks) => (marks, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let action = Action::Release { pages, failed };
        self.tasks.hand_over(Task { sequence, lane: Lane::Alone(sequence), marks, action });
        Ok(Answer::Later)
    }
}
