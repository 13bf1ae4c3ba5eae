//! How connections come to a session's worker: its own, and those that join later with its key.
//! In: keys of peers. Out: the way to the worker, for as many as the session may have.
//! Whether a key is right takes the same time whatever differs. What this process does for connections that it has handed
//! over, to seal them, is counted here and ends with the session.

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
/// Connections beside those with bulk data that may be on their way to a worker: the session's own, the one with
/// acknowledgements, and one of each that was left behind when they broke.
const SPARE: u32 = 4;

/// A session's key.
pub(crate) type Key = [u8; KEY_BYTES];

/// How connections of a session come to its worker: by whom, and how many still may.
#[derive(Debug)]
pub(crate) struct ChannelEntrance {
    key: Key,
    /// How many connections may still join; `None`: any number, as long as there is the session.
    left: Option<u32>,
    channel: Arc<WorkerChannel>,
    /// Until the worker has it.
    taker: Option<Taker>,
}

/// Hands connections to a worker, and holds the tunnels of those that it was handed.
#[derive(Debug)]
pub(crate) struct WorkerChannel {
    giver: Giver,
    /// The most tunnels at once: two for every connection a session has.
    most: usize,
    /// `None`: the session is over.
    tunnels: Mutex<Option<Vec<Tunnel>>>,
}

impl WorkerChannel {
    /// Gives the worker its way to the cache of modules.
    ///
    /// # Errors
    /// When the worker is gone.
    pub(crate) fn give_modules(&self, end: &CacheEnd) -> io::Result<()> {
        self.giver.give_modules(end)
    }

    /// Gives a connection to the worker, and never waits for that.
    ///
    /// # Errors
    /// As [`Giver::give`]; `WouldBlock` also when more tunnels than the session may have are not over.
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

    /// Says what the session may have of the device's memory.
    ///
    /// # Errors
    /// As [`Giver::grant`].
    pub(crate) fn grant(&self, granted: Granted) -> io::Result<()> {
        self.giver.grant(granted)
    }

    /// The worker is gone: the tunnels are over when this returns, and there will be no more.
    pub(crate) fn end_tunnels(&self) {
        let tunnels = floe_lock::lock(&self.tunnels).take();
        tunnels.iter().flatten().for_each(Tunnel::finish);
    }
}

impl ChannelEntrance {
    /// A way in for the session's own connection and so many more with bulk data: once each, or as often as they break
    /// where the session outlives them.
    pub(crate) fn new(bulk_connections: u32, outlives: bool) -> Result<Self, DaemonError> {
        let most = bulk_connections.saturating_add(SPARE);
        let (giver, taker) = pair(most).map_err(DaemonError::system("making a socket for a worker"))?;
        let key = *random()?.first_chunk().expect("a nonce is longer than a key");
        let left = (!outlives).then_some(bulk_connections);
        let most = usize::try_from(most).unwrap_or(usize::MAX).saturating_mul(2);
        let channel = Arc::new(WorkerChannel { giver, most, tunnels: Mutex::new(Some(Vec::new())) });
        Ok(Self { key, left, channel, taker: Some(taker) })
    }

    /// What lets connections join.
    pub(crate) fn key(&self) -> Key {
        self.key
    }

    /// The worker's end, once.
    pub(crate) fn worker_end(&mut self) -> Option<OwnedFd> {
        self.taker.take().map(Taker::into_descriptor)
    }

    /// The way for the session's own connection.
    pub(crate) fn channel(&self) -> Arc<WorkerChannel> {
        Arc::clone(&self.channel)
    }

    /// The way for one that joins; `None` where the key is wrong or as many have joined as may.
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
