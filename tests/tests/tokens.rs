//! Users by tokens: each sees and ends own sessions, a revoked token begins nothing, and the audit log says who did what.
//! In: daemons with a policy and a list of tokens, clients by TCP. Out: sessions, refusals by name, lines of JSON.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use floe_tests::{Floed, installation};
use floe_transport::{Address, Link, LinkError, Secret, Trust, connect};
use floe_wire::*;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// For what a busy machine may take.
const PATIENCE: Duration = Duration::from_secs(300);
const NOT_PERMITTED: u32 = 800;

/// A daemon with a policy, a list of tokens and an audit log.
struct Stage {
    daemon: Floed,
    folder: TempDir,
}

impl Stage {
    /// A daemon, and the tokens of these users.
    fn new<const N: usize>(policy: &str, users: [&str; N]) -> (Self, [String; N]) {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        std::fs::write(place("policy"), policy).unwrap();
        let tokens = users.map(|user| text(&floe(&["token", "make", user, "--tokens", &place("tokens")], None)));
        let flags = ["--policy", &place("policy"), "--tokens", &place("tokens"), "--audit", &place("audit")];
        let daemon = Floed::start_logging(&[&flags[..], &["--clear-text", "--grace", "0"]].concat());
        (Self { daemon, folder }, tokens)
    }

    fn place(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A connection sealed by this token, after the greeting.
    fn greet(&self, token: &str) -> Result<Link, LinkError> {
        let (address, secret): (Address, _) = (self.daemon.tcp().parse().unwrap(), Secret::of(token));
        let mut link = connect(&address, PATIENCE, &Trust { secret: Some(&secret), ..Trust::default() })?;
        link.send(&Hello { magic: MAGIC, oldest: OLDEST_VERSION, newest: NEWEST_VERSION, client: "test" })?;
        let (status, words, body) = hear(&mut link);
        assert_eq!(status, 0, "{words}");
        assert!(!Hello::decode_reply(&body).unwrap().authenticate, "it has proved the token");
        Ok(link)
    }

    fn attach(&self, token: &str, memory: u64) -> Result<(Link, u64), (u32, String)> {
        let mut link = self.greet(token).unwrap();
        link.send(&Attach { memory, program: "by hand", host: "here", ..Attach::default() }).unwrap();
        let (status, words, body) = hear(&mut link);
        if status != 0 {
            return Err((status, words));
        }
        let session = Attach::decode_reply(&body).unwrap().session;
        synchronize(&mut link);
        Ok((link, session))
    }

    fn floe(&self, arguments: &[&str], token: &str) -> Output {
        floe(&[arguments, &["--on", self.daemon.tcp()]].concat(), Some(token))
    }

    /// The sessions that the holder of a token is shown, with their users.
    fn shown(&self, token: &str) -> Vec<(u64, String)> {
        let rows: Vec<Value> = serde_json::from_str(&text(&self.floe(&["ps", "--json"], token))).unwrap();
        rows.iter().map(|row| (row["session"].as_u64().unwrap(), row["user"].as_str().unwrap().to_owned())).collect()
    }

    fn of_server(&self) -> String {
        std::fs::read_to_string(self.daemon.token_file()).unwrap().trim().to_owned()
    }

    fn token(&self, arguments: &[&str]) -> String {
        let place = self.place("tokens");
        text(&floe(&[&["token"], arguments, &["--tokens", place.to_str().unwrap()]].concat(), None))
    }

    fn audited(&self) -> Vec<Value> {
        lines(&self.place("audit"))
    }
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// `floe` with this token, or none.
fn floe(arguments: &[&str], token: Option<&str>) -> Output {
    let nobody = tempfile::tempdir().unwrap();
    let mut floe = Command::new(installation().join("bin/floe"));
    floe.args(arguments).env("XDG_CONFIG_HOME", nobody.path()).env_remove("FLOE_TOKEN_FILE").env_remove("FLOE_TOKEN");
    floe.envs(token.map(|token| ("FLOE_TOKEN", token))).output().unwrap()
}

#[track_caller]
fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[track_caller]
fn refused(output: &Output, words: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains(words), "{said}");
}

fn hear(link: &mut Link) -> (u32, String, Vec<u8>) {
    let frame = link.receive(Some(Instant::now() + PATIENCE)).unwrap().unwrap();
    match Push::decode(frame.kind, frame.payload).unwrap() {
        Push::Reply(reply) => (reply.status, reply.detail.to_owned(), reply.body.to_vec()),
        other => panic!("no reply: {}", other.name()),
    }
}

/// The session's worker answers.
fn synchronize(link: &mut Link) {
    link.send(&SynchronizeContext {}).unwrap();
    assert_eq!(hear(link).0, 0);
}

fn await_end(mut link: Link) {
    while let Ok(Some(_)) = link.receive(Some(Instant::now() + PATIENCE)) {}
}

fn wait_until(mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "waited in vain");
        std::thread::sleep(Duration::from_millis(10));
    }
}

const POLICY: &str = "[users.alice]\nmemory = \"64M\"\n[users.bob]\nmay-migrate = true\n";

