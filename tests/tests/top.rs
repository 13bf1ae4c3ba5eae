//! `floe top` on a terminal, and `floe end`: sessions are shown, and end where the user may end them and says so. In: an
//! installation. Out: what a terminal got, and what became of the session. The terminal is that of `script`.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use floe_lock::lock;
use floe_tests::{Floed, installation};
use floe_transport::Link;
use floe_wire::*;

/// For what a busy machine may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// `floe top` on a terminal of 100 columns and 24 lines.
struct Terminal {
    process: Child,
    keys: ChildStdin,
    screen: Arc<Mutex<String>>,
}

impl Terminal {
    fn start(daemon: &Floed) -> Self {
        let floe = installation().join("bin/floe");
        let top = format!("stty rows 24 cols 100; exec {} top --on {}", floe.display(), daemon.unix());
        let mut process = Command::new("script")
            .args(["--quiet", "--return", "--flush", "--command", &top, "/dev/null"])
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script of util-linux is installed");
        let (keys, mut output) = (process.stdin.take().expect("piped"), process.stdout.take().expect("piped"));
        let screen = Arc::new(Mutex::new(String::new()));
        let written = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                lock(&written).push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Self { process, keys, screen }
    }

    fn shows(&self, words: &str) {
        let begin = Instant::now();
        while !lock(&self.screen).contains(words) {
            assert!(begin.elapsed() < PATIENCE, "not shown: {words}\n{:?}", lock(&self.screen));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).and_then(|()| self.keys.flush()).expect("it reads its keys");
    }
}

#[test]
fn it_ends_with_its_terminal() {
    let daemon = Floed::start();
    let mut terminal = Terminal::start(&daemon);
    terminal.shows("GPU");
    let script = terminal.process.id();
    let children = std::fs::read_to_string(format!("/proc/{script}/task/{script}/children")).expect("it runs");
    let top: u32 = children.trim().parse().expect("one child");
    terminal.process.kill().expect("it runs");
    terminal.process.wait().expect("it has ended");
    let begin = Instant::now();
    let lives = || std::fs::read_to_string(format!("/proc/{top}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
    while lives() {
        assert!(begin.elapsed() < PATIENCE, "it runs on without a terminal");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A session whose worker has answered.
fn session(daemon: &Floed) -> Link {
    let path = daemon.unix().strip_prefix("unix://").expect("a path");
    let mut link = Link::new(UnixStream::connect(path).expect("the daemon listens").into());
    let hello = Hello { magic: MAGIC, oldest: OLDEST_VERSION, newest: NEWEST_VERSION, client: "test" };
    link.send_in_person(&hello).expect("sent");
    answer(&mut link);
    link.send(&Attach { program: "handmade", host: "here", ..Attach::default() }).expect("sent");
    answer(&mut link);
    link.send(&SynchronizeContext {}).expect("sent");
    answer(&mut link);
    link
}

fn answer(link: &mut Link) {
    let frame = link.receive(Some(Instant::now() + PATIENCE)).expect("an answer").expect("an answer");
    match Push::decode(frame.kind, frame.payload).expect("a message") {
        Push::Reply(reply) => assert_eq!(reply.status, 0, "{}", reply.detail),
        other => panic!("no reply: {}", other.name()),
    }
}

fn floe(arguments: &[&str]) -> Output {
    let mut floe = Command::new(installation().join("bin/floe"));
    floe.args(arguments).env("FLOE_NO_TOKEN", "yes").stdin(Stdio::null()).output().expect("floe runs")
}

fn words(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn number(daemon: &Floed) -> String {
    let (_, rows, _) = words(&floe(&["ps", "--json", "--on", daemon.unix()]));
    let rows: Vec<serde_json::Value> = serde_json::from_str(&rows).expect("JSON");
    let [row] = &rows[..] else { panic!("one session: {rows:?}") };
    assert_eq!((&row["program"], &row["moves"]), (&"handmade".into(), &0.into()));
    row["session"].to_string()
}

#[test]
fn a_session_is_shown_and_ends_when_the_user_has_said_yes() {
    let daemon = Floed::start();
    let mut link = session(&daemon);
    let number = number(&daemon);
    let mut terminal = Terminal::start(&daemon);
    terminal.shows("handmade");
    terminal.press("en");
    terminal.shows("end session");
    daemon.wait_for_workers(1);
    terminal.press("ey");
    terminal.shows(&format!("session {number} ends"));
    daemon.wait_for_workers(0);
    let told = link.receive(Some(Instant::now() + PATIENCE)).expect("why").expect("why");
    let why = format!("session {number} was ended: ended by the operator");
    assert!(matches!(Push::decode(told.kind, told.payload), Ok(Push::Ended(ended)) if ended.detail == why));
    assert!(!matches!(link.receive(Some(Instant::now() + PATIENCE)), Ok(Some(_))), "its connection has ended");
    terminal.press("q");
    assert!(terminal.process.wait().expect("it ends").success());
    // The terminal is as it was: the alternate screen is left, and the cursor shows.
    let screen = lock(&terminal.screen).clone();
    assert!(screen.contains("\u{1b}[?1049h") && screen.contains("\u{1b}[?1049l"), "{screen:?}");
    assert!(screen.rfind("\u{1b}[?25h") > screen.rfind("\u{1b}[?25l"), "{screen:?}");
}

#[test]
fn without_a_terminal_it_names_the_commands_that_print_the_same() {
    let daemon = Floed::start();
    let (code, printed, said) = words(&floe(&["top", "--on", daemon.unix()]));
    assert_eq!((code, printed.as_str()), (Some(125), ""));
    assert!(said.contains("floe top needs a terminal") && said.contains("floe gpus and floe ps"), "{said}");
}

#[test]
fn a_session_is_ended_by_its_number_by_who_may_and_by_nobody_else() {
    let daemon = Floed::start_logging(&["--no-token"]);
    let _link = session(&daemon);
    let number = number(&daemon);
    let refused = "no session of yours here";
    for (on, session) in [(daemon.unix(), "77"), (daemon.tcp(), number.as_str())] {
        let (code, _, said) = words(&floe(&["end", session, "--on", on]));
        assert!(code == Some(125) && said.contains(refused), "{on}: {said}");
    }
    daemon.wait_for_workers(1);
    let (code, printed, said) = words(&floe(&["end", &number, "--on", daemon.unix()]));
    assert_eq!((code, printed), (Some(0), String::new()), "{said}");
    daemon.wait_for_workers(0);
    let (ended, begin) = (format!("session {number} ended: ended by the operator"), Instant::now());
    while !daemon.log().contains(&ended) {
        assert!(begin.elapsed() < PATIENCE, "{}", daemon.log());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(words(&floe(&["end", &number, "--on", daemon.unix()])).0, Some(125), "it has ended already");
}
