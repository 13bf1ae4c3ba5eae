//! What comes in: work for streams, from any thread of the program. What goes out: the work done in stream order, on
//! the machine's pool (kernels), a few transfer threads (copies), one thread for host functions and one that looks at words
//! of memory streams wait for; waiting callers wake.
//! After a fault nothing more of that context runs. It never calls into the program while it holds its lock.

mod held;
pub(crate) mod replay;
mod work;

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use floe_abi::{CudaError, CudaResult};
use floe_machine::{Fault, FaultKind, Memory, Outcome, Pool};

use super::events::{Event, EventKey, Events, NoTime};
use super::host_memory::HostMemory;
use super::queue::{Queues, StreamKey, StreamKind, Ticket};
use held::Held;
use work::Place;
pub(crate) use work::Work;

/// Threads that run copies and memsets, at most. The device reports as many asynchronous engines.
pub(crate) const TRANSFER_THREADS: usize = 2;

/// The context of what is queued for no context: no context has this serial, and no fault keeps it from running.
pub(crate) const NOBODY: u64 = 0;

struct State {
    queues: Queues<Work>,
    events: Events,
    faults: HashMap<u64, CudaError>,
    transfer_threads: usize,
    idle_transfer_threads: usize,
    host_thread: bool,
    /// Streams whose front waits for a word of memory.
    held: Vec<Held>,
    words_thread: bool,
    waiting: usize,
}

/// Runs the work of all streams of the process.
pub(crate) struct Executor {
    state: Mutex<State>,
    transfers: Condvar,
    host_calls: Condvar,
    words: Condvar,
    progress: Condvar,
    pool: Pool,
    memory: Arc<Memory>,
    host_memory: Arc<HostMemory>,
}

impl Executor {
    pub(crate) fn new(memory: Arc<Memory>, host_memory: Arc<HostMemory>, cores: usize) -> Arc<Self> {
        let state = State {
            queues: Queues::new(),
            events: Events::default(),
            faults: HashMap::new(),
            transfer_threads: 0,
            idle_transfer_threads: 0,
            host_thread: false,
            held: Vec::new(),
            words_thread: false,
            waiting: 0,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            transfers: Condvar::new(),
            host_calls: Condvar::new(),
            words: Condvar::new(),
            progress: Condvar::new(),
            pool: Pool::new(cores),
            memory,
            host_memory,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ---- streams

    pub(crate) fn open(&self, context: u64, kind: StreamKind) -> StreamKey {
        self.lock().queues.open(context, kind)
    }

    pub(crate) fn close(&self, stream: StreamKey) {
        self.lock().queues.close(stream);
    }

    /// Closes every stream of `context` that is still open.
    pub(crate) fn close_of_context(&self, context: u64) {
        self.lock().queues.close_of_context(context);
    }

    /// Queues `work` behind everything earlier on `stream`; does not wait.
    ///
    /// # Errors
    /// The context's fault, or INVALID_HANDLE for a closed stream.
    pub(crate) fn post(self: &Arc<Self>, stream: StreamKey, work: Work) -> CudaResult<Ticket> {
        let mut state = self.lock();
        let ticket = Self::enqueue(&mut state, stream, &[], work)?;
        self.pump(state);
        Ok(ticket)
    }

    /// Queues `work` and waits until it is done, running it on this thread where it is free to run.
    ///
    /// # Errors
    /// As `post`, and the fault of this or earlier work.
    pub(crate) fn run(self: &Arc<Self>, stream: StreamKey, work: Work) -> CudaResult<()> {
        let mut state = self.lock();
        let ticket = Self::enqueue(&mut state, stream, &[], work)?;
        let context = state.queues.context(stream);
        drop(self.wait_locked(state, &[ticket]));
        context.map_or(Ok(()), |context| self.fault(context))
    }

    /// Queues something of ours behind everything queued so far, of all streams; does not wait.
    pub(crate) fn post_last(self: &Arc<Self>, release: impl FnOnce() + Send + 'static) {
        let mut state = self.lock();
        let ahead = state.queues.unfinished_of_all();
        let stream = state.queues.open(NOBODY, StreamKind::NonBlocking);
        let queued = state.queues.enqueue(stream, &ahead, Work::Release(Box::new(release)));
        debug_assert!(queued.is_some(), "a stream that was just opened takes work");
        state.queues.close(stream);
        self.pump(state);
    }

    fn enqueue(state: &mut State, stream: StreamKey, after: &[Ticket], work: Work) -> CudaResult<Ticket> {
        let context = state.queues.context(stream).ok_or(CudaError::INVALID_HANDLE)?;
        if let Some(fault) = state.faults.get(&context) {
            return Err(*fault);
        }
        state.queues.enqueue(stream, after, work).ok_or(CudaError::INVALID_HANDLE)
    }

    /// Whether all work of `stream` is done, with what a wait on the default stream includes.
    pub(crate) fn is_idle(&self, stream: StreamKey) -> bool {
        self.lock().queues.unfinished_before(stream).is_empty()
    }

    /// Waits for everything queued on `stream` so far.
    pub(crate) fn wait_stream(self: &Arc<Self>, stream: StreamKey) {
        let state = self.lock();
        let tickets = state.queues.unfinished_before(stream);
        drop(self.wait_locked(state, &tickets));
    }

    /// Waits for everything queued in `context` so far.
    pub(crate) fn wait_context(self: &Arc<Self>, context: u64) {
        let state = self.lock();
        let tickets = state.queues.unfinished_of_context(context);
        drop(self.wait_locked(state, &tickets));
    }

    /// The same, but for what stands behind a wait for a word of memory: that touches nothing meanwhile.
    pub(crate) fn wait_unheld(self: &Arc<Self>, context: u64) {
        let state = self.lock();
        let tickets = state.queues.unfinished_of_context(context);
        drop(self.wait_until(state, &tickets, |state, ticket| state.queues.is_done(ticket) || state.is_held(ticket)));
    }

    fn wait_locked<'a>(self: &'a Arc<Self>, state: MutexGuard<'a, State>, tickets: &[Ticket]) -> MutexGuard<'a, State> {
        self.wait_until(state, tickets, |state, ticket| state.queues.is_done(ticket))
    }

    fn wait_until<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, State>,
        tickets: &[Ticket],
        is_over: impl Fn(&State, Ticket) -> bool,
    ) -> MutexGuard<'a, State> {
        for ticket in tickets {
            while !is_over(&state, *ticket) {
                let mine = |work: &Work| work.place() != Place::HostThread;
                if let Some((taken, work)) = state.queues.take_from(ticket.stream, mine) {
                    state = self.perform(state, taken, work);
                    continue;
                }
                self.pump(state);
                state = self.lock();
                if is_over(&state, *ticket) {
                    break;
                }
                state.waiting += 1;
                state = self.progress.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.waiting -= 1;
            }
        }
        // What this thread's own work made ready is still to be started.
        self.pump(state);
        self.lock()
    }

