//! The relay between clients and a server: it listens on this machine and forwards every connection, delayed and paced.
//! In: connections. Out: the same bytes in the same order, at the server and back, at the times of the emulated
//! network.
//! It measures its own delay first and subtracts it, so a program sees the requested round trip.
//! All connections share the bandwidth of each direction, as they would share a wire.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use floe_transport::{Address, sleep_precisely};

use crate::line::Line;
use crate::network::Network;

/// The most bytes of one chunk.
const CHUNK: usize = 64 << 10;
/// The most chunks in flight of one connection and direction: 64 MiB.
const UNDER_WAY: usize = 1024;
/// How far ahead of the wire a sender may be: the length of its queue.
const AHEAD: Duration = Duration::from_millis(1);
/// The end of a wait that polls the clock: sleeps are late by about so long.
const LOOKED: Duration = Duration::from_micros(60);
/// Round trips that measure the relay's own delay.
const OWN_TRIPS: usize = 200;

/// A relay that runs until it is dropped; connections that are open then continue to their end.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    network: Network,
    own: Duration,
    ends: Arc<AtomicBool>,
}

/// Both directions of the network.
#[derive(Clone, Debug)]
struct Wires {
    out: Arc<Mutex<Line>>,
    back: Arc<Mutex<Line>>,
}

/// A chunk in flight.
struct Chunk {
    bytes: Vec<u8>,
    arrives: Instant,
}

impl Relay {
    /// Starts a relay to `server` over an emulated `network`. It measures its own delay, which takes some milliseconds.
    ///
    /// # Errors
    /// When this machine has no free port, or starts no thread.
    pub fn start(network: Network, server: Address) -> io::Result<Self> {
        let own = Self::own_round_trip()?;
        Self::listen(network, own, move || Both::connect(&server))
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The round trip through the relay without any delay: less cannot be emulated here.
    #[must_use]
    pub fn own(&self) -> Duration {
        self.own
    }

    /// The warning for a requested round trip that is too short to emulate here.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let own = self.own;
        let words = || format!("no shorter round trip can be emulated here than {:.0} µs", own.as_secs_f64() * 1e6);
        self.network.round_trip.is_some_and(|asked| asked < own).then(words)
    }

    /// A relay with the own round trip `own`, to the server of `connect`.
    fn listen(
        network: Network,
        own: Duration,
        connect: impl Fn() -> io::Result<Both> + Send + 'static,
    ) -> io::Result<Self> {
        let wires = Wires::new(network, network.round_trip.unwrap_or_default().saturating_sub(own) / 2);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let ends = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&ends);
        std::thread::Builder::new().name("floe-relay".into()).spawn(move || {
            for client in listener.incoming() {
                if ended.load(Ordering::Acquire) {
                    return;
                }
                // A connection that cannot be forwarded is closed, which its client sees.
                let _ = client.and_then(|client| pass_on(client, connect()?, &wires));
            }
        })?;
        Ok(Self { address, network, own, ends })
    }

    /// The round trip through a relay without delay: the median of many.
    fn own_round_trip() -> io::Result<Duration> {
        let echo = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let there = echo.local_addr()?;
        let server = std::thread::spawn(move || -> io::Result<()> {
            let (mut peer, _) = echo.accept()?;
            peer.set_nodelay(true)?;
            let mut byte = [0; 64];
            while peer.read_exact(&mut byte).is_ok() {
                peer.write_all(&byte)?;
            }
            Ok(())
        });
        let connect = move || TcpStream::connect(there).map(Both::Tcp);
        let relay = Self::listen(Network::default(), Duration::ZERO, connect)?;
        let mut stream = TcpStream::connect(relay.address)?;
        stream.set_nodelay(true)?;
        let mut times = Vec::with_capacity(OWN_TRIPS);
        let mut bytes = [1; 64];
        for _ in 0..OWN_TRIPS {
            let begun = Instant::now();
            stream.write_all(&bytes)?;
            stream.read_exact(&mut bytes)?;
            times.push(begun.elapsed());
        }
        drop(stream);
        // It ends with its connection.
        let _ = server.join();
        times.sort_unstable();
        Ok(times[OWN_TRIPS / 2])
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        // Wakes the listening thread, which sees the end; if that fails, it ends with the process.
        let _ = TcpStream::connect(self.address);
    }
}

