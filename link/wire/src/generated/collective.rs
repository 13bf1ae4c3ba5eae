//! NCCL's communicators and their work, done by NVIDIA's NCCL in the workers. They are no objects that another worker makes again: a session that has loaded NCCL does not move. Results are `ncclResult_t`; `words` say what failed.
//! Plain values and their encoding; they check nothing beyond what the types say.
// Made by `cargo xtask gen` from api/messages; edit the tables, not this file.

#[allow(unused_imports)]
use super::*;
#[allow(unused_imports)]
use crate::{
    ArrayId, BlockId, Call, Class, CommId, DecodeError, DevicePtr, EventId, Field, FunctionId, GraphId, Handler,
    KernelId, LibraryId, Message, PeerLinkId, Reader, SignalsId, StreamId, SurfaceId, TextureId, TicketId,
};

/// Loads NCCL with these settings, at the first time. In place of the node, `NCCL_HOSTID`, a program names its job. NOT_SUPPORTED where the server has none. `version` is `ncclGetVersion`'s number.
///
/// Kind 0x1001, called: one reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpenCollectives<'a> {
    pub settings: Vec<CollectiveSetting<'a>>,
}

impl<'a> Field<'a> for OpenCollectives<'a> {
    const LEAST: usize = <Vec<CollectiveSetting<'a>> as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.settings.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { settings: reader.field("settings")? })
    }
}

impl Message for OpenCollectives<'_> {
    const KIND: u16 = 0x1001;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "OpenCollectives";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for OpenCollectives<'_> {
    type Reply<'a> = OpenCollectivesReply;
}

/// What answers [`OpenCollectives`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OpenCollectivesReply {
    pub version: u32,
}

impl<'a> Field<'a> for OpenCollectivesReply {
    const LEAST: usize = <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.version.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { version: reader.field("version")? })
    }
}

/// A unique id of 128 bytes, whose root is this worker. Its last 32 bytes are floe's key: workers that have it accept each other's connections.
///
/// Kind 0x1002, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NewUniqueId {}

impl<'a> Field<'a> for NewUniqueId {
    const LEAST: usize = 0;

    fn write(&self, _out: &mut Vec<u8>) {}

    fn read(_reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {})
    }
}

impl Message for NewUniqueId {
    const KIND: u16 = 0x1002;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "NewUniqueId";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for NewUniqueId {
    type Reply<'a> = NewUniqueIdReply<'a>;
}

/// What answers [`NewUniqueId`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NewUniqueIdReply<'a> {
    pub result: u32,
    pub words: &'a str,
    pub id: &'a [u8],
}

impl<'a> Field<'a> for NewUniqueIdReply<'a> {
    const LEAST: usize = <u32 as Field<'a>>::LEAST + <&'a str as Field<'a>>::LEAST + <&'a [u8] as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.result.to_le_bytes());
        room[4..8].copy_from_slice(&crate::reader::length_bytes(self.words.len()));
        out.extend_from_slice(self.words.as_bytes());
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.id.len()));
        out.extend_from_slice(self.id);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { result: reader.field("result")?, words: reader.field("words")?, id: reader.field("id")? })
    }
}

/// Makes the communicator `comm` with the ranks that have the same ids (128 bytes each). `config` is as many of cgaClusterSize, minCTAs, maxCTAs, splitShare, trafficClass, collnetEnable, CTAPolicy, shrinkShare, nvlsCTAs, nChannelsPerNetPeer, nvlinkCentricSched, graphUsageMode, numRmaCtx, maxP2pPeers, graphStreamOrdering, launchOrderImplicit, numRmaSig, rmaEagerInit, hostCftMode, nvlsHostMode, `name` the communicator's name. The worker waits for the other ranks on a thread; later commands do not.
///
/// Kind 0x1003, called: one reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InitComm<'a> {
    pub comm: CommId,
    pub ids: &'a [u8],
    pub ranks: u32,
    pub rank: u32,
    pub config: Vec<i32>,
    pub name: &'a str,
}

impl<'a> Field<'a> for InitComm<'a> {
    const LEAST: usize = <CommId as Field<'a>>::LEAST
        + <&'a [u8] as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <Vec<i32> as Field<'a>>::LEAST
        + <&'a str as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<12>(out);
        room[0..8].copy_from_slice(&self.comm.0.to_le_bytes());
        room[8..12].copy_from_slice(&crate::reader::length_bytes(self.ids.len()));
        out.extend_from_slice(self.ids);
        let room = crate::reader::room::<12>(out);
        room[0..4].copy_from_slice(&self.ranks.to_le_bytes());
        room[4..8].copy_from_slice(&self.rank.to_le_bytes());
        room[8..12].copy_from_slice(&crate::reader::length_bytes(self.config.len()));
        for element in &self.config {
            element.write(out);
        }
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.name.len()));
        out.extend_from_slice(self.name.as_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            comm: reader.field("comm")?,
            ids: reader.field("ids")?,
            ranks: reader.field("ranks")?,
            rank: reader.field("rank")?,
            config: reader.field("config")?,
            name: reader.field("name")?,
        })
    }
}

