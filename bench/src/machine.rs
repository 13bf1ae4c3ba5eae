//! The machine that was measured, in its own words, and records of it. In: what was found. Out: names and versions; a file.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The machine's description of itself; unknown properties are left out.
pub(crate) fn description() -> BTreeMap<String, String> {
    let mut said = BTreeMap::new();
    let mut note = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            said.insert(name.to_owned(), value);
        }
    };
    note("gpu", said_by("nvidia-smi", &["--query-gpu=name", "--format=csv,noheader", "-i", "0"]));
    note("driver", said_by("nvidia-smi", &["--query-gpu=driver_version", "--format=csv,noheader", "-i", "0"]));
    note("processor", processor());
    note("cores", std::thread::available_parallelism().ok().map(|cores| cores.to_string()));
    note("kernel", said_by("uname", &["-sr"]));
    note("system", system());
    said
}

/// What the record of a run on a device begins with. It asks other programs, so ask once.
pub(crate) fn heading(device: &str) -> Map<String, Value> {
    let said = [
        ("date", json!(date())),
        ("floe", json!(version())),
        ("device", json!(device)),
        ("machine", json!(description())),
    ];
    said.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Writes a record as JSON.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn write_record(path: &Path, record: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(record).context("the record cannot be put into JSON")?;
    // Last of all: a run of minutes is not lost for a folder.
    path.parent().map_or(Ok(()), fs::create_dir_all).with_context(|| format!("no folder for: {}", path.display()))?;
    fs::write(path, text + "\n").with_context(|| format!("cannot be written: {}", path.display()))
}

/// Now, in UTC, as `2026-11-21T10:00:00Z`.
pub(crate) fn date() -> Option<String> {
    said_by("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"])
}

/// floe's version and, where the build knew it, its commit.
pub(crate) fn version() -> String {
    let commit = option_env!("FLOE_COMMIT")
        .filter(|commit| !commit.is_empty())
        .map_or(String::new(), |commit| format!(" ({commit})"));
    format!("{}{commit}", env!("CARGO_PKG_VERSION"))
}

/// The first line a command prints; `None` when the command is missing or fails.
fn said_by(command: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(command).args(arguments).output().ok().filter(|output| output.status.success())?;
    String::from_utf8_lossy(&output.stdout).lines().next().map(|line| line.trim().to_owned())
}

fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim().to_owned())
}

fn system() -> Option<String> {
    let text = fs::read_to_string("/etc/os-release").ok()?;
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_owned())
}
