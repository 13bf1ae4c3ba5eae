//! `floe-bench frameworks`: the checks of PyTorch, JAX, CuPy, Triton and NVIDIA's libraries, natively and through floe.
//! In: the files of `share/frameworks`. Out: a line per file and per differing check, a JSON file where a folder is
//! named, and an exit code. The exit code is 0 when floe passed every check that native passed, with the same numbers.

mod checks;
mod libraries;
mod silence;
mod variants;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::json;

use crate::bars::Way;
use crate::installation::{Equipment, Installation};
use crate::machine;
use crate::moving::{Mover, Moves};
use crate::server::Server;
use checks::{Outcome, Outcomes};
pub(crate) use libraries::Toolkit;
use variants::Variant;

/// Flags of `floe-bench frameworks`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Files to run, without their ending: torch_training, jax_programs, cublas, … [default: all]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    only: Vec<String>,
    /// The way of floe
    #[arg(long, value_name = "WAY", default_value = "shm", value_parser = crate::speed::way)]
    way: Way,
    /// Run through floe only, and compare with nothing
    #[arg(long)]
    floe_only: bool,
    /// Move every session to the next GPU again and again while the checks run
    #[arg(long)]
    moves: bool,
    /// Number of files that run at once; files that say `# run alone` run by themselves after the others
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=32))]
    jobs: u8,
    /// Write frameworks.json and the programs' stderr into this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    #[command(flatten)]
    equipment: Equipment,
}

/// How one check went by both ways.
#[derive(Debug, Serialize)]
struct Compared {
    file: String,
    check: String,
    verdict: Verdict,
    /// Why, where something is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// In short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Verdict {
    /// Passed, with native's numbers where it gave any.
    Passed,
    /// Native fails too: not floe's doing, but nothing was checked.
    FailsNatively,
    /// Fails through floe only.
    Failed,
    /// Passes, with other numbers than native's.
    Differs,
}

/// Runs and compares.
///
/// # Errors
/// When nothing could be run: no installation, no device, no such file.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let began = Instant::now();
    let installation = Installation::of_this_executable()?;
    let variants = variants::chosen(&installation.frameworks()?, &arguments.only)?;
    let folder = tempfile::tempdir().context("no temporary folder")?;
    let logs = arguments.out.as_ref().map_or_else(|| folder.path().to_path_buf(), |out| out.join("frameworks-logs"));
    std::fs::create_dir_all(&logs).with_context(|| format!("cannot be made: {}", logs.display()))?;
    let (library, nccl) = (&arguments.equipment.device_library, arguments.equipment.nccl());
    let nccl: Vec<&str> = nccl.iter().map(String::as_str).collect();
    let server = Server::start_with(&installation, library, folder.path(), &nccl)?;
    let gpu = server.gpu(&installation)?;
    let programs = Programs {
        arguments,
        installation: &installation,
        server: &server,
        built: folder.path(),
        logs: &logs,
        cpu_device: gpu.kind == "cpu",
    };
    let (alone, together): (Vec<_>, Vec<_>) = variants.into_iter().partition(|variant| variant.alone);
    let compare = || -> Result<Vec<Compared>> {
        let mut all = programs.compare_all(&together, arguments.jobs.into())?;
        all.extend(programs.compare_all(&alone, 1)?);
        Ok(all)
    };
    let (all, moves) = if arguments.moves {
        let (all, moves) = Mover::new(&installation, &server)?.keep_moving(compare);
        (all?, Some(moves))
    } else {
        (compare()?, None)
    };
    if let Some(out) = &arguments.out {
        write(&out.join("frameworks.json"), &gpu.name, &all, moves.as_ref())?;
    }
    if let Some(moves) = moves {
        println!("{} moves; the longest pause: {:.0} ms", moves.made, moves.longest_pause_ms);
        moves.refused.iter().for_each(|(why, count)| println!("  {count} times: {why}"));
    }
    Ok(verdict(&all, began))
}

/// Everything that running a file needs.
struct Programs<'a> {
    arguments: &'a Arguments,
    installation: &'a Installation,
    server: &'a Server,
    built: &'a Path,
    logs: &'a Path,
    cpu_device: bool,
}

