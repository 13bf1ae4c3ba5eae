//! Connections without a proof that compete for the same places and the same threads.
//! In: new connections, those whose first message is complete, those that have ended, and the time. Out: which may
//! speak on a thread, and which are closed.
//! The newest always gets in, and no peer has more threads than its share, however many connections it opens. Of peers
//! with equally many threads the one that has waited longest is next. An address decides nothing.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{Share, Slots, Source, UNPROVED};

/// The most time for a connection to prove who it is, while others wait for its thread.
pub(super) const LONGEST_IN_THE_WAY: Duration = Duration::from_secs(1);
/// The least time, however many wait: a round trip to another continent.
pub(super) const SHORTEST_IN_THE_WAY: Duration = Duration::from_millis(100);

/// What to do with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It may speak.
    Speak(u64),
    /// It is closed.
    Close(u64),
}

/// The most connections, and the most of them with threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) connections: Share,
    pub(crate) threads: Share,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Its first message is not complete.
    Silent,
    /// It waits for a thread, behind all with smaller tickets.
    Waits { ticket: u64 },
    /// It has had a thread since then.
    Speaks(Instant),
}

/// A connection.
#[derive(Clone, Copy, Debug)]
struct Stranger {
    source: Source,
    since: Instant,
    stage: Stage,
}

/// Connections without a proof.
#[derive(Debug)]
pub(crate) struct Pool {
    connections: Slots,
    rows: BTreeMap<u64, Stranger>,
    /// Those with a thread, including closed ones whose thread has not ended.
    speaking: Slots,
    threads: Share,
    /// Those without a thread whose first message is complete, by ticket.
    ready: BTreeMap<Source, BTreeMap<u64, u64>>,
    last_ticket: u64,
}

impl Pool {
    pub(crate) fn new(room: Room) -> Self {
        Self {
            connections: Slots::new(room.connections),
            rows: BTreeMap::new(),
            // The limits are checked before one more is counted.
            speaking: Slots::new(Share { all: usize::MAX, each: usize::MAX }),
            threads: room.threads,
            ready: BTreeMap::new(),
            last_ticket: 0,
        }
    }

    /// Adds a connection. Returns the connection that is closed for it.
    pub(crate) fn arrive(&mut self, connection: u64, source: Source, now: Instant) -> Option<u64> {
        let leaving = self.connections.take(connection, source);
        if let Some(leaving) = leaving {
            self.close(leaving);
        }
        self.rows.insert(connection, Stranger { source, since: now, stage: Stage::Silent });
        leaving
    }

    /// A connection's first message is complete. Connections of other pools are ignored.
    pub(crate) fn is_ready(&mut self, connection: u64) {
        let Some(row) = self.rows.get_mut(&connection) else { return };
        if matches!(row.stage, Stage::Silent) {
            self.last_ticket += 1;
            row.stage = Stage::Waits { ticket: self.last_ticket };
            self.ready.entry(row.source).or_default().insert(self.last_ticket, connection);
        }
    }

    /// A connection and its thread have ended, or it has proved who it is.
    pub(crate) fn over(&mut self, connection: u64) {
        self.speaking.free(connection);
        self.close(connection);
    }

    /// A connection is closed. Its thread counts until it has ended.
    fn close(&mut self, connection: u64) {
        self.connections.free(connection);
        if let Some(Stranger { source, stage: Stage::Waits { ticket }, .. }) = self.rows.remove(&connection) {
            self.no_more_ready(ticket, source);
        }
    }

