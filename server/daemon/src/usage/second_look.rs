//! A second look at sessions: the GPU's own figures, beside the workers' counts and reports.
//! In: each process's bytes and computing, from NVIDIA's management library. Out: the end of each session that has too much, or
//! computes without a turn, with a line that says so. It never looks into a session. Without figures it logs that once.

mod unasked;

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use super::accounting::{Accounting, Excess};
use super::sessions::Sessions;
use super::turns::TurnPlace;
use crate::error::DaemonError;
use crate::server::Server;
use crate::warn;
use unasked::{Row, Unasked};

/// How often it looks.
const EVERY: Duration = Duration::from_secs(1);
/// After so many looks that find no worker among the GPU's processes, the log says that there is no second look. A
/// context takes seconds at most.
const PATIENCE: u32 = 30;

/// Looks until the server ends, if its GPUs are NVIDIA's.
pub(crate) fn start(server: &Arc<Server>) -> Result<(), DaemonError> {
    if server.probe.kind != "nvidia" {
        return Ok(());
    }
    let server = Arc::downgrade(server);
    let look = std::thread::Builder::new().name("second-look".into()).spawn(move || look(&server));
    look.map(drop).map_err(DaemonError::system("cannot start the thread that checks GPU memory"))
}

fn look(server: &Weak<Server>) {
    // This opens the library, which takes a while, so that no session has to.
    if let Some(server) = server.upgrade() {
        let _ = server.telemetry.driver();
    }
    let (mut unseen, mut said) = (0, false);
    let mut turns: BTreeMap<u32, OfTurns> = BTreeMap::new();
    loop {
        std::thread::sleep(EVERY);
        let Some(server) = server.upgrade() else { return };
        for &gpu in &server.offered {
            // Neither look holds the table meanwhile, since the library is slow, and may stall.
            let has_workers = !server.sessions().sessions_on_gpu(gpu).is_empty();
            let processes = if has_workers { server.processes(gpu) } else { None };
            turns.entry(gpu).or_default().look(&server, gpu, processes.as_ref());
            match look_at(&server, gpu, processes.as_ref()) {
                Seen::Nobody => {}
                Seen::Some => unseen = 0,
                Seen::None => unseen += 1,
            }
        }
        if unseen >= PATIENCE && !std::mem::replace(&mut said, true) {
            warn(format_args!(
                "quotas are not checked against the GPU's own figures: NVIDIA's management library reports none for this machine's processes"
            ));
        }
    }
}

/// Which of a GPU's sessions a look found.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    /// The GPU has no session.
    Nobody,
    /// At least one was found.
    Some,
    /// None was found.
    None,
}

fn look_at(server: &Server, gpu: u32, processes: Option<&BTreeMap<u32, u64>>) -> Seen {
    let sessions = server.sessions().sessions_on_gpu(gpu);
    if sessions.is_empty() {
        return Seen::Nobody;
    }
    let (seen, over) = judge(server.sessions().accounting(), &sessions, processes);
    for (session, excess) in over {
        end(&mut server.sessions(), session, excess);
    }
    seen
}

/// What was seen of one GPU's turns.
#[derive(Debug, Default)]
struct OfTurns {
    /// When the counters were read last, by the clock that they have.
    last: Option<SystemTime>,
    unasked: Unasked,
}

impl OfTurns {
    /// Ends sessions that compute without a turn.
    fn look(&mut self, server: &Server, gpu: u32, processes: Option<&BTreeMap<u32, u64>>) {
        let since = self.last.replace(SystemTime::now());
        let takes_turns = server.turns.are_taken(gpu);
        let Some(since) = since.filter(|_| takes_turns) else {
            self.unasked = Unasked::default();
            return;
        };
        // No place is held meanwhile, either: its session may end.
        let computing = server.computing(gpu, since);
        let sessions = server.sessions().turns_on_gpu(gpu);
        if !are_own(processes, sessions.iter().map(|(_, worker, _)| *worker)) {
            self.unasked = Unasked::default();
            return;
        }
        let places: Vec<_> = sessions.iter().map(|(.., place)| Some(&**place)).collect();
        // What they had, and the moment of that, whenever the look began.
        let (usages, now) = (TurnPlace::usages(&places), Instant::now());
        let row = |((session, worker, _), usage): (&(u64, u32, _), _)| Row {
            session: *session,
            worker: *worker,
            usage,
            computes: computing.get(worker).copied().unwrap_or_default(),
        };
        let rows: Vec<Row> = sessions.iter().zip(usages).map(row).collect();
        for session in self.unasked.look(now, &rows) {
            let why = "the GPU computed for it for seconds without a turn, by the driver's counters".to_owned();
            server.sessions().end_at_once(session, why);
        }
    }
}

/// Whether a list of processes numbers them as this daemon does. In a container it may not, and one number may be somebody else's.
fn are_own(listed: Option<&BTreeMap<u32, u64>>, workers: impl Iterator<Item = u32>) -> bool {
    listed.is_some_and(|listed| workers.filter(|worker| listed.contains_key(worker)).count() > 1)
}

/// Whether workers of these sessions are among a GPU's processes, and which sessions have too many bytes there.
/// `processes` is `None` if the processes are unknown.
fn judge(
    accounting: &mut Accounting,
    sessions: &[(u64, u32)],
    processes: Option<&BTreeMap<u32, u64>>,
) -> (Seen, Vec<(u64, Excess)>) {
    let (mut seen, mut over) = (Seen::None, Vec::new());
    let Some(processes) = processes else { return (seen, over) };
    for &(session, worker) in sessions {
        let Some(&has) = processes.get(&worker) else { continue };
        seen = Seen::Some;
        over.extend(accounting.seen(session, has).map(|excess| (session, excess)));
    }
    (seen, over)
}

