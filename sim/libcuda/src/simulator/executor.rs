//! In: work for streams, from any thread of the program. Out: the work, done in stream order. The machine's pool runs
//! kernels, a few threads run copies, one runs host functions, one begins the rounds of loops, and one polls the words of memory
//! that streams wait for.
//! Waiting callers wake.
//! This file holds the queue and its waiters; `running` assigns work to threads. After a fault nothing more of that
//! context runs. It never calls into the program while it holds its lock.

pub(crate) mod branch;
pub(crate) mod events;
mod held;
pub(crate) mod output;
pub(crate) mod queue;
pub(crate) mod replay;
mod running;
pub(crate) mod transfer;
pub(crate) mod words;
mod work;

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use floe_abi::{CudaError, CudaResult};
use floe_machine::{Memory, Pool};

use super::memory::host_memory::HostMemory;
use events::{EventKey, EventState, Events, NoTime};
use held::Held;
use queue::{Queues, StreamKey, StreamKind, StreamPosition};
use work::ThreadKind;
pub(crate) use work::Work;

/// Threads that run copies and memsets, at most. The device reports as many asynchronous engines.
pub(crate) const TRANSFER_THREADS: usize = 2;

/// The context of what is queued for no context: no context has this serial, and no fault keeps it from running.
pub(crate) const NOBODY: u64 = 0;

struct ExecutorState {
    queues: Queues<Work>,
    events: Events,
    faults: HashMap<u64, CudaError>,
    transfer_threads: usize,
    idle_transfer_threads: usize,
    host_thread: bool,
    loop_thread: bool,
    /// Streams whose front waits for a word of memory.
    held: Vec<Held>,
    words_thread: bool,
    waiting: usize,
}

/// Runs the work of all streams of the process.
pub(crate) struct Executor {
    state: Mutex<ExecutorState>,
    transfers: Condvar,
    host_calls: Condvar,
    loops: Condvar,
    words: Condvar,
    progress: Condvar,
    pool: Pool,
    memory: Arc<Memory>,
    host_memory: Arc<HostMemory>,
}

