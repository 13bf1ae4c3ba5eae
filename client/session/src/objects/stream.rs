//! A stream as this process knows it: its work is posted, its counters say what is over. Creation and destruction are posted,
//! too, so that nothing here waits. It knows no handle but its context's.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex};

use floe_abi::{Context, CudaError, CudaResult, LaunchAttributeValue, stream_flags};
use floe_surface::graph::CaptureStream;
use floe_wire::{CreateStream, DestroyStream, QueryStream, StreamId};

use crate::vgpu::Vgpu;
use crate::vgpu::connection::{NotReady, Ticket};
use crate::vgpu::order::StreamProgress;
use floe_lock::lock;

/// Bits of a stream's key below the vGPU's ordinal: more than any id has.
const ORDINAL_SHIFT: u32 = 48;

/// One stream.
#[derive(Debug)]
pub(crate) struct StreamState {
    pub(crate) vgpu: Arc<Vgpu>,
    context: Context,
    progress: Arc<StreamProgress>,
    pub(crate) flags: u32,
    priority: AtomicI32,
    /// The vGPU's epoch when it was made.
    epoch: u64,
    gone: AtomicBool,
    pub(crate) attributes: Mutex<HashMap<u32, LaunchAttributeValue>>,
    /// The server's last answer about it.
    pub(crate) asked: Mutex<Option<Asked>>,
    /// A question about it that is not waited for, and its frame.
    question: Mutex<Option<(Ticket, u64)>>,
}

/// The answer that not all work up to a frame has completed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) sequence: u64,
    pub(crate) answer: NotReady,
}

impl StreamState {
    /// The legacy default stream as one context sees it.
    pub(crate) fn legacy(context: Context, vgpu: Arc<Vgpu>, progress: Arc<StreamProgress>) -> Self {
        Self::new(context, vgpu, progress, stream_flags::DEFAULT, 0)
    }

    fn new(context: Context, vgpu: Arc<Vgpu>, progress: Arc<StreamProgress>, flags: u32, priority: i32) -> Self {
        Self {
            epoch: vgpu.epoch(),
            vgpu,
            context,
            progress,
            flags,
            priority: AtomicI32::new(priority),
            gone: AtomicBool::new(false),
            attributes: Mutex::default(),
            asked: Mutex::default(),
            question: Mutex::default(),
        }
    }

    /// Makes a stream at the server.
    pub(crate) fn create(vgpu: &Arc<Vgpu>, context: Context, flags: u32, priority: i32) -> CudaResult<Arc<Self>> {
        let id = vgpu.next_id();
        vgpu.connection.post(&CreateStream { stream: StreamId(id), flags, priority })?;
        let progress = vgpu.order.add(id, flags & stream_flags::NON_BLOCKING == 0);
        // Its work would not wait for what the program takes for over. In the order already: from now on it is made to.
        vgpu.settle_presumed()?;
        Ok(Arc::new(Self::new(context, Arc::clone(vgpu), progress, flags, priority)))
    }

    /// Its context's handle.
    pub(crate) fn context(&self) -> Context {
        self.context
    }

    /// Whether it and the legacy default stream wait for each other.
    pub(crate) fn is_blocking(&self) -> bool {
        self.flags & stream_flags::NON_BLOCKING == 0
    }

    /// Whether it is the legacy default stream.
    pub(crate) fn is_legacy(&self) -> bool {
        self.progress.stream() == crate::vgpu::order::LEGACY
    }

    /// Its priority.
    pub(crate) fn priority(&self) -> i32 {
        self.priority.load(Ordering::Relaxed)
    }

    /// The program gives it another priority. The server's stream keeps the one it was made with.
    pub(crate) fn prioritize(&self, priority: i32) {
        self.priority.store(self.vgpu.snapshot.clamp_priority(priority), Ordering::Relaxed);
    }

    /// Its counters.
    pub(crate) fn progress(&self) -> &Arc<StreamProgress> {
        &self.progress
    }

    /// Its id on the wire.
    pub(crate) fn id(&self) -> StreamId {
        StreamId(self.progress.stream())
    }

    /// Whether it still exists at the server.
    pub(crate) fn is_valid(&self) -> bool {
        !self.gone.load(Ordering::Acquire) && self.epoch == self.vgpu.epoch()
    }

    /// Posts work onto it.
    #[inline]
    pub(crate) fn post(&self, message: &impl floe_wire::Message) -> CudaResult<()> {
        match self.vgpu.connection.post_on(&self.progress, message) {
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Whether its work is over, by an answer that has come: it is asked for, and not waited for.
    pub(crate) fn query_ahead(&self) -> CudaResult<()> {
        let vgpu = &self.vgpu;
        let mut question = lock(&self.question);
        let answered =
            question.as_ref().and_then(|(ticket, sequence)| Some((vgpu.connection.status(ticket)?, *sequence)));
        if answered.is_some() {
            *question = None;
        }
        match answered {
            Some((Ok(()), sequence)) => {
                vgpu.order.stream_completed(&self.progress, sequence);
                if vgpu.order.is_last(sequence, &self.progress) {
                    return vgpu.errors.report();
                }
            }
            Some((Err(error), _)) if error != CudaError::NOT_READY => return Err(error),
            _ => {}
        }
        if vgpu.seems_quiet(&self.progress) {
            return vgpu.errors.report();
        }
        if question.is_none() {
            *question = Some(vgpu.connection.ask_ahead(&QueryStream { stream: self.id() })?);
        }
        Err(CudaError::NOT_READY)
    }

    /// Gives it up; its work still completes. A link that is gone needs no telling.
    pub(crate) fn abandon(&self) {
        if self.is_valid() && !self.gone.swap(true, Ordering::AcqRel) {
            let _held = self.vgpu.far.hold();
            let destroy = || self.vgpu.connection.post(&DestroyStream { stream: self.id() });
            let _ = self.vgpu.order.destroy(&self.progress, destroy);
        }
    }

    /// The stream as captures know it.
    pub(crate) fn for_capture(&self) -> CaptureStream {
        let id = self.progress().stream();
        CaptureStream {
            key: u64::from(self.vgpu.ordinal) << ORDINAL_SHIFT | id,
            context: self.context().0,
            legacy: id == crate::vgpu::order::LEGACY,
            blocking: self.is_blocking(),
        }
    }
}
