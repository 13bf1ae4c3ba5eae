//! Before a session: the client says who it is, proves the token and asks for a vGPU. The daemon answers. Then the session's own messages.
//! Plain values and their encoding; they check nothing beyond what the types say.
// Made by `cargo xtask gen` from api/messages; edit the tables, not this file.

#[allow(unused_imports)]
use super::*;
#[allow(unused_imports)]
use crate::{
    ArrayId, BlockId, Call, Class, CommId, DecodeError, DevicePtr, EventId, Field, FunctionId, GraphId, Handler,
    KernelId, LibraryId, Message, PeerLinkId, Reader, SignalsId, StreamId, SurfaceId, TextureId, TicketId,
};

/// First frame of every connection. `magic` is 0x454f4c46 ("FLOE"); the server picks a protocol version between the two. Over a Unix socket a descriptor of the client's process (a pidfd) goes with it. Without that descriptor, or with another process's, the user of the socket admits nobody.
///
/// Kind 0x0001, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Hello<'a> {
    pub magic: u32,
    pub oldest: u32,
    pub newest: u32,
    pub client: &'a str,
}

impl<'a> Field<'a> for Hello<'a> {
    const LEAST: usize = <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <&'a str as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<16>(out);
        room[0..4].copy_from_slice(&self.magic.to_le_bytes());
        room[4..8].copy_from_slice(&self.oldest.to_le_bytes());
        room[8..12].copy_from_slice(&self.newest.to_le_bytes());
        room[12..16].copy_from_slice(&crate::reader::length_bytes(self.client.len()));
        out.extend_from_slice(self.client.as_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            magic: reader.field("magic")?,
            oldest: reader.field("oldest")?,
            newest: reader.field("newest")?,
            client: reader.field("client")?,
        })
    }
}

impl Message for Hello<'_> {
    const KIND: u16 = 0x0001;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "Hello";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for Hello<'_> {
    type Reply<'a> = HelloReply<'a>;
}

/// What answers [`Hello`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HelloReply<'a> {
    pub version: u32,
    pub server: &'a str,
    pub authenticate: bool,
    pub nonce: &'a [u8],
}

impl<'a> Field<'a> for HelloReply<'a> {
    const LEAST: usize = <u32 as Field<'a>>::LEAST
        + <&'a str as Field<'a>>::LEAST
        + <bool as Field<'a>>::LEAST
        + <&'a [u8] as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.version.to_le_bytes());
        room[4..8].copy_from_slice(&crate::reader::length_bytes(self.server.len()));
        out.extend_from_slice(self.server.as_bytes());
        let room = crate::reader::room::<5>(out);
        room[0..1].copy_from_slice(&[u8::from(self.authenticate)]);
        room[1..5].copy_from_slice(&crate::reader::length_bytes(self.nonce.len()));
        out.extend_from_slice(self.nonce);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            version: reader.field("version")?,
            server: reader.field("server")?,
            authenticate: reader.field("authenticate")?,
            nonce: reader.field("nonce")?,
        })
    }
}

/// HMAC-SHA256 with the token as key, or with what a user's token and the server's key agree on; `number` is then the token's (8 bytes), else it is empty. docs/protocol.md names what it covers: the side, the connection's protection and its binding, the server's nonce and the client's nonce (16 to 64 bytes). If it is wrong, the reply's status is not success and the connection closes.
///
/// Kind 0x0002, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Authenticate<'a> {
    pub nonce: &'a [u8],
    pub proof: &'a [u8],
    pub number: &'a [u8],
}

impl<'a> Field<'a> for Authenticate<'a> {
    const LEAST: usize =
        <&'a [u8] as Field<'a>>::LEAST + <&'a [u8] as Field<'a>>::LEAST + <&'a [u8] as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.nonce.len()));
        out.extend_from_slice(self.nonce);
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.proof.len()));
        out.extend_from_slice(self.proof);
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.number.len()));
        out.extend_from_slice(self.number);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { nonce: reader.field("nonce")?, proof: reader.field("proof")?, number: reader.field("number")? })
    }
}

impl Message for Authenticate<'_> {
    const KIND: u16 = 0x0002;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "Authenticate";
    const TAIL: bool = true;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.nonce.len()));
        out.extend_from_slice(self.nonce);
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.proof.len()));
        out.extend_from_slice(self.proof);
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.number.len()));
        self.number
    }
}

impl Call for Authenticate<'_> {
    type Reply<'a> = AuthenticateReply<'a>;
}

/// What answers [`Authenticate`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AuthenticateReply<'a> {
    pub proof: &'a [u8],
}

impl<'a> Field<'a> for AuthenticateReply<'a> {
    const LEAST: usize = <&'a [u8] as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.proof.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { proof: reader.field("proof")? })
    }
}

/// Asks for the GPUs that this server offers. `nccl` says whether its workers have NCCL to load.
///
/// Kind 0x0003, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ListGpus {}

impl<'a> Field<'a> for ListGpus {
    const LEAST: usize = 0;

    fn write(&self, _out: &mut Vec<u8>) {}

    fn read(_reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {})
    }
}

