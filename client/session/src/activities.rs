//! What the program's profiler wants to know: its calls, and what they had GPUs do.
//! In: what is wanted; calls as they begin and end; ids that the program gives them; what servers recorded. Out: rows, in
//! this process's time. While nothing is wanted a call costs one look, and nothing is sent.

pub(crate) mod caller;
pub(crate) mod clock;
mod names;
mod taken;
pub(crate) mod tracing;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use floe_abi::{CudaError, CudaResult};
use floe_cupti::clock::{Pair, pair};
use floe_cupti::table::{Row, wanted};
use floe_cupti::{EXTERNAL_KINDS, kind};
use floe_lock::lock;
use floe_wire::{AskActivityClock, Call, StartActivities, StopActivities, TakeActivities};

use crate::client::Client;
use crate::log::log;
use crate::trace::{Over, Trace};
use crate::vgpu::{Vgpu, tally};
use caller::Caller;
use clock::ServerClock;
use names::Numbers;
use taken::Rows;

/// Rows of calls at once; later ones are lost.
const MOST_CALLS: usize = 1 << 20;
/// Ids of the program's on a thread at once.
const MOST_IDS: usize = 1 << 16;
/// Round trips of which the shortest says how far a server's clock is ahead.
const ROUND_TRIPS: usize = 8;
/// Activities that are asked for at once.
const AT_ONCE: u32 = 8192;
/// Questions in a row. A server that always has more is not asked further.
const MOST_QUESTIONS: usize = 1 << 12;
/// The bits that servers know: kernels, copies, fills.
const OF_SERVERS: u32 = wanted::OF_GPUS;
/// A bit beside those of [`wanted`]: everything goes into the process's trace, too.
const TRACED: u32 = 1 << 31;

/// A call that is over, or an id of the program's for it.
#[derive(Clone, Copy, Debug)]
enum Made {
    Call { kind: u32, function: u32, begin: u64, end: u64, thread: u32, call: u32, answer: u32 },
    Named { call: u32, kind: u32, id: u64 },
}

/// A server that records.
#[derive(Debug)]
struct Recording {
    clock: ServerClock,
    stopped: bool,
    lost: u64,
}

impl Made {
    fn row(&self) -> Row {
        match *self {
            Self::Named { call: correlation, kind: function, id: bytes } => {
                Row { correlation, function, bytes, ..Row::new(kind::EXTERNAL_CORRELATION) }
            }
            Self::Call { kind, function, begin, end, thread, call: correlation, answer } => {
                Row { correlation, begin, end, function, thread, answer, ..Row::new(kind) }
            }
        }
    }
}

#[derive(Debug, Default)]
struct State {
    made: Vec<Made>,
    recordings: BTreeMap<u8, Recording>,
    lost: u64,
}

/// What a profiler wants to know, and what is known.
#[derive(Debug, Default)]
pub(crate) struct Activities {
    wanted: AtomicU32,
    /// What servers record that a profiler wants, or has wanted and not taken: its rows are not only the trace's.
    owed: AtomicU32,
    numbers: AtomicU32,
    state: Mutex<State>,
    /// One thread at a time starts and stops servers, and takes what they have.
    servers: Mutex<()>,
    caller: OnceLock<fn() -> Caller>,
    pub(crate) trace: Trace,
}

/// A call that is not over.
#[derive(Clone, Copy, Debug)]
struct Open {
    name: &'static str,
    /// What profilers call it, where they are told of it.
    numbers: Option<Numbers>,
    begin: u64,
}

thread_local! {
    /// The present call.
    static OPEN: Cell<Option<Open>> = const { Cell::new(None) };
    /// The program's ids for this thread's calls, by kind.
    static IDS: RefCell<Vec<(u32, u64)>> = const { RefCell::new(Vec::new()) };
}

