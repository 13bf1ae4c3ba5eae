//! `floe run`: becomes the program, with floe's client library in front.
//! In: devices, a quota, the program with its arguments. Out: nothing; the process is the program from here on, so exit
//! codes, signals and the terminal are the program's own.
//! Never stays beside the program: what has to outlive this moment is the private daemon, which watches the process.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use floe_emulation::Network;
use floe_session::settings::{Place, WantedDevice};

use crate::check::{self, Flags};
use crate::install::Installation;
use crate::program::{self, ProgramError};
use crate::servers::GpuRow;
use crate::{private, relay, servers};

/// Flags of `floe run`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Devices, in the order the program shall see them: HOST:GPU[,HOST:GPU…]. HOST is a name, host:port, tcp://host:port,
    /// tls://host:port, clear://host:port, unix:///path, shm:///path, or /path for the better of the two. Without it: FLOE_DEVICES, RCUDA_DEVICE_*, the TOML
    /// file, else a daemon of this program's own.
    #[arg(long, value_name = "HOST:GPU,…")]
    pub(crate) on: Option<String>,
    /// Memory of each vGPU: bytes, or with K, M, G, T.
    #[arg(long, value_name = "BYTES")]
    pub(crate) memory: Option<String>,
    /// Print, per class (local, post, call), how many calls the program made and how many waited.
    #[arg(long)]
    pub(crate) stats: bool,
    /// The library a private daemon drives: auto, nvidia, cpu, or the path of a libcuda.so.1.
    #[arg(long, value_name = "LIBRARY")]
    pub(crate) device_library: Option<String>,
    /// Start the program without asking first whether the devices are there and have the memory.
    #[arg(long)]
    pub(crate) no_check: bool,
    #[command(flatten)]
    pub(crate) network: Network,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<String>,
}

/// Becomes the program. Returns only when it could not.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    let installation = Installation::of_this_executable()?;
    let mut command = prepare(&arguments, &installation)?;
    let error = command.exec();
    Err(ProgramError::of(&arguments.program[0], &error).into())
}

/// The program's command with the environment that puts floe in front of it.
pub(crate) fn prepare(arguments: &Arguments, installation: &Installation) -> Result<Command> {
    let (name, rest) = arguments.program.split_first().context("no program was named")?;
    program::check(name)?;
    let mut command = Command::new(name);
    command.args(rest);
    command.env("LD_LIBRARY_PATH", in_front(&installation.client_library_folder()?));
    if let Some(devices) = devices(arguments, installation)? {
        command.env("FLOE_DEVICES", devices);
    }
    if let Some(memory) = &arguments.memory {
        command.env("FLOE_MEMORY", memory);
    }
    if arguments.stats {
        command.env("FLOE_STATS", "1");
    }
    Ok(command)
}

/// What FLOE_DEVICES shall be; `None` when the settings below the flags name devices already.
fn devices(arguments: &Arguments, installation: &Installation) -> Result<Option<String>> {
    let flags = Flags { on: arguments.on.as_deref(), memory: arguments.memory.as_deref() };
    let settings = flags.settings()?;
    if settings.devices.is_empty() {
        if arguments.network.is_asked_for() {
            bail!("--rtt and --bandwidth need a server at the network's other end\n  name its devices with --on");
        }
        return own_devices(arguments, installation, &flags).map(Some);
    }
    if !arguments.no_check {
        check::servers(&settings)?;
    }
    if arguments.network.is_asked_for() {
        let on = arguments.on.as_ref().context("--rtt and --bandwidth want the devices by --on")?;
        return relay::put_before(on, arguments.network).map(Some);
    }
    Ok(arguments.on.clone())
}

/// Those of a daemon of the program's own.
fn own_devices(arguments: &Arguments, installation: &Installation, flags: &Flags<'_>) -> Result<String> {
    let address = private::start(installation, arguments.device_library.as_deref())?;
    let gpus = servers::gpus_of(&address)?;
    if gpus.is_empty() {
        bail!("this machine offers no device\n  `floe doctor` says why");
    }
    let named = |gpu: &GpuRow| format!("{address}:{}", gpu.index);
    let devices = gpus.iter().map(named).collect::<Vec<_>>().join(",");
    let own = Flags { on: Some(&devices), ..*flags };
    for device in own.settings()?.devices {
        let place = Place { server: "this machine".to_owned(), ..device.place };
        check::fits(&WantedDevice { place, ..device }, &gpus)?;
    }
    Ok(devices)
}

/// `LD_LIBRARY_PATH` with `folder` in front of what it holds.
fn in_front(folder: &Path) -> std::ffi::OsString {
    let mut path = folder.as_os_str().to_owned();
    if let Some(rest) = std::env::var_os("LD_LIBRARY_PATH").filter(|rest| !rest.is_empty()) {
        path.push(":");
        path.push(rest);
    }
    path
}
