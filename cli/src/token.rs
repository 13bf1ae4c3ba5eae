//! `floe token`: tokens of users, on the server's machine.
//! In: a user's name, or a token's number. Out: a new token on stdout, once; the list; what was revoked.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use floe_users::{Name, Revoked, Tokens};
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
    },
}

#[derive(Debug, Serialize)]
struct Row {
    number: String,
    user: String,
    /// Seconds since 1970.
    made: u64,
    state: &'static str,
}

/// Makes, lists or revokes.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let folder = arguments.tokens.clone().map_or_else(floe_daemon::tokens_folder, Ok)?;
    match &arguments.action {
        Action::Make { user } => {
            let is_first = !Tokens::file(&folder).exists();
            let (number, text) = floe_users::make(&folder, Name::new(user)?)?;
            println!("{text}");
            eprintln!("floe: token {number} of {user}; it is shown this once");
            // The server's key, which is made with it, is root's: whoever root's server has become cannot read it any more.
            if is_first && rustix::process::geteuid().is_root() {
                eprintln!(
                    "floe: it is the first in {}: a running server of root's that serves as another user has to be started again",
                    folder.display()
                );
            }
        }
        Action::List { json } => {
            let row = |(number, entry): (_, floe_users::Entry)| Row {
                number: floe_transport::TokenNumber::to_string(&number),
                user: entry.user.to_string(),
                made: entry.made,
                state: state(entry.revoked),
            };
            let rows: Vec<_> = Tokens::read(&folder)?.0.into_iter().map(row).collect();
            table::print(&rows, *json, &["TOKEN", "USER", "MADE", "STATE"], |row| {
                let made = std::time::UNIX_EPOCH + std::time::Duration::from_secs(row.made);
                let made = humantime::format_rfc3339_seconds(made).to_string();
                vec![row.number.clone(), row.user.clone(), made, row.state.to_owned()]
            })?;
        }
        Action::Revoke { whom, end } => {
            let how = if *end { Revoked::End } else { Revoked::Drain };
            let revoked = floe_users::revoke(&folder, whom, how)?;
            anyhow::ensure!(
                !revoked.is_empty(),
                "nothing to revoke in {}: no such token or user: {whom}\n  floe token list shows them",
                folder.display()
            );
            revoked.iter().for_each(|number| println!("{number}"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn state(revoked: Option<Revoked>) -> &'static str {
    match revoked {
        None => "good",
        Some(Revoked::Drain) => "drains",
        Some(Revoked::End) => "ended",
    }
}