impl Activities {
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) != 0
    }

    fn wants(&self, bit: u32) -> bool {
        self.wanted.load(Ordering::Relaxed) & bit != 0
    }

    fn keep(&self, made: Made) {
        let mut state = lock(&self.state);
        if state.made.len() < MOST_CALLS {
            state.made.push(made);
        } else {
            state.lost += 1;
        }
    }

    /// A call of the program's begins on this thread, and gets a number.
    #[cold]
    pub(crate) fn call_begins(&self, name: &'static str) {
        // Numbers begin with 1 and come round after four thousand million calls.
        let call = self.numbers.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1);
        tally::number(call);
        let known = names::numbers(name);
        if known.is_some() && self.wants(wanted::EXTERNAL) {
            // A thread that ends calls, too, when its locals are gone.
            let _ = IDS.try_with(|ids| {
                let ids = ids.borrow();
                for kind in 1..EXTERNAL_KINDS {
                    if let Some((_, id)) = ids.iter().rfind(|(of, _)| *of == kind) {
                        self.keep(Made::Named { call, kind, id: *id });
                    }
                }
            });
        }
        let is_told = known.is_some() || self.wants(TRACED);
        OPEN.set(is_told.then(|| Open { name, numbers: known, begin: clock::now() }));
    }

    /// It is over.
    #[cold]
    pub(crate) fn call_ends(&self, call: u32, answer: u32) {
        let Some(Open { name, numbers, begin }) = OPEN.take() else { return };
        let end = clock::now();
        if self.wants(TRACED) {
            self.trace.call(&Over { name, begin, end, number: call, answer, works: numbers.is_some() });
        }
        let Some(numbers) = numbers.filter(|_| self.wants(wanted::DRIVER | wanted::RUNTIME)) else { return };
        let Caller { is_runtime, thread } = self.caller.get().map(|find| find()).unwrap_or_default();
        let (bit, kind, function) = if is_runtime && numbers.runtime != 0 {
            (wanted::RUNTIME, kind::RUNTIME, numbers.runtime)
        } else {
            (wanted::DRIVER, kind::DRIVER, numbers.driver)
        };
        if self.wants(bit) {
            self.keep(Made::Call { kind, function, begin, end, thread, call, answer });
        }
    }
}

impl Client {
    /// How to find out who makes a call, which the library that exports the calls knows.
    pub fn find_callers_by(&self, find: fn() -> Caller) {
        // The first stays.
        let _ = self.activities.caller.set(find);
    }

    /// This process's monotonic clock in nanoseconds, in which rows are.
    #[must_use]
    pub fn activity_clock() -> u64 {
        clock::now()
    }

    /// Has these bits of [`wanted`] be recorded from here on, and nothing else.
    ///
    /// # Errors
    /// Where a server records nothing; all others do.
    pub fn want_activities(&self, wanted: u32) -> CudaResult<()> {
        self.activities.want(wanted & !TRACED, &self.all_vgpus())
    }

    /// Has recording begin where it was wanted before there were devices.
    pub(crate) fn record_from_start(&self) {
        if self.activities.is_on() {
            self.activities.record_wanted(&self.all_vgpus());
        }
    }

    /// Gives all that was recorded since the last time: ids, calls, then the work of each device. Forced: also work that has
    /// not ended.
    ///
    /// # Errors
    /// Where a server could not be asked; what others have is given.
    pub fn take_activities(&self, forced: bool, give: &mut dyn FnMut(&Row)) -> CudaResult<()> {
        self.activities.take(&self.all_vgpus(), forced, give)
    }

    fn all_vgpus(&self) -> Vec<Arc<Vgpu>> {
        self.vgpus().map(Arc::clone).collect()
    }

    /// Rows that were lost so far.
    #[must_use]
    pub fn lost_activities(&self) -> u64 {
        self.activities.lost()
    }

    /// The calls of this thread have this id of the program's, until it is taken away. `false`: there are too many.
    #[must_use]
    pub fn push_activity_id(kind: u32, id: u64) -> bool {
        let push = |ids: &RefCell<Vec<_>>| {
            let mut ids = ids.borrow_mut();
            let fits = ids.len() < MOST_IDS;
            if fits {
                ids.push((kind, id));
            }
            fits
        };
        IDS.try_with(push).unwrap_or_default()
    }

