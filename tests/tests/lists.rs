//! What `floe gpus` and `floe ps` list where nobody has said `--on`: this machine's daemon and the servers of the settings. In: two
//! daemons, one at the socket where a machine's own daemon is. Out: the rows, and what is said on stderr.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use floe_tests::{Floed, Port, installation};
use floe_transport::Link;
use floe_wire::{Field as _, Gpu, HelloReply, ListGpusReply, NEWEST_VERSION, ReadTelemetryReply, Reply};
use serde_json::Value;
use tempfile::TempDir;

/// For what a busy machine may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// A user on a machine with a daemon of its own, or without.
struct Machine {
    home: TempDir,
    environment: Vec<(&'static str, String)>,
}

impl Machine {
    /// Without a daemon.
    fn bare() -> Self {
        Self { home: tempfile::tempdir().expect("a folder"), environment: Vec::new() }
    }

    /// With this daemon at the socket of the machine's own.
    fn with(daemon: &Floed) -> Self {
        let machine = Self::bare();
        std::fs::create_dir(machine.home.path().join("floe")).expect("made");
        symlink(daemon.unix().trim_start_matches("unix://"), machine.socket()).expect("linked");
        machine
    }

    /// With these servers in the settings.
    fn and_settings(mut self, servers: &[&str]) -> Self {
        let devices: Vec<_> = servers.iter().map(|server| format!("{server}:0")).collect();
        self.environment.push(("FLOE_DEVICES", devices.join(",")));
        self
    }

    fn and(mut self, name: &'static str, value: String) -> Self {
        self.environment.push((name, value));
        self
    }

    fn socket(&self) -> PathBuf {
        self.home.path().join("floe/floed.sock")
    }

