//! Words of memory that streams write and wait for.
//! In: batches of operations. Out: the same for the driver, in stream order. A wait may last as long as the client
//! likes, and a later command may release it. So the session counts waits: while there is one, nothing stops for room.
//! Addresses are the driver's to judge, as with copies.

use floe_abi::{
    CudaError, MOST_STREAM_MEMORY_OPERATIONS, StreamMemoryOperation, WordOperation, stream_memory_operation,
};
use floe_device::Device;
use floe_wire::{MemoryOperation, MemoryOperations, StreamId, StreamMemoryRequests};

use super::{Answer, Issuer};
use crate::complete::completer::{Action, Lane, Task};
use crate::issue::fault::{Fault, violation};

/// A batch as the driver takes it.
pub(super) struct Batch {
    pub(super) operations: Vec<StreamMemoryOperation>,
    pub(super) words: Vec<WordOperation>,
}

/// The place of work with operations on words: the command, the client's stream and the driver's.
#[derive(Clone, Copy)]
pub(super) struct WordWork {
    pub(super) sequence: u64,
    pub(super) id: StreamId,
    pub(super) stream: floe_abi::Stream,
}

impl<D: Device> StreamMemoryRequests for Issuer<D> {
    fn memory_operations(&mut self, message: &MemoryOperations) -> Result<Answer, Fault> {
        let sequence = self.sequence;
        let batch = Batch::read(&message.operations)?;
        let stream = self.use_stream(message.stream)?;
        let place = WordWork { sequence, id: message.stream, stream };
        self.issue_words(place, batch.words.iter(), |device| device.memory_operations(stream, &batch.operations))
    }
}

impl<D: Device> Issuer<D> {
    /// Issues this work on words of memory. The completer reports its end where the client must know of it.
    pub(super) fn issue_words<'a>(
        &self,
        place: WordWork,
        words: impl Iterator<Item = &'a WordOperation> + Clone,
        issue: impl FnOnce(&D) -> Result<(), CudaError>,
    ) -> Result<Answer, Fault> {
        let waits = words.clone().any(|word| matches!(word, WordOperation::Wait { .. }));
        let mirrored = words.clone().any(|word| self.is_mirrored(word));
        if waits {
            self.shared.queue.wait_begins();
        }
        if mirrored {
            self.shared.mirrors.begin_words(place.sequence, words);
        }
        let issued = issue(self.device()).map_err(Fault::from);
        let told = issued.and_then(|()| self.tell_when_done(place, waits, mirrored));
        if told.is_err() {
            if waits {
                self.shared.queue.wait_ends();
            }
            self.shared.mirrors.forget_words(place.sequence);
        }
        told.map(|()| Answer::Nothing)
    }

    fn tell_when_done(&self, place: WordWork, waits: bool, mirrored: bool) -> Result<(), Fault> {
        if !waits && !mirrored {
            return Ok(());
        }
        let WordWork { sequence, id, stream } = place;
        let completion = self.pool.record(stream)?;
        let action = Action::WordsDone { stream: id, reached: sequence, waits };
        self.tasks.add(Task { sequence, lane: Lane::Alone(sequence), completions: vec![completion], action });
        Ok(())
    }

    fn is_mirrored(&self, word: &WordOperation) -> bool {
        match word {
            WordOperation::Write { at, .. } | WordOperation::Wait { at, .. } => self.shared.mirrors.holds(at.0),
            WordOperation::Flush | WordOperation::Barrier => false,
        }
    }
}

impl Batch {
    pub(super) fn read(operations: &[MemoryOperation]) -> Result<Self, Fault> {
        if operations.is_empty() || operations.len() > MOST_STREAM_MEMORY_OPERATIONS {
            let count = operations.len();
            return violation(format!("operations of a batch are 1 to {MOST_STREAM_MEMORY_OPERATIONS}, not: {count}"));
        }
        let operations: Vec<_> = operations.iter().map(operation).collect();
        let read = |operation: &StreamMemoryOperation| operation.word();
        let words: Result<Vec<_>, CudaError> = operations.iter().map(read).collect();
        match words {
            Ok(words) => Ok(Self { operations, words }),
            Err(_) => violation("an operation on a word of memory that CUDA does not know"),
        }
    }
}

fn operation(message: &MemoryOperation) -> StreamMemoryOperation {
    use stream_memory_operation::{BARRIER, FLUSH_REMOTE_WRITES};
    let MemoryOperation { operation, at, value, flags } = *message;
    if matches!(operation, BARRIER | FLUSH_REMOTE_WRITES) {
        return StreamMemoryOperation { operation, barrier_flags: flags, ..StreamMemoryOperation::default() };
    }
    StreamMemoryOperation::on_word(operation, at, value, flags)
}
