//! Modules and libraries are one thing on the wire: a library. The hashes of its contents name it. The client sends only the contents that the server lacks, in parts, so that no frame is large.
//! Plain values and their encoding; they check nothing beyond what the types say.
// Made by `cargo xtask gen` from api/messages; edit the tables, not this file.

#[allow(unused_imports)]
use super::*;
#[allow(unused_imports)]
use crate::{
    ArrayId, BlockId, Call, Class, CommId, DecodeError, DevicePtr, EventId, Field, FunctionId, GraphId, Handler,
    KernelId, LibraryId, Message, PeerLinkId, Reader, SignalsId, StreamId, SurfaceId, TextureId, TicketId,
};

/// The next bytes of content `content` of a library to be loaded, which the server said it lacks. All parts together have at most 1 GiB.
///
/// Kind 0x0301, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LibraryPart<'a> {
    pub library: LibraryId,
    pub content: u32,
    pub bytes: &'a [u8],
}

impl<'a> Field<'a> for LibraryPart<'a> {
    const LEAST: usize = <LibraryId as Field<'a>>::LEAST + <u32 as Field<'a>>::LEAST + <&'a [u8] as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<16>(out);
        room[0..8].copy_from_slice(&self.library.0.to_le_bytes());
        room[8..12].copy_from_slice(&self.content.to_le_bytes());
        room[12..16].copy_from_slice(&crate::reader::length_bytes(self.bytes.len()));
        out.extend_from_slice(self.bytes);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { library: reader.field("library")?, content: reader.field("content")?, bytes: reader.field("bytes")? })
    }
}

impl Message for LibraryPart<'_> {
    const KIND: u16 = 0x0301;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "LibraryPart";
    const TAIL: bool = true;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        let room = crate::reader::room::<16>(out);
        room[0..8].copy_from_slice(&self.library.0.to_le_bytes());
        room[8..12].copy_from_slice(&self.content.to_le_bytes());
        room[12..16].copy_from_slice(&crate::reader::length_bytes(self.bytes.len()));
        self.bytes
    }
}

/// Unloads the library; its kernels' and globals' names are gone.
///
/// Kind 0x0303, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UnloadLibrary {
    pub library: LibraryId,
}

impl<'a> Field<'a> for UnloadLibrary {
    const LEAST: usize = <LibraryId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.library.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { library: reader.field("library")? })
    }
}

impl Message for UnloadLibrary {
    const KIND: u16 = 0x0303;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "UnloadLibrary";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// The names of the library's kernels.
///
/// Kind 0x0304, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ListKernels {
    pub library: LibraryId,
}

impl<'a> Field<'a> for ListKernels {
    const LEAST: usize = <LibraryId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.library.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { library: reader.field("library")? })
    }
}

impl Message for ListKernels {
    const KIND: u16 = 0x0304;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "ListKernels";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for ListKernels {
    type Reply<'a> = ListKernelsReply<'a>;
}

/// What answers [`ListKernels`] when its status is success.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListKernelsReply<'a> {
    pub names: Vec<&'a str>,
}

impl<'a> Field<'a> for ListKernelsReply<'a> {
    const LEAST: usize = <Vec<&'a str> as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.names.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { names: reader.field("names")? })
    }
}

/// Binds the client's id to the kernel of that name. After a failure the id is that failure, for what was posted behind it.
///
/// Kind 0x0305, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FindKernel<'a> {
    pub library: LibraryId,
    pub name: &'a str,
    pub kernel: KernelId,
}

impl<'a> Field<'a> for FindKernel<'a> {
    const LEAST: usize =
        <LibraryId as Field<'a>>::LEAST + <&'a str as Field<'a>>::LEAST + <KernelId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<12>(out);
        room[0..8].copy_from_slice(&self.library.0.to_le_bytes());
        room[8..12].copy_from_slice(&crate::reader::length_bytes(self.name.len()));
        out.extend_from_slice(self.name.as_bytes());
        let room = crate::reader::room::<8>(out);
        room[0..8].copy_from_slice(&self.kernel.0.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { library: reader.field("library")?, name: reader.field("name")?, kernel: reader.field("kernel")? })
    }
}

impl Message for FindKernel<'_> {
    const KIND: u16 = 0x0305;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "FindKernel";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for FindKernel<'_> {
    type Reply<'a> = FindKernelReply;
}

