//! The program's pinned memory and what devices have of it: what a worker of this machine has mapped, what kernels reach by a
//! mirror, what ends when the program frees it. Addresses come in as any call names them; answers for all vGPUs go out.

use std::sync::Arc;

use floe_abi::{CudaResult, DevicePtr, HostPointer};
use floe_surface::HostRange;

use crate::client::Client;
use crate::memory::arena;
use crate::memory::host_memory::{has_placed, placed_addresses};
use crate::memory::sharing::Pages;
use crate::vgpu::Vgpu;

/// Bytes of a copy below which a program that waits is better off having them copied: it then waits for nothing, and the
/// processor copies so many in less time than an answer takes.
const WORTH_WAITING: usize = 96 << 10;

impl Client {
    /// Whether any vGPU's worker takes memory of this process.
    pub(crate) fn shares(&self) -> bool {
        self.devices().is_ok_and(|devices| devices.iter().any(|device| device.vgpu.shares()))
    }

    /// What the worker of a vGPU has of these bytes, after offering the block they are in.
    fn pages_of(&self, at: u64, bytes: u64, vgpu: &Vgpu) -> Pages {
        let block = Some(at).filter(|at| arena::is_place(*at)).and_then(|at| self.host_memory.shared(at, bytes));
        block.map_or(Pages::Refused, |(start, pages)| vgpu.share(start, pages))
    }

    /// Offers a block that was just allocated to the worker of a vGPU.
    pub(crate) fn offer(&self, at: HostPointer, vgpu: &Vgpu) {
        // What it does not take travels.
        let _ = self.pages_of(at.0, 1, vgpu);
    }

    /// Whether the device copies these bytes by itself: its worker has them, and no bytes on their way from elsewhere will
    /// be written there.
    pub(crate) fn is_shared(&self, range: &HostRange, vgpu: &Vgpu) -> CudaResult<bool> {
        let (at, bytes) = (range.pointer().0, range.len() as u64);
        if self.pages_of(at, bytes, vgpu) == Pages::Refused {
            return Ok(false);
        }
        Ok(!self.devices()?.iter().any(|device| device.vgpu.connection.writes_into(at, bytes)))
    }

    /// Whether kernels of a vGPU reach shared memory at these addresses.
    pub(crate) fn reaches_shared(&self, at: DevicePtr, bytes: u64, vgpu: &Vgpu) -> bool {
        self.pages_of(at.0, bytes, vgpu) == Pages::Reached
    }

    /// Whether kernels of any vGPU reach pinned memory at this address.
    pub(crate) fn is_reached(&self, at: u64) -> bool {
        let block = Some(at).filter(|at| arena::is_place(*at)).and_then(|at| self.host_memory.shared(at, 1));
        let reached = |(start, _)| {
            let devices = self.devices().unwrap_or_default();
            devices.iter().any(|device| device.vgpu.sharing.pages(start) == Some(Pages::Reached))
        };
        self.is_mirrored(at, 1) || block.is_some_and(reached)
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

    /// Whether a program that waits for a copy to the device had better send the bytes, which are what they will be.
    pub(crate) fn had_better_send(source: &HostRange, vgpu: &Arc<Vgpu>) -> bool {
        source.len() < WORTH_WAITING && vgpu.order.writes_nothing()
    }

    /// The memory of the program is about to be freed or unregistered.
    pub(crate) fn unmirror(&self, start: u64) -> CudaResult<()> {
        self.devices()?.iter().try_for_each(|device| device.vgpu.unmirror(start))
    }

    /// A context is gone, and what was registered in it is not pinned any more.
    pub(crate) fn forget_registered(&self, context: floe_abi::Context) {
        for start in self.host_memory.registered_in(context) {
            // What cannot be told any more is told by the calls that follow.
            let _ = self.unmirror(start);
        }
        self.host_memory.forget_registered(context);
    }

    /// Whether kernels of any vGPU may read or write these bytes.
    pub(crate) fn is_mirrored(&self, at: u64, bytes: u64) -> bool {
        let devices = self.devices().unwrap_or_default();
        devices.iter().any(|device| device.vgpu.mirrors.touches(at, bytes))
    }

    /// Pinned host memory where a device's address is asked for: with unified addresses it may stand there, whether or not
    /// the program has asked for its device pointer. An address that is a variable's of a device stays the device's.
    pub(crate) fn host_side(&self, at: DevicePtr, bytes: usize, current: &Arc<Vgpu>) -> Option<HostRange> {
        let bytes = bytes as u64;
        let is_host = self.is_mirrored(at.0, bytes) || self.owner(at, Some(current)).is_none();
        if is_host { self.host_memory.range(at.0, bytes) } else { None }
    }

    /// Lets a kernel reach the pinned memory whose addresses it is given, as unified addresses promise. Addresses it finds
    /// in memory are not seen here: memory behind those is reached once its device pointer was asked for.
    #[inline(always)]
    pub(crate) fn mirror_named(&self, parameters: &[u8], vgpu: &Vgpu) {
        if has_placed() {
            self.mirror_placed(parameters, vgpu);
        }
    }

    fn mirror_placed(&self, parameters: &[u8], vgpu: &Vgpu) {
        for at in placed_addresses(parameters) {
            let at = DevicePtr(at);
            let reached = vgpu.mirrors.touches(at.0, 1) || self.reaches_shared(at, 1, vgpu);
            if !reached && self.host_memory.find(at.0).is_some() && !self.mirror_pinned(at, vgpu) {
                vgpu.errors.suspect(at.0);
            }
        }
    }

    /// Lets kernels reach pinned memory that the program uses as a device's, where there is room for it.
    pub(crate) fn mirror_pinned(&self, at: DevicePtr, vgpu: &Vgpu) -> bool {
        let pinned = self.host_memory.find(at.0);
        let whole = pinned.and_then(|pinned| self.host_memory.range(pinned.start, pinned.bytes));
        whole.is_some_and(|whole| vgpu.can_mirror() && vgpu.has_room_to_mirror(&whole) && vgpu.mirror(whole).is_ok())
    }
}