    /// The number of connections.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.rows.len()
    }

    /// What to do now. Connections whose time is up are closed and forgotten. Threads go to those that wait: first to
    /// the peers with the fewest, of these to the one that has waited longest.
    pub(crate) fn decide(&mut self, now: Instant) -> Vec<Decision> {
        let mut decisions = Vec::new();
        while let Some((&connection, row)) = self.rows.first_key_value()
            && now.saturating_duration_since(row.since) >= UNPROVED
        {
            self.close(connection);
            decisions.push(Decision::Close(connection));
        }
        while let Some(decision) = self.next(now) {
            match decision {
                // Its thread stays counted until it has ended.
                Decision::Close(late) => self.close(late),
                Decision::Speak(connection) => self.speak(connection, now),
            }
            decisions.push(decision);
        }
        decisions
    }

    /// When to decide again, unless an event comes first.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let first = self.rows.first_key_value().map(|(_, row)| row.since + UNPROVED)?;
        let thread = self.crowds().filter_map(|crowd| self.in_the_way_of(crowd)).map(|(_, until)| until).min();
        Some(thread.map_or(first, |thread| thread.min(first)))
    }

    fn speak(&mut self, connection: u64, now: Instant) {
        let Some(row) = self.rows.get_mut(&connection) else { return };
        let (source, stage) = (row.source, std::mem::replace(&mut row.stage, Stage::Speaks(now)));
        if let Stage::Waits { ticket } = stage {
            self.no_more_ready(ticket, source);
        }
        self.speaking.take(connection, source);
    }

    /// The connection that gets the next thread, or else one that closes for those that wait.
    fn next(&self, now: Instant) -> Option<Decision> {
        if self.speaking.count() < self.threads.all {
            let first = self.may_speak().min_by_key(|(source, ticket, _)| (self.speaking.of(*source), *ticket));
            if let Some((.., connection)) = first {
                return Some(Decision::Speak(connection));
            }
        }
        let late = self.crowds().filter_map(|crowd| self.in_the_way_of(crowd)).find(|(_, until)| *until <= now);
        late.map(|(connection, _)| Decision::Close(connection))
    }

    /// Of each waiting peer below its share of threads: the connection that has waited longest, with its ticket.
    fn may_speak(&self) -> impl Iterator<Item = (Source, u64, u64)> {
        let ready = self.ready.iter().filter(|(source, _)| self.speaking.of(**source) < self.threads.each);
        ready.filter_map(|(source, its)| {
            its.first_key_value().map(|(ticket, connection)| (*source, *ticket, *connection))
        })
    }

    /// The groups that wait for the same threads. If all threads are taken, all waiting peers are one. Each peer that
    /// has its full share is one of its own.
    fn crowds(&self) -> impl Iterator<Item = Crowd> {
        let is_full = self.speaking.count() >= self.threads.all;
        let waiting = if is_full { self.may_speak().count() } else { 0 };
        let all = (waiting > 0).then_some(Crowd { of: None, waiting, threads: self.threads.all });
        let own = self.ready.iter().filter(|(source, _)| self.speaking.of(**source) >= self.threads.each);
        let own = own.map(|(source, its)| Crowd { of: Some(*source), waiting: its.len(), threads: self.threads.each });
        all.into_iter().chain(own)
    }

    /// The connection that must close for a waiting group, and when. It is the one that has had its thread longest, of
    /// the peer's own or of the peers with the most threads. `None` while one that was closed for the group still has
    /// its thread.
    fn in_the_way_of(&self, crowd: Crowd) -> Option<(u64, Instant)> {
        let most = crowd.of.is_none().then(|| self.speaking.heaviest().map_or(0, |peer| self.speaking.of(peer)));
        let is_one =
            |source: Source| crowd.of.map_or_else(|| Some(self.speaking.of(source)) == most, |of| of == source);
        let mut longest: Option<(u64, Instant)> = None;
        for (connection, _) in self.speaking.all().filter(|(_, source)| is_one(*source)) {
            let Some(Stranger { stage: Stage::Speaks(since), .. }) = self.rows.get(&connection) else { return None };
            if longest.is_none_or(|(_, longest)| *since < longest) {
                longest = Some((connection, *since));
            }
        }
        longest.map(|(connection, since)| (connection, since + crowd.patience()))
    }

    fn no_more_ready(&mut self, ticket: u64, source: Source) {
        if let Some(its) = self.ready.get_mut(&source) {
            its.remove(&ticket);
            if its.is_empty() {
                self.ready.remove(&source);
            }
        }
    }
}

/// A group that waits for the same threads.
#[derive(Clone, Copy, Debug)]
struct Crowd {
    /// The peer that has the threads; `None`: all peers.
    of: Option<Source>,
    /// The number that wait: connections of the peer, or peers.
    waiting: usize,
    /// The number of threads.
    threads: usize,
}

impl Crowd {
    /// The time for which a connection may have one of the threads: the more wait, the shorter.
    fn patience(self) -> Duration {
        let turns = self.waiting.div_ceil(self.threads.max(1)).max(1);
        let turns = u32::try_from(turns).unwrap_or(u32::MAX);
        // Because of the square, the last of sixteen turns begins before the waiting connections' time is up.
        (LONGEST_IN_THE_WAY / turns.saturating_mul(turns)).max(SHORTEST_IN_THE_WAY)
    }
}
