//! Every session ends, whatever its client does. Clients hold streams, violate the protocol, do not read, or join a
//! stopped worker, also at random. The tests count remaining workers, sessions, and the daemon's descriptors and
//! threads.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../link/transport/tests/authority/mod.rs"]
mod authority;

use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

use authority::Authority;
use floe_tests::{Floed, descendants, open_files, threads};
use floe_transport::{Address, ClientTls, Link, Trust, connect};
use floe_wire::*;

/// For what a busy machine may take.
const PATIENCE: Duration = Duration::from_secs(120);
const BASE: DevicePtr = DevicePtr(WINDOW_BASE);
const STREAM: StreamId = StreamId(0);
const BLOCK: u64 = 64 << 20;

/// A kernel that never ends.
const ENDLESS: &[u8] = b".version 8.0\n.target sm_80\n.address_size 64\n\
    .visible .entry endless()\n{\nagain:\n  bra.uni again;\n}\n\0";

/// A client made by hand, with a session.
struct Client {
    link: Link,
    session: u64,
    key: Vec<u8>,
}

/// The words that the client received.
#[derive(Debug, PartialEq)]
enum Got {
    Reply(u64, u32, Vec<u8>),
    Ended(u32),
    Other,
    Closed,
}

impl Client {
    /// Over a link on which nothing has been said.
    fn greeted(link: Link) -> Self {
        let mut client = Self { link, session: 0, key: Vec::new() };
        client.link.limit_writes(Some(PATIENCE)).unwrap();
        client.ok(&Hello { magic: MAGIC, oldest: OLDEST_VERSION, newest: NEWEST_VERSION, client: "test" });
        client
    }

    fn attached(link: Link) -> Self {
        Self::guaranteed(link, 0)
    }

    /// With a guarantee of so many bytes, if any.
    fn guaranteed(link: Link, memory: u64) -> Self {
        let mut client = Self::greeted(link);
        let body = client.ok(&Attach { program: "by hand", host: "here", memory, ..Attach::default() });
        let reply = Attach::decode_reply(&body).unwrap();
        (client.session, client.key) = (reply.session, reply.key.to_vec());
        client
    }

    fn send(&mut self, message: &impl Message) -> u64 {
        self.link.send(message).unwrap()
    }

    fn get(&mut self) -> Got {
        match self.link.receive(Some(Instant::now() + PATIENCE)) {
            // A resumable session sends salt frames, which readers drop.
            Ok(Some(frame)) if frame.kind == Salt::KIND => self.get(),
            Ok(Some(frame)) => match Push::decode(frame.kind, frame.payload).unwrap() {
                Push::Reply(reply) => Got::Reply(reply.request, reply.status, reply.body.to_vec()),
                Push::Ended(ended) => Got::Ended(ended.status),
                _ => Got::Other,
            },
            // A peer that closes with bytes unread resets the connection.
            Ok(None) | Err(_) => Got::Closed,
        }
    }

    fn ok(&mut self, message: &impl Message) -> Vec<u8> {
        let sent = self.send(message);
        loop {
            match self.get() {
                Got::Reply(request, 0, body) if request == sent => return body,
                Got::Other => {}
                other => panic!("expected the reply to {sent}: {other:?}"),
            }
        }
    }

    fn memory(&mut self) {
        self.ok(&CreateBlock { block: BlockId(1), bytes: BLOCK });
        self.send(&MapBlock { block: BlockId(1), offset: 0, at: BASE, bytes: BLOCK, access: 3 });
    }

    /// Has the worker take memory for both directions, and holds the stream for ever.
    fn hold(&mut self) {
        self.memory();
        self.send(&CopyToDevice { stream: STREAM, to: BASE, bytes: &[7; 100_000] });
        self.ok(&CopyFromDevice { stream: STREAM, from: BASE, bytes: 100_000 });
        self.send(&HostFunction { stream: STREAM, function: FunctionId(1) });
        self.send(&SynchronizeContext {});
        assert_eq!(self.get(), Got::Other, "the host function is to be run");
    }

    fn break_contract(&mut self) {
        self.send(&DestroyEvent { event: EventId(77) });
    }

