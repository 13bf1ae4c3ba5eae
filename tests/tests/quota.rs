//! The limits of a session: device memory under a quota, host memory under the worker's limit, a shared device. In:
//! peers that want more than they may. Out: their refusals, the remaining memory, and the effect on a neighbour. The
//! kernel reports the memory of the workers.

use std::path::Path;
use std::time::{Duration, Instant};

use floe_tests::{Floed, Linkage, descendants, example};
use floe_transport::Link;
use floe_wire::*;

const PATIENCE: Duration = Duration::from_secs(120);
const MIB: u64 = 1 << 20;
const OUT_OF_MEMORY: u32 = 2;

/// A client made by hand. On the Unix socket the daemon's own user needs no token.
struct Client(Link);

impl Client {
    fn attached(daemon: &Floed, memory: u64) -> Self {
        let mut client = Self::greeted(daemon);
        client.ok(&request(memory, 0));
        client
    }

    /// One that has asked for nothing yet.
    fn greeted(daemon: &Floed) -> Self {
        let path = Path::new(daemon.unix().strip_prefix("unix://").expect("a Unix address"));
        let socket = std::os::unix::net::UnixStream::connect(path).expect("the daemon listens");
        let mut client = Self(Link::new(socket.into()));
        let hello = Hello { magic: MAGIC, oldest: OLDEST_VERSION, newest: NEWEST_VERSION, client: "test" };
        client.0.send_in_person(&hello).expect("sent");
        assert!(matches!(client.get(), Ok((0, _))));
        client
    }

    /// The next news of a wait for room: how many are ahead, and what is free for a guarantee.
    fn waits(&mut self) -> (u32, u64) {
        let frame = self.0.receive(Some(Instant::now() + PATIENCE)).expect("a frame").expect("not closed");
        match Push::decode(frame.kind, frame.payload).expect("a message") {
            Push::Waiting(news) => (news.ahead, news.guarantee),
            other => panic!("expected news of a wait: {}", other.name()),
        }
    }

    /// What is free for a guarantee.
    fn guarantee(daemon: &Floed) -> u64 {
        Self::guarantee_on(daemon, 0)
    }

    fn guarantee_on(daemon: &Floed, gpu: usize) -> u64 {
        let body = Self::greeted(daemon).ok(&ListGpus {});
        ListGpus::decode_reply(&body).expect("a list").gpus[gpu].guarantee
    }

    fn send(&mut self, message: &impl Message) {
        self.0.send(message).expect("sent");
    }

    /// The next reply's status and body, or the words the session ends with.
    fn get(&mut self) -> Result<(u32, Vec<u8>), String> {
        loop {
            let frame = self.0.receive(Some(Instant::now() + PATIENCE)).map_err(|error| error.to_string())?;
            let frame = frame.ok_or("closed")?;
            match Push::decode(frame.kind, frame.payload).expect("a message") {
                Push::Reply(reply) => return Ok((reply.status, reply.body.to_vec())),
                Push::Ended(ended) => return Err(ended.detail.to_owned()),
                _ => {}
            }
        }
    }

    fn call(&mut self, message: &impl Message) -> u32 {
        self.send(message);
        self.get().expect("a reply").0
    }

    fn ok(&mut self, message: &impl Message) -> Vec<u8> {
        self.send(message);
        match self.get() {
            Ok((0, body)) => body,
            other => panic!("expected success: {other:?}"),
        }
    }

    fn free(&mut self) -> u64 {
        let body = self.ok(&MemoryInfo {});
        MemoryInfo::decode_reply(&body).expect("numbers").free
    }

    fn block(&mut self, id: u64, bytes: u64) -> u32 {
        self.call(&CreateBlock { block: BlockId(id), bytes })
    }

    /// Loads a text as library `id`.
    fn load(&mut self, id: u64, text: &str) -> u32 {
        let hash = blake3::hash(text.as_bytes());
        self.send(&LibraryPart { library: LibraryId(id), content: 0, bytes: text.as_bytes() });
        let contents = vec![Content { hash: hash.as_bytes(), bytes: text.len() as u64 }];
        self.call(&LoadLibrary {
            library: LibraryId(id),
            kind: 3,
            contents,
            at_once: true,
            options: Vec::new(),
            log_bytes: 4096,
        })
    }
}

