//! What the operator asked for: flags, then environment, then a TOML file.
//! In: parsed flags. Out: [`Settings`] with every default filled in.
//! It opens no socket and makes no file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use floe_transport::{Address, Identity, MOST_CONNECTIONS, ServerTls, Transport, suitable_connections};
use floe_worker::contract::Demand;
use serde::Deserialize;

use crate::entrance::limits::Share;
use crate::error::DaemonError;

/// How many sessions there may be at once unless the operator says otherwise: a context takes half a gigabyte on a GPU.
const MAX_SESSIONS: usize = 64;
/// Pinned memory of a session for data on their way: at 25 GB/s more than a millisecond of work in each direction.
const TRANSPORT_MEMORY: u64 = 64 << 20;
/// Host memory of a worker: the largest programs' modules in the driver's copies, and a compiler at work on some.
const HOST_MEMORY: u64 = 4 << 30;
/// What a worker needs before it has done anything, and as much again.
const LEAST_HOST_MEMORY: u64 = 128 << 20;
/// How long a session outlives its connections: a switch that starts anew, a cable that is put in again.
const GRACE: Duration = Duration::from_secs(60);
/// What the modules of several large programs take for one kind of GPU: PyTorch's are about 150 MiB.
const MODULE_CACHE_LIMIT: u64 = 4 << 30;

