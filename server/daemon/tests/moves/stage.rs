//! A daemon with workers that a test plays: it says every word of theirs and hears every word to them.
//! In: a test's steps. Out: what the daemon does. The workers are processes: this test's executable behind a shell script,
//! which passes on what it hears and says what it is told. There is no device.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use floe_device::{Probe, Snapshot};
use floe_transport::Link;
use floe_wire::{
    Attach, AttachReply, Call, Hello, Join, ListSessions, MAGIC, NEWEST_VERSION, OLDEST_VERSION, Push, Reply,
};
use floe_worker::contract::{MoveReport, Report, TASK_VARIABLE, Task};
use floe_worker::descriptor_passing::{Passed, Taker};
use floe_worker::move_notices::{MoveOrder, Said};
use serde_json::Value;

/// Longest time for any step before a test calls it stuck. Generous: CI machines stall.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// Names the socket at which a worker finds its test.
const CONTROL: &str = "FLOE_TEST_CONTROL";
const GIB: u64 = 1 << 30;

/// What a process does that was started in a worker's place: it passes on what it hears, and says what it is told.
pub(crate) fn act_as_worker() {
    let Ok(control) = std::env::var(CONTROL) else { return };
    let control = UnixStream::connect(control).expect("the test listens");
    let task = std::env::var(TASK_VARIABLE).expect("a worker has a task");
    let tell = |words: String| _ = (&control).write_all(format!("{words}\n").as_bytes());
    tell(task);
    let commands = control.try_clone().expect("a duplicate");
    std::thread::spawn(move || {
        let mut reports =
            std::fs::OpenOptions::new().write(true).open("/proc/self/fd/3").expect("the pipe for reports");
        for line in BufReader::new(commands).lines() {
            let line = line.unwrap_or_default();
            if let Some(code) = line.strip_prefix("exit ") {
                std::process::exit(code.parse().expect("a number"));
            }
            reports.write_all(format!("{line}\n").as_bytes()).expect("the daemon reads");
        }
        std::process::exit(9);
    });
    let (moves, ordered) = channel();
    let taker = Taker::new(std::io::stdin().as_fd().try_clone_to_owned().expect("a duplicate")).moving(moves);
    let orders = control.try_clone().expect("a duplicate");
    std::thread::spawn(move || {
        let mut streams = Vec::new();
        for it in ordered {
            let words = serde_json::json!({ "order": it.order, "stream": it.stream.is_some() });
            let _ = (&orders).write_all(format!("{words}\n").as_bytes());
            streams.extend(it.stream);
        }
    });
    let mut held = Vec::new();
    while let Ok(Some(passed)) = taker.take() {
        if let Passed::Connection(role, link) = passed {
            tell(serde_json::json!({ "connection": role }).to_string());
            held.push(link);
        }
    }
    // The daemon is gone.
    std::process::exit(8);
}

fn probe() -> Probe {
    let gpu = |index: u8, minor| Snapshot {
        alone: None,
        name: format!("played {index}"),
        uuid: vec![index; 16],
        pci_bus: format!("0000:0{index}:00.0"),
        memory: 8 * GIB,
        free: 8 * GIB,
        attributes: vec![(75, 9), (76, minor)],
        limits: Vec::new(),
        priorities: (0, 0),
        granularity: 1 << 21,
        peers: Vec::new(),
        fabric: true,
    };
    Probe { kind: "cpu".into(), driver: 13_000, library: "played".into(), gpus: vec![gpu(0, 0), gpu(1, 0), gpu(2, 1)] }
}

/// A daemon of a test's own.
pub(crate) struct Stage {
    pub(crate) process: Child,
    folder: tempfile::TempDir,
    arriving: Receiver<Worker>,
}

