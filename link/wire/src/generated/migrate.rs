//! Moves of sessions: somebody who may asks the daemon to give a session another worker, on this GPU or another of its server.
//! Plain values and their encoding; they check nothing beyond what the types say.
// Made by `cargo xtask gen` from api/messages; edit the tables, not this file.

#[allow(unused_imports)]
use super::*;
#[allow(unused_imports)]
use crate::{
    ArrayId, BlockId, Call, Class, CommId, DecodeError, DevicePtr, EventId, Field, FunctionId, GraphId, Handler,
    KernelId, LibraryId, Message, PeerLinkId, Reader, SignalsId, StreamId, SurfaceId, TextureId, TicketId,
};

/// Instead of Attach: moves a running session to another worker of this server (`action` 0), suspends it to the server's host memory (1), or resumes a suspended one (2). `gpu` is the index of the GPU to go to, 0xffffffff for one that the server chooses, and without meaning for action 1; the session's own GPU means a new worker on it. `patience_ms` is the most time for stopping the program and letting its work end; if that takes longer the program goes on, and is stopped again three times at most. `stop_and_copy` leaves out the copying ahead of the pause. Over a Unix socket a user moves its own sessions, and the server's own user and root all. Over TCP a session is moved from the address that it came from, by who has proved the token, or from anywhere with the session's `key`, which may else be empty. The reply comes when the move is over; until then come `Migrating`s. A refusal or a move that was given up has a status and a sentence; the session is then where it was. The reply's `gpu` is 0xffffffff for a session that was suspended. `worker` is 0 for callers that see no process ids.
///
/// Kind 0x0010, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Migrate<'a> {
    pub session: u64,
    pub key: &'a [u8],
    pub gpu: u32,
    pub stop_and_copy: bool,
    pub patience_ms: u32,
    pub action: u32,
}

impl<'a> Field<'a> for Migrate<'a> {
    const LEAST: usize = <u64 as Field<'a>>::LEAST
        + <&'a [u8] as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <bool as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<12>(out);
        room[0..8].copy_from_slice(&self.session.to_le_bytes());
        room[8..12].copy_from_slice(&crate::reader::length_bytes(self.key.len()));
        out.extend_from_slice(self.key);
        let room = crate::reader::room::<13>(out);
        room[0..4].copy_from_slice(&self.gpu.to_le_bytes());
        room[4..5].copy_from_slice(&[u8::from(self.stop_and_copy)]);
        room[5..9].copy_from_slice(&self.patience_ms.to_le_bytes());
        room[9..13].copy_from_slice(&self.action.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            session: reader.field("session")?,
            key: reader.field("key")?,
            gpu: reader.field("gpu")?,
            stop_and_copy: reader.field("stop_and_copy")?,
            patience_ms: reader.field("patience_ms")?,
            action: reader.field("action")?,
        })
    }
}

impl Message for Migrate<'_> {
    const KIND: u16 = 0x0010;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "Migrate";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for Migrate<'_> {
    type Reply<'a> = MigrateReply;
}

/// What answers [`Migrate`] when its status is success.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MigrateReply {
    pub gpu: u32,
    pub worker: u32,
    pub pause_us: u64,
    pub longest_pause_us: u64,
    pub retries: u32,
    pub bytes: u64,
    pub rounds: u32,
    pub phases: Vec<PhaseTime>,
}

impl<'a> Field<'a> for MigrateReply {
    const LEAST: usize = <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <Vec<PhaseTime> as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<44>(out);
        room[0..4].copy_from_slice(&self.gpu.to_le_bytes());
        room[4..8].copy_from_slice(&self.worker.to_le_bytes());
        room[8..16].copy_from_slice(&self.pause_us.to_le_bytes());
        room[16..24].copy_from_slice(&self.longest_pause_us.to_le_bytes());
        room[24..28].copy_from_slice(&self.retries.to_le_bytes());
        room[28..36].copy_from_slice(&self.bytes.to_le_bytes());
        room[36..40].copy_from_slice(&self.rounds.to_le_bytes());
        room[40..44].copy_from_slice(&crate::reader::length_bytes(self.phases.len()));
        for element in &self.phases {
            element.write(out);
        }
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            gpu: reader.field("gpu")?,
            worker: reader.field("worker")?,
            pause_us: reader.field("pause_us")?,
            longest_pause_us: reader.field("longest_pause_us")?,
            retries: reader.field("retries")?,
            bytes: reader.field("bytes")?,
            rounds: reader.field("rounds")?,
            phases: reader.field("phases")?,
        })
    }
}

/// The caller of `Migrate` wants the move no longer. If the session has not been moved yet, it stays; the reply to `Migrate` says which. A closed connection says the same.
///
/// Kind 0x0011, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CancelMigrate {}

impl<'a> Field<'a> for CancelMigrate {
    const LEAST: usize = 0;

    fn write(&self, _out: &mut Vec<u8>) {}

    fn read(_reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {})
    }
}

impl Message for CancelMigrate {
    const KIND: u16 = 0x0011;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "CancelMigrate";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// A move that this connection has asked for is in this phase (0 admit, 1 replay, 2 lend, 3 precopy, 4 park, 5 drain, 6 finish, 7 switch, 8 release), and has copied so many bytes of so many, in so many rounds. Only the newest is sent to a caller that reads slowly.
///
/// Kind 0x0087, from the server, unasked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Migrating {
    pub phase: u32,
    pub bytes: u64,
    pub of: u64,
    pub rounds: u32,
}

impl<'a> Field<'a> for Migrating {
    const LEAST: usize =
        <u32 as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST + <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<24>(out);
        room[0..4].copy_from_slice(&self.phase.to_le_bytes());
        room[4..12].copy_from_slice(&self.bytes.to_le_bytes());
        room[12..20].copy_from_slice(&self.of.to_le_bytes());
        room[20..24].copy_from_slice(&self.rounds.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            phase: reader.field("phase")?,
            bytes: reader.field("bytes")?,
            of: reader.field("of")?,
            rounds: reader.field("rounds")?,
        })
    }
}

impl Message for Migrating {
    const KIND: u16 = 0x0087;
    const CLASS: Class = Class::Push;
    const NAME: &'static str = "Migrating";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// How long a move was in a phase, in all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PhaseTime {
    pub phase: u32,
    pub microseconds: u64,
}

impl<'a> Field<'a> for PhaseTime {
    const LEAST: usize = <u32 as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<12>(out);
        room[0..4].copy_from_slice(&self.phase.to_le_bytes());
        room[4..12].copy_from_slice(&self.microseconds.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { phase: reader.field("phase")?, microseconds: reader.field("microseconds")? })
    }
}
