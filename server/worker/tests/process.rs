//! The worker process on a real device library: floe's CPU device, or what `FLOE_TEST_DEVICE` names (`nvidia`).
//! In: a task and messages, as the daemon and a client give them. Out: the verdict.
//! Each test checks what is left behind: a worker whose client or daemon is gone must be gone too.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use floe_device::Probe;
use floe_transport::{ACKNOWLEDGEMENT_CHANNEL, Channels, HistoryDigest, Link, MAIN_CHANNEL, Rings, Transport};
use floe_wire::*;
use floe_worker::contract::{Asks, Demand, Protection, Report, TASK_VARIABLE, Task};
use floe_worker::descriptor_passing::{Giver, Role, pair};
use libc::c_long;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

/// Connections that may wait for a worker to take them.
const MOST_JOINING: u32 = 200;
const PATIENCE: Duration = Duration::from_secs(300);
const BASE: u64 = WINDOW_BASE;
const KERNELS: &[u8] = include_bytes!("kernels.ptx");

fn worker() -> PathBuf {
    std::env::var_os("FLOE_WORKER").map_or_else(|| env!("CARGO_BIN_EXE_floe-worker").into(), PathBuf::from)
}

/// The device's library: the CPU device of the installation under test, or else one that is built for the test.
fn offer() -> &'static Probe {
    static OFFER: OnceLock<Probe> = OnceLock::new();
    OFFER.get_or_init(|| {
        let device = std::env::var("FLOE_TEST_DEVICE").unwrap_or_else(|_| match std::env::var("FLOE_DIST") {
            Ok(installation) => format!("{installation}/lib/device/libcuda.so.1"),
            Err(_) => {
                build_cpu_device();
                "cpu".into()
            }
        });
        let output = Command::new(worker()).args(["--probe", &device]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    })
}

/// Cargo builds a package's own executables for its tests, and no other package's library.
fn build_cpu_device() {
    let release = worker().parent().is_some_and(|folder| folder.ends_with("release"));
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--package", "floe-sim-libcuda"]).args(release.then_some("--release"));
    let built = build.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap();
    assert!(built.success(), "the CPU device does not build");
}

/// Library 1 from a text that has been sent.
fn load<'a>(text: &[u8], hash: &'a [u8], at_once: bool) -> LoadLibrary<'a> {
    let contents = vec![Content { hash, bytes: text.len() as u64 }];
    LoadLibrary { library: LibraryId(1), kind: 3, contents, at_once, options: vec![], log_bytes: 4096 }
}

/// A message that the client got, as owned values.
#[derive(Clone, Debug, PartialEq)]
enum Got {
    Reply { request: u64, status: u32, detail: String, body: Vec<u8> },
    Delivery { request: u64, bytes: Vec<u8> },
    Output(u32, Vec<u8>),
    RunHostFunction(u64),
    Progress(u64),
    Ended(u32, String),
}

/// A session that may have what it wants, on its socket, which it ends with.
fn task() -> Task {
    let offer = offer();
    Task {
        session: 1,
        library: offer.library.clone(),
        nccl: None,
        nodes: false,
        counts: true,
        cupti: None,
        gpu: 0,
        alone: false,
        ordinal: 0,
        memory: 0,
        granularity: offer.gpus[0].granularity,
        asks: Asks::Never,
        host_memory: 4 << 30,
        shared_memory: 1 << 30,
        mirrored_memory: 1 << 20,
        transport_memory: 64 << 20,
        transport: Transport::Socket,
        grace_ms: 0,
        idle_ms: 0,
        bulk_connections: 0,
        client: None,
        sandbox: Demand::Usual,
        fixed_addresses: false,
        mps: false,
        ceiling: 0,
        arrives: None,
    }
}

/// A worker for this task, and the session's connection.
fn spawn(task: &Task) -> (Child, Link) {
    let (child, link, _) = spawn_open(task);
    (child, link)
}

