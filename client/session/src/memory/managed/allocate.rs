//! Managed memory's beginning and end: allocations, variables, attachments, resets. An allocation is ordinary memory of
//! the vGPU's window with pages of this process at the same addresses. A variable has the address that the server's
//! driver gave it.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use floe_abi::{Context, CudaError, CudaResult, DevicePtr, attach_flags};
use floe_touch::{Access, PAGE, Span, Watch};

use super::residency::ResidencyMap;
use super::touch::VgpuFaultHandler;
use super::{Attachment, Held, State, WatchedSpan};
use crate::log::log;
use crate::memory::blocks::Allocation;
use crate::memory::staging::copiers::Copiers;
use crate::vgpu::Vgpu;
use crate::vgpu::order::Fence;
use floe_lock::lock;

impl Attachment {
    /// As an allocation is made.
    pub(crate) fn at_first(flags: u32) -> CudaResult<Self> {
        match flags {
            attach_flags::GLOBAL => Ok(Self::Global),
            attach_flags::HOST => Ok(Self::Host),
            _ => Err(CudaError::INVALID_VALUE),
        }
    }
}

impl Held {
    fn new(residency: ResidencyMap, place: Arc<WatchedSpan>, parts: Vec<Range<u64>>, attached: Attachment) -> Self {
        let (shadows, at_first) = (Vec::new(), attached);
        Self { residency, place, shadows, idle: 0, parts, attached, of_others: false, at_first }
    }
}

impl WatchedSpan {
    fn take(vgpu: &Arc<Vgpu>, pages: &Range<u64>) -> Option<Arc<Self>> {
        let span = Span::take(pages.start, pages.end - pages.start);
        let span = span.inspect_err(|error| {
            log!(
                Warn,
                "managed memory cannot have its addresses in this process, {:#x} and behind: {error}",
                pages.start
            );
        });
        // The watch starts only if the process has the addresses.
        let span = span.ok()?;
        let watch = Watch::start(pages.clone(), Arc::new(VgpuFaultHandler(Arc::downgrade(vgpu))))?;
        Some(Arc::new(Self { _watch: watch, span }))
    }
}

impl Vgpu {
    /// Allocates managed memory.
    ///
    /// # Errors
    /// OUT_OF_MEMORY; NOT_SUPPORTED where this process cannot have the addresses.
    pub(crate) fn allocate_managed(
        self: &Arc<Self>,
        bytes: u64,
        attached: Attachment,
        owner: Context,
        copiers: &Arc<Copiers>,
    ) -> CudaResult<DevicePtr> {
        let managed = &self.managed;
        let _ = managed.copiers.set(Arc::clone(copiers));
        let place = self.managed_place()?;
        let DevicePtr(at) = self.allocate_from(&managed.blocks, bytes, owner, None)?;
        let pages = at..at + bytes.next_multiple_of(PAGE);
        let mut state = lock(&managed.state);
        if !(place.span.begin(&pages) && place.span.allow(&pages, Access::Open)) {
            lock(&managed.blocks).free(at, self.fence_of(at), None);
            log!(Warn, "cuMemAllocManaged: the system does not open {bytes} bytes at {at:#x}");
            return Err(CudaError::OUT_OF_MEMORY);
        }
        let residency = ResidencyMap::fresh(pages);
        state.held.insert(at, Held::new(residency, place, Vec::new(), attached));
        state.open.insert(at);
        managed.exists.store(true, Ordering::SeqCst);
        self.tell_open(&state);
        Ok(DevicePtr(at))
    }

    fn managed_place(self: &Arc<Self>) -> CudaResult<Arc<WatchedSpan>> {
        let mut state = lock(&self.managed.state);
        if state.window.is_none() {
            state.window = WatchedSpan::take(self, &self.managed.window);
            state.closed = Some(Vec::new());
        }
        state.window.clone().ok_or(CudaError::NOT_SUPPORTED)
    }

    /// Frees the managed allocation that starts here, after all work.
    pub(crate) fn free_managed(self: &Arc<Self>, DevicePtr(at): DevicePtr) -> CudaResult<Allocation> {
        let known = lock(&self.managed.blocks).find(at).is_some_and(|found| found.at == at);
        if !known {
            return Err(CudaError::INVALID_VALUE);
        }
        let settled = self.synchronize();
        self.drop_managed(at);
        let freed = lock(&self.managed.blocks).free(at, self.fence_of(at), None);
        let collected = self.collect();
        settled.and(collected).and(freed.ok_or(CudaError::INVALID_VALUE))
    }

