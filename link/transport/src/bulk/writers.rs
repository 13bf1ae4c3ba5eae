//! The threads that write on a session's bulk connections, and what they share.
//! In: transfers that stand in line, connections, loads that somebody sees off. Out: chunks at connections, each borrowed until its
//! connection needs it no more.
//! No lock is held while bytes are copied or go to a socket.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use floe_wire::Chunk as Frame;

use super::line::{First, Line, Step};
use super::queue::{Chunk, Load};
use super::staging::{Copying, Slot, Staged};
use crate::frames::sender::Sender;
use crate::pipes::borrowed::{BorrowedBuffer, SendMode};
use crate::spin::Spin;

/// What the threads of one session share.
#[derive(Debug, Default)]
pub(super) struct Writers {
    pub(super) line: Mutex<Line>,
    /// Wakes threads that write.
    pub(super) work: Condvar,
    /// Wakes those who see their data off.
    pub(super) gone: Condvar,
    /// How many connections there are.
    pub(super) count: AtomicUsize,
    /// How many chunks stand in line, for threads that look without the lock.
    pub(super) chunks: AtomicUsize,
    /// Bytes that were copied before a connection had room for them.
    pub(super) staged: AtomicU64,
    /// How long a thread that has written looks for more before it sleeps: to wake it takes who posts longer than to post.
    pub(super) spin: Spin,
}

/// Whether who posts writes, too, when all is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Help {
    /// The data leave by themselves.
    None,
    /// [`Stripes::see_off`] follows.
    Follows,
}

impl Writers {
    pub(super) fn lock(&self) -> MutexGuard<'_, Line> {
        floe_lock::lock(&self.line)
    }

    /// A transfer stands in line, and who is to write it is woken: before anything that may wait, since those who count as
    /// called are not called again.
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

    /// A thread that writes, until the end.
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
                self.write(transfer, offset, Box::new(StagedBuffer::new(staged, self)), connection)
            }
            Step::Write(chunk, connection) => {
                let (transfer, offset) = (chunk.transfer, chunk.offset);
                self.write(transfer, offset, Box::new(LoadedChunk::new(chunk, self)), connection)
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
    fn write(
        &self,
        transfer: u64,
        offset: usize,
        bytes: Box<dyn BorrowedBuffer>,
        connection: Sender,
    ) -> MutexGuard<'_, Line> {
        let message = Frame { transfer, offset: offset as u64, bytes: &[] };
        let sent = connection.send_borrowed(&message, bytes);
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

    pub(super) fn see_off(self: &Arc<Self>, load: &Load) {
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
            line = floe_lock::wait(&self.gone, line);
            line.watching -= 1;
        }
        let wakes = line.wakes(0);
        drop(line);
        self.wake(wakes);
    }
}

/// A chunk that a connection has. It goes back when that needs it no more.
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

/// A copy of a chunk that a connection has. Its memory is for another when that needs it no more.
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

    /// What its memory holds next is for the same peer.
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