    /// Runs a kernel that never ends.
    fn spin(&mut self) {
        self.send(&LibraryPart { library: LibraryId(1), content: 0, bytes: ENDLESS });
        let hash = blake3::hash(ENDLESS);
        let contents = vec![Content { hash: hash.as_bytes(), bytes: ENDLESS.len() as u64 }];
        let library = LibraryId(1);
        self.ok(&LoadLibrary { library, kind: 3, contents, at_once: true, options: vec![], log_bytes: 4096 });
        self.ok(&FindKernel { library, name: "endless", kernel: KernelId(1) });
        self.send(&Launch {
            kernel: KernelId(1),
            stream: STREAM,
            grid_x: 1,
            grid_y: 1,
            grid_z: 1,
            block_x: 1,
            block_y: 1,
            block_z: 1,
            shared: 0,
            parameters: &[],
            attributes: vec![],
        });
    }

    /// Runs a loop of a graph that never ends; its body does nothing, or what nothing is to wait for.
    fn loop_for_ever(&mut self, nodes: usize) {
        let (graph, body) = (GraphId(1), GraphId(2));
        self.send(&CreateGraph { graph });
        let told = self.ok(&CreateGraphCondition { graph, value: 1, flags: 1 });
        let handle = CreateGraphCondition::decode_reply(&told).unwrap().handle;
        self.send(&AddGraphConditional { graph, after: vec![], handle, kind: 1, bodies: vec![body] });
        for _ in 0..nodes {
            self.send(&AddGraphEmpty { graph: body, after: vec![] });
        }
        self.ok(&InstantiateGraph { graph, flags: 0 });
        self.send(&LaunchGraph { graph, stream: STREAM });
        // The worker reads on, and its other streams do their work.
        self.memory();
        self.send(&CreateStream { stream: StreamId(2), flags: 1, priority: 0 });
        self.send(&CopyToDevice { stream: StreamId(2), to: BASE, bytes: &[7; 4096] });
        self.ok(&SynchronizeStream { stream: StreamId(2) });
    }

    /// Has every thread of the worker wait for a kernel that never ends: one in the driver, one for that one.
    fn jam(&mut self) {
        self.memory();
        self.spin();
        self.send(&ResetContext {});
        self.link.limit_writes(Some(Duration::from_secs(1))).unwrap();
        let much = vec![1; 30_000];
        while self.link.send(&CopyToDevice { stream: STREAM, to: BASE, bytes: &much }).is_ok() {}
    }
}

/// A daemon whose clients need no token.
fn daemon(flags: &[&str]) -> Floed {
    Floed::start_with(&[&["--no-token", "--transport-memory", "1M"], flags].concat(), &[])
}

fn unix(daemon: &Floed) -> Link {
    let path = daemon.unix().strip_prefix("unix://").unwrap();
    Link::new(UnixStream::connect(path).unwrap().into())
}