    // ---- events

    pub(crate) fn create_event(&self, key: EventKey, context: u64, timing: bool) {
        self.lock().events.create(key, context, timing);
    }

    pub(crate) fn destroy_event(&self, key: EventKey) -> bool {
        self.lock().events.destroy(key)
    }

    pub(crate) fn event(&self, key: EventKey) -> Option<Event> {
        self.lock().events.get(key)
    }

    /// Records `event` behind everything earlier on `stream`.
    ///
    /// # Errors
    /// As `post`.
    pub(crate) fn record(self: &Arc<Self>, stream: StreamKey, event: EventKey) -> CudaResult<()> {
        let mut state = self.lock();
        let ticket = Self::enqueue(&mut state, stream, &[], Work::Record(event))?;
        state.events.record(event, ticket);
        self.pump(state);
        Ok(())
    }

    /// Lets everything queued on `stream` from now on wait for the place where `event` was last recorded.
    ///
    /// # Errors
    /// As `post`.
    pub(crate) fn follow(self: &Arc<Self>, stream: StreamKey, event: EventKey) -> CudaResult<()> {
        let mut state = self.lock();
        let Some(ticket) = state.events.get(event).and_then(|event| event.recorded) else { return Ok(()) };
        if state.queues.is_done(ticket) {
            return Ok(());
        }
        Self::enqueue(&mut state, stream, &[ticket], Work::Nothing)?;
        self.pump(state);
        Ok(())
    }

    /// Whether the event's last record has happened; an event that was never recorded has.
    pub(crate) fn has_happened(&self, event: EventKey) -> bool {
        let state = self.lock();
        let recorded = state.events.get(event).and_then(|event| event.recorded);
        recorded.is_none_or(|ticket| state.queues.is_done(ticket))
    }

    pub(crate) fn wait_event(self: &Arc<Self>, event: EventKey) {
        let state = self.lock();
        let recorded = state.events.get(event).and_then(|event| event.recorded);
        let tickets: Vec<Ticket> = recorded.into_iter().collect();
        drop(self.wait_locked(state, &tickets));
    }

    pub(crate) fn elapsed(&self, start: EventKey, end: EventKey) -> Result<f32, NoTime> {
        self.lock().events.elapsed(start, end)
    }

    // ---- contexts

    /// # Errors
    /// What broke the context.
    pub(crate) fn fault(&self, context: u64) -> CudaResult<()> {
        self.lock().faults.get(&context).map_or(Ok(()), |fault| Err(*fault))
    }

    /// Forgets a context whose streams were closed and have finished.
    pub(crate) fn forget_context(&self, context: u64) {
        let mut state = self.lock();
        state.faults.remove(&context);
        state.events.destroy_of_context(context);
    }

    // ---- running

