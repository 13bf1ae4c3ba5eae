//! The use of a communicator by what waits in NCCL.
//! In: a communicator's id. Out: NCCL's communicator, which is not freed as long as the use lasts.

use std::sync::Arc;

use floe_device::Device;
use floe_device::nccl::Comm;

use crate::issue::fault::Fault;
use crate::life::shared::Shared;
use crate::peer::collective::Ready;

/// A use of a communicator by a thread. The last one that is dropped ends what was to end.
pub(crate) struct Using<D: Device> {
    shared: Arc<Shared<D>>,
    comm: Comm,
}

impl<D: Device> Using<D> {
    /// Of a communicator that can be used.
    pub(crate) fn of(shared: &Arc<Shared<D>>, id: u64) -> Result<(Ready, Self), Fault> {
        let ready = shared.collectives.hold(id)?;
        Ok((ready, Self { shared: Arc::clone(shared), comm: ready.comm }))
    }
}

impl<D: Device> Drop for Using<D> {
    fn drop(&mut self) {
        if let Ok(nccl) = self.shared.collectives.nccl() {
            // Who wanted its end has been answered.
            let _ = self.shared.collectives.leave(&nccl, self.comm);
        }
    }
}
