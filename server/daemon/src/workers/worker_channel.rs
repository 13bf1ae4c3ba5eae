//! The channel to a session's worker, for the session's own connection and those that join by its key.
//! In: keys of peers. Out: the channel, for as many connections as the session may have.
//! Notices about what sessions share wait here for room; what the worker sends is read, and closed, without waiting for it.
//! Keys are compared in constant time. Tunnels, by which this process seals connections of the worker, are counted here
//! and end with the session.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use floe_transport::{Link, Tunnel};
use floe_worker::Granted;
use floe_worker::cache_channel::CacheEnd;
use floe_worker::descriptor_passing::{Giver, Heard, Role, Taker, pair};
use floe_worker::peer_notices::PeerNotice;
use rustix::event::PollFlags;
use subtle::ConstantTimeEq as _;

use super::outbox::Outbox;
use crate::entrance::closing::Closer;
use crate::entrance::token::random;
use crate::error::DaemonError;

/// Bytes of a session's key: nobody guesses one.
const KEY_BYTES: usize = 16;
/// Connections to a worker besides bulk connections: the session's own, the one with acknowledgements, and a broken
/// predecessor of each.
const SPARE: u32 = 4;

/// A session's key.
pub(crate) type Key = [u8; KEY_BYTES];

/// A session's entrance for connections: its channel, its key, and how many may still join.
#[derive(Debug)]
pub(crate) struct ChannelEntrance {
    key: Key,
    /// The number of connections that may still join; `None`: any number while the session lasts.
    left: Option<u32>,
    channel: Arc<WorkerChannel>,
    /// The worker's end, until the worker has it.
    taker: Option<Taker>,
}

/// Passes connections to a worker, and holds their tunnels.
#[derive(Debug)]
pub(crate) struct WorkerChannel {
    /// `None`: it is being dropped.
    giver: Option<Giver>,
    outbox: Outbox,
    /// Whether the worker has closed its end.
    gone: AtomicBool,
    /// Closes what the worker has sent, and with it the socket.
    closer: Arc<Closer>,
    /// The most tunnels at once: two for every connection a session has.
    most: usize,
    /// `None`: the session has ended.
    tunnels: Mutex<Option<Vec<Tunnel>>>,
}

impl WorkerChannel {
    fn giver(&self) -> &Giver {
        self.giver.as_ref().expect("there until it is dropped")
    }

    /// Gives the worker a notice about what sessions share, when it has room. False: it leaves too many unread.
    pub(crate) fn notify(&self, notice: PeerNotice, descriptor: Option<OwnedFd>) -> bool {
        self.outbox.add((notice, descriptor), |item| Self::write(item, self.giver()))
    }

    /// Gives what there is room for now.
    pub(crate) fn flush(&self) {
        self.outbox.flush(|item| Self::write(item, self.giver()));
    }

    fn write((notice, descriptor): &(PeerNotice, Option<OwnedFd>), giver: &Giver) -> io::Result<()> {
        giver.notify(notice, descriptor.as_ref().map(|descriptor| descriptor.as_fd()))
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
        // With the socket goes what the worker has sent and nobody has read.
        if let Some(giver) = self.giver.take() {
            self.closer.close(giver.into_socket());
        }
    }
}

impl ChannelEntrance {
    /// An entrance for the session's own connection and so many bulk connections. Each may join once, or as often as it
    /// breaks if the session `outlives` its connections.
    pub(crate) fn new(bulk_connections: u32, outlives: bool) -> Result<Self, DaemonError> {
        let most = bulk_connections.saturating_add(SPARE);
        let (giver, taker) = pair(most).map_err(DaemonError::system("cannot make a socket for a worker"))?;
        let key = *random()?.first_chunk().expect("a nonce is longer than a key");
        let left = (!outlives).then_some(bulk_connections);
        let most = usize::try_from(most).unwrap_or(usize::MAX).saturating_mul(2);
        let outbox = Outbox::new().map_err(DaemonError::system("cannot make an event for a worker"))?;
        let (gone, closer, tunnels) = (AtomicBool::new(false), Arc::default(), Mutex::new(Some(Vec::new())));
        let channel = Arc::new(WorkerChannel { giver: Some(giver), outbox, gone, closer, most, tunnels });
        Ok(Self { key, left, channel, taker: Some(taker) })
    }

    /// The key by which connections join.
    pub(crate) fn key(&self) -> Key {
        self.key
    }

    /// The worker's end, once.
    pub(crate) fn worker_end(&mut self) -> Option<OwnedFd> {
        self.taker.take().map(Taker::into_descriptor)
    }

    /// The channel for the session's own connection.
    pub(crate) fn channel(&self) -> Arc<WorkerChannel> {
        Arc::clone(&self.channel)
    }

    /// The channel for a connection that joins; `None` if the key is wrong or no more may join.
    pub(crate) fn join(&mut self, key: &[u8]) -> Option<Arc<WorkerChannel>> {
        if !bool::from(self.key.as_slice().ct_eq(key)) {
            return None;
        }
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(1)?;
        }
        Some(self.channel())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_join_as_may_and_only_with_the_key() {
        let mut entrance = ChannelEntrance::new(2, false).expect("made");
        let key = entrance.key();
        assert!(entrance.join(&[0; KEY_BYTES]).is_none());
        assert!(entrance.join(&key[..8]).is_none());
        assert!(entrance.join(&[]).is_none());
        assert!(entrance.join(&key).is_some());
        assert!(entrance.join(&key).is_some());
        assert!(entrance.join(&key).is_none(), "a third");
        assert_ne!(ChannelEntrance::new(0, false).expect("made").key(), key);
    }

    #[test]
    fn connections_that_are_made_again_join_as_often_as_they_break() {
        let mut entrance = ChannelEntrance::new(2, true).expect("made");
        let key = entrance.key();
        assert!((0..1000).all(|_| entrance.join(&key).is_some()));
        assert!(entrance.join(&[0; KEY_BYTES]).is_none());
    }
}