/// Flags of `floed` and `floe serve`; each can be set in the environment and, without the dashes, in `[server]` of the
/// TOML file.
#[derive(Debug, Clone, Default, Args)]
pub struct Options {
    /// TCP address to listen on; clients prove the token, which also seals what they send [default: tcp://127.0.0.1:14833]
    #[arg(long, env = "FLOE_LISTEN", value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Unix socket to listen on [default: $XDG_RUNTIME_DIR/floe/floed.sock, else /run/floe/floed.sock]
    #[arg(long, env = "FLOE_SOCKET", value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// File with the token TCP clients must know; made at the first start [default: ~/.config/floe/token]
    #[arg(long, env = "FLOE_TOKEN_FILE", value_name = "PATH")]
    pub token_file: Option<PathBuf>,
    /// Ask TCP clients for no token, and seal nothing but by TLS; for loopback addresses only, unless --insecure is given
    #[arg(long)]
    pub no_token: bool,
    /// Allow --no-token on an address others can reach
    #[arg(long)]
    pub insecure: bool,
    /// PEM file of this server's certificate: TCP clients may then speak TLS (tls://HOST:PORT), on the same port
    #[arg(long, env = "FLOE_SERVER_TLS_CERTIFICATE", value_name = "PATH")]
    pub tls_certificate: Option<PathBuf>,
    /// PEM file of its key
    #[arg(long, env = "FLOE_SERVER_TLS_KEY", value_name = "PATH")]
    pub tls_key: Option<PathBuf>,
    /// PEM file of authorities: TCP clients must show a certificate that one of them has signed
    #[arg(long, env = "FLOE_SERVER_TLS_CLIENT_AUTHORITIES", value_name = "PATH")]
    pub tls_client_authorities: Option<PathBuf>,
    /// Serve TCP clients by TLS only; implied by --tls-client-authorities, and by a certificate where --listen is no loopback
    /// address
    #[arg(long, conflicts_with_all = ["tls_optional", "clear_text"])]
    pub tls_only: bool,
    /// With a certificate, also take clients that seal by the token (tcp://HOST:PORT)
    #[arg(long)]
    pub tls_optional: bool,
    /// Also take TCP clients in the clear (clear://HOST:PORT), which is only for networks where nobody else is; the token is
    /// still asked for. Implied by --no-token, without which there is nothing to seal by
    #[arg(long)]
    pub clear_text: bool,
    /// Ask nobody for the token whose end of the Unix socket this server's user or root holds, also where that process only
    /// passes bytes on, as socat or a hypervisor's vsock proxy does: whoever reaches it comes in
    #[arg(long)]
    pub trust_forwarded: bool,
    /// What the workers drive: auto (NVIDIA's library where there is one, else the CPU device), nvidia, cpu, or the path of a libcuda.so.1
    #[arg(long, env = "FLOE_DEVICE_LIBRARY", value_name = "LIBRARY")]
    pub device_library: Option<String>,
    /// GPUs to offer, by index [default: all]
    #[arg(long, env = "FLOE_GPUS", value_name = "INDEX,…", value_delimiter = ',')]
    pub gpus: Vec<u32>,
    /// The most memory a session may have: bytes, or with K, M, G, T [default: all of the GPU]
    #[arg(long, env = "FLOE_MEMORY_PER_SESSION", value_name = "BYTES")]
    pub memory_per_session: Option<String>,
    /// The most pinned host memory a session of this machine may share with its worker, over the Unix socket: bytes, or with
    /// K, M, G, T; 0 shares none [default: half of the machine's memory]
    #[arg(long, env = "FLOE_SHARED_MEMORY", value_name = "BYTES")]
    pub shared_memory: Option<String>,
    /// The most TCP connections beside a session's own that carry its bulk data: 0 to 8 [default: half of the processors, at
    /// least 1]
    #[arg(long, env = "FLOE_BULK_CONNECTIONS", value_name = "COUNT", value_parser = clap::value_parser!(u32).range(..=8))]
    pub bulk_connections: Option<u32>,
    /// Pinned memory of a session's worker for data on their way: bytes, or with K, M, G, T, 12M at least; three eighths of
    /// it for either direction. Taken when first needed; copies behind host functions and waits for words may take more for
    /// a while [default: 64M]
    #[arg(long, env = "FLOE_TRANSPORT_MEMORY", value_name = "BYTES")]
    pub transport_memory: Option<String>,
    /// Host memory of a session's worker for everything but what it shares with its client and what a CPU device has: bytes,
    /// or with K, M, G, T, 128M at least; 0: all there is [default: 4G]
    #[arg(long, env = "FLOE_HOST_MEMORY", value_name = "BYTES")]
    pub host_memory: Option<String>,
    /// For how many seconds a session whose connection broke waits for its client to make it again; 0: it ends with it. Rings
    /// need no such time [default: 60]
    #[arg(long, env = "FLOE_GRACE", value_name = "SECONDS", value_parser = seconds)]
    pub grace: Option<Duration>,
    /// End sessions whose program sends nothing for so many seconds, also while its work on the GPU runs; 0: never
    /// [default: 0]
    #[arg(long, env = "FLOE_IDLE_LIMIT", value_name = "SECONDS", value_parser = seconds)]
    pub idle_limit: Option<Duration>,
    /// Have clients of this machine send everything over the Unix socket, none through rings in shared memory
    #[arg(long, env = "FLOE_NO_RINGS", value_parser = clap::builder::FalseyValueParser::new())]
    pub no_rings: bool,
    /// The most sessions at once [default: 64]
    #[arg(long, env = "FLOE_MAX_SESSIONS", value_name = "COUNT")]
    pub max_sessions: Option<usize>,
    /// The most sessions at once of one peer: a client address (of IPv6 its first 64 bits) or another user of this machine;
    /// the server's own user has no such limit [default: a quarter of --max-sessions]
    #[arg(long, env = "FLOE_MAX_SESSIONS_PER_PEER", value_name = "COUNT")]
    pub max_sessions_per_peer: Option<usize>,
    /// Of these, the most that wait for their client after their connection broke: of more, those that have waited longest
    /// end [default: as many as --max-sessions-per-peer]
    #[arg(long, env = "FLOE_MAX_WAITING_PER_PEER", value_name = "COUNT")]
    pub max_waiting_per_peer: Option<usize>,
    /// Folder where contents of modules are kept, so that a client sends them once [default: $XDG_CACHE_HOME/floe/modules, else ~/.cache/floe/modules; for root /var/cache/floe/modules]
    #[arg(long, env = "FLOE_MODULE_CACHE", value_name = "FOLDER")]
    pub module_cache: Option<PathBuf>,
    /// The most that folder holds: bytes, or with K, M, G, T; 0 keeps nothing [default: 4G]
    #[arg(long, env = "FLOE_MODULE_CACHE_LIMIT", value_name = "BYTES")]
    pub module_cache_limit: Option<String>,
    /// Run workers without their sandbox: a client that takes one over has all that this daemon's user has
    #[arg(long, env = "FLOE_NO_SANDBOX", conflicts_with = "require_sandbox",
        value_parser = clap::builder::FalseyValueParser::new())]
    pub no_sandbox: bool,
    /// Refuse sessions where the kernel lacks a part of the sandbox (Landlock, seccomp)
    #[arg(long, env = "FLOE_REQUIRE_SANDBOX", value_parser = clap::builder::FalseyValueParser::new())]
    pub require_sandbox: bool,
    /// Have what drivers load lie at the same addresses in every worker: migration will need it. It costs address-space
    /// randomization, so that an attack on one worker works on all
    #[arg(long, env = "FLOE_FIXED_ADDRESSES", value_parser = clap::builder::FalseyValueParser::new())]
    pub fixed_addresses: bool,
    /// The user to run as, where root has started this [default: floe, where there is such a user]
    #[arg(long, env = "FLOE_USER", value_name = "NAME")]
    pub user: Option<String>,
    /// The worker's executable [default: floe-worker beside this one]
    #[arg(long, env = "FLOE_WORKER", value_name = "PATH")]
    pub worker: Option<PathBuf>,
    /// TOML file [default: ~/.config/floe/floe.toml, else /etc/floe/floe.toml]
    #[arg(long, env = "FLOE_CONFIG", value_name = "PATH")]
    pub config: Option<PathBuf>,
    /// Serve one program: a Unix socket in a folder of its own, no TCP; prints `ready ADDRESS`
    #[arg(long, hide = true, requires = "until_exit_of")]
    pub private: bool,
    /// With --private: end when this process has ended and no session is left
    #[arg(long, hide = true, value_name = "PID")]
    pub until_exit_of: Option<i32>,
    /// With --private: this is the process that serves, not the one that was started
    #[arg(long, hide = true)]
    pub detached: bool,
}

