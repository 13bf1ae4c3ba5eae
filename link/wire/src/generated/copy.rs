//! Copies and fills. Host memory crosses as bytes. Only shared memory goes by address, since its addresses are the worker's, too.
//! Plain values and their encoding; they check nothing beyond what the types say.
// Made by `cargo xtask gen` from api/messages; edit the tables, not this file.

#[allow(unused_imports)]
use super::*;
#[allow(unused_imports)]
use crate::{
    ArrayId, BlockId, Call, Class, CommId, DecodeError, DevicePtr, EventId, Field, FunctionId, GraphId, Handler,
    KernelId, LibraryId, Message, PeerLinkId, Reader, SignalsId, StreamId, SurfaceId, TextureId, TicketId,
};

/// Writes bytes at `to`, in stream order.
///
/// Kind 0x0201, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CopyToDevice<'a> {
    pub stream: StreamId,
    pub to: DevicePtr,
    pub bytes: &'a [u8],
}

impl<'a> Field<'a> for CopyToDevice<'a> {
    const LEAST: usize =
        <StreamId as Field<'a>>::LEAST + <DevicePtr as Field<'a>>::LEAST + <&'a [u8] as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<20>(out);
        room[0..8].copy_from_slice(&self.stream.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.to.0.to_le_bytes());
        room[16..20].copy_from_slice(&crate::reader::length_bytes(self.bytes.len()));
        out.extend_from_slice(self.bytes);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { stream: reader.field("stream")?, to: reader.field("to")?, bytes: reader.field("bytes")? })
    }
}

impl Message for CopyToDevice<'_> {
    const KIND: u16 = 0x0201;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "CopyToDevice";
    const TAIL: bool = true;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        let room = crate::reader::room::<20>(out);
        room[0..8].copy_from_slice(&self.stream.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.to.0.to_le_bytes());
        room[16..20].copy_from_slice(&crate::reader::length_bytes(self.bytes.len()));
        self.bytes
    }
}

/// Reads `bytes` at `from`, in stream order.
///
/// Kind 0x0202, called: deliveries, then one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CopyFromDevice {
    pub stream: StreamId,
    pub from: DevicePtr,
    pub bytes: u64,
}

impl<'a> Field<'a> for CopyFromDevice {
    const LEAST: usize = <StreamId as Field<'a>>::LEAST + <DevicePtr as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<24>(out);
        room[0..8].copy_from_slice(&self.stream.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.from.0.to_le_bytes());
        room[16..24].copy_from_slice(&self.bytes.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { stream: reader.field("stream")?, from: reader.field("from")?, bytes: reader.field("bytes")? })
    }
}

impl Message for CopyFromDevice {
    const KIND: u16 = 0x0202;
    const CLASS: Class = Class::Deliver;
    const NAME: &'static str = "CopyFromDevice";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for CopyFromDevice {
    type Reply<'a> = ();
}

/// Copies within the device, in stream order. Either end may be shared memory.
///
/// Kind 0x0203, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CopyOnDevice {
    pub stream: StreamId,
    pub to: DevicePtr,
    pub from: DevicePtr,
    pub bytes: u64,
}

impl<'a> Field<'a> for CopyOnDevice {
    const LEAST: usize = <StreamId as Field<'a>>::LEAST
        + <DevicePtr as Field<'a>>::LEAST
        + <DevicePtr as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<32>(out);
        room[0..8].copy_from_slice(&self.stream.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.to.0.to_le_bytes());
        room[16..24].copy_from_slice(&self.from.0.to_le_bytes());
        room[24..32].copy_from_slice(&self.bytes.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            stream: reader.field("stream")?,
            to: reader.field("to")?,
            from: reader.field("from")?,
            bytes: reader.field("bytes")?,
        })
    }
}

impl Message for CopyOnDevice {
    const KIND: u16 = 0x0203;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "CopyOnDevice";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// Writes a box of `depth` slices of `height` rows of `width` bytes; `bytes` holds the rows without gaps.
///
/// Kind 0x0204, posted: no reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CopyBoxToDevice<'a> {
    pub stream: StreamId,
    pub to: BoxEnd,
    pub width: u64,
    pub height: u64,
    pub depth: u64,
    pub bytes: &'a [u8],
}

