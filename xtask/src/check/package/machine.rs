//! A machine that systemd runs as process 1: a folder with a Debian comes in, a container of `systemd-nspawn` runs until it is
//! dropped. It has processes, users, mounts, control groups and a network of its own, and this machine's kernel and processors.
//! Nothing of it stays behind but the folder.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::groups::Groups;
use crate::toolchain::last_lines;

/// For what a busy machine may take to start or to end.
const PATIENCE: Duration = Duration::from_secs(180);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// In namespaces of its own, where systemd-nspawn sees nothing of this machine's manager and leaves nothing in its /run.
const ALONE: &str = r#"
for group in $FLOE_GROUPS; do echo 0 > "$group/cgroup.procs"; done
mount -t tmpfs tmpfs /run
exec "$@"
"#;

/// A running machine.
#[derive(Debug)]
pub(super) struct Machine {
    root: PathBuf,
    packages: PathBuf,
    container: Child,
    /// Its process 1, as this machine counts.
    manager: String,
    /// Removed when no process is in them any more.
    groups: Groups,
}

/// What a command in a machine said, and its exit code.
#[derive(Debug)]
pub(super) struct Said {
    /// The exit code.
    pub(super) code: Option<i32>,
    /// Stdout and stderr, in no order between them.
    pub(super) text: String,
}

impl Machine {
    /// Starts one from a folder, and returns when systemd has started everything. `packages` is its folder `/packages`.
    pub(super) fn boot(root: &Path, packages: &Path) -> Result<Self> {
        let groups = Groups::make()?;
        let container = start(root, packages, &groups)?;
        let (root, packages) = (root.to_owned(), packages.to_owned());
        let mut machine = Self { root, packages, container, manager: String::new(), groups };
        machine.wait_for("systemd starts", Self::is_up)?;
        Ok(machine)
    }

    /// Shuts it down and starts it again.
    pub(super) fn restart(&mut self) -> Result<()> {
        self.end()?;
        self.container = start(&self.root, &self.packages, &self.groups)?;
        self.wait_for("systemd starts again", Self::is_up)
    }

    /// Whether systemd has started everything.
    fn is_up(&mut self) -> Result<bool> {
        if let Some(status) = self.container.try_wait()? {
            let said = fs::read_to_string(log_of(&self.root)).unwrap_or_default();
            bail!("systemd-nspawn ended, {status}\n{}", last_lines(&said, 6));
        }
        let nspawn = child_of(&self.container.id().to_string());
        let Some(manager) = nspawn.and_then(|nspawn| child_of(&nspawn)) else { return Ok(false) };
        // It has its name once it runs, and not yet as the container is made.
        if fs::read_to_string(format!("/proc/{manager}/comm")).unwrap_or_default().trim() != "systemd" {
            return Ok(false);
        }
        self.manager = manager;
        let state = self.say("systemctl is-system-running")?.text;
        ensure!(!state.contains("degraded"), "units have failed: {}", self.say("systemctl --failed --plain")?.text);
        Ok(state.trim() == "running")
    }

    /// Asks again and again.
    fn wait_for(&mut self, what: &str, is_so: impl Fn(&mut Self) -> Result<bool>) -> Result<()> {
        let begin = Instant::now();
        while !is_so(self)? {
            ensure!(begin.elapsed() < PATIENCE, "not within {} s: {what}", PATIENCE.as_secs());
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Runs a script in it as root.
    pub(super) fn say(&self, script: &str) -> Result<Said> {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.manager, "--all", "--"]).args(["env", "--ignore-environment"]);
        command.args([
            "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
            "LC_ALL=C.UTF-8",
            "HOME=/root",
            "DEBIAN_FRONTEND=noninteractive",
        ]);
        // Not this process's.
        let script = format!("umask 022\n{script}");
        let output = command.args(["sh", "-euc", &script]).output().context("nsenter does not start")?;
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        Ok(Said { code: output.status.code(), text })
    }

    /// Runs a script as root that has to succeed, and gives what it said.
    pub(super) fn succeed(&self, script: &str) -> Result<String> {
        let said = self.say(script)?;
        ensure!(said.code == Some(0), "failed with {:?}: {script}\n{}", said.code, said.text.trim_end());
        Ok(said.text)
    }

    /// Runs a command as a user, in a unit of its own.
    pub(super) fn say_as(&self, user: &str, command: &str) -> Result<Said> {
        self.say(&format!("systemd-run --quiet --pipe --wait --collect --uid={user} {command}"))
    }

    /// Shuts it down, as a machine is.
    pub(super) fn end(&mut self) -> Result<()> {
        self.succeed("systemctl poweroff")?;
        self.wait_for("the machine ends", |machine| Ok(machine.container.try_wait()?.is_some()))?;
        self.manager.clear();
        Ok(())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Its processes end with it.
        let _ = self.container.kill();
        let _ = self.container.wait();
        let begin = Instant::now();
        while !self.manager.is_empty()
            && Path::new(&format!("/proc/{}", self.manager)).exists()
            && begin.elapsed() < PATIENCE
        {
            std::thread::sleep(PAUSE);
        }
    }
}

/// A process's first child.
fn child_of(process: &str) -> Option<String> {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).ok()?;
    children.split_whitespace().next().map(str::to_owned)
}

/// Where a container's words go.
fn log_of(root: &Path) -> PathBuf {
    root.with_extension("log")
}

fn start(root: &Path, packages: &Path, groups: &Groups) -> Result<Child> {
    let log = log_of(root);
    let log = File::create(&log).with_context(|| format!("cannot make: {}", log.display()))?;
    let folders: Vec<_> = groups.folders().iter().map(|folder| folder.display().to_string()).collect();
    let mut command = nspawn(root, packages);
    command.env("FLOE_GROUPS", folders.join(" ")).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    command.spawn().context("setpriv does not start")
}

/// The container's program, of the machine's own version: that of this machine may be missing.
fn nspawn(root: &Path, packages: &Path) -> Command {
    let libraries = root.join("usr/lib/x86_64-linux-gnu");
    let mut command = Command::new("setpriv");
    // Whoever ends, this process or unshare: with the namespace's first process all of it ends.
    command.args(["--pdeathsig", "KILL", "unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    command.args(["--mount", "--propagation=private", "sh", "-euc", ALONE, "sh"]);
    command.arg(root.join("lib64/ld-linux-x86-64.so.2")).arg("--library-path");
    command.arg(format!("{0}:{0}/systemd", libraries.display())).arg(root.join("usr/bin/systemd-nspawn"));
    command.arg("--directory").arg(root).arg(format!("--bind-ro={}:/packages", packages.display()));
    command.args(["--boot", "--quiet", "--machine=floe-check", "--register=no", "--keep-unit", "--console=pipe"]);
    command.args(["--private-network", "--resolv-conf=off", "--timezone=off", "--link-journal=no"]);
    // What a real machine has, and Debian 12's containers do not: Landlock, and filters of devices.
    command.args([
        "--capability=all",
        "--system-call-filter=landlock_create_ruleset landlock_add_rule landlock_restrict_self bpf",
    ]);
    // As Debian 12 has it.
    command.env("SYSTEMD_NSPAWN_UNIFIED_HIERARCHY", "1");
    command
}
