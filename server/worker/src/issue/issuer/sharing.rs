//! Host memory that client and worker share: the client's own pages, mapped here at the addresses they have there.
//! In: the client's descriptors, and which pages. Out: ends of copies, for addresses that lie in such pages.
//! A page is mapped only where nothing is. The worker touches none: files that the program registered may shrink.

use std::os::fd::{AsFd as _, OwnedFd};

use floe_abi::CudaError;
use floe_device::{Device, Mapped};
use floe_ring::{NotMemory, demand_memory, demand_memory_file};
use floe_wire::{MapShared, MapSharedReply, ShareFile, ShareFileReply, ShareMemory, SharingRequests, UnmapShared};

use super::mirror::is_place;
use super::{Answer, Issuer, body};
use crate::complete::completer::{Action, Lane, Task};
use crate::issue::fault::{Fault, violation};
use crate::issue::objects::sharing::{Memory, PAGE};
use crate::memory::shared_pages::SharedPages;

/// Mappings of a session. A process has some sixty thousand, and the driver wants most of them.
const MOST_RANGES: usize = 16 << 10;

impl<D: Device> SharingRequests for Issuer<D> {
    fn share_memory(&mut self, message: ShareMemory) -> Result<Answer, Fault> {
        let ShareMemory { at, bytes } = message;
        if self.sharing.memory.is_some() {
            return violation("memory is shared already");
        }
        let file = self.shared_descriptor()?;
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
        let size = self.room_for_pages(bytes)?;
        let memory = self.device().share_host(memory.file.as_fd(), offset, at, size)?;
        body(&MapSharedReply { reached: self.keep_pages(at.0, memory, bytes) })
    }

    fn share_file(&mut self, message: ShareFile) -> Result<Answer, Fault> {
        let ShareFile { at, offset, bytes } = message;
        let end = offset.checked_add(bytes).filter(|_| bytes > 0);
        let whole = [at.0, offset, bytes].iter().all(|number| number.is_multiple_of(PAGE));
        let Some(end) = end.filter(|_| whole) else {
            return violation(format!("not pages of a file: {bytes} bytes of it, from {offset} on, at {:#x}", at.0));
        };
        let file = self.shared_descriptor()?;
        if !is_place(at.0, bytes) || self.sharing.takes_from_memory(at.0, bytes) {
            return refuse(format!("no place for host memory of {bytes} bytes: {:#x}", at.0));
        }
        match demand_memory_file(&file) {
            // The last page may lie partly behind the file's end.
            Ok(is) if is.checked_next_multiple_of(PAGE).is_some_and(|is| end <= is) => {}
            Ok(is) => return refuse(NotMemory::Short { said: end, is }.to_string()),
            Err(error) => return refuse(error.to_string()),
        }
        let size = self.room_for_pages(bytes)?;
        let memory = self.device().share_host(file.as_fd(), offset, at, size)?;
        let reached = self.keep_pages(at.0, memory, bytes);
        self.sharing.keep_file(at.0, file);
        body(&ShareFileReply { reached })
    }

    /// The pages go when the work that may name them has completed, which is not waited for here.
    fn unmap_shared(&mut self, message: UnmapShared) -> Result<Answer, Fault> {
        let sequence = self.sequence;
        let pages = self.sharing.remove(message.at)?;
        let (completions, failed) = match self.record_everything() {
            Ok(completions) => (completions, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let action = Action::Release { pages, failed };
        self.tasks.add(Task { sequence, lane: Lane::Alone(sequence), completions, action });
        Ok(Answer::Later)
    }
}

fn refuse<T>(words: String) -> Result<T, Fault> {
    Err(Fault::Explained(CudaError::NOT_SUPPORTED, words))
}

impl<D: Device> Issuer<D> {
    /// The descriptor that came with the message.
    fn shared_descriptor(&self) -> Result<OwnedFd, Fault> {
        let file = floe_lock::lock(&self.shared.descriptor).take();
        if self.allowance.shared_memory == 0 {
            return refuse("this server shares no memory".into());
        }
        file.map_or_else(|| refuse("no descriptor came with the message".into()), Ok)
    }

    /// Whether the session may share so many bytes more.
    fn room_for_pages(&self, bytes: u64) -> Result<usize, Fault> {
        let (held, ranges) = self.sharing.held.now();
        let most = self.allowance.shared_memory;
        if bytes > most.saturating_sub(held) || ranges >= MOST_RANGES {
            let words = format!("{bytes} bytes more than {held} of shared memory, of at most: {most}");
            return Err(Fault::Explained(CudaError::OUT_OF_MEMORY, words));
        }
        usize::try_from(bytes).map_err(|_| CudaError::OUT_OF_MEMORY.into())
    }

    /// Keeps a mapping until it is given up; whether kernels reach it.
    fn keep_pages(&mut self, at: u64, memory: D::Mapped, bytes: u64) -> bool {
        let reached = memory.is_reached();
        let pages = SharedPages::new(memory, &self.sharing.held, bytes);
        self.sharing.ranges.insert(at, pages);
        reached
    }
}
