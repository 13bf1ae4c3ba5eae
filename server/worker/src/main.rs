//! floe-worker: one session, or one look at the GPUs.
//! In: a task in the environment and the session's connections, handed over at standard input; or `--probe LIBRARY`.
//! Out: reports on standard output, words on standard error; the session on its connection. People start `floed` instead.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use floe_abi::CudaError;
use floe_transport::Link;
use floe_worker::contract::{Report, TASK_VARIABLE, Task};
use floe_worker::hand_over::{Role, Taker};
use floe_worker::{
    Cache, Ending, Gpu, Joining, Lasting, Log, OpenLibraryError, Output, Plan, Process, end, serve, use_rings,
    without_randomization,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, set_parent_process_death_signal};

const USAGE: &str = "floe-worker is started by floed: see floed --help\n  floe-worker --probe LIBRARY shows what a device library offers (auto, nvidia, cpu or a path)";
/// How often the use of memory and a missing client are reported at most.
const REPORT_EVERY: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// The exit status when the session ended otherwise than by its client's leaving.
const FAILED: u8 = 1;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match (arguments.as_slice(), std::env::var(TASK_VARIABLE)) {
        (["--version"], _) => {
            println!("floe-worker {}", env!("CARGO_PKG_VERSION"));
            Ok(())
        }
        (["--probe", library], _) => probe(library),
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
    let probe = floe_worker::probe(library)?;
    let mut line = serde_json::to_string(&probe)?;
    line.push('\n');
    (&answer).write_all(line.as_bytes())?;
    // The driver's exit handlers have nothing to do for us.
    end(0)
}

fn session(task: &str) -> Result<()> {
    // The daemon's end is noticed by its pipe too; this is for a worker that is stuck in the driver.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let task: Task = serde_json::from_str(task).with_context(|| format!("{TASK_VARIABLE} is no task"))?;
    if let Err(error) = without_randomization() {
        eprintln!("floe-worker: session {}: addresses stay random, so it cannot move: {error}", task.session);
    }
    let taker = Taker::new(io::stdin().as_fd().try_clone_to_owned()?);
    let reports = Reports::on_standard_output()?;
    let log = Log::to_standard_error(task.session)?;
    let nothing = File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    let output = Output::capture().context("files in memory for what kernels print")?;
    let seen = Seen::default();
    reports.watch(seen.clone(), log.clone())?;
    say_panics(log.clone());
    let Some((mut link, joining)) = own_connection(taker)? else { end(FAILED) };
    let ready = if task.rings { use_rings(&mut link, &log) } else { Ok(()) };
    let ending = match ready {
        Ok(()) => work(&task, link, joining, &seen, output, &reports, &log),
        Err(ending) => ending,
    };
    if ending != Ending::ClientLeft {
        log.line(format_args!("{ending}"));
    }
    reports.say(&Report::Ended(ending.to_string()));
    end(if ending == Ending::ClientLeft { 0 } else { FAILED })
}

/// The session's own connection, and what joins it; `None` when the daemon gives none.
fn own_connection(taker: Taker) -> Result<Option<(Link, Joining)>> {
    let mut early = Vec::new();
    loop {
        match taker.take().context("taking the session's connection over")? {
            Some((Role::Session, link)) => return Ok(Some((link, Joining { early, taker: Some(taker) }))),
            Some((Role::Joined, link)) => early.push(link),
            None => return Ok(None),
        }
    }
}

fn work(
    task: &Task,
    link: Link,
    joining: Joining,
    seen: &Seen,
    output: Output,
    reports: &Reports,
    log: &Log,
) -> Ending {
    let gpu = match Gpu::start(&task.library, task.gpu) {
        Ok(gpu) => gpu,
        Err(error) => return refuse(link, error),
    };
    reports.say(&Report::Ready);
    let plan = Plan {
        ordinal: task.ordinal,
        memory: task.memory,
        granularity: task.granularity,
        shared_memory: task.shared_memory,
        transport_memory: task.transport_memory,
        device_speaks: gpu.speaks(),
        cache: cache(task, log),
        used: Arc::clone(&seen.used),
        joining,
        lasting: lasting(task, &seen.broken),
    };
    serve(Arc::new(gpu), link, plan, output, log.clone())
}

