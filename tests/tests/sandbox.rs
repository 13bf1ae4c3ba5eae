//! A worker whose driver was taken over harms nobody but its session: a driver that tries everything is refused
//! everything. The driver is a library of the test's own, loaded by an ordinary worker; each attempt is named and
//! counted.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use floe_tests::{Floed, descendants, installation, repository};
use floe_transport::Link;
use floe_wire::*;

const PATIENCE: Duration = Duration::from_secs(60);
/// Landlock's first call and seccomp's only one, which x86-64 and ARM number otherwise.
const LANDLOCK: &str = "444";
const SECCOMP: &str = if cfg!(target_arch = "x86_64") { "317" } else { "277" };
/// The capability to change the sets of capabilities, as `/proc/PID/status` has it.
const CAP_SETPCAP: u64 = 1 << 8;
/// Attempts the driver makes; where a machine lacks a device, that one is "absent".
const ATTEMPTS: usize = 119;

/// Secrets that an attacker wants: a token, a home, a cache of modules.
struct Prey {
    folder: tempfile::TempDir,
}

impl Prey {
    fn new() -> Self {
        let prey = Self { folder: tempfile::tempdir().expect("a folder") };
        for folder in ["home/.ssh", "modules"] {
            std::fs::create_dir_all(prey.path(folder)).expect("made");
        }
        std::fs::set_permissions(prey.path("modules"), std::fs::Permissions::from_mode(0o700)).expect("ours");
        std::fs::write(prey.path("token"), "secret").expect("written");
        prey
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Builds the hostile driver over the CPU device, with these flags; it lies apart from what it wants.
    fn driver(&self, flags: &[&str]) -> PathBuf {
        let library = self.path("driver/libcuda-hostile.so");
        std::fs::create_dir_all(library.parent().expect("a folder")).expect("made");
        // Beside it: a worker reads the folder of its library.
        let real = library.with_file_name("libcuda.so.1");
        std::fs::copy(installation().join("lib/device/libcuda.so.1"), &real).expect("copied");
        let place = |name: &str, path: PathBuf| format!("-D{name}=\"{}\"", path.display());
        let built = Command::new("cc")
            .args(["-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread", "-DPORT=22"])
            .args(flags)
            .args([
                place("SECRET", self.path("token")),
                place("LIBRARY", library.clone()),
                place("HOME", self.path("home")),
                place("CACHE", self.path("modules")),
            ])
            .arg("-o")
            .arg(&library)
            .arg(repository().join("tests/programs/hostile_driver.c"))
            .arg("-Wl,--no-as-needed")
            .arg(&real)
            .arg("-Wl,-rpath,$ORIGIN")
            .arg("-ldl")
            .status();
        assert!(built.expect("cc runs").success());
        library
    }

    /// A daemon on the hostile driver that has all of the prey in its environment.
    fn daemon(&self, flags: &[&str]) -> Floed {
        let words = |name: &str| self.path(name).display().to_string();
        let (home, cache) = (words("home"), words("modules"));
        let environment = [("HOME", home.as_str()), ("FLOE_MODULE_CACHE", &cache), ("FLOE_SECRET", "secret")];
        Floed::start_on(&self.driver(&[]).display().to_string(), flags, &environment)
    }
}

/// A client made by hand.
struct Client {
    link: Link,
}

impl Client {
    fn attached(daemon: &Floed) -> Self {
        Self::attached_with(daemon, &[])
    }

    /// With these variables for its worker.
    fn attached_with(daemon: &Floed, settings: &[(&str, &str)]) -> Self {
        let path = daemon.unix().strip_prefix("unix://").expect("a Unix address");
        Self::attached_at(UnixStream::connect(path).expect("the daemon listens"), settings)
    }

    fn attached_at(socket: UnixStream, settings: &[(&str, &str)]) -> Self {
        let settings = settings.iter().map(|&(name, value)| Setting { name, value }).collect();
        let mut client = Self { link: Link::new(socket.into()) };
        let hello = Hello { magic: MAGIC, oldest: OLDEST_VERSION, newest: NEWEST_VERSION, client: "test" };
        client.link.send_in_person(&hello).expect("sent");
        client.answer();
        client.ask(&Attach { program: "by hand", host: "here", settings, ..Attach::default() });
        client
    }

    /// Sends a request; what was printed until its answer.
    fn ask(&mut self, message: &impl Message) -> String {
        self.link.send(message).expect("sent");
        self.answer()
    }

    fn answer(&mut self) -> String {
        self.answer_or_end().unwrap_or_else(|why| panic!("the session ended: {why}"))
    }

