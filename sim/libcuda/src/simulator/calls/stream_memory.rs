//! Writes of single words in stream order and waits for them: a batch of the program's comes in, checked work for the
//! stream goes out. Words are of a device or of pinned host memory.
//! A call does not wait; the stream does, and no other notices.

use floe_abi::{
    Context, CudaError, CudaResult, MOST_STREAM_MEMORY_OPERATIONS, Stream, StreamMemoryOperation, WordOperation,
};
use floe_surface::StreamMemoryCalls;
use floe_surface::graph::{WordsWork, Work as NodeWork};

use crate::simulator::Simulator;
use crate::simulator::executor::Work;
use crate::simulator::executor::words::Words;

impl Simulator {
    /// The request of an operation on a mapped word.
    fn checked_word(&self, operation: &StreamMemoryOperation) -> CudaResult<WordOperation> {
        let word = operation.word()?;
        match word {
            WordOperation::Write { at, bytes, .. } | WordOperation::Wait { at, bytes, flush: false, .. } => {
                let pinned = !self.is_device_address(at.0) && self.host_memory.part(at.0, bytes as usize).is_some();
                if !pinned {
                    self.check_device_range(at.0, bytes.into())?;
                }
            }
            // CAN_FLUSH_REMOTE_WRITES is 0.
            WordOperation::Flush | WordOperation::Wait { flush: true, .. } => return Err(CudaError::NOT_SUPPORTED),
            WordOperation::Barrier => {}
        }
        Ok(word)
    }

    /// The requests of operations on mapped words.
    pub(crate) fn checked_words(&self, operations: &[StreamMemoryOperation]) -> CudaResult<Words> {
        operations.iter().map(|operation| self.checked_word(operation)).collect::<CudaResult<Vec<_>>>().map(Words::new)
    }
}

impl StreamMemoryCalls for Simulator {
    fn stream_batch_mem_op(&self, stream: Stream, operations: &[StreamMemoryOperation], flags: u32) -> CudaResult<()> {
        let (context, key) = self.stream(stream)?;
        self.executor.fault(context.serial)?;
        if flags != 0 || operations.len() > MOST_STREAM_MEMORY_OPERATIONS {
            return Err(CudaError::INVALID_VALUE);
        }
        let words = self.checked_words(operations)?;
        if let Some(captured) = self.capturing(stream)? {
            let work = WordsWork::new(operations, Context(context.handle));
            return self.graphs.record(&captured, NodeWork::Words(work));
        }
        self.executor.post(key, Work::Words(words)).map(|_| ())
    }
}
