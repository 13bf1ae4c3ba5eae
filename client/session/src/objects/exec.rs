//! An instantiated graph: the parts it was cut into, what is turned off, where its last launch ended. Changes come in and are
//! posted; launches of one graph follow one another, on whatever stream.

use std::collections::HashSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use floe_abi::{CudaError, CudaResult};
use floe_wire::{CreateEvent, DestroyGraph, EventId, RecordEvent, UpdateGraph, WaitEvent};

use crate::objects::parts::Parts;
use crate::objects::stream::StreamState;
use crate::vgpu::Vgpu;
use floe_lock::lock;

/// One instantiated graph.
#[derive(Debug)]
pub(crate) struct ExecState {
    pub(crate) vgpu: Arc<Vgpu>,
    /// The vGPU's epoch when it was made.
    pub(crate) epoch: u64,
    pub(crate) parts: Parts,
    /// The nodes of the plan that write words or wait for them.
    pub(crate) words: Vec<usize>,
    /// How often registered memory had ended when the vGPU was last made to reach what its kernels name.
    pub(crate) endings: AtomicU64,
    /// An event behind the last launch, and that launch's stream, if launches are more than one message: the server
    /// orders launches of a part only.
    pub(crate) last: Mutex<Option<(u64, u64)>>,
    /// Nodes of the plan that are turned off at the server.
    pub(crate) disabled: Mutex<HashSet<usize>>,
    /// A change that came half way: what it would do now nobody asked for.
    pub(crate) broken: Mutex<Option<CudaError>>,
}

impl ExecState {
    /// Whether the server still has it.
    pub(crate) fn is_valid(&self) -> bool {
        self.epoch == self.vgpu.epoch()
    }

    /// Whether it can be launched and changed.
    pub(crate) fn check(&self) -> CudaResult<()> {
        match *lock(&self.broken) {
            Some(error) => Err(error),
            None if self.is_valid() => Ok(()),
            None => Err(CudaError::CONTEXT_IS_DESTROYED),
        }
    }

    /// Posts what is put on no stream.
    pub(crate) fn post(&self, message: &impl floe_wire::Message) -> CudaResult<()> {
        self.vgpu.connection.post(message).map(drop)
    }

    /// Replaces what all parts do by parts of the same shape that were sent just now.
    pub(crate) fn update(&self, new: &Parts) -> CudaResult<()> {
        let pairs: Vec<_> = self.parts.graphs().zip(new.graphs()).collect();
        for (done, (graph, new)) in pairs.iter().enumerate() {
            let Err(error) = self.vgpu.call(&UpdateGraph { graph: *graph, new: *new }) else { continue };
            for (_, unused) in &pairs[done + 1..] {
                self.post(&DestroyGraph { graph: *unused })?;
            }
            if done > 0 {
                *lock(&self.broken) = Some(error);
            }
            return Err(error);
        }
        Ok(())
    }

    /// The stream waits for the launch before, if that was on another.
    pub(crate) fn wait_for_last(&self, stream: &StreamState) -> CudaResult<()> {
        match *lock(&self.last) {
            Some((event, last)) if last != stream.id().0 => {
                stream.post(&WaitEvent { stream: stream.id(), event: EventId(event), flags: 0 })
            }
            _ => Ok(()),
        }
    }

    /// Remembers where the launch ends.
    pub(crate) fn launched_on(&self, stream: &StreamState) -> CudaResult<()> {
        let mut last = lock(&self.last);
        let event = match *last {
            Some((event, _)) => event,
            None => {
                let event = self.vgpu.next_id();
                let flags = floe_abi::event_flags::DISABLE_TIMING;
                self.post(&CreateEvent { event: EventId(event), flags })?;
                event
            }
        };
        *last = Some((event, stream.id().0));
        drop(last);
        stream.post(&RecordEvent { event: EventId(event), stream: stream.id(), flags: 0 })
    }
}
