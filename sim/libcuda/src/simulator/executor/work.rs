//! Work of streams, one item at a time, and the kind of thread that runs each item.
//! Calls of the program come in, work for the executor goes out. Nothing here waits or knows a stream.

use std::sync::Arc;

use floe_abi::CudaResult;
use floe_cupti::{copy_kind, memory_kind};
use floe_machine::Grid;
use floe_surface::HostFunction;

use super::branch::{Branch, Round};
use super::events::EventKey;
use super::output::Output;
use super::queue::StreamKey;
use super::transfer::{Copy, End, Transfer};
use super::words::Words;
use crate::simulator::activities::{self, Activity, Recording};
use crate::simulator::addresses::ADDRESSES;

/// Transfers up to this many bytes run on the thread that finds them ready: passing them on costs more.
const INLINE_BYTES: u64 = 64 << 10;

/// The status for the program's callback: success, or the error that broke the context.
pub(crate) type HostCall = Box<dyn FnOnce(CudaResult<()>) + Send>;

/// One piece of work of a stream.
pub(crate) enum Work {
    /// Only its place in the order matters.
    Nothing,
    /// An event happens.
    Record(EventKey),
    /// Copies and memsets.
    Transfer(Transfer),
    /// Writes of words of memory and waits for them.
    Words(Words),
    /// A kernel.
    Kernel(Arc<Grid>),
    /// Something of ours that is quick and calls nobody: a free in stream order.
    Release(Box<dyn FnOnce() + Send>),
    /// A function of the program.
    Host(HostCall),
    /// Scripts of which a value chooses one.
    Branch(Arc<Branch>),
    /// One of them has been run.
    RoundOver(Box<Round>),
    /// A kernel or a transfer, of which somebody wants to know when it ran.
    Recorded(Box<Recorded>),
}

/// Work with what is to be said of it.
pub(crate) struct Recorded {
    pub(super) work: Work,
    pub(super) recording: Recording,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ThreadKind {
    Here,
    TransferThread,
    HostThread,
    LoopThread,
}

fn memory_kind(end: &End) -> u8 {
    match end {
        End::Device(at) if ADDRESSES.contains(at) => memory_kind::DEVICE,
        // Pinned memory that kernels reach, too. Whoever waits for pinned memory only in stream order has pinned it.
        End::Device(_) | End::Host(_) => memory_kind::PINNED,
        End::Bytes(_) => memory_kind::PAGEABLE,
    }
}

fn copy_kind(copy: &Copy) -> u8 {
    let is_devices = |end| memory_kind(end) == memory_kind::DEVICE;
    match (is_devices(&copy.target.end), is_devices(&copy.source.end)) {
        (true, true) => copy_kind::DEVICE_TO_DEVICE,
        (true, false) => copy_kind::HOST_TO_DEVICE,
        (false, true) => copy_kind::DEVICE_TO_HOST,
        (false, false) => copy_kind::HOST_TO_HOST,
    }
}

impl Work {
    /// The same, to be recorded where somebody wants that.
    pub(super) fn recorded(self, stream: StreamKey) -> Self {
        let Some(kind) = self.activity().filter(|_| activities::is_recording()) else { return self };
        match Recording::of(kind, stream.0) {
            Some(recording) => Self::Recorded(Box::new(Recorded { work: self, recording })),
            None => self,
        }
    }

    fn activity(&self) -> Option<Activity> {
        match self {
            Self::Kernel(grid) => {
                let launch = grid.launch();
                let (name, shared) = (Arc::clone(&launch.kernel), [launch.kernel.static_shared, launch.dynamic_shared]);
                Some(Activity::Kernel { kernel: name, grid: launch.grid, block: launch.block, shared })
            }
            Self::Transfer(transfer) => Some(match transfer {
                Transfer::Copy(copy) => Activity::Copy {
                    kind: copy_kind(copy),
                    ends: [&copy.source.end, &copy.target.end].map(memory_kind),
                    bytes: transfer.bytes(),
                },
                Transfer::Fill(fill) => Activity::Fill { value: fill.value, bytes: transfer.bytes() },
            }),
            _ => None,
        }
    }

    /// A call of the program's function. As in CUDA what kernels printed before comes first, and after a fault the
    /// function is not called.
    pub(crate) fn host_function(function: HostFunction, output: &Arc<Output>) -> Self {
        let output = Arc::clone(output);
        Self::Host(Box::new(move |status| {
            output.drain();
            if status.is_ok() {
                function.call();
            }
        }))
    }

    pub(super) fn thread_kind(&self) -> ThreadKind {
        match self {
            Self::Transfer(transfer) if transfer.bytes() > INLINE_BYTES => ThreadKind::TransferThread,
            Self::Host(_) => ThreadKind::HostThread,
            Self::Recorded(recorded) => recorded.work.thread_kind(),
            // A loop may be endless, and whoever is here may have something else to do.
            Self::RoundOver(round) if round.may_repeat() => ThreadKind::LoopThread,
            _ => ThreadKind::Here,
        }
    }
}
