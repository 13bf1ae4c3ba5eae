//! What the GPU does and when, recorded while a profiler of the program wants it. Times are nanoseconds of the server's profiler, which `AskActivityClock` asks for. Recording is no object that another worker makes again: a session that records does not move.
//! Plain values and their encoding; they check nothing beyond what the types say.
// Made by `cargo xtask gen` from api/messages; edit the tables, not this file.

#[allow(unused_imports)]
use super::*;
#[allow(unused_imports)]
use crate::{
    ArrayId, BlockId, Call, Class, CommId, DecodeError, DevicePtr, EventId, Field, FunctionId, GraphId, Handler,
    KernelId, LibraryId, Message, PeerLinkId, Reader, SignalsId, StreamId, SurfaceId, TextureId, TicketId,
};

/// Records the work of later commands. `wanted` are bits: 1 kernels, 2 copies, 4 fills; they replace those of an earlier one. NOT_SUPPORTED where the server has no profiler; OUT_OF_MEMORY where its host memory is over the session's limit. `version` is `cuptiGetVersion`'s number.
///
/// Kind 0x1201, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StartActivities {
    pub wanted: u32,
}

impl<'a> Field<'a> for StartActivities {
    const LEAST: usize = <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.wanted.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { wanted: reader.field("wanted")? })
    }
}

impl Message for StartActivities {
    const KIND: u16 = 0x1201;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "StartActivities";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for StartActivities {
    type Reply<'a> = StartActivitiesReply;
}

/// What answers [`StartActivities`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StartActivitiesReply {
    pub version: u32,
}

impl<'a> Field<'a> for StartActivitiesReply {
    const LEAST: usize = <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.version.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { version: reader.field("version")? })
    }
}

/// Records nothing more. What was recorded stays until it is taken, and the session's host memory is charged as long.
///
/// Kind 0x1202, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StopActivities {}

impl<'a> Field<'a> for StopActivities {
    const LEAST: usize = 0;

    fn write(&self, _out: &mut Vec<u8>) {}

    fn read(_reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {})
    }
}

impl Message for StopActivities {
    const KIND: u16 = 0x1202;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "StopActivities";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for StopActivities {
    type Reply<'a> = ();
}

/// Takes what was recorded, at most `most` activities and 2 MiB. With `flush` 1 what has ended since is looked for first, with 2 also work that has not ended; with 0 the last one goes on. `more` says whether there is more. `lost` counts activities that found no room since the session began.
///
/// Kind 0x1203, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TakeActivities {
    pub flush: u32,
    pub most: u32,
}

impl<'a> Field<'a> for TakeActivities {
    const LEAST: usize = <u32 as Field<'a>>::LEAST + <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.flush.to_le_bytes());
        room[4..8].copy_from_slice(&self.most.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { flush: reader.field("flush")?, most: reader.field("most")? })
    }
}

impl Message for TakeActivities {
    const KIND: u16 = 0x1203;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "TakeActivities";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for TakeActivities {
    type Reply<'a> = TakeActivitiesReply<'a>;
}

/// What answers [`TakeActivities`] when its status is success.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TakeActivitiesReply<'a> {
    pub more: bool,
    pub lost: u64,
    pub names: Vec<&'a str>,
    pub activities: Vec<Activity>,
}

impl<'a> Field<'a> for TakeActivitiesReply<'a> {
    const LEAST: usize = <bool as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <Vec<&'a str> as Field<'a>>::LEAST
        + <Vec<Activity> as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<13>(out);
        room[0..1].copy_from_slice(&[u8::from(self.more)]);
        room[1..9].copy_from_slice(&self.lost.to_le_bytes());
        room[9..13].copy_from_slice(&crate::reader::length_bytes(self.names.len()));
        for element in &self.names {
            element.write(out);
        }
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.activities.len()));
        for element in &self.activities {
            element.write(out);
        }
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            more: reader.field("more")?,
            lost: reader.field("lost")?,
            names: reader.field("names")?,
            activities: reader.field("activities")?,
        })
    }
}

/// The time of the server's profiler, as the reader takes the message: a client that measures the round trip knows how far both clocks are apart. NOT_SUPPORTED before `StartActivities`.
///
/// Kind 0x1204, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AskActivityClock {}

impl<'a> Field<'a> for AskActivityClock {
    const LEAST: usize = 0;

    fn write(&self, _out: &mut Vec<u8>) {}

    fn read(_reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {})
    }
}

impl Message for AskActivityClock {
    const KIND: u16 = 0x1204;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "AskActivityClock";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for AskActivityClock {
    type Reply<'a> = AskActivityClockReply;
}

/// What answers [`AskActivityClock`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AskActivityClockReply {
    pub now: u64,
}