#[test]
fn users_with_tokens_see_and_end_own_sessions_and_the_servers_token_is_the_operators() {
    let (stage, [alice, bob, carol]) = Stage::new(POLICY, ["alice", "bob", "carol"]);
    let (first, of_alice) = stage.attach(&alice, 16 << 20).unwrap();
    let (_second, of_bob) = stage.attach(&bob, 0).unwrap();
    assert_eq!(stage.shown(&alice), [(of_alice, "alice".into())]);
    assert_eq!(stage.shown(&bob), [(of_bob, "bob".into())]);
    assert_eq!(stage.shown(&stage.of_server()), [(of_alice, "alice".into()), (of_bob, "bob".into())]);
    let number = of_alice.to_string();
    for command in ["end", "suspend", "migrate"] {
        refused(&stage.floe(&[command, &number], &bob), "no session of yours here");
    }
    refused(&stage.floe(&["suspend", &number], &alice), "does not let alice move, suspend or resume");
    let (status, words) = stage.attach(&alice, 64 << 20).map(|it| it.1).unwrap_err();
    assert!(status == 2 && words.contains("gives alice 64 MiB of device memory in all; held: 16 MiB"), "{words}");
    let (status, words) = stage.attach(&carol, 0).map(|it| it.1).unwrap_err();
    assert!(status == NOT_PERMITTED && words.contains("has no place for carol"), "{words}");
    text(&stage.floe(&["end", &number], &alice));
    await_end(first);
    wait_until(|| stage.shown(&stage.of_server()).len() == 1);
    text(&stage.floe(&["end", &of_bob.to_string()], &stage.of_server()));
    stage.daemon.wait_for_workers(0);
}

/// Milliseconds for which turns were taken since the sessions came.
fn of_turns(stage: &Stage) -> Vec<u64> {
    let shown = text(&stage.floe(&["ps", "--json"], &stage.of_server()));
    let rows: Vec<Value> = serde_json::from_str(&shown).unwrap();
    rows.iter().map(|row| row["of_ms"].as_u64().unwrap()).collect()
}

#[test]
fn users_take_turns_where_one_has_more_sessions_than_another() {
    let (stage, [alice, bob]) = Stage::new("[users.alice]\n[users.bob]\n", ["alice", "bob"]);
    let (_first, _) = stage.attach(&alice, 0).unwrap();
    let (_other, _) = stage.attach(&bob, 0).unwrap();
    assert_eq!(of_turns(&stage), [0, 0], "one each is even already");
    let (second, number) = stage.attach(&alice, 0).unwrap();
    wait_until(|| of_turns(&stage).iter().filter(|of| **of > 0).count() == 3);
    text(&stage.floe(&["end", &number.to_string()], &alice));
    await_end(second);
    wait_until(|| of_turns(&stage).len() == 2);
    // Nobody takes turns any more, after a while.
    wait_until(|| {
        let before = of_turns(&stage);
        std::thread::sleep(Duration::from_millis(20));
        of_turns(&stage) == before
    });
}

#[test]
fn a_users_token_is_proved_in_the_clear_and_a_program_runs_with_it() {
    let (stage, [alice]) = Stage::new("[users.alice]\n", ["alice"]);
    let clear = stage.daemon.tcp().replacen("tcp", "clear", 1);
    text(&floe(&["gpus", "--on", &clear], Some(&alice)));
    let changed = alice.replace(&alice[alice.len() - 8..], "00000000");
    for server in [&clear, stage.daemon.tcp()] {
        refused(&floe(&["gpus", "--on", server], Some(&changed)), "refused the token");
    }
    let (device, demo) = (format!("{}:0", stage.daemon.tcp()), installation().join("bin/floe-demo"));
    text(&floe(&["run", "--on", &device, "--", demo.to_str().unwrap()], Some(&alice)));
    assert!(stage.audited().iter().any(|line| line["event"] == "admitted" && line["user"] == "alice"));
}

#[test]
fn a_drained_token_begins_nothing_and_the_sessions_of_an_ended_one_end() {
    let (stage, [alice, bob]) = Stage::new("[default]\n", ["alice", "bob"]);
    let (mut link, session) = stage.attach(&alice, 0).unwrap();
    let (mut other, _) = stage.attach(&bob, 0).unwrap();
    let number = Secret::of(&alice).number().unwrap().to_string();
    assert_eq!(stage.token(&["revoke", &number]), number);
    wait_until(|| stage.attach(&alice, 0).is_err());
    let (status, words) = stage.attach(&alice, 0).map(|it| it.1).unwrap_err();
    assert!(status == NOT_PERMITTED && words.contains("this token of alice is revoked"), "{words}");
    synchronize(&mut link);
    assert_eq!(stage.shown(&alice), [(session, "alice".into())], "it goes on");
    stage.token(&["revoke", "alice", "--end"]);
    await_end(link);
    wait_until(|| stage.daemon.log().contains(&format!("session {session} ended: its user's token was revoked")));
    assert!(stage.greet(&alice).is_err_and(|error| error.to_string().contains("the token is wrong")));
    refused(&stage.floe(&["gpus"], &alice), "refused the token");
    synchronize(&mut other);
    let rows: Vec<Value> = serde_json::from_str(&stage.token(&["list", "--json"])).unwrap();
    let mut states: Vec<_> =
        rows.iter().map(|row| (row["user"].as_str().unwrap(), row["state"].as_str().unwrap())).collect();
    states.sort_unstable();
    assert_eq!(states, [("alice", "ended"), ("bob", "good")]);
    let new = stage.token(&["make", "alice"]);
    wait_until(|| stage.greet(&new).is_ok());
}