impl Message for ListGpus {
    const KIND: u16 = 0x0003;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "ListGpus";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for ListGpus {
    type Reply<'a> = ListGpusReply<'a>;
}

/// What answers [`ListGpus`] when its status is success.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListGpusReply<'a> {
    pub gpus: Vec<Gpu<'a>>,
    pub nccl: bool,
}

impl<'a> Field<'a> for ListGpusReply<'a> {
    const LEAST: usize = <Vec<Gpu<'a>> as Field<'a>>::LEAST + <bool as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.gpus.len()));
        for element in &self.gpus {
            element.write(out);
        }
        let room = crate::reader::room::<1>(out);
        room[0..1].copy_from_slice(&[u8::from(self.nccl)]);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { gpus: reader.field("gpus")?, nccl: reader.field("nccl")? })
    }
}

/// Asks which sessions use which GPU. The operator sees all sessions: the server's own user, root, and with a policy the holder of the server's token. Others see those of their own name, address or user, without the worker's process id; a user that may see others sees all, without it. `ListGpus` counts all.
///
/// Kind 0x0004, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ListSessions {}

impl<'a> Field<'a> for ListSessions {
    const LEAST: usize = 0;

    fn write(&self, _out: &mut Vec<u8>) {}

    fn read(_reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {})
    }
}

impl Message for ListSessions {
    const KIND: u16 = 0x0004;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "ListSessions";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for ListSessions {
    type Reply<'a> = ListSessionsReply<'a>;
}

/// What answers [`ListSessions`] when its status is success.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListSessionsReply<'a> {
    pub sessions: Vec<SessionRow<'a>>,
}

impl<'a> Field<'a> for ListSessionsReply<'a> {
    const LEAST: usize = <Vec<SessionRow<'a>> as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.sessions.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { sessions: reader.field("sessions")? })
    }
}

/// Asks for a vGPU. After the reply the connection belongs to the session's worker. `ordinal` is the vGPU's ordinal in the client process: it chooses the address window. `memory` is the quota in bytes, which the server guarantees; 0 for best effort: whatever is left. If there is no room for a guarantee or a share, the request waits for it for `wait_ms`, behind those that came before it for the same of this GPU; until the reply come `Waiting`s, and a closed connection is forgotten. `settings` are the CUDA_* variables of the program that belong to the driver. `key` (16 random bytes) lets further connections join the session: up to `bulk_connections` bulk connections (none over a Unix socket). If `grace_ms` is not 0, the client may also reconnect with it within that time. `rings` is the size in bytes of each of two rings in shared memory that the client has ready, 0 for none. If the reply takes them, the first frame to the worker is `UseRings`. `server` is 16 random bytes that the daemon chose at its start: sessions with the same bytes can import from each other. `guaranteed` says whether the reply's `memory` is a guarantee; else it is the most that a session may have of what is left. `share` is thousandths of the GPU's time that the session gets whenever it has work, 0 for what others' shares leave; `weight` (up to 1000, 0: none of its own) divides that among a user's sessions; `class` is 0 for batch and 1 for latency; after `time_ms`, if that is not 0, the server ends the session.
///
/// Kind 0x0005, called: one reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attach<'a> {
    pub gpu: u32,
    pub ordinal: u32,
    pub memory: u64,
    pub pid: u32,
    pub host: &'a str,
    pub program: &'a str,
    pub settings: Vec<Setting<'a>>,
    pub rings: u32,
    pub wait_ms: u32,
    pub share: u32,
    pub weight: u32,
    pub class: u32,
    pub time_ms: u64,
}

impl<'a> Field<'a> for Attach<'a> {
    const LEAST: usize = <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <&'a str as Field<'a>>::LEAST
        + <&'a str as Field<'a>>::LEAST
        + <Vec<Setting<'a>> as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<24>(out);
        room[0..4].copy_from_slice(&self.gpu.to_le_bytes());
        room[4..8].copy_from_slice(&self.ordinal.to_le_bytes());
        room[8..16].copy_from_slice(&self.memory.to_le_bytes());
        room[16..20].copy_from_slice(&self.pid.to_le_bytes());
        room[20..24].copy_from_slice(&crate::reader::length_bytes(self.host.len()));
        out.extend_from_slice(self.host.as_bytes());
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.program.len()));
        out.extend_from_slice(self.program.as_bytes());
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.settings.len()));
        for element in &self.settings {
            element.write(out);
        }
        let room = crate::reader::room::<28>(out);
        room[0..4].copy_from_slice(&self.rings.to_le_bytes());
        room[4..8].copy_from_slice(&self.wait_ms.to_le_bytes());
        room[8..12].copy_from_slice(&self.share.to_le_bytes());
        room[12..16].copy_from_slice(&self.weight.to_le_bytes());
        room[16..20].copy_from_slice(&self.class.to_le_bytes());
        room[20..28].copy_from_slice(&self.time_ms.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            gpu: reader.field("gpu")?,
            ordinal: reader.field("ordinal")?,
            memory: reader.field("memory")?,
            pid: reader.field("pid")?,
            host: reader.field("host")?,
            program: reader.field("program")?,
            settings: reader.field("settings")?,
            rings: reader.field("rings")?,
            wait_ms: reader.field("wait_ms")?,
            share: reader.field("share")?,
            weight: reader.field("weight")?,
            class: reader.field("class")?,
            time_ms: reader.field("time_ms")?,
        })
    }
}

