//! A machine with a package: commands of the package's tool, of systemd, and of users come in, what they said goes out.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::machine::{Machine, Said};

/// For what a busy machine may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// A program that computes on the GPU and compares with the CPU, and its last words.
pub(super) const DEMO: &str = "/usr/lib/floe/bin/floe-demo";
const RIGHT: &str = "all results are right";

/// What installs a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    /// Of a `.deb`.
    Apt,
    /// Of a `.rpm`.
    Rpm,
}

impl Tool {
    /// That of a package.
    pub(super) fn of(package: &str) -> Result<Self> {
        match package.rsplit_once('.').map(|(_, end)| end) {
            Some("deb") => Ok(Self::Apt),
            Some("rpm") => Ok(Self::Rpm),
            _ => bail!("neither a .deb nor a .rpm: {package}"),
        }
    }

    /// Commands that install `$package`, install it over itself, compare its files, and remove it.
    fn commands(self) -> [&'static str; 4] {
        match self {
            Self::Apt => [
                "apt-get install --yes --no-install-recommends $package",
                "apt-get install --yes --reinstall $package",
                "dpkg --verify floe",
                "apt-get remove --yes floe",
            ],
            // Debian's rpm knows nothing of the packages around it.
            Self::Rpm => [
                "rpm --force-debian --nodeps --install $package",
                "rpm --force-debian --nodeps --upgrade --replacepkgs $package",
                "rpm --verify --nodeps floe",
                "rpm --force-debian --erase floe",
            ],
        }
    }
}

/// A machine, and the package that is tried in it.
#[derive(Debug)]
pub(super) struct System {
    machine: Machine,
    tool: Tool,
    package: String,
    /// The token of its server, once it is known.
    pub(super) token: String,
}

impl System {
    /// One with nothing installed.
    pub(super) fn new(machine: Machine, tool: Tool, package: &str) -> Self {
        Self { machine, tool, package: format!("/packages/{package}"), token: String::new() }
    }

    /// The package's tool.
    pub(super) fn tool(&self) -> Tool {
        self.tool
    }

    /// Runs a script as root that has to succeed, and gives what it said.
    pub(super) fn succeed(&self, script: &str) -> Result<String> {
        self.machine.succeed(script)
    }

    /// Runs a script as root whose outcome is not known.
    pub(super) fn say(&self, script: &str) -> Result<Said> {
        self.machine.say(script)
    }

    /// Runs a script, whose words have to be these.
    pub(super) fn says(&self, script: &str, wanted: &str) -> Result<()> {
        let said = self.say(script)?.text;
        ensure!(said.trim() == wanted, "{script}: not {wanted:?}:\n{}", said.trim_end());
        Ok(())
    }

    /// Installs the package.
    pub(super) fn install(&self) -> Result<()> {
        self.by_tool(0)
    }

    /// Installs the package where nothing of systemd's is seen.
    pub(super) fn install_without_systemd(&self) -> Result<()> {
        let hidden = "mount --bind /dev/null /usr/bin/systemd-sysusers; mount -t tmpfs tmpfs /run/systemd";
        let install = self.tool.commands()[0];
        let script = format!("package={}\nunshare --mount sh -euc \"{hidden}; {install}\"", self.package);
        self.succeed(&script).map(drop)
    }

    /// Installs it over itself.
    pub(super) fn upgrade(&self) -> Result<()> {
        self.by_tool(1)
    }

    /// Compares its files with what it had.
    pub(super) fn verify(&self) -> Result<()> {
        self.says(self.tool.commands()[2], "")
    }

    /// Removes it.
    pub(super) fn remove(&self) -> Result<()> {
        self.by_tool(3)
    }

    fn by_tool(&self, command: usize) -> Result<()> {
        self.succeed(&format!("package={}\n{}", self.package, self.tool.commands()[command])).map(drop)
    }

    /// Writes a file in a folder that may be missing.
    pub(super) fn write(&self, path: &str, text: &str) -> Result<()> {
        self.succeed(&format!("mkdir -p $(dirname {path})\ncat > {path} <<'END'\n{text}\nEND")).map(drop)
    }

    /// The service's process; 0 if there is none.
    pub(super) fn server(&self) -> Result<u32> {
        let said = self.succeed("systemctl show --property=MainPID --value floed")?;
        said.trim().parse().with_context(|| format!("no number of a process: {said}"))
    }

    /// Runs a program on the server's GPU as a user.
    pub(super) fn run_as(&self, user: &str, server: &str) -> Result<Said> {
        self.machine.say_as(user, &format!("floe run --on {server}:0 -- {DEMO}"))
    }

    /// Runs a program on the server's GPU as a user, which has to succeed.
    pub(super) fn runs_as(&self, user: &str, server: &str) -> Result<()> {
        let said = self.run_as(user, server)?;
        ensure!(said.code == Some(0) && said.text.contains(RIGHT), "{user} on {server}: {said:?}");
        Ok(())
    }

    /// Runs a program on the server's GPU as a user, which has to be refused in such words.
    pub(super) fn refuses(&self, user: &str, server: &str, words: &str) -> Result<()> {
        let said = self.run_as(user, server)?;
        ensure!(said.code == Some(125) && said.text.contains(words), "{user} on {server}: not {words:?}: {said:?}");
        Ok(())
    }

    /// Asks again and again.
    pub(super) fn wait_for(&self, what: &str, is_so: impl Fn(&Self) -> Result<bool>) -> Result<()> {
        let begin = Instant::now();
        while !is_so(self)? {
            ensure!(begin.elapsed() < PATIENCE, "not within {} s: {what}", PATIENCE.as_secs());
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// The last lines of the service's journal.
    pub(super) fn journal(&self) -> String {
        let said = self.machine.say("journalctl --unit=floed --unit=floed.socket --no-pager --lines=20");
        said.map_or_else(|error| error.to_string(), |said| said.text)
    }

    /// Shuts the machine down and starts it again.
    pub(super) fn restart(&mut self) -> Result<()> {
        self.machine.restart()
    }

    /// Shuts the machine down.
    pub(super) fn end(mut self) -> Result<()> {
        self.machine.end()
    }
}
