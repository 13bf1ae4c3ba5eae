//! Peers that abuse the protocol, or stop in the middle of it: each loses its own session at most. The tests count
//! leftovers: sessions, worker processes, the daemon's files and threads, a private daemon's folder.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use floe_tests::{Floed, Linkage, Program, descendants, example, installation, open_files, settled, threads};
use floe_transport::Link;
use floe_wire::*;

const PATIENCE: Duration = Duration::from_secs(300);
const BASE: DevicePtr = DevicePtr(WINDOW_BASE);

/// A client made by hand. On the Unix socket the daemon's own user needs no token.
struct Client {
    link: Link,
    socket: UnixStream,
}

/// The answer to the client: a reply's status and body, or the final code and words.
#[derive(Debug)]
enum Got {
    Reply(u32, String, Vec<u8>),
    Ended(u32, String),
    Other,
    Closed,
}

impl Client {
    fn connect(path: &Path) -> Self {
        let socket = UnixStream::connect(path).expect("the daemon listens");
        let link = Link::new(socket.try_clone().expect("duplicated").into());
        Self { link, socket }
    }

    fn greeted(path: &Path) -> Self {
        let mut client = Self::connect(path);
        let hello = Hello { magic: MAGIC, oldest: OLDEST_VERSION, newest: NEWEST_VERSION, client: "test" };
        client.link.send_in_person(&hello).expect("sent");
        assert!(matches!(client.get(), Got::Reply(0, ..)));
        client
    }

    fn attached(path: &Path) -> Self {
        let mut client = Self::greeted(path);
        client.ok(&Attach { program: "by hand", host: "here", ..Attach::default() });
        client
    }

    /// Memory at the window's start; returns its bytes.
    fn memory(&mut self, bytes: u64) {
        self.ok(&CreateBlock { block: BlockId(1), bytes });
        self.send(&MapBlock { block: BlockId(1), offset: 0, at: BASE, bytes, access: 3 });
    }

    fn send(&mut self, message: &impl Message) {
        self.link.send(message).expect("sent");
    }

    fn get(&mut self) -> Got {
        // A peer that closes with our bytes unread resets the connection.
        let Ok(frame) = self.link.receive(Some(Instant::now() + PATIENCE)) else { return Got::Closed };
        let Some(frame) = frame else { return Got::Closed };
        match Push::decode(frame.kind, frame.payload).expect("a message") {
            Push::Reply(reply) => Got::Reply(reply.status, reply.detail.to_owned(), reply.body.to_vec()),
            Push::Ended(ended) => Got::Ended(ended.status, ended.detail.to_owned()),
            _ => Got::Other,
        }
    }

    fn ok(&mut self, message: &impl Message) -> Vec<u8> {
        self.send(message);
        match self.get() {
            Got::Reply(0, _, body) => body,
            other => panic!("expected success: {other:?}"),
        }
    }
}

fn path(address: &str) -> PathBuf {
    address.strip_prefix("unix://").expect("a Unix address").into()
}

fn short_program(daemon: &Floed) -> Program {
    example("vectorAdd", Linkage::Static, &[]).on(daemon, daemon.unix())
}

fn assert_serves(daemon: &Floed) {
    let outcome = short_program(daemon).run();
    assert_eq!(outcome.code, Some(0), "stdout: {}\nstderr: {}", outcome.stdout, outcome.stderr);
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        sleep(Duration::from_millis(10));
    }
}

/// The names of the sessions the daemon has.
fn sessions(daemon: &Floed) -> Vec<String> {
    let body = Client::greeted(&path(daemon.unix())).ok(&ListSessions {});
    let list = ListSessions::decode_reply(&body).expect("a list");
    list.sessions.iter().map(|row| row.program.to_owned()).collect()
}

fn signal(process: u32, name: &str) {
    let sent = Command::new("kill").args([name, &process.to_string()]).status().expect("kill runs");
    assert!(sent.success(), "process {process} was gone");
}

#[test]
fn a_client_gone_before_its_attach_is_answered_has_no_session() {
    let daemon = Floed::start_with(&["--max-sessions", "2"], &[]);
    for _ in 0..6 {
        let mut client = Client::greeted(&path(daemon.unix()));
        // From here on the daemon cannot answer, as when the client is killed.
        client.socket.shutdown(Shutdown::Read).expect("shut");
        client.send(&Attach::default());
    }
    wait_until("every connection is over", || sessions(&daemon).is_empty());
    assert_serves(&daemon);
}

