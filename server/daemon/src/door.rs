//! How connections come to a session's worker: its own, and those that join later with its key.
//! In: keys of peers. Out: the way to the worker, for as many as the session may have.
//! Whether a key is right takes the same time whatever differs.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use floe_worker::hand_over::{Giver, Taker, pair};
use subtle::ConstantTimeEq as _;

use crate::error::DaemonError;
use crate::token::random;

/// Bytes of a session's key: nobody guesses one.
const KEY_BYTES: usize = 16;

/// A session's key.
pub(crate) type Key = [u8; KEY_BYTES];

/// A session's way in.
#[derive(Debug)]
pub(crate) struct Door {
    key: Key,
    /// How many connections may still join; `None`: any number, as long as there is the session.
    left: Option<u32>,
    giver: Arc<Giver>,
    /// Until the worker has it.
    taker: Option<Taker>,
}

impl Door {
    /// A way in for the session's own connection and `joining` more, or any number.
    pub(crate) fn new(joining: Option<u32>) -> Result<Self, DaemonError> {
        let (giver, taker) = pair().map_err(DaemonError::system("making a socket for a worker"))?;
        let key = *random()?.first_chunk().expect("a nonce is longer than a key");
        Ok(Self { key, left: joining, giver: Arc::new(giver), taker: Some(taker) })
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
    pub(crate) fn giver(&self) -> Arc<Giver> {
        Arc::clone(&self.giver)
    }

    /// The way for one that joins; `None` where the key is wrong or as many have joined as may.
    pub(crate) fn join(&mut self, key: &[u8]) -> Option<Arc<Giver>> {
        if !bool::from(self.key.as_slice().ct_eq(key)) {
            return None;
        }
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(1)?;
        }
        Some(self.giver())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_join_as_may_and_only_with_the_key() {
        let mut door = Door::new(Some(2)).expect("made");
        let key = door.key();
        assert!(door.join(&[0; KEY_BYTES]).is_none());
        assert!(door.join(&key[..8]).is_none());
        assert!(door.join(&[]).is_none());
        assert!(door.join(&key).is_some());
        assert!(door.join(&key).is_some());
        assert!(door.join(&key).is_none(), "a third");
        assert_ne!(Door::new(Some(0)).expect("made").key(), key);
    }

    #[test]
    fn connections_that_are_made_again_join_as_often_as_they_break() {
        let mut door = Door::new(None).expect("made");
        let key = door.key();
        assert!((0..1000).all(|_| door.join(&key).is_some()));
        assert!(door.join(&[0; KEY_BYTES]).is_none());
    }
}
