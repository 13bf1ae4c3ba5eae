//! floe-worker: one session, or one look at the GPUs.
//! In: a task in the environment and the session's connections, passed at standard input; or `--probe LIBRARY`.
//! Out: reports on standard output, words on standard error; the session on its connection. People start `floed` instead.
#![deny(unsafe_code)]

#[path = "life/probing.rs"]
mod probing;
#[path = "daemon/reports.rs"]
mod reports;
#[path = "sandbox/sockets.rs"]
mod sockets;

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use anyhow::{Context as _, Result};
use floe_abi::CudaError;
use floe_device::cupti::Cupti;
use floe_device::{Device, Gpu, OpenLibraryError, Place, Probe, room};
use floe_launcher::{Launcher, READY};
use floe_transport::{Link, Transport};
use floe_worker::contract::{Asks, Demand, Report, TASK_VARIABLE, Task};
use floe_worker::descriptor_passing::{Noticed, Passed, Role, Taker};
use floe_worker::end_notices::EndOrder;
use floe_worker::peer_notices::Answers;
use floe_worker::sandbox::Reserved;
use floe_worker::turn_notices::TurnEnds;
use floe_worker::{
    Asking, Cache, Ending, Grants, Joining, Log, MoveEnds, Output, PEER_PATIENCE, PeerEnds, Plan, Process, Resumption,
    STANDS_VARIABLE, Stands, Watchdog, allocate_from_one_heap, arrive, bound_host_memory, close_inherited, end, keep,
    leave_no_room, mps, one_entry, sandbox, serve, use_rings, without_randomization,
};
use reports::{FAILED, Reports, Seen};
use rustix::net::SendFlags;
use rustix::process::{PidfdFlags, Signal, getppid, pidfd_open, set_parent_process_death_signal};

const USAGE: &str = "floe-worker is started by floed: see floed --help\n  floe-worker --probe LIBRARY shows what a device library offers (auto, nvidia, cpu or a path)\n  floe-worker --check-sandbox LIBRARY shows what protects others from a worker on it";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match (arguments.as_slice(), std::env::var(TASK_VARIABLE)) {
        (["--version"], _) => {
            println!("floe-worker {}", floe_wire::version(option_env!("FLOE_COMMIT")));
            Ok(())
        }
        (["--probe", library], _) => show(|| probing::probe(library)),
        ([probing::ONE, library], _) => show(|| Ok(floe_device::probe(library)?)),
        (["--check-sandbox", library], _) => check_sandbox(library),
        ([floe_launcher::LAUNCHER, ids, user, group], _) => launch(ids, user, group),
        ([floe_launcher::SWEEP, first, last, own], _) => sweep(first, last, own),
        (["--mps-control", program], _) => Err(mps::become_control(program)).with_context(|| (*program).to_owned()),
        ([], Ok(task)) => session(&task),
        _ => Err(anyhow::anyhow!(USAGE)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("floe-worker: {error:#}");
            ExitCode::from(FAILED)
        }
    }
}

fn show(probe: impl FnOnce() -> Result<Probe>) -> Result<()> {
    // A driver may print; what it prints must not stand in our answer.
    let answer = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    rustix::stdio::dup2_stdout(io::stderr())?;
    let mut line = serde_json::to_string(&probe()?)?;
    line.push('\n');
    (&answer).write_all(line.as_bytes())?;
    // The driver's exit handlers have nothing to do for us.
    end(0)
}

/// Enters the sandbox as a session does, and says what of it holds.
fn check_sandbox(library: &str) -> Result<()> {
    let mut line = serde_json::to_string(&sandbox::enter(Path::new(library), &[], Demand::Usual)?)?;
    line.push('\n');
    io::stdout().write_all(line.as_bytes())?;
    Ok(())
}

/// Ends all processes of these users.
fn sweep(first: &str, last: &str, own: &str) -> Result<()> {
    Ok(floe_launcher::sweep(first.parse()?..=last.parse()?, own.parse()?)?)
}

/// Becomes the launcher of workers with these ids, for the daemon at standard input, which runs as this user and group.
fn launch(ids: &str, user: &str, group: &str) -> Result<()> {
    close_inherited()?;
    // Signals for the daemon's group are not for it.
    let _ = rustix::process::setsid();
    let daemon = io::stdin().as_fd().try_clone_to_owned()?;
    let parent = getppid().context("the daemon has ended")?;
    let life = pidfd_open(parent, PidfdFlags::empty())?;
    let prepare = || -> Result<Launcher> {
        let (user, group) = (user.parse()?, group.parse()?);
        let launcher = Launcher::new(ids.parse()?, std::env::current_exe()?);
        floe_launcher::keep_what_sweeps_need()?;
        sandbox::empty_bounding_set()?;
        floe_launcher::become_launcher(user, group).context("keeping the rights to start workers only")?;
        launcher.begin().context("ending what earlier workers have left")?;
        Ok(launcher)
    };
    let prepared = prepare();
    let word = prepared.as_ref().map_or_else(|error| format!("{error:#}"), |_| READY.to_owned());
    floe_launcher::send(&daemon, word.as_bytes(), &[], SendFlags::empty())?;
    Ok(prepared?.serve(&daemon, &life)?)
}

