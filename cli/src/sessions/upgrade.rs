//! `floe upgrade`: gives every session of a server a new worker on its own GPU.
//! In: the sessions that the user may move. Out: what became of each. A session that does not move keeps its worker.
//! The new workers are of the executable that lies in the daemon's installation now. The daemon itself stays.

use std::process::ExitCode;

use anyhow::Result;
use floe_migrate::Action;
use floe_wire::Migrate;
use serde::Serialize;

use super::migrate;
use crate::{servers, table};

/// Flags of `floe upgrade`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    how: migrate::How,
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
pub(crate) fn run(Arguments { how }: &Arguments) -> Result<ExitCode> {
    let server = how.server()?;
    let mut all = Vec::new();
    for row in servers::sessions_of(&server)? {
        let message = Migrate {
            session: row.session,
            key: &[],
            gpu: row.gpu,
            stop_and_copy: false,
            patience_ms: how.patience_ms(),
            action: Action::Move.number(),
        };
        let upgraded = match migrate::ask(server.clone(), &message, false) {
            Ok(moved) => (moved.worker, moved.pause_ms, None),
            Err(error) => (0, 0.0, Some(format!("{error:#}"))),
        };
        let (worker, pause_ms, kept) = upgraded;
        let upgraded = Upgraded { session: row.session, program: row.program, worker, pause_ms, kept };
        if !how.json {
            // Whether somebody reads it or not, the others are upgraded.
            let _ = table::print_line(line(&upgraded));
        }
        all.push(upgraded);
    }
    if how.json {
        table::print_json(&all)?;
    } else if all.is_empty() {
        table::print_line("no sessions")?;
    }
    Ok(if all.iter().all(|upgraded| upgraded.kept.is_none()) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn line(Upgraded { session, program, worker, pause_ms, kept }: &Upgraded) -> String {
    match kept {
        None => {
            format!("session {session} ({program}): its worker is {worker}; the program stood for {pause_ms:.1} ms")
        }
        Some(why) => format!("session {session} ({program}) keeps its worker: {why}"),
    }
}
