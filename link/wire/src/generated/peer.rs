//! Memory and words that one session lets another import. Both have workers on one server; the daemon passes the descriptors.
//! Plain values and their encoding; they check nothing beyond what the types say.
// Made by `cargo xtask gen` from api/messages; edit the tables, not this file.

#[allow(unused_imports)]
use super::*;
#[allow(unused_imports)]
use crate::{
    ArrayId, BlockId, Call, Class, CommId, DecodeError, DevicePtr, EventId, Field, FunctionId, GraphId, Handler,
    KernelId, LibraryId, Message, PeerLinkId, Reader, SignalsId, StreamId, SurfaceId, TextureId, TicketId,
};

/// Makes a ticket. Whoever proves that he has `key` (32 random bytes) may import: with `scope` 0 every block and signal page of this session, with 1 the block `object`, with 2 the signal page `object`. With `scope` 3 nothing is imported: another server's worker may make `uses` connections (1 to 8) of the peer link `object`, which begins here. `uses` limits the imports (0: no limit), `seconds` the ticket's life (0: as long as its object, or the session). A ticket of an object ends with the object. OUT_OF_MEMORY beyond 4,096 tickets.
///
/// Kind 0x0f01, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Export<'a> {
    pub ticket: TicketId,
    pub key: &'a [u8],
    pub scope: u32,
    pub object: u64,
    pub uses: u32,
    pub seconds: u32,
}

impl<'a> Field<'a> for Export<'a> {
    const LEAST: usize = <TicketId as Field<'a>>::LEAST
        + <&'a [u8] as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<12>(out);
        room[0..8].copy_from_slice(&self.ticket.0.to_le_bytes());
        room[8..12].copy_from_slice(&crate::reader::length_bytes(self.key.len()));
        out.extend_from_slice(self.key);
        let room = crate::reader::room::<20>(out);
        room[0..4].copy_from_slice(&self.scope.to_le_bytes());
        room[4..12].copy_from_slice(&self.object.to_le_bytes());
        room[12..16].copy_from_slice(&self.uses.to_le_bytes());
        room[16..20].copy_from_slice(&self.seconds.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            ticket: reader.field("ticket")?,
            key: reader.field("key")?,
            scope: reader.field("scope")?,
            object: reader.field("object")?,
            uses: reader.field("uses")?,
            seconds: reader.field("seconds")?,
        })
    }
}

impl Message for Export<'_> {
    const KIND: u16 = 0x0f01;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "Export";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for Export<'_> {
    type Reply<'a> = ();
}

/// Ends a ticket. What was imported with it stays.
///
/// Kind 0x0f02, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Withdraw {
    pub ticket: TicketId,
}

impl<'a> Field<'a> for Withdraw {
    const LEAST: usize = <TicketId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.ticket.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { ticket: reader.field("ticket")? })
    }
}

impl Message for Withdraw {
    const KIND: u16 = 0x0f02;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "Withdraw";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// Imports block `object` of the session `session` of the same server as the new block `block`. It is mapped, unmapped and released as any other, and its mappings may also lie in the window of another ordinal. The ticket is the exporter's. INVALID_HANDLE where the exporter knows no such ticket, or the proof is wrong, or ticket, block or session have ended. PEER_ACCESS_UNSUPPORTED where the two GPUs do not reach each other.
///
/// Kind 0x0f03, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ImportBlock<'a> {
    pub session: u64,
    pub ticket: TicketId,
    pub key: &'a [u8],
    pub object: BlockId,
    pub block: BlockId,
}

impl<'a> Field<'a> for ImportBlock<'a> {
    const LEAST: usize = <u64 as Field<'a>>::LEAST
        + <TicketId as Field<'a>>::LEAST
        + <&'a [u8] as Field<'a>>::LEAST
        + <BlockId as Field<'a>>::LEAST
        + <BlockId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<20>(out);
        room[0..8].copy_from_slice(&self.session.to_le_bytes());
        room[8..16].copy_from_slice(&self.ticket.0.to_le_bytes());
        room[16..20].copy_from_slice(&crate::reader::length_bytes(self.key.len()));
        out.extend_from_slice(self.key);
        let room = crate::reader::room::<16>(out);
        room[0..8].copy_from_slice(&self.object.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.block.0.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            session: reader.field("session")?,
            ticket: reader.field("ticket")?,
            key: reader.field("key")?,
            object: reader.field("object")?,
            block: reader.field("block")?,
        })
    }
}

