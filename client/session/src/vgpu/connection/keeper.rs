//! Keeps a session connected; the program notices a pause at most. The keeper makes the acknowledgement connection, and
//! all connections again when one has broken, for as long as the server keeps the session. Breaks come in, connections
//! at their channels go out. The session is lost if the server has dropped it, or is not reached in time.

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use floe_abi::CudaError;
use floe_transport::{ACKNOWLEDGEMENT_CHANNEL, Channels, Heard, HistoryDigest, Link, LinkError, LinkState, Wait};

use super::Shared;
use super::dial::Joining;
use super::error::ConnectError;
use super::handshake::CONNECT;
use crate::log::{Level, line, log};
use crate::vgpu::statistics::Statistics;
use floe_lock::lock;

/// Between attempts: the first follows at once, later ones leave a server that starts or a network that comes back its time.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// The same where the server is reached, and connections are cut while the others are made.
const LONGEST_PAUSE_OF_REACHED: Duration = Duration::from_millis(20);
/// The time for which the end of a session waits for a connection for its goodbye. Without a goodbye the server keeps
/// the session for the grace period.
const LAST_WORD: Duration = Duration::from_millis(500);
/// The pause of a program after which the log tells its user why. Shorter pauses concern nobody: the program runs
/// right.
const SILENT_OUTAGE: Duration = Duration::from_secs(2);
/// The time limit of a step of the first attempt to reconnect; each later attempt has twice the time. A network that
/// swallows bytes is found by another attempt, not by waiting.
const FIRST_PATIENCE: Duration = Duration::from_secs(1);
/// The interval at which a thread that waits for the other connections of an epoch checks whether the epoch is over.
const LOOK: Duration = Duration::from_millis(20);

/// Keeps one session's connections.
#[derive(Debug)]
pub(super) struct Keeper {
    joining: Arc<Joining>,
    channels: Channels,
    statistics: Arc<Statistics>,
    /// Held while an epoch begins, and while a channel is frozen for one. So no channel is frozen for a past epoch, and
    /// no new one is missing in the next.
    beginning: Mutex<()>,
    outage: Mutex<Option<Outage>>,
}

/// A time without a link.
#[derive(Debug)]
struct Outage {
    began: Instant,
    /// The connections that broke.
    epoch: u64,
    /// The error of the last attempt.
    last: Option<String>,
    /// The server has the session, and no worker answers: it is suspended or moves.
    is_reached: bool,
    /// The user knows of it.
    told: bool,
}

/// The connections of one epoch, while they are made.
#[derive(Debug)]
struct Round {
    epoch: u64,
    channels: Vec<u32>,
    /// The time limit of each step.
    patience: Duration,
    /// The number of connections not agreed on, with that for acknowledgements.
    left: Mutex<usize>,
    /// Wakes threads that wait for the others.
    agreed: Condvar,
}

/// The outcome of a round.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Made {
    /// The server is not reached.
    None,
    /// It is, and not by all connections.
    Some,
    All,
}

impl Round {
    fn new(epoch: u64, channels: Vec<u32>, patience: Duration) -> Self {
        Self { epoch, left: Mutex::new(channels.len() + 1), agreed: Condvar::new(), channels, patience }
    }

    fn is_whole(&self) -> bool {
        *lock(&self.left) == 0
    }

    /// One more is agreed on. Whether it is the last.
    fn agree(&self) -> bool {
        let mut left = lock(&self.left);
        *left -= 1;
        self.agreed.notify_all();
        *left == 0
    }

    /// Waits until all are agreed on, while `goes_on` holds; returns whether they are. No connection resumes before
    /// each is certain: both sides have the same history there.
    fn await_others(&self, goes_on: impl Fn() -> bool) -> bool {
        let mut left = lock(&self.left);
        while *left > 0 && goes_on() {
            left = floe_lock::wait_timeout(&self.agreed, left, LOOK);
        }
        *left == 0
    }
}

