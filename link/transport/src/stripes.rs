//! Bulk data over several connections at once.
//! In: data that are lent, each part with the command it belongs to. Out: chunks, on whichever connection has nothing to do.
//! Chunks are handed out in the order of their commands, and no lock is held while bytes are copied or go to a socket. What
//! comes in at the other end is put together by [`Transfers`].

mod assembly;
mod line;
mod loans;
mod pull;
mod queue;
mod sizes;
mod staging;
mod transfers;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use floe_wire::Chunk as Frame;

use line::{First, Line, Step};
use loans::{Loan, StagedLoan};
pub use pull::pull;
pub use queue::Load;
use queue::{Chunk, Queue};
pub use sizes::{STRIPED_FROM, transfer_bytes, transfers};
use staging::{Copying, Slot};
pub use transfers::{Taken, Target, Transfers};

use crate::error::LinkError;
use crate::outgoing::Lent;
use crate::pages;
use crate::sender::Sender;
use crate::spin::{Spin, processors};

/// Connections of a session: on loopback, twelve carried no more than eight (25 GB/s).
pub const MOST_CONNECTIONS: u32 = 8;

/// The outgoing direction of a session's bulk connections; threads share it by cloning.
#[derive(Clone, Debug, Default)]
pub struct Stripes {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    line: Mutex<Line>,
    /// Wakes threads that write.
    work: Condvar,
    /// Wakes those who see their data off.
    gone: Condvar,
    /// How many connections there are.
    count: AtomicUsize,
    /// How many chunks stand in line, for threads that look without the lock.
    chunks: AtomicUsize,
    /// Bytes that were copied before a connection had room for them.
    staged: AtomicU64,
    /// How long a thread that has written looks for more before it sleeps: to wake it takes who posts longer than to post.
    spin: Spin,
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
        let mut line = self.shared.lock();
        let started = self.start("floe-bulk-send");
        if line.closed || started.is_err() {
            // What is lent goes back with it, to the same lock.
            drop(line);
            connection.close();
            return started;
        }
        line.all.push(connection.clone());
        line.idle.push(connection);
        self.shared.count.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// So many threads more, without connections. Chunks of loads of `least` bytes and more whose own pages are not given
    /// are copied from here on before a connection has room for them, by any thread that has nothing to write, and the copies'
    /// pages given.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn stage(&self, threads: usize, least: usize) -> std::io::Result<()> {
        for _ in 0..threads {
            self.start("floe-bulk-copy")?;
            self.shared.lock().staging.turn_on(least);
        }
        Ok(())
    }

    /// Bytes that were copied so since this was last asked.
    #[must_use]
    pub fn take_staged(&self) -> u64 {
        self.shared.staged.swap(0, Ordering::Relaxed)
    }

    /// A thread that writes and copies.
    fn start(&self, name: &str) -> std::io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let body = move || {
            pages::offer();
            shared.run();
        };
        std::thread::Builder::new().name(name.into()).spawn(body).map(|_| ())
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

    /// Writes and copies with the others until all of `load` is at sockets (of links that may be made again: with the peer), or
    /// copied, or never will be: then nobody reads it any more.
    pub fn see_off(&self, load: &Load) {
        self.shared.see_off(load);
    }

    /// Ends all connections at once. What is unsent is lost.
    pub fn close(&self) {
        let (queue, _staging, all) = {
            let mut line = self.shared.lock();
            line.closed = true;
            self.shared.count.store(0, Ordering::Release);
            (std::mem::take(&mut line.queue), std::mem::take(&mut line.staging), std::mem::take(&mut line.all))
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
    u32::try_from(processors() / 2).unwrap_or(u32::MAX).clamp(1, MOST_CONNECTIONS)
}

/// How many threads copy beside those of so many connections: as many, where all of them keep no more than half of the
/// processors busy, and none elsewhere: where the server is on this machine its readers need the others.
#[must_use]
pub fn suitable_copiers(connections: u32) -> usize {
    let connections = connections as usize;
    if connections <= processors() / 4 { connections } else { 0 }
}

fn drop_queue(mut queue: Queue) {
    while let Some(chunk) = queue.pop() {
        chunk.give_back();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A transfer stands in line, and who is to write it is woken: before anything that may wait, since those who count as
    /// called are not called again.
    fn enter(&self, transfer: u64, load: &Arc<Load>, place: Range<usize>, help: Help) {
        let mut line = self.lock();
        if line.closed {
            return;
        }
        line.queue.push(transfer, load, place);
        self.chunks.store(line.chunks(), Ordering::Release);
        let wakes = line.wakes(usize::from(help == Help::Follows));
        drop(line);
        self.wake(wakes);
    }

    fn wake(&self, count: usize) {
        for _ in 0..count {
            self.work.notify_one();
        }
    }

    /// A thread that writes, until the end.
    fn run(self: &Arc<Self>) {
        let mut line = self.lock();
        let mut has_looked = false;
        while !line.closed {
            if let Some(step) = self.next(&mut line, First::Write) {
                drop(line);
                line = self.act(step);
                has_looked = false;
                continue;
            }
            if !std::mem::replace(&mut has_looked, true) {
                line = self.look(line);
                continue;
            }
            has_looked = false;
            line.sleeping += 1;
            line = self.work.wait(line).unwrap_or_else(PoisonError::into_inner);
            line.sleeping -= 1;
            line.called = line.called.saturating_sub(1);
        }
    }

    /// The next thing to do.
    fn next(&self, line: &mut Line, first: First) -> Option<Step> {
        let step = line.next(first);
        self.chunks.store(line.chunks(), Ordering::Release);
        step
    }

    /// Does it.
    fn act(self: &Arc<Self>, step: Step) -> MutexGuard<'_, Line> {
        match step {
            Step::Copy(chunk, copying) => self.copy(chunk, copying),
            Step::Give(staged, connection) => {
                let (transfer, offset) = (staged.transfer, staged.offset);
                self.write(transfer, offset, Box::new(StagedLoan::new(staged, self)), connection)
            }
            Step::Write(chunk, connection) => {
                let (transfer, offset) = (chunk.transfer, chunk.offset);
                self.write(transfer, offset, Box::new(Loan::new(chunk, self)), connection)
            }
        }
    }

    /// Copies a chunk, which goes back.
    fn copy(&self, chunk: Chunk, mut copying: Copying) -> MutexGuard<'_, Line> {
        let (transfer, offset, bytes) = (chunk.transfer, chunk.offset, chunk.place.len());
        chunk.show(&mut |bytes| copying.copy(bytes));
        self.staged.fetch_add(bytes as u64, Ordering::Relaxed);
        self.give_back(chunk);
        let mut line = self.lock();
        line.staging.end(copying, transfer, offset, bytes);
        // This thread goes on with it, or with the next.
        let wakes = line.wakes(1);
        if wakes == 0 {
            return line;
        }
        drop(line);
        self.wake(wakes);
        self.lock()
    }

    /// A connection needs a chunk no more, or it was copied, or never left.
    fn give_back(&self, chunk: Chunk) {
        // Who sees its data off looks under the lock.
        if chunk.give_back() && self.lock().watching > 0 {
            self.gone.notify_all();
        }
    }

    /// Memory in which another chunk may be copied.
    fn take_back(&self, slot: Slot) {
        let mut line = self.lock();
        line.staging.give_back(slot);
        let wakes = line.wakes(0);
        drop(line);
        self.wake(wakes);
    }

    /// Looks for chunks without the lock, and does not sleep. While it does, nobody wakes anybody in its place: the caller
    /// looks under the lock that this returns with before it sleeps.
    fn look<'s>(&'s self, mut line: MutexGuard<'s, Line>) -> MutexGuard<'s, Line> {
        if !self.spin.is_on() {
            return line;
        }
        line.looking += 1;
        drop(line);
        let _ = self.spin.look(|| (self.chunks.load(Ordering::Acquire) > 0).then_some(()));
        let mut line = self.lock();
        line.looking -= 1;
        line
    }

    /// Writes a chunk and gives the connection back.
    fn write(&self, transfer: u64, offset: usize, bytes: Box<dyn Lent>, connection: Sender) -> MutexGuard<'_, Line> {
        let message = Frame { transfer, offset: offset as u64, bytes: &[] };
        let sent = connection.send_lent(&message, bytes);
        if sent.is_err() {
            // Who reads this connection hears it now, and ends the session.
            connection.close();
        }
        let mut line = self.lock();
        if sent.is_ok() {
            // This thread has the next chunk for it, if there is one.
            line.idle.push(connection);
        }
        line
    }

    fn see_off(self: &Arc<Self>, load: &Load) {
        let mut line = self.lock();
        while !load.is_gone() {
            let helps = load.waits();
            if let Some(step) = helps.then(|| self.next(&mut line, First::Copy)).flatten() {
                drop(line);
                line = self.act(step);
                continue;
            }
            // The connection this thread had may be what others wait for.
            self.wake(line.wakes(0));
            line.watching += 1;
            line = self.gone.wait(line).unwrap_or_else(PoisonError::into_inner);
            line.watching -= 1;
        }
        let wakes = line.wakes(0);
        drop(line);
        self.wake(wakes);
    }
}
