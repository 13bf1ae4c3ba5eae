//! What a session has imported, and its requests under way.
//! In: answers of the daemon's, deadlines, ends of other sessions. Out: descriptors, and the bytes that the session pays for
//! because their owner no longer does.
//! An answer that comes too late gives nothing to anybody.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::daemon::peer_notices::{Kind, Refused, Returned};

/// An object of another session: that session and its number there.
pub(crate) type Object = (u64, u64);

/// Blocks that were imported. Memory that was imported twice is there once.
#[derive(Debug, Default)]
pub(crate) struct Imports {
    /// By their number here.
    blocks: BTreeMap<u64, Object>,
    /// Bytes, and how often it was imported.
    objects: BTreeMap<Object, (u64, u32)>,
    /// Answers that have come and are not added yet, by the session they are of.
    coming: BTreeMap<u64, u32>,
    /// Sessions that are over, of which this one holds something or an answer is coming.
    over: BTreeSet<u64>,
}

/// The effect of letting go of an import.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LetGo {
    /// The owner is to be told.
    Tell(Returned),
    /// The owner is over; the session pays for so many bytes less.
    Pays(u64),
}

impl Imports {
    /// An answer of this session's is on its way to who asked for it. Its end is remembered until the answer has `come`.
    pub(crate) fn comes(&mut self, session: u64) {
        *self.coming.entry(session).or_default() += 1;
    }

    /// An answer was added, or given back.
    pub(crate) fn come(&mut self, session: u64) {
        if let Some(count) = self.coming.get_mut(&session) {
            *count -= 1;
            if *count == 0 {
                self.coming.remove(&session);
            }
        }
        self.forget(session);
    }

    /// Forgets that a session is over where nothing can come of it any more.
    fn forget(&mut self, session: u64) {
        if !self.coming.contains_key(&session) && self.of(session).next().is_none() {
            self.over.remove(&session);
        }
    }

    /// What is held of a session: bytes, each once.
    fn of(&self, session: u64) -> impl Iterator<Item = u64> + '_ {
        self.objects.range((session, 0)..=(session, u64::MAX)).map(|(_, (bytes, _))| *bytes)
    }

    /// A block was imported. Returns the bytes that the session pays for from now on: those whose owner is over.
    pub(crate) fn add(&mut self, block: u64, object: Object, bytes: u64) -> u64 {
        self.blocks.insert(block, object);
        let (its, count) = self.objects.entry(object).or_insert((bytes, 0));
        *count += 1;
        if *count == 1 && self.over.contains(&object.0) { *its } else { 0 }
    }

    /// A block was given up. `None`: it was not imported.
    pub(crate) fn remove(&mut self, block: u64) -> Option<LetGo> {
        let object = self.blocks.remove(&block)?;
        let (bytes, count) = self.objects.get_mut(&object)?;
        let bytes = *bytes;
        *count -= 1;
        let last = *count == 0;
        if last {
            self.objects.remove(&object);
        }
        if self.over.contains(&object.0) {
            self.forget(object.0);
            return Some(LetGo::Pays(if last { bytes } else { 0 }));
        }
        Some(LetGo::Tell(Returned { session: object.0, kind: Kind::Block, object: object.1 }))
    }

    /// A session is over. Returns the bytes of its memory that this one pays for from now on.
    pub(crate) fn session_over(&mut self, session: u64) -> u64 {
        if !self.over.insert(session) {
            return 0;
        }
        let pays = self.of(session).fold(0, u64::saturating_add);
        self.forget(session);
        pays
    }

    /// Whether there is any.
    pub(crate) fn any(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Whether a session is over of which something is held, or comes.
    pub(crate) fn is_over(&self, session: u64) -> bool {
        self.over.contains(&session)
    }
}

/// What an importer gets.
#[derive(Debug)]
pub(crate) struct Imported {
    pub(crate) file: OwnedFd,
    pub(crate) bytes: u64,
    /// The exporter's GPU.
    pub(crate) gpu: i32,
}

/// Requests that wait for their answers, each a `T`.
#[derive(Debug)]
pub(crate) struct Requests<T> {
    open: Mutex<Open<T>>,
    answered: Condvar,
}

