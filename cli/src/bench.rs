//! `floe bench`: measurements a user makes. In: which. Out: the bench crate's own words.

use std::process::ExitCode;

use anyhow::Result;
use floe_bench::link;

/// Flags of `floe bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Measure what the way to a GPU costs: latencies, and copies from 4 B to 1 GiB, by every transport; beside it natively
    /// and through sockets alone where the GPU is this machine's
    Link(link::Arguments),
    /// The measuring process of `link`
    #[command(hide = true)]
    LinkProbe(link::ProbeArguments),
}

/// Measures.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.what {
        What::Link(arguments) => link::run(arguments),
        What::LinkProbe(arguments) => link::probe(arguments).map(|()| ExitCode::SUCCESS),
    }
}