    fn own(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut floe = Command::new(installation().join("bin/floe"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("FLOE_") || name.starts_with("RCUDA_")) {
            floe.env_remove(name);
        }
        floe.args(arguments).env("XDG_RUNTIME_DIR", self.home.path()).env("HOME", self.home.path());
        floe.env("XDG_CONFIG_HOME", self.home.path()).env("FLOE_CPU_MEMORY", "1G").stdin(Stdio::null());
        floe.envs(self.environment.iter().map(|(name, value)| (name, value)));
        floe
    }

    /// The rows of a command, its exit code, what it said on stderr.
    fn lists(&self, command: &str) -> (Vec<Value>, Option<i32>, String) {
        let output = self.command(&[command, "--json"]).output().expect("floe runs");
        let rows = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (rows, output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// The servers of the rows of `floe gpus`, which succeeds and says nothing.
    #[track_caller]
    fn gpus(&self) -> Vec<String> {
        let (rows, code, said) = self.lists("gpus");
        assert_eq!((code, said.as_str()), (Some(0), ""), "{rows:?}");
        servers_of(&rows)
    }
}

fn servers_of(rows: &[Value]) -> Vec<String> {
    rows.iter().map(|row| row["server"].as_str().expect("a name").to_owned()).collect()
}

/// A program that has a vGPU of this server until its standard input ends.
fn program(server: &str) -> (Child, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let busy = folder.path().join("busy");
    floe_tests::compile_c("busy", &busy);
    let mut floe = Machine::bare().command(&["run", "--no-check", "--on", &format!("{server}:0"), "--"]);
    floe.arg(busy).args(["10000", "single"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    (floe.spawn().expect("it runs"), folder)
}

#[test]
fn lists_have_this_machines_daemon_and_the_servers_of_the_settings() {
    let (own, other) = (Floed::start(), Floed::start());
    let machine = Machine::with(&own).and_settings(&[other.unix()]);
    assert_eq!(machine.gpus(), [&machine.own(), other.unix()]);
    let mut programs = [own.unix(), other.unix()].map(program);
    let begin = Instant::now();
    loop {
        let (rows, code, said) = machine.lists("ps");
        assert_eq!((code, said.as_str()), (Some(0), ""), "{rows:?}");
        if rows.len() == 2 {
            assert_eq!(servers_of(&rows), [&machine.own(), other.unix()]);
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "two programs have a session each: {rows:?}");
    }
    let table = machine.command(&["gpus"]).output().expect("floe runs");
    assert_eq!(String::from_utf8_lossy(&table.stdout).lines().count(), 3, "{table:?}");
    for (program, _) in &mut programs {
        program.kill().and_then(|()| program.wait()).expect("it ran");
    }
}

#[test]
fn a_server_that_is_reached_by_several_names_is_listed_once() {
    let own = Floed::start();
    let other = Floed::start_beside(&own, &[]);
    let machine = Machine::with(&own).and_settings(&[own.tcp(), other.unix(), &other.shm(), other.tcp(), own.unix()]);
    let machine = machine.and("FLOE_TOKEN_FILE", own.token_file().display().to_string());
    assert_eq!(machine.gpus(), [&machine.own(), other.unix()]);
    let named = format!("{},{}", other.tcp(), other.unix());
    let rows = machine.command(&["gpus", "--json", "--on", &named]).output().expect("floe runs");
    assert_eq!(servers_of(&serde_json::from_slice::<Vec<Value>>(&rows.stdout).expect("rows")), [other.tcp()]);
}

#[test]
fn a_machine_without_a_daemon_lists_the_servers_of_the_settings_without_a_word() {
    let other = Floed::start();
    let bare = Machine::bare().and_settings(&[other.unix()]);
    assert_eq!(bare.gpus(), [other.unix()]);
    // A socket of a daemon that was killed is no daemon either.
    let mut gone = Floed::start();
    let left = Machine::with(&gone).and_settings(&[other.unix()]);
    assert_eq!(gone.terminate(), Some(0));
    std::fs::remove_file(left.socket()).expect("there was one");
    drop(std::os::unix::net::UnixListener::bind(left.socket()).expect("bound"));
    assert_eq!(left.gpus(), [other.unix()]);
    assert_eq!(left.lists("ps"), (Vec::new(), Some(0), String::new()));
}

#[test]
fn a_named_server_that_does_not_answer_is_an_error_beside_the_rows_of_the_others() {
    let own = Floed::start();
    let port = Port::reserve();
    let nobody = format!("tcp://{}", port.address());
    let machine = Machine::with(&own).and_settings(&[&nobody]);
    let said = format!("floe: no server at {nobody}: connection refused\n  start one there: floe serve\n");
    let (rows, code, words) = machine.lists("gpus");
    assert_eq!((servers_of(&rows), code, &words), (vec![machine.own()], Some(1), &said));
    assert_eq!(machine.lists("ps"), (Vec::new(), Some(1), said));
}

/// A server made by hand that answers a conversation's greeting when everybody else of these was greeted as well, and has one GPU
/// of this name.
fn waits_for_the_others(folder: &TempDir, all_greeted: &Arc<Barrier>, name: &'static str) -> String {
    let path = folder.path().join(name.split(' ').next().expect("a word"));
    let (listener, all_greeted) = (UnixListener::bind(&path).expect("bound"), Arc::clone(all_greeted));
    std::thread::spawn(move || {
        let mut link = Link::new(listener.accept().expect("somebody comes").0.into());
        let request = |link: &mut Link| {
            let frame = link.receive(Some(Instant::now() + PATIENCE)).ok().flatten();
            frame.map(|frame| frame.sequence)
        };
        let answer = |link: &mut Link, request, write: &dyn Fn(&mut Vec<u8>)| {
            let mut body = Vec::new();
            write(&mut body);
            link.send(&Reply { request, status: 0, earlier: 0, detail: "", body: &body }).expect("sent");
        };
        let greeting = request(&mut link).expect("a greeting");
        all_greeted.wait();
        let hello = HelloReply { version: NEWEST_VERSION, server: "test", authenticate: false, nonce: &[] };
        answer(&mut link, greeting, &|body| hello.write(body));
        let identity = request(&mut link).expect("a question");
        let telemetry = ReadTelemetryReply { server: name.as_bytes(), ..ReadTelemetryReply::default() };
        answer(&mut link, identity, &|body| telemetry.write(body));
        let list = request(&mut link).expect("another question");
        let gpus = || vec![Gpu { name, kind: name, ..Gpu::default() }];
        answer(&mut link, list, &|body| ListGpusReply { gpus: gpus(), nccl: false }.write(body));
        request(&mut link)
    });
    format!("unix://{}", path.display())
}

#[test]
fn no_server_of_a_list_waits_for_another_and_none_moves_the_cursor() {
    let folder = tempfile::tempdir().expect("a folder");
    let all_greeted = Arc::new(Barrier::new(2));
    let names = ["one \x1b[2J\x1b]0;title\x07", "other \u{202e}\u{9b}1m"];
    let servers = names.map(|name| waits_for_the_others(&folder, &all_greeted, name));
    let machine = Machine::bare().and_settings(&servers.each_ref().map(String::as_str));
    let output = machine.command(&["gpus"]).output().expect("floe runs");
    let shown = String::from_utf8(output.stdout).expect("text");
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""), "{shown}");
    assert_eq!(shown.lines().count(), 3, "{shown}");
    assert!(
        shown.contains("one \u{fffd}[2J\u{fffd}]0;title\u{fffd}") && shown.contains("other \u{fffd}\u{fffd}1m"),
        "{shown}"
    );
    assert!(!shown.contains(|character: char| character.is_control() && character != '\n'), "{shown:?}");
}

#[test]
fn doctor_asks_this_machines_daemon_and_the_servers_of_the_settings() {
    let (own, other) = (Floed::start(), Floed::start());
    let machine = Machine::with(&own).and_settings(&[other.unix()]);
    let said = machine.command(&["doctor"]).output().expect("floe runs");
    let said = String::from_utf8_lossy(&said.stdout);
    for server in [&machine.own(), other.unix()] {
        assert!(said.contains(&format!("  ok     server {server}: 1 GPUs offered")), "{said}");
    }
}