#[derive(Debug)]
struct Open<T> {
    last: u64,
    waiting: BTreeMap<u64, Option<Result<T, Refused>>>,
}

impl<T> Default for Requests<T> {
    fn default() -> Self {
        Self { open: Mutex::new(Open { last: 0, waiting: BTreeMap::new() }), answered: Condvar::new() }
    }
}

impl<T> Requests<T> {
    /// A new request's number.
    pub(crate) fn begin(&self) -> u64 {
        let mut open = floe_lock::lock(&self.open);
        open.last += 1;
        let request = open.last;
        open.waiting.insert(request, None);
        request
    }

    /// An answer has come. It is given back where nobody waits for it.
    pub(crate) fn answer(&self, request: u64, outcome: Result<T, Refused>) -> Result<(), Result<T, Refused>> {
        match floe_lock::lock(&self.open).waiting.get_mut(&request) {
            Some(answer @ None) => *answer = Some(outcome),
            Some(Some(_)) | None => return Err(outcome),
        }
        self.answered.notify_all();
        Ok(())
    }

    /// Waits for an answer until it is there or the time is over. From then on nobody waits for it.
    pub(crate) fn wait(&self, request: u64, patience: Duration) -> Option<Result<T, Refused>> {
        let deadline = Instant::now() + patience;
        let mut open = floe_lock::lock(&self.open);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || open.waiting.get(&request).is_none_or(Option::is_some) {
                return open.waiting.remove(&request).flatten();
            }
            open = floe_lock::wait_timeout(&self.answered, open, left);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    #[test]
    fn memory_of_a_session_that_is_over_is_paid_for_by_who_holds_it_and_once() {
        let mut imports = Imports::default();
        imports.comes(7);
        assert_eq!(imports.add(1, (7, 70), 100), 0);
        assert_eq!(imports.add(2, (7, 70), 100), 0);
        assert_eq!(imports.add(3, (8, 80), 10), 0);
        assert_eq!(imports.session_over(7), 100);
        assert_eq!(imports.session_over(7), 0, "said twice");
        assert_eq!(imports.add(4, (7, 71), 5), 5, "its answer came first");
        imports.come(7);
        assert_eq!(imports.remove(1), Some(LetGo::Pays(0)));
        assert_eq!(imports.remove(2), Some(LetGo::Pays(100)));
        assert_eq!(imports.remove(4), Some(LetGo::Pays(5)));
        let returned = Returned { session: 8, kind: Kind::Block, object: 80 };
        assert_eq!(imports.remove(3), Some(LetGo::Tell(returned)));
        assert_eq!(imports.remove(3), None);
        assert_eq!(imports.session_over(8), 0);
    }

    #[test]
    fn sessions_that_are_over_are_forgotten_with_the_last_that_is_held_of_them() {
        let mut imports = Imports::default();
        for session in 1..1000 {
            imports.comes(session);
            imports.add(session, (session, 1), 10);
            imports.come(session);
            assert_eq!(imports.session_over(session), 10);
            assert!(imports.is_over(session));
            assert_eq!(imports.remove(session), Some(LetGo::Pays(10)));
        }
        assert!(imports.over.is_empty());
        assert_eq!(imports.session_over(2000), 0, "nothing is held of it");
        imports.comes(2001);
        assert_eq!(imports.session_over(2001), 0);
        assert!(imports.is_over(2001), "an answer comes");
        imports.come(2001);
        assert!(imports.over.is_empty() && imports.coming.is_empty());
    }

    #[test]
    fn an_answer_that_comes_too_late_or_twice_is_given_back() {
        let requests: Requests<Imported> = Requests::default();
        let request = requests.begin();
        assert!(requests.answer(request + 1, Err(Refused::Unknown)).is_err());
        assert!(requests.wait(request, Duration::from_millis(1)).is_none());
        assert!(requests.answer(request, Err(Refused::Unknown)).is_err());
        let second = requests.begin();
        assert!(requests.answer(second, Err(Refused::Unknown)).is_ok());
        assert!(requests.answer(second, Err(Refused::NotPermitted)).is_err());
        assert!(matches!(requests.wait(second, Duration::from_secs(60)), Some(Err(Refused::Unknown))));
    }
}
