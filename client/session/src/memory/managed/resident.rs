//! Bytes that a call names for the device to use. If they are managed memory, the device has them from before the
//! call's message is posted until the guard is dropped, and no page fault opens them. If they are an array's, it stays
//! meanwhile, even if another thread destroys it. Code that copies, fills or describes memory of a device needs the guard,
//! since it alone says which vGPU has the bytes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use floe_abi::{CudaError, CudaResult, DevicePtr};

use super::Managed;
use crate::objects::array::{ArrayName, ArrayState};
use crate::objects::stream::StreamState;
use crate::vgpu::Vgpu;

/// Managed memory stays with the device until this is dropped: behind the post of the work that uses it.
#[derive(Debug)]
#[must_use = "touches may open the memory again as soon as this is dropped"]
pub(crate) struct DeviceHold {
    managed: Arc<Managed>,
}

impl DeviceHold {
    pub(super) fn begin(managed: &Arc<Managed>) -> Self {
        managed.leaving.fetch_add(1, Ordering::SeqCst);
        managed.naming.fetch_add(1, Ordering::SeqCst);
        Self { managed: Arc::clone(managed) }
    }
}

impl Drop for DeviceHold {
    fn drop(&mut self) {
        self.managed.naming.fetch_sub(1, Ordering::SeqCst);
        self.managed.leaving.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Bytes of one vGPU, which the device has until this is dropped.
#[derive(Debug)]
#[must_use = "managed memory is the device's only while this lives"]
pub(crate) struct Resident {
    vgpu: Arc<Vgpu>,
    hold: Hold,
}

/// What keeps bytes the device's.
#[derive(Debug)]
#[expect(dead_code, reason = "held for what its end does")]
enum Hold {
    /// Nothing: they always are.
    Nothing,
    Managed(DeviceHold),
    Array(ArrayName),
}

impl Resident {
    /// These bytes of a vGPU's managed memory, given to its device.
    pub(crate) fn managed(vgpu: Arc<Vgpu>, at: DevicePtr, bytes: u64) -> CudaResult<Self> {
        let hold = vgpu.flush(at, bytes)?;
        Ok(Self { vgpu, hold: Hold::Managed(hold) })
    }

    /// An array's bytes.
    pub(crate) fn array(array: &ArrayState) -> Self {
        Self { vgpu: Arc::clone(&array.vgpu), hold: Hold::Array(Arc::clone(&array.name)) }
    }

    /// Bytes that are no managed memory, by a lookup that says so.
    pub(crate) fn always(vgpu: Arc<Vgpu>) -> Self {
        Self { vgpu, hold: Hold::Nothing }
    }

    /// Work on this stream uses them.
    pub(crate) fn note_use(&self, stream: &StreamState) {
        if let Hold::Managed(_) = self.hold
            && !self.is_on(&stream.vgpu)
        {
            self.vgpu.managed.guests.note(&stream.vgpu, stream.progress());
        }
    }

    /// The vGPU that has them.
    pub(crate) fn vgpu(&self) -> &Arc<Vgpu> {
        &self.vgpu
    }

    /// The vGPU that has them, for one that does not reach them.
    ///
    /// # Errors
    /// NOT_SUPPORTED where that is the same: memory of several servers, side by side.
    pub(crate) fn other_than(&self, vgpu: &Arc<Vgpu>) -> CudaResult<&Arc<Vgpu>> {
        if self.is_on(vgpu) { Err(CudaError::NOT_SUPPORTED) } else { Ok(&self.vgpu) }
    }

    /// Whether a vGPU has them.
    pub(crate) fn is_on(&self, vgpu: &Arc<Vgpu>) -> bool {
        Arc::ptr_eq(&self.vgpu, vgpu)
    }
}