fn tcp(daemon: &Floed) -> Link {
    Link::new(TcpStream::connect(daemon.tcp().strip_prefix("tcp://").unwrap()).unwrap().into())
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn sessions(daemon: &Floed) -> usize {
    let body = Client::greeted(unix(daemon)).ok(&ListSessions {});
    ListSessions::decode_reply(&body).unwrap().sessions.len()
}

/// The daemon's descriptors and threads.
fn counts(daemon: &Floed) -> (usize, usize) {
    (open_files(daemon.process()), threads(daemon.process()))
}

/// A daemon that has served once, and what it has open then.
fn settled(flags: &[&str]) -> (Floed, (usize, usize)) {
    settle(daemon(flags))
}

fn settle(daemon: Floed) -> (Floed, (usize, usize)) {
    let mut first = Client::attached(unix(&daemon));
    first.break_contract();
    drop(first);
    assert_nothing_left(&daemon, None);
    let counts = counts(&daemon);
    (daemon, counts)
}

/// No worker and no session is left, nor anything else the daemon did not have before.
fn assert_nothing_left(daemon: &Floed, before: Option<(usize, usize)>) {
    daemon.wait_for_workers(0);
    wait_until("no session is left", || sessions(daemon) == 0);
    // The last question's own thread ends, too.
    match before {
        Some(before) => wait_until("the daemon has what it had", || counts(daemon) == before),
        None => drop(floe_tests::settled(daemon.process())),
    }
}

#[test]
fn a_client_that_holds_a_stream_and_violates_the_protocol_is_told_and_its_worker_ends() {
    for grace in ["0", "2", "3600"] {
        let (daemon, before) = settled(&["--grace", grace, "--max-sessions", "1"]);
        for connect in [unix, tcp] {
            let mut client = Client::attached(connect(&daemon));
            client.hold();
            client.break_contract();
            assert_eq!((client.get(), client.get()), (Got::Ended(1), Got::Closed), "grace {grace}");
            // It keeps its connection, and the only slot is free all the same.
            daemon.wait_for_workers(0);
            wait_until("the slot is free", || sessions(&daemon) == 0);
            drop(client);
        }
        assert_nothing_left(&daemon, Some(before));
    }
}

#[test]
fn a_client_that_holds_a_stream_and_leaves_keeps_nothing() {
    for grace in ["0", "2"] {
        let (daemon, before) = settled(&["--grace", grace, "--max-sessions", "2"]);
        for connect in [unix, tcp] {
            let mut client = Client::attached(connect(&daemon));
            client.hold();
            drop(client);
        }
        assert_nothing_left(&daemon, Some(before));
    }
}

#[test]
fn a_worker_whose_threads_all_wait_for_the_driver_ends_with_its_client() {
    for grace in ["0", "2"] {
        let (daemon, before) = settled(&["--grace", grace]);
        let mut client = Client::attached(unix(&daemon));
        client.jam();
        daemon.wait_for_workers(1);
        drop(client);
        assert_nothing_left(&daemon, Some(before));
    }
}

#[test]
fn a_tls_client_that_does_not_read_leaves_nothing_in_the_daemon() {
    let authority = Authority::new();
    let [certificate, key] = authority.sign("localhost").map(|path| path.to_str().unwrap().to_owned());
    let tls = ClientTls::new(&authority.file(), None).unwrap();
    let trust = Trust { tls: Some(&tls), secret: None };
    for grace in ["0", "2"] {
        let flags = ["--tls-certificate", &certificate, "--tls-key", &key, "--grace", grace];
        let (daemon, before) = settled(&flags);
        let address: Address = daemon.tcp().replacen("tcp://127.0.0.1", "tls://localhost", 1).parse().unwrap();
        let clients: Vec<Client> = (0..4)
            .map(|_| {
                let mut client = Client::attached(connect(&address, PATIENCE, &trust).unwrap());
                client.memory();
                for _ in 0..4 {
                    client.send(&CopyFromDevice { stream: STREAM, from: BASE, bytes: BLOCK });
                }
                client
            })
            .collect();
        for worker in descendants(daemon.process()) {
            assert!(Command::new("kill").args(["-KILL", &worker.to_string()]).status().unwrap().success());
        }
        // The clients keep their connections, and read nothing.
        assert_nothing_left(&daemon, Some(before));
        drop(clients);
    }
}

#[test]
fn a_tls_client_that_goes_ends_its_tunnel_and_its_session() {
    let authority = Authority::new();
    let [certificate, key] = authority.sign("localhost").map(|path| path.to_str().unwrap().to_owned());
    let tls = ClientTls::new(&authority.file(), None).unwrap();
    let trust = Trust { tls: Some(&tls), secret: None };
    let flags = ["--tls-certificate", &certificate, "--tls-key", &key, "--grace", "0"];
    let (daemon, before) = settled(&flags);
    let address: Address = daemon.tcp().replacen("tcp://127.0.0.1", "tls://localhost", 1).parse().unwrap();
    for _ in 0..4 {
        let mut client = Client::attached(connect(&address, PATIENCE, &trust).unwrap());
        client.hold();
        drop(client);
        // Without a session, too.
        drop(Client::greeted(connect(&address, PATIENCE, &trust).unwrap()));
    }
    assert_nothing_left(&daemon, Some(before));
}

#[test]
fn joins_to_a_worker_that_takes_none_are_bounded() {
    let (daemon, before) = settled(&["--grace", "60"]);
    let mut client = Client::attached(unix(&daemon));
    client.ok(&MemoryInfo {});
    let worker = descendants(daemon.process())[0].to_string();
    assert!(Command::new("kill").args(["-STOP", &worker]).status().unwrap().success());
    let with_session = counts(&daemon);
    for _ in 0..1500 {
        let mut joining = Client::greeted(unix(&daemon));
        let _ = joining.ok(&Join { session: client.session, key: &client.key });
    }
    wait_until("threads and descriptors are as before", || {
        let (files, threads) = counts(&daemon);
        files <= with_session.0 + 2 && threads <= with_session.1 + 2
    });
    assert!(Command::new("kill").args(["-CONT", &worker]).status().unwrap().success());
    client.break_contract();
    drop(client);
    assert_nothing_left(&daemon, Some(before));
}

/// Numbers that look random and are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// What is free on each GPU, and what is free for a guarantee.
fn free(daemon: &Floed) -> Vec<(u64, u64)> {
    let body = Client::greeted(unix(daemon)).ok(&ListGpus {});
    ListGpus::decode_reply(&body).unwrap().gpus.iter().map(|gpu| (gpu.free, gpu.guarantee)).collect()
}

/// The number of a process's mappings that it shares with others.
fn shared_mappings(process: u32) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
    maps.lines().filter(|line| line.split_whitespace().nth(1).is_some_and(|access| access.ends_with('s'))).count()
}

