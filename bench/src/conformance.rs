//! `floe-bench conformance`: public programs that nobody here wrote, natively and through floe.
//! In: checkouts of their repositories, which the user has made, and a compiler. Out: a line per program, a JSON file where a
//! folder is named, and an exit code, which is 0 when some program passes natively and each that does passes through floe. A
//! program passes when its exit code is 0 and it says what its list wants said: one that finds nothing to test has passed.

mod checkout;
mod list;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::json;

use crate::bars::Way;
use crate::frameworks::Toolkit;
use crate::installation::{Equipment, Installation};
use crate::server::Server;
use crate::{machine, program};
use list::{Program, Programs};

/// Flags of `floe-bench conformance`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A checkout of a repository whose programs are listed, in any order; give the flag once for each
    #[arg(long, value_name = "FOLDER", required = true)]
    samples: Vec<PathBuf>,
    /// Programs to run: vectorAdd, simpleStreams, … [default: all of the lists]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    only: Vec<String>,
    /// Where the built programs lie; what is there is not built again [default: a temporary folder]
    #[arg(long, value_name = "FOLDER")]
    built: Option<PathBuf>,
    /// Only build
    #[arg(long, requires = "built")]
    build_only: bool,
    /// The way of floe
    #[arg(long, value_name = "WAY", default_value = "shm", value_parser = crate::speed::way)]
    way: Way,
    /// End a program that says nothing for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    silence: u64,
    /// Write conformance.json and the programs' output into this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    #[command(flatten)]
    equipment: Equipment,
}

/// How one program went.
#[derive(Debug, Serialize)]
struct Compared {
    program: String,
    /// As `zjin-lcf/HeCBench`.
    repository: String,
    verdict: Verdict,
    /// Why, where it did not pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Seconds natively and through floe.
    seconds: [f64; 2],
}

/// In short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Verdict {
    Passed,
    /// Passes natively only.
    Failed,
    /// Native fails too, or waives its test: nothing was checked.
    FailsNatively,
    /// No executable.
    NotBuilt,
}

/// Builds, runs and compares.
///
/// # Errors
/// When nothing could be run: no installation, no device, no checkout, no such program.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let programs = Programs::read()?;
    let commits = json!(programs.commits());
    let programs = programs.chosen(&arguments.only)?;
    let installation = Installation::of_this_executable()?;
    let folder = tempfile::tempdir().context("no temporary folder")?;
    let made = |wanted: Option<PathBuf>, otherwise: &str| -> Result<PathBuf> {
        let path = wanted.unwrap_or_else(|| folder.path().join(otherwise));
        std::fs::create_dir_all(&path).with_context(|| format!("cannot be made: {}", path.display()))?;
        path.canonicalize().with_context(|| format!("cannot be found: {}", path.display()))
    };
    let checkout = |path: &PathBuf| path.canonicalize().with_context(|| format!("no checkout: {}", path.display()));
    let tested = Tested {
        arguments,
        samples: arguments.samples.iter().map(checkout).collect::<Result<_>>()?,
        built: made(arguments.built.clone(), "built")?,
        logs: made(arguments.out.as_ref().map(|out| out.join("conformance-logs")), "logs")?,
        driver: installation.cpu_device().join("libcuda.so.1"),
    };
    if arguments.build_only {
        let failed = programs.iter().filter(|program| tested.is_not_built(program)).count();
        println!("{} programs: {failed} not built", programs.len());
        return Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let server = Server::start(&installation, &arguments.equipment.device_library, folder.path())?;
    let gpu = server.gpu(&installation)?;
    let mut all = Vec::new();
    let mut record = machine::heading(&gpu.name);
    record.insert("samples".to_owned(), commits);
    for program in &programs {
        let compared = tested.compare(program, &installation, &server, gpu.kind == "cpu")?;
        tell(&compared);
        all.push(compared);
        // What was found so far is kept, whatever ends this.
        if let Some(out) = &arguments.out {
            record.insert("programs".to_owned(), json!(all));
            machine::write_record(&out.join("conformance.json"), &record)?;
        }
    }
    Ok(verdict(&all))
}

/// Programs that are built and run.
struct Tested<'a> {
    arguments: &'a Arguments,
    samples: Vec<PathBuf>,
    built: PathBuf,
    logs: PathBuf,
    /// A `libcuda.so.1` to link with.
    driver: PathBuf,
}

