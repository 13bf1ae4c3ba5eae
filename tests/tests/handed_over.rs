//! Sockets that systemd hands over (floed.socket): programs connect before the daemon is ready. In: sockets that the test binds,
//! and what systemd does with them: descriptors from 3 on, LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES, exec. Out: what programs
//! compute, and what the daemon refuses.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use floe_tests::{Linkage, Program, example, installation};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use socket2::{Domain, Socket, Type};
use tempfile::TempDir;

/// For what a busy machine may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// The first descriptors are given as standard ones, which the shell moves to where systemd has them.
const AS_SYSTEMD: &str = "exec 3<&0 4<&1 5<&2 </dev/null >\"$FLOE_TEST_OUT\" 2>\"$FLOE_TEST_LOG\"
LISTEN_PID=${FLOE_TEST_PID:-$$}
export LISTEN_PID
unset FLOE_TEST_OUT FLOE_TEST_LOG FLOE_TEST_PID
exec \"$@\"";

/// A daemon that was started as systemd starts it, killed with the test.
struct Started {
    process: Child,
    folder: TempDir,
}

/// Starts a daemon with these descriptors, three at most, by name.
fn start(handed: Vec<(&str, OwnedFd)>, flags: &[&str], environment: &[(&str, &str)]) -> Started {
    let folder = tempfile::tempdir().expect("a folder");
    let names = handed.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(":");
    let (count, inside) = (handed.len(), |name: &str| folder.path().join(name));
    let mut given = handed.into_iter().map(|(_, descriptor)| Stdio::from(descriptor));
    let mut next = || given.next().unwrap_or_else(Stdio::null);
    let mut shell = Command::new("sh");
    shell.args(["-c", AS_SYSTEMD, "sh"]).arg(installation().join("bin/floed")).args(["--device-library", "cpu"]);
    // Where it would listen by itself.
    shell.arg("--socket").arg(inside("own.sock")).args(["--listen", "tcp://127.0.0.1:0"]);
    shell.arg("--token-file").arg(inside("token")).args(flags);
    shell.env("FLOE_MODULE_CACHE", inside("modules")).env("FLOE_TEST_OUT", inside("out"));
    shell.env("FLOE_TEST_LOG", inside("log")).env("LISTEN_FDS", count.to_string()).env("LISTEN_FDNAMES", names);
    shell.envs(environment.iter().copied());
    let process = shell.stdin(next()).stdout(next()).stderr(next()).spawn().expect("sh runs");
    Started { process, folder }
}

