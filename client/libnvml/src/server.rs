//! One server's answers about its GPUs, asked again when they are too old. A place comes in, an answer goes out that
//! readers share. Each question is a connection of its own: nothing is held between them, so that a daemon may restart and
//! a program may fork.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use floe_nvml::Reading;
use floe_session::log::{self, Level};
use floe_session::settings::Credentials;
use floe_session::{ConnectError, Inquiry};
use floe_wire::{Call, GpuTelemetry, ReadTelemetry};

/// Answers younger than this are good enough: monitors ask dozens of things for one picture.
const FRESH: Duration = Duration::from_millis(100);
/// A server that did not answer is left alone for this long: a monitor shall not hang at every question.
const FORSAKEN: Duration = Duration::from_secs(1);
/// A daemon answers within milliseconds; one that does not is down.
const PATIENCE: Duration = Duration::from_secs(3);
/// The first question may have to wait until the daemon has started NVIDIA's library, and that the GPU.
const FIRST_PATIENCE: Duration = Duration::from_secs(15);

/// A server and what it said last.
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
    /// `None` where it did not answer.
    answer: Option<Arc<Answer>>,
}

/// The answers of a server.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// NVIDIA's driver, as text; empty where it is not NVIDIA's.
    pub(crate) driver: String,
    /// The most bytes a session may have there; 0 for all there is.
    pub(crate) memory_limit: u64,
    /// By index.
    pub(crate) gpus: BTreeMap<u32, Gpu>,
}

/// A GPU of a server.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) name: String,
    pub(crate) uuid: [u8; 16],
    pub(crate) pci_bus: String,
    /// Bytes, as CUDA counts them.
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
}

/// A session of a program of this machine.
#[derive(Debug, Clone)]
pub(crate) struct Tenant {
    pub(crate) pid: u32,
    /// Which of the program's vGPUs it is.
    pub(crate) ordinal: u32,
    /// Quota in bytes; 0 for all there is.
    pub(crate) memory: u64,
    pub(crate) used: u64,
    pub(crate) readings: BTreeMap<Reading, u64>,
}

impl Server {
    /// A server of which these GPUs matter; nothing is asked yet.
    pub(crate) fn new(address: &str, credentials: Credentials, gpus: Vec<u32>) -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
        Self { address: address.to_owned(), credentials, host, gpus, last: Mutex::default() }
    }

    /// As it was named.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Its present answers; `None` where it does not answer.
    pub(crate) fn answer(&self, slow: bool) -> Option<Arc<Answer>> {
        let mut last = floe_lock::lock(&self.last);
        if let Some(said) = last.as_ref().filter(|said| said.serves(slow)) {
            return said.answer.clone();
        }
        let was_there = last.as_ref().is_none_or(|said| said.answer.is_some());
        let patience = if last.is_none() { FIRST_PATIENCE } else { PATIENCE };
        let answer = match self.ask(slow, patience) {
            Ok(answer) => Some(Arc::new(answer)),
            Err(error) => {
                let level = if was_there { Level::Warn } else { Level::Debug };
                log::line(level, format_args!("nothing is known of the GPUs of {}: {error}", self.address));
                None
            }
        };
        *last = Some(Said { at: Instant::now(), slow, answer: answer.clone() });
        answer
    }

    fn ask(&self, slow: bool, patience: Duration) -> Result<Answer, ConnectError> {
        let message = ReadTelemetry { host: &self.host, gpus: self.gpus.clone(), slow };
        let body = Inquiry::open_within(&self.address, &self.credentials, patience)?.ask(&message)?;
        let reply = ReadTelemetry::decode_reply(&body)
            .map_err(|source| ConnectError::Garbled { server: self.address.clone(), source })?;
        Ok(Answer {
            driver: reply.driver.to_owned(),
            memory_limit: reply.memory_limit,
            gpus: reply.gpus.iter().map(|gpu| (gpu.index, Gpu::new(gpu))).collect(),
        })
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
        }
    }
}

/// Readings by name; those of a newer server that this build does not know are left out.
fn readings(list: &[floe_wire::Reading]) -> BTreeMap<Reading, u64> {
    list.iter().filter_map(|reading| Some((Reading::from_number(reading.number)?, reading.value))).collect()
}
