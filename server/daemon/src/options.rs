//! The operator's settings: flags, then environment, then a TOML file.
//! In: parsed flags. Out: [`Settings`] with all defaults, or why they cannot hold together.
//! It opens no socket and makes no file.

pub mod flags;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use floe_launcher::{Ids, NotIds};
use floe_settings::{Given, LogFormat, ProcessSource, SERVER, ServerSettings, Source, set_folder, token_file};
use floe_transport::{Address, Clients, Identity, ServerTls, Transport};
use floe_worker::contract::Demand;

use crate::entrance::handed::Handed;
use crate::entrance::limits::Share;
use crate::error::DaemonError;

/// Twice the memory that a worker needs before its first command.
const LEAST_HOST_MEMORY: u64 = 128 << 20;

/// Flags of `floed` and `floe serve`. All but the hidden ones can also be set in the environment and in `[server]` of
/// the TOML file.
#[derive(Debug, Clone, Default, Args)]
pub struct Options {
    /// The flags of the table of settings.
    #[command(flatten)]
    pub flags: ServerFlags,
    /// Serve one program: a Unix socket in a folder of its own, no TCP; prints `ready ADDRESS`
    #[arg(long, hide = true, requires = "until_exit_of")]
    pub private: bool,
    /// With --private: end when this process has ended and no session is left
    #[arg(long, hide = true, value_name = "PID")]
    pub until_exit_of: Option<i32>,
    /// With --private: this process serves, and is not the one that was started
    #[arg(long, hide = true)]
    pub detached: bool,
}

flags::of_table! {
    /// The flags of [`SERVER`].
    ServerFlags, SERVER
}

/// A folder for contents of modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachePlace {
    /// The folder. The daemon makes it if it does not exist.
    pub folder: PathBuf,
    /// The most bytes in it.
    pub limit: u64,
}

/// The effective settings: the table's values, and those that follow from several values or from the machine.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The values of the table.
    pub values: ServerSettings,
    /// The TCP addresses at which clients come in; none in a private daemon.
    pub tcp: Vec<Address>,
    /// The Unix socket to bind; `None` in a private daemon, which makes its own, and where one was handed over.
    pub socket: Option<PathBuf>,
    /// The HTTP address for figures to bind; `None`: there is none, as in a private daemon, or it was handed over.
    pub metrics: Option<SocketAddr>,
    /// The certificates of TLS; `None` without TLS.
    pub tls: Option<ServerTls>,
    /// Whether TCP clients must speak TLS.
    pub tls_only: bool,
    /// Whether TCP clients may speak in the clear.
    pub clear_text: bool,
    /// The token's file; `None` when TCP clients need none.
    pub token_file: Option<PathBuf>,
    /// The most bytes of host memory a session may share with its worker.
    pub shared_memory: u64,
    /// The most TCP connections that carry bulk data of one session.
    pub bulk_connections: u32,
    /// Bytes of host memory of a worker; 0: all there is.
    pub host_memory: u64,
    /// Bytes of host memory in which suspended sessions wait, of all together.
    pub suspended_memory: u64,
    /// The transports that a session may use.
    pub transports: Vec<Transport>,
    /// Servers that sessions may connect to.
    pub peers: Vec<Address>,
    /// The NCCL that workers may load; `None`: none.
    pub nccl: Option<PathBuf>,
    /// The CUPTI that workers may load; `None`: none.
    pub cupti: Option<PathBuf>,
    /// The most sessions at once, and the most of one peer.
    pub(crate) sessions: Share,
    /// The most sessions of one peer that wait for their client.
    pub max_waiting_per_peer: usize,
    /// The folder for contents of modules; `None`: they are not kept.
    pub module_cache: Option<CachePlace>,
    /// How much of the sandbox the operator requires.
    pub sandbox: Demand,
    /// The worker's executable.
    pub worker: PathBuf,
    /// The ids of workers that run as users of their own; `None`: they do not, as in a private daemon.
    pub worker_ids: Option<Ids>,
    /// The form of the log. A private daemon's is text: the command that started it reads it.
    pub log_format: LogFormat,
    /// The process a private daemon serves.
    pub until_exit_of: Option<i32>,
}

impl Settings {
    /// The policy's file; a private daemon has none.
    #[must_use]
    pub fn policy(&self) -> Option<&PathBuf> {
        self.values.policy.as_ref().filter(|_| self.until_exit_of.is_none())
    }

    /// The file of the audit log; a private daemon has none.
    #[must_use]
    pub fn audit(&self) -> Option<&PathBuf> {
        self.values.audit.as_ref().filter(|_| self.until_exit_of.is_none())
    }