    /// Takes the last id of that kind away.
    #[must_use]
    pub fn pop_activity_id(kind: u32) -> Option<u64> {
        let pop = |ids: &RefCell<Vec<(u32, u64)>>| {
            let mut ids = ids.borrow_mut();
            let last = ids.iter().rposition(|(of, _)| *of == kind)?;
            Some(ids.remove(last).1)
        };
        IDS.try_with(pop).ok().flatten()
    }

    /// Has the log name a function that is not there.
    pub fn refuse_activity(name: &str) {
        log!(Warn, "{name} is not there: a profiler gets CUPTI_ERROR_NOT_SUPPORTED\n  see docs/guide/profiling.md");
    }
}

impl Activities {
    /// Has these bits be recorded for a profiler from here on.
    fn want(&self, wanted: u32, vgpus: &[Arc<Vgpu>]) -> CudaResult<()> {
        if self.is_traced() {
            // What was done before is the trace's alone.
            self.take_for_trace(vgpus, false);
        }
        self.owed.fetch_or(wanted & OF_SERVERS, Ordering::Relaxed);
        let _one = lock(&self.servers);
        let wanted = wanted | self.wanted.load(Ordering::Relaxed) & TRACED;
        let before = self.wanted.swap(wanted, Ordering::Relaxed);
        if of_servers(before) == of_servers(wanted) { Ok(()) } else { self.record_on_all(vgpus, of_servers(wanted)) }
    }

    /// Whether this process has a trace.
    fn is_traced(&self) -> bool {
        self.wants(TRACED)
    }

    /// Everything goes into the trace from here on.
    fn want_trace(&self) {
        self.wanted.fetch_or(TRACED, Ordering::Relaxed);
    }

    /// The devices are there: what was wanted before begins.
    fn record_wanted(&self, vgpus: &[Arc<Vgpu>]) {
        let _one = lock(&self.servers);
        let wanted = of_servers(self.wanted.load(Ordering::Relaxed));
        if wanted != 0 {
            // The log says why a server does not.
            let _ = self.record_on_all(vgpus, wanted);
        }
    }

    fn record_on_all(&self, vgpus: &[Arc<Vgpu>], wanted: u32) -> CudaResult<()> {
        let record =
            |vgpu: &Arc<Vgpu>| if wanted == 0 { self.stop_recording(vgpu) } else { self.start_recording(vgpu, wanted) };
        let outcomes: Vec<CudaResult<()>> = vgpus.iter().map(record).collect();
        outcomes.into_iter().collect()
    }

    fn start_recording(&self, vgpu: &Vgpu, wanted: u32) -> CudaResult<()> {
        let answer = vgpu.connection.ask(&StartActivities { wanted })?;
        if let Some(error) = CudaError::from_code(answer.status) {
            let words = floe_wire::printable(&answer.detail);
            log!(Warn, "device {} tells a profiler nothing of its work: {words}", vgpu.ordinal);
            return Err(error);
        }
        vgpu.connection.commands.turn(true);
        let is_new = !lock(&self.state).recordings.contains_key(&vgpu.ordinal);
        if is_new {
            let clock = ServerClock::new(measure(vgpu)?);
            let recording = Recording { clock, stopped: false, lost: 0 };
            lock(&self.state).recordings.insert(vgpu.ordinal, recording);
        } else if let Some(known) = lock(&self.state).recordings.get_mut(&vgpu.ordinal) {
            known.stopped = false;
        }
        Ok(())
    }

    fn stop_recording(&self, vgpu: &Vgpu) -> CudaResult<()> {
        vgpu.connection.commands.turn(false);
        match lock(&self.state).recordings.get_mut(&vgpu.ordinal) {
            Some(recording) => recording.stopped = true,
            None => return Ok(()),
        }
        vgpu.connection.call(&StopActivities {}).map(drop)
    }

