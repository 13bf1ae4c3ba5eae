//! A server's rights on its machine, and the users that it admits: root starts servers as another user, and another
//! user's programs connect to its socket. In: an installation that all users may read. Out: the kernel's view of
//! processes, and refusals by name. Only root can become another user; other users see these tests report that they are
//! skipped.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use floe_tests::{Floed, Open, descendants};
use floe_transport::Link;
use floe_wire::*;

/// For what a busy machine may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// A user of this machine beside root, by its numbers.
struct User {
    name: &'static str,
    uid: u32,
    gid: u32,
    /// All of its groups, in order.
    groups: Vec<u32>,
}

impl User {
    /// Somebody this process can become; `None`, and a word of it, where it cannot.
    fn other() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can become another user");
            return None;
        }
        let name = "nobody";
        let asked = |flag| {
            let output = Command::new("id").args([flag, name]).output().expect("id runs");
            numbers(&String::from_utf8(output.stdout).expect("text"))
        };
        let (uids, gids) = (asked("-u"), asked("-g"));
        let (Some(&uid), Some(&gid)) = (uids.first(), gids.first()) else {
            println!("skipped: this machine has no user: {name}");
            return None;
        };
        Some(Self { name, uid, gid, groups: asked("-G") })
    }

    /// Runs `floe` as this user, with this token or none.
    fn floe(&self, open: &Open, arguments: &[&str], token: Option<&str>) -> Output {
        Command::new(open.path().join("bin/floe"))
            .args(arguments)
            .uid(self.uid)
            .gid(self.gid)
            .current_dir("/")
            .env("HOME", "/nonexistent")
            .env("XDG_CONFIG_HOME", "/nonexistent")
            .env_remove("FLOE_TOKEN_FILE")
            .env_remove("FLOE_TOKEN")
            .envs(token.map(|token| ("FLOE_TOKEN", token)))
            .output()
            .expect("floe runs")
    }
}

fn socket_of(daemon: &Floed) -> PathBuf {
    daemon.unix().strip_prefix("unix://").expect("a Unix address").into()
}

/// A line of `/proc/PID/status`.
fn field(process: u32, name: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).expect("a line");
    line.trim().to_owned()
}

/// The numbers of a line, in order.
fn numbers(line: &str) -> Vec<u32> {
    let mut numbers: Vec<u32> = line.split_whitespace().map(|word| word.parse().expect("a number")).collect();
    numbers.sort_unstable();
    numbers
}

/// A session whose worker has answered.
fn session(daemon: &Floed) -> Link {
    let mut link = Link::new(UnixStream::connect(socket_of(daemon)).expect("the daemon listens").into());
    let hello = Hello { magic: MAGIC, oldest: OLDEST_VERSION, newest: NEWEST_VERSION, client: "test" };
    link.send_in_person(&hello).expect("sent");
    answer(&mut link);
    link.send(&Attach { program: "by hand", host: "here", ..Attach::default() }).expect("sent");
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

#[test]
fn a_server_that_root_starts_as_another_user_has_that_users_rights_and_so_have_its_workers() {
    let Some(user) = User::other() else { return };
    let open = Open::copied();
    let daemon = Floed::start_open(open.path(), &["--user", user.name]);
    let _session = session(&daemon);
    let workers = descendants(daemon.process());
    let [worker] = workers[..] else { panic!("one session has one worker: {workers:?}") };
    for (who, process) in [("the daemon", daemon.process()), ("its worker", worker)] {
        // Real, effective, saved, and for files.
        assert_eq!(numbers(&field(process, "Uid")), [user.uid; 4], "{who}");
        assert_eq!(numbers(&field(process, "Gid")), [user.gid; 4], "{who}");
        assert_eq!(numbers(&field(process, "Groups")), user.groups, "{who}");
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(field(process, set), "0000000000000000", "{who}: {set}");
        }
    }
    // The kernel gives root what lies there of a process that cannot be dumped; else it is the process's user's.
    let owner = std::fs::metadata(format!("/proc/{worker}/environ")).expect("it lives").uid();
    assert_eq!(owner, 0, "the worker can be dumped and traced");
}

#[test]
fn another_user_of_the_machine_gets_in_at_an_open_socket_with_the_token_only() {
    let Some(user) = User::other() else { return };
    let open = Open::copied();
    let demo = open.path().join("bin/floe-demo").display().to_string();
    // A proxy is also trusted by the user that it runs as.
    for flags in [&[][..], &["--trust-forwarded"]] {
        let daemon = Floed::start_open(open.path(), flags);
        std::fs::set_permissions(socket_of(&daemon), std::fs::Permissions::from_mode(0o666)).expect("it is ours");
        let token = std::fs::read_to_string(daemon.token_file()).expect("it made one");
        let device = format!("{}:0", daemon.unix());
        let (gpus, run) = (["gpus", "--on", daemon.unix()], ["run", "--no-check", "--on", &device, "--", &demo]);
        for arguments in [&gpus[..], &run] {
            for (token, words) in [(None, "asks for a token"), (Some("another"), "refused the token")] {
                let output = user.floe(&open, arguments, token);
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(!output.status.success() && said.contains(words), "{flags:?}, {arguments:?}: {said}");
            }
            let output = user.floe(&open, arguments, Some(token.trim()));
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{flags:?}, {arguments:?}: {said}");
        }
    }
}
