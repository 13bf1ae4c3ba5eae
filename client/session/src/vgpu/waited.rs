//! The streams that a thread waits for, one after the other, as programs do that use more than one: of one vGPU, or of several.
//! In: the stream that the thread is about to wait for. Out: its server, or another one, is asked about those that the thread waited
//! for before, too, so that their answers are here, or on their way, when the thread comes to them.
//! It waits for nothing but an answer that the caller is about to need.

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use floe_abi::CudaResult;
use floe_transport::Leave;

use crate::vgpu::Vgpu;
use crate::vgpu::connection::Ticket;
use crate::vgpu::order::{LEGACY, StreamProgress};

/// Streams that are remembered, the last ones.
const MOST: usize = 64;

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
            Some((_, ticket)) if vgpu.connection.arrived(&ticket)?.status != 0 => vgpu.errors.report(),
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
            let is_second = waits.iter().any(|wait| Wait::is_beside(vgpu, &wait.progress) && wait.is_of(vgpu));
            if known.is_none() && is_second && Wait::is_beside(vgpu, progress) {
                Self::expect_others(&mut waits, vgpu, progress);
            }
        }
        if waits.len() >= MOST {
            waits.remove(0);
        }
        waits.push(Wait { vgpu: Arc::downgrade(vgpu), progress: Arc::clone(progress), asked: None });
        asked
    }

    /// A thread that has come from one of the vGPU's streams to another one will come to the others that have work, too.
    fn expect_others(waits: &mut Vec<Wait>, vgpu: &Arc<Vgpu>, progress: &Arc<StreamProgress>) {
        let room = (MOST - 1).saturating_sub(waits.len());
        // With thousands of streams none is looked for in vain.
        if room == 0 {
            return;
        }
        let is_new = |other: &Arc<StreamProgress>| {
            !Arc::ptr_eq(other, progress) && !waits.iter().any(|wait| Arc::ptr_eq(&wait.progress, other))
        };
        let busy = vgpu.order.busy().into_iter().map(|(progress, _)| progress);
        let mut others: Vec<_> = busy.filter(|other| Wait::is_beside(vgpu, other) && is_new(other)).collect();
        // Programs wait for streams in the order in which they made them.
        others.sort_unstable_by_key(|other| other.stream());
        others.truncate(room);
        let expected = others.into_iter().map(|progress| {
            let mut wait = Wait { vgpu: Arc::downgrade(vgpu), progress, asked: None };
            wait.ask_beside(vgpu);
            wait
        });
        // The thread has waited for those behind them.
        waits.splice(0..0, expected);
    }

    /// Forgets all of them.
    pub(crate) fn clear(&self) {
        self.0.borrow_mut().clear();
    }
}

impl Wait {
    /// Asks about the stream where it has work: beside a wait for a stream of another vGPU, or of its own.
    fn ask_beside(&mut self, waits_for: &Arc<Vgpu>) {
        if self.asked.is_some() || self.progress.is_idle() {
            return;
        }
        let Some(vgpu) = self.vgpu.upgrade() else { return };
        let leave = if Arc::ptr_eq(&vgpu, waits_for) {
            if !Self::is_beside(&vgpu, &self.progress) {
                return;
            }
            // It goes with the question that is waited for.
            Leave::Soon
        } else {
            Leave::Readily
        };
        let sequence = self.progress.issued();
        // Another thread may destroy it.
        let asked = vgpu.order.while_it_lasts(&self.progress, || vgpu.connection.mark_ahead(&self.progress, leave));
        // A link that is gone is the next call's to report.
        self.asked = asked.and_then(Result::ok).map(|ticket| (sequence, ticket));
    }

    fn is_of(&self, vgpu: &Arc<Vgpu>) -> bool {
        std::ptr::eq(self.vgpu.as_ptr(), Arc::as_ptr(vgpu))
    }

    /// Whether a stream is asked about beside a wait for another one of its vGPU: not the legacy default stream, where the question
    /// would be work for which other streams wait, nor far from the server, where nothing is waited for.
    fn is_beside(vgpu: &Vgpu, progress: &StreamProgress) -> bool {
        progress.stream() != LEGACY && !progress.is_retired() && !vgpu.far.is_on()
    }
}