impl Message for ImportBlock<'_> {
    const KIND: u16 = 0x0f03;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "ImportBlock";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for ImportBlock<'_> {
    type Reply<'a> = ImportBlockReply;
}

/// What answers [`ImportBlock`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ImportBlockReply {
    pub bytes: u64,
}

impl<'a> Field<'a> for ImportBlockReply {
    const LEAST: usize = <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.bytes.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { bytes: reader.field("bytes")? })
    }
}

/// Makes a signal page: 512 words of 64 bits, all 0, in host memory. Streams wait for them, workers raise them.
///
/// Kind 0x0f04, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CreateSignals {
    pub signals: SignalsId,
}

impl<'a> Field<'a> for CreateSignals {
    const LEAST: usize = <SignalsId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.signals.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { signals: reader.field("signals")? })
    }
}

impl Message for CreateSignals {
    const KIND: u16 = 0x0f04;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "CreateSignals";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for CreateSignals {
    type Reply<'a> = ();
}

/// Imports the signal page `object` of another session, as `ImportBlock` does.
///
/// Kind 0x0f05, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ImportSignals<'a> {
    pub session: u64,
    pub ticket: TicketId,
    pub key: &'a [u8],
    pub object: SignalsId,
    pub signals: SignalsId,
}

impl<'a> Field<'a> for ImportSignals<'a> {
    const LEAST: usize = <u64 as Field<'a>>::LEAST
        + <TicketId as Field<'a>>::LEAST
        + <&'a [u8] as Field<'a>>::LEAST
        + <SignalsId as Field<'a>>::LEAST
        + <SignalsId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<20>(out);
        room[0..8].copy_from_slice(&self.session.to_le_bytes());
        room[8..16].copy_from_slice(&self.ticket.0.to_le_bytes());
        room[16..20].copy_from_slice(&crate::reader::length_bytes(self.key.len()));
        out.extend_from_slice(self.key);
        let room = crate::reader::room::<16>(out);
        room[0..8].copy_from_slice(&self.object.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.signals.0.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            session: reader.field("session")?,
            ticket: reader.field("ticket")?,
            key: reader.field("key")?,
            object: reader.field("object")?,
            signals: reader.field("signals")?,
        })
    }
}

impl Message for ImportSignals<'_> {
    const KIND: u16 = 0x0f05;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "ImportSignals";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for ImportSignals<'_> {
    type Reply<'a> = ();
}

/// Drops a signal page. Work that was issued before it may still use the page.
///
/// Kind 0x0f06, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DropSignals {
    pub signals: SignalsId,
}

impl<'a> Field<'a> for DropSignals {
    const LEAST: usize = <SignalsId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.signals.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { signals: reader.field("signals")? })
    }
}

impl Message for DropSignals {
    const KIND: u16 = 0x0f06;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "DropSignals";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// Raises a word to `value`, unless it is higher, when the last record of `event` is complete, or has failed. 0 is no event: then when the stream's work so far is complete.
///
/// Kind 0x0f07, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RaiseSignal {
    pub signals: SignalsId,
    pub word: u32,
    pub value: u64,
    pub event: EventId,
    pub stream: StreamId,
}

impl<'a> Field<'a> for RaiseSignal {
    const LEAST: usize = <SignalsId as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <EventId as Field<'a>>::LEAST
        + <StreamId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<36>(out);
        room[0..8].copy_from_slice(&self.signals.0.to_le_bytes());
        room[8..12].copy_from_slice(&self.word.to_le_bytes());
        room[12..20].copy_from_slice(&self.value.to_le_bytes());
        room[20..28].copy_from_slice(&self.event.0.to_le_bytes());
        room[28..36].copy_from_slice(&self.stream.0.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            signals: reader.field("signals")?,
            word: reader.field("word")?,
            value: reader.field("value")?,
            event: reader.field("event")?,
            stream: reader.field("stream")?,
        })
    }
}

