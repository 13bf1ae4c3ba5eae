//! The daemon's life: start, serve, end.
//! In: settings. Out: an exit without leftovers: no socket file, no worker process, no folder.

use std::io::Write as _;
use std::net::TcpListener;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use floe_device::Probe;
use floe_launcher::Ids;
use floe_metrics::Pulse;
use floe_transport::{Address, HostKey, Listener};
use floe_users::Audit;
use rustix::net::Shutdown;
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, getrlimit, pidfd_open, setrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tempfile::TempDir;

use crate::account::{self, Account};
use crate::entrance::gate::Gate;
use crate::entrance::handed::Handed;
use crate::entrance::limits::SessionLimits;
use crate::entrance::listen::{Doors, accept_all};
use crate::entrance::notify;
use crate::entrance::token::{Token, random};
use crate::entrance::tokens::UserTokens;
use crate::entrance::users::Users;
use crate::error::DaemonError;
use crate::journal::{Journal, lines};
use crate::modules::module_cache::ModuleCache;
use crate::options::{CachePlace, Options, Settings, is_loopback};
use crate::server::Server;
use crate::usage::accounting::HOST_MEMORY;
use crate::usage::nodes::Nodes;
use crate::usage::sessions::{Sessions, Table};
use crate::usage::telemetry::Telemetry;
use crate::usage::turns::Turns;
use crate::usage::{figures, second_look, warden};
use crate::workers::dialer::Dialer;
use crate::workers::groups::Groups;
use crate::workers::launcher::{Launcher, rights};
use crate::workers::moves::registry::Moves;
use crate::workers::mps::Mps;
use crate::workers::passing::Peers;
use crate::workers::probe;
use crate::{log, protection, warn};

/// The folder of the socket of root's daemon.
const SOCKET_FOLDER: &str = "/run/floe";
/// The time of workers to tell their clients that the server ends, and to end.
const FAREWELL: Duration = Duration::from_secs(2);

/// Serves until SIGTERM or SIGINT, or until a private daemon's process has ended.
///
/// # Errors
/// [`DaemonError`] when it cannot start or can no longer wait for connections.
pub fn run(options: &Options) -> Result<(), DaemonError> {
    // Before anything here has a descriptor. Nobody hands a socket over to a private daemon.
    let handed = if options.private { Handed::default() } else { Handed::take()? };
    let settings = Settings::new(options, &handed)?;
    live(&settings, handed)
}

fn live(settings: &Settings, handed: Handed) -> Result<(), DaemonError> {
    lines::start(settings.log_format, settings.values.log_level);
    let (signal, reload) = (signals(&[SIGTERM, SIGINT])?, reload_signal(settings)?);
    let (served, folder) = private(settings)?;
    let (token, user_tokens) = (token(settings)?, UserTokens::open(settings.tokens())?);
    say_what_is_unusual(settings, served.is_none());
    let (listeners, port) = listeners(settings, folder.as_ref().map(TempDir::path), handed)?;
    // A private daemon serves its own user only, and logs to the program's stderr.
    let (probe, launcher) = probe_as_its_user(settings, served.is_some())?;
    user_tokens.read()?;
    let offered = offered(settings.values.gpus.as_deref().unwrap_or_default(), probe.gpus.len())?;
    let unprotected = if served.is_some() { None } else { say_what_protects(settings, &probe.library)? };
    let users = Users::new(settings.policy().cloned(), &offered)?;
    let sessions = Table::new(sessions(&probe, &offered, settings.suspended_memory));
    let server = Arc::new(Server {
        telemetry: Telemetry::new(&probe.kind),
        identity: identity()?,
        host_key: host_key()?,
        nodes: Nodes::new(identity()?),
        device_library: probe.library.clone(),
        dialer: Dialer::new(settings.peers.clone(), for_nccl(settings, &listeners)),
        nccl: settings.nccl.clone(),
        cupti: settings.cupti.clone(),
        groups: groups(&users, launcher.as_ref())?,
        users,
        mps: settings.values.mps.then(|| Mps::start(&settings.worker, &probe)).transpose()?,
        launcher,
        probe,
        offered,
        token,
        user_tokens,
        tls: Mutex::new(settings.tls.clone()),
        tls_only: settings.tls_only,
        clear_text: settings.clear_text,
        trust_forwarded: settings.values.trust_forwarded,
        worker: settings.worker.clone(),
        memory_per_session: settings.values.memory_per_session.unwrap_or(0),
        shared_memory: settings.shared_memory,
        mirrored_memory: settings.values.mirrored_memory,
        bulk_connections: settings.bulk_connections,
        transport_memory: settings.values.transport_memory,
        host_memory: settings.host_memory,
        transports: settings.transports.clone(),
        grace: settings.values.grace,
        idle_limit: settings.values.idle_limit,
        module_cache: settings.module_cache.as_ref().and_then(open_cache),
        sandbox: settings.sandbox,
        unprotected,
        fixed_addresses: settings.values.fixed_addresses,
        session_limits: session_limits(settings),
        peers: Peers::new(sessions.clone()),
        sessions,
        turns: if settings.values.mps { Turns::without() } else { Turns::default() },
        gate: Arc::new(Gate::new(raise_descriptors())?),
        journal: Journal::of(settings.log_format),
        audit: Audit::open(settings.audit().map(PathBuf::as_path))?,
        pulse: Pulse::new().map_err(DaemonError::system("cannot make the main loop's pulse"))?,
        moves: Moves::default(),
    });
    start_looking(&server, port)?;
    serve(Doors { listeners, signal, reload, served }, server)
}

