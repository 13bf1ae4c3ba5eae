//! What peers cause: their part of the daemon's log, and the numbers of events.
//! In: events, lines about connections and lines of sessions, each with its peer. Out: the lines within the limits, on
//! stderr; the tally. Omitted lines are counted, and the next line gives their number.

pub(crate) mod lines;

use std::fmt::Display;
use std::sync::Mutex;
use std::time::Instant;

use floe_lock::lock;
use floe_metrics::{Event, Refusal, Tally};
use floe_settings::LogFormat;
use floe_transport::Peer;

use crate::entrance::limits::{Permit, Refusals, Source, Words};
use crate::{log, warn};

/// Bytes per minute that all sessions of one peer may write.
const BYTES_OF_ONE: u32 = 64 << 10;
/// Bytes per minute that all sessions may write: at most 1.5 GB a day.
const BYTES_OF_ALL: u32 = 1 << 20;

/// The limits and their state.
#[derive(Debug)]
pub(crate) struct Journal {
    refusals: Mutex<Refusals>,
    words: Mutex<Words>,
    /// Bytes of an entry beside its text.
    beside: usize,
    /// The numbers of events, also of those that are not logged.
    pub(crate) tally: Tally,
}

impl Default for Journal {
    fn default() -> Self {
        Self::of(LogFormat::Text)
    }
}

impl Journal {
    /// The journal of a log of this form.
    pub(crate) fn of(format: LogFormat) -> Self {
        Self {
            refusals: Mutex::default(),
            words: Mutex::new(Words::new(BYTES_OF_ONE, BYTES_OF_ALL)),
            beside: if format == LogFormat::Json { lines::JSON_BYTES } else { 0 },
            tally: Tally::default(),
        }
    }

    /// Counts a connection that was refused, and logs why, within the limit.
    pub(crate) fn refused(&self, peer: &Peer, kind: Refusal, why: &dyn Display) {
        self.tally.count(Event::Refused(kind));
        match lock(&self.refusals).line(Instant::now()) {
            Permit::Write { left_out: 0 } => warn(format_args!("{peer}: {why}")),
            Permit::Write { left_out } => warn(format_args!("{peer}: {why} (refusals omitted before it: {left_out})")),
            Permit::LeaveOut => {}
        }
    }

    /// Logs why a connection could not be accepted, within the limit.
    pub(crate) fn not_accepted(&self, why: &dyn Display) {
        match lock(&self.refusals).line(Instant::now()) {
            Permit::Write { left_out: 0 } => warn(format_args!("{why}")),
            Permit::Write { left_out } => warn(format_args!("{why} (refusals omitted before it: {left_out})")),
            Permit::LeaveOut => {}
        }
    }

    /// Writes an entry about a session or from its worker, with its end of line, within its peer's limit. Returns false
    /// if the entry is omitted.
    pub(crate) fn of_session(&self, source: Source, entry: &str) -> bool {
        let mut words = lock(&self.words);
        let permit = words.line(source, entry.len() + self.beside, Instant::now());
        let unsaid = if permit == Permit::LeaveOut { 0 } else { words.take_unsaid() };
        drop(words);
        if unsaid > 0 {
            log(format_args!("omitted lines of peers that have been quiet since: {unsaid}"));
        }
        match permit {
            Permit::Write { left_out: 0 } => lines::entry(entry),
            Permit::Write { left_out } => {
                warn(format_args!("{source}: its sessions log too much; lines omitted: {left_out}"));
                lines::entry(entry);
            }
            Permit::LeaveOut => {}
        }
        permit != Permit::LeaveOut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_peers_sessions_say_together_is_limited_and_what_another_says_is_not() {
        let (journal, line) = (Journal::default(), format!("floe-worker: session 1: {}\n", "x".repeat(1000)));
        let written = (0..1000).filter(|_| journal.of_session(Source::User(1), &line)).count();
        assert!((50..80).contains(&written), "64 KiB of lines of a thousand bytes: {written}");
        assert!(journal.of_session(Source::User(2), &line));
    }
}
