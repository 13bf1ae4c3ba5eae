//! Finds the owner of an address: memory of a vGPU, managed or not, or the program's own, pinned or pageable. An
//! address that a call names comes in, one answer goes out, which copies, fills and words pass on. Nothing is sent
//! here, and no memory is read.

use std::cell::OnceCell;
use std::sync::Arc;

use floe_abi::{Context, CudaError, CudaResult, DevicePtr};
use floe_surface::{CopyPlace, HostRange};

use crate::client::Client;
use crate::log::log;
use crate::memory::host_memory::{HostMemory, PinnedRange};
use crate::memory::managed::resident::Resident;
use crate::memory::mirrors::MOST_CLOSED;
use crate::vgpu::Vgpu;
use floe_lock::lock;

/// The owner of a range of memory.
#[derive(Debug)]
pub(crate) enum Lookup<'c> {
    /// A vGPU's.
    Device(OnDevice<'c>),
    /// The program's.
    Host(OnHost<'c>),
}

/// Memory of one vGPU that exists.
#[derive(Debug)]
pub(crate) struct OnDevice<'c> {
    pub(crate) vgpu: &'c Arc<Vgpu>,
    pub(crate) at: DevicePtr,
    bytes: u64,
    /// Whether the host can touch it too.
    pub(crate) is_managed: bool,
}

/// Memory of the program's process. Few ways of a copy depend on whether it is pinned. So that is looked up at the
/// first question, and never twice.
#[derive(Debug)]
pub(crate) struct OnHost<'c> {
    pub(crate) range: HostRange,
    /// The program called it the device's.
    pub(crate) is_named_as_device: bool,
    all_pinned: &'c HostMemory,
    pinned: OnceCell<Option<PinnedRange>>,
}

/// The memory that one address lies in.
#[derive(Debug)]
pub(crate) enum Found<'c> {
    /// Memory of a vGPU.
    Device(DeviceRange<'c>),
    /// Pinned memory of the program.
    Pinned(PinnedRange),
}

/// An allocation, a mapping or a variable of a vGPU.
#[derive(Debug)]
pub(crate) struct DeviceRange<'c> {
    pub(crate) vgpu: &'c Arc<Vgpu>,
    pub(crate) start: DevicePtr,
    pub(crate) bytes: u64,
    /// The allocation, if it was cut from a block. Else it is a mapping of the program's own, or a global variable.
    pub(crate) allocation: Option<Made>,
    pub(crate) is_managed: bool,
    /// Another process has allocated it.
    pub(crate) is_opened: bool,
}

impl DeviceRange<'_> {
    /// Whether this process has allocated it, by a block and for the device alone.
    pub(crate) fn is_own_allocation(&self) -> bool {
        self.allocation.is_some() && !self.is_managed && !self.is_opened
    }
}

/// The allocation that memory is part of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Made {
    pub(crate) context: Context,
    /// No other allocation of the vGPU has had this number.
    pub(crate) serial: u64,
}

impl<'c> OnDevice<'c> {
    /// Memory of this vGPU, where all of it exists.
    pub(crate) fn of(vgpu: &'c Arc<Vgpu>, at: DevicePtr, bytes: u64) -> Option<Self> {
        let is_managed = || vgpu.managed.has(at);
        vgpu.covers(at, bytes).then(|| Self { vgpu, at, bytes, is_managed: is_managed() })
    }

    /// Its bytes.
    pub(crate) fn len(&self) -> usize {
        usize::try_from(self.bytes).unwrap_or(usize::MAX)
    }

    /// The memory, which the device has until this is dropped.
    pub(crate) fn resident(&self) -> CudaResult<Resident> {
        let vgpu = Arc::clone(self.vgpu);
        if self.is_managed { Resident::managed(vgpu, self.at, self.bytes) } else { Ok(Resident::always(vgpu)) }
    }
}

impl<'c> OnHost<'c> {
    fn new(range: HostRange, all_pinned: &'c HostMemory) -> Self {
        Self { range, is_named_as_device: false, all_pinned, pinned: OnceCell::new() }
    }

    /// Memory of the client's own, which nobody has pinned.
    pub(crate) fn unpinned(range: HostRange, client: &'c Client) -> Self {
        Self { pinned: OnceCell::from(None), ..Self::new(range, &client.host_memory) }
    }

