//! The table of sessions.
//! In: admissions, reports of workers, ends. Out: rows. It is pure: it starts no process, and its callers give it the
//! time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use floe_transport::{Peer, Sealer, Transport};
use floe_wire::{Attach, SessionRow};

use super::accounting::Accounting;
use crate::entrance::limits::{SessionLimits, Source};
use crate::workers::supervision::Ender;
use crate::workers::worker_channel::{ChannelEntrance, Key};

/// All sessions of a daemon, for its threads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table(Arc<Mutex<Sessions>>);

impl Table {
    /// A table with these sessions.
    pub(crate) fn new(sessions: Sessions) -> Self {
        Self(Arc::new(Mutex::new(sessions)))
    }

    /// A panic cannot leave it inconsistent: every change is one step.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Sessions> {
        floe_lock::lock(&self.0)
    }

    /// The row of an added session. Dropping it removes the session.
    pub(crate) fn row(&self, session: u64) -> Row {
        Row { table: self.clone(), session }
    }
}

/// A session's row in the table. Dropping it removes the row, however the session's thread ends.
#[derive(Debug)]
pub(crate) struct Row {
    table: Table,
    session: u64,
}

impl Drop for Row {
    fn drop(&mut self) {
        let channel = self.table.lock().entrance(self.session).map(|entrance| entrance.channel());
        if let Some(channel) = channel {
            channel.end_tunnels();
        }
        // The channel to the worker closes after the lock, since descriptors that a worker sent may delay the close.
        let gone = self.table.lock().remove(self.session);
        drop(gone);
    }
}

/// A session as it was admitted.
#[derive(Debug)]
pub(crate) struct Admission {
    /// Its number; never used again by this daemon.
    pub(crate) session: u64,
    /// Its row, which it keeps in the table.
    pub(crate) _row: Row,
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
    /// The quota in bytes; 0: all of the GPU.
    pub(crate) quota: u64,
    /// Whether its worker must ask before it takes device memory.
    pub(crate) asks_for_memory: bool,
    /// Variables of the program that belong to the driver.
    pub(crate) settings: Vec<(String, String)>,
    /// The key by which further connections join.
    pub(crate) key: Key,
    /// The most bulk connections.
    pub(crate) bulk_connections: u32,
    /// The grace period in milliseconds; 0: the session ends with any of its connections.
    pub(crate) grace_ms: u64,
    /// The client's process, if it is of this machine and has the same id there as here.
    pub(crate) client: Option<i32>,
    /// The transport that client and worker agree on first.
    pub(crate) transport: Transport,
}

/// A session of the table.
#[derive(Debug)]
pub(crate) struct Session {
    gpu: u32,
    session_request: SessionRequest,
    /// In bytes; 0: all of the GPU.
    quota: u64,
    used: u64,
    since: Instant,
    worker: u32,
    /// Signals its worker; `None` before that has started.
    ender: Option<Ender>,
    entrance: ChannelEntrance,
    /// When its client went missing.
    broken: Option<Instant>,
    /// The transport, and for how long its client has been missing.
    transport: String,
}

impl Session {
    /// Whether this peer may see it. The server's own user (`None`) sees all.
    fn is_shown_to(&self, peer: Option<Source>) -> bool {
        peer.is_none() || self.session_request.source == peer
    }
}

/// A peer's request for a session.
#[derive(Debug, Clone)]
pub(crate) struct SessionRequest {
    /// The peer whose share it counts for; `None`: the server's own user, who has no limit.
    pub(crate) source: Option<Source>,
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
    /// The transport of its commands.
    pub(crate) transport: &'static str,
}

/// A session of a program on some host, on some GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tenant {
    pub(crate) pid: u32,
    pub(crate) ordinal: u32,
    /// Quota in bytes; 0: all of the GPU.
    pub(crate) quota: u64,
    pub(crate) used: u64,
    pub(crate) worker: u32,
}

/// The most characters kept of a host's or a program's name, so that a table stays readable.
const NAME_CHARACTERS: usize = 128;