/// The `[server]` table of the TOML file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct FileOptions {
    listen: Option<String>,
    socket: Option<PathBuf>,
    token_file: Option<PathBuf>,
    no_token: bool,
    insecure: bool,
    tls_certificate: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    tls_client_authorities: Option<PathBuf>,
    tls_only: bool,
    tls_optional: bool,
    clear_text: bool,
    trust_forwarded: bool,
    device_library: Option<String>,
    gpus: Vec<u32>,
    memory_per_session: Option<String>,
    shared_memory: Option<String>,
    bulk_connections: Option<u32>,
    transport_memory: Option<String>,
    host_memory: Option<String>,
    grace: Option<f64>,
    idle_limit: Option<f64>,
    no_rings: bool,
    max_sessions: Option<usize>,
    max_sessions_per_peer: Option<usize>,
    max_waiting_per_peer: Option<usize>,
    module_cache: Option<PathBuf>,
    module_cache_limit: Option<String>,
    no_sandbox: bool,
    require_sandbox: bool,
    fixed_addresses: bool,
    user: Option<String>,
    worker: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct File {
    server: FileOptions,
}

/// A folder for contents of modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachePlace {
    /// The folder; made where it is not there.
    pub folder: PathBuf,
    /// The most bytes in it.
    pub limit: u64,
}

/// What holds, with defaults.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where to listen by TCP; `None` in a private daemon.
    pub tcp: Option<Address>,
    /// The Unix socket; `None` in a private daemon, which makes its own.
    pub socket: Option<PathBuf>,
    /// What TLS needs, where it is spoken.
    pub tls: Option<ServerTls>,
    /// Whether nothing else is spoken over TCP.
    pub tls_only: bool,
    /// Whether TCP clients may speak in the clear.
    pub clear_text: bool,
    /// Whether who only passes bytes on to the Unix socket counts as its user.
    pub trust_forwarded: bool,
    /// The token's file; `None` when TCP clients need none.
    pub token_file: Option<PathBuf>,
    /// See [`Options::device_library`].
    pub device_library: String,
    /// Indices of the GPUs offered; empty for all.
    pub gpus: Vec<u32>,
    /// The most bytes a session may have; 0 for all there is.
    pub memory_per_session: u64,
    /// The most bytes of host memory a session may share with its worker.
    pub shared_memory: u64,
    /// The most TCP connections that carry bulk data of one session.
    pub bulk_connections: u32,
    /// Bytes of pinned memory for a session's data on their way.
    pub transport_memory: u64,
    /// Bytes of host memory of a worker; 0: all there is.
    pub host_memory: u64,
    /// For how long a session outlives its connections; zero: it ends with any of them.
    pub grace: Duration,
    /// For how long a session's client may send nothing; zero: for ever.
    pub idle_limit: Duration,
    /// What a session may go over to.
    pub transports: Vec<Transport>,
    /// The most sessions at once.
    pub max_sessions: usize,
    /// The most sessions at once of one peer.
    pub max_sessions_per_peer: usize,
    /// The most of these that wait for their client.
    pub max_waiting_per_peer: usize,
    /// Where contents of modules are kept; `None`: nowhere.
    pub module_cache: Option<CachePlace>,
    /// How much of the sandbox workers must have.
    pub sandbox: Demand,
    /// See [`Options::fixed_addresses`].
    pub fixed_addresses: bool,
    /// The user to run as, where root has started this.
    pub user: Option<String>,
    /// The worker's executable.
    pub worker: PathBuf,
    /// The process a private daemon serves.
    pub until_exit_of: Option<i32>,
}

