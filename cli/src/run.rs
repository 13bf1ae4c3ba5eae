//! `floe run`: becomes the program, with floe's client library in front.
//! In: devices, a quota, the program with its arguments. Out: nothing. The process becomes the program, so exit codes,
//! signals and the terminal are the program's own.
//! It never stays beside the program. Only a private daemon does, which watches the process.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use floe_emulation::Network;
use floe_session::settings::{GpuAddress, Nccl, ProcessSource, Settings, WantedDevice};
use floe_settings::{CLIENT, Setting};

use crate::check;
use crate::install::Installation;
use crate::program::{self, ProgramError};
use crate::servers::GpuRow;
use crate::{private, relay, servers};

/// Flags of `floe run`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) flags: ClientFlags,
    /// The library a private daemon drives: auto, nvidia, cpu, or the path of a libcuda.so.1.
    #[arg(long, value_name = "LIBRARY")]
    pub(crate) device_library: Option<String>,
    /// Start the program without first asking servers for the devices and their memory.
    #[arg(long)]
    pub(crate) no_check: bool,
    #[command(flatten)]
    pub(crate) network: Network,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<String>,
}

floe_daemon::flags::of_table! {
    /// The flags of settings of programs.
    ClientFlags, CLIENT
}

impl ClientFlags {
    /// Only `--on`.
    pub(crate) fn on(devices: String) -> Self {
        Self(vec![(DEVICES, devices)])
    }

    fn devices(&self) -> Option<&str> {
        self.0.iter().find(|(name, _)| *name == DEVICES).map(|(_, text)| text.as_str())
    }

    /// The flags with these devices.
    fn with_devices(&self, devices: String) -> Self {
        let others = self.0.iter().filter(|(name, _)| *name != DEVICES).cloned();
        Self(others.chain([(DEVICES, devices)]).collect())
    }

    /// Has the trace's file be found from every folder, and makes room for it: that of an earlier run goes, and nothing else.
    /// The processes of this run leave each other's alone.
    fn clear_trace(&mut self) -> Result<()> {
        let Some((_, text)) = self.0.iter_mut().find(|(name, _)| *name == TRACE) else { return Ok(()) };
        let path = std::path::absolute(&text).with_context(|| format!("no place for a trace: {text}"))?;
        *text = path.to_str().context("a path that is no text")?.to_owned();
        match std::fs::symlink_metadata(&path) {
            Err(_) => Ok(()),
            Ok(there) if there.is_file() && is_trace(&path) => std::fs::remove_file(&path)
                .with_context(|| format!("the trace of an earlier run cannot be removed: {text}")),
            Ok(_) => bail!("this is no trace, and is not overwritten: {text}\n  name another file with --trace"),
        }
    }

    fn settings(&self) -> Result<Settings> {
        Ok(Settings::with_flags(&self.0, &ProcessSource)?)
    }
}

/// The setting that `--trace` sets.
const TRACE: &str = "trace_file";

/// The setting that `--on` sets.
const DEVICES: &str = "devices";

/// Becomes the program. Returns only when it could not.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    let installation = Installation::of_this_executable()?;
    let mut command = prepare(&arguments, &installation)?;
    let error = command.exec();
    Err(ProgramError::of(&arguments.program[0], &error).into())
}

/// Whether a file begins as traces do, or is empty.
fn is_trace(path: &Path) -> bool {
    use std::io::Read as _;
    let mut head = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(8).read_to_end(&mut head));
    read.is_ok() && ["[\n{\"ph\":", "[\n]\n"].iter().any(|begin| begin.as_bytes().starts_with(&head))
}

/// The program's command with the environment that puts floe in front of it.
pub(crate) fn prepare(arguments: &Arguments, installation: &Installation) -> Result<Command> {
    let (name, rest) = arguments.program.split_first().context("no program was named")?;
    program::check(name)?;
    let mut command = Command::new(name);
    command.args(rest);
    command.env("LD_LIBRARY_PATH", listed("LD_LIBRARY_PATH", &installation.client_library_folder()?, ":"));
    let Prepared { mut flags, servers_have_nccl } = flags(arguments, installation)?;
    flags.clear_trace()?;
    let settings = flags.settings()?;
    let is_beside = runs_beside_the_gpus(&settings, servers_have_nccl);
    if is_beside && settings.job.is_none() {
        // Else ranks of this run would find each other's node by their communicators only.
        let random = "/proc/sys/kernel/random/uuid";
        let name = std::fs::read_to_string(random).with_context(|| format!("no name for the job: {random}"))?;
        command.env("FLOE_JOB", name.trim());
    }
    let libraries = preloaded(&settings, is_beside, installation)?;
    if let Some(list) = libraries.join(OsStr::new(" ")).to_str().filter(|list| !list.is_empty()) {
        command.env("LD_PRELOAD", listed("LD_PRELOAD", Path::new(list), " "));
    }
    let variable = |name| CLIENT.find(name).and_then(Setting::variable);
    command.envs(flags.0.iter().filter_map(|(name, text)| Some((variable(name)?, text))));
    Ok(command)
}

