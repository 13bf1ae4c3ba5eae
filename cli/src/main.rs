//! `floe`: every command a user types.
//! In: arguments, environment, a TOML file. Out: an exit code; data on stdout, everything else on stderr.
//! No logic of its own: each command asks the crate that knows.
#![forbid(unsafe_code)]

mod bench;
mod check;
mod demo;
mod doctor;
mod gpus;
mod install;
mod private;
mod program;
mod protection;
mod ps;
mod relay;
mod run;
mod serve;
mod servers;
mod table;
mod version;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// GPUs that float over a cluster: a CUDA program, unmodified, uses GPUs of other machines as if they were its own.
///
/// Settings come from flags, then environment (FLOE_*), then a TOML file (FLOE_CONFIG, ~/.config/floe/floe.toml,
/// /etc/floe/floe.toml).
#[derive(Debug, Parser)]
#[command(name = "floe", version = version::version(), after_help = AFTER_HELP)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Environment:
  FLOE_DEVICES           devices of a program: HOST:GPU[,HOST:GPU…]; HOST is a name, host:port, tcp://host:port (sealed by the token), tls://host:port, clear://host:port (nothing is sealed), shm:///path, unix:///path, or /path
  FLOE_MEMORY            memory of each vGPU in bytes (K, M, G, T allowed); all of the GPU when not set
  FLOE_TOKEN             the token itself; FLOE_TOKEN_FILE names the file that holds it
  FLOE_NO_TOKEN          1: no token is shown, and no proof of it asked; else a server reached by TCP that does not ask for the
                         token that is set is refused
  FLOE_TLS_AUTHORITIES   PEM file of the authorities that sign the certificates of servers reached by tls://HOST:PORT
  FLOE_TLS_CERTIFICATE   PEM file of this client's certificate, for servers that ask for one; FLOE_TLS_KEY: its key's
  FLOE_CONFIG            the TOML file
  FLOE_LOG               what is said on stderr as it happens: error, warn (also what is refused to the program), info, debug;
                         default: errors at once, and what was refused when the program ends with an exit code other than 0
  FLOE_TRACE             failures: the client library says which driver calls failed; calls: all of them, in order
  FLOE_SPIN              microseconds a waiting thread of the client library or of a worker looks again before it sleeps (for
                         workers: set it for floed), a thousand times as long where a program waits for the GPU; default 100,
                         and 0 with fewer than four processors
  FLOE_COPY_THREADS      threads of one copy of pageable memory; default on the server's own machine half of the processors, at
                         most 6, and over TCP, beside those of the connections, as many again where a quarter of the
                         processors is no fewer
  FLOE_BULK_CONNECTIONS  TCP connections beside a session's own that carry its large copies: 0 to 8; default half of the
                         processors, and no more than the server's own setting (--bulk-connections)
  FLOE_STATS             1: the client library prints its counts of calls when the program ends
  RCUDA_DEVICE_COUNT     honoured when FLOE_DEVICES is not set, with RCUDA_DEVICE_j=host[:gpu]
  FLOE_CPU_DEVICES       how many CPU devices a machine without a GPU offers (default 1)
  FLOE_CPU_MEMORY        memory of each CPU device in bytes (default: half of the machine's)
  FLOE_CPU_COMPUTE       compute capability a CPU device says it has (default 9.0)
  FLOE_CPU_CORES         threads a CPU device computes with (default: all cores)
  FLOE_CPU_DRY_RUN       1: kernels that come as machine code are accepted and do nothing; results mean nothing";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a program on the GPUs named, or on the best device of this machine when none is.
    Run(run::Arguments),
    /// Offer this machine's GPUs to others (the daemon, floed).
    Serve(Box<serve::Arguments>),
    /// Show what servers offer.
    Gpus(gpus::Arguments),
    /// Show who uses what.
    Ps(ps::Arguments),
    /// Check client, server, device, versions, permissions; say what to do about each finding.
    Doctor(doctor::Arguments),
    /// Run a small CUDA program through client, daemon and worker and check its result.
    Demo(demo::Arguments),
    /// Measure what the way to a GPU costs.
    Bench(bench::Arguments),
    /// The emulated network of `floe run --rtt --bandwidth`.
    #[command(hide = true)]
    Relay(relay::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Run(arguments) => run::run(arguments),
        Command::Serve(arguments) => serve::run(*arguments),
        Command::Gpus(arguments) => gpus::run(&arguments),
        Command::Ps(arguments) => ps::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Relay(arguments) => relay::run(&arguments),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("floe: {error:#}");
        let program = error.downcast_ref::<program::ProgramError>();
        ExitCode::from(program.map_or(FAILURE_OF_FLOE, program::ProgramError::code))
    })
}

/// What `floe` itself returns when it could not do its part; as `env` and `timeout` do, outside of what programs use.
const FAILURE_OF_FLOE: u8 = 125;
