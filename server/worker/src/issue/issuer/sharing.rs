//! Host memory that client and worker share: the client's own pages, mapped here at the addresses they have there.
//! In: the client's descriptor, then which pages. Out: ends of copies, for addresses that lie in such pages.
//! A page is mapped only where nothing is, and only from memory that cannot shrink: reading it never ends this process.

use std::os::fd::AsFd as _;

use floe_abi::CudaError;
use floe_device::{Device, Mapped};
use floe_ring::demand_memory;
use floe_wire::{MapShared, MapSharedReply, ShareMemory, SharingRequests, UnmapShared};

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
        let refuse = |words: String| Err(Fault::Explained(CudaError::NOT_SUPPORTED, words));
        let file = floe_lock::lock(&self.shared.descriptor).take();
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
        let (completions, failed) = match self.record_everything() {
            Ok(completions) => (completions, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let action = Action::Release { pages, failed };
        self.tasks.add(Task { sequence, lane: Lane::Alone(sequence), completions, action });
        Ok(Answer::Later)
    }
}