impl Message for Attach<'_> {
    const KIND: u16 = 0x0005;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "Attach";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for Attach<'_> {
    type Reply<'a> = AttachReply<'a>;
}

/// What answers [`Attach`] when its status is success.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AttachReply<'a> {
    pub session: u64,
    pub window: DevicePtr,
    pub window_bytes: u64,
    pub memory: u64,
    pub key: &'a [u8],
    pub bulk_connections: u32,
    pub grace_ms: u64,
    pub rings: bool,
    pub device: DeviceSnapshot<'a>,
    pub server: &'a [u8],
    pub guaranteed: bool,
}

impl<'a> Field<'a> for AttachReply<'a> {
    const LEAST: usize = <u64 as Field<'a>>::LEAST
        + <DevicePtr as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <&'a [u8] as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <bool as Field<'a>>::LEAST
        + <DeviceSnapshot<'a> as Field<'a>>::LEAST
        + <&'a [u8] as Field<'a>>::LEAST
        + <bool as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<36>(out);
        room[0..8].copy_from_slice(&self.session.to_le_bytes());
        room[8..16].copy_from_slice(&self.window.0.to_le_bytes());
        room[16..24].copy_from_slice(&self.window_bytes.to_le_bytes());
        room[24..32].copy_from_slice(&self.memory.to_le_bytes());
        room[32..36].copy_from_slice(&crate::reader::length_bytes(self.key.len()));
        out.extend_from_slice(self.key);
        let room = crate::reader::room::<13>(out);
        room[0..4].copy_from_slice(&self.bulk_connections.to_le_bytes());
        room[4..12].copy_from_slice(&self.grace_ms.to_le_bytes());
        room[12..13].copy_from_slice(&[u8::from(self.rings)]);
        self.device.write(out);
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.server.len()));
        out.extend_from_slice(self.server);
        let room = crate::reader::room::<1>(out);
        room[0..1].copy_from_slice(&[u8::from(self.guaranteed)]);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            session: reader.field("session")?,
            window: reader.field("window")?,
            window_bytes: reader.field("window_bytes")?,
            memory: reader.field("memory")?,
            key: reader.field("key")?,
            bulk_connections: reader.field("bulk_connections")?,
            grace_ms: reader.field("grace_ms")?,
            rings: reader.field("rings")?,
            device: reader.field("device")?,
            server: reader.field("server")?,
            guaranteed: reader.field("guaranteed")?,
        })
    }
}

/// Instead of Attach: this connection joins an existing session. After the reply it belongs to the session's worker. If `Attach`'s `grace_ms` is 0, both sides send only `Chunk` on it; else the client sends `Continue` first.
///
/// Kind 0x0007, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Join<'a> {
    pub session: u64,
    pub key: &'a [u8],
}

impl<'a> Field<'a> for Join<'a> {
    const LEAST: usize = <u64 as Field<'a>>::LEAST + <&'a [u8] as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<12>(out);
        room[0..8].copy_from_slice(&self.session.to_le_bytes());
        room[8..12].copy_from_slice(&crate::reader::length_bytes(self.key.len()));
        out.extend_from_slice(self.key);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { session: reader.field("session")?, key: reader.field("key")? })
    }
}

impl Message for Join<'_> {
    const KIND: u16 = 0x0007;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "Join";
    const TAIL: bool = true;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        let room = crate::reader::room::<12>(out);
        room[0..8].copy_from_slice(&self.session.to_le_bytes());
        room[8..12].copy_from_slice(&crate::reader::length_bytes(self.key.len()));
        self.key
    }
}

impl Call for Join<'_> {
    type Reply<'a> = ();
}

/// The descriptor that goes with the frame is memory for two rings of `bytes` each. The worker expects it as the first frame if Attach's reply took rings, and never else. After a reply of success, all frames of both directions go through the rings. If the worker cannot take the memory, it replies NOT_SUPPORTED, and all frames stay on the socket.
///
/// Kind 0x0008, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UseRings {
    pub bytes: u32,
}

impl<'a> Field<'a> for UseRings {
    const LEAST: usize = <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.bytes.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { bytes: reader.field("bytes")? })
    }
}

impl Message for UseRings {
    const KIND: u16 = 0x0008;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "UseRings";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for UseRings {
    type Reply<'a> = ();
}

/// Resumes a channel of the session on this connection. `channel` is its number: 0 is the main connection's, 1 and more are those of bulk connections, 0xffffffff is that of acknowledgements. `epoch` counts from 1 how often the client has made its connections; at a new epoch the server leaves all earlier connections. `received` is how many bytes of the channel the sender has received since `Attach`'s reply (since the reply to `UseRings`, if that was refused), 0 where none could come. `digest` is the digest of these bytes. The reply says the same of the server. Each side then checks the peer's digest against what it sent, and continues behind the peer's last byte.
///
/// Kind 0x0009, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Continue {
    pub epoch: u64,
    pub channel: u32,
    pub received: u64,
    pub digest: u64,
}

