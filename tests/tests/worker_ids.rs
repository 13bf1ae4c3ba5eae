//! Workers that run as users of their own (`--worker-ids`): the kernel keeps those of different users apart.
//! In: daemons that root starts, sessions of several users of this machine. Out: the kernel's view of workers, refusals by
//! name, and that nothing is left.
//! Only root can start such a daemon; other users see these tests report that they are skipped.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use floe_tests::{
    Floed, Linkage, Open, Outcome, children, descendants, example, examples_of_processes, is_launcher, living_parent,
};
use floe_transport::Link;
use floe_wire::*;
use rustix::process::{Pid, Signal, Uid, kill_process, test_kill_process};
use rustix::thread::set_thread_res_uid;
use tempfile::TempDir;

/// For what a busy machine may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// Ids that nobody has. Tests that run at once have different ones: sweeping would kill each other's workers.
const IDS: [&str; 8] = [
    "600000-600063",
    "600100-600163",
    "600200-600201",
    "600300-600363",
    "600400-600463",
    "600500-600563",
    "600600-600663",
    "600700-600763",
];

/// The user that daemons run as, and users of programs, by their usual numbers.
const SERVER: (&str, u32) = ("nobody", 65534);
const DAEMON: (&str, u32) = ("daemon", 1);
const BIN: (&str, u32) = ("bin", 2);
const SYS: (&str, u32) = ("sys", 3);

/// Capabilities of the launcher: CAP_KILL, CAP_SETGID, CAP_SETUID.
const OF_LAUNCHER: u64 = 1 << 5 | 1 << 6 | 1 << 7;

/// What what it executes can be given, to become those whose processes are ended: CAP_SETUID.
const TO_SWEEP: u64 = 1 << 7;

/// Whether this process can start such a daemon and connect as these users.
fn is_root() -> bool {
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let is_there = |(name, uid)| accounts.lines().any(|line| line.starts_with(&format!("{name}:x:{uid}:")));
    if !rustix::process::geteuid().is_root() || ![SERVER, DAEMON, BIN, SYS].into_iter().all(is_there) {
        println!("skipped: only root can have workers run as others; nobody, daemon, bin and sys have to be there");
        return false;
    }
    true
}

/// A daemon that lets every user to its socket.
struct Stage {
    daemon: Floed,
    ids: (u32, u32),
    open: Open,
    _folder: TempDir,
}

impl Stage {
    fn new(ids: &str, flags: &[&str]) -> Self {
        let open = Open::copied();
        let folder = tempfile::tempdir().expect("a folder");
        let allow = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
        };
        allow(folder.path(), 0o755);
        let policy = folder.path().join("policy.toml");
        std::fs::write(&policy, "[default]\nmay-migrate = true\n").expect("written");
        allow(&policy, 0o644);
        let own = ["--worker-ids", ids, "--user", SERVER.0, "--policy", policy.to_str().expect("text")];
        let flags = [&own[..], flags].concat();
        let daemon = Floed::start_open_logging(open.path(), &flags, &[("FLOE_CPU_DEVICES", "2")]);
        allow(&socket_of(&daemon), 0o666);
        let (first, last) = ids.split_once('-').expect("a range");
        let ids = (first.parse().expect("a number"), last.parse().expect("a number"));
        Self { daemon, ids, open, _folder: folder }
    }

    /// A session of this user: its link, its number and its worker.
    fn attach(&self, user: u32) -> Result<(Link, u64, u32), String> {
        let before: BTreeSet<u32> = self.workers().into_iter().collect();
        let mut link = self.greet(user);
        link.send(&Attach { program: "by hand", host: "here", ..Attach::default() }).expect("sent");
        let (status, detail, body) = hear(&mut link);
        if status != 0 {
            return Err(detail);
        }
        let session = Attach::decode_reply(&body).expect("a reply").session;
        link.send(&SynchronizeContext {}).expect("sent");
        assert_eq!(hear(&mut link).0, 0);
        let worker = self.workers().into_iter().find(|worker| !before.contains(worker));
        Ok((link, session, worker.expect("a session has a worker")))
    }

    fn greet(&self, user: u32) -> Link {
        let path = socket_of(&self.daemon);
        let connect = move || {
            let (root, user) = (Uid::ROOT, Uid::from_raw(user));
            // The kernel asks the thread that connects, and this one does nothing else.
            set_thread_res_uid(root, user, root).expect("root may");
            UnixStream::connect(path).expect("the daemon listens")
        };
        let mut link = Link::new(std::thread::spawn(connect).join().expect("connected").into());
        let hello = Hello { magic: MAGIC, oldest: OLDEST_VERSION, newest: NEWEST_VERSION, client: "test" };
        link.send_in_person(&hello).expect("sent");
        let (status, detail, _) = hear(&mut link);
        assert_eq!(status, 0, "{detail}");
        link
    }

    fn launcher(&self) -> u32 {
        children(self.daemon.process()).into_iter().find(|child| is_launcher(*child)).expect("it has one")
    }

    /// The workers, all of which are the launcher's.
    fn workers(&self) -> Vec<u32> {
        let workers = descendants(self.daemon.process());
        let launcher = self.launcher();
        // One that has ended meanwhile has no living parent, whether somebody has waited for it or not.
        let is_its = |worker: &u32| living_parent(*worker).is_none_or(|parent| parent == launcher);
        assert!(workers.iter().all(is_its), "{workers:?}");
        workers
    }

    fn has(&self, id: u32) -> bool {
        (self.ids.0..=self.ids.1).contains(&id)
    }

    /// Runs `floe` as this user of the machine.
    fn floe(&self, user: u32, arguments: &[&str]) -> Command {
        let mut floe = Command::new(self.open.path().join("bin/floe"));
        floe.args(arguments).uid(user).gid(user).current_dir("/").env("HOME", "/nonexistent");
        floe.env("XDG_CONFIG_HOME", "/nonexistent").env_remove("FLOE_TOKEN_FILE").env_remove("FLOE_TOKEN");
        floe
    }
}

