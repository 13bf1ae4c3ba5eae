//! Bulk data over several connections at once.
//! In: data that are lent, each part with the command it belongs to. Out: chunks, on whichever connection has nothing to do.
//! Chunks are handed out in the order of their commands, nothing is copied on the way, and no lock is held while bytes go to
//! a socket. What comes in at the other end is put together by [`Transfers`].

mod assembly;
mod pull;
mod queue;
mod transfers;

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use floe_wire::{CHUNK_BYTES, Chunk as Frame};

pub use pull::pull;
pub use queue::Load;
use queue::{Chunk, Queue};
pub use transfers::{Taken, Target, Transfers};

use crate::error::LinkError;
use crate::outgoing::{Giving, Lent};
use crate::pages;
use crate::sender::Sender;
use crate::spin::Spin;

/// Bytes of data from which on they are worth several connections: with fewer there is nothing to share.
pub const STRIPED_FROM: usize = 2 * CHUNK_BYTES;
/// Connections of a session: on loopback, twelve carried no more than eight (25 GB/s).
pub const MOST_CONNECTIONS: u32 = 8;
/// Bytes of a transfer: little is left to do when the last byte has come, and a command costs little beside so many.
pub const TRANSFER_BYTES: usize = 4 * CHUNK_BYTES;

/// The outgoing direction of a session's bulk connections; threads share it by cloning.
#[derive(Clone, Debug, Default)]
pub struct Stripes {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Wakes threads that write.
    work: Condvar,
    /// Wakes those who see their data off.
    gone: Condvar,
    /// How many connections there are.
    count: AtomicUsize,
    /// How many chunks stand in line, for threads that look without the lock.
    chunks: AtomicUsize,
    /// How long a thread that has written looks for more before it sleeps: to wake it takes who posts longer than to post.
    spin: Spin,
}

#[derive(Debug, Default)]
struct State {
    queue: Queue,
    /// All connections, to be closed.
    all: Vec<Sender>,
    /// Those nobody writes on.
    idle: Vec<Sender>,
    /// Threads that sleep, and those of them that have been woken and have not come yet.
    sleeping: usize,
    called: usize,
    /// Threads that look for chunks, and find them without being woken.
    looking: usize,
    /// Threads that wait for their data to be gone.
    watching: usize,
    closed: bool,
}

/// Whether who posts writes, too, when all is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Help {
    /// The data leave by themselves.
    None,
    /// [`Stripes::see_off`] follows.
    Follows,
}

impl Stripes {
    /// No connection yet. Threads that write look for more as long as `spin` says before they sleep. What [`Lent::giving`]
    /// says so of they give to a socket as the pages it lies in, where the link outlives its connections.
    #[must_use]
    pub fn new(spin: Spin) -> Self {
        Self { shared: Arc::new(Shared { spin, ..Shared::default() }) }
    }

    /// Whether there is a connection.
    #[must_use]
    pub fn any(&self) -> bool {
        self.shared.count.load(Ordering::Acquire) > 0
    }

    /// One more connection, with a thread that writes.
    ///
    /// # Errors
    /// When the system gives no thread; the connection is closed then.
    pub fn add(&self, connection: Sender) -> std::io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        let body = {
            let shared = Arc::clone(&self.shared);
            move || {
                pages::offer();
                shared.run();
            }
        };
        let started = std::thread::Builder::new().name("floe-bulk-send".into()).spawn(body);
        if state.closed || started.is_err() {
            // What is lent goes back with it, to the same lock.
            drop(state);
            connection.close();
            return started.map(|_| ());
        }
        state.all.push(connection.clone());
        state.idle.push(connection);
        self.shared.count.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Posts a command on the session's own connection, and has the bytes of `load` at `place` follow as its transfer, which
    /// is named by the command's sequence. Does not wait.
    ///
    /// # Errors
    /// [`LinkError`] when the link is over.
    pub fn post(
        &self,
        own: &Sender,
        command: &impl floe_wire::Message,
        load: &Arc<Load>,
        place: Range<usize>,
        help: Help,
    ) -> Result<u64, LinkError> {
        // In line under the command's own lock: the order of transfers is that of their commands.
        own.post_numbered(command, |sequence| self.shared.enter(sequence, load, place, help))
    }

    /// Writes with the others until all of `load` is at sockets (of links that may be made again: with the peer), or never will
    /// be: then nobody reads it any more.
    pub fn see_off(&self, load: &Load) {
        self.shared.see_off(load);
    }

    /// Ends all connections at once. What is unsent is lost.
    pub fn close(&self) {
        let (queue, all) = {
            let mut state = self.shared.lock();
            state.closed = true;
            self.shared.count.store(0, Ordering::Release);
            (std::mem::take(&mut state.queue), std::mem::take(&mut state.all))
        };
        all.iter().for_each(Sender::close);
        drop_queue(queue);
        self.shared.work.notify_all();
        drop(self.shared.lock());
        self.shared.gone.notify_all();
    }
}