    fn drop_managed(&self, at: u64) {
        let mut state = lock(&self.managed.state);
        if let Some(held) = state.held.remove(&at) {
            let pages = held.residency.bytes();
            held.place.span.allow(&pages, Access::Closed);
            held.place.span.empty(&pages);
        }
        state.open.remove(&at);
        self.tell_open(&state);
    }

    /// Frees all that a context allocated, once `fence` is passed.
    pub(crate) fn free_managed_of(&self, owner: Context, fence: &Fence) {
        let owned = lock(&self.managed.blocks).owned_by(owner.0);
        for at in owned {
            self.drop_managed(at);
            lock(&self.managed.blocks).free(at, fence.clone(), None);
        }
    }

    /// Everything is gone, variables too.
    pub(crate) fn clear_managed(&self) {
        let mut state = lock(&self.managed.state);
        if let Some(place) = &state.window {
            let pages = place.span.addresses();
            place.span.allow(&pages, Access::Closed);
            place.span.empty(&pages);
        }
        state.closed = Some(Vec::new());
        state.open.clear();
        state.held.clear();
        self.managed.open.store(false, Ordering::SeqCst);
        floe_lock::write(&self.managed.variables).clear();
        lock(&self.managed.blocks).clear();
    }

    /// Says whose work may use the memory that begins here or holds this variable.
    pub(crate) fn attach_managed(&self, DevicePtr(at): DevicePtr, attached: Attachment) {
        let mut state = lock(&self.managed.state);
        for start in state.holding_any(&(at..at + 1)) {
            if let Some(held) = state.held.get_mut(&start) {
                (held.attached, held.of_others) = (attached, true);
            }
        }
        self.tell_open(&state);
    }

    /// Lets the program touch a variable at the address the server's driver gave it, which is the device's at first.
    ///
    /// # Errors
    /// NOT_SUPPORTED where something of this process lies there.
    pub(crate) fn hold_variable(self: &Arc<Self>, bytes: &Range<u64>, copiers: &Arc<Copiers>) -> CudaResult<()> {
        let managed = &self.managed;
        let _ = managed.copiers.set(Arc::clone(copiers));
        let end = bytes.end.checked_next_multiple_of(PAGE).ok_or(CudaError::INVALID_VALUE)?;
        let pages = bytes.start - bytes.start % PAGE..end;
        let mut state = lock(&managed.state);
        if floe_lock::read(&managed.variables).contains_key(&bytes.start) {
            return Ok(());
        }
        let shared = state.holding_any(&pages);
        // Variables that share pages with it are wholly the device's again, so that the page has one owner.
        self.close_all(&mut state, &shared, |_| pages.clone())?;
        for hole in holes(&state, &pages) {
            let place = WatchedSpan::take(self, &hole).filter(|place| place.span.begin(&hole));
            let place = place.ok_or(CudaError::NOT_SUPPORTED)?;
            let (residency, attached) = (ResidencyMap::on_device(hole.clone()), Attachment::Global);
            state.held.insert(hole.start, Held::new(residency, place, vec![bytes.clone()], attached));
        }
        for start in shared {
            if let Some(held) = state.held.get_mut(&start) {
                held.parts.push(bytes.clone());
            }
        }
        floe_lock::write(&managed.variables).insert(bytes.start, bytes.end);
        managed.exists.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// A variable is gone with its library.
    pub(crate) fn forget_variable(&self, at: u64) {
        let Some(end) = floe_lock::write(&self.managed.variables).remove(&at) else {
            return;
        };
        let mut state = lock(&self.managed.state);
        for start in state.holding_any(&(at..end)) {
            let Some(held) = state.held.get_mut(&start) else { continue };
            held.parts.retain(|part| part.start != at);
            if held.parts.is_empty() {
                state.held.remove(&start);
                state.open.remove(&start);
            }
        }
        self.tell_open(&state);
    }
}

/// The pages among these that nothing holds.
fn holes(state: &State, pages: &Range<u64>) -> Vec<Range<u64>> {
    let (mut at, mut holes) = (pages.start, Vec::new());
    let mut taken: Vec<Range<u64>> =
        state.holding_any(pages).iter().filter_map(|start| Some(state.held.get(start)?.residency.bytes())).collect();
    taken.sort_unstable_by_key(|bytes| bytes.start);
    for taken in taken {
        if at < taken.start {
            holes.push(at..taken.start);
        }
        at = at.max(taken.end);
    }
    if at < pages.end {
        holes.push(at..pages.end);
    }
    holes
}
