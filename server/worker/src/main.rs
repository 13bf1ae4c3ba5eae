//! floe-worker: one session, or one look at the GPUs.
//! In: a task in the environment and the session's connections, passed at standard input; or `--probe LIBRARY`.
//! Out: reports on standard output, words on standard error; the session on its connection. People start `floed` instead.
#![deny(unsafe_code)]

#[path = "sandbox/sockets.rs"]
mod sockets;

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use floe_abi::CudaError;
use floe_device::cupti::Cupti;
use floe_device::{Device, Gpu, OpenLibraryError, room};
use floe_transport::{Link, Transport};
use floe_worker::contract::{Asks, Demand, MOST_REPORTS, MoveReport, Report, STUCK, TASK_VARIABLE, Task};
use floe_worker::descriptor_passing::{Noticed, Passed, Role, Taker};
use floe_worker::end_notices::EndOrder;
use floe_worker::peer_notices::{Answers, Dial, Import, MOST_RETURNED, Returned};
use floe_worker::sandbox::Reserved;
use floe_worker::turn_notices::TurnEnds;
use floe_worker::{
    ASK_EVERY, Asking, Cache, Ending, Grants, Joining, Log, MoveEnds, MoveReports, Output, PEER_PATIENCE, PeerEnds,
    PeerReports, Plan, Process, Resumption, STANDS_VARIABLE, Stands, Watchdog, allocate_from_one_arena, arrive,
    bound_host_memory, close_inherited, end, keep, leave_no_room, one_entry, sandbox, serve, use_rings,
    without_randomization,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, set_parent_process_death_signal};