/// Becomes a process that harms nobody but its own session, whatever a client makes of it. Nothing of the client has been read.
/// Returns what cannot be found from within: the client's process, the way on which descriptors go to the daemon, and this
/// process's mappings.
fn shut_in(task: &Task) -> Result<(Option<Process>, Reserved, Option<File>)> {
    // Those that come are the daemon's.
    floe_transport::write_without_descriptors();
    if let Err(error) = close_inherited() {
        eprintln!("floe-worker: session {}: inherited descriptors stay open: {error}", task.session);
    }
    if task.fixed_addresses
        && let Err(error) = without_randomization()
    {
        eprintln!("floe-worker: session {}: addresses stay random, so it cannot move: {error}", task.session);
    }
    // Neither the daemon's terminal nor its signals are a session's. A worker that leads a session already is as good.
    let _ = rustix::process::setsid();
    let client = task.client.and_then(Process::of);
    bound_host_memory(task.session, task.host_memory);
    // The only way on which descriptors leave this process; standard input is the socket to the daemon.
    let reserved = sandbox::reserve(io::stdin().as_fd(), task.sandbox != Demand::Off)
        .context("reserving the way to the daemon")?;
    let mappings =
        if task.ceiling == 0 { None } else { Some(room::mappings().context("listing this process's mappings")?) };
    // The daemon has already logged which parts of it the kernel lacks.
    let others: Vec<&Path> = [&task.nccl, &task.cupti].into_iter().flatten().map(Path::new).collect();
    sandbox::enter(Path::new(&task.library), &others, task.sandbox)?;
    Ok((client, reserved, mappings))
}

fn session(task: &str) -> Result<()> {
    floe_launcher::pass_nothing_on().context("giving up what programs could inherit")?;
    // The daemon's end is noticed by its pipe too; this is for a worker that is stuck in the driver.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let task: Task = serde_json::from_str(task).with_context(|| format!("{TASK_VARIABLE} is no task"))?;
    allocate_from_one_heap().context("one heap for all threads")?;
    let (client, reserved, mappings) = shut_in(&task)?;
    let taker = Taker::new(io::stdin().as_fd().try_clone_to_owned()?);
    let reports = Reports::on_standard_output().map_err(|_| anyhow::anyhow!(USAGE))?;
    let seen = Seen::default();
    let reports = if task.counts { reports.counting(&seen.carried) } else { reports };
    let log = Log::to_standard_error(task.session)?;
    let (noticed, notices) = channel();
    let (ordered, orders) = channel();
    let (turned, turns) = channel();
    let (ended, end_orders) = channel();
    let taker = taker.noticing(noticed).moving(ordered).turning(turned.clone()).ending(ended);
    let turning = reports.clone();
    let turns =
        TurnEnds { events: (turned, turns), report: Box::new(move |report| turning.say_paced(&Report::Turn(report))) };
    let moves = MoveEnds { session: task.session, orders, reports: Box::new(reports.clone()) };
    let asking = reports.clone();
    let (taker, grants) = if task.asks == Asks::Never {
        (taker, None)
    } else {
        Asking::begin(taker, task.asks, move |report| asking.say(report))
    };
    let nothing = File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    let output = Output::capture().context("files in memory for what kernels print")?;
    let watchdog = reports.watchdog(&task)?;
    reports.watch(seen.clone(), log.clone(), watchdog.clone())?;
    say_panics(log.clone(), watchdog.clone());
    let resumption = resumption(&task, client, &seen.broken);
    let told = Told { reports: &reports, log: &log, watchdog: &watchdog };
    let peers = Peers { reserved, notices, moves, turns, end: end_orders, mappings, seen: &seen };
    let begun = match task.arrives {
        Some(_) => Ok((None, Joining::new(Vec::new(), Some(taker)), None)),
        None => begin(&task, taker, &told)?,
    };
    let mut used = None;
    let ending = match begun {
        Ok((link, joining, cache)) => {
            let connections = Connections { link, joining, resumption, cache };
            work(&task, connections, peers, output, grants, &told, &mut used)
        }
        Err(ending) => ending,
    };
    watchdog.is_over();
    // What the daemon ends, it has said itself.
    if !matches!(ending, Ending::ClientLeft | Ending::Ordered(_)) {
        log.line(format_args!("{ending}"));
    }
    reports.say_carried();
    reports.say(&Report::Ended(one_entry(&ending.to_string())));
    if let Some(gpu) = used.filter(|_| task.mps) {
        mps::drain(&*gpu);
    }
    end(if matches!(ending, Ending::ClientLeft | Ending::Moved) { 0 } else { FAILED })
}