    /// The lines before the next answer, or the worker's last word.
    fn answer_or_end(&mut self) -> Result<String, String> {
        let mut printed = Vec::new();
        loop {
            let frame = self.link.receive(Some(Instant::now() + PATIENCE)).expect("an answer").expect("an answer");
            // It goes ahead of long output.
            if frame.kind == Salt::KIND {
                continue;
            }
            match Push::decode(frame.kind, frame.payload).expect("a message") {
                Push::Output(output) => printed.extend_from_slice(output.bytes),
                Push::Reply(_) => return Ok(String::from_utf8(printed).expect("text")),
                Push::Ended(ended) => return Err(ended.detail.to_owned()),
                _ => {}
            }
        }
    }

    /// Has the driver attack; the outcome of each attempt.
    fn attack(&mut self) -> BTreeMap<String, String> {
        let printed = self.ask(&MemoryInfo {});
        let attempts =
            printed.lines().map(|line| line.rsplit_once(": ").unwrap_or_else(|| panic!("no attempt: {line}")));
        attempts.map(|(name, outcome)| (name.to_owned(), outcome.to_owned())).collect()
    }
}

fn field(process: u32, name: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("the worker lives");
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).expect("a field");
    line.trim().to_owned()
}

fn entries(folder: &Path) -> usize {
    std::fs::read_dir(folder).expect("readable").count()
}

/// What the page on the sandbox says is tried: the items of one of its lists.
fn attempts_on_the_page() -> BTreeSet<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/sandbox.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let (_, list) = page.split_once("## What is tried").expect("it has that part");
    let lines = list.lines().skip(1).take_while(|line| !line.starts_with("## "));
    lines
        .filter_map(|line| line.strip_prefix("- ")?.split_once(": "))
        .flat_map(|(_, names)| names.trim_end_matches('.').split("; ").map(str::to_owned))
        .collect()
}

#[test]
fn everything_a_driver_tries_that_was_taken_over_is_refused() {
    let prey = Prey::new();
    let mut daemon = prey.daemon(&["--require-sandbox"]);
    // Somebody else's session, to be reached.
    let mut neighbour = Client::attached(&daemon);
    neighbour.ask(&SynchronizeContext {});
    let before = (entries(&prey.path("home/.ssh")), entries(&prey.path("modules")), entries(prey.folder.path()));
    let attempts = Client::attached(&daemon).attack();
    assert_eq!(attempts.get("everything").map(String::as_str), Some("tried"));
    let through: Vec<&String> =
        attempts.iter().filter(|(_, how)| *how == "got through").map(|(name, _)| name).collect();
    assert!(through.is_empty(), "got through: {through:?}");
    assert!(attempts.len() >= ATTEMPTS, "attempts: {}", attempts.len());
    let refused = attempts.values().filter(|how| *how == "refused").count();
    let tried = attempts.keys().filter(|name| *name != "everything").cloned().collect::<BTreeSet<_>>();
    assert_eq!(attempts_on_the_page(), tried, "docs/sandbox.md lists what is tried");
    println!("{refused} of {} attempts refused, the others find nothing to try", attempts.len() - 1);
    assert!(refused + 12 >= attempts.len(), "refused {refused}: {attempts:?}");
    // Nothing happened to anybody.
    assert_eq!((entries(&prey.path("home/.ssh")), entries(&prey.path("modules")), entries(prey.folder.path())), before);
    assert_eq!(std::fs::read_to_string(prey.path("token")).expect("there"), "secret");
    neighbour.ask(&SynchronizeContext {});
    assert!(daemon.is_running());
}

#[test]
fn without_a_sandbox_the_same_attempts_get_through() {
    let prey = Prey::new();
    let daemon = prey.daemon(&["--no-sandbox"]);
    let attempts = Client::attached(&daemon).attack();
    assert_eq!(attempts.get("everything").map(String::as_str), Some("not tried"));
    for name in ["read the token", "write authorized_keys", "list the cache", "fork", "execve", "make a TCP socket"] {
        assert_eq!(attempts.get(name).map(String::as_str), Some("got through"), "{name}");
    }
}

#[test]
fn of_a_clients_variables_only_those_that_name_no_place_reach_its_driver() {
    let prey = Prey::new();
    let daemon = prey.daemon(&[]);
    let evil = prey.path("home/evil.so").display().to_string();
    let refused = ["LD_PRELOAD", "LD_AUDIT", "CUDA_CACHE_PATH", "PATH", "FLOE_TEST_STAND_AT"];
    let asked: Vec<_> = refused.iter().map(|name| (*name, evil.as_str())).collect();
    let asked = [&asked[..], &[("CUDA_MODULE_LOADING", "EAGER")]].concat();
    let attempts = Client::attached_with(&daemon, &asked).attack();
    for name in refused {
        assert_eq!(attempts[&format!("have the client's {name}")], "refused", "{name}");
    }
    assert_eq!(attempts["have the client's CUDA_MODULE_LOADING"], "got through");
}

