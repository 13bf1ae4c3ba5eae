//! `floe token`: tokens of users, on the server's machine.
//! In: a user's name, or a token's number. Out: a new token on stdout, once; the list; what was revoked. Each also as JSON.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use floe_transport::TokenNumber;
use floe_users::{Entry, Name, Revoked, Tokens};
use serde::Serialize;

use crate::table;

/// Flags of `floe token`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
    /// The folder of the tokens [default: that of the server's settings, else tokens beside the token file]
    #[arg(long, global = true, value_name = "FOLDER")]
    tokens: Option<PathBuf>,
}

/// What is done.
#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Make a token for a user and print it. It is kept nowhere: give it to the user as ~/.config/floe/token
    Make {
        /// The user's name, as the policy has it
        user: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show all tokens: number, user, state
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Revoke a token, or all of a user. Running servers see it within a second
    Revoke {
        /// A token's number, or a user's name
        whom: String,
        /// End the sessions that were made with it, now; else they go on, and nothing new begins
        #[arg(long)]
        end: bool,
        /// Print JSON: the tokens as `floe token list --json` has them
        #[arg(long)]
        json: bool,
    },
}

/// A token as the list has it.
#[derive(Debug, Serialize)]
struct Row {
    number: String,
    user: String,
    /// Seconds since 1970.
    made: u64,
    state: &'static str,
}

impl Row {
    fn new(number: TokenNumber, entry: &Entry) -> Self {
        let (number, user) = (number.to_string(), entry.user.to_string());
        Self { number, user, made: entry.made, state: state(entry.revoked) }
    }
}

/// A new token.
#[derive(Debug, Serialize)]
struct Made<'a> {
    token: String,
    number: String,
    user: &'a str,
}

/// Makes, lists or revokes.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let folder = arguments.tokens.clone().map_or_else(floe_daemon::tokens_folder, Ok)?;
    match &arguments.action {
        Action::Make { user, json } => make(&folder, user, *json)?,
        Action::List { json } => list(&folder, *json)?,
        Action::Revoke { whom, end, json } => {
            revoke(&folder, whom, if *end { Revoked::End } else { Revoked::Drain }, *json)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn make(folder: &Path, user: &str, json: bool) -> Result<()> {
    let is_first = !Tokens::file(folder).exists();
    let (number, token) = floe_users::make(folder, Name::new(user)?)?;
    let made = Made { token, number: number.to_string(), user };
    let printed = if json { table::print_json(&made) } else { table::print_line(&made.token) };
    // No error of stdout's: somebody has to act, also where nobody reads on.
    printed.map_err(|error| {
        anyhow::anyhow!("{error}: nobody has token {number} of {user}\n  floe token revoke {number}; then make another")
    })?;
    eprintln!("floe: token {number} of {user}; it is shown this once");
    // The server's key, which is made with it, is root's: whoever root's server has become cannot read it any more.
    if is_first && rustix::process::geteuid().is_root() {
        eprintln!(
            "floe: it is the first in {}: a running server of root's that serves as another user has to be started again",
            folder.display()
        );
    }
    Ok(())
}

fn list(folder: &Path, json: bool) -> Result<()> {
    let rows: Vec<_> = Tokens::read(folder)?.0.iter().map(|(number, entry)| Row::new(*number, entry)).collect();
    table::print(&rows, json, &["TOKEN", "USER", "MADE", "STATE"], |row| {
        let made = std::time::UNIX_EPOCH + std::time::Duration::from_secs(row.made);
        let made = humantime::format_rfc3339_seconds(made).to_string();
        vec![row.number.clone(), row.user.clone(), made, row.state.to_owned()]
    })
}

fn revoke(folder: &Path, whom: &str, how: Revoked, json: bool) -> Result<()> {
    let revoked = floe_users::revoke(folder, whom, how)?;
    anyhow::ensure!(
        !revoked.is_empty(),
        "nothing to revoke in {}: no such token or user: {whom}\n  floe token list shows them",
        folder.display()
    );
    if json {
        let tokens = Tokens::read(folder)?.0;
        let row = |number: &TokenNumber| tokens.get(number).map(|entry| Row::new(*number, entry));
        return table::print_json(&revoked.iter().filter_map(row).collect::<Vec<_>>());
    }
    revoked.iter().try_for_each(table::print_line)
}

fn state(revoked: Option<Revoked>) -> &'static str {
    match revoked {
        None => "good",
        Some(Revoked::Drain) => "drains",
        Some(Revoked::End) => "ended",
    }
}