/// What answers [`FindKernel`] when its status is success.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FindKernelReply {
    pub parameters: Vec<Parameter>,
    pub attributes: Vec<Attribute>,
}

impl<'a> Field<'a> for FindKernelReply {
    const LEAST: usize = <Vec<Parameter> as Field<'a>>::LEAST + <Vec<Attribute> as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.parameters.len()));
        for element in &self.parameters {
            element.write(out);
        }
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.attributes.len()));
        for element in &self.attributes {
            element.write(out);
        }
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { parameters: reader.field("parameters")?, attributes: reader.field("attributes")? })
    }
}

/// Address and size in bytes of a global variable, and whether it is managed memory.
///
/// Kind 0x0306, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FindGlobal<'a> {
    pub library: LibraryId,
    pub name: &'a str,
}

impl<'a> Field<'a> for FindGlobal<'a> {
    const LEAST: usize = <LibraryId as Field<'a>>::LEAST + <&'a str as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<12>(out);
        room[0..8].copy_from_slice(&self.library.0.to_le_bytes());
        room[8..12].copy_from_slice(&crate::reader::length_bytes(self.name.len()));
        out.extend_from_slice(self.name.as_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { library: reader.field("library")?, name: reader.field("name")? })
    }
}

impl Message for FindGlobal<'_> {
    const KIND: u16 = 0x0306;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "FindGlobal";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for FindGlobal<'_> {
    type Reply<'a> = FindGlobalReply;
}

/// What answers [`FindGlobal`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FindGlobalReply {
    pub at: DevicePtr,
    pub bytes: u64,
    pub managed: bool,
}

impl<'a> Field<'a> for FindGlobalReply {
    const LEAST: usize = <DevicePtr as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST + <bool as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<17>(out);
        room[0..8].copy_from_slice(&self.at.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.bytes.to_le_bytes());
        room[16..17].copy_from_slice(&[u8::from(self.managed)]);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { at: reader.field("at")?, bytes: reader.field("bytes")?, managed: reader.field("managed")? })
    }
}

/// Sets a CUfunction_attribute. `what` 0: attribute by number; 1: cache configuration; 2: shared memory configuration.
///
/// Kind 0x0307, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SetKernelAttribute {
    pub kernel: KernelId,
    pub what: u32,
    pub number: i32,
    pub value: i32,
}

impl<'a> Field<'a> for SetKernelAttribute {
    const LEAST: usize = <KernelId as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <i32 as Field<'a>>::LEAST
        + <i32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<20>(out);
        room[0..8].copy_from_slice(&self.kernel.0.to_le_bytes());
        room[8..12].copy_from_slice(&self.what.to_le_bytes());
        room[12..16].copy_from_slice(&self.number.to_le_bytes());
        room[16..20].copy_from_slice(&self.value.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            kernel: reader.field("kernel")?,
            what: reader.field("what")?,
            number: reader.field("number")?,
            value: reader.field("value")?,
        })
    }
}

impl Message for SetKernelAttribute {
    const KIND: u16 = 0x0307;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "SetKernelAttribute";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for SetKernelAttribute {
    type Reply<'a> = SetKernelAttributeReply;
}

/// What answers [`SetKernelAttribute`] when its status is success.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SetKernelAttributeReply {
    pub attributes: Vec<Attribute>,
}

impl<'a> Field<'a> for SetKernelAttributeReply {
    const LEAST: usize = <Vec<Attribute> as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.attributes.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { attributes: reader.field("attributes")? })
    }
}

/// Loads a library from `contents` (the main one, then the prelinked ones). Each of them has come in parts or is in the server's cache. The reply names the missing ones by index; then nothing is loaded, and the client sends them under another id. `kind`: 1 fat binary, 2 cubin, 3 PTX text. `at_once`: as cuModuleLoadData, which reports all errors of the load; else as cuLibraryLoadData, which may defer the work until a kernel is asked for. `options` are CUjit_option numbers with plain values (no buffers). The log is the compiler's, also on failure (then in `Reply.detail`). An id whose load failed, or lacked something, stays until `UnloadLibrary`; every question about it fails the same way.
///
/// Kind 0x0308, called: one reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadLibrary<'a> {
    pub library: LibraryId,
    pub kind: u32,
    pub contents: Vec<Content<'a>>,
    pub at_once: bool,
    pub options: Vec<JitOption>,
    pub log_bytes: u32,
}

