//! The channel to a session's worker, for the session's own connection and those that join by its key.
//! In: keys of peers. Out: the channel, for as many connections as the session may have.
//! Keys are compared in constant time. Tunnels, by which this process seals connections of the worker, are counted here
//! and end with the session.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use floe_transport::{Link, Tunnel};
use floe_worker::Granted;
use floe_worker::cache_channel::CacheEnd;
use floe_worker::descriptor_passing::{Giver, Role, Taker, pair};
use subtle::ConstantTimeEq as _;

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
    giver: Giver,
    /// The most tunnels at once: two for every connection a session has.
    most: usize,
    /// `None`: the session has ended.
    tunnels: Mutex<Option<Vec<Tunnel>>>,
}

impl WorkerChannel {
    /// Gives the worker access to the cache of modules.
    ///
    /// # Errors
    /// When the worker has ended.
    pub(crate) fn give_modules(&self, end: &CacheEnd) -> io::Result<()> {
        self.giver.give_modules(end)
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
        self.giver.give(role, link)
    }

    /// Tells the worker how much device memory the session may have.
    ///
    /// # Errors
    /// As [`Giver::grant`].
    pub(crate) fn grant(&self, granted: Granted) -> io::Result<()> {
        self.giver.grant(granted)
    }

    /// Ends all tunnels of a worker that has ended, and allows no more.
    pub(crate) fn end_tunnels(&self) {
        let tunnels = floe_lock::lock(&self.tunnels).take();
        tunnels.iter().flatten().for_each(Tunnel::finish);
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
        let channel = Arc::new(WorkerChannel { giver, most, tunnels: Mutex::new(Some(Vec::new())) });
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
