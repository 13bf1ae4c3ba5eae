//! What `floe gpus` and `floe ps` list where nobody has said `--on`: this machine's daemon and the servers of the settings. In: two
//! daemons, one at the socket where a machine's own daemon is. Out: the rows, and what is said on stderr.

use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use floe_tests::{Floed, Port, installation};
use floe_transport::{Address, Answering, Link, Peer, Secret, Trust};
use floe_wire::{
    Field as _, Gpu, Hello, HelloReply, Identify, IdentifyReply, ListGpusReply, ListSessionsReply, MAGIC,
    NEWEST_VERSION, OLDEST_VERSION, Push, Reply, Request, SessionRow,
};
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
    let (folder, busy) = floe_tests::built_c("busy");
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

/// What a server made by hand says who it is: the body of the reply to this question.
type Identifies = Box<dyn FnMut(&Identify<'_>) -> Vec<u8> + Send>;

/// Serves one connection: greets without asking for a proof, says who it is, and lists one GPU of this name.
fn serve(mut link: Link, name: &str, mut greeted: impl FnMut(), mut identifies: Identifies) {
    while let Ok(Some(frame)) = link.receive(Some(Instant::now() + PATIENCE)) {
        let (sequence, mut body) = (frame.sequence, Vec::new());
        match Request::decode(frame.kind, frame.payload).expect("a message") {
            Request::Hello(_) => {
                greeted();
                HelloReply { version: NEWEST_VERSION, server: "test", authenticate: false, nonce: &[] }
                    .write(&mut body);
            }
            Request::Identify(question) => body = identifies(&question),
            Request::ListGpus(_) => {
                ListGpusReply { gpus: vec![Gpu { name, kind: name, ..Gpu::default() }], nccl: false }.write(&mut body);
            }
            Request::ListSessions(_) => {
                let row = SessionRow { program: name, ..SessionRow::default() };
                ListSessionsReply { sessions: vec![row] }.write(&mut body);
            }
            other => panic!("{}", other.name()),
        }
        link.send(&Reply { request: sequence, status: 0, earlier: 0, detail: "", body: &body }).expect("sent");
    }
}

/// A server made by hand that answers a conversation's greeting when everybody else of these was greeted as well, and has one GPU
/// of this name.
fn waits_for_the_others(folder: &TempDir, all_greeted: &Arc<Barrier>, name: &'static str) -> String {
    let path = folder.path().join(name.split(' ').next().expect("a word"));
    let (listener, all_greeted) = (UnixListener::bind(&path).expect("bound"), Arc::clone(all_greeted));
    std::thread::spawn(move || {
        let link = Link::new(listener.accept().expect("somebody comes").0.into());
        let greeted = || _ = all_greeted.wait();
        let nobody = |_: &Identify<'_>| {
            let mut body = Vec::new();
            IdentifyReply { server: name.as_bytes(), proof: &[] }.write(&mut body);
            body
        };
        serve(link, name, greeted, Box::new(nobody));
    });
    format!("unix://{}", path.display())
}

/// The next reply's body.
fn hears(link: &mut Link) -> Vec<u8> {
    let frame = link.receive(Some(Instant::now() + PATIENCE)).expect("a frame").expect("a reply");
    match Push::decode(frame.kind, frame.payload).expect("a message") {
        Push::Reply(reply) if reply.status == 0 => reply.body.to_vec(),
        other => panic!("{other:?}"),
    }
}

/// A server that knows the token of another one, if that has one, and says that it is that one: it logs in there and passes on the
/// client's challenge and the answer.
fn liar(about: &str, token: Option<&Path>) -> String {
    let secret = token.map(|file| Secret::of(std::fs::read_to_string(file).expect("a token").trim()));
    let (about, listener) = (about.parse::<Address>().expect("an address"), TcpListener::bind("127.0.0.1:0"));
    let listener = listener.expect("bound");
    let address = format!("tcp://{}", listener.local_addr().expect("known"));
    std::thread::spawn(move || {
        while let Ok((socket, peer)) = listener.accept() {
            let link = Link::accepted(Arc::new(socket.into()), &Peer::Tcp(peer)).expect("set up");
            let by = Answering { secret: secret.as_ref().map(|secret| secret as _), ..Answering::default() };
            let link = link.answer(&by, Instant::now() + PATIENCE).expect("it speaks as it should");
            let (about, secret) = (about.clone(), secret.clone());
            let as_the_other = move |question: &Identify<'_>| {
                let trust = Trust { tls: None, secret: secret.as_ref() };
                let mut other = floe_transport::connect(&about, PATIENCE, &trust).expect("it is there");
                let hello = Hello { magic: MAGIC, oldest: OLDEST_VERSION, newest: NEWEST_VERSION, client: "test" };
                other.send_in_person(&hello).expect("sent");
                hears(&mut other);
                other.send(question).expect("sent");
                hears(&mut other)
            };
            serve(link, "liar", || {}, Box::new(as_the_other));
        }
    });
    address
}

