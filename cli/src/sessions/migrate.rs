//! `floe migrate`: moves a running session to another worker of its server.
//! In: a session's number, where it is to go. Out: progress on stderr, the result on stdout. Ctrl-C gives the move up, as long
//! as the session has not been moved.

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use floe_migrate::{Action, Phase};
use floe_session::{Canceller, Inquiry, Migration, MigrationNews};
use floe_wire::{Call as _, Migrate, MigrateReply, Migrating};
use serde::Serialize;

use crate::{servers, table};

/// The exit code after a second Ctrl-C: that of a shell for it.
const CANCELLED: i32 = 130;

/// Flags of `floe migrate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The session, by its number in `floe ps`
    session: u64,
    /// The GPU to go to, by its index on the server; the session's own: a new worker there [default: the other one with the most free memory]
    #[arg(long, value_name = "GPU")]
    to: Option<u32>,
    /// Copy all memory while the program stands, none before
    #[arg(long)]
    stop_and_copy: bool,
    #[command(flatten)]
    how: How,
}

/// Flags of every command that moves sessions.
#[derive(Debug, clap::Args)]
pub(crate) struct How {
    /// The longest time to stop a program and let its work end, before it goes on and is stopped again later
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = humantime::parse_duration)]
    patience: Duration,
    /// The server: HOST [default: that of the settings, else this machine's daemon]
    #[arg(long, value_name = "HOST")]
    on: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl How {
    /// The one server that is asked.
    pub(crate) fn server(&self) -> Result<String> {
        servers::one(self.on.as_deref())
    }

    pub(crate) fn patience_ms(&self) -> u32 {
        u32::try_from(self.patience.as_millis()).unwrap_or(u32::MAX)
    }
}

/// A move that was made.
#[derive(Debug, Serialize)]
pub(crate) struct Moved {
    server: String,
    pub(crate) session: u64,
    /// `None`: the session is suspended.
    pub(crate) gpu: Option<u32>,
    /// The worker's process id on the server; 0: it is not shown.
    pub(crate) worker: u32,
    /// How long the program stood, by the server's clock.
    pub(crate) pause_ms: f64,
    longest_pause_ms: f64,
    retries: u32,
    pub(crate) bytes: u64,
    rounds: u32,
    phases: Vec<PhaseTime>,
}

impl Moved {
    /// Where the session is now.
    pub(crate) fn heading(&self) -> String {
        let gpu = self.gpu.unwrap_or_default();
        format!("session {} is on GPU {gpu}; the program stood for {:.1} ms", self.session, self.pause_ms)
    }
}

#[derive(Debug, Serialize)]
struct PhaseTime {
    phase: String,
    ms: f64,
}

/// Asks for the move and shows it until it is over.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let how = &arguments.how;
    let server = how.server()?;
    let message = order(arguments.session, arguments.to, arguments.stop_and_copy, how.patience_ms());
    let moved = ask(server, &message, !how.json)?;
    print(&moved, &moved.heading(), how.json)?;
    Ok(ExitCode::SUCCESS)
}

/// Asks for a move and waits until it is over, with progress where it is to be shown.
pub(crate) fn ask(server: String, message: &Migrate<'_>, is_shown: bool) -> Result<Moved> {
    let migration = begin(&server, message)?;
    cancel_by_signal(migration.canceller())?;
    let mut shown = Shown::new(is_shown);
    let moved = follow(migration, server, message, |news| shown.goes(news))?;
    shown.ends();
    Ok(moved)
}

/// Asks for a move and waits until it is over, beside a screen that shows it by itself.
pub(crate) fn ask_unseen(server: String, message: &Migrate<'_>) -> Result<Moved> {
    follow(begin(&server, message)?, server, message, |_| {})
}

/// The message that orders a move; `to`: the GPU, or the server chooses.
pub(crate) fn order(session: u64, to: Option<u32>, stop_and_copy: bool, patience_ms: u32) -> Migrate<'static> {
    let (gpu, action) = (to.unwrap_or(u32::MAX), Action::Move.number());
    Migrate { session, key: &[], gpu, stop_and_copy, patience_ms, action }
}

fn begin(server: &str, message: &Migrate<'_>) -> Result<Migration> {
    Ok(Inquiry::open(server, &servers::settings()?.credentials)?.migrate(message)?)
}

