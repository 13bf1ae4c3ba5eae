//! Words of memory that streams write and wait for.
//! Plain values and their encoding; they check nothing beyond what the types say.
// Made by `cargo xtask gen` from api/messages; edit the tables, not this file.

#[allow(unused_imports)]
use super::*;
#[allow(unused_imports)]
use crate::{
    ArrayId, BlockId, Call, Class, CommId, DecodeError, DevicePtr, EventId, Field, FunctionId, GraphId, Handler,
    KernelId, LibraryId, Message, PeerLinkId, Reader, SignalsId, StreamId, SurfaceId, TextureId, TicketId,
};

/// Does these operations in stream order, one after the other. A wait holds up its stream only, since the command that releases it may come behind it. The worker reports changes of mirrors when the operations are complete, with `Progress`.
///
/// Kind 0x0506, posted: no reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryOperations {
    pub stream: StreamId,
    pub operations: Vec<MemoryOperation>,
}

impl<'a> Field<'a> for MemoryOperations {
    const LEAST: usize = <StreamId as Field<'a>>::LEAST + <Vec<MemoryOperation> as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<12>(out);
        room[0..8].copy_from_slice(&self.stream.0.to_le_bytes());
        room[8..12].copy_from_slice(&crate::reader::length_bytes(self.operations.len()));
        for element in &self.operations {
            element.write(out);
        }
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { stream: reader.field("stream")?, operations: reader.field("operations")? })
    }
}

impl Message for MemoryOperations {
    const KIND: u16 = 0x0506;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "MemoryOperations";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// One operation: `operation`, `value` and `flags` as in CUstreamBatchMemOpParams; a barrier and a flush have flags of their own. `at` is the word, in the vGPU's window, in a mirror or in shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MemoryOperation {
    pub operation: u32,
    pub at: DevicePtr,
    pub value: u64,
    pub flags: u32,
}

impl<'a> Field<'a> for MemoryOperation {
    const LEAST: usize = <u32 as Field<'a>>::LEAST
        + <DevicePtr as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<24>(out);
        room[0..4].copy_from_slice(&self.operation.to_le_bytes());
        room[4..12].copy_from_slice(&self.at.0.to_le_bytes());
        room[12..20].copy_from_slice(&self.value.to_le_bytes());
        room[20..24].copy_from_slice(&self.flags.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            operation: reader.field("operation")?,
            at: reader.field("at")?,
            value: reader.field("value")?,
            flags: reader.field("flags")?,
        })
    }
}

/// Carries out the commands of this noun.
pub trait StreamMemoryRequests: Handler {
    /// Carries out [`MemoryOperations`].
    ///
    /// # Errors
    /// The handler's.
    fn memory_operations(&mut self, message: &MemoryOperations) -> Result<Self::Answer, Self::Fault>;
}