#[test]
fn clients_that_leave_at_every_step_leave_nothing() {
    let steps: [fn(&Path) -> Client; 8] = [
        Client::connect,
        Client::greeted,
        Client::attached,
        |path| {
            let mut client = Client::attached(path);
            client.memory(32 << 20);
            client
        },
        |path| {
            let mut client = Client::attached(path);
            client.memory(32 << 20);
            client.send(&CopyToDevice { stream: StreamId(0), to: BASE, bytes: &[7; 1 << 20] });
            client
        },
        |path| {
            let mut client = Client::attached(path);
            client.memory(32 << 20);
            client.send(&CopyFromDevice { stream: StreamId(0), from: BASE, bytes: 32 << 20 });
            client
        },
        |path| {
            let mut client = Client::attached(path);
            client.send(&HostFunction { stream: StreamId(0), function: FunctionId(1) });
            client.send(&SynchronizeContext {});
            assert!(matches!(client.get(), Got::Other), "the host function is to be run");
            client
        },
        |path| {
            let mut client = Client::attached(path);
            client.send(&LibraryPart { library: LibraryId(1), content: 0, bytes: &[1; 1 << 20] });
            // Half of a frame.
            client.socket.write_all(&[40, 0, 0, 0, 1]).expect("sent");
            client
        },
    ];
    let mut daemon = Floed::start();
    assert_serves(&daemon);
    daemon.wait_for_workers(0);
    wait_until("the connection's thread ends", || sessions(&daemon).is_empty());
    sleep(Duration::from_millis(50));
    let (files, running) = settled(daemon.process());
    for step in steps {
        drop(step(&path(daemon.unix())));
    }
    daemon.wait_for_workers(0);
    wait_until("no session is left", || sessions(&daemon).is_empty());
    let now = || (open_files(daemon.process()), threads(daemon.process()));
    let start = Instant::now();
    while now() != (files, running) {
        assert!(start.elapsed() < PATIENCE, "files and threads: {:?}, before: {:?}", now(), (files, running));
        sleep(Duration::from_millis(10));
    }
    assert!(daemon.is_running());
    assert_serves(&daemon);
}

#[test]
fn silent_strangers_do_not_keep_the_servers_user_out() {
    let daemon = Floed::start();
    let host = daemon.tcp().strip_prefix("tcp://").expect("a TCP address").to_owned();
    let silent: Vec<TcpStream> = (0..1000).map(|_| TcpStream::connect(&host).expect("it listens")).collect();
    assert_serves(&daemon);
    // The oldest go for the newest.
    let mut oldest = &silent[0];
    oldest.set_read_timeout(Some(PATIENCE)).expect("a time-out can be set");
    assert!(matches!(oldest.read(&mut [0]), Ok(0) | Err(_)), "it was told something");
}

#[test]
fn a_peer_that_trickles_bytes_is_given_up() {
    let daemon = Floed::start();
    let host = daemon.tcp().strip_prefix("tcp://").expect("a TCP address").to_owned();
    let (files, _) = settled(daemon.process());
    let mut slow = TcpStream::connect(host).expect("it listens");
    let header = FrameHeader { length: 60_000, kind: Hello::KIND, sequence: 1 }.encode();
    let start = Instant::now();
    let mut bytes = header.iter().copied().chain(std::iter::repeat(0));
    while slow.write_all(&[bytes.next().expect("without end")]).is_ok() {
        assert!(start.elapsed() < PATIENCE, "it may trickle for ever");
        sleep(Duration::from_millis(200));
    }
    drop(slow);
    wait_until("its connection is closed", || open_files(daemon.process()) == files);
    assert_serves(&daemon);
}

#[test]
fn missing_things_are_refused_by_name() {
    let daemon = Floed::start();
    let refused = |request: Attach<'_>| {
        let mut client = Client::greeted(&path(daemon.unix()));
        client.send(&request);
        match client.get() {
            Got::Reply(status, words, _) => (status, words),
            other => panic!("expected a refusal: {other:?}"),
        }
    };
    let (status, words) = refused(Attach { gpu: 77, ..Attach::default() });
    assert!(status == 101 && words.contains("77"), "{status}: {words}");
    let (status, words) = refused(Attach { ordinal: u32::MAX, ..Attach::default() });
    assert!(status == 101 && words.contains(&u32::MAX.to_string()), "{status}: {words}");
    for terms in [
        Attach { share: 1001, ..Attach::default() },
        Attach { weight: u32::MAX, ..Attach::default() },
        Attach { class: 2, ..Attach::default() },
    ] {
        let (status, words) = refused(terms);
        assert!(status == 1 && words.starts_with("no such terms"), "{status}: {words}");
    }
    daemon.wait_for_workers(0);
    assert_eq!(sessions(&daemon), [""; 0]);
}