    /// The folder of users' tokens; `None` where there is no token.
    #[must_use]
    pub fn tokens(&self) -> Option<PathBuf> {
        self.token_file.as_ref().map(|file| self.values.tokens.clone().unwrap_or_else(|| file.with_file_name("tokens")))
    }

    /// Reads flags, this process's environment and the TOML file. What was handed over takes the place of what they name.
    ///
    /// # Errors
    /// [`DaemonError`] when the file or a value cannot be read, or all together would be insecure.
    pub(crate) fn new(options: &Options, handed: &Handed) -> Result<Self, DaemonError> {
        Self::of(options, handed, &ProcessSource)
    }

    fn of(options: &Options, handed: &Handed, source: &dyn Source) -> Result<Self, DaemonError> {
        let values = ServerSettings::read(&Given::gather(&SERVER, &options.flags.0, source)?)?;
        let sessions = sessions(&values);
        let settings = Self {
            tcp: Vec::new(),
            socket: None,
            metrics: None,
            tls: None,
            tls_only: false,
            clear_text: false,
            token_file: None,
            shared_memory: values.shared_memory.unwrap_or_else(half_of_memory),
            bulk_connections: values.bulk_connections,
            host_memory: host_memory(values.host_memory),
            suspended_memory: values.suspended_memory.unwrap_or_else(half_of_memory),
            transports: transports(!values.no_rings),
            peers: peers(&values)?,
            nccl: nccl(&values.nccl)?,
            cupti: cupti(&values.cupti)?,
            max_waiting_per_peer: values.max_waiting_per_peer.map_or(sessions.each, |most| most as usize),
            sessions,
            module_cache: module_cache(&values, source),
            sandbox: demand(values.no_sandbox, values.require_sandbox)?,
            worker: values.worker.clone().map_or_else(worker_beside_this_executable, Ok)?,
            worker_ids: None,
            log_format: if options.private { LogFormat::Text } else { values.log_format },
            until_exit_of: options.until_exit_of,
            values,
        };
        if options.private { Ok(settings) } else { settings.listening(handed, source) }
    }

    /// Adds the settings of a daemon that is not private.
    fn listening(mut self, handed: &Handed, source: &dyn Source) -> Result<Self, DaemonError> {
        let values = &self.values;
        let handed_over = handed.tcp();
        self.tcp = if handed_over.is_empty() { vec![values.listen.parse()?] } else { handed_over };
        let open = self.tcp.iter().find(|address| !is_loopback(address));
        if let Some(open) = open.filter(|_| values.no_token && !values.insecure) {
            return Err(DaemonError::Insecure(open.to_string()));
        }
        if values.no_token && values.policy.is_some() {
            return Err(DaemonError::PolicyWithoutToken);
        }
        if values.tls_only && (values.tls_optional || values.clear_text) {
            return Err(DaemonError::TlsOnly(if values.tls_optional { "--tls-optional" } else { "--clear-text" }));
        }
        let authorities = values.tls_client_authorities.as_deref();
        let others_too = values.tls_optional || values.clear_text || open.is_none();
        let is_implied = authorities.is_some() || (values.tls_certificate.is_some() && !others_too);
        self.tls_only = values.tls_only || is_implied;
        self.clear_text = values.clear_text || values.no_token;
        let identity = Identity::of(values.tls_certificate.clone(), values.tls_key.clone())?;
        let clients = match (authorities, &values.tls_user_authorities) {
            (Some(_), Some(_)) => return Err(DaemonError::TwoAuthorities),
            (Some(path), None) => Clients::Certified(path.to_owned()),
            (None, Some(path)) => Clients::Named(path.clone()),
            (None, None) => Clients::Unasked,
        };
        let needs_certificate = self.tls_only || clients != Clients::Unasked;
        if clients == Clients::Unasked && values.tls_revocations.is_some() {
            return Err(DaemonError::NoAuthorities);
        }
        let revoked = values.tls_revocations.clone();
        self.tls = identity.map(|identity| ServerTls::with(identity, clients, revoked)).transpose()?;
        if needs_certificate && self.tls.is_none() {
            return Err(DaemonError::NoCertificate);
        }
        self.metrics = values.metrics.filter(|_| !handed.has_metrics());
        self.worker_ids = values.worker_ids.as_deref().map(|text| worker_ids(text, values.mps)).transpose()?;
        let socket = || values.socket.clone().unwrap_or_else(|| default_socket(source));
        self.socket = (!handed.has_unix()).then(socket);
        let token_file = || values.token_file.clone().unwrap_or_else(|| token_file(source));
        self.token_file = (!values.no_token).then(token_file);
        Ok(self)
    }
}

