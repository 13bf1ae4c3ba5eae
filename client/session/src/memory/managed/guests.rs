//! Work of other vGPUs that uses managed memory of this one. Streams come in with each such copy or fill; whoever opens the
//! memory to the program waits for them. Their own vGPU knows of their work, this one does not.

use std::sync::{Arc, Mutex, Weak};

use floe_wire::SynchronizeContext;

use crate::vgpu::Vgpu;
use crate::vgpu::order::StreamProgress;
use floe_lock::lock;

/// Streams of other vGPUs.
#[derive(Debug, Default)]
pub(super) struct Guests(Mutex<Vec<(Weak<Vgpu>, Arc<StreamProgress>)>>);

impl Guests {
    /// Work on this stream uses the memory.
    pub(super) fn note(&self, vgpu: &Arc<Vgpu>, progress: &Arc<StreamProgress>) {
        let mut streams = lock(&self.0);
        streams.retain(|(_, noted)| !noted.is_idle());
        if streams.iter().all(|(_, noted)| !Arc::ptr_eq(noted, progress)) {
            streams.push((Arc::downgrade(vgpu), Arc::clone(progress)));
        }
    }

    /// Whether all that was noted is over.
    pub(super) fn are_idle(&self) -> bool {
        lock(&self.0).iter().all(|(_, progress)| progress.is_idle())
    }

    /// Waits for all of it, by way of their whole vGPUs: the program may destroy a stream meanwhile. The program's calls
    /// report failed work.
    pub(super) fn wait(&self) {
        let streams = lock(&self.0).clone();
        for (vgpu, progress) in streams.iter().filter(|(_, progress)| !progress.is_idle()) {
            let Some(vgpu) = vgpu.upgrade() else { continue };
            let _ = vgpu.send_mirrors();
            if !progress.is_idle()
                && let Ok((_, sequence)) = vgpu.connection.call(&SynchronizeContext {})
            {
                vgpu.order.all_completed(sequence);
            }
        }
    }
}