/// What a session that begins here has of connections, once its own one has its transport.
type Own = (Option<Link>, Joining, Option<Cache>);

/// Waits for the session's own connection.
fn begin(task: &Task, taker: Taker, told: &Told<'_>) -> Result<Result<Own, Ending>> {
    let Some((mut link, joining, cache)) = own_connection(taker)? else { end(FAILED) };
    told.watchdog.begins(&link);
    let ready = match task.transport {
        Transport::Socket => Ok(()),
        Transport::Rings => use_rings(&mut link, told.log),
    };
    Ok(ready.map(|()| (Some(link), joining, cache)))
}

/// The session's own connection, what joins it, and the cache where there is one; `None` when the daemon gives no connection.
fn own_connection(taker: Taker) -> Result<Option<(Link, Joining, Option<Cache>)>> {
    let (mut early, mut cache) = (Vec::new(), None);
    loop {
        match taker.take().context("taking the session's connection over")? {
            Some(Passed::Connection(Role::Session, link)) => {
                return Ok(Some((link, Joining::new(early, Some(taker)), cache)));
            }
            Some(Passed::Connection(Role::Joined, link)) => early.push(link),
            // There is no ticket for one yet.
            Some(Passed::Connection(Role::Peer, _)) => {}
            Some(Passed::Modules(end)) => cache = Some(Cache::new(end)),
            None => return Ok(None),
        }
    }
}

/// The client's connection.
struct Connections {
    /// `None`: the session arrives here.
    link: Option<Link>,
    joining: Joining,
    resumption: Option<Resumption>,
    cache: Option<Cache>,
}

/// The session's ways to other sessions, and its figures.
struct Peers<'a> {
    reserved: Reserved,
    notices: Receiver<Noticed>,
    moves: MoveEnds,
    turns: TurnEnds,
    /// Where the daemon's order to end comes.
    end: Receiver<EndOrder>,
    /// This process's mappings, where the driver is to find room below a ceiling only.
    mappings: Option<File>,
    seen: &'a Seen,
}

/// The receivers of the session's reports.
struct Told<'a> {
    reports: &'a Reports,
    log: &'a Log,
    watchdog: &'a Watchdog,
}

fn work(
    task: &Task,
    Connections { link, joining, resumption, cache }: Connections,
    Peers { reserved, notices, moves, turns, end, mappings, seen }: Peers<'_>,
    output: Output,
    grants: Option<Box<dyn Grants>>,
    &Told { reports, log, watchdog }: &Told<'_>,
    used: &mut Option<Arc<Gpu>>,
) -> Ending {
    let gpu = match start_gpu(task, mappings, log) {
        Ok(gpu) => gpu.map(Arc::new),
        Err(error) => {
            watchdog.is_over();
            return refuse(link, error);
        }
    };
    used.clone_from(&gpu);
    let cupti = if gpu.is_some() { load_cupti(task) } else { None };
    if let Err(error) = close_sandbox(task, &reserved, log) {
        watchdog.is_over();
        // Without a sandbox there is no session.
        let unavailable = CudaError::DEVICE_UNAVAILABLE;
        say_ended(link, unavailable.code(), "the server's log says why");
        return Ending::Device { what: error.to_string(), error: unavailable };
    }
    if gpu.is_some() {
        reports.say(&Report::Ready);
    }
    let ends = PeerEnds {
        // Until the session is this worker's, it imports by a number of its own.
        session: task.arrives.map_or(task.session, |arrival| arrival.importer),
        reports: Box::new(reports.clone()),
        notices,
        answers: Answers::over(reserved),
        beside: Arc::clone(&seen.beside),
        patience: PEER_PATIENCE,
    };
    let plan = Plan {
        ordinal: task.ordinal,
        memory: task.memory,
        granularity: task.granularity,
        host_memory: task.host_memory,
        grants,
        shared_memory: task.shared_memory,
        mirrored_memory: task.mirrored_memory,
        transport_memory: task.transport_memory,
        device_speaks: gpu.as_ref().is_some_and(|gpu| gpu.speaks()),
        cache,
        used: Arc::clone(&seen.used),
        carried: Arc::clone(&seen.carried),
        joining,
        peers: Some(ends),
        nccl: task.nccl.as_ref().map(PathBuf::from),
        nodes: task.nodes,
        cupti,
        moves: Some(moves),
        turns: Some(turns),
        end: Some(end),
        stands: std::env::var(STANDS_VARIABLE).map(|text| Stands::of(&text)).unwrap_or_default(),
        resumption,
        idle: (task.idle_ms > 0).then(|| Duration::from_millis(task.idle_ms)),
        watchdog: watchdog.clone(),
    };
    match (gpu, link, task.arrives) {
        (Some(gpu), Some(link), _) => serve(gpu, link, plan, output, log.clone()),
        (Some(gpu), None, Some(arrival)) => arrive(gpu, arrival, plan, output, log.clone()),
        (None, None, Some(arrival)) => keep::<<Gpu as Device>::Mapped>(arrival, plan, log),
        _ => Ending::Bug("a session without a connection or a device".into()),
    }
}