/// Random bytes that tell one thing from all others.
fn identity() -> Result<[u8; 16], DaemonError> {
    Ok(*random()?.first_chunk().expect("a nonce is longer than an identity"))
}

fn host_key() -> Result<HostKey, DaemonError> {
    HostKey::make().ok_or_else(|| DaemonError::Random("there are none".to_owned()))
}

/// Becomes the user that serves, and looks for GPUs as a user that workers run as. If that is not this one, root starts the
/// launcher first.
fn probe_as_its_user(settings: &Settings, private: bool) -> Result<(Probe, Option<Launcher>), DaemonError> {
    let account = if private { None } else { Account::find(settings.values.user.as_deref())? };
    let probe = |user| probe::probe(&settings.worker, &settings.values.device_library, user);
    let own = account.as_ref().map_or_else(account::own, Account::ids);
    let start = |ids: Ids| -> Result<_, DaemonError> {
        Ok((Launcher::start(&settings.worker, ids, own)?, probe(Some(ids.first()))?))
    };
    let launched = settings.worker_ids.map(start).transpose()?;
    if !private {
        leave_root(settings, account.as_ref())?;
    }
    let (launcher, probed) = launched.unzip();
    let probed = probed.map_or_else(|| probe(None), Ok)?;
    account.map_or(Ok(()), |account| account.shut())?;
    Ok((probed, launcher))
}

/// Starts the threads that look at sessions, and the one that shows figures.
fn start_looking(server: &Arc<Server>, port: Option<TcpListener>) -> Result<(), DaemonError> {
    second_look::start(server)?;
    warden::start(server)?;
    server.turns.start_clock()?;
    port.map_or(Ok(()), |port| figures::start(server, port))
}

/// Serves until the end, and ends what is left.
fn serve(doors: Doors, server: Arc<Server>) -> Result<(), DaemonError> {
    let outcome = accept_all(&doors, &server, || announce(&doors.listeners, doors.served.is_some()));
    if doors.served.is_none() {
        notify::tell(notify::STOPPING);
    }
    server.pulse.end();
    close(doors);
    end_workers(&server);
    // The process's end closes the peers' sockets, and does not wait for descriptors in them.
    std::mem::forget(server);
    outcome
}

/// What of the settings whoever starts a server should know.
fn say_what_is_unusual(settings: &Settings, has_environment: bool) {
    say_what_is_not_sealed(settings);
    if has_environment {
        say_unknown_variables();
    }
}

/// Stops listening and removes the socket's file. The process's end closes connections that were not accepted:
/// descriptors in them may delay a close for as long as their sender likes.
fn close(doors: Doors) {
    for listener in &doors.listeners {
        let is_shared = listener.is_shared();
        // Without another descriptor the listener closes here.
        if let Ok(listener) = listener.as_fd().try_clone_to_owned() {
            // What connects to systemd's waits for the next daemon.
            if !is_shared {
                let _ = rustix::net::shutdown(&listener, Shutdown::Both);
            }
            std::mem::forget(listener);
        }
    }
    drop(doors);
}

/// Takes over the control group that this process is in, if the policy limits what users' workers take of this machine.
fn groups(users: &Users, launcher: Option<&Launcher>) -> Result<Option<Arc<Groups>>, DaemonError> {
    let others: Vec<u32> = launcher.map(Launcher::process).into_iter().collect();
    users.limits_hosts().then(|| Groups::take_over(&others).map_err(DaemonError::Groups)).transpose()
}

/// The servers that have NCCL's connections: this one, reached by its own socket, and those that were named.
fn for_nccl(settings: &Settings, listeners: &[Listener]) -> Vec<Address> {
    let Some(path) = &settings.nccl else { return Vec::new() };
    log(format_args!("collectives: workers load NCCL where a program asks for it: {}", path.display()));
    let own = listeners.iter().map(Listener::address).find(|address| matches!(address, Address::Unix(..)));
    own.cloned().into_iter().chain(settings.peers.iter().cloned()).collect()
}