impl Message for InitComm<'_> {
    const KIND: u16 = 0x1003;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "InitComm";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for InitComm<'_> {
    type Reply<'a> = InitCommReply<'a>;
}

/// What answers [`InitComm`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct InitCommReply<'a> {
    pub result: u32,
    pub words: &'a str,
}

impl<'a> Field<'a> for InitCommReply<'a> {
    const LEAST: usize = <u32 as Field<'a>>::LEAST + <&'a str as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.result.to_le_bytes());
        room[4..8].copy_from_slice(&crate::reader::length_bytes(self.words.len()));
        out.extend_from_slice(self.words.as_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { result: reader.field("result")?, words: reader.field("words")? })
    }
}

/// Splits `comm`: ranks of one color make `child`. Of color -1 there is none; `child` is 0 then. Without `config` and `name` it has those of `comm`, and so have the other ways to make one of another. Waits as `InitComm` does.
///
/// Kind 0x1004, called: one reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SplitComm<'a> {
    pub comm: CommId,
    pub child: CommId,
    pub color: i32,
    pub key: i32,
    pub config: Vec<i32>,
    pub name: &'a str,
}

impl<'a> Field<'a> for SplitComm<'a> {
    const LEAST: usize = <CommId as Field<'a>>::LEAST
        + <CommId as Field<'a>>::LEAST
        + <i32 as Field<'a>>::LEAST
        + <i32 as Field<'a>>::LEAST
        + <Vec<i32> as Field<'a>>::LEAST
        + <&'a str as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<28>(out);
        room[0..8].copy_from_slice(&self.comm.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.child.0.to_le_bytes());
        room[16..20].copy_from_slice(&self.color.to_le_bytes());
        room[20..24].copy_from_slice(&self.key.to_le_bytes());
        room[24..28].copy_from_slice(&crate::reader::length_bytes(self.config.len()));
        for element in &self.config {
            element.write(out);
        }
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.name.len()));
        out.extend_from_slice(self.name.as_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            comm: reader.field("comm")?,
            child: reader.field("child")?,
            color: reader.field("color")?,
            key: reader.field("key")?,
            config: reader.field("config")?,
            name: reader.field("name")?,
        })
    }
}

impl Message for SplitComm<'_> {
    const KIND: u16 = 0x1004;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "SplitComm";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for SplitComm<'_> {
    type Reply<'a> = SplitCommReply<'a>;
}

/// What answers [`SplitComm`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SplitCommReply<'a> {
    pub result: u32,
    pub words: &'a str,
    pub rank: u32,
    pub ranks: u32,
}

impl<'a> Field<'a> for SplitCommReply<'a> {
    const LEAST: usize = <u32 as Field<'a>>::LEAST
        + <&'a str as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.result.to_le_bytes());
        room[4..8].copy_from_slice(&crate::reader::length_bytes(self.words.len()));
        out.extend_from_slice(self.words.as_bytes());
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.rank.to_le_bytes());
        room[4..8].copy_from_slice(&self.ranks.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            result: reader.field("result")?,
            words: reader.field("words")?,
            rank: reader.field("rank")?,
            ranks: reader.field("ranks")?,
        })
    }
}

/// Makes `child` of the ranks of `comm` that are not excluded. With `flags` 1 what `comm` is doing is aborted first.
///
/// Kind 0x1005, called: one reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShrinkComm<'a> {
    pub comm: CommId,
    pub child: CommId,
    pub excluded: Vec<i32>,
    pub flags: u32,
    pub config: Vec<i32>,
    pub name: &'a str,
}

impl<'a> Field<'a> for ShrinkComm<'a> {
    const LEAST: usize = <CommId as Field<'a>>::LEAST
        + <CommId as Field<'a>>::LEAST
        + <Vec<i32> as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <Vec<i32> as Field<'a>>::LEAST
        + <&'a str as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<20>(out);
        room[0..8].copy_from_slice(&self.comm.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.child.0.to_le_bytes());
        room[16..20].copy_from_slice(&crate::reader::length_bytes(self.excluded.len()));
        for element in &self.excluded {
            element.write(out);
        }
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.flags.to_le_bytes());
        room[4..8].copy_from_slice(&crate::reader::length_bytes(self.config.len()));
        for element in &self.config {
            element.write(out);
        }
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.name.len()));
        out.extend_from_slice(self.name.as_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            comm: reader.field("comm")?,
            child: reader.field("child")?,
            excluded: reader.field("excluded")?,
            flags: reader.field("flags")?,
            config: reader.field("config")?,
            name: reader.field("name")?,
        })
    }
}

