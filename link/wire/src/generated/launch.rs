//! Kernels, and host functions in stream order.
//! Plain values and their encoding; they check nothing beyond what the types say.
// Made by `cargo xtask gen` from api/messages; edit the tables, not this file.

#[allow(unused_imports)]
use super::*;
#[allow(unused_imports)]
use crate::{
    ArrayId, BlockId, Call, Class, CommId, DecodeError, DevicePtr, EventId, Field, FunctionId, GraphId, Handler,
    KernelId, LibraryId, Message, PeerLinkId, Reader, SignalsId, StreamId, SurfaceId, TextureId, TicketId,
};

/// Launches a kernel. `parameters` is the packed parameter block. The client has checked grid, block and shared memory against the device's limits.
///
/// Kind 0x0401, posted: no reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Launch<'a> {
    pub kernel: KernelId,
    pub stream: StreamId,
    pub grid_x: u32,
    pub grid_y: u32,
    pub grid_z: u32,
    pub block_x: u32,
    pub block_y: u32,
    pub block_z: u32,
    pub shared: u32,
    pub parameters: &'a [u8],
    pub attributes: Vec<LaunchAttribute<'a>>,
}

impl<'a> Field<'a> for Launch<'a> {
    const LEAST: usize = <KernelId as Field<'a>>::LEAST
        + <StreamId as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <&'a [u8] as Field<'a>>::LEAST
        + <Vec<LaunchAttribute<'a>> as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<48>(out);
        room[0..8].copy_from_slice(&self.kernel.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.stream.0.to_le_bytes());
        room[16..20].copy_from_slice(&self.grid_x.to_le_bytes());
        room[20..24].copy_from_slice(&self.grid_y.to_le_bytes());
        room[24..28].copy_from_slice(&self.grid_z.to_le_bytes());
        room[28..32].copy_from_slice(&self.block_x.to_le_bytes());
        room[32..36].copy_from_slice(&self.block_y.to_le_bytes());
        room[36..40].copy_from_slice(&self.block_z.to_le_bytes());
        room[40..44].copy_from_slice(&self.shared.to_le_bytes());
        room[44..48].copy_from_slice(&crate::reader::length_bytes(self.parameters.len()));
        out.extend_from_slice(self.parameters);
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.attributes.len()));
        for element in &self.attributes {
            element.write(out);
        }
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            kernel: reader.field("kernel")?,
            stream: reader.field("stream")?,
            grid_x: reader.field("grid_x")?,
            grid_y: reader.field("grid_y")?,
            grid_z: reader.field("grid_z")?,
            block_x: reader.field("block_x")?,
            block_y: reader.field("block_y")?,
            block_z: reader.field("block_z")?,
            shared: reader.field("shared")?,
            parameters: reader.field("parameters")?,
            attributes: reader.field("attributes")?,
        })
    }
}

impl Message for Launch<'_> {
    const KIND: u16 = 0x0401;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "Launch";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// The stream waits here until the client has said `HostFunctionDone`.
///
/// Kind 0x0402, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostFunction {
    pub stream: StreamId,
    pub function: FunctionId,
}

impl<'a> Field<'a> for HostFunction {
    const LEAST: usize = <StreamId as Field<'a>>::LEAST + <FunctionId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<16>(out);
        room[0..8].copy_from_slice(&self.stream.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.function.0.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { stream: reader.field("stream")?, function: reader.field("function")? })
    }
}

impl Message for HostFunction {
    const KIND: u16 = 0x0402;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "HostFunction";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// The host function has returned. Handled as soon as it is read, not in command order.
///
/// Kind 0x0403, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostFunctionDone {
    pub function: FunctionId,
}

impl<'a> Field<'a> for HostFunctionDone {
    const LEAST: usize = <FunctionId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.function.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { function: reader.field("function")? })
    }
}

impl Message for HostFunctionDone {
    const KIND: u16 = 0x0403;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "HostFunctionDone";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// Occupancy: blocks per multiprocessor.
///
/// Kind 0x0404, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MaxActiveBlocks {
    pub kernel: KernelId,
    pub block: i32,
    pub shared: u64,
    pub flags: u32,
}

impl<'a> Field<'a> for MaxActiveBlocks {
    const LEAST: usize = <KernelId as Field<'a>>::LEAST
        + <i32 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<24>(out);
        room[0..8].copy_from_slice(&self.kernel.0.to_le_bytes());
        room[8..12].copy_from_slice(&self.block.to_le_bytes());
        room[12..20].copy_from_slice(&self.shared.to_le_bytes());
        room[20..24].copy_from_slice(&self.flags.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            kernel: reader.field("kernel")?,
            block: reader.field("block")?,
            shared: reader.field("shared")?,
            flags: reader.field("flags")?,
        })
    }
}

impl Message for MaxActiveBlocks {
    const KIND: u16 = 0x0404;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "MaxActiveBlocks";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for MaxActiveBlocks {
    type Reply<'a> = MaxActiveBlocksReply;
}

/// What answers [`MaxActiveBlocks`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MaxActiveBlocksReply {
    pub blocks: i32,
}

impl<'a> Field<'a> for MaxActiveBlocksReply {
    const LEAST: usize = <i32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.blocks.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { blocks: reader.field("blocks")? })
    }
}

