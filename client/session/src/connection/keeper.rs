//! What keeps a session on its connections. It makes the one for acknowledgements, and all of them anew when one has broken,
//! for as long as the server keeps the session: the program notices a pause at most. Breaks come in, connections at their
//! places go out. A server that has given the session up, or is not reached in time, loses it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use floe_abi::CudaError;
use floe_transport::{ACKNOWLEDGEMENTS_PLACE, Heard, Link, Places, Standing};
use floe_wire::Continue;

use super::Shared;
use super::dial::Joining;
use super::error::ConnectError;
use super::handshake::CONNECT;
use crate::log::log;
use crate::statistics::Statistics;
use crate::table::lock;

/// Between attempts: the first follows at once, later ones leave a server that starts or a network that comes back its time.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// How long the end of a session waits for a connection to say so on. A server that is not told keeps it for the grace period.
const LAST_WORD: Duration = Duration::from_millis(500);

/// How long what a session has said last may take to who reads it.
const OWN_WORDS: Duration = Duration::from_millis(100);

/// Keeps one session's connections.
#[derive(Debug)]
pub(super) struct Keeper {
    joining: Arc<Joining>,
    places: Places,
    statistics: Arc<Statistics>,
    /// Held where an epoch begins, and where a place is frozen for one: none is for an epoch that is over, and none that is
    /// new is missing in the next.
    beginning: Mutex<()>,
    outage: Mutex<Option<Outage>>,
}

/// A time without a link.
#[derive(Debug)]
struct Outage {
    began: Instant,
    /// The connections that broke.
    epoch: u64,
    /// What the last attempt came to.
    last: Option<String>,
}

/// The connections of one epoch, while they are made.
#[derive(Debug)]
struct Round {
    epoch: u64,
    places: Vec<u32>,
    /// How many are not there, that for acknowledgements among them.
    left: AtomicUsize,
}

impl Round {
    fn is_whole(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0
    }
}

impl Keeper {
    pub(super) fn new(places: Places, joining: &Arc<Joining>, statistics: Arc<Statistics>) -> Arc<Self> {
        let joining = Arc::clone(joining);
        Arc::new(Self { joining, places, statistics, beginning: Mutex::default(), outage: Mutex::default() })
    }

    /// Starts the thread that keeps the connections.
    pub(super) fn start(self: &Arc<Self>, shared: &Arc<Shared>) -> std::io::Result<()> {
        let (own, shared) = (Arc::clone(self), Arc::clone(shared));
        std::thread::Builder::new().name("floe-keep".into()).spawn(move || own.run(&shared)).map(drop)
    }

    fn run(self: &Arc<Self>, shared: &Arc<Shared>) {
        let mut pause = SHORTEST_PAUSE;
        while !self.places.is_over() {
            self.note_outage();
            if self.places.grace_left().is_zero() {
                return shared.lose(CudaError::DEVICE_UNAVAILABLE, &self.silence());
            }
            if self.round(shared) {
                pause = SHORTEST_PAUSE;
            } else if !self.places.is_over() {
                std::thread::sleep(pause.min(self.places.grace_left()));
                pause = (2 * pause).min(LONGEST_PAUSE);
            }
        }
    }

    /// Makes the connections that are missing, and hears what has come of what is sent until one of them breaks. Whether all
    /// were there.
    fn round(self: &Arc<Self>, shared: &Arc<Shared>) -> bool {
        let link = match self.joining.join(self.limit()) {
            Ok(link) => link,
            Err(error) => {
                self.failed(shared, &error);
                return false;
            }
        };
        let round = Arc::new(self.begin());
        for place in round.places.iter().copied() {
            let (own, shared, of) = (Arc::clone(self), Arc::clone(shared), Arc::clone(&round));
            let thread = std::thread::Builder::new().name("floe-again".into());
            if thread.spawn(move || own.make(&shared, &of, place)).is_err() {
                self.places.broke(round.epoch);
            }
        }
        self.listen(shared, &round, link);
        round.is_whole()
    }

    /// Begins with new connections, where those there were have broken.
    fn begin(&self) -> Round {
        let _beginning = lock(&self.beginning);
        let epoch = self.places.epoch();
        let has_broken = self.places.standing() == Standing::Broken;
        if has_broken {
            // Also where it did so since the last look.
            self.note_outage();
        }
        let begins = has_broken && self.places.begin(epoch + 1);
        let (epoch, places) = if begins { (epoch + 1, self.places.all()) } else { (epoch, Vec::new()) };
        Round { epoch, left: AtomicUsize::new(places.len() + 1), places }
    }

    /// Makes the connection for acknowledgements of a joined one, and reads it to its end.
    fn listen(&self, shared: &Shared, round: &Round, link: Link) {
        let epoch = round.epoch;
        let message = Continue { epoch, place: ACKNOWLEDGEMENTS_PLACE, received: 0 };
        let Some((link, _)) = self.go_on(shared, link, &message) else { return };
        let receiver = self.places.hear(epoch, link);
        self.is_there(round);
        if let Heard::Contract(error) = self.places.listen(epoch, receiver) {
            shared.lose(CudaError::DEVICE_UNAVAILABLE, &format!("the server acknowledged what cannot be: {error}"));
        }
    }