/// A peer that proved its token before that was revoked has no more of it than one that comes later.
#[test]
fn what_was_revoked_ends_also_for_connections_and_waiters_that_have_proved_it() {
    let (stage, [alice, bob, carol, other]) = Stage::new("[default]\n", ["alice", "bob", "carol", "carol"]);
    let attach = |memory, wait_ms| Attach { memory, wait_ms, program: "by hand", host: "here", ..Attach::default() };
    let gpus: Vec<Value> = serde_json::from_str(&text(&stage.floe(&["gpus", "--json"], &bob))).unwrap();
    let all = gpus[0]["guarantee"].as_u64().unwrap();
    let (holds, _) = stage.attach(&bob, all).unwrap();
    let (mut its, session) = stage.attach(&other, 0).unwrap();
    let (mut held, mut waits, mut ended) =
        (stage.greet(&alice).unwrap(), stage.greet(&alice).unwrap(), stage.greet(&carol).unwrap());
    waits.send(&attach(64 << 20, 600_000)).unwrap();
    let news = waits.receive(Some(Instant::now() + PATIENCE)).unwrap().unwrap();
    assert!(matches!(Push::decode(news.kind, news.payload).unwrap(), Push::Waiting(_)));
    stage.token(&["revoke", "alice"]);
    stage.token(&["revoke", &Secret::of(&carol).number().unwrap().to_string(), "--end"]);
    wait_until(|| !stage.floe(&["gpus"], &carol).status.success());
    held.send(&attach(0, 0)).unwrap();
    ended.send(&EndSession { session, key: &[] }).unwrap();
    let (begun, over) = (hear(&mut held), hear(&mut ended));
    drop(holds);
    let waited = loop {
        let frame = waits.receive(Some(Instant::now() + PATIENCE)).unwrap().unwrap();
        if let Push::Reply(reply) = Push::decode(frame.kind, frame.payload).unwrap() {
            break (reply.status, reply.detail.lines().next().unwrap_or_default().to_owned());
        }
    };
    let first_line =
        |(status, words, _): (u32, String, Vec<u8>)| (status, words.lines().next().unwrap_or_default().to_owned());
    let revoked = (NOT_PERMITTED, "this token of alice is revoked: it begins no session".to_owned());
    let wrong = (NOT_PERMITTED, "the token is wrong".to_owned());
    assert_eq!((first_line(begun), waited, first_line(over)), (revoked.clone(), revoked, wrong));
    synchronize(&mut its);
}

#[test]
fn the_audit_log_says_who_was_admitted_refused_moved_and_ended() {
    let (stage, [alice]) = Stage::new("[users.alice]\nmemory = \"64M\"\nmay-migrate = true\n", ["alice"]);
    let (link, session) = stage.attach(&alice, 16 << 20).unwrap();
    stage.attach(&alice, 64 << 20).map(|it| it.1).unwrap_err();
    // A connection without a grace period cannot be left, so the move is given up.
    refused(&stage.floe(&["suspend", &session.to_string()], &alice), "the session stays where it is");
    text(&stage.floe(&["end", &session.to_string()], &stage.of_server()));
    await_end(link);
    let of_session = |event: &str| {
        let is_it = |line: &&Value| line["event"] == event && line["user"] == "alice";
        stage.audited().iter().find(is_it).cloned()
    };
    wait_until(|| of_session("ended").is_some());
    let admitted = of_session("admitted").unwrap();
    assert_eq!((&admitted["session"], &admitted["memory"]), (&session.into(), &(16 << 20).into()));
    assert_eq!(admitted["token"], Secret::of(&alice).number().unwrap().to_string());
    let words = |event: &str, key: &str| of_session(event).unwrap()[key].as_str().unwrap().to_owned();
    assert!(words("refused", "why").contains("64 MiB of device memory in all"));
    assert!(words("moved", "what").contains("asked by user alice"), "{}", words("moved", "what"));
    assert_eq!(words("ended", "why"), "ended by the operator");
    std::fs::rename(stage.place("audit"), stage.place("old")).unwrap();
    let process = Pid::from_raw(i32::try_from(stage.daemon.process()).unwrap()).unwrap();
    kill_process(process, Signal::HUP).unwrap();
    wait_until(|| stage.place("audit").exists());
    let (_link, _) = stage.attach(&alice, 0).unwrap();
    wait_until(|| of_session("admitted").is_some());
    assert_eq!(lines(&stage.place("old")).iter().filter(|line| line["event"] == "admitted").count(), 1);
}
