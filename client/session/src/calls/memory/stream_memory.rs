//! Writes of single words in stream order and waits for them, on streams and in graphs. Batches come in; each is one post or
//! one node, and the server's stream waits, not the program. Words are of the vGPU or of pinned memory that its kernels
//! reach. While a stream waits for such a word, a thread sends the program's writes there, since nobody calls CUDA
//! meanwhile.

use std::sync::Arc;

use floe_abi::{
    CudaError, CudaResult, DevicePtr, MOST_STREAM_MEMORY_OPERATIONS, Stream, StreamMemoryOperation, WordOperation,
    WordTest, device_attribute,
};
use floe_surface::StreamMemoryCalls;
use floe_surface::graph::{WordsWork, Work};
use floe_wire::{MemoryOperation, MemoryOperations, Message};

use crate::client::Client;
use crate::log::log;
use crate::lookup::Lookup;
use crate::memory::mirroring::Reach;
use crate::objects::stream::StreamState;
use crate::vgpu::Vgpu;
use crate::vgpu::connection::HostWork;

/// The words that streams wait for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waits {
    /// Whether for anything.
    any: bool,
    /// Whether for a word of host memory of which the worker has a copy.
    of_host: bool,
    /// Whether for a word of host memory that the worker shares: it sees what the program writes there at once.
    of_shared: bool,
    /// Whether streams also write words of memory that the worker shares: the program sees these at once.
    shows: bool,
}

impl Waits {
    /// The same with what other work waits for.
    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            any: self.any || other.any,
            of_host: self.of_host || other.of_host,
            of_shared: self.of_shared || other.of_shared,
            shows: self.shows || other.shows,
        }
    }
}

impl Vgpu {
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
    /// The operation as it travels, and what it waits for.
    fn checked_operation(
        &self,
        operation: &StreamMemoryOperation,
        vgpu: &Arc<Vgpu>,
    ) -> CudaResult<(MemoryOperation, Waits)> {
        let word = operation.word()?;
        vgpu.check_ability(&word)?;
        let message =
            |at: DevicePtr, value, flags| MemoryOperation { operation: operation.operation, at, value, flags };
        Ok(match word {
            WordOperation::Write { at, bytes, value } => {
                let (at, reach) = self.check_word(at, bytes, vgpu)?;
                let shows = reach == Some(Reach::Shared);
                (message(at, value, operation.flags), Waits { shows, ..Waits::default() })
            }
            WordOperation::Wait { at, bytes, value, .. } => {
                let (at, reach) = self.check_word(at, bytes, vgpu)?;
                let [of_host, of_shared] = [Reach::Mirrored, Reach::Shared].map(|its| reach == Some(its));
                if of_host {
                    vgpu.mirrors.add_word(at.0, bytes as usize);
                }
                (message(at, value, operation.flags), Waits { any: true, of_host, of_shared, ..Waits::default() })
            }
            WordOperation::Flush | WordOperation::Barrier => {
                (message(DevicePtr(0), 0, operation.barrier_flags), Waits::default())
            }
        })
    }

    /// The device's address of a word that is there, and how the device reaches it where it is the program's.
    fn check_word(&self, at: DevicePtr, bytes: u32, vgpu: &Arc<Vgpu>) -> CudaResult<(DevicePtr, Option<Reach>)> {
        match self.lookup_device(at, u64::from(bytes), vgpu)? {
            Lookup::Host(host) => match host.pinned().and_then(|pinned| vgpu.make_reachable(pinned)) {
                Some(reach) => Ok((vgpu.device_place(&host.range), Some(reach))),
                None => {
                    log!(Warn, "cuStreamBatchMemOp: the device cannot reach pinned memory at {:#x}", at.0);
                    Err(CudaError::NOT_SUPPORTED)
                }
            },
            Lookup::Device(memory) if !Arc::ptr_eq(memory.vgpu, vgpu) => {
                log!(Warn, "cuStreamBatchMemOp: words of another device are not supported: {:#x}", at.0);
                Err(CudaError::NOT_SUPPORTED)
            }
            Lookup::Device(memory) if memory.is_managed => {
                log!(Warn, "cuStreamBatchMemOp: CUDA has no waits and writes of managed memory: {:#x}", at.0);
                Err(CudaError::INVALID_VALUE)
            }
            Lookup::Device(_) => Ok((at, None)),
        }
    }

    /// The operations as they travel, and what the stream waits for with them.
    pub(crate) fn checked_operations(
        &self,
        operations: &[StreamMemoryOperation],
        vgpu: &Arc<Vgpu>,
    ) -> CudaResult<(Vec<MemoryOperation>, Waits)> {
        let (mut checked, mut waits) = (Vec::with_capacity(operations.len()), Waits::default());
        for operation in operations {
            let (message, its) = self.checked_operation(operation, vgpu)?;
            waits = waits.with(its);
            checked.push(message);
        }
        Ok((checked, waits))
    }

    /// Posts work with operations on words to its stream.
    pub(crate) fn post_words(stream: &StreamState, message: &impl Message, waits: Waits) -> CudaResult<()> {
        let vgpu = &stream.vgpu;
        if waits.shows && (vgpu.connection.delivers() || vgpu.mirrors.any()) {
            // What comes by messages of the work before is in this process when the program sees the word.
            vgpu.host_function(stream.progress(), HostWork::Own(Box::new(|| {})))?;
        }
        // The program may have written between the last look and the mirror's making.
        vgpu.send_mirrors()?;
        // As with host functions.
        let held = vgpu.far.hold();
        let sequence = vgpu.connection.post(message)?;
        stream.progress().issue(sequence);
        if waits.any {
            vgpu.watched.stands(stream.progress(), sequence);
        }
        drop(held);
        // The server says by itself when a wait is over.
        vgpu.connection.watch();
        if waits.of_shared && vgpu.mirrors.any() {
            Self::send_mirrors_behind(stream)?;
        }
        if waits.of_host { vgpu.watch_mirrors(stream.progress(), sequence) } else { Ok(()) }
    }

    /// Has the stream go on when what the program has written to mirrored memory is sent: it may have let the stream go by a word
    /// that the worker shares, and sees ahead of that.
    fn send_mirrors_behind(stream: &StreamState) -> CudaResult<()> {
        let vgpu = Arc::downgrade(&stream.vgpu);
        let send = move || {
            // A link that has failed needs nothing.
            let _ = vgpu.upgrade().map(|vgpu| vgpu.send_mirrors());
        };
        stream.vgpu.host_function(stream.progress(), HostWork::Own(Box::new(send)))
    }
}

impl StreamMemoryCalls for Client {
    fn stream_batch_mem_op(&self, stream: Stream, operations: &[StreamMemoryOperation], flags: u32) -> CudaResult<()> {
        if flags != 0 || operations.len() > MOST_STREAM_MEMORY_OPERATIONS {
            return Err(CudaError::INVALID_VALUE);
        }
        if let Some(captured) = self.capturing(stream)? {
            self.checked_operations(operations, &captured.vgpu)?;
            return self.record_work(&captured, Work::Words(WordsWork::new(operations, captured.context())));
        }
        let stream = self.working_stream(stream)?;
        // CUDA takes none for done.
        if operations.is_empty() {
            return Ok(());
        }
        let (operations, waits) = self.checked_operations(operations, &stream.vgpu)?;
        Self::post_words(&stream, &MemoryOperations { stream: stream.id(), operations }, waits)
    }
}