impl<'a> Field<'a> for CopyBoxToDevice<'a> {
    const LEAST: usize = <StreamId as Field<'a>>::LEAST
        + <BoxEnd as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <&'a [u8] as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<8>(out);
        room[0..8].copy_from_slice(&self.stream.0.to_le_bytes());
        self.to.write(out);
        let room = crate::reader::room::<28>(out);
        room[0..8].copy_from_slice(&self.width.to_le_bytes());
        room[8..16].copy_from_slice(&self.height.to_le_bytes());
        room[16..24].copy_from_slice(&self.depth.to_le_bytes());
        room[24..28].copy_from_slice(&crate::reader::length_bytes(self.bytes.len()));
        out.extend_from_slice(self.bytes);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            stream: reader.field("stream")?,
            to: reader.field("to")?,
            width: reader.field("width")?,
            height: reader.field("height")?,
            depth: reader.field("depth")?,
            bytes: reader.field("bytes")?,
        })
    }
}

impl Message for CopyBoxToDevice<'_> {
    const KIND: u16 = 0x0204;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "CopyBoxToDevice";
    const TAIL: bool = true;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        let room = crate::reader::room::<8>(out);
        room[0..8].copy_from_slice(&self.stream.0.to_le_bytes());
        self.to.write(out);
        let room = crate::reader::room::<28>(out);
        room[0..8].copy_from_slice(&self.width.to_le_bytes());
        room[8..16].copy_from_slice(&self.height.to_le_bytes());
        room[16..24].copy_from_slice(&self.depth.to_le_bytes());
        room[24..28].copy_from_slice(&crate::reader::length_bytes(self.bytes.len()));
        self.bytes
    }
}

/// Reads a box; the rows are delivered without gaps.
///
/// Kind 0x0205, called: deliveries, then one reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CopyBoxFromDevice {
    pub stream: StreamId,
    pub from: BoxEnd,
    pub width: u64,
    pub height: u64,
    pub depth: u64,
}

impl<'a> Field<'a> for CopyBoxFromDevice {
    const LEAST: usize = <StreamId as Field<'a>>::LEAST
        + <BoxEnd as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<8>(out);
        room[0..8].copy_from_slice(&self.stream.0.to_le_bytes());
        self.from.write(out);
        let room = crate::reader::room::<24>(out);
        room[0..8].copy_from_slice(&self.width.to_le_bytes());
        room[8..16].copy_from_slice(&self.height.to_le_bytes());
        room[16..24].copy_from_slice(&self.depth.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            stream: reader.field("stream")?,
            from: reader.field("from")?,
            width: reader.field("width")?,
            height: reader.field("height")?,
            depth: reader.field("depth")?,
        })
    }
}

impl Message for CopyBoxFromDevice {
    const KIND: u16 = 0x0205;
    const CLASS: Class = Class::Deliver;
    const NAME: &'static str = "CopyBoxFromDevice";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for CopyBoxFromDevice {
    type Reply<'a> = ();
}

/// Copies a box within the device. Either end may be shared memory.
///
/// Kind 0x0206, posted: no reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CopyBoxOnDevice {
    pub stream: StreamId,
    pub to: BoxEnd,
    pub from: BoxEnd,
    pub width: u64,
    pub height: u64,
    pub depth: u64,
}

impl<'a> Field<'a> for CopyBoxOnDevice {
    const LEAST: usize = <StreamId as Field<'a>>::LEAST
        + <BoxEnd as Field<'a>>::LEAST
        + <BoxEnd as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<8>(out);
        room[0..8].copy_from_slice(&self.stream.0.to_le_bytes());
        self.to.write(out);
        self.from.write(out);
        let room = crate::reader::room::<24>(out);
        room[0..8].copy_from_slice(&self.width.to_le_bytes());
        room[8..16].copy_from_slice(&self.height.to_le_bytes());
        room[16..24].copy_from_slice(&self.depth.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            stream: reader.field("stream")?,
            to: reader.field("to")?,
            from: reader.field("from")?,
            width: reader.field("width")?,
            height: reader.field("height")?,
            depth: reader.field("depth")?,
        })
    }
}

impl Message for CopyBoxOnDevice {
    const KIND: u16 = 0x0206;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "CopyBoxOnDevice";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// Sets `height` rows of `width` elements of `element` bytes (1, 2 or 4) to `value`. `pitch` is the bytes from row to row (any when height is 1).
///
/// Kind 0x0207, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fill {
    pub stream: StreamId,
    pub at: DevicePtr,
    pub pitch: u64,
    pub element: u32,
    pub value: u32,
    pub width: u64,
    pub height: u64,
}

