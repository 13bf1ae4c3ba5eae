//! The connection of one who asked for a move.
//! In: the request, then the wish to have no move, or the connection's end. Out: progress, and one reply.
//! A peer that reads nothing delays itself: the move goes on, or is given up when the connection is found dead.

use std::sync::Arc;

use floe_metrics::Refusal as Kind;
use floe_migrate::{Outcome, Record};
use floe_transport::{Link, Receiver, Sender};
use floe_users::Event;
use floe_wire::{Field as _, MigrateReply, Migrating, PhaseTime, Reply};
use floe_worker::move_notices::MOST_REASON;
use rustix::net::Shutdown;

use super::driver;
use super::watch::{Ending, News, Watch};
use crate::entrance::conversation::{MoveRequest, Refusal};
use crate::entrance::gate::Connection;
use crate::entrance::users::whose;
use crate::server::Server;
use crate::status;

/// Begins a move and tells the peer of it until it is over.
pub(crate) fn attend(server: &Arc<Server>, connection: &Connection, link: Link, request: &MoveRequest) {
    let tunnel = link.tunnel();
    let (sender, receiver) = link.halves();
    match driver::begin(server, request) {
        Ok(watch) => {
            std::thread::scope(|scope| {
                scope.spawn(|| listen(receiver, &watch));
                tell(&sender, request, &watch);
                // The peer's last word is not waited for.
                let _ = rustix::net::shutdown(&**connection.socket, Shutdown::Read);
            });
        }
        Err(Refusal { status, detail }) => {
            let kind = if status == status::NOT_PERMITTED { Kind::NotPermitted } else { Kind::Request };
            let why = format_args!("session {} stays: {detail}", request.session);
            server.journal.refused(&connection.peer, kind, &why);
            server.audits(&whose(request.source, &connection.peer, None), &Event::Refused { why: &why.to_string() });
            // A peer that has left does not need it.
            let _ = answer(&sender, request.sequence, status, &detail, &[]);
        }
    }
    drop(sender);
    if let Some(tunnel) = tunnel {
        tunnel.finish();
    }
}

/// Waits for the peer to want no move any more: it says so, says something else, which is against the protocol, or leaves.
fn listen(mut receiver: Receiver, watch: &Watch) {
    let frame = receiver.next_exactly(None);
    drop(frame);
    watch.cancel();
}

fn tell(sender: &Sender, request: &MoveRequest, watch: &Watch) {
    loop {
        match watch.next() {
            News::Progress(phase, progress) => {
                let (phase, bytes, of, rounds) = (phase.number(), progress.bytes, progress.of, progress.rounds);
                if sender.send(&Migrating { phase, bytes, of, rounds }, |_| {}).is_err() {
                    watch.cancel();
                }
            }
            News::Over(ending) => return tell_end(sender, request, watch.gpu, &ending),
        }
    }
}

fn tell_end(sender: &Sender, request: &MoveRequest, gpu: u32, ending: &Ending) {
    let Ending { outcome, worker } = ending;
    let _ = match outcome {
        Outcome::Moved(record) | Outcome::Lost(record) => {
            let mut body = Vec::new();
            // Process ids are the server's own user's to see.
            let worker = if request.source.is_none() { *worker } else { 0 };
            reply(gpu, worker, record).write(&mut body);
            answer(sender, request.sequence, status::SUCCESS, "", &body)
        }
        Outcome::Stayed(why, _) => {
            let detail = floe_wire::printable_within(MOST_REASON, &why.to_string());
            answer(
                sender,
                request.sequence,
                status::NOT_READY,
                &format!("the session stays where it is: {detail}"),
                &[],
            )
        }
    };
}

fn answer(
    sender: &Sender,
    request: u64,
    status: u32,
    detail: &str,
    body: &[u8],
) -> Result<u64, floe_transport::LinkError> {
    sender.send(&Reply { request, status, earlier: 0, detail, body }, |_| {})
}

fn reply(gpu: u32, worker: u32, record: &Record) -> MigrateReply {
    let microseconds = |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    MigrateReply {
        gpu,
        worker,
        pause_us: microseconds(record.pause),
        longest_pause_us: microseconds(record.longest_pause),
        retries: record.retries,
        bytes: record.progress.bytes,
        rounds: record.progress.rounds,
        phases: record
            .phases()
            .map(|(phase, time)| PhaseTime { phase: phase.number(), microseconds: microseconds(time) })
            .collect(),
    }
}
