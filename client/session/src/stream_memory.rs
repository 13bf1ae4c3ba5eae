//! Writes of single words in stream order and waits for them, on streams and in graphs. Batches come in; each is one post or
//! one node, and the server's stream waits, not the program. Words are of the vGPU or of pinned memory its kernels reach:
//! while a stream waits for such a word, a thread sends what the program writes there, since nobody calls CUDA meanwhile.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use floe_abi::{
    CudaError, CudaResult, DevicePtr, MOST_STREAM_MEMORY_OPERATIONS, Stream, StreamMemoryOperation, WordOperation,
    WordTest, device_attribute, stream_memory_operation as kind,
};
use floe_surface::StreamMemoryCalls;
use floe_surface::graph::{WordsWork, Work};
use floe_wire::{MemoryOperation, MemoryOperations, Message};

use crate::client::Client;
use crate::log::log;
use crate::order::Course;
use crate::session::Session;
use crate::stream::StreamState;
use crate::table::lock;

/// How soon mirrored memory is looked at again after a wait for a word of it was queued.
const SOON: Duration = Duration::from_micros(50);
/// How seldom it is looked at in the end: what a release by the program alone may be late.
const LATE: Duration = Duration::from_millis(1);

/// Waits for words of mirrored memory that are not known to be over: the stream and the frame.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    waits: Mutex<Vec<(Arc<Course>, u64)>>,
    /// Waits for words wherever they are that are not known to be over.
    standing: Mutex<Vec<(Arc<Course>, u64)>>,
}

/// What work on words waits for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waits {
    /// Whether for anything.
    any: bool,
    /// Whether for a word of host memory.
    of_host: bool,
}

impl Waits {
    /// The same with what other work waits for.
    pub(crate) fn with(self, other: Self) -> Self {
        Self { any: self.any || other.any, of_host: self.of_host || other.of_host }
    }
}

impl Watched {
    /// A stream stands at a wait from this frame on.
    fn stands(&self, course: &Arc<Course>, sequence: u64) {
        self.any_stand();
        lock(&self.standing).push((Arc::clone(course), sequence));
    }

    /// Whether a stream may stand at a wait for a word.
    pub(crate) fn any_stand(&self) -> bool {
        let mut standing = lock(&self.standing);
        standing.retain(|(course, sequence)| course.completed() < *sequence);
        !standing.is_empty()
    }

    /// Forgets the waits that are over; whether there are others.
    pub(crate) fn any_left(&self) -> bool {
        let mut waits = lock(&self.waits);
        waits.retain(|(course, sequence)| course.completed() < *sequence);
        !waits.is_empty()
    }
}

impl Session {
    /// Sends what the program writes to mirrored memory until the wait of this frame is over.
    fn watch_mirrors(self: &Arc<Self>, course: &Arc<Course>, sequence: u64) -> CudaResult<()> {
        let mut waits = lock(&self.watched.waits);
        waits.push((Arc::clone(course), sequence));
        if waits.len() > 1 {
            // The thread runs: it ends only when it finds none.
            return Ok(());
        }
        let session = Arc::clone(self);
        let spawned = std::thread::Builder::new().name("floe-words".into()).spawn(move || session.keep_mirrors());
        spawned.map(drop).map_err(|error| {
            waits.clear();
            log!(Warn, "cuStreamWaitValue: no thread to watch host memory: {error}");
            CudaError::OPERATING_SYSTEM
        })
    }

    fn keep_mirrors(&self) {
        let mut pause = SOON;
        while self.watched.any_left() {
            std::thread::sleep(pause);
            pause = LATE.min(pause * 2);
            // Where nothing has changed, nothing is sent that could fail.
            if self.send_mirrors().is_err() || self.errors.is_lost() {
                // The link is over, and so are all waits.
                lock(&self.watched.waits).clear();
            }
        }
    }

    fn has(&self, attribute: u32) -> bool {
        self.snapshot.attribute(attribute).is_some_and(|has| has != 0)
    }

    /// Whether the device does this to a word.
    fn check_ability(&self, operation: &WordOperation) -> CudaResult<()> {
        use device_attribute::{CAN_FLUSH_REMOTE_WRITES, CAN_USE_64_BIT_STREAM_MEM_OPS, CAN_USE_STREAM_WAIT_VALUE_NOR};
        let (bytes, nor, flushes) = match *operation {
            WordOperation::Write { bytes, .. } => (bytes, false, false),
            WordOperation::Wait { bytes, test, flush, .. } => (bytes, test == WordTest::Nor, flush),
            WordOperation::Flush => (4, false, true),
            WordOperation::Barrier => (4, false, false),
        };
        let able = (bytes == 4 || self.has(CAN_USE_64_BIT_STREAM_MEM_OPS))
            && (!nor || self.has(CAN_USE_STREAM_WAIT_VALUE_NOR))
            && (!flushes || self.has(CAN_FLUSH_REMOTE_WRITES));
        if able { Ok(()) } else { Err(CudaError::NOT_SUPPORTED) }
    }
}