#[test]
fn names_in_the_table_of_sessions_are_only_text() {
    let daemon = Floed::start();
    let mut client = Client::greeted(&path(daemon.unix()));
    let program = format!("\u{1b}]0;x\u{7}{}", "p".repeat(60_000));
    client.ok(&Attach { program: &program, ..Attach::default() });
    let [shown] = sessions(&daemon).try_into().expect("one session");
    assert!(!shown.contains(char::is_control) && shown.chars().count() < 200, "{shown:?}");
}

#[test]
fn a_frame_without_measure_ends_its_own_session_only() {
    let daemon = Floed::start();
    let mut other = Client::attached(&path(daemon.unix()));
    for header in [[0xff; 4], 0x0100_0000_u32.to_le_bytes()] {
        let mut client = Client::attached(&path(daemon.unix()));
        client.memory(2 << 20);
        client.ok(&MemoryInfo {});
        let mut frame = [0; 16];
        frame[..4].copy_from_slice(&header);
        client.socket.write_all(&frame).expect("sent");
        match client.get() {
            Got::Ended(1, words) => assert!(words.contains("over the limit"), "{words}"),
            other => panic!("expected the end: {other:?}"),
        }
        assert!(matches!(client.get(), Got::Closed));
    }
    daemon.wait_for_workers(1);
    other.ok(&MemoryInfo {});
}

#[test]
fn a_client_that_does_not_read_holds_up_nobody_and_is_cleaned_up() {
    let daemon = Floed::start();
    let mut client = Client::attached(&path(daemon.unix()));
    client.memory(64 << 20);
    for _ in 0..8 {
        client.send(&CopyFromDevice { stream: StreamId(0), from: BASE, bytes: 64 << 20 });
    }
    let mut stopped = example("matrixMul", Linkage::Static, &["256", "20"]).on(&daemon, daemon.unix()).start();
    daemon.wait_for_workers(2);
    signal(stopped.id(), "-STOP");
    assert_serves(&daemon);
    daemon.wait_for_workers(2);
    signal(stopped.id(), "-CONT");
    assert!(stopped.wait().expect("our child").success(), "a stopped program does not continue");
    drop(client);
    daemon.wait_for_workers(0);
}

#[test]
fn workers_do_not_outlive_a_killed_daemon() {
    let daemon = Floed::start();
    let mut client = Client::attached(&path(daemon.unix()));
    client.ok(&MemoryInfo {});
    let workers = descendants(daemon.process());
    assert_eq!(workers.len(), 1);
    signal(daemon.process(), "-KILL");
    wait_until("the worker is gone", || {
        let status = std::fs::read_to_string(format!("/proc/{}/stat", workers[0])).unwrap_or_default();
        status.is_empty() || status.contains(") Z ")
    });
    assert!(matches!(client.get(), Got::Closed));
}

/// A private daemon for a process of the test's, whose stderr nobody reads; its socket.
fn private_daemon(served: u32) -> PathBuf {
    let mut start = Command::new(installation().join("bin/floed"))
        .args(["--private", "--device-library", "cpu", "--grace", "1", "--until-exit-of", &served.to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("floed starts");
    let mut line = String::new();
    BufReader::new(start.stdout.take().expect("asked for")).read_line(&mut line).expect("a line");
    drop(start.stderr.take());
    assert!(start.wait().expect("our child").success());
    path(line.trim().strip_prefix("ready ").expect("the daemon listens"))
}

#[test]
fn a_private_daemon_ends_with_its_program_and_last_session_and_leaves_no_folder() {
    let mut served = Command::new("sleep").arg("600").spawn().expect("sleep runs");
    let socket = private_daemon(served.id());
    // A protocol violation is logged, though nobody reads the log.
    let mut broken = Client::attached(&socket);
    broken.socket.write_all(&[0xff; 16]).expect("sent");
    assert!(matches!(broken.get(), Got::Ended(..)));
    let mut coming = Client::greeted(&socket);
    served.kill().expect("it runs");
    served.wait().expect("our child");
    sleep(Duration::from_millis(300));
    // A process that the program left behind had just connected.
    coming.ok(&Attach::default());
    coming.ok(&MemoryInfo {});
    sleep(Duration::from_millis(300));
    coming.ok(&MemoryInfo {});
    drop(coming);
    let folder = socket.parent().expect("a folder");
    wait_until("the private daemon ends", || !folder.exists());
}