fn request(memory: u64, wait_ms: u32) -> Attach<'static> {
    Attach { program: "by hand", host: "here", memory, wait_ms, ..Attach::default() }
}

/// A number of KiB that the system says of a process, in bytes.
fn of_process(process: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("the process lives");
    let line = status.lines().find(|line| line.starts_with(name)).expect("the system says so");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a number") * 1024
}

/// A neighbour with a quota of its own, which answers the same before and after.
struct Neighbour(Client);

impl Neighbour {
    fn new(daemon: &Floed) -> Self {
        let mut client = Client::attached(daemon, 64 * MIB);
        assert_eq!(client.block(1, 32 * MIB), 0);
        Self(client)
    }

    fn notices_nothing(mut self) {
        assert_eq!(self.0.free(), 32 * MIB);
        assert_eq!([self.0.block(2, 34 * MIB), self.0.block(2, 32 * MIB)], [OUT_OF_MEMORY, 0]);
    }
}

#[test]
fn six_modules_of_200_mib_under_a_quota_of_16_are_refused_and_take_nothing() {
    let daemon = Floed::start();
    let neighbour = Neighbour::new(&daemon);
    let mut client = Client::attached(&daemon, 16 * MIB);
    let module = |bytes: u64| {
        format!(".version 8.0\n.target sm_90\n.address_size 64\n.visible .global .align 4 .b8 big[{bytes}];\n")
    };
    for id in 1..=6 {
        assert_eq!(client.load(id, &module(200 * MIB)), OUT_OF_MEMORY);
    }
    assert_eq!(client.free(), 16 * MIB);
    assert_eq!(client.load(7, &module(8 * MIB - 4096)), 0);
    assert_eq!(client.free(), 8 * MIB);
    assert_eq!([client.block(1, 10 * MIB), client.block(1, 8 * MIB)], [OUT_OF_MEMORY, 0]);
    assert_eq!(client.free(), 0);
    neighbour.notices_nothing();
}

#[test]
fn memory_that_limits_hold_is_not_left_for_blocks() {
    let daemon = Floed::start();
    let neighbour = Neighbour::new(&daemon);
    let mut client = Client::attached(&daemon, 16 * MIB);
    let set = |client: &mut Client, limit, value| client.call(&SetLimit { limit, value });
    // The heap begins with 8 MiB, which is the context's own.
    assert_eq!(set(&mut client, 2, 16 * MIB), 0);
    assert_eq!(client.free(), 8 * MIB);
    assert_eq!([client.block(1, 12 * MIB), client.block(1, 4 * MIB)], [OUT_OF_MEMORY, 0]);
    assert_eq!(set(&mut client, 1, 64 * MIB), OUT_OF_MEMORY, "what kernels print into");
    assert_eq!(set(&mut client, 0, 64 << 10), OUT_OF_MEMORY, "the stacks of all threads the device holds");
    assert_eq!(set(&mut client, 6, MIB), 215, "the persisting L2 cache is the GPU's");
    assert_eq!(client.free(), 4 * MIB);
    neighbour.notices_nothing();
}

#[test]
fn host_memory_ends_a_session_by_name_before_the_system_does() {
    let daemon = Floed::start_with(&["--host-memory", "256M"], &[]);
    let neighbour = Neighbour::new(&daemon);
    let others = descendants(daemon.process());
    let mut client = Client::attached(&daemon, 16 * MIB);
    assert_eq!(client.free(), 16 * MIB);
    let worker = *descendants(daemon.process()).iter().find(|id| !others.contains(id)).expect("its worker");
    let limits = std::fs::read_to_string(format!("/proc/{worker}/limits")).expect("the worker lives");
    let data = limits.lines().find(|line| line.starts_with("Max data size")).expect("a row");
    assert!(data.contains(&(256 * MIB).to_string()), "{data}");
    let adjustment = std::fs::read_to_string(format!("/proc/{worker}/oom_score_adj")).expect("the worker lives");
    assert!(adjustment.trim().parse::<i32>().expect("a number") >= 500, "{adjustment}");
    // 1920 MiB, as far as they go.
    let part = vec![7; 1 << 20];
    let words = (0..1920).find_map(|number| {
        let sent = client.0.send(&LibraryPart { library: LibraryId(1 + number / 500), content: 0, bytes: &part });
        sent.is_err().then_some(())
    });
    let ended = client.get().expect_err("the session is over");
    assert!(words.is_some() || ended.contains("bytes of host memory"), "{ended}");
    neighbour.notices_nothing();
}