impl Message for ShrinkComm<'_> {
    const KIND: u16 = 0x1005;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "ShrinkComm";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for ShrinkComm<'_> {
    type Reply<'a> = ShrinkCommReply<'a>;
}

/// What answers [`ShrinkComm`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ShrinkCommReply<'a> {
    pub result: u32,
    pub words: &'a str,
    pub rank: u32,
    pub ranks: u32,
}

impl<'a> Field<'a> for ShrinkCommReply<'a> {
    const LEAST: usize = <u32 as Field<'a>>::LEAST
        + <&'a str as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.result.to_le_bytes());
        room[4..8].copy_from_slice(&crate::reader::length_bytes(self.words.len()));
        out.extend_from_slice(self.words.as_bytes());
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.rank.to_le_bytes());
        room[4..8].copy_from_slice(&self.ranks.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            result: reader.field("result")?,
            words: reader.field("words")?,
            rank: reader.field("rank")?,
            ranks: reader.field("ranks")?,
        })
    }
}

/// The calls of a group, each in the order of its stream. A failure is the communicator's asynchronous error from then on, and EXTERNAL_DEVICE of the session.
///
/// Kind 0x1006, posted: no reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CollectiveGroup {
    pub calls: Vec<CollectiveCall>,
}

impl<'a> Field<'a> for CollectiveGroup {
    const LEAST: usize = <Vec<CollectiveCall> as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.calls.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { calls: reader.field("calls")? })
    }
}

impl Message for CollectiveGroup {
    const KIND: u16 = 0x1006;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "CollectiveGroup";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// The communicator's asynchronous error. Handled as soon as it is read, not in command order, since the issuer may wait in a group. ncclInProgress while it is made.
///
/// Kind 0x1007, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AskComm {
    pub comm: CommId,
}

impl<'a> Field<'a> for AskComm {
    const LEAST: usize = <CommId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.comm.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { comm: reader.field("comm")? })
    }
}

impl Message for AskComm {
    const KIND: u16 = 0x1007;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "AskComm";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for AskComm {
    type Reply<'a> = AskCommReply<'a>;
}

/// What answers [`AskComm`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AskCommReply<'a> {
    pub result: u32,
    pub words: &'a str,
}

impl<'a> Field<'a> for AskCommReply<'a> {
    const LEAST: usize = <u32 as Field<'a>>::LEAST + <&'a str as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.result.to_le_bytes());
        room[4..8].copy_from_slice(&crate::reader::length_bytes(self.words.len()));
        out.extend_from_slice(self.words.as_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { result: reader.field("result")?, words: reader.field("words")? })
    }
}

/// Ends a communicator: `how` 0 finalizes it, 1 destroys it, 3 revokes it. It waits on a thread.
///
/// Kind 0x1008, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EndComm {
    pub comm: CommId,
    pub how: u32,
}

impl<'a> Field<'a> for EndComm {
    const LEAST: usize = <CommId as Field<'a>>::LEAST + <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<12>(out);
        room[0..8].copy_from_slice(&self.comm.0.to_le_bytes());
        room[8..12].copy_from_slice(&self.how.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { comm: reader.field("comm")?, how: reader.field("how")? })
    }
}

impl Message for EndComm {
    const KIND: u16 = 0x1008;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "EndComm";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for EndComm {
    type Reply<'a> = EndCommReply<'a>;
}

/// What answers [`EndComm`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EndCommReply<'a> {
    pub result: u32,
    pub words: &'a str,
}

impl<'a> Field<'a> for EndCommReply<'a> {
    const LEAST: usize = <u32 as Field<'a>>::LEAST + <&'a str as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.result.to_le_bytes());
        room[4..8].copy_from_slice(&crate::reader::length_bytes(self.words.len()));
        out.extend_from_slice(self.words.as_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { result: reader.field("result")?, words: reader.field("words")? })
    }
}

/// Aborts a communicator, also one whose work holds the issuer. Handled as soon as it is read.
///
/// Kind 0x1009, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AbortComm {
    pub comm: CommId,
}

impl<'a> Field<'a> for AbortComm {
    const LEAST: usize = <CommId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.comm.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { comm: reader.field("comm")? })
    }
}

