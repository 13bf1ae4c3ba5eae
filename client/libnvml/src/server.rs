//! One server's answers about its GPUs, asked again when they are too old. A place comes in, an answer that readers
//! share goes out. Each question has a connection of its own. Nothing is held in between, so a daemon may restart and a
//! program may fork.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use floe_nvml::Reading;
use floe_session::log::{self, Level};
use floe_session::settings::Credentials;
use floe_session::{ConnectError, Inquiry};
use floe_wire::{Call, GpuTelemetry, LinkTelemetry, ReadTelemetry, ReadTelemetryReply};

use crate::bus::BusId;

/// The age up to which answers are reused: monitors ask dozens of questions for one screen.
const FRESH: Duration = Duration::from_millis(100);
/// How long a server that did not answer is not asked again, so that a monitor does not hang at every question.
const FORSAKEN: Duration = Duration::from_secs(1);
/// The time limit of a question. A daemon answers within milliseconds, or it is down.
const PATIENCE: Duration = Duration::from_secs(3);
/// The time limit of the first question, for which the daemon may have to start NVIDIA's library, and that the GPU.
const FIRST_PATIENCE: Duration = Duration::from_secs(15);

/// The most links of a GPU that are believed.
pub(crate) const MOST_LINKS: u32 = 64;

/// A server and its last answer.
#[derive(Debug)]
pub(crate) struct Server {
    address: String,
    credentials: Credentials,
    host: String,
    gpus: Vec<u32>,
    last: Mutex<Option<Said>>,
}

#[derive(Debug)]
struct Said {
    at: Instant,
    slow: bool,
    /// `None`: the server did not answer.
    answer: Option<Arc<Answer>>,
}

/// The answers of a server.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// The version of NVIDIA's driver; empty for other devices.
    pub(crate) driver: String,
    /// The most bytes of a session there; 0: all of the GPU.
    pub(crate) memory_limit: u64,
    /// By index.
    pub(crate) gpus: BTreeMap<u32, Gpu>,
    /// Tells the daemon from every other, by whatever address it is asked; only in a server's first answer, where it has proved it.
    pub(crate) identity: Option<[u8; 32]>,
}

/// A GPU of a server.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) name: String,
    pub(crate) uuid: [u8; 16],
    pub(crate) pci_bus: String,
    /// Total bytes, as CUDA counts them.
    pub(crate) memory: u64,
    /// Bytes in no session's blocks.
    pub(crate) free: u64,
    pub(crate) compute_capability: (i32, i32),
    pub(crate) serial: String,
    pub(crate) part: String,
    pub(crate) firmware: String,
    pub(crate) readings: BTreeMap<Reading, u64>,
    /// The sessions of programs of this machine.
    pub(crate) tenants: Vec<Tenant>,
    /// NVLinks by number; only in a server's first answer.
    pub(crate) links: BTreeMap<u32, Link>,
    /// What the server says of this GPU and each other one of its own; only in a server's first answer.
    pub(crate) peers: BTreeMap<u32, BTreeMap<Reading, u64>>,
}

/// An NVLink of a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) remote: Remote,
    pub(crate) readings: BTreeMap<Reading, u64>,
}

/// The other end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remote {
    At(BusId),
    /// The server's library does not show it.
    Hidden,
    /// What the server says is no bus id.
    Garbled,
}

/// A session of a program of this machine.
#[derive(Debug, Clone)]
pub(crate) struct Tenant {
    pub(crate) pid: u32,
    /// Which of the program's vGPUs it is.
    pub(crate) ordinal: u32,
    /// Quota in bytes; 0: all of the GPU.
    pub(crate) memory: u64,
    pub(crate) used: u64,
    pub(crate) readings: BTreeMap<Reading, u64>,
}

