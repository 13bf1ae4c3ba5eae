//! A server for tests: it speaks floe's protocol on a Unix socket, keeps device memory as a map of bytes, and records
//! its messages. A script sees every request first and may answer it otherwise, hold it back, or hang up.
#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test file uses a part of it, and it is no interface")]
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may fail")]

#[path = "bulk.rs"]
mod bulk;
#[path = "../../../../link/transport/tests/limit/mod.rs"]
mod limit;
#[path = "relay.rs"]
mod relay;
#[path = "resumable.rs"]
mod resumable;

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

pub use bulk::Joined;
#[allow(unused_imports, reason = "some test files use them")]
pub use bulk::{drain, drain_once, end};
use floe_transport::{Link, Listener, Protection, Receiver, Secret, Sender, Side};
use floe_wire::*;
#[allow(unused_imports, reason = "some test files use it")]
pub(crate) use limit::join;
#[allow(unused_imports, reason = "one test file uses it")]
pub use relay::Relay;
pub use resumable::Wires;

/// The clients' address of shared memory, and its largest size.
const SHARED: u64 = 0x6000_0000_0000;
const SHARED_BYTES: u64 = 1 << 42;
/// Of its devices, by the ordinal at the client.
static UUIDS: [[u8; 16]; 4] = [[1; 16], [2; 16], [3; 16], [4; 16]];
/// Bytes of device memory that are kept together.
const PAGE: usize = 4096;

/// A script's decision about a request.
pub enum Flow {
    /// The server's own way.
    Usual,
    /// The script has dealt with it.
    Done,
    /// The connection closes.
    HangUp,
}

pub type Script = Box<dyn FnMut(&Request<'_>, u64, &mut Peer) -> Flow + Send>;

/// One request as it came.
#[derive(Debug, Clone)]
pub struct Seen {
    pub name: &'static str,
    pub sequence: u64,
    kind: u16,
    payload: Vec<u8>,
}

impl Seen {
    pub fn request(&self) -> Request<'_> {
        Request::decode(self.kind, &self.payload).expect("was decoded before")
    }
}

pub struct Options {
    pub token: Option<String>,
    pub memory: u64,
    pub granularity: u64,
    /// `DeviceSnapshot.code`.
    pub code: u32,
    /// Whether kernels can reach host memory.
    pub maps: bool,
    /// Whether it takes memory of its clients'.
    pub shares: bool,
    /// What tells its daemon from others: sessions with the same bytes are of one server.
    pub server: [u8; 16],
    /// The session's number there.
    pub session: u64,
    /// The machine that it runs on.
    pub machine: Machine,
    /// Addresses where something of the server's lies.
    pub taken: std::ops::Range<u64>,
    /// The number of bulk connections that may join.
    pub bulk: u32,
    /// The grace period of a session without a link; such a server asks for no token.
    pub grace: Option<Duration>,
    pub script: Option<Script>,
    /// Whether it listens where clients of other machines would find it.
    pub is_far: bool,
}

/// What sessions of one server share: device memory, and what they let each other import.
#[derive(Clone, Default)]
pub struct Machine(Arc<Mutex<MachineState>>);

#[derive(Default)]
struct MachineState {
    memory: HashMap<u64, [u8; PAGE]>,
    /// Bytes by session and block.
    blocks: HashMap<(u64, u64), u64>,
    /// Keys by session and ticket.
    tickets: HashMap<(u64, u64), Vec<u8>>,
}

impl Machine {
    pub fn read(&self, at: u64, bytes: u64) -> Vec<u8> {
        let state = self.0.lock().unwrap();
        let mut read = vec![0; bytes as usize];
        for (at, part) in by_page(at, bytes as usize) {
            if let Some(page) = state.memory.get(&(at / PAGE as u64)) {
                let start = at as usize % PAGE;
                let length = part.len();
                read[part].copy_from_slice(&page[start..start + length]);
            }
        }
        read
    }

    pub fn write(&self, at: u64, bytes: &[u8]) {
        let mut state = self.0.lock().unwrap();
        for (at, part) in by_page(at, bytes.len()) {
            let start = at as usize % PAGE;
            let page = state.memory.entry(at / PAGE as u64).or_insert([0; PAGE]);
            page[start..start + part.len()].copy_from_slice(&bytes[part]);
        }
    }