fn socket_of(daemon: &Floed) -> PathBuf {
    daemon.unix().strip_prefix("unix://").expect("a Unix address").into()
}

fn hear(link: &mut Link) -> (u32, String, Vec<u8>) {
    let frame = link.receive(Some(Instant::now() + PATIENCE)).expect("an answer").expect("an answer");
    match Push::decode(frame.kind, frame.payload).expect("a message") {
        Push::Reply(reply) => (reply.status, reply.detail.to_owned(), reply.body.to_vec()),
        Push::Ended(ended) => (ended.status, ended.detail.to_owned(), Vec::new()),
        other => panic!("no reply: {}", other.name()),
    }
}

/// Waits until the connection is over.
fn await_end(mut link: Link) {
    while let Ok(Some(_)) = link.receive(Some(Instant::now() + PATIENCE)) {}
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "waited until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn pid(process: u32) -> Pid {
    Pid::from_raw(i32::try_from(process).expect("an id")).expect("an id")
}

/// Whether a process has ended, and was waited for.
fn is_gone(process: u32) -> bool {
    test_kill_process(pid(process)).is_err()
}

/// A line of `/proc/PID/status`.
fn field(process: u32, name: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).expect("a line");
    line.trim().to_owned()
}

/// The numbers of a line: real, effective, saved, and for files.
fn numbers(process: u32, name: &str) -> Vec<u32> {
    field(process, name).split_whitespace().map(|word| word.parse().expect("a number")).collect()
}

/// The one id that a worker has as user and as group, without any other right.
fn id_of(worker: u32) -> u32 {
    let users = numbers(worker, "Uid");
    assert_eq!(users, [users[0]; 4]);
    assert_eq!(numbers(worker, "Gid"), users);
    assert_eq!(field(worker, "Groups"), "");
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(field(worker, set), "0000000000000000", "{set}");
    }
    assert_eq!(field(worker, "NoNewPrivs"), "1");
    users[0]
}

/// Runs a line of the shell as this user and group, without others.
fn shell(user: u32, line: &str) -> Output {
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).uid(user).gid(user).current_dir("/").output().expect("sh runs")
}

#[test]
fn workers_of_each_user_run_as_a_user_of_their_own_without_rights() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(IDS[0], &[]);
    let sessions = [DAEMON, BIN, DAEMON].map(|(_, user)| stage.attach(user).expect("a session"));
    let [first, second, third] = sessions.each_ref().map(|(.., worker)| id_of(*worker));
    assert!(first != second && first == third, "{first}, {second}, {third}");
    assert!(stage.has(first) && stage.has(second), "{first}, {second}");
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(field(stage.daemon.process(), set), "0000000000000000", "the daemon: {set}");
        let of_launcher = match set {
            "CapPrm" | "CapEff" => OF_LAUNCHER,
            "CapInh" => TO_SWEEP,
            _ => 0,
        };
        assert_eq!(field(stage.launcher(), set), format!("{of_launcher:016x}"), "the launcher: {set}");
    }
    assert_eq!(numbers(stage.launcher(), "Uid"), [SERVER.1; 4]);
    assert_eq!((field(stage.launcher(), "NoNewPrivs"), field(stage.launcher(), "Groups")), ("1".into(), String::new()));
    // The daemon's user has no rights over its launcher, nor over workers.
    for process in [stage.launcher(), sessions[0].2] {
        let output = shell(SERVER.1, &format!("cat /proc/{process}/environ"));
        assert!(String::from_utf8_lossy(&output.stderr).contains("Permission denied"), "{output:?}");
    }
    assert!(!shell(SERVER.1, &format!("kill -KILL {}", sessions[0].2)).status.success());
    drop(sessions);
    stage.daemon.wait_for_workers(0);
}

