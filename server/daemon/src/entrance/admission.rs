//! Admission: whether a peer gets a session now, waits for room, or is refused.
//! In: requests of peers that proved who they are, or need not. Out: admissions, places in the queue, refusals.
//! A look and what follows from it are one step under the table's lock. It starts no worker, and a place holds none.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use floe_metrics::{Event, SessionRefusal};
use floe_shares::{Class, MOST_WEIGHT, NoShare, Terms, WHOLE};
use floe_size::percent;
use floe_transport::{Peer, Sealer, TokenNumber, Transport};
use floe_users::{Denial, Wish};
use floe_wire::{Attach, WINDOW_BASE, WINDOW_BYTES, WINDOW_COUNT, Waiting};

use super::conversation::{Admitted, Caller, Refusal, WRONG_TOKEN, revoked};
use super::limits::{Source, TooMany};
use super::tokens::Holder;
use super::users::shown;
use crate::error::DaemonError;
use crate::server::Server;
use crate::status;
use crate::usage::accounting::NoRoom;
use crate::usage::door::Door;
use crate::usage::place::{Applicant, Place};
use crate::usage::queue::{Room, Turn, Waiter};
use crate::usage::request::{SessionRequest, process_of};
use crate::usage::sessions::{Admission, Conditions, Sessions};
use crate::usage::turns::TurnPlace;
use crate::workers::driver_settings;
use crate::workers::worker_channel::{WorkerChannel, most_connections};

/// What an applicant finds at its place.
pub(crate) enum Look {
    /// Its turn has come.
    Session(Box<Admission>),
    /// It has to wait; this is how it stands.
    Waits(Waiting),
}

/// Checks all of a request that does not depend on other sessions.
pub(crate) fn check(
    server: &Server,
    request: &Attach<'_>,
    caller: &Caller<'_>,
    sealer: Sealer,
) -> Result<Applicant, Refusal> {
    let Caller { peer, source, token } = *caller;
    let no = |why, detail: String| Err(refusal(server, why, detail));
    let Some(gpu) = server.gpu(request.gpu) else {
        let detail = format!("no such GPU here: {}; offered: {:?}", request.gpu, server.offered);
        return no(SessionRefusal::NoSuchGpu, detail);
    };
    if request.ordinal >= WINDOW_COUNT {
        let words = format!("a program has at most {WINDOW_COUNT} vGPUs, this would be number {}", request.ordinal);
        return no(SessionRefusal::NoSuchGpu, words);
    }
    let settings = match driver_settings::of(&request.settings) {
        Ok(settings) => settings,
        Err(error) => return no(SessionRefusal::Setting, error.to_string()),
    };
    let Some(terms) = terms(request) else {
        let detail =
            format!("no such terms: share {}, weight {}, class {}", request.share, request.weight, request.class);
        return no(SessionRefusal::Setting, detail);
    };
    if server.mps.is_some() && terms.weight != 0 {
        let detail =
            "a weight needs turns, and here sessions compute side by side (--mps)\n  ask for a share: --share 25%";
        return no(SessionRefusal::Setting, detail.to_owned());
    }
    let ceiling = match ceiling() {
        Ok(ceiling) => ceiling,
        Err(error) => return no(SessionRefusal::System, error.to_string()),
    };
    let transport = server.transport(Transport::offered(request), peer);
    let grace = if transport.can_break() { server.grace } else { Duration::ZERO };
    let conditions = Arc::new(Conditions {
        ordinal: request.ordinal,
        quota: server.quota(request.memory, gpu),
        // A limit that only the operator has set promises nothing.
        is_guaranteed: request.memory != 0,
        settings,
        // Several Unix sockets are no faster than one.
        bulk_connections: if matches!(peer, Peer::Tcp(_)) { server.bulk_connections } else { 0 },
        grace_ms: u64::try_from(grace.as_millis()).unwrap_or(u64::MAX),
        client: process_of(request, peer),
        transport,
        ceiling,
        source: source.unwrap_or_else(|| Source::of(peer)),
        terms,
        time: Duration::from_millis(request.time_ms),
    });
    let user = shown(source, peer);
    let session_request =
        SessionRequest { source, user, token, ..SessionRequest::new(request, peer, sealer, transport) };
    let wait = Duration::from_millis(request.wait_ms.into());
    Ok(Applicant { session_request, conditions, gpu: request.gpu, wait })
}

