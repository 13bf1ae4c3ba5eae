//! Limits of sessions, for all and per peer.
//! In: the numbers of all sessions and of one peer's. Out: room for one more, or the limit that forbids it.

use super::{Share, Source};

/// The limits that the operator sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionLimits {
    /// Sessions at once.
    pub(crate) sessions: Share,
    /// The most sessions of one peer that wait for their client to reconnect.
    pub(crate) waiting: usize,
}

/// Why there is no room for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TooMany {
    /// The server is full.
    #[error("this server has reached its limit of sessions: {0}")]
    All(usize),
    /// The peer has reached its share.
    #[error("this client's address or user has reached its limit of sessions here: {0}")]
    OfPeer(usize),
}

impl SessionLimits {
    /// Whether one more session is allowed. The server's own user has no share, since that user can end the server as
    /// well: `source` is `None`.
    pub(crate) fn admit(
        &self,
        all: usize,
        of_peer: impl FnOnce(Source) -> usize,
        source: Option<Source>,
    ) -> Result<(), TooMany> {
        let Share { all: most, each } = self.sessions;
        match source {
            Some(source) if of_peer(source) >= each => Err(TooMany::OfPeer(each)),
            _ if all >= most => Err(TooMany::All(most)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: SessionLimits = SessionLimits { sessions: Share { all: 8, each: 2 }, waiting: 1 };

    #[test]
    fn a_peer_has_its_share_and_the_servers_own_user_all() {
        let peer = Some(Source::User(3));
        assert_eq!(LIMITS.admit(1, |_| 1, peer), Ok(()));
        assert_eq!(LIMITS.admit(2, |_| 2, peer), Err(TooMany::OfPeer(2)));
        assert_eq!(LIMITS.admit(8, |_| 1, peer), Err(TooMany::All(8)));
        assert_eq!(LIMITS.admit(7, |_| 7, None), Ok(()));
        assert_eq!(LIMITS.admit(8, |_| 8, None), Err(TooMany::All(8)));
    }
}
