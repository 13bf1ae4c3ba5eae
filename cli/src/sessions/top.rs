//! `floe top`: GPUs and sessions of servers on one screen, as they change.
//! In: servers' answers and keys. Out: a screen; ends and moves of sessions that the user has agreed to.
//! This file has the terminal and the threads. [`state`] decides what is shown and done, [`screen`] how it looks; both are
//! pure.

mod rates;
mod screen;
mod state;

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGTERM};

use super::{end, migrate};
use crate::servers;
use state::{Act, News, State};

/// The longest time from an answer or a signal to the screen.
const TICK: Duration = Duration::from_millis(100);
/// The time that a program may stand in one attempt to move it: as `floe migrate` has it.
const PATIENCE_MS: u32 = 2000;

/// Flags of `floe top`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Servers to watch: HOST[,HOST…] [default: this machine's daemon and those of the settings]
    #[arg(long, value_name = "HOST,…", value_delimiter = ',')]
    on: Vec<String>,
    /// The time between two looks at a server
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = humantime::parse_duration)]
    every: Duration,
}

/// Watches until the user leaves, or a signal says so.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        bail!(
            "floe top needs a terminal\n  floe gpus and floe ps print the same rows as tables, and with --json as JSON"
        );
    }
    let servers = servers::all(&arguments.on)?.names;
    let is_over = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&is_over)).context("cannot wait for signals")?;
    }
    leave_with_the_terminal()?;
    let (to, news) = sync_channel(2 * servers.len());
    for (index, server) in servers.iter().enumerate() {
        watch(index, server.clone(), arguments.every.max(TICK), to.clone())?;
    }
    let mut terminal = ratatui::try_init().context("cannot draw on this terminal")?;
    let outcome = show(&mut terminal, State::new(servers), (&to, &news), &is_over);
    ratatui::restore();
    outcome.map(|()| ExitCode::SUCCESS)
}

fn show(
    terminal: &mut DefaultTerminal,
    mut state: State,
    (to, news): (&SyncSender<News>, &Receiver<News>),
    is_over: &AtomicBool,
) -> Result<()> {
    while !is_over.load(Ordering::Relaxed) {
        terminal.draw(|frame| screen::draw(frame, &state))?;
        if event::poll(TICK)?
            && let event::Event::Key(key) = event::read()?
        {
            match state.press(key) {
                Some(Act::Leave) => return Ok(()),
                Some(act) => carry_out(act, to.clone())?,
                None => {}
            }
        }
        news.try_iter().for_each(|news| state.take(news));
    }
    Ok(())
}

/// Ends the process when its terminal is gone: whoever reads events from one that has hung up looks for them without end.
fn leave_with_the_terminal() -> Result<()> {
    let wait = || {
        let input = std::io::stdin();
        // Nothing is asked for: what comes is that it has hung up, or is none.
        let mut hung_up = [PollFd::new(&input, PollFlags::empty())];
        while poll(&mut hung_up, None).is_err_and(|error| error == Errno::INTR) {}
        std::process::exit(0);
    };
    std::thread::Builder::new().name("terminal".into()).spawn(wait).context("cannot start a thread")?;
    Ok(())
}

/// Looks at a server again and again. Each look is a conversation of its own: a server ends long ones.
fn watch(index: usize, server: String, every: Duration, to: SyncSender<News>) -> Result<()> {
    let credentials = servers::settings()?.credentials;
    let looks = move || loop {
        let look = servers::look(&server, &credentials).map_err(|error| format!("{error:#}"));
        if to.send(News::Look(index, look)).is_err() {
            return;
        }
        std::thread::sleep(every);
    };
    std::thread::Builder::new().name("look".into()).spawn(looks).context("cannot start a thread")?;
    Ok(())
}

/// Does on a thread of its own what the user has agreed to, and says what came of it.
fn carry_out(act: Act, to: SyncSender<News>) -> Result<()> {
    let work = move || {
        let outcome = match &act {
            Act::Leave => return,
            Act::End(target) => {
                end::ask(&target.server, target.session).map(|()| format!("session {} ends", target.session))
            }
            Act::Migrate(target, gpu) => {
                let message = migrate::order(target.session, *gpu, false, PATIENCE_MS);
                migrate::ask_unseen(target.server.clone(), &message).map(|moved| moved.heading())
            }
        };
        let _ = to.send(News::Done(outcome.map_err(|error| format!("{error:#}"))));
    };
    std::thread::Builder::new().name("act".into()).spawn(work).context("cannot start a thread")?;
    Ok(())
}
