//! `floe doctor`: checks client, servers, device, settings and permissions. Each finding says what to do.
//! In: this machine. Out: one line per check, or all of them as JSON; exit code 1 when one fails. It changes nothing.

mod driver;
mod finding;
mod network;
mod policy;
mod protection;

use std::fmt::Display;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Result;
use serde::Serialize;

use crate::install::Installation;
use crate::servers::Pair;
use crate::{private, servers, table};
use finding::{Finding, Weight};

/// Flags of `floe doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Servers to check as well: HOST[,HOST…] [default: this machine's daemon and those of the settings]
    #[arg(long, value_name = "HOST,…", value_delimiter = ',')]
    on: Vec<String>,
    /// The policy of this machine's server to check [default: that of the settings]
    #[arg(long, value_name = "PATH")]
    policy: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The findings so far.
#[derive(Debug)]
struct Findings {
    /// Whether each is printed as soon as it is known.
    are_shown: bool,
    all: Vec<Finding>,
}

/// What is printed for programs.
#[derive(Debug, Serialize)]
struct Report {
    /// The version of this `floe`.
    floe: String,
    findings: Vec<Finding>,
}

impl Findings {
    fn add(&mut self, finding: Finding) {
        if self.are_shown {
            // Where stdout takes nothing, the last line fails, too.
            let _ =
                table::print_line(format_args!("  {:<6} {}: {}", finding.weight.word(), finding.subject, finding.text));
            let advice = finding.advice.iter().flat_map(|advice| advice.lines());
            advice.for_each(|line| drop(table::print_line(format_args!("         {line}"))));
        }
        self.all.push(finding);
    }

    fn good(&mut self, what: &str, detail: impl Display) {
        self.add(Finding::new(Weight::Good, what, detail));
    }

    fn note(&mut self, what: &str, detail: impl Display) {
        self.add(Finding::new(Weight::Note, what, detail));
    }

    fn wrong(&mut self, what: &str, detail: impl Display) {
        self.add(Finding::new(Weight::Wrong, what, detail));
    }

    fn add_all(&mut self, found: Vec<Finding>) {
        found.into_iter().for_each(|finding| self.add(finding));
    }

    fn check<T: Display>(&mut self, what: &str, outcome: Result<T>) {
        match outcome {
            Ok(detail) => self.good(what, detail),
            Err(error) => self.wrong(what, format!("{error:#}")),
        }
    }

    fn count_wrong(&self) -> usize {
        self.all.iter().filter(|finding| finding.weight == Weight::Wrong).count()
    }
}

/// Runs all checks.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let installation = Installation::of_this_executable()?;
    let mut findings = Findings { are_shown: !arguments.json, all: Vec::new() };
    if !arguments.json {
        table::print_line(format_args!("floe {}", crate::install::version()))?;
    }
    check_all(&mut findings, &installation, arguments);
    let wrong = findings.count_wrong();
    if arguments.json {
        let report = Report { floe: crate::install::version(), findings: findings.all };
        table::print_json(&report)?;
    } else if wrong == 0 {
        table::print_line("nothing is wrong")?;
    } else {
        table::print_line(format_args!("{wrong} findings"))?;
    }
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn check_all(findings: &mut Findings, installation: &Installation, arguments: &Arguments) {
    files(findings, installation);
    client_path(findings);
    settings(findings);
    gpu_of_this_machine(findings);
    local_device(findings, installation);
    // Without an answer the worker's own finding says why.
    let look = driver::look(installation).unwrap_or_default();
    findings.add_all(driver::findings(&look));
    findings.add_all(protection::findings(installation, &look));
    findings.add_all(policy::findings(arguments.policy.as_deref()));
    findings.add_all(network::finding().into_iter().collect());
    servers_that_answer(findings, &arguments.on);
}

fn files(findings: &mut Findings, installation: &Installation) {
    let client = installation.client_library_folder().map(|folder| folder.join("libcuda.so.1").display().to_string());
    findings.check("client library", client);
    findings.check("CPU device", installation.cpu_device().map(|path| path.display().to_string()));
    for name in ["floed", "floe-worker"] {
        let version = installation.executable(name).and_then(|path| version(&path));
        findings.check(name, version);
    }
}

/// The output of `--version`, which must name this build.
fn version(executable: &Path) -> Result<String> {
    let output = Command::new(executable).arg("--version").output()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let own = crate::install::version();
    anyhow::ensure!(
        text.split_once(' ').is_some_and(|(_, version)| version == own),
        "{} is of another build than floe {own}: {text}\n  install all of floe from one build",
        executable.display()
    );
    Ok(text)
}

