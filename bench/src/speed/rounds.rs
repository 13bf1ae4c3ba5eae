//! The measurement itself: every workload natively and by every way of floe, several rounds.
//! In: workloads, an installation, a server. Out: [`Findings`]: every number of every process. It compares nothing.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::findings::Findings;
use super::line::Line;
use super::together::{self, Plan};
use super::workload::{Course, Runner, Vgpus, Workload};
use crate::bars::Way;
use crate::installation::Installation;
use crate::program::memory;
use crate::program::{self, Heard};
use crate::server::{Server, has_gpu};

/// Longest silence of a program: loading PyTorch's libraries from a cold disk takes tens of seconds.
const PATIENCE: Duration = Duration::from_secs(90);

/// The environment of the programs.
#[derive(Debug)]
pub(crate) struct Bench<'a> {
    pub(crate) installation: &'a Installation,
    pub(crate) server: &'a Server,
    /// For programs with vGPUs of two servers.
    pub(crate) second: &'a Server,
    /// Whether the device is the CPU device: native then means its library in the program's own process.
    pub(crate) cpu_device: bool,
    pub(crate) python: &'a str,
    pub(crate) quick: bool,
    /// Whether each turn is timed on two other processors, the same by every way.
    pub(crate) rotate: bool,
    /// Takes the programs' stderr and counts.
    pub(crate) logs: &'a Path,
}

