//! The broker: who asked whom for what.
//! In: requests of importers, answers of exporters, ends of sessions, the time. Out: what to tell which worker, and which
//! worker lies.
//! It is pure: it has no clock, no socket and no descriptor. Whether a ticket admits an import it does not know.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use floe_worker::contract::{Import, Returned};
use floe_worker::peer_notices::{Answer, Kind, MOST_RETURNED, PeerNotice, Question, Refused};

/// Requests of one importer under way: a worker waits for each before it makes the next.
const OF_IMPORTER: u32 = 4;
/// Questions that an exporter's worker has not answered. One that answers nothing is asked nothing more.
const OF_EXPORTER: usize = 8;
/// Questions that wait until an exporter's worker has answered others.
const QUEUED: usize = 64;
/// Requests without success of one session, after which it is refused. Each second one is forgiven, so that a program which
/// asks for what is gone now and then can run for months, and who guesses has no more tries.
const FAILURES: u32 = 1000;
/// Sessions that one session shares something with.
const PARTNERS: usize = 1024;
/// How long a request is under way. Its importer waits no longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// Give a session's worker this notice.
    Notify(u64, PeerNotice),
    /// Give a session's worker this notice, with the descriptor that came with the answer.
    Pass(u64, PeerNotice),
    /// End a worker that an attacker has.
    Kill(u64, &'static str),
}

/// What came along with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    Nothing,
    /// One descriptor, of memory.
    Memory,
    /// One descriptor, of something else that a session has which moves: its client's memory file, or the socket of rings.
    File,
    /// Others.
    Nonsense,
}

/// A request, by its importer and that one's number.
type Key = (u64, u64);

/// A request that an exporter's worker was told.
#[derive(Debug)]
struct Told {
    kind: Kind,
    object: u64,
    since: Instant,
    /// Whether nobody waits for it any more.
    abandoned: bool,
}

#[derive(Debug)]
struct Queued {
    question: Question,
    since: Instant,
}

/// A session.
#[derive(Debug, Default)]
struct Member {
    /// Its GPU, by index.
    gpu: i32,
    /// The highest number of its requests.
    last: u64,
    under_way: u32,
    failures: u32,
    /// Until when failures were forgiven.
    forgiven: Option<Instant>,
    /// What it was asked for.
    told: BTreeMap<Key, Told>,
    queue: VecDeque<Queued>,
    partners: BTreeSet<u64>,
    /// Imports it has of each session.
    imports: BTreeMap<u64, u32>,
}

impl Member {
    /// Forgives a failure for each second that has passed.
    fn forgive(&mut self, now: Instant) {
        let since = *self.forgiven.get_or_insert(now);
        let seconds = now.saturating_duration_since(since).as_secs();
        self.failures = self.failures.saturating_sub(u32::try_from(seconds).unwrap_or(u32::MAX));
        self.forgiven = since.checked_add(Duration::from_secs(seconds));
    }
}

/// All sessions.
#[derive(Debug, Default)]
pub(crate) struct Broker {
    members: BTreeMap<u64, Member>,
    /// When to look for requests that have been under way for too long.
    look: Option<Instant>,
}

impl Broker {
    /// A session begins, on this GPU.
    pub(crate) fn begin(&mut self, session: u64, gpu: i32) {
        self.members.insert(session, Member { gpu, ..Member::default() });
    }

    /// A worker asks for something of another session.
    pub(crate) fn ask(&mut self, now: Instant, importer: u64, import: Import) -> Vec<Deed> {
        self.expire(now);
        let request = import.request;
        let Some(member) = self.members.get_mut(&importer) else { return Vec::new() };
        if request <= member.last {
            return vec![Deed::Kill(importer, "it used the number of an import again")];
        }
        member.last = request;
        member.forgive(now);
        match self.admit(now, importer, import) {
            Ok(deeds) => deeds,
            Err(why) => {
                self.failed(importer, why);
                vec![Deed::Notify(importer, PeerNotice::Refused(request, why))]
            }
        }
    }