impl<'a> Field<'a> for AskActivityClockReply {
    const LEAST: usize = <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.now.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { now: reader.field("now")? })
    }
}

/// What the GPU did: `kind` 0 a kernel, 1 a copy, 2 a fill. `command` is the sequence of the client's message that issued it, 0 where that is not known. `name` is the index of a kernel's name among the reply's. Numbers that the kind does not have are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Activity {
    pub kind: u8,
    pub copy_kind: u8,
    pub source_kind: u8,
    pub target_kind: u8,
    pub is_async: bool,
    pub command: u64,
    pub begin: u64,
    pub end: u64,
    pub stream: u32,
    pub graph: u32,
    pub node: u64,
    pub name: u32,
    pub grid_x: u32,
    pub grid_y: u32,
    pub grid_z: u32,
    pub block_x: u32,
    pub block_y: u32,
    pub block_z: u32,
    pub registers: u32,
    pub static_shared: u32,
    pub dynamic_shared: u32,
    pub local: u32,
    pub bytes: u64,
    pub value: u32,
}

impl<'a> Field<'a> for Activity {
    const LEAST: usize = <u8 as Field<'a>>::LEAST
        + <u8 as Field<'a>>::LEAST
        + <u8 as Field<'a>>::LEAST
        + <u8 as Field<'a>>::LEAST
        + <bool as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<101>(out);
        room[0..1].copy_from_slice(&self.kind.to_le_bytes());
        room[1..2].copy_from_slice(&self.copy_kind.to_le_bytes());
        room[2..3].copy_from_slice(&self.source_kind.to_le_bytes());
        room[3..4].copy_from_slice(&self.target_kind.to_le_bytes());
        room[4..5].copy_from_slice(&[u8::from(self.is_async)]);
        room[5..13].copy_from_slice(&self.command.to_le_bytes());
        room[13..21].copy_from_slice(&self.begin.to_le_bytes());
        room[21..29].copy_from_slice(&self.end.to_le_bytes());
        room[29..33].copy_from_slice(&self.stream.to_le_bytes());
        room[33..37].copy_from_slice(&self.graph.to_le_bytes());
        room[37..45].copy_from_slice(&self.node.to_le_bytes());
        room[45..49].copy_from_slice(&self.name.to_le_bytes());
        room[49..53].copy_from_slice(&self.grid_x.to_le_bytes());
        room[53..57].copy_from_slice(&self.grid_y.to_le_bytes());
        room[57..61].copy_from_slice(&self.grid_z.to_le_bytes());
        room[61..65].copy_from_slice(&self.block_x.to_le_bytes());
        room[65..69].copy_from_slice(&self.block_y.to_le_bytes());
        room[69..73].copy_from_slice(&self.block_z.to_le_bytes());
        room[73..77].copy_from_slice(&self.registers.to_le_bytes());
        room[77..81].copy_from_slice(&self.static_shared.to_le_bytes());
        room[81..85].copy_from_slice(&self.dynamic_shared.to_le_bytes());
        room[85..89].copy_from_slice(&self.local.to_le_bytes());
        room[89..97].copy_from_slice(&self.bytes.to_le_bytes());
        room[97..101].copy_from_slice(&self.value.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            kind: reader.field("kind")?,
            copy_kind: reader.field("copy_kind")?,
            source_kind: reader.field("source_kind")?,
            target_kind: reader.field("target_kind")?,
            is_async: reader.field("is_async")?,
            command: reader.field("command")?,
            begin: reader.field("begin")?,
            end: reader.field("end")?,
            stream: reader.field("stream")?,
            graph: reader.field("graph")?,
            node: reader.field("node")?,
            name: reader.field("name")?,
            grid_x: reader.field("grid_x")?,
            grid_y: reader.field("grid_y")?,
            grid_z: reader.field("grid_z")?,
            block_x: reader.field("block_x")?,
            block_y: reader.field("block_y")?,
            block_z: reader.field("block_z")?,
            registers: reader.field("registers")?,
            static_shared: reader.field("static_shared")?,
            dynamic_shared: reader.field("dynamic_shared")?,
            local: reader.field("local")?,
            bytes: reader.field("bytes")?,
            value: reader.field("value")?,
        })
    }
}

/// Carries out the commands of this noun.
pub trait ActivityRequests: Handler {
    /// Carries out [`StartActivities`].
    ///
    /// # Errors
    /// The handler's.
    fn start_activities(&mut self, message: StartActivities) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`StopActivities`].
    ///
    /// # Errors
    /// The handler's.
    fn stop_activities(&mut self, message: StopActivities) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`TakeActivities`].
    ///
    /// # Errors
    /// The handler's.
    fn take_activities(&mut self, message: TakeActivities) -> Result<Self::Answer, Self::Fault>;
}
