//! The daemon's life: start, serve, end.
//! In: settings. Out: an exit without leftovers: no socket file, no worker process, no folder.

use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use floe_transport::{Address, Listener, kernel_tls};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use signal_hook::consts::{SIGINT, SIGTERM};
use tempfile::TempDir;

use crate::error::DaemonError;
use crate::listen::{Doors, accept_all};
use crate::options::Settings;
use crate::server::{Conversations, Server};
use crate::sessions::Sessions;
use crate::telemetry::Telemetry;
use crate::token::Token;
use crate::{log, probe};

/// How long workers may take to end when they are told to, before they are killed.
const FAREWELL: Duration = Duration::from_secs(2);

/// Serves until SIGTERM or SIGINT, or until a private daemon's process has ended.
///
/// # Errors
/// [`DaemonError`] when it cannot start or can no longer wait for connections.
pub fn run(settings: &Settings) -> Result<(), DaemonError> {
    let signal = end_signals()?;
    let served = settings.until_exit_of.map(watch).transpose()?;
    let folder = served.is_some().then(private_folder).transpose()?;
    let token = token(settings)?;
    say_who_seals(settings);
    let probe = probe::probe(&settings.worker, &settings.device_library)?;
    let offered = offered(&settings.gpus, probe.gpus.len())?;
    let listeners = listeners(settings, folder.as_ref().map(TempDir::path))?;
    announce(&listeners, served.is_some())?;
    let telemetry = Telemetry::new(&probe.kind);
    let server = Arc::new(Server {
        telemetry,
        // Workers open what the probe found, so that a session never gets another device than was offered.
        device_library: probe.library.clone(),
        probe,
        offered,
        token,
        tls: settings.tls.clone(),
        tls_only: settings.tls_only,
        worker: settings.worker.clone(),
        memory_per_session: settings.memory_per_session,
        shared_memory: settings.shared_memory,
        bulk_connections: settings.bulk_connections,
        transport_memory: settings.transport_memory,
        rings: settings.rings,
        grace: settings.grace,
        module_cache: settings.module_cache.clone(),
        max_sessions: settings.max_sessions,
        sessions: Mutex::new(Sessions::default()),
        conversations: Conversations::default(),
    });
    let doors = Doors { listeners, signal, served };
    let outcome = accept_all(&doors, &server);
    drop(doors);
    end_workers(&server);
    outcome
}

/// A socket that becomes readable on SIGTERM and SIGINT.
fn end_signals() -> Result<UnixStream, DaemonError> {
    let failed = DaemonError::system("waiting for signals");
    let prepare = || {
        let (read, write) = UnixStream::pair()?;
        signal_hook::low_level::pipe::register(SIGTERM, write.try_clone()?)?;
        signal_hook::low_level::pipe::register(SIGINT, write)?;
        Ok(read)
    };
    prepare().map_err(failed)
}

/// A descriptor that becomes readable when a process ends.
fn watch(process: i32) -> Result<std::os::fd::OwnedFd, DaemonError> {
    let none = || DaemonError::system("watching the served process")(std::io::ErrorKind::InvalidInput.into());
    let process = Pid::from_raw(process).ok_or_else(none)?;
    pidfd_open(process, PidfdFlags::empty())
        .map_err(|error| DaemonError::system("watching the served process")(error.into()))
}

fn private_folder() -> Result<TempDir, DaemonError> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| Path::new(folder).is_dir());
    let parent = runtime.map_or_else(std::env::temp_dir, Into::into);
    // Mode 0700: tempfile's own promise.
    tempfile::Builder::new()
        .prefix("floe-")
        .tempdir_in(parent)
        .map_err(DaemonError::system("making a folder for the private daemon's socket"))
}

fn token(settings: &Settings) -> Result<Option<Token>, DaemonError> {
    let Some(path) = &settings.token_file else { return Ok(None) };
    let (token, made) = Token::read_or_make(path)?;
    let verb = if made { "made a token; clients need a copy of it" } else { "clients need the token" };
    log(format_args!("{verb}: {}", path.display()));
    Ok(Some(token))
}

/// Where TLS is spoken, the operator may want to know what it costs.
fn say_who_seals(settings: &Settings) {
    match &settings.tls {
        None => {}
        Some(tls) if !tls.is_for_kernel() => log(format_args!("TLS: the records are made by this process")),
        Some(_) => match kernel_tls() {
            Ok(()) => log(format_args!("TLS: the records are made by the kernel")),
            Err(error) => {
                let words = "TLS: the records are made by this process, the kernel does not make them";
                log(format_args!("{words}: {error}\n  modprobe tls loads its module"));
            }
        },
    }
}

fn offered(wanted: &[u32], count: usize) -> Result<Vec<u32>, DaemonError> {
    let there = u32::try_from(count).unwrap_or(u32::MAX);
    match wanted.iter().find(|index| **index >= there) {
        Some(&index) => Err(DaemonError::Gpu { index, count }),
        None if wanted.is_empty() => Ok((0..there).collect()),
        None => Ok(wanted.to_vec()),
    }
}

fn listeners(settings: &Settings, private: Option<&Path>) -> Result<Vec<Listener>, DaemonError> {
    let socket = private.map(|folder| folder.join("floed.sock")).or_else(|| settings.socket.clone());
    let mut addresses: Vec<Address> = settings.tcp.clone().into_iter().collect();
    if let Some(socket) = socket {
        make_folder_of(&socket)?;
        addresses.push(Address::Unix(socket));
    }
    addresses.iter().map(|address| Listener::bind(address).map_err(DaemonError::from)).collect()
}

/// The folder of a socket, for its owner only, unless it is there already.
fn make_folder_of(socket: &Path) -> Result<(), DaemonError> {
    match socket.parent() {
        Some(folder) if !folder.exists() => std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(DaemonError::system("making the folder of the Unix socket")),
        _ => Ok(()),
    }
}

/// Says on stdout where it listens; whoever started it waits for these lines.
fn announce(listeners: &[Listener], private: bool) -> Result<(), DaemonError> {
    let word = if private { "ready" } else { "listening" };
    let mut stdout = std::io::stdout().lock();
    listeners
        .iter()
        .try_for_each(|listener| writeln!(stdout, "{word} {}", listener.address()))
        .and_then(|()| stdout.flush())
        .map_err(DaemonError::system("saying where it listens"))
}

/// Ends every worker: first politely, then not.
fn end_workers(server: &Server) {
    let tell = |signal| {
        for worker in server.sessions().workers() {
            let process = i32::try_from(worker).ok().and_then(Pid::from_raw);
            if let Some(process) = process {
                // It may have ended in this moment.
                let _ = kill_process(process, signal);
            }
        }
    };
    tell(Signal::TERM);
    let start = Instant::now();
    while server.sessions().count() > 0 && start.elapsed() < FAREWELL {
        std::thread::sleep(Duration::from_millis(5));
    }
    tell(Signal::KILL);
}