/// How long the session outlives its connections, where it does.
fn lasting(task: &Task, broken: &Arc<AtomicBool>) -> Option<Lasting> {
    let grace = Duration::from_millis(task.grace_ms);
    let (bulk_connections, client) = (task.bulk_connections, task.client.and_then(Process::of));
    (!grace.is_zero()).then_some(Lasting { grace, bulk_connections, client, broken: Arc::clone(broken) })
}

/// The cache the daemon names. Without it every module is sent each time, which is slow and no failure.
fn cache(task: &Task, log: &Log) -> Option<Cache> {
    let place = task.cache.as_ref()?;
    let failed = |error: &io::Error| {
        log.line(format_args!("modules are not cached in {}: {error}", place.folder.display()));
    };
    Cache::open(&place.folder, place.limit).inspect_err(failed).ok()
}

/// Tells the client that there is no device for it.
fn refuse(mut link: Link, error: OpenLibraryError) -> Ending {
    let words = error.to_string();
    let ending = match error {
        OpenLibraryError::Driver { what, library, error } => {
            Ending::Device { what: format!("{what} of {library}"), error }
        }
        other => Ending::Device { what: other.to_string(), error: CudaError::DEVICE_UNAVAILABLE },
    };
    let status = ending.told().map_or(0, CudaError::code);
    // The client may be gone; the daemon hears it in any case.
    let _ = link.limit_writes(Some(Duration::from_secs(1)));
    let _ = link.send(&floe_wire::Ended { status, detail: &words });
    ending
}

/// A panic's words go to the daemon's log: fd 2 is the kernels'.
fn say_panics(log: Log) {
    std::panic::set_hook(Box::new(move |panic| log.line(format_args!("{panic}"))));
}

/// What the daemon is told of the session while it lasts.
#[derive(Clone, Default)]
struct Seen {
    /// Bytes of physical memory it holds.
    used: Arc<AtomicU64>,
    /// Whether its client is missing.
    broken: Arc<AtomicBool>,
}

/// The pipe to the daemon.
#[derive(Clone)]
struct Reports {
    pipe: Arc<Mutex<File>>,
}

impl Reports {
    fn on_standard_output() -> Result<Self> {
        let pipe: OwnedFd = io::stdout().as_fd().try_clone_to_owned()?;
        if !rustix::fs::fstat(&pipe).is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_fifo()) {
            bail!(USAGE);
        }
        Ok(Self { pipe: Arc::new(Mutex::new(File::from(pipe))) })
    }

    fn say(&self, report: &Report) {
        let Ok(mut line) = serde_json::to_string(report) else { return };
        line.push('\n');
        // A daemon that is gone is noticed by `watch`.
        let _ = self.pipe.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes());
    }

    /// Reports what the session uses and whether its client is missing when that changes, and ends this process when the daemon is gone.
    fn watch(&self, seen: Seen, log: Log) -> Result<()> {
        let reports = self.clone();
        let pipe = self.pipe.lock().unwrap_or_else(PoisonError::into_inner).try_clone()?;
        let watch = move || {
            let mut last = (0, false);
            loop {
                // Only errors are asked for: a pipe that nobody reads any more has one.
                let mut fds = [PollFd::new(&pipe, PollFlags::empty())];
                if matches!(poll(&mut fds, Some(&REPORT_EVERY)), Ok(1..)) {
                    log.line(format_args!("the daemon is gone"));
                    end(FAILED);
                }
                let now = (seen.used.load(Ordering::Relaxed), seen.broken.load(Ordering::Relaxed));
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