/// As `spawn`, with the way for more connections.
fn spawn_open(task: &Task) -> (Child, Link, Giver) {
    let (giver, taker) = pair(MOST_JOINING).unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let child = Command::new(worker())
        .env(TASK_VARIABLE, serde_json::to_string(task).unwrap())
        .stdin(Stdio::from(taker.into_descriptor()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // A worker that refuses its task may be gone already; its client hears the end of its connection.
    let _ = giver.give(Role::Session, Link::new(theirs.into()));
    (child, Link::new(ours.into()), giver)
}

struct Session {
    child: Child,
    link: Option<Link>,
    printed: String,
}

impl Session {
    fn start() -> Self {
        Self::of(&task())
    }

    fn of(task: &Task) -> Self {
        let (child, link) = spawn(task);
        Self { child, link: Some(link), printed: String::new() }
    }

    fn link(&mut self) -> &mut Link {
        self.link.as_mut().unwrap()
    }

    fn send(&mut self, message: &impl Message) -> u64 {
        self.link().send(message).unwrap()
    }

    fn get(&mut self) -> Option<Got> {
        let frame = self.link().receive(Some(Instant::now() + PATIENCE)).unwrap()?;
        Some(match Push::decode(frame.kind, frame.payload).unwrap() {
            Push::Reply(Reply { request, status, detail, body, .. }) => {
                Got::Reply { request, status, detail: detail.into(), body: body.into() }
            }
            Push::Delivery(Delivery { request, bytes, .. }) => Got::Delivery { request, bytes: bytes.into() },
            Push::DeliveryFollows(_) => panic!("there is no bulk connection"),
            Push::Output(output) => Got::Output(output.fd, output.bytes.into()),
            Push::RunHostFunction(message) => Got::RunHostFunction(message.function.0),
            Push::MirrorChanged(changed) => panic!("nothing is mirrored: {:?}", changed.at),
            Push::Ended(ended) => Got::Ended(ended.status, ended.detail.into()),
            Push::Waiting(news) => panic!("nothing waits for room: {news:?}"),
            Push::Migrating(news) => panic!("no move was asked for: {news:?}"),
            Push::Progress(progress) => Got::Progress(progress.stream.0),
        })
    }

    /// Sends and expects the reply, with output before it; gives status and body.
    fn call(&mut self, message: &impl Message) -> (u32, Vec<u8>) {
        let sent = self.send(message);
        loop {
            match self.get() {
                Some(Got::Output(_, bytes)) => self.printed.push_str(&String::from_utf8(bytes).unwrap()),
                Some(Got::Reply { request, status, detail, body }) if request == sent => {
                    if !detail.is_empty() {
                        eprintln!("{detail}");
                    }
                    return (status, body);
                }
                other => panic!("expected the reply to {sent}: {other:?}"),
            }
        }
    }

    fn ok(&mut self, message: &impl Message) -> Vec<u8> {
        let (status, body) = self.call(message);
        assert_eq!(status, 0);
        body
    }

    /// A mapped block of one granule.
    fn memory(&mut self) -> u64 {
        let bytes = offer().gpus[0].granularity;
        self.ok(&CreateBlock { block: BlockId(1), bytes });
        self.send(&MapBlock { block: BlockId(1), offset: 0, at: DevicePtr(BASE), bytes, access: 3 });
        bytes
    }

    fn read(&mut self, at: u64, bytes: u64) -> Vec<u8> {
        let sent = self.send(&CopyFromDevice { stream: StreamId(0), from: DevicePtr(at), bytes });
        let mut all = Vec::new();
        loop {
            match self.get() {
                Some(Got::Delivery { request, bytes }) if request == sent => all.extend(bytes),
                Some(Got::Output(_, bytes)) => self.printed.push_str(&String::from_utf8(bytes).unwrap()),
                Some(Got::Reply { request, status: 0, .. }) if request == sent => return all,
                other => panic!("expected the bytes of {sent}: {other:?}"),
            }
        }
    }

    fn kernels(&mut self) {
        for part in KERNELS.chunks(1000) {
            self.send(&LibraryPart { library: LibraryId(1), content: 0, bytes: part });
        }
        let hash = blake3::hash(KERNELS);
        self.ok(&load(KERNELS, hash.as_bytes(), false));
        for (id, name) in (1..).zip(["add", "print", "fault", "spin"]) {
            self.ok(&FindKernel { library: LibraryId(1), name, kernel: KernelId(id) });
        }
    }

    fn launch(&mut self, kernel: u64, stream: u64, grid: u32, block: u32, parameters: &[u8]) {
        let launch = Launch {
            kernel: KernelId(kernel),
            stream: StreamId(stream),
            grid_x: grid,
            grid_y: 1,
            grid_z: 1,
            block_x: block,
            block_y: 1,
            block_z: 1,
            shared: 0,
            parameters,
            attributes: vec![],
        };
        self.send(&launch);
    }

    /// Waits for the process to end; gives its exit code and its last report.
    fn end(mut self) -> (Option<i32>, String) {
        drop(self.link.take());
        self.wait()
    }

    fn wait(mut self) -> (Option<i32>, String) {
        let reports = BufReader::new(self.child.stdout.take().unwrap());
        let mut ended = String::new();
        for line in reports.lines() {
            if let Report::Ended(words) = serde_json::from_str(&line.unwrap()).unwrap() {
                ended = words;
            }
        }
        (wait_for(&mut self.child), ended)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // A test that failed half-way leaves no worker.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait_for(child: &mut Child) -> Option<i32> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        assert!(began.elapsed() < PATIENCE, "the worker does not end");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn add_parameters(at: u64, amount: u32, count: u32) -> Vec<u8> {
    [&at.to_le_bytes()[..], &amount.to_le_bytes(), &count.to_le_bytes()].concat()
}

#[test]
fn kernel_computes_on_memory_of_the_window() {
    let mut session = Session::start();
    session.memory();
    session.kernels();
    let values: Vec<u8> = (0..1000_u32).flat_map(u32::to_le_bytes).collect();
    session.send(&CopyToDevice { stream: StreamId(0), to: DevicePtr(BASE + 256), bytes: &values });
    session.launch(1, 0, 8, 128, &add_parameters(BASE + 256, 5, 1000));
    let expected: Vec<u8> = (5..1005_u32).flat_map(u32::to_le_bytes).collect();
    assert_eq!(session.read(BASE + 256, 4000), expected);
    assert_eq!(session.end(), (Some(0), "the client left".into()));
}

#[test]
fn two_sessions_have_the_same_addresses_and_different_memory() {
    let (mut one, mut other) = (Session::start(), Session::start());
    let at = DevicePtr(BASE);
    let fill = |value| Fill { stream: StreamId(0), at, pitch: 0, element: 4, value, width: 16, height: 1 };
    for (session, value) in [(&mut one, 1), (&mut other, 2)] {
        session.memory();
        session.send(&fill(value));
    }
    assert_eq!(one.read(BASE, 4), [1, 0, 0, 0]);
    assert_eq!(other.read(BASE, 4), [2, 0, 0, 0]);
    assert_eq!(other.end().0, Some(0));
    assert_eq!(one.read(BASE, 4), [1, 0, 0, 0]);
}

#[test]
fn library_tells_kernels_globals_parameters_and_occupancy() {
    let mut session = Session::start();
    session.memory();
    session.kernels();
    let body = session.ok(&ListKernels { library: LibraryId(1) });
    let mut names = ListKernels::decode_reply(&body).unwrap().names;
    names.sort_unstable();
    assert_eq!(names, ["add", "fault", "print", "spin"]);
    let body = session.ok(&FindKernel { library: LibraryId(1), name: "add", kernel: KernelId(9) });
    let found = FindKernel::decode_reply(&body).unwrap();
    let sizes: Vec<(u32, u32)> = found.parameters.iter().map(|parameter| (parameter.offset, parameter.bytes)).collect();
    assert_eq!(sizes, [(0, 8), (8, 4), (12, 4)]);
    assert!(found.attributes.iter().any(|attribute| attribute.number == 0 && attribute.value >= 128));
    let body = session.ok(&FindGlobal { library: LibraryId(1), name: "counter" });
    let global = FindGlobal::decode_reply(&body).unwrap();
    assert_eq!(global.bytes, 4);
    assert_eq!(session.read(global.at.0, 4), [41, 0, 0, 0]);
    assert_eq!(session.call(&FindGlobal { library: LibraryId(1), name: "nothing" }).0, 500);
    assert_eq!(session.call(&FindKernel { library: LibraryId(1), name: "nothing", kernel: KernelId(10) }).0, 500);
    let body = session.ok(&MaxActiveBlocks { kernel: KernelId(1), block: 128, shared: 0, flags: 0 });
    assert!(MaxActiveBlocks::decode_reply(&body).unwrap().blocks >= 1);
    session.ok(&SetKernelAttribute { kernel: KernelId(1), what: 0, number: 8, value: 4096 });
}

#[test]
fn what_kernels_print_comes_before_the_reply_that_makes_it_visible() {
    let mut session = Session::start();
    session.kernels();
    session.send(&CreateStream { stream: StreamId(1), flags: 1, priority: 0 });
    session.send(&CreateEvent { event: EventId(1), flags: 0 });
    session.launch(2, 1, 1, 1, &7_u32.to_le_bytes());
    session.ok(&SynchronizeStream { stream: StreamId(1) });
    assert_eq!(session.printed, "hello 7\n");
    session.launch(2, 1, 1, 2, &8_u32.to_le_bytes());
    session.send(&RecordEvent { event: EventId(1), stream: StreamId(1), flags: 0 });
    session.ok(&SynchronizeEvent { event: EventId(1) });
    assert_eq!(session.printed, "hello 7\nhello 8\nhello 8\n");
    session.launch(2, 0, 1, 1, &9_u32.to_le_bytes());
    session.ok(&SynchronizeContext {});
    assert_eq!(session.printed.lines().last(), Some("hello 9"));
}

#[test]
fn boxes_and_patterns_are_placed_by_pitch() {
    let mut session = Session::start();
    session.memory();
    let stream = StreamId(0);
    let at = DevicePtr(BASE);
    session.send(&Fill { stream, at, pitch: 0, element: 1, value: 0xee, width: 4096, height: 1 });
    session.send(&Fill { stream, at, pitch: 64, element: 2, value: 0x0102, width: 3, height: 2 });
    let rows: Vec<u8> = (1..=24).collect();
    let to = BoxEnd::memory(DevicePtr(BASE + 1024), 16, 128);
    session.send(&CopyBoxToDevice { stream, to, width: 4, height: 3, depth: 2, bytes: &rows });
    let moved = BoxEnd::memory(DevicePtr(BASE + 2048), 32, 256);
    session.send(&CopyBoxOnDevice { stream, to: moved, from: to, width: 4, height: 3, depth: 2 });
    let sent = session.send(&CopyBoxFromDevice { stream, from: moved, width: 4, height: 3, depth: 2 });
    let mut got = Vec::new();
    while let Some(Got::Delivery { request, bytes }) = session.get() {
        assert_eq!(request, sent);
        got.extend(bytes);
    }
    assert_eq!(got, rows);
    let filled = session.read(BASE, 128);
    assert_eq!(filled[..8], [2, 1, 2, 1, 2, 1, 0xee, 0xee]);
    assert_eq!(filled[64..72], [2, 1, 2, 1, 2, 1, 0xee, 0xee]);
}

#[test]
fn host_function_holds_its_stream_until_it_is_done() {
    let mut session = Session::start();
    session.memory();
    session.send(&CreateStream { stream: StreamId(1), flags: 1, priority: 0 });
    session.send(&HostFunction { stream: StreamId(1), function: FunctionId(3) });
    let waiting = session.send(&SynchronizeStream { stream: StreamId(1) });
    assert_eq!(session.get(), Some(Got::RunHostFunction(3)));
    session.ok(&MemoryInfo {});
    assert_eq!(session.call(&QueryStream { stream: StreamId(1) }).0, 600);
    session.send(&HostFunctionDone { function: FunctionId(3) });
    assert!(matches!(session.get(), Some(Got::Reply { request, status: 0, .. }) if request == waiting));
}

#[test]
fn busy_stream_holds_up_no_other_and_is_not_ready() {
    let mut session = Session::start();
    session.memory();
    session.kernels();
    for stream in 1..=2 {
        session.send(&CreateStream { stream: StreamId(stream), flags: 1, priority: 0 });
    }
    let flag = BASE + 4096;
    session.send(&Fill {
        stream: StreamId(2),
        at: DevicePtr(flag),
        pitch: 0,
        element: 4,
        value: 0,
        width: 1,
        height: 1,
    });
    session.ok(&SynchronizeStream { stream: StreamId(2) });
    session.launch(4, 1, 1, 1, &flag.to_le_bytes());
    session.send(&CreateEvent { event: EventId(1), flags: 2 });
    session.send(&RecordEvent { event: EventId(1), stream: StreamId(1), flags: 0 });
    assert_eq!(session.call(&QueryStream { stream: StreamId(1) }).0, 600);
    assert_eq!(session.call(&QueryEvent { event: EventId(1) }).0, 600);
    let waiting = session.send(&SynchronizeEvent { event: EventId(1) });
    session.ok(&SynchronizeStream { stream: StreamId(2) });
    session.send(&Fill {
        stream: StreamId(2),
        at: DevicePtr(flag),
        pitch: 0,
        element: 4,
        value: 1,
        width: 1,
        height: 1,
    });
    // The end of work that was queried in vain is reported before the reply that lets the client conclude it.
    assert_eq!(session.get(), Some(Got::Progress(1)));
    let reply = std::iter::from_fn(|| session.get()).find(|got| *got != Got::Progress(1));
    assert!(matches!(reply, Some(Got::Reply { request, status: 0, .. }) if request == waiting));
    session.ok(&QueryEvent { event: EventId(1) });
}

/// Bytes of memory a process has had at most.
fn peak_memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn client_that_sends_faster_than_the_device_works_does_not_make_the_worker_grow() {
    let mut session = Session::start();
    let block = session.memory();
    session.kernels();
    let before = peak_memory(session.child.id());
    // The kernels take the device longer than a socket takes for what follows them: 300 MB in all.
    let (stream, copy) = (StreamId(0), vec![1; 30_000]);
    let count = u32::try_from(block / 4).unwrap();
    for _ in 0..10 {
        for _ in 0..20 {
            session.launch(1, 0, count / 256, 256, &add_parameters(BASE, 1, count));
        }
        for _ in 0..1000 {
            session.send(&CopyToDevice { stream, to: DevicePtr(BASE), bytes: &copy });
        }
    }
    session.ok(&SynchronizeContext {});
    let grown = peak_memory(session.child.id()) - before;
    // The transport's memory, the device's own memory, and some more.
    assert!(grown < (64 << 20) + block + (24 << 20), "{} MiB", grown >> 20);
}

#[test]
fn quota_is_enforced_and_reported() {
    let granularity = offer().gpus[0].granularity;
    let mut session = Session::of(&Task { memory: 3 * granularity, ..task() });
    session.ok(&CreateBlock { block: BlockId(1), bytes: 2 * granularity });
    assert_eq!(session.call(&CreateBlock { block: BlockId(2), bytes: 2 * granularity }).0, 2);
    let body = session.ok(&MemoryInfo {});
    let info = MemoryInfo::decode_reply(&body).unwrap();
    assert_eq!((info.free, info.total), (granularity, 3 * granularity));
}

#[test]
fn ptx_with_an_error_is_refused_with_its_line_and_the_session_continues() {
    let mut session = Session::start();
    let broken = b".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n  nonsense.u32 %r1;\n}\n";
    session.send(&LibraryPart { library: LibraryId(1), content: 0, bytes: broken });
    let sent = session.send(&load(broken, blake3::hash(broken).as_bytes(), true));
    // The CPU device says it by itself, too, and before the answer.
    let mut got = session.get();
    while let Some(Got::Output(2, said)) = got {
        assert!(String::from_utf8_lossy(&said).contains("line 6"), "the line is not named: {said:?}");
        got = session.get();
    }
    match got {
        Some(Got::Reply { request, status, detail, .. }) => {
            assert_eq!(request, sent);
            assert_ne!(status, 0);
            assert!(detail.contains('6'), "the line is not named: {detail}");
        }
        other => panic!("expected a refusal: {other:?}"),
    }
    session.send(&UnloadLibrary { library: LibraryId(1) });
    session.memory();
    session.kernels();
}

#[test]
fn faulting_kernel_is_reported_until_a_reset_where_the_driver_can() {
    let mut session = Session::start();
    session.memory();
    session.kernels();
    session.launch(3, 0, 1, 1, &[]);
    assert_eq!(session.call(&SynchronizeContext {}).0, 700);
    assert_eq!(session.call(&SynchronizeContext {}).0, 700);
    let (status, _) = session.call(&ResetContext {});
    // NVIDIA's driver keeps a process whose kernel faulted from ever using the GPU again, and says so here too.
    let nvidia = offer().kind == "nvidia";
    assert_eq!(status, if nvidia { 700 } else { 0 });
    if !nvidia {
        session.memory();
        session.send(&Fill {
            stream: StreamId(0),
            at: DevicePtr(BASE),
            pitch: 0,
            element: 1,
            value: 3,
            width: 4,
            height: 1,
        });
        assert_eq!(session.read(BASE, 4), [3; 4]);
    }
}

#[test]
fn reset_without_a_fault_makes_the_session_as_new() {
    let mut session = Session::start();
    session.memory();
    session.kernels();
    session.send(&CreateStream { stream: StreamId(1), flags: 0, priority: 0 });
    session.launch(1, 1, 1, 32, &add_parameters(BASE, 1, 32));
    session.ok(&ResetContext {});
    session.memory();
    session.kernels();
    session.send(&Fill {
        stream: StreamId(0),
        at: DevicePtr(BASE),
        pitch: 0,
        element: 4,
        value: 1,
        width: 32,
        height: 1,
    });
    session.launch(1, 0, 1, 32, &add_parameters(BASE, 1, 32));
    assert_eq!(session.read(BASE + 124, 4), [2, 0, 0, 0]);
}

#[test]
fn client_that_leaves_takes_its_worker_along_whatever_runs() {
    let mut session = Session::start();
    session.memory();
    session.kernels();
    session.send(&Fill {
        stream: StreamId(0),
        at: DevicePtr(BASE),
        pitch: 0,
        element: 4,
        value: 0,
        width: 1,
        height: 1,
    });
    session.launch(4, 0, 1, 1, &BASE.to_le_bytes());
    session.ok(&MemoryInfo {});
    let began = Instant::now();
    assert_eq!(session.end(), (Some(0), "the client left".into()));
    assert!(began.elapsed() < PATIENCE, "a kernel that never ends held the worker");
}

#[test]
fn daemon_that_is_gone_takes_its_workers_along() {
    let mut session = Session::start();
    session.ok(&MemoryInfo {});
    drop(session.child.stdout.take());
    assert_eq!(session.get(), None);
    assert_eq!(wait_for(&mut session.child), Some(1));
}

#[test]
fn protocol_violation_is_reported_to_client_and_daemon() {
    let mut session = Session::start();
    session.send(&SynchronizeStream { stream: StreamId(77) });
    let Some(Got::Ended(1, words)) = session.get() else { panic!("no last word") };
    assert_eq!(session.get(), None);
    assert_eq!(session.wait(), (Some(1), words));
}

#[test]
fn missing_gpu_is_reported() {
    let (mut child, mut link) = spawn(&Task { gpu: 99, ..task() });
    let frame = link.receive(Some(Instant::now() + PATIENCE)).unwrap().unwrap();
    let ended = Ended::decode(frame.payload).unwrap();
    // Not where the server's library lies.
    assert_eq!(ended.detail, "cuDeviceGet: CUDA_ERROR_INVALID_DEVICE (101)");
    assert_eq!(wait_for(&mut child), Some(1));
}

#[test]
fn worker_runs_without_address_space_randomization_only_where_it_is_asked_for() {
    for fixed_addresses in [false, true] {
        let mut session = Session::of(&Task { fixed_addresses, ..task() });
        session.ok(&MemoryInfo {});
        let personality = std::fs::read_to_string(format!("/proc/{}/personality", session.child.id()));
        // Readable by root only: a worker shows itself to nobody else.
        if let Ok(text) = personality {
            let bits = u32::from_str_radix(text.trim(), 16).unwrap();
            assert_eq!(bits & 0x0004_0000 != 0, fixed_addresses);
        }
    }
}

#[test]
fn a_client_of_mps_is_reset_and_goes_on() {
    let mut session = Session::of(&Task { mps: true, ..task() });
    for _ in 0..2 {
        session.ok(&ResetContext {});
        session.ok(&MemoryInfo {});
    }
}

/// Runs this on a thread for which there is no such system call, and neither for what it starts.
fn without<T: Send>(call: c_long, run: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let (absent, machine) = (SeccompAction::Errno(libc::ENOSYS.unsigned_abs()), std::env::consts::ARCH);
            let rules = BTreeMap::from([(call, Vec::new())]);
            let filter = SeccompFilter::new(rules, SeccompAction::Allow, absent, machine.try_into().unwrap());
            apply_filter(&BpfProgram::try_from(filter.unwrap()).unwrap()).unwrap();
            run()
        });
        thread.join().unwrap()
    })
}

