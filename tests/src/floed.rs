//! A daemon of a test's own.
//! In: flags. Out: its addresses, its process id, its end. It listens on a free loopback port and on a Unix socket in a
//! folder of its own. It drives the CPU device, or the one that `FLOE_TEST_DEVICE` names, and ends with the test.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Longest time for any step of a daemon before a test calls it stuck. Generous: CI machines stall.
const PATIENCE: Duration = Duration::from_secs(300);

/// The name of a log.
const LOG: &str = "log";

/// A running `floed`.
#[derive(Debug)]
pub struct Floed {
    process: Child,
    folder: TempDir,
    tcp: String,
    unix: String,
}

impl Floed {
    /// Starts a daemon on the CPU device and waits until it listens.
    ///
    /// # Panics
    /// When it does not.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&[], &[])
    }

    /// The same with more flags and environment.
    ///
    /// # Panics
    /// When it does not listen within a minute.
    #[must_use]
    pub fn start_with(flags: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::start_on(&device(), flags, environment)
    }

    /// The same with the token of another daemon, as one client needs it for both.
    ///
    /// # Panics
    /// When it does not listen within a minute.
    #[must_use]
    pub fn start_beside(other: &Self, flags: &[&str]) -> Self {
        Self::start_beside_with(other, flags, &[])
    }

    /// The same with more environment.
    ///
    /// # Panics
    /// When it does not listen within a minute.
    #[must_use]
    pub fn start_beside_with(other: &Self, flags: &[&str], environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        // With the permissions of the first.
        std::fs::copy(other.token_file(), folder.path().join("token")).expect("the other has one");
        Self::start_in(folder, &device(), flags, environment, Stdio::inherit())
    }

    /// Two daemons with one token, each of which the other has named, by TCP or by the Unix socket.
    ///
    /// # Panics
    /// When one does not listen within a minute.
    #[must_use]
    pub fn start_two(flags: &[&str], over_tcp: bool) -> [Self; 2] {
        let folders = [(); 2].map(|()| tempfile::tempdir().expect("a temporary folder"));
        let sockets = folders.each_ref().map(|folder| format!("unix://{}/floed.sock", folder.path().display()));
        // Reserved until both listen: each daemon has to know the other's before that runs.
        let reserved = [(); 2].map(|()| crate::Port::reserve());
        let ports = reserved.each_ref().map(|port| format!("tcp://{}", port.address()));
        let token = folders[0].path().join("token");
        let [first, second] = folders;
        let start = |folder, index: usize| {
            let other = if over_tcp { &ports[1 - index] } else { &sockets[1 - index] };
            let all = [flags, &["--peer", other, "--listen", &ports[index]]].concat();
            Self::start_in(folder, &device(), &all, &[], Stdio::inherit())
        };
        let first = start(first, 0);
        std::fs::copy(token, second.path().join("token")).expect("the first has one");
        [first, start(second, 1)]
    }

    /// The same on a device library of the test's own.
    ///
    /// # Panics
    /// When it does not listen within a minute.
    #[must_use]
    pub fn start_on(device: &str, flags: &[&str], environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self::start_in(folder, device, flags, environment, Stdio::inherit())
    }

    /// The same with its log in a file, for [`Floed::log`].
    ///
    /// # Panics
    /// When it does not listen within a minute.
    #[must_use]
    pub fn start_logging(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let log = File::create(folder.path().join(LOG)).expect("a file for its log");
        Self::start_in(folder, &device(), flags, &[], log.into())
    }

    /// The same from another installation, with its files in a folder that every user may pass.
    ///
    /// # Panics
    /// When it does not listen within a minute.
    #[must_use]
    pub fn start_open(installation: &Path, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o711)).expect("it is ours");
        Self::start_from(installation, folder, &device(), flags, &[], Stdio::inherit())
    }

    /// The same with more environment, and its log in a file, for [`Floed::log`].
    ///
    /// # Panics
    /// When it does not listen within a minute.
    #[must_use]
    pub fn start_open_logging(installation: &Path, flags: &[&str], environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o711)).expect("it is ours");
        let log = File::create(folder.path().join(LOG)).expect("a file for its log");
        Self::start_from(installation, folder, &device(), flags, environment, log.into())
    }

    fn start_in(folder: TempDir, device: &str, flags: &[&str], environment: &[(&str, &str)], log: Stdio) -> Self {
        Self::start_from(&crate::installation(), folder, device, flags, environment, log)
    }

    fn start_from(
        installation: &Path,
        folder: TempDir,
        device: &str,
        flags: &[&str],
        environment: &[(&str, &str)],
        log: Stdio,
    ) -> Self {
        let socket = folder.path().join("floed.sock");
        let mut process = Command::new(installation.join("bin/floed"))
            .args(["--device-library", device, "--socket"])
            .arg(&socket)
            .args(if flags.contains(&"--listen") { &[][..] } else { &["--listen", "tcp://127.0.0.1:0"] })
            .arg("--token-file")
            .arg(folder.path().join("token"))
            .args(flags)
            // Its own, unless the test names one: what other tests have sent must not be known here.
            .env("FLOE_MODULE_CACHE", folder.path().join("modules"))
            // A killed client is gone soon, also where its session would wait for it.
            .env("FLOE_GRACE", "2")
            .envs(worker_ids().map(|ids| ("FLOE_WORKER_IDS", ids)))
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("floed starts");
        let mut lines = BufReader::new(process.stdout.take().expect("its stdout was asked for")).lines();
        let mut listening = || {
            let line = lines.next().expect("floed says where it listens").expect("the line is text");
            line.strip_prefix("listening ").unwrap_or_else(|| panic!("not an address: {line}")).to_owned()
        };
        let (first, second) = (listening(), listening());
        let (tcp, unix) = if first.starts_with("tcp") { (first, second) } else { (second, first) };
        std::thread::spawn(move || lines.for_each(drop));
        Self { process, folder, tcp, unix }
    }

    /// `tcp://127.0.0.1:PORT`.
    #[must_use]
    pub fn tcp(&self) -> &str {
        &self.tcp
    }

    /// `unix:///…`.
    #[must_use]
    pub fn unix(&self) -> &str {
        &self.unix
    }

    /// `shm:///…`.
    #[must_use]
    pub fn shm(&self) -> String {
        self.unix.replacen("unix://", "shm://", 1)
    }

    /// The file of the token TCP clients need.
    #[must_use]
    pub fn token_file(&self) -> PathBuf {
        self.folder.path().join("token")
    }

    /// The log so far, where [`Floed::start_logging`] started the daemon.
    ///
    /// # Panics
    /// When it did not.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join(LOG)).expect("it logs to a file")
    }

    /// The transports of its sessions, as `floe ps` shows them.
    ///
    /// # Panics
    /// When it does not.
    #[must_use]
    pub fn transports(&self) -> Vec<String> {
        let rows = self.sessions();
        rows.iter().map(|row| row["transport"].as_str().expect("a session has one").to_owned()).collect()
    }

    /// Its sessions, as `floe ps` shows them.
    ///
    /// # Panics
    /// When it does not.
    #[must_use]
    pub fn sessions(&self) -> Vec<serde_json::Value> {
        let floe = crate::installation().join("bin/floe");
        let output = Command::new(floe).args(["ps", "--json", "--on", self.unix()]).output().expect("floe ps runs");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// The daemon's process id.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.process.id()
    }

    /// Waits until the daemon has `count` worker processes.
    ///
    /// # Panics
    /// When that does not happen within a minute.
    pub fn wait_for_workers(&self, count: usize) {
        let start = Instant::now();
        loop {
            let workers = crate::descendants(self.process());
            if workers.len() == count {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "waited for {count} workers, there are: {workers:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Is it still running?
    pub fn is_running(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    /// Asks it to end with SIGTERM and gives its exit code.
    ///
    /// # Panics
    /// When it does not end within a minute.
    pub fn terminate(&mut self) -> Option<i32> {
        let asked = Command::new("kill").args(["-TERM", &self.process().to_string()]).status().expect("kill runs");
        assert!(asked.success(), "the daemon was gone before it was asked to end");
        let start = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().expect("the daemon is our child") {
                return status.code();
            }
            assert!(start.elapsed() < PATIENCE, "the daemon did not end after SIGTERM");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The device library of tests that name none.
fn device() -> String {
    std::env::var("FLOE_TEST_DEVICE").unwrap_or_else(|_| "cpu".to_owned())
}

/// Ids for workers of one more daemon, where `FLOE_TEST_WORKER_IDS` has all of them run as other users. Two daemons at once
/// have different ones.
fn worker_ids() -> Option<String> {
    static DAEMONS: AtomicU32 = AtomicU32::new(0);
    std::env::var_os("FLOE_TEST_WORKER_IDS")?;
    let first = 1_000_000 + 64 * DAEMONS.fetch_add(1, Ordering::Relaxed);
    Some(format!("{first}-{}", first + 63))
}

impl Drop for Floed {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to kill.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