impl Message for RaiseSignal {
    const KIND: u16 = 0x0f07;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "RaiseSignal";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// The stream waits until the word is at least `value`. If the session ends that shares the page, the wait ends too.
///
/// Kind 0x0f08, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AwaitSignal {
    pub stream: StreamId,
    pub signals: SignalsId,
    pub word: u32,
    pub value: u64,
}

impl<'a> Field<'a> for AwaitSignal {
    const LEAST: usize = <StreamId as Field<'a>>::LEAST
        + <SignalsId as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<28>(out);
        room[0..8].copy_from_slice(&self.stream.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.signals.0.to_le_bytes());
        room[16..20].copy_from_slice(&self.word.to_le_bytes());
        room[20..28].copy_from_slice(&self.value.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            stream: reader.field("stream")?,
            signals: reader.field("signals")?,
            word: reader.field("word")?,
            value: reader.field("value")?,
        })
    }
}

impl Message for AwaitSignal {
    const KIND: u16 = 0x0f08;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "AwaitSignal";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// A record of an event that several sessions share: adds 1 to word `recorded` at once, and raises word `recorded` + 1 to the sum when the stream's work so far is complete. Replies with the sum.
///
/// Kind 0x0f09, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RecordSignal {
    pub signals: SignalsId,
    pub recorded: u32,
    pub stream: StreamId,
}

impl<'a> Field<'a> for RecordSignal {
    const LEAST: usize = <SignalsId as Field<'a>>::LEAST + <u32 as Field<'a>>::LEAST + <StreamId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<20>(out);
        room[0..8].copy_from_slice(&self.signals.0.to_le_bytes());
        room[8..12].copy_from_slice(&self.recorded.to_le_bytes());
        room[12..20].copy_from_slice(&self.stream.0.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            signals: reader.field("signals")?,
            recorded: reader.field("recorded")?,
            stream: reader.field("stream")?,
        })
    }
}

impl Message for RecordSignal {
    const KIND: u16 = 0x0f09;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "RecordSignal";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for RecordSignal {
    type Reply<'a> = RecordSignalReply;
}

/// What answers [`RecordSignal`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RecordSignalReply {
    pub count: u64,
}

impl<'a> Field<'a> for RecordSignalReply {
    const LEAST: usize = <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.count.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { count: reader.field("count")? })
    }
}

/// Reads `count` words from `first` on.
///
/// Kind 0x0f0a, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReadSignals {
    pub signals: SignalsId,
    pub first: u32,
    pub count: u32,
}

impl<'a> Field<'a> for ReadSignals {
    const LEAST: usize = <SignalsId as Field<'a>>::LEAST + <u32 as Field<'a>>::LEAST + <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<16>(out);
        room[0..8].copy_from_slice(&self.signals.0.to_le_bytes());
        room[8..12].copy_from_slice(&self.first.to_le_bytes());
        room[12..16].copy_from_slice(&self.count.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { signals: reader.field("signals")?, first: reader.field("first")?, count: reader.field("count")? })
    }
}

impl Message for ReadSignals {
    const KIND: u16 = 0x0f0a;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "ReadSignals";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for ReadSignals {
    type Reply<'a> = ReadSignalsReply;
}

/// What answers [`ReadSignals`] when its status is success.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReadSignalsReply {
    pub words: Vec<u64>,
}

impl<'a> Field<'a> for ReadSignalsReply {
    const LEAST: usize = <Vec<u64> as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.words.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { words: reader.field("words")? })
    }
}

/// What the session's GPU can do with the memory of another GPU of this server, by its number in `ListGpus`: the values of CUdevice_P2PAttribute 1 to 4 (performance rank, access, native atomics, arrays). Of the same GPU: 0, 1, 1, 1.
///
/// Kind 0x0f0b, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AskPeer {
    pub gpu: u32,
}

impl<'a> Field<'a> for AskPeer {
    const LEAST: usize = <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.gpu.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { gpu: reader.field("gpu")? })
    }
}

impl Message for AskPeer {
    const KIND: u16 = 0x0f0b;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "AskPeer";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for AskPeer {
    type Reply<'a> = AskPeerReply;
}

/// What answers [`AskPeer`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AskPeerReply {
    pub rank: i32,
    pub access: i32,
    pub atomics: i32,
    pub arrays: i32,
}

