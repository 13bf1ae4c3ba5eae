//! Connections of one kind, counted by peer.
//! In: connections that come and go. Out: the connection that must close for a new one. It is the oldest of the same
//! peer if that has its share. Else it is the oldest of the peers with the most.
//! The newest always gets in: admission never depends on when others leave.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::{Share, Source};

/// Connections of one kind; the larger a connection's number, the younger it is.
#[derive(Debug)]
pub(crate) struct Slots {
    share: Share,
    sources: BTreeMap<u64, Source>,
    peers: BTreeMap<Source, BTreeSet<u64>>,
}

impl Slots {
    pub(crate) fn new(share: Share) -> Self {
        Self { share, sources: BTreeMap::new(), peers: BTreeMap::new() }
    }

    /// Counts a connection. Returns the one that must close for it, which counts no more.
    pub(crate) fn take(&mut self, connection: u64, source: Source) -> Option<u64> {
        let leaving = if self.of(source) >= self.share.each {
            self.oldest_of(source)
        } else if self.count() >= self.share.all {
            self.heaviest().and_then(|peer| self.oldest_of(peer))
        } else {
            None
        };
        if let Some(leaving) = leaving {
            self.free(leaving);
        }
        self.sources.insert(connection, source);
        self.peers.entry(source).or_default().insert(connection);
        leaving
    }

    /// A connection has ended. It may have stopped counting earlier.
    pub(crate) fn free(&mut self, connection: u64) {
        let Some(source) = self.sources.remove(&connection) else { return };
        if let Some(its) = self.peers.get_mut(&source) {
            its.remove(&connection);
            if its.is_empty() {
                self.peers.remove(&source);
            }
        }
    }

    /// The number of connections.
    pub(crate) fn count(&self) -> usize {
        self.sources.len()
    }

    /// The number of a peer's connections.
    pub(crate) fn of(&self, source: Source) -> usize {
        self.peers.get(&source).map_or(0, BTreeSet::len)
    }

    /// A peer's oldest connection.
    pub(crate) fn oldest_of(&self, source: Source) -> Option<u64> {
        self.peers.get(&source)?.first().copied()
    }

    /// The peer with the most. Of several, the one with the oldest connection; addresses do not matter.
    pub(crate) fn heaviest(&self) -> Option<Source> {
        let weight = |its: &BTreeSet<u64>| (its.len(), Reverse(its.first().copied()));
        self.peers.iter().max_by_key(|(_, its)| weight(its)).map(|(source, _)| *source)
    }

    /// All connections, each with its peer, the oldest first.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u64, Source)> {
        self.sources.iter().map(|(connection, source)| (*connection, *source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAVY: Source = Source::User(1);
    const LIGHT: Source = Source::User(2);

    #[test]
    fn a_peer_with_as_many_as_it_may_loses_its_own_oldest() {
        let mut slots = Slots::new(Share { all: 100, each: 3 });
        assert!((0..3).all(|connection| slots.take(connection, HEAVY).is_none()));
        assert_eq!(slots.take(3, LIGHT), None);
        assert_eq!(slots.take(4, HEAVY), Some(0));
        assert_eq!(slots.take(5, HEAVY), Some(1));
        assert_eq!((slots.of(HEAVY), slots.of(LIGHT), slots.count()), (3, 1, 4));
    }

    #[test]
    fn where_all_are_taken_the_peer_with_the_most_loses_one() {
        let mut slots = Slots::new(Share { all: 4, each: 4 });
        assert_eq!(slots.take(0, LIGHT), None);
        assert!((1..4).all(|connection| slots.take(connection, HEAVY).is_none()));
        assert_eq!(slots.take(4, Source::User(3)), Some(1));
        assert_eq!(slots.take(5, Source::User(4)), Some(2));
        assert_eq!((slots.of(LIGHT), slots.of(HEAVY), slots.count()), (1, 1, 4));
    }

    #[test]
    fn of_peers_with_equally_many_the_one_with_the_oldest_loses_it_whatever_its_address() {
        for is_reversed in [false, true] {
            let mut slots = Slots::new(Share { all: 4, each: 4 });
            let user = |number: u64| {
                Source::User(u32::try_from(if is_reversed { 100 - number } else { number }).expect("small"))
            };
            assert!((0..4).all(|connection| slots.take(connection, user(connection)).is_none()));
            assert_eq!(
                (4..8).map(|connection| slots.take(connection, user(connection))).collect::<Vec<_>>(),
                [Some(0), Some(1), Some(2), Some(3)]
            );
        }
    }

    #[test]
    fn what_is_over_leaves_nothing() {
        let mut slots = Slots::new(Share { all: 4, each: 1 });
        slots.take(0, HEAVY);
        assert_eq!(slots.take(1, HEAVY), Some(0));
        slots.free(0);
        slots.free(1);
        slots.free(1);
        assert_eq!((slots.count(), slots.of(HEAVY), slots.heaviest()), (0, 0, None));
    }
}