/// Takes away what only the driver's start needed, and says what the kernel could not take.
fn close_sandbox(task: &Task, reserved: &Reserved, log: &Log) -> Result<(), sandbox::SandboxError> {
    let missing = sandbox::close_behind_start(task.sandbox, Some(reserved))?;
    missing.iter().for_each(|words| log.line(format_args!("the sandbox is incomplete: {words}")));
    Ok(())
}

/// The CUPTI that profilers may want, loaded ahead of the sandbox's end, as the driver is. It does nothing until one does.
fn load_cupti(task: &Task) -> Option<Result<Arc<Cupti>, String>> {
    let path = task.cupti.as_ref()?;
    let loaded = Cupti::open(Path::new(&task.library), Path::new(path));
    Some(loaded.map(Arc::new).map_err(|error| error.to_string()))
}

/// Starts the device; `None`: the session is kept without one.
fn start_gpu(task: &Task, mappings: Option<File>, log: &Log) -> Result<Option<Gpu>, OpenLibraryError> {
    if task.arrives.is_some_and(|arrival| arrival.keeps.is_some()) {
        return Ok(None);
    }
    let ahead = || leave_no_room(mappings, task.ceiling, log);
    let place = if task.alone { Place::Alone(task.gpu) } else { Place::Among(task.gpu) };
    let mut gpu = Gpu::start(&task.library, place, ahead)?;
    if task.mps {
        // MPS would want another connection, and this process makes none.
        gpu.keep_context().map_err(|error| OpenLibraryError::Driver {
            what: "cuCtxGetLimit",
            library: task.library.clone(),
            error,
        })?;
    }
    if let Some(error) = gpu.lacks_own_kernel() {
        log.line(format_args!("a move of it would take long, since floe's own kernel does not load: {error}"));
    }
    Ok(Some(gpu))
}

/// The session's grace period, if it is resumable.
fn resumption(task: &Task, client: Option<Process>, broken: &Arc<AtomicBool>) -> Option<Resumption> {
    let grace = Duration::from_millis(task.grace_ms);
    let bulk_connections = task.bulk_connections;
    (!grace.is_zero()).then_some(Resumption { grace, bulk_connections, client, broken: Arc::clone(broken) })
}

/// Tells the client that there is no device for it, but not where the server's files lie.
fn refuse(link: Option<Link>, error: OpenLibraryError) -> Ending {
    let words = match &error {
        OpenLibraryError::Driver { what, error, .. } => format!("{what}: {error}"),
        _ => "the server's device library cannot be used; its log says why".to_owned(),
    };
    let ending = match error {
        OpenLibraryError::Driver { what, library, error } => {
            Ending::Device { what: format!("{what} of {library}"), error }
        }
        other => Ending::Device { what: other.to_string(), error: CudaError::DEVICE_UNAVAILABLE },
    };
    say_ended(link, ending.told().map_or(0, CudaError::code), &words);
    ending
}

/// The client may be gone; the daemon hears it in any case.
fn say_ended(link: Option<Link>, status: u32, detail: &str) {
    if let Some(mut link) = link {
        let _ = link.limit_writes(Some(Duration::from_secs(1)));
        let _ = link.send(&floe_wire::Ended { status, detail });
    }
}

/// A panic's words go to the daemon's log: fd 2 is the kernels'. It ends the session, whatever the thread still waits for.
fn say_panics(log: Log, watchdog: Watchdog) {
    std::panic::set_hook(Box::new(move |panic| {
        watchdog.is_over();
        log.line(format_args!("{panic}"));
    }));
}