impl Started {
    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }

    /// Where it listens, as it says when it is ready.
    fn listening(&mut self, count: usize) -> Vec<String> {
        let start = Instant::now();
        loop {
            let said = self.text("out");
            if said.ends_with('\n') && said.lines().count() == count {
                let address = |line: &str| line.strip_prefix("listening ").expect("an address").to_owned();
                return said.lines().map(address).collect();
            }
            let ended = self.process.try_wait().expect("it is our child");
            assert!(ended.is_none() && start.elapsed() < PATIENCE, "{ended:?}: {said}{}", self.text("log"));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Its status, and what it logged.
    fn end(&mut self) -> (ExitStatus, String) {
        let start = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().expect("it is our child") {
                return (status, self.text("log"));
            }
            assert!(start.elapsed() < PATIENCE, "it does not end: {}", self.text("log"));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Asks it to end, and waits for that.
    fn stop(&mut self) {
        let process = Pid::from_raw(self.process.id().cast_signed()).expect("a process");
        kill_process(process, Signal::TERM).expect("sent");
        assert!(self.end().0.success(), "{}", self.text("log"));
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn on(address: &str, token: Option<&Path>) -> Program {
    let program =
        example("vectorAdd", Linkage::Static, &[]).flag("--no-check").flag("--on").flag(&format!("{address}:0"));
    match token {
        Some(file) => program.variable("FLOE_TOKEN_FILE", &file.display().to_string()),
        None => program,
    }
}

fn passes(program: &Program) {
    let outcome = program.run();
    assert!(outcome.code == Some(0) && outcome.stdout.contains("PASSED"), "{outcome:?}");
}

fn handed(socket: &impl AsFd) -> OwnedFd {
    socket.as_fd().try_clone_to_owned().expect("one more descriptor")
}

/// Waits until somebody has connected whom nobody has accepted.
fn await_connection(listener: &UnixListener) {
    let mut waited = [PollFd::new(listener, PollFlags::IN)];
    let limit = Timespec::try_from(PATIENCE).expect("short");
    assert_eq!(poll(&mut waited, Some(&limit)), Ok(1), "nobody connects");
}

#[test]
fn a_program_that_connects_before_the_daemon_is_ready_runs_and_so_does_one_between_two_daemons() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("systemd.sock");
    let unix = UnixListener::bind(&path).expect("bound");
    let tcp = TcpListener::bind("127.0.0.1:0").expect("bound");
    let metrics = TcpListener::bind("127.0.0.1:0").expect("bound");
    let (port, figures) = (tcp.local_addr().expect("known"), metrics.local_addr().expect("known"));
    let address = format!("unix://{}", path.display());
    let all = || vec![("floed.socket", handed(&unix)), ("floed.socket", handed(&tcp)), ("metrics", handed(&metrics))];
    for _ in 0..2 {
        let first = on(&address, None);
        let early = std::thread::spawn(move || passes(&first));
        await_connection(&unix);
        let mut daemon = start(all(), &[], &[]);
        early.join().expect("the early program passes");
        assert_eq!(daemon.listening(2), [address.clone(), format!("tcp://{port}")]);
        assert!(!daemon.folder.path().join("own.sock").exists());
        passes(&on(&format!("tcp://{port}"), Some(&daemon.folder.path().join("token"))));
        let mut visitor = TcpStream::connect(figures).expect("connected");
        visitor.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n").expect("sent");
        let mut page = String::new();
        visitor.read_to_string(&mut page).expect("answered");
        assert!(page.contains("floe_sessions_started_total 2"), "{page}");
        let log = daemon.text("log");
        assert!(log.contains(&format!("floed: handed over by systemd: {address}\n")), "{log}");
        daemon.stop();
        // Systemd's socket and its file go on, for the next one.
        assert!(path.exists());
    }
}

#[test]
fn what_was_not_handed_over_is_bound() {
    let folder = tempfile::tempdir().expect("a folder");
    let unix = UnixListener::bind(folder.path().join("systemd.sock")).expect("bound");
    let mut daemon = start(vec![("floed.socket", handed(&unix))], &[], &[]);
    let listening = daemon.listening(2);
    assert!(listening[0].ends_with("systemd.sock") && listening[1].starts_with("tcp://127.0.0.1:"), "{listening:?}");
    passes(&on(&listening[1], Some(&daemon.folder.path().join("token"))));
}

#[test]
fn descriptors_for_another_process_are_not_touched() {
    let folder = tempfile::tempdir().expect("a folder");
    let unix = UnixListener::bind(folder.path().join("systemd.sock")).expect("bound");
    let mut daemon = start(vec![("floed.socket", handed(&unix))], &[], &[("FLOE_TEST_PID", "1")]);
    let listening = daemon.listening(2);
    assert!(listening.iter().any(|address| address.ends_with("own.sock")), "{listening:?}");
}

/// A name, a descriptor, and the daemon's words.
type Wrong = (&'static str, OwnedFd, &'static str);

#[test]
fn what_nobody_can_connect_to_is_refused_by_number_and_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let nameless = SocketAddr::from_abstract_name(path("abstract").display().to_string()).expect("a name");
    let connected = UnixStream::pair().expect("a pair");
    let unheard = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let wrong: [Wrong; 7] = [
        ("x", UnixDatagram::bind(path("datagram")).expect("bound").into(), "neither a Unix stream socket nor a TCP"),
        ("x", File::create(path("file")).expect("made").into(), "neither a Unix stream socket nor a TCP socket"),
        ("x", connected.0.into(), "it does not listen"),
        ("x", unheard.into(), "it does not listen"),
        ("x", UnixListener::bind_addr(&nameless).expect("bound").into(), "a Unix socket without a path"),
        ("metrics", UnixListener::bind(path("metrics")).expect("bound").into(), "figures need a TCP socket"),
        ("metrics", File::create(path("figures")).expect("made").into(), "figures need a TCP socket"),
    ];
    let good = UnixListener::bind(path("good")).expect("bound");
    for (name, descriptor, why) in wrong {
        let mut daemon = start(vec![("floed.socket", handed(&good)), (name, descriptor)], &[], &[]);
        let (status, log) = daemon.end();
        let words = format!("floed: cannot use what systemd handed over: descriptor 4 ({name}): {why}");
        assert!(!status.success() && log.contains(&words), "{words}: {log}");
    }
}

#[test]
fn an_open_tcp_socket_is_refused_without_a_token_as_an_address_is() {
    let open = TcpListener::bind("0.0.0.0:0").expect("bound");
    let mut daemon = start(vec![("floed.socket", open.into())], &["--no-token"], &[]);
    let (status, log) = daemon.end();
    assert!(!status.success() && log.contains("refusing to listen on tcp://0.0.0.0:"), "{log}");
}

#[test]
fn variables_that_contradict_each_other_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let unix = || UnixListener::bind(folder.path().join("socket")).expect("bound");
    let mut daemon = start(vec![("x", unix().into())], &[], &[("LISTEN_FDNAMES", "x:y")]);
    let (status, log) = daemon.end();
    assert!(!status.success() && log.contains("LISTEN_FDS=1: LISTEN_FDNAMES has another number of names"), "{log}");
}

#[test]
fn a_variable_that_would_shift_the_descriptors_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let unix = UnixListener::bind(folder.path().join("socket")).expect("bound");
    for first in ["0", "2147483647"] {
        let mut daemon =
            start(vec![("x", handed(&unix)), ("y", handed(&unix))], &[], &[("LISTEN_FDS_FIRST_FD", first)]);
        let (status, log) = daemon.end();
        let words = format!("over: LISTEN_FDS_FIRST_FD={first}: descriptors are those from 3 on\n");
        assert!(status.code() == Some(1) && log.contains(&words), "{status}: {log}");
    }
}