impl Settings {
    /// Fills what the flags leave open from the TOML file and the defaults.
    ///
    /// # Errors
    /// [`DaemonError`] when the file, an address or a size cannot be understood, or the whole would be insecure.
    pub fn new(flags: Options) -> Result<Self, DaemonError> {
        let file = read_file(flags.config.as_deref())?;
        let no_token = flags.no_token || file.no_token;
        let memory = flags.memory_per_session.or(file.memory_per_session);
        let shared = flags.shared_memory.or(file.shared_memory);
        let transport = flags.transport_memory.or(file.transport_memory);
        let max_sessions = flags.max_sessions.or(file.max_sessions).unwrap_or(MAX_SESSIONS);
        let of_peer = flags.max_sessions_per_peer.or(file.max_sessions_per_peer);
        let max_sessions_per_peer = of_peer.unwrap_or_else(|| Share::quarters(max_sessions).each);
        let waiting = flags.max_waiting_per_peer.or(file.max_waiting_per_peer);
        let mut settings = Self {
            tcp: None,
            socket: None,
            token_file: None,
            tls: None,
            tls_only: false,
            clear_text: false,
            trust_forwarded: flags.trust_forwarded || file.trust_forwarded,
            device_library: flags.device_library.or(file.device_library).unwrap_or_else(|| "auto".to_owned()),
            gpus: if flags.gpus.is_empty() { file.gpus } else { flags.gpus },
            memory_per_session: memory.as_deref().map_or(Ok(0), bytes)?,
            shared_memory: shared.as_deref().map_or_else(|| Ok(half_of_memory()), bytes)?,
            bulk_connections: bulk_connections(flags.bulk_connections.or(file.bulk_connections)),
            transport_memory: transport.as_deref().map_or(Ok(TRANSPORT_MEMORY), bytes)?,
            host_memory: host_memory(flags.host_memory.or(file.host_memory).as_deref())?,
            grace: time(flags.grace, file.grace, GRACE)?,
            idle_limit: time(flags.idle_limit, file.idle_limit, Duration::ZERO)?,
            transports: transports(!(flags.no_rings || file.no_rings)),
            max_sessions,
            max_sessions_per_peer,
            max_waiting_per_peer: waiting.unwrap_or(max_sessions_per_peer),
            module_cache: module_cache(
                flags.module_cache.or(file.module_cache),
                flags.module_cache_limit.or(file.module_cache_limit).as_deref(),
            )?,
            sandbox: demand(flags.no_sandbox || file.no_sandbox, flags.require_sandbox || file.require_sandbox)?,
            fixed_addresses: flags.fixed_addresses || file.fixed_addresses,
            user: flags.user.or(file.user),
            worker: flags.worker.or(file.worker).map_or_else(worker_beside_this_executable, Ok)?,
            until_exit_of: flags.until_exit_of,
        };
        if flags.private {
            return Ok(settings);
        }
        let listen = flags.listen.or(file.listen).unwrap_or_else(|| "tcp://127.0.0.1".to_owned());
        let tcp: Address = listen.parse()?;
        if no_token && !is_loopback(&tcp) && !(flags.insecure || file.insecure) {
            return Err(DaemonError::Insecure(tcp.to_string()));
        }
        let authorities = flags.tls_client_authorities.or(file.tls_client_authorities);
        let certificate = flags.tls_certificate.or(file.tls_certificate);
        let clear_text = flags.clear_text || file.clear_text;
        let others_too = flags.tls_optional || file.tls_optional || clear_text || is_loopback(&tcp);
        settings.tls_only =
            flags.tls_only || file.tls_only || authorities.is_some() || (certificate.is_some() && !others_too);
        settings.clear_text = clear_text || no_token;
        let identity = Identity::of(certificate, flags.tls_key.or(file.tls_key))?;
        settings.tls = identity.map(|identity| ServerTls::new(&identity, authorities.as_deref())).transpose()?;
        if settings.tls_only && settings.tls.is_none() {
            return Err(DaemonError::NoCertificate);
        }
        settings.tcp = Some(tcp);
        settings.socket = Some(flags.socket.or(file.socket).unwrap_or_else(default_socket));
        settings.token_file = (!no_token).then(|| flags.token_file.or(file.token_file).unwrap_or_else(default_token));
        Ok(settings)
    }
}

