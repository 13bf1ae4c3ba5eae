//! Users of a server and the policy: what each gets, sees, moves and ends.
//! In: daemons with a policy, connections of several users of this machine. Out: sessions, and refusals by name.
//! Only root can connect as another user; other users see these tests report that they are skipped.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use floe_tests::{Floed, installation};
use floe_transport::Link;
use floe_wire::*;
use rustix::process::{Pid, Signal, Uid, kill_process};
use rustix::thread::set_thread_res_uid;
use tempfile::TempDir;

/// For what a busy machine may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// `CUDA_ERROR_OUT_OF_MEMORY` and `…_NOT_PERMITTED`.
const OUT_OF_MEMORY: u32 = 2;
const NOT_PERMITTED: u32 = 800;

const MIB: u64 = 1 << 20;

/// Two users that every machine has, by their usual numbers, and one that no policy here names.
const NOBODY: (&str, u32) = ("nobody", 65534);
const DAEMON: (&str, u32) = ("daemon", 1);
const BIN: (&str, u32) = ("bin", 2);

/// Whether this process can connect as these users.
fn has_users() -> bool {
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let is_there = |(name, uid)| accounts.lines().any(|line| line.starts_with(&format!("{name}:x:{uid}:")));
    if !rustix::process::geteuid().is_root() || ![NOBODY, DAEMON, BIN].into_iter().all(is_there) {
        println!("skipped: only root can connect as another user, and nobody, daemon and bin have to be there");
        return false;
    }
    true
}

/// A policy's file, and a daemon that has it and lets every user to its socket.
struct Stage {
    policy: PathBuf,
    daemon: Floed,
    _folder: TempDir,
}

impl Stage {
    fn new(text: &str) -> Self {
        Self::with(text, Floed::start_logging)
    }

    /// With two GPUs.
    fn with_two_gpus(text: &str) -> Self {
        Self::with(text, |flags| Floed::start_with(flags, &[("FLOE_CPU_DEVICES", "2")]))
    }

    fn with(text: &str, start: impl Fn(&[&str]) -> Floed) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let policy = folder.path().join("policy.toml");
        std::fs::write(&policy, text).expect("written");
        let daemon = start(&["--policy", policy.to_str().expect("text"), "--grace", "0"]);
        let open = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
        };
        let socket = PathBuf::from(daemon.unix().strip_prefix("unix://").expect("a Unix address"));
        open(socket.parent().expect("a folder"), 0o711);
        open(&socket, 0o666);
        Self { policy, daemon, _folder: folder }
    }

    /// A greeted connection of this user, and whether the token is asked for.
    fn greet(&self, uid: u32) -> (Link, bool) {
        let path = self.daemon.unix().strip_prefix("unix://").expect("a Unix address").to_owned();
        let connect = move || {
            let (root, user) = (Uid::ROOT, Uid::from_raw(uid));
            // The kernel asks the thread that connects, and this one does nothing else.
            set_thread_res_uid(root, user, root).expect("root may");
            UnixStream::connect(path).expect("the daemon listens")
        };
        let mut link = Link::new(std::thread::spawn(connect).join().expect("connected").into());
        let hello = Hello { magic: MAGIC, oldest: OLDEST_VERSION, newest: NEWEST_VERSION, client: "test" };
        link.send_in_person(&hello).expect("sent");
        let (status, detail, body) = hear(&mut link);
        assert_eq!(status, 0, "{detail}");
        let is_asked = Hello::decode_reply(&body).expect("a reply").authenticate;
        (link, is_asked)
    }

    /// What a user is answered: status, words, the reply's body.
    fn ask<M: Message>(&self, uid: u32, message: &M) -> (u32, String, Vec<u8>) {
        let (mut link, is_asked) = self.greet(uid);
        assert!(!is_asked, "the policy has a place for {uid}");
        link.send(message).expect("sent");
        hear(&mut link)
    }

    /// A session of this user on a GPU, with a quota in MiB: its link, its number and its quota in MiB.
    fn attach(&self, uid: u32, gpu: u32, mib: u64) -> Result<(Link, u64, u64), (u32, String)> {
        let (mut link, _) = self.greet(uid);
        let attach = Attach { gpu, memory: mib * MIB, program: "by hand", host: "here", ..Attach::default() };
        link.send(&attach).expect("sent");
        let (status, detail, body) = hear(&mut link);
        if status != 0 {
            return Err((status, detail));
        }
        let reply = Attach::decode_reply(&body).expect("a reply");
        let (session, quota) = (reply.session, reply.memory / MIB);
        link.send(&SynchronizeContext {}).expect("sent");
        assert_eq!(hear(&mut link).0, 0);
        Ok((link, session, quota))
    }

    /// The sessions that a user is shown: number, user, whether the worker's process is shown.
    fn shown(&self, uid: u32) -> Vec<(u64, String, bool)> {
        let (_, _, body) = self.ask(uid, &ListSessions {});
        let rows = ListSessions::decode_reply(&body).expect("a reply").sessions;
        rows.iter().map(|row| (row.session, row.user.to_owned(), row.worker != 0)).collect()
    }

    fn end(&self, uid: u32, session: u64) -> (u32, String) {
        let (status, detail, _) = self.ask(uid, &EndSession { session, key: &[] });
        (status, detail)
    }

    fn suspend(&self, uid: u32, session: u64) -> (u32, String) {
        let message = Migrate { session, action: 1, gpu: u32::MAX, patience_ms: 1000, ..Migrate::default() };
        let (status, detail, _) = self.ask(uid, &message);
        (status, detail)
    }

    /// Has the daemon read the policy again, and waits for its word.
    fn reload(&self, text: &str, word: &str) {
        let said = self.daemon.log().matches(word).count();
        std::fs::write(&self.policy, text).expect("written");
        let process = Pid::from_raw(i32::try_from(self.daemon.process()).expect("an id")).expect("an id");
        kill_process(process, Signal::HUP).expect("it lives");
        wait_until(|| self.daemon.log().matches(word).count() > said);
    }
}

