//! Connections that join a session.
//! In: connections whose clients knew the session's key, passed by the daemon. Out: each connection at its place. A
//! bulk connection goes to its reader and writer; a resumable session's connection says itself which one it is.
//! A client that says what cannot be ends its session; one that says nothing in time loses its connection and nothing else.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use floe_abi::CudaError;
use floe_device::Device;
use floe_transport::{
    ACKNOWLEDGEMENT_CHANNEL, Admission, Channels, Heard, HistoryDigest, Link, LinkError, MAIN_CHANNEL,
    Receiver as LinkReceiver, Sender,
};
use floe_wire::{Continue, ContinueReply, Decode as _, Field as _, Message as _, Reply, SETUP_PAYLOAD_LIMIT};

use super::ending::{Ending, InputEnd};
use super::parking::Parking;
use super::shared::Shared;
use super::threads::Threads;
use crate::daemon::cache_channel::CacheEnd;
use crate::daemon::descriptor_passing::{Passed, Role, Taker};
use crate::peer::link::opening;
use crate::wire_in::rest::Rest;
use crate::wire_in::stripes;

/// The longest time in which a client that has joined says which connection it is, and reads the answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Connections that have not said yet which they are: a client makes ten at a time.
const MOST_UNKNOWN: usize = 64;

/// The source of the connections that join.
#[derive(Debug, Default)]
pub struct Joining {
    /// Those that came before the session's own.
    pub early: Vec<Link>,
    /// Those that come.
    pub taker: Option<Taker>,
    /// Those that another thread takes.
    pub(crate) passed: Option<Receiver<Passed>>,
}

impl Joining {
    /// Those that came, and those that come.
    #[must_use]
    pub fn new(early: Vec<Link>, taker: Option<Taker>) -> Self {
        Self { early, taker, passed: None }
    }

    /// Has a thread take what the daemon passes from here on: notices among it go to who waits for them, and connections
    /// wait until somebody has them join.
    pub(crate) fn take_ahead(&mut self, threads: &Threads) -> Result<(), Ending> {
        let Some(taker) = self.taker.take() else { return Ok(()) };
        let (pass, passed) = channel();
        self.passed = Some(passed);
        threads.start("floe-take", move || {
            while let Ok(Some(next)) = taker.take() {
                if pass.send(next).is_err() {
                    break;
                }
            }
            None
        })
    }

    /// The way to the cache of modules, if it was passed already.
    pub(crate) fn modules(&mut self) -> Option<CacheEnd> {
        let mut modules = None;
        for passed in self.passed.iter().flat_map(Receiver::try_iter) {
            match passed {
                Passed::Modules(end) => modules = Some(end),
                Passed::Connection(Role::Joined, link) => self.early.push(link),
                // Nothing expects a peer yet.
                Passed::Connection(Role::Peer | Role::Session, _) => {}
            }
        }
        modules
    }

    fn next(&self) -> Option<Passed> {
        match (&self.passed, &self.taker) {
            (Some(passed), _) => passed.recv().ok(),
            (None, Some(taker)) => taker.take().ok().flatten(),
            (None, None) => None,
        }
    }

    /// Has `join` take each connection of the client's, until the daemon gives no more; those of other servers' workers go to
    /// the session's peer links.
    ///
    /// # Errors
    /// Those of `join`.
    pub(crate) fn each<E, D: Device>(
        self,
        shared: &Arc<Shared<D>>,
        mut join: impl FnMut(Link) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut joining = self;
        std::mem::take(&mut joining.early).into_iter().try_for_each(&mut join)?;
        loop {
            match joining.next() {
                Some(Passed::Connection(Role::Joined, link)) => join(link)?,
                Some(Passed::Connection(Role::Peer, link)) => opening::welcome(shared, link),
                _ => return Ok(()),
            }
        }
    }
}

/// Has every connection that joins carry bulk data.
pub(crate) fn take_all<D: Device>(shared: &Arc<Shared<D>>, joining: Joining, threads: &Threads) -> Result<(), Ending> {
    let (shared, of_each, mut joining) = (Arc::clone(shared), threads.clone(), Some(joining));
    let of_all = Arc::clone(&shared);
    let take = move |link: Link| {
        // The daemon's limit was for the handshake.
        link.limit_writes(None).map_err(|error| Ending::Link(error.to_string()))?;
        carry(&shared, link.halves(), &of_each, |_, _| ())
    };
    threads.start("floe-join", move || joining.take()?.each(&of_all, &take).err())
}

