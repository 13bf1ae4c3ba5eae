//! Synchronizations that return at once (`floe run --far`), since an answer takes long and the program reads nothing by it.
//! In: what the program waits for. Out: whether it may go on. Then all later work waits for that at the server, as if the program
//! had waited, and the server says when it is over.
//! Where the program could see that it has not waited, it waits: copies to the host in flight, functions of its own, memory that
//! both sides or other sessions see.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use floe_abi::{CudaResult, event_flags, stream_flags};
use floe_touch::{FaultHandler, PageFault};
use floe_wire::{CreateEvent, CreateStream, EventId, RecordEvent, StreamId, WaitEvent};

use crate::log::log;
use crate::memory::mirrors::Mirrors;
use crate::vgpu::Vgpu;
use crate::vgpu::connection::Ticket;
use crate::vgpu::order::{Fence, LEGACY, StreamProgress};
use floe_lock::lock;

/// Answers that may be outstanding. Behind more of them the program waits: it is never further ahead of the GPU than that.
const MOST_AHEAD: usize = 64;

/// The vGPUs whose synchronizations may return at once.
static ALL: Mutex<Vec<Weak<Vgpu>>> = Mutex::new(Vec::new());

/// A child of `fork` has the pages as they are, and nobody who opens them.
fn open_before_fork() {
    let all: Vec<_> = lock(&ALL).iter().filter_map(Weak::upgrade).collect();
    for vgpu in all.iter().filter(|vgpu| vgpu.mirrors.any_closed()) {
        // What failed, the program's calls say.
        vgpu.with_nothing_owed(|mirrors, _| mirrors.open(0, u64::MAX));
    }
}

/// What one vGPU's program has not waited for.
#[derive(Debug, Default)]
pub(crate) struct Far {
    is_on: AtomicBool,
    /// Opens memory that the program touches, once synchronizations may return at once.
    opener: OnceLock<Arc<Opener>>,
    /// Held while streams are made to wait, so that none comes or goes meanwhile.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The answers to what the program has not waited for.
    asked: Vec<Arc<Ticket>>,
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
    /// Synchronizations of this vGPU, whose this is, may return at once from now on.
    pub(crate) fn allow(&self, vgpu: &Arc<Vgpu>) {
        let _ = self.opener.set(Arc::new(Opener(Arc::downgrade(vgpu))));
        lock(&ALL).push(Arc::downgrade(vgpu));
        floe_touch::before_forks(open_before_fork);
        self.is_on.store(true, Ordering::Release);
    }

