//! NCCL's connections between workers: made by the daemon's dialer, opened with the key of a unique id.
//! In: addresses of workers, as NCCL passes them on. Out: sockets of which both ends have proved the key, on which nothing of
//! floe's follows.
//! It connects to workers of this server and of those that the operator named, and to nothing else.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use floe_abi::CudaError;
use floe_device::Device;
use floe_device::nccl::sockets::{self, Network, Place};
use floe_transport::LinkError;
use floe_wire::{AbortCommReply, Field as _};

use crate::issue::fault::Fault;
use crate::life::shared::Shared;
use crate::peer::link::opening::{OpeningError, PATIENCE, Port, connect_port};

/// Servers that are asked for a worker: this one and those that the operator named.
const MOST_SERVERS: usize = 65;
/// Attempts where the daemon makes too many connections already, or a worker does not take one more now.
const ATTEMPTS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(20);

/// The way to a worker, as it was found.
#[derive(Clone, Copy, Debug)]
struct Way {
    server: usize,
    ticket: u64,
}

/// A session's connections for NCCL.
pub(crate) struct Ways<D: Device> {
    shared: Weak<Shared<D>>,
    place: Place,
    known: Mutex<BTreeMap<Place, Way>>,
}

/// Why a way leads nowhere.
#[derive(Debug, PartialEq, Eq)]
enum Closed {
    /// There are no more servers.
    NoServer,
    /// This server or key is the wrong one.
    Wrong,
    /// The other end has closed the connection: the key is the wrong one, or more connections wait there than it takes.
    Broken,
    /// The worker is there and refuses.
    Refused,
}

impl<D: Device> Ways<D> {
    pub(crate) fn new(shared: &Arc<Shared<D>>) -> Self {
        Self { shared: Arc::downgrade(shared), place: shared.collectives.place, known: Mutex::default() }
    }

    fn find(&self, shared: &Shared<D>, to: Place, port: u16) -> Result<OwnedFd, Closed> {
        again(PATIENCE, || self.find_once(shared, to, port))
    }

    fn find_once(&self, shared: &Shared<D>, to: Place, port: u16) -> Result<OwnedFd, Closed> {
        let known = floe_lock::lock(&self.known).get(&to).copied();
        if let Some(way) = known {
            return self.go(shared, way, to, port);
        }
        let mut nowhere = Closed::NoServer;
        for server in 0..MOST_SERVERS {
            for (ticket, _) in shared.collectives.keys.all() {
                let way = Way { server, ticket };
                match self.go(shared, way, to, port) {
                    Err(Closed::Wrong) => {}
                    Err(Closed::Broken) => nowhere = Closed::Broken,
                    Err(Closed::NoServer) => return Err(nowhere),
                    found => {
                        floe_lock::lock(&self.known).insert(to, way);
                        return found;
                    }
                }
            }
        }
        Err(nowhere)
    }

    fn go(&self, shared: &Shared<D>, way: Way, to: Place, port: u16) -> Result<OwnedFd, Closed> {
        let socket = dial(shared, way.server)?;
        let key = shared.collectives.keys.of_ticket(way.ticket).ok_or(Closed::Wrong)?;
        let session = u64::from_be_bytes(to.last_chunk().copied().unwrap_or_default());
        let wanted = Port { session, ticket: way.ticket, secret: key.secret(session, way.ticket), place: to, port };
        match connect_port(socket, &wanted, Instant::now() + PATIENCE) {
            Ok(Some(socket)) => Ok(socket),
            Ok(None) => Err(Closed::Refused),
            Err(error) => Err(closed(&error)),
        }
    }
}

/// Tries again what broke, so many times and no longer than this: NCCL does nothing else meanwhile, nor ends.
fn again<T>(patience: Duration, mut find: impl FnMut() -> Result<T, Closed>) -> Result<T, Closed> {
    let until = Instant::now() + patience;
    for _ in 1..ATTEMPTS {
        match find() {
            Err(Closed::Broken) if Instant::now() < until => std::thread::sleep(PAUSE),
            found => return found,
        }
    }
    find()
}

/// Who says nothing for so long has room and does not answer: it is not asked again.
fn closed(error: &OpeningError) -> Closed {
    match error {
        OpeningError::Link(LinkError::TimedOut { .. }) => Closed::Wrong,
        OpeningError::Link(_) | OpeningError::Closed => Closed::Broken,
        _ => Closed::Wrong,
    }
}