    fn admit(&mut self, now: Instant, importer: u64, import: Import) -> Result<Vec<Deed>, Refused> {
        let session = import.session;
        let own = self.members.get(&importer).ok_or(Refused::Unknown)?;
        // One under way may fail.
        let may = own.failures + own.under_way < FAILURES && own.under_way < OF_IMPORTER;
        let new = !own.partners.contains(&session);
        let other = self.members.get(&session).filter(|_| may);
        let other = other.ok_or(if may { Refused::Unknown } else { Refused::NotPermitted })?;
        if new && (own.partners.len() >= PARTNERS || other.partners.len() >= PARTNERS) {
            return Err(Refused::NotPermitted);
        }
        if other.queue.len() >= QUEUED {
            return Err(Refused::OutOfMemory);
        }
        self.look.get_or_insert(now + PATIENCE);
        if let Some(own) = self.members.get_mut(&importer) {
            own.under_way += 1;
        }
        if let Some(other) = self.members.get_mut(&session) {
            other.queue.push_back(Queued { question: Question { importer, import }, since: now });
        }
        Ok(self.tell(session))
    }

    /// Asks an exporter's worker what it may be asked.
    fn tell(&mut self, exporter: u64) -> Vec<Deed> {
        let Some(member) = self.members.get_mut(&exporter) else { return Vec::new() };
        let mut deeds = Vec::new();
        while member.told.len() < OF_EXPORTER
            && let Some(Queued { question, since }) = member.queue.pop_front()
        {
            let Question { importer, ref import } = question;
            let told = Told { kind: import.kind, object: import.object, since, abandoned: false };
            member.told.insert((importer, import.request), told);
            deeds.push(Deed::Notify(exporter, PeerNotice::Asked(question)));
        }
        deeds
    }

    /// A worker answers.
    pub(crate) fn answer(&mut self, now: Instant, exporter: u64, answer: Answer, came: Came) -> Vec<Deed> {
        self.expire(now);
        let Answer { importer, request, outcome } = answer;
        let Some(member) = self.members.get_mut(&exporter) else { return Vec::new() };
        let Some(told) = member.told.remove(&(importer, request)) else {
            return vec![Deed::Kill(exporter, "it answers what it was not asked")];
        };
        let gpu = member.gpu;
        let lies = match (outcome, came) {
            (Ok(_), Came::Memory) | (Err(_), Came::Nothing) => None,
            (Ok(_), Came::File) if told.kind == Kind::File => None,
            (Ok(_), _) => Some("it exports no memory"),
            (Err(_), _) => Some("it sends descriptors with a refusal"),
        };
        let mut deeds = self.tell(exporter);
        deeds.extend(lies.map(|why| Deed::Kill(exporter, why)));
        if told.abandoned {
            if outcome.is_ok() && lies.is_none() {
                deeds.push(Deed::Notify(exporter, PeerNotice::Returned(importer, vec![(told.kind, told.object)])));
            }
            return deeds;
        }
        self.is_over(importer);
        match outcome.ok().filter(|_| lies.is_none()) {
            Some(bytes) => {
                self.share(importer, exporter);
                let from = Returned { session: exporter, kind: told.kind, object: told.object };
                deeds.push(Deed::Pass(importer, PeerNotice::Imported { request, bytes, gpu, from }));
            }
            None => {
                let why = outcome.err().unwrap_or(Refused::Unknown);
                self.failed(importer, why);
                deeds.push(Deed::Notify(importer, PeerNotice::Refused(request, why)));
            }
        }
        deeds
    }

    /// An importer has one import more of an exporter.
    fn share(&mut self, importer: u64, exporter: u64) {
        if let Some(member) = self.members.get_mut(&importer) {
            member.partners.insert(exporter);
            *member.imports.entry(exporter).or_default() += 1;
        }
        if let Some(member) = self.members.get_mut(&exporter) {
            member.partners.insert(importer);
        }
    }

    /// A request is under way no longer.
    fn is_over(&mut self, importer: u64) {
        if let Some(member) = self.members.get_mut(&importer) {
            member.under_way = member.under_way.saturating_sub(1);
        }
    }

    /// A request had no success because of its importer.
    fn failed(&mut self, importer: u64, why: Refused) {
        if matches!(why, Refused::Unknown | Refused::NotPermitted)
            && let Some(member) = self.members.get_mut(&importer)
        {
            member.failures = (member.failures + 1).min(FAILURES);
        }
    }

