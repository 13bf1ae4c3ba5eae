//! A wire between programs and a daemon that a test can cut: a relay of its own.
//! In: connections to it, and a plan of the byte counts at which they end. Out: the same bytes at the daemon and back,
//! until then. It does not cut a session's first connection before the session exists.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use floe_lock::lock;

/// Frames a daemon says on a connection before a session begins: to Hello, Authenticate, Attach.
const FRAMES_BEFORE: usize = 3;
/// Bytes of a frame's head, whose first four say how many follow.
const HEAD: usize = 16;

/// After how many bytes, both directions together, the next connection is cut; `None`: never.
pub type Plan = Box<dyn FnMut() -> Option<u64> + Send>;

/// The wire. It lies there until it is dropped.
pub struct Cutter {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    daemon: String,
    plan: Mutex<Plan>,
    cuts: AtomicUsize,
    /// Connections that were taken and lead to the daemon, and bytes that passed on all of them.
    taken: AtomicUsize,
    carried: AtomicU64,
    /// After how many bytes the first connections are cut, also before their sessions are there.
    first: Mutex<Vec<u64>>,
    /// Connections that are open, to be cut at once.
    open: Mutex<Vec<Arc<Wire>>>,
    /// Whether connections are taken, and lead to the daemon.
    way: Mutex<Way>,
}

/// The fate of new connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// They lead to the daemon.
    Open,
    /// They are closed at once.
    Closed,
    /// They are taken, and nothing is said on them.
    Silent,
}

struct Wire {
    ends: [TcpStream; 2],
    /// Bytes left; `u64::MAX`: never cut.
    left: AtomicU64,
    /// Incoming bytes are read and dropped; nothing is closed.
    swallows: AtomicBool,
}

impl Wire {
    fn cut(&self) {
        for end in &self.ends {
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    /// Takes so many bytes of those left at most; how many may pass.
    fn take(&self, bytes: usize) -> usize {
        let mut taken = 0;
        let take = |left: u64| {
            if left == u64::MAX {
                taken = bytes as u64;
                return Some(left);
            }
            taken = left.min(bytes as u64);
            Some(left - taken)
        };
        let _ = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take);
        usize::try_from(taken).unwrap_or(usize::MAX)
    }
}

impl Cutter {
    /// A wire to the daemon at `tcp://HOST:PORT`.
    ///
    /// # Panics
    /// When this machine gives no port.
    #[must_use]
    pub fn start(daemon: &str, plan: Plan) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it has an address").port();
        let shared = Arc::new(Shared {
            daemon: daemon.trim_start_matches("tcp://").to_owned(),
            plan: Mutex::new(plan),
            cuts: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
            carried: AtomicU64::new(0),
            first: Mutex::default(),
            open: Mutex::default(),
            way: Mutex::new(Way::Open),
        });
        let taking = Arc::clone(&shared);
        std::thread::spawn(move || {
            let mut held = Vec::new();
            let mut is_first = true;
            for client in listener.incoming().map_while(Result::ok) {
                match *lock(&taking.way) {
                    Way::Open => taking.pass_on(client, std::mem::take(&mut is_first)),
                    Way::Closed => drop(client),
                    Way::Silent => held.push(client),
                }
            }
        });
        Self { port, shared }
    }

    /// `tcp://127.0.0.1:PORT`, for clients.
    #[must_use]
    pub fn address(&self) -> String {
        format!("tcp://127.0.0.1:{}", self.port)
    }

    /// The number of connections that the plan has cut.
    #[must_use]
    pub fn cuts(&self) -> usize {
        self.shared.cuts.load(Ordering::SeqCst)
    }

