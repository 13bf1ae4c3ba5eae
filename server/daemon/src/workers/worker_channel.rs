//! The channel to a session's worker.
//! In: connections, notices about what sessions share, orders about moves. Out: the same at the worker's standard input.
//! Notices and orders wait here for room; what the worker sends is read, and closed, without waiting for it. Tunnels, by which
//! this process seals connections of the worker, are counted here and end with it.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use floe_transport::{Link, Tunnel};
use floe_worker::Granted;
use floe_worker::cache_channel::CacheEnd;
use floe_worker::descriptor_passing::{Giver, Heard, Role, pair};
use floe_worker::end_notices::{EndOrder, MOST_WORDS};
use floe_worker::move_notices::MoveOrder;
use floe_worker::peer_notices::PeerNotice;
use floe_worker::turn_notices::TurnOrder;
use rustix::event::PollFlags;

use super::outbox::{Item, Outbox};
use crate::entrance::closing::Closer;
use crate::error::DaemonError;

/// Connections to a worker besides bulk connections: the session's own, the one with acknowledgements, and a broken
/// predecessor of each.
const SPARE: u32 = 4;

/// Messages of a worker that are read behind its end, so that each of their descriptors is closed by itself: more than
/// the system keeps for one.
const MOST_LEFT: u32 = 1024;

/// A worker's time to tell its client why its session ends, and to end.
const LAST_WORD: Duration = Duration::from_secs(2);

/// Passes connections to a worker, and holds their tunnels.
#[derive(Debug)]
pub(crate) struct WorkerChannel {
    /// `None`: it is being dropped.
    giver: Option<Giver>,
    outbox: Outbox,
    /// Whether the worker has closed its end.
    gone: AtomicBool,
    /// When the worker is killed, since it was told to end.
    due: Mutex<Option<Instant>>,
    /// Closes what the worker has sent, and with it the socket.
    closer: Arc<Closer>,
    /// The most tunnels at once: two for every connection a session has.
    most: usize,
    /// `None`: the session has ended.
    tunnels: Mutex<Option<Vec<Tunnel>>>,
}

impl WorkerChannel {
    /// The channel to a worker that is to have so many bulk connections, and the worker's end.
    pub(crate) fn new(bulk_connections: u32) -> Result<(Arc<Self>, OwnedFd), DaemonError> {
        let most = most_connections(bulk_connections);
        let (giver, taker) = pair(most).map_err(DaemonError::system("cannot make a socket for a worker"))?;
        let most = usize::try_from(most).unwrap_or(usize::MAX).saturating_mul(2);
        let closer = Arc::default();
        let outbox =
            Outbox::new(Arc::clone(&closer)).map_err(DaemonError::system("cannot make an event for a worker"))?;
        let (gone, due, tunnels) = (AtomicBool::new(false), Mutex::default(), Mutex::new(Some(Vec::new())));
        let channel = Self { giver: Some(giver), outbox, gone, due, closer, most, tunnels };
        Ok((Arc::new(channel), taker.into_descriptor()))
    }

    fn giver(&self) -> &Giver {
        self.giver.as_ref().expect("there until it is dropped")
    }

    /// Gives the worker a notice about what sessions share, when it has room. False: it leaves too many unread.
    pub(crate) fn notify(&self, notice: PeerNotice, descriptor: Option<OwnedFd>) -> bool {
        self.outbox.add(Item::Peer(notice, descriptor), |item| Self::write(item, self.giver()))
    }

    /// Gives the worker an order about a move, when it has room. False: it leaves too much unread.
    pub(crate) fn order(&self, order: MoveOrder, stream: Option<OwnedFd>) -> bool {
        self.outbox.add(Item::Move(order, stream), |item| Self::write(item, self.giver()))
    }

    /// Gives the worker an order about its turn, when it has room. False: it leaves too much unread.
    pub(crate) fn turn(&self, order: TurnOrder) -> bool {
        self.outbox.add(Item::Turn(order), |item| Self::write(item, self.giver()))
    }

    /// Has the worker tell its client why the session ends, and end. Whoever follows it kills it soon, whether it does or
    /// not.
    pub(crate) fn end(&self, mut words: String) {
        words.truncate(words.floor_char_boundary(MOST_WORDS));
        floe_lock::lock(&self.due).get_or_insert_with(|| Instant::now() + LAST_WORD);
        // One that leaves too much unread does not tell its client.
        let _ = self.outbox.add(Item::End(EndOrder { words }), |item| Self::write(item, self.giver()));
        self.outbox.wake();
    }

    /// When the worker is to be killed; `None`: its session goes on.
    pub(crate) fn due(&self) -> Option<Instant> {
        *floe_lock::lock(&self.due)
    }

