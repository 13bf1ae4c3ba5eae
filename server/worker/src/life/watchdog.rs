//! Ends this process when nothing else does.
//! In: words of other threads (a connection, the device is there, the session is over) and whether connections are there, as
//! the system knows it. Out: the end of the process, at the latest when a session that is over has had its time.
//! It waits for nothing that another thread may hold or be stuck in: no driver, no lock, no log, no pipe that is full.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};
use std::{array, io};

use floe_transport::Link;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};

/// The time in which threads end a session that is over: its last message, and the reason in the log.
const FAREWELL: Duration = Duration::from_secs(5);
/// The longest start of a driver for a client that has left; nobody takes its connections meanwhile.
const START: Duration = Duration::from_secs(60);
/// Connections of one epoch that are watched: more than a session has. Each of them tells that the epoch is over.
const MOST: usize = 32;
/// The tries of a thread to hand in a connection, a millisecond apart: the watchdog takes them at once.
const LOOKS: u32 = 1000;

/// The way to the thread that watches; threads share it by cloning.
#[derive(Clone, Debug)]
pub struct Watchdog {
    /// `None`: nobody watches.
    way: Option<Arc<Way>>,
}

/// A socket for words, and places where connections lie with their epochs until whoever watches takes them. Nobody holds a
/// place for longer than it takes to lay one down, and it is not waited for.
#[derive(Debug)]
struct Way {
    words: OwnedFd,
    places: Arc<Places>,
}

type Places = [Mutex<Option<(u64, OwnedFd)>>; MOST];

impl Way {
    /// Lays a connection down. False: there is no place.
    fn lay_down(&self, connection: &mut Option<(u64, OwnedFd)>) -> bool {
        self.places.iter().any(|place| {
            let mut place = floe_lock::lock(place);
            if place.is_none() {
                *place = connection.take();
                return true;
            }
            false
        })
    }
}

/// The watchdog's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    /// A connection lies there.
    Connected,
    /// The device is there: connections are taken from here on.
    Serves,
    /// The client has said that it leaves.
    Left,
    /// An ending is known.
    Over,
    /// The session is parked here, or has not begun here: no connection is missing.
    Rests,
    /// It goes on here.
    GoesOn,
}

impl Word {
    fn encode(self) -> [u8; 1] {
        [match self {
            Self::Connected => 0,
            Self::Serves => 1,
            Self::Left => 2,
            Self::Over => 3,
            Self::Rests => 4,
            Self::GoesOn => 5,
        }]
    }

    fn decode([word]: [u8; 1]) -> Self {
        match word {
            0 => Self::Connected,
            1 => Self::Serves,
            2 => Self::Left,
            4 => Self::Rests,
            5 => Self::GoesOn,
            _ => Self::Over,
        }
    }
}

impl Watchdog {
    /// Nobody watches: for tests of the rest.
    #[must_use]
    pub fn nobody() -> Self {
        Self { way: None }
    }

    /// Starts the thread that watches a session which outlives its connections by `grace`, and the daemon, at the other end of
    /// this pipe. It calls `end` once.
    ///
    /// # Errors
    /// When the system gives no sockets or no thread.
    pub fn start(grace: Duration, daemon: OwnedFd, end: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let (way, words) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let places: Arc<Places> = Arc::new(array::from_fn(|_| Mutex::new(None)));
        let (case, laid_down) = (Case::new(grace), Arc::clone(&places));
        let watch = Watch { words, laid_down, daemon: Some(daemon), connections: Vec::with_capacity(MOST), case };
        std::thread::Builder::new().name("floe-watchdog".into()).spawn(move || {
            watch.until_over();
            end();
        })?;
        Ok(Self { way: Some(Arc::new(Way { words: way, places })) })
    }

    /// The session's own connection is there, the first of the first epoch.
    pub fn begins(&self, link: &Link) {
        if let Some(socket) = link.socket() {
            self.connected(1, socket);
        }
    }

    /// The socket of rings that another worker had is there.
    pub fn continues_on(&self, socket: BorrowedFd<'_>) {
        self.connected(1, socket);
    }

