//! The program's pinned memory, and the devices' access to it. A worker of this machine maps it, kernels reach it by a
//! mirror, and both end when the program frees it. Addresses come in as any call names them; answers for all vGPUs go
//! out.

use floe_abi::{CudaResult, DevicePtr, HostPointer};

use crate::client::Client;
use crate::memory::host_memory::sharing::Access;
use crate::memory::host_memory::{PinnedRange, host_addresses, may_be_named};
use crate::objects::device::DeviceState;
use crate::vgpu::Vgpu;
use crate::vgpu::handles::{Handle, Kind};

impl Client {
    /// Whether any vGPU's worker takes memory of this process.
    pub(crate) fn shares(&self) -> bool {
        self.devices().is_ok_and(|devices| devices.iter().any(|device| device.vgpu.shares()))
    }

    /// Offers a block that was just allocated to the worker of a vGPU.
    pub(crate) fn offer(&self, at: HostPointer, vgpu: &Vgpu) {
        // The bytes of memory that it does not take travel.
        let _ = self.host_memory.find(at.0).map(|pinned| vgpu.access_of(&pinned));
    }

    /// Has kernels of a vGPU reach pinned memory that the program has allocated for them. They may find its address in memory, as
    /// NCCL's do, where nobody sees it. Too much of it is reached once its device pointer was asked for.
    pub(crate) fn reach_at_once(&self, at: u64, vgpu: &Vgpu) {
        let _ = self.host_memory.find(at).map(|pinned| vgpu.make_reachable(&pinned));
    }

    /// Offers registered memory to the worker of a vGPU: at its own address, else at a second one, which kernels and work
    /// then name. What neither has stays ordinary pinned memory.
    pub(crate) fn offer_registered(&self, start: u64, vgpu: &Vgpu) -> Option<PinnedRange> {
        let own = self.host_memory.find(start).filter(|pinned| pinned.pages.is_some())?;
        let serves = |pinned: &PinnedRange| match vgpu.access_of(pinned) {
            Access::Refused => false,
            Access::Mapped => !vgpu.can_map(),
            Access::Reached => true,
        };
        if own.device_start == own.start && serves(&own) {
            return Some(own);
        }
        // A vGPU that has it at its own address keeps it there, too.
        self.host_memory.make_alias(start).filter(|alias| serves(alias))
    }

    /// Offers registered private memory, whose pages become a file's for it. What the worker does not take is as before.
    pub(crate) fn offer_exchanged(&self, start: u64, vgpu: &Vgpu) -> Option<PinnedRange> {
        let can = vgpu.can_map() && vgpu.shares() && !vgpu.mirrors.touches(start, 1);
        if !can || !self.host_memory.exchange(start) {
            return None;
        }
        let offered = self.offer_registered(start, vgpu);
        if offered.is_none() {
            // What it has refused are pages that will be others'.
            let _ = self.unshare(start);
            self.host_memory.give_back(start);
        }
        offered
    }

    /// Registered memory is about to be the program's alone. Every worker lets go of it, at both of its addresses.
    pub(crate) fn give_up_registered(&self, pinned: &PinnedRange) -> CudaResult<()> {
        let mirrored = self.unmirror(pinned.start);
        let own = if pinned.pages.is_some() { self.unshare(pinned.start) } else { Ok(()) };
        let alias = if pinned.device_start == pinned.start { Ok(()) } else { self.unshare(pinned.device_start) };
        mirrored.and(own).and(alias)
    }

    /// Whether kernels of any vGPU reach this pinned memory.
    pub(crate) fn is_reached(&self, pinned: &PinnedRange) -> bool {
        let devices = self.devices().unwrap_or_default();
        let reached = |device: &DeviceState| {
            let access = |start| device.vgpu.sharing.access(start) == Some(Access::Reached);
            access(pinned.start) || access(pinned.device_start)
        };
        let is_shared = pinned.pages.is_some() && devices.iter().any(reached);
        is_shared || self.is_mirrored(DevicePtr(pinned.start), 1)
    }

    /// The memory of the program is about to be freed. A vGPU that is lost has let go of it.
    pub(crate) fn unshare(&self, start: u64) -> CudaResult<()> {
        let mut result = Ok(());
        for device in self.devices()? {
            // Each lets go of it, whatever another says.
            let unshared = device.vgpu.unshare(start);
            if !device.vgpu.errors.is_lost() {
                result = result.and(unshared);
            }
        }
        result
    }

    /// The memory of the program is about to be freed or unregistered. No vGPU looks at it any more, whatever another says.
    pub(crate) fn unmirror(&self, start: u64) -> CudaResult<()> {
        let mut result = Ok(());
        for device in self.devices()? {
            result = result.and(device.vgpu.unmirror(start));
        }
        result
    }

    /// A context is gone, and what was registered in it is not pinned any more.
    pub(crate) fn forget_registered(&self, context: floe_abi::Context) {
        for start in self.host_memory.registered_in(context) {
            // The calls that follow report a failure of this.
            let _ = self.host_memory.find(start).map(|pinned| self.give_up_registered(&pinned));
        }
        self.host_memory.forget_registered(context);
    }

    /// A context has ended, and with it the mirrors of what was allocated in it. The memory stays the program's.
    pub(crate) fn unmirror_allocated(&self, context: floe_abi::Context) {
        let device = Handle::of(Kind::Context, context.0).and_then(|handle| self.device_of(handle));
        let Some(vgpu) = device.map(|device| &device.vgpu).filter(|vgpu| vgpu.mirrors.any()) else { return };
        for start in self.host_memory.allocated_in(context) {
            // The calls that follow report a failure of this.
            let _ = vgpu.unmirror(start);
        }
    }

    /// Lets a kernel reach the pinned memory whose addresses it is given, as unified addresses promise. Addresses it finds
    /// in memory are not seen here: memory behind those is reached if it was allocated for kernels, or its device pointer asked for.
    #[inline(always)]
    pub(crate) fn mirror_named(&self, parameters: &[u8], vgpu: &Vgpu) {
        if may_be_named() {
            self.mirror_placed(parameters, vgpu);
        }
    }

    fn mirror_placed(&self, parameters: &[u8], vgpu: &Vgpu) {
        for at in host_addresses(parameters) {
            // One whose first bytes another thread is about to send is waited for.
            if vgpu.mirrors.serves(at, 1) {
                continue;
            }
            if self.host_memory.find(at).is_some_and(|pinned| !vgpu.has_where_named(&pinned)) {
                vgpu.errors.suspect(at);
            }
        }
    }
}