impl<'a> Field<'a> for AskPeerReply {
    const LEAST: usize =
        <i32 as Field<'a>>::LEAST + <i32 as Field<'a>>::LEAST + <i32 as Field<'a>>::LEAST + <i32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<16>(out);
        room[0..4].copy_from_slice(&self.rank.to_le_bytes());
        room[4..8].copy_from_slice(&self.access.to_le_bytes());
        room[8..12].copy_from_slice(&self.atomics.to_le_bytes());
        room[12..16].copy_from_slice(&self.arrays.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            rank: reader.field("rank")?,
            access: reader.field("access")?,
            atomics: reader.field("atomics")?,
            arrays: reader.field("arrays")?,
        })
    }
}

/// Makes the peer link `link` of this session to a session of another server, for copies from worker to worker. `server` is that server's address, which the daemon's operator must have named (`--peer`). Session, ticket and key are the other session's, with scope 3. `lanes` is how many connections it has, as many as the ticket has uses. With `sealed`, all bytes are sealed by the key. NOT_PERMITTED where the operator has not named the server, INVALID_HANDLE where the other session refuses or does not answer.
///
/// Kind 0x0f0c, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ConnectPeer<'a> {
    pub link: PeerLinkId,
    pub server: &'a str,
    pub session: u64,
    pub ticket: TicketId,
    pub key: &'a [u8],
    pub lanes: u32,
    pub sealed: bool,
}

impl<'a> Field<'a> for ConnectPeer<'a> {
    const LEAST: usize = <PeerLinkId as Field<'a>>::LEAST
        + <&'a str as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <TicketId as Field<'a>>::LEAST
        + <&'a [u8] as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <bool as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<12>(out);
        room[0..8].copy_from_slice(&self.link.0.to_le_bytes());
        room[8..12].copy_from_slice(&crate::reader::length_bytes(self.server.len()));
        out.extend_from_slice(self.server.as_bytes());
        let room = crate::reader::room::<20>(out);
        room[0..8].copy_from_slice(&self.session.to_le_bytes());
        room[8..16].copy_from_slice(&self.ticket.0.to_le_bytes());
        room[16..20].copy_from_slice(&crate::reader::length_bytes(self.key.len()));
        out.extend_from_slice(self.key);
        let room = crate::reader::room::<5>(out);
        room[0..4].copy_from_slice(&self.lanes.to_le_bytes());
        room[4..5].copy_from_slice(&[u8::from(self.sealed)]);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            link: reader.field("link")?,
            server: reader.field("server")?,
            session: reader.field("session")?,
            ticket: reader.field("ticket")?,
            key: reader.field("key")?,
            lanes: reader.field("lanes")?,
            sealed: reader.field("sealed")?,
        })
    }
}

impl Message for ConnectPeer<'_> {
    const KIND: u16 = 0x0f0c;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "ConnectPeer";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for ConnectPeer<'_> {
    type Reply<'a> = ();
}

/// Ends a peer link. Transfers that are not over fail, as they do when its connections end.
///
/// Kind 0x0f0d, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DropPeer {
    pub link: PeerLinkId,
}

impl<'a> Field<'a> for DropPeer {
    const LEAST: usize = <PeerLinkId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.link.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { link: reader.field("link")? })
    }
}

impl Message for DropPeer {
    const KIND: u16 = 0x0f0d;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "DropPeer";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// Sends `bytes` from `from` on over a peer link, when the stream gets there and the other session expects them as `transfer`. Numbers of transfers grow, in each direction. The stream waits until they are in the other device's memory. If the link ends first, the session's context fails with EXTERNAL_DEVICE. With 0 bytes, streams of both sessions wait for each other.
///
/// Kind 0x0f0e, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SendTo {
    pub link: PeerLinkId,
    pub transfer: u64,
    pub stream: StreamId,
    pub from: DevicePtr,
    pub bytes: u64,
}