impl<'a> Field<'a> for Continue {
    const LEAST: usize =
        <u64 as Field<'a>>::LEAST + <u32 as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<28>(out);
        room[0..8].copy_from_slice(&self.epoch.to_le_bytes());
        room[8..12].copy_from_slice(&self.channel.to_le_bytes());
        room[12..20].copy_from_slice(&self.received.to_le_bytes());
        room[20..28].copy_from_slice(&self.digest.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            epoch: reader.field("epoch")?,
            channel: reader.field("channel")?,
            received: reader.field("received")?,
            digest: reader.field("digest")?,
        })
    }
}

impl Message for Continue {
    const KIND: u16 = 0x0009;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "Continue";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for Continue {
    type Reply<'a> = ContinueReply;
}

/// What answers [`Continue`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ContinueReply {
    pub received: u64,
    pub digest: u64,
}

impl<'a> Field<'a> for ContinueReply {
    const LEAST: usize = <u64 as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<16>(out);
        room[0..8].copy_from_slice(&self.received.to_le_bytes());
        room[8..16].copy_from_slice(&self.digest.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { received: reader.field("received")?, digest: reader.field("digest")? })
    }
}

/// Acknowledges that so many bytes of a channel have come, and carries their digest. Both sides send it, on the acknowledgement connection only. It is due when a MiB has come, and when a frame of 32 KiB or more, or a transfer, is whole. The last transfer is acknowledged at once; earlier ones may wait for a moment.
///
/// Kind 0x000a, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Acknowledge {
    pub channel: u32,
    pub received: u64,
    pub digest: u64,
}

impl<'a> Field<'a> for Acknowledge {
    const LEAST: usize = <u32 as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<20>(out);
        room[0..4].copy_from_slice(&self.channel.to_le_bytes());
        room[4..12].copy_from_slice(&self.received.to_le_bytes());
        room[12..20].copy_from_slice(&self.digest.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            channel: reader.field("channel")?,
            received: reader.field("received")?,
            digest: reader.field("digest")?,
        })
    }
}

impl Message for Acknowledge {
    const KIND: u16 = 0x000a;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "Acknowledge";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// The sender leaves the session: nobody reconnects after this. Both sides send it, on the acknowledgement connection only.
///
/// Kind 0x000b, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Goodbye {}

impl<'a> Field<'a> for Goodbye {
    const LEAST: usize = 0;

    fn write(&self, _out: &mut Vec<u8>) {}

    fn read(_reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {})
    }
}

impl Message for Goodbye {
    const KIND: u16 = 0x000b;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "Goodbye";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// Ends a session of the caller's; the operator ends any. Whose a session is, is asked as for `Migrate`. The reply says that its worker is being ended.
///
/// Kind 0x000c, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EndSession<'a> {
    pub session: u64,
    pub key: &'a [u8],
}

impl<'a> Field<'a> for EndSession<'a> {
    const LEAST: usize = <u64 as Field<'a>>::LEAST + <&'a [u8] as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<12>(out);
        room[0..8].copy_from_slice(&self.session.to_le_bytes());
        room[8..12].copy_from_slice(&crate::reader::length_bytes(self.key.len()));
        out.extend_from_slice(self.key);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { session: reader.field("session")?, key: reader.field("key")? })
    }
}

impl Message for EndSession<'_> {
    const KIND: u16 = 0x000c;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "EndSession";
    const TAIL: bool = true;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        let room = crate::reader::room::<12>(out);
        room[0..8].copy_from_slice(&self.session.to_le_bytes());
        room[8..12].copy_from_slice(&crate::reader::length_bytes(self.key.len()));
        self.key
    }
}

impl Call for EndSession<'_> {
    type Reply<'a> = ();
}

/// A fresh random word that makes the digest of a channel differ from that of any other history. Both sides send it, on any channel, ahead of each frame with a payload of 4 KiB or more. The reader drops it.
///
/// Kind 0x000d, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Salt {
    pub word: u64,
}

impl<'a> Field<'a> for Salt {
    const LEAST: usize = <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.word.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { word: reader.field("word")? })
    }
}

impl Message for Salt {
    const KIND: u16 = 0x000d;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "Salt";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// A heartbeat. Both sides send it, on the acknowledgement connection only. `asks` counts the sender's questions whether the peer is alive; `answers` is the peer's last question that has come.
///
/// Kind 0x000e, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Heartbeat {
    pub asks: u64,
    pub answers: u64,
}

impl<'a> Field<'a> for Heartbeat {
    const LEAST: usize = <u64 as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<16>(out);
        room[0..8].copy_from_slice(&self.asks.to_le_bytes());
        room[8..16].copy_from_slice(&self.answers.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { asks: reader.field("asks")?, answers: reader.field("answers")? })
    }
}

impl Message for Heartbeat {
    const KIND: u16 = 0x000e;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "Heartbeat";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// Asks which server this is, so that a client knows one again that it reaches by two addresses. `challenge` and `server` are public keys of X25519 (32 bytes): a new one of the client's, and the one that the server made at its start. `proof` is the server's that it has the private key and holds this connection's end. docs/protocol.md names what it covers. INVALID_VALUE for a challenge that is no such key.
///
/// Kind 0x000f, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Identify<'a> {
    pub challenge: &'a [u8],
}