#[test]
fn a_worker_that_lacks_a_part_of_its_sandbox_serves_nobody_where_all_of_it_is_required() {
    let library = &offer().library;
    for (call, words) in [(libc::SYS_landlock_create_ruleset, "Landlock"), (libc::SYS_seccomp, "seccomp")] {
        // A worker ends with the thread that has started it.
        without(call, || {
            let output = Command::new(worker()).args(["--check-sandbox", library]).output().unwrap();
            let protection: Protection = serde_json::from_slice(&output.stdout).unwrap();
            assert!(matches!(&protection.missing[..], [missing] if missing.starts_with(words)), "{protection:?}");
            let mut refused = Session::of(&Task { sandbox: Demand::Required, ..task() });
            // It may be gone already.
            let _ = refused.link().send(&MemoryInfo {});
            let answered = refused.link().receive(Some(Instant::now() + PATIENCE));
            assert!(!matches!(answered, Ok(Some(_))), "{words} is missing, and it answers");
            assert_eq!(refused.wait(), (Some(1), String::new()));
            Session::of(&Task { sandbox: Demand::Usual, ..task() }).ok(&MemoryInfo {});
        });
    }
    Session::of(&Task { sandbox: Demand::Required, ..task() }).ok(&MemoryInfo {});
}

#[test]
fn started_by_hand_it_says_what_it_is() {
    let output = Command::new(worker()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("started by floed"));
    let output = Command::new(worker()).args(["--probe", "/no/such/library"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/no/such/library: "));
    assert!(!Path::new("/no/such/library").exists());
}

#[test]
fn device_reads_and_writes_the_clients_own_pages() {
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::FileExt as _;

    let place = 0x6000_0000_0000;
    let memory = rustix::fs::memfd_create("shared", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&memory, 1 << 40).unwrap();
    rustix::fs::fcntl_add_seals(&memory, rustix::fs::SealFlags::SHRINK).unwrap();
    let memory = std::fs::File::from(memory);
    let mut session = Session::start();
    session.memory();
    let at = BASE;
    let shared = ShareMemory { at: DevicePtr(place), bytes: 1 << 40 };
    let sent = session.link().send_with(&shared, memory.as_fd()).unwrap();
    assert!(matches!(session.get(), Some(Got::Reply { request, status: 0, .. }) if request == sent));
    // Memory that lies far into the sparse whole, and more than one staging piece.
    let (offset, bytes) = (1 << 39, 2 << 20);
    session.ok(&MapShared { at: DevicePtr(place + offset), bytes: bytes + 4096 });
    let data: Vec<u8> = (0..bytes / 2).map(|index| (index / 3).to_le_bytes()[0]).collect();
    memory.write_all_at(&data, offset).unwrap();
    let (host, half) = (place + offset, bytes / 2);
    let copy = |to, from, bytes| CopyOnDevice { stream: StreamId(0), to: DevicePtr(to), from: DevicePtr(from), bytes };
    session.send(&copy(at, host, half));
    session.send(&copy(host + half, at, half));
    session.ok(&SynchronizeContext {});
    let mut came = vec![0; data.len()];
    memory.read_exact_at(&mut came, offset + half).unwrap();
    assert!(came == data, "what the device wrote is what it had read");
    let shape = CopyBoxOnDevice {
        stream: StreamId(0),
        to: BoxEnd::memory(DevicePtr(at), 3, 0),
        from: BoxEnd::memory(DevicePtr(host), 1024, 0),
        width: 3,
        height: 4,
        depth: 1,
    };
    session.send(&shape);
    session.send(&copy(host, at, 12));
    session.ok(&SynchronizeContext {});
    let mut packed = [0; 12];
    memory.read_exact_at(&mut packed, offset).unwrap();
    let rows: Vec<u8> = [0, 1024, 2048, 3072].iter().flat_map(|row| data[*row..*row + 3].to_vec()).collect();
    assert_eq!(packed.to_vec(), rows);
    session.ok(&UnmapShared { at: DevicePtr(host) });
    session.send(&copy(at, host, 4));
    assert_eq!(session.call(&SynchronizeContext {}).0, 0);
}

/// A worker that expects rings, and what the client has to offer.
fn expecting_rings() -> (Session, Rings, OwnedFd) {
    let (rings, file) = Rings::offer(1 << 16).unwrap();
    (Session::of(&Task { transport: Transport::Rings, ..task() }), rings, file)
}

#[test]
fn a_session_goes_over_to_rings_and_ends_with_its_client() {
    let (mut session, rings, file) = expecting_rings();
    session.link().send_with(&UseRings { bytes: 1 << 16 }, file.as_fd()).unwrap();
    assert!(matches!(session.get(), Some(Got::Reply { request: 1, status: 0, .. })));
    session.link().go_over(rings).unwrap();
    // Far more than the rings hold, both ways.
    let bytes: Vec<u8> = (0..1_000_000_u32).map(|index| (index % 251).to_le_bytes()[0]).collect();
    let block = 2 << 20;
    assert_eq!(session.call(&CreateBlock { block: BlockId(1), bytes: block }).0, 0);
    session.send(&MapBlock { block: BlockId(1), offset: 0, at: DevicePtr(BASE), bytes: block, access: 3 });
    session.send(&CopyToDevice { stream: StreamId(0), to: DevicePtr(BASE), bytes: &bytes });
    let copy = session.send(&CopyFromDevice { stream: StreamId(0), from: DevicePtr(BASE), bytes: 1_000_000 });
    let mut came = Vec::new();
    loop {
        match session.get() {
            Some(Got::Delivery { request, bytes }) if request == copy => came.extend(bytes),
            Some(Got::Reply { request, status: 0, .. }) if request == copy => break,
            other => panic!("expected the copy: {other:?}"),
        }
    }
    assert!(came == bytes);
    // The rings' memory is still there; the socket says that the client is not.
    session.link = None;
    assert_eq!(wait_for(&mut session.child), Some(0));
    drop(file);
}

#[test]
fn rings_that_cannot_be_taken_leave_the_session_on_its_socket() {
    let (mut session, _rings, _file) = expecting_rings();
    session.send(&UseRings { bytes: 1 << 16 });
    let Some(Got::Reply { request: 1, status: 801, detail, .. }) = session.get() else { panic!("no refusal") };
    assert_eq!(detail, "no descriptor came with the message");
    assert_eq!(session.call(&MemoryInfo {}).0, 0);
}

#[test]
fn a_client_that_does_not_offer_rings_gets_an_error_and_ends() {
    let (mut session, _rings, _file) = expecting_rings();
    session.send(&MemoryInfo {});
    assert!(matches!(session.get(), Some(Got::Ended(1, words)) if words.contains("rings were agreed on")));
    assert_ne!(wait_for(&mut session.child), Some(0));
}

/// A thread that lies while this is set ends with it, also when the test fails.
struct Truth<'a>(&'a AtomicBool);

impl Drop for Truth<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

#[test]
fn a_client_that_lies_in_its_rings_ends_its_worker() {
    let (mut session, rings, file) = expecting_rings();
    session.link().send_with(&UseRings { bytes: 1 << 16 }, file.as_fd()).unwrap();
    assert!(matches!(session.get(), Some(Got::Reply { status: 0, .. })));
    session.link().go_over(rings).unwrap();
    let is_lying = AtomicBool::new(true);
    let words = std::thread::scope(|scope| {
        scope.spawn(|| {
            while is_lying.load(Ordering::Relaxed) {
                // The place in the ring where this side writes how far it has written.
                rustix::io::pwrite(&file, &u64::MAX.to_ne_bytes(), 0).unwrap();
            }
        });
        let _truth = Truth(&is_lying);
        std::iter::from_fn(|| {
            // A sleeping worker looks only when a frame wakes it, and may do so between two lies. A worker that has
            // seen a lie has ended the session.
            let _ = session.link().send(&MemoryInfo {});
            session.get()
        })
        .find_map(|got| match got {
            Got::Ended(1, words) => Some(words),
            _ => None,
        })
    });
    assert!(words.is_some_and(|words| words.contains("the other side of a ring")));
    assert_ne!(wait_for(&mut session.child), Some(0));
}

/// Joins the connection of acknowledgements: only a client that can come back is waited for.
fn acknowledge(giver: &Giver) -> Link {
    let (ours, theirs) = UnixStream::pair().unwrap();
    giver.give(Role::Joined, Link::new(theirs.into())).unwrap();
    let mut acknowledgements = Link::new(ours.into());
    let HistoryDigest { received, digest } = HistoryDigest::none();
    acknowledgements.send(&Continue { epoch: 1, channel: ACKNOWLEDGEMENT_CHANNEL, received, digest }).unwrap();
    acknowledgements.receive(Some(Instant::now() + PATIENCE)).unwrap().unwrap();
    acknowledgements
}

#[test]
fn a_worker_resumes_on_the_next_connection_and_reports_the_pause() {
    let (mut child, link, giver) = spawn_open(&Task { grace_ms: 600_000, ..task() });
    let reports = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut reports = reports.map(|line| serde_json::from_str::<Report>(&line.unwrap()).unwrap());
    let (channels, link) = Channels::take_over(link, PATIENCE);
    let mut session = Session { child, link: Some(link), printed: String::new() };
    let acknowledgements = acknowledge(&giver);
    session.memory();
    session.kernels();
    session.send(&Fill {
        stream: StreamId(0),
        at: DevicePtr(BASE),
        pitch: 1,
        element: 4,
        value: 7,
        width: 100,
        height: 1,
    });
    channels.broke(1);
    drop(acknowledgements);
    assert!(reports.any(|report| report == Report::Broken(true)));
    // Posted while there is no connection.
    session.launch(1, 0, 1, 128, &add_parameters(BASE, 5, 100));
    assert!(channels.begin(2));
    let (ours, theirs) = UnixStream::pair().unwrap();
    giver.give(Role::Joined, Link::new(theirs.into())).unwrap();
    let mut next = Link::new(ours.into());
    let HistoryDigest { received, digest } = channels.freeze(MAIN_CHANNEL);
    next.send(&Continue { epoch: 2, channel: MAIN_CHANNEL, received, digest }).unwrap();
    let reply = next.receive(Some(Instant::now() + PATIENCE)).unwrap().unwrap();
    let ContinueReply { received, digest } =
        Continue::decode_reply(Reply::decode(reply.payload).unwrap().body).unwrap();
    channels.resume(MAIN_CHANNEL, 2, next, HistoryDigest { received, digest }).unwrap();
    assert!(session.read(BASE, 400).chunks(4).all(|word| word == 12_u32.to_le_bytes()));
    assert!(reports.any(|report| report == Report::Broken(false)));
}

#[test]
fn a_worker_whose_client_does_not_come_back_ends_after_the_grace_period() {
    let (child, link, giver) = spawn_open(&Task { grace_ms: 200, ..task() });
    let mut session = Session { child, link: Some(link), printed: String::new() };
    let acknowledgements = acknowledge(&giver);
    session.memory();
    drop(acknowledgements);
    let (code, ended) = session.end();
    assert_eq!(
        (code, ended.as_str()),
        (Some(1), "the connection broke: its client did not make it again within 0.200 s")
    );
}

#[test]
fn a_session_over_rings_whose_stream_is_held_ends_when_its_contract_is_broken() {
    let (mut session, rings, file) = expecting_rings();
    session.link().send_with(&UseRings { bytes: 1 << 16 }, file.as_fd()).unwrap();
    assert!(matches!(session.get(), Some(Got::Reply { request: 1, status: 0, .. })));
    session.link().go_over(rings).unwrap();
    session.memory();
    // The worker has pinned memory of both directions, which the driver lets go of when the stream is over.
    session.send(&CopyToDevice { stream: StreamId(0), to: DevicePtr(BASE), bytes: &[7; 100_000] });
    assert_eq!(session.read(BASE, 100_000), [7; 100_000]);
    session.send(&HostFunction { stream: StreamId(0), function: FunctionId(1) });
    session.send(&SynchronizeContext {});
    assert_eq!(session.get(), Some(Got::RunHostFunction(1)));
    session.send(&DestroyEvent { event: EventId(77) });
    let Some(Got::Ended(1, words)) = session.get() else { panic!("no last word") };
    assert_eq!(session.wait(), (Some(1), words));
}