/// Admits an applicant, or gives it a place in the queue.
pub(crate) fn admit(server: &Server, applicant: Applicant) -> Result<Admitted, Refusal> {
    let mut sessions = server.sessions();
    let wants = wanted(&applicant);
    if wants != Room::default() {
        let gpu = applicant.gpu;
        let (free, most) = promisable(server, &mut sessions, gpu);
        if !most.holds(wants) {
            return Err(refusal(server, SessionRefusal::Memory, never(gpu, wants.bytes, most.bytes)));
        }
        let now = Instant::now();
        let ahead = sessions.queue().ahead(gpu, wants, free, now);
        if ahead != 0 || !free.holds(wants) {
            if ahead == 0 {
                sessions.end_excess(gpu, wants.bytes.saturating_sub(free.bytes), now);
            }
            if applicant.wait.is_zero() {
                return Err(not_now(server, gpu, wants, free, ahead));
            }
            within_limits(server, &sessions, &applicant)?;
            let (source, until) = (applicant.session_request.source, now + applicant.wait);
            let number = sessions
                .queue()
                .join(Waiter { gpu, wants, source, since: now, until })
                .map_err(|full| refusal(server, SessionRefusal::Memory, full.to_string()))?;
            return Ok(Admitted::Waits(Place { table: server.sessions.clone(), number, applicant }));
        }
    }
    seat(server, &mut sessions, &applicant).map(Admitted::Session)
}

/// What an applicant wants to be promised.
fn wanted(applicant: &Applicant) -> Room {
    let Conditions { is_guaranteed, quota, terms, .. } = &*applicant.conditions;
    Room { bytes: if *is_guaranteed { *quota } else { 0 }, share: terms.share }
}

/// What of a GPU is free to be promised, and the most that ever is.
fn promisable(server: &Server, sessions: &mut Sessions, gpu: u32) -> (Room, Room) {
    let accounting = sessions.accounting();
    let free = Room { bytes: accounting.free_for_guarantee(gpu), share: server.turns.free_share(gpu) };
    (free, Room { bytes: accounting.most_for_guarantee(gpu), share: WHOLE })
}

/// Looks whether an applicant's turn has come.
pub(crate) fn look(server: &Server, place: &Place) -> Result<Look, Refusal> {
    let Place { number, applicant, .. } = place;
    still_good(server, applicant.session_request.token)?;
    let (gpu, wants) = (applicant.gpu, wanted(applicant));
    let mut sessions = server.sessions();
    let (free, most) = promisable(server, &mut sessions, gpu);
    match sessions.queue().turn(*number, (free, most), Instant::now()) {
        Turn::Go => {
            let admission = seat(server, &mut sessions, applicant)?;
            // In the same step, so that the next one's turn comes at once.
            sessions.queue().leave(*number);
            Ok(Look::Session(Box::new(admission)))
        }
        Turn::Wait(ahead) => {
            if ahead == 0 {
                sessions.end_excess(gpu, wants.bytes.saturating_sub(free.bytes), Instant::now());
            }
            let ahead = u32::try_from(ahead).unwrap_or(u32::MAX);
            let (memory, guarantee) = (wants.bytes, free.bytes);
            Ok(Look::Waits(Waiting { ahead, memory, guarantee, share: wants.share, free_share: free.share }))
        }
        Turn::Never => Err(refusal(server, SessionRefusal::Memory, never(gpu, wants.bytes, most.bytes))),
        Turn::Late(ahead) => Err(not_now(server, gpu, wants, free, ahead)),
    }
}

/// Refuses what is not free now: for its memory, or for its part of the time.
fn not_now(server: &Server, gpu: u32, wants: Room, free: Room, ahead: usize) -> Refusal {
    let lacks_memory = wants.bytes > free.bytes || (wants.share <= free.share && wants.bytes != 0);
    if lacks_memory {
        return refusal(server, SessionRefusal::Memory, no_room(gpu, wants.bytes, free.bytes, ahead));
    }
    refusal(server, SessionRefusal::Share, no_time(gpu, wants.share, free.share, ahead))
}

/// Refuses a token that was revoked while its holder waited.
fn still_good(server: &Server, token: Option<TokenNumber>) -> Result<(), Refusal> {
    let detail = match token.map(|number| server.user_tokens.holder(number)) {
        None => return Ok(()),
        Some(None) => WRONG_TOKEN.to_owned(),
        Some(Some(Holder { name, is_drained: true, .. })) => revoked(name),
        Some(Some(_)) => return Ok(()),
    };
    Err(refusal(server, SessionRefusal::Policy, detail))
}

