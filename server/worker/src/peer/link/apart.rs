//! A context of the session's own links, apart from the program's.
//! In: the device, when a link needs one. Out: the context, current where copies are issued; it ends with its last link.
//! Nothing ever waits in it: GPUs put many streams of a context into few queues, where a copy would stand behind a stream of the
//! program's that waits for this very copy (docs/facts/h200.md).

use std::sync::{Arc, Mutex, Weak};

use floe_abi::{Context, CudaResult};
use floe_device::Device;

use crate::issue::fault::Fault;
use crate::memory::budget::{Budget, Kept, cost};

/// The context.
pub(super) struct Apart<D: Device> {
    device: Arc<D>,
    context: Context,
    _kept: Kept,
}

/// The one that a session's links share, as long as there is a link.
pub(super) struct SharedApart<D: Device>(Mutex<Weak<Apart<D>>>);

impl<D: Device> Default for SharedApart<D> {
    fn default() -> Self {
        Self(Mutex::new(Weak::new()))
    }
}

impl<D: Device> SharedApart<D> {
    /// The context, which is made where there is none.
    pub(super) fn get(&self, device: &Arc<D>, budget: &Budget) -> Result<Arc<Apart<D>>, Fault> {
        let mut shared = floe_lock::lock(&self.0);
        if let Some(apart) = shared.upgrade() {
            return Ok(apart);
        }
        let _kept = budget.keep(cost::CONTEXT)?;
        let context = device.make_context()?;
        let apart = Arc::new(Apart { device: Arc::clone(device), context, _kept });
        *shared = Arc::downgrade(&apart);
        Ok(apart)
    }
}

impl<D: Device> Apart<D> {
    /// Makes it current on the calling thread.
    pub(super) fn enter(&self) -> CudaResult<()> {
        self.device.enter_context(self.context)
    }
}

impl<D: Device> Drop for Apart<D> {
    fn drop(&mut self) {
        // One that is beyond use goes with the process.
        let _ = self.device.end_context(self.context);
    }
}
