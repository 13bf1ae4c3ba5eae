//! Events.
//! Plain values and their encoding; they check nothing beyond what the types say.
// Made by `cargo xtask gen` from api/messages; edit the tables, not this file.

#[allow(unused_imports)]
use super::*;
#[allow(unused_imports)]
use crate::{
    ArrayId, BlockId, Call, Class, CommId, DecodeError, DevicePtr, EventId, Field, FunctionId, GraphId, Handler,
    KernelId, LibraryId, Message, PeerLinkId, Reader, SignalsId, StreamId, SurfaceId, TextureId, TicketId,
};

/// Makes an event; `flags` as cuEventCreate.
///
/// Kind 0x0601, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CreateEvent {
    pub event: EventId,
    pub flags: u32,
}

impl<'a> Field<'a> for CreateEvent {
    const LEAST: usize = <EventId as Field<'a>>::LEAST + <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<12>(out);
        room[0..8].copy_from_slice(&self.event.0.to_le_bytes());
        room[8..12].copy_from_slice(&self.flags.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { event: reader.field("event")?, flags: reader.field("flags")? })
    }
}

impl Message for CreateEvent {
    const KIND: u16 = 0x0601;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "CreateEvent";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// Records the work that the stream holds so far.
///
/// Kind 0x0602, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RecordEvent {
    pub event: EventId,
    pub stream: StreamId,
    pub flags: u32,
}

impl<'a> Field<'a> for RecordEvent {
    const LEAST: usize = <EventId as Field<'a>>::LEAST + <StreamId as Field<'a>>::LEAST + <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<20>(out);
        room[0..8].copy_from_slice(&self.event.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.stream.0.to_le_bytes());
        room[16..20].copy_from_slice(&self.flags.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { event: reader.field("event")?, stream: reader.field("stream")?, flags: reader.field("flags")? })
    }
}

impl Message for RecordEvent {
    const KIND: u16 = 0x0602;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "RecordEvent";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// Replies when the last record has completed, after all deliveries of work before it.
///
/// Kind 0x0603, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SynchronizeEvent {
    pub event: EventId,
}

impl<'a> Field<'a> for SynchronizeEvent {
    const LEAST: usize = <EventId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.event.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { event: reader.field("event")? })
    }
}

impl Message for SynchronizeEvent {
    const KIND: u16 = 0x0603;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "SynchronizeEvent";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for SynchronizeEvent {
    type Reply<'a> = ();
}

/// Replies at once: success or NOT_READY.
///
/// Kind 0x0604, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QueryEvent {
    pub event: EventId,
}

impl<'a> Field<'a> for QueryEvent {
    const LEAST: usize = <EventId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.event.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { event: reader.field("event")? })
    }
}

impl Message for QueryEvent {
    const KIND: u16 = 0x0604;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "QueryEvent";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for QueryEvent {
    type Reply<'a> = ();
}

/// Milliseconds between two completed events.
///
/// Kind 0x0605, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ElapsedTime {
    pub start: EventId,
    pub end: EventId,
}

impl<'a> Field<'a> for ElapsedTime {
    const LEAST: usize = <EventId as Field<'a>>::LEAST + <EventId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<16>(out);
        room[0..8].copy_from_slice(&self.start.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.end.0.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { start: reader.field("start")?, end: reader.field("end")? })
    }
}

impl Message for ElapsedTime {
    const KIND: u16 = 0x0605;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "ElapsedTime";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for ElapsedTime {
    type Reply<'a> = ElapsedTimeReply;
}

/// What answers [`ElapsedTime`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ElapsedTimeReply {
    pub milliseconds: f32,
}

impl<'a> Field<'a> for ElapsedTimeReply {
    const LEAST: usize = <f32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.milliseconds.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { milliseconds: reader.field("milliseconds")? })
    }
}

/// Destroys the event when its last record has completed.
///
/// Kind 0x0606, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DestroyEvent {
    pub event: EventId,
}

impl<'a> Field<'a> for DestroyEvent {
    const LEAST: usize = <EventId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.event.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { event: reader.field("event")? })
    }
}

impl Message for DestroyEvent {
    const KIND: u16 = 0x0606;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "DestroyEvent";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// Carries out the commands of this noun.
pub trait EventRequests: Handler {
    /// Carries out [`CreateEvent`].
    ///
    /// # Errors
    /// The handler's.
    fn create_event(&mut self, message: CreateEvent) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`RecordEvent`].
    ///
    /// # Errors
    /// The handler's.
    fn record_event(&mut self, message: RecordEvent) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`SynchronizeEvent`].
    ///
    /// # Errors
    /// The handler's.
    fn synchronize_event(&mut self, message: SynchronizeEvent) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`QueryEvent`].
    ///
    /// # Errors
    /// The handler's.
    fn query_event(&mut self, message: QueryEvent) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`ElapsedTime`].
    ///
    /// # Errors
    /// The handler's.
    fn elapsed_time(&mut self, message: ElapsedTime) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`DestroyEvent`].
    ///
    /// # Errors
    /// The handler's.
    fn destroy_event(&mut self, message: DestroyEvent) -> Result<Self::Answer, Self::Fault>;
}