#[test]
fn two_hundred_sessions_that_end_at_random_leave_nothing() {
    let mut random = Random(3);
    let flags = ["--no-token", "--transport-memory", "1M", "--grace", "1", "--max-sessions", "1000"];
    let devices = [("FLOE_CPU_DEVICES", "2"), ("FLOE_CPU_MEMORY", "64G")];
    let (daemon, before) = settle(Floed::start_with(&flags, &devices));
    let (bytes, mappings) = (free(&daemon), shared_mappings(daemon.process()));
    let mut kept = Vec::new();
    for _ in 0..200 {
        if random.below(4) == 0 {
            // One of these has all of the other GPU, and the rest wait for it.
            let mut waiting = Client::greeted(unix(&daemon));
            waiting.send(&Attach { gpu: 1, memory: bytes[1].1, wait_ms: 600_000, ..Attach::default() });
            kept.push(waiting);
        }
        let link = if random.below(2) == 0 { unix(&daemon) } else { tcp(&daemon) };
        let mut client = Client::guaranteed(link, random.below(3) * BLOCK);
        match random.below(4) {
            0 => {}
            1 => client.hold(),
            2 => client.spin(),
            _ => {
                client.memory();
                client.send(&CopyFromDevice { stream: STREAM, from: BASE, bytes: BLOCK });
            }
        }
        match random.below(4) {
            0 => {}
            1 => client.break_contract(),
            2 => {
                use rustix::io::write;
                // Half of a frame.
                let socket = client.link.socket().unwrap();
                write(socket, &[40, 0, 0, 0, 1]).unwrap();
            }
            _ => {
                let workers = descendants(daemon.process());
                let victim = workers[usize::try_from(random.below(workers.len() as u64)).unwrap()];
                // It may have ended in this moment.
                let _ = Command::new("kill").args(["-KILL", &victim.to_string()]).status();
            }
        }
        kept.push(client);
        // Some keep their connections for a while.
        if random.below(3) == 0 {
            kept.clear();
        }
    }
    drop(kept);
    assert_nothing_left(&daemon, Some(before));
    assert_eq!((free(&daemon), shared_mappings(daemon.process())), (bytes, mappings));
}

#[test]
fn endless_loops_of_graphs_end_with_their_sessions() {
    let (daemon, before) = settled(&["--grace", "1"]);
    for (nodes, breaks) in [(0, false), (3, false), (0, true), (3, true)] {
        let mut client = Client::attached(unix(&daemon));
        client.loop_for_ever(nodes);
        if breaks {
            client.break_contract();
        }
    }
    // Each ends by itself.
    assert_nothing_left(&daemon, Some(before));
    let mut client = Client::attached(unix(&daemon));
    client.loop_for_ever(1);
    for victim in descendants(daemon.process()) {
        let _ = Command::new("kill").args(["-KILL", &victim.to_string()]).status();
    }
    drop(client);
    assert_nothing_left(&daemon, Some(before));
}
