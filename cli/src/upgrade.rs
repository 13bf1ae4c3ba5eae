//! `floe upgrade`: gives every session of a server a new worker on its own GPU.
//! In: the sessions that the user may move. Out: what became of each. A session that does not move keeps its worker.
//! The new workers are of the executable that lies in the daemon's installation now. The daemon itself stays.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use floe_wire::Migrate;
use serde::Serialize;

use crate::{migrate, servers};

/// Flags of `floe upgrade`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The longest time to stop a program and let its work end, before it goes on and is stopped again later
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = humantime::parse_duration)]
    patience: Duration,
    /// The server: HOST [default: that of the settings, else this machine's daemon]
    #[arg(long, value_name = "HOST")]
    on: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What became of a session.
#[derive(Debug, Serialize)]
struct Upgraded {
    session: u64,
    program: String,
    /// The new worker's process id on the server; 0: it is not shown, or there is none.
    worker: u32,
    /// How long the program stood, by the server's clock.
    pause_ms: f64,
    /// Why the session keeps its worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<String>,
}

/// One session after the other, so that no more than one program stands at a time.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let server = servers::one(arguments.on.as_deref())?;
    let patience_ms = u32::try_from(arguments.patience.as_millis()).unwrap_or(u32::MAX);
    let mut all = Vec::new();
    for row in servers::sessions_of(&server)? {
        let message = Migrate { session: row.session, key: &[], gpu: row.gpu, stop_and_copy: false, patience_ms };
        let upgraded = match migrate::ask(server.clone(), &message, false) {
            Ok(moved) => (moved.worker, moved.pause_ms, None),
            Err(error) => (0, 0.0, Some(format!("{error:#}"))),
        };
        let (worker, pause_ms, kept) = upgraded;
        let upgraded = Upgraded { session: row.session, program: row.program, worker, pause_ms, kept };
        if !arguments.json {
            say(&upgraded);
        }
        all.push(upgraded);
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&all)?);
    } else if all.is_empty() {
        println!("no sessions");
    }
    Ok(if all.iter().all(|upgraded| upgraded.kept.is_none()) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn say(Upgraded { session, program, worker, pause_ms, kept }: &Upgraded) {
    match kept {
        None => {
            println!("session {session} ({program}): its worker is {worker}; the program stood for {pause_ms:.1} ms")
        }
        Some(why) => println!("session {session} ({program}) keeps its worker: {why}"),
    }
}
