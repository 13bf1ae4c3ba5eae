//! What every connection's thread shares: devices, token, sessions; and a connection's life from accept to worker.
//! In: accepted links. Out: worker processes. A peer's mistake ends its own connection only.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use floe_transport::{Link, Peer, Sealer, ServerTls};
use floe_wire::{
    Attach, AttachReply, DevicePtr, Ended, Gpu, GpuTelemetry, Join, ListGpusReply, ListSessionsReply, ReadTelemetry,
    ReadTelemetryReply, Reading, SessionTelemetry, WINDOW_BASE, WINDOW_BYTES, WINDOW_COUNT,
};
use floe_worker::contract::{CachePlace, Probe, Report, Snapshot};
use floe_worker::hand_over::{Giver, Role};

use crate::conversation::{self, ConversationError, Host, Outcome, Refusal, SILENCE};
use crate::door::Door;
use crate::log;
use crate::sessions::{Admission, Applicant, Sessions};
use crate::status;
use crate::telemetry::{Readings, Target, Telemetry};
use crate::token::Token;
use crate::worker_process::{self, Place};

/// Connections that have no session yet: each is a thread that waits at most seconds. The server's own user and
/// strangers are counted apart, so that strangers who say nothing do not keep the user out.
const MAX_CONVERSATIONS: usize = 128;

/// The program's variables that reach its worker's driver: they change how it works, not what it may touch.
const DRIVER_SETTINGS: [&str; 7] = [
    "CUDA_MODULE_LOADING",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_FORCE_PTX_JIT",
    "CUDA_DISABLE_PTX_JIT",
    "CUDA_CACHE_DISABLE",
    "CUDA_CACHE_MAXSIZE",
];