impl Client {
    /// The operation as it travels, and whether it waits for a word of host memory.
    fn checked_operation(
        &self,
        operation: &StreamMemoryOperation,
        session: &Arc<Session>,
    ) -> CudaResult<(MemoryOperation, bool)> {
        let word = operation.word()?;
        session.check_ability(&word)?;
        let message = |at: DevicePtr, value, flags| MemoryOperation {
            operation: operation.operation,
            at: floe_wire::DevicePtr(at.0),
            value,
            flags,
        };
        Ok(match word {
            WordOperation::Write { at, bytes, value } => {
                self.check_word(at, bytes, session)?;
                (message(at, value, operation.flags), false)
            }
            WordOperation::Wait { at, bytes, value, .. } => {
                (message(at, value, operation.flags), self.check_word(at, bytes, session)?)
            }
            WordOperation::Flush | WordOperation::Barrier => (message(DevicePtr(0), 0, operation.barrier_flags), false),
        })
    }

    /// Whether a word that is there is host memory.
    fn check_word(&self, at: DevicePtr, bytes: u32, session: &Arc<Session>) -> CudaResult<bool> {
        let bytes = u64::from(bytes);
        if session.mirrors.covers(at.0, bytes) {
            return Ok(true);
        }
        if self.reaches_shared(at, bytes, session) {
            // The device's own to look at: nothing is to be sent.
            return Ok(false);
        }
        if session.managed.has(at.0) {
            log!(Warn, "cuStreamBatchMemOp: CUDA has no waits and writes of managed memory: {:#x}", at.0);
            return Err(CudaError::INVALID_VALUE);
        }
        let of_device = self.owner(at, Some(session)).is_some();
        if !of_device && self.host_memory.range(at.0, bytes).is_some() {
            if self.mirror_pinned(at, session) {
                return Ok(true);
            }
            log!(Warn, "cuStreamBatchMemOp: the device cannot reach pinned memory at {:#x}", at.0);
            return Err(CudaError::NOT_SUPPORTED);
        }
        if !self.device_memory(at, bytes, session)?.is_on(session) {
            log!(Warn, "cuStreamBatchMemOp: words of another device are not supported: {:#x}", at.0);
            return Err(CudaError::NOT_SUPPORTED);
        }
        Ok(false)
    }

    /// The operations as they travel, and what the stream waits for with them.
    pub(crate) fn checked_operations(
        &self,
        operations: &[StreamMemoryOperation],
        session: &Arc<Session>,
    ) -> CudaResult<(Vec<MemoryOperation>, Waits)> {
        let (mut checked, mut waits) = (Vec::with_capacity(operations.len()), Waits::default());
        for operation in operations {
            let (message, of_host) = self.checked_operation(operation, session)?;
            waits.any |= matches!(message.operation, kind::WAIT_VALUE_32 | kind::WAIT_VALUE_64);
            waits.of_host |= of_host;
            checked.push(message);
        }
        Ok((checked, waits))
    }

    /// Posts work with operations on words to its stream.
    pub(crate) fn post_words(stream: &StreamState, message: &impl Message, waits: Waits) -> CudaResult<()> {
        let session = &stream.session;
        // The program may have written between the last look and the mirror's making.
        session.send_mirrors()?;
        let sequence = session.connection.post(message)?;
        stream.course().issue(sequence);
        if waits.any {
            session.watched.stands(stream.course(), sequence);
        }
        // The server says by itself when a wait is over.
        session.connection.watch();
        if waits.of_host { session.watch_mirrors(stream.course(), sequence) } else { Ok(()) }
    }
}

impl StreamMemoryCalls for Client {
    fn stream_batch_mem_op(&self, stream: Stream, operations: &[StreamMemoryOperation], flags: u32) -> CudaResult<()> {
        if flags != 0 || operations.len() > MOST_STREAM_MEMORY_OPERATIONS {
            return Err(CudaError::INVALID_VALUE);
        }
        if let Some(captured) = self.capturing(stream)? {
            self.checked_operations(operations, &captured.session)?;
            return self.record_work(&captured, Work::Words(WordsWork::new(operations, captured.context())));
        }
        let stream = self.working_stream(stream)?;
        // CUDA takes none for done.
        if operations.is_empty() {
            return Ok(());
        }
        let (operations, waits) = self.checked_operations(operations, &stream.session)?;
        Self::post_words(&stream, &MemoryOperations { stream: stream.id(), operations }, waits)
    }
}