/// Has a link carry bulk data, with a thread that reads it; `park` is shown both directions first.
fn carry<D: Device>(
    shared: &Arc<Shared<D>>,
    (sender, mut receiver): (Sender, LinkReceiver),
    threads: &Threads,
    park: impl FnOnce(Arc<Rest>, Sender),
) -> Result<(), Ending> {
    sender.count(shared.carried.link());
    receiver.count(shared.carried.link());
    let rest = Rest::of(&receiver);
    park(Arc::clone(&rest), sender.clone());
    shared.stripes.add(sender).map_err(|error| Ending::no_thread(&error))?;
    let (shared, mut receiver) = (Arc::clone(shared), Some(receiver));
    threads.start("floe-bulk-read", move || {
        rest.run(receiver.take()?, |receiver| stripes::read(&shared, receiver)).ending()
    })
}

/// Takes connections of a session that outlives them.
pub(crate) struct Reception<D: Device> {
    shared: Arc<Shared<D>>,
    channels: Channels,
    /// The most connections with bulk data.
    bulk_connections: u32,
    threads: Threads,
    parking: Parking<D>,
    /// Held while a connection is agreed on: none is frozen for an epoch that is over.
    agreeing: Mutex<()>,
    unknown: AtomicUsize,
}

/// A connection as its client names it, and what it was answered.
struct Agreed {
    epoch: u64,
    channel: u32,
    /// The bytes of this channel that the client has received.
    peer: HistoryDigest,
}

/// Why a connection is not taken.
enum Refused {
    /// It is of no use any more; nobody else notices.
    Late(String),
    /// The session stands, and may go on in another worker: its client is to try again, which an answer would end.
    Stands,
    /// It cannot be.
    ProtocolViolation(String),
    /// Something else has ended the session, or does now.
    Ending(Ending),
}

impl<D: Device> Reception<D> {
    /// The session's own connection is there, of the first epoch.
    pub(crate) fn new(
        shared: Arc<Shared<D>>,
        channels: Channels,
        bulk_connections: u32,
        threads: Threads,
        parking: Parking<D>,
    ) -> Arc<Self> {
        let (agreeing, unknown) = (Mutex::default(), AtomicUsize::new(0));
        Arc::new(Self { shared, channels, bulk_connections, threads, parking, agreeing, unknown })
    }

    /// Has a channel carry bulk data.
    pub(crate) fn carry(&self, channel: u32, ends: (Sender, LinkReceiver)) -> Result<(), Ending> {
        carry(&self.shared, ends, &self.threads, |rest, sender| self.parking.add_bulk(channel, rest, sender))
    }

    /// Takes every connection, each on a thread of its own: what the client lacks there may take long to write.
    pub(crate) fn take_all(self: Arc<Self>, joining: Joining) -> Result<(), Ending> {
        let (threads, mut joining) = (self.threads.clone(), Some(joining));
        threads.start("floe-join", move || {
            let welcomed: Result<(), Ending> = joining.take()?.each(&self.shared, |link| {
                self.welcome(link);
                Ok(())
            });
            welcomed.err()
        })
    }

