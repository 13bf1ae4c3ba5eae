//! The streams of several vGPUs that a thread waits for, one after the other, as programs do that use more than one.
//! In: the stream that the thread is about to wait for. Out: the servers of those that it waited for before are asked, too, so that
//! their answers are here, or on their way, when the thread comes to them.
//! It waits for nothing but an answer that the caller is about to need.

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use floe_abi::CudaResult;

use crate::vgpu::Vgpu;
use crate::vgpu::connection::Ticket;
use crate::vgpu::order::StreamProgress;

/// Streams that are remembered, the last ones.
const MOST: usize = 16;

/// What one thread has waited for.
#[derive(Debug, Default)]
pub(crate) struct Waited(RefCell<Vec<Wait>>);

#[derive(Debug)]
struct Wait {
    vgpu: Weak<Vgpu>,
    progress: Arc<StreamProgress>,
    /// The frame that the stream had come to when its server was asked, and the question. There is one until the thread
    /// waits for the stream again: what nobody needs is asked once.
    asked: Option<(u64, Ticket)>,
}

impl Waited {
    /// The thread is about to wait for this stream.
    pub(crate) fn begin(&self, vgpu: &Arc<Vgpu>, progress: &Arc<StreamProgress>) -> CudaResult<()> {
        let asked = self.turn_to(vgpu, progress);
        match asked.filter(|(sequence, _)| *sequence == progress.issued()) {
            // Among the vGPU's errors already, and asked again it would be told twice.
            Some((_, ticket)) if vgpu.connection.outcome(&ticket).is_err() => vgpu.errors.report(),
            _ => Ok(()),
        }
    }

    /// Asks for the others, and makes this stream the last one; what was asked about it before.
    fn turn_to(&self, vgpu: &Arc<Vgpu>, progress: &Arc<StreamProgress>) -> Option<(u64, Ticket)> {
        let mut waits = self.0.borrow_mut();
        waits.retain(|wait| !wait.progress.is_retired() && wait.vgpu.strong_count() > 0);
        let known = waits.iter().position(|wait| Arc::ptr_eq(&wait.progress, progress));
        let asked = known.and_then(|known| waits.remove(known).asked);
        if !vgpu.is_quiet(progress) {
            waits.iter_mut().for_each(|wait| wait.ask_beside(vgpu));
        }
        if waits.len() == MOST {
            waits.remove(0);
        }
        waits.push(Wait { vgpu: Arc::downgrade(vgpu), progress: Arc::clone(progress), asked: None });
        asked
    }

    /// Forgets all of them.
    pub(crate) fn clear(&self) {
        self.0.borrow_mut().clear();
    }
}

impl Wait {
    /// Asks whether the stream is of another vGPU than the thread waits for now, and has work.
    fn ask_beside(&mut self, waits_for: &Arc<Vgpu>) {
        if self.asked.is_some() || self.progress.is_idle() {
            return;
        }
        let Some(vgpu) = self.vgpu.upgrade().filter(|vgpu| !Arc::ptr_eq(vgpu, waits_for)) else { return };
        let sequence = self.progress.issued();
        // A link that is gone is the next call's to report.
        self.asked = vgpu.connection.mark_readily(&self.progress).ok().map(|ticket| (sequence, ticket));
    }
}
