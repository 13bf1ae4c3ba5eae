//! Memory and words that one session lets another import. Both have workers on one server; the daemon passes the descriptors.
//! Plain values and their encoding; they check nothing beyond what the types say.
// Made by `cargo xtask gen` from api/messages; edit the tables, not this file.

#[allow(unused_imports)]
use super::*;
#[allow(unused_imports)]
use crate::{
    ArrayId, BlockId, Call, Class, DecodeError, DevicePtr, EventId, Field, FunctionId, GraphId, Handler, KernelId,
    LibraryId, Message, Reader, SignalsId, StreamId, SurfaceId, TextureId, TicketId,
};

/// Makes a ticket. Whoever proves that he has `key` (32 random bytes) may import: with `scope` 0 every block and signal page of this session, with 1 the block `object`, with 2 the signal page `object`. `uses` limits the imports (0: no limit), `seconds` the ticket's life (0: as long as its object, or the session). A ticket of an object ends with the object.
///
/// Kind 0x0f01, posted: no reply.
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
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "Export";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
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
}