/// Adds the session, within the limits of sessions.
fn seat(server: &Server, sessions: &mut Sessions, applicant: &Applicant) -> Result<Admission, Refusal> {
    let quota = within_limits(server, sessions, applicant)?;
    let Applicant { session_request, conditions, gpu, .. } = applicant;
    let conditions = &with_quota(conditions, quota);
    let system = |error: DaemonError| refusal(server, SessionRefusal::System, error.to_string());
    let (door, channel, worker_end) = ends(conditions.bulk_connections, conditions.grace_ms != 0).map_err(system)?;
    let key = door.key();
    let lease = server
        .lease(conditions.source)
        .map_err(|no_id| refusal(server, SessionRefusal::ServerFull, no_id.to_string()))?;
    let turn = take_turns(server, conditions, *gpu, None, &channel)
        .map_err(|detail| refusal(server, SessionRefusal::Share, detail))?;
    let session_request = session_request.clone();
    let ends = (door, Arc::clone(&channel));
    let seat = sessions.add(session_request, *gpu, Arc::clone(conditions), ends, Instant::now()).map_err(
        |NoRoom { free }| {
            let detail =
                if conditions.is_guaranteed { no_room(*gpu, conditions.quota, free, 0) } else { nothing_left(*gpu) };
            refusal(server, SessionRefusal::Memory, detail)
        },
    )?;
    sessions.takes_turns(seat.number(), Arc::clone(&turn));
    Ok(Admission {
        session: seat.number(),
        turn,
        row: server.sessions.row(seat),
        channel,
        worker_end,
        gpu: i32::try_from(*gpu).unwrap_or(i32::MAX),
        granularity: server.gpu(*gpu).map_or(1, |gpu| gpu.granularity),
        window: WINDOW_BASE + u64::from(conditions.ordinal) * WINDOW_BYTES,
        window_bytes: WINDOW_BYTES,
        asks: sessions.accounting().asks(*gpu, conditions.is_guaranteed),
        key,
        conditions: Arc::clone(conditions),
        lease,
    })
}

/// The session's quota in bytes, if the server, the peer's share and the policy leave room for it.
fn within_limits(server: &Server, sessions: &Sessions, applicant: &Applicant) -> Result<u64, Refusal> {
    let Applicant { session_request, conditions, gpu, .. } = applicant;
    let source = session_request.source;
    let user =
        server.users.rights_of(source).map_err(|no_user| refusal(server, SessionRefusal::Policy, no_user.detail))?;
    // What the policy says of a user's number takes the place of a peer's share.
    let is_said = user.as_ref().is_some_and(|(_, rights)| rights.sessions.is_some());
    let of_peer = |source| sessions.of_peer(source);
    let share = source.filter(|_| !is_said);
    let admits = server.session_limits.admit(sessions.count(), of_peer, share);
    admits.map_err(|error| refusal(server, full(error), error.to_string()))?;
    let (Some((name, rights)), Some(source)) = (user, source) else { return Ok(conditions.quota) };
    let memory = if conditions.is_guaranteed { conditions.quota } else { 0 };
    let wish = Wish { gpu: *gpu, memory, share: conditions.terms.share };
    let quota = rights.admit(name, wish, sessions.held_by(source, *gpu)).map_err(|denial| Refusal {
        status: if matches!(denial, Denial::Memory { .. }) { status::OUT_OF_MEMORY } else { status::NOT_PERMITTED },
        ..refusal(server, SessionRefusal::Policy, denial.to_string())
    })?;
    Ok(match conditions.quota {
        0 => server.gpu(*gpu).map_or(quota, |gpu| quota.min(gpu.memory)),
        limit if quota == 0 => limit,
        limit => limit.min(quota),
    })
}

/// What a request says of the GPU's time; `None`: it is out of bounds.
fn terms(request: &Attach<'_>) -> Option<Terms> {
    let class = match request.class {
        0 => Class::Batch,
        1 => Class::Latency,
        _ => return None,
    };
    let &Attach { share, weight, .. } = request;
    (share <= WHOLE && weight <= MOST_WEIGHT).then_some(Terms { share, weight, class })
}