    /// What a session may import with a ticket: the block's bytes.
    fn import(&self, (session, ticket, key): (u64, u64, &[u8]), block: u64) -> Option<u64> {
        let state = self.0.lock().unwrap();
        let known = state.tickets.get(&(session, ticket)).is_some_and(|own| own == key);
        known.then(|| state.blocks.get(&(session, block)).copied()).flatten()
    }
}

/// Bytes that no other server of this process has.
fn other_server() -> [u8; 16] {
    static NEXT: AtomicU8 = AtomicU8::new(0);
    [NEXT.fetch_add(1, Ordering::Relaxed); 16]
}

impl Default for Options {
    fn default() -> Self {
        Self {
            token: None,
            memory: 1 << 30,
            granularity: 2 << 20,
            code: 0,
            maps: false,
            shares: false,
            server: other_server(),
            session: 7,
            machine: Machine::default(),
            taken: 0..0,
            bulk: 0,
            grace: None,
            script: None,
            is_far: false,
        }
    }
}

/// A server and the folder its socket is in.
pub struct Server {
    pub address: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    joined: Joined,
    wires: Wires,
    limit: limit::Limit,
    _folder: tempfile::TempDir,
}

/// How the server ends a session, from any thread.
#[derive(Clone, Default)]
struct Ending {
    own: Arc<OnceLock<Sender>>,
    joined: Joined,
    wires: Wires,
}

/// The server's end of one connection.
pub struct Peer {
    pub sender: Sender,
    blocks: HashMap<u64, u64>,
    /// Streams that stand at a host function, with what waits behind it.
    standing: HashMap<u64, (u64, VecDeque<Seen>)>,
    /// The targets of deferred copies, by their function: address, pitch, width, height.
    late: HashMap<u64, (BoxEnd, u64, u64)>,
    /// Contents of modules by hash.
    pub contents: HashMap<Vec<u8>, Vec<u8>>,
    parts: HashMap<(u64, u32), Vec<u8>>,
    /// The shared memory that it was given.
    pub shared: Option<File>,
    /// The descriptor that came with the last frame of a registered file.
    given: Option<File>,
    /// Registered files that it has mapped, by first address: bytes, and the offset of the first.
    pub files: std::collections::BTreeMap<u64, (u64, u64, File)>,
    /// Its bulk connections.
    pub joined: Joined,
    /// All its connections, if clients may reconnect.
    pub wires: Wires,
    options: Options,
    nonce: [u8; 16],
}

