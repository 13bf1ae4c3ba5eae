//! `floe end`: ends a session, and with it what its program can do on the GPU.
//! In: a session's number. Out: nothing, or the session as JSON; why it goes on.

use std::process::ExitCode;

use anyhow::Result;
use floe_session::Inquiry;
use floe_wire::EndSession;
use serde::Serialize;

use crate::{servers, table};

/// Flags of `floe end`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The session, by its number in `floe ps`
    session: u64,
    /// The server: HOST [default: that of the settings, else this machine's daemon]
    #[arg(long, value_name = "HOST")]
    on: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A session that ends.
#[derive(Debug, Serialize)]
struct Ended {
    /// The name that the user gave.
    server: String,
    session: u64,
}

/// Ends the session.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let ended = Ended { server: servers::one(arguments.on.as_deref())?, session: arguments.session };
    ask(&ended.server, ended.session)?;
    if arguments.json {
        table::print_json(&ended)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks a server to end a session. When this returns, its worker is being ended.
pub(super) fn ask(server: &str, session: u64) -> Result<()> {
    let inquiry = Inquiry::open(server, &servers::settings()?.credentials)?;
    inquiry.ask(&EndSession { session, key: &[] })?;
    Ok(())
}
