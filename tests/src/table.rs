//! The example programs and the expected outcome of each run, from `examples/cuda/programs.toml`.

use std::path::PathBuf;

use serde::Deserialize;

use crate::{Outcome, Program};

/// How a program was linked with the CUDA runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linkage {
    /// nvcc's default: cudart is part of the program.
    Static,
    /// With libcudart.so.
    Shared,
}

#[derive(Debug, Deserialize)]
struct Table {
    program: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    name: String,
    /// Devices that it needs; 1 when absent.
    vgpus: Option<usize>,
    /// Whether all of them are of one server.
    #[serde(default)]
    peers: bool,
    /// Processes that it forks, if they share memory.
    processes: Option<u32>,
    run: Vec<Expectation>,
}

/// One run of a program and what it must give.
#[derive(Debug, Clone, Deserialize)]
pub struct Expectation {
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Its exit code.
    #[serde(default)]
    pub exit: i32,
    /// Whole lines of stdout, in any order.
    #[serde(default)]
    pub lines: Vec<String>,
    /// Whole lines of stdout, in this order, others between them allowed.
    #[serde(default)]
    pub ordered: Vec<String>,
    /// Whether a process of it is ended by a fault on purpose: then floe may say why.
    #[serde(default)]
    pub faults: bool,
    /// Strings that stderr must contain.
    #[serde(default)]
    pub stderr: Vec<String>,
}

/// Every run of every program of one device.
///
/// # Panics
/// When the table cannot be read.
#[must_use]
pub fn examples() -> Vec<(String, Expectation)> {
    runs_of(|entry| entry.vgpus.unwrap_or(1) == 1 && entry.processes.is_none())
}

/// Every run of every program of several processes.
///
/// # Panics
/// When the table cannot be read.
#[must_use]
pub fn examples_of_processes() -> Vec<(String, Expectation)> {
    runs_of(|entry| entry.processes.is_some())
}

/// Every run of every program of two devices; on two servers only those whose kernels stay on their own device.
///
/// # Panics
/// When the table cannot be read.
#[must_use]
pub fn examples_between(servers: usize) -> Vec<(String, Expectation)> {
    runs_of(|entry| entry.vgpus == Some(2) && (servers == 1 || !entry.peers))
}

fn runs_of(chosen: impl Fn(&Entry) -> bool) -> Vec<(String, Expectation)> {
    let path = crate::repository().join("examples/cuda/programs.toml");
    let text = std::fs::read_to_string(&path).expect("programs.toml is part of the repository");
    let table: Table = toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let runs = |entry: Entry| entry.run.into_iter().map(move |run| (entry.name.clone(), run));
    table.program.into_iter().filter(chosen).flat_map(runs).collect()
}

/// The executable of an example.
fn executable(name: &str, linkage: Linkage) -> PathBuf {
    let folder = if linkage == Linkage::Static { "static" } else { "shared" };
    crate::built_examples().join(folder).join(name)
}

/// An example by name with arguments.
#[must_use]
pub fn example(name: &str, linkage: Linkage, arguments: &[&str]) -> Program {
    Program::new(executable(name, linkage), arguments)
}

impl Expectation {
    /// The differences between this and an outcome; `None` when there are none.
    #[must_use]
    pub fn difference(&self, outcome: &Outcome) -> Option<String> {
        if outcome.code != Some(self.exit) {
            return Some(format!("exit code {:?}, expected {}", outcome.code, self.exit));
        }
        let missing = self.lines.iter().find(|line| !outcome.stdout.lines().any(|seen| seen == **line));
        if let Some(line) = missing {
            return Some(format!("no line: {line}"));
        }
        let mut seen = outcome.stdout.lines();
        let out_of_order = self.ordered.iter().find(|line| !seen.any(|seen| seen == **line));
        if let Some(line) = out_of_order {
            return Some(format!("no line, or not in its place: {line}"));
        }
        // A program that runs right has nothing of floe's on its stderr.
        let ours =
            |line: &&str| ["floe: ", "floe[", "floed: ", "floe-worker: "].iter().any(|name| line.starts_with(name));
        if let Some(line) = outcome.stderr.lines().find(ours).filter(|_| self.exit == 0 && !self.faults) {
            return Some(format!("a line of floe's on stderr: {line}"));
        }
        let unsaid = self.stderr.iter().find(|part| !outcome.stderr.contains(part.as_str()));
        unsaid.map(|part| format!("stderr does not say: {part}"))
    }
}