fn session_limits(settings: &Settings) -> SessionLimits {
    SessionLimits { sessions: settings.sessions, waiting: settings.max_waiting_per_peer }
}

/// Raises the limit of descriptors to its maximum, since each connection and session takes some. Returns the limit.
fn raise_descriptors() -> u64 {
    let limits = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limits.maximum, maximum: limits.maximum };
    // If the system refuses, the limit stays as it was.
    let _ = setrlimit(Resource::Nofile, raised);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Opens the cache of modules. Without it every module is sent each time, which is slow but no failure.
fn open_cache(place: &CachePlace) -> Option<Arc<ModuleCache>> {
    let failed = |error: &std::io::Error| {
        warn(format_args!("modules are not cached in {}: {error}", place.folder.display()));
    };
    ModuleCache::open(&place.folder, place.limit).inspect_err(failed).ok().map(Arc::new)
}

/// A socket that becomes readable on SIGHUP. Without files to read again, that ends the server as it ends other programs, but
/// not a service: its manager ends it by SIGTERM.
fn reload_signal(settings: &Settings) -> Result<Option<UnixStream>, DaemonError> {
    let has_files = settings.policy().is_some() || settings.audit().is_some() || settings.tls.is_some();
    let is_service = settings.until_exit_of.is_none() && notify::is_asked_for();
    (has_files || is_service).then(|| signals(&[SIGHUP])).transpose()
}

/// A socket that becomes readable on any of these signals.
fn signals(wanted: &[i32]) -> Result<UnixStream, DaemonError> {
    let failed = DaemonError::system("cannot wait for signals");
    let prepare = || {
        let (read, write) = UnixStream::pair()?;
        read.set_nonblocking(true)?;
        for signal in wanted {
            signal_hook::low_level::pipe::register(*signal, write.try_clone()?)?;
        }
        Ok(read)
    };
    prepare().map_err(failed)
}

/// Of a private daemon the end of the process that it serves, and the folder of its socket.
fn private(settings: &Settings) -> Result<(Option<OwnedFd>, Option<TempDir>), DaemonError> {
    let Some(process) = settings.until_exit_of else { return Ok((None, None)) };
    Ok((Some(watch(process)?), Some(private_folder()?)))
}

/// A descriptor that becomes readable when a process ends.
fn watch(process: i32) -> Result<OwnedFd, DaemonError> {
    let none = || DaemonError::system("cannot watch the served process")(std::io::ErrorKind::InvalidInput.into());
    let process = Pid::from_raw(process).ok_or_else(none)?;
    pidfd_open(process, PidfdFlags::empty())
        .map_err(|error| DaemonError::system("cannot watch the served process")(error.into()))
}

fn private_folder() -> Result<TempDir, DaemonError> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| Path::new(folder).is_dir());
    let parent = runtime.map_or_else(std::env::temp_dir, Into::into);
    // tempfile promises mode 0700.
    tempfile::Builder::new()
        .prefix("floe-")
        .tempdir_in(parent)
        .map_err(DaemonError::system("cannot make a folder for the private daemon's socket"))
}

fn token(settings: &Settings) -> Result<Option<Token>, DaemonError> {
    let Some(path) = &settings.token_file else { return Ok(None) };
    let (token, made) = Token::read_or_make(path)?;
    let verb = if made { "made a token; clients need a copy of it" } else { "clients need the token" };
    log(format_args!("{verb}: {}", path.display()));
    Ok(Some(token))
}

/// Prepares what only root can, and becomes the user that the operator names. Warns if the daemon stays root.
fn leave_root(settings: &Settings, account: Option<&Account>) -> Result<(), DaemonError> {
    if let Some(account) = account {
        let prepare = || {
            settings.module_cache.as_ref().map_or(Ok(()), |place| account.give(&place.folder))?;
            let Some(socket) = &settings.socket else { return Ok(()) };
            account.own(socket)?;
            // The folder is for sockets only if the daemon made it. In another folder the socket's file remains at the
            // end.
            match socket.parent() {
                Some(folder) if folder == Path::new(SOCKET_FOLDER) => account.own(folder),
                _ => Ok(()),
            }
        };
        prepare().map_err(DaemonError::system("cannot prepare folders for the user to run as"))?;
        account.become_it()?;
    } else if settings.worker_ids.is_some() {
        rights::give_up().map_err(DaemonError::system("cannot give up the rights to start workers as others"))?;
    }
    account::warn_of_root();
    Ok(())
}

