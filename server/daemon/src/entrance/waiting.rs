//! The connection of a request that waits for room on a GPU.
//! In: its place in the queue. Out: news about once a second, and one reply: a session, or a refusal.
//! It looks again and again, since room comes from many sides: ends, reports, looks at the GPU, moves. A peer that has left
//! is forgotten, and so is one that reads nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use floe_metrics::Refusal as Kind;
use floe_transport::Link;
use floe_users::Event;
use floe_wire::{Field as _, Reply};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::admission::{Look, look};
use super::conversation::{Host as _, Refusal};
use super::gate::Connection;
use super::users::whose;
use crate::server::Server;
use crate::status;
use crate::usage::door::close;
use crate::usage::place::Place;
use crate::usage::sessions::Admission;
use crate::workers::tending;

/// How often it looks.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// How often the peer gets news.
const TELL: Duration = Duration::from_secs(1);

/// Waits until the request of this sequence gets a session or a refusal, or its peer leaves.
pub(crate) fn attend(server: &Arc<Server>, connection: Connection, mut link: Link, sequence: u64, place: Place) {
    let outcome = wait(server, &connection, &mut link, &place);
    let request = &place.applicant.session_request;
    let its = whose(request.source, &connection.peer, request.token);
    drop(place);
    match outcome {
        Some(Ok(admission)) => {
            let mut body = Vec::new();
            server.attached(&admission).write(&mut body);
            let reply = Reply { request: sequence, status: status::SUCCESS, earlier: 0, detail: "", body: &body };
            // If the peer has left meanwhile, it has no session: the admission takes the row along.
            match link.send(&reply) {
                Ok(_) => tending::attach(server, connection, link, *admission),
                Err(_) => close(link),
            }
        }
        Some(Err(Refusal { status, detail })) => {
            server.journal.refused(&connection.peer, Kind::Request, &detail);
            server.audits(&its, &Event::Refused { why: &detail });
            // A peer that has left does not need it.
            let _ = link.send(&Reply { request: sequence, status, earlier: 0, detail: &detail, body: &[] });
            close(link);
        }
        None => close(link),
    }
}

/// `None`: the peer has left.
fn wait(
    server: &Server,
    connection: &Connection,
    link: &mut Link,
    place: &Place,
) -> Option<Result<Box<Admission>, Refusal>> {
    let mut told = Instant::now();
    loop {
        let news = match look(server, place) {
            Ok(Look::Session(admission)) => return Some(Ok(admission)),
            Ok(Look::Waits(news)) => news,
            Err(refusal) => return Some(Err(refusal)),
        };
        if told.elapsed() >= TELL {
            told = Instant::now();
            link.send(&news).ok()?;
        }
        if leaves(connection) {
            return None;
        }
    }
}

/// Whether the peer leaves before the next look.
fn leaves(connection: &Connection) -> bool {
    // The system always says when a connection has failed.
    let mut socket = [PollFd::new(&**connection.socket, PollFlags::RDHUP)];
    // A wait that a signal ends is a short one.
    poll(&mut socket, Some(&LOOK)).is_ok_and(|ready| ready > 0)
}
