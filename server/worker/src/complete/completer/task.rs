//! The completer's tasks.
//! In: a command, the completion events it waits for, the action. Out: the same, and how the work before the completion events ended.
//! It carries no action out.

use std::sync::Arc;

use floe_abi::{CudaError, CudaResult};
use floe_device::Device;
use floe_wire::{FunctionId, StreamId};

use crate::complete::events::CompletionEvent;
use crate::issue::objects::signals::Signals;
use crate::memory::shared_pages::SharedPages;
use crate::memory::transfer_buffers::DownloadRange;
use crate::peer::link::waits::Wait;
use crate::peer::link::{PeerLink, Way};
use crate::peer::page::Page;

/// Something to do when the GPU has come so far.
pub(crate) struct Task<D: Device> {
    /// The command it belongs to.
    pub(crate) sequence: u64,
    /// Tasks of one lane complete in order.
    pub(crate) lane: Lane,
    /// The events that must have completed.
    pub(crate) completions: Vec<Arc<CompletionEvent<D>>>,
    pub(crate) action: Action<D>,
}

impl<D: Device> Task<D> {
    /// The frame of its stream that a report is about.
    pub(crate) fn reported(&self) -> Option<u64> {
        if let Action::Report { reached, .. } = self.action { Some(reached) } else { None }
    }

    /// `None`: not yet. Otherwise the first failure of its completion events, as `ask` has their outcomes, or success.
    pub(crate) fn outcome(
        &self,
        ask: impl Fn(&Arc<CompletionEvent<D>>) -> Option<CudaResult<()>>,
    ) -> Option<CudaResult<()>> {
        self.completions.iter().map(ask).try_fold(Ok(()), |whole, one| one.map(|one| whole.and(one)))
    }
}

/// Tasks of one lane complete in the order in which they were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// Work of one stream, by the client's id.
    Stream(u64),
    /// How far one stream, by the client's id, has come: in its order, in whichever it is asked for.
    Reports(u64),
    /// Work of several streams or of an event: nothing is in order with it. The number is the command's.
    Alone(u64),
}

/// The completer's action once the work is complete.
pub(crate) enum Action<D: Device> {
    /// Send a piece of a copy; `offset` is its place in the whole.
    Deliver { range: DownloadRange<D>, offset: u64 },
    /// Answer the request; `failed` is an error known before the work was even recorded.
    Reply { failed: Option<CudaError> },
    /// Answer the request with this, which says that the work is complete.
    Answer(Vec<u8>),
    /// Give shared memory up, then answer the request.
    Release { pages: SharedPages<D::Mapped>, failed: Option<CudaError> },
    /// Raise a word that other sessions may wait for.
    Raise { page: Arc<Page<D::Mapped>>, word: u32, value: u64 },
    /// A stream has got to a transfer of a peer link.
    BeginTransfer { link: Arc<PeerLink<D>>, transfer: u64, way: Way },
    /// A stream has gone on behind a transfer; say so.
    TransferPassed { stream: StreamId, reached: u64, wait: Arc<Wait<D::Mapped>> },
    /// Say that a transfer failed that never began.
    TransferFails { stream: StreamId, reached: u64 },
    /// Let a page of words go.
    DropPage(Signals<D::Mapped>),
    /// Have the client run a host function.
    RunHostFunction(FunctionId),
    /// Say that a stream has come as far as this frame.
    Report { stream: StreamId, reached: u64 },
    /// The same behind operations on words of memory; some of them may have been waits.
    WordsDone { stream: StreamId, reached: u64, waits: bool },
}
