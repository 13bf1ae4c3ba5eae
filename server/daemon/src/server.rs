//! The state that all connections' threads share: devices, token, sessions, limits.
//! In: settings. Out: what a connection's or a worker's thread asks of it. It starts nothing and waits for nobody.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime};

use floe_device::{Probe, Snapshot};
use floe_metrics::{Pulse, Refusal};
use floe_transport::{HostKey, Link, Peer, Secret, Secrets, ServerTls, TokenNumber, Transport, is_stranger};
use floe_users::{Audit, Event, Whose};
use floe_worker::contract::Demand;

use crate::entrance::gate::Gate;
use crate::entrance::limits::{SessionLimits, Source};
use crate::entrance::token::Token;
use crate::entrance::tokens::UserTokens;
use crate::entrance::users::{Users, whose};
use crate::journal::Journal;
use crate::modules::module_cache::ModuleCache;
use crate::usage::nodes::Nodes;
use crate::usage::sessions::{Sessions, Table};
use crate::usage::telemetry::Telemetry;
use crate::usage::turns::Turns;
use crate::workers::dialer::Dialer;
use crate::workers::groups::{Groups, Limited};
use crate::workers::launcher::Launcher;
use crate::workers::launcher::leases::{Lease, NoId};
use crate::workers::moves::registry::Moves;
use crate::workers::mps::Mps;
use crate::workers::passing::Peers;
use crate::{log, warn};

/// The state that all connections share.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) probe: Probe,
    /// Indices of the GPUs offered.
    pub(crate) offered: Vec<u32>,
    pub(crate) token: Option<Token>,
    pub(crate) users: Users,
    pub(crate) user_tokens: UserTokens,
    pub(crate) tls: Mutex<Option<ServerTls>>,
    /// Whether TCP clients must speak TLS.
    pub(crate) tls_only: bool,
    /// Whether TCP clients may speak in the clear.
    pub(crate) clear_text: bool,
    /// Whether a process that only forwards bytes to the Unix socket counts as its user.
    pub(crate) trust_forwarded: bool,
    /// The library that the probe found, so that a session never gets another device than was offered.
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
    /// Starts workers, where they run as users of their own.
    pub(crate) launcher: Option<Launcher>,
    /// Control groups, where the policy limits what users' workers take of this machine.
    pub(crate) groups: Option<Arc<Groups>>,
    /// NVIDIA's MPS, where sessions of a GPU compute side by side.
    pub(crate) mps: Option<Mps>,
    pub(crate) session_limits: SessionLimits,
    pub(crate) sessions: Table,
    /// Whose turn it is on each GPU.
    pub(crate) turns: Turns,
    /// What sessions share with each other.
    pub(crate) peers: Arc<Peers>,
    /// Connections to other servers.
    pub(crate) dialer: Arc<Dialer>,
    /// NCCL's nodes, of which workers are that have loaded it.
    pub(crate) nodes: Nodes,
    /// The NCCL that workers may load.
    pub(crate) nccl: Option<PathBuf>,
    pub(crate) cupti: Option<PathBuf>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) journal: Journal,
    pub(crate) audit: Audit,
    /// Whether the main loop answers.
    pub(crate) pulse: Pulse,
    /// Moves of sessions.
    pub(crate) moves: Moves,
    pub(crate) telemetry: Telemetry,
    /// Random bytes that tell this daemon from every other.
    pub(crate) identity: [u8; 16],
    /// The key by which clients know this daemon again at another address.
    pub(crate) host_key: HostKey,
}

impl Secrets for Server {
    fn find(&self, number: Option<TokenNumber>) -> Option<Secret> {
        let own = self.token.as_ref()?;
        number.map_or_else(|| Some(own.secret()), |number| self.user_tokens.secret(number))
    }
}

impl Server {
    /// Writes an event to the audit log, and logs if that is not possible.
    pub(crate) fn audits(&self, whose: &Whose, event: &Event<'_>) {
        if let Err(error) = self.audit.write(whose, event, Instant::now()) {
            warn(format_args!("WARNING: lines of the audit log are lost: {error}"));
        }
    }

    /// Reads the operator's files again, and opens the audit log again.
    pub(crate) fn reload(&self) {
        if !self.users.has_policy() && !self.audit.is_kept() && self.tls().is_none() {
            log(format_args!("SIGHUP: no file is read again without a policy, an audit log and certificates"));
        }
        self.users.reload(&self.offered);
        self.reload_tls();
        if let Err(error) = self.audit.reopen() {
            warn(format_args!("the audit log goes on in the file that it has: {error}"));
        }
    }

    /// The certificates and authorities as they were read last.
    pub(crate) fn tls(&self) -> Option<ServerTls> {
        floe_lock::lock(&self.tls).clone()
    }

