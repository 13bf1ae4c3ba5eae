//! How queued work is done: by which thread, and what its end starts.
//! In: what the queues have ready. Out: the work, done and marked so; faults of its context; waiting callers woken.
//! It never calls into the program while it holds the lock.

use std::sync::{Arc, MutexGuard};
use std::time::Instant;

use floe_abi::{CudaError, CudaResult};
use floe_machine::{Fault, FaultKind, Grid, Outcome};

use super::super::log;
use super::work::{Recorded, ThreadKind, Work};
use super::{Executor, ExecutorState, StreamPosition, TRANSFER_THREADS};

impl Executor {
    /// Starts everything that is ready. Takes the lock and gives it up.
    pub(super) fn pump<'a>(self: &'a Arc<Self>, mut state: MutexGuard<'a, ExecutorState>) {
        loop {
            while let Some((position, work)) = state.queues.take(|work| work.thread_kind() == ThreadKind::Here) {
                drop(self.perform(state, position, work));
                state = self.lock();
            }
            // A stream may wait for the finished work.
            if state.held.is_empty() || !self.look_at_words(&mut state) {
                break;
            }
        }
        if state.queues.ready() > 0 {
            self.wake_threads(&mut state);
        }
    }

    fn wake_threads(self: &Arc<Self>, state: &mut ExecutorState) {
        if state.queues.has_ready(|work| work.thread_kind() == ThreadKind::TransferThread) {
            if state.idle_transfer_threads == 0 && state.transfer_threads < TRANSFER_THREADS {
                state.transfer_threads += 1;
                self.spawn("floe-transfer", Self::transfer_thread);
            }
            self.transfers.notify_one();
        }
        if state.queues.has_ready(|work| work.thread_kind() == ThreadKind::HostThread) {
            if !state.host_thread {
                state.host_thread = true;
                self.spawn("floe-host-calls", Self::host_thread);
            }
            self.host_calls.notify_one();
        }
        if state.queues.has_ready(|work| work.thread_kind() == ThreadKind::LoopThread) {
            if !state.loop_thread {
                state.loop_thread = true;
                self.spawn("floe-loops", Self::loop_thread);
            }
            self.loops.notify_one();
        }
    }

    pub(super) fn spawn(self: &Arc<Self>, name: &str, body: fn(Arc<Self>)) {
        let executor = Arc::clone(self);
        let spawned = std::thread::Builder::new().name(name.to_string()).spawn(move || body(executor));
        if let Err(error) = spawned {
            // Without the thread the work would wait for ever: the process cannot continue.
            eprintln!("floe: cannot start a thread of the CPU device: {error}");
            std::process::abort();
        }
    }

    fn transfer_thread(self: Arc<Self>) {
        let mut state = self.lock();
        loop {
            if let Some((position, work)) = state.queues.take(|work| work.thread_kind() == ThreadKind::TransferThread) {
                self.wake_threads(&mut state);
                drop(self.perform(state, position, work));
                self.pump(self.lock());
                state = self.lock();
            } else {
                state.idle_transfer_threads += 1;
                state = floe_lock::wait(&self.transfers, state);
                state.idle_transfer_threads -= 1;
            }
        }
    }

    fn host_thread(self: Arc<Self>) {
        let mut state = self.lock();
        loop {
            if let Some((position, work)) = state.queues.take(|work| work.thread_kind() == ThreadKind::HostThread) {
                drop(self.perform(state, position, work));
                self.pump(self.lock());
                state = self.lock();
            } else {
                state = floe_lock::wait(&self.host_calls, state);
            }
        }
    }

    /// Begins the next round of loops, one after the other.
    fn loop_thread(self: Arc<Self>) {
        let mut state = self.lock();
        loop {
            if let Some((position, work)) = state.queues.take(|work| work.thread_kind() == ThreadKind::LoopThread) {
                drop(self.perform(state, position, work));
                self.pump(self.lock());
                // A loop that does nothing leaves others the lock.
                std::thread::yield_now();
                state = self.lock();
            } else {
                state = floe_lock::wait(&self.loops, state);
            }
        }
    }

    /// Does one piece of work that was taken from the queues, and marks it done; a kernel is marked done when it ends.
    pub(super) fn perform<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, ExecutorState>,
        position: StreamPosition,
        work: Work,
    ) -> MutexGuard<'a, ExecutorState> {
        let context = state.queues.context(position.stream).unwrap_or_default();
        let fault = state.faults.get(&context).copied();
        let result = match work {
            Work::Nothing => Ok(()),
            Work::Record(event) => {
                state.events.happen(event, position, Instant::now());
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
            Work::RoundOver(round) => {
                self.round_over(&mut state, *round);
                Ok(())
            }
            _ if fault.is_some() => Ok(()),
            Work::Recorded(recorded) => return self.perform_recorded(state, position, context, *recorded),
            Work::Branch(branch) => match Self::begin_round(&mut state, position, context, &branch) {
                Ok(true) => return state,
                Ok(false) => Ok(()),
                Err(error) => Err(error),
            },
            Work::Words(mut words) => match words.advance(&self.memory, &self.host_memory) {
                Ok(true) => Ok(()),
                Ok(false) => {
                    self.hold(&mut state, position, context, words);
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
                self.start_kernel(position, context, &grid, || ());
                return self.lock();
            }
        };
        self.finish(&mut state, position, context, result);
        state
    }

    /// Does a kernel or a transfer, and says when it began and ended.
    fn perform_recorded<'a>(
        self: &'a Arc<Self>,
        state: MutexGuard<'a, ExecutorState>,
        position: StreamPosition,
        context: u64,
        Recorded { work, recording }: Recorded,
    ) -> MutexGuard<'a, ExecutorState> {
        drop(state);
        let running = recording.begin();
        let result = match work {
            Work::Kernel(grid) => {
                self.start_kernel(position, context, &grid, move || running.end());
                return self.lock();
            }
            Work::Transfer(transfer) => transfer.run(&self.memory),
            // Nothing else is recorded.
            _ => Ok(()),
        };
        running.end();
        let mut state = self.lock();
        self.finish(&mut state, position, context, result);
        state
    }

    /// Has the machine run a kernel; `ended` runs as soon as it is over.
    fn start_kernel(
        self: &Arc<Self>,
        position: StreamPosition,
        context: u64,
        grid: &Arc<Grid>,
        ended: impl FnOnce() + Send + 'static,
    ) {
        let executor = Arc::clone(self);
        let over = move |outcome| {
            ended();
            executor.kernel_ended(position, context, &outcome);
        };
        self.pool.submit(grid, Box::new(over));
    }

    fn kernel_ended(self: &Arc<Self>, position: StreamPosition, context: u64, outcome: &Outcome) {
        let result = match outcome {
            Outcome::Done => Ok(()),
            Outcome::Fault(fault) => {
                log::note(format_args!("kernel fault: {fault}"));
                self.explain(fault);
                Err(CudaError::from_code(fault.kind.code()).unwrap_or(CudaError::LAUNCH_FAILED))
            }
            Outcome::Stopped | Outcome::Cancelled => Err(CudaError::LAUNCH_FAILED),
        };
        let mut state = self.lock();
        self.finish(&mut state, position, context, result);
        self.pump(state);
    }

    /// Says what is not obvious from a fault's address.
    fn explain(&self, fault: &Fault) {
        if fault.kind == FaultKind::IllegalAddress && self.host_memory.find(fault.address).is_some() {
            log::warn(format_args!(
                "kernel {} used host memory at {:#x} that is registered for reading only, or that kernels do not reach here",
                fault.kernel, fault.address
            ));
        }
    }

    pub(super) fn finish(
        &self,
        state: &mut ExecutorState,
        position: StreamPosition,
        context: u64,
        result: CudaResult<()>,
    ) {
        if let Err(error) = result {
            state.faults.entry(context).or_insert(error);
        }
        state.queues.finish(position.stream);
        if state.waiting > 0 {
            self.progress.notify_all();
        }
    }
}
