//! Mirrors: host memory of the program that kernels reach, at the same address in the worker. Each side knows what the other holds and sends what has changed. The client sends before work and waits, the worker before it answers a wait.
//! Plain values and their encoding; they check nothing beyond what the types say.
// Made by `cargo xtask gen` from api/messages; edit the tables, not this file.

#[allow(unused_imports)]
use super::*;
#[allow(unused_imports)]
use crate::{
    ArrayId, BlockId, Call, Class, CommId, DecodeError, DevicePtr, EventId, Field, FunctionId, GraphId, Handler,
    KernelId, LibraryId, Message, PeerLinkId, Reader, SignalsId, StreamId, SurfaceId, TextureId, TicketId,
};

/// Maps `bytes` of zeros at address `at` of the worker's own process and lets the device reach them there. NOT_SUPPORTED if the address is taken, or if the device's address of it differs. OUT_OF_MEMORY beyond what the operator allows a session (`--mirrored-memory`, in whole pages, and `--host-memory`), and for more than 4 GiB at once.
///
/// Kind 0x0b01, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MirrorMemory {
    pub at: DevicePtr,
    pub bytes: u64,
}

impl<'a> Field<'a> for MirrorMemory {
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

impl Message for MirrorMemory {
    const KIND: u16 = 0x0b01;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "MirrorMemory";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for MirrorMemory {
    type Reply<'a> = ();
}

/// Ends the mirror that starts at `at`. The client has waited for the work that uses it.
///
/// Kind 0x0b02, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UnmirrorMemory {
    pub at: DevicePtr,
}

impl<'a> Field<'a> for UnmirrorMemory {
    const LEAST: usize = <DevicePtr as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.at.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { at: reader.field("at")? })
    }
}

impl Message for UnmirrorMemory {
    const KIND: u16 = 0x0b02;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "UnmirrorMemory";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for UnmirrorMemory {
    type Reply<'a> = ();
}

/// The bytes that the program has changed in the mirror that starts at `at`: each run of bytes with its offset. Written as soon as it is read, not in command order: what is behind it may let a stream go on that reads them.
///
/// Kind 0x0b03, posted: no reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WriteMirror<'a> {
    pub at: DevicePtr,
    pub runs: Vec<MirrorRun<'a>>,
}

impl<'a> Field<'a> for WriteMirror<'a> {
    const LEAST: usize = <DevicePtr as Field<'a>>::LEAST + <Vec<MirrorRun<'a>> as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<12>(out);
        room[0..8].copy_from_slice(&self.at.0.to_le_bytes());
        room[8..12].copy_from_slice(&crate::reader::length_bytes(self.runs.len()));
        for element in &self.runs {
            element.write(out);
        }
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { at: reader.field("at")?, runs: reader.field("runs")? })
    }
}

impl Message for WriteMirror<'_> {
    const KIND: u16 = 0x0b03;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "WriteMirror";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// The bytes that the device has changed in the mirror that starts at `at`. Sent before the reply that says that the work is complete.
///
/// Kind 0x0b81, from the server, unasked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MirrorChanged<'a> {
    pub at: DevicePtr,
    pub runs: Vec<MirrorRun<'a>>,
}

impl<'a> Field<'a> for MirrorChanged<'a> {
    const LEAST: usize = <DevicePtr as Field<'a>>::LEAST + <Vec<MirrorRun<'a>> as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<12>(out);
        room[0..8].copy_from_slice(&self.at.0.to_le_bytes());
        room[8..12].copy_from_slice(&crate::reader::length_bytes(self.runs.len()));
        for element in &self.runs {
            element.write(out);
        }
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { at: reader.field("at")?, runs: reader.field("runs")? })
    }
}

impl Message for MirrorChanged<'_> {
    const KIND: u16 = 0x0b81;
    const CLASS: Class = Class::Push;
    const NAME: &'static str = "MirrorChanged";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// New bytes for a mirror, from an offset on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MirrorRun<'a> {
    pub offset: u32,
    pub bytes: &'a [u8],
}

impl<'a> Field<'a> for MirrorRun<'a> {
    const LEAST: usize = <u32 as Field<'a>>::LEAST + <&'a [u8] as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.offset.to_le_bytes());
        room[4..8].copy_from_slice(&crate::reader::length_bytes(self.bytes.len()));
        out.extend_from_slice(self.bytes);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { offset: reader.field("offset")?, bytes: reader.field("bytes")? })
    }
}

/// Carries out the commands of this noun.
pub trait MirrorRequests: Handler {
    /// Carries out [`MirrorMemory`].
    ///
    /// # Errors
    /// The handler's.
    fn mirror_memory(&mut self, message: MirrorMemory) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`UnmirrorMemory`].
    ///
    /// # Errors
    /// The handler's.
    fn unmirror_memory(&mut self, message: UnmirrorMemory) -> Result<Self::Answer, Self::Fault>;
}