/// The folder of users' tokens that a server of this user would use, by its environment and the TOML file.
///
/// # Errors
/// [`DaemonError`] when a setting is none.
pub fn tokens_folder() -> Result<PathBuf, DaemonError> {
    let source = &ProcessSource;
    let values = ServerSettings::read(&Given::gather(&SERVER, &[], source)?)?;
    let token = values.token_file.unwrap_or_else(|| token_file(source));
    Ok(values.tokens.unwrap_or_else(|| token.with_file_name("tokens")))
}

/// The ids of workers that run as users of their own.
fn worker_ids(text: &str, mps: bool) -> Result<Ids, DaemonError> {
    let wrong = |reason| DaemonError::WorkerIds { ids: text.to_owned(), reason };
    if mps {
        return Err(wrong("NVIDIA's MPS (--mps) serves workers of one user only".to_owned()));
    }
    text.parse().map_err(|error: NotIds| wrong(error.to_string()))
}

fn sessions(values: &ServerSettings) -> Share {
    let all = values.max_sessions as usize;
    Share { all, each: values.max_sessions_per_peer.map_or_else(|| Share::quarters(all).each, |most| most as usize) }
}

/// Pinned memory belongs to the client, whose own limits count it. Without such limits, half is left for all others.
fn half_of_memory() -> u64 {
    let machine = rustix::system::sysinfo();
    machine.totalram.saturating_mul(machine.mem_unit.into()) / 2
}

/// The servers that sessions may connect to.
fn peers(values: &ServerSettings) -> Result<Vec<Address>, DaemonError> {
    values.peer.iter().flatten().map(|address| Ok(address.trim().parse()?)).collect()
}

/// The NCCL that workers may load.
fn nccl(wanted: &str) -> Result<Option<PathBuf>, DaemonError> {
    match wanted {
        "auto" => Ok(floe_device::nccl::installed()),
        "off" => Ok(None),
        path if std::path::Path::new(path).is_file() => Ok(Some(PathBuf::from(path))),
        path => Err(DaemonError::Nccl(path.to_owned())),
    }
}

/// The CUPTI that workers may load. A CPU device has one of its own, so there is one to name where none is installed.
fn cupti(wanted: &str) -> Result<Option<PathBuf>, DaemonError> {
    match wanted {
        "auto" => Ok(Some(floe_device::cupti::installed().unwrap_or_else(|| PathBuf::from("libcupti.so.13")))),
        "off" => Ok(None),
        path if std::path::Path::new(path).is_file() => Ok(Some(PathBuf::from(path))),
        path => Err(DaemonError::Cupti(path.to_owned())),
    }
}

/// The transports that a session may use.
fn transports(with_rings: bool) -> Vec<Transport> {
    Transport::ALL.into_iter().filter(|transport| with_rings || *transport != Transport::Rings).collect()
}

/// The limit of host memory: at least as much as a worker needs.
fn host_memory(wanted: u64) -> u64 {
    if wanted == 0 { 0 } else { wanted.max(LEAST_HOST_MEMORY) }
}

fn demand(off: bool, required: bool) -> Result<Demand, DaemonError> {
    match (off, required) {
        (true, true) => Err(DaemonError::Sandbox),
        (true, false) => Ok(Demand::Off),
        (false, true) => Ok(Demand::Required),
        (false, false) => Ok(Demand::Usual),
    }
}

/// The folder and its limit. `None` if the limit is 0 or no folder is known.
fn module_cache(values: &ServerSettings, source: &dyn Source) -> Option<CachePlace> {
    let limit = values.module_cache_limit;
    let folder = values.module_cache.clone().or_else(|| default_module_cache(source)).filter(|_| limit > 0);
    folder.map(|folder| CachePlace { folder, limit })
}

fn default_module_cache(source: &dyn Source) -> Option<PathBuf> {
    if let Some(cache) = set_folder(source, "XDG_CACHE_HOME") {
        return Some(cache.join("floe/modules"));
    }
    if rustix::process::geteuid().is_root() {
        return Some(PathBuf::from("/var/cache/floe/modules"));
    }
    set_folder(source, "HOME").map(|home| home.join(".cache/floe/modules"))
}

fn default_socket(source: &dyn Source) -> PathBuf {
    set_folder(source, "XDG_RUNTIME_DIR").unwrap_or_else(|| PathBuf::from("/run")).join("floe/floed.sock")
}

fn worker_beside_this_executable() -> Result<PathBuf, DaemonError> {
    let this = std::env::current_exe().map_err(DaemonError::system("cannot find this executable"))?;
    Ok(this.with_file_name("floe-worker"))
}

pub(crate) fn is_loopback(address: &Address) -> bool {
    match address {
        Address::Tcp { host, .. } | Address::Clear { host, .. } | Address::Tls { host, .. } => {
            host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        Address::Unix(..) => true,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
#[path = "../../../link/transport/tests/authority/mod.rs"]
mod authority;

#[cfg(test)]
mod tests;