impl Message for AbortComm {
    const KIND: u16 = 0x1009;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "AbortComm";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for AbortComm {
    type Reply<'a> = AbortCommReply<'a>;
}

/// What answers [`AbortComm`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AbortCommReply<'a> {
    pub result: u32,
    pub words: &'a str,
}

impl<'a> Field<'a> for AbortCommReply<'a> {
    const LEAST: usize = <u32 as Field<'a>>::LEAST + <&'a str as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.result.to_le_bytes());
        room[4..8].copy_from_slice(&crate::reader::length_bytes(self.words.len()));
        out.extend_from_slice(self.words.as_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { result: reader.field("result")?, words: reader.field("words")? })
    }
}

/// Makes the operation that multiplies by a scalar and sums (`ncclRedOpCreatePreMulSum`). The scalar is in `value`, or at `at` where `value` is empty.
///
/// Kind 0x100a, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CreateReduction<'a> {
    pub comm: CommId,
    pub datatype: u32,
    pub value: &'a [u8],
    pub at: DevicePtr,
}

impl<'a> Field<'a> for CreateReduction<'a> {
    const LEAST: usize = <CommId as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <&'a [u8] as Field<'a>>::LEAST
        + <DevicePtr as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<16>(out);
        room[0..8].copy_from_slice(&self.comm.0.to_le_bytes());
        room[8..12].copy_from_slice(&self.datatype.to_le_bytes());
        room[12..16].copy_from_slice(&crate::reader::length_bytes(self.value.len()));
        out.extend_from_slice(self.value);
        let room = crate::reader::room::<8>(out);
        room[0..8].copy_from_slice(&self.at.0.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            comm: reader.field("comm")?,
            datatype: reader.field("datatype")?,
            value: reader.field("value")?,
            at: reader.field("at")?,
        })
    }
}

impl Message for CreateReduction<'_> {
    const KIND: u16 = 0x100a;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "CreateReduction";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for CreateReduction<'_> {
    type Reply<'a> = CreateReductionReply<'a>;
}

/// What answers [`CreateReduction`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CreateReductionReply<'a> {
    pub result: u32,
    pub words: &'a str,
    pub operation: u32,
}

impl<'a> Field<'a> for CreateReductionReply<'a> {
    const LEAST: usize = <u32 as Field<'a>>::LEAST + <&'a str as Field<'a>>::LEAST + <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.result.to_le_bytes());
        room[4..8].copy_from_slice(&crate::reader::length_bytes(self.words.len()));
        out.extend_from_slice(self.words.as_bytes());
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&self.operation.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            result: reader.field("result")?,
            words: reader.field("words")?,
            operation: reader.field("operation")?,
        })
    }
}

/// Destroys an operation of `CreateReduction`.
///
/// Kind 0x100b, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DestroyReduction {
    pub comm: CommId,
    pub operation: u32,
}

impl<'a> Field<'a> for DestroyReduction {
    const LEAST: usize = <CommId as Field<'a>>::LEAST + <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<12>(out);
        room[0..8].copy_from_slice(&self.comm.0.to_le_bytes());
        room[8..12].copy_from_slice(&self.operation.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { comm: reader.field("comm")?, operation: reader.field("operation")? })
    }
}

impl Message for DestroyReduction {
    const KIND: u16 = 0x100b;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "DestroyReduction";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// Registers memory with a communicator (`ncclCommRegister`).
///
/// Kind 0x100c, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RegisterBuffer {
    pub comm: CommId,
    pub at: DevicePtr,
    pub bytes: u64,
}

impl<'a> Field<'a> for RegisterBuffer {
    const LEAST: usize = <CommId as Field<'a>>::LEAST + <DevicePtr as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<24>(out);
        room[0..8].copy_from_slice(&self.comm.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.at.0.to_le_bytes());
        room[16..24].copy_from_slice(&self.bytes.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { comm: reader.field("comm")?, at: reader.field("at")?, bytes: reader.field("bytes")? })
    }
}

impl Message for RegisterBuffer {
    const KIND: u16 = 0x100c;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "RegisterBuffer";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for RegisterBuffer {
    type Reply<'a> = RegisterBufferReply<'a>;
}

/// What answers [`RegisterBuffer`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RegisterBufferReply<'a> {
    pub result: u32,
    pub words: &'a str,
    pub handle: u64,
}

impl<'a> Field<'a> for RegisterBufferReply<'a> {
    const LEAST: usize = <u32 as Field<'a>>::LEAST + <&'a str as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.result.to_le_bytes());
        room[4..8].copy_from_slice(&crate::reader::length_bytes(self.words.len()));
        out.extend_from_slice(self.words.as_bytes());
        let room = crate::reader::room::<8>(out);
        room[0..8].copy_from_slice(&self.handle.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { result: reader.field("result")?, words: reader.field("words")?, handle: reader.field("handle")? })
    }
}

