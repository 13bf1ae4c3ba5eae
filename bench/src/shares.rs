//! `floe-bench shares`: how a GPU's time is divided among programs that asked for parts of it, as the programs themselves see it.
//! In: a device. Out: a table, a JSON file where a folder is named, and an exit code: 0 when every figure is within its limits and
//! every sum was right.

mod cases;
mod tenants;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::json;

use crate::bars::Way;
use crate::installation::Installation;
use crate::machine;
use crate::server::Server;
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
    /// Groups to measure: even, weights, quarter, alone, latency, cost, training [default: all]
    #[arg(long, value_name = "GROUP,…", value_delimiter = ',')]
    only: Vec<String>,
    /// Write shares.json into this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// The Python that has PyTorch; `training` is left out where it has not
    #[arg(long, default_value = "python3")]
    python: String,
    /// Device library of the server: auto, nvidia, cpu, or the path of a libcuda.so.1
    #[arg(long, value_name = "LIBRARY", default_value = "auto")]
    device_library: String,
}

/// A figure, and the limits it has to be within.
#[derive(Debug, Clone, Serialize)]
struct Finding {
    title: String,
    figure: f64,
    unit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    least: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    most: Option<f64>,
}

impl Finding {
    fn new(title: impl Into<String>, figure: f64, unit: &'static str) -> Self {
        Self { title: title.into(), figure, unit, least: None, most: None }
    }

    fn at_least(self, least: f64) -> Self {
        Self { least: Some(least), ..self }
    }

    fn at_most(self, most: f64) -> Self {
        Self { most: Some(most), ..self }
    }

    /// A figure that is no number is out of its limits.
    fn is_within(&self) -> bool {
        self.least.is_none_or(|least| self.figure >= least) && self.most.is_none_or(|most| self.figure <= most)
    }

    fn line(&self) -> String {
        let limits = match (self.least, self.most) {
            (Some(least), Some(most)) => format!(" ({least:.3} to {most:.3})"),
            (Some(least), None) => format!(" (at least {least:.3})"),
            (None, Some(most)) => format!(" (at most {most:.3})"),
            (None, None) => String::new(),
        };
        let verdict = if self.is_within() { "" } else { ", OUT OF ITS LIMITS" };
        format!("{}: {:.3} {}{limits}{verdict}", self.title, self.figure, self.unit)
    }
}

/// Measures every group that was asked for.
///
/// # Errors
/// When nothing could be run, or a program's sum was wrong.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let installation = Installation::of_this_executable()?;
    let folder = tempfile::tempdir().context("no temporary folder")?;
    let server = Server::start(&installation, &arguments.device_library, folder.path())?;
    let gpu = server.gpu(&installation)?;
    let tenants = Tenants::new(&installation, &server, arguments.way, arguments.quick, gpu.kind == "cpu")?;
    let mut findings: Vec<Finding> = Vec::new();
    for group in cases::chosen(&arguments.only)? {
        for finding in group.measure(&tenants, &arguments.python)? {
            let finding = if arguments.quick { Finding { least: None, most: None, ..finding } } else { finding };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_within_its_limits_or_says_that_it_is_not() {
        let quarter = |figure| Finding::new("a quarter", figure, "%").at_least(23.0).at_most(27.0);
        assert!(quarter(25.0).is_within() && quarter(23.0).is_within());
        assert!(!quarter(27.1).is_within() && !quarter(f64::NAN).is_within());
        assert_eq!(quarter(30.0).line(), "a quarter: 30.000 % (23.000 to 27.000), OUT OF ITS LIMITS");
        assert!(Finding::new("told only", f64::NAN, "ns").is_within());
    }
}