#[test]
fn events_and_nodes_over_the_host_memory_are_refused_and_the_worker_stays_below_its_limit() {
    let daemon = Floed::start_with(&["--host-memory", "512M"], &[]);
    let mut client = Client::attached(&daemon, 0);
    client.free();
    let [worker] = descendants(daemon.process()).try_into().expect("one worker");
    for event in 1..=400_000 {
        client.send(&CreateEvent { event: EventId(event), flags: 2 });
    }
    client.ok(&SynchronizeEvent { event: EventId(1) });
    assert_eq!(client.call(&SynchronizeEvent { event: EventId(399_999) }), OUT_OF_MEMORY);
    assert!(of_process(worker, "VmHWM") < 512 * MIB, "{} bytes", of_process(worker, "VmHWM"));
    for event in 1..=400_000 {
        client.send(&DestroyEvent { event: EventId(event) });
    }
    client.send(&CreateGraph { graph: GraphId(1) });
    for _ in 0..200_000 {
        client.send(&AddGraphEmpty { graph: GraphId(1), after: Vec::new() });
    }
    assert_eq!(client.call(&InstantiateGraph { graph: GraphId(1), flags: 0 }), OUT_OF_MEMORY);
    assert!(of_process(worker, "VmHWM") < 512 * MIB, "{} bytes", of_process(worker, "VmHWM"));
    client.send(&DestroyGraph { graph: GraphId(1) });
    client.send(&CreateEvent { event: EventId(500_000), flags: 2 });
    client.ok(&SynchronizeEvent { event: EventId(500_000) });
}

/// Takes blocks of a granule until there are none; returns how many.
fn take_all(client: &mut Client, first: u64) -> u64 {
    (0..).find(|index| client.block(first + index, 2 * MIB) != 0).expect("it ends")
}

#[test]
fn four_greedy_sessions_of_the_cpu_device_get_its_memory_together() {
    let daemon = Floed::start_with(&[], &[("FLOE_CPU_MEMORY", "64M")]);
    let mut clients: Vec<Client> = (0..4).map(|_| Client::attached(&daemon, 0)).collect();
    assert!(clients.iter_mut().all(|client| client.free() == 64 * MIB));
    // As often as a program may ask; the daemon takes no worker for a hostile one for that.
    assert!((0..2000).all(|_| clients[3].free() == 64 * MIB));
    for index in 1..=8 {
        assert_eq!(clients[0].block(index, 2 * MIB), 0);
    }
    assert!(clients.iter_mut().all(|client| client.free() == 48 * MIB));
    assert_eq!(clients[1].block(1, 50 * MIB), OUT_OF_MEMORY);
    let taken: Vec<u64> = clients.iter_mut().map(|client| take_all(client, 100)).collect();
    assert_eq!(taken, [24, 0, 0, 0]);
    assert!(clients.iter_mut().all(|client| client.free() == 0));
    drop(clients.remove(0));
    daemon.wait_for_workers(3);
    let start = Instant::now();
    while clients[0].free() != 64 * MIB {
        assert!(start.elapsed() < PATIENCE, "what a session had does not come back");
        std::thread::sleep(Duration::from_millis(10));
    }
    let taken: Vec<u64> = clients.iter_mut().map(|client| take_all(client, 1000)).collect();
    assert_eq!(taken, [32, 0, 0]);
}