impl Stage {
    pub(crate) fn set() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("probe"), serde_json::to_vec(&probe()).expect("words")).expect("written");
        let script = format!(
            "#!/bin/sh\nif [ \"$1\" = --probe ]; then exec cat {probe}; fi\nexport {CONTROL}={control}\nexec 3>&1 1>/dev/null\n\
             exec {test} --exact acts_as_a_worker --ignored --nocapture\n",
            probe = path("probe").display(),
            control = path("control").display(),
            test = std::env::current_exe().expect("known").display(),
        );
        std::fs::write(path("text"), script).expect("written");
        std::fs::set_permissions(path("text"), std::fs::Permissions::from_mode(0o755)).expect("set");
        // Not through a descriptor of this process, which a child of another test could hold open while it is run.
        let copied = Command::new("cp").arg("-p").arg(path("text")).arg(path("worker")).status().expect("cp runs");
        assert!(copied.success());
        let control = UnixListener::bind(path("control")).expect("a socket");
        let (arrived, arriving) = channel();
        std::thread::spawn(move || {
            for stream in control.incoming().map_while(Result::ok) {
                if arrived.send(Worker::of(stream)).is_err() {
                    return;
                }
            }
        });
        let mut process = Command::new(env!("CARGO_BIN_EXE_floed"))
            .args(["--listen", "tcp://127.0.0.1:0", "--device-library", "played", "--no-sandbox", "--trust-forwarded"])
            .args(["--module-cache-limit", "0", "--grace", "60"])
            .arg("--socket")
            .arg(path("socket"))
            .arg("--token-file")
            .arg(path("token"))
            .arg("--worker")
            .arg(path("worker"))
            .stdout(Stdio::piped())
            .stderr(Stdio::from(std::fs::File::create(path("log")).expect("made")))
            .spawn()
            .expect("floed starts");
        let mut lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        assert!((0..2).all(|_| lines.next().is_some_and(|line| line.expect("text").starts_with("listening"))));
        Self { process, folder, arriving }
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).expect("there")
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// The worker that the daemon starts next.
    pub(crate) fn worker(&self) -> Worker {
        self.arriving.recv_timeout(PATIENCE).expect("a worker is started")
    }

    /// Whether the daemon starts no worker now.
    pub(crate) fn has_no_worker(&self) -> bool {
        self.arriving.try_recv().is_err()
    }

    /// A connection that has greeted.
    pub(crate) fn connect(&self) -> Link {
        let mut link = Link::new(UnixStream::connect(self.socket()).expect("it listens").into());
        ask(&mut link, &Hello { magic: MAGIC, oldest: OLDEST_VERSION, newest: NEWEST_VERSION, client: "test" })
            .expect("it greets");
        link
    }

    /// A session on GPU 0, its key, its worker, and its own connection.
    pub(crate) fn attach(&self) -> Session {
        let mut link = self.connect();
        let request = Attach { host: "here", program: "test", memory: 4 * GIB, ..Attach::default() };
        let body = ask(&mut link, &request).expect("admitted");
        let AttachReply { session: number, key, .. } = Attach::decode_reply(&body).expect("a reply");
        let key = key.to_vec();
        let mut worker = self.worker();
        assert_eq!((worker.task.session, worker.task.gpu, worker.task.arrives), (number, 0, None));
        worker.hears_connection("session");
        worker.says(&Report::Ready);
        Session { number, key, worker, link }
    }

    /// A further connection of a session. What becomes of it is seen at a worker, or at this end.
    pub(crate) fn join(&self, session: u64, key: &[u8]) -> Link {
        let mut link = self.connect();
        ask(&mut link, &Join { session, key }).expect("the key admits it");
        link
    }

    /// The sessions: number, GPU, process of the worker, and the text about its transport.
    pub(crate) fn sessions(&self) -> Vec<(u64, u32, u32, String)> {
        let body = ask(&mut self.connect(), &ListSessions {}).expect("a list");
        let reply = ListSessions::decode_reply(&body).expect("a reply");
        reply.sessions.iter().map(|row| (row.session, row.gpu, row.worker, row.transport.to_owned())).collect()
    }

    /// Waits until something is so.
    pub(crate) fn until(&self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let start = Instant::now();
        while !is_so(self) {
            assert!(start.elapsed() < PATIENCE, "never: {what}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Descriptors of the daemon.
    pub(crate) fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.process.id())).expect("it runs").count()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) struct Session {
    pub(crate) number: u64,
    pub(crate) key: Vec<u8>,
    pub(crate) worker: Worker,
    /// The client.
    pub(crate) link: Link,
}

