//! The state that all connections' threads share (devices, token, sessions), and a connection's life from accept to
//! worker.
//! In: accepted links. Out: worker processes. A peer's mistake ends its own connection only.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use floe_device::{Probe, Snapshot};
use floe_transport::{Answering, Link, Peer, Sealer, ServerTls, Transport, is_stranger};
use floe_wire::{
    Attach, AttachReply, DevicePtr, Ended, Gpu, GpuTelemetry, Join, ListGpusReply, ListSessionsReply, ReadTelemetry,
    ReadTelemetryReply, WINDOW_BASE, WINDOW_BYTES, WINDOW_COUNT,
};
use floe_worker::Granted;
use floe_worker::cache_channel::cache_ends;
use floe_worker::contract::{Demand, Report};
use floe_worker::descriptor_passing::Role;
use rustix::process::Signal;

use crate::entrance::conversation;
use crate::entrance::conversation::{Caller, ConversationError, Host, Outcome, Refusal, Time as _};
use crate::entrance::gate::{Connection, Gate, Pass};
use crate::entrance::limits::{SessionLimits, Source};
use crate::entrance::token::Token;
use crate::journal::Journal;
use crate::log;
use crate::modules::module_cache::ModuleCache;
use crate::modules::module_keeper::ModuleKeeper;
use crate::status;
use crate::usage::accounting::Share;
use crate::usage::sessions::{Admission, SessionRequest, Sessions, Table, process_of};
use crate::usage::telemetry::{Target, Telemetry, to_wire};
use crate::workers::driver_settings;
use crate::workers::passing::Peers;
use crate::workers::probe::told;
use crate::workers::worker_channel::{ChannelEntrance, WorkerChannel};
use crate::workers::worker_process;
use crate::workers::worker_process::WorkerSettings;

