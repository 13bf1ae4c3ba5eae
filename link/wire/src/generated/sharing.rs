//! Shared memory: pinned host memory of the program that client and worker both map, at one address. Only over a Unix socket. Allocated memory is of one file of the client's. Memory that the program registers is of files of the program's own.
//! Plain values and their encoding; they check nothing beyond what the types say.
// Made by `cargo xtask gen` from api/messages; edit the tables, not this file.

#[allow(unused_imports)]
use super::*;
#[allow(unused_imports)]
use crate::{
    ArrayId, BlockId, Call, Class, CommId, DecodeError, DevicePtr, EventId, Field, FunctionId, GraphId, Handler,
    KernelId, LibraryId, Message, PeerLinkId, Reader, SignalsId, StreamId, SurfaceId, TextureId, TicketId,
};

/// The descriptor that goes with the frame is `bytes` of the client's memory. Its byte 0 lies at address `at` of both processes. A session does this once at most. NOT_SUPPORTED if no such descriptor came, if it is not a memory file sealed against shrinking, or if the server shares no memory.
///
/// Kind 0x0c01, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ShareMemory {
    pub at: DevicePtr,
    pub bytes: u64,
}

impl<'a> Field<'a> for ShareMemory {
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

impl Message for ShareMemory {
    const KIND: u16 = 0x0c01;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "ShareMemory";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for ShareMemory {
    type Reply<'a> = ();
}

/// Maps whole pages of the shared memory and lets the device reach them. After the reply, copies and fills may name addresses in them. `reached` says whether kernels may, too. OUT_OF_MEMORY beyond what a session may share, NOT_SUPPORTED if the addresses are taken.
///
/// Kind 0x0c02, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MapShared {
    pub at: DevicePtr,
    pub bytes: u64,
}

impl<'a> Field<'a> for MapShared {
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

impl Message for MapShared {
    const KIND: u16 = 0x0c02;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "MapShared";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for MapShared {
    type Reply<'a> = MapSharedReply;
}

/// What answers [`MapShared`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MapSharedReply {
    pub reached: bool,
}

impl<'a> Field<'a> for MapSharedReply {
    const LEAST: usize = <bool as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.reached.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { reached: reader.field("reached")? })
    }
}

/// Ends the mapping that starts at `at`. Replies when all work issued before has completed and the pages are no longer the worker's.
///
/// Kind 0x0c03, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UnmapShared {
    pub at: DevicePtr,
}

impl<'a> Field<'a> for UnmapShared {
    const LEAST: usize = <DevicePtr as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.at.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { at: reader.field("at")? })
    }
}

impl Message for UnmapShared {
    const KIND: u16 = 0x0c03;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "UnmapShared";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for UnmapShared {
    type Reply<'a> = ();
}

/// The descriptor that goes with the frame is a file in memory (tmpfs), of which the program has registered pages. Maps its `bytes` bytes from `offset` on at `at` and lets the device reach them. All three are whole pages; `at` is an address of the client where it has the same pages. After the reply, copies and fills may name addresses in them. `reached` as in `MapShared`. The file may become shorter: the device keeps the pages that it had, and the worker never touches them itself. OUT_OF_MEMORY beyond what a session may share; NOT_SUPPORTED if no such descriptor came, if the file is too short, or if the addresses are taken.
///
/// Kind 0x0c04, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ShareFile {
    pub at: DevicePtr,
    pub offset: u64,
    pub bytes: u64,
}

impl<'a> Field<'a> for ShareFile {
    const LEAST: usize = <DevicePtr as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<24>(out);
        room[0..8].copy_from_slice(&self.at.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.offset.to_le_bytes());
        room[16..24].copy_from_slice(&self.bytes.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { at: reader.field("at")?, offset: reader.field("offset")?, bytes: reader.field("bytes")? })
    }
}

impl Message for ShareFile {
    const KIND: u16 = 0x0c04;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "ShareFile";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for ShareFile {
    type Reply<'a> = ShareFileReply;
}

/// What answers [`ShareFile`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ShareFileReply {
    pub reached: bool,
}

impl<'a> Field<'a> for ShareFileReply {
    const LEAST: usize = <bool as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.reached.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { reached: reader.field("reached")? })
    }
}

/// Carries out the commands of this noun.
pub trait SharingRequests: Handler {
    /// Carries out [`ShareMemory`].
    ///
    /// # Errors
    /// The handler's.
    fn share_memory(&mut self, message: ShareMemory) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`MapShared`].
    ///
    /// # Errors
    /// The handler's.
    fn map_shared(&mut self, message: MapShared) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`UnmapShared`].
    ///
    /// # Errors
    /// The handler's.
    fn unmap_shared(&mut self, message: UnmapShared) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`ShareFile`].
    ///
    /// # Errors
    /// The handler's.
    fn share_file(&mut self, message: ShareFile) -> Result<Self::Answer, Self::Fault>;
}