impl Tested<'_> {
    fn is_not_built(&self, program: &Program) -> bool {
        let built = self.build(program);
        match &built {
            Ok(path) => println!("{}", path.display()),
            Err(error) => println!("NOT BUILT: {}: {error:#}", program.name()),
        }
        built.is_err()
    }

    /// The program's executable, beside the files that it loads.
    fn build(&self, program: &Program) -> Result<PathBuf> {
        let out = self.built.join(program.name());
        let executable = out.join(program.name());
        let stamp = out.join("tree");
        if executable.is_file() && std::fs::read_to_string(&stamp).is_ok_and(|tree| tree == program.stamp()) {
            return Ok(executable);
        }
        let checkout = program.checkout(&self.samples)?;
        std::fs::create_dir_all(&out).with_context(|| format!("cannot be made: {}", out.display()))?;
        let toolkit = Toolkit::find(&self.arguments.equipment.python)?;
        let folder = checkout.join(&program.path);
        let headers = program.headers(checkout);
        let compile = |sources: &[PathBuf], flags: &[String], to: &Path| {
            let headers = headers.iter().flat_map(|headers| ["-I".to_owned(), headers.display().to_string()]);
            let all: Vec<String> = ["--extended-lambda".to_owned()].into_iter().chain(headers).collect();
            toolkit.compile(sources, &[&all, flags].concat(), to)
        };
        for (module, source) in &program.modules {
            let kind = if module.ends_with(".ptx") { "-ptx" } else { "-fatbin" };
            compile(&[folder.join(source)], &[kind.to_owned()], &out.join(module))?;
        }
        let sources: Vec<PathBuf> = program.sources.iter().map(|source| folder.join(source)).collect();
        let libraries = program.libraries.iter().map(|name| format!("-l:lib{name}.so.{}", soversion(name)));
        // Any library of the driver's name will do: the program finds another one when it runs.
        let driver = ["-Xlinker".to_owned(), self.driver.display().to_string(), "-ldl".to_owned()];
        let flags: Vec<String> = program.flags.iter().cloned().chain(libraries).chain(driver).collect();
        compile(&sources, &flags, &executable)?;
        std::fs::write(&stamp, program.stamp()).with_context(|| format!("cannot be written: {}", stamp.display()))?;
        Ok(executable)
    }

    /// Where a program finds its files: beside its sources, or beside what was made of them, with a link to its data.
    fn place(&self, program: &Program, executable: &Path) -> Result<PathBuf> {
        let folder = program.files(&self.samples)?;
        let Some(beside) = executable.parent().filter(|_| !program.modules.is_empty()) else { return Ok(folder) };
        let (data, link) = (folder.join("data"), beside.join("data"));
        if data.is_dir() {
            // The checkout may lie elsewhere than when the program was built.
            let _ = std::fs::remove_file(&link);
            std::os::unix::fs::symlink(&data, &link).with_context(|| format!("cannot be made: {}", link.display()))?;
        }
        Ok(beside.to_path_buf())
    }

    fn compare(
        &self,
        program: &Program,
        installation: &Installation,
        server: &Server,
        cpu_device: bool,
    ) -> Result<Compared> {
        let repository = program.repository.name().to_owned();
        let name = program.name().to_owned();
        let of = |verdict, reason, seconds| Compared { program: name, repository, verdict, reason, seconds };
        let ready = self.build(program).and_then(|executable| Ok((self.place(program, &executable)?, executable)));
        let (place, executable) = match ready {
            Ok(ready) => ready,
            Err(error) => return Ok(of(Verdict::NotBuilt, Some(format!("{error:#}")), [0.0; 2])),
        };
        let words: Vec<PathBuf> = [executable].into_iter().chain(program.args.iter().map(PathBuf::from)).collect();
        let run = |way: Way| {
            let mut command = server.started(installation, &words, way, cpu_device);
            command.current_dir(&place);
            self.run(program, command, way)
        };
        let (native, native_seconds) = run(Way::Native)?;
        if native.is_some() {
            return Ok(of(Verdict::FailsNatively, native, [native_seconds, 0.0]));
        }
        let (floe, seconds) = run(self.arguments.way)?;
        let verdict = if floe.is_none() { Verdict::Passed } else { Verdict::Failed };
        Ok(of(verdict, floe, [native_seconds, seconds]))
    }

    /// Why one run did not pass, and its seconds.
    fn run(&self, program: &Program, command: Command, way: Way) -> Result<(Option<String>, f64)> {
        let log = self.logs.join(format!("{}.{}.log", program.name(), way.name()));
        let (start, mut last, mut output) = (Instant::now(), String::new(), String::new());
        let silence = Duration::from_secs(self.arguments.silence);
        let ending = program::run(command, &log, silence, |line| {
            output.push_str(&line.text);
            output.push('\n');
            if !line.text.trim().is_empty() {
                last.clone_from(&line.text);
            }
        })?;
        let seconds = start.elapsed().as_secs_f64();
        let objection = if ending.success { program.objection(&output) } else { Some(ending.how) };
        let said = log.with_extension("out");
        std::fs::write(&said, output).with_context(|| format!("cannot be written: {}", said.display()))?;
        Ok((objection.map(|how| format!("{how}: {last} | {}", ending.said)), seconds))
    }
}

/// The version in the name of a library of CUDA 13.
fn soversion(library: &str) -> u32 {
    match library {
        "cufft" | "cusolver" | "cusparse" => 12,
        "curand" => 10,
        _ => 13,
    }
}

fn tell(compared: &Compared) {
    let word = match compared.verdict {
        Verdict::Passed => "passed",
        Verdict::Failed => "FAILED",
        Verdict::FailsNatively => "fails natively too",
        Verdict::NotBuilt => "not built",
    };
    let reason = compared.reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
    println!("{}: {word}{reason}", compared.program);
}

fn verdict(all: &[Compared]) -> ExitCode {
    let repositories: BTreeSet<&str> = all.iter().map(|compared| compared.repository.as_str()).collect();
    if repositories.len() > 1 {
        for repository in repositories {
            let of_it: Vec<&Compared> = all.iter().filter(|compared| compared.repository == repository).collect();
            println!("{repository}: {}", summary(&of_it));
        }
    }
    let all: Vec<&Compared> = all.iter().collect();
    println!("{}", summary(&all));
    // Nothing compared is no success: no compiler, another checkout.
    let succeeded = count(&all, Verdict::Failed) == 0 && count(&all, Verdict::Passed) > 0;
    if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn summary(of: &[&Compared]) -> String {
    let passed = count(of, Verdict::Passed);
    format!(
        "{} programs: of {} that pass natively {passed} pass through floe; {} fail natively, {} were not built",
        of.len(),
        passed + count(of, Verdict::Failed),
        count(of, Verdict::FailsNatively),
        count(of, Verdict::NotBuilt)
    )
}

fn count(of: &[&Compared], verdict: Verdict) -> usize {
    of.iter().filter(|compared| compared.verdict == verdict).count()
}
