//! Clients get in while others try to keep everybody out: crowds of silent, slow and greedy peers of one loopback
//! address, and clients of another. The tests count the clients that get in, and the daemon's descriptors, threads,
//! memory and wake-ups before and after.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use floe_tests::{Cutter, Floed, Linkage, descendants, example, installation, open_files, settled, threads};
use floe_transport::{Link, send_with};
use floe_wire::*;
use socket2::{Domain, Socket, Type};

const PATIENCE: Duration = Duration::from_secs(60);
/// Whence a crowd comes.
const HOSTILE: [u8; 4] = [127, 0, 0, 66];
/// Whence other tenants come: programs come from 127.0.0.1.
const OTHER: [u8; 4] = [127, 0, 0, 67];
/// Connections of a crowd.
const CROWD: usize = 1000;
/// The most threads that peers of one address get without a proof.
const THREADS_OF_ONE: usize = 16;
/// The most connections that peers of one address have without a proof.
const CONNECTIONS_OF_ONE: usize = 256;

fn host(daemon: &Floed) -> SocketAddr {
    daemon.tcp().strip_prefix("tcp://").expect("a TCP address").parse().expect("an address")
}

/// A connection from one of the machine's own addresses.
fn connect_from(source: [u8; 4], to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((source, 0)).into())?;
    socket.connect(&to.into())?;
    Ok(socket.into())
}

fn hello() -> Hello<'static> {
    Hello { magic: MAGIC, oldest: OLDEST_VERSION, newest: NEWEST_VERSION, client: "test" }
}

/// The bytes that each kind of hostile connection sends before it is silent.
fn words(turn: usize) -> Vec<u8> {
    let head = FrameHeader { length: 400, kind: Hello::KIND, sequence: 1 }.encode();
    match turn % 5 {
        0 => Vec::new(),
        1 => vec![0x16],
        2 => vec![0x16, 0x03, 0x01, 0x01, 0x00, 1],
        3 => head[..9].to_vec(),
        _ => {
            let mut payload = Vec::new();
            hello().encode(&mut payload);
            let length = u32::try_from(payload.len()).expect("short");
            let mut frame = FrameHeader { length, kind: Hello::KIND, sequence: 1 }.encode().to_vec();
            frame.extend_from_slice(&payload);
            frame
        }
    }
}