/// A worker's place among those that take turns on a GPU. It may take over from `beside`.
///
/// # Errors
/// What to tell whoever asked: others were promised too much.
pub(crate) fn take_turns(
    server: &Server,
    conditions: &Conditions,
    gpu: u32,
    beside: Option<&TurnPlace>,
    channel: &Arc<WorkerChannel>,
) -> Result<Arc<TurnPlace>, String> {
    // A user without a place in the policy any more keeps its sessions.
    let rights = conditions.source.name().and_then(|name| server.users.rights(name));
    let weight = rights.map_or(1, |rights| rights.weight);
    let terms = (conditions.source, weight, conditions.terms);
    server.turns.join(gpu, terms, beside, channel).map_err(|NoShare { asked, free }| no_time(gpu, asked, free, 0))
}

/// The same conditions with this quota.
fn with_quota(conditions: &Arc<Conditions>, quota: u64) -> Arc<Conditions> {
    if conditions.quota == quota {
        return Arc::clone(conditions);
    }
    Arc::new(Conditions { quota, ..Conditions::clone(conditions) })
}

/// The door of a session with so many bulk connections, the channel to its worker, and the worker's end.
fn ends(bulk_connections: u32, outlives: bool) -> Result<(Door, Arc<WorkerChannel>, OwnedFd), DaemonError> {
    let (channel, worker_end) = WorkerChannel::new(bulk_connections)?;
    let door = Door::new(bulk_connections, most_connections(bulk_connections), outlives)?;
    Ok((door, channel, worker_end))
}

/// Bytes as people write them.
fn size(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

/// What stands behind a refusal where others came before.
fn behind(ahead: usize) -> String {
    if ahead == 0 { String::new() } else { format!(" and {ahead} requests wait already") }
}

fn no_time(gpu: u32, asked: u32, free: u32, ahead: usize) -> String {
    let (asked, free, behind) = (percent(asked), percent(free), behind(ahead));
    format!(
        "no room on GPU {gpu}: {asked} of its time were asked for, {free} are free{behind}\n  wait longer (--wait 10m), ask for less \
         with --share, or leave it out: the program then gets what others' shares leave"
    )
}

fn no_room(gpu: u32, bytes: u64, free: u64, ahead: usize) -> String {
    let (asked, free, behind) = (size(bytes), size(free), behind(ahead));
    format!(
        "no room on GPU {gpu}: {asked} were asked for, {free} are free for a guarantee{behind}\n  wait longer (--wait 10m), ask \
         for less, or leave out --memory: the program then takes what is left"
    )
}

fn nothing_left(gpu: u32) -> String {
    format!(
        "no room on GPU {gpu}: all that is left is promised to others\n  ask for a guarantee and wait for it: --memory 1G --wait 10m"
    )
}

fn never(gpu: u32, bytes: u64, most: u64) -> String {
    let (asked, most) = (size(bytes), size(most));
    format!(
        "GPU {gpu} never has room for this: {asked} were asked for\n  ask for at most {most}, or leave out --memory: the program \
         then takes what is left"
    )
}

/// Counts a session that is refused.
fn refusal(server: &Server, why: SessionRefusal, detail: String) -> Refusal {
    server.journal.tally.count(Event::SessionRefused(why));
    Refusal { status: code(why), detail }
}

/// Whose limit is reached.
fn full(limit: TooMany) -> SessionRefusal {
    match limit {
        TooMany::All(_) => SessionRefusal::ServerFull,
        TooMany::OfPeer(_) => SessionRefusal::PeerFull,
    }
}

/// The program's code for a session that is refused.
fn code(why: SessionRefusal) -> u32 {
    match why {
        SessionRefusal::NoSuchGpu => status::INVALID_DEVICE,
        SessionRefusal::Setting => status::INVALID_VALUE,
        SessionRefusal::Memory => status::OUT_OF_MEMORY,
        SessionRefusal::Policy => status::NOT_PERMITTED,
        SessionRefusal::ServerFull
        | SessionRefusal::PeerFull
        | SessionRefusal::Share
        | SessionRefusal::System
        | SessionRefusal::Worker => status::SYSTEM_NOT_READY,
    }
}

/// Where a session's drivers find no room any more: below all libraries and above all that floe places itself, at random.
fn ceiling() -> Result<u64, DaemonError> {
    /// 7 million places of 2 MiB, the granule of device memory.
    const PLACES: std::ops::Range<u64> = 0x7000_0000_0000 >> 21..0x7e00_0000_0000 >> 21;
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|error| DaemonError::Random(error.to_string()))?;
    Ok((PLACES.start + u64::from_le_bytes(random) % (PLACES.end - PLACES.start)) << 21)
}
