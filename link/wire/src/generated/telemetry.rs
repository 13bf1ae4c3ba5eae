//! Readings of a server's GPUs. The daemon answers them, before a session and without one.
//! Plain values and their encoding; they check nothing beyond what the types say.
// Made by `cargo xtask gen` from api/messages; edit the tables, not this file.

#[allow(unused_imports)]
use super::*;
#[allow(unused_imports)]
use crate::{
    ArrayId, BlockId, Call, Class, CommId, DecodeError, DevicePtr, EventId, Field, FunctionId, GraphId, Handler,
    KernelId, LibraryId, Message, PeerLinkId, Reader, SignalsId, StreamId, SurfaceId, TextureId, TicketId,
};

/// Asks for readings of the GPUs of these indices (of all, if there is none), at most 100 ms old. The reply also names the sessions of programs that run on `host` (as their Attach named it). `slow` asks also for readings that take a driver tens of milliseconds, `lasting` for links and peers, which do not change. `driver` is the version of NVIDIA's driver as text, empty for other drivers. `memory_limit` is the most that a session may have in bytes, 0 for all there is.
///
/// Kind 0x0006, called: one reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReadTelemetry<'a> {
    pub host: &'a str,
    pub gpus: Vec<u32>,
    pub slow: bool,
    pub lasting: bool,
}

impl<'a> Field<'a> for ReadTelemetry<'a> {
    const LEAST: usize = <&'a str as Field<'a>>::LEAST
        + <Vec<u32> as Field<'a>>::LEAST
        + <bool as Field<'a>>::LEAST
        + <bool as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.host.len()));
        out.extend_from_slice(self.host.as_bytes());
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.gpus.len()));
        for element in &self.gpus {
            element.write(out);
        }
        let room = crate::reader::room::<2>(out);
        room[0..1].copy_from_slice(&[u8::from(self.slow)]);
        room[1..2].copy_from_slice(&[u8::from(self.lasting)]);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            host: reader.field("host")?,
            gpus: reader.field("gpus")?,
            slow: reader.field("slow")?,
            lasting: reader.field("lasting")?,
        })
    }
}

impl Message for ReadTelemetry<'_> {
    const KIND: u16 = 0x0006;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "ReadTelemetry";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for ReadTelemetry<'_> {
    type Reply<'a> = ReadTelemetryReply<'a>;
}

/// What answers [`ReadTelemetry`] when its status is success.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReadTelemetryReply<'a> {
    pub driver: &'a str,
    pub memory_limit: u64,
    pub gpus: Vec<GpuTelemetry<'a>>,
}

impl<'a> Field<'a> for ReadTelemetryReply<'a> {
    const LEAST: usize =
        <&'a str as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST + <Vec<GpuTelemetry<'a>> as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.driver.len()));
        out.extend_from_slice(self.driver.as_bytes());
        let room = crate::reader::room::<12>(out);
        room[0..8].copy_from_slice(&self.memory_limit.to_le_bytes());
        room[8..12].copy_from_slice(&crate::reader::length_bytes(self.gpus.len()));
        for element in &self.gpus {
            element.write(out);
        }
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            driver: reader.field("driver")?,
            memory_limit: reader.field("memory_limit")?,
            gpus: reader.field("gpus")?,
        })
    }
}

/// `memory` and `free` as `ListGpus` has them; texts are empty where they are not known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuTelemetry<'a> {
    pub index: u32,
    pub name: &'a str,
    pub uuid: &'a [u8],
    pub pci_bus: &'a str,
    pub memory: u64,
    pub free: u64,
    pub compute_major: i32,
    pub compute_minor: i32,
    pub serial: &'a str,
    pub part: &'a str,
    pub firmware: &'a str,
    pub readings: Vec<Reading>,
    pub sessions: Vec<SessionTelemetry>,
    pub links: Vec<LinkTelemetry<'a>>,
    pub peers: Vec<PeerTelemetry>,
}

