//! Synchronizations that return at once (`floe run --far`), since an answer takes long and the program reads nothing by it.
//! In: what the program waits for. Out: whether it may go on. Then all later work waits for that at the server, as if the program
//! had waited, and the server says when it is over.
//! Where the program could see that it has not waited, it waits: copies to the host in flight, functions of its own, memory that
//! both sides or other sessions see.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use floe_abi::{CudaError, CudaResult, event_flags, stream_flags};
use floe_wire::{CreateEvent, CreateStream, EventId, RecordEvent, StreamId, WaitEvent};

use crate::vgpu::Vgpu;
use crate::vgpu::connection::Ticket;
use crate::vgpu::order::StreamProgress;
use floe_lock::lock;

/// Answers that may be outstanding. Behind more of them the program waits: it is never further ahead of the GPU than that.
const MOST_AHEAD: usize = 64;

/// What one vGPU's program has not waited for.
#[derive(Debug, Default)]
pub(crate) struct Far {
    is_on: AtomicBool,
    /// Held while streams are made to wait, so that none comes or goes meanwhile.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The answers to what the program has not waited for.
    asked: VecDeque<Ticket>,
    /// Its own event, and its own stream, of this epoch.
    made: (Option<EventId>, Option<StreamId>),
    epoch: u64,
}

/// What a program waits for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Until<'a> {
    /// All work so far of a stream.
    Stream(&'a Arc<StreamProgress>),
    /// An event's record: the work of a stream up to a frame.
    Event(EventId, &'a Arc<StreamProgress>, u64),
    /// All work so far of all streams.
    All,
}

impl Far {
    /// Synchronizations may return at once from now on.
    pub(crate) fn allow(&self) {
        self.is_on.store(true, Ordering::Release);
    }

    /// Whether they may.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Keeps streams from coming or going at the server while this lives, as far as others wait for them.
    pub(crate) fn hold(&self) -> Option<Hold<'_>> {
        self.is_on().then(|| Hold { _state: lock(&self.state) })
    }

    /// Whether something that the program takes for over may not be.
    pub(crate) fn owes(&self) -> bool {
        self.is_on() && lock(&self.state).owes()
    }
}

/// No stream is made to wait while this lives.
pub(crate) struct Hold<'a> {
    _state: MutexGuard<'a, State>,
}

impl State {
    fn owes(&mut self) -> bool {
        self.asked.retain(|ticket| !ticket.is_answered());
        !self.asked.is_empty()
    }

    /// The event, made where it does not exist.
    fn event(&mut self, vgpu: &Vgpu) -> CudaResult<EventId> {
        if let Some(event) = self.made.0 {
            return Ok(event);
        }
        let event = EventId(vgpu.next_id());
        vgpu.connection.post(&CreateEvent { event, flags: event_flags::DISABLE_TIMING })?;
        self.made.0 = Some(event);
        Ok(event)
    }

    /// The stream, made where it does not exist.
    fn stream(&mut self, vgpu: &Vgpu) -> CudaResult<StreamId> {
        if let Some(stream) = self.made.1 {
            return Ok(stream);
        }
        let stream = StreamId(vgpu.next_id());
        vgpu.connection.post(&CreateStream { stream, flags: stream_flags::NON_BLOCKING, priority: 0 })?;
        self.made.1 = Some(stream);
        Ok(stream)
    }
}

impl Vgpu {
    /// Whether the program may go on as if it had waited: then everything later waits for that at the server.
    pub(crate) fn goes_on(&self, until: Until<'_>) -> CudaResult<bool> {
        if !self.far.is_on() || !self.is_unseen() || self.errors.check().is_err() {
            return Ok(false);
        }
        let mut state = lock(&self.far.state);
        if state.epoch != self.epoch() {
            *state = State { epoch: self.epoch(), ..State::default() };
        }
        state.owes();
        let awaited = match until {
            Until::Stream(progress) if progress.is_retired() => return Ok(false),
            Until::Stream(progress) => vec![Arc::clone(progress)],
            Until::Event(_, progress, _) => vec![Arc::clone(progress)],
            Until::All => self.order.busy(),
        };
        let is_lost = |progress: &Arc<StreamProgress>| progress.is_retired() && !matches!(until, Until::Event(..));
        if awaited.iter().any(is_lost) || state.asked.len() + awaited.len() > MOST_AHEAD {
            return Ok(false);
        }
        let alone = if let [progress] = awaited.as_slice() { Some(&**progress) } else { None };
        let others = self.order.others_than(alone);
        if !others.is_empty() {
            let event = self.gather(&mut state, until, &awaited)?;
            for stream in others {
                // Work of nobody's: for the program the stream holds nothing more than before.
                self.connection.post(&WaitEvent { stream: StreamId(stream), event, flags: 0 })?;
            }
        }
        self.ask(&mut state, until, &awaited)?;
        self.statistics.went_on(1);
        self.errors.report()?;
        Ok(true)
    }

