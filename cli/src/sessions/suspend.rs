//! `floe suspend` and `floe resume`: a session leaves its GPU for its server's host memory, and gets a GPU again.
//! In: a session's number. Out: progress on stderr, the result on stdout. The program is not told.

use std::process::ExitCode;

use anyhow::Result;
use floe_migrate::Action;
use floe_wire::Migrate;

use super::migrate;
use crate::servers;

/// Flags of `floe suspend`.
#[derive(Debug, clap::Args)]
pub(crate) struct Suspend {
    /// The session, by its number in `floe ps`
    session: u64,
    #[command(flatten)]
    how: migrate::How,
}

/// Flags of `floe resume`.
#[derive(Debug, clap::Args)]
pub(crate) struct Resume {
    /// The session, by its number in `floe ps`
    session: u64,
    /// The GPU to go to, by its index on the server [default: the one with the most free memory]
    #[arg(long, value_name = "GPU")]
    to: Option<u32>,
    #[command(flatten)]
    how: migrate::How,
}

/// Suspends a session.
pub(crate) fn suspend(Suspend { session, how }: &Suspend) -> Result<ExitCode> {
    let moved = ask(*session, None, Action::Suspend, how)?;
    let heading = format!(
        "session {} is suspended, {} of device memory wait in host memory; its GPU is free",
        moved.session,
        servers::size(moved.bytes)
    );
    migrate::print(&moved, &heading, how.json)?;
    Ok(ExitCode::SUCCESS)
}

/// Resumes a suspended session.
pub(crate) fn resume(Resume { session, to, how }: &Resume) -> Result<ExitCode> {
    let moved = ask(*session, *to, Action::Resume, how)?;
    let heading = format!("session {} goes on, on GPU {}", moved.session, moved.gpu.unwrap_or_default());
    migrate::print(&moved, &heading, how.json)?;
    Ok(ExitCode::SUCCESS)
}

fn ask(session: u64, gpu: Option<u32>, action: Action, how: &migrate::How) -> Result<migrate::Moved> {
    let message = Migrate {
        session,
        key: &[],
        gpu: gpu.unwrap_or(u32::MAX),
        stop_and_copy: true,
        patience_ms: how.patience_ms(),
        action: action.number(),
    };
    migrate::ask(how.server()?, &message, !how.json)
}