impl Executor {
    pub(crate) fn new(memory: Arc<Memory>, host_memory: Arc<HostMemory>, cores: usize, queues: u64) -> Arc<Self> {
        let state = ExecutorState {
            queues: Queues::sharing(queues),
            events: Events::default(),
            faults: HashMap::new(),
            transfer_threads: 0,
            idle_transfer_threads: 0,
            host_thread: false,
            loop_thread: false,
            held: Vec::new(),
            words_thread: false,
            waiting: 0,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            transfers: Condvar::new(),
            host_calls: Condvar::new(),
            loops: Condvar::new(),
            words: Condvar::new(),
            progress: Condvar::new(),
            pool: Pool::new(cores),
            memory,
            host_memory,
        })
    }

    fn lock(&self) -> MutexGuard<'_, ExecutorState> {
        floe_lock::lock(&self.state)
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
    pub(crate) fn post(self: &Arc<Self>, stream: StreamKey, work: Work) -> CudaResult<StreamPosition> {
        let mut state = self.lock();
        let position = Self::enqueue(&mut state, stream, &[], work)?;
        self.pump(state);
        Ok(position)
    }

    /// Queues `work` and waits until it is done, running it on this thread where it is free to run.
    ///
    /// # Errors
    /// As `post`, and the fault of this or earlier work.
    pub(crate) fn run(self: &Arc<Self>, stream: StreamKey, work: Work) -> CudaResult<()> {
        let mut state = self.lock();
        let position = Self::enqueue(&mut state, stream, &[], work)?;
        let context = state.queues.context(stream);
        drop(self.wait_locked(state, &[position]));
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

    fn enqueue(
        state: &mut ExecutorState,
        stream: StreamKey,
        after: &[StreamPosition],
        work: Work,
    ) -> CudaResult<StreamPosition> {
        let context = state.queues.context(stream).ok_or(CudaError::INVALID_HANDLE)?;
        if let Some(fault) = state.faults.get(&context) {
            return Err(*fault);
        }
        state.queues.enqueue(stream, after, work.recorded(stream)).ok_or(CudaError::INVALID_HANDLE)
    }

    /// Whether all work of `stream` is done, with what a wait on the default stream includes.
    pub(crate) fn is_idle(&self, stream: StreamKey) -> bool {
        self.lock().queues.unfinished_before(stream).is_empty()
    }

    /// Waits for everything queued on `stream` so far.
    pub(crate) fn wait_stream(self: &Arc<Self>, stream: StreamKey) {
        let state = self.lock();
        let positions = state.queues.unfinished_before(stream);
        drop(self.wait_locked(state, &positions));
    }

    /// Waits for everything queued in `context` so far.
    pub(crate) fn wait_context(self: &Arc<Self>, context: u64) {
        let state = self.lock();
        let positions = state.queues.unfinished_of_context(context);
        drop(self.wait_locked(state, &positions));
    }

    /// The same, but for what stands behind a wait for a word of memory: that touches nothing meanwhile.
    pub(crate) fn wait_unheld(self: &Arc<Self>, context: u64) {
        let state = self.lock();
        let positions = state.queues.unfinished_of_context(context);
        drop(self.wait_until(state, &positions, |state, position| {
            state.queues.is_done(position) || state.is_held(position)
        }));
    }

    fn wait_locked<'a>(
        self: &'a Arc<Self>,
        state: MutexGuard<'a, ExecutorState>,
        positions: &[StreamPosition],
    ) -> MutexGuard<'a, ExecutorState> {
        self.wait_until(state, positions, |state, position| state.queues.is_done(position))
    }

    fn wait_until<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, ExecutorState>,
        positions: &[StreamPosition],
        is_over: impl Fn(&ExecutorState, StreamPosition) -> bool,
    ) -> MutexGuard<'a, ExecutorState> {
        for position in positions {
            while !is_over(&state, *position) {
                let mine = |work: &Work| !matches!(work.thread_kind(), ThreadKind::HostThread | ThreadKind::LoopThread);
                if let Some((taken, work)) = state.queues.take_from(position.stream, mine) {
                    state = self.perform(state, taken, work);
                    continue;
                }
                self.pump(state);
                state = self.lock();
                if is_over(&state, *position) {
                    break;
                }
                state.waiting += 1;
                state = floe_lock::wait(&self.progress, state);
                state.waiting -= 1;
            }
        }
        // Work that this thread's own work made ready is still to be started.
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

    pub(crate) fn event(&self, key: EventKey) -> Option<EventState> {
        self.lock().events.get(key)
    }

    /// Records `event` behind everything earlier on `stream`.
    ///
    /// # Errors
    /// As `post`.
    pub(crate) fn record(self: &Arc<Self>, stream: StreamKey, event: EventKey) -> CudaResult<()> {
        let mut state = self.lock();
        let position = Self::enqueue(&mut state, stream, &[], Work::Record(event))?;
        state.events.record(event, position);
        self.pump(state);
        Ok(())
    }

    /// Lets everything queued on `stream` from now on wait for the place where `event` was last recorded.
    ///
    /// # Errors
    /// As `post`.
    pub(crate) fn follow(self: &Arc<Self>, stream: StreamKey, event: EventKey) -> CudaResult<()> {
        let mut state = self.lock();
        let Some(position) = state.events.get(event).and_then(|event| event.recorded) else { return Ok(()) };
        if state.queues.is_done(position) {
            return Ok(());
        }
        Self::enqueue(&mut state, stream, &[position], Work::Nothing)?;
        self.pump(state);
        Ok(())
    }

    /// Whether the event's last record has happened; an event that was never recorded has.
    pub(crate) fn has_happened(&self, event: EventKey) -> bool {
        let state = self.lock();
        let recorded = state.events.get(event).and_then(|event| event.recorded);
        recorded.is_none_or(|position| state.queues.is_done(position))
    }

    pub(crate) fn wait_event(self: &Arc<Self>, event: EventKey) {
        let state = self.lock();
        let recorded = state.events.get(event).and_then(|event| event.recorded);
        let positions: Vec<StreamPosition> = recorded.into_iter().collect();
        drop(self.wait_locked(state, &positions));
    }

    pub(crate) fn elapsed(&self, start: EventKey, end: EventKey) -> Result<f32, NoTime> {
        self.lock().events.elapsed(start, end)
    }

    // ---- contexts

    /// # Errors
    /// The error that broke the context.
    pub(crate) fn fault(&self, context: u64) -> CudaResult<()> {
        self.lock().faults.get(&context).map_or(Ok(()), |fault| Err(*fault))
    }

    /// Forgets a context whose streams were closed and have finished.
    pub(crate) fn forget_context(&self, context: u64) {
        let mut state = self.lock();
        state.faults.remove(&context);
        state.events.destroy_of_context(context);
    }
}