    /// The event behind which all of it is over.
    fn gather(&self, state: &mut State, until: Until<'_>, awaited: &[Arc<StreamProgress>]) -> CudaResult<EventId> {
        if let Until::Event(event, ..) = until {
            return Ok(event);
        }
        let event = state.event(self)?;
        let record = |stream| self.connection.post(&RecordEvent { event, stream, flags: 0 }).map(drop);
        if let [progress] = awaited {
            record(StreamId(progress.stream()))?;
            return Ok(event);
        }
        let gathers = state.stream(self)?;
        for progress in awaited {
            record(StreamId(progress.stream()))?;
            self.connection.post(&WaitEvent { stream: gathers, event, flags: 0 })?;
        }
        record(gathers)?;
        Ok(event)
    }

    /// Has the server say when it is over, and takes it for over.
    fn ask(&self, state: &mut State, until: Until<'_>, awaited: &[Arc<StreamProgress>]) -> CudaResult<()> {
        for progress in awaited {
            let ticket = match until {
                Until::Event(event, progress, sequence) => {
                    progress.presume(sequence);
                    self.connection.mark_event(event, progress, sequence)?
                }
                _ => {
                    progress.presume(progress.issued());
                    self.connection.mark_at_once(progress)?
                }
            };
            // A session that begins to share memory waits for what it finds noted.
            progress.note_return();
            state.asked.push_back(ticket);
        }
        // The legacy default stream's wait is for the streams, too, that wait for it.
        if matches!(until, Until::Stream(progress) if progress.stream() == super::order::LEGACY) {
            self.order.presume_blocking();
        }
        self.connection.watch();
        Ok(())
    }

    /// As `synchronize_stream`, where the program waits for its work.
    pub(crate) fn await_stream(&self, progress: &Arc<StreamProgress>) -> CudaResult<()> {
        if self.seems_quiet(progress) {
            return self.errors.report();
        }
        if self.goes_on(Until::Stream(progress))? { Ok(()) } else { self.synchronize_stream(progress) }
    }

    /// As `synchronize`, where the program waits for its work.
    pub(crate) fn await_all(&self) -> CudaResult<()> {
        if self.order.seems_idle(true) {
            return self.errors.report();
        }
        if self.goes_on(Until::All)? { Ok(()) } else { self.synchronize() }
    }

    /// Whether nothing a synchronize of this stream waits for is outstanding, as far as the program can tell.
    pub(crate) fn seems_quiet(&self, progress: &StreamProgress) -> bool {
        let is_legacy = progress.stream() == super::order::LEGACY;
        self.is_quiet(progress)
            || if is_legacy { self.order.seems_idle(false) } else { progress.seems_over(progress.issued()) }
    }

    /// Whether the program cannot see, but by the time, whether it has waited.
    fn is_unseen(&self) -> bool {
        let is_shared = self.peers.shares() || self.mirrors.any() || self.managed.is_used();
        !is_shared && !self.uses_host_memory() && !self.is_held()
    }

    /// Waits for what the program takes for over and may not be, ahead of something that the driver does at once.
    pub(crate) fn settle_presumed(&self) -> CudaResult<()> {
        if self.far.owes() { self.synchronize() } else { Ok(()) }
    }

    /// At the program's end: waits for what it has not waited for. What failed of it and no call has reported.
    pub(crate) fn last_words(&self) -> Option<CudaError> {
        if !self.far.is_on() || self.errors.is_told() {
            return None;
        }
        self.settle_presumed().and_then(|()| self.errors.report()).err()
    }
}