    /// The pinned range that all of it is of.
    pub(crate) fn pinned(&self) -> Option<&PinnedRange> {
        let find = || self.all_pinned.find_all(self.range.pointer().0, self.range.len() as u64);
        self.pinned.get_or_init(find).as_ref()
    }
}

impl Client {
    /// Finds the owner of one end of a copy. `current` decides where two vGPUs have a global variable at one address.
    ///
    /// # Errors
    /// INVALID_VALUE where the bytes are not all of one memory; NOT_SUPPORTED of an array, which has no address.
    pub(crate) fn lookup<'c>(&'c self, place: CopyPlace, current: &'c Arc<Vgpu>) -> CudaResult<Lookup<'c>> {
        match place {
            CopyPlace::Device(at, bytes) => self.lookup_device(at, bytes as u64, current),
            CopyPlace::Host(range) => {
                counting::count(range.pointer().0);
                self.of_host(range)
            }
            CopyPlace::Unified(range) => {
                counting::count(range.device().0);
                match self.owner(range.device(), Some(current)) {
                    Some(owner) => self.of_device(range.device(), range.len() as u64, Some(owner)),
                    None => self.of_host(range.host()),
                }
            }
            CopyPlace::Array(..) => Err(CudaError::NOT_SUPPORTED),
        }
    }

    /// The same for memory that the program calls the device's.
    ///
    /// # Errors
    /// INVALID_VALUE where it is neither one vGPU's nor pinned memory.
    pub(crate) fn lookup_device<'c>(
        &'c self,
        at: DevicePtr,
        bytes: u64,
        current: &'c Arc<Vgpu>,
    ) -> CudaResult<Lookup<'c>> {
        counting::count(at.0);
        self.of_device(at, bytes, self.owner(at, Some(current)))
    }

    /// With unified addresses a program may name pinned memory as device memory, even without asking for its device
    /// pointer. The address of a device's variable stays the device's, unless kernels reach the pinned memory.
    fn of_device<'c>(&'c self, at: DevicePtr, bytes: u64, owner: Option<&'c Arc<Vgpu>>) -> CudaResult<Lookup<'c>> {
        let may_be_host = owner.is_none() || self.is_mirrored(at, bytes);
        if may_be_host && let Some(pinned) = self.host_memory.find_all(at.0, bytes) {
            let range = pinned.part(at.0, bytes).ok_or(CudaError::INVALID_VALUE)?;
            let host = OnHost::new(self.host_memory.by_alias(range), &self.host_memory);
            return Ok(Lookup::Host(OnHost { is_named_as_device: true, ..host }));
        }
        self.of_owner(at, bytes, owner)
    }

    fn of_owner<'c>(&'c self, at: DevicePtr, bytes: u64, owner: Option<&'c Arc<Vgpu>>) -> CudaResult<Lookup<'c>> {
        let found = owner.and_then(|vgpu| OnDevice::of(vgpu, at, bytes)).map(|found| self.with_holder(found));
        found.map(Lookup::Device).ok_or_else(|| {
            log!(Info, "refused: no device has these {bytes} bytes at: {:#x}", at.0);
            CudaError::INVALID_VALUE
        })
    }

    /// The vGPU that has the memory at an address of a vGPU's window: another one where the program mapped its memory there.
    pub(crate) fn holder<'c>(&'c self, window: &'c Arc<Vgpu>, at: DevicePtr) -> &'c Arc<Vgpu> {
        if !window.is_programs_own(at) {
            return window;
        }
        let ordinal = lock(&window.virtual_memory).mapping_entry(at.0).map(|(_, mapping)| mapping.owner);
        let devices = self.devices().unwrap_or_default();
        ordinal.and_then(|ordinal| devices.get(usize::from(ordinal))).map_or(window, |device| &device.vgpu)
    }

    /// Memory of a vGPU's window, with the vGPU that has it.
    pub(crate) fn with_holder<'c>(&'c self, found: OnDevice<'c>) -> OnDevice<'c> {
        OnDevice { vgpu: self.holder(found.vgpu, found.at), ..found }
    }

    /// Managed memory is the device's, whatever the program called it.
    fn of_host<'c>(&'c self, range: HostRange) -> CudaResult<Lookup<'c>> {
        if range.pointer().is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        let (start, bytes) = (range.pointer().0, range.len() as u64);
        let manager = |at| self.vgpus().find(|vgpu| vgpu.managed.has(DevicePtr(at)));
        match (manager(start), manager(start + bytes.saturating_sub(1))) {
            (None, None) => {
                let range = self.host_memory.in_process(range)?;
                let start = range.pointer().0;
                self.vgpus().for_each(|vgpu| vgpu.keep_mirrors_open(start, bytes));
                Ok(Lookup::Host(OnHost::new(self.host_memory.by_alias(range), &self.host_memory)))
            }
            (None, Some(_)) => Err(CudaError::INVALID_VALUE),
            (owner, _) => self.of_owner(DevicePtr(start), bytes, owner),
        }
    }

    /// The memory that an address lies in, for the program's questions about pointers. The thread's context decides where
    /// two vGPUs have a global variable there.
    pub(crate) fn lookup_address(&self, at: DevicePtr) -> Option<Found<'_>> {
        counting::count(at.0);
        let pinned = || self.host_memory.find(at.0).map(Found::Pinned);
        let current = self.with_current(|context| Arc::clone(&context.vgpu)).ok();
        let current = self.vgpus().find(|vgpu| current.as_ref().is_some_and(|current| Arc::ptr_eq(vgpu, current)));
        match self.owner(at, current).filter(|_| !self.is_mirrored(at, 1)) {
            Some(vgpu) => {
                let found = device_range(vgpu, at).map(|found| DeviceRange { vgpu: self.holder(vgpu, at), ..found });
                found.map(Found::Device).or_else(pinned)
            }
            None => pinned(),
        }
    }

    /// The vGPU whose memory this address is; `current` decides where two devices have a global variable there.
    pub(crate) fn owner<'c>(&'c self, at: DevicePtr, current: Option<&'c Arc<Vgpu>>) -> Option<&'c Arc<Vgpu>> {
        self.vgpus()
            .find(|vgpu| vgpu.window.contains(&at.0))
            .or_else(|| current.filter(|vgpu| vgpu.global_at(at).is_some()))
            .or_else(|| self.vgpus().find(|vgpu| vgpu.global_at(at).is_some()))
    }

    /// Whether kernels of any vGPU may read or write these bytes of the program's.
    pub(crate) fn is_mirrored(&self, at: DevicePtr, bytes: u64) -> bool {
        self.vgpus().any(|vgpu| vgpu.mirrors.touches(at.0, bytes))
    }

    /// Whether pinned memory of so many bytes may be closed to the program (`--far`).
    pub(crate) fn may_close(&self, bytes: usize) -> bool {
        bytes <= MOST_CLOSED && self.vgpus().any(|vgpu| vgpu.far.is_on())
    }

    pub(crate) fn vgpus(&self) -> impl Iterator<Item = &Arc<Vgpu>> {
        self.devices().unwrap_or_default().iter().map(|device| &device.vgpu)
    }
}

