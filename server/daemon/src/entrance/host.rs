//! The server as a conversation needs it: what it shows, whom it admits, and which worker a connection belongs to.
//! In: requests of peers that proved who they are, or need not. Out: replies, admissions, channels to workers, refusals.
//! It starts no worker.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use floe_metrics::{Event, SessionRefusal};
use floe_transport::{Peer, Sealer, Transport};
use floe_wire::{
    Attach, AttachReply, DevicePtr, Gpu, GpuTelemetry, Join, ListGpusReply, ListSessionsReply, ReadTelemetry,
    ReadTelemetryReply, WINDOW_BASE, WINDOW_BYTES, WINDOW_COUNT,
};

use super::conversation::{Caller, Host, Refusal};
use super::limits::{Source, TooMany};
use super::token::Token;
use crate::error::DaemonError;
use crate::server::Server;
use crate::status;
use crate::usage::door::Door;
use crate::usage::request::{SessionRequest, process_of};
use crate::usage::sessions::{Admission, Conditions};
use crate::usage::telemetry::{Target, to_wire};
use crate::workers::driver_settings;
use crate::workers::probe::told;
use crate::workers::worker_channel::{WorkerChannel, most_connections};

/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR` and `…_MINOR`.
const COMPUTE_CAPABILITY: (i32, i32) = (75, 76);

/// The door of a session with so many bulk connections, the channel to its worker, and the worker's end.
fn ends(bulk_connections: u32, outlives: bool) -> Result<(Door, Arc<WorkerChannel>, OwnedFd), DaemonError> {
    let (channel, worker_end) = WorkerChannel::new(bulk_connections)?;
    let door = Door::new(bulk_connections, most_connections(bulk_connections), outlives)?;
    Ok((door, channel, worker_end))
}

impl Host for Server {
    fn token(&self) -> Option<&Token> {
        self.token.as_ref()
    }

    fn trusts(&self, peer: &Peer) -> bool {
        let own = rustix::process::geteuid().as_raw();
        matches!(peer, Peer::Unix { uid, .. } if *uid == own || *uid == 0)
    }

    fn trusts_forwarded(&self) -> bool {
        self.trust_forwarded
    }

    fn takes_clear_text(&self) -> bool {
        self.clear_text
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
                free: sessions.free_on_gpu(index),
                kind: &self.probe.kind,
                driver: self.probe.driver,
                compute_major: gpu.attribute(COMPUTE_CAPABILITY.0),
                compute_minor: gpu.attribute(COMPUTE_CAPABILITY.1),
                sessions: sessions.on_gpu(index),
            })
        };
        answer(ListGpusReply { gpus: self.offered.iter().filter_map(row).collect() });
    }

    fn sessions(&self, caller: &Caller<'_>, answer: &mut dyn FnMut(ListSessionsReply<'_>)) {
        let mut sessions = Server::sessions(self);
        answer(ListSessionsReply { sessions: sessions.rows(Instant::now(), caller.source) });
    }

    fn telemetry(
        &self,
        caller: &Caller<'_>,
        request: &ReadTelemetry<'_>,
        answer: &mut dyn FnMut(ReadTelemetryReply<'_>),
    ) {
        let wanted = |index: &&u32| request.gpus.is_empty() || request.gpus.contains(index);
        let samples: Vec<_> = self
            .offered
            .iter()
            .filter(wanted)
            .filter_map(|&index| {
                let gpu = self.gpu(index)?;
                let workers = Server::sessions(self).workers_on_gpu(index);
                let sample = self.telemetry.read(&Target { index, uuid: &gpu.uuid, workers }, request.slow);
                let topology = request.lasting.then(|| self.telemetry.topology(index, &self.probe.gpus, &self.offered));
                Some((index, gpu, sample, topology.unwrap_or_default()))
            })
            .collect();
        let sessions = Server::sessions(self);
        let rows = samples.iter().map(|(index, gpu, sample, topology)| GpuTelemetry {
            index: *index,
            name: &gpu.name,
            uuid: &gpu.uuid,
            pci_bus: &gpu.pci_bus,
            memory: gpu.memory,
            free: sessions.free_on_gpu(*index),
            compute_major: gpu.attribute(COMPUTE_CAPABILITY.0),
            compute_minor: gpu.attribute(COMPUTE_CAPABILITY.1),
            serial: &sample.labels.serial,
            part: &sample.labels.part,
            firmware: &sample.labels.firmware,
            readings: to_wire(&sample.readings),
            sessions: sessions
                .tenants(*index, request.host, caller.source)
                .into_iter()
                .map(|tenant| sample.session_to_wire(&tenant))
                .collect(),
            links: topology.links_to_wire(),
            peers: topology.peers_to_wire(),
        });
        answer(ReadTelemetryReply {
            driver: self.telemetry.driver(),
            memory_limit: self.memory_per_session,
            gpus: rows.collect(),
            server: &self.identity,
        });
    }

    fn admit(&self, request: &Attach<'_>, caller: &Caller<'_>, sealer: Sealer) -> Result<Admission, Refusal> {
        let Caller { peer, source } = *caller;
        let no = |why, detail: String| Err(refusal(self, why, detail));
        let there = i32::try_from(request.gpu).ok().zip(self.gpu(request.gpu));
        let Some((gpu_index, gpu)) = there else {
            return no(
                SessionRefusal::NoSuchGpu,
                format!("no such GPU here: {}; offered: {:?}", request.gpu, self.offered),
            );
        };
        if request.ordinal >= WINDOW_COUNT {
            let words = format!("a program has at most {WINDOW_COUNT} vGPUs, this would be number {}", request.ordinal);
            return no(SessionRefusal::NoSuchGpu, words);
        }
        let settings = match driver_settings::of(&request.settings) {
            Ok(settings) => settings,
            Err(error) => return no(SessionRefusal::Setting, error.to_string()),
        };
        let quota = self.quota(request.memory, gpu);
        // Several Unix sockets are no faster than one.
        let bulk_connections = if matches!(peer, Peer::Tcp(_)) { self.bulk_connections } else { 0 };
        let transport = self.transport(Transport::offered(request), peer);
        let grace = if transport.can_break() { self.grace } else { Duration::ZERO };
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        let made = ends(bulk_connections, grace_ms != 0).and_then(|ends| Ok((ends, ceiling()?)));
        let ((door, channel, worker_end), ceiling) = match made {
            Ok(made) => made,
            Err(error) => return no(SessionRefusal::System, error.to_string()),
        };
        let key = door.key();
        let conditions = Arc::new(Conditions {
            ordinal: request.ordinal,
            quota,
            settings,
            bulk_connections,
            grace_ms,
            client: process_of(request, peer),
            transport,
            ceiling,
            source: source.unwrap_or_else(|| Source::of(peer)),
        });
        let mut sessions = Server::sessions(self);
        if let Err(error) = self.session_limits.admit(sessions.count(), |source| sessions.of_peer(source), source) {
            return no(full(error), error.to_string());
        }
        let session_request = SessionRequest { source, ..SessionRequest::new(request, peer, sealer, transport) };
        let ends = (door, Arc::clone(&channel));
        let seat = sessions.add(session_request, request.gpu, Arc::clone(&conditions), ends, Instant::now());
        Ok(Admission {
            session: seat.number(),
            row: self.sessions.row(seat),
            channel,
            worker_end,
            gpu: gpu_index,
            granularity: gpu.granularity,
            window: WINDOW_BASE + u64::from(request.ordinal) * WINDOW_BYTES,
            window_bytes: WINDOW_BYTES,
            asks_for_memory: sessions.accounting().is_shared_out(request.gpu),
            key,
            conditions,
        })
    }

    fn attached<'a>(&'a self, admission: &'a Admission) -> AttachReply<'a> {
        let index = u32::try_from(admission.gpu).unwrap_or(u32::MAX);
        let device = self.gpu(index).map(|gpu| {
            let quota = admission.conditions.quota;
            let memory = if quota == 0 { gpu.memory } else { quota };
            told(gpu, &self.probe, memory)
        });
        let mut reply = AttachReply {
            session: admission.session,
            window: DevicePtr(admission.window),
            window_bytes: admission.window_bytes,
            memory: admission.conditions.quota,
            key: &admission.key,
            bulk_connections: admission.conditions.bulk_connections,
            grace_ms: admission.conditions.grace_ms,
            device: device.unwrap_or_default(),
            server: &self.identity,
            ..AttachReply::default()
        };
        admission.conditions.transport.say_taken(&mut reply);
        reply
    }

    fn peer(&self, session: u64, is_local: bool) -> Result<(), Refusal> {
        if !self.dialer.lets_in(is_local) {
            let detail =
                "this server takes no connections of other servers\n  name them: floe serve --peer ADDRESS".into();
            return Err(Refusal { status: status::NOT_PERMITTED, detail });
        }
        // Who guesses numbers learns no more than that a guess was wrong.
        let detail = format!("no session here takes this connection: {session}");
        let is_there = Server::sessions(self).door(session).is_some();
        is_there.then_some(()).ok_or(Refusal { status: status::NOT_PERMITTED, detail })
    }

    fn join(&self, request: &Join<'_>) -> Result<(), Refusal> {
        let mut sessions = Server::sessions(self);
        let admits = sessions.door(request.session).is_some_and(|door| door.admits(request.key));
        admits.then_some(()).ok_or_else(|| Refusal {
            status: status::NOT_PERMITTED,
            detail: format!("this key admits no (further) connection to the session: {}", request.session),
        })
    }
}

/// Counts a session that is refused.
fn refusal(server: &Server, why: SessionRefusal, detail: String) -> Refusal {
    server.journal.tally.count(Event::SessionRefused(why));
    Refusal { status: code(why), detail }
}

/// Whose limit is reached.
fn full(limit: TooMany) -> SessionRefusal {
    match limit {
        TooMany::All(_) => SessionRefusal::ServerFull,
        TooMany::OfPeer(_) => SessionRefusal::PeerFull,
    }
}

/// The program's code for a session that is refused.
fn code(why: SessionRefusal) -> u32 {
    match why {
        SessionRefusal::NoSuchGpu => status::INVALID_DEVICE,
        SessionRefusal::Setting => status::INVALID_VALUE,
        SessionRefusal::ServerFull | SessionRefusal::PeerFull | SessionRefusal::System | SessionRefusal::Worker => {
            status::SYSTEM_NOT_READY
        }
    }
}

/// Where a session's drivers find no room any more: below all libraries and above all that floe places itself, at random.
fn ceiling() -> Result<u64, DaemonError> {
    /// 7 million places of 2 MiB, the granule of device memory.
    const PLACES: std::ops::Range<u64> = 0x7000_0000_0000 >> 21..0x7e00_0000_0000 >> 21;
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|error| DaemonError::Random(error.to_string()))?;
    Ok((PLACES.start + u64::from_le_bytes(random) % (PLACES.end - PLACES.start)) << 21)
}
