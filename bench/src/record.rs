//! What is kept of a measurement: date, machine, versions, every row, every sample. Findings come in, JSON goes out.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::compare::{Agreed, Row};
use crate::machine;
use crate::rounds::{ByWay, Failure, Findings};

/// One measurement.
#[derive(Debug, Serialize)]
pub(crate) struct Record<'a> {
    /// UTC.
    date: Option<String>,
    /// floe's version and the commit it was built from.
    floe: String,
    /// The machine's words.
    machine: BTreeMap<String, String>,
    /// The device's name.
    device: String,
    /// Of what the programs used.
    versions: &'a BTreeMap<String, String>,
    /// How many rounds are over.
    rounds: usize,
    /// How many there were to be.
    #[serde(skip)]
    asked: usize,
    /// Whether measurements were kept short.
    quick: bool,
    rows: &'a [Row],
    results: &'a [Agreed],
    failures: &'a [Failure],
    /// Every number, by metric, way and round.
    samples: &'a BTreeMap<String, ByWay<f64>>,
    /// Medians of every turn, by metric, way and round.
    turns: &'a BTreeMap<String, ByWay<Vec<f64>>>,
}

/// How long and on what was measured.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    /// The device's name.
    pub(crate) device: String,
    /// How many rounds are over.
    pub(crate) rounds: usize,
    /// How many there are to be.
    pub(crate) asked: usize,
    /// Whether measurements were kept short.
    pub(crate) quick: bool,
}

/// floe's version and, where the build knew it, its commit.
pub(crate) fn version() -> String {
    let commit = option_env!("FLOE_COMMIT")
        .filter(|commit| !commit.is_empty())
        .map_or(String::new(), |commit| format!(" ({commit})"));
    format!("{}{commit}", env!("CARGO_PKG_VERSION"))
}

/// Brings everything together.
pub(crate) fn new<'a>(run: &Run, findings: &'a Findings, rows: &'a [Row], results: &'a [Agreed]) -> Record<'a> {
    Record {
        date: machine::date(),
        floe: version(),
        machine: machine::description(),
        device: run.device.clone(),
        versions: &findings.versions,
        rounds: run.rounds,
        asked: run.asked,
        quick: run.quick,
        rows,
        results,
        failures: &findings.failures,
        samples: &findings.samples,
        turns: &findings.turns,
    }
}

impl Record<'_> {
    /// The lines above the table.
    pub(crate) fn heading(&self) -> String {
        let of = |name: &str| self.machine.get(name).cloned().unwrap_or_default();
        let versions: Vec<String> = self.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
        format!(
            "floe {} on {} (driver {}), {} cores of {}, {}; {}\n{}; medians of {}{} rounds{}\n",
            self.floe,
            self.device,
            self.machine.get("driver").map_or("none", String::as_str),
            of("cores"),
            of("processor"),
            of("kernel"),
            if versions.is_empty() { "no framework".to_owned() } else { versions.join(", ") },
            self.date.as_deref().unwrap_or("no date"),
            self.rounds,
            if self.rounds < self.asked { format!(" of {}", self.asked) } else { String::new() },
            if self.quick { ", quick" } else { "" },
        )
    }

    /// Writes it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).context("the record cannot be put into JSON")?;
        std::fs::write(path, text + "\n").with_context(|| format!("cannot be written: {}", path.display()))
    }
}

/// Has a file written beside its place and puts it there whole: whoever stops the run finds the old one or the new one.
/// Where nothing was written, nothing is put.
///
/// # Errors
/// What `write` fails with, or when the file cannot be put in its place.
pub(crate) fn put(path: &Path, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let new = path.with_extension("new");
    write(&new)?;
    match std::fs::rename(&new, path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot be written: {}", path.display()))
        }
        _ => Ok(()),
    }
}