fn device_range(vgpu: &Arc<Vgpu>, at: DevicePtr) -> Option<DeviceRange<'_>> {
    let is_managed = vgpu.managed.has(at);
    if let Some(found) = lock(vgpu.blocks_at(at)).find(at.0) {
        let made = Made { context: Context(found.owner), serial: found.serial };
        let (start, bytes) = (DevicePtr(found.at), found.bytes);
        return Some(DeviceRange { vgpu, start, bytes, allocation: Some(made), is_managed, is_opened: false });
    }
    if let Some(found) = lock(&vgpu.openings.opened).find(at.0) {
        let allocation = Some(Made { context: found.context, serial: found.serial });
        let (start, bytes) = (DevicePtr(found.at), found.bytes);
        return Some(DeviceRange { vgpu, start, bytes, allocation, is_managed: false, is_opened: true });
    }
    let mapped = lock(&vgpu.virtual_memory).programs_mapping(at.0).map(|(range, _)| range);
    let range = mapped.or_else(|| vgpu.global_at(at))?;
    let (start, bytes) = (DevicePtr(range.start), range.end - range.start);
    Some(DeviceRange { vgpu, start, bytes, allocation: None, is_managed, is_opened: false })
}

/// Tests count lookups; a program's cost nothing for it.
mod counting {
    #[cfg(not(test))]
    #[inline(always)]
    pub(super) fn count(_at: u64) {}

    #[cfg(test)]
    pub(super) use super::tests::count;
}

#[cfg(test)]
mod tests;
