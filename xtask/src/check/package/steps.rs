//! What a package's life is like, step by step, as an operator sees it. Each step finds what the step before it left.

use anyhow::{Context as _, Result, ensure};

use super::system::{DEMO, System, Tool};

/// A step: its name and its function.
type Step = (&'static str, fn(&mut System) -> Result<()>);

/// The steps, in order.
pub(super) const STEPS: &[Step] = &[
    ("installed, and not started", installed),
    ("started", started),
    ("without rights", without_rights),
    ("a wrong setting", a_wrong_setting),
    ("used with the token", used_with_the_token),
    ("used by the socket", used_by_the_socket),
    ("reloaded", reloaded),
    ("restarted", restarted),
    ("killed", killed),
    ("with ids for workers", with_ids_for_workers),
    ("upgraded under a program", upgraded_under_a_program),
    ("stopped", stopped),
    ("started by a connection", started_by_a_connection),
    ("started with the machine", started_with_the_machine),
    ("removed", removed),
    ("installed again", installed_again),
    ("purged", purged),
    ("installed without systemd", installed_without_systemd),
];

/// How users of this machine reach the server.
const TCP: &str = "127.0.0.1";
const SOCKET: &str = "unix:///run/floe/floed.sock";
/// `systemd-analyze security` counts from 0 (nothing to reach) to 10.
const MOST_EXPOSURE: f64 = 2.0;
/// What belongs to the server's user: processes, and files where programs leave them.
const PROCESSES: &str = "find /proc -maxdepth 1 -name '[0-9]*' '(' -user floe -o -uid +599999 ')' 2>/dev/null || true";
const FILES: &str = "find /run/floe /tmp /var/tmp /dev/shm /dev/mqueue -mindepth 1 '(' -user floe -o -uid +599999 ')' 2>/dev/null || true";
/// Processes of an id that is set aside. Others may end while they are listed.
const WORKERS: &str = "find /proc -maxdepth 1 -name '[0-9]*' -uid +599999 2>/dev/null || true";

fn installed(system: &mut System) -> Result<()> {
    system.install()?;
    system.verify()?;
    let user = system.succeed("getent passwd floe")?;
    let fields: Vec<&str> = user.trim().split(':').collect();
    ensure!(fields[5..] == ["/var/lib/floe", "/usr/sbin/nologin"], "the user floe: {user}");
    ensure!(fields[2].parse::<u32>()? < 1000, "the user floe is nobody of the system's: {user}");
    system.says("systemctl is-enabled floed.service floed.socket || true", "disabled\ndisabled")?;
    system.says("systemctl is-active floed.service floed.socket || true", "inactive\ninactive")?;
    system.says("cd /usr/lib/systemd/system && systemd-analyze --man=no verify floed.service floed.socket", "")?;
    system.says("find /usr/lib/floe /usr/lib/systemd/system/floed.* ! -user root -o -perm /022 ! -type l", "")
}

fn started(system: &mut System) -> Result<()> {
    system.succeed("systemctl enable --now floed")?;
    // No wait: it is of the type that says when it serves.
    system.says(
        "systemctl show --property=ActiveState,StatusText floed",
        "StatusText=accepting connections\nActiveState=active",
    )?;
    let status = system.succeed("systemctl status --no-pager floed")?;
    ensure!(
        status.contains("active (running)") && status.contains("listening unix:///run/floe/floed.sock"),
        "{status}"
    );
    system.token = system.succeed("cat /var/lib/floe/token")?;
    ensure!(system.token.trim().len() >= 32, "the token is short: {} bytes", system.token.len());
    system.says(
        "cd /; stat --format='%n %U %a' var/lib/floe var/lib/floe/token var/cache/floe var/log/floe run/floe run/floe/floed.sock",
        "var/lib/floe floe 700\nvar/lib/floe/token floe 600\nvar/cache/floe floe 700\nvar/log/floe floe 700\n\
         run/floe floe 755\nrun/floe/floed.sock floe 700",
    )
}

fn without_rights(system: &mut System) -> Result<()> {
    let status = system.succeed(&format!("cat /proc/{}/status", system.server()?))?;
    let none = format!("{:016x}", 0);
    for (name, wanted) in [("CapEff", none.as_str()), ("CapBnd", &none), ("NoNewPrivs", "1"), ("Seccomp", "2")] {
        let found = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
        ensure!(found == Some(wanted), "{name}: not {wanted}: {found:?}");
    }
    let words = system.succeed("systemd-analyze security --no-pager floed")?;
    let line = words.lines().find(|line| line.contains("Overall exposure level")).context("no level")?;
    let level: f64 = line.split_whitespace().find_map(|word| word.parse().ok()).context("no number")?;
    eprintln!("  systemd-analyze security: {level}");
    ensure!(level <= MOST_EXPOSURE, "{words}");
    // The unit takes nothing from its workers' sandbox: it is as whole as that of a server which root starts.
    let (log, doctor) = (system.succeed("journalctl --unit=floed --output=cat")?, system.succeed("floe doctor")?);
    let is_whole = |words: &str| !words.contains("Landlock does not protect");
    ensure!(is_whole(&log) == is_whole(&doctor), "{log}{doctor}");
    Ok(())
}

/// The service fails once, and is repaired. Lines of the journal have the level of what they say.
fn a_wrong_setting(system: &mut System) -> Result<()> {
    system.write("/etc/floe/floe.toml", "[server]\npolicy = \"/etc/floe/missing.toml\"")?;
    ensure!(system.say("systemctl restart floed")?.code != Some(0), "it starts with a policy that is not there");
    let levels = |level| format!("journalctl --unit=floed --output=cat --priority={level}..{level} _COMM=floed");
    let errors = system.succeed(&levels("err"))?;
    ensure!(errors.contains("missing.toml"), "errors of the journal: {errors}");
    let said = system.succeed(&levels("info"))?;
    ensure!(said.contains("made a token") && !said.contains('<'), "information of the journal: {said}");
    system.succeed("rm /etc/floe/floe.toml; systemctl reset-failed floed; systemctl start floed").map(drop)
}

fn used_with_the_token(system: &mut System) -> Result<()> {
    system.succeed("useradd --create-home alice; useradd --create-home bob; useradd --create-home mallory")?;
    system.refuses("alice", TCP, "token")?;
    let install = "install --owner=alice --mode";
    system.succeed(&format!("{install}=700 --directory /home/alice/.config /home/alice/.config/floe"))?;
    system.succeed(&format!("{install}=600 /var/lib/floe/token /home/alice/.config/floe/token"))?;
    system.runs_as("alice", TCP)?;
    system.succeed("rm /home/alice/.config/floe/token")?;
    // Root asks this machine's server without a word about where it is.
    let gpus = system.succeed("floe gpus --json")?;
    ensure!(gpus.contains(SOCKET) && gpus.contains("floe CPU device"), "{gpus}");
    Ok(())
}

/// As docs/guide/users.md has it.
fn used_by_the_socket(system: &mut System) -> Result<()> {
    system.refuses("alice", SOCKET, "ermission denied")?;
    system.write("/etc/floe/floe.toml", "[server]\npolicy = \"/etc/floe/policy.toml\"")?;
    system.write("/etc/floe/policy.toml", "[users.alice]\nsessions = 2")?;
    let drop_in = "[Service]\nExecStartPost=/bin/chmod 0666 /run/floe/floed.sock";
    system.write("/etc/systemd/system/floed.service.d/users.conf", drop_in)?;
    system.succeed("systemctl daemon-reload; systemctl restart floed")?;
    system.runs_as("alice", SOCKET)?;
    system.refuses("bob", SOCKET, "token")
}

fn reloaded(system: &mut System) -> Result<()> {
    let before = system.server()?;
    system.write("/etc/floe/policy.toml", "[users.alice]\nsessions = 2\n[users.bob]\nsessions = 1")?;
    system.succeed("systemctl reload floed")?;
    system.wait_for("bob is let in", |system| Ok(system.run_as("bob", SOCKET)?.code == Some(0)))?;
    system.refuses("mallory", SOCKET, "token")?;
    ensure!(system.server()? == before, "a reload is a restart");
    Ok(())
}

fn restarted(system: &mut System) -> Result<()> {
    let before = system.server()?;
    system.succeed("systemctl restart floed")?;
    ensure!(system.server()? != before, "a restart changes nothing");
    system.says("cat /var/lib/floe/token", system.token.trim())?;
    system.runs_as("alice", SOCKET)
}

fn killed(system: &mut System) -> Result<()> {
    let before = system.server()?;
    system.succeed(&format!("kill -9 {before}"))?;
    system.wait_for("it serves again", |system| {
        let is_active = system.say("systemctl is-active floed")?.code == Some(0);
        Ok(is_active && system.server()? != before)
    })?;
    system.runs_as("bob", SOCKET)
}

/// As docs/guide/users.md has it.
fn with_ids_for_workers(system: &mut System) -> Result<()> {
    let drop_in = "[Service]\nAmbientCapabilities=CAP_SETUID CAP_SETGID CAP_KILL\n\
                   CapabilityBoundingSet=CAP_SETUID CAP_SETGID CAP_KILL\nProtectProc=default\n\
                   Environment=FLOE_WORKER_IDS=600000-600063";
    system.write("/etc/systemd/system/floed.service.d/ids.conf", drop_in)?;
    system.succeed("systemctl daemon-reload; systemctl restart floed")?;
    begin_rounds(system)?;
    system.wait_for("a worker has an id of its own", |system| Ok(!system.succeed(WORKERS)?.is_empty()))?;
    end_rounds(system)?;
    system.wait_for("no worker is left", |system| Ok(system.succeed(WORKERS)?.is_empty()))?;
    // What it gave up, it has not.
    let status = system.succeed(&format!("cat /proc/{}/status", system.server()?))?;
    ensure!(status.contains("CapEff:\t0000000000000000"), "{status}");
    Ok(())
}

/// A program that begins a session after the other sees nothing of an upgrade.
fn upgraded_under_a_program(system: &mut System) -> Result<()> {
    let before = system.server()?;
    begin_rounds(system)?;
    let settings = "cat /etc/floe/* /etc/systemd/system/floed.service.d/*";
    let kept = system.succeed(settings)?;
    system.upgrade()?;
    system.verify()?;
    let rounds = rounds_of(system)?;
    system.wait_for("the program computes on", |system| Ok(rounds_of(system)? >= rounds + 2))?;
    end_rounds(system)?;
    system.says(settings, kept.trim())?;
    system.says("cat /var/lib/floe/token", system.token.trim())?;
    system.says("systemctl is-enabled floed.service floed.socket || true", "enabled\ndisabled")?;
    ensure!(system.server()? == before, "an upgrade restarts the server");
    Ok(())
}

/// Has a user's program begin sessions, and returns when one has ended.
fn begin_rounds(system: &System) -> Result<()> {
    let rounds = format!("#!/bin/sh\nuntil test -e /run/enough; do {DEMO} || exit 1; done");
    system.write("/opt/rounds", &rounds)?;
    system.succeed("chmod 755 /opt/rounds")?;
    let (before, run) = (rounds_of(system)?, format!("floe run --on {SOCKET}:0 -- /opt/rounds"));
    system.succeed(&format!("systemd-run --quiet --unit=rounds --remain-after-exit --uid=alice {run}"))?;
    system.wait_for("the program computes", |system| Ok(rounds_of(system)? > before))
}

/// Has it end, which has to be a success.
fn end_rounds(system: &System) -> Result<()> {
    system.succeed("touch /run/enough")?;
    let state = "systemctl show --property=SubState --value rounds";
    system.wait_for("the program ends", |system| Ok(system.succeed(state)?.trim() != "running"))?;
    system.says("systemctl show --property=Result --value rounds", "success")?;
    system.succeed("rm /run/enough; systemctl stop rounds").map(drop)
}

fn rounds_of(system: &System) -> Result<usize> {
    Ok(system.succeed("journalctl --unit=rounds --output=cat")?.matches("all results are right").count())
}

fn stopped(system: &mut System) -> Result<()> {
    system.succeed("systemctl stop floed")?;
    system.says("systemctl is-active floed || true", "inactive")?;
    system.says(PROCESSES, "")?;
    system.says(FILES, "")?;
    system.says("find /sys/fs/cgroup -name 'floed*'", "")
}

/// As docs/guide/install.md has it.
fn started_by_a_connection(system: &mut System) -> Result<()> {
    system.write("/etc/systemd/system/floed.socket.d/users.conf", "[Socket]\nSocketMode=0666")?;
    // A machine that has just started has no such folder.
    system.succeed("systemctl disable floed.service; rmdir /run/floe; systemctl daemon-reload")?;
    system.succeed("systemctl enable --now floed.socket")?;
    system.says("systemctl is-active floed.service floed.socket || true", "inactive\nactive")?;
    system.says("stat --format='%U %a' /run/floe/floed.sock", "root 666")?;
    system.runs_as("alice", SOCKET)?;
    system.says("systemctl is-active floed.service floed.socket", "active\nactive")?;
    // The socket goes on, and the next connection starts it again.
    system.succeed("systemctl stop floed.service")?;
    system.runs_as("bob", SOCKET)?;
    system.succeed("systemctl stop floed.socket floed.service")?;
    system.says(PROCESSES, "")?;
    system.says("find /run/floe -mindepth 1", "")
}

fn started_with_the_machine(system: &mut System) -> Result<()> {
    system.succeed("systemctl enable floed.service floed.socket; touch /run/before")?;
    system.restart()?;
    system.says("find /run -name before", "")?;
    system.says("systemctl is-active floed.service floed.socket", "active\nactive")?;
    system.says("cat /var/lib/floe/token", system.token.trim())?;
    system.runs_as("alice", SOCKET)
}

fn removed(system: &mut System) -> Result<()> {
    system.remove()?;
    system.says(PROCESSES, "")?;
    system.says("systemctl list-units --all --plain --no-legend 'floed*'", "")?;
    system.says("find /etc/systemd/system -name 'floed.s*' -type l", "")?;
    system.says("ls -d /usr/lib/floe /usr/bin/floe* /usr/share/doc/floe /run/floe 2>/dev/null || true", "")?;
    // What the operator and the server have made.
    system.says("cat /var/lib/floe/token", system.token.trim())?;
    system.says("ls /etc/floe", "floe.toml\npolicy.toml")
}

fn installed_again(system: &mut System) -> Result<()> {
    system.install()?;
    system.says("systemctl is-enabled floed.service floed.socket || true", "disabled\ndisabled")?;
    system.succeed("systemctl start floed")?;
    system.says("cat /var/lib/floe/token", system.token.trim())?;
    system.runs_as("alice", SOCKET)
}

/// Debian's way to have nothing left; RPM has none, and keeps what the server has made.
fn purged(system: &mut System) -> Result<()> {
    let has_purge = system.tool() == Tool::Apt;
    if has_purge {
        system.succeed("apt-get purge --yes floe")?;
    } else {
        system.remove()?;
    }
    system.says(PROCESSES, "")?;
    let left = "cd /; ls -d var/lib/floe var/cache/floe var/log/floe run/floe 2>/dev/null || true";
    system.says(left, if has_purge { "" } else { "var/cache/floe\nvar/lib/floe\nvar/log/floe" })?;
    system.says("ls /etc/floe", "floe.toml\npolicy.toml")
}

/// As in an image for containers: the user is made by other means, and nothing is asked of a manager.
fn installed_without_systemd(system: &mut System) -> Result<()> {
    system.succeed("userdel floe")?;
    system.install_without_systemd()?;
    let user = system.succeed("getent passwd floe")?;
    ensure!(user.contains(":/var/lib/floe:") && user.trim().ends_with("/nologin"), "the user floe: {user}");
    let said = system.succeed(&format!("runuser --login --command='floe run -- {DEMO}' alice"))?;
    ensure!(said.contains("all results are right"), "{said}");
    Ok(())
}
