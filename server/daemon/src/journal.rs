//! The daemon's log, as far as peers cause what stands in it.
//! In: lines about connections, lines of sessions, each with whose they are. Out: those that may stand there, on stderr.
//! What is left out is counted, and said with the next line.

use std::fmt::Display;
use std::sync::Mutex;
use std::time::Instant;

use floe_lock::lock;
use floe_transport::Peer;

use crate::entrance::limits::{Permit, Refusals, Source, Words};
use crate::{log, log_entry};

/// Bytes a minute that the sessions of one peer may write together.
const BYTES_OF_ONE: u32 = 64 << 10;
/// Bytes a minute that all sessions may write together: 1.5 GB a day at most.
const BYTES_OF_ALL: u32 = 1 << 20;

/// Who may still write how much.
#[derive(Debug)]
pub(crate) struct Journal {
    refusals: Mutex<Refusals>,
    words: Mutex<Words>,
}

impl Default for Journal {
    fn default() -> Self {
        Self { refusals: Mutex::default(), words: Mutex::new(Words::new(BYTES_OF_ONE, BYTES_OF_ALL)) }
    }
}

impl Journal {
    /// Says why a connection came to nothing, where not too many have.
    pub(crate) fn refused(&self, peer: &Peer, why: &dyn Display) {
        match lock(&self.refusals).line(Instant::now()) {
            Permit::Write { left_out: 0 } => log(format_args!("{peer}: {why}")),
            Permit::Write { left_out } => log(format_args!("{peer}: {why} (refusals left out before it: {left_out})")),
            Permit::LeaveOut => {}
        }
    }

    /// Says why a connection could not be accepted, where not too much has been said about connections.
    pub(crate) fn not_accepted(&self, why: &dyn Display) {
        match lock(&self.refusals).line(Instant::now()) {
            Permit::Write { left_out: 0 } => log(format_args!("{why}")),
            Permit::Write { left_out } => log(format_args!("{why} (refusals left out before it: {left_out})")),
            Permit::LeaveOut => {}
        }
    }

    /// Writes an entry about a session, or of its worker, with its end of line, where its peer has not said too much. False:
    /// it is left out.
    pub(crate) fn of_session(&self, source: Source, entry: &str) -> bool {
        let mut words = lock(&self.words);
        let permit = words.line(source, entry.len(), Instant::now());
        let unsaid = if permit == Permit::LeaveOut { 0 } else { words.take_unsaid() };
        drop(words);
        if unsaid > 0 {
            log(format_args!("lines left out of peers that have been quiet since: {unsaid}"));
        }
        match permit {
            Permit::Write { left_out: 0 } => log_entry(entry),
            Permit::Write { left_out } => {
                log(format_args!("{source}: too many words of its sessions; lines left out: {left_out}"));
                log_entry(entry);
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
