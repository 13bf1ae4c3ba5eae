//! Who uses what: the table of sessions.
//! In: admissions, reports of workers, ends. Out: rows. Pure: no process, no clock but the instant it is given.

use std::collections::BTreeMap;
use std::time::Instant;

use floe_transport::{Peer, Sealer};
use floe_wire::{Attach, SessionRow};

use crate::door::{Door, Key};

/// A session as it was admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Admission {
    /// Its number; never used again by this daemon.
    pub(crate) session: u64,
    /// The GPU's index in the device library.
    pub(crate) gpu: i32,
    /// The vGPU's ordinal in the client.
    pub(crate) ordinal: u32,
    /// Granularity of the GPU's physical memory in bytes.
    pub(crate) granularity: u64,
    /// First address of its window.
    pub(crate) window: u64,
    /// Bytes of the window.
    pub(crate) window_bytes: u64,
    /// The quota in bytes; 0 for all there is.
    pub(crate) memory: u64,
    /// Variables of the program that belong to the driver.
    pub(crate) settings: Vec<(String, String)>,
    /// What lets further connections join.
    pub(crate) key: Key,
    /// How many may carry bulk data.
    pub(crate) bulk_connections: u32,
    /// Milliseconds for which it outlives its connections; 0: it ends with any of them.
    pub(crate) grace_ms: u64,
    /// The client's process, where that is of this machine and shown to it by the same id.
    pub(crate) client: Option<i32>,
    /// Whether the client's first frame to the worker offers rings in shared memory.
    pub(crate) rings: bool,
}

/// A session that is there.
#[derive(Debug)]
struct Session {
    gpu: u32,
    applicant: Applicant,
    memory: u64,
    used: u64,
    since: Instant,
    worker: u32,
    door: Door,
    /// Since when its client is missing.
    broken: Option<Instant>,
    /// How its commands come, and that they do not.
    transport: String,
}

/// Who asks for a session.
#[derive(Debug, Clone)]
pub(crate) struct Applicant {
    /// Host and address.
    pub(crate) client: String,
    /// The host as it names itself.
    pub(crate) host: String,
    /// The program's name.
    pub(crate) program: String,
    /// Its process id on its host.
    pub(crate) pid: u32,
    /// Which of the program's vGPUs it is.
    pub(crate) ordinal: u32,
    /// How its commands come.
    pub(crate) transport: &'static str,
}

/// A session of a program on some host, on some GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tenant {
    pub(crate) pid: u32,
    pub(crate) ordinal: u32,
    /// Quota in bytes; 0 for all there is.
    pub(crate) memory: u64,
    pub(crate) used: u64,
    pub(crate) worker: u32,
}

/// The most characters of a host's and of a program's name that are kept: a table is to be read.
const NAME_CHARACTERS: usize = 128;

impl Applicant {
    /// What a peer says of itself, and who it is.
    pub(crate) fn new(request: &Attach<'_>, peer: &Peer, sealer: Sealer, rings: bool) -> Self {
        let client = format!("{} ({peer})", printable(request.host));
        Self {
            client,
            host: printable(request.host),
            program: printable(request.program),
            pid: request.pid,
            ordinal: request.ordinal,
            transport: match peer {
                Peer::Tcp(_) if sealer != Sealer::Nobody => "tls",
                Peer::Tcp(_) => "tcp",
                Peer::Unix { .. } if rings => "shm",
                Peer::Unix { .. } => "unix",
            },
        }
    }
}

/// A peer's words as they may stand in others' terminals: no escape sequences, no lines of their own, not without end.
fn printable(words: &str) -> String {
    let turns_text =
        |character| matches!(character, '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let shown = |character: char| {
        if character.is_control() || turns_text(character) { char::REPLACEMENT_CHARACTER } else { character }
    };
    words.chars().take(NAME_CHARACTERS).map(shown).collect()
}

/// All sessions of this daemon.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    last: u64,
    rows: BTreeMap<u64, Session>,
}