#[test]
fn names_of_descriptors_move_no_cursor_also_before_there_is_a_log() {
    let unheard = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let mut daemon = start(vec![("a\r\x1b[31mb", unheard.into())], &[], &[]);
    let (status, log) = daemon.end();
    assert!(!status.success() && log.contains("descriptor 3 (a\\u{d}\\u{1b}[31mb): it does not listen\n"), "{log}");
}

/// The time that a process has had on processors, in the kernel's ticks of 10 ms.
fn ticks(process: &Child) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.id())).expect("it is there");
    let fields: Vec<&str> = stat.rsplit(") ").next().expect("fields").split(' ').collect();
    fields[11..13].iter().map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
}

#[test]
fn a_socket_that_another_holder_shuts_down_is_left_and_the_others_serve() {
    let folder = tempfile::tempdir().expect("a folder");
    let unix = UnixListener::bind(folder.path().join("systemd.sock")).expect("bound");
    let tcp = TcpListener::bind("127.0.0.1:0").expect("bound");
    let metrics = TcpListener::bind("127.0.0.1:0").expect("bound");
    let all = vec![("x", handed(&unix)), ("x", handed(&tcp)), ("metrics", handed(&metrics))];
    let mut daemon = start(all, &[], &[]);
    let addresses = daemon.listening(2);
    for socket in [unix.as_fd(), metrics.as_fd()] {
        rustix::net::shutdown(socket, rustix::net::Shutdown::Both).expect("shut");
    }
    passes(&on(&addresses[1], Some(&daemon.folder.path().join("token"))));
    let words = format!("no more connections at {}: whoever else has its socket has shut it down\n", addresses[0]);
    assert_eq!(daemon.text("log").matches(&words).count(), 1, "{}", daemon.text("log"));
    let port = metrics.local_addr().expect("known");
    let words = format!("no more figures at {port}: whoever else has its socket has shut it down\n");
    let begin = Instant::now();
    while daemon.text("log").matches(&words).count() != 1 {
        assert!(begin.elapsed() < PATIENCE, "{}", daemon.text("log"));
    }
    // It waits without a turn of its loop: nothing else happens here.
    let before = ticks(&daemon.process);
    std::thread::sleep(Duration::from_secs(2));
    let spent = ticks(&daemon.process) - before;
    assert!(spent < 50, "{spent}0 ms of 2 s");
    daemon.stop();
}

#[test]
fn a_socket_that_another_holder_makes_blocking_holds_nobody_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let unix = UnixListener::bind(folder.path().join("systemd.sock")).expect("bound");
    let mut daemon = start(vec![("x", handed(&unix))], &[], &[]);
    let addresses = daemon.listening(2);
    unix.set_nonblocking(false).expect("set");
    passes(&on(&addresses[0], None));
    daemon.stop();
}