/// Waits until a move is over.
fn follow(
    mut migration: Migration,
    server: String,
    message: &Migrate<'_>,
    mut goes: impl FnMut(&Migrating),
) -> Result<Moved> {
    let body = loop {
        match migration.news()? {
            MigrationNews::Goes(news) => goes(&news),
            MigrationNews::Done(body) => break body,
        }
    };
    let reply = Migrate::decode_reply(&body).with_context(|| format!("{server} does not speak floe's protocol"))?;
    Ok(moved(server, message.session, &reply))
}

/// The first Ctrl-C gives the move up; the second ends this process, which gives it up too.
fn cancel_by_signal(canceller: Canceller) -> Result<()> {
    let (mut read, write) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(signal_hook::consts::SIGINT, write)?;
    let wait = move || {
        let mut byte = [0];
        if read.read_exact(&mut byte).is_ok() {
            eprintln!("floe: giving the move up");
            canceller.cancel();
        }
        if read.read_exact(&mut byte).is_ok() {
            std::process::exit(CANCELLED);
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait)?;
    Ok(())
}

/// Progress as it is shown: a line that changes on a terminal, else a line for each phase.
struct Shown {
    is_wanted: bool,
    is_terminal: bool,
    last: Option<u32>,
}

impl Shown {
    fn new(is_wanted: bool) -> Self {
        Self { is_wanted, is_terminal: std::io::stderr().is_terminal(), last: None }
    }

    fn goes(&mut self, news: &Migrating) {
        if !self.is_wanted || (!self.is_terminal && self.last == Some(news.phase)) {
            return;
        }
        self.last = Some(news.phase);
        let mut line = name(news.phase);
        if news.of > 0 {
            line += &format!(": {} of {}", servers::size(news.bytes), servers::size(news.of));
        }
        if news.rounds > 0 {
            line += &format!(", rounds: {}", news.rounds);
        }
        let mut stderr = std::io::stderr();
        let _ = if self.is_terminal { write!(stderr, "\r\x1b[K{line}") } else { writeln!(stderr, "{line}") };
    }

    fn ends(&self) {
        if self.is_wanted && self.is_terminal && self.last.is_some() {
            eprint!("\r\x1b[K");
        }
    }
}

fn name(phase: u32) -> String {
    Phase::numbered(phase).map_or_else(|| format!("phase {phase}"), |phase| phase.to_string())
}

fn milliseconds(microseconds: u64) -> f64 {
    Duration::from_micros(microseconds).as_secs_f64() * 1e3
}

fn moved(server: String, session: u64, reply: &MigrateReply) -> Moved {
    Moved {
        server,
        session,
        gpu: (reply.gpu != u32::MAX).then_some(reply.gpu),
        worker: reply.worker,
        pause_ms: milliseconds(reply.pause_us),
        longest_pause_ms: milliseconds(reply.longest_pause_us),
        retries: reply.retries,
        bytes: reply.bytes,
        rounds: reply.rounds,
        phases: reply
            .phases
            .iter()
            .map(|time| PhaseTime { phase: name(time.phase), ms: milliseconds(time.microseconds) })
            .collect(),
    }
}

/// Prints what a move took, below a line that says where the session is.
pub(crate) fn print(moved: &Moved, heading: &str, json: bool) -> Result<()> {
    if json {
        return table::print_json(moved);
    }
    let phases: Vec<_> = moved.phases.iter().map(|time| format!("{} {:.1} ms", time.phase, time.ms)).collect();
    let copied = format!("{} in {} rounds; retries: {}", servers::size(moved.bytes), moved.rounds, moved.retries);
    table::print_line(format_args!("{heading}\n  copied: {copied}\n  {}", phases.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_told_by_names_and_milliseconds() {
        let phases = vec![floe_wire::PhaseTime { phase: 4, microseconds: 1500 }];
        let reply = MigrateReply { gpu: 1, pause_us: 2500, phases, ..MigrateReply::default() };
        let moved = moved("s".into(), 7, &reply);
        assert_eq!((moved.gpu, moved.pause_ms), (Some(1), 2.5));
        assert_eq!((moved.phases[0].phase.as_str(), moved.phases[0].ms), ("park", 1.5));
        assert_eq!(name(99), "phase 99");
    }
}