impl Sessions {
    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.rows.len()
    }

    /// How many use a GPU.
    pub(crate) fn on_gpu(&self, gpu: u32) -> u32 {
        let count = self.rows.values().filter(|session| session.gpu == gpu).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Bytes used on a GPU by all of them.
    pub(crate) fn used_on_gpu(&self, gpu: u32) -> u64 {
        let of_gpu = self.rows.values().filter(|session| session.gpu == gpu);
        of_gpu.fold(0, |sum, session| sum.saturating_add(session.used))
    }

    /// Adds a session whose connections come in by `door`, returns its number.
    pub(crate) fn add(&mut self, applicant: Applicant, gpu: u32, memory: u64, door: Door, now: Instant) -> u64 {
        self.last += 1;
        let transport = applicant.transport.to_owned();
        let session = Session { gpu, applicant, memory, used: 0, since: now, worker: 0, door, broken: None, transport };
        self.rows.insert(self.last, session);
        self.last
    }

    /// How connections come to a session; `None` when it is over.
    pub(crate) fn door(&mut self, session: u64) -> Option<&mut Door> {
        self.rows.get_mut(&session).map(|row| &mut row.door)
    }

    /// A session's worker process has started.
    pub(crate) fn started(&mut self, session: u64, worker: u32) {
        if let Some(row) = self.rows.get_mut(&session) {
            row.worker = worker;
        }
    }

    /// A session's worker says how much it uses.
    pub(crate) fn uses(&mut self, session: u64, bytes: u64) {
        if let Some(row) = self.rows.get_mut(&session) {
            row.used = bytes;
        }
    }

    /// A session's worker says since when its client is missing, or that it is there again.
    pub(crate) fn breaks(&mut self, session: u64, since: Option<Instant>) {
        if let Some(row) = self.rows.get_mut(&session) {
            row.broken = since;
        }
    }

    /// A session is over.
    pub(crate) fn remove(&mut self, session: u64) {
        self.rows.remove(&session);
    }

    /// The workers of a GPU's sessions.
    pub(crate) fn workers_on_gpu(&self, gpu: u32) -> Vec<u32> {
        let of_gpu = self.rows.values().filter(|session| session.gpu == gpu && session.worker != 0);
        of_gpu.map(|session| session.worker).collect()
    }

    /// The sessions on a GPU whose programs run on this host.
    pub(crate) fn tenants(&self, gpu: u32, host: &str) -> Vec<Tenant> {
        let host = printable(host);
        let rows = self.rows.values().filter(|row| row.gpu == gpu && row.applicant.host == host);
        rows.map(|row| Tenant {
            pid: row.applicant.pid,
            ordinal: row.applicant.ordinal,
            memory: row.memory,
            used: row.used,
            worker: row.worker,
        })
        .collect()
    }

    /// Process ids of all workers.
    pub(crate) fn workers(&self) -> Vec<u32> {
        self.rows.values().map(|session| session.worker).filter(|worker| *worker != 0).collect()
    }

    /// Rows for `ListSessions`.
    pub(crate) fn rows(&mut self, now: Instant) -> Vec<SessionRow<'_>> {
        for row in self.rows.values_mut() {
            let its = row.applicant.transport;
            let missing = row.broken.map(|since| now.saturating_duration_since(since).as_secs());
            row.transport = missing.map_or_else(|| its.to_owned(), |seconds| format!("{its}, broken {seconds} s"));
        }
        self.rows
            .iter()
            .map(|(&session, row)| SessionRow {
                session,
                gpu: row.gpu,
                client: &row.applicant.client,
                pid: row.applicant.pid,
                program: &row.applicant.program,
                memory: row.memory,
                used: row.used,
                seconds: now.saturating_duration_since(row.since).as_secs(),
                worker: row.worker,
                transport: &row.transport,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn applicant() -> Applicant {
        let text = String::from;
        let (client, host, program) = (text("host"), text("host"), text("program"));
        Applicant { client, host, program, pid: 7, ordinal: 2, transport: "unix" }
    }

    fn door() -> Door {
        Door::new(Some(0)).expect("made")
    }

    #[test]
    fn numbers_are_not_used_again() {
        let mut sessions = Sessions::default();
        let first = sessions.add(applicant(), 0, 0, door(), Instant::now());
        sessions.remove(first);
        assert_ne!(sessions.add(applicant(), 0, 0, door(), Instant::now()), first);
    }

    #[test]
    fn a_peers_words_cannot_draw_on_a_terminal() {
        let program = format!("a\u{1b}[2Jb\nc\u{202e}{}", "x".repeat(1 << 15));
        let request = Attach { host: "\u{7}host", program: &program, ..Attach::default() };
        let applicant = Applicant::new(&request, &Peer::Unix { uid: 1, pid: 2 }, Sealer::Nobody, false);
        assert_eq!(applicant.client, "\u{fffd}host (process 2 of user 1)");
        assert!(applicant.program.starts_with("a\u{fffd}[2Jb\u{fffd}c\u{fffd}xxx"), "{}", applicant.program);
        assert_eq!(applicant.program.chars().count(), NAME_CHARACTERS);
    }

    #[test]
    fn tenants_are_those_of_one_host_and_one_gpu() {
        let mut sessions = Sessions::default();
        let number = sessions.add(applicant(), 1, 10, door(), Instant::now());
        sessions.started(number, 99);
        sessions.uses(number, 5);
        sessions.add(Applicant { host: "other".into(), ..applicant() }, 1, 10, door(), Instant::now());
        sessions.add(applicant(), 0, 10, door(), Instant::now());
        let tenant = Tenant { pid: 7, ordinal: 2, memory: 10, used: 5, worker: 99 };
        assert_eq!(sessions.tenants(1, "host"), [tenant]);
        assert_eq!(sessions.workers_on_gpu(1), [99]);
    }

    #[test]
    fn rows_say_age_use_and_worker() {
        let start = Instant::now();
        let mut sessions = Sessions::default();
        let number = sessions.add(applicant(), 1, 10, door(), start);
        sessions.started(number, 99);
        sessions.uses(number, 5);
        let rows = sessions.rows(start + Duration::from_secs(3));
        assert_eq!((rows[0].seconds, rows[0].used, rows[0].worker, rows[0].gpu), (3, 5, 99, 1));
        assert_eq!(rows[0].transport, "unix");
        assert_eq!((sessions.on_gpu(1), sessions.on_gpu(0), sessions.used_on_gpu(1)), (1, 0, 5));
    }

    #[test]
    fn a_row_says_how_long_a_client_has_been_missing() {
        let start = Instant::now();
        let mut sessions = Sessions::default();
        let number = sessions.add(applicant(), 1, 10, door(), start);
        sessions.breaks(number, Some(start));
        assert_eq!(sessions.rows(start + Duration::from_secs(12))[0].transport, "unix, broken 12 s");
        sessions.breaks(number, None);
        assert_eq!(sessions.rows(start + Duration::from_secs(13))[0].transport, "unix");
    }
}
