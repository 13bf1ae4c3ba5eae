//! The table's part in what users have: what they hold, their sessions' ends, whose a session is.
//! In: names, reasons. Out: sums, and the table as it is then. Each is one step under the table's lock.

use std::time::{Duration, Instant};

use floe_transport::TokenNumber;
use floe_users::{Held, Name, Whose};

use super::{Session, SessionRequest, Sessions};
use crate::entrance::limits::Source;
use crate::usage::ended::told;

impl Sessions {
    /// What the sessions of a peer hold; of time, what they were promised of this GPU's.
    pub(crate) fn held_by(&self, source: Source, gpu: u32) -> Held {
        let its = self.rows.values().filter(|session| session.session_request.source == Some(source));
        its.fold(Held::default(), |held, session| {
            let quota = session.conditions.quota;
            let memory = if quota == 0 { session.worker.used } else { quota };
            // Also what is on its way there.
            let comes = session.moves.is_some_and(|(to, _)| to == gpu);
            let share = if session.gpu == gpu || comes { session.conditions.terms.share } else { 0 };
            Held {
                sessions: held.sessions + 1,
                memory: held.memory.saturating_add(memory),
                share: held.share.saturating_add(share),
            }
        })
    }

    /// Ends a session, for this reason. Its worker tells the client, and is killed soon in any case; one that has not started
    /// is killed when it has.
    pub(crate) fn end(&mut self, session: u64, why: String) {
        let Some(row) = self.rows.get_mut(&session).filter(|row| row.ending.is_none()) else { return };
        if row.worker.ender.is_some() {
            row.worker.channel.end(told(session, &why));
        }
        row.ending = Some(why);
    }

    /// Ends all sessions, for this reason.
    pub(crate) fn end_all(&mut self, why: &str) {
        let all: Vec<_> = self.rows.keys().copied().collect();
        all.into_iter().for_each(|session| self.end(session, why.to_owned()));
    }

    /// Ends a session whose client is not told before it comes back.
    pub(crate) fn end_at_once(&mut self, session: u64, why: String) {
        let Some(row) = self.rows.get_mut(&session) else { return };
        row.ending.get_or_insert(why);
        if let Some(worker) = &row.worker.ender {
            worker.kill();
        }
    }

    /// What a client with this key is told of the end of its session, if the daemon has ended it.
    pub(crate) fn told_end(&self, session: u64, key: &[u8]) -> Option<String> {
        let ends = self.rows.get(&session).filter(|row| row.door.is_key(key)).and_then(|row| row.ending.as_ref());
        ends.map(|why| told(session, why)).or_else(|| self.ended.told(session, key))
    }

    /// Why a session is to end; `None`: it is not, or its worker ends it.
    pub(crate) fn ending(&self, session: u64) -> Option<String> {
        self.rows.get(&session)?.ending.clone()
    }

    /// Whose a session is, and its program and age, for the audit log.
    pub(crate) fn described(&self, session: u64, now: Instant) -> Option<(Whose, String, Duration)> {
        let row = self.rows.get(&session)?;
        let SessionRequest { user, client, token, program, .. } = &row.session_request;
        let token = token.map(|number| number.to_string());
        let whose = Whose { user: user.clone(), peer: client.clone(), token, ..Whose::default() };
        Some((whose, program.clone(), now.saturating_duration_since(row.since)))
    }

    /// The sessions that were made with a user's token.
    pub(crate) fn by_token(&self) -> Vec<(u64, TokenNumber)> {
        let token = |(session, row): (&u64, &Session)| Some((*session, row.session_request.token?));
        self.rows.iter().filter_map(token).collect()
    }

    /// The sessions that have asked to end after a time, and that have lived for longer.
    pub(crate) fn over_their_time(&self, now: Instant) -> Vec<(u64, Duration)> {
        let limited = self.rows.iter().filter(|(_, row)| !row.conditions.time.is_zero());
        let over = limited.filter(|(_, row)| now.saturating_duration_since(row.since) >= row.conditions.time);
        over.map(|(session, row)| (*session, row.conditions.time)).collect()
    }

    /// The sessions of users with a name, each with its age.
    pub(crate) fn of_users(&self, now: Instant) -> Vec<(u64, Name, Duration)> {
        let named = |(session, row): (&u64, &Session)| {
            let name = row.session_request.source.and_then(Source::name)?;
            Some((*session, name, now.saturating_duration_since(row.since)))
        };
        self.rows.iter().filter_map(named).collect()
    }
}
