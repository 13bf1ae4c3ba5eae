//! Work of streams, one item at a time, and the kind of thread that runs each item.
//! Calls of the program come in, work for the executor goes out. Nothing here waits or knows a stream.

use std::sync::Arc;

use floe_abi::CudaResult;
use floe_machine::Grid;
use floe_surface::HostFunction;

use super::branch::{Branch, Round};
use super::events::EventKey;
use super::output::Output;
use super::transfer::Transfer;
use super::words::Words;

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
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ThreadKind {
    Here,
    TransferThread,
    HostThread,
    LoopThread,
}

impl Work {
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
            // A loop may be endless, and whoever is here may have something else to do.
            Self::RoundOver(round) if round.may_repeat() => ThreadKind::LoopThread,
            _ => ThreadKind::Here,
        }
    }
}