const USAGE: &str = "floe-worker is started by floed: see floed --help\n  floe-worker --probe LIBRARY shows what a device library offers (auto, nvidia, cpu or a path)\n  floe-worker --check-sandbox LIBRARY shows what protects others from a worker on it";
/// The shortest time between two reports of used memory and of a missing client.
const REPORT_EVERY: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// Reports about imports in a second. Where a program opens its blocks to another vGPU, each is one: thousands at once.
const PEER_REPORTS: u32 = MOST_REPORTS / 2;
/// The exit status when the session ended otherwise than by its client's leaving.
const FAILED: u8 = 1;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match (arguments.as_slice(), std::env::var(TASK_VARIABLE)) {
        (["--version"], _) => {
            println!("floe-worker {}", floe_wire::version(option_env!("FLOE_COMMIT")));
            Ok(())
        }
        (["--probe", library], _) => probe(library),
        (["--check-sandbox", library], _) => check_sandbox(library),
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

fn probe(library: &str) -> Result<()> {
    // A driver may print; what it prints must not stand in our answer.
    let answer = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    rustix::stdio::dup2_stdout(io::stderr())?;
    let probe = floe_device::probe(library)?;
    let mut line = serde_json::to_string(&probe)?;
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
    // The daemon's end is noticed by its pipe too; this is for a worker that is stuck in the driver.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let task: Task = serde_json::from_str(task).with_context(|| format!("{TASK_VARIABLE} is no task"))?;
    allocate_from_one_arena().context("one arena for all threads")?;
    let (client, reserved, mappings) = shut_in(&task)?;
    let taker = Taker::new(io::stdin().as_fd().try_clone_to_owned()?);
    let reports = Reports::on_standard_output()?;
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
    let seen = Seen::default();
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
    let ending = match begun {
        Ok((link, joining, cache)) => {
            work(&task, Connections { link, joining, resumption, cache }, peers, output, grants, &told)
        }
        Err(ending) => ending,
    };
    watchdog.is_over();
    // What the daemon ends, it has said itself.
    if !matches!(ending, Ending::ClientLeft | Ending::Ordered(_)) {
        log.line(format_args!("{ending}"));
    }
    reports.say(&Report::Ended(one_entry(&ending.to_string())));
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
) -> Ending {
    let gpu = match start_gpu(task, mappings, log) {
        Ok(gpu) => gpu,
        Err(error) => {
            watchdog.is_over();
            return refuse(link, error);
        }
    };
    let cupti = if gpu.is_some() { load_cupti(task) } else { None };
    match sandbox::close_behind_start(task.sandbox, Some(&reserved)) {
        Ok(missing) => missing.iter().for_each(|words| log.line(format_args!("the sandbox is incomplete: {words}"))),
        Err(error) => {
            watchdog.is_over();
            // Without a sandbox there is no session.
            let unavailable = CudaError::DEVICE_UNAVAILABLE;
            say_ended(link, unavailable.code(), "the server's log says why");
            return Ending::Device { what: error.to_string(), error: unavailable };
        }
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
        device_speaks: gpu.as_ref().is_some_and(Gpu::speaks),
        cache,
        used: Arc::clone(&seen.used),
        joining,
        peers: Some(ends),
        nccl: task.nccl.as_ref().map(PathBuf::from),
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
        (Some(gpu), Some(link), _) => serve(Arc::new(gpu), link, plan, output, log.clone()),
        (Some(gpu), None, Some(arrival)) => arrive(Arc::new(gpu), arrival, plan, output, log.clone()),
        (None, None, Some(arrival)) => keep::<<Gpu as Device>::Mapped>(arrival, plan, log),
        _ => Ending::Bug("a session without a connection or a device".into()),
    }
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
    let gpu = Gpu::start(&task.library, task.gpu, || leave_no_room(mappings, task.ceiling, log))?;
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

/// The figures of a running session that the daemon gets.
#[derive(Clone, Default)]
struct Seen {
    /// Bytes of physical memory it holds.
    used: Arc<AtomicU64>,
    /// Bytes beside these that it pays for.
    beside: Arc<AtomicU64>,
    /// Whether its client is missing.
    broken: Arc<AtomicBool>,
}

/// The pipe to the daemon.
#[derive(Clone)]
struct Reports {
    pipe: Arc<Mutex<File>>,
    returned: Arc<Mutex<Paced>>,
}

impl Reports {
    fn on_standard_output() -> Result<Self> {
        let pipe: OwnedFd = io::stdout().as_fd().try_clone_to_owned()?;
        if !rustix::fs::fstat(&pipe).is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_fifo()) {
            bail!(USAGE);
        }
        Ok(Self { pipe: Arc::new(Mutex::new(File::from(pipe))), returned: Arc::default() })
    }

    fn say(&self, report: &Report) {
        let Ok(mut line) = serde_json::to_string(report) else { return };
        line.push('\n');
        // A daemon that is gone is noticed by `watch`.
        let _ = floe_lock::lock(&self.pipe).write_all(line.as_bytes());
    }

    /// Starts what ends this process when nothing else does.
    fn watchdog(&self, task: &Task) -> Result<Watchdog> {
        let daemon = OwnedFd::from(floe_lock::lock(&self.pipe).try_clone()?);
        Ok(Watchdog::start(Duration::from_millis(task.grace_ms), daemon, || end(STUCK))?)
    }

    /// Reports what the session uses and whether its client is missing when that changes, and ends this process when the daemon is gone.
    fn watch(&self, seen: Seen, log: Log, watchdog: Watchdog) -> Result<()> {
        let reports = self.clone();
        let pipe = floe_lock::lock(&self.pipe).try_clone()?;
        let watch = move || {
            let mut last = (0, false);
            loop {
                // Only errors are asked for: a pipe that nobody reads any more has one.
                let mut fds = [PollFd::new(&pipe, PollFlags::empty())];
                if matches!(poll(&mut fds, Some(&REPORT_EVERY)), Ok(1..)) {
                    watchdog.is_over();
                    log.line(format_args!("the daemon is gone"));
                    end(FAILED);
                }
                reports.say_returned(Instant::now());
                let used = seen.used.load(Ordering::Relaxed).saturating_add(seen.beside.load(Ordering::Relaxed));
                let now = (used, seen.broken.load(Ordering::Relaxed));
                if now.0 != last.0 {
                    reports.say(&Report::Used(now.0));
                }
                if now.1 != last.1 {
                    reports.say(&Report::Broken(now.1));
                }
                last = now;
            }
        };
        std::thread::Builder::new().name("floe-report".into()).spawn(watch)?;
        Ok(())
    }
}

/// Imports that were let go and not said yet, and the reports about imports of the present second. The daemon takes a
/// worker that reports without end for a hostile one.
#[derive(Default)]
struct Paced {
    unsaid: Vec<Returned>,
    second: Option<Instant>,
    reports: u32,
}

impl Paced {
    /// Whether one more report may leave.
    fn may_say(&mut self, now: Instant) -> bool {
        if self.second.is_none_or(|second| now.saturating_duration_since(second) >= Duration::from_secs(1)) {
            (self.second, self.reports) = (Some(now), 0);
        }
        self.reports += 1;
        self.reports <= PEER_REPORTS
    }
}

impl Reports {
    /// Says something of which there may not be more than so many in a second.
    fn say_paced(&self, report: &Report) {
        while !floe_lock::lock(&self.returned).may_say(Instant::now()) {
            std::thread::sleep(ASK_EVERY);
        }
        self.say(report);
    }

    /// Says what was let go, where it may; else the next report or the next second does.
    fn say_returned(&self, now: Instant) {
        loop {
            let mut paced = floe_lock::lock(&self.returned);
            if paced.unsaid.is_empty() || !paced.may_say(now) {
                return;
            }
            let count = paced.unsaid.len().min(MOST_RETURNED);
            let said = paced.unsaid.drain(..count).collect();
            drop(paced);
            self.say(&Report::Returned(said));
        }
    }
}

impl MoveReports for Reports {
    fn say(&self, report: MoveReport) {
        Reports::say(self, &Report::Move(report));
    }
}

impl PeerReports for Reports {
    fn import(&self, import: Import) {
        self.say_paced(&Report::Import(import));
    }

    fn dial(&self, dial: Dial) {
        self.say_paced(&Report::Dial(dial));
    }

    fn returned(&self, returned: Returned) {
        floe_lock::lock(&self.returned).unsaid.push(returned);
        self.say_returned(Instant::now());
    }
}