impl<'a> Field<'a> for SendTo {
    const LEAST: usize = <PeerLinkId as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <StreamId as Field<'a>>::LEAST
        + <DevicePtr as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<40>(out);
        room[0..8].copy_from_slice(&self.link.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.transfer.to_le_bytes());
        room[16..24].copy_from_slice(&self.stream.0.to_le_bytes());
        room[24..32].copy_from_slice(&self.from.0.to_le_bytes());
        room[32..40].copy_from_slice(&self.bytes.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            link: reader.field("link")?,
            transfer: reader.field("transfer")?,
            stream: reader.field("stream")?,
            from: reader.field("from")?,
            bytes: reader.field("bytes")?,
        })
    }
}

impl Message for SendTo {
    const KIND: u16 = 0x0f0e;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "SendTo";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// Expects `bytes` as `transfer` of a peer link, for `to`. They come when the stream has got there, and the stream waits for them. If the link ends first, the context fails as with `SendTo`.
///
/// Kind 0x0f0f, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReceiveFrom {
    pub link: PeerLinkId,
    pub transfer: u64,
    pub stream: StreamId,
    pub to: DevicePtr,
    pub bytes: u64,
}

impl<'a> Field<'a> for ReceiveFrom {
    const LEAST: usize = <PeerLinkId as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <StreamId as Field<'a>>::LEAST
        + <DevicePtr as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<40>(out);
        room[0..8].copy_from_slice(&self.link.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.transfer.to_le_bytes());
        room[16..24].copy_from_slice(&self.stream.0.to_le_bytes());
        room[24..32].copy_from_slice(&self.to.0.to_le_bytes());
        room[32..40].copy_from_slice(&self.bytes.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            link: reader.field("link")?,
            transfer: reader.field("transfer")?,
            stream: reader.field("stream")?,
            to: reader.field("to")?,
            bytes: reader.field("bytes")?,
        })
    }
}

impl Message for ReceiveFrom {
    const KIND: u16 = 0x0f0f;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "ReceiveFrom";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// From another server's worker, instead of `Hello`: this connection is for the session's peer link. `magic` and `version` are as in `Hello` and its reply. After the reply the connection belongs to the session's worker. It is in the clear, and says nothing secret.
///
/// Kind 0x0f10, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PeerHello {
    pub magic: u32,
    pub version: u32,
    pub session: u64,
}

impl<'a> Field<'a> for PeerHello {
    const LEAST: usize = <u32 as Field<'a>>::LEAST + <u32 as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<16>(out);
        room[0..4].copy_from_slice(&self.magic.to_le_bytes());
        room[4..8].copy_from_slice(&self.version.to_le_bytes());
        room[8..16].copy_from_slice(&self.session.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { magic: reader.field("magic")?, version: reader.field("version")?, session: reader.field("session")? })
    }
}

impl Message for PeerHello {
    const KIND: u16 = 0x0f10;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "PeerHello";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for PeerHello {
    type Reply<'a> = ();
}

/// The first frame to the other worker: the ticket of the peer link. Both sides then agree on keys as for sealed TCP, with a secret of session, ticket and the ticket's key.
///
/// Kind 0x0f11, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PeerTicket {
    pub ticket: TicketId,
}

impl<'a> Field<'a> for PeerTicket {
    const LEAST: usize = <TicketId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.ticket.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { ticket: reader.field("ticket")? })
    }
}

impl Message for PeerTicket {
    const KIND: u16 = 0x0f11;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "PeerTicket";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// The first sealed frame: this connection is number `lane` of `lanes`. Without `sealed`, all frames behind the reply are in the clear.
///
/// Kind 0x0f12, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PeerJoin {
    pub lane: u32,
    pub lanes: u32,
    pub sealed: bool,
}

impl<'a> Field<'a> for PeerJoin {
    const LEAST: usize = <u32 as Field<'a>>::LEAST + <u32 as Field<'a>>::LEAST + <bool as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<9>(out);
        room[0..4].copy_from_slice(&self.lane.to_le_bytes());
        room[4..8].copy_from_slice(&self.lanes.to_le_bytes());
        room[8..9].copy_from_slice(&[u8::from(self.sealed)]);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { lane: reader.field("lane")?, lanes: reader.field("lanes")?, sealed: reader.field("sealed")? })
    }
}