impl<'a> Field<'a> for Fill {
    const LEAST: usize = <StreamId as Field<'a>>::LEAST
        + <DevicePtr as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<48>(out);
        room[0..8].copy_from_slice(&self.stream.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.at.0.to_le_bytes());
        room[16..24].copy_from_slice(&self.pitch.to_le_bytes());
        room[24..28].copy_from_slice(&self.element.to_le_bytes());
        room[28..32].copy_from_slice(&self.value.to_le_bytes());
        room[32..40].copy_from_slice(&self.width.to_le_bytes());
        room[40..48].copy_from_slice(&self.height.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            stream: reader.field("stream")?,
            at: reader.field("at")?,
            pitch: reader.field("pitch")?,
            element: reader.field("element")?,
            value: reader.field("value")?,
            width: reader.field("width")?,
            height: reader.field("height")?,
        })
    }
}

impl Message for Fill {
    const KIND: u16 = 0x0207;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "Fill";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// A deferred read: writes `height` rows of `width` bytes (4 MiB at most in all) at `to`, which the client reads when the stream gets here. The server sends `RunHostFunction`, the client answers `LateBytes`, and the stream continues.
///
/// Kind 0x0220, posted: no reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CopyLate {
    pub stream: StreamId,
    pub function: FunctionId,
    pub to: BoxEnd,
    pub width: u64,
    pub height: u64,
}

impl<'a> Field<'a> for CopyLate {
    const LEAST: usize = <StreamId as Field<'a>>::LEAST
        + <FunctionId as Field<'a>>::LEAST
        + <BoxEnd as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<16>(out);
        room[0..8].copy_from_slice(&self.stream.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.function.0.to_le_bytes());
        self.to.write(out);
        let room = crate::reader::room::<16>(out);
        room[0..8].copy_from_slice(&self.width.to_le_bytes());
        room[8..16].copy_from_slice(&self.height.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            stream: reader.field("stream")?,
            function: reader.field("function")?,
            to: reader.field("to")?,
            width: reader.field("width")?,
            height: reader.field("height")?,
        })
    }
}

impl Message for CopyLate {
    const KIND: u16 = 0x0220;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "CopyLate";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// The bytes that a `CopyLate` writes: its rows without gaps. The worker handles it as soon as it is read, not in command order, since the issuer may wait for it.
///
/// Kind 0x0221, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LateBytes<'a> {
    pub function: FunctionId,
    pub bytes: &'a [u8],
}

impl<'a> Field<'a> for LateBytes<'a> {
    const LEAST: usize = <FunctionId as Field<'a>>::LEAST + <&'a [u8] as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<12>(out);
        room[0..8].copy_from_slice(&self.function.0.to_le_bytes());
        room[8..12].copy_from_slice(&crate::reader::length_bytes(self.bytes.len()));
        out.extend_from_slice(self.bytes);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { function: reader.field("function")?, bytes: reader.field("bytes")? })
    }
}

impl Message for LateBytes<'_> {
    const KIND: u16 = 0x0221;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "LateBytes";
    const TAIL: bool = true;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        let room = crate::reader::room::<12>(out);
        room[0..8].copy_from_slice(&self.function.0.to_le_bytes());
        room[8..12].copy_from_slice(&crate::reader::length_bytes(self.bytes.len()));
        self.bytes
    }
}

/// Writes `bytes` bytes (4 MiB at most) at `to`, in stream order. They come as `Chunk`s of the transfer that this frame's sequence names.
///
/// Kind 0x0222, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CopyBulkToDevice {
    pub stream: StreamId,
    pub to: DevicePtr,
    pub bytes: u64,
}

impl<'a> Field<'a> for CopyBulkToDevice {
    const LEAST: usize = <StreamId as Field<'a>>::LEAST + <DevicePtr as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<24>(out);
        room[0..8].copy_from_slice(&self.stream.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.to.0.to_le_bytes());
        room[16..24].copy_from_slice(&self.bytes.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { stream: reader.field("stream")?, to: reader.field("to")?, bytes: reader.field("bytes")? })
    }
}