#[test]
fn programs_of_two_users_run_at_once() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(IDS[1], &[]);
    let demo = stage.open.path().join("bin/floe-demo").display().to_string();
    for address in [stage.daemon.unix().to_owned(), stage.daemon.shm()] {
        let device = format!("{address}:0");
        let run = ["run", "--on", &device, "--", &demo];
        let both = [DAEMON, BIN].map(|(_, user)| {
            let mut floe = stage.floe(user, &run);
            floe.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("floe runs")
        });
        for running in both {
            let output = running.wait_with_output().expect("it ends");
            assert!(output.status.success(), "{address}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
    stage.daemon.wait_for_workers(0);
}

#[test]
fn without_a_sandbox_a_worker_can_still_not_see_signal_or_trace_anothers() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(IDS[3], &["--no-sandbox"]);
    let (first, second) = (stage.attach(DAEMON.1).expect("a session"), stage.attach(BIN.1).expect("a session"));
    let (own, other) = (id_of(first.2), id_of(second.2));
    // Reading memory asks for the same right as tracing.
    let attacks = ["cat /proc/PID/environ", "head -c 0 /proc/PID/mem", "cat /proc/PID/maps", "kill -0 PID"];
    for attack in attacks.map(|attack| attack.replace("PID", &first.2.to_string())) {
        assert!(shell(own, &attack).status.success(), "its own user may: {attack}");
        let output = shell(other, &attack);
        let said = String::from_utf8_lossy(&output.stderr);
        let is_refused = said.contains("Permission denied") || said.contains("not permitted");
        assert!(!output.status.success() && is_refused, "{attack}: {said}");
    }
}

#[test]
fn a_user_without_an_id_is_refused_by_name_until_another_has_no_worker_left() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(IDS[2], &["--grace", "0"]);
    let first = stage.attach(DAEMON.1).expect("a session");
    let again = stage.attach(DAEMON.1).expect("the same user");
    let refused = stage.attach(BIN.1).map(|(_, session, _)| session).expect_err("another user");
    assert!(refused.contains("in use: 600200-600201 (--worker-ids)") && refused.contains("try again"), "{refused}");
    drop(first);
    stage.daemon.wait_for_workers(1);
    assert!(stage.attach(BIN.1).is_err(), "one worker is left");
    drop(again);
    stage.daemon.wait_for_workers(0);
    let mut other = None;
    wait_until("the id is given back", || {
        other = stage.attach(BIN.1).ok();
        other.is_some()
    });
    assert_eq!(other.map(|(.., worker)| id_of(worker)), Some(600_200));
}

#[test]
fn a_session_that_is_ended_ends_also_where_its_worker_was_stopped() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(IDS[4], &["--grace", "0"]);
    let (link, session, worker) = stage.attach(DAEMON.1).expect("a session");
    kill_process(pid(worker), Signal::STOP).expect("root may");
    let output = stage.floe(DAEMON.1, &["end", &session.to_string(), "--on", stage.daemon.unix()]).output();
    let output = output.expect("floe runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    await_end(link);
    wait_until("its worker is gone", || is_gone(worker));
    wait_until("the log has it", || stage.daemon.log().contains(&format!("session {session} ended: ended by user")));
}

#[test]
fn with_a_killed_daemon_workers_and_launcher_end_and_with_a_killed_launcher_the_daemon_does() {
    if !is_root() {
        return;
    }
    for kills_daemon in [true, false] {
        let mut stage = Stage::new(IDS[5], &[]);
        let sessions = [DAEMON, BIN].map(|(_, user)| stage.attach(user).expect("a session"));
        let workers = sessions.each_ref().map(|(.., worker)| *worker);
        let launcher = stage.launcher();
        kill_process(pid(if kills_daemon { stage.daemon.process() } else { launcher }), Signal::KILL)
            .expect("root may");
        wait_until("the daemon has ended", || !stage.daemon.is_running());
        wait_until("the launcher has ended", || is_gone(launcher));
        wait_until("the workers have ended", || workers.iter().all(|worker| is_gone(*worker)));
        let said = stage.daemon.log().contains("the launcher of workers has ended, and all sessions with it");
        assert_eq!(said, !kills_daemon, "{}", stage.daemon.log());
    }
}