impl<'a> Field<'a> for Identify<'a> {
    const LEAST: usize = <&'a [u8] as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.challenge.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { challenge: reader.field("challenge")? })
    }
}

impl Message for Identify<'_> {
    const KIND: u16 = 0x000f;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "Identify";
    const TAIL: bool = true;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.challenge.len()));
        self.challenge
    }
}

impl Call for Identify<'_> {
    type Reply<'a> = IdentifyReply<'a>;
}

/// What answers [`Identify`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct IdentifyReply<'a> {
    pub server: &'a [u8],
    pub proof: &'a [u8],
}

impl<'a> Field<'a> for IdentifyReply<'a> {
    const LEAST: usize = <&'a [u8] as Field<'a>>::LEAST + <&'a [u8] as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.server.len()));
        out.extend_from_slice(self.server);
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.proof.len()));
        out.extend_from_slice(self.proof);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { server: reader.field("server")?, proof: reader.field("proof")? })
    }
}

/// Answers the request of sequence `request`. `status` is the CUresult of that request. `earlier` is the first failure of a posted call that no reply has carried yet (0: none). `detail` is a sentence for the log, which may be empty. `body` holds the request's reply fields.
///
/// Kind 0x0080, from the server, unasked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reply<'a> {
    pub request: u64,
    pub status: u32,
    pub earlier: u32,
    pub detail: &'a str,
    pub body: &'a [u8],
}

impl<'a> Field<'a> for Reply<'a> {
    const LEAST: usize = <u64 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <&'a str as Field<'a>>::LEAST
        + <&'a [u8] as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<20>(out);
        room[0..8].copy_from_slice(&self.request.to_le_bytes());
        room[8..12].copy_from_slice(&self.status.to_le_bytes());
        room[12..16].copy_from_slice(&self.earlier.to_le_bytes());
        room[16..20].copy_from_slice(&crate::reader::length_bytes(self.detail.len()));
        out.extend_from_slice(self.detail.as_bytes());
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.body.len()));
        out.extend_from_slice(self.body);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            request: reader.field("request")?,
            status: reader.field("status")?,
            earlier: reader.field("earlier")?,
            detail: reader.field("detail")?,
            body: reader.field("body")?,
        })
    }
}

impl Message for Reply<'_> {
    const KIND: u16 = 0x0080;
    const CLASS: Class = Class::Push;
    const NAME: &'static str = "Reply";
    const TAIL: bool = true;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        let room = crate::reader::room::<20>(out);
        room[0..8].copy_from_slice(&self.request.to_le_bytes());
        room[8..12].copy_from_slice(&self.status.to_le_bytes());
        room[12..16].copy_from_slice(&self.earlier.to_le_bytes());
        room[16..20].copy_from_slice(&crate::reader::length_bytes(self.detail.len()));
        out.extend_from_slice(self.detail.as_bytes());
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.body.len()));
        self.body
    }
}

/// The session is over, and this is why. The connection closes after it.
///
/// Kind 0x0081, from the server, unasked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ended<'a> {
    pub status: u32,
    pub detail: &'a str,
}

impl<'a> Field<'a> for Ended<'a> {
    const LEAST: usize = <u32 as Field<'a>>::LEAST + <&'a str as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.status.to_le_bytes());
        room[4..8].copy_from_slice(&crate::reader::length_bytes(self.detail.len()));
        out.extend_from_slice(self.detail.as_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { status: reader.field("status")?, detail: reader.field("detail")? })
    }
}

impl Message for Ended<'_> {
    const KIND: u16 = 0x0081;
    const CLASS: Class = Class::Push;
    const NAME: &'static str = "Ended";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// What a kernel printed (fd 1) or asserted (fd 2). Comes before the reply of the call that made it visible.
///
/// Kind 0x0082, from the server, unasked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Output<'a> {
    pub fd: u32,
    pub bytes: &'a [u8],
}

impl<'a> Field<'a> for Output<'a> {
    const LEAST: usize = <u32 as Field<'a>>::LEAST + <&'a [u8] as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.fd.to_le_bytes());
        room[4..8].copy_from_slice(&crate::reader::length_bytes(self.bytes.len()));
        out.extend_from_slice(self.bytes);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { fd: reader.field("fd")?, bytes: reader.field("bytes")? })
    }
}

impl Message for Output<'_> {
    const KIND: u16 = 0x0082;
    const CLASS: Class = Class::Push;
    const NAME: &'static str = "Output";
    const TAIL: bool = true;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.fd.to_le_bytes());
        room[4..8].copy_from_slice(&crate::reader::length_bytes(self.bytes.len()));
        self.bytes
    }
}

/// One message piece of the bytes that a `deliver` request asked for, at `offset` bytes of the whole.
///
/// Kind 0x0083, from the server, unasked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Delivery<'a> {
    pub request: u64,
    pub offset: u64,
    pub bytes: &'a [u8],
}