    /// Starts everything that is ready. Takes the lock and gives it up.
    fn pump<'a>(self: &'a Arc<Self>, mut state: MutexGuard<'a, State>) {
        loop {
            while let Some((ticket, work)) = state.queues.take(|work| work.place() == Place::Here) {
                drop(self.perform(state, ticket, work));
                state = self.lock();
            }
            // What was done may be what a stream waits for.
            if state.held.is_empty() || !self.look_at_words(&mut state) {
                break;
            }
        }
        if state.queues.ready() > 0 {
            self.wake_threads(&mut state);
        }
    }

    fn wake_threads(self: &Arc<Self>, state: &mut State) {
        if state.queues.has_ready(|work| work.place() == Place::TransferThread) {
            if state.idle_transfer_threads == 0 && state.transfer_threads < TRANSFER_THREADS {
                state.transfer_threads += 1;
                self.spawn("floe-transfer", Self::transfer_thread);
            }
            self.transfers.notify_one();
        }
        if state.queues.has_ready(|work| work.place() == Place::HostThread) {
            if !state.host_thread {
                state.host_thread = true;
                self.spawn("floe-host-calls", Self::host_thread);
            }
            self.host_calls.notify_one();
        }
    }

    fn spawn(self: &Arc<Self>, name: &str, body: fn(Arc<Self>)) {
        let executor = Arc::clone(self);
        let spawned = std::thread::Builder::new().name(name.to_string()).spawn(move || body(executor));
        if let Err(error) = spawned {
            // Without the thread the work would wait for ever: the process cannot go on.
            eprintln!("floe: cannot start a thread of the CPU device: {error}");
            std::process::abort();
        }
    }

    fn transfer_thread(self: Arc<Self>) {
        let mut state = self.lock();
        loop {
            if let Some((ticket, work)) = state.queues.take(|work| work.place() == Place::TransferThread) {
                self.wake_threads(&mut state);
                drop(self.perform(state, ticket, work));
                self.pump(self.lock());
                state = self.lock();
            } else {
                state.idle_transfer_threads += 1;
                state = self.transfers.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle_transfer_threads -= 1;
            }
        }
    }

    fn host_thread(self: Arc<Self>) {
        let mut state = self.lock();
        loop {
            if let Some((ticket, work)) = state.queues.take(|work| work.place() == Place::HostThread) {
                drop(self.perform(state, ticket, work));
                self.pump(self.lock());
                state = self.lock();
            } else {
                state = self.host_calls.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Does one piece of work that was taken from the queues, and marks it done; a kernel is marked done when it ends.
    fn perform<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, State>,
        ticket: Ticket,
        work: Work,
    ) -> MutexGuard<'a, State> {
        let context = state.queues.context(ticket.stream).unwrap_or_default();
        let fault = state.faults.get(&context).copied();
        let result = match work {
            Work::Nothing => Ok(()),
            Work::Record(event) => {
                state.events.happen(event, ticket, Instant::now());
                Ok(())
            }
            Work::Release(release) => {
                drop(state);
                release();
                state = self.lock();
                Ok(())
            }
            Work::Host(call) => {
                drop(state);
                call(fault.map_or(Ok(()), Err));
                state = self.lock();
                Ok(())
            }
            Work::Transfer(_) | Work::Kernel(_) | Work::Words(_) if fault.is_some() => Ok(()),
            Work::Words(mut words) => match words.advance(&self.memory, &self.host_memory) {
                Ok(true) => Ok(()),
                Ok(false) => {
                    self.hold(&mut state, ticket, context, words);
                    return state;
                }
                Err(error) => Err(error),
            },
            Work::Transfer(transfer) => {
                drop(state);
                let result = transfer.run(&self.memory);
                state = self.lock();
                result
            }
            Work::Kernel(grid) => {
                drop(state);
                let executor = Arc::clone(self);
                self.pool.submit(&grid, Box::new(move |outcome| executor.kernel_ended(ticket, context, &outcome)));
                return self.lock();
            }
        };
        self.finish(&mut state, ticket, context, result);
        state
    }

    fn kernel_ended(self: &Arc<Self>, ticket: Ticket, context: u64, outcome: &Outcome) {
        let result = match outcome {
            Outcome::Done => Ok(()),
            Outcome::Fault(fault) => {
                super::log::note(format_args!("kernel fault: {fault}"));
                self.explain(fault);
                Err(CudaError::from_code(fault.kind.code()).unwrap_or(CudaError::LAUNCH_FAILED))
            }
            Outcome::Stopped | Outcome::Cancelled => Err(CudaError::LAUNCH_FAILED),
        };
        let mut state = self.lock();
        self.finish(&mut state, ticket, context, result);
        self.pump(state);
    }

    /// Says what is not obvious from a fault's address.
    fn explain(&self, fault: &Fault) {
        if fault.kind == FaultKind::IllegalAddress && self.host_memory.find(fault.address).is_some() {
            super::log::warn(format_args!(
                "kernel {} used pinned host memory at {:#x}: kernels of the CPU device reach device memory only",
                fault.kernel, fault.address
            ));
        }
    }

    fn finish(&self, state: &mut State, ticket: Ticket, context: u64, result: CudaResult<()>) {
        if let Err(error) = result {
            state.faults.entry(context).or_insert(error);
        }
        state.queues.finish(ticket.stream);
        if state.waiting > 0 {
            self.progress.notify_all();
        }
    }
}