impl Server {
    pub fn start(options: Options) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let unix = format!("unix://{}/floe.sock", folder.path().display());
        let address = if options.is_far { "tcp://127.0.0.1:0" } else { &unix };
        let listener = Listener::bind(&address.parse().expect("an address")).expect("listens");
        let address = listener.address().to_string().replace("tcp://", "clear://");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (log, joined) = (Arc::clone(&seen), Joined::default());
        let (bulk, wires) = (Arc::clone(&joined), Wires::default());
        let own = wires.clone();
        let ending = Ending { own: Arc::default(), joined: Arc::clone(&joined), wires: wires.clone() };
        let (late, served) = (ending.clone(), ending);
        std::thread::spawn(move || {
            let Some(link) = begin(listener, &options, &own, &bulk) else { return };
            let (sender, receiver) = link.split();
            let last = sender.clone();
            let _ = served.own.set(sender.clone());
            let peer = Peer {
                sender,
                blocks: HashMap::new(),
                standing: HashMap::new(),
                late: HashMap::new(),
                contents: HashMap::new(),
                parts: HashMap::new(),
                shared: None,
                given: None,
                files: std::collections::BTreeMap::new(),
                joined: bulk,
                wires: own,
                options,
                nonce: [9; 16],
            };
            // The script has reported its error by then; the client does not wait for another message.
            let outcome = catch_unwind(AssertUnwindSafe(|| serve(peer, receiver, &log)));
            let _ = last.flush();
            last.close();
            if outcome.is_err() {
                served.hang_up();
            }
        });
        Self { address, seen, joined, wires, limit: limit::Limit::new(move || late.hang_up()), _folder: folder }
    }

    pub fn scripted(script: impl FnMut(&Request<'_>, u64, &mut Peer) -> Flow + Send + 'static) -> Self {
        Self::start(Options { script: Some(Box::new(script)), ..Options::default() })
    }

    /// For threads that wait for each other: the server hangs up when one that holds this panics.
    pub(crate) fn limit(&self) -> limit::Limit {
        self.limit.clone()
    }

    /// Its connections, if clients may reconnect.
    pub fn wires(&self) -> Wires {
        self.wires.clone()
    }

    /// Its bulk connections.
    pub fn joined(&self) -> Joined {
        Arc::clone(&self.joined)
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Names of the requests after the attach.
    pub fn names(&self) -> Vec<&'static str> {
        let setup = ["Hello", "Authenticate", "Attach"];
        self.seen().iter().map(|seen| seen.name).filter(|name| !setup.contains(name)).collect()
    }

    pub fn count(&self, name: &str) -> usize {
        self.names().iter().filter(|other| **other == name).count()
    }

    /// Waits until so many requests of this name have come: posts leave by themselves.
    pub fn wait_for(&self, name: &str, count: usize) {
        for _ in 0..150_000 {
            if self.count(name) >= count {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        panic!("{count} of {name} never came, only: {:?}", self.names());
    }
}

impl Ending {
    fn hang_up(&self) {
        self.wires.end();
        if let Some(own) = self.own.get() {
            own.close();
        }
        // A client that waits for what comes there hears nothing else. A reading thread holds them for a while.
        let joined = Arc::clone(&self.joined);
        std::thread::spawn(move || floe_lock::lock(&joined).iter_mut().for_each(end));
    }
}

/// Waits until something holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(300);
    while !holds() {
        assert!(Instant::now() < end, "never came: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The parts of a range that lie in one page each: the first address, and where in the range.
fn by_page(at: u64, bytes: usize) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let from = at + done as u64;
        let length = (PAGE - from as usize % PAGE).min(bytes - done);
        done += length;
        (length > 0).then_some((from, done - length..done))
    })
}

/// The session's own connection, unless none comes; others are welcomed in the background.
fn begin(listener: Listener, options: &Options, wires: &Wires, joined: &Joined) -> Option<Link> {
    let mut link = bulk::accept(&listener)?;
    let (joined, count) = (Arc::clone(joined), options.bulk);
    let Some(grace) = options.grace else {
        std::thread::spawn(move || bulk::welcome(&listener, count, &joined));
        return Some(link);
    };
    bulk::answer::<Hello, _>(&mut link, |_| bulk::greeting());
    let ordinal = |payload: &[u8]| Attach::decode(payload).expect("an attach").ordinal;
    bulk::answer::<Attach, _>(&mut link, |payload| attached(options, ordinal(payload), 0));
    let (link, wires) = (wires.take_over(link, grace), wires.clone());
    std::thread::spawn(move || wires.welcome(&listener, &joined));
    Some(link)
}

fn serve(mut peer: Peer, mut receiver: Receiver, log: &Mutex<Vec<Seen>>) {
    receiver.take_descriptors(peer.options.shares);
    while let Ok(Some(frame)) = receiver.next() {
        let request = Request::decode(frame.kind, frame.payload).expect("clients speak the protocol");
        let seen =
            Seen { name: request.name(), sequence: frame.sequence, kind: frame.kind, payload: frame.payload.to_vec() };
        if seen.name == "ShareMemory" {
            peer.shared = receiver.descriptor().map(File::from);
        }
        if seen.name == "ShareFile" {
            peer.given = receiver.descriptor().map(File::from);
        }
        log.lock().unwrap().push(seen.clone());
        if !peer.take(seen) {
            peer.sender.close();
            return;
        }
    }
}

fn stream_of(request: &Request<'_>) -> Option<u64> {
    Some(match request {
        Request::CopyToDevice(m) => m.stream.0,
        Request::CopyFromDevice(m) => m.stream.0,
        Request::CopyOnDevice(m) => m.stream.0,
        Request::CopyBoxOnDevice(m) => m.stream.0,
        Request::CopyBoxToDevice(m) => m.stream.0,
        Request::CopyBoxFromDevice(m) => m.stream.0,
        Request::Fill(m) => m.stream.0,
        Request::Launch(m) => m.stream.0,
        Request::HostFunction(m) => m.stream.0,
        Request::CopyLate(m) => m.stream.0,
        Request::SynchronizeStream(m) => m.stream.0,
        Request::AwaitSignal(m) => m.stream.0,
        _ => return None,
    })
}

impl Peer {
    /// Handles a request, or lets it wait behind a host function. `false` hangs up.
    fn take(&mut self, seen: Seen) -> bool {
        let request = seen.request();
        if let Some(mut script) = self.options.script.take() {
            let flow = script(&request, seen.sequence, self);
            self.options.script = Some(script);
            match flow {
                Flow::Usual => {}
                Flow::Done => return true,
                Flow::HangUp => return false,
            }
        }
        if let Some((_, waiting)) = stream_of(&request).and_then(|stream| self.standing.get_mut(&stream)) {
            waiting.push_back(seen);
            return true;
        }
        self.handle(&request, seen.sequence);
        true
    }

    pub fn reply(&self, request: u64, body: &impl for<'a> Field<'a>) {
        let mut bytes = Vec::new();
        body.write(&mut bytes);
        self.reply_with(request, 0, 0, "", &bytes);
    }

    pub fn reply_with(&self, request: u64, status: u32, earlier: u32, detail: &str, body: &[u8]) {
        let reply = Reply { request, status, earlier, detail, body };
        let _ = self.sender.send(&reply, |_| ());
    }

    pub fn deliver(&self, request: u64, offset: u64, bytes: &[u8]) {
        let _ = self.sender.post(&Delivery { request, offset, bytes });
    }

    pub fn read(&self, at: u64, bytes: u64) -> Vec<u8> {
        if let Some((file, offset)) = self.shared(at) {
            let mut read = vec![0; bytes as usize];
            file.read_exact_at(&mut read, offset).expect("it lies inside");
            return read;
        }
        self.options.machine.read(at, bytes)
    }

    /// The offset of an address in the client's shared memory.
    fn shared(&self, at: u64) -> Option<(&File, u64)> {
        if let Some((start, (bytes, offset, file))) = self.files.range(..=at).next_back()
            && at - start < *bytes
        {
            return Some((file, offset + (at - start)));
        }
        self.shared.as_ref().zip(at.checked_sub(SHARED).filter(|offset| *offset < SHARED_BYTES))
    }

    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        if let Some((file, offset)) = self.shared(at) {
            return file.write_all_at(bytes, offset).expect("it lies inside");
        }
        self.options.machine.write(at, bytes);
    }

    /// A host function has returned: its stream continues with the work behind it.
    fn go_on(&mut self, function: u64) {
        let stream = self.standing.iter().find(|(_, (standing, _))| *standing == function);
        let stream = *stream.expect("it was running").0;
        let (_, waiting) = self.standing.remove(&stream).expect("found");
        for seen in waiting {
            self.take(seen);
        }
    }

    /// The places of the rows of a box. Arrays lie far from all memory: rows 1 MiB apart, slices 4 GiB.
    fn box_rows(&self, end: &BoxEnd, height: u64, depth: u64) -> Vec<u64> {
        assert!(end.array.0 == 0 || self.blocks.contains_key(&end.array.0), "a copy of no array: {end:?}");
        let (at, pitch, slice) = match end.array.0 {
            0 => (end.at.0, end.pitch, end.slice),
            array => ((array << 48) + (end.z << 32) + (end.y << 20) + end.x, 1 << 20, 1 << 32),
        };
        (0..depth).flat_map(|z| (0..height).map(move |y| at + z * slice + y * pitch)).collect()
    }

    pub fn handle(&mut self, request: &Request<'_>, sequence: u64) {
        match request {
            Request::Hello(_) => {
                let nonce = self.nonce;
                let reply = HelloReply {
                    version: NEWEST_VERSION,
                    server: "scripted",
                    authenticate: self.options.token.is_some(),
                    nonce: &nonce,
                };
                self.reply_borrowed(sequence, &reply);
            }
            Request::Authenticate(m) => self.authenticate(m, sequence),
            Request::Attach(m) => self.attach(m, sequence),
            Request::CopyToDevice(m) => self.write(m.to.0, m.bytes),
            Request::CopyOnDevice(m) => {
                let bytes = self.read(m.from.0, m.bytes);
                self.write(m.to.0, &bytes);
            }
            Request::CopyFromDevice(m) => {
                let bytes = self.read(m.from.0, m.bytes);
                let (first, second) = bytes.split_at(bytes.len() / 2);
                for (start, part) in [(0, first), (first.len(), second)] {
                    for (index, piece) in part.chunks(PIECE_BYTES).enumerate() {
                        self.deliver(sequence, (start + index * PIECE_BYTES) as u64, piece);
                    }
                }
                self.reply(sequence, &());
            }
            Request::CopyBoxOnDevice(m) => {
                let sources = self.box_rows(&m.from, m.height, m.depth);
                let targets = self.box_rows(&m.to, m.height, m.depth);
                for (from, to) in sources.into_iter().zip(targets) {
                    let row = self.read(from, m.width);
                    self.write(to, &row);
                }
            }
            Request::ShareMemory(_) if !self.options.shares => self.reply_with(sequence, 801, 0, "no", &[]),
            Request::MapShared(_) => self.reply(sequence, &MapSharedReply { reached: self.options.maps }),
            Request::ShareFile(m) => {
                let file = self.given.take().expect("a descriptor goes with it");
                let before = self.files.range(..m.at.0 + m.bytes).next_back();
                let overlaps = before.is_some_and(|(start, (bytes, ..))| start + bytes > m.at.0);
                if overlaps || self.options.taken.contains(&m.at.0) {
                    return self.reply_with(sequence, 801, 0, "taken", &[]);
                }
                self.files.insert(m.at.0, (m.bytes, m.offset, file));
                self.reply(sequence, &ShareFileReply { reached: self.options.maps });
            }
            Request::ResetContext(_) => {
                self.files.clear();
                self.reply(sequence, &());
            }
            Request::UnmapShared(m) => {
                self.files.remove(&m.at.0);
                self.reply(sequence, &());
            }
            Request::CopyBoxToDevice(m) => {
                let rows = self.box_rows(&m.to, m.height, m.depth);
                for (at, row) in rows.into_iter().zip(m.bytes.chunks(m.width as usize)) {
                    self.write(at, row);
                }
            }
            Request::CopyBoxFromDevice(m) => {
                let rows = self.box_rows(&m.from, m.height, m.depth);
                let bytes: Vec<u8> = rows.into_iter().flat_map(|at| self.read(at, m.width)).collect();
                self.deliver(sequence, 0, &bytes);
                self.reply(sequence, &());
            }
            Request::HostFunction(m) => {
                self.standing.insert(m.stream.0, (m.function.0, VecDeque::new()));
                let _ = self.sender.send(&RunHostFunction { function: m.function, status: 0 }, |_| ());
            }
            Request::HostFunctionDone(m) => self.go_on(m.function.0),
            Request::CopyLate(m) => {
                self.standing.insert(m.stream.0, (m.function.0, VecDeque::new()));
                self.late.insert(m.function.0, (m.to, m.width, m.height));
                let _ = self.sender.send(&RunHostFunction { function: m.function, status: 0 }, |_| ());
            }
            Request::LateBytes(m) => {
                let (to, width, height) = self.late.remove(&m.function.0).expect("it was asked for");
                assert_eq!(m.bytes.len() as u64, width * height);
                for (at, row) in self.box_rows(&to, height, 1).into_iter().zip(m.bytes.chunks(width as usize)) {
                    self.write(at, row);
                }
                self.go_on(m.function.0);
            }
            Request::CreateArray(m) => {
                let used: u64 = self.blocks.values().sum();
                let bytes = m.width * m.height.max(1) * m.depth.max(1) * 4 * u64::from(m.channels);
                if used + bytes > self.options.memory {
                    return self.reply_with(sequence, 2, 0, "the quota is used up", &[]);
                }
                self.blocks.insert(m.array.0, bytes);
                self.reply(sequence, &());
            }
            // It costs nothing more.
            Request::TakeLevel(m) => drop(self.blocks.insert(m.array.0, 0)),
            Request::DestroyArray(m) => {
                self.blocks.remove(&m.array.0).expect("it was made");
            }
            Request::CreateTexture(m) => self.reply(sequence, &CreateTextureReply { object: 1000 + m.texture.0 }),
            Request::SetTextureReference(m) if m.name == "nothing" => {
                self.reply_with(sequence, 500, 0, "none of this name", &[])
            }
            Request::CreateSurface(m) => self.reply(sequence, &CreateSurfaceReply { object: 2000 + m.surface.0 }),
            Request::CreateGraphCondition(m) => {
                self.reply(sequence, &CreateGraphConditionReply { handle: 7000 + u64::from(m.value) });
            }
            Request::CreateBlock(m) => {
                let used: u64 = self.blocks.values().sum();
                if used + m.bytes > self.options.memory {
                    self.reply_with(sequence, 2, 0, "the quota is used up", &[]);
                } else {
                    self.blocks.insert(m.block.0, m.bytes);
                    let key = (self.options.session, m.block.0);
                    self.options.machine.0.lock().unwrap().blocks.insert(key, m.bytes);
                    self.reply(sequence, &());
                }
            }
            Request::ReleaseBlock(m) => {
                self.blocks.remove(&m.block.0).expect("it was created");
                self.options.machine.0.lock().unwrap().blocks.remove(&(self.options.session, m.block.0));
            }
            Request::Export(m) => {
                let key = (self.options.session, m.ticket.0);
                self.options.machine.0.lock().unwrap().tickets.insert(key, m.key.to_vec());
                self.reply(sequence, &());
            }
            Request::ImportBlock(m) => {
                match self.options.machine.import((m.session, m.ticket.0, m.key), m.object.0) {
                    Some(bytes) => {
                        // The owner pays for it.
                        self.blocks.insert(m.block.0, 0);
                        self.reply(sequence, &ImportBlockReply { bytes });
                    }
                    None => self.reply_with(sequence, 400, 0, "no such ticket or block", &[]),
                }
            }
            // No server that a test plays connects to another.
            Request::ConnectPeer(_) => self.reply_with(sequence, 801, 0, "not named", &[]),
            Request::AskPeer(_) => {
                self.reply(sequence, &AskPeerReply { rank: 0, access: 1, atomics: 1, arrays: 1 });
            }
            Request::MemoryInfo(_) => {
                let used: u64 = self.blocks.values().sum();
                let total = self.options.memory;
                self.reply(sequence, &MemoryInfoReply { free: total - used, total });
            }
            Request::FindKernel(m) if m.name == "missing" => self.reply_with(sequence, 500, 0, "", &[]),
            Request::FindKernel(_) => self.reply(sequence, &kernel()),
            Request::FindGlobal(_) => {
                self.reply(sequence, &FindGlobalReply { at: DevicePtr(0x7f00_0000_1000), bytes: 64, managed: false });
            }
            Request::ListKernels(_) => {
                self.reply_borrowed(sequence, &ListKernelsReply { names: vec!["add", "scale"] });
            }
            Request::LibraryPart(m) => {
                self.parts.entry((m.library.0, m.content)).or_default().extend_from_slice(m.bytes);
            }
            Request::LoadLibrary(m) => self.load(m, sequence),
            Request::SetKernelAttribute(m) => {
                let attributes = vec![Attribute { number: m.number, value: m.value }];
                self.reply(sequence, &SetKernelAttributeReply { attributes });
            }
            Request::InstantiateGraph(_) => self.reply(sequence, &InstantiateGraphReply { handle: 0 }),
            Request::SetLimit(m) => self.reply(sequence, &SetLimitReply { value: m.value }),
            Request::MaxActiveBlocks(_) => self.reply(sequence, &MaxActiveBlocksReply { blocks: 4 }),
            Request::ClusterOccupancy(m) => {
                self.reply(sequence, &ClusterOccupancyReply { count: 10 + m.what as i32 });
            }
            Request::EncodeTensorMap(m) if !m.address.0.is_multiple_of(16) => {
                self.reply_with(sequence, 1, 0, "", &[]);
            }
            Request::EncodeTensorMap(m) => {
                let mut map = [m.dimensions.len() as u8; 128];
                map[..8].copy_from_slice(&m.address.0.to_le_bytes());
                self.reply_borrowed(sequence, &EncodeTensorMapReply { map: &map });
            }
            Request::AvailableShared(_) => self.reply(sequence, &AvailableSharedReply { bytes: 1000 }),
            Request::ElapsedTime(_) => self.reply(sequence, &ElapsedTimeReply { milliseconds: 1.5 }),
            other if other.class() == Class::Call => self.reply(sequence, &()),
            _ => {}
        }
    }

    pub fn reply_borrowed<'a>(&self, request: u64, body: &impl Field<'a>) {
        let mut bytes = Vec::new();
        body.write(&mut bytes);
        self.reply_with(request, 0, 0, "", &bytes);
    }

    fn authenticate(&mut self, message: &Authenticate<'_>, sequence: u64) {
        let token = self.options.token.clone().expect("asked for only with a token");
        let (secret, protection) = (Secret::of(&token), Protection::Local);
        if !secret.proves(Side::Client, &protection, &self.nonce, message.nonce, message.proof) {
            self.reply_with(sequence, 1, 0, "the token is wrong", &[]);
            return;
        }
        let own = secret.proof(Side::Server, &protection, &self.nonce, message.nonce);
        self.reply_borrowed(sequence, &AuthenticateReply { proof: &own });
    }

    /// Like a server with a cache: what was sent once is known.
    fn load(&mut self, message: &LoadLibrary<'_>, sequence: u64) {
        let mut missing = Vec::new();
        for (content, index) in message.contents.iter().zip(0..) {
            if let Some(bytes) = self.parts.remove(&(message.library.0, index)) {
                assert_eq!(blake3::hash(&bytes).as_bytes(), content.hash, "content {index}");
                assert_eq!(bytes.len() as u64, content.bytes);
                self.contents.insert(content.hash.to_vec(), bytes);
            }
            if !self.contents.contains_key(content.hash) {
                missing.push(index);
            }
        }
        let info = if missing.is_empty() { "compiled" } else { "" };
        self.reply_borrowed(sequence, &LoadLibraryReply { missing, info });
    }

    fn attach(&mut self, message: &Attach<'_>, sequence: u64) {
        let reply = attached(&self.options, message.ordinal, message.memory);
        self.reply_borrowed(sequence, &reply);
    }
}