impl Bench<'_> {
    /// Runs every chosen workload `rounds` times by every way, and once by every way uncounted where programs start cold.
    /// `after_round` is given the number of rounds that are over, and what was found in them.
    ///
    /// # Errors
    /// When a program does not start at all, or `after_round` fails.
    pub(crate) fn measure(
        &self,
        chosen: &[(&'static Workload, Vec<&'static str>)],
        ways: &[Way],
        rounds: usize,
        after_round: &mut dyn FnMut(usize, &Findings) -> Result<()>,
    ) -> Result<()> {
        let mut findings = Findings::default();
        for (workload, sections) in chosen.iter().filter(|(_, sections)| sections.contains(&"start")) {
            eprintln!("floe-bench: first starts");
            self.run(workload, sections, ways, &mut Findings::default())?;
        }
        let (chosen, left): (Vec<_>, Vec<_>) =
            chosen.iter().partition(|(workload, _)| has_gpu(workload.least_gpus() - 1));
        for (workload, _) in left {
            eprintln!("floe-bench: {} needs {} GPUs and is not measured", workload.file, workload.least_gpus());
        }
        for round in 1..=rounds {
            let ways: Vec<Way> = in_turn(ways, round).collect();
            for (workload, sections) in chosen.iter().filter(|(workload, _)| workload.is_measured_in(round)) {
                eprintln!("floe-bench: round {round} of {rounds}, {}, {}", workload.file, sections.join(" "));
                match workload.course {
                    Course::ByTurns => self.run(workload, sections, &ways, &mut findings)?,
                    Course::InSuccession | Course::Once => {
                        ways.iter().try_for_each(|way| self.run(workload, sections, &[*way], &mut findings))?;
                    }
                }
            }
            after_round(round, &findings)?;
        }
        Ok(())
    }

    /// Runs sections by these ways at once, each without those that failed before.
    fn run(&self, workload: &Workload, sections: &[&'static str], ways: &[Way], findings: &mut Findings) -> Result<()> {
        let left = |way: Way| sections.iter().copied().filter(|section| !findings.has_failed(section, way)).collect();
        let members = ways.iter().map(|way| (*way, left(*way))).collect();
        let start = |way, sections: &[&'static str]| self.start(workload, sections, way);
        let plan = Plan { program: workload.file, sections: workload.sections, patience: PATIENCE, start: &start };
        let failures = together::run(&plan, members, &mut |way, line, heard| self.note(line, heard, way, findings))?;
        findings.failures.extend(failures);
        if sections.contains(&"start") {
            let good: Vec<_> = ways.iter().filter(|way| !findings.has_failed("start", **way)).collect();
            good.into_iter().for_each(|way| findings.note_module_bytes(&self.counts(*way), *way));
        }
        Ok(())
    }

    /// Takes what the client library counted.
    fn counts(&self, way: Way) -> PathBuf {
        self.logs.join(format!("counts.{}.json", way.name()))
    }

    /// The command for one process, and its log.
    fn start(&self, workload: &Workload, sections: &[&str], way: Way) -> Result<(Command, PathBuf)> {
        let counts = self.counts(way);
        // Those of another program would be taken for this one's.
        let _ = std::fs::remove_file(&counts);
        let command = self.command(workload, sections, way, &counts)?;
        let first = sections.first().copied().unwrap_or_default();
        Ok((command, program::log_in(self.logs, &format!("{}.{first}.{}", workload.file, way.name()))))
    }

    fn command(&self, workload: &Workload, sections: &[&str], way: Way, counts: &Path) -> Result<Command> {
        let file = self.installation.bench_program(workload.file)?;
        let words: Vec<PathBuf> = match workload.runner {
            Runner::Executable => vec![file],
            Runner::Python => vec![self.python.into(), file],
        };
        let budget = if self.quick { workload.budget.1 } else { workload.budget.0 };
        let vgpus = match workload.vgpus {
            Vgpus::Of(count) | Vgpus::OfEach(count) => self.server.devices(way, count),
            Vgpus::OfTwoServers => format!("{},{}", self.server.device(way), self.second.device_of(way, 1)),
        };
        let mut command = self.server.started_on(self.installation, &words, way, &vgpus, self.cpu_device);
        command.arg(budget.to_string()).args(sections).env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("FLOE_STATS", format!("json:{}", counts.display()));
        if self.rotate {
            command.env("FLOE_BENCH_ROTATE", "1");
        }
        Ok(command)
    }

    fn note(&self, line: Line, heard: &Heard, way: Way, findings: &mut Findings) {
        match line {
            Line::Time { name, seconds, bytes, turns } => {
                if let Some(bytes) = bytes {
                    findings.bytes.insert(name.clone(), bytes);
                }
                findings.note(&name, way, seconds);
                if !turns.is_empty() {
                    findings.turns.entry(name).or_default().entry(way).or_default().push(turns);
                }
            }
            Line::Count { name, per_unit } => findings.note(&name, way, per_unit),
            Line::Mark { name } => findings.note(&name, way, heard.after.as_secs_f64()),
            Line::Result { name, values } => {
                findings.results.entry(name).or_default().entry(way).or_default().push(values);
            }
            Line::Version { name, value } => {
                findings.versions.insert(name, value);
            }
            Line::Pause { name } => self.weigh(&name, heard.process, way, findings),
            // These steer the run, and find nothing.
            Line::Turn | Line::Meet | Line::Done { .. } | Line::Failed { .. } => {}
        }
    }

    /// Notes the memory of this moment. A driver's own host memory is the program's natively, and else its worker's.
    fn weigh(&self, pause: &str, process: u32, way: Way, findings: &mut Findings) {
        let client = memory::resident(process);
        let mut note = |name: &str, mebibytes: Option<f64>| {
            if let Some(mebibytes) = mebibytes {
                findings.note(name, way, mebibytes);
            }
        };
        if pause != "resnet18" {
            return;
        }
        let workers = match way {
            Way::Native => Some(0.0),
            _ => {
                let workers: Vec<f64> = self.server.workers().into_iter().filter_map(memory::resident).collect();
                (!workers.is_empty()).then(|| workers.iter().sum())
            }
        };
        note("memory.client", client);
        note("memory.host", client.zip(workers).map(|(client, workers)| client + workers));
        note("memory.gpu", memory::of_gpu());
    }
}

/// The ways of one round (counted from 1): each begins with another, so that none always comes when the machine is coldest.
fn in_turn(ways: &[Way], round: usize) -> impl Iterator<Item = Way> {
    ways.iter().copied().cycle().skip(round - 1).take(ways.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_is_first_once_and_each_is_in_every_round() {
        let ways = [Way::Native, Way::Unix, Way::Tcp];
        let rounds: Vec<Vec<Way>> = (1..=4).map(|round| in_turn(&ways, round).collect()).collect();
        assert_eq!(rounds[1], [Way::Unix, Way::Tcp, Way::Native]);
        assert_eq!(rounds[3], ways);
    }
}
