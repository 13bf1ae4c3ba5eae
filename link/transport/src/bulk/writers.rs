//! The threads that write on a session's bulk connections, and their shared state.
//! In: queued transfers, connections, and callers that help with their load. Out: chunks at connections, each borrowed
//! until its connection needs it no more. No lock is held while bytes are copied or written to a socket.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use floe_wire::Chunk as Frame;

use super::queue::{Chunk, Load};
use super::scheduler::{First, Scheduler, Step};
use super::staging::{Copying, Slot, Staged};
use crate::frames::sender::Sender;
use crate::pipes::borrowed::{BorrowedBuffer, SendMode};
use crate::spin::Spin;

/// The state that the writer threads of one session share.
#[derive(Debug, Default)]
pub(super) struct Writers {
    pub(super) line: Mutex<Scheduler>,
    /// Wakes writer threads.
    pub(super) work: Condvar,
    /// Wakes callers that wait for their load.
    pub(super) gone: Condvar,
    /// The number of connections.
    pub(super) count: AtomicUsize,
    /// The number of queued chunks, for threads that spin without the lock.
    pub(super) chunks: AtomicUsize,
    /// Bytes that were copied before a connection had room for them.
    pub(super) staged: AtomicU64,
    /// How long a writer spins before it parks: waking it costs the poster more than the post.
    pub(super) spin: Spin,
}

/// Whether the poster writes too, once all is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Help {
    /// The writer threads send everything.
    None,
    /// [`Stripes::see_off`] follows.
    Follows,
}

impl Writers {
    pub(super) fn lock(&self) -> MutexGuard<'_, Scheduler> {
        floe_lock::lock(&self.line)
    }

    /// Queues a transfer and wakes its writers. The wake precedes anything that may wait: threads that count as called
    /// are not called again.
    pub(super) fn enter(&self, transfer: u64, load: &Arc<Load>, place: Range<usize>, help: Help) {
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

    /// The body of a writer thread, until the session's end.
    pub(super) fn run(self: &Arc<Self>) {
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
            line = floe_lock::wait(&self.work, line);
            line.sleeping -= 1;
            line.called = line.called.saturating_sub(1);
        }
    }

    /// The next step.
    fn next(&self, line: &mut Scheduler, first: First) -> Option<Step> {
        let step = line.next(first);
        self.chunks.store(line.chunks(), Ordering::Release);
        step
    }

    /// Carries out a step.
    fn act(self: &Arc<Self>, step: Step) -> MutexGuard<'_, Scheduler> {
        match step {
            Step::Copy(chunk, copying) => self.copy(chunk, copying),
            Step::Give(staged, connection) => {
                let (transfer, offset) = (staged.transfer, staged.offset);
                self.write(transfer, offset, Box::new(StagedBuffer::new(staged, self)), connection)
            }
            Step::Write(chunk, connection) => {
                let (transfer, offset) = (chunk.transfer, chunk.offset);
                self.write(transfer, offset, Box::new(LoadedChunk::new(chunk, self)), connection)
            }
        }
    }

    /// Copies a chunk and gives it back.
    fn copy(&self, chunk: Chunk, mut copying: Copying) -> MutexGuard<'_, Scheduler> {
        let (transfer, offset, bytes) = (chunk.transfer, chunk.offset, chunk.place.len());
        chunk.show(&mut |bytes| copying.copy(bytes));
        self.staged.fetch_add(bytes as u64, Ordering::Relaxed);
        self.give_back(chunk);
        let mut line = self.lock();
        line.staging.end(copying, transfer, offset, bytes);
        // This thread continues with the copy, or with the next step.
        let wakes = line.wakes(1);
        if wakes == 0 {
            return line;
        }
        drop(line);
        self.wake(wakes);
        self.lock()
    }

    /// Gives back a chunk that was sent, copied, or abandoned.
    fn give_back(&self, chunk: Chunk) {
        // The caller that waits for its load checks under the lock.
        if chunk.give_back() && self.lock().watching > 0 {
            self.gone.notify_all();
        }
    }

    /// Takes back memory for another copy.
    fn take_back(&self, slot: Slot) {
        let mut line = self.lock();
        line.staging.give_back(slot);
        let wakes = line.wakes(0);
        drop(line);
        self.wake(wakes);
    }

    /// Spins for chunks without the lock. Meanwhile no poster wakes a thread in its stead, so the caller checks once
    /// more under the returned lock before it parks.
    fn look<'s>(&'s self, mut line: MutexGuard<'s, Scheduler>) -> MutexGuard<'s, Scheduler> {
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
    fn write(
        &self,
        transfer: u64,
        offset: usize,
        bytes: Box<dyn BorrowedBuffer>,
        connection: Sender,
    ) -> MutexGuard<'_, Scheduler> {
        let message = Frame { transfer, offset: offset as u64, bytes: &[] };
        let sent = connection.send_borrowed(&message, bytes);
        if sent.is_err() {
            // The reader of this connection sees the error now and ends the session.
            connection.close();
        }
        let mut line = self.lock();
        if sent.is_ok() {
            // This thread writes the next chunk, if there is one.
            line.idle.push(connection);
        }
        line
    }

    pub(super) fn see_off(self: &Arc<Self>, load: &Load) {
        let mut line = self.lock();
        while !load.is_gone() {
            let helps = load.waits();
            if let Some(step) = helps.then(|| self.next(&mut line, First::Copy)).flatten() {
                drop(line);
                line = self.act(step);
                continue;
            }
            // Other threads may wait for the connection that this thread had.
            self.wake(line.wakes(0));
            line.watching += 1;
            line = floe_lock::wait(&self.gone, line);
            line.watching -= 1;
        }
        let wakes = line.wakes(0);
        drop(line);
        self.wake(wakes);
    }
}

