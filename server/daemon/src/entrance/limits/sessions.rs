//! How many sessions a peer may have.
//! In: how many there are, of all and of one peer. Out: room for one more, or which limit says no.

use super::{Share, Source};

/// What the operator allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionLimits {
    /// Sessions at once.
    pub(crate) sessions: Share,
    /// Sessions of one peer that wait for their client to make its connections again.
    pub(crate) waiting: usize,
}

/// Why there is no room for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TooMany {
    /// The server is full.
    #[error("this server has as many sessions as it may: {0}")]
    All(usize),
    /// The peer has its share.
    #[error("this client's address or user has as many sessions here as it may: {0}")]
    OfPeer(usize),
}

impl SessionLimits {
    /// May there be one more? The server's own user, who may end the server as well, has no share: `source` is `None`.
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