#[test]
fn a_worker_has_no_privileges_no_home_and_a_session_of_its_own() {
    let prey = Prey::new();
    let daemon = prey.daemon(&[]);
    let mut client = Client::attached(&daemon);
    client.ask(&SynchronizeContext {});
    let workers = descendants(daemon.process());
    assert_eq!(workers.len(), 1);
    let worker = workers[0];
    assert_eq!((field(worker, "NoNewPrivs").as_str(), field(worker, "Seccomp").as_str()), ("1", "2"));
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(field(worker, set), "0000000000000000", "{set}");
    }
    // A server that may not empty this set keeps that of its parent.
    let own = std::process::id();
    let may_empty = u64::from_str_radix(&field(own, "CapEff"), 16).expect("a set") & CAP_SETPCAP != 0;
    let bounding = if may_empty { "0000000000000000".to_owned() } else { field(own, "CapBnd") };
    assert_eq!(field(worker, "CapBnd"), bounding);
    // The kernel gives root what lies there of a process that cannot be dumped, whoever's it is.
    assert_eq!(std::fs::metadata(format!("/proc/{worker}/environ")).expect("it lives").uid(), 0);
    assert_eq!(field(worker, "NSsid"), worker.to_string(), "not a session of its own");
    let personality = std::fs::read_to_string(format!("/proc/{worker}/personality"));
    // Only root may look: the worker lets nobody of its own user.
    if let Ok(personality) = personality {
        assert_eq!(personality.trim(), "00000000", "addresses are not random");
        let environment = std::fs::read(format!("/proc/{worker}/environ")).expect("root may look");
        let environment = String::from_utf8_lossy(&environment);
        let names: Vec<&str> = environment.split('\0').filter_map(|entry| Some(entry.split_once('=')?.0)).collect();
        assert!(names.contains(&"FLOE_WORKER_TASK"), "{names:?}");
        for name in ["HOME", "FLOE_SECRET", "FLOE_TOKEN_FILE", "PATH"] {
            assert!(!names.contains(&name), "{name} reaches the worker");
        }
        let limits = std::fs::read_to_string(format!("/proc/{worker}/limits")).expect("root may look");
        let cores = limits.lines().find(|line| line.starts_with("Max core file size")).expect("a limit");
        assert_eq!(cores.split_whitespace().filter(|word| *word == "0").count(), 2, "{cores}");
    }
}

/// Threads that allocate from arenas of their own take 64 MiB of addresses each, wherever they get them first: then a driver's
/// choice of places would be the threads' race.
#[test]
fn all_threads_of_a_worker_allocate_from_one_arena() {
    const ARENA: u64 = 64 << 20;
    let daemon = Floed::start();
    let mut client = Client::attached(&daemon);
    client.ask(&SynchronizeContext {});
    let worker = descendants(daemon.process())[0];
    // Only root may look.
    let Ok(maps) = std::fs::read_to_string(format!("/proc/{worker}/maps")) else { return };
    let parse = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let [from, to] = [from, to].map(|end| u64::from_str_radix(end, 16).ok());
        Some((from?, to?, rest.get(..4)?.to_owned()))
    };
    let all: Vec<(u64, u64, String)> = maps.lines().filter_map(parse).collect();
    assert!(all.len() > 20, "{maps}");
    // As glibc has them: what is used of it, and the rest without access.
    let is_arena = |pair: &&[(u64, u64, String)]| {
        let [(from, end, used), (rest, to, free)] = pair else { return false };
        (used.as_str(), free.as_str(), end) == ("rw-p", "---p", rest) && from % ARENA == 0 && to % ARENA == 0
    };
    assert_eq!(all.windows(2).filter(is_arena).count(), 0, "{maps}");
}

#[test]
fn addresses_are_fixed_only_where_the_operator_asks_for_it() {
    let places = |flags: &[&str]| -> Vec<String> {
        let daemon = Floed::start_with(flags, &[]);
        let mut clients = [Client::attached(&daemon), Client::attached(&daemon)];
        clients.iter_mut().for_each(|client| drop(client.ask(&SynchronizeContext {})));
        let workers = descendants(daemon.process());
        let maps = workers.iter().map(|worker| std::fs::read_to_string(format!("/proc/{worker}/maps")));
        // The end of the stack only: its size differs from process to process.
        let stack = |maps: String| {
            let line = maps.lines().find(|line| line.ends_with("[stack]")).expect("a stack").to_owned();
            line.split(['-', ' ']).nth(1).expect("an end").to_owned()
        };
        // Without root's rights nobody sees where a worker's memory lies.
        maps.filter_map(|maps| maps.ok().map(stack)).collect()
    };
    if let [first, second] = places(&[]).as_slice() {
        assert_ne!(first, second);
    }
    if let [first, second] = places(&["--fixed-addresses"]).as_slice() {
        assert_eq!(first, second);
    }
}