    /// A connection of an epoch is there. It is shut down, and not only closed, when this side ends it.
    pub(crate) fn connected(&self, epoch: u64, socket: BorrowedFd<'_>) {
        let Some(way) = &self.way else { return };
        // One that cannot be duplicated, for want of descriptors, is not watched: its reader sees its end.
        let mut connection = socket.try_clone_to_owned().ok().map(|socket| (epoch, socket));
        for _ in 0..LOOKS {
            if connection.is_none() || way.lay_down(&mut connection) {
                return self.say(Word::Connected);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// From here on the worker takes the connections that the daemon passes.
    pub(crate) fn serves(&self) {
        self.say(Word::Serves);
    }

    /// The session is parked here, or has not begun here: its client is not missed before [`Watchdog::goes_on`].
    pub fn rests(&self) {
        self.say(Word::Rests);
    }

    /// The session goes on here: a client that is missing has all of the grace period from now on.
    pub fn goes_on(&self) {
        self.say(Word::GoesOn);
    }

    /// The client will not make its connections again.
    pub(crate) fn client_left(&self) {
        self.say(Word::Left);
    }

    /// Why the session is over is known: from here on nothing keeps the process for long.
    pub fn is_over(&self) {
        self.say(Word::Over);
    }

    fn say(&self, word: Word) {
        let Some(way) = &self.way else { return };
        while send(&way.words, &word.encode(), SendFlags::NOSIGNAL) == Err(Errno::INTR) {}
    }
}

/// When a session has to be over. Pure: it has no clock but the instants it is given.
#[derive(Debug)]
struct Case {
    grace: Duration,
    serves: bool,
    left: bool,
    rests: bool,
    epoch: u64,
    /// Since when the connections of the last epoch are not all there.
    broken: Option<Instant>,
    over: Option<Instant>,
}

impl Case {
    fn new(grace: Duration) -> Self {
        Self { grace, serves: false, left: false, rests: false, epoch: 0, broken: Some(Instant::now()), over: None }
    }

    /// Whether to watch a connection of this epoch: if it is newer than the last, the session continues on it.
    fn goes_on(&mut self, epoch: u64) -> bool {
        if epoch > self.epoch {
            (self.epoch, self.broken) = (epoch, None);
        }
        epoch == self.epoch && self.broken.is_none()
    }

    fn breaks(&mut self, now: Instant) {
        self.broken.get_or_insert(now);
    }

    fn rests(&mut self) {
        self.rests = true;
    }

    fn ends_rest(&mut self, now: Instant) {
        self.rests = false;
        if self.broken.is_some() {
            self.broken = Some(now);
        }
    }

    fn ends(&mut self, now: Instant) {
        self.over.get_or_insert(now);
    }

    /// Until when threads may end it by themselves.
    fn deadline(&self) -> Option<Instant> {
        let patience = match (self.left, self.serves) {
            (true, _) => Duration::ZERO,
            (false, true) => self.grace,
            (false, false) => self.grace.max(START),
        };
        let broken = self.broken.filter(|_| !self.rests).and_then(|since| since.checked_add(patience));
        broken.into_iter().chain(self.over).min().map(|since| since + FAREWELL)
    }
}

/// The thread's state.
struct Watch {
    words: OwnedFd,
    laid_down: Arc<Places>,
    /// Until it is gone.
    daemon: Option<OwnedFd>,
    /// Those of the last epoch, while all are there.
    connections: Vec<OwnedFd>,
    case: Case,
}

/// The descriptors to poll.
struct Seen {
    word: bool,
    daemon_gone: bool,
    connection_gone: bool,
}

impl Watch {
    fn until_over(mut self) {
        while let Some(seen) = self.wait() {
            let now = Instant::now();
            if seen.daemon_gone {
                self.daemon = None;
                self.case.ends(now);
            }
            if seen.connection_gone {
                self.connections.clear();
                self.case.breaks(now);
            }
            if seen.word && !self.take_word(now) {
                return;
            }
        }
    }

    /// Waits until something is to be looked at; `None`: the time is over.
    fn wait(&self) -> Option<Seen> {
        let deadline = self.case.deadline();
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return None;
        }
        // Absent descriptors ask for no events: an array needs no memory.
        let mut watched: [PollFd<'_>; MOST + 2] = array::from_fn(|index| match index {
            0 => PollFd::new(&self.words, PollFlags::IN),
            // A pipe that nobody reads any more has an error, which poll always reports.
            1 => PollFd::from_borrowed_fd(
                self.daemon.as_ref().map_or(self.words.as_fd(), |pipe| pipe.as_fd()),
                PollFlags::empty(),
            ),
            index => match self.connections.get(index - 2) {
                Some(connection) => PollFd::new(connection, PollFlags::RDHUP),
                None => PollFd::from_borrowed_fd(self.words.as_fd(), PollFlags::empty()),
            },
        });
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        if !matches!(poll(&mut watched, left.as_ref()), Ok(1..)) {
            return Some(Seen { word: false, daemon_gone: false, connection_gone: false });
        }
        let is_told = |index: usize| !watched[index].revents().is_empty();
        let connection_gone = (0..self.connections.len()).any(|index| is_told(index + 2));
        Some(Seen { word: is_told(0), daemon_gone: self.daemon.is_some() && is_told(1), connection_gone })
    }

    /// False: there is nobody any more who could say one.
    fn take_word(&mut self, now: Instant) -> bool {
        let mut word = [0];
        match recv(&self.words, &mut word[..], RecvFlags::DONTWAIT) {
            Ok((_, 0)) => return false,
            Ok(_) => {}
            Err(_) => return true,
        }
        match Word::decode(word) {
            Word::Connected => self.take_connections(),
            Word::Serves => self.case.serves = true,
            Word::Left => self.case.left = true,
            Word::Over => self.case.ends(now),
            Word::Rests => self.case.rests(),
            Word::GoesOn => self.case.ends_rest(now),
        }
        true
    }

    /// Takes the connections that lie there. A thread that lays one down at this moment sends its word afterwards.
    fn take_connections(&mut self) {
        for place in 0..MOST {
            let taken = match self.laid_down[place].try_lock() {
                Ok(mut place) => place.take(),
                Err(TryLockError::Poisoned(place)) => place.into_inner().take(),
                Err(TryLockError::WouldBlock) => None,
            };
            let Some((epoch, connection)) = taken else { continue };
            if epoch > self.case.epoch {
                self.connections.clear();
            }
            if self.case.goes_on(epoch) && self.connections.len() < MOST {
                self.connections.push(connection);
            }
        }
    }
}

#[cfg(test)]
mod tests;