    /// Who opens memory that is closed to the program while it takes work for over that may not be.
    pub(crate) fn opener(&self) -> Option<Arc<dyn FaultHandler>> {
        self.opener.get().map(|opener| Arc::clone(opener) as _)
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

/// Opens mirrors that a program touches.
#[derive(Debug)]
struct Opener(Weak<Vgpu>);

impl FaultHandler for Opener {
    fn handle(&self, fault: PageFault) -> bool {
        self.0.upgrade().is_some_and(|vgpu| vgpu.open_mirrors(fault.address, 1))
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
        if !self.far.is_on() || self.errors.is_broken() {
            return Ok(false);
        }
        let mut state = lock(&self.far.state);
        if state.epoch != self.epoch() {
            *state = State { epoch: self.epoch(), ..State::default() };
        }
        state.owes();
        // First how far the streams have come: work that another thread issues from here on is not waited for.
        let Some(awaited) = self.awaited(until) else { return Ok(false) };
        let is_far_ahead = state.asked.len() + awaited.len() > MOST_AHEAD;
        let why = self.sees().or_else(|| is_far_ahead.then_some("the program is far ahead"));
        if let Some(why) = why {
            log!(Debug, "a synchronization waits (--far): {why}");
            return Ok(false);
        }
        if self.mirrors.any() {
            // What the program reads there from now on waits, and what it has written is sent first.
            if !self.mirrors.close() {
                return Ok(false);
            }
            self.send_mirrors()?;
        }
        let alone = if let [(progress, _)] = awaited.as_slice() { Some(&**progress) } else { None };
        let others = self.order.others_than(alone);
        // A wait of the legacy default stream's is one of all blocking streams, which may stand at something of the program's.
        if alone.is_some() && others.contains(&LEGACY) && self.order.has_busy_blocking(alone) {
            return Ok(false);
        }
        // How far those have come that wait for the legacy default stream: its wait is for them, too.
        let blocking = if matches!(until, Until::Stream(progress) if progress.stream() == LEGACY) {
            self.order.blocking()
        } else {
            Vec::new()
        };
        if !others.is_empty() {
            let event = self.gather(&mut state, until, &awaited)?;
            for stream in others {
                // Work of nobody's: for the program the stream holds nothing more than before.
                self.connection.post(&WaitEvent { stream: StreamId(stream), event, flags: 0 })?;
            }
        }
        self.ask(&mut state, until, &awaited)?;
        for (progress, sequence) in awaited.iter().chain(&blocking) {
            // A session that begins to share memory waits for what it finds noted.
            progress.note_return();
            progress.presume(*sequence);
        }
        self.connection.watch();
        self.statistics.went_on(1);
        self.errors.report()?;
        Ok(true)
    }

    /// The streams that are waited for, and up to which frames; `None` where one is destroyed, and only a wait for the context
    /// waits for it.
    fn awaited(&self, until: Until<'_>) -> Option<Vec<(Arc<StreamProgress>, u64)>> {
        let awaited = match until {
            Until::Stream(progress) => vec![(Arc::clone(progress), progress.issued())],
            Until::Event(_, progress, sequence) => return Some(vec![(Arc::clone(progress), sequence)]),
            Until::All => self.order.busy(),
        };
        awaited.iter().all(|(progress, _)| !progress.is_retired()).then_some(awaited)
    }

    /// The event behind which all of it is over.
    fn gather(
        &self,
        state: &mut State,
        until: Until<'_>,
        awaited: &[(Arc<StreamProgress>, u64)],
    ) -> CudaResult<EventId> {
        if let Until::Event(event, ..) = until {
            return Ok(event);
        }
        let event = state.event(self)?;
        let record = |stream| self.connection.post(&RecordEvent { event, stream, flags: 0 }).map(drop);
        if let [(progress, _)] = awaited {
            record(StreamId(progress.stream()))?;
            return Ok(event);
        }
        let gathers = state.stream(self)?;
        for (progress, _) in awaited {
            record(StreamId(progress.stream()))?;
            self.connection.post(&WaitEvent { stream: gathers, event, flags: 0 })?;
        }
        record(gathers)?;
        Ok(event)
    }

    /// Has the server say when it is over.
    fn ask(&self, state: &mut State, until: Until<'_>, awaited: &[(Arc<StreamProgress>, u64)]) -> CudaResult<()> {
        for (progress, sequence) in awaited {
            let ticket = match until {
                Until::Event(event, ..) => self.connection.mark_event(event, progress, *sequence)?,
                _ => self.connection.mark_at_once(progress)?,
            };
            state.asked.push(Arc::new(ticket));
        }
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

    /// A fence behind all work that precedes work issued now on this stream: also what its program has not waited for.
    pub(crate) fn fence_behind(&self, progress: &StreamProgress) -> Fence {
        if self.far.is_on() { self.order.fence() } else { self.order.fence_behind(progress) }
    }

    /// Whether nothing a synchronize of this stream waits for is outstanding, as far as the program can tell.
    pub(crate) fn seems_quiet(&self, progress: &StreamProgress) -> bool {
        let is_legacy = progress.stream() == LEGACY;
        self.is_quiet(progress)
            || if is_legacy { self.order.seems_idle(false) } else { progress.seems_over(progress.issued()) }
    }

    /// By what the program can see, beside the time, whether it has waited.
    fn sees(&self) -> Option<&'static str> {
        let ways = [
            (self.peers.shares(), "memory of other sessions"),
            (self.mirrors.any() && !self.mirrors.can_close(), "host memory that kernels reach"),
            (self.managed.is_used(), "managed memory"),
            (self.uses_host_memory(), "copies to the host, or functions of the program"),
            (self.is_held(), "a stream stands"),
        ];
        ways.into_iter().find_map(|(can, way)| can.then_some(way))
    }

    /// Waits for what the program takes for over and may not be, and for nothing else, ahead of something that the driver does at
    /// once.
    pub(crate) fn settle_presumed(&self) -> CudaResult<()> {
        if !self.far.owes() {
            return Ok(());
        }
        let asked = lock(&self.far.state).asked.clone();
        // Others may wait for the same.
        asked.iter().try_for_each(|ticket| self.connection.await_answer(ticket))
    }

    /// Opens mirrors to the program, which touches these bytes. Work that has failed and that it takes for over has not written
    /// them: unless a call has said so, the touch is a fault that nobody handles.
    fn open_mirrors(&self, at: u64, bytes: u64) -> bool {
        self.with_nothing_owed(|mirrors, settled| match settled {
            Err(error) if !self.errors.is_told() => {
                log!(Error, "host memory is not what the program takes it for (--far), at {at:#x}: {error}");
                false
            }
            _ => mirrors.open(at, bytes),
        })
    }

    /// The program has floe copy bytes of its own: of those, no mirror is closed from here on.
    pub(crate) fn keep_mirrors_open(&self, at: u64, bytes: u64) {
        if self.far.is_on() && self.mirrors.may_close(at, bytes) {
            // Where work has failed, the call that has the bytes copied says so.
            self.with_nothing_owed(|mirrors, _| mirrors.keep_open(at, bytes));
        }
    }

    /// Does something with mirrors when nothing is left that the program takes for over and may not be.
    fn with_nothing_owed<T>(&self, act: impl FnOnce(&Mirrors, CudaResult<()>) -> T) -> T {
        loop {
            let settled = self.settle_presumed();
            let mut state = lock(&self.far.state);
            // Where the link is over, no more comes.
            if settled.is_err() || !state.owes() {
                return act(&self.mirrors, settled);
            }
        }
    }

    /// Before a context or the program ends: waits for what the program has not waited for. What failed of it and no call has
    /// reported goes to the user.
    pub(crate) fn say_last_words(&self) {
        let is_told = self.errors.is_told();
        // Also where it is told: a later context is not to hear it.
        let settled = self.settle_presumed();
        if is_told || !self.far.is_on() {
            return;
        }
        if let Err(error) = settled.and_then(|()| self.errors.report()) {
            log!(Error, "work that a synchronization has not waited for (--far) has failed: {error}");
        }
    }
}