impl<'a> Field<'a> for LoadLibrary<'a> {
    const LEAST: usize = <LibraryId as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <Vec<Content<'a>> as Field<'a>>::LEAST
        + <bool as Field<'a>>::LEAST
        + <Vec<JitOption> as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<16>(out);
        room[0..8].copy_from_slice(&self.library.0.to_le_bytes());
        room[8..12].copy_from_slice(&self.kind.to_le_bytes());
        room[12..16].copy_from_slice(&crate::reader::length_bytes(self.contents.len()));
        for element in &self.contents {
            element.write(out);
        }
        let room = crate::reader::room::<5>(out);
        room[0..1].copy_from_slice(&[u8::from(self.at_once)]);
        room[1..5].copy_from_slice(&crate::reader::length_bytes(self.options.len()));
        for element in &self.options {
            element.write(out);
        }
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&self.log_bytes.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            library: reader.field("library")?,
            kind: reader.field("kind")?,
            contents: reader.field("contents")?,
            at_once: reader.field("at_once")?,
            options: reader.field("options")?,
            log_bytes: reader.field("log_bytes")?,
        })
    }
}

impl Message for LoadLibrary<'_> {
    const KIND: u16 = 0x0308;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "LoadLibrary";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for LoadLibrary<'_> {
    type Reply<'a> = LoadLibraryReply<'a>;
}

/// What answers [`LoadLibrary`] when its status is success.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadLibraryReply<'a> {
    pub missing: Vec<u32>,
    pub info: &'a str,
}

impl<'a> Field<'a> for LoadLibraryReply<'a> {
    const LEAST: usize = <Vec<u32> as Field<'a>>::LEAST + <&'a str as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.missing.len()));
        for element in &self.missing {
            element.write(out);
        }
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.info.len()));
        out.extend_from_slice(self.info.as_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { missing: reader.field("missing")?, info: reader.field("info")? })
    }
}

/// Bytes by their BLAKE3 hash (32 bytes) and their number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Content<'a> {
    pub hash: &'a [u8],
    pub bytes: u64,
}

impl<'a> Field<'a> for Content<'a> {
    const LEAST: usize = <&'a [u8] as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.hash.len()));
        out.extend_from_slice(self.hash);
        let room = crate::reader::room::<8>(out);
        room[0..8].copy_from_slice(&self.bytes.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { hash: reader.field("hash")?, bytes: reader.field("bytes")? })
    }
}

/// Part of other messages: jit option.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct JitOption {
    pub option: i32,
    pub value: u64,
}

impl<'a> Field<'a> for JitOption {
    const LEAST: usize = <i32 as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<12>(out);
        room[0..4].copy_from_slice(&self.option.to_le_bytes());
        room[4..12].copy_from_slice(&self.value.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { option: reader.field("option")?, value: reader.field("value")? })
    }
}

/// Offset and size in bytes in the parameter block.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Parameter {
    pub offset: u32,
    pub bytes: u32,
}

impl<'a> Field<'a> for Parameter {
    const LEAST: usize = <u32 as Field<'a>>::LEAST + <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.offset.to_le_bytes());
        room[4..8].copy_from_slice(&self.bytes.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { offset: reader.field("offset")?, bytes: reader.field("bytes")? })
    }
}

/// Carries out the commands of this noun.
pub trait LibraryRequests: Handler {
    /// Carries out [`LibraryPart`].
    ///
    /// # Errors
    /// The handler's.
    fn library_part(&mut self, message: LibraryPart<'_>) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`UnloadLibrary`].
    ///
    /// # Errors
    /// The handler's.
    fn unload_library(&mut self, message: UnloadLibrary) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`ListKernels`].
    ///
    /// # Errors
    /// The handler's.
    fn list_kernels(&mut self, message: ListKernels) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`FindKernel`].
    ///
    /// # Errors
    /// The handler's.
    fn find_kernel(&mut self, message: FindKernel<'_>) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`FindGlobal`].
    ///
    /// # Errors
    /// The handler's.
    fn find_global(&mut self, message: FindGlobal<'_>) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`SetKernelAttribute`].
    ///
    /// # Errors
    /// The handler's.
    fn set_kernel_attribute(&mut self, message: SetKernelAttribute) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`LoadLibrary`].
    ///
    /// # Errors
    /// The handler's.
    fn load_library(&mut self, message: &LoadLibrary<'_>) -> Result<Self::Answer, Self::Fault>;
}