/// Occupancy: dynamic shared memory in bytes left to a block when `blocks` of `block` threads are to fit a multiprocessor.
///
/// Kind 0x0405, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AvailableShared {
    pub kernel: KernelId,
    pub blocks: i32,
    pub block: i32,
}

impl<'a> Field<'a> for AvailableShared {
    const LEAST: usize = <KernelId as Field<'a>>::LEAST + <i32 as Field<'a>>::LEAST + <i32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<16>(out);
        room[0..8].copy_from_slice(&self.kernel.0.to_le_bytes());
        room[8..12].copy_from_slice(&self.blocks.to_le_bytes());
        room[12..16].copy_from_slice(&self.block.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { kernel: reader.field("kernel")?, blocks: reader.field("blocks")?, block: reader.field("block")? })
    }
}

impl Message for AvailableShared {
    const KIND: u16 = 0x0405;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "AvailableShared";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for AvailableShared {
    type Reply<'a> = AvailableSharedReply;
}

/// What answers [`AvailableShared`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AvailableSharedReply {
    pub bytes: u64,
}

impl<'a> Field<'a> for AvailableSharedReply {
    const LEAST: usize = <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.bytes.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { bytes: reader.field("bytes")? })
    }
}

/// Occupancy of a launch with these attributes. `what` 0: clusters on the device at once; 1: blocks of the largest cluster that fits.
///
/// Kind 0x0410, called: one reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterOccupancy<'a> {
    pub what: u32,
    pub kernel: KernelId,
    pub grid_x: u32,
    pub grid_y: u32,
    pub grid_z: u32,
    pub block_x: u32,
    pub block_y: u32,
    pub block_z: u32,
    pub shared: u32,
    pub attributes: Vec<LaunchAttribute<'a>>,
}

impl<'a> Field<'a> for ClusterOccupancy<'a> {
    const LEAST: usize = <u32 as Field<'a>>::LEAST
        + <KernelId as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <Vec<LaunchAttribute<'a>> as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<44>(out);
        room[0..4].copy_from_slice(&self.what.to_le_bytes());
        room[4..12].copy_from_slice(&self.kernel.0.to_le_bytes());
        room[12..16].copy_from_slice(&self.grid_x.to_le_bytes());
        room[16..20].copy_from_slice(&self.grid_y.to_le_bytes());
        room[20..24].copy_from_slice(&self.grid_z.to_le_bytes());
        room[24..28].copy_from_slice(&self.block_x.to_le_bytes());
        room[28..32].copy_from_slice(&self.block_y.to_le_bytes());
        room[32..36].copy_from_slice(&self.block_z.to_le_bytes());
        room[36..40].copy_from_slice(&self.shared.to_le_bytes());
        room[40..44].copy_from_slice(&crate::reader::length_bytes(self.attributes.len()));
        for element in &self.attributes {
            element.write(out);
        }
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            what: reader.field("what")?,
            kernel: reader.field("kernel")?,
            grid_x: reader.field("grid_x")?,
            grid_y: reader.field("grid_y")?,
            grid_z: reader.field("grid_z")?,
            block_x: reader.field("block_x")?,
            block_y: reader.field("block_y")?,
            block_z: reader.field("block_z")?,
            shared: reader.field("shared")?,
            attributes: reader.field("attributes")?,
        })
    }
}

impl Message for ClusterOccupancy<'_> {
    const KIND: u16 = 0x0410;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "ClusterOccupancy";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for ClusterOccupancy<'_> {
    type Reply<'a> = ClusterOccupancyReply;
}

/// What answers [`ClusterOccupancy`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClusterOccupancyReply {
    pub count: i32,
}

impl<'a> Field<'a> for ClusterOccupancyReply {
    const LEAST: usize = <i32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.count.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { count: reader.field("count")? })
    }
}

/// A CUlaunchAttributeID with the bytes of its value; an event in it is the first eight bytes, as EventId. No host addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LaunchAttribute<'a> {
    pub id: u32,
    pub value: &'a [u8],
}

impl<'a> Field<'a> for LaunchAttribute<'a> {
    const LEAST: usize = <u32 as Field<'a>>::LEAST + <&'a [u8] as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.id.to_le_bytes());
        room[4..8].copy_from_slice(&crate::reader::length_bytes(self.value.len()));
        out.extend_from_slice(self.value);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { id: reader.field("id")?, value: reader.field("value")? })
    }
}

/// Carries out the commands of this noun.
pub trait LaunchRequests: Handler {
    /// Carries out [`Launch`].
    ///
    /// # Errors
    /// The handler's.
    fn launch(&mut self, message: &Launch<'_>) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`HostFunction`].
    ///
    /// # Errors
    /// The handler's.
    fn host_function(&mut self, message: HostFunction) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`MaxActiveBlocks`].
    ///
    /// # Errors
    /// The handler's.
    fn max_active_blocks(&mut self, message: MaxActiveBlocks) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`AvailableShared`].
    ///
    /// # Errors
    /// The handler's.
    fn available_shared(&mut self, message: AvailableShared) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`ClusterOccupancy`].
    ///
    /// # Errors
    /// The handler's.
    fn cluster_occupancy(&mut self, message: &ClusterOccupancy<'_>) -> Result<Self::Answer, Self::Fault>;
}
