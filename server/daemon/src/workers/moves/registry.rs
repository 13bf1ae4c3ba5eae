//! The moves that are under way, and how many there may be.
//! In: sessions with their peers. Out: a place for each move, until it is dropped.
//! The limit per peer comes before the limit for all.

use std::collections::BTreeMap;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};

use floe_migrate::Input;

use crate::entrance::conversation::Refusal;
use crate::entrance::limits::{Share, Source};
use crate::status;

/// Moves at once: each has a second worker and a thread, and takes of the GPUs' bandwidth.
const MOST: Share = Share { all: 8, each: 2 };

/// All moves of a daemon.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moves(Arc<Mutex<BTreeMap<u64, Entry>>>);

#[derive(Debug)]
struct Entry {
    /// Who asked; `None`: the server's own user.
    source: Option<Source>,
    to: SyncSender<Input>,
}

/// A move's place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    moves: Moves,
    session: u64,
}

/// Why there is no place for a move.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// The session moves already.
    Moves,
    /// Others do.
    Full,
}

impl From<NoPlace> for Refusal {
    fn from(why: NoPlace) -> Self {
        let detail = match why {
            NoPlace::Moves => "the session is moving already",
            NoPlace::Full => "too many sessions are moving; try again when one has arrived",
        };
        Self { status: status::NOT_READY, detail: detail.to_owned() }
    }
}

impl Moves {
    /// Whether a session stays where it is: a move has links of its own with it.
    pub(crate) fn demand_still(&self, session: u64) -> Result<(), NoPlace> {
        if floe_lock::lock(&self.0).contains_key(&session) { Err(NoPlace::Moves) } else { Ok(()) }
    }

    /// A place for the move of a session.
    pub(crate) fn take(&self, session: u64, source: Option<Source>, to: SyncSender<Input>) -> Result<Place, NoPlace> {
        let mut under_way = floe_lock::lock(&self.0);
        if under_way.contains_key(&session) {
            return Err(NoPlace::Moves);
        }
        let of_peer = under_way.values().filter(|entry| source.is_some() && entry.source == source).count();
        if of_peer >= MOST.each || under_way.len() >= MOST.all {
            return Err(NoPlace::Full);
        }
        under_way.insert(session, Entry { source, to });
        Ok(Place { moves: self.clone(), session })
    }

    /// The daemon ends.
    pub(crate) fn end(&self) {
        for entry in floe_lock::lock(&self.0).values() {
            // One that has so much to read ends by its workers' ends.
            let _ = entry.to.try_send(Input::DaemonEnds);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        floe_lock::lock(&self.moves.0).remove(&self.session);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    #[test]
    fn a_session_has_one_move_a_peer_two_and_all_together_eight() {
        let moves = Moves::default();
        let (to, ended) = sync_channel(99);
        let take = |session, source| moves.take(session, source, to.clone());
        let first = take(1, Some(Source::User(1))).expect("a place");
        assert_eq!(take(1, None).map(drop), Err(NoPlace::Moves));
        assert_eq!([1, 2].map(|session| moves.demand_still(session)), [Err(NoPlace::Moves), Ok(())]);
        let second = take(2, Some(Source::User(1))).expect("a place");
        assert_eq!(take(3, Some(Source::User(1))).map(drop), Err(NoPlace::Full));
        let others: Vec<_> = (4..10).map(|session| take(session, None).expect("a place")).collect();
        assert_eq!(take(10, None).map(drop), Err(NoPlace::Full));
        moves.end();
        assert_eq!(ended.try_iter().filter(|input| *input == Input::DaemonEnds).count(), 8);
        drop((first, second, others));
        assert!(take(1, Some(Source::User(1))).is_ok());
    }
}
