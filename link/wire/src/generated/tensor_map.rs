//! Tensor maps: made by the server's driver, once per shape.
//! Plain values and their encoding; they check nothing beyond what the types say.
// Made by `cargo xtask gen` from api/messages; edit the tables, not this file.

#[allow(unused_imports)]
use super::*;
#[allow(unused_imports)]
use crate::{
    ArrayId, BlockId, Call, Class, CommId, DecodeError, DevicePtr, EventId, Field, FunctionId, GraphId, Handler,
    KernelId, LibraryId, Message, PeerLinkId, Reader, SignalsId, StreamId, SurfaceId, TextureId, TicketId,
};

/// Makes a tensor map (128 bytes). `form` 0 is tiled, with `box_dimensions`. 1 is im2col, with `lower` and `upper` per spatial dimension. 2 is im2col along the width, with one `lower` and `upper` and a `mode`. The number of `dimensions` is the rank, 1 to 5. The numbers are CUDA's; the first eight bytes of the map are the address.
///
/// Kind 0x0901, called: one reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EncodeTensorMap {
    pub form: u32,
    pub data_type: u32,
    pub address: DevicePtr,
    pub dimensions: Vec<u64>,
    pub strides: Vec<u64>,
    pub element_strides: Vec<u32>,
    pub box_dimensions: Vec<u32>,
    pub lower: Vec<i32>,
    pub upper: Vec<i32>,
    pub channels: u32,
    pub pixels: u32,
    pub interleave: u32,
    pub mode: u32,
    pub swizzle: u32,
    pub promotion: u32,
    pub fill: u32,
}

impl<'a> Field<'a> for EncodeTensorMap {
    const LEAST: usize = <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <DevicePtr as Field<'a>>::LEAST
        + <Vec<u64> as Field<'a>>::LEAST
        + <Vec<u64> as Field<'a>>::LEAST
        + <Vec<u32> as Field<'a>>::LEAST
        + <Vec<u32> as Field<'a>>::LEAST
        + <Vec<i32> as Field<'a>>::LEAST
        + <Vec<i32> as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<20>(out);
        room[0..4].copy_from_slice(&self.form.to_le_bytes());
        room[4..8].copy_from_slice(&self.data_type.to_le_bytes());
        room[8..16].copy_from_slice(&self.address.0.to_le_bytes());
        room[16..20].copy_from_slice(&crate::reader::length_bytes(self.dimensions.len()));
        for element in &self.dimensions {
            element.write(out);
        }
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.strides.len()));
        for element in &self.strides {
            element.write(out);
        }
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.element_strides.len()));
        for element in &self.element_strides {
            element.write(out);
        }
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.box_dimensions.len()));
        for element in &self.box_dimensions {
            element.write(out);
        }
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.lower.len()));
        for element in &self.lower {
            element.write(out);
        }
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.upper.len()));
        for element in &self.upper {
            element.write(out);
        }
        let room = crate::reader::room::<28>(out);
        room[0..4].copy_from_slice(&self.channels.to_le_bytes());
        room[4..8].copy_from_slice(&self.pixels.to_le_bytes());
        room[8..12].copy_from_slice(&self.interleave.to_le_bytes());
        room[12..16].copy_from_slice(&self.mode.to_le_bytes());
        room[16..20].copy_from_slice(&self.swizzle.to_le_bytes());
        room[20..24].copy_from_slice(&self.promotion.to_le_bytes());
        room[24..28].copy_from_slice(&self.fill.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            form: reader.field("form")?,
            data_type: reader.field("data_type")?,
            address: reader.field("address")?,
            dimensions: reader.field("dimensions")?,
            strides: reader.field("strides")?,
            element_strides: reader.field("element_strides")?,
            box_dimensions: reader.field("box_dimensions")?,
            lower: reader.field("lower")?,
            upper: reader.field("upper")?,
            channels: reader.field("channels")?,
            pixels: reader.field("pixels")?,
            interleave: reader.field("interleave")?,
            mode: reader.field("mode")?,
            swizzle: reader.field("swizzle")?,
            promotion: reader.field("promotion")?,
            fill: reader.field("fill")?,
        })
    }
}

impl Message for EncodeTensorMap {
    const KIND: u16 = 0x0901;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "EncodeTensorMap";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for EncodeTensorMap {
    type Reply<'a> = EncodeTensorMapReply<'a>;
}

/// What answers [`EncodeTensorMap`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EncodeTensorMapReply<'a> {
    pub map: &'a [u8],
}

impl<'a> Field<'a> for EncodeTensorMapReply<'a> {
    const LEAST: usize = <&'a [u8] as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.map.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { map: reader.field("map")? })
    }
}

/// Carries out the commands of this noun.
pub trait TensorMapRequests: Handler {
    /// Carries out [`EncodeTensorMap`].
    ///
    /// # Errors
    /// The handler's.
    fn encode_tensor_map(&mut self, message: &EncodeTensorMap) -> Result<Self::Answer, Self::Fault>;
}
