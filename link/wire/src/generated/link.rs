//! Links of device code. The inputs' bytes come as a library's contents do; the image that the driver links is read in pieces.
//! Plain values and their encoding; they check nothing beyond what the types say.
// Made by `cargo xtask gen` from api/messages; edit the tables, not this file.

#[allow(unused_imports)]
use super::*;
#[allow(unused_imports)]
use crate::{
    ArrayId, BlockId, Call, Class, CommId, DecodeError, DevicePtr, EventId, Field, FunctionId, GraphId, Handler,
    KernelId, LibraryId, Message, PeerLinkId, Reader, SignalsId, StreamId, SurfaceId, TextureId, TicketId,
};

/// Links `inputs`. Their bytes are `contents`, in the same order, and come as those of `LoadLibrary` do. The reply names the missing ones by index; else it gives the linked image's size in bytes. `ReadLinked` reads the image under this id. `options` and the log are as in `LoadLibrary`.
///
/// Kind 0x0309, called: one reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkLibrary<'a> {
    pub library: LibraryId,
    pub inputs: Vec<LinkInput<'a>>,
    pub contents: Vec<Content<'a>>,
    pub options: Vec<JitOption>,
    pub log_bytes: u32,
}

impl<'a> Field<'a> for LinkLibrary<'a> {
    const LEAST: usize = <LibraryId as Field<'a>>::LEAST
        + <Vec<LinkInput<'a>> as Field<'a>>::LEAST
        + <Vec<Content<'a>> as Field<'a>>::LEAST
        + <Vec<JitOption> as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<12>(out);
        room[0..8].copy_from_slice(&self.library.0.to_le_bytes());
        room[8..12].copy_from_slice(&crate::reader::length_bytes(self.inputs.len()));
        for element in &self.inputs {
            element.write(out);
        }
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.contents.len()));
        for element in &self.contents {
            element.write(out);
        }
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.options.len()));
        for element in &self.options {
            element.write(out);
        }
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&self.log_bytes.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            library: reader.field("library")?,
            inputs: reader.field("inputs")?,
            contents: reader.field("contents")?,
            options: reader.field("options")?,
            log_bytes: reader.field("log_bytes")?,
        })
    }
}

impl Message for LinkLibrary<'_> {
    const KIND: u16 = 0x0309;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "LinkLibrary";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for LinkLibrary<'_> {
    type Reply<'a> = LinkLibraryReply<'a>;
}

/// What answers [`LinkLibrary`] when its status is success.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkLibraryReply<'a> {
    pub missing: Vec<u32>,
    pub bytes: u64,
    pub info: &'a str,
}

impl<'a> Field<'a> for LinkLibraryReply<'a> {
    const LEAST: usize = <Vec<u32> as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST + <&'a str as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.missing.len()));
        for element in &self.missing {
            element.write(out);
        }
        let room = crate::reader::room::<12>(out);
        room[0..8].copy_from_slice(&self.bytes.to_le_bytes());
        room[8..12].copy_from_slice(&crate::reader::length_bytes(self.info.len()));
        out.extend_from_slice(self.info.as_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { missing: reader.field("missing")?, bytes: reader.field("bytes")?, info: reader.field("info")? })
    }
}

/// The next bytes of a linked image, at most 4 MiB; with its last bytes the image and its id are gone.
///
/// Kind 0x030a, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReadLinked {
    pub library: LibraryId,
}

impl<'a> Field<'a> for ReadLinked {
    const LEAST: usize = <LibraryId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.library.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { library: reader.field("library")? })
    }
}

impl Message for ReadLinked {
    const KIND: u16 = 0x030a;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "ReadLinked";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for ReadLinked {
    type Reply<'a> = ReadLinkedReply<'a>;
}

/// What answers [`ReadLinked`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReadLinkedReply<'a> {
    pub bytes: &'a [u8],
}

impl<'a> Field<'a> for ReadLinkedReply<'a> {
    const LEAST: usize = <&'a [u8] as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.bytes.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { bytes: reader.field("bytes")? })
    }
}

/// `kind` as CUjitInputType: 0 cubin, 1 PTX, 2 fat binary, 3 host object, 4 archive of these, 5 NVVM. The name is for messages, the options are for this input alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkInput<'a> {
    pub kind: u32,
    pub name: &'a str,
    pub options: Vec<JitOption>,
}

impl<'a> Field<'a> for LinkInput<'a> {
    const LEAST: usize =
        <u32 as Field<'a>>::LEAST + <&'a str as Field<'a>>::LEAST + <Vec<JitOption> as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.kind.to_le_bytes());
        room[4..8].copy_from_slice(&crate::reader::length_bytes(self.name.len()));
        out.extend_from_slice(self.name.as_bytes());
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.options.len()));
        for element in &self.options {
            element.write(out);
        }
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { kind: reader.field("kind")?, name: reader.field("name")?, options: reader.field("options")? })
    }
}

/// Carries out the commands of this noun.
pub trait LinkRequests: Handler {
    /// Carries out [`LinkLibrary`].
    ///
    /// # Errors
    /// The handler's.
    fn link_library(&mut self, message: &LinkLibrary<'_>) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`ReadLinked`].
    ///
    /// # Errors
    /// The handler's.
    fn read_linked(&mut self, message: ReadLinked) -> Result<Self::Answer, Self::Fault>;
}
