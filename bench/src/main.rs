//! `floe-bench`: measures floe's overhead and compares its results with native ones, on the machine it runs on.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use floe_bench::{conformance, frameworks, link, moves, shares, speed};

/// Measures CUDA programs natively and through floe, in one run on this machine.
#[derive(Debug, Parser)]
#[command(name = "floe-bench", version = floe_wire::version(option_env!("FLOE_COMMIT")))]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Time what programs do, natively and through floe by turns; compare their results, waits and memory
    Speed(speed::Arguments),
    /// Run the frameworks' and libraries' own checks natively and through floe; compare what they print
    Frameworks(frameworks::Arguments),
    /// Build and run public programs that nobody here wrote, natively and through floe
    Conformance(conformance::Arguments),
    /// Measure how long a program stands while its session moves, to another GPU and on its own
    Moves(moves::Arguments),
    /// Measure how programs that asked for parts of a GPU's time get them, and what that costs
    Shares(shares::Arguments),
    /// Measure the link to a GPU: latencies, and copies from 4 B to 1 GiB, by every transport. A GPU of this machine is
    /// also measured natively and through sockets alone
    Link(link::Arguments),
    /// The measuring process of `link`
    #[command(hide = true)]
    LinkProbe(link::ProbeArguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Speed(arguments) => speed::run(&arguments),
        Command::Frameworks(arguments) => frameworks::run(&arguments),
        Command::Conformance(arguments) => conformance::run(&arguments),
        Command::Moves(arguments) => moves::run(&arguments),
        Command::Shares(arguments) => shares::run(&arguments),
        Command::Link(arguments) => link::run(&arguments),
        Command::LinkProbe(arguments) => link::probe(&arguments).map(|()| ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("floe-bench: {error:#}");
        ExitCode::from(2)
    })
}