    /// Gives a profiler what there is of its kinds, and the trace all that devices did.
    fn take(&self, vgpus: &[Arc<Vgpu>], forced: bool, give: &mut dyn FnMut(&Row)) -> CudaResult<()> {
        let _one = lock(&self.servers);
        let made = std::mem::take(&mut lock(&self.state).made);
        made.iter().for_each(|made| give(&made.row()));
        let taken = self.take_of_all(vgpus, forced, give);
        if forced {
            self.owed.store(self.wanted.load(Ordering::Relaxed) & OF_SERVERS, Ordering::Relaxed);
        }
        taken
    }

    /// Takes what devices did for the trace. What a profiler wants, too, is taken when that asks. `last`: the program ends, and
    /// no profiler asks any more.
    fn take_for_trace(&self, vgpus: &[Arc<Vgpu>], last: bool) {
        let _one = lock(&self.servers);
        if last || self.owed.load(Ordering::Relaxed) == 0 {
            // A server that is gone has no more to say.
            let _ = self.take_of_all(vgpus, last, &mut |_| {});
        }
    }

    fn take_of_all(&self, vgpus: &[Arc<Vgpu>], forced: bool, give: &mut dyn FnMut(&Row)) -> CudaResult<()> {
        let (is_traced, owed) = (self.is_traced(), self.owed.load(Ordering::Relaxed));
        let mut each = |row: &Row, name: Option<&CStr>| {
            if is_traced {
                self.trace.work(row, name);
            }
            if owed & bit_of(row.kind) != 0 {
                give(row);
            }
        };
        let outcomes: Vec<CudaResult<()>> = vgpus.iter().map(|vgpu| self.take_of(vgpu, forced, &mut each)).collect();
        outcomes.into_iter().collect()
    }

    fn take_of(&self, vgpu: &Vgpu, forced: bool, give: &mut dyn FnMut(&Row, Option<&CStr>)) -> CudaResult<()> {
        let known = lock(&self.state).recordings.get(&vgpu.ordinal).map(|it| (it.clock, it.stopped));
        let Some((mut clock, stopped)) = known else { return Ok(()) };
        clock.measured(measure(vgpu)?);
        let (mut rows, mut flush, mut lost) = (Rows::default(), 1 + u32::from(forced), 0);
        for _ in 0..MOST_QUESTIONS {
            let (answer, _) = vgpu.connection.call(&TakeActivities { flush, most: AT_ONCE })?;
            let reply = vgpu.connection.read(TakeActivities::decode_reply(&answer.body))?;
            rows.add(&reply, |command| vgpu.connection.commands.call_of(command));
            (flush, lost) = (0, reply.lost);
            if !reply.more {
                break;
            }
        }
        rows.give(vgpu.ordinal.into(), &clock, give);
        let mut state = lock(&self.state);
        if let Some(recording) = state.recordings.get_mut(&vgpu.ordinal) {
            recording.clock = clock;
            let new = lost.saturating_sub(recording.lost).saturating_add(rows.lost);
            recording.lost = lost;
            state.lost = state.lost.saturating_add(new);
        }
        if stopped && forced {
            state.recordings.remove(&vgpu.ordinal);
            vgpu.connection.commands.forget();
        }
        Ok(())
    }

    /// Rows that were lost so far.
    fn lost(&self) -> u64 {
        lock(&self.state).lost
    }
}

/// What servers record for these bits: a trace wants all of it.
fn of_servers(wanted: u32) -> u32 {
    if wanted & TRACED != 0 { OF_SERVERS } else { wanted & OF_SERVERS }
}

/// The bit of what a device did.
fn bit_of(of: u32) -> u32 {
    match of {
        kind::MEMCPY => wanted::COPIES,
        kind::MEMSET => wanted::FILLS,
        _ => wanted::KERNELS,
    }
}

/// Both clocks now: this process's, and the server's profiler's.
fn measure(vgpu: &Vgpu) -> CudaResult<Pair> {
    let ask = || {
        let (answer, _) = vgpu.connection.call(&AskActivityClock {}).ok()?;
        vgpu.connection.read(AskActivityClock::decode_reply(&answer.body)).ok().map(|reply| reply.now)
    };
    pair(ROUND_TRIPS, clock::now, ask).ok_or(CudaError::NOT_SUPPORTED)
}