/// Whether lists have the rows of both, of whom the first says that it is the second.
#[track_caller]
fn are_both_listed(machine: &Machine, servers: [&str; 2]) {
    assert_eq!(machine.gpus(), servers);
    let mut program = program(servers[1]);
    let begin = Instant::now();
    loop {
        let (rows, code, said) = machine.lists("ps");
        assert_eq!((code, said.as_str()), (Some(0), ""), "{rows:?}");
        if servers_of(&rows) == servers {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "two sessions: {rows:?}");
    }
    program.0.kill().and_then(|()| program.0.wait()).expect("it ran");
}

#[test]
fn a_server_that_says_it_is_another_hides_no_row_of_that_one() {
    let honest = Floed::start();
    let token = honest.token_file();
    for about in [honest.tcp(), honest.unix()] {
        let liar = liar(about, Some(&token));
        let machine = Machine::bare().and_settings(&[&liar, honest.unix()]);
        are_both_listed(&machine.and("FLOE_TOKEN_FILE", token.display().to_string()), [&liar, honest.unix()]);
    }
}

#[test]
fn in_the_clear_too_a_server_is_listed_once_and_hidden_by_no_liar() {
    let honest = Floed::start_with(&["--no-token"], &[]);
    let machine = Machine::bare().and_settings(&[honest.tcp(), honest.unix()]);
    assert_eq!(machine.gpus(), [honest.tcp()]);
    let liar = liar(honest.tcp(), None);
    are_both_listed(&Machine::bare().and_settings(&[&liar, honest.unix()]), [&liar, honest.unix()]);
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

/// A server made by hand with so many GPUs and sessions.
fn has_rows(folder: &TempDir, count: usize) -> String {
    let path = folder.path().join("rows");
    let listener = UnixListener::bind(&path).expect("bound");
    std::thread::spawn(move || {
        while let Ok((socket, _)) = listener.accept() {
            let mut link = Link::new(socket.into());
            while let Ok(Some(frame)) = link.receive(Some(Instant::now() + PATIENCE)) {
                let (sequence, mut body) = (frame.sequence, Vec::new());
                match Request::decode(frame.kind, frame.payload).expect("a message") {
                    Request::Hello(_) => {
                        HelloReply { version: NEWEST_VERSION, server: "test", authenticate: false, nonce: &[] }
                            .write(&mut body);
                    }
                    Request::Identify(_) => IdentifyReply { server: &[], proof: &[] }.write(&mut body),
                    Request::ListGpus(_) => {
                        ListGpusReply { gpus: vec![Gpu::default(); count], nccl: false }.write(&mut body)
                    }
                    Request::ListSessions(_) => {
                        ListSessionsReply { sessions: vec![SessionRow::default(); count] }.write(&mut body);
                    }
                    other => panic!("{}", other.name()),
                }
                link.send(&Reply { request: sequence, status: 0, earlier: 0, detail: "", body: &body }).expect("sent");
            }
        }
    });
    format!("unix://{}", path.display())
}

#[test]
fn a_server_with_rows_without_number_is_shown_in_part_and_says_how_many_are_not() {
    let (own, folder) = (Floed::start(), tempfile::tempdir().expect("a folder"));
    let many = has_rows(&folder, 20_000);
    let machine = Machine::with(&own).and_settings(&[&many]);
    for (command, most, of_own) in [("gpus", 256, 1), ("ps", 4096, 0)] {
        let (rows, code, said) = machine.lists(command);
        let left_out = format!("floe: {many}: rows that are not shown: {}\n", 20_000 - most);
        assert_eq!((rows.len(), code, said), (most + of_own, Some(0), left_out), "{command}");
    }
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

#[test]
fn doctor_asks_all_servers_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let all_greeted = Arc::new(Barrier::new(2));
    let servers = ["one", "other"].map(|name| waits_for_the_others(&folder, &all_greeted, name));
    let machine = Machine::bare().and_settings(&servers.each_ref().map(String::as_str));
    let said = machine.command(&["doctor"]).output().expect("floe runs");
    let said = String::from_utf8_lossy(&said.stdout);
    let at = servers.map(|server| said.find(&format!("  ok     server {server}: 1 GPUs offered")));
    assert!(at[0].is_some() && at[0] < at[1], "{said}");
}
