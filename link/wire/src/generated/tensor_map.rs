//! Tensor maps: made by the server's driver, once per shape.
//! Plain values and their encoding; they check nothing beyond what the types say.
// Made by `cargo xtask gen` from api/messages; edit the tables, not this file.

#[allow(unused_imports)]
use super::*;
#[allow(unused_imports)]
use crate::{
    BlockId, Call, Class, DecodeError, DevicePtr, EventId, Field, FunctionId, GraphId, KernelId, LibraryId, Message,
    Reader, StreamId,
};

/// A tensor map (128 bytes). `form` 0: tiled, with `box_dimensions`; 1: im2col, with `lower` and `upper` per spatial dimension; 2: im2col along the width, with one `lower` and `upper` and a `mode`. The number of `dimensions` is the rank, 1 to 5. The numbers are CUDA's; the first eight bytes of the map are the address.
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
        self.form.write(out);
        self.data_type.write(out);
        self.address.write(out);
        self.dimensions.write(out);
        self.strides.write(out);
        self.element_strides.write(out);
        self.box_dimensions.write(out);
        self.lower.write(out);
        self.upper.write(out);
        self.channels.write(out);
        self.pixels.write(out);
        self.interleave.write(out);
        self.mode.write(out);
        self.swizzle.write(out);
        self.promotion.write(out);
        self.fill.write(out);
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