    /// A worker has let go of imports.
    pub(crate) fn returned(&mut self, importer: u64, all: &[Returned]) -> Vec<Deed> {
        let Some(member) = self.members.get_mut(&importer) else { return Vec::new() };
        let mut by_owner: BTreeMap<u64, Vec<(Kind, u64)>> = BTreeMap::new();
        for Returned { session, kind, object } in all {
            match member.imports.get_mut(session) {
                Some(count @ 1..) => *count -= 1,
                // Its owner is over.
                None => continue,
                Some(0) => return vec![Deed::Kill(importer, "it lets go of more than it has imported")],
            }
            by_owner.entry(*session).or_default().push((*kind, *object));
        }
        let notices = by_owner.into_iter().flat_map(|(owner, objects)| {
            let parts: Vec<_> = objects.chunks(MOST_RETURNED).map(<[_]>::to_vec).collect();
            parts.into_iter().map(move |part| Deed::Notify(owner, PeerNotice::Returned(importer, part)))
        });
        notices.collect()
    }

    /// Whether a session shares anything with another, or is about to; the target of its own move does not count.
    pub(crate) fn has_partners(&self, session: u64, target: u64) -> bool {
        let Some(member) = self.members.get(&session) else { return false };
        let is_other = |other: u64| other != target;
        let asks = |other: &Member| {
            other.told.keys().any(|(importer, _)| *importer == session)
                || other.queue.iter().any(|queued| queued.question.importer == session)
        };
        member.partners.iter().any(|partner| is_other(*partner))
            || member.told.keys().any(|(importer, _)| is_other(*importer))
            || member.queue.iter().any(|queued| is_other(queued.question.importer))
            || self.members.values().any(asks)
    }

    /// A session is another worker's, which has imported from the one that had it. Nobody is told that anything is over:
    /// what the two shared was for the move, and the session shared nothing else.
    pub(crate) fn succeed(&mut self, session: u64, target: u64) {
        let (Some(old), Some(new)) = (self.members.remove(&session), self.members.remove(&target)) else { return };
        self.members.insert(session, Member { gpu: new.gpu, last: new.last, ..Member::default() });
        self.members.insert(target, Member { gpu: old.gpu, last: old.last, ..Member::default() });
    }

    /// A session is over.
    pub(crate) fn end(&mut self, session: u64) -> Vec<Deed> {
        let Some(gone) = self.members.remove(&session) else { return Vec::new() };
        let told = gone.told.into_iter().filter(|(_, told)| !told.abandoned).map(|(key, _)| key);
        let queued = gone.queue.into_iter().map(|queued| (queued.question.importer, queued.question.import.request));
        let mut deeds = Vec::new();
        for (importer, request) in told.chain(queued).filter(|(importer, _)| *importer != session) {
            self.is_over(importer);
            deeds.push(Deed::Notify(importer, PeerNotice::Refused(request, Refused::Unknown)));
        }
        for member in self.members.values_mut() {
            member.queue.retain(|queued| queued.question.importer != session);
            for (_, told) in member.told.iter_mut().filter(|((importer, _), _)| *importer == session) {
                told.abandoned = true;
            }
        }
        for partner in gone.partners.into_iter().filter(|partner| *partner != session) {
            if let Some(member) = self.members.get_mut(&partner) {
                member.partners.remove(&session);
                member.imports.remove(&session);
                deeds.push(Deed::Notify(partner, PeerNotice::Over(session)));
            }
        }
        deeds
    }

    /// Gives up requests that have been under way for too long. Their importers know it by themselves.
    fn expire(&mut self, now: Instant) {
        if self.look.is_none_or(|look| now < look) {
            return;
        }
        let is_late = |since: Instant| now.saturating_duration_since(since) >= PATIENCE;
        let (mut over, mut oldest) = (Vec::new(), None::<Instant>);
        for member in self.members.values_mut() {
            for ((importer, _), told) in member.told.iter_mut().filter(|(_, told)| !told.abandoned) {
                told.abandoned = is_late(told.since);
                if told.abandoned {
                    over.push(*importer);
                } else {
                    oldest = Some(oldest.map_or(told.since, |oldest| oldest.min(told.since)));
                }
            }
            member.queue.retain(|queued| {
                if is_late(queued.since) {
                    over.push(queued.question.importer);
                } else {
                    oldest = Some(oldest.map_or(queued.since, |oldest| oldest.min(queued.since)));
                }
                !is_late(queued.since)
            });
        }
        over.into_iter().for_each(|importer| self.is_over(importer));
        self.look = oldest.map(|oldest| oldest + PATIENCE);
    }
}

#[cfg(test)]
mod tests;
