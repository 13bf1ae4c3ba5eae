//! Sends bulk data over several connections at once.
//! In: borrowed buffers, each transfer with its command. Out: chunks, each on an idle connection. Chunks leave in the
//! order of their commands. No lock is held while bytes are copied or written to a socket. [`Transfers`] assembles the
//! chunks at the other end.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::queue::Load;
use super::writers::{Help, Writers};
use crate::error::LinkError;
use crate::frames::sender::Sender;
use crate::frames::writing::Leave;
use crate::pipes::pages;
use crate::spin::{Spin, processors};

/// The most bulk connections of a session: at 30 ms they keep 40 MB under way, which is 10 Gb/s.
pub const MOST_CONNECTIONS: u32 = 16;
/// The most that the processors ask for: on loopback, twelve carried no more than eight (25 GB/s).
const MOST_NEAR: u32 = 8;
/// Round-trip time for which one connection alone carries 10 Gb/s. Linux keeps 4 MiB of a connection's buffers under way
/// (`tcp_wmem`), of which about 2.7 MB are data.
const ALONE: Duration = Duration::from_millis(2);

/// The outgoing direction of a session's bulk connections; threads share it by cloning.
#[derive(Clone, Debug, Default)]
pub struct Stripes {
    shared: Arc<Writers>,
}

impl Stripes {
    /// Starts without a connection. Writer threads spin for `spin` before they park. Where
    /// [`BorrowedBuffer::send_mode`] allows it and the link is resumable, they send zero-copy.
    #[must_use]
    pub fn new(spin: Spin) -> Self {
        Self { shared: Arc::new(Writers { spin, ..Writers::default() }) }
    }

    /// Whether there is a connection.
    #[must_use]
    pub fn any(&self) -> bool {
        self.shared.count.load(Ordering::Acquire) > 0
    }

    /// Adds a connection, with a writer thread.
    ///
    /// # Errors
    /// When no thread can be started; the connection is closed then.
    pub fn add(&self, connection: Sender) -> std::io::Result<()> {
        let mut line = self.shared.lock();
        let started = self.start("floe-bulk-send");
        if line.closed || started.is_err() {
            // Closing it returns borrowed buffers, which takes the same lock.
            drop(line);
            connection.close();
            return started;
        }
        line.all.push(connection.clone());
        line.idle.push(connection);
        self.shared.count.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Adds so many threads without connections, and turns copying ahead on. From here on idle threads copy the chunks
    /// of loads of at least `least` bytes before a connection has room. The copies are sent zero-copy. Loads whose own
    /// pages are sent are not copied.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn stage(&self, threads: usize, least: usize) -> std::io::Result<()> {
        for _ in 0..threads {
            self.start("floe-bulk-copy")?;
            self.shared.lock().staging.turn_on(least);
        }
        Ok(())
    }

    /// Bytes copied ahead since the last call.
    #[must_use]
    pub fn take_staged(&self) -> u64 {
        self.shared.staged.swap(0, Ordering::Relaxed)
    }

    /// Starts a thread that writes and copies.
    fn start(&self, name: &str) -> std::io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let body = move || {
            pages::offer();
            shared.run();
        };
        std::thread::Builder::new().name(name.into()).spawn(body).map(|_| ())
    }

    /// Posts a command on the main connection, and queues the bytes of `load` at `place` as its transfer. The command's
    /// sequence names the transfer. Does not wait.
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
        // Queued under the command's own lock, so transfers have the order of their commands.
        own.post_numbered(command, |sequence| self.shared.enter(sequence, load, place, help), Leave::Soon)
    }

    /// Writes and copies with the other threads until nobody reads `load` any more: every byte is at a socket, copied,
    /// or abandoned. On a resumable link, bytes that were not copied must also be acknowledged.
    pub fn see_off(&self, load: &Load) {
        self.shared.see_off(load);
    }

    /// Whether nothing is queued or being written: the connections have all there is.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let line = self.shared.lock();
        line.chunks() == 0 && line.idle.len() == line.all.len()
    }

    /// Ends all connections at once. Unsent bytes are lost.
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

/// The number of connections that suits this machine and a peer at this round-trip time. A near one: half the processors,
/// at least one, since each connection keeps about one processor busy at each end. A far one: as many as have what is
/// under way.
#[must_use]
pub fn suitable_connections(round_trip: Duration) -> u32 {
    let near = u32::try_from(processors() / 2).unwrap_or(u32::MAX).clamp(1, MOST_NEAR);
    let far = u32::try_from(round_trip.as_nanos() / ALONE.as_nanos()).unwrap_or(u32::MAX);
    near.max(far).min(MOST_CONNECTIONS)
}

/// The number of extra copying threads for so many connections: the same number, if all of them keep at most half of
/// the processors busy. Otherwise none: a server on this machine needs the rest for its readers.
#[must_use]
pub fn suitable_copiers(connections: u32) -> usize {
    let connections = connections as usize;
    if connections <= processors() / 4 { connections } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_far_peer_has_a_connection_for_each_two_milliseconds_and_a_near_one_what_the_processors_ask_for() {
        let near = suitable_connections(Duration::ZERO);
        assert!((1..=8).contains(&near), "{near}");
        assert_eq!(suitable_connections(Duration::from_micros(1999)), near);
        assert_eq!(suitable_connections(Duration::from_millis(2)), near);
        assert_eq!(suitable_connections(Duration::from_millis(30)), 15);
        assert_eq!([32, 150, u64::MAX].map(|ms| suitable_connections(Duration::from_millis(ms))), [16; 3]);
    }
}
