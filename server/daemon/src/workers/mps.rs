//! NVIDIA's MPS (`--mps`): workers of a GPU compute side by side, not by time slices.
//! In: NVIDIA's control daemon, found where the driver installs it. Out: that daemon as a child, which ends with this one, and
//! the variables by which a worker's driver finds it.
//! It decides about no session.

use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use floe_device::Probe;
use floe_shares::{Class, Terms};
use rustix::fs::{MemfdFlags, memfd_create};
use tempfile::TempDir;

use super::supervision::{BeforeKill, Ender};
use crate::error::DaemonError;
use crate::{log, warn};

/// NVIDIA's control daemon, which starts a server when the first worker comes.
const CONTROL: &str = "nvidia-cuda-mps-control";
/// Where drivers install it, beside the search path.
const PLACES: [&str; 3] = ["/usr/bin", "/usr/local/nvidia/bin", "/run/opengl-driver/bin"];
/// The control daemon's time to listen, and to end.
const PATIENCE: Duration = Duration::from_secs(10);
/// Its time to answer a command, and the bytes of an answer.
const ANSWER: Duration = Duration::from_secs(2);
const ANSWER_BYTES: usize = 4096;
/// Between its end and its next start.
const PAUSE: Duration = Duration::from_secs(1);
/// The daemon's variables that the control daemon gets: where libraries are, and which devices there are.
const INHERITED: [&str; 4] = ["PATH", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"];

/// NVIDIA's MPS, for the workers of this daemon alone.
#[derive(Debug)]
pub(crate) struct Mps {
    control: Arc<Control>,
    tender: Mutex<Option<JoinHandle<()>>>,
}

/// The control daemon.
#[derive(Debug)]
struct Control {
    /// A worker's executable.
    worker: PathBuf,
    program: PathBuf,
    /// The folder of its pipes and logs, for this user only.
    folder: TempDir,
    is_ending: AtomicBool,
    /// Its process, while it runs.
    process: Mutex<Option<Ender>>,
}

impl Mps {
    /// Starts it for these GPUs.
    ///
    /// # Errors
    /// When the driver is not NVIDIA's, several instances of divided GPUs are offered, the driver has no control daemon, or that does not come to listen.
    pub(crate) fn start(worker: &Path, probe: &Probe) -> Result<Self, DaemonError> {
        let wrong = |reason: String| Err(DaemonError::Mps(reason));
        if probe.kind == "cpu" {
            return wrong("it is of NVIDIA's driver, and the device is a CPU device".to_owned());
        }
        if probe.gpus.len() > 1 && probe.gpus.iter().any(|gpu| gpu.alone.is_some()) {
            return wrong(
                "it serves one instance of a divided GPU (MIG), and more are offered\n  name one instance for \
                          each server: CUDA_VISIBLE_DEVICES=MIG-…"
                    .to_owned(),
            );
        }
        let search = std::env::var_os("PATH").unwrap_or_default();
        let Some(program) = find(std::env::split_paths(&search).chain(PLACES.map(PathBuf::from))) else {
            return wrong(format!("there is no {CONTROL}: it comes with NVIDIA's driver"));
        };
        Self::of(worker, program)
    }

    fn of(worker: &Path, program: PathBuf) -> Result<Self, DaemonError> {
        let failed = |error: std::io::Error| DaemonError::Mps(format!("{}: {error}", program.display()));
        // A socket's path has 107 bytes at most, so the folder is where paths are short.
        let folder = tempfile::Builder::new().prefix("floe-mps-").tempdir().map_err(failed)?;
        for inner in ["pipe", "log"] {
            DirBuilder::new().mode(0o700).create(folder.path().join(inner)).map_err(failed)?;
        }
        let is_ending = AtomicBool::new(false);
        let (worker, process) = (worker.to_owned(), Mutex::default());
        let control = Arc::new(Control { worker, program: program.clone(), folder, is_ending, process });
        let tended = Arc::clone(&control);
        let (tell, told) = channel();
        // The process that starts it has it killed when the thread ends that started that.
        let tender =
            std::thread::Builder::new().name("mps".into()).spawn(move || tended.tend(&tell)).map_err(failed)?;
        let mps = Self { control, tender: Mutex::new(Some(tender)) };
        mps.control.await_socket(&told)?;
        log(format_args!(
            "MPS: sessions of a GPU compute side by side; a kernel's fault ends all sessions of its GPU ({})",
            program.display()
        ));
        Ok(mps)
    }

    /// The variables of a worker with these terms: where its driver finds MPS, how many of the GPU's threads it has at most,
    /// and whether its kernels go behind those of others.
    pub(crate) fn variables(&self, terms: Terms) -> Vec<(&'static str, OsString)> {
        let mut variables = vec![("CUDA_MPS_PIPE_DIRECTORY", self.control.pipes().into_os_string())];
        if terms.share != 0 {
            let percent = terms.share.div_ceil(floe_shares::WHOLE / 100);
            variables.push(("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", percent.to_string().into()));
        }
        let priority = if terms.class == Class::Latency { "0" } else { "1" };
        variables.push(("CUDA_MPS_CLIENT_PRIORITY", priority.into()));
        variables
    }

    /// Ends the control daemon, and what it has started. The sessions are over.
    pub(crate) fn end(&self) {
        let Some(tender) = floe_lock::lock(&self.tender).take() else { return };
        self.control.is_not_started_again();
        let asked = self.control.ask("quit -t 1").is_some();
        let start = Instant::now();
        while asked && !tender.is_finished() && start.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(10));
        }
        if let Some(process) = &*floe_lock::lock(&self.control.process) {
            process.kill();
        }
        let _ = tender.join();
        // Nobody drops this where the process ends.
        let _ = std::fs::remove_dir_all(self.control.folder.path());
    }

    /// The control daemon, for whoever kills its clients.
    pub(crate) fn control(&self) -> Arc<dyn BeforeKill> {
        Arc::clone(&self.control) as _
    }
}