impl<'a> Field<'a> for Delivery<'a> {
    const LEAST: usize = <u64 as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST + <&'a [u8] as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<20>(out);
        room[0..8].copy_from_slice(&self.request.to_le_bytes());
        room[8..16].copy_from_slice(&self.offset.to_le_bytes());
        room[16..20].copy_from_slice(&crate::reader::length_bytes(self.bytes.len()));
        out.extend_from_slice(self.bytes);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { request: reader.field("request")?, offset: reader.field("offset")?, bytes: reader.field("bytes")? })
    }
}

impl Message for Delivery<'_> {
    const KIND: u16 = 0x0083;
    const CLASS: Class = Class::Push;
    const NAME: &'static str = "Delivery";
    const TAIL: bool = true;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        let room = crate::reader::room::<20>(out);
        room[0..8].copy_from_slice(&self.request.to_le_bytes());
        room[8..16].copy_from_slice(&self.offset.to_le_bytes());
        room[16..20].copy_from_slice(&crate::reader::length_bytes(self.bytes.len()));
        self.bytes
    }
}

/// The stream has reached a host function: the client runs it and sends `HostFunctionDone`. All deliveries of earlier work on that stream have been sent before it. If `status` is not 0, the function could not be put into its stream: it never runs, and nothing waits for it.
///
/// Kind 0x0084, from the server, unasked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunHostFunction {
    pub function: FunctionId,
    pub status: u32,
}

impl<'a> Field<'a> for RunHostFunction {
    const LEAST: usize = <FunctionId as Field<'a>>::LEAST + <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<12>(out);
        room[0..8].copy_from_slice(&self.function.0.to_le_bytes());
        room[8..12].copy_from_slice(&self.status.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { function: reader.field("function")?, status: reader.field("status")? })
    }
}

impl Message for RunHostFunction {
    const KIND: u16 = 0x0084;
    const CLASS: Class = Class::Push;
    const NAME: &'static str = "RunHostFunction";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// All work of the stream up to frame `sequence` has completed, or failed with `status`. Sent once for each `QueryStream` or `QueryEvent` that was answered NOT_READY. All deliveries of that work have been sent before it.
///
/// Kind 0x0085, from the server, unasked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    pub stream: StreamId,
    pub sequence: u64,
    pub status: u32,
}

impl<'a> Field<'a> for Progress {
    const LEAST: usize = <StreamId as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST + <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<20>(out);
        room[0..8].copy_from_slice(&self.stream.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        room[16..20].copy_from_slice(&self.status.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            stream: reader.field("stream")?,
            sequence: reader.field("sequence")?,
            status: reader.field("status")?,
        })
    }
}

impl Message for Progress {
    const KIND: u16 = 0x0085;
    const CLASS: Class = Class::Push;
    const NAME: &'static str = "Progress";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// As `Delivery`, of `bytes` bytes (4 MiB at most) that come as `Chunk`s of the transfer that this frame's sequence names.
///
/// Kind 0x0086, from the server, unasked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeliveryFollows {
    pub request: u64,
    pub offset: u64,
    pub bytes: u64,
}

impl<'a> Field<'a> for DeliveryFollows {
    const LEAST: usize = <u64 as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<24>(out);
        room[0..8].copy_from_slice(&self.request.to_le_bytes());
        room[8..16].copy_from_slice(&self.offset.to_le_bytes());
        room[16..24].copy_from_slice(&self.bytes.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { request: reader.field("request")?, offset: reader.field("offset")?, bytes: reader.field("bytes")? })
    }
}

impl Message for DeliveryFollows {
    const KIND: u16 = 0x0086;
    const CLASS: Class = Class::Push;
    const NAME: &'static str = "DeliveryFollows";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// The `Attach` of this connection waits for room: so many requests for the same of this GPU are ahead of it; it has asked for `memory` bytes, and `guarantee` bytes are free for a guarantee; it has asked for `share` thousandths of its time, and `free_share` are free. Comes about once a second, the first time after a second.
///
/// Kind 0x0088, from the server, unasked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Waiting {
    pub ahead: u32,
    pub memory: u64,
    pub guarantee: u64,
    pub share: u32,
    pub free_share: u32,
}

impl<'a> Field<'a> for Waiting {
    const LEAST: usize = <u32 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<28>(out);
        room[0..4].copy_from_slice(&self.ahead.to_le_bytes());
        room[4..12].copy_from_slice(&self.memory.to_le_bytes());
        room[12..20].copy_from_slice(&self.guarantee.to_le_bytes());
        room[20..24].copy_from_slice(&self.share.to_le_bytes());
        room[24..28].copy_from_slice(&self.free_share.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            ahead: reader.field("ahead")?,
            memory: reader.field("memory")?,
            guarantee: reader.field("guarantee")?,
            share: reader.field("share")?,
            free_share: reader.field("free_share")?,
        })
    }
}

impl Message for Waiting {
    const KIND: u16 = 0x0088;
    const CLASS: Class = Class::Push;
    const NAME: &'static str = "Waiting";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// A CUdevice_attribute, CUlimit or CUfunction_attribute by number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Attribute {
    pub number: i32,
    pub value: i32,
}

impl<'a> Field<'a> for Attribute {
    const LEAST: usize = <i32 as Field<'a>>::LEAST + <i32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.number.to_le_bytes());
        room[4..8].copy_from_slice(&self.value.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { number: reader.field("number")?, value: reader.field("value")? })
    }
}