impl SessionRequest {
    /// The request, from the peer's message and its connection.
    pub(crate) fn new(request: &Attach<'_>, peer: &Peer, sealer: Sealer, transport: Transport) -> Self {
        let client = format!("{} ({peer})", printable(request.host));
        Self {
            source: Some(Source::of(peer)),
            client,
            host: printable(request.host),
            program: printable(request.program),
            pid: request.pid,
            ordinal: request.ordinal,
            transport: match (transport, peer, sealer) {
                (Transport::Socket, Peer::Unix { .. }, _) => "unix",
                (Transport::Socket, Peer::Tcp(_), Sealer::Token) => "tcp",
                (Transport::Socket, Peer::Tcp(_), Sealer::Process) => "tls",
                (Transport::Socket, Peer::Tcp(_), Sealer::Nobody) => "clear",
                (other, ..) => other.name(),
            },
        }
    }
}

/// The process of a client of this machine. `None` if another process holds its socket, or if the client has another id
/// of its own (in a container).
pub(crate) fn process_of(request: &Attach<'_>, peer: &Peer) -> Option<i32> {
    match peer {
        Peer::Unix { pid, .. } if *pid > 0 && u32::try_from(*pid) == Ok(request.pid) => Some(*pid),
        Peer::Unix { .. } | Peer::Tcp(_) => None,
    }
}

/// A name from a peer, made safe for others' terminals.
fn printable(name: &str) -> String {
    floe_wire::printable_within(NAME_CHARACTERS, name)
}

/// All sessions of this daemon.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    last: u64,
    rows: BTreeMap<u64, Session>,
    accounting: Accounting,
}

impl Sessions {
    /// The number of sessions.
    pub(crate) fn count(&self) -> usize {
        self.rows.len()
    }

