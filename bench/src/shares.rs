//! `floe-bench shares`: how a GPU's time is divided among programs that asked for parts of it, as the programs themselves see it.
//! In: a device. Out: a table, a JSON file where a folder is named, and an exit code: 0 when every figure is within its limits and
//! every sum was right.

mod cases;
mod finding;
mod tenants;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::json;

use crate::bars::Way;
use crate::installation::{Equipment, Installation};
use crate::machine;
use crate::server::Server;
use finding::Finding;
use tenants::Tenants;

/// Flags of `floe-bench shares`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The way of floe
    #[arg(long, value_name = "WAY", default_value = "unix", value_parser = crate::speed::way)]
    way: Way,
    /// Short windows and no limits
    #[arg(long)]
    quick: bool,
    /// Groups to measure: even, users, weights, quarter, alone, latency, cost, training, mps [default: all]
    #[arg(long, value_name = "GROUP,…", value_delimiter = ',')]
    only: Vec<String>,
    /// Write shares.json into this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    #[command(flatten)]
    equipment: Equipment,
}

/// Measures every group that was asked for.
///
/// # Errors
/// When nothing could be run, or a program's sum was wrong.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let installation = Installation::of_this_executable()?;
    let folder = tempfile::tempdir().context("no temporary folder")?;
    let server = Server::start(&installation, &arguments.equipment.device_library, folder.path())?;
    let gpu = server.gpu(&installation)?;
    let tenants = Tenants::new(&installation, &server, arguments.way, arguments.quick, gpu.kind == "cpu")?;
    let mut findings: Vec<Finding> = Vec::new();
    for group in cases::chosen(&arguments.only)? {
        for finding in group.measure(&tenants, &arguments.equipment)? {
            let finding = if arguments.quick { finding.without_limits() } else { finding };
            println!("{}", finding.line());
            findings.push(finding);
        }
    }
    if let Some(out) = &arguments.out {
        let mut record = machine::heading(&gpu.name);
        record.insert("shares".to_owned(), json!(findings));
        machine::write_record(&out.join("shares.json"), &record)?;
    }
    let out = findings.iter().filter(|finding| !finding.is_within()).count();
    println!("{} figures, {out} out of their limits", findings.len());
    Ok(if out == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