impl Message for PeerJoin {
    const KIND: u16 = 0x0f12;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "PeerJoin";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for PeerJoin {
    type Reply<'a> = ();
}

/// On a peer link, from the receiver: its stream has got to `transfer`, which has so many bytes. They may come, as `Chunk`s of 1 MiB, of 2 MiB from 64 MiB on and of 4 MiB from 128 MiB on, and a last one that may be shorter, each on any connection of the link.
///
/// Kind 0x0f13, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PeerReady {
    pub transfer: u64,
    pub bytes: u64,
}

impl<'a> Field<'a> for PeerReady {
    const LEAST: usize = <u64 as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<16>(out);
        room[0..8].copy_from_slice(&self.transfer.to_le_bytes());
        room[8..16].copy_from_slice(&self.bytes.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { transfer: reader.field("transfer")?, bytes: reader.field("bytes")? })
    }
}

impl Message for PeerReady {
    const KIND: u16 = 0x0f13;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "PeerReady";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// On a peer link, from the receiver: all bytes of `transfer` are in its device's memory.
///
/// Kind 0x0f14, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PeerDone {
    pub transfer: u64,
}

impl<'a> Field<'a> for PeerDone {
    const LEAST: usize = <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.transfer.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { transfer: reader.field("transfer")? })
    }
}

impl Message for PeerDone {
    const KIND: u16 = 0x0f14;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "PeerDone";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// Raises a word of a page of the session's own to `value`, unless it is higher. Handled as soon as it is read, not in command order: the issuer may wait for room behind the very wait that this ends.
///
/// Kind 0x0f15, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RaiseNow {
    pub signals: SignalsId,
    pub word: u32,
    pub value: u64,
}

impl<'a> Field<'a> for RaiseNow {
    const LEAST: usize = <SignalsId as Field<'a>>::LEAST + <u32 as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<20>(out);
        room[0..8].copy_from_slice(&self.signals.0.to_le_bytes());
        room[8..12].copy_from_slice(&self.word.to_le_bytes());
        room[12..20].copy_from_slice(&self.value.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { signals: reader.field("signals")?, word: reader.field("word")?, value: reader.field("value")? })
    }
}

impl Message for RaiseNow {
    const KIND: u16 = 0x0f15;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "RaiseNow";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// Carries out the commands of this noun.
pub trait PeerRequests: Handler {
    /// Carries out [`Export`].
    ///
    /// # Errors
    /// The handler's.
    fn export(&mut self, message: Export<'_>) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`Withdraw`].
    ///
    /// # Errors
    /// The handler's.
    fn withdraw(&mut self, message: Withdraw) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`ImportBlock`].
    ///
    /// # Errors
    /// The handler's.
    fn import_block(&mut self, message: ImportBlock<'_>) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`CreateSignals`].
    ///
    /// # Errors
    /// The handler's.
    fn create_signals(&mut self, message: CreateSignals) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`ImportSignals`].
    ///
    /// # Errors
    /// The handler's.
    fn import_signals(&mut self, message: ImportSignals<'_>) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`DropSignals`].
    ///
    /// # Errors
    /// The handler's.
    fn drop_signals(&mut self, message: DropSignals) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`RaiseSignal`].
    ///
    /// # Errors
    /// The handler's.
    fn raise_signal(&mut self, message: RaiseSignal) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`AwaitSignal`].
    ///
    /// # Errors
    /// The handler's.
    fn await_signal(&mut self, message: AwaitSignal) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`RecordSignal`].
    ///
    /// # Errors
    /// The handler's.
    fn record_signal(&mut self, message: RecordSignal) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`ReadSignals`].
    ///
    /// # Errors
    /// The handler's.
    fn read_signals(&mut self, message: ReadSignals) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`AskPeer`].
    ///
    /// # Errors
    /// The handler's.
    fn ask_peer(&mut self, message: AskPeer) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`ConnectPeer`].
    ///
    /// # Errors
    /// The handler's.
    fn connect_peer(&mut self, message: ConnectPeer<'_>) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`DropPeer`].
    ///
    /// # Errors
    /// The handler's.
    fn drop_peer(&mut self, message: DropPeer) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`SendTo`].
    ///
    /// # Errors
    /// The handler's.
    fn send_to(&mut self, message: SendTo) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`ReceiveFrom`].
    ///
    /// # Errors
    /// The handler's.
    fn receive_from(&mut self, message: ReceiveFrom) -> Result<Self::Answer, Self::Fault>;
}