/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR` and `…_MINOR`.
const COMPUTE_CAPABILITY: (i32, i32) = (75, 76);

/// The state that all connections share.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) probe: Probe,
    /// Indices of the GPUs offered.
    pub(crate) offered: Vec<u32>,
    pub(crate) token: Option<Token>,
    pub(crate) tls: Option<ServerTls>,
    /// Whether TCP clients must speak TLS.
    pub(crate) tls_only: bool,
    /// Whether TCP clients may speak in the clear.
    pub(crate) clear_text: bool,
    /// Whether a process that only forwards bytes to the Unix socket counts as its user.
    pub(crate) trust_forwarded: bool,
    pub(crate) device_library: String,
    pub(crate) worker: PathBuf,
    pub(crate) memory_per_session: u64,
    /// The most bytes of host memory a session may share with its worker.
    pub(crate) shared_memory: u64,
    /// The most bytes of host memory of a session that its worker mirrors.
    pub(crate) mirrored_memory: u64,
    /// The most connections that carry bulk data of one session.
    pub(crate) bulk_connections: u32,
    /// Bytes of pinned memory for a session's data in flight.
    pub(crate) transport_memory: u64,
    /// Bytes of host memory a worker may have; 0: all there is.
    pub(crate) host_memory: u64,
    /// The transports that a session may use.
    pub(crate) transports: Vec<Transport>,
    /// The grace period of a session without connections.
    pub(crate) grace: Duration,
    /// The longest silence of a client; zero: no limit.
    pub(crate) idle_limit: Duration,
    /// The cache of modules, if there is one.
    pub(crate) module_cache: Option<Arc<ModuleCache>>,
    /// How much of the sandbox the operator requires.
    pub(crate) sandbox: Demand,
    /// The missing parts of the sandbox, for the log.
    pub(crate) unprotected: Option<String>,
    /// Whether addresses are the same in every worker.
    pub(crate) fixed_addresses: bool,
    pub(crate) session_limits: SessionLimits,
    pub(crate) sessions: Table,
    /// What sessions share with each other.
    pub(crate) peers: Arc<Peers>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) journal: Journal,
    pub(crate) telemetry: Telemetry,
    /// Random bytes that tell this daemon from every other.
    pub(crate) identity: [u8; 16],
}

impl Server {
    /// The table of sessions.
    pub(crate) fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock()
    }

    /// Whether no peer has a session or asks for one.
    pub(crate) fn is_idle(&self) -> bool {
        // The order matters: a peer gets its row in the table before its conversation ends.
        self.gate.count() == 0 && self.sessions().count() == 0
    }

    /// Refuses a connection whose first message proves another token, and tells the peer so.
    pub(crate) fn turns_away(&self, socket: &Arc<OwnedFd>, peer: &Peer) -> bool {
        let seals = matches!(peer, Peer::Tcp(_)) && !self.tls_only;
        let Some(secret) = self.token.as_ref().filter(|_| seals).map(Token::secret) else { return false };
        if !is_stranger(socket, &secret) {
            return false;
        }
        match Link::accepted(Arc::clone(socket), peer) {
            Ok(link) => self.journal.refused(peer, &link.turn_away()),
            Err(error) => self.journal.refused(peer, &error),
        }
        true
    }

    /// Serves a connection with a complete first message, on a thread of its own.
    pub(crate) fn welcome(self: &Arc<Self>, pass: Pass, connection: Connection) {
        let server = Arc::clone(self);
        let serve = move || server.serve(pass, connection);
        if let Err(error) = std::thread::Builder::new().name("connection".into()).spawn(serve) {
            log(format_args!("cannot start a thread for a connection: {error}"));
        }
    }

    fn serve(&self, mut pass: Pass, connection: Connection) {
        // `connection` outlives every link on its socket, so that no link's end closes descriptors that a peer has
        // sent.
        let peer = connection.peer.clone();
        match self.converse(Arc::clone(&connection.socket), &peer, &mut pass) {
            Ok((link, Outcome::Attached(admission))) => {
                // From here on its session counts, and the connection is not closed for newer ones.
                let source = pass.source();
                drop(pass);
                self.work(connection, link, &admission, source);
            }
            Ok((link, Outcome::Joined(channel))) => {
                // This fails if the worker has ended, and its session with it, or takes no more connections. Either way
                // the client's connection ends.
                let _ = give(&channel, Role::Joined, link);
            }
            Ok((link, Outcome::Left)) => close(link),
            Err(error) => self.journal.refused(&peer, &error),
        }
    }

    /// Runs the conversation, sealed if the client begins it so.
    fn converse(
        &self,
        socket: Arc<OwnedFd>,
        peer: &Peer,
        pass: &mut Pass,
    ) -> Result<(Link, Outcome), ConversationError> {
        let mut link = Link::accepted(socket, peer)?;
        if matches!(peer, Peer::Tcp(_)) {
            let secret = self.token.as_ref().map(Token::secret);
            let by = Answering { tls: self.tls.as_ref(), tls_only: self.tls_only, secret: secret.as_ref() };
            link = link.answer(&by, pass.deadline(Instant::now()))?;
        }
        match conversation::lead(&mut link, peer, self, pass) {
            Ok(outcome) => Ok((link, outcome)),
            Err(error) => {
                close(link);
                Err(error)
            }
        }
    }

    /// Gives the connection to a worker and follows the worker to its end.
    fn work(&self, connection: Connection, mut link: Link, admission: &Admission, source: Source) {
        let session = admission.session;
        let say = |words: std::fmt::Arguments<'_>| {
            self.journal.of_session(source, &format!("floed: session {session}{words}\n"));
        };
        let ends =
            self.sessions().entrance(session).and_then(|entrance| Some((entrance.channel(), entrance.worker_end()?)));
        let Some((channel, entrance)) = ends else {
            return say(format_args!(" has no channel to its worker"));
        };
        let place = WorkerSettings {
            worker: &self.worker,
            library: &self.device_library,
            shared_memory: self.shared_memory,
            mirrored_memory: self.mirrored_memory,
            transport_memory: self.transport_memory,
            idle_limit: self.idle_limit,
            host_memory: self.host_memory,
            sandbox: self.sandbox,
            fixed_addresses: self.fixed_addresses,
        };
        let started = worker_process::start(&place, admission, entrance);
        let worker = match started {
            Ok(worker) => worker,
            Err(error) => {
                say(format_args!(": {error}"));
                // A client that has left does not need it. The worker's path is not for clients.
                let detail = "the server could not start a worker; its log says why";
                let _ = link.send(&Ended { status: status::DEVICE_UNAVAILABLE, detail });
                return close(link);
            }
        };
        self.sessions().started(session, worker.id(), Some(worker.ender()));
        if let Some(words) = &self.unprotected {
            say(format_args!(": {words}"));
        }
        if let Err(error) = self.give_modules(session, &channel) {
            say(format_args!(": its modules are not cached: {error}"));
        }
        let member = self.peers.begin(session, admission.gpu, Arc::clone(&channel));
        if let Err(error) = give(&channel, Role::Session, link) {
            // Dropping the handle ends the worker.
            return say(format_args!(": cannot hand its connection to the worker: {error}"));
        }
        drop((channel, connection));
        let target = (u32::try_from(admission.gpu).unwrap_or(u32::MAX), worker.id());
        let report = |report| match report {
            Report::Used(bytes) => self.sessions().uses(session, bytes),
            Report::Wants(bytes) => self.share(session, bytes),
            Report::Keeps(bytes) => self.sessions().accounting().keep(session, bytes),
            Report::Broken(broken) => self.breaks(session, source, broken),
            Report::Ready => self.measure(session, &target),
            Report::Import(import) => member.import(import),
            Report::Returned(returned) => member.returned(&returned),
            Report::Ended(_) => {}
        };
        let grace = Duration::from_millis(admission.grace_ms);
        let log = |entry: &str| self.journal.of_session(source, entry);
        if let Some(why) = worker.follow(session, grace, log, report, Some(&member)) {
            say(format_args!(" ended: {why}"));
        }
    }

    /// A session begins or stops waiting for its client. Of one peer's waiting sessions, those above the limit end.
    fn breaks(&self, session: u64, source: Source, broken: bool) {
        let mut sessions = self.sessions();
        sessions.breaks(session, broken.then(Instant::now));
        for (late, _) in sessions.too_many_waiting(session, &self.session_limits) {
            self.journal.of_session(
                source,
                &format!("floed: session {late} ends: too many of its peer's sessions wait for their client\n"),
            );
            if let Some(worker) = sessions.ender(late) {
                worker.signal(Signal::KILL);
            }
        }
    }

    /// Answers a worker that asks for device memory.
    fn share(&self, session: u64, bytes: u64) {
        let mut sessions = self.sessions();
        let Share { total, left } = sessions.accounting().want(session, bytes);
        let channel = sessions.entrance(session).map(|entrance| entrance.channel());
        drop(sessions);
        // A worker that has ended, or does not read, needs no answer.
        let _ = channel.map(|channel| channel.grant(Granted { total, left }));
    }

    /// Bytes of each process on a GPU, if telemetry knows them.
    pub(crate) fn processes(&self, index: u32) -> Option<BTreeMap<u32, u64>> {
        self.telemetry.processes(&self.gpu(index)?.uuid)
    }

    /// A worker has made its context and nothing else, so its bytes on the GPU are those of a context.
    fn measure(&self, session: u64, &(index, worker): &(u32, u32)) {
        if let Some(bytes) = self.processes(index).and_then(|mut all| all.remove(&worker)) {
            self.sessions().accounting().measured(session, bytes);
        }
    }

    /// Gives the worker access to the cache of modules, if there is one.
    fn give_modules(&self, session: u64, channel: &WorkerChannel) -> std::io::Result<()> {
        let Some(cache) = &self.module_cache else { return Ok(()) };
        let (ours, theirs) = cache_ends()?;
        ModuleKeeper::new(session, Arc::clone(cache)).start(ours)?;
        channel.give_modules(&theirs)
    }

    fn gpu(&self, index: u32) -> Option<&Snapshot> {
        self.offered.contains(&index).then(|| self.probe.gpus.get(usize::try_from(index).ok()?)).flatten()
    }

    /// The transport of a session: the client's offer, if the operator allows it and it reaches the client.
    fn transport(&self, offered: Transport, peer: &Peer) -> Transport {
        let is_had = self.transports.contains(&offered) && offered.reaches(peer);
        if is_had { offered } else { Transport::Socket }
    }

    /// The quota of a session: the one asked for, within the operator's limit and the GPU's memory.
    fn quota(&self, asked: u64, gpu: &Snapshot) -> u64 {
        [asked, self.memory_per_session]
            .into_iter()
            .filter(|bytes| *bytes != 0)
            .min()
            .map_or(0, |bytes| bytes.min(gpu.memory))
    }
}

/// Gives a connection to a worker. From then on the worker waits for the client to read, not this process.
fn give(channel: &WorkerChannel, role: Role, link: Link) -> std::io::Result<()> {
    link.limit_writes(None).map_err(std::io::Error::other)?;
    channel.give(role, link)
}

/// Closes a connection that no worker has, and ends its tunnel in this process.
fn close(link: Link) {
    let tunnel = link.tunnel();
    drop(link);
    if let Some(tunnel) = tunnel {
        tunnel.finish();
    }
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
        let settings = match driver_settings::of(&request.settings) {
            Ok(settings) => settings,
            Err(error) => return no(status::INVALID_VALUE, error.to_string()),
        };
        let quota = self.quota(request.memory, gpu);
        // Several Unix sockets are no faster than one.
        let bulk_connections = if matches!(peer, Peer::Tcp(_)) { self.bulk_connections } else { 0 };
        let transport = self.transport(Transport::offered(request), peer);
        let grace = if transport.can_break() { self.grace } else { Duration::ZERO };
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        let entrance = match ChannelEntrance::new(bulk_connections, grace_ms != 0) {
            Ok(entrance) => entrance,
            Err(error) => return no(status::SYSTEM_NOT_READY, error.to_string()),
        };
        let key = entrance.key();
        let mut sessions = Server::sessions(self);
        if let Err(error) = self.session_limits.admit(sessions.count(), |source| sessions.of_peer(source), source) {
            return no(status::SYSTEM_NOT_READY, error.to_string());
        }
        let session_request = SessionRequest { source, ..SessionRequest::new(request, peer, sealer, transport) };
        let session = sessions.add(session_request, request.gpu, quota, entrance, Instant::now());
        Ok(Admission {
            session,
            _row: self.sessions.row(session),
            gpu: gpu_index,
            ordinal: request.ordinal,
            granularity: gpu.granularity,
            window: WINDOW_BASE + u64::from(request.ordinal) * WINDOW_BYTES,
            window_bytes: WINDOW_BYTES,
            quota,
            asks_for_memory: sessions.accounting().is_shared_out(request.gpu),
            settings,
            key,
            bulk_connections,
            grace_ms,
            client: process_of(request, peer),
            transport,
        })
    }

    fn attached<'a>(&'a self, admission: &'a Admission) -> AttachReply<'a> {
        let index = u32::try_from(admission.gpu).unwrap_or(u32::MAX);
        let device = self.gpu(index).map(|gpu| {
            let memory = if admission.quota == 0 { gpu.memory } else { admission.quota };
            told(gpu, &self.probe, memory)
        });
        let mut reply = AttachReply {
            session: admission.session,
            window: DevicePtr(admission.window),
            window_bytes: admission.window_bytes,
            memory: admission.quota,
            key: &admission.key,
            bulk_connections: admission.bulk_connections,
            grace_ms: admission.grace_ms,
            device: device.unwrap_or_default(),
            server: &self.identity,
            ..AttachReply::default()
        };
        admission.transport.say_taken(&mut reply);
        reply
    }

    fn join(&self, request: &Join<'_>) -> Result<Arc<WorkerChannel>, Refusal> {
        let mut sessions = Server::sessions(self);
        let channel = sessions.entrance(request.session).and_then(|entrance| entrance.join(request.key));
        channel.ok_or_else(|| Refusal {
            status: status::NOT_PERMITTED,
            detail: format!("this key admits no (further) connection to the session: {}", request.session),
        })
    }
}