fn hear(link: &mut Link) -> (u32, String, Vec<u8>) {
    loop {
        let frame = link.receive(Some(Instant::now() + PATIENCE)).expect("an answer").expect("an answer");
        match Push::decode(frame.kind, frame.payload).expect("a message") {
            Push::Reply(reply) => return (reply.status, reply.detail.to_owned(), reply.body.to_vec()),
            Push::Migrating(_) => {}
            other => panic!("no reply: {}", other.name()),
        }
    }
}

/// Waits until the connection is over.
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

#[test]
fn a_user_gets_the_gpus_the_memory_and_the_sessions_that_the_policy_gives() {
    if !has_users() {
        return;
    }
    let stage = Stage::new("[users.nobody]\ngpus = [0]\nmemory = \"256M\"\nsessions = 2\n[users.daemon]\ngpus = []\n");
    let nobody = |gpu, mib| stage.attach(NOBODY.1, gpu, mib);
    let refused = |gpu, mib| nobody(gpu, mib).map(|(_, session, _)| session).expect_err("refused");
    let (status, words) = stage.attach(DAEMON.1, 0, 0).map(|it| it.1).expect_err("refused");
    assert!(status == NOT_PERMITTED && words.contains("the policy gives daemon no GPU 0; granted: []"), "{words}");
    let (status, words) = refused(0, 300);
    assert!(status == OUT_OF_MEMORY && words.contains("gives nobody 256 MiB of device memory in all"), "{words}");
    let (_first, _, quota) = nobody(0, 100).expect("a session");
    assert_eq!(quota, 100);
    let (status, words) = refused(0, 157);
    assert!(status == OUT_OF_MEMORY && words.contains("held: 100 MiB, asked for: 157 MiB"), "{words}");
    let (second, _, quota) = nobody(0, 0).expect("a session");
    assert_eq!(quota, 156, "what is left");
    let (status, words) = refused(0, 0);
    assert!(
        status == NOT_PERMITTED && words.contains("the policy gives nobody 2 sessions at once; held: 2"),
        "{words}"
    );
    drop(second);
    wait_until(|| stage.shown(NOBODY.1).len() == 1);
    assert_eq!(nobody(0, 0).expect("its place is free").2, 156);
    assert!(stage.greet(BIN.1).1, "who has no place in the policy is asked for the token");
}

#[test]
fn a_user_is_promised_no_more_of_a_gpus_time_than_the_policy_gives_also_by_moves() {
    if !has_users() {
        return;
    }
    let stage = Stage::with_two_gpus("[users.nobody]\nshare = \"50%\"\nmay-migrate = true\n");
    let attach = |gpu, share| {
        let (mut link, _) = stage.greet(NOBODY.1);
        link.send(&Attach { gpu, share, program: "by hand", host: "here", ..Attach::default() }).expect("sent");
        let (status, words, body) = hear(&mut link);
        if status == 0 {
            Ok((link, Attach::decode_reply(&body).expect("a reply").session))
        } else {
            Err((status, words))
        }
    };
    let (_first, session) = attach(0, 500).expect("a session");
    let _second = attach(1, 300).expect("a session");
    let (status, words) = attach(1, 201).map(drop).expect_err("refused");
    let expected = "the policy gives nobody 50% of a GPU's time; held: 30%, asked for: 20.1%";
    assert!(status == NOT_PERMITTED && words.starts_with(expected), "{words}");
    let message = Migrate { session, action: 0, gpu: 1, patience_ms: 1000, ..Migrate::default() };
    let (status, words, _) = stage.ask(NOBODY.1, &message);
    let expected = "the policy gives nobody 50% of a GPU's time; held: 30%, asked for: 50%";
    assert!(status == NOT_PERMITTED && words.starts_with(expected), "{words}");
    let _third = attach(1, 200).expect("what is left");
}