/// All that the client answers locally about a device. `code` says which part of a fat binary the device takes: 0, not known, so the client sends everything; 1, machine code of its compute capability where there is some, else PTX; 2, PTX only. `fabric` says whether memory may be made for fabric handles: on a server whose own programs may not, a program that asks gets the same error.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceSnapshot<'a> {
    pub name: &'a str,
    pub uuid: &'a [u8],
    pub pci_bus: &'a str,
    pub memory: u64,
    pub driver: i32,
    pub attributes: Vec<Attribute>,
    pub limits: Vec<Limit>,
    pub priority_least: i32,
    pub priority_greatest: i32,
    pub granularity: u64,
    pub code: u32,
    pub fabric: bool,
}

impl<'a> Field<'a> for DeviceSnapshot<'a> {
    const LEAST: usize = <&'a str as Field<'a>>::LEAST
        + <&'a [u8] as Field<'a>>::LEAST
        + <&'a str as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <i32 as Field<'a>>::LEAST
        + <Vec<Attribute> as Field<'a>>::LEAST
        + <Vec<Limit> as Field<'a>>::LEAST
        + <i32 as Field<'a>>::LEAST
        + <i32 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <bool as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.name.len()));
        out.extend_from_slice(self.name.as_bytes());
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.uuid.len()));
        out.extend_from_slice(self.uuid);
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.pci_bus.len()));
        out.extend_from_slice(self.pci_bus.as_bytes());
        let room = crate::reader::room::<16>(out);
        room[0..8].copy_from_slice(&self.memory.to_le_bytes());
        room[8..12].copy_from_slice(&self.driver.to_le_bytes());
        room[12..16].copy_from_slice(&crate::reader::length_bytes(self.attributes.len()));
        for element in &self.attributes {
            element.write(out);
        }
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.limits.len()));
        for element in &self.limits {
            element.write(out);
        }
        let room = crate::reader::room::<21>(out);
        room[0..4].copy_from_slice(&self.priority_least.to_le_bytes());
        room[4..8].copy_from_slice(&self.priority_greatest.to_le_bytes());
        room[8..16].copy_from_slice(&self.granularity.to_le_bytes());
        room[16..20].copy_from_slice(&self.code.to_le_bytes());
        room[20..21].copy_from_slice(&[u8::from(self.fabric)]);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            name: reader.field("name")?,
            uuid: reader.field("uuid")?,
            pci_bus: reader.field("pci_bus")?,
            memory: reader.field("memory")?,
            driver: reader.field("driver")?,
            attributes: reader.field("attributes")?,
            limits: reader.field("limits")?,
            priority_least: reader.field("priority_least")?,
            priority_greatest: reader.field("priority_greatest")?,
            granularity: reader.field("granularity")?,
            code: reader.field("code")?,
            fabric: reader.field("fabric")?,
        })
    }
}

/// A GPU. `free` is what nobody has; `guarantee` is the largest quota that a session could be guaranteed there now, `share` are the thousandths of its time that nobody was promised.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gpu<'a> {
    pub index: u32,
    pub name: &'a str,
    pub uuid: &'a [u8],
    pub memory: u64,
    pub free: u64,
    pub guarantee: u64,
    pub kind: &'a str,
    pub driver: i32,
    pub compute_major: i32,
    pub compute_minor: i32,
    pub sessions: u32,
    pub share: u32,
}

impl<'a> Field<'a> for Gpu<'a> {
    const LEAST: usize = <u32 as Field<'a>>::LEAST
        + <&'a str as Field<'a>>::LEAST
        + <&'a [u8] as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <&'a str as Field<'a>>::LEAST
        + <i32 as Field<'a>>::LEAST
        + <i32 as Field<'a>>::LEAST
        + <i32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.index.to_le_bytes());
        room[4..8].copy_from_slice(&crate::reader::length_bytes(self.name.len()));
        out.extend_from_slice(self.name.as_bytes());
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.uuid.len()));
        out.extend_from_slice(self.uuid);
        let room = crate::reader::room::<28>(out);
        room[0..8].copy_from_slice(&self.memory.to_le_bytes());
        room[8..16].copy_from_slice(&self.free.to_le_bytes());
        room[16..24].copy_from_slice(&self.guarantee.to_le_bytes());
        room[24..28].copy_from_slice(&crate::reader::length_bytes(self.kind.len()));
        out.extend_from_slice(self.kind.as_bytes());
        let room = crate::reader::room::<20>(out);
        room[0..4].copy_from_slice(&self.driver.to_le_bytes());
        room[4..8].copy_from_slice(&self.compute_major.to_le_bytes());
        room[8..12].copy_from_slice(&self.compute_minor.to_le_bytes());
        room[12..16].copy_from_slice(&self.sessions.to_le_bytes());
        room[16..20].copy_from_slice(&self.share.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            index: reader.field("index")?,
            name: reader.field("name")?,
            uuid: reader.field("uuid")?,
            memory: reader.field("memory")?,
            free: reader.field("free")?,
            guarantee: reader.field("guarantee")?,
            kind: reader.field("kind")?,
            driver: reader.field("driver")?,
            compute_major: reader.field("compute_major")?,
            compute_minor: reader.field("compute_minor")?,
            sessions: reader.field("sessions")?,
            share: reader.field("share")?,
        })
    }
}

