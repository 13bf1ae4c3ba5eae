//! Streams. Id 0 is the legacy default stream; all others, also per-thread default streams, are made by CreateStream.
//! Plain values and their encoding; they check nothing beyond what the types say.
// Made by `cargo xtask gen` from api/messages; edit the tables, not this file.

#[allow(unused_imports)]
use super::*;
#[allow(unused_imports)]
use crate::{
    ArrayId, BlockId, Call, Class, CommId, DecodeError, DevicePtr, EventId, Field, FunctionId, GraphId, Handler,
    KernelId, LibraryId, Message, PeerLinkId, Reader, SignalsId, StreamId, SurfaceId, TextureId, TicketId,
};

/// Makes a stream; `flags` and `priority` as cuStreamCreateWithPriority.
///
/// Kind 0x0501, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CreateStream {
    pub stream: StreamId,
    pub flags: u32,
    pub priority: i32,
}

impl<'a> Field<'a> for CreateStream {
    const LEAST: usize = <StreamId as Field<'a>>::LEAST + <u32 as Field<'a>>::LEAST + <i32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<16>(out);
        room[0..8].copy_from_slice(&self.stream.0.to_le_bytes());
        room[8..12].copy_from_slice(&self.flags.to_le_bytes());
        room[12..16].copy_from_slice(&self.priority.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { stream: reader.field("stream")?, flags: reader.field("flags")?, priority: reader.field("priority")? })
    }
}

impl Message for CreateStream {
    const KIND: u16 = 0x0501;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "CreateStream";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// Destroys the stream; work issued on it still completes.
///
/// Kind 0x0502, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DestroyStream {
    pub stream: StreamId,
}

impl<'a> Field<'a> for DestroyStream {
    const LEAST: usize = <StreamId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.stream.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { stream: reader.field("stream")? })
    }
}

impl Message for DestroyStream {
    const KIND: u16 = 0x0502;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "DestroyStream";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// Later work of the stream waits for the work that the event has recorded.
///
/// Kind 0x0503, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WaitEvent {
    pub stream: StreamId,
    pub event: EventId,
    pub flags: u32,
}

impl<'a> Field<'a> for WaitEvent {
    const LEAST: usize = <StreamId as Field<'a>>::LEAST + <EventId as Field<'a>>::LEAST + <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<20>(out);
        room[0..8].copy_from_slice(&self.stream.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.event.0.to_le_bytes());
        room[16..20].copy_from_slice(&self.flags.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { stream: reader.field("stream")?, event: reader.field("event")?, flags: reader.field("flags")? })
    }
}

impl Message for WaitEvent {
    const KIND: u16 = 0x0503;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "WaitEvent";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// Replies when everything issued on the stream before it has completed, after all deliveries and output of that work.
///
/// Kind 0x0504, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SynchronizeStream {
    pub stream: StreamId,
}

impl<'a> Field<'a> for SynchronizeStream {
    const LEAST: usize = <StreamId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.stream.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { stream: reader.field("stream")? })
    }
}

impl Message for SynchronizeStream {
    const KIND: u16 = 0x0504;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "SynchronizeStream";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for SynchronizeStream {
    type Reply<'a> = ();
}

/// Replies at once: success or NOT_READY. Success means what SynchronizeStream's reply means.
///
/// Kind 0x0505, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QueryStream {
    pub stream: StreamId,
}

impl<'a> Field<'a> for QueryStream {
    const LEAST: usize = <StreamId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.stream.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { stream: reader.field("stream")? })
    }
}

impl Message for QueryStream {
    const KIND: u16 = 0x0505;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "QueryStream";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for QueryStream {
    type Reply<'a> = ();
}

/// Makes a stream in a context of its own, for bytes that nothing may hold up which stands on the GPU. It takes copies between client and device, copies on the device and fills; other work is refused. A session has one.
///
/// Kind 0x0507, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CreateApartStream {
    pub stream: StreamId,
}

impl<'a> Field<'a> for CreateApartStream {
    const LEAST: usize = <StreamId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.stream.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { stream: reader.field("stream")? })
    }
}

impl Message for CreateApartStream {
    const KIND: u16 = 0x0507;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "CreateApartStream";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for CreateApartStream {
    type Reply<'a> = ();
}

/// Carries out the commands of this noun.
pub trait StreamRequests: Handler {
    /// Carries out [`CreateStream`].
    ///
    /// # Errors
    /// The handler's.
    fn create_stream(&mut self, message: CreateStream) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`DestroyStream`].
    ///
    /// # Errors
    /// The handler's.
    fn destroy_stream(&mut self, message: DestroyStream) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`WaitEvent`].
    ///
    /// # Errors
    /// The handler's.
    fn wait_event(&mut self, message: WaitEvent) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`SynchronizeStream`].
    ///
    /// # Errors
    /// The handler's.
    fn synchronize_stream(&mut self, message: SynchronizeStream) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`QueryStream`].
    ///
    /// # Errors
    /// The handler's.
    fn query_stream(&mut self, message: QueryStream) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`CreateApartStream`].
    ///
    /// # Errors
    /// The handler's.
    fn create_apart_stream(&mut self, message: CreateApartStream) -> Result<Self::Answer, Self::Fault>;
}