/// Undoes `RegisterBuffer`.
///
/// Kind 0x100d, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeregisterBuffer {
    pub comm: CommId,
    pub handle: u64,
}

impl<'a> Field<'a> for DeregisterBuffer {
    const LEAST: usize = <CommId as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<16>(out);
        room[0..8].copy_from_slice(&self.comm.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.handle.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { comm: reader.field("comm")?, handle: reader.field("handle")? })
    }
}

impl Message for DeregisterBuffer {
    const KIND: u16 = 0x100d;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "DeregisterBuffer";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for DeregisterBuffer {
    type Reply<'a> = DeregisterBufferReply<'a>;
}

/// What answers [`DeregisterBuffer`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeregisterBufferReply<'a> {
    pub result: u32,
    pub words: &'a str,
}

impl<'a> Field<'a> for DeregisterBufferReply<'a> {
    const LEAST: usize = <u32 as Field<'a>>::LEAST + <&'a str as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.result.to_le_bytes());
        room[4..8].copy_from_slice(&crate::reader::length_bytes(self.words.len()));
        out.extend_from_slice(self.words.as_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { result: reader.field("result")?, words: reader.field("words")? })
    }
}

/// From another worker, as the first sealed frame behind a `PeerTicket` that is a unique id's: this connection is for what listens at `port` in the worker of `place`. Everything behind the reply is NCCL's, in the clear.
///
/// Kind 0x100e, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PeerPort<'a> {
    pub place: &'a [u8],
    pub port: u32,
}

impl<'a> Field<'a> for PeerPort<'a> {
    const LEAST: usize = <&'a [u8] as Field<'a>>::LEAST + <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.place.len()));
        out.extend_from_slice(self.place);
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&self.port.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { place: reader.field("place")?, port: reader.field("port")? })
    }
}

impl Message for PeerPort<'_> {
    const KIND: u16 = 0x100e;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "PeerPort";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for PeerPort<'_> {
    type Reply<'a> = ();
}

/// A unique id with which new ranks join the ranks of `comm` by `GrowComm` (`ncclCommGetUniqueId`), and whose root is this worker. Its key is that of the id that `comm` was made of, which the other ranks have. Waits on a thread.
///
/// Kind 0x100f, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NewGrowId {
    pub comm: CommId,
}

impl<'a> Field<'a> for NewGrowId {
    const LEAST: usize = <CommId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.comm.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { comm: reader.field("comm")? })
    }
}

impl Message for NewGrowId {
    const KIND: u16 = 0x100f;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "NewGrowId";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for NewGrowId {
    type Reply<'a> = NewGrowIdReply<'a>;
}

/// What answers [`NewGrowId`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NewGrowIdReply<'a> {
    pub result: u32,
    pub words: &'a str,
    pub id: &'a [u8],
}

impl<'a> Field<'a> for NewGrowIdReply<'a> {
    const LEAST: usize = <u32 as Field<'a>>::LEAST + <&'a str as Field<'a>>::LEAST + <&'a [u8] as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.result.to_le_bytes());
        room[4..8].copy_from_slice(&crate::reader::length_bytes(self.words.len()));
        out.extend_from_slice(self.words.as_bytes());
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.id.len()));
        out.extend_from_slice(self.id);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { result: reader.field("result")?, words: reader.field("words")?, id: reader.field("id")? })
    }
}

/// Makes `child` of the ranks of `comm` and of new ones, `ranks` in all (`ncclCommGrow`). Of a new rank `comm` is 0, `rank` its rank and `id` that of `NewGrowId`; of the others `rank` is 0, and only the one that has made the id needs it. Waits as `InitComm` does.
///
/// Kind 0x1010, called: one reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GrowComm<'a> {
    pub comm: CommId,
    pub child: CommId,
    pub id: &'a [u8],
    pub ranks: u32,
    pub rank: u32,
    pub config: Vec<i32>,
    pub name: &'a str,
}

