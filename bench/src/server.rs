//! The daemon that the measured programs use: one floed, on a Unix socket and on TCP. TCP is clear, sealed by a token,
//! and TLS with a certificate of its own.
//! In: an installation, a device library. Out: its addresses, its workers' process ids. It ends with the measurement.

use std::fs::{File, Permissions};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use floe_transport::MOST_CONNECTIONS;
use serde::Deserialize;

use crate::bars::Way;
use crate::installation::Installation;

/// A running floed.
#[derive(Debug)]
pub(crate) struct Server {
    process: Child,
    token_file: PathBuf,
    /// PEM file of its certificate, which signs itself.
    certificate: PathBuf,
    port: String,
    unix: String,
}

/// A GPU as `floe gpus --json` describes it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Gpu {
    /// As the device calls itself.
    pub(crate) name: String,
    /// `nvidia` or `cpu`.
    pub(crate) kind: String,
}

/// Whether this machine has a GPU with this number; the first may be the CPU device.
pub(crate) fn has_gpu(number: u32) -> bool {
    number == 0 || Path::new(&format!("/dev/nvidia{number}")).exists()
}

/// Makes a token for a user with this name, before the server of this folder starts; the file that it is in.
///
/// # Errors
/// When `floe token make` fails.
pub(crate) fn make_token(installation: &Installation, folder: &Path, name: &str) -> Result<PathBuf> {
    let mut command = Command::new(installation.floe());
    let made = command.args(["token", "make", name, "--tokens"]).arg(folder.join("tokens")).output()?;
    ensure!(made.status.success(), "no token for {name}: {}", String::from_utf8_lossy(&made.stderr));
    let file = folder.join(name);
    std::fs::write(&file, made.stdout).with_context(|| format!("{} cannot be written", file.display()))?;
    std::fs::set_permissions(&file, Permissions::from_mode(0o600))?;
    Ok(file)
}

impl Server {
    /// Starts it; `folder` takes its socket, token and log.
    ///
    /// # Errors
    /// When it does not listen.
    pub(crate) fn start(installation: &Installation, library: &str, folder: &Path) -> Result<Self> {
        Self::start_with(installation, library, folder, &[])
    }

    /// The same with more flags.
    ///
    /// # Errors
    /// When it does not listen.
    pub(crate) fn start_with(
        installation: &Installation,
        library: &str,
        folder: &Path,
        flags: &[&str],
    ) -> Result<Self> {
        Self::start_at("127.0.0.1:0", installation, library, folder, flags)
    }