impl Drop for Mps {
    fn drop(&mut self) {
        self.end();
    }
}

impl Control {
    /// Starts it, and starts it again whenever it ends. Says whether it started the first time.
    fn tend(&self, tell: &Sender<Result<(), DaemonError>>) {
        loop {
            let how = match self.begin() {
                Ok(None) => return,
                Ok(Some(mut child)) => {
                    let _ = tell.send(Ok(()));
                    let ended = child.wait();
                    *floe_lock::lock(&self.process) = None;
                    ended.map_err(DaemonError::system("cannot wait for MPS")).map(|status| status.to_string())
                }
                Err(error) => Err(error),
            };
            let how = how.unwrap_or_else(|error| error.to_string());
            let words = format!("{} has ended: {how}{}", self.program.display(), self.last_words());
            let is_ending = self.is_ending.load(Ordering::Acquire);
            // Where nobody hears it any more, it has served.
            if tell.send(Err(DaemonError::Mps(words.clone()))).is_err() && !is_ending {
                warn(format_args!("WARNING: {words}; it is started again"));
            }
            if is_ending {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// It is not started again from here on, and who ends it finds the process that runs, if one does.
    fn is_not_started_again(&self) {
        let _process = floe_lock::lock(&self.process);
        self.is_ending.store(true, Ordering::Release);
    }

    /// Starts it; `None` where it is not to be started any more.
    fn begin(&self) -> Result<Option<Child>, DaemonError> {
        let mut process = floe_lock::lock(&self.process);
        if self.is_ending.load(Ordering::Acquire) {
            return Ok(None);
        }
        let mut child = self.launch()?;
        match Ender::of(&child, None) {
            Ok(ender) => {
                *process = Some(ender);
                Ok(Some(child))
            }
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    /// Starts it in the foreground, through a worker's executable, which has it killed when this daemon ends.
    fn launch(&self) -> Result<Child, DaemonError> {
        let inherited = INHERITED.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        Command::new(&self.worker)
            .arg("--mps-control")
            .arg(&self.program)
            .env_clear()
            .envs(inherited)
            .env("CUDA_MPS_PIPE_DIRECTORY", self.pipes())
            .env("CUDA_MPS_LOG_DIRECTORY", self.folder.path().join("log"))
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|source| DaemonError::Worker { path: self.worker.clone(), source })
    }

    /// Waits until it listens for the first time.
    fn await_socket(&self, told: &Receiver<Result<(), DaemonError>>) -> Result<(), DaemonError> {
        let socket = self.pipes().join("control");
        let start = Instant::now();
        while !socket.exists() {
            if let Ok(Err(error)) = told.recv_timeout(Duration::from_millis(10)) {
                self.is_not_started_again();
                return Err(error);
            }
            if start.elapsed() > PATIENCE {
                return Err(DaemonError::Mps(format!(
                    "{} does not listen{}",
                    self.program.display(),
                    self.last_words()
                )));
            }
        }
        Ok(())
    }

    /// The last line of its log, behind a colon.
    fn last_words(&self) -> String {
        let text = std::fs::read_to_string(self.folder.path().join("log/control.log")).unwrap_or_default();
        text.lines().next_back().map_or_else(String::new, |line| format!(": {}", floe_worker::one_entry(line)))
    }

    fn pipes(&self) -> PathBuf {
        self.folder.path().join("pipe")
    }

    /// Gives it a command. Returns its answer; `None`: it did not take it, or not in time.
    fn ask(&self, command: &str) -> Option<String> {
        // Not a pipe, whose end a process that it leaves behind could keep open.
        let answer = memfd_create("floe-mps-answer", MemfdFlags::CLOEXEC).ok().map(File::from)?;
        let mut asking = Command::new(&self.program)
            .env("CUDA_MPS_PIPE_DIRECTORY", self.pipes())
            .stdin(Stdio::piped())
            .stdout(Stdio::from(answer.try_clone().ok()?))
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        // Closing the pipe ends it.
        let written = asking.stdin.take().is_some_and(|mut input| writeln!(input, "{command}").is_ok());
        let start = Instant::now();
        while asking.try_wait().ok()?.is_none() {
            if start.elapsed() > ANSWER {
                let _ = asking.kill();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut bytes = [0; ANSWER_BYTES];
        let count = answer.read_at(&mut bytes, 0).ok()?;
        let words = std::str::from_utf8(&bytes[..count]).ok()?;
        (written && asking.wait().ok()?.success()).then(|| words.to_owned())
    }
}

impl BeforeKill for Control {
    /// The death of a client with work in flight would take the other clients of its GPU along.
    fn end_work_of(&self, process: u32) {
        let servers = self.ask("get_server_list").unwrap_or_default();
        for server in servers.lines().filter_map(|line| line.trim().parse::<u32>().ok()) {
            let _ = self.ask(&format!("terminate_client {server} {process}"));
        }
    }
}

/// The control daemon, in the first of these folders that has it.
fn find(mut folders: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    folders.find_map(|folder| Some(folder.join(CONTROL)).filter(|path| path.is_absolute() && path.is_file()))
}

#[cfg(test)]
mod tests;