impl<'a> Field<'a> for GrowComm<'a> {
    const LEAST: usize = <CommId as Field<'a>>::LEAST
        + <CommId as Field<'a>>::LEAST
        + <&'a [u8] as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <Vec<i32> as Field<'a>>::LEAST
        + <&'a str as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<20>(out);
        room[0..8].copy_from_slice(&self.comm.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.child.0.to_le_bytes());
        room[16..20].copy_from_slice(&crate::reader::length_bytes(self.id.len()));
        out.extend_from_slice(self.id);
        let room = crate::reader::room::<12>(out);
        room[0..4].copy_from_slice(&self.ranks.to_le_bytes());
        room[4..8].copy_from_slice(&self.rank.to_le_bytes());
        room[8..12].copy_from_slice(&crate::reader::length_bytes(self.config.len()));
        for element in &self.config {
            element.write(out);
        }
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.name.len()));
        out.extend_from_slice(self.name.as_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            comm: reader.field("comm")?,
            child: reader.field("child")?,
            id: reader.field("id")?,
            ranks: reader.field("ranks")?,
            rank: reader.field("rank")?,
            config: reader.field("config")?,
            name: reader.field("name")?,
        })
    }
}

impl Message for GrowComm<'_> {
    const KIND: u16 = 0x1010;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "GrowComm";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for GrowComm<'_> {
    type Reply<'a> = GrowCommReply<'a>;
}

/// What answers [`GrowComm`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GrowCommReply<'a> {
    pub result: u32,
    pub words: &'a str,
    pub rank: u32,
    pub ranks: u32,
}

impl<'a> Field<'a> for GrowCommReply<'a> {
    const LEAST: usize = <u32 as Field<'a>>::LEAST
        + <&'a str as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.result.to_le_bytes());
        room[4..8].copy_from_slice(&crate::reader::length_bytes(self.words.len()));
        out.extend_from_slice(self.words.as_bytes());
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.rank.to_le_bytes());
        room[4..8].copy_from_slice(&self.ranks.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            result: reader.field("result")?,
            words: reader.field("words")?,
            rank: reader.field("rank")?,
            ranks: reader.field("ranks")?,
        })
    }
}

/// Suspends a communicator with `flags` (`ncclCommSuspend`), or resumes it where there are none. Waits for the other ranks on a thread. In between it has no group.
///
/// Kind 0x1011, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SuspendComm {
    pub comm: CommId,
    pub flags: u32,
}

impl<'a> Field<'a> for SuspendComm {
    const LEAST: usize = <CommId as Field<'a>>::LEAST + <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<12>(out);
        room[0..8].copy_from_slice(&self.comm.0.to_le_bytes());
        room[8..12].copy_from_slice(&self.flags.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { comm: reader.field("comm")?, flags: reader.field("flags")? })
    }
}

impl Message for SuspendComm {
    const KIND: u16 = 0x1011;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "SuspendComm";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for SuspendComm {
    type Reply<'a> = SuspendCommReply<'a>;
}

/// What answers [`SuspendComm`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SuspendCommReply<'a> {
    pub result: u32,
    pub words: &'a str,
}

impl<'a> Field<'a> for SuspendCommReply<'a> {
    const LEAST: usize = <u32 as Field<'a>>::LEAST + <&'a str as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.result.to_le_bytes());
        room[4..8].copy_from_slice(&crate::reader::length_bytes(self.words.len()));
        out.extend_from_slice(self.words.as_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { result: reader.field("result")?, words: reader.field("words")? })
    }
}

/// What NCCL counts of a communicator's memory: `stat` is `ncclCommMemStat_t`.
///
/// Kind 0x1012, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReadCommMemory {
    pub comm: CommId,
    pub stat: u32,
}

impl<'a> Field<'a> for ReadCommMemory {
    const LEAST: usize = <CommId as Field<'a>>::LEAST + <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<12>(out);
        room[0..8].copy_from_slice(&self.comm.0.to_le_bytes());
        room[8..12].copy_from_slice(&self.stat.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { comm: reader.field("comm")?, stat: reader.field("stat")? })
    }
}

impl Message for ReadCommMemory {
    const KIND: u16 = 0x1012;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "ReadCommMemory";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for ReadCommMemory {
    type Reply<'a> = ReadCommMemoryReply<'a>;
}

/// What answers [`ReadCommMemory`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReadCommMemoryReply<'a> {
    pub result: u32,
    pub words: &'a str,
    pub value: u64,
}

impl<'a> Field<'a> for ReadCommMemoryReply<'a> {
    const LEAST: usize = <u32 as Field<'a>>::LEAST + <&'a str as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.result.to_le_bytes());
        room[4..8].copy_from_slice(&crate::reader::length_bytes(self.words.len()));
        out.extend_from_slice(self.words.as_bytes());
        let room = crate::reader::room::<8>(out);
        room[0..8].copy_from_slice(&self.value.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { result: reader.field("result")?, words: reader.field("words")?, value: reader.field("value")? })
    }
}