/// How many connections suit this machine: half as many as it has processors, one at least, since each keeps about one
/// processor busy at each end.
#[must_use]
pub fn suitable_connections() -> u32 {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    u32::try_from(processors / 2).unwrap_or(u32::MAX).clamp(1, MOST_CONNECTIONS)
}

fn drop_queue(mut queue: Queue) {
    while let Some(chunk) = queue.pop() {
        chunk.give_back();
    }
}

impl State {
    /// How many sleeping threads have something to do, beside `busy` that are awake.
    fn wakes(&mut self, busy: usize) -> usize {
        let wanted = self.queue.chunks().min(self.idle.len()).saturating_sub(self.called + self.looking + busy);
        let wakes = wanted.min(self.sleeping - self.called);
        self.called += wakes;
        wakes
    }
}

/// A chunk that a connection has. It goes back when that needs it no more.
struct Loan {
    chunk: Option<Chunk>,
    home: Arc<Shared>,
}

impl Lent for Loan {
    fn len(&self) -> usize {
        self.chunk.as_ref().map_or(0, |chunk| chunk.place.len())
    }

    fn lend(&self, write: &mut dyn FnMut(&[u8])) {
        if let Some(chunk) = &self.chunk {
            chunk.show(write);
        }
    }

    fn giving(&self) -> Giving {
        self.chunk.as_ref().map_or(Giving::Copies, |chunk| chunk.load.giving())
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let Some(chunk) = self.chunk.take() else { return };
        // Who sees its data off looks under the lock.
        if chunk.give_back() && self.home.lock().watching > 0 {
            self.home.gone.notify_all();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A transfer stands in line, and who is to write it is woken: before anything that may wait, since those who count as
    /// called are not called again.
    fn enter(&self, transfer: u64, load: &Arc<Load>, place: Range<usize>, help: Help) {
        let mut state = self.lock();
        if state.closed {
            return;
        }
        state.queue.push(transfer, load, place);
        self.chunks.store(state.queue.chunks(), Ordering::Release);
        let wakes = state.wakes(usize::from(help == Help::Follows));
        drop(state);
        self.wake(wakes);
    }

    fn wake(&self, count: usize) {
        for _ in 0..count {
            self.work.notify_one();
        }
    }

    /// A thread that writes, until the end.
    fn run(self: &Arc<Self>) {
        let mut state = self.lock();
        let mut has_looked = false;
        while !state.closed {
            if let Some((chunk, connection)) = self.next(&mut state) {
                drop(state);
                state = self.write(chunk, connection);
                has_looked = false;
                continue;
            }
            if !std::mem::replace(&mut has_looked, true) {
                state = self.look(state);
                continue;
            }
            has_looked = false;
            state.sleeping += 1;
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.sleeping -= 1;
            state.called = state.called.saturating_sub(1);
        }
    }

    /// The next chunk with a connection for it.
    fn next(&self, state: &mut State) -> Option<(Chunk, Sender)> {
        if state.idle.is_empty() {
            return None;
        }
        let chunk = state.queue.pop()?;
        self.chunks.store(state.queue.chunks(), Ordering::Release);
        Some((chunk, state.idle.pop()?))
    }

    /// Looks for chunks without the lock, and does not sleep. While it does, nobody wakes anybody in its place: the caller
    /// looks under the lock that this returns with before it sleeps.
    fn look<'s>(&'s self, mut state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        if !self.spin.is_on() {
            return state;
        }
        state.looking += 1;
        drop(state);
        let _ = self.spin.look(|| (self.chunks.load(Ordering::Acquire) > 0).then_some(()));
        let mut state = self.lock();
        state.looking -= 1;
        state
    }

    /// Writes a chunk and gives the connection back.
    fn write(self: &Arc<Self>, chunk: Chunk, connection: Sender) -> MutexGuard<'_, State> {
        let message = Frame { transfer: chunk.transfer, offset: chunk.offset as u64, bytes: &[] };
        let sent = connection.send_lent(&message, Box::new(Loan { chunk: Some(chunk), home: Arc::clone(self) }));
        if sent.is_err() {
            // Who reads this connection hears it now, and ends the session.
            connection.close();
        }
        let mut state = self.lock();
        if sent.is_ok() {
            // This thread has the next chunk for it, if there is one.
            state.idle.push(connection);
        }
        state
    }

    fn see_off(self: &Arc<Self>, load: &Load) {
        let mut state = self.lock();
        while !load.is_gone() {
            let helps = load.waits();
            if let Some((chunk, connection)) = helps.then(|| self.next(&mut state)).flatten() {
                drop(state);
                state = self.write(chunk, connection);
                continue;
            }
            // The connection this thread had may be what others wait for.
            self.wake(state.wakes(0));
            state.watching += 1;
            state = self.gone.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.watching -= 1;
        }
        let wakes = state.wakes(0);
        drop(state);
        self.wake(wakes);
    }
}