/// Libraries whose symbols come first, also where a program opens a library of that name by a path of its own, as PyTorch
/// does.
fn preloaded(settings: &Settings, is_beside: bool, installation: &Installation) -> Result<Vec<OsString>> {
    let mut libraries = Vec::new();
    if is_beside {
        libraries.push(installation.nccl()?.into_os_string());
    }
    if !settings.own_cupti {
        libraries.push(installation.cupti()?.into_os_string());
    }
    Ok(libraries)
}

/// Whether the program's NCCL is floe's: where that was asked for, where its vGPUs are on several servers, or on one that has NCCL
/// and is reached through a network. There NCCL in the program would have memory that is mirrored, which it writes all the time.
fn runs_beside_the_gpus(settings: &Settings, servers_have_nccl: bool) -> bool {
    let place = |device: &WantedDevice| match device.place.server.split_once("://") {
        Some((_, place)) => place.to_owned(),
        None => device.place.server.clone(),
    };
    let servers: std::collections::BTreeSet<String> = settings.devices.iter().map(place).collect();
    let is_local = |device: &WantedDevice| matches!(device.place.server.split_once("://"), Some(("unix" | "shm", _)));
    let is_far = !settings.devices.iter().all(is_local);
    match settings.nccl {
        Nccl::Auto => servers.len() > 1 || is_far && servers_have_nccl,
        Nccl::Own => false,
        Nccl::Forwarded => true,
    }
}

/// The settings that the program gets as variables, and what its servers said.
struct Prepared {
    flags: ClientFlags,
    /// Whether all of them have NCCL; not where they were not asked.
    servers_have_nccl: bool,
}

/// The flags, plus this machine's devices if no setting names any.
fn flags(arguments: &Arguments, installation: &Installation) -> Result<Prepared> {
    let flags = &arguments.flags;
    let settings = flags.settings()?;
    if settings.devices.is_empty() {
        if arguments.network.is_asked_for() {
            bail!("--rtt and --bandwidth need a server at the network's other end\n  name its devices with --on");
        }
        let flags = own_devices(arguments, installation).map(|devices| flags.with_devices(devices))?;
        return Ok(Prepared { flags, servers_have_nccl: false });
    }
    let servers_have_nccl = !arguments.no_check && check::servers(&settings)?;
    let mut flags = flags.clone();
    if arguments.network.is_asked_for() {
        let on = flags.devices().context("--rtt and --bandwidth need the devices in --on")?;
        flags = relay::put_before(on, arguments.network).map(|devices| flags.with_devices(devices))?;
    }
    Ok(Prepared { flags, servers_have_nccl })
}

/// The devices of a private daemon for this program.
fn own_devices(arguments: &Arguments, installation: &Installation) -> Result<String> {
    let address = private::start(installation, arguments.device_library.as_deref())?;
    let gpus = servers::gpus_of(&address)?;
    if gpus.is_empty() {
        bail!("this machine offers no device\n  run `floe doctor` to find the cause");
    }
    let named = |gpu: &GpuRow| format!("{address}:{}", gpu.index);
    let devices = gpus.iter().map(named).collect::<Vec<_>>().join(",");
    for device in arguments.flags.with_devices(devices.clone()).settings()?.devices {
        let place = GpuAddress { server: "this machine".to_owned(), ..device.place };
        check::fits(&WantedDevice { place, ..device }, &gpus)?;
    }
    Ok(devices)
}

/// A variable's list with a path in front.
fn listed(variable: &str, path: &Path, between: &str) -> OsString {
    let mut list = path.as_os_str().to_owned();
    if let Some(rest) = std::env::var_os(variable).filter(|rest| !rest.is_empty()) {
        list.push(between);
        list.push(rest);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nccl_runs_beside_the_gpus_of_several_servers_or_where_that_is_asked_for() {
        let with = |devices: &str, nccl: &str, servers_have_nccl| {
            let flags = ClientFlags(vec![(DEVICES, devices.to_owned()), ("nccl", nccl.to_owned())]);
            runs_beside_the_gpus(&flags.settings().expect("they are settings"), servers_have_nccl)
        };
        let runs = |devices: &str, nccl: &str| with(devices, nccl, false);
        assert!(runs("a:0,b:0", "auto") && !runs("a:0,a:1", "auto"));
        let far = ["a:0", "tcp://a:0,tcp://a:1", "tls://a:0", "unix:///s:0,a:1"];
        assert!(far.iter().all(|devices| with(devices, "auto", true) && !with(devices, "own", true)));
        assert!(!with("unix:///s:0,shm:///s:1", "auto", true), "a local server shares memory with NCCL in the program");
        assert!(!runs("unix:///s:0,shm:///s:1", "auto"), "one server, whatever the way there");
        assert!(runs("a:0", "forwarded") && !runs("a:0,b:0", "own"));
    }

    #[test]
    fn a_flag_is_named_where_its_value_is_wrong() {
        let with = |memory: &str| ClientFlags(vec![(DEVICES, "h:0".to_owned()), ("memory", memory.to_owned())]);
        let error = with("8Q").settings().expect_err("8Q is no size").to_string();
        assert_eq!(error, "--memory: not a size: 8Q\n  write it as 8G, 512M or a number of bytes");
        let error = ClientFlags::on("h:999".to_owned()).settings().expect_err("too large").to_string();
        assert!(error.starts_with("--on: ") && error.contains("h:999"), "{error}");
        assert!(ClientFlags::on(" ".to_owned()).settings().is_err() && with("").settings().is_err());
    }
}