    /// Makes one connection of an epoch, and writes on it what the server lacks.
    fn make(&self, shared: &Shared, round: &Round, place: u32) {
        let epoch = round.epoch;
        let link = match self.joining.join(self.limit()) {
            Ok(link) => link,
            Err(error) => {
                self.failed(shared, &error);
                return self.places.broke(epoch);
            }
        };
        let Some(received) = self.freeze(epoch, place) else { return };
        if let Some((link, received)) = self.go_on(shared, link, &Continue { epoch, place, received }) {
            self.is_there(round);
            self.attach(shared, epoch, place, link, received);
        }
    }

    /// Makes a bulk connection for the first time; the link at its place, which goes on whatever becomes of this connection.
    pub(super) fn make_first(&self, shared: &Shared, place: u32) -> Result<Link, ConnectError> {
        let link = self.joining.join(CONNECT)?;
        let (epoch, received) = {
            let _beginning = lock(&self.beginning);
            (self.places.epoch(), self.places.freeze(place))
        };
        if let Some((link, received)) = self.go_on(shared, link, &Continue { epoch, place, received }) {
            self.attach(shared, epoch, place, link, received);
        }
        Ok(self.places.link(place))
    }

    /// Has nobody read at a place any more, unless its epoch is over; what has been read there.
    fn freeze(&self, epoch: u64, place: u32) -> Option<u64> {
        let _beginning = lock(&self.beginning);
        (self.places.epoch() == epoch).then(|| self.places.freeze(place))
    }

    /// Says to the server what this side has at a place; what the server has. `None`: the connection is of no use, and its
    /// epoch has broken.
    fn go_on(&self, shared: &Shared, link: Link, message: &Continue) -> Option<(Link, u64)> {
        match self.joining.go_on(link, message, CONNECT) {
            Ok(made) => {
                self.places.heard();
                Some(made)
            }
            Err(error) => {
                // Of an epoch that is over the server may have heard that from another connection.
                if self.places.epoch() == message.epoch {
                    self.failed(shared, &error);
                }
                self.places.broke(message.epoch);
                None
            }
        }
    }

    /// Goes on at a place, behind what the server has.
    fn attach(&self, shared: &Shared, epoch: u64, place: u32, link: Link, received: u64) {
        if let Err(error) = self.places.go_on(place, epoch, link, received) {
            shared.lose(CudaError::DEVICE_UNAVAILABLE, &format!("the server says it has what it cannot have: {error}"));
        }
    }

    /// An attempt has failed: another may not, unless the session is not there any more.
    fn failed(&self, shared: &Shared, error: &ConnectError) {
        if error.is_final() {
            lock(&self.outage).take();
            Self::await_own_words(shared);
            let reason =
                format!("it broke, and {error}\n  the session has ended there: the log of the server says why");
            return shared.lose(CudaError::DEVICE_UNAVAILABLE, &reason);
        }
        log!(Debug, "{error}");
        if let Some(outage) = &mut *lock(&self.outage) {
            outage.last = Some(error.to_string());
        }
    }

    /// A session that ends says why on its own connection, where it can.
    fn await_own_words(shared: &Shared) {
        let until = Instant::now() + OWN_WORDS;
        while !shared.errors.is_lost() && Instant::now() < until {
            shared.incoming.watch();
            std::thread::sleep(SHORTEST_PAUSE);
        }
    }

    /// Says that the link is broken, once.
    fn note_outage(&self) {
        let mut outage = lock(&self.outage);
        if self.places.standing() != Standing::Broken || outage.is_some() {
            return;
        }
        *outage = Some(Outage { began: Instant::now(), epoch: self.places.epoch(), last: None });
        let (server, grace) = (&self.joining.server, self.places.grace().as_secs_f32());
        log!(Warn, "the connection to {server} broke; the program goes on when it is made again, within {grace} s");
    }

    /// One connection of an epoch is there; with the last of them, the link is.
    fn is_there(&self, round: &Round) {
        if round.left.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let mut outage = lock(&self.outage);
        if let Some(over) = outage.take_if(|outage| outage.epoch < round.epoch) {
            let pause = over.began.elapsed();
            self.statistics.made_again(pause);
            log!(Info, "the connection to {} is there again after {} ms", self.joining.server, pause.as_millis());
        }
    }

    /// How long one step may take.
    fn limit(&self) -> Duration {
        self.places.grace_left().min(CONNECT)
    }

    /// Why a session whose server is not reached is lost.
    fn silence(&self) -> String {
        let grace = self.places.grace().as_secs_f32();
        format!("it broke, and could not be made again within {grace} s")
    }

    /// What the last attempt to make the link again came to, where there is none.
    pub(super) fn last_trouble(&self) -> Option<String> {
        lock(&self.outage).as_ref()?.last.clone()
    }

    /// Tells the server that this side ends the session.
    pub(super) fn say_leave(&self) {
        self.places.say_leave(LAST_WORD);
    }
}