    fn welcome(self: &Arc<Self>, link: Link) {
        if self.unknown.fetch_add(1, Ordering::Relaxed) >= MOST_UNKNOWN {
            self.unknown.fetch_sub(1, Ordering::Relaxed);
            return self.shared.log.line(format_args!("more connections than {MOST_UNKNOWN} joined and said nothing"));
        }
        let (this, mut link) = (Arc::clone(self), Some(link));
        if self.threads.start("floe-channel", move || this.take(link.take()?)).is_err() {
            // The connection is closed, and the client tries again.
            self.unknown.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Takes one connection; why the session is over, where it is for that.
    fn take(&self, mut link: Link) -> Option<Ending> {
        let agreed = self.agree(&mut link);
        self.unknown.fetch_sub(1, Ordering::Relaxed);
        let Agreed { epoch, channel, peer } = match agreed {
            Ok(agreed) => agreed?,
            Err(ending) => return Some(ending),
        };
        if link.limit_writes(None).is_err() {
            self.channels.broke(epoch);
            return None;
        }
        if let Some(socket) = link.socket() {
            self.threads.watchdog().connected(epoch, socket);
        }
        if channel == ACKNOWLEDGEMENT_CHANNEL {
            let receiver = self.channels.hear(epoch, link);
            return match self.channels.listen(epoch, receiver) {
                Heard::Broke => None,
                Heard::Contract(error) => Some(Ending::ProtocolViolation(error.to_string())),
            };
        }
        let went_on = self.channels.resume(channel, epoch, link, peer);
        went_on.err().map(|error| Ending::ProtocolViolation(error.to_string()))
    }

    /// Hears which connection it is and answers; `None`: it is of no use.
    fn agree(&self, link: &mut Link) -> Result<Option<Agreed>, Ending> {
        let Some((request, message)) = heard(link)? else { return Ok(None) };
        let Continue { epoch, channel, received, digest } = message;
        let (status, detail, here) = match self.admit(&message) {
            Ok(mark) => (0, String::new(), mark),
            Err(Refused::Stands) => return Ok(None),
            Err(Refused::Late(words)) => (CudaError::INVALID_VALUE.code(), words, HistoryDigest::none()),
            Err(Refused::ProtocolViolation(words)) => return Err(Ending::ProtocolViolation(words)),
            Err(Refused::Ending(ending)) => return Err(ending),
        };
        // Before the answer: whatever the client does next, it can reconnect.
        if status == 0 && channel == ACKNOWLEDGEMENT_CHANNEL {
            self.shared.client.has_acknowledgements();
        }
        let mut body = Vec::new();
        ContinueReply { received: here.received, digest: here.digest }.write(&mut body);
        let answered = link.send(&Reply { request, status, earlier: 0, detail: &detail, body: &body });
        if status != 0 {
            return Ok(None);
        }
        if answered.is_err() {
            self.channels.broke(epoch);
            return Ok(None);
        }
        Ok(Some(Agreed { epoch, channel, peer: HistoryDigest { received, digest } }))
    }

    /// Whether a connection may resume its channel. Returns what has arrived there; nothing is read before the channel
    /// resumes.
    fn admit(&self, message: &Continue) -> Result<HistoryDigest, Refused> {
        let &Continue { epoch, channel, received, digest } = message;
        let violation = |words: String| Err(Refused::ProtocolViolation(words));
        let is_bulk = (1..=self.bulk_connections).contains(&channel);
        if !is_bulk && ![MAIN_CHANNEL, ACKNOWLEDGEMENT_CHANNEL].contains(&channel) {
            return violation(format!("no connection of the session has the channel: {channel}"));
        }
        let _agreeing = floe_lock::lock(&self.agreeing);
        match self.channels.admit(epoch, channel) {
            Admission::Taken => {}
            Admission::Parked => return Err(Refused::Stands),
            Admission::Late { now } => {
                return Err(Refused::Late(format!("not a connection of epoch {now}: {epoch}")));
            }
            Admission::Twice => return violation(format!("channel {channel} has a connection of epoch {epoch}")),
        }
        if is_bulk && !self.channels.has(channel) {
            self.carry(channel, self.channels.link(channel).halves()).map_err(Refused::Ending)?;
        }
        // Checked before the client resumes any channel: its bytes may differ in history on this channel only.
        self.channels
            .check(channel, HistoryDigest { received, digest })
            .map_err(|error| Refused::ProtocolViolation(error.to_string()))?;
        Ok(self.channels.freeze(channel))
    }
}

/// A joined client's first message and its frame's sequence; `None`: it has gone, or says nothing.
fn heard(link: &mut Link) -> Result<Option<(u64, Continue)>, Ending> {
    link.limit_payload(SETUP_PAYLOAD_LIMIT);
    if link.limit_writes(Some(PATIENCE)).is_err() {
        return Ok(None);
    }
    let frame = match link.receive(Some(Instant::now() + PATIENCE)) {
        Ok(Some(frame)) => frame,
        Ok(None) => return Ok(None),
        Err(error) => return not_heard(error),
    };
    if frame.kind != Continue::KIND {
        let words =
            format!("a connection that has joined says first: {:#06x}, not {:#06x}", frame.kind, Continue::KIND);
        return Err(Ending::ProtocolViolation(words));
    }
    let message = Continue::decode(frame.payload).map_err(|error| Ending::ProtocolViolation(error.to_string()))?;
    Ok(Some((frame.sequence, message)))
}

fn not_heard<T>(error: LinkError) -> Result<Option<T>, Ending> {
    match error.into() {
        InputEnd::ProtocolViolation(words) => Err(Ending::ProtocolViolation(words)),
        InputEnd::Closed | InputEnd::Over | InputEnd::Stopped | InputEnd::Link(_) => Ok(None),
    }
}