/// A thousand connections of one address. Whichever is closed is opened again, each at another time.
struct Crowd {
    stop: Arc<AtomicBool>,
    opened: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Crowd {
    fn start(to: SocketAddr) -> Self {
        let (stop, opened) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let thread = {
            let (stop, opened) = (Arc::clone(&stop), Arc::clone(&opened));
            std::thread::spawn(move || {
                let mut connections: Vec<Option<TcpStream>> = (0..CROWD).map(|_| None).collect();
                while !stop.load(Ordering::Relaxed) {
                    for (turn, connection) in connections.iter_mut().enumerate() {
                        if connection.as_ref().is_none_or(is_closed) {
                            *connection = connect_from(HOSTILE, to).ok();
                            opened.fetch_add(1, Ordering::Relaxed);
                            let said = connection.as_mut().map(|stream| stream.write_all(&words(turn)));
                            let _ = (said, connection.as_mut().map(|stream| stream.set_nonblocking(true)));
                        }
                    }
                    sleep(Duration::from_millis(5));
                }
            })
        };
        let crowd = Self { stop, opened, thread: Some(thread) };
        wait_until("the crowd is there", || crowd.opened() >= CROWD);
        crowd
    }

    fn opened(&self) -> usize {
        self.opened.load(Ordering::Relaxed)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Whether the daemon has closed a connection that does not block; what it said before is read.
fn is_closed(mut stream: &TcpStream) -> bool {
    let mut bytes = [0; 256];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        sleep(Duration::from_millis(10));
    }
}

/// A line of `/proc/…/status` that is a number.
fn status(path: &Path, name: &str) -> usize {
    let text = std::fs::read_to_string(path.join("status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("0");
    line.trim_start_matches(':').split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn resident_kib(process: u32) -> usize {
    status(&Path::new("/proc").join(process.to_string()), "VmRSS")
}

/// How often a process's threads have gone to sleep.
fn sleeps(process: u32) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("the process lives");
    tasks.flatten().map(|task| status(&task.path(), "voluntary_ctxt_switches")).sum()
}

/// A connection to the Unix socket that has sent a byte, with a descriptor that takes so long to close. The descriptor
/// is a TCP connection that lingers over unread bytes.
struct Stubborn {
    unix: UnixStream,
    _far: TcpStream,
}

impl Stubborn {
    fn come(daemon: &Floed) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let near = TcpStream::connect(listener.local_addr().expect("its address")).expect("connected");
        let far = listener.accept().expect("accepted").0;
        let near = Socket::from(near);
        near.set_send_buffer_size(4 << 10).expect("set");
        near.set_nonblocking(true).expect("set");
        let mut full = 0;
        while full < 20 {
            full = if near.send(&[0; 64 << 10]).is_ok() { 0 } else { full + 1 };
            sleep(Duration::from_millis(1));
        }
        near.set_linger(Some(Duration::from_secs(1_000_000))).expect("set");
        let path = daemon.unix().strip_prefix("unix://").expect("a Unix socket");
        let unix = OwnedFd::from(UnixStream::connect(path).expect("it listens"));
        assert_eq!(send_with(&unix, &[1], near.as_fd()), Ok(1));
        Self { unix: unix.into(), _far: far }
    }

    /// Whether the daemon has ended the connection, which comes before it closes it.
    fn is_ended(&mut self) -> bool {
        self.unix.set_nonblocking(true).expect("set");
        !matches!(self.unix.read(&mut [0; 256]), Err(error) if error.kind() == ErrorKind::WouldBlock)
    }
}

/// A program by TCP, `floe gpus` by TCP and `floe ps` by the Unix socket.
fn assert_all_get_in(daemon: &Floed) {
    assert!(lists_gpus(daemon).0, "over TCP");
    assert_eq!(daemon.transports(), [""; 0], "over the Unix socket");
    let program = example("vectorAdd", Linkage::Static, &[]).on(daemon, daemon.tcp()).run();
    assert_eq!(program.code, Some(0), "{}", program.stderr);
    daemon.wait_for_workers(0);
}

/// Runs `floe gpus`; whether it showed them, and how long that took.
fn lists_gpus(daemon: &Floed) -> (bool, Duration) {
    let start = Instant::now();
    let floe = Command::new(installation().join("bin/floe"))
        .args(["gpus", "--on", daemon.tcp()])
        .env("FLOE_TOKEN_FILE", daemon.token_file())
        .output()
        .expect("floe runs");
    (floe.status.success(), start.elapsed())
}

/// The answer to a tenant's `Attach`.
#[derive(Debug)]
enum Told {
    Session(u64, Vec<u8>),
    No(String),
}

/// A tenant of a daemon without a token.
struct Tenant {
    link: Link,
}

impl Tenant {
    fn come(source: [u8; 4], daemon: &Floed) -> Self {
        let stream = connect_from(source, host(daemon)).expect("it listens");
        let mut tenant = Self { link: Link::new(stream.into()) };
        assert_eq!(tenant.ask(&hello()).0, 0);
        tenant
    }

    fn attach(source: [u8; 4], daemon: &Floed) -> (Self, Told) {
        let mut tenant = Self::come(source, daemon);
        let (status, words, body) = tenant.ask(&Attach { program: "secret", host: "there", ..Attach::default() });
        let told = if status == 0 {
            let reply = Attach::decode_reply(&body).expect("attached");
            Told::Session(reply.session, reply.key.to_vec())
        } else {
            Told::No(words)
        };
        (tenant, told)
    }

    fn ask(&mut self, message: &impl Message) -> (u32, String, Vec<u8>) {
        self.link.send(message).expect("sent");
        let frame = self.link.receive(Some(Instant::now() + PATIENCE)).expect("a frame").expect("not closed");
        match Push::decode(frame.kind, frame.payload).expect("a message") {
            Push::Reply(reply) => (reply.status, reply.detail.to_owned(), reply.body.to_vec()),
            Push::Ended(ended) => (ended.status, ended.detail.to_owned(), Vec::new()),
            other => panic!("unexpected: {}", other.name()),
        }
    }
}

#[test]
fn with_a_thousand_hostile_connections_of_one_address_a_hundred_of_a_hundred_clients_get_in() {
    let mut daemon = Floed::start();
    assert!(lists_gpus(&daemon).0);
    let cutter = Cutter::start(daemon.tcp(), Box::new(|| None));
    let before = settled(daemon.process());
    let memory = resident_kib(daemon.process());
    let crowd = Crowd::start(host(&daemon));
    let mut longest = Duration::ZERO;
    let got_in = (0..100).filter(|_| {
        let (is_in, time) = lists_gpus(&daemon);
        longest = longest.max(time);
        assert!(open_files(daemon.process()) <= before.0 + CONNECTIONS_OF_ONE + 2 * THREADS_OF_ONE);
        // A thread that has given its place back is still one of the process until the system has ended it.
        let within = || threads(daemon.process()) <= before.1 + 2 * THREADS_OF_ONE;
        wait_until("the crowd has the threads that one address may have", within);
        is_in
    });
    let got_in = got_in.count();
    eprintln!("{got_in} of 100 clients, the slowest in {longest:?}; hostile connections: {}", crowd.opened());
    assert_eq!(got_in, 100);
    // A session begins, and comes back when its connections break, as often as they do.
    let program = example("steadyWork", Linkage::Static, &["200"]).on(&daemon, &cutter.address());
    let mut running = program.start();
    daemon.wait_for_workers(1);
    for _ in 0..3 {
        cutter.cut_all();
        sleep(Duration::from_millis(200));
    }
    assert!(running.wait().expect("our child").success(), "it could not come back");
    assert!(crowd.opened() > 2 * CROWD, "those that were closed came again");
    drop(crowd);
    drop(cutter);
    daemon.wait_for_workers(0);
    let now = || (open_files(daemon.process()), threads(daemon.process()));
    wait_until("descriptors and threads are as before", || now() == before);
    let grown = resident_kib(daemon.process()).saturating_sub(memory);
    assert!(grown < 16 << 10, "memory has grown by {grown} KiB");
    assert!(daemon.is_running());
}

#[test]
fn peers_that_send_a_byte_at_a_time_wake_the_daemon_for_each_and_no_more() {
    const PEERS: usize = 120;
    let daemon = Floed::start();
    let (files, _) = settled(daemon.process());
    let before = sleeps(daemon.process());
    let slow: Vec<TcpStream> = (0..PEERS)
        .map(|_| {
            let mut stream = connect_from(HOSTILE, host(&daemon)).expect("it listens");
            stream.write_all(&[0x16]).expect("sent");
            stream.set_nonblocking(true).expect("set");
            stream
        })
        .collect();
    wait_until("they have been closed", || open_files(daemon.process()) == files && slow.iter().all(is_closed));
    let woken = sleeps(daemon.process()) - before;
    assert!(woken < 8 * PEERS, "{PEERS} peers woke it so often: {woken}");
}

#[test]
fn a_tenant_that_takes_sessions_in_a_loop_leaves_others_room() {
    let daemon = Floed::start_with(&["--no-token", "--max-sessions", "8", "--grace", "600"], &[]);
    let held: Vec<(Tenant, Told)> = (0..20).map(|_| Tenant::attach(HOSTILE, &daemon)).collect();
    let sessions = held.iter().filter(|(_, told)| matches!(told, Told::Session(..))).count();
    assert_eq!(sessions, 2, "a quarter of eight");
    assert!(
        held.iter().any(|(_, told)| matches!(told, Told::No(words) if words.contains("its limit of sessions here: 2")))
    );
    let (_other, told) = Tenant::attach(OTHER, &daemon);
    assert!(matches!(told, Told::Session(..)), "{told:?}");
    drop(held);
    // A session without a command has no grace period: these end at once, though the period is minutes.
    daemon.wait_for_workers(1);
    for _ in 0..30 {
        drop(Tenant::attach(HOSTILE, &daemon));
    }
    daemon.wait_for_workers(1);
    let program =
        example("vectorAdd", Linkage::Static, &[]).on(&daemon, daemon.unix()).variable("FLOE_NO_TOKEN", "1").run();
    assert_eq!(program.code, Some(0), "{}", program.stderr);
}

#[test]
fn of_a_peers_sessions_that_wait_no_more_are_kept_than_the_operator_allows() {
    let daemon = Floed::start_with(&["--no-token", "--grace", "600", "--max-waiting-per-peer", "1"], &[]);
    let used: Vec<(Tenant, Link)> = (0..2)
        .map(|_| {
            let (mut tenant, told) = Tenant::attach(HOSTILE, &daemon);
            let Told::Session(session, key) = told else { panic!("{told:?}") };
            let mut acknowledgements = Tenant::come(HOSTILE, &daemon);
            assert_eq!(acknowledgements.ask(&Join { session, key: &key }).0, 0);
            assert_eq!(acknowledgements.ask(&Continue { epoch: 1, channel: u32::MAX, received: 0, digest: 0 }).0, 0);
            assert_eq!(tenant.ask(&MemoryInfo {}).0, 0);
            (tenant, acknowledgements.link)
        })
        .collect();
    daemon.wait_for_workers(2);
    drop(used);
    daemon.wait_for_workers(1);
    sleep(Duration::from_secs(2));
    assert_eq!(descendants(daemon.process()).len(), 1, "one may wait");
}

#[test]
fn a_tenant_is_shown_its_own_sessions_and_no_process_of_the_server() {
    let daemon = Floed::start_with(&["--no-token"], &[]);
    let [_own, _others] = [HOSTILE, OTHER].map(|source| Tenant::attach(source, &daemon));
    let rows = |body: Vec<u8>| {
        let list = ListSessions::decode_reply(&body).expect("a list");
        list.sessions.iter().map(|row| (row.client.to_owned(), row.worker)).collect::<Vec<_>>()
    };
    let shown = rows(Tenant::come(HOSTILE, &daemon).ask(&ListSessions {}).2);
    assert!(matches!(&shown[..], [(client, 0)] if client.contains("127.0.0.66")), "{shown:?}");
    assert_eq!(rows(Tenant::come([127, 0, 0, 68], &daemon).ask(&ListSessions {}).2), []);
    let request = ReadTelemetry { host: "there", gpus: vec![], slow: false, lasting: false };
    let body = Tenant::come([127, 0, 0, 68], &daemon).ask(&request).2;
    let told = ReadTelemetry::decode_reply(&body).expect("readings");
    assert!(told.gpus.iter().all(|gpu| gpu.sessions.is_empty()), "{told:?}");
    // Everybody may know the number of sessions and the free memory; only the server's own user may know their owners.
    let gpus = Tenant::come([127, 0, 0, 68], &daemon).ask(&ListGpus {}).2;
    assert_eq!(ListGpus::decode_reply(&gpus).expect("a list").gpus[0].sessions, 2);
    assert_eq!(daemon.transports().len(), 2);
}

#[test]
fn refused_connections_are_a_line_a_second_at_most_and_are_counted() {
    let daemon = Floed::start_logging(&["--no-token"]);
    let start = Instant::now();
    for _ in 0..2000 {
        let mut stream = connect_from(HOSTILE, host(&daemon)).expect("it listens");
        stream.write_all(&[0xff; 16]).expect("sent");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
    }
    let seconds = usize::try_from(start.elapsed().as_secs()).expect("not for ever");
    let log = daemon.log();
    let refusals = log.lines().filter(|line| line.contains("127.0.0.66")).count();
    assert!((1..=seconds + 2).contains(&refusals), "{refusals} lines in {seconds} s:\n{log}");
}

#[test]
fn no_client_learns_the_paths_of_the_servers_files() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let worker = folder.path().join("floe-worker");
    std::os::unix::fs::symlink(installation().join("bin/floe-worker"), &worker).expect("linked");
    let daemon = Floed::start_with(&["--no-token", "--worker", worker.to_str().expect("text")], &[]);
    std::fs::remove_file(&worker).expect("it was there");
    let (mut tenant, _) = Tenant::attach(HOSTILE, &daemon);
    let (_, words, _) = tenant.ask(&MemoryInfo {});
    assert!(!words.is_empty() && !words.contains('/'), "{words}");
}

#[test]
fn descriptors_that_take_long_to_close_keep_nobody_out() {
    let mut daemon = Floed::start();
    assert_all_get_in(&daemon);
    let before = settled(daemon.process());
    let mut silent = Stubborn::come(&daemon);
    let mut refused = Stubborn::come(&daemon);
    refused.unix.write_all(&[0xff; 64]).expect("sent");
    wait_until("both have been ended", || silent.is_ended() && refused.is_ended());
    assert_all_get_in(&daemon);
    drop((silent, refused));
    let now = || (open_files(daemon.process()), threads(daemon.process()));
    wait_until("descriptors and threads are as before", || now() == before);
    // Nor do they keep the daemon from its end, whether it has accepted their connections or not.
    let mut silent = Stubborn::come(&daemon);
    wait_until("it has been ended", || silent.is_ended());
    let _more: Vec<Stubborn> = (0..3).map(|_| Stubborn::come(&daemon)).collect();
    assert_eq!(daemon.terminate(), Some(0));
}