impl Message for CopyBulkToDevice {
    const KIND: u16 = 0x0222;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "CopyBulkToDevice";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// The bytes at `offset` of a transfer: 256 KiB for each MiB of it that has begun, or the rest at its end. Both sides send it, on bulk connections only, and nothing else there. A transfer's name is the sequence of the frame on the sender's main connection that announced it.
///
/// Kind 0x0223, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Chunk<'a> {
    pub transfer: u64,
    pub offset: u64,
    pub bytes: &'a [u8],
}

impl<'a> Field<'a> for Chunk<'a> {
    const LEAST: usize = <u64 as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST + <&'a [u8] as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<20>(out);
        room[0..8].copy_from_slice(&self.transfer.to_le_bytes());
        room[8..16].copy_from_slice(&self.offset.to_le_bytes());
        room[16..20].copy_from_slice(&crate::reader::length_bytes(self.bytes.len()));
        out.extend_from_slice(self.bytes);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { transfer: reader.field("transfer")?, offset: reader.field("offset")?, bytes: reader.field("bytes")? })
    }
}

impl Message for Chunk<'_> {
    const KIND: u16 = 0x0223;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "Chunk";
    const TAIL: bool = true;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        let room = crate::reader::room::<20>(out);
        room[0..8].copy_from_slice(&self.transfer.to_le_bytes());
        room[8..16].copy_from_slice(&self.offset.to_le_bytes());
        room[16..20].copy_from_slice(&crate::reader::length_bytes(self.bytes.len()));
        self.bytes
    }
}

/// One end of a box. In memory (`array` is 0), `at` is the first byte, `pitch` the bytes from row to row, `slice` from slice to slice. In an array, the box begins at byte `x` of a row, row `y` and slice `z`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BoxEnd {
    pub array: ArrayId,
    pub x: u64,
    pub y: u64,
    pub z: u64,
    pub at: DevicePtr,
    pub pitch: u64,
    pub slice: u64,
}

impl<'a> Field<'a> for BoxEnd {
    const LEAST: usize = <ArrayId as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <DevicePtr as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<56>(out);
        room[0..8].copy_from_slice(&self.array.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.x.to_le_bytes());
        room[16..24].copy_from_slice(&self.y.to_le_bytes());
        room[24..32].copy_from_slice(&self.z.to_le_bytes());
        room[32..40].copy_from_slice(&self.at.0.to_le_bytes());
        room[40..48].copy_from_slice(&self.pitch.to_le_bytes());
        room[48..56].copy_from_slice(&self.slice.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            array: reader.field("array")?,
            x: reader.field("x")?,
            y: reader.field("y")?,
            z: reader.field("z")?,
            at: reader.field("at")?,
            pitch: reader.field("pitch")?,
            slice: reader.field("slice")?,
        })
    }
}

/// Carries out the commands of this noun.
pub trait CopyRequests: Handler {
    /// Carries out [`CopyToDevice`].
    ///
    /// # Errors
    /// The handler's.
    fn copy_to_device(&mut self, message: CopyToDevice<'_>) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`CopyFromDevice`].
    ///
    /// # Errors
    /// The handler's.
    fn copy_from_device(&mut self, message: CopyFromDevice) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`CopyOnDevice`].
    ///
    /// # Errors
    /// The handler's.
    fn copy_on_device(&mut self, message: CopyOnDevice) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`CopyBoxToDevice`].
    ///
    /// # Errors
    /// The handler's.
    fn copy_box_to_device(&mut self, message: &CopyBoxToDevice<'_>) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`CopyBoxFromDevice`].
    ///
    /// # Errors
    /// The handler's.
    fn copy_box_from_device(&mut self, message: &CopyBoxFromDevice) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`CopyBoxOnDevice`].
    ///
    /// # Errors
    /// The handler's.
    fn copy_box_on_device(&mut self, message: &CopyBoxOnDevice) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`Fill`].
    ///
    /// # Errors
    /// The handler's.
    fn fill(&mut self, message: Fill) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`CopyLate`].
    ///
    /// # Errors
    /// The handler's.
    fn copy_late(&mut self, message: &CopyLate) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`CopyBulkToDevice`].
    ///
    /// # Errors
    /// The handler's.
    fn copy_bulk_to_device(&mut self, message: CopyBulkToDevice) -> Result<Self::Answer, Self::Fault>;
}