    /// The number of accepted connections that lead to the daemon.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.shared.taken.load(Ordering::SeqCst)
    }

    /// The number of bytes that have passed, in both directions.
    #[must_use]
    pub fn carried(&self) -> u64 {
        self.shared.carried.load(Ordering::SeqCst)
    }

    /// Cuts the next connections after so many bytes each, last first, also before their sessions are there.
    pub fn cut_first(&self, after: Vec<u64>) {
        *lock(&self.shared.first) = after;
    }

    /// Has all connections there are swallow what comes. They stay open, as where a network drops what is sent.
    pub fn swallow(&self) {
        for wire in &*lock(&self.shared.open) {
            wire.swallows.store(true, Ordering::SeqCst);
        }
    }

    /// Decides the fate of connections from here on.
    pub fn set_way(&self, way: Way) {
        *lock(&self.shared.way) = way;
    }

    /// Cuts nothing any more, neither what is there nor what comes.
    pub fn heal(&self) {
        *lock(&self.shared.plan) = Box::new(|| None);
        for wire in &*lock(&self.shared.open) {
            // One that has nothing left is being cut.
            let heal = |left| (left > 0).then_some(u64::MAX);
            let _ = wire.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, heal);
        }
    }

    /// Cuts all connections there are.
    pub fn cut_all(&self) {
        for wire in std::mem::take(&mut *lock(&self.shared.open)) {
            wire.cut();
        }
    }
}

impl Shared {
    /// Has two threads pass on what comes, each in one direction.
    fn pass_on(self: &Arc<Self>, client: TcpStream, is_first: bool) {
        let Ok(daemon) = TcpStream::connect(&self.daemon) else { return };
        let _ = (client.set_nodelay(true), daemon.set_nodelay(true));
        self.taken.fetch_add(1, Ordering::SeqCst);
        let first = lock(&self.first).pop();
        let plan = if first.is_some() || is_first { first } else { (lock(&self.plan))() };
        let left = AtomicU64::new(plan.unwrap_or(u64::MAX));
        let wire = Arc::new(Wire { ends: [client, daemon], left, swallows: AtomicBool::new(false) });
        let mut open = lock(&self.open);
        open.retain(|wire| Arc::strong_count(wire) > 1);
        open.push(Arc::clone(&wire));
        drop(open);
        for from in [0, 1] {
            let (shared, wire) = (Arc::clone(self), Arc::clone(&wire));
            // The daemon's direction shows when the session exists.
            let watched = is_first && first.is_none() && from == 1;
            std::thread::spawn(move || shared.carry(&wire, from, watched));
        }
    }

    fn carry(&self, wire: &Wire, from: usize, mut watched: bool) {
        let (mut from, mut to) = (&wire.ends[from], &wire.ends[1 - from]);
        let (mut buffer, mut begun) = (vec![0; 64 << 10], Beginning::default());
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            if watched && begun.is_over_with(&buffer[..count]) {
                watched = false;
                let left = (lock(&self.plan))();
                wire.left.store(left.unwrap_or(u64::MAX), Ordering::SeqCst);
            }
            if wire.swallows.load(Ordering::SeqCst) {
                continue;
            }
            self.carried.fetch_add(count as u64, Ordering::SeqCst);
            let passes = if watched { count } else { wire.take(count) };
            if to.write_all(&buffer[..passes]).is_err() {
                break;
            }
            if passes < count {
                self.cuts.fetch_add(1, Ordering::SeqCst);
                break;
            }
        }
        wire.cut();
    }
}

/// Follows the daemon's first frames.
#[derive(Default)]
struct Beginning {
    bytes: Vec<u8>,
}

impl Beginning {
    /// Whether the last of them has come with these bytes.
    fn is_over_with(&mut self, bytes: &[u8]) -> bool {
        self.bytes.extend_from_slice(bytes);
        let mut at = 0;
        for _ in 0..FRAMES_BEFORE {
            let Some(length) = self.bytes.get(at..at + 4) else { return false };
            let length = u32::from_le_bytes(length.try_into().expect("four bytes"));
            at += HEAD + usize::try_from(length).expect("addresses have at least 32 bits");
        }
        self.bytes.len() >= at
    }
}

impl Drop for Cutter {
    fn drop(&mut self) {
        self.set_way(Way::Closed);
        self.cut_all();
        // A moment for the threads to see it; the listener's own ends with the test.
        std::thread::sleep(Duration::from_millis(1));
    }
}