/// Pinned memory is the client's, and its own limits count it; the other half is for everybody else when they do not.
fn half_of_memory() -> u64 {
    let machine = rustix::system::sysinfo();
    machine.totalram.saturating_mul(machine.mem_unit.into()) / 2
}

/// What a session may go over to.
fn transports(with_rings: bool) -> Vec<Transport> {
    Transport::ALL.into_iter().filter(|transport| with_rings || *transport != Transport::Rings).collect()
}

/// Of more than there may be, as many as there may be.
fn bulk_connections(wanted: Option<u32>) -> u32 {
    wanted.unwrap_or_else(suitable_connections).min(MOST_CONNECTIONS)
}

/// What is less than a worker needs is as much as it needs.
fn host_memory(text: Option<&str>) -> Result<u64, DaemonError> {
    let wanted = text.map_or(Ok(HOST_MEMORY), bytes)?;
    Ok(if wanted == 0 { 0 } else { wanted.max(LEAST_HOST_MEMORY) })
}

/// A time in seconds, also a part of one.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("not a number of seconds: {text}"))?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

fn time(flag: Option<Duration>, file: Option<f64>, otherwise: Duration) -> Result<Duration, DaemonError> {
    match (flag, file) {
        (Some(time), _) => Ok(time),
        (None, Some(seconds)) => Duration::try_from_secs_f64(seconds).map_err(|_| DaemonError::Seconds(seconds)),
        (None, None) => Ok(otherwise),
    }
}

fn demand(off: bool, required: bool) -> Result<Demand, DaemonError> {
    match (off, required) {
        (true, true) => Err(DaemonError::Sandbox),
        (true, false) => Ok(Demand::Off),
        (false, true) => Ok(Demand::Required),
        (false, false) => Ok(Demand::Usual),
    }
}

fn read_file(named: Option<&Path>) -> Result<FileOptions, DaemonError> {
    let places = [Some(configuration_folder().join("floe.toml")), Some(PathBuf::from("/etc/floe/floe.toml"))];
    let found = named.map(Path::to_path_buf).or_else(|| places.into_iter().flatten().find(|path| path.is_file()));
    let Some(path) = found else { return Ok(FileOptions::default()) };
    let text = std::fs::read_to_string(&path);
    let text = text.map_err(|source| DaemonError::Configuration { path: path.clone(), source })?;
    let file: File = floe_toml::read(&text).map_err(|mistake| DaemonError::Settings { path, mistake })?;
    Ok(file.server)
}

/// The folder and its limit; none where the limit is 0, or where there is no folder to take.
fn module_cache(folder: Option<PathBuf>, limit: Option<&str>) -> Result<Option<CachePlace>, DaemonError> {
    let limit = limit.map_or(Ok(MODULE_CACHE_LIMIT), bytes)?;
    let folder = folder.or_else(default_module_cache).filter(|_| limit > 0);
    Ok(folder.map(|folder| CachePlace { folder, limit }))
}

fn default_module_cache() -> Option<PathBuf> {
    if let Some(cache) = set("XDG_CACHE_HOME") {
        return Some(cache.join("floe/modules"));
    }
    if rustix::process::geteuid().is_root() {
        return Some(PathBuf::from("/var/cache/floe/modules"));
    }
    set("HOME").map(|home| home.join(".cache/floe/modules"))
}

/// A folder the environment names.
fn set(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// `$XDG_CONFIG_HOME/floe`, else `~/.config/floe`, else `/etc/floe`.
fn configuration_folder() -> PathBuf {
    let home = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")));
    home.unwrap_or_else(|| PathBuf::from("/etc")).join("floe")
}

fn default_token() -> PathBuf {
    configuration_folder().join("token")
}

fn default_socket() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    runtime.map_or_else(|| PathBuf::from("/run"), PathBuf::from).join("floe/floed.sock")
}

