//! The systemd units: systemd understands every line of them, and what the service's takes away stays taken away.

use std::path::PathBuf;
use std::process::Command;

/// `systemd-analyze security` counts from 0 (nothing to reach) to 10; 5 and more it calls medium.
const MOST_EXPOSURE: f64 = 2.5;

fn unit() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/floed.service")).expect("the unit is there")
}

/// The unit as a file, with a program that is on this machine: systemd looks for it.
fn file() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("floed.service");
    let text = unit()
        .replace("ExecStart=/usr/bin/floed", "ExecStart=/bin/true")
        .replace("-+/usr/bin/nvidia-modprobe", "-+/bin/true");
    let text = text.replace("User=floe", "User=daemon").replace("Group=floe", "Group=daemon");
    std::fs::write(&path, text).expect("written");
    (folder, path)
}

/// Systemd's verdict on the unit; `None` if systemd is not installed.
fn systemd(arguments: &[&str]) -> Option<(bool, String)> {
    let output = Command::new("systemd-analyze").args(arguments).env("LC_ALL", "C.UTF-8").output();
    let output = output.inspect_err(|error| println!("systemd is not asked: {error}")).ok()?;
    let words = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&words).into_owned()))
}

#[test]
fn unit_names_every_protection_the_page_promises() {
    let unit = unit();
    for line in [
        "User=floe",
        "StartLimitBurst=5",
        "NoNewPrivileges=yes",
        "CapabilityBoundingSet=",
        "ProtectSystem=strict",
        "ProtectHome=yes",
        "PrivateTmp=yes",
        "LimitNOFILE=65536",
        "LimitCORE=0",
        "TasksMax=16384",
        "MemoryMax=90%",
    ] {
        assert!(unit.lines().any(|found| found == line), "missing: {line}");
    }
}

/// A minimal system has a shell and no `/bin/kill`. A program behind `-` may be missing.
#[test]
fn unit_starts_nothing_but_floed_and_a_shell() {
    let unit = unit();
    let commands = unit.lines().filter(|line| line.starts_with("Exec")).filter_map(|line| line.split_once('='));
    let programs: Vec<&str> = commands.filter_map(|(_, command)| command.split(' ').next()).collect();
    assert!(programs.contains(&"/usr/bin/floed"), "{programs:?}");
    for program in programs.iter().filter(|program| !program.starts_with('-')) {
        assert!(["/usr/bin/floed", "/bin/sh"].contains(program), "{program}");
    }
}

#[test]
fn systemd_understands_every_line() {
    let (_folder, path) = file();
    let Some((passed, words)) = systemd(&["verify", "--man=no", &path.display().to_string()]) else { return };
    let about_ours: Vec<&str> = words.lines().filter(|line| line.contains("floed.service")).collect();
    assert!(passed && about_ours.is_empty(), "{words}");
}

#[test]
fn systemd_understands_every_line_of_the_socket_which_starts_the_service_where_clients_look() {
    let (folder, service) = file();
    let path = folder.path().join("floed.socket");
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/floed.socket")).expect("it is there");
    let named = |unit: &str, line: &str| unit.lines().any(|found| found == line);
    assert!(named(&text, "ListenStream=/run/floe/floed.sock") && named(&text, "SocketMode=0600"), "{text}");
    // In a folder of the service's user root gives nothing away by path: a link may be there by then.
    assert!(
        !["SocketUser=", "SocketGroup=", "Exec"].iter().any(|start| text.lines().any(|line| line.starts_with(start)))
    );
    // The service's folder, with the socket in it, stays when it stops.
    assert!(named(&unit(), "RuntimeDirectoryPreserve=yes"));
    std::fs::write(&path, text).expect("written");
    let (path, service) = (path.display().to_string(), service.display().to_string());
    let Some((passed, words)) = systemd(&["verify", "--man=no", &path, &service]) else { return };
    let about_ours: Vec<&str> = words.lines().filter(|line| line.contains("floed.")).collect();
    assert!(passed && about_ours.is_empty(), "{words}");
}

#[test]
fn exposure_is_small() {
    let (_folder, path) = file();
    let arguments = ["security", "--offline=true", "--no-pager", &path.display().to_string()];
    let Some((_, words)) = systemd(&arguments) else { return };
    let Some(line) = words.lines().find(|line| line.contains("Overall exposure level")) else {
        // Before version 250 systemd asks the running manager only.
        return println!("systemd does not look at files: {words}");
    };
    let level = line.split_whitespace().find_map(|word| word.parse::<f64>().ok()).expect("a number");
    assert!(level <= MOST_EXPOSURE, "{words}");
}
