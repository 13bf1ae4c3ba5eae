//! Arrays: memory that the device lays out as it likes. Ids are the client's.
//! Plain values and their encoding; they check nothing beyond what the types say.
// Made by `cargo xtask gen` from api/messages; edit the tables, not this file.

#[allow(unused_imports)]
use super::*;
#[allow(unused_imports)]
use crate::{
    ArrayId, BlockId, Call, Class, CommId, DecodeError, DevicePtr, EventId, Field, FunctionId, GraphId, Handler,
    KernelId, LibraryId, Message, PeerLinkId, Reader, SignalsId, StreamId, SurfaceId, TextureId, TicketId,
};

/// Makes an array as CUDA_ARRAY3D_DESCRIPTOR describes it. Where `levels` is not 0 it is a mipmapped array of so many, which textures read as it is, copies and surfaces by its levels. The quota is charged for what a device may need to lay it out. OUT_OF_MEMORY when quota or device has no more.
///
/// Kind 0x0d01, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CreateArray {
    pub array: ArrayId,
    pub width: u64,
    pub height: u64,
    pub depth: u64,
    pub format: u32,
    pub channels: u32,
    pub flags: u32,
    pub levels: u32,
}

impl<'a> Field<'a> for CreateArray {
    const LEAST: usize = <ArrayId as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<48>(out);
        room[0..8].copy_from_slice(&self.array.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.width.to_le_bytes());
        room[16..24].copy_from_slice(&self.height.to_le_bytes());
        room[24..32].copy_from_slice(&self.depth.to_le_bytes());
        room[32..36].copy_from_slice(&self.format.to_le_bytes());
        room[36..40].copy_from_slice(&self.channels.to_le_bytes());
        room[40..44].copy_from_slice(&self.flags.to_le_bytes());
        room[44..48].copy_from_slice(&self.levels.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            array: reader.field("array")?,
            width: reader.field("width")?,
            height: reader.field("height")?,
            depth: reader.field("depth")?,
            format: reader.field("format")?,
            channels: reader.field("channels")?,
            flags: reader.field("flags")?,
            levels: reader.field("levels")?,
        })
    }
}

impl Message for CreateArray {
    const KIND: u16 = 0x0d01;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "CreateArray";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for CreateArray {
    type Reply<'a> = ();
}

/// Destroys the array, a mipmapped one with its levels; of a level it is the name that ends. The client sends it only when no work issued before can still touch the array.
///
/// Kind 0x0d02, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DestroyArray {
    pub array: ArrayId,
}

impl<'a> Field<'a> for DestroyArray {
    const LEAST: usize = <ArrayId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.array.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { array: reader.field("array")? })
    }
}

impl Message for DestroyArray {
    const KIND: u16 = 0x0d02;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "DestroyArray";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// From now on `array` is a level of the mipmapped array `of`, as long as that is.
///
/// Kind 0x0d07, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TakeLevel {
    pub of: ArrayId,
    pub level: u32,
    pub array: ArrayId,
}

impl<'a> Field<'a> for TakeLevel {
    const LEAST: usize = <ArrayId as Field<'a>>::LEAST + <u32 as Field<'a>>::LEAST + <ArrayId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<20>(out);
        room[0..8].copy_from_slice(&self.of.0.to_le_bytes());
        room[8..12].copy_from_slice(&self.level.to_le_bytes());
        room[12..20].copy_from_slice(&self.array.0.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { of: reader.field("of")?, level: reader.field("level")?, array: reader.field("array")? })
    }
}

impl Message for TakeLevel {
    const KIND: u16 = 0x0d07;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "TakeLevel";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// Carries out the commands of this noun.
pub trait ArrayRequests: Handler {
    /// Carries out [`CreateArray`].
    ///
    /// # Errors
    /// The handler's.
    fn create_array(&mut self, message: CreateArray) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`DestroyArray`].
    ///
    /// # Errors
    /// The handler's.
    fn destroy_array(&mut self, message: DestroyArray) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`TakeLevel`].
    ///
    /// # Errors
    /// The handler's.
    fn take_level(&mut self, message: TakeLevel) -> Result<Self::Answer, Self::Fault>;
}
