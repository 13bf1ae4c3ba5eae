//! What the device does and when, for a profiler. In: kinds that are wanted, numbers of the program's for its calls; work as
//! it is queued, begins and ends. Out: entries, in the order in which work ended.
//! While nothing is wanted it costs one look. It is bounded, and keeps no work alive.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use floe_cupti::kind;
use floe_machine::Kernel;

/// Entries at once; later ones are lost.
const MOST: usize = 1 << 19;
/// Numbers of the program's on a thread at once.
const MOST_EXTERNAL: usize = 1 << 12;

/// What work is.
#[derive(Clone)]
pub(crate) enum Activity {
    /// A kernel, with bytes of static and dynamic shared memory.
    Kernel { kernel: Arc<Kernel>, grid: [u32; 3], block: [u32; 3], shared: [u32; 2] },
    /// A copy, with the kinds of memory of source and target.
    Copy { kind: u8, ends: [u8; 2], bytes: u64 },
    /// A fill.
    Fill { value: u32, bytes: u64 },
}

impl Activity {
    fn kind(&self) -> u32 {
        match self {
            Self::Kernel { .. } => kind::CONCURRENT_KERNEL,
            Self::Copy { .. } => kind::MEMCPY,
            Self::Fill { .. } => kind::MEMSET,
        }
    }
}

/// Something that was recorded.
pub(crate) enum Entry {
    /// Work, by the number of its call; times in nanoseconds since 1970.
    Done { activity: Activity, correlation: u32, stream: u32, begin: u64, end: u64 },
    /// The call of this number has a number of the program's.
    Named { correlation: u32, kind: u32, id: u64 },
}

/// Kinds that are wanted, a bit for each.
static WANTED: Mutex<u64> = Mutex::new(0);
/// Whether any work is wanted.
static RECORDING: AtomicU32 = AtomicU32::new(0);
static ENTRIES: Mutex<Vec<Entry>> = Mutex::new(Vec::new());
static NEXT: AtomicU32 = AtomicU32::new(1);

const OF_WORK: u64 = 1 << kind::CONCURRENT_KERNEL | 1 << kind::MEMCPY | 1 << kind::MEMSET;

/// Kinds that may be wanted beside work: NVIDIA's CUPTI names calls only where it records them. Here they cost nothing.
const BESIDE: u64 = 1 << kind::EXTERNAL_CORRELATION | 1 << kind::DRIVER;

thread_local! {
    /// The number of this thread's present call; 0: it has none yet.
    static CALL: Cell<u32> = const { Cell::new(0) };
    static EXTERNAL: RefCell<Vec<(u32, u64)>> = const { RefCell::new(Vec::new()) };
}

/// Wants a kind, or does not any more. `false`: there is no such kind.
pub(crate) fn want(kind: u32, is_wanted: bool) -> bool {
    let bit = 1_u64.checked_shl(kind).unwrap_or_default() & (OF_WORK | BESIDE);
    let mut wanted = floe_lock::lock(&WANTED);
    *wanted = if is_wanted { *wanted | bit } else { *wanted & !bit };
    RECORDING.store((*wanted & OF_WORK != 0).into(), Ordering::Relaxed);
    bit != 0
}

pub(crate) fn is_recording() -> bool {
    RECORDING.load(Ordering::Relaxed) != 0
}

/// A call of the program begins on this thread.
pub(crate) fn call_begins() {
    if is_recording() {
        CALL.set(0);
    }
}

/// The calls of this thread have this number of the program's, until it is taken away.
pub(crate) fn push(kind: u32, id: u64) -> bool {
    EXTERNAL.with_borrow_mut(|all| {
        let fits = all.len() < MOST_EXTERNAL;
        if fits {
            all.push((kind, id));
        }
        fits
    })
}

/// Takes the last number of that kind away.
pub(crate) fn pop(kind: u32) -> Option<u64> {
    EXTERNAL.with_borrow_mut(|all| {
        let last = all.iter().rposition(|(of, _)| *of == kind)?;
        Some(all.remove(last).1)
    })
}

/// All that was recorded since the last time.
pub(crate) fn take() -> Vec<Entry> {
    std::mem::take(&mut floe_lock::lock(&ENTRIES))
}

fn keep(entry: Entry) {
    let mut entries = floe_lock::lock(&ENTRIES);
    if entries.len() < MOST {
        entries.push(entry);
    }
}

/// Nanoseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// The number of this thread's present call. The program's numbers for it are noted with the first work it queues.
fn correlation() -> u32 {
    let known = CALL.get();
    if known != 0 {
        return known;
    }
    let new = NEXT.fetch_add(1, Ordering::Relaxed).max(1);
    CALL.set(new);
    EXTERNAL.with_borrow(|all| {
        for kind in 0..floe_cupti::EXTERNAL_KINDS {
            if let Some((_, id)) = all.iter().rfind(|(of, _)| *of == kind) {
                keep(Entry::Named { correlation: new, kind, id: *id });
            }
        }
    });
    new
}

/// Work that is queued.
pub(crate) struct Recording {
    activity: Activity,
    correlation: u32,
    stream: u32,
}

impl Recording {
    /// Of this thread's present call; `None` where its kind is not wanted.
    pub(crate) fn of(activity: Activity, stream: u64) -> Option<Self> {
        let is_wanted = *floe_lock::lock(&WANTED) >> activity.kind() & 1 != 0;
        let stream = u32::try_from(stream).unwrap_or(u32::MAX);
        is_wanted.then(|| Self { activity, correlation: correlation(), stream })
    }

    /// It begins.
    pub(crate) fn begin(self) -> Running {
        Running { recording: self, begin: now() }
    }
}

/// Work that runs.
pub(crate) struct Running {
    recording: Recording,
    begin: u64,
}

impl Running {
    /// It is over.
    pub(crate) fn end(self) {
        let Self { recording: Recording { activity, correlation, stream }, begin } = self;
        // The clock may have been set back.
        keep(Entry::Done { activity, correlation, stream, begin, end: now().max(begin) });
    }
}