/// NCCL's estimate of a group's time in microseconds (`ncclGroupSimulateEnd`). Nothing is put on a stream.
///
/// Kind 0x1013, called: one reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SimulateGroup {
    pub calls: Vec<CollectiveCall>,
}

impl<'a> Field<'a> for SimulateGroup {
    const LEAST: usize = <Vec<CollectiveCall> as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.calls.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { calls: reader.field("calls")? })
    }
}

impl Message for SimulateGroup {
    const KIND: u16 = 0x1013;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "SimulateGroup";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for SimulateGroup {
    type Reply<'a> = SimulateGroupReply<'a>;
}

/// What answers [`SimulateGroup`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SimulateGroupReply<'a> {
    pub result: u32,
    pub words: &'a str,
    pub time: f32,
}

impl<'a> Field<'a> for SimulateGroupReply<'a> {
    const LEAST: usize = <u32 as Field<'a>>::LEAST + <&'a str as Field<'a>>::LEAST + <f32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.result.to_le_bytes());
        room[4..8].copy_from_slice(&crate::reader::length_bytes(self.words.len()));
        out.extend_from_slice(self.words.as_bytes());
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&self.time.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { result: reader.field("result")?, words: reader.field("words")?, time: reader.field("time")? })
    }
}

/// A parameter of the worker's NCCL by its key, of 256 bytes at most. `form` 0 is its text by key, 1 nothing but whether there is such a key, 2 to 9 a number as i8, i16, i32, i64, u8, u16, u32, u64, 10 its text if it is one, 11 its bytes. A value has 64 KiB at most.
///
/// Kind 0x1014, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReadParameter<'a> {
    pub key: &'a str,
    pub form: u32,
}

impl<'a> Field<'a> for ReadParameter<'a> {
    const LEAST: usize = <&'a str as Field<'a>>::LEAST + <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.key.len()));
        out.extend_from_slice(self.key.as_bytes());
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&self.form.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { key: reader.field("key")?, form: reader.field("form")? })
    }
}

impl Message for ReadParameter<'_> {
    const KIND: u16 = 0x1014;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "ReadParameter";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for ReadParameter<'_> {
    type Reply<'a> = ReadParameterReply<'a>;
}

/// What answers [`ReadParameter`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReadParameterReply<'a> {
    pub result: u32,
    pub words: &'a str,
    pub value: &'a [u8],
}

impl<'a> Field<'a> for ReadParameterReply<'a> {
    const LEAST: usize = <u32 as Field<'a>>::LEAST + <&'a str as Field<'a>>::LEAST + <&'a [u8] as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.result.to_le_bytes());
        room[4..8].copy_from_slice(&crate::reader::length_bytes(self.words.len()));
        out.extend_from_slice(self.words.as_bytes());
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.value.len()));
        out.extend_from_slice(self.value);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { result: reader.field("result")?, words: reader.field("words")?, value: reader.field("value")? })
    }
}

/// The keys of the parameters of the worker's NCCL, 4096 at most.
///
/// Kind 0x1015, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ListParameters {}

impl<'a> Field<'a> for ListParameters {
    const LEAST: usize = 0;

    fn write(&self, _out: &mut Vec<u8>) {}

    fn read(_reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {})
    }
}

impl Message for ListParameters {
    const KIND: u16 = 0x1015;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "ListParameters";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for ListParameters {
    type Reply<'a> = ListParametersReply<'a>;
}

/// What answers [`ListParameters`] when its status is success.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListParametersReply<'a> {
    pub result: u32,
    pub words: &'a str,
    pub keys: Vec<&'a str>,
}

impl<'a> Field<'a> for ListParametersReply<'a> {
    const LEAST: usize = <u32 as Field<'a>>::LEAST + <&'a str as Field<'a>>::LEAST + <Vec<&'a str> as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.result.to_le_bytes());
        room[4..8].copy_from_slice(&crate::reader::length_bytes(self.words.len()));
        out.extend_from_slice(self.words.as_bytes());
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.keys.len()));
        for element in &self.keys {
            element.write(out);
        }
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { result: reader.field("result")?, words: reader.field("words")?, keys: reader.field("keys")? })
    }
}

/// One call of a group: `kind` 0 all-reduce, 1 broadcast, 2 reduce, 3 all-gather, 4 reduce-scatter, 5 send, 6 receive, 7 all-to-all, 8 gather, 9 scatter. `datatype` and `operation` are NCCL's numbers, `rank` is the root or the peer. `count` is the argument of NCCL's function.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CollectiveCall {
    pub comm: CommId,
    pub kind: u32,
    pub datatype: u32,
    pub operation: u32,
    pub rank: u32,
    pub count: u64,
    pub send: DevicePtr,
    pub receive: DevicePtr,
    pub stream: StreamId,
}