    /// Two, with one token and more flags, each of which knows the other by every way. The second has a folder within `folder`.
    ///
    /// # Errors
    /// When one does not listen.
    pub(crate) fn start_two(
        installation: &Installation,
        library: &str,
        folder: &Path,
        flags: &[&str],
    ) -> Result<[Self; 2]> {
        let folders = [folder.to_path_buf(), folder.join("second")];
        std::fs::create_dir_all(&folders[1]).context("no folder for the second server")?;
        // Each has to know the other's port before that listens.
        let reserved = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()));
        let [first, second] = reserved;
        let ports = [first.context("no free port")?.port(), second.context("no free port")?.port()];
        let start = |index: usize| {
            let (port, socket) = (ports[1 - index], folders[1 - index].join("floed.sock"));
            let other = format!("localhost:{port},unix://{}", socket.display());
            let at = format!("127.0.0.1:{}", ports[index]);
            Self::start_at(&at, installation, library, &folders[index], &[flags, &["--peer", &other]].concat())
        };
        let first = start(0)?;
        std::fs::copy(folders[0].join("token"), folders[1].join("token")).context("the first has no token")?;
        Ok([first, start(1)?])
    }

    fn start_at(
        listen: &str,
        installation: &Installation,
        library: &str,
        folder: &Path,
        flags: &[&str],
    ) -> Result<Self> {
        let token_file = folder.join("token");
        let [certificate, key] = certificate(folder)?;
        let log = File::create(folder.join("floed.log")).context("floed's log cannot be written")?;
        let mut process = Command::new(installation.floed())
            .args(["--listen", &format!("tcp://{listen}"), "--clear-text", "--device-library", library])
            .args(flags)
            // As many as programs ask for. Unless they are configured, they choose by the machine.
            .args(["--bulk-connections", &MOST_CONNECTIONS.to_string(), "--socket"])
            .arg(folder.join("floed.sock"))
            .arg("--token-file")
            .arg(&token_file)
            .arg("--tls-certificate")
            .arg(&certificate)
            .arg("--tls-key")
            .arg(key)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .context("floed does not start")?;
        let mut lines = BufReader::new(process.stdout.take().expect("its stdout was asked for")).lines();
        let mut addresses = Vec::new();
        while addresses.len() < 2 {
            let Some(Ok(line)) = lines.next() else {
                bail!("floed does not listen: see {}/floed.log", folder.display())
            };
            addresses.extend(line.strip_prefix("listening ").map(str::to_owned));
        }
        std::thread::spawn(move || lines.for_each(drop));
        let at = |scheme: &str| addresses.iter().find(|address| address.starts_with(scheme)).cloned();
        let tcp = at("tcp").context("floed listens on no TCP port")?;
        let port = tcp.rsplit_once(':').context("its address has no port")?.1.to_owned();
        let unix = at("unix").context("floed listens on no Unix socket")?;
        Ok(Self { process, token_file, certificate, port, unix })
    }

    /// The first GPU it offers.
    ///
    /// # Errors
    /// When it offers none.
    pub(crate) fn gpu(&self, installation: &Installation) -> Result<Gpu> {
        gpu_at(installation, &self.unix)
    }

    /// Its Unix socket.
    pub(crate) fn unix(&self) -> &str {
        &self.unix
    }

    /// Its first GPU by this way, as `floe run --on` takes it.
    pub(crate) fn device(&self, way: Way) -> String {
        match way {
            // Runs that are compared with native runs and with sockets alone carry nothing but floe.
            Way::Tcp => self.by_tcp("clear"),
            Way::Shm => format!("{}:0", self.unix.replacen("unix://", "shm://", 1)),
            Way::Native | Way::Unix => format!("{}:0", self.unix),
        }
    }

    /// As many vGPUs by this way: of a GPU each, and of the first where there are too few.
    pub(crate) fn devices(&self, way: Way, count: u32) -> String {
        (0..count).map(|gpu| self.device_of(way, gpu)).collect::<Vec<_>>().join(",")
    }

    /// A GPU of it by this way, or its first where there are too few.
    pub(crate) fn device_of(&self, way: Way, gpu: u32) -> String {
        let first = self.device(way);
        format!("{}:{}", first.trim_end_matches(":0"), if has_gpu(gpu) { gpu } else { 0 })
    }

    /// Its first GPU by TCP: `clear`, `tcp` or `tls`.
    pub(crate) fn by_tcp(&self, scheme: &str) -> String {
        format!("{scheme}://localhost:{}:0", self.port)
    }

    /// Has a command know the token, and trust the certificate.
    pub(crate) fn give_token(&self, command: &mut Command) {
        command.env("FLOE_TOKEN_FILE", &self.token_file).env("FLOE_TLS_AUTHORITIES", &self.certificate);
    }

    /// A program natively, on the CPU device if `cpu_device`, or through floe by this way with one vGPU.
    pub(crate) fn started(
        &self,
        installation: &Installation,
        words: &[PathBuf],
        way: Way,
        cpu_device: bool,
    ) -> Command {
        self.started_on(installation, words, way, &self.devices(way, 1), cpu_device)
    }

    /// The same with these vGPUs, as `floe run --on` takes them.
    pub(crate) fn started_on(
        &self,
        installation: &Installation,
        words: &[PathBuf],
        way: Way,
        vgpus: &str,
        cpu_device: bool,
    ) -> Command {
        if way != Way::Native {
            let mut command = Command::new(installation.floe());
            command.args(["run", "--on", vgpus, "--"]).args(words);
            self.give_token(&mut command);
            return command;
        }
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        if cpu_device {
            command.env("LD_LIBRARY_PATH", installation.cpu_device());
        }
        command
    }

    /// The process ids of its workers.
    pub(crate) fn workers(&self) -> Vec<u32> {
        crate::program::memory::children(self.process.id(), "floe-worker")
    }
}

/// Makes a certificate for this machine that signs itself, and its key.
fn certificate(folder: &Path) -> Result<[PathBuf; 2]> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).context("no certificate can be made")?;
    let paths = ["certificate.pem", "key.pem"].map(|name| folder.join(name));
    std::fs::write(&paths[0], made.cert.pem()).context("the certificate cannot be written")?;
    std::fs::write(&paths[1], made.signing_key.serialize_pem()).context("its key cannot be written")?;
    Ok(paths)
}

/// The first GPU a server offers.
///
/// # Errors
/// When it does not answer or offers none.
pub(crate) fn gpu_at(installation: &Installation, server: &str) -> Result<Gpu> {
    let output = Command::new(installation.floe())
        .args(["gpus", "--json", "--on", server])
        .output()
        .context("floe does not start")?;
    let gpus: Vec<Gpu> = serde_json::from_slice(&output.stdout).with_context(|| {
        format!("{server} does not say what it offers: {}", String::from_utf8_lossy(&output.stderr))
    })?;
    gpus.into_iter().next().with_context(|| format!("no device is offered by {server}"))
}

impl Drop for Server {
    fn drop(&mut self) {
        let process = i32::try_from(self.process.id()).ok().and_then(rustix::process::Pid::from_raw);
        // It ends its workers when it is asked to; one that has ended already need not be asked.
        if let Some(process) = process {
            let _ = rustix::process::kill_process(process, rustix::process::Signal::TERM);
        }
        let _ = self.process.wait();
    }
}