/// A connection to a server by its place in the daemon's list.
fn dial<D: Device>(shared: &Shared<D>, server: usize) -> Result<OwnedFd, Closed> {
    for _ in 0..ATTEMPTS {
        match shared.hub.dial(&format!("*{server}"), 1) {
            Ok(mut sockets) => return sockets.pop().ok_or(Closed::Wrong),
            Err(Fault::Explained(CudaError::OUT_OF_MEMORY, _)) => std::thread::sleep(PAUSE),
            Err(Fault::Explained(CudaError::NOT_PERMITTED, _)) => return Err(Closed::NoServer),
            Err(_) => return Err(Closed::Wrong),
        }
    }
    Err(Closed::Wrong)
}

impl<D: Device> Network for Ways<D> {
    fn place(&self) -> Place {
        self.place
    }

    fn connect(&self, to: Place, port: u16) -> io::Result<OwnedFd> {
        let refused = || io::Error::from_raw_os_error(libc::ECONNREFUSED);
        if to == self.place {
            let (own, other) = pair()?;
            return if sockets::deliver(port, other) { Ok(own) } else { Err(refused()) };
        }
        let shared = self.shared.upgrade().ok_or_else(refused)?;
        self.find(&shared, to, port).map_err(|closed| match closed {
            Closed::Refused => refused(),
            Closed::Wrong | Closed::Broken => io::Error::from_raw_os_error(libc::ETIMEDOUT),
            Closed::NoServer => {
                shared.log.line(format_args!(
                    "no server that this one may connect to has the worker of a communicator: name it with --peer"
                ));
                io::Error::from_raw_os_error(libc::ENETUNREACH)
            }
        })
    }
}

/// Aborts a communicator on a thread of its own, which answers. One that is unknown has ended already.
pub(crate) fn abort<D: Device>(shared: &Arc<Shared<D>>, sequence: u64, id: u64) {
    let this = Arc::clone(shared);
    let run = move || {
        let _ = this.device.enter();
        let aborted = match (this.collectives.take(id), this.collectives.nccl()) {
            (Some(ready), Ok(nccl)) => this.collectives.abort(&nccl, ready.comm),
            _ => Ok(()),
        };
        this.collectives.end_waiting();
        let (result, words) = aborted.err().map_or((0, String::new()), |error| (error.code, error.words));
        let mut body = Vec::new();
        AbortCommReply { result, words: &words }.write(&mut body);
        // A client that is gone needs no answer.
        let _ = this.reply(sequence, 0, "", &body);
    };
    if shared.collectives.begin_waiting().is_err() {
        let _ = shared.reply(sequence, CudaError::OUT_OF_MEMORY.code(), "too many calls wait in NCCL", &[]);
    } else if std::thread::Builder::new().name("floe-nccl".into()).spawn(run).is_err() {
        shared.collectives.end_waiting();
        let _ = shared.reply(sequence, CudaError::OPERATING_SYSTEM.code(), "no thread for NCCL", &[]);
    }
}

fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    Ok(socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use crate::peer::proof::{KEY_BYTES, Key};

    fn end_of(socket: OwnedFd, patience: Duration) -> Closed {
        let secret = Key::of(&[1; KEY_BYTES]).unwrap().secret(7, 5);
        let wanted = Port { session: 7, ticket: 5, secret, place: [0; 16], port: 1 };
        closed(&connect_port(socket, &wanted, Instant::now() + patience).unwrap_err())
    }

    #[test]
    fn a_worker_that_closes_is_asked_again_and_one_that_says_nothing_is_not() {
        let (silent, _kept) = pair().unwrap();
        assert_eq!(end_of(silent, Duration::from_millis(20)), Closed::Wrong);
        let (crowded, other) = pair().unwrap();
        drop(other);
        assert_eq!(end_of(crowded, PATIENCE), Closed::Broken);
    }

    #[test]
    fn what_breaks_is_tried_again_for_a_while_and_no_longer() {
        let (mut slow, mut fast) = (0, 0);
        let breaks = |count: &mut u32, lasts| {
            *count += 1;
            std::thread::sleep(lasts);
            Err::<(), Closed>(Closed::Broken)
        };
        let lasts = Duration::from_millis(60);
        assert_eq!(again(lasts, || breaks(&mut slow, lasts)), Err(Closed::Broken));
        assert_eq!(slow, 1);
        let hours = Duration::from_secs(10_000);
        assert_eq!(again(hours, || breaks(&mut fast, Duration::ZERO)), Err(Closed::Broken));
        assert_eq!(fast, ATTEMPTS);
        let mut answers = Vec::from([Ok(5), Err(Closed::Broken)]);
        assert_eq!(again(hours, || answers.pop().unwrap()), Ok(5));
    }
}