#[test]
fn a_user_sees_moves_and_ends_own_sessions_only_and_the_operator_all() {
    if !has_users() {
        return;
    }
    let stage = Stage::new("[users.nobody]\n[users.daemon]\nmay-migrate = true\nmay-see-others = true\n");
    let (first, of_nobody, _) = stage.attach(NOBODY.1, 0, 16).expect("a session");
    let (second, of_daemon, _) = stage.attach(DAEMON.1, 0, 16).expect("a session");
    let row = |session, user: &str, is_operator| (session, user.to_owned(), is_operator);
    assert_eq!(stage.shown(NOBODY.1), [row(of_nobody, "nobody", false)]);
    assert_eq!(stage.shown(DAEMON.1), [row(of_nobody, "nobody", false), row(of_daemon, "daemon", false)]);
    assert_eq!(stage.shown(0), [row(of_nobody, "nobody", true), row(of_daemon, "daemon", true)]);
    for (uid, session) in [(NOBODY.1, of_daemon), (DAEMON.1, of_nobody), (NOBODY.1, 999)] {
        for (status, words) in [stage.end(uid, session), stage.suspend(uid, session)] {
            assert!(status == NOT_PERMITTED && words.contains("no session of yours here"), "{words}");
        }
    }
    let (status, words) = stage.suspend(NOBODY.1, of_nobody);
    assert!(status == NOT_PERMITTED && words.contains("does not let nobody move, suspend or resume"), "{words}");
    // The policy lets it; a connection without a grace period does not.
    let (_, words) = stage.suspend(DAEMON.1, of_daemon);
    assert!(words.contains("the session stays where it is"), "{words}");
    assert_eq!(stage.end(NOBODY.1, of_nobody), (0, String::new()));
    await_end(first);
    wait_until(|| stage.shown(0).len() == 1);
    assert!(stage.daemon.log().contains(&format!("session {of_nobody} ended: ended by user nobody")));
    assert_eq!(stage.end(0, of_daemon), (0, String::new()));
    await_end(second);
    wait_until(|| stage.shown(0).is_empty());
    stage.daemon.wait_for_workers(0);
}

#[test]
fn a_session_ends_when_its_users_time_is_over() {
    if !has_users() {
        return;
    }
    let stage = Stage::new("[default]\ntime = \"2s\"\n[users.daemon]\ntime = \"1h\"\n");
    let (short, session, _) = stage.attach(NOBODY.1, 0, 16).expect("a session");
    let (_long, other, _) = stage.attach(DAEMON.1, 0, 16).expect("a session");
    await_end(short);
    let words = format!("session {session} ended: the policy gives a session of nobody 2 seconds");
    wait_until(|| stage.daemon.log().contains(&words));
    wait_until(|| stage.shown(0).len() == 1);
    assert_eq!(stage.shown(0)[0].0, other);
}

#[test]
fn a_policy_is_read_again_at_sighup_and_a_broken_one_changes_nothing() {
    if !has_users() {
        return;
    }
    let stage = Stage::new("[users.nobody]\n");
    let (_link, session, _) = stage.attach(NOBODY.1, 0, 16).expect("a session");
    stage.reload("[users.nobody]\nshares = 1\n", "the policy stays as it was");
    assert!(stage.daemon.log().contains("policy.toml:2: unknown field shares"), "{}", stage.daemon.log());
    assert!(!stage.greet(NOBODY.1).1 && stage.greet(DAEMON.1).1);
    stage.reload("[users.daemon]\n", "policy read again");
    assert!(stage.greet(NOBODY.1).1 && !stage.greet(DAEMON.1).1);
    let shown: Vec<_> = stage.shown(0).into_iter().map(|row| row.0).collect();
    assert_eq!(shown, [session], "a session that was admitted goes on");
}

#[test]
fn a_server_does_not_start_with_a_broken_policy_and_says_the_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let policy = folder.path().join("policy.toml");
    let start = |text: &str, more: &[&str]| {
        std::fs::write(&policy, text).expect("written");
        let mut floed = Command::new(installation().join("bin/floed"));
        floed.args(["--device-library", "cpu", "--listen", "tcp://127.0.0.1:0", "--policy"]).arg(&policy);
        let place = |name: &str| folder.path().join(name);
        floed.arg("--socket").arg(place("socket")).arg("--token-file").arg(place("token")).args(more);
        let output = floed.output().expect("it runs");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let words = start("[users.alice]\n\nshares = 0.5\n", &[]);
    assert!(words.contains("policy.toml:3: unknown field shares"), "{words}");
    let words = start("", &["--no-token"]);
    assert!(words.contains("--policy and --no-token are both set"), "{words}");
    std::fs::set_permissions(&policy, std::fs::Permissions::from_mode(0o666)).expect("it is ours");
    let words = start("", &[]);
    assert!(words.contains("others may write") && words.contains("chmod go-w"), "{words}");
}