impl Programs<'_> {
    /// Runs files, some at once, and reports each when it is over.
    fn compare_all(&self, variants: &[Variant], jobs: usize) -> Result<Vec<Compared>> {
        let (next, all) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let work = || -> Result<()> {
            while let Some(variant) = variants.get(next.fetch_add(1, Ordering::Relaxed)) {
                let compared = self.compare(variant)?;
                let mut all = floe_lock::lock(&all);
                tell(variant, &compared);
                all.extend(compared);
            }
            Ok(())
        };
        let ended: Result<Vec<()>> = std::thread::scope(|scope| {
            let started: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
            started.into_iter().map(|job| job.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        ended?;
        Ok(floe_lock::into_inner(all))
    }

    fn compare(&self, variant: &Variant) -> Result<Vec<Compared>> {
        let words = match self.words(variant) {
            Ok(words) => words,
            Err(error) => return Ok(vec![not_started(variant, &error)]),
        };
        let floe = self.run(variant, &words, self.arguments.way)?;
        if self.arguments.floe_only {
            return Ok(compared(variant, &floe, &floe));
        }
        let mut all = compared(variant, &self.run(variant, &words, Way::Native)?, &floe);
        if all.iter().all(|check| check.verdict == Verdict::Passed) {
            all.push(self.silence(variant)?);
        }
        Ok(all)
    }

    /// Whether a program that ran right wrote to its stderr what it does not write natively.
    fn silence(&self, variant: &Variant) -> Result<Compared> {
        let [native, floe] = [Way::Native, self.arguments.way].map(|way| {
            let log = self.log(variant, way);
            std::fs::read(&log).with_context(|| format!("cannot read: {}", log.display()))
        });
        let reason = silence::broken(&String::from_utf8_lossy(&native?), &String::from_utf8_lossy(&floe?));
        let verdict = if reason.is_none() { Verdict::Passed } else { Verdict::Failed };
        Ok(Compared { file: variant.title.clone(), check: silence::NAME.to_owned(), verdict, reason })
    }

    fn log(&self, variant: &Variant, way: Way) -> PathBuf {
        let name: String = variant.title.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        self.logs.join(format!("{name}.{}.log", way.name()))
    }

    /// The words of the program, built first where it is a CUDA source.
    fn words(&self, variant: &Variant) -> Result<Vec<PathBuf>> {
        if variant.source.extension().is_some_and(|ending| ending == "py") {
            return Ok(vec![PathBuf::from(&self.arguments.equipment.python), variant.source.clone()]);
        }
        Ok(vec![Toolkit::find(&self.arguments.equipment.python)?.build(&variant.source, self.built)?])
    }

    fn run(&self, variant: &Variant, words: &[PathBuf], way: Way) -> Result<Outcomes> {
        eprintln!("floe-bench: {}, {}", variant.title, way.name());
        let count = if variant.every_gpu { 2 } else { 1 };
        let vgpus = self.server.devices(way, count);
        let log = self.log(variant, way);
        // Kernels that the other way's run has left in a cache would not be compiled, nor their warnings be said, by this one.
        let caches = self.built.join(log.file_stem().unwrap_or_default());
        checks::run(&log, || {
            let mut command = self.server.started_on(self.installation, words, way, &vgpus, self.cpu_device);
            if way == Way::Native && variant.every_gpu {
                command.env("CUDA_VISIBLE_DEVICES", "0,1");
            }
            command.envs(variant.environment.iter().map(|(name, value)| (name, value)));
            command.env("PYTHONDONTWRITEBYTECODE", "1");
            command.env("TORCHINDUCTOR_CACHE_DIR", caches.join("inductor"));
            command.env("TRITON_CACHE_DIR", caches.join("triton"));
            command
        })
    }
}

fn not_started(variant: &Variant, error: &anyhow::Error) -> Compared {
    Compared {
        file: variant.title.clone(),
        check: checks::START.to_owned(),
        verdict: Verdict::FailsNatively,
        reason: Some(format!("{error:#}")),
    }
}

fn compared(variant: &Variant, native: &Outcomes, floe: &Outcomes) -> Vec<Compared> {
    let names: BTreeMap<&String, ()> = native.keys().chain(floe.keys()).map(|name| (name, ())).collect();
    let of = |name: &String| {
        let (verdict, reason) = judged(native.get(name), floe.get(name));
        Compared { file: variant.title.clone(), check: name.clone(), verdict, reason }
    };
    names.into_keys().map(of).collect()
}

/// The comparison of one check. A check that only one of the two reported was never run in the other.
fn judged(native: Option<&Outcome>, floe: Option<&Outcome>) -> (Verdict, Option<String>) {
    let failure = |outcome: Option<&Outcome>| match outcome {
        // Only what cannot start names the start; whoever does not, did.
        None => None,
        Some(outcome) => outcome.failure.clone(),
    };
    match (failure(native), failure(floe)) {
        (Some(native), _) => (Verdict::FailsNatively, Some(native)),
        (None, Some(floe)) => (Verdict::Failed, Some(floe)),
        (None, None) => match (native, floe) {
            (Some(native), Some(floe)) if native.values != floe.values => (Verdict::Differs, difference(native, floe)),
            (Some(_), None) => (Verdict::Failed, Some("was not run".to_owned())),
            _ => (Verdict::Passed, None),
        },
    }
}

/// The first number that differs.
fn difference(native: &Outcome, floe: &Outcome) -> Option<String> {
    let (native, floe) = (native.values.as_ref()?, floe.values.as_ref()?);
    let at = native.iter().zip(floe).position(|(native, floe)| native != floe);
    let at = at.unwrap_or_else(|| native.len().min(floe.len()));
    let number = |values: &[String]| values.get(at).cloned().unwrap_or_else(|| "nothing".to_owned());
    Some(format!("number {at}: native {}, floe {}", number(native), number(floe)))
}

fn tell(variant: &Variant, compared: &[Compared]) {
    let passed = compared.iter().filter(|check| check.verdict == Verdict::Passed).count();
    println!("{}: {passed} of {} passed", variant.title, compared.len());
    for check in compared.iter().filter(|check| check.verdict != Verdict::Passed) {
        let word = match check.verdict {
            Verdict::FailsNatively => "fails natively too",
            Verdict::Differs => "DIFFERS FROM NATIVE",
            Verdict::Failed | Verdict::Passed => "FAILED",
        };
        println!("  {word}: {}: {}", check.check, check.reason.as_deref().unwrap_or_default());
    }
}

fn verdict(all: &[Compared], began: Instant) -> ExitCode {
    let count = |verdict| all.iter().filter(|check| check.verdict == verdict).count();
    let (failed, differs) = (count(Verdict::Failed), count(Verdict::Differs));
    println!(
        "{} checks: {} passed, {failed} failed through floe, {differs} gave other numbers, {} fail natively; {:.0} s",
        all.len(),
        count(Verdict::Passed),
        count(Verdict::FailsNatively),
        began.elapsed().as_secs_f64()
    );
    if failed + differs == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn write(path: &Path, device: &str, all: &[Compared], moves: Option<&Moves>) -> Result<()> {
    let mut record = machine::heading(device);
    record.extend([("moves".to_owned(), json!(moves)), ("checks".to_owned(), json!(all))]);
    machine::write_record(path, &record)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gave(values: &[&str]) -> Outcome {
        Outcome { failure: None, values: Some(values.iter().map(ToString::to_string).collect()) }
    }

    fn broke() -> Outcome {
        Outcome { failure: Some("broke".into()), values: None }
    }

    #[test]
    fn only_what_native_passes_can_fail_through_floe() {
        assert_eq!(judged(Some(&gave(&[])), Some(&broke())).0, Verdict::Failed);
        assert_eq!(judged(Some(&broke()), Some(&broke())).0, Verdict::FailsNatively);
        assert_eq!(judged(Some(&gave(&[])), None).0, Verdict::Failed);
    }

    #[test]
    fn a_start_that_fails_through_floe_only_is_floes() {
        assert_eq!(judged(None, Some(&broke())).0, Verdict::Failed);
    }

    #[test]
    fn other_numbers_are_told_with_their_place() {
        let (verdict, reason) = judged(Some(&gave(&["1", "2"])), Some(&gave(&["1", "3"])));
        assert_eq!((verdict, reason.as_deref()), (Verdict::Differs, Some("number 1: native 2, floe 3")));
        assert_eq!(judged(Some(&gave(&["1"])), Some(&gave(&["1"]))).0, Verdict::Passed);
    }
}