/// Programs that are started without `floe run` load the first libcuda on LD_LIBRARY_PATH.
fn client_path(findings: &mut Findings) {
    let path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("libcuda.so.1")).find(|file| file.exists());
    match found {
        None => findings.good("LD_LIBRARY_PATH", "no other libcuda.so.1 on it"),
        Some(file) => {
            findings.note("LD_LIBRARY_PATH", format!("contains {}; `floe run` puts its own in front", file.display()))
        }
    }
}

fn settings(findings: &mut Findings) {
    match servers::settings() {
        Err(error) => findings.wrong("settings", format!("{error:#}")),
        Ok(settings) => {
            let words = match settings.devices.len() {
                0 => "no devices named: `floe run` uses this machine's own".to_owned(),
                count => format!("{count} devices named"),
            };
            findings.good("settings", words);
            for (name, why) in &settings.refused {
                findings.note("settings", format!("servers do not honour {name}: {why}"));
            }
            if let Some(path) = &settings.credentials.token_file {
                token_file(findings, path);
            }
        }
    }
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for unknown in floe_settings::unknown_variables(names) {
        findings.wrong("settings", unknown);
    }
}

fn token_file(findings: &mut Findings, path: &Path) {
    match path.metadata() {
        Err(error) => findings.wrong("token file", format!("{}: {error}", path.display())),
        Ok(metadata) if metadata.permissions().mode() & 0o077 != 0 => {
            findings.wrong("token file", format!("others can read {0}\n  chmod 600 {0}", path.display()));
        }
        Ok(_) => findings.good("token file", path.display()),
    }
}

fn gpu_of_this_machine(findings: &mut Findings) {
    let control = Path::new("/dev/nvidiactl");
    if !control.exists() {
        return findings
            .note("NVIDIA driver", "no /dev/nvidiactl: this machine has no NVIDIA GPU (or its driver is not loaded)");
    }
    match std::fs::OpenOptions::new().read(true).write(true).open(control) {
        Ok(_) => findings.good("NVIDIA driver", "/dev/nvidiactl can be opened"),
        Err(error) => findings.wrong(
            "NVIDIA driver",
            format!("/dev/nvidiactl cannot be opened: {error}\n  add this user to the device's group"),
        ),
    }
}

/// Starts a private daemon, for which daemon, worker and device must work together.
fn local_device(findings: &mut Findings, installation: &Installation) {
    let gpus = private::start(installation, None).and_then(|address| {
        let gpus = servers::gpus_of(&address)?;
        Ok((address, gpus))
    });
    match gpus {
        Err(error) => findings.wrong("device of this machine", format!("{error:#}")),
        Ok((address, gpus)) => {
            gpus.iter().for_each(|gpu| {
                findings.good(
                    "device of this machine",
                    format!("{} ({}), {}, driver {}", gpu.name, gpu.kind, servers::size(gpu.memory), gpu.driver),
                );
            });
            if gpus.len() > 1 {
                between_gpus(findings, servers::pairs_of(&address, &gpus));
            }
        }
    }
}

/// What the driver allows between the GPUs of this machine.
fn between_gpus(findings: &mut Findings, pairs: Result<Vec<Pair>>) {
    let what = "between the GPUs";
    let pairs = match pairs {
        Err(error) => return findings.wrong(what, format!("{error:#}")),
        Ok(pairs) => pairs,
    };
    let apart: Vec<_> = pairs.iter().filter(|pair| !pair.is_reached).collect();
    for Pair { gpu, peer, .. } in &apart {
        let words = format!(
            "the driver gives GPU {gpu} no peer access to GPU {peer}: copies between the two pass the program, and its \
             kernels reach one of them only"
        );
        findings.note(what, words);
    }
    if apart.is_empty() {
        findings.good(what, "each reaches the others' memory");
    }
}

/// The named servers, and this machine's daemon where it has a socket. Each address is asked, also two of one server, and all at
/// once.
fn servers_that_answer(findings: &mut Findings, on: &[String]) {
    // Settings that cannot be read are a finding already.
    let mut names = servers::named_by_user(on).unwrap_or_default();
    let own = if on.is_empty() { servers::socket_of_this_machine() } else { None };
    let own = own.filter(|own| !names.contains(own));
    names.splice(..0, own.clone());
    let answers = servers::each_by_many(&names, servers::gpus_of);
    for (server, answer) in names.iter().zip(answers) {
        let what = format!("server {server}");
        match answer {
            Err(error) if Some(server) == own.as_ref() && servers::is_nobody(&error) => {
                findings.note(&what, format!("{error:#}"));
            }
            answer => findings.check(&what, answer.map(|gpus| format!("{} GPUs offered", gpus.len()))),
        }
    }
}
