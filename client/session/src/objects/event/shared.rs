//! An event that several processes have: two words of a page that all of their workers see. Records come in as calls, so that each is
//! known before the program can tell another process of it; waits and questions go by the words. No wait holds a
//! thread that other work needs.

use std::sync::Arc;

use floe_abi::{CudaError, CudaResult, stream_flags};
use floe_wire::{
    AwaitSignal, Call, CreateStream, DestroyStream, EventId, ReadSignals, RecordSignal, SignalsId, StreamId, WaitEvent,
};

use crate::log::log;
use crate::memory::ipc::passport::Passport;
use crate::objects::stream::StreamState;
use crate::vgpu::Vgpu;
use crate::vgpu::order::StreamProgress;

/// The word that counts records. The one behind it says how many of them are complete.
const RECORDED: u32 = 0;
const COMPLETED: u32 = RECORDED + 1;
/// No count of records gets so far: the server raises all words of a page above it when a session ends that has the page.
const VALUES: u64 = 1 << 61;

/// What an event shares with other processes.
#[derive(Debug)]
pub(crate) struct SharedEvent {
    signals: SignalsId,
    /// What the program passes on, of an event that was made here.
    passport: Option<Passport>,
}

impl SharedEvent {
    /// A page of this process's that `passport` opens.
    pub(super) fn exported(signals: SignalsId, passport: Passport) -> Self {
        Self { signals, passport: Some(passport) }
    }

    /// Another process's page.
    pub(super) fn opened(signals: SignalsId) -> Self {
        Self { signals, passport: None }
    }

    /// What the program passes on; `None` where another process has made the event.
    pub(crate) fn passport(&self) -> Option<&Passport> {
        self.passport.as_ref()
    }

    /// Whether another process has made the event: this one has nothing of it but the page.
    pub(super) fn is_opened(&self) -> bool {
        self.passport.is_none()
    }

    /// Records what the stream holds so far. The record is known to all processes when this returns.
    pub(super) fn record(&self, stream: &StreamState) -> CudaResult<()> {
        self.record_by(&stream.vgpu, stream.progress())
    }

    fn record_by(&self, vgpu: &Vgpu, progress: &StreamProgress) -> CudaResult<()> {
        let stream = StreamId(progress.stream());
        let message = RecordSignal { signals: self.signals, recorded: RECORDED, stream };
        let (_, sequence) = vgpu.connection.call(&message)?;
        progress.issue(sequence);
        Ok(())
    }

    /// Counts as the first record of the page what the event has recorded so far, of work that may still run.
    pub(super) fn record_earlier(&self, vgpu: &Arc<Vgpu>, event: u64) -> CudaResult<()> {
        on_passing_stream(vgpu, |stream, progress| {
            vgpu.connection.post_on(progress, &WaitEvent { stream, event: EventId(event), flags: 0 })?;
            self.record_by(vgpu, progress)
        })
    }

    /// Whether a process has ended that had the event. Nobody knows then how far the others' records are.
    pub(super) fn is_over(&self, vgpu: &Vgpu) -> CudaResult<bool> {
        Ok(self.words(vgpu)?[0] >= VALUES)
    }

    /// The number of the last record, unless that is complete.
    ///
    /// # Errors
    /// INVALID_HANDLE where a process has ended that had the event.
    fn outstanding(&self, vgpu: &Vgpu) -> CudaResult<Option<u64>> {
        let [recorded, completed] = self.words(vgpu)?;
        if recorded >= VALUES || completed >= VALUES {
            log!(Warn, "an event of several processes cannot be used: one of them has ended that had it");
            return Err(CudaError::INVALID_HANDLE);
        }
        Ok((completed < recorded).then_some(recorded))
    }

    /// How many records there are, and how many are complete.
    fn words(&self, vgpu: &Vgpu) -> CudaResult<[u64; 2]> {
        let message = ReadSignals { signals: self.signals, first: RECORDED, count: 2 };
        let answer = vgpu.call(&message)?;
        let reply = vgpu.connection.read(ReadSignals::decode_reply(&answer.body))?;
        reply.words.as_slice().try_into().map_err(|_| CudaError::UNKNOWN)
    }

    /// NOT_READY while the last record is not complete.
    pub(crate) fn query(&self, vgpu: &Vgpu) -> CudaResult<()> {
        vgpu.send_mirrors()?;
        if self.outstanding(vgpu)?.is_some() { Err(CudaError::NOT_READY) } else { Ok(()) }
    }

    /// Waits for the last record.
    pub(crate) fn synchronize(&self, vgpu: &Arc<Vgpu>) -> CudaResult<()> {
        vgpu.send_mirrors()?;
        let Some(value) = self.outstanding(vgpu)? else { return Ok(()) };
        on_passing_stream(vgpu, |stream, progress| {
            vgpu.connection.post_on(progress, &self.awaits(stream, value))?;
            vgpu.synchronize_stream(progress)
        })
    }

    /// The stream waits for the last record.
    pub(crate) fn wait_on(&self, stream: &StreamState) -> CudaResult<()> {
        match self.outstanding(&stream.vgpu)? {
            Some(value) => stream.post(&self.awaits(stream.id(), value)),
            None => Ok(()),
        }
    }

    fn awaits(&self, stream: StreamId, value: u64) -> AwaitSignal {
        AwaitSignal { stream, signals: self.signals, word: COMPLETED, value }
    }

    /// Gives the page up, and lets nobody open it any more.
    pub(crate) fn abandon(&self, vgpu: &Vgpu) -> CudaResult<()> {
        if let Some(passport) = &self.passport {
            vgpu.withdraw_passport(passport);
        }
        vgpu.drop_signals(self.signals)
    }
}

/// Does something on a stream of its own, which waits for no other.
fn on_passing_stream<R>(
    vgpu: &Arc<Vgpu>,
    work: impl FnOnce(StreamId, &Arc<StreamProgress>) -> CudaResult<R>,
) -> CudaResult<R> {
    let stream = StreamId(vgpu.next_id());
    vgpu.connection.post(&CreateStream { stream, flags: stream_flags::NON_BLOCKING, priority: 0 })?;
    let progress = vgpu.order.add(stream.0, false);
    let result = work(stream, &progress);
    let destroyed = vgpu.order.destroy(&progress, || vgpu.connection.post(&DestroyStream { stream }));
    destroyed.and(result)
}