impl<'a> Field<'a> for CollectiveCall {
    const LEAST: usize = <CommId as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <DevicePtr as Field<'a>>::LEAST
        + <DevicePtr as Field<'a>>::LEAST
        + <StreamId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<56>(out);
        room[0..8].copy_from_slice(&self.comm.0.to_le_bytes());
        room[8..12].copy_from_slice(&self.kind.to_le_bytes());
        room[12..16].copy_from_slice(&self.datatype.to_le_bytes());
        room[16..20].copy_from_slice(&self.operation.to_le_bytes());
        room[20..24].copy_from_slice(&self.rank.to_le_bytes());
        room[24..32].copy_from_slice(&self.count.to_le_bytes());
        room[32..40].copy_from_slice(&self.send.0.to_le_bytes());
        room[40..48].copy_from_slice(&self.receive.0.to_le_bytes());
        room[48..56].copy_from_slice(&self.stream.0.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            comm: reader.field("comm")?,
            kind: reader.field("kind")?,
            datatype: reader.field("datatype")?,
            operation: reader.field("operation")?,
            rank: reader.field("rank")?,
            count: reader.field("count")?,
            send: reader.field("send")?,
            receive: reader.field("receive")?,
            stream: reader.field("stream")?,
        })
    }
}

/// A variable of NCCL (`NCCL_…`) of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CollectiveSetting<'a> {
    pub name: &'a str,
    pub value: &'a str,
}

impl<'a> Field<'a> for CollectiveSetting<'a> {
    const LEAST: usize = <&'a str as Field<'a>>::LEAST + <&'a str as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.name.len()));
        out.extend_from_slice(self.name.as_bytes());
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.value.len()));
        out.extend_from_slice(self.value.as_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { name: reader.field("name")?, value: reader.field("value")? })
    }
}

/// Carries out the commands of this noun.
pub trait CollectiveRequests: Handler {
    /// Carries out [`OpenCollectives`].
    ///
    /// # Errors
    /// The handler's.
    fn open_collectives(&mut self, message: &OpenCollectives<'_>) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`NewUniqueId`].
    ///
    /// # Errors
    /// The handler's.
    fn new_unique_id(&mut self, message: NewUniqueId) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`InitComm`].
    ///
    /// # Errors
    /// The handler's.
    fn init_comm(&mut self, message: &InitComm<'_>) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`SplitComm`].
    ///
    /// # Errors
    /// The handler's.
    fn split_comm(&mut self, message: &SplitComm<'_>) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`ShrinkComm`].
    ///
    /// # Errors
    /// The handler's.
    fn shrink_comm(&mut self, message: &ShrinkComm<'_>) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`CollectiveGroup`].
    ///
    /// # Errors
    /// The handler's.
    fn collective_group(&mut self, message: &CollectiveGroup) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`EndComm`].
    ///
    /// # Errors
    /// The handler's.
    fn end_comm(&mut self, message: EndComm) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`CreateReduction`].
    ///
    /// # Errors
    /// The handler's.
    fn create_reduction(&mut self, message: CreateReduction<'_>) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`DestroyReduction`].
    ///
    /// # Errors
    /// The handler's.
    fn destroy_reduction(&mut self, message: DestroyReduction) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`RegisterBuffer`].
    ///
    /// # Errors
    /// The handler's.
    fn register_buffer(&mut self, message: RegisterBuffer) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`DeregisterBuffer`].
    ///
    /// # Errors
    /// The handler's.
    fn deregister_buffer(&mut self, message: DeregisterBuffer) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`NewGrowId`].
    ///
    /// # Errors
    /// The handler's.
    fn new_grow_id(&mut self, message: NewGrowId) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`GrowComm`].
    ///
    /// # Errors
    /// The handler's.
    fn grow_comm(&mut self, message: &GrowComm<'_>) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`SuspendComm`].
    ///
    /// # Errors
    /// The handler's.
    fn suspend_comm(&mut self, message: SuspendComm) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`ReadCommMemory`].
    ///
    /// # Errors
    /// The handler's.
    fn read_comm_memory(&mut self, message: ReadCommMemory) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`SimulateGroup`].
    ///
    /// # Errors
    /// The handler's.
    fn simulate_group(&mut self, message: &SimulateGroup) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`ReadParameter`].
    ///
    /// # Errors
    /// The handler's.
    fn read_parameter(&mut self, message: ReadParameter<'_>) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`ListParameters`].
    ///
    /// # Errors
    /// The handler's.
    fn list_parameters(&mut self, message: ListParameters) -> Result<Self::Answer, Self::Fault>;
}
