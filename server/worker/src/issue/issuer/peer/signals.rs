//! Pages of words that streams wait for and the completer raises.
//! In: the client's ids, words, values. Out: host memory that the device reaches, waits in streams, tasks for the completer.
//! No thread waits for a word: a stream does, or the client reads.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use floe_abi::{CudaError, StreamMemoryOperation, stream_memory_operation, stream_wait_value};
use floe_device::Device;
use floe_ring::{demand_memory, sealed_memory};
use floe_wire::{AwaitSignal, RaiseSignal, ReadSignals, ReadSignalsReply, RecordSignal, RecordSignalReply, SignalsId};

use crate::complete::completer::{Action, Lane, Task};
use crate::complete::events::CompletionEvent;
use crate::daemon::peer_notices::Returned;
use crate::issue::fault::{Fault, violation};
use crate::issue::issuer::stream_memory::WordWork;
use crate::issue::issuer::{Answer, Issuer, body};
use crate::issue::objects::signals::Signals;
use crate::peer::page::{PAGE_BYTES, Page, VALUES, WORDS};
use crate::sandbox::is_scarce;

impl<D: Device> Issuer<D> {
    /// A new page of the session's own.
    pub(crate) fn make_signals(&mut self, id: SignalsId) -> Result<Answer, Fault> {
        self.signals.check_new(id.0)?;
        let none = |error| Fault::Explained(CudaError::OUT_OF_MEMORY, format!("no memory for a signal page: {error}"));
        let file = sealed_memory("floe-signals", PAGE_BYTES as u64).map_err(none)?;
        if is_scarce(&file) {
            let words = "no memory for a signal page: few descriptors are left";
            return Err(Fault::Explained(CudaError::OUT_OF_MEMORY, words.into()));
        }
        self.map_signals(id, file, None)
    }

    /// Maps a page; `imported`: as another session's.
    pub(crate) fn map_signals(
        &mut self,
        id: SignalsId,
        file: OwnedFd,
        imported: Option<Returned>,
    ) -> Result<Answer, Fault> {
        if let Err(error) = demand_memory(&file, PAGE_BYTES as u64) {
            return Err(Fault::Explained(CudaError::INVALID_HANDLE, format!("no signal page: {error}")));
        }
        let Some(place) = self.shared.hub.places.take() else {
            return Err(Fault::Explained(CudaError::OUT_OF_MEMORY, "the session has its most signal pages".into()));
        };
        let memory = self.device().share_words(file.as_fd(), place.at(), PAGE_BYTES).map_err(|error| {
            let words = format!("the device does not take a signal page at {:#x}: {error}", place.at().0);
            Fault::Explained(error, words)
        })?;
        // One that another session made is not exported again.
        let page = Page::new(Some(file).filter(|_| imported.is_none()), memory, place);
        self.shared.hub.add_page(id.0, &page, imported.map(|its| its.session));
        self.signals.bind(id.0, Ok(Signals { page, imported }));
        body(&())
    }

    /// The page goes when the work that may name it has completed, which is not waited for here.
    pub(crate) fn give_signals_up(&mut self, id: SignalsId) -> Result<Answer, Fault> {
        let sequence = self.sequence;
        let Some(signals) = self.signals.remove(id.0)? else { return Ok(Answer::Nothing) };
        if signals.imported.is_none() {
            self.shared.hub.end_page(id.0);
        }
        // On a context beyond use there is no work left that names it.
        let completions = self.record_everything().unwrap_or_default();
        self.tasks.add(Task { sequence, lane: Lane::Alone(sequence), completions, action: Action::DropPage(signals) });
        Ok(Answer::Nothing)
    }

    /// Lets every page go; no work that names one is left.
    pub(crate) fn drop_all_signals(&mut self) {
        for id in self.signals.ids() {
            self.shared.hub.end_page(id);
        }
        for signals in self.signals.drain() {
            self.shared.hub.let_page_go(signals);
        }
    }

    /// Has a word raised when an event or a stream gets there, or fails.
    pub(crate) fn raise(&mut self, message: &RaiseSignal) -> Result<Answer, Fault> {
        let RaiseSignal { signals, word, value, event, stream } = *message;
        let page = self.page(signals)?;
        demand_words(word, 1)?;
        demand_value(value)?;
        let reached = if event.0 == 0 {
            let stream = self.stream(stream)?;
            self.pool.record(stream).map_err(Fault::from)
        } else {
            self.events.get(event.0).and_then(|event| Ok(Arc::clone(&event.recorded()?.completion)))
        };
        self.raise_after(page, word, value, reached)?;
        Ok(Answer::Nothing)
    }

    /// Raises a word now where there is nothing to wait for because it has failed.
    fn raise_after(
        &self,
        page: Arc<Page<D::Mapped>>,
        word: u32,
        value: u64,
        reached: Result<Arc<CompletionEvent<D>>, Fault>,
    ) -> Result<(), Fault> {
        let sequence = self.sequence;
        let (completions, failed) = match reached {
            Ok(completion) => (vec![completion], None),
            Err(Fault::ProtocolViolation(words)) => return violation(words),
            Err(fault) => (Vec::new(), Some(fault)),
        };
        let action = Action::Raise { page, word, value };
        self.tasks.add(Task { sequence, lane: Lane::Alone(sequence), completions, action });
        failed.map_or(Ok(()), Err)
    }

    /// Has a stream wait for a word.
    pub(crate) fn stand_at(&mut self, message: &AwaitSignal) -> Result<Answer, Fault> {
        let AwaitSignal { stream: id, signals, word, value } = *message;
        let sequence = self.sequence;
        let page = self.page(signals)?;
        demand_words(word, 1)?;
        demand_value(value)?;
        let stream = self.use_stream(id)?;
        let (operation, flags) = (stream_memory_operation::WAIT_VALUE_64, stream_wait_value::GEQ);
        let operation = StreamMemoryOperation::on_word(operation, page.word(word), value, flags);
        let words = [operation.word()?];
        let place = WordWork { sequence, id, stream };
        self.issue_words(place, words.iter(), |device| device.memory_operations(stream, &[operation]))
    }

    /// Counts a record at once, and its completion when the stream gets there.
    pub(crate) fn record_shared(&mut self, message: &RecordSignal) -> Result<Answer, Fault> {
        let RecordSignal { signals, recorded, stream } = *message;
        let page = self.page(signals)?;
        demand_words(recorded, 2)?;
        let stream = self.stream(stream)?;
        let reached = self.pool.record(stream)?;
        let count = page.add(recorded, 1);
        self.raise_after(page, recorded + 1, count, Ok(reached))?;
        body(&RecordSignalReply { count })
    }

    pub(crate) fn read_words(&mut self, message: &ReadSignals) -> Result<Answer, Fault> {
        let ReadSignals { signals, first, count } = *message;
        let page = self.page(signals)?;
        demand_words(first, count)?;
        body(&ReadSignalsReply { words: (first..first + count).map(|word| page.add(word, 0)).collect() })
    }

    fn page(&self, id: SignalsId) -> Result<Arc<Page<D::Mapped>>, Fault> {
        self.signals.get(id.0).map(|signals| Arc::clone(&signals.page))
    }
}

fn demand_words(first: u32, count: u32) -> Result<(), Fault> {
    match first.checked_add(count) {
        Some(end) if end <= WORDS => Ok(()),
        _ => violation(format!("{count} words from {first} on of a signal page of: {WORDS}")),
    }
}

fn demand_value(value: u64) -> Result<(), Fault> {
    if value < VALUES { Ok(()) } else { violation(format!("no value of a signal: {value:#x}")) }
}
