//! The record of a measurement: date, machine, versions, every row, every sample. Findings come in, JSON goes out.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use super::compare::{Agreed, Row};
use super::findings::{ByWay, Failure, Findings};
use crate::machine;

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
    /// Number of rounds that are over.
    rounds: usize,
    /// Number of rounds asked for.
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

/// The length and the device of a measurement.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    /// The device's name.
    pub(crate) device: String,
    /// Number of rounds that are over.
    pub(crate) rounds: usize,
    /// Number of rounds asked for.
    pub(crate) asked: usize,
    /// Whether measurements were kept short.
    pub(crate) quick: bool,
}

/// Brings everything together.
pub(crate) fn new<'a>(run: &Run, findings: &'a Findings, rows: &'a [Row], results: &'a [Agreed]) -> Record<'a> {
    Record {
        date: machine::date(),
        floe: machine::version(),
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
        machine::write_record(path, self)
    }
}

/// Has a file written beside its path and renames it: an interrupted run leaves the old file or the new one, whole. If
/// `write` wrote no file, the old one stays.
///
/// # Errors
/// The error of `write`, or of the renaming.
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