    /// The number of sessions on a GPU.
    pub(crate) fn on_gpu(&self, gpu: u32) -> u32 {
        let count = self.rows.values().filter(|session| session.gpu == gpu).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// The number of a peer's sessions.
    pub(crate) fn of_peer(&self, source: Source) -> usize {
        self.rows.values().filter(|session| session.session_request.source == Some(source)).count()
    }

    /// Sessions above the limit among those of `session`'s peer that wait for their client, with their workers.
    pub(crate) fn too_many_waiting(&self, session: u64, limits: &SessionLimits) -> Vec<(u64, u32)> {
        let Some(source) = self.rows.get(&session).and_then(|row| row.session_request.source) else {
            return Vec::new();
        };
        let its = self.rows.iter().filter(|(_, row)| row.session_request.source == Some(source));
        let mut waiting: Vec<_> = its.filter_map(|(number, row)| Some((row.broken?, *number, row.worker))).collect();
        waiting.sort_unstable();
        let leaving = waiting.len().saturating_sub(limits.waiting);
        waiting.into_iter().take(leaving).map(|(_, number, worker)| (number, worker)).collect()
    }

    /// The account of device memory.
    pub(crate) fn accounting(&mut self) -> &mut Accounting {
        &mut self.accounting
    }

    /// Free bytes of a GPU.
    pub(crate) fn free_on_gpu(&self, gpu: u32) -> u64 {
        self.accounting.free(gpu)
    }

    /// Adds a session whose connections arrive at `entrance`. Returns its number.
    pub(crate) fn add(
        &mut self,
        session_request: SessionRequest,
        gpu: u32,
        quota: u64,
        entrance: ChannelEntrance,
        now: Instant,
    ) -> u64 {
        self.last += 1;
        let transport = session_request.transport.to_owned();
        let (worker, ender, broken) = (0, None, None);
        let session =
            Session { gpu, session_request, quota, used: 0, since: now, worker, ender, entrance, broken, transport };
        self.rows.insert(self.last, session);
        self.accounting.begin(self.last, gpu, quota);
        self.last
    }

    /// A session's entrance for connections; `None` when the session has ended.
    pub(crate) fn entrance(&mut self, session: u64) -> Option<&mut ChannelEntrance> {
        self.rows.get_mut(&session).map(|row| &mut row.entrance)
    }

    /// A session's worker process has started.
    pub(crate) fn started(&mut self, session: u64, worker: u32, ender: Option<Ender>) {
        if let Some(row) = self.rows.get_mut(&session) {
            (row.worker, row.ender) = (worker, ender);
        }
    }

    /// A session's worker reports its bytes.
    pub(crate) fn uses(&mut self, session: u64, bytes: u64) {
        if let Some(row) = self.rows.get_mut(&session) {
            row.used = self.accounting.uses(session, bytes);
        }
    }

    /// A session's worker reports since when its client is missing, or that it is back.
    pub(crate) fn breaks(&mut self, session: u64, since: Option<Instant>) {
        if let Some(row) = self.rows.get_mut(&session) {
            row.broken = since;
        }
    }

    /// Removes a session. The caller drops it after the lock.
    #[must_use]
    pub(crate) fn remove(&mut self, session: u64) -> Option<Session> {
        self.accounting.end(session);
        self.rows.remove(&session)
    }

    /// The workers of a GPU's sessions.
    pub(crate) fn workers_on_gpu(&self, gpu: u32) -> Vec<u32> {
        let of_gpu = self.rows.values().filter(|session| session.gpu == gpu && session.worker != 0);
        of_gpu.map(|session| session.worker).collect()
    }

    /// The sessions on a GPU whose programs run on this host, of those that `peer` may see. Programs name their host
    /// themselves.
    pub(crate) fn tenants(&self, gpu: u32, host: &str, peer: Option<Source>) -> Vec<Tenant> {
        let host = printable(host);
        let its = |row: &&Session| row.gpu == gpu && row.session_request.host == host && row.is_shown_to(peer);
        let rows = self.rows.values().filter(its);
        rows.map(|row| Tenant {
            pid: row.session_request.pid,
            ordinal: row.session_request.ordinal,
            quota: row.quota,
            used: row.used,
            worker: row.worker,
        })
        .collect()
    }

    /// Signals a session's worker; `None` before that has started.
    pub(crate) fn ender(&self, session: u64) -> Option<Ender> {
        self.rows.get(&session)?.ender.clone()
    }

    /// Sessions of a GPU, with their workers.
    pub(crate) fn sessions_on_gpu(&self, gpu: u32) -> Vec<(u64, u32)> {
        let rows = self.rows.iter().filter(|(_, row)| row.gpu == gpu && row.worker != 0);
        rows.map(|(session, row)| (*session, row.worker)).collect()
    }

    /// The enders of all workers.
    pub(crate) fn enders(&self) -> Vec<Ender> {
        self.rows.values().filter_map(|session| session.ender.clone()).collect()
    }

    /// Rows for `ListSessions`: all, or those of one peer without the workers' process ids.
    pub(crate) fn rows(&mut self, now: Instant, peer: Option<Source>) -> Vec<SessionRow<'_>> {
        for row in self.rows.values_mut() {
            let its = row.session_request.transport;
            let missing = row.broken.map(|since| now.saturating_duration_since(since).as_secs());
            row.transport = missing.map_or_else(|| its.to_owned(), |seconds| format!("{its}, broken {seconds} s"));
        }
        self.rows
            .iter()
            .filter(|(_, row)| row.is_shown_to(peer))
            .map(|(&session, row)| SessionRow {
                session,
                gpu: row.gpu,
                client: &row.session_request.client,
                pid: row.session_request.pid,
                program: &row.session_request.program,
                memory: row.quota,
                used: row.used,
                seconds: now.saturating_duration_since(row.since).as_secs(),
                worker: if peer.is_none() { row.worker } else { 0 },
                transport: &row.transport,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::entrance::limits::Share;

    fn session_request() -> SessionRequest {
        let text = String::from;
        let (client, host, program) = (text("host"), text("host"), text("program"));
        let source = Some(Source::User(1));
        SessionRequest { source, client, host, program, pid: 7, ordinal: 2, transport: "unix" }
    }

    fn entrance() -> ChannelEntrance {
        ChannelEntrance::new(0, false).expect("made")
    }

    #[test]
    fn numbers_are_not_used_again() {
        let mut sessions = Sessions::default();
        let first = sessions.add(session_request(), 0, 0, entrance(), Instant::now());
        assert!(sessions.remove(first).is_some());
        assert_ne!(sessions.add(session_request(), 0, 0, entrance(), Instant::now()), first);
    }

    #[test]
    fn a_peers_words_cannot_draw_on_a_terminal() {
        let program = format!("a\u{1b}[2Jb\nc\u{202e}{}", "x".repeat(1 << 15));
        let request = Attach { host: "\u{7}host", program: &program, ..Attach::default() };
        let session_request =
            SessionRequest::new(&request, &Peer::Unix { uid: 1, pid: 2 }, Sealer::Nobody, Transport::Socket);
        assert_eq!(session_request.client, "\u{fffd}host (process 2 of user 1)");
        assert!(session_request.program.starts_with("a\u{fffd}[2Jb c\u{fffd}xxx"), "{}", session_request.program);
        assert_eq!(session_request.program.chars().count(), NAME_CHARACTERS);
    }

    #[test]
    fn tenants_are_those_of_one_host_and_one_gpu() {
        let mut sessions = Sessions::default();
        let number = sessions.add(session_request(), 1, 10, entrance(), Instant::now());
        sessions.started(number, 99, None);
        sessions.uses(number, 5);
        sessions.add(SessionRequest { host: "other".into(), ..session_request() }, 1, 10, entrance(), Instant::now());
        sessions.add(session_request(), 0, 10, entrance(), Instant::now());
        let tenant = Tenant { pid: 7, ordinal: 2, quota: 10, used: 5, worker: 99 };
        assert_eq!(sessions.tenants(1, "host", None), [tenant]);
        assert_eq!(sessions.tenants(1, "host", Some(Source::User(1))), [tenant]);
        assert_eq!(sessions.tenants(1, "host", Some(Source::User(2))), [], "another's");
        assert_eq!(sessions.workers_on_gpu(1), [99]);
    }

    #[test]
    fn of_a_peers_sessions_that_wait_those_that_have_waited_longest_are_too_many() {
        let (mut sessions, start) = (Sessions::default(), Instant::now());
        let limits = SessionLimits { sessions: Share { all: 9, each: 9 }, waiting: 1 };
        let numbers = [(); 3].map(|()| sessions.add(session_request(), 0, 0, entrance(), start));
        let other = SessionRequest { source: Some(Source::User(2)), ..session_request() };
        let other = sessions.add(other, 0, 0, entrance(), start);
        let own = sessions.add(SessionRequest { source: None, ..session_request() }, 0, 0, entrance(), start);
        assert_eq!(sessions.of_peer(Source::User(1)), 3);
        for (number, seconds) in [(own, 0), (other, 0), (numbers[1], 1), (numbers[0], 2)] {
            sessions.started(number, 90, None);
            sessions.breaks(number, Some(start + Duration::from_secs(seconds)));
        }
        assert_eq!(sessions.too_many_waiting(numbers[0], &limits), [(numbers[1], 90)]);
        assert_eq!(sessions.too_many_waiting(own, &limits), []);
        sessions.breaks(numbers[1], None);
        assert_eq!(sessions.too_many_waiting(numbers[0], &limits), []);
    }

    #[test]
    fn rows_say_age_use_and_worker() {
        let start = Instant::now();
        let mut sessions = Sessions::default();
        let number = sessions.add(session_request(), 1, 10, entrance(), start);
        sessions.started(number, 99, None);
        sessions.uses(number, 5);
        let rows = sessions.rows(start + Duration::from_secs(3), None);
        assert_eq!((rows[0].seconds, rows[0].used, rows[0].worker, rows[0].gpu), (3, 5, 99, 1));
        assert_eq!(rows[0].transport, "unix");
        assert_eq!((sessions.on_gpu(1), sessions.on_gpu(0), sessions.accounting.used(1)), (1, 0, 5));
    }

    #[test]
    fn a_peer_is_shown_its_own_sessions_and_no_process_of_the_server() {
        let (mut sessions, now) = (Sessions::default(), Instant::now());
        let own = sessions.add(session_request(), 1, 10, entrance(), now);
        sessions.started(own, 99, None);
        sessions.add(SessionRequest { source: Some(Source::User(2)), ..session_request() }, 1, 10, entrance(), now);
        sessions.add(SessionRequest { source: None, ..session_request() }, 1, 10, entrance(), now);
        let rows = sessions.rows(now, Some(Source::User(1)));
        assert_eq!(rows.iter().map(|row| (row.session, row.worker)).collect::<Vec<_>>(), [(own, 0)]);
        assert_eq!(sessions.rows(now, None).len(), 3);
    }

    #[test]
    fn a_row_says_how_long_a_client_has_been_missing() {
        let start = Instant::now();
        let mut sessions = Sessions::default();
        let number = sessions.add(session_request(), 1, 10, entrance(), start);
        sessions.breaks(number, Some(start));
        assert_eq!(sessions.rows(start + Duration::from_secs(12), None)[0].transport, "unix, broken 12 s");
        sessions.breaks(number, None);
        assert_eq!(sessions.rows(start + Duration::from_secs(13), None)[0].transport, "unix");
    }
}