impl Keeper {
    pub(super) fn new(channels: Channels, joining: &Arc<Joining>, statistics: Arc<Statistics>) -> Arc<Self> {
        let joining = Arc::clone(joining);
        Arc::new(Self { joining, channels, statistics, beginning: Mutex::default(), outage: Mutex::default() })
    }

    /// Starts the threads that keep the connections, and that find out when they are dead.
    pub(super) fn start(self: &Arc<Self>, shared: &Arc<Shared>) -> std::io::Result<()> {
        let doubting = Arc::clone(self);
        std::thread::Builder::new().name("floe-heartbeat".into()).spawn(move || doubting.find_dead())?;
        let (own, shared) = (Arc::clone(self), Arc::clone(shared));
        std::thread::Builder::new().name("floe-keep".into()).spawn(move || own.run(&shared)).map(drop)
    }

    /// Something waits for the server, until this is dropped.
    pub(super) fn waiting(&self) -> Wait<'_> {
        self.channels.wait()
    }

    /// Leaves connections on which the server does not answer, if it answers on a new one. Else the server is stopped
    /// or away, and new connections would not help.
    fn find_dead(&self) {
        let mut patience = FIRST_PATIENCE;
        while let Some(doubt) = self.channels.await_doubt() {
            match self.joining.join(self.limit(patience)) {
                Err(error) if !error.is_final() => {
                    log!(Debug, "no answer, and no new connection: {error}");
                    patience = (2 * patience).min(CONNECT);
                }
                Ok(_) | Err(_) => {
                    self.channels.broke_in(doubt);
                    patience = FIRST_PATIENCE;
                }
            }
        }
    }

    fn run(self: &Arc<Self>, shared: &Arc<Shared>) {
        let (mut pause, mut patience) = (SHORTEST_PAUSE, FIRST_PATIENCE);
        while !self.channels.is_over() {
            self.note_outage();
            self.tell_long_outage();
            if self.channels.grace_left().is_zero() {
                return shared.lose(CudaError::DEVICE_UNAVAILABLE, &self.silence());
            }
            let made = self.round(shared, patience);
            if made == Made::All {
                (pause, patience) = (SHORTEST_PAUSE, FIRST_PATIENCE);
            } else if !self.channels.is_over() {
                let longest = if made == Made::Some { LONGEST_PAUSE_OF_REACHED } else { LONGEST_PAUSE };
                std::thread::sleep(pause.min(longest).min(self.channels.grace_left()));
                (pause, patience) = ((2 * pause).min(LONGEST_PAUSE), (2 * patience).min(CONNECT));
            }
        }
    }

    /// Makes the connections that are missing, and hears what has come of what is sent until one of them breaks.
    fn round(self: &Arc<Self>, shared: &Arc<Shared>, patience: Duration) -> Made {
        // The first connections wait for a worker that starts.
        let patience = if lock(&self.outage).is_some() { patience } else { CONNECT };
        let link = match self.join(patience) {
            Ok(link) => link,
            Err(error) => {
                self.failed(shared, &error);
                return Made::None;
            }
        };
        let round = Arc::new(self.begin(patience));
        for channel in round.channels.iter().copied() {
            let (own, shared, of) = (Arc::clone(self), Arc::clone(shared), Arc::clone(&round));
            let thread = std::thread::Builder::new().name("floe-again".into());
            if thread.spawn(move || own.make(&shared, &of, channel)).is_err() {
                self.channels.broke(round.epoch);
            }
        }
        self.listen(shared, &round, link);
        if round.is_whole() { Made::All } else { Made::Some }
    }

    /// Begins with new connections, where those there were have broken.
    fn begin(&self, patience: Duration) -> Round {
        let _beginning = lock(&self.beginning);
        let epoch = self.channels.epoch();
        let has_broken = self.channels.link_state() == LinkState::Broken;
        if has_broken {
            // Also where it did so since the last look.
            self.note_outage();
        }
        let begins = has_broken && self.channels.begin(epoch + 1);
        let (epoch, channels) = if begins { (epoch + 1, self.channels.all()) } else { (epoch, Vec::new()) };
        Round::new(epoch, channels, patience)
    }

    /// Makes the connection for acknowledgements of a joined one, and reads it to its end.
    fn listen(&self, shared: &Shared, round: &Round, link: Link) {
        let epoch = round.epoch;
        let which = (epoch, ACKNOWLEDGEMENT_CHANNEL);
        let Some((link, _)) = self.resume(shared, link, which, HistoryDigest::none(), round.patience) else { return };
        let receiver = self.channels.hear(epoch, link);
        self.is_there(round);
        if let Heard::Contract(error) = self.channels.listen(epoch, receiver) {
            Self::lose_by(shared, "the server acknowledged what cannot be", &error);
        }
    }

    /// Makes one connection of an epoch, and writes on it what the server lacks.
    fn make(&self, shared: &Shared, round: &Round, channel: u32) {
        let epoch = round.epoch;
        let link = match self.join(round.patience) {
            Ok(link) => link,
            Err(error) => {
                self.failed(shared, &error);
                return self.channels.broke(epoch);
            }
        };
        let Some(mark) = self.channels.freeze_in(epoch, channel) else { return };
        let Some((link, mark)) = self.resume(shared, link, (epoch, channel), mark, round.patience) else { return };
        if let Err(error) = self.channels.check(channel, mark) {
            return self.lose_to(shared, epoch, &error);
        }
        self.is_there(round);
        let goes_on = || self.channels.epoch() == epoch && self.channels.link_state() == LinkState::Whole;
        if round.await_others(goes_on) {
            self.attach(shared, epoch, channel, link, mark);
        }
    }

    /// Makes a bulk connection for the first time. Returns the link on its channel, which survives this connection.
    pub(super) fn make_first(&self, shared: &Shared, channel: u32) -> Result<Link, ConnectError> {
        let link = self.join(CONNECT)?;
        let (epoch, mark) = {
            let _beginning = lock(&self.beginning);
            (self.channels.epoch(), self.channels.freeze(channel))
        };
        if let Some((link, mark)) = self.resume(shared, link, (epoch, channel), mark, CONNECT) {
            self.attach(shared, epoch, channel, link, mark);
        }
        Ok(self.channels.link(channel))
    }

    /// Says to the server what this side has on a channel; what the server has. `None`: the connection is of no use, and its
    /// epoch has broken.
    fn resume(
        &self,
        shared: &Shared,
        link: Link,
        (epoch, channel): (u64, u32),
        mark: HistoryDigest,
        patience: Duration,
    ) -> Option<(Link, HistoryDigest)> {
        // The server has the session, and a worker that stands answers nothing: it is asked again before the grace is over.
        let patience = patience.min(self.channels.grace() / 2);
        match self.joining.resume(link, (epoch, channel), mark, patience) {
            Ok(made) => {
                self.channels.heard();
                Some(made)
            }
            Err(error) => {
                // Of an epoch that is over the server may have heard that from another connection.
                if self.channels.epoch() == epoch {
                    self.failed(shared, &error);
                }
                self.channels.broke(epoch);
                None
            }
        }
    }

    /// Resumes a channel, behind what the server has.
    fn attach(&self, shared: &Shared, epoch: u64, channel: u32, link: Link, mark: HistoryDigest) {
        if let Err(error) = self.channels.resume(channel, epoch, link, mark) {
            self.lose_to(shared, epoch, &error);
        }
    }

    /// The server has what it cannot have from here, unless that was for another epoch.
    fn lose_to(&self, shared: &Shared, epoch: u64, error: &LinkError) {
        if self.channels.epoch() == epoch {
            Self::lose_by(shared, "the server has what it cannot have", error);
        }
    }

    fn lose_by(shared: &Shared, what: &str, error: &LinkError) {
        shared.lose(CudaError::DEVICE_UNAVAILABLE, &format!("{what}: {error}"));
    }

    /// An attempt has failed: another may succeed, unless the session does not exist any more.
    fn failed(&self, shared: &Shared, error: &ConnectError) {
        if error.is_final() {
            lock(&self.outage).take();
            if let Some(reason) = error.end() {
                return shared.ended(CudaError::DEVICE_UNAVAILABLE, reason);
            }
            shared.await_own_words();
            let reason =
                format!("it broke, and {error}\n  the session has ended there: the log of the server says why");
            return shared.lose(CudaError::DEVICE_UNAVAILABLE, &reason);
        }
        log!(Debug, "{error}");
        if let Some(outage) = &mut *lock(&self.outage) {
            outage.last = Some(error.to_string());
        }
    }

    /// Says that the link is broken, once.
    fn note_outage(&self) {
        let mut outage = lock(&self.outage);
        if self.channels.link_state() != LinkState::Broken || outage.is_some() {
            return;
        }
        *outage = Some(Outage {
            began: Instant::now(),
            epoch: self.channels.epoch(),
            last: None,
            is_reached: false,
            told: false,
        });
        let (server, grace) = (&self.joining.server, self.channels.grace().as_secs_f32());
        log!(Info, "the connection to {server} broke; the program continues after a reconnect, within {grace} s");
    }

    /// Tells the user why the program stands still, once in an outage.
    fn tell_long_outage(&self) {
        let mut outage = lock(&self.outage);
        let Some(outage) = outage.as_mut().filter(|outage| !outage.told && outage.began.elapsed() >= SILENT_OUTAGE)
        else {
            return;
        };
        outage.told = true;
        let (server, grace) = (&self.joining.server, self.channels.grace().as_secs_f32());
        if outage.is_reached {
            let words = "keeps the session, but no worker answers: the program waits; floe ps shows why";
            line(Level::Error, format_args!("{server} {words}"));
        } else {
            let words = "the program waits for a reconnect, at most";
            line(Level::Error, format_args!("the connection to {server} broke; {words} {grace} s"));
        }
    }

    /// One connection of an epoch is there; with the last of them, the link is.
    fn is_there(&self, round: &Round) {
        if !round.agree() {
            return;
        }
        let mut outage = lock(&self.outage);
        if let Some(over) = outage.take_if(|outage| outage.epoch < round.epoch) {
            let pause = over.began.elapsed();
            self.statistics.made_again(pause);
            let level = if over.told { Level::Error } else { Level::Info };
            let (server, pause) = (&self.joining.server, pause.as_millis());
            line(level, format_args!("reconnected to {server} after {pause} ms"));
        }
    }

    /// Makes one more connection of the session.
    fn join(&self, patience: Duration) -> Result<Link, ConnectError> {
        let joined = self.joining.join(self.limit(patience));
        if let Some(outage) = &mut *lock(&self.outage) {
            outage.is_reached = joined.is_ok();
        }
        let (link, trip) = joined?;
        // The daemon has the session, whatever holds up its worker.
        self.channels.heard();
        self.channels.went(trip);
        Ok(link)
    }

    /// The time limit of one step.
    fn limit(&self, patience: Duration) -> Duration {
        self.channels.grace_left().min(patience)
    }

    /// The reason for the loss of a session whose server is not reached.
    fn silence(&self) -> String {
        let grace = self.channels.grace().as_secs_f32();
        format!("it broke, and no reconnect succeeded within {grace} s")
    }

    /// The error of the last attempt to reconnect, while there is no link.
    pub(super) fn last_trouble(&self) -> Option<String> {
        lock(&self.outage).as_ref()?.last.clone()
    }

    /// Tells the server that this side ends the session.
    pub(super) fn say_goodbye(&self) {
        self.channels.say_goodbye(LAST_WORD);
    }
}