/// Logs the missing parts of the workers' sandbox. Returns the text, which is logged with each session too.
fn say_what_protects(settings: &Settings, library: &str) -> Result<Option<String>, DaemonError> {
    let words = protection::words(&settings.worker, library, settings.sandbox)?;
    if let Some(words) = &words {
        warn(format_args!("WARNING: {words}: a client that takes over its worker is less confined"));
    }
    if settings.values.fixed_addresses {
        warn(format_args!(
            "WARNING: addresses are the same in every worker (--fixed-addresses): one attack works on all"
        ));
    }
    Ok(words)
}

/// Logs the `FLOE_` variables that no program reads, so that the operator notices a misspelt one.
fn say_unknown_variables() {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for unknown in floe_settings::unknown_variables(names) {
        warn(format_args!("{unknown}"));
    }
}

/// Warns the operator about clear text.
fn say_what_is_not_sealed(settings: &Settings) {
    for address in settings.tcp.iter().filter(|address| settings.clear_text && !is_loopback(address)) {
        warn(format_args!(
            "clear text is allowed: anyone on the network path can read and change what clients send to {address}"
        ));
    }
}

/// An empty table, with the GPUs that sessions may use. NVIDIA's driver divides its memory itself. The CPU device is a
/// separate one in each process, so the daemon divides its memory.
fn sessions(probe: &Probe, offered: &[u32], suspended_memory: u64) -> Sessions {
    let mut sessions = Sessions::default();
    sessions.accounting().offer(HOST_MEMORY, suspended_memory, false);
    for &index in offered {
        if let Some(gpu) = usize::try_from(index).ok().and_then(|index| probe.gpus.get(index)) {
            sessions.accounting().offer(index, gpu.free, probe.kind == "cpu");
        }
    }
    sessions
}

fn offered(wanted: &[u32], count: usize) -> Result<Vec<u32>, DaemonError> {
    let there = u32::try_from(count).unwrap_or(u32::MAX);
    match wanted.iter().find(|index| **index >= there) {
        Some(&index) => Err(DaemonError::Gpu { index, count }),
        None if wanted.is_empty() => Ok((0..there).collect()),
        None => Ok(wanted.to_vec()),
    }
}

/// The listeners for clients and the one for figures: what was handed over, and what is bound beside it.
fn listeners(
    settings: &Settings,
    private: Option<&Path>,
    handed: Handed,
) -> Result<(Vec<Listener>, Option<TcpListener>), DaemonError> {
    let (handed, port) = handed.into_listeners();
    for listener in &handed {
        log(format_args!("handed over by systemd: {}", listener.address()));
    }
    let socket = private.map(|folder| folder.join("floed.sock")).or_else(|| settings.socket.clone());
    let is_there = |address: &&Address| !handed.iter().any(|listener| listener.address() == *address);
    let mut addresses: Vec<Address> = settings.tcp.iter().filter(is_there).cloned().collect();
    if let Some(socket) = socket {
        make_folder_of(&socket)?;
        addresses.push(Address::unix(socket));
    }
    let bind = |address: &Address| {
        Listener::bind(address).map_err(|source| DaemonError::Listen { address: address.to_string(), source })
    };
    let bound = addresses.iter().map(bind).collect::<Result<Vec<_>, _>>()?;
    let port = port.map_or_else(|| settings.metrics.map(figures::listen).transpose(), |port| Ok(Some(port)))?;
    Ok((handed.into_iter().chain(bound).collect(), port))
}

/// Makes the folder of a socket, for its owner only, unless it exists.
fn make_folder_of(socket: &Path) -> Result<(), DaemonError> {
    match socket.parent() {
        Some(folder) if !folder.exists() => std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(DaemonError::system("cannot make the folder of the Unix socket")),
        _ => Ok(()),
    }
}

/// Writes the addresses to stdout. The process that started the daemon waits for these lines.
fn announce(listeners: &[Listener], private: bool) -> Result<(), DaemonError> {
    let word = if private { "ready" } else { "listening" };
    let mut stdout = std::io::stdout().lock();
    listeners
        .iter()
        .try_for_each(|listener| writeln!(stdout, "{word} {}", listener.address()))
        .and_then(|()| stdout.flush())
        .map_err(DaemonError::system("cannot write the addresses to stdout"))?;
    if !private {
        notify::tell(notify::READY);
    }
    Ok(())
}

/// Ends every session, with a word to its client, and later every worker that is left.
fn end_workers(server: &Server) {
    server.moves.end();
    server.sessions().end_all("the server ends");
    let start = Instant::now();
    while server.sessions().count_workers() > 0 && start.elapsed() < FAREWELL {
        std::thread::sleep(Duration::from_millis(5));
    }
    let enders = server.sessions().enders();
    enders.iter().for_each(|worker| worker.kill());
    server.mps.as_ref().map(Mps::end);
    server.launcher.as_ref().map(Launcher::end);
}