/// A chunk held by a connection, and given back when the connection drops it.
struct LoadedChunk {
    chunk: Option<Chunk>,
    home: Arc<Writers>,
}

impl LoadedChunk {
    fn new(chunk: Chunk, home: &Arc<Writers>) -> Self {
        Self { chunk: Some(chunk), home: Arc::clone(home) }
    }
}

impl BorrowedBuffer for LoadedChunk {
    fn len(&self) -> usize {
        self.chunk.as_ref().map_or(0, |chunk| chunk.place.len())
    }

    fn with_bytes(&self, write: &mut dyn FnMut(&[u8])) {
        if let Some(chunk) = &self.chunk {
            chunk.show(write);
        }
    }

    fn send_mode(&self) -> SendMode {
        self.chunk.as_ref().map_or(SendMode::Copy, |chunk| chunk.load.send_mode())
    }
}

impl Drop for LoadedChunk {
    fn drop(&mut self) {
        if let Some(chunk) = self.chunk.take() {
            self.home.give_back(chunk);
        }
    }
}

/// A copy of a chunk, held by a connection. Its memory is reused when the connection drops it.
struct StagedBuffer {
    staged: Option<Staged>,
    home: Arc<Writers>,
}

impl StagedBuffer {
    fn new(staged: Staged, home: &Arc<Writers>) -> Self {
        Self { staged: Some(staged), home: Arc::clone(home) }
    }
}

impl BorrowedBuffer for StagedBuffer {
    fn len(&self) -> usize {
        self.staged.as_ref().map_or(0, |staged| staged.bytes().len())
    }

    fn with_bytes(&self, write: &mut dyn FnMut(&[u8])) {
        if let Some(staged) = &self.staged {
            write(staged.bytes());
        }
    }

    /// The memory's next contents are for the same peer.
    fn send_mode(&self) -> SendMode {
        SendMode::PagesForGood
    }
}

impl Drop for StagedBuffer {
    fn drop(&mut self) {
        if let Some(staged) = self.staged.take() {
            self.home.take_back(staged.into_slot());
        }
    }
}