    /// Gives what there is room for now.
    pub(crate) fn flush(&self) {
        self.outbox.flush(|item| Self::write(item, self.giver()));
    }

    fn write(item: &Item, giver: &Giver) -> io::Result<()> {
        let descriptor = item.descriptor().map(|descriptor| descriptor.as_fd());
        match item {
            Item::Peer(notice, _) => giver.notify(notice, descriptor),
            Item::Move(order, _) => giver.order(*order, descriptor),
            Item::Turn(order) => giver.turn(*order),
            Item::End(order) => giver.end(order),
        }
    }

    /// The descriptors to wait at, and for what.
    pub(crate) fn watched(&self) -> [(BorrowedFd<'_>, PollFlags); 2] {
        let wanted = match (self.gone.load(Ordering::Relaxed), self.outbox.is_waiting()) {
            (true, _) => return [(self.outbox.as_fd(), PollFlags::IN), (self.outbox.as_fd(), PollFlags::IN)],
            (false, true) => PollFlags::IN | PollFlags::OUT,
            (false, false) => PollFlags::IN,
        };
        [(self.giver().as_fd(), wanted), (self.outbox.as_fd(), PollFlags::IN)]
    }

    /// A message of the worker's.
    pub(crate) fn hear(&self) -> Heard {
        self.giver().hear()
    }

    /// The worker has closed its end.
    pub(crate) fn is_gone(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }

    /// Closes descriptors of the worker's beside this thread: that may last as long as the worker likes.
    pub(crate) fn close_elsewhere(&self, descriptors: impl IntoIterator<Item = OwnedFd>) {
        descriptors.into_iter().for_each(|descriptor| self.closer.close(descriptor));
    }

    /// Gives the worker access to the cache of modules.
    ///
    /// # Errors
    /// When the worker has ended.
    pub(crate) fn give_modules(&self, end: &CacheEnd) -> io::Result<()> {
        self.giver().give_modules(end)
    }

    /// Gives a connection to the worker without waiting.
    ///
    /// # Errors
    /// As [`Giver::give`]; `WouldBlock` also when the session has its most tunnels.
    pub(crate) fn give(&self, role: Role, link: Link) -> io::Result<()> {
        if let Some(tunnel) = link.tunnel() {
            let mut tunnels = floe_lock::lock(&self.tunnels);
            let tunnels = tunnels.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
            tunnels.retain(|tunnel| !tunnel.is_over());
            if tunnels.len() >= self.most {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            tunnels.push(tunnel);
        }
        self.giver().give(role, link)
    }

    /// Tells the worker how much device memory the session may have.
    ///
    /// # Errors
    /// As [`Giver::grant`].
    pub(crate) fn grant(&self, granted: Granted) -> io::Result<()> {
        self.giver().grant(granted)
    }

    /// Ends all tunnels of a worker that has ended, and allows no more.
    pub(crate) fn end_tunnels(&self) {
        let tunnels = floe_lock::lock(&self.tunnels).take();
        tunnels.iter().flatten().for_each(Tunnel::finish);
    }
}

impl Drop for WorkerChannel {
    fn drop(&mut self) {
        let Some(giver) = self.giver.take() else { return };
        // An empty message looks like the end, so the end is not looked for.
        for _ in 0..MOST_LEFT {
            match giver.hear() {
                Heard::Nothing => break,
                Heard::Taken | Heard::Gone => {}
                Heard::Answer(_, descriptors) | Heard::Nonsense(descriptors) => self.close_elsewhere(descriptors),
            }
        }
        // With the socket goes what is left.
        self.closer.close(giver.into_socket());
    }
}

/// The most connections that wait before a worker with so many bulk connections.
pub(crate) fn most_connections(bulk_connections: u32) -> u32 {
    bulk_connections.saturating_add(SPARE)
}

#[cfg(test)]
mod tests {
    use rustix::net::{SendFlags, send};

    use super::*;
    use crate::entrance::closing::stubborn;

    #[test]
    fn connections_that_a_worker_leaves_behind_keep_no_thread_though_they_were_to_linger() {
        let (channel, worker) = WorkerChannel::new(0).expect("made");
        let closer = Arc::clone(&channel.closer);
        let held_up = [b"t", b"x"].map(|words| {
            let (near, far) = stubborn::lingering();
            send(&worker, b"", SendFlags::DONTWAIT).expect("room");
            floe_transport::send_with(&worker, words, near.as_fd()).expect("sent");
            far
        });
        drop(worker);
        drop(channel);
        let start = Instant::now();
        while closer.count() > 0 {
            assert!(start.elapsed() < Duration::from_secs(120), "a thread waits for the worker's client");
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(held_up);
    }
}
