//! A connection's life from its first message to its worker.
//! In: accepted connections. Out: sessions with workers, connections at the workers of their sessions, moves.
//! A peer's mistake ends its own connection only.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use floe_transport::{Answering, Link, Peer, Secrets, begins_with};
use floe_users::Event;
use floe_wire::{Message as _, PeerHello};
use floe_worker::descriptor_passing::Role;

use super::conversation;
use super::conversation::{ConversationError, Outcome, Time as _};
use super::gate::{Connection, Pass};
use super::limits::Source;
use super::users::whose;
use super::waiting;
use crate::server::Server;
use crate::usage::door::{Arrived, Kept, close};
use crate::warn;
use crate::workers::moves::attend;
use crate::workers::tending;

/// Serves a connection with a complete first message, on a thread of its own.
pub(crate) fn welcome(server: &Arc<Server>, pass: Pass, connection: Connection) {
    let server = Arc::clone(server);
    let serve = move || serve(&server, pass, connection);
    if let Err(error) = std::thread::Builder::new().name("connection".into()).spawn(serve) {
        warn(format_args!("cannot start a thread for a connection: {error}"));
    }
}

fn serve(server: &Arc<Server>, mut pass: Pass, connection: Connection) {
    // `connection` outlives every link on its socket, so that no link's end closes descriptors that a peer has
    // sent.
    let peer = connection.peer.clone();
    match converse(server, Arc::clone(&connection.socket), &peer, &mut pass) {
        Ok((link, Outcome::Attached(admission))) => {
            // From here on its session counts, and the connection is not closed for newer ones.
            drop(pass);
            tending::attach(server, connection, link, admission);
        }
        Ok((link, Outcome::Waits(sequence, place))) => {
            // The queue has limits of its own.
            drop(pass);
            waiting::attend(server, connection, link, sequence, place);
        }
        Ok((link, Outcome::Joined(session))) => pass_on(server, session, Role::Joined, link, connection),
        // The worker refuses who does not prove a ticket's key.
        Ok((link, Outcome::Peer(session))) => {
            server.sessions().accounting().links(session);
            pass_on(server, session, Role::Peer, link, connection);
        }
        Ok((link, Outcome::Migrate(request))) => {
            // A move lasts longer than a conversation, and has limits of its own.
            drop(pass);
            attend::attend(server, &connection, link, &request);
        }
        Ok((link, Outcome::Left)) => close(link),
        Err(error) => {
            if matches!(&error, ConversationError::Link(link) if link.refuses_certificate()) {
                server
                    .audits(&whose(Some(Source::of(&peer)), &peer, None), &Event::Refused { why: &error.to_string() });
            }
            server.journal.refused(&peer, error.kind(), &error);
        }
    }
}

/// Runs the conversation, sealed if the client begins it so.
fn converse(
    server: &Server,
    socket: Arc<OwnedFd>,
    peer: &Peer,
    pass: &mut Pass,
) -> Result<(Link, Outcome), ConversationError> {
    // What another server's worker says here is not secret; the two workers seal what follows.
    let is_worker = begins_with(&socket, PeerHello::KIND);
    let mut link = Link::accepted(socket, peer)?;
    if matches!(peer, Peer::Tcp(_)) && !is_worker {
        let secret = server.token.as_ref().map(|_| server as &dyn Secrets);
        let tls = server.tls();
        let by = Answering { tls: tls.as_ref(), tls_only: server.tls_only, secret };
        link = link.answer(&by, pass.deadline(Instant::now()))?;
    }
    match conversation::lead(&mut link, peer, server, pass) {
        Ok(outcome) => Ok((link, outcome)),
        Err(error) => {
            close(link);
            Err(error)
        }
    }
}

/// Gives a connection to the worker that has its session, or keeps it while the session is between two.
///
/// Which of the two it is and the giving are one step under the table's lock: a commit comes before or after.
fn pass_on(server: &Server, session: u64, role: Role, link: Link, connection: Connection) {
    if link.limit_writes(None).is_err() {
        return close(link);
    }
    let arrived = Arrived { role, link: Some(link), socket: connection.socket };
    let mut sessions = server.sessions();
    let kept = sessions.door(session).map(|door| door.keep(arrived));
    let left = match kept {
        Some(Kept::Open(mut arrived)) => {
            let channel = sessions.channel(session);
            // This fails if the worker has ended, and its session with it, or takes no more connections. Either way the
            // client's connection ends.
            let given = channel.zip(arrived.link.take()).map(|(channel, link)| channel.give(role, link));
            drop(given);
            Some(arrived)
        }
        Some(Kept::InsteadOf(oldest)) => oldest,
        None => None,
    };
    drop(sessions);
    drop(left);
}