/// The outcome of a daemon and of one session.
struct Told {
    /// The daemon's output.
    words: String,
    /// The outcome of the session's first command: an answer, or the worker's last word. `None`: the daemon did not
    /// start.
    session: Option<Result<String, String>>,
}

/// Starts a daemon by this command on this device, and a session of it, and ends both.
fn told(mut floed: Command, device: &str, flags: &[&str]) -> Told {
    let folder = tempfile::tempdir().expect("a folder");
    let (log, socket) = (folder.path().join("log"), folder.path().join("floed.sock"));
    let words = || std::fs::read_to_string(&log).expect("text");
    let mut daemon = floed
        .args(["--listen", "tcp://127.0.0.1:0", "--device-library", device, "--module-cache-limit", "0", "--socket"])
        .arg(&socket)
        .arg("--token-file")
        .arg(folder.path().join("token"))
        .args(flags)
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(&log).expect("made"))
        .spawn()
        .expect("floed starts");
    let mut lines = BufReader::new(daemon.stdout.take().expect("a pipe")).lines();
    let session = lines.next().map(|_| {
        let mut client = Client::attached_at(UnixStream::connect(&socket).expect("the daemon listens"), &[]);
        // A worker that has refused the session may be gone.
        let _ = client.link.send(&SynchronizeContext {});
        client.answer_or_end()
    });
    // A refusing worker tells its client first and ends later.
    let start = Instant::now();
    while matches!(session, Some(Err(_))) && !words().contains("session 1 ended: ") {
        assert!(start.elapsed() < PATIENCE, "the session does not end: {}", words());
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = Command::new("kill").args(["-TERM", &daemon.id().to_string()]).status();
    let status = daemon.wait().expect("it ends");
    assert_eq!(status.success(), session.is_some(), "{status}");
    Told { words: words(), session }
}

/// The installation's daemon.
fn floed() -> Command {
    Command::new(installation().join("bin/floed"))
}

#[test]
fn a_missing_sandbox_is_said_at_the_start_and_with_each_session_and_a_whole_one_never() {
    let without = told(floed(), "cpu", &["--no-sandbox"]);
    assert!(without.words.contains("WARNING: workers run without a sandbox (--no-sandbox)"), "{}", without.words);
    assert!(without.words.contains("session 1: workers run without a sandbox"), "{}", without.words);
    let with = told(floed(), "cpu", &["--require-sandbox"]);
    assert!(!with.words.contains("sandbox"), "{}", with.words);
    assert!(matches!(with.session, Some(Ok(_))));
}

#[test]
fn on_a_kernel_that_lacks_a_part_of_the_sandbox_a_server_warns_or_does_not_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let without_call = folder.path().join("without_call");
    let source = repository().join("tests/programs/without_call.c");
    let flags = ["-O1", "-Wall", "-Wextra", "-Werror", "-o"];
    let built = Command::new("cc").args(flags).arg(&without_call).arg(source).status();
    assert!(built.expect("cc runs").success());
    for (call, missing) in [
        (LANDLOCK, "Landlock does not protect files and sockets: "),
        (SECCOMP, "seccomp does not restrict system calls: "),
    ] {
        let floed = || {
            let mut command = Command::new(&without_call);
            command.arg(call).arg(installation().join("bin/floed"));
            command
        };
        let warned = told(floed(), "cpu", &[]);
        assert!(matches!(warned.session, Some(Ok(_))), "{}", warned.words);
        for place in ["WARNING: workers' sandbox", "session 1: workers' sandbox"] {
            assert!(warned.words.contains(&format!("{place} is incomplete: {missing}")), "{}", warned.words);
        }
        let refused = told(floed(), "cpu", &["--require-sandbox"]);
        assert!(refused.session.is_none(), "it serves: {}", refused.words);
        assert!(refused.words.contains(&format!("required and incomplete: {missing}")), "{}", refused.words);
    }
}

#[test]
fn a_driver_that_keeps_a_thread_from_the_last_filter_has_no_session_where_the_sandbox_is_required() {
    let prey = Prey::new();
    let driver = prey.driver(&["-DKEEPS_A_THREAD"]).display().to_string();
    let missing = "seccomp leaves sockets to be made: ";
    let warned = told(floed(), &driver, &[]);
    assert!(matches!(warned.session, Some(Ok(_))), "{}", warned.words);
    assert!(warned.words.contains(&format!("the sandbox is incomplete: {missing}")), "{}", warned.words);
    let refused = told(floed(), &driver, &["--require-sandbox"]);
    assert_eq!(refused.session, Some(Err("the server's log says why".to_owned())), "{}", refused.words);
    assert!(refused.words.contains(&format!("required and incomplete: {missing}")), "{}", refused.words);
}
