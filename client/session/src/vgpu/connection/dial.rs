//! Further connections of a session, made with its key: for bulk data, for acknowledgements, and each of them again when one
//! has broken. The key that lets a connection join comes in. A link that continues where both sides are goes out, or
//! the reason why there is none.

use std::time::Duration;

use floe_transport::{ACKNOWLEDGEMENT_CHANNEL, Address, HistoryDigest, Link, suitable_copiers};
use floe_wire::{Call as _, Continue, Join};

use super::error::ConnectError;
use super::handshake::{Attached, CONNECT, Dialogue};
use crate::log::log;
use crate::settings::Credentials;

/// The names of the steps, as they are logged.
pub(super) const JOINING: &str = "a further connection of its session";
pub(super) const GOING_ON: &str = "to resume a session's connection";

/// How further connections join a session.
#[derive(Debug)]
pub(crate) struct Joining {
    pub(super) server: String,
    pub(super) credentials: Credentials,
    pub(super) session: u64,
    pub(super) key: Vec<u8>,
    /// The number of connections that may join for bulk data.
    pub(super) count: u32,
    /// Threads of one copy of pageable memory; `None` for what suits the processors.
    pub(super) copy_threads: Option<usize>,
}

impl Joining {
    /// Threads that copy beside those that write: of those of one copy the calling one is one. Sealing copies the bytes
    /// anyway.
    pub(super) fn copiers(&self) -> usize {
        if self.count == 0 || self.is_sealed() {
            return 0;
        }
        self.copy_threads.map_or_else(|| suitable_copiers(self.count), |threads| threads - 1)
    }

    pub(super) fn is_sealed(&self) -> bool {
        self.server.parse().is_ok_and(|address: Address| self.credentials.seals(&address))
    }

    /// Makes one more connection of the session; `limit` is for each step. With how long the way there and back took.
    pub(super) fn join(&self, limit: Duration) -> Result<(Link, Duration), ConnectError> {
        let Self { server, credentials, session, key, .. } = self;
        let mut dialogue = Dialogue::open(server, &server.parse()?, credentials, limit)?;
        dialogue.ask(&Join { session: *session, key }, JOINING, limit)?;
        Ok((dialogue.link, dialogue.trip))
    }

    /// Makes a joined connection resume its channel, at `mark` on this side. Returns the server's mark, too.
    pub(super) fn resume(
        &self,
        link: Link,
        (epoch, channel): (u64, u32),
        mark: HistoryDigest,
        limit: Duration,
    ) -> Result<(Link, HistoryDigest), ConnectError> {
        let message = &Continue { epoch, channel, received: mark.received, digest: mark.digest };
        let mut dialogue = Dialogue { link, server: &self.server, limit, trip: Duration::ZERO };
        let body = dialogue.ask(message, GOING_ON, limit)?;
        let reply = Continue::decode_reply(&body).map_err(|source| dialogue.garbled(source))?;
        Ok((dialogue.link, HistoryDigest { received: reply.received, digest: reply.digest }))
    }
}

impl Attached {
    /// Leaves a session that nobody has used. The server gets a goodbye, so that it does not wait for other
    /// connections.
    pub(crate) fn leave(self) {
        let Some(channels) = self.channels else { return };
        let which = (channels.epoch(), ACKNOWLEDGEMENT_CHANNEL);
        let made = self
            .joining
            .join(CONNECT)
            .and_then(|(link, _)| self.joining.resume(link, which, HistoryDigest::none(), CONNECT));
        match made {
            Ok((link, _)) => drop(channels.hear(channels.epoch(), link)),
            Err(error) => log!(Info, "a session that is not used ends when its server stops waiting: {error}"),
        }
        channels.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_threads_copy_for_connections_that_are_given_pages() {
        let copiers = |server: &str, count, copy_threads| {
            let (server, credentials) = (server.to_owned(), Credentials::default());
            Joining { server, credentials, session: 1, key: vec![], count, copy_threads }.copiers()
        };
        assert_eq!(copiers("tcp://server:7070", 2, Some(4)), 3);
        assert_eq!(copiers("tcp://server:7070", 2, Some(1)), 0);
        assert_eq!(copiers("tcp://server:7070", 0, Some(4)), 0);
        assert_eq!(copiers("tls://server:7070", 2, Some(4)), 0);
        let credentials = Credentials { token: Some("token".into()), ..Credentials::default() };
        for (server, sealed) in [("tcp://server", true), ("clear://server", false), ("/run/floed.sock", false)] {
            assert_eq!(credentials.seals(&server.parse().expect("an address")), sealed, "{server}");
        }
        assert_eq!(copiers("tcp://server:7070", 2, None), suitable_copiers(2));
    }
}
