//! When managed memory is flushed to the device: before launches, behind functions of the program, and where a call
//! names bytes. The work that comes in finds the program's earlier writes. Without managed memory this costs a launch
//! one load. Behind functions, mirrored memory is sent, too.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use floe_abi::{CudaResult, DevicePtr};

use super::gate::Gate;
use super::resident::DeviceHold;
use super::{Family, Leaving};
use crate::vgpu::Vgpu;
use crate::vgpu::connection::Around;

impl Vgpu {
    /// Gives the device the memory that a launch on this stream may use. The caller keeps the result until the launch
    /// is posted.
    #[inline]
    pub(crate) fn flush_for_launch(self: &Arc<Self>, stream: u64) -> CudaResult<Option<Leaving<'_>>> {
        if !self.managed.exists.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let leaving = self.managed.leave();
        if self.managed.open.load(Ordering::SeqCst) {
            self.close_for_launch(stream)?;
        }
        Ok(Some(leaving))
    }

    /// Gives the device the writes of a host function that a stream waited for; ahead of it there were so many closings.
    fn flush_behind_function(self: &Arc<Self>, closings: u64) -> CudaResult<()> {
        self.send_mirrors()?;
        if self.managed.exists.load(Ordering::Relaxed) { self.close_behind_function(closings) } else { Ok(()) }
    }

    /// Gives the device these bytes of managed memory, for as long as what is returned lives.
    pub(super) fn flush(self: &Arc<Self>, at: DevicePtr, bytes: u64) -> CudaResult<DeviceHold> {
        let hold = DeviceHold::begin(&self.managed);
        self.close_bytes(&(at.0..at.0.saturating_add(bytes)))?;
        Ok(hold)
    }

    /// From now on the devices of all vGPUs get the writes of each host function before its stream continues.
    pub(crate) fn flush_behind_functions(self: &Arc<Self>, all: &[Arc<Self>], gate: &Arc<Gate>) {
        let vgpus = all.iter().map(Arc::downgrade).collect();
        let _ = self.managed.family.set(Family { vgpus, gate: Arc::clone(gate) });
        self.connection.around_functions(Box::new(Flushing(Arc::downgrade(self))));
    }

    /// All vGPUs of the program.
    pub(crate) fn family(&self) -> impl Iterator<Item = Arc<Self>> {
        self.managed.family.get().into_iter().flat_map(|family| &family.vgpus).filter_map(Weak::upgrade)
    }
}

/// Around functions of the program: behind them the devices get their writes.
#[derive(Debug)]
struct Flushing(Weak<Vgpu>);

impl Around for Flushing {
    fn begins(&self) -> u64 {
        self.0.upgrade().map_or(0, |vgpu| vgpu.closings())
    }

    fn is_over(&self, begun: u64) {
        let Some(own) = self.0.upgrade() else { return };
        for vgpu in own.family() {
            // What another's launches send may hold writes of this function, whenever it was sent.
            let closings = if Arc::ptr_eq(&vgpu, &own) { begun } else { 0 };
            // The next call reports a failure.
            let _ = vgpu.flush_behind_function(closings);
        }
    }
}