#[test]
fn a_daemon_that_ends_leaves_no_worker_and_no_launcher() {
    if !is_root() {
        return;
    }
    let mut stage = Stage::new(IDS[6], &[]);
    let (_link, _, worker) = stage.attach(DAEMON.1).expect("a session");
    let launcher = stage.launcher();
    assert_eq!(stage.daemon.terminate(), Some(0));
    assert!(is_gone(launcher) && is_gone(worker), "it has waited for both");
}

#[test]
fn sessions_move_and_share_memory() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(IDS[7], &[]);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("enough").display().to_string();
    let address = stage.daemon.shm();
    let program = example("steadyWork", Linkage::Shared, &["until", &file]).on(&stage.daemon, &address);
    let running = std::thread::spawn(move || program.run_within(PATIENCE));
    let worker_of = || stage.workers().first().copied().filter(|_| stage.workers().len() == 1);
    wait_until("it has a session", || worker_of().is_some());
    let id = id_of(worker_of().expect("it has one"));
    let tell = |words: &[&str]| {
        let on = ["--on", stage.daemon.unix()];
        let floe = || Command::new(stage.open.path().join("bin/floe")).args([words, &on].concat()).output();
        wait_until("it has a context", || floe().expect("floe runs").status.success());
        wait_until("one worker is left", || worker_of().is_some());
        assert_eq!(id_of(worker_of().expect("it has one")), id, "{words:?}");
    };
    tell(&["migrate", "1", "--to", "1"]);
    tell(&["suspend", "1"]);
    tell(&["resume", "1", "--to", "0"]);
    std::fs::write(&file, "").expect("written");
    let passed = |outcome: &Outcome| assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    passed(&running.join().expect("it does not panic"));
    let (name, expected) = examples_of_processes().into_iter().next().expect("there are some");
    let arguments: Vec<&str> = expected.args.iter().map(String::as_str).collect();
    let places: Vec<String> = (0..2).map(|gpu| format!("{address}:{gpu}")).collect();
    let outcome = example(&name, Linkage::Shared, &arguments).on_each(&stage.daemon, &places).run();
    assert_eq!(expected.difference(&outcome), None, "{name}: {}{}", outcome.stdout, outcome.stderr);
    stage.daemon.wait_for_workers(0);
}

#[test]
fn what_a_user_has_left_is_swept_and_nobody_elses() {
    if !is_root() {
        return;
    }
    let open = Open::copied();
    let sleeper = |user: u32| Command::new("sleep").arg("3600").uid(user).gid(user).spawn().expect("it runs");
    let (mut own, mut other) = (sleeper(600_900), sleeper(600_902));
    let sweep = |user: u32, rights: &str| {
        let mut sweep = Command::new("setpriv");
        sweep.args(["--reuid", &user.to_string(), "--regid", &user.to_string(), "--clear-groups"]);
        sweep.args([format!("--inh-caps=-all{rights}"), format!("--ambient-caps=-all{rights}")]);
        sweep.arg(open.path().join("bin/floe-worker")).args(["--sweep", "600900", "600901", "600909"]);
        sweep.current_dir("/").output().expect("it runs").status.success()
    };
    assert!(!sweep(600_902, ",+setuid"), "it is another user");
    assert!(!sweep(600_909, ""), "without the right");
    assert!(!sweep(600_909, ",+setuid,+kill"), "with more rights");
    assert!(own.try_wait().expect("it is ours").is_none());
    assert!(sweep(600_909, ",+setuid"));
    assert!(!own.wait().expect("it is ours").success());
    assert!(other.try_wait().expect("it is ours").is_none());
    other.kill().expect("root may");
    other.wait().expect("it is ours");
}