#[test]
fn guarantees_are_waited_for_in_order_without_a_worker_and_who_leaves_is_forgotten() {
    const LONG: u32 = 600_000;
    let daemon = Floed::start_with(&[], &[("FLOE_CPU_MEMORY", "64M")]);
    let mut first = Client::attached(&daemon, 40 * MIB);
    assert_eq!(Client::guarantee(&daemon), 24 * MIB);
    let mut best_effort = Client::attached(&daemon, 0);
    assert_eq!([best_effort.block(1, 26 * MIB), best_effort.block(1, 8 * MIB)], [OUT_OF_MEMORY, 0]);
    assert_eq!(first.block(1, 40 * MIB), 0, "what it was promised is there");
    assert_eq!(Client::guarantee(&daemon), 16 * MIB);
    let refused = |memory| Client::greeted(&daemon).call(&request(memory, 0));
    assert_eq!([refused(17 * MIB), refused(65 * MIB)], [OUT_OF_MEMORY, OUT_OF_MEMORY]);
    // More than there can be is not waited for.
    assert_eq!(Client::greeted(&daemon).call(&request(1 << 40, LONG)), OUT_OF_MEMORY, "the queue is not asked");

    let mut large = Client::greeted(&daemon);
    large.send(&request(50 * MIB, LONG));
    assert_eq!(large.waits(), (0, 16 * MIB));
    let mut leaving = Client::greeted(&daemon);
    leaving.send(&request(MIB, LONG));
    assert_eq!(leaving.waits(), (1, 16 * MIB));
    let mut small = Client::greeted(&daemon);
    small.send(&request(4 * MIB, LONG));
    assert_eq!(small.waits(), (2, 16 * MIB));
    assert_eq!(refused(MIB), OUT_OF_MEMORY, "nobody overtakes those that wait");
    drop(leaving);
    while small.waits().0 != 1 {}
    daemon.wait_for_workers(2);

    drop(first);
    assert!(matches!(large.get(), Ok((0, _))));
    assert!(matches!(small.get(), Ok((0, _))));
    assert_eq!(Client::guarantee(&daemon), 2 * MIB);
    assert_eq!([large.block(1, 50 * MIB), small.block(1, 4 * MIB)], [0, 0]);
}

/// A request that waits behind another one, which it has news of.
fn behind_one(daemon: &Floed) -> Client {
    loop {
        let mut client = Client::greeted(daemon);
        client.send(&request(32 * MIB, 600_000));
        match client.waits() {
            (1, _) => return client,
            (ahead, _) => assert_eq!(ahead, 0),
        }
    }
}

#[test]
fn a_program_says_what_it_waits_for_and_runs_when_there_is_room_or_says_what_to_do() {
    let daemon = Floed::start_with(&[], &[("FLOE_CPU_MEMORY", "64M")]);
    let other = Client::attached(&daemon, 40 * MIB);
    let program = |wait: &str| {
        let program = example("vectorAdd", Linkage::Static, &[]).on(&daemon, daemon.tcp());
        program.flag("--memory").flag("48M").flag("--wait").flag(wait)
    };
    let refused = program("0").run();
    assert_ne!(refused.code, Some(0));
    let lines = [
        "no room on GPU 0: 48 MiB were asked for, 24 MiB are free for a guarantee",
        "  wait longer (--wait 10m), ask for less, or leave out --memory",
    ];
    assert!(lines.iter().all(|line| refused.stderr.contains(line)), "{refused:?}");
    let waiting = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| program("10m").run());
        let mut behind = behind_one(&daemon);
        behind.waits();
        drop((behind, other));
        waiting.join().expect("it does not panic")
    });
    assert_eq!(waiting.code, Some(0), "{waiting:?}");
    let line = "floe: waiting for 48 MiB on GPU 0 of ";
    assert!(waiting.stderr.contains(line), "{waiting:?}");
    assert!(waiting.stderr.contains("free for a guarantee 24 MiB, requests ahead: 0"), "{waiting:?}");
}

/// Numbers that look random and are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// A session with a guarantee that makes and destroys blocks at random, and knows what it must get.
struct Tenant {
    client: Client,
    quota: u64,
    random: Random,
    blocks: Vec<(u64, u64)>,
}