/// The answer to an Attach.
fn attached(options: &Options, ordinal: u32, memory: u64) -> AttachReply<'static> {
    let attribute = |number, value| Attribute { number, value };
    AttachReply {
        session: options.session,
        window: DevicePtr(WINDOW_BASE + u64::from(ordinal) * WINDOW_BYTES),
        window_bytes: WINDOW_BYTES,
        memory,
        guaranteed: memory != 0,
        key: &bulk::KEY,
        bulk_connections: options.bulk,
        grace_ms: options.grace.map_or(0, |grace| grace.as_millis() as u64),
        rings: false,
        server: options.server.to_vec().leak(),
        device: DeviceSnapshot {
            name: "Scripted",
            uuid: &UUIDS[ordinal as usize],
            pci_bus: "0000:01:00.0",
            memory: options.memory,
            driver: 13000,
            attributes: vec![
                attribute(1, 1024),
                attribute(2, 1024),
                attribute(3, 1024),
                attribute(4, 64),
                attribute(5, 0x7fff_ffff),
                attribute(6, 65535),
                attribute(7, 65535),
                attribute(8, 49152),
                attribute(12, 65536),
                attribute(16, 2),
                attribute(19, i32::from(options.maps)),
                attribute(97, 101_376),
                attribute(122, 1),
                attribute(123, 1),
                // Compute capability 9.0.
                attribute(75, 9),
                attribute(76, 0),
            ],
            limits: vec![Limit { number: 0, value: 1024 }],
            priority_least: 0,
            priority_greatest: -5,
            granularity: options.granularity,
            code: options.code,
            fabric: true,
        },
    }
}

/// A kernel of three pointers and a count.
fn kernel() -> FindKernelReply {
    let parameter = |offset, bytes| Parameter { offset, bytes };
    FindKernelReply {
        parameters: vec![parameter(0, 8), parameter(8, 8), parameter(16, 8), parameter(24, 4)],
        attributes: vec![
            Attribute { number: 0, value: 1024 },
            Attribute { number: 1, value: 0 },
            Attribute { number: 8, value: 49152 },
        ],
    }
}