impl Server {
    /// A server with these GPUs of interest. It is not asked yet.
    pub(crate) fn new(address: &str, credentials: Credentials, gpus: Vec<u32>) -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
        Self { address: address.to_owned(), credentials, host, gpus, last: Mutex::default() }
    }

    /// The name that the settings give.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Its current answer; `None` if it does not answer.
    pub(crate) fn answer(&self, slow: bool) -> Option<Arc<Answer>> {
        let mut last = floe_lock::lock(&self.last);
        if let Some(said) = last.as_ref().filter(|said| said.serves(slow)) {
            return said.answer.clone();
        }
        let was_there = last.as_ref().is_none_or(|said| said.answer.is_some());
        let patience = if last.is_none() { FIRST_PATIENCE } else { PATIENCE };
        let answer = match self.ask(slow, last.is_none(), patience) {
            Ok(answer) => Some(Arc::new(answer)),
            Err(error) => {
                let level = if was_there { Level::Warn } else { Level::Debug };
                log::line(level, format_args!("cannot read the state of the GPUs of {}: {error}", self.address));
                None
            }
        };
        *last = Some(Said { at: Instant::now(), slow, answer: answer.clone() });
        answer
    }

    fn ask(&self, slow: bool, lasting: bool, patience: Duration) -> Result<Answer, ConnectError> {
        let message = ReadTelemetry { host: &self.host, gpus: self.gpus.clone(), slow, lasting };
        let inquiry = Inquiry::open_within(&self.address, &self.credentials, patience)?;
        let (identity, inquiry) = if lasting { inquiry.identify()? } else { (None, inquiry) };
        let body = inquiry.ask(&message)?;
        let reply = ReadTelemetry::decode_reply(&body)
            .map_err(|source| ConnectError::Garbled { server: self.address.clone(), source })?;
        Ok(Answer { identity, ..Answer::new(&reply) })
    }
}

impl Answer {
    pub(crate) fn new(reply: &ReadTelemetryReply<'_>) -> Self {
        Self {
            driver: reply.driver.to_owned(),
            memory_limit: reply.memory_limit,
            gpus: reply.gpus.iter().map(|gpu| (gpu.index, Gpu::new(gpu))).collect(),
            identity: None,
        }
    }
}

impl Link {
    fn new(message: &LinkTelemetry<'_>) -> Self {
        let remote = match message.remote {
            "" => Remote::Hidden,
            text => BusId::parse_remote(text).map_or(Remote::Garbled, Remote::At),
        };
        Self { remote, readings: readings(&message.readings) }
    }
}

impl Said {
    fn serves(&self, slow: bool) -> bool {
        match &self.answer {
            Some(_) => self.at.elapsed() < FRESH && (self.slow || !slow),
            None => self.at.elapsed() < FORSAKEN,
        }
    }
}

impl Gpu {
    fn new(message: &GpuTelemetry<'_>) -> Self {
        let mut uuid = [0; 16];
        let known = message.uuid.len().min(uuid.len());
        uuid[..known].copy_from_slice(&message.uuid[..known]);
        let tenants = message.sessions.iter().map(|session| Tenant {
            pid: session.pid,
            ordinal: session.ordinal,
            memory: session.memory,
            used: session.used,
            readings: readings(&session.readings),
        });
        let links = message.links.iter().filter(|link| link.link < MOST_LINKS);
        Self {
            name: message.name.to_owned(),
            uuid,
            pci_bus: message.pci_bus.to_owned(),
            memory: message.memory,
            free: message.free,
            compute_capability: (message.compute_major, message.compute_minor),
            serial: message.serial.to_owned(),
            part: message.part.to_owned(),
            firmware: message.firmware.to_owned(),
            readings: readings(&message.readings),
            tenants: tenants.collect(),
            links: links.map(|link| (link.link, Link::new(link))).collect(),
            peers: message.peers.iter().map(|peer| (peer.index, readings(&peer.readings))).collect(),
        }
    }
}

/// Readings by name. A newer server's readings that this build does not know are omitted.
fn readings(list: &[floe_wire::Reading]) -> BTreeMap<Reading, u64> {
    list.iter().filter_map(|reading| Some((Reading::from_number(reading.number)?, reading.value))).collect()
}