impl Wires {
    fn new(network: Network, delay: Duration) -> Self {
        let line = || Arc::new(Mutex::new(Line::new(network.bytes_per_second, delay, Instant::now())));
        Self { out: line(), back: line() }
    }
}

/// A connection of either kind.
#[derive(Debug)]
enum Both {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Both {
    fn connect(server: &Address) -> io::Result<Self> {
        match server {
            Address::Tcp { host, port } | Address::Clear { host, port } => {
                TcpStream::connect((host.as_str(), *port)).map(Self::Tcp)
            }
            Address::Unix(path, _) => UnixStream::connect(path).map(Self::Unix),
            // The server's certificate does not name the relay.
            Address::Tls { .. } => Err(io::Error::new(io::ErrorKind::InvalidInput, "TLS cannot be relayed")),
        }
    }

    fn duplicate(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
        }
    }

    fn leave_at_once(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_nodelay(true),
            Self::Unix(_) => Ok(()),
        }
    }

    fn shut(&self, how: Shutdown) {
        // A connection that is gone needs no shutdown.
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(how),
            Self::Unix(stream) => stream.shutdown(how),
        };
    }
}

impl Read for Both {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(bytes),
            Self::Unix(stream) => stream.read(bytes),
        }
    }
}

impl Write for Both {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Forwards one connection in both directions.
fn pass_on(client: TcpStream, server: Both, wires: &Wires) -> io::Result<()> {
    let client = Both::Tcp(client);
    client.leave_at_once()?;
    server.leave_at_once()?;
    carry(client.duplicate()?, server.duplicate()?, Arc::clone(&wires.out))?;
    carry(server, client, Arc::clone(&wires.back))
}

/// One direction: a thread that reads, and a thread that writes in time.
fn carry(from: Both, to: Both, wire: Arc<Mutex<Line>>) -> io::Result<()> {
    let (sender, receiver) = sync_channel(UNDER_WAY);
    let (returns, spare) = sync_channel(UNDER_WAY);
    std::thread::Builder::new().name("floe-relay-in".into()).spawn(move || take_in(from, &wire, &sender, &spare))?;
    std::thread::Builder::new().name("floe-relay-out".into()).spawn(move || let_out(to, &receiver, &returns))?;
    Ok(())
}

fn take_in(mut from: Both, wire: &Mutex<Line>, sender: &SyncSender<Chunk>, spare: &Receiver<Vec<u8>>) {
    sleep_precisely();
    loop {
        let mut bytes = spare.try_recv().unwrap_or_default();
        bytes.resize(CHUNK, 0);
        let Ok(count @ 1..) = from.read(&mut bytes) else { break };
        bytes.truncate(count);
        let passage = floe_lock::lock(wire).pass(count, Instant::now());
        wait_until(passage.left.checked_sub(AHEAD).unwrap_or(passage.left));
        if sender.send(Chunk { bytes, arrives: passage.arrived }).is_err() {
            break;
        }
    }
    from.shut(Shutdown::Read);
}

fn let_out(mut to: Both, receiver: &Receiver<Chunk>, returns: &SyncSender<Vec<u8>>) {
    sleep_precisely();
    while let Ok(Chunk { bytes, arrives }) = next(receiver) {
        wait_until(arrives);
        if to.write_all(&bytes).is_err() {
            break;
        }
        // At the end nobody takes the buffer back.
        let _ = returns.try_send(bytes);
    }
    // Forwards the end of one direction; the other may still carry bytes.
    to.shut(Shutdown::Write);
}

/// The next chunk. It spins for a moment before it sleeps: a wake takes as long as a short round trip.
fn next(receiver: &Receiver<Chunk>) -> Result<Chunk, TryRecvError> {
    let begun = Instant::now();
    while begun.elapsed() < LOOKED {
        match receiver.try_recv() {
            Err(TryRecvError::Empty) => std::thread::yield_now(),
            come => return come,
        }
    }
    receiver.recv().map_err(|_| TryRecvError::Disconnected)
}

fn wait_until(time: Instant) {
    if let Some(sleep) = time.saturating_duration_since(Instant::now()).checked_sub(LOOKED) {
        std::thread::sleep(sleep);
    }
    while Instant::now() < time {
        std::thread::yield_now();
    }
}
