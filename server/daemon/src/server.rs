//! The state that all connections' threads share (devices, token, sessions), and a connection's life from accept to
//! worker.
//! In: accepted links. Out: worker processes. A peer's mistake ends its own connection only.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use floe_device::{Probe, Snapshot};
use floe_transport::{Answering, Link, Peer, ServerTls, Transport, begins_with, is_stranger};
use floe_wire::{Ended, Message as _, PeerHello};
use floe_worker::Granted;
use floe_worker::cache_channel::cache_ends;
use floe_worker::contract::{Demand, Dial, Report};
use floe_worker::descriptor_passing::Role;
use rustix::process::Signal;

use crate::entrance::conversation;
use crate::entrance::conversation::{ConversationError, Outcome, Time as _};
use crate::entrance::gate::{Connection, Gate, Pass};
use crate::entrance::limits::{SessionLimits, Source};
use crate::entrance::token::Token;
use crate::journal::Journal;
use crate::log;
use crate::modules::module_cache::ModuleCache;
use crate::modules::module_keeper::ModuleKeeper;
use crate::status;
use crate::usage::accounting::Share;
use crate::usage::sessions::{Admission, Sessions, Table};
use crate::usage::telemetry::Telemetry;
use crate::workers::dialer::Dialer;
use crate::workers::passing::Peers;
use crate::workers::worker_channel::WorkerChannel;
use crate::workers::worker_process;
use crate::workers::worker_process::WorkerSettings;

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
    /// Connections to other servers.
    pub(crate) dialer: Arc<Dialer>,
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
            Ok((link, Outcome::Peer(channel, session))) => {
                self.sessions().accounting().links(session);
                // As above. The worker refuses who does not prove a ticket's key.
                let _ = give(&channel, Role::Peer, link);
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
        // What another server's worker says here is not secret; the two workers seal what follows.
        let is_worker = begins_with(&socket, PeerHello::KIND);
        let mut link = Link::accepted(socket, peer)?;
        if matches!(peer, Peer::Tcp(_)) && !is_worker {
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
            Report::Dial(dial) => {
                self.sessions().accounting().links(session);
                self.dial(session, source, dial);
            }
            Report::Returned(returned) => member.returned(&returned),
            Report::Move(_) | Report::Ended(_) => {}
        };
        let (log, grace) = (|entry: &str| self.journal.of_session(source, entry), admission.grace_ms);
        if let Some(why) = worker.follow(session, Duration::from_millis(grace), log, report, Some(&member)) {
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

    /// Makes a connection to another server for a worker, if the operator has named it.
    fn dial(&self, session: u64, source: Source, dial: Dial) {
        let channel = self.sessions().entrance(session).map(|entrance| entrance.channel());
        let Some(channel) = channel else { return };
        if let Err(words) = self.dialer.dial(session, dial, &channel) {
            self.journal.of_session(source, &format!("floed: session {session}: {words}\n"));
        }
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

    pub(crate) fn gpu(&self, index: u32) -> Option<&Snapshot> {
        self.offered.contains(&index).then(|| self.probe.gpus.get(usize::try_from(index).ok()?)).flatten()
    }

    /// The transport of a session: the client's offer, if the operator allows it and it reaches the client.
    pub(crate) fn transport(&self, offered: Transport, peer: &Peer) -> Transport {
        let is_had = self.transports.contains(&offered) && offered.reaches(peer);
        if is_had { offered } else { Transport::Socket }
    }

    /// The quota of a session: the one asked for, within the operator's limit and the GPU's memory.
    pub(crate) fn quota(&self, asked: u64, gpu: &Snapshot) -> u64 {
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