    /// Reads them again, for connections from here on. Files that cannot be used change nothing.
    fn reload_tls(&self) {
        let Some(tls) = self.tls() else { return };
        match tls.again() {
            Ok(tls) => {
                log(format_args!("certificates read again"));
                *floe_lock::lock(&self.tls) = Some(tls);
            }
            Err(error) => warn(format_args!("the certificates stay as they were: {error}")),
        }
    }

    /// The user that one more worker of this peer runs as; `None`: this process's.
    ///
    /// # Errors
    /// [`NoId`]: other users' workers have all.
    pub(crate) fn lease(&self, source: Source) -> Result<Option<Lease>, NoId> {
        self.launcher.as_ref().map(|launcher| launcher.lease(source.name())).transpose()
    }

    /// The limits of this peer's user, under which its workers run; `None`: there are none.
    pub(crate) fn limited(&self, source: Source) -> Option<Limited<'_>> {
        let (groups, user) = (self.groups.as_ref()?, source.name()?);
        // A user that the policy has no place for any more keeps its sessions, with the limits that they have: one may move.
        let limits = self.users.rights(user).map_or_else(|| groups.limits_of(user), |rights| Some(rights.host))?;
        limits.are_any().then_some(Limited { groups, user, limits })
    }

    /// The table of sessions.
    pub(crate) fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock()
    }

    /// Whether no peer has a session or asks for one.
    pub(crate) fn is_idle(&self) -> bool {
        // The order matters: a peer gets its row in the table, or its place in the queue, before its conversation ends.
        let is_empty =
            |mut sessions: MutexGuard<'_, Sessions>| sessions.count_workers() + sessions.queue().count() == 0;
        self.gate.count() == 0 && is_empty(self.sessions())
    }

    /// Refuses a connection whose first message proves another token, and tells the peer so.
    pub(crate) fn turns_away(&self, socket: &Arc<OwnedFd>, peer: &Peer) -> bool {
        let seals = matches!(peer, Peer::Tcp(_)) && !self.tls_only;
        if self.token.is_none() || !seals || !is_stranger(socket, self) {
            return false;
        }
        let whose = whose(Some(Source::of(peer)), peer, None);
        self.audits(&whose, &Event::Refused { why: "the token is wrong" });
        match Link::accepted(Arc::clone(socket), peer) {
            Ok(link) => self.journal.refused(peer, Refusal::NotPermitted, &link.turn_away()),
            Err(error) => self.journal.refused(peer, Refusal::NotPermitted, &error),
        }
        true
    }

    /// Bytes of each process on a GPU, if telemetry knows them.
    pub(crate) fn processes(&self, index: u32) -> Option<BTreeMap<u32, u64>> {
        self.telemetry.processes(&self.gpu(index)?.uuid)
    }

    /// Per cent of the time since then for which the driver says that a GPU computed for each process.
    pub(crate) fn computing(&self, index: u32, since: SystemTime) -> BTreeMap<u32, u32> {
        self.gpu(index).map(|gpu| self.telemetry.computing(&gpu.uuid, since)).unwrap_or_default()
    }

    /// The GPU, if NCCL in its workers may open memory of other workers. No part of a GPU has NVLinks, and with MPS nobody has
    /// seen it work.
    pub(crate) fn gpu_of_nodes(&self, index: i32) -> Option<&Snapshot> {
        let gpu = self.gpu(u32::try_from(index).ok()?)?;
        // So NVIDIA's driver calls a part.
        (self.mps.is_none() && gpu.alone.is_none() && !gpu.name.contains(" MIG ")).then_some(gpu)
    }

    pub(crate) fn gpu(&self, index: u32) -> Option<&Snapshot> {
        self.offered.contains(&index).then(|| self.probe.gpus.get(usize::try_from(index).ok()?)).flatten()
    }

    /// The transport of a session: the client's offer, if the operator allows it and it reaches the client.
    pub(crate) fn transport(&self, offered: Transport, peer: &Peer) -> Transport {
        let is_had = self.transports.contains(&offered) && offered.reaches(peer);
        if is_had { offered } else { Transport::Socket }
    }

    /// The quota of a session: the one asked for, within the operator's limit. The operator's alone is no more than the GPU
    /// has; whether there is room for the other is for the account to say.
    pub(crate) fn quota(&self, asked: u64, gpu: &Snapshot) -> u64 {
        [asked, self.memory_per_session]
            .into_iter()
            .filter(|bytes| *bytes != 0)
            .min()
            .map_or(0, |bytes| if asked == 0 { bytes.min(gpu.memory) } else { bytes })
    }
}
