//! `floe ps`: the sessions of servers.

use std::process::ExitCode;

use anyhow::Result;
use floe_wire::ListSessions;

use crate::{servers, table};

/// Flags of `floe ps`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Servers to ask: HOST[,HOST…] [default: this machine's daemon and those of the settings]
    #[arg(long, value_name = "HOST,…", value_delimiter = ',')]
    on: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints one row per session; fails when a server that somebody has named does not answer.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let all = servers::all(&arguments.on)?;
    let (rows, code) = servers::each(&all, &ListSessions {}, (servers::session_rows, servers::MOST_SESSIONS))?;
    if rows.is_empty() && !arguments.json && code != ExitCode::SUCCESS {
        return Ok(code);
    }
    let headings = [
        "DEVICE",
        "SESSION",
        "USER",
        "PROGRAM",
        "PID",
        "CLIENT",
        "USED",
        "QUOTA",
        "SHARE",
        "AGE",
        "WORKER",
        "TRANSPORT",
    ];
    table::print(&rows, arguments.json, &headings, |session| {
        let quota = match (session.quota, session.guaranteed) {
            (0, _) => "best effort".to_owned(),
            (quota, true) => servers::size(quota),
            (quota, false) => format!("best effort, {}", servers::size(quota)),
        };
        vec![
            format!("{}:{}", session.server, session.gpu),
            session.session.to_string(),
            if session.user.is_empty() { "-".to_owned() } else { session.user.clone() },
            session.program.clone(),
            session.pid.to_string(),
            session.client.clone(),
            servers::size(session.used),
            quota,
            session.share(),
            format!("{} s", session.seconds),
            session.worker.to_string(),
            session.transport.clone(),
        ]
    })?;
    Ok(code)
}
