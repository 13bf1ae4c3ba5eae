//! Physical memory and its place in the session's window. The client cuts cuMemAlloc's allocations from blocks.
//! Plain values and their encoding; they check nothing beyond what the types say.
// Made by `cargo xtask gen` from api/messages; edit the tables, not this file.

#[allow(unused_imports)]
use super::*;
#[allow(unused_imports)]
use crate::{
    ArrayId, BlockId, Call, Class, CommId, DecodeError, DevicePtr, EventId, Field, FunctionId, GraphId, Handler,
    KernelId, LibraryId, Message, PeerLinkId, Reader, SignalsId, StreamId, SurfaceId, TextureId, TicketId,
};

/// Makes a block of `bytes` of physical memory (a multiple of the granularity), charged to the quota. OUT_OF_MEMORY when quota or device has no more.
///
/// Kind 0x0101, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CreateBlock {
    pub block: BlockId,
    pub bytes: u64,
}

impl<'a> Field<'a> for CreateBlock {
    const LEAST: usize = <BlockId as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<16>(out);
        room[0..8].copy_from_slice(&self.block.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.bytes.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { block: reader.field("block")?, bytes: reader.field("bytes")? })
    }
}

impl Message for CreateBlock {
    const KIND: u16 = 0x0101;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "CreateBlock";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for CreateBlock {
    type Reply<'a> = ();
}

/// Releases the block; its memory is freed when its last mapping is gone.
///
/// Kind 0x0102, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReleaseBlock {
    pub block: BlockId,
}

impl<'a> Field<'a> for ReleaseBlock {
    const LEAST: usize = <BlockId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.block.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { block: reader.field("block")? })
    }
}

impl Message for ReleaseBlock {
    const KIND: u16 = 0x0102;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "ReleaseBlock";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// Maps `bytes` of the block from `offset` at address `at` of the window. `access` is one of CUmemAccess_flags: 0 none, 1 read, 3 read and write.
///
/// Kind 0x0103, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MapBlock {
    pub block: BlockId,
    pub offset: u64,
    pub at: DevicePtr,
    pub bytes: u64,
    pub access: u32,
}

impl<'a> Field<'a> for MapBlock {
    const LEAST: usize = <BlockId as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <DevicePtr as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<36>(out);
        room[0..8].copy_from_slice(&self.block.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.offset.to_le_bytes());
        room[16..24].copy_from_slice(&self.at.0.to_le_bytes());
        room[24..32].copy_from_slice(&self.bytes.to_le_bytes());
        room[32..36].copy_from_slice(&self.access.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            block: reader.field("block")?,
            offset: reader.field("offset")?,
            at: reader.field("at")?,
            bytes: reader.field("bytes")?,
            access: reader.field("access")?,
        })
    }
}

impl Message for MapBlock {
    const KIND: u16 = 0x0103;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "MapBlock";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// Changes the access of a mapped range.
///
/// Kind 0x0104, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SetAccess {
    pub at: DevicePtr,
    pub bytes: u64,
    pub access: u32,
}

impl<'a> Field<'a> for SetAccess {
    const LEAST: usize = <DevicePtr as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST + <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<20>(out);
        room[0..8].copy_from_slice(&self.at.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.bytes.to_le_bytes());
        room[16..20].copy_from_slice(&self.access.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { at: reader.field("at")?, bytes: reader.field("bytes")?, access: reader.field("access")? })
    }
}

impl Message for SetAccess {
    const KIND: u16 = 0x0104;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "SetAccess";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// Unmaps whole mappings. The client sends it only when no work issued before can still touch the range, or after a synchronize.
///
/// Kind 0x0105, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UnmapRange {
    pub at: DevicePtr,
    pub bytes: u64,
}

impl<'a> Field<'a> for UnmapRange {
    const LEAST: usize = <DevicePtr as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<16>(out);
        room[0..8].copy_from_slice(&self.at.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.bytes.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { at: reader.field("at")?, bytes: reader.field("bytes")? })
    }
}

impl Message for UnmapRange {
    const KIND: u16 = 0x0105;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "UnmapRange";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// Free and total bytes as this vGPU sees them (the quota where there is one).
///
/// Kind 0x0106, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MemoryInfo {}

impl<'a> Field<'a> for MemoryInfo {
    const LEAST: usize = 0;

    fn write(&self, _out: &mut Vec<u8>) {}

    fn read(_reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {})
    }
}

impl Message for MemoryInfo {
    const KIND: u16 = 0x0106;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "MemoryInfo";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for MemoryInfo {
    type Reply<'a> = MemoryInfoReply;
}

/// What answers [`MemoryInfo`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MemoryInfoReply {
    pub free: u64,
    pub total: u64,
}

impl<'a> Field<'a> for MemoryInfoReply {
    const LEAST: usize = <u64 as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<16>(out);
        room[0..8].copy_from_slice(&self.free.to_le_bytes());
        room[8..16].copy_from_slice(&self.total.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { free: reader.field("free")?, total: reader.field("total")? })
    }
}

/// Carries out the commands of this noun.
pub trait MemoryRequests: Handler {
    /// Carries out [`CreateBlock`].
    ///
    /// # Errors
    /// The handler's.
    fn create_block(&mut self, message: CreateBlock) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`ReleaseBlock`].
    ///
    /// # Errors
    /// The handler's.
    fn release_block(&mut self, message: ReleaseBlock) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`MapBlock`].
    ///
    /// # Errors
    /// The handler's.
    fn map_block(&mut self, message: MapBlock) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`SetAccess`].
    ///
    /// # Errors
    /// The handler's.
    fn set_access(&mut self, message: SetAccess) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`UnmapRange`].
    ///
    /// # Errors
    /// The handler's.
    fn unmap_range(&mut self, message: UnmapRange) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`MemoryInfo`].
    ///
    /// # Errors
    /// The handler's.
    fn memory_info(&mut self, message: MemoryInfo) -> Result<Self::Answer, Self::Fault>;
}
