//! Code made from the tables under `api/`: the call table in, Rust and Markdown files out, each formatted and marked as
//! generated. With `--check` nothing is written and a stale file is an error. Its output is never edited by hand.

pub(crate) mod calls;
mod emit;
pub(crate) mod messages;
mod nccl;
mod nvml;
mod settings;

use anyhow::Result;

/// Everything `cargo xtask gen` makes.
pub(crate) fn run(check: bool) -> Result<()> {
    calls::run(check)?;
    messages::run(check)?;
    nccl::run(check)?;
    nvml::run(check)?;
    settings::run(check)
}