fn worker_beside_this_executable() -> Result<PathBuf, DaemonError> {
    let this = std::env::current_exe().map_err(DaemonError::system("finding this executable"))?;
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

fn bytes(text: &str) -> Result<u64, DaemonError> {
    floe_size::bytes(text).ok_or_else(|| DaemonError::Bytes(text.to_owned()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
#[path = "../../../link/transport/tests/authority/mod.rs"]
mod authority;

#[cfg(test)]
mod tests {
    use super::authority::Authority;
    use super::*;

    fn flags() -> Options {
        Options { config: Some(PathBuf::from("/dev/null")), ..Options::default() }
    }

    #[test]
    fn an_open_address_without_a_token_is_refused() {
        let open = Options { listen: Some("tcp://0.0.0.0:1".into()), no_token: true, ..flags() };
        assert!(matches!(Settings::new(open.clone()), Err(DaemonError::Insecure(_))));
        let insecure = Settings::new(Options { insecure: true, ..open }).expect("the operator insists");
        assert_eq!(insecure.token_file, None);
    }

    #[test]
    fn tls_only_wants_a_certificate() {
        let only = Options { tls_only: true, ..flags() };
        assert!(matches!(Settings::new(only), Err(DaemonError::NoCertificate)));
        let half = Options { tls_certificate: Some("/certificate.pem".into()), ..flags() };
        assert!(matches!(Settings::new(half), Err(DaemonError::Tls(_))));
    }

    #[test]
    fn with_a_certificate_others_than_loopback_are_served_by_tls_only_unless_the_operator_says_otherwise() {
        let authority = Authority::new();
        let [tls_certificate, tls_key] = authority.sign("localhost").map(Some);
        let at = |address: &str| Options {
            listen: Some(address.into()),
            tls_certificate: tls_certificate.clone(),
            tls_key: tls_key.clone(),
            ..flags()
        };
        let tls_only = |options| Settings::new(options).expect("understood").tls_only;
        assert!(tls_only(at("tcp://0.0.0.0:1")));
        assert!(!tls_only(at("tcp://127.0.0.1:1")));
        assert!(!tls_only(Options { tls_optional: true, ..at("tcp://0.0.0.0:1") }));
        assert!(!tls_only(Options { clear_text: true, ..at("tcp://0.0.0.0:1") }));
        assert!(tls_only(Options {
            tls_optional: true,
            tls_client_authorities: Some(authority.file()),
            ..at("tcp://0.0.0.0:1")
        }));
        assert!(!tls_only(Options { listen: Some("tcp://0.0.0.0:1".into()), ..flags() }), "there is no certificate");
    }

    #[test]
    fn clear_text_is_allowed_where_the_operator_says_so_or_there_is_nothing_to_seal_by() {
        let clear_text = |options| Settings::new(options).expect("understood").clear_text;
        assert!(!clear_text(flags()));
        assert!(clear_text(Options { clear_text: true, ..flags() }));
        assert!(clear_text(Options { no_token: true, ..flags() }));
    }

    #[test]
    fn loopback_may_go_without_a_token() {
        for address in ["127.0.0.1:1", "tcp://[::1]:1", "localhost"] {
            let settings = Settings::new(Options { listen: Some(address.into()), no_token: true, ..flags() });
            assert_eq!(settings.expect(address).token_file, None);
        }
    }

    #[test]
    fn the_default_is_loopback_with_a_token() {
        let settings = Settings::new(flags()).expect("the defaults hold");
        assert!(is_loopback(&settings.tcp.expect("TCP is on")));
        assert!(settings.token_file.is_some());
    }

    #[test]
    fn modules_are_cached_unless_the_limit_is_zero() {
        let named = Options { module_cache: Some("/somewhere".into()), ..flags() };
        let place = Settings::new(named.clone()).expect("a folder is enough").module_cache;
        assert_eq!(place, Some(CachePlace { folder: "/somewhere".into(), limit: 4 << 30 }));
        let off = Settings::new(Options { module_cache_limit: Some("0".into()), ..named.clone() });
        assert_eq!(off.expect("0 is a size").module_cache, None);
        assert!(Settings::new(Options { module_cache_limit: Some("much".into()), ..named }).is_err());
    }

    #[test]
    fn host_memory_is_shared_up_to_half_of_the_machines_unless_the_operator_says_otherwise() {
        assert!(Settings::new(flags()).expect("the defaults hold").shared_memory > 0);
        for (text, bytes) in [("0", 0), ("3G", 3 << 30)] {
            let settings = Settings::new(Options { shared_memory: Some(text.into()), ..flags() });
            assert_eq!(settings.expect("a size").shared_memory, bytes);
        }
    }

    #[test]
    fn there_is_a_bulk_connection_and_never_more_than_eight() {
        let count = |wanted| {
            let settings = Settings::new(Options { bulk_connections: wanted, ..flags() });
            settings.expect("any number will do").bulk_connections
        };
        assert_eq!([Some(0), Some(3), Some(99)].map(count), [0, 3, MOST_CONNECTIONS]);
        assert!((1..=MOST_CONNECTIONS).contains(&count(None)));
    }

    #[test]
    fn the_grace_period_is_in_seconds_and_may_be_none() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("floe.toml");
        let settings = |line: &str, grace| {
            std::fs::write(&path, format!("[server]\n{line}\n")).expect("the file is written");
            Settings::new(Options { grace, config: Some(path.clone()), ..Options::default() })
        };
        let of = |line, grace| settings(line, grace).expect("a time").grace;
        assert_eq!(of("", None), Duration::from_secs(60));
        assert_eq!(of("grace = 90", None), Duration::from_secs(90));
        assert_eq!(of("grace = 0.25", None), Duration::from_millis(250));
        assert_eq!(of("grace = 90", seconds("0").ok()), Duration::ZERO);
        assert!(matches!(settings("grace = -1", None), Err(DaemonError::Seconds(_))));
        assert!(seconds("-1").is_err() && seconds("inf").is_err() && seconds("a minute").is_err());
    }

    #[test]
    fn data_on_their_way_have_64_mib_unless_the_operator_says_otherwise() {
        let memory = |text: Option<&str>| {
            let settings = Settings::new(Options { transport_memory: text.map(Into::into), ..flags() });
            settings.expect("a size").transport_memory
        };
        assert_eq!([memory(None), memory(Some("200M"))], [64 << 20, 200 << 20]);
    }

    #[test]
    fn a_peer_has_a_quarter_of_the_sessions_unless_the_operator_says_otherwise() {
        let limits = |options| {
            let settings = Settings::new(options).expect("numbers");
            (settings.max_sessions_per_peer, settings.max_waiting_per_peer)
        };
        assert_eq!(limits(flags()), (16, 16));
        assert_eq!(limits(Options { max_sessions: Some(2), ..flags() }), (1, 1));
        assert_eq!(limits(Options { max_sessions_per_peer: Some(40), ..flags() }), (40, 40));
        assert_eq!(limits(Options { max_waiting_per_peer: Some(0), ..flags() }), (16, 0));
    }

    #[test]
    fn a_worker_has_four_gibibytes_of_host_memory_unless_the_operator_says_otherwise() {
        let memory = |text: Option<&str>| {
            let settings = Settings::new(Options { host_memory: text.map(Into::into), ..flags() });
            settings.expect("a size").host_memory
        };
        assert_eq!([memory(None), memory(Some("1G")), memory(Some("0"))], [4 << 30, 1 << 30, 0]);
        assert_eq!(memory(Some("1K")), LEAST_HOST_MEMORY);
    }

    #[test]
    fn the_sandbox_is_on_and_can_be_demanded_or_left_away_but_not_both() {
        let demand = |no_sandbox, require_sandbox| {
            Settings::new(Options { no_sandbox, require_sandbox, ..flags() }).map(|settings| settings.sandbox)
        };
        assert_eq!(demand(false, false).expect("the default"), Demand::Usual);
        assert_eq!(demand(true, false).expect("a choice"), Demand::Off);
        assert_eq!(demand(false, true).expect("a choice"), Demand::Required);
        assert!(matches!(demand(true, true), Err(DaemonError::Sandbox)));
    }

    #[test]
    fn a_flag_wins_over_the_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("floe.toml");
        std::fs::write(&path, "[server]\nlisten = '127.0.0.1:7'\nmax-sessions = 3\n").expect("the file is written");
        let settings =
            Settings::new(Options { listen: Some("127.0.0.1:8".into()), config: Some(path), ..Options::default() });
        let settings = settings.expect("both are right");
        assert_eq!(settings.tcp.expect("TCP is on").to_string(), "tcp://127.0.0.1:8");
        assert_eq!(settings.max_sessions, 3);
    }
}
