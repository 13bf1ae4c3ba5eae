//! A link to a session of another server: transfers from one worker's device to the other's.
//! In: transfers as the client announces them, streams that have got there, connections to the other worker. Out: bytes from
//! device to device, and streams that go on behind them.
//! No byte passes the client. A transfer takes part of the staging memory only when both its streams have got there, so none
//! holds another up. When a connection ends, the link does, and what waits for it fails.

pub(crate) mod book;
mod lane;
mod mover;
pub(crate) mod opening;
mod staging;
pub(crate) mod table;
pub(crate) mod waits;

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use floe_abi::CudaError;
use floe_device::Device;
use floe_transport::Sender;
use floe_wire::DevicePtr;

use crate::issue::apart::SharedApart;
use crate::issue::fault::Fault;
use crate::memory::budget::Kept;
use book::{Book, Broken};
use staging::{Flying, Full, Staging};
use waits::Wait;

/// The most connections of a link.
pub(crate) const MOST_LANES: u32 = 8;

type Waits<D> = Arc<Wait<<D as Device>::Mapped>>;

/// A word for the peer.
#[derive(Clone, Copy, Debug)]
enum Word {
    Ready { transfer: u64, bytes: u64 },
    Done { transfer: u64 },
}

/// A connection of a link.
enum Lane {
    /// There is none yet.
    Missing,
    /// It is being agreed on.
    Taken,
    Open(Sender),
}

struct State<D: Device> {
    book: Book<Waits<D>>,
    lanes: Vec<Lane>,
    /// Memory on the way to and from the device, once there was a connection.
    staging: Option<Arc<Staging<D>>>,
    /// Free slots for bytes to the peer, and from it.
    to_send: Vec<usize>,
    to_receive: Vec<usize>,
    /// Copies by the device under way.
    flying: VecDeque<Flying<D>>,
    /// Slots that are full and leave next.
    full: VecDeque<Full>,
    words: VecDeque<Word>,
    /// Why it is over.
    over: Option<String>,
    /// Threads of the link.
    threads: u32,
}

/// The link.
pub(crate) struct PeerLink<D: Device> {
    device: Arc<D>,
    /// The context of its copies.
    apart: Arc<SharedApart<D>>,
    /// Notes that transfers have failed, and why, before a stream goes on.
    failed: Failed,
    state: Mutex<State<D>>,
    /// Wakes the thread that has the device copy.
    mover: Condvar,
    /// Wakes threads that write to connections.
    writers: Condvar,
    /// Wakes threads that read from connections and want a slot.
    readers: Condvar,
    _kept: Kept,
}

/// The way of a transfer's bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    /// To the peer.
    Out,
    /// From the peer.
    In,
}

/// Notes that transfers of a link have failed, and why.
pub(crate) type Failed = Box<dyn Fn(&str) + Send + Sync>;

/// What became of a transfer that is announced.
pub(crate) enum Announced<D: Device> {
    /// Its stream waits for this.
    Waits(Waits<D>),
    /// The link is over.
    Over(String),
}

impl<D: Device> PeerLink<D> {
    fn new(device: &Arc<D>, apart: &Arc<SharedApart<D>>, failed: Failed, lanes: u32, kept: Kept) -> Arc<Self> {
        let state = State {
            book: Book::default(),
            lanes: (0..lanes).map(|_| Lane::Missing).collect(),
            staging: None,
            to_send: Vec::new(),
            to_receive: Vec::new(),
            flying: VecDeque::new(),
            full: VecDeque::new(),
            words: VecDeque::new(),
            over: None,
            threads: 0,
        };
        let (mover, writers, readers) = (Condvar::new(), Condvar::new(), Condvar::new());
        let (device, apart, state) = (Arc::clone(device), Arc::clone(apart), Mutex::new(state));
        Arc::new(Self { device, apart, failed, state, mover, writers, readers, _kept: kept })
    }

    fn state(&self) -> MutexGuard<'_, State<D>> {
        floe_lock::lock(&self.state)
    }

    /// The client announces a transfer.
    pub(crate) fn announce(
        &self,
        way: Way,
        transfer: u64,
        place: (DevicePtr, u64),
        wait: impl FnOnce() -> Result<Waits<D>, Fault>,
    ) -> Result<Announced<D>, Fault> {
        let (mut state, mut made) = (self.state(), None);
        if let Some(why) = &state.over {
            return Ok(Announced::Over(why.clone()));
        }
        let wait = || Ok(Arc::clone(made.insert(wait()?)));
        let agreed = match way {
            Way::Out => state.book.announce_send(transfer, place, wait)?,
            Way::In => state.book.announce_receive(transfer, place, wait).map(Ok)?,
        };
        drop(state);
        self.demand(agreed);
        made.map(Announced::Waits).ok_or_else(|| CudaError::UNKNOWN.into())
    }

    /// The stream has got to a transfer.
    pub(crate) fn begin(&self, way: Way, transfer: u64) {
        let mut state = self.state();
        if matches!(way, Way::Out) {
            state.book.begin_send(transfer);
            self.mover.notify_one();
        } else if let Some(bytes) = state.book.begin_receive(transfer) {
            self.say(&mut state, Word::Ready { transfer, bytes });
        }
    }

    fn say(&self, state: &mut State<D>, word: Word) {
        state.words.push_back(word);
        self.writers.notify_one();
    }

    /// Ends the link where the peer has said what cannot be.
    fn demand(&self, agreed: Result<(), Broken>) {
        if let Err(Broken(words)) = agreed {
            self.end(&words);
        }
    }

    /// Ends the link. Transfers that are not over fail: that is noted before a stream goes on.
    pub(crate) fn end(&self, why: &str) {
        let mut state = self.state();
        if state.over.is_some() {
            return;
        }
        state.over = Some(why.to_owned());
        let waits = state.book.end();
        let lanes = std::mem::take(&mut state.lanes);
        drop(state);
        for lane in lanes {
            if let Lane::Open(sender) = lane {
                sender.close();
            }
        }
        if !waits.is_empty() {
            (self.failed)(why);
        }
        waits.iter().for_each(|wait| wait.fail());
        self.mover.notify_all();
        self.writers.notify_all();
        self.readers.notify_all();
    }

    /// A thread of the link ends.
    fn thread_ends(&self) {
        self.state().threads -= 1;
        self.mover.notify_all();
        self.readers.notify_all();
    }

    /// Waits until the device copies nothing for the link, which has ended, and no thread has its memory.
    pub(crate) fn wait_until_still(&self) {
        let mut state = self.state();
        while state.threads > 0 {
            state = floe_lock::wait(&self.readers, state);
        }
    }
}