/// Asks, and waits for the reply's body, or the status and the words.
pub(crate) fn ask<M: Call>(link: &mut Link, message: &M) -> Result<Vec<u8>, (u32, String)> {
    let sequence = link.send(message).expect("sent");
    loop {
        let frame = link.receive(Some(Instant::now() + PATIENCE)).expect("a frame").expect("not closed");
        match Push::decode(frame.kind, frame.payload).expect("a push") {
            Push::Reply(Reply { request, status: 0, body, .. }) if request == sequence => return Ok(body.to_vec()),
            Push::Reply(Reply { status, detail, .. }) => return Err((status, detail.to_owned())),
            Push::Migrating(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// A worker that the test plays.
pub(crate) struct Worker {
    pub(crate) task: Task,
    lines: Receiver<String>,
    /// Heard, and not asked for yet: orders and connections come by two threads.
    heard: Vec<Value>,
    control: UnixStream,
}

impl Worker {
    fn of(control: UnixStream) -> Self {
        let (heard, lines) = channel();
        let mut reader = BufReader::new(control.try_clone().expect("a duplicate"));
        let mut task = String::new();
        reader.read_line(&mut task).expect("a task");
        std::thread::spawn(move || reader.lines().map_while(Result::ok).all(|line| heard.send(line).is_ok()));
        Self { task: serde_json::from_str(&task).expect("a task"), lines, heard: Vec::new(), control }
    }

    pub(crate) fn says(&mut self, report: &Report) {
        let words = serde_json::to_string(report).expect("words");
        self.control.write_all(format!("{words}\n").as_bytes()).expect("it runs");
    }

    /// It says something of a move.
    pub(crate) fn moves(&mut self, number: u64, said: Said) {
        self.says(&Report::Move(MoveReport { number, said }));
    }

    pub(crate) fn exits(&mut self, code: u8) {
        let _ = self.control.write_all(format!("exit {code}\n").as_bytes());
    }

    /// The next that it hears of this kind.
    fn hears(&mut self, kind: &str) -> Value {
        loop {
            if let Some(place) = self.heard.iter().position(|heard| heard.get(kind).is_some()) {
                return self.heard.remove(place);
            }
            let line = self.lines.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("no {kind}: {error}"));
            self.heard.push(serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}")));
        }
    }

    pub(crate) fn hears_order(&mut self) -> (MoveOrder, bool) {
        let heard = self.hears("order");
        let order = serde_json::from_value(heard["order"].clone()).unwrap_or_else(|_| panic!("{heard}"));
        (order, heard["stream"] == true)
    }

    pub(crate) fn hears_connection(&mut self, role: &str) {
        assert_eq!(self.hears("connection")["connection"], role);
    }

    /// Whether it has heard nothing more.
    pub(crate) fn hears_nothing(&mut self) -> bool {
        self.heard.is_empty() && self.lines.try_recv().is_err()
    }

    /// Waits for its end, whatever it hears before.
    pub(crate) fn ends_some_time(&mut self) {
        while self.lines.recv_timeout(PATIENCE).is_ok() {}
        self.ends();
    }

    /// Waits for its end, before which it hears nothing more.
    pub(crate) fn ends(&mut self) {
        let heard = self.lines.recv_timeout(PATIENCE);
        assert_eq!(heard, Err(std::sync::mpsc::RecvTimeoutError::Disconnected));
    }
}
