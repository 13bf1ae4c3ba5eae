//! `floe`: all commands for users.
//! In: arguments, environment, a TOML file. Out: an exit code; data on stdout, everything else on stderr.
//! It has no logic of its own: each command calls the crate that has it.
#![forbid(unsafe_code)]

mod bench;
mod check;
mod demo;
mod doctor;
mod gpus;
mod install;
mod private;
mod program;
mod relay;
mod run;
mod serve;
mod servers;
mod sessions;
mod setup;
mod table;
mod token;

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use floe_settings::{CLIENT, CPU_DEVICE};

use sessions::{end, migrate, ps, suspend, top, upgrade};
use setup::{cdi, config, manual};

/// GPUs that float over a cluster: a CUDA program, unmodified, uses GPUs of other machines as if they were its own.
///
/// A flag wins over an environment variable (FLOE_*), a variable over a TOML file (FLOE_CONFIG, else
/// ~/.config/floe/floe.toml, else /etc/floe/floe.toml).
#[derive(Debug, Parser)]
#[command(name = "floe", version = install::version(), after_help = after_help())]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// Help for the variables of programs and of CPU devices, from their tables.
fn after_help() -> String {
    let mut text = "Environment:\n".to_owned();
    for setting in [CLIENT, CPU_DEVICE].iter().flat_map(|table| table.settings) {
        let _ = writeln!(text, "  {:<22} {} [default: {}]", setting.variable, setting.help, setting.default);
    }
    text + "  RCUDA_DEVICE_COUNT     with RCUDA_DEVICE_j=HOST[@PORT][:GPU], where FLOE_DEVICES is not set"
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a program on the named GPUs, or on this machine's best device when none is named.
    Run(run::Arguments),
    /// Offer this machine's GPUs to others (the daemon, floed).
    Serve(Box<serve::Arguments>),
    /// Show the GPUs that servers offer.
    Gpus(gpus::Arguments),
    /// Show the sessions on servers.
    Ps(ps::Arguments),
    /// Watch GPUs and sessions of servers, as they change; end and move sessions.
    Top(top::Arguments),
    /// End a session: your own, or as the operator any.
    End(end::Arguments),
    /// Move a running session to another GPU of its server, or to a new worker on its own.
    Migrate(migrate::Arguments),
    /// Free a running session's GPU: the session waits in its server's host memory, and its program with it.
    Suspend(suspend::Suspend),
    /// Give a suspended session a GPU of its server again.
    Resume(suspend::Resume),
    /// Give every running session of a server a new worker, of the version that is installed there now.
    Upgrade(upgrade::Arguments),
    /// Make, list and revoke tokens of users, on the server's machine.
    Token(token::Arguments),
    /// Check client, server, device, versions, permissions; say what to do about each finding.
    Doctor(doctor::Arguments),
    /// Run a small CUDA program through client, daemon and worker and check its result.
    Demo(demo::Arguments),
    /// Measure what reaching a GPU through floe costs.
    Bench(bench::Arguments),
    /// Write the file by which container engines give containers GPUs (Container Device Interface).
    Cdi(cdi::Arguments),
    /// Show the settings that hold here.
    Config(config::Arguments),
    /// Print the script by which a shell completes floe's commands and flags.
    Completions(manual::Completions),
    /// Write the manual's pages to a folder.
    Man(manual::Pages),
    /// The emulated network of `floe run --rtt --bandwidth`.
    #[command(hide = true)]
    Relay(relay::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Run(arguments) => run::run(arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Gpus(arguments) => gpus::run(&arguments),
        Command::Ps(arguments) => ps::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::End(arguments) => end::run(&arguments),
        Command::Migrate(arguments) => migrate::run(&arguments),
        Command::Suspend(arguments) => suspend::suspend(&arguments),
        Command::Resume(arguments) => suspend::resume(&arguments),
        Command::Upgrade(arguments) => upgrade::run(&arguments),
        Command::Token(arguments) => token::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Cdi(arguments) => cdi::run(&arguments),
        Command::Config(arguments) => config::run(&arguments),
        Command::Completions(arguments) => manual::complete(&arguments, Arguments::command()),
        Command::Man(arguments) => manual::write(&arguments, Arguments::command()),
        Command::Relay(arguments) => relay::run(&arguments),
    };
    outcome.unwrap_or_else(|error| {
        if error.downcast_ref().is_some_and(table::Unprinted::is_left) {
            return ExitCode::from(OF_A_LEFT_PIPE);
        }
        eprintln!("floe: {error:#}");
        let program = error.downcast_ref::<program::ProgramError>();
        ExitCode::from(program.map_or(FAILURE_OF_FLOE, program::ProgramError::code))
    })
}

/// The exit code where nobody reads on, without a word: what a shell says of a program that SIGPIPE has ended.
const OF_A_LEFT_PIPE: u8 = 128 + 13;

/// The exit code when `floe` itself fails: that of `env` and `timeout`, which programs do not use.
const FAILURE_OF_FLOE: u8 = 125;
