//! Bulk data over several connections at once.
//! In: data that are borrowed, each part with the command it belongs to. Out: chunks, on whichever connection has nothing to do.
//! Chunks are handed out in the order of their commands, and no lock is held while bytes are copied or go to a socket. What
//! comes in at the other end is put together by [`Transfers`].

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::queue::Load;
use super::writers::{Help, Writers};
use crate::error::LinkError;
use crate::frames::sender::Sender;
use crate::pipes::pages;
use crate::spin::{Spin, processors};

/// Connections of a session: on loopback, twelve carried no more than eight (25 GB/s).
pub const MOST_CONNECTIONS: u32 = 8;

/// The outgoing direction of a session's bulk connections; threads share it by cloning.
#[derive(Clone, Debug, Default)]
pub struct Stripes {
    shared: Arc<Writers>,
}

impl Stripes {
    /// No connection yet. Threads that write look for more as long as `spin` says before they sleep. What [`BorrowedBuffer::send_mode`]
    /// says so of they give to a socket as the pages it lies in, where the link outlives its connections.
    #[must_use]
    pub fn new(spin: Spin) -> Self {
        Self { shared: Arc::new(Writers { spin, ..Writers::default() }) }
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
            // What is borrowed goes back with it, to the same lock.
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
        let (mut queue, _staging, all) = {
            let mut line = self.shared.lock();
            line.closed = true;
            self.shared.count.store(0, Ordering::Release);
            (std::mem::take(&mut line.queue), std::mem::take(&mut line.staging), std::mem::take(&mut line.all))
        };
        all.iter().for_each(Sender::close);
        while let Some(chunk) = queue.pop() {
            chunk.give_back();
        }
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