impl<'a> Field<'a> for GpuTelemetry<'a> {
    const LEAST: usize = <u32 as Field<'a>>::LEAST
        + <&'a str as Field<'a>>::LEAST
        + <&'a [u8] as Field<'a>>::LEAST
        + <&'a str as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <i32 as Field<'a>>::LEAST
        + <i32 as Field<'a>>::LEAST
        + <&'a str as Field<'a>>::LEAST
        + <&'a str as Field<'a>>::LEAST
        + <&'a str as Field<'a>>::LEAST
        + <Vec<Reading> as Field<'a>>::LEAST
        + <Vec<SessionTelemetry> as Field<'a>>::LEAST
        + <Vec<LinkTelemetry<'a>> as Field<'a>>::LEAST
        + <Vec<PeerTelemetry> as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.index.to_le_bytes());
        room[4..8].copy_from_slice(&crate::reader::length_bytes(self.name.len()));
        out.extend_from_slice(self.name.as_bytes());
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.uuid.len()));
        out.extend_from_slice(self.uuid);
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.pci_bus.len()));
        out.extend_from_slice(self.pci_bus.as_bytes());
        let room = crate::reader::room::<28>(out);
        room[0..8].copy_from_slice(&self.memory.to_le_bytes());
        room[8..16].copy_from_slice(&self.free.to_le_bytes());
        room[16..20].copy_from_slice(&self.compute_major.to_le_bytes());
        room[20..24].copy_from_slice(&self.compute_minor.to_le_bytes());
        room[24..28].copy_from_slice(&crate::reader::length_bytes(self.serial.len()));
        out.extend_from_slice(self.serial.as_bytes());
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.part.len()));
        out.extend_from_slice(self.part.as_bytes());
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.firmware.len()));
        out.extend_from_slice(self.firmware.as_bytes());
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.readings.len()));
        for element in &self.readings {
            element.write(out);
        }
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.sessions.len()));
        for element in &self.sessions {
            element.write(out);
        }
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.links.len()));
        for element in &self.links {
            element.write(out);
        }
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.peers.len()));
        for element in &self.peers {
            element.write(out);
        }
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            index: reader.field("index")?,
            name: reader.field("name")?,
            uuid: reader.field("uuid")?,
            pci_bus: reader.field("pci_bus")?,
            memory: reader.field("memory")?,
            free: reader.field("free")?,
            compute_major: reader.field("compute_major")?,
            compute_minor: reader.field("compute_minor")?,
            serial: reader.field("serial")?,
            part: reader.field("part")?,
            firmware: reader.field("firmware")?,
            readings: reader.field("readings")?,
            sessions: reader.field("sessions")?,
            links: reader.field("links")?,
            peers: reader.field("peers")?,
        })
    }
}

/// An NVLink of the GPU by its number there: the PCI bus id at its other end as text (empty where it is not shown), and its readings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkTelemetry<'a> {
    pub link: u32,
    pub remote: &'a str,
    pub readings: Vec<Reading>,
}

impl<'a> Field<'a> for LinkTelemetry<'a> {
    const LEAST: usize = <u32 as Field<'a>>::LEAST + <&'a str as Field<'a>>::LEAST + <Vec<Reading> as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.link.to_le_bytes());
        room[4..8].copy_from_slice(&crate::reader::length_bytes(self.remote.len()));
        out.extend_from_slice(self.remote.as_bytes());
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.readings.len()));
        for element in &self.readings {
            element.write(out);
        }
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { link: reader.field("link")?, remote: reader.field("remote")?, readings: reader.field("readings")? })
    }
}

/// Another GPU of the server, by its index: what the server's driver says of the pair.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PeerTelemetry {
    pub index: u32,
    pub readings: Vec<Reading>,
}

impl<'a> Field<'a> for PeerTelemetry {
    const LEAST: usize = <u32 as Field<'a>>::LEAST + <Vec<Reading> as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.index.to_le_bytes());
        room[4..8].copy_from_slice(&crate::reader::length_bytes(self.readings.len()));
        for element in &self.readings {
            element.write(out);
        }
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { index: reader.field("index")?, readings: reader.field("readings")? })
    }
}

/// One reading, as api/nvml/readings.toml numbers them. The server leaves out what it cannot read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    pub number: u32,
    pub value: u64,
}

impl<'a> Field<'a> for Reading {
    const LEAST: usize = <u32 as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<12>(out);
        room[0..4].copy_from_slice(&self.number.to_le_bytes());
        room[4..12].copy_from_slice(&self.value.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { number: reader.field("number")?, value: reader.field("value")? })
    }
}

/// A session on the GPU: the program's process, the vGPU's ordinal there, quota and use in bytes, and how busy it keeps the GPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionTelemetry {
    pub pid: u32,
    pub ordinal: u32,
    pub memory: u64,
    pub used: u64,
    pub readings: Vec<Reading>,
}

impl<'a> Field<'a> for SessionTelemetry {
    const LEAST: usize = <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <Vec<Reading> as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<28>(out);
        room[0..4].copy_from_slice(&self.pid.to_le_bytes());
        room[4..8].copy_from_slice(&self.ordinal.to_le_bytes());
        room[8..16].copy_from_slice(&self.memory.to_le_bytes());
        room[16..24].copy_from_slice(&self.used.to_le_bytes());
        room[24..28].copy_from_slice(&crate::reader::length_bytes(self.readings.len()));
        for element in &self.readings {
            element.write(out);
        }
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            pid: reader.field("pid")?,
            ordinal: reader.field("ordinal")?,
            memory: reader.field("memory")?,
            used: reader.field("used")?,
            readings: reader.field("readings")?,
        })
    }
}