/// As a tenant leaves it who has broken out of what sandbox there is: it kills, and stops, whatever of its user comes.
#[test]
fn nothing_that_a_user_leaves_keeps_others_from_its_id() {
    if !is_root() {
        return;
    }
    let stage = Stage::new("601200-601201", &[]);
    // The id is given back a moment after the last worker's end.
    let attach = |user| loop {
        match stage.attach(user) {
            Err(why) if why.contains("in use") => std::thread::sleep(Duration::from_millis(10)),
            attached => break attached.expect("a session"),
        }
    };
    for signal in ["KILL", "STOP"] {
        let (link, _, first) = attach(DAEMON.1);
        let script = format!("trap '' TERM HUP INT; while :; do kill -{signal} -1; done 2>/dev/null");
        let mut fights = Command::new("setpriv")
            .args(["--reuid", "601200", "--regid", "601200", "--clear-groups", "sh", "-c", &script])
            .spawn()
            .expect("it runs");
        drop(link);
        let status = format!("/proc/{first}/status");
        let is_stopped = || std::fs::read_to_string(&status).is_ok_and(|status| status.contains("State:\tT"));
        wait_until("its worker is killed or stopped", || is_gone(first) || is_stopped());
        // One that is stopped does not end by itself.
        if is_stopped() {
            kill_process(pid(first), Signal::KILL).expect("root may");
        }
        stage.daemon.wait_for_workers(0);
        let (_link, _, worker) = attach(BIN.1);
        assert!(fights.try_wait().expect("it is ours").is_some(), "{signal}: it was swept before another had its id");
        assert_eq!(id_of(worker), 601_200);
        fights.wait().expect("it is ours");
    }
}

/// What a daemon says that does not start, with more flags and a command ahead of it.
fn refused(open: &Open, ahead: &[&str], flags: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).expect("it is ours");
    let place = |name: &str| folder.path().join(name).display().to_string();
    let floed = open.path().join("bin/floed").display().to_string();
    let (socket, token) = (place("socket"), place("token"));
    let own = [&floed, "--device-library", "cpu", "--listen", "tcp://127.0.0.1:0", "--socket", &socket];
    let words = [ahead, &own, &["--token-file", &token, "--module-cache-limit", "0"], flags].concat();
    let mut command = Command::new(words[0]);
    let output = command.args(&words[1..]).current_dir("/").env("HOME", folder.path()).output().expect("it runs");
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_daemon_that_cannot_have_such_workers_does_not_start_and_says_why() {
    if !is_root() {
        return;
    }
    let open = Open::copied();
    let ids = ["--worker-ids", "601000-601063"];
    let nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all"];
    for (ahead, flags, why) in [
        (&nobody[..], &ids[..], "floed has to be started by root, or with CAP_SETUID, CAP_SETGID and CAP_KILL"),
        (
            &[],
            &[ids[0], ids[1], "--mps"],
            "--worker-ids 601000-601063: NVIDIA's MPS (--mps) serves workers of one user",
        ),
        (&[], &["--worker-ids", "65500-65534"], "--worker-ids 65500-65534: 65534 is the"),
        (&[], &["--worker-ids", "0-63"], "--worker-ids 0-63: ids for workers are from 1000 to"),
        (&[], &["--worker-ids", "600000"], "--worker-ids 600000: not FIRST-LAST"),
    ] {
        let said = refused(&open, ahead, flags);
        assert!(said.contains(why), "{flags:?}: {said}");
    }
}

#[test]
fn a_daemon_with_the_three_capabilities_needs_no_root_and_keeps_none() {
    if !is_root() {
        return;
    }
    let open = Open::copied();
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).expect("it is ours");
    let place = |name: &str| folder.path().join(name).display().to_string();
    // As a systemd unit has it.
    let rights = |set| format!("--{set}=-all,+setuid,+setgid,+kill");
    let mut floed = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--no-new-privs"])
        .args(["inh-caps", "ambient-caps", "bounding-set"].map(rights))
        .arg(open.path().join("bin/floed"))
        .args(["--device-library", "cpu", "--listen", "tcp://127.0.0.1:0", "--worker-ids", "601100-601101"])
        .args(["--socket", &place("socket"), "--token-file", &place("token"), "--module-cache-limit", "0"])
        .current_dir("/")
        .env("HOME", folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let process = floed.id();
    let launcher = || children(process).into_iter().find(|child| is_launcher(*child));
    wait_until("it listens", || {
        assert_eq!(floed.try_wait().expect("it is ours"), None, "it has ended");
        Path::new(&place("socket")).exists() && launcher().is_some()
    });
    wait_until("it has no rights", || field(process, "CapPrm") == "0000000000000000");
    for set in ["CapInh", "CapEff", "CapAmb"] {
        assert_eq!(field(process, set), "0000000000000000", "{set}");
        let of_launcher = match set {
            "CapEff" => OF_LAUNCHER,
            "CapInh" => TO_SWEEP,
            _ => 0,
        };
        assert_eq!(field(launcher().expect("it runs"), set), format!("{of_launcher:016x}"), "{set}");
    }
    let demo = open.path().join("bin/floe-demo").display().to_string();
    let device = format!("unix://{}:0", place("socket"));
    let output = Command::new(open.path().join("bin/floe")).args(["run", "--on", &device, "--", &demo]).output();
    let output = output.expect("floe runs");
    floed.kill().expect("root may");
    floed.wait().expect("it is ours");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