/// Ends a session, which says in the log why.
fn end(sessions: &mut Sessions, session: u64, Excess { has, may }: Excess) {
    let over = has - may;
    let why = format!(
        "on the GPU it has {over} bytes more than its quota, its context and the tolerance allow: {has} of {may}"
    );
    sessions.end_at_once(session, why);
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::Instant;

    use floe_transport::{Peer, Sealer, Transport};
    use floe_wire::Attach;

    use rustix::process::Signal;

    use super::*;
    use crate::usage::accounting::TOLERANCE;
    use crate::usage::request::SessionRequest;
    use crate::usage::sessions::tests::{ends, with};
    use crate::workers::supervision::{Process, Worker};

    const GIB: u64 = 1 << 30;
    /// Bytes of a context.
    const CONTEXT: u64 = GIB / 2;
    /// The most bytes that a session of 1 GiB may have.
    const MAY: u64 = GIB + CONTEXT + TOLERANCE;

    /// A session on GPU 0 with a quota of 1 GiB, and a process in its worker's place, which leaves by itself after a minute.
    fn begin(sessions: &mut Sessions) -> (u64, Worker) {
        let mut sleep = Command::new("sleep");
        let child = sleep.arg("60").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let worker = Worker::of(Process::Own(child.expect("sleep runs")), None).expect("it is watched");
        let peer = Peer::Unix { uid: 1, pid: 2 };
        let session_request = SessionRequest::new(&Attach::default(), &peer, Sealer::Nobody, Transport::Socket);
        let seat = sessions.add(session_request, 0, with(GIB), ends(), Instant::now());
        let session = seat.expect("it has no guarantee").number();
        sessions.started(session, worker.id(), Some(worker.ender()));
        (session, worker)
    }

    /// Two sessions on a GPU whose contexts have been measured.
    fn two() -> (Sessions, [(u64, Worker); 2]) {
        let mut sessions = Sessions::default();
        sessions.accounting().offer(0, 10 * GIB, false);
        let both = [begin(&mut sessions), begin(&mut sessions)];
        both.iter().for_each(|(session, _)| sessions.accounting().measured(*session, CONTEXT));
        (sessions, both)
    }

    /// Looks as the thread does, and ends the sessions that have too much. Returns the lines for the log.
    fn look(sessions: &mut Sessions, processes: Option<&[(u32, u64)]>) -> (Seen, Vec<String>) {
        let (of_gpu, processes) = (sessions.sessions_on_gpu(0), processes.map(|all| all.iter().copied().collect()));
        let (seen, over) = judge(sessions.accounting(), &of_gpu, processes.as_ref());
        let ended = over.into_iter().map(|(session, excess)| {
            end(sessions, session, excess);
            sessions.ending(session).expect("it ends")
        });
        (seen, ended.collect())
    }

    /// Why a worker's process ended.
    fn ending(session: u64, worker: Worker) -> Option<String> {
        worker.follow(session, Duration::ZERO, |_| true, |_| (), None).why
    }

    #[test]
    fn a_worker_that_has_more_than_its_account_allows_is_ended_by_name_and_its_neighbour_is_not() {
        let (mut sessions, [(greedy, taker), (modest, neighbour)]) = two();
        let have = [(taker.id(), MAY + 7), (neighbour.id(), MAY), (1, 100 * GIB)];
        assert_eq!(look(&mut sessions, Some(&have)), (Seen::Some, Vec::new()), "one look may be mistaken");
        let (seen, lines) = look(&mut sessions, Some(&have));
        let words = format!(
            "on the GPU it has 7 bytes more than its quota, its context and the tolerance allow: {} of {MAY}",
            MAY + 7
        );
        assert_eq!((seen, lines), (Seen::Some, vec![words]));
        assert_eq!(ending(greedy, taker).as_deref(), Some("signal: 9 (SIGKILL)"));
        // The first signal that reaches the other is the test's.
        neighbour.ender().signal(Signal::TERM);
        assert_eq!(ending(modest, neighbour).as_deref(), Some("signal: 15 (SIGTERM)"));
    }

    #[test]
    fn one_number_that_is_a_workers_too_may_be_another_processs() {
        let listed = BTreeMap::from([(7, GIB), (8, GIB), (100, GIB)]);
        assert!(are_own(Some(&listed), [7, 8, 9].into_iter()));
        assert!(!are_own(Some(&listed), [7, 9].into_iter()));
        assert!(!are_own(None, [7, 8].into_iter()));
    }

    #[test]
    fn a_reading_that_fails_or_shows_no_worker_ends_nobody() {
        let (mut sessions, workers) = two();
        let over = workers.each_ref().map(|(_, worker)| (worker.id(), 9 * GIB));
        assert_eq!(look(&mut sessions, Some(&over)), (Seen::Some, Vec::new()));
        for found in [None, Some(&[][..]), Some(&[(1, 9 * GIB)][..])] {
            assert_eq!(look(&mut sessions, found), (Seen::None, Vec::new()), "{found:?}");
        }
        for (session, worker) in workers {
            worker.ender().signal(Signal::TERM);
            assert_eq!(ending(session, worker).as_deref(), Some("signal: 15 (SIGTERM)"));
        }
    }
}