impl Tenant {
    fn held(&self) -> u64 {
        self.blocks.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Returns whether it asked for too much.
    fn step(&mut self, id: u64) -> bool {
        let bytes = 2 * MIB * (1 + self.random.below(8));
        let is_too_much = self.held() + bytes > self.quota;
        let expected = if is_too_much { OUT_OF_MEMORY } else { 0 };
        assert_eq!(
            self.client.block(id, bytes),
            expected,
            "it has {} of {}, and asks for {bytes}",
            self.held(),
            self.quota
        );
        if !is_too_much {
            self.blocks.push((id, bytes));
        } else if !self.blocks.is_empty() {
            let count = self.blocks.len() as u64;
            let (block, _) = self.blocks.swap_remove(usize::try_from(self.random.below(count)).expect("an index"));
            self.client.send(&ReleaseBlock { block: BlockId(block) });
        }
        assert_eq!(self.client.free(), self.quota - self.held());
        is_too_much
    }
}

#[test]
fn eight_programs_get_what_they_were_promised_and_a_greedy_one_what_is_left_at_every_sample() {
    const DEVICE: u64 = 256 * MIB;
    let daemon = Floed::start_with(&[], &[("FLOE_CPU_MEMORY", "256M")]);
    let mut random = Random(17);
    let quotas: Vec<u64> = (0..8).map(|_| 2 * MIB * (4 + random.below(12))).collect();
    let tenants: Vec<Tenant> = quotas
        .iter()
        .zip(100..)
        .map(|(&quota, seed)| Tenant {
            client: Client::attached(&daemon, quota),
            quota,
            random: Random(seed),
            blocks: Vec::new(),
        })
        .collect();
    let promised: u64 = quotas.iter().sum();
    assert_eq!(Client::guarantee(&daemon), DEVICE - promised);
    let mut greedy = Client::attached(&daemon, 0);
    assert_eq!(take_all(&mut greedy, 1), (DEVICE - promised) / (2 * MIB));

    let mut samples = 0;
    let refused = std::thread::scope(|scope| {
        let work = |mut tenant: Tenant| (1..=100).filter(|id| tenant.step(*id)).count();
        let threads: Vec<_> = tenants.into_iter().map(|tenant| scope.spawn(move || work(tenant))).collect();
        while !threads.iter().all(std::thread::ScopedJoinHandle::is_finished) || samples == 0 {
            assert_eq!(greedy.block(1_000, 2 * MIB), OUT_OF_MEMORY, "what a tenant has not taken is its own");
            // A connection of its own for each: who only looks may do so a counted number of times.
            let body = Client::greeted(&daemon).ok(&ListSessions {});
            let rows = ListSessions::decode_reply(&body).expect("rows").sessions;
            assert!(rows.iter().all(|row| !row.guaranteed || row.used <= row.memory), "{rows:?}");
            assert!(rows.iter().map(|row| row.used).sum::<u64>() <= DEVICE, "{rows:?}");
            samples += 1;
        }
        threads.into_iter().map(|thread| thread.join().expect("each got what it was promised")).collect::<Vec<_>>()
    });
    assert!(refused.iter().all(|count| *count > 0), "each asked for too much: {refused:?}");
}

#[test]
fn a_program_takes_guarantees_in_the_order_of_the_gpus_and_holds_none_that_comes_later() {
    let daemon = Floed::start_with(&[], &[("FLOE_CPU_MEMORY", "64M"), ("FLOE_CPU_DEVICES", "2")]);
    let other = Client::attached(&daemon, 40 * MIB);
    let places = [1, 0].map(|gpu| format!("{}:{gpu}", daemon.unix()));
    let program = example("vectorAdd", Linkage::Static, &[]).on_each(&daemon, &places);
    let program = program.flag("--memory").flag("48M").flag("--wait").flag("10m");
    let outcome = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| program.run());
        let behind = behind_one(&daemon);
        assert_eq!(Client::guarantee_on(&daemon, 1), 64 * MIB, "another program may have it meanwhile");
        drop((behind, other));
        waiting.join().expect("it does not panic")
    });
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

#[test]
fn programs_run_beside_each_other_on_a_shared_device() {
    let daemon = Floed::start();
    let mut programs: Vec<_> =
        (0..3).map(|_| example("vectorAdd", Linkage::Static, &[]).on(&daemon, daemon.unix()).start()).collect();
    assert!(programs.iter_mut().all(|program| program.wait().expect("our child").success()));
}