/// Part of other messages: limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limit {
    pub number: i32,
    pub value: u64,
}

impl<'a> Field<'a> for Limit {
    const LEAST: usize = <i32 as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<12>(out);
        room[0..4].copy_from_slice(&self.number.to_le_bytes());
        room[4..12].copy_from_slice(&self.value.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { number: reader.field("number")?, value: reader.field("value")? })
    }
}

/// A session. `transport` names how its commands come: `tcp`, `tls`, `unix` or `shm`. If its client is missing, it also says for how long: `tcp, broken 12 s`. `guaranteed`: its quota is a guarantee. `user` is the name of the user that the server knows it by, empty where it knows none. `share`, `weight` and `class` are as in `Attach`; for `gpu_ms` of the `of_ms` for which turns were taken on its GPU, the session had it. `moves`: how often it got another worker. `received` and `sent` are the bytes of frames that its workers have received from the client and sent to it, without what goes through memory that they share; `waits` are the requests that they have answered. These three are as of `counted_ms` after the session's begin, and do not fall while the session lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SessionRow<'a> {
    pub session: u64,
    pub gpu: u32,
    pub client: &'a str,
    pub pid: u32,
    pub program: &'a str,
    pub memory: u64,
    pub used: u64,
    pub seconds: u64,
    pub worker: u32,
    pub transport: &'a str,
    pub guaranteed: bool,
    pub user: &'a str,
    pub share: u32,
    pub weight: u32,
    pub class: u32,
    pub gpu_ms: u64,
    pub of_ms: u64,
    pub moves: u32,
    pub received: u64,
    pub sent: u64,
    pub waits: u64,
    pub counted_ms: u64,
}

impl<'a> Field<'a> for SessionRow<'a> {
    const LEAST: usize = <u64 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <&'a str as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <&'a str as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <&'a str as Field<'a>>::LEAST
        + <bool as Field<'a>>::LEAST
        + <&'a str as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<16>(out);
        room[0..8].copy_from_slice(&self.session.to_le_bytes());
        room[8..12].copy_from_slice(&self.gpu.to_le_bytes());
        room[12..16].copy_from_slice(&crate::reader::length_bytes(self.client.len()));
        out.extend_from_slice(self.client.as_bytes());
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.pid.to_le_bytes());
        room[4..8].copy_from_slice(&crate::reader::length_bytes(self.program.len()));
        out.extend_from_slice(self.program.as_bytes());
        let room = crate::reader::room::<32>(out);
        room[0..8].copy_from_slice(&self.memory.to_le_bytes());
        room[8..16].copy_from_slice(&self.used.to_le_bytes());
        room[16..24].copy_from_slice(&self.seconds.to_le_bytes());
        room[24..28].copy_from_slice(&self.worker.to_le_bytes());
        room[28..32].copy_from_slice(&crate::reader::length_bytes(self.transport.len()));
        out.extend_from_slice(self.transport.as_bytes());
        let room = crate::reader::room::<5>(out);
        room[0..1].copy_from_slice(&[u8::from(self.guaranteed)]);
        room[1..5].copy_from_slice(&crate::reader::length_bytes(self.user.len()));
        out.extend_from_slice(self.user.as_bytes());
        let room = crate::reader::room::<64>(out);
        room[0..4].copy_from_slice(&self.share.to_le_bytes());
        room[4..8].copy_from_slice(&self.weight.to_le_bytes());
        room[8..12].copy_from_slice(&self.class.to_le_bytes());
        room[12..20].copy_from_slice(&self.gpu_ms.to_le_bytes());
        room[20..28].copy_from_slice(&self.of_ms.to_le_bytes());
        room[28..32].copy_from_slice(&self.moves.to_le_bytes());
        room[32..40].copy_from_slice(&self.received.to_le_bytes());
        room[40..48].copy_from_slice(&self.sent.to_le_bytes());
        room[48..56].copy_from_slice(&self.waits.to_le_bytes());
        room[56..64].copy_from_slice(&self.counted_ms.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            session: reader.field("session")?,
            gpu: reader.field("gpu")?,
            client: reader.field("client")?,
            pid: reader.field("pid")?,
            program: reader.field("program")?,
            memory: reader.field("memory")?,
            used: reader.field("used")?,
            seconds: reader.field("seconds")?,
            worker: reader.field("worker")?,
            transport: reader.field("transport")?,
            guaranteed: reader.field("guaranteed")?,
            user: reader.field("user")?,
            share: reader.field("share")?,
            weight: reader.field("weight")?,
            class: reader.field("class")?,
            gpu_ms: reader.field("gpu_ms")?,
            of_ms: reader.field("of_ms")?,
            moves: reader.field("moves")?,
            received: reader.field("received")?,
            sent: reader.field("sent")?,
            waits: reader.field("waits")?,
            counted_ms: reader.field("counted_ms")?,
        })
    }
}

/// Part of other messages: setting.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Setting<'a> {
    pub name: &'a str,
    pub value: &'a str,
}

impl<'a> Field<'a> for Setting<'a> {
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