/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR` and `…_MINOR`.
const COMPUTE_CAPABILITY: (i32, i32) = (75, 76);

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) probe: Probe,
    /// Indices of the GPUs offered.
    pub(crate) offered: Vec<u32>,
    pub(crate) token: Option<Token>,
    pub(crate) tls: Option<ServerTls>,
    /// Whether TCP clients must speak TLS.
    pub(crate) tls_only: bool,
    pub(crate) device_library: String,
    pub(crate) worker: PathBuf,
    pub(crate) memory_per_session: u64,
    /// The most bytes of host memory a session may share with its worker.
    pub(crate) shared_memory: u64,
    /// The most connections that carry bulk data of one session.
    pub(crate) bulk_connections: u32,
    /// Bytes of pinned memory for a session's data on their way.
    pub(crate) transport_memory: u64,
    /// Whether clients of this machine may have rings in shared memory.
    pub(crate) rings: bool,
    /// For how long a session outlives its connections.
    pub(crate) grace: Duration,
    /// Where workers keep contents of modules.
    pub(crate) module_cache: Option<CachePlace>,
    pub(crate) max_sessions: usize,
    pub(crate) sessions: Mutex<Sessions>,
    pub(crate) conversations: Conversations,
    pub(crate) telemetry: Telemetry,
}

/// How many connections have no session yet.
#[derive(Debug, Default)]
pub(crate) struct Conversations {
    trusted: AtomicUsize,
    strangers: AtomicUsize,
}

impl Server {
    /// The table of sessions. A thread that panicked with it left it whole: every change is one step.
    pub(crate) fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does nobody have a session, or ask for one?
    pub(crate) fn is_idle(&self) -> bool {
        // In this order: who asks gets a row in the table before its conversation ends.
        let Conversations { trusted, strangers } = &self.conversations;
        let asking = trusted.load(Ordering::SeqCst) + strangers.load(Ordering::SeqCst);
        asking == 0 && self.sessions().count() == 0
    }

    fn conversations(&self, peer: &Peer) -> &AtomicUsize {
        if self.trusts(peer) { &self.conversations.trusted } else { &self.conversations.strangers }
    }

    /// Takes a connection over, on a thread of its own.
    pub(crate) fn welcome(self: &Arc<Self>, mut link: Link, peer: Peer) {
        if self.conversations(&peer).fetch_add(1, Ordering::SeqCst) >= MAX_CONVERSATIONS {
            self.conversations(&peer).fetch_sub(1, Ordering::SeqCst);
            let words = format!("too many connections without a session: {MAX_CONVERSATIONS}");
            log(format_args!("{words}; closing the one of {peer}"));
            // Nothing was sent on it before, so this does not wait; who does not read does not need to know.
            let _ = link.send(&Ended { status: status::SYSTEM_NOT_READY, detail: &words });
            return;
        }
        let counted = peer.clone();
        let server = Arc::clone(self);
        let started = std::thread::Builder::new().name("connection".into()).spawn(move || server.serve(link, &peer));
        if let Err(error) = started {
            self.conversations(&counted).fetch_sub(1, Ordering::SeqCst);
            log(format_args!("no thread for a connection: {error}"));
        }
    }

    fn serve(&self, link: Link, peer: &Peer) {
        let outcome = self.converse(link, peer);
        self.conversations(peer).fetch_sub(1, Ordering::SeqCst);
        match outcome {
            Ok((link, Outcome::Attached(admission))) => {
                self.work(link, &admission);
                self.sessions().remove(admission.session);
            }
            Ok((link, Outcome::Joined(giver))) => {
                // A worker that is gone has taken its session along, which the client hears by itself.
                let _ = giver.give(Role::Joined, link);
            }
            Ok((_, Outcome::Left)) => {}
            Err(error) => log(format_args!("{peer}: {error}")),
        }
    }

    /// Leads the conversation, sealed where the client begins it so.
    fn converse(&self, mut link: Link, peer: &Peer) -> Result<(Link, Outcome), ConversationError> {
        if matches!(peer, Peer::Tcp(_)) {
            link = link.answer(self.tls.as_ref(), self.tls_only, Instant::now() + SILENCE)?;
        }
        let outcome = conversation::lead(&mut link, peer, self)?;
        Ok((link, outcome))
    }

    /// Gives the connection to a worker and follows it to its end.
    fn work(&self, mut link: Link, admission: &Admission) {
        let session = admission.session;
        let ends = self.sessions().door(session).and_then(|door| Some((door.giver(), door.worker_end()?)));
        let Some((giver, door)) = ends else {
            return log(format_args!("session {session} has no way to its worker"));
        };
        let place = Place {
            worker: &self.worker,
            library: &self.device_library,
            cache: self.module_cache.as_ref(),
            shared_memory: self.shared_memory,
            transport_memory: self.transport_memory,
        };
        let started = worker_process::start(&place, admission, door);
        let worker = match started {
            Ok(worker) => worker,
            Err(error) => {
                log(format_args!("session {session}: {error}"));
                // The client may be gone; then nobody needs to know.
                let _ = link.send(&Ended { status: status::DEVICE_UNAVAILABLE, detail: &error.to_string() });
                return;
            }
        };
        self.sessions().started(session, worker.id());
        if let Err(error) = giver.give(Role::Session, link) {
            // The worker ends without a connection, and is followed to that end.
            log(format_args!("session {session}: its connection does not reach the worker: {error}"));
        }
        drop(giver);
        let report = |report| match report {
            Report::Used(bytes) => self.sessions().uses(session, bytes),
            Report::Broken(broken) => self.sessions().breaks(session, broken.then(Instant::now)),
            Report::Ready | Report::Ended(_) => {}
        };
        if let Some(why) = worker_process::follow(worker, report) {
            log(format_args!("session {session} ended: {why}"));
        }
    }

    fn gpu(&self, index: u32) -> Option<&Snapshot> {
        self.offered.contains(&index).then(|| self.probe.gpus.get(usize::try_from(index).ok()?)).flatten()
    }

    /// The quota of a session: what it asked for, within what the operator allows and the GPU has.
    fn quota(&self, asked: u64, gpu: &Snapshot) -> u64 {
        [asked, self.memory_per_session]
            .into_iter()
            .filter(|bytes| *bytes != 0)
            .min()
            .map_or(0, |bytes| bytes.min(gpu.memory))
    }
}

/// The process of a client of this machine. A socket that something else holds for it, or a client that sees itself by another
/// id (in a container), tells nothing.
fn process_of(request: &Attach<'_>, peer: &Peer) -> Option<i32> {
    match peer {
        Peer::Unix { pid, .. } if u32::try_from(*pid) == Ok(request.pid) => Some(*pid),
        Peer::Unix { .. } | Peer::Tcp(_) => None,
    }
}

fn to_wire(readings: &Readings) -> Vec<Reading> {
    readings.iter().map(|(reading, value)| Reading { number: reading.number(), value: *value }).collect()
}

impl Host for Server {
    fn token(&self) -> Option<&Token> {
        self.token.as_ref()
    }

    fn trusts(&self, peer: &Peer) -> bool {
        let own = rustix::process::geteuid().as_raw();
        matches!(peer, Peer::Unix { uid, .. } if *uid == own || *uid == 0)
    }

    fn gpus(&self, answer: &mut dyn FnMut(ListGpusReply<'_>)) {
        let sessions = self.sessions();
        let row = |&index: &u32| {
            let gpu = self.gpu(index)?;
            Some(Gpu {
                index,
                name: &gpu.name,
                uuid: &gpu.uuid,
                memory: gpu.memory,
                free: gpu.free.saturating_sub(sessions.used_on_gpu(index)),
                kind: &self.probe.kind,
                driver: self.probe.driver,
                compute_major: gpu.attribute(COMPUTE_CAPABILITY.0),
                compute_minor: gpu.attribute(COMPUTE_CAPABILITY.1),
                sessions: sessions.on_gpu(index),
            })
        };
        answer(ListGpusReply { gpus: self.offered.iter().filter_map(row).collect() });
    }

    fn sessions(&self, answer: &mut dyn FnMut(ListSessionsReply<'_>)) {
        let mut sessions = Server::sessions(self);
        answer(ListSessionsReply { sessions: sessions.rows(Instant::now()) });
    }

    fn telemetry(&self, request: &ReadTelemetry<'_>, answer: &mut dyn FnMut(ReadTelemetryReply<'_>)) {
        let wanted = |index: &&u32| request.gpus.is_empty() || request.gpus.contains(index);
        let pictures: Vec<_> = self
            .offered
            .iter()
            .filter(wanted)
            .filter_map(|&index| {
                let gpu = self.gpu(index)?;
                let workers = Server::sessions(self).workers_on_gpu(index);
                let picture = self.telemetry.read(&Target { index, uuid: &gpu.uuid, workers }, request.slow);
                Some((index, gpu, picture))
            })
            .collect();
        let sessions = Server::sessions(self);
        let rows = pictures.iter().map(|(index, gpu, picture)| GpuTelemetry {
            index: *index,
            name: &gpu.name,
            uuid: &gpu.uuid,
            pci_bus: &gpu.pci_bus,
            memory: gpu.memory,
            free: gpu.free.saturating_sub(sessions.used_on_gpu(*index)),
            compute_major: gpu.attribute(COMPUTE_CAPABILITY.0),
            compute_minor: gpu.attribute(COMPUTE_CAPABILITY.1),
            serial: &picture.labels.serial,
            part: &picture.labels.part,
            firmware: &picture.labels.firmware,
            readings: to_wire(&picture.readings),
            sessions: sessions
                .tenants(*index, request.host)
                .into_iter()
                .map(|tenant| SessionTelemetry {
                    pid: tenant.pid,
                    ordinal: tenant.ordinal,
                    memory: tenant.memory,
                    used: tenant.used,
                    readings: picture.workers.get(&tenant.worker).map(to_wire).unwrap_or_default(),
                })
                .collect(),
        });
        answer(ReadTelemetryReply {
            driver: self.telemetry.driver(),
            memory_limit: self.memory_per_session,
            gpus: rows.collect(),
        });
    }

    fn admit(&self, request: &Attach<'_>, peer: &Peer, sealer: Sealer) -> Result<Admission, Refusal> {
        let no = |status, detail: String| Err(Refusal { status, detail });
        let there = i32::try_from(request.gpu).ok().zip(self.gpu(request.gpu));
        let Some((gpu_index, gpu)) = there else {
            return no(
                status::INVALID_DEVICE,
                format!("no such GPU here: {}; offered: {:?}", request.gpu, self.offered),
            );
        };
        if request.ordinal >= WINDOW_COUNT {
            let words = format!("a program has at most {WINDOW_COUNT} vGPUs, this would be number {}", request.ordinal);
            return no(status::INVALID_DEVICE, words);
        }
        let memory = self.quota(request.memory, gpu);
        // A Unix socket has no more to give to several than to one.
        let bulk_connections = if matches!(peer, Peer::Tcp(_)) { self.bulk_connections } else { 0 };
        let rings = self.rings && request.rings > 0 && matches!(peer, Peer::Unix { .. });
        // Rings are memory of this machine: they do not break while both processes are there.
        let grace_ms = if rings { 0 } else { u64::try_from(self.grace.as_millis()).unwrap_or(u64::MAX) };
        let door = match Door::new((grace_ms == 0).then_some(bulk_connections)) {
            Ok(door) => door,
            Err(error) => return no(status::SYSTEM_NOT_READY, error.to_string()),
        };
        let key = door.key();
        let mut sessions = Server::sessions(self);
        if sessions.count() >= self.max_sessions {
            let words = format!("this server has as many sessions as it may: {}", self.max_sessions);
            return no(status::SYSTEM_NOT_READY, words);
        }
        let applicant = Applicant::new(request, peer, sealer, rings);
        let settings = request.settings.iter().filter(|setting| DRIVER_SETTINGS.contains(&setting.name));
        let settings = settings.map(|setting| (setting.name.to_owned(), setting.value.to_owned())).collect();
        Ok(Admission {
            session: sessions.add(applicant, request.gpu, memory, door, Instant::now()),
            gpu: gpu_index,
            ordinal: request.ordinal,
            granularity: gpu.granularity,
            window: WINDOW_BASE + u64::from(request.ordinal) * WINDOW_BYTES,
            window_bytes: WINDOW_BYTES,
            memory,
            settings,
            key,
            bulk_connections,
            grace_ms,
            client: process_of(request, peer),
            rings,
        })
    }

    fn withdraw(&self, admission: &Admission) {
        Server::sessions(self).remove(admission.session);
    }

    fn attached<'a>(&'a self, admission: &'a Admission) -> AttachReply<'a> {
        let index = u32::try_from(admission.gpu).unwrap_or(u32::MAX);
        let device = self.gpu(index).map(|gpu| {
            let memory = if admission.memory == 0 { gpu.memory } else { admission.memory };
            gpu.to_wire(self.probe.driver, memory, self.probe.code())
        });
        AttachReply {
            session: admission.session,
            window: DevicePtr(admission.window),
            window_bytes: admission.window_bytes,
            memory: admission.memory,
            key: &admission.key,
            bulk_connections: admission.bulk_connections,
            grace_ms: admission.grace_ms,
            rings: admission.rings,
            device: device.unwrap_or_default(),
        }
    }

    fn join(&self, request: &Join<'_>) -> Result<Arc<Giver>, Refusal> {
        let mut sessions = Server::sessions(self);
        let giver = sessions.door(request.session).and_then(|door| door.join(request.key));
        giver.ok_or_else(|| Refusal {
            status: status::NOT_PERMITTED,
            detail: format!("no connection may join by this key (any more): session {}", request.session),
        })
    }
}
