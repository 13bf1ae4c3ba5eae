//! The daemon as a service: it tells its manager when it is ready and when it ends, and runs from a package. In: an
//! installation, a socket as systemd makes it, a package. Out: what the manager hears, what a program computes.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use floe_tests::{Floed, installation, made_folder};
use rustix::process::{Pid, Signal, kill_process};

/// For what a busy machine may take.
const PATIENCE: Duration = Duration::from_secs(300);

fn heard(manager: &UnixDatagram) -> String {
    let mut bytes = [0; 512];
    let count = manager.recv(&mut bytes).expect("the daemon says something");
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

#[test]
fn the_service_manager_hears_when_connections_are_accepted_and_when_the_daemon_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).expect("bound");
    manager.set_read_timeout(Some(PATIENCE)).expect("set");
    let mut daemon = Floed::start_with(&[], &[("NOTIFY_SOCKET", &path.display().to_string())]);
    assert!(heard(&manager).lines().any(|line| line == "READY=1"));
    assert_eq!(daemon.terminate(), Some(0));
    assert!(heard(&manager).lines().any(|line| line == "STOPPING=1"));
}

/// The service's way to have files read again; without any it must not end.
#[test]
fn a_service_lives_through_sighup_and_another_daemon_without_files_does_not() {
    for (variables, status) in [(&[("NOTIFY_SOCKET", "@floe-nobody-listens-here")][..], Some(0)), (&[], None)] {
        let mut daemon = Floed::start_with(&[], variables);
        // It is the first of two that wait, and ends who does not wait for it.
        let process = Pid::from_raw(daemon.process().cast_signed()).expect("a process");
        kill_process(process, Signal::HUP).expect("sent");
        assert_eq!(daemon.terminate(), status, "{variables:?}");
    }
}

#[test]
fn a_service_manager_that_is_not_there_keeps_nobody_from_serving() {
    let mut daemon = Floed::start_with(&[], &[("NOTIFY_SOCKET", "@floe-nobody-listens-here")]);
    assert_eq!(daemon.terminate(), Some(0));
}

/// What a daemon logs to a pipe from its start to its end. `JOURNAL_STREAM` names the pipe, or another one.
fn logged(flags: &[&str], is_journals: bool) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut log, stderr) = std::io::pipe().expect("a pipe");
    let pipe = rustix::fs::fstat(&stderr).expect("known");
    let inode = if is_journals { pipe.st_ino } else { pipe.st_ino + 1 };
    let mut floed = Command::new(installation().join("bin/floed"));
    floed
        .args(["--device-library", "cpu", "--listen", "tcp://127.0.0.1:0", "--socket"])
        .arg(folder.path().join("socket"));
    floed.arg("--token-file").arg(folder.path().join("token")).args(flags).env_remove("FLOE_LOG_FORMAT");
    floed.env("JOURNAL_STREAM", format!("{}:{inode}", pipe.st_dev)).env("FLOE_MODULE_CACHE", folder.path());
    let mut process = floed.stdout(Stdio::piped()).stderr(stderr).spawn().expect("it starts");
    // Without the pipe's other end.
    drop(floed);
    let mut lines = BufReader::new(process.stdout.take().expect("piped")).lines();
    // It says twice where it listens, unless it refuses to start.
    if lines.by_ref().take(2).count() == 2 {
        kill_process(Pid::from_child(&process), Signal::TERM).expect("sent");
    }
    let mut said = String::new();
    log.read_to_string(&mut said).expect("text");
    process.wait().expect("it ends");
    said.lines().map(str::to_owned).collect()
}

#[test]
fn lines_for_the_journal_begin_with_their_level_and_no_others_do() {
    let (warns, refuses) = (["--fixed-addresses"], ["--no-sandbox", "--require-sandbox"]);
    let lines = logged(&warns, true);
    assert!(lines.iter().any(|line| line.starts_with("<6>floed: made a token")), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("<4>floed: WARNING: addresses are the same")), "{lines:?}");
    assert!(lines.iter().all(|line| line.starts_with("<6>") || line.starts_with("<4>")), "{lines:?}");
    let lines = logged(&refuses, true);
    assert!(lines.len() == 2 && lines[0].starts_with("<3>floed: the sandbox is both"), "{lines:?}");
    assert!(lines[1].starts_with("<3>  omit"), "{lines:?}");
    for flags in [&warns[..], &refuses[..]] {
        let lines = logged(flags, false);
        assert!(!lines.is_empty() && lines.iter().all(|line| !line.starts_with('<')), "{lines:?}");
    }
}

/// The package that `cargo xtask test` has made, or another one.
fn package() -> PathBuf {
    let folder = made_folder("FLOE_PACKAGE", "tested-package");
    let files = std::fs::read_dir(&folder).expect("read").map(|entry| entry.expect("read").path());
    let mut packages = files.filter(|path| path.extension().is_some_and(|end| end == "deb"));
    packages.next().unwrap_or_else(|| panic!("no package in {}: `cargo xtask test` makes one", folder.display()))
}

/// The output of a program that succeeds.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}: {said}", output.status);
    String::from_utf8(output.stdout).expect("text")
}

/// Where a service runs, root and whoever may use the socket needs neither `--on` nor the token.
#[test]
fn this_machines_gpus_and_sessions_are_asked_for_by_the_socket() {
    let daemon = Floed::start_with(&[], &[]);
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("floe/floed.sock");
    std::fs::create_dir(folder.path().join("floe")).expect("made");
    symlink(daemon.unix().trim_start_matches("unix://"), &socket).expect("linked");
    let says = |command| {
        let mut floe = Command::new(installation().join("bin/floe"));
        floe.args([command, "--json"]).env("XDG_RUNTIME_DIR", folder.path()).env("HOME", "/nonexistent");
        output(floe.env("XDG_CONFIG_HOME", "/nonexistent").env_remove("FLOE_DEVICES"))
    };
    assert!(says("gpus").contains(&format!("unix://{}", socket.display())));
    assert_eq!(says("ps").trim(), "[]");
}

#[test]
fn a_package_serves_from_where_it_is_unpacked() {
    if Command::new("dpkg-deb").arg("--version").output().is_err() {
        return println!("there is no dpkg-deb: no package is unpacked");
    }
    let folder = tempfile::tempdir().expect("a folder");
    output(Command::new("dpkg-deb").arg("--extract").arg(package()).arg(folder.path()));
    let usr = folder.path().join("usr");
    for file in [
        "lib/systemd/system/floed.service",
        "lib/systemd/system/floed.socket",
        "lib/sysusers.d/floe.conf",
        "share/bash-completion/completions/floe",
        "share/man/man1/floe-run.1.gz",
        "share/man/man8/floed.8.gz",
        "lib/floe/lib/client/libcuda.so.1",
        "lib/floe/lib/client/cupti/libcupti.so.13",
    ] {
        assert!(usr.join(file).is_file(), "{file}");
    }
    let daemon = Floed::start_open(&usr, &[]);
    let sees = |on: &str| output(Command::new(usr.join("bin/floe")).args(["gpus", "--json", "--on", on]));
    assert!(sees(daemon.unix()).contains("floe CPU device"));
    let demo = usr.join("lib/floe/bin/floe-demo").display().to_string();
    let device = format!("{}:0", daemon.unix());
    let run = |floe: &Path| output(Command::new(floe).args(["run", "--on", &device, "--", &demo]));
    assert!(run(&usr.join("bin/floe")).contains("equal the CPU's"));
}
