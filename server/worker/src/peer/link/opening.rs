//! The first messages on a connection between two workers: who proves the key of a ticket to whom, and how it goes on.
//! In: a connected socket, a ticket with its key. Out: a connection at its place in a link, or why not.
//! Nothing of the peer is believed before the handshake has proved the key, and nothing secret is said before. A peer that
//! says nothing loses its connection after 10 s.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use floe_device::Device;
use floe_device::nccl::sockets;
use floe_transport::{Link, LinkError, Secret};
use floe_wire::{
    Decode as _, DecodeError, MAGIC, Message, NEWEST_VERSION, PAYLOAD_LIMIT, PeerHello, PeerJoin, PeerPort, PeerTicket,
    Push, Reply, SETUP_PAYLOAD_LIMIT, TicketId, printable,
};

use super::PeerLink;
use crate::life::shared::Shared;

/// The longest time for all first messages.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpeningError {
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error("{0}")]
    Refused(String),
    #[error("it closed the connection")]
    Closed,
}

/// What a connection is to become.
pub(crate) struct Purpose {
    /// The other session.
    pub(crate) session: u64,
    pub(crate) ticket: u64,
    pub(crate) secret: Secret,
    pub(crate) lane: u32,
    pub(crate) lanes: u32,
    pub(crate) sealed: bool,
}

/// Opens a connection to the other worker on a socket on which nothing has been sent.
pub(crate) fn connect(socket: OwnedFd, purpose: &Purpose, deadline: Instant) -> Result<Link, OpeningError> {
    let Purpose { session, ticket, ref secret, lane, lanes, sealed } = *purpose;
    let mut link = Link::new(socket);
    link.limit_payload(SETUP_PAYLOAD_LIMIT);
    link.limit_writes(Some(PATIENCE))?;
    ask(&mut link, &PeerHello { magic: MAGIC, version: NEWEST_VERSION, session }, deadline)?;
    link.send(&PeerTicket { ticket: TicketId(ticket) })?;
    link.seal(secret, deadline)?;
    ask(&mut link, &PeerJoin { lane, lanes, sealed }, deadline)?;
    settle(link, sealed)
}

/// A port at which another worker's NCCL listens.
pub(crate) struct Port {
    /// The other session.
    pub(crate) session: u64,
    pub(crate) ticket: u64,
    pub(crate) secret: Secret,
    pub(crate) place: [u8; 16],
    pub(crate) port: u16,
}

/// Opens a connection to a port on a socket on which nothing has been sent; `None`: the worker is the right one, and nothing
/// listens there.
pub(crate) fn connect_port(socket: OwnedFd, wanted: &Port, deadline: Instant) -> Result<Option<OwnedFd>, OpeningError> {
    let Port { session, ticket, ref secret, place, port } = *wanted;
    let mut link = Link::new(socket);
    link.limit_payload(SETUP_PAYLOAD_LIMIT);
    link.limit_writes(Some(PATIENCE))?;
    ask(&mut link, &PeerHello { magic: MAGIC, version: NEWEST_VERSION, session }, deadline)?;
    link.send(&PeerTicket { ticket: TicketId(ticket) })?;
    link.seal(secret, deadline)?;
    match ask(&mut link, &PeerPort { place: &place, port: port.into() }, deadline) {
        Ok(()) => Ok(Some(settle(link, false)?.into_parts()?.socket)),
        Err(OpeningError::Refused(words)) if words == NOBODY => Ok(None),
        Err(error) => Err(error),
    }
}

/// Says that nothing listens at a port.
const NOBODY: &str = "nothing listens there";

/// Takes a connection for NCCL, whose key the other worker proves.
fn accept_port<D: Device>(
    shared: &Shared<D>,
    mut link: Link,
    secret: &Secret,
    deadline: Instant,
) -> Result<(), OpeningError> {
    link.answer_seal(secret, deadline)?;
    let (request, OwnedPort { place, port }) = next_port(&mut link, deadline)?;
    let port = u16::try_from(port).ok().filter(|_| place == shared.collectives.place);
    // Its worker looks for another one, or will try again: nothing that the operator has to know.
    let refused = |link: &mut Link, detail| {
        let status = floe_abi::CudaError::INVALID_HANDLE.code();
        link.send(&Reply { request, status, earlier: 0, detail, body: &[] }).map(drop).map_err(OpeningError::from)
    };
    let Some(port) = port else { return refused(&mut link, "another worker's address") };
    if !sockets::listens(port) {
        return refused(&mut link, NOBODY);
    }
    link.send(&Reply { request, status: 0, earlier: 0, detail: "", body: &[] })?;
    let socket = settle(link, false)?.into_parts()?.socket;
    // One that has closed its port meanwhile closes this connection, too.
    sockets::deliver(port, socket);
    Ok(())
}

/// A frame that has to be a `PeerPort`.
fn next_port(link: &mut Link, deadline: Instant) -> Result<(u64, OwnedPort), OpeningError> {
    let frame = link.receive(Some(deadline))?.ok_or(OpeningError::Closed)?;
    if frame.kind != PeerPort::KIND {
        return Err(OpeningError::Refused(format!("it says {:#06x}, not {}", frame.kind, PeerPort::NAME)));
    }
    let PeerPort { place, port } = PeerPort::decode(frame.payload)?;
    Ok((frame.sequence, OwnedPort { place: place.to_vec(), port }))
}

/// A `PeerPort` that owns its bytes.
struct OwnedPort {
    place: Vec<u8>,
    port: u32,
}

/// Sends a request and waits until it is granted.
fn ask(link: &mut Link, message: &impl Message, deadline: Instant) -> Result<(), OpeningError> {
    let request = link.send(message)?;
    let frame = link.receive(Some(deadline))?.ok_or(OpeningError::Closed)?;
    match Push::decode(frame.kind, frame.payload)? {
        Push::Reply(reply) if reply.request == request && reply.status == 0 => Ok(()),
        Push::Reply(reply) => Err(OpeningError::Refused(printable(reply.detail))),
        Push::Ended(ended) => Err(OpeningError::Refused(printable(ended.detail))),
        other => Err(OpeningError::Refused(format!("it answers with: {}", other.name()))),
    }
}

/// Both sides know that the other is there: from here on it carries transfers.
fn settle(mut link: Link, sealed: bool) -> Result<Link, OpeningError> {
    if !sealed {
        link.unseal()?;
    }
    link.limit_payload(PAYLOAD_LIMIT);
    link.limit_writes(None)?;
    Ok(link)
}

/// Takes a connection that another worker has opened, on a thread of its own.
pub(crate) fn welcome<D: Device>(shared: &Arc<Shared<D>>, link: Link) {
    if !shared.links.begin_unknown() {
        return;
    }
    let this = Arc::clone(shared);
    let run = move || {
        let accepted = accept(&this, link);
        this.links.end_unknown();
        match accepted {
            Ok(Some((peer_link, lane, link))) => drop(peer_link.open_lane(lane, link)),
            Ok(None) => {}
            Err(error) => this.log.line(format_args!("a connection of another server's worker is refused: {error}")),
        }
    };
    if std::thread::Builder::new().name("floe-peer-open".into()).spawn(run).is_err() {
        shared.links.end_unknown();
    }
}

type Accepted<D> = (Arc<PeerLink<D>>, u32, Link);

/// A connection at its place in a link; `None`: it is NCCL's.
fn accept<D: Device>(shared: &Arc<Shared<D>>, mut link: Link) -> Result<Option<Accepted<D>>, OpeningError> {
    let deadline = Instant::now() + PATIENCE;
    link.limit_payload(SETUP_PAYLOAD_LIMIT);
    link.limit_writes(Some(PATIENCE))?;
    let (_, PeerTicket { ticket }) = next(&mut link, deadline)?;
    if let Some(key) = shared.collectives.keys.of_ticket(ticket.0) {
        let secret = shared.hub.secret_of(&key, ticket.0);
        return accept_port(shared, link, &secret, deadline).map(|()| None);
    }
    let unknown = || OpeningError::Refused("it names no ticket of a peer link".into());
    let (id, secret) = shared.hub.link_of(ticket.0).ok_or_else(unknown)?;
    link.answer_seal(&secret, deadline)?;
    // The first message of a handshake may be a copy of another one; this frame cannot.
    let (request, PeerJoin { lane, lanes, sealed }) = next(&mut link, deadline)?;
    let taken = match shared.links.get(id) {
        Some(peer_link) if shared.hub.use_link(ticket.0) => {
            peer_link.take_lane(lane, lanes, &shared.links.budget).map(|()| peer_link)
        }
        _ => Err("its ticket is over".to_owned()),
    };
    let (status, detail) = match &taken {
        Ok(_) => (0, ""),
        Err(words) => (floe_abi::CudaError::INVALID_HANDLE.code(), words.as_str()),
    };
    link.send(&Reply { request, status, earlier: 0, detail, body: &[] })?;
    let peer_link = taken.map_err(OpeningError::Refused)?;
    match settle(link, sealed) {
        Ok(link) => Ok(Some((peer_link, lane, link))),
        Err(error) => {
            peer_link.end("a connection of it failed before its first transfer");
            Err(error)
        }
    }
}

/// The next frame, which has to be an `M`.
fn next<M: Message + for<'a> floe_wire::Field<'a>>(
    link: &mut Link,
    deadline: Instant,
) -> Result<(u64, M), OpeningError> {
    let frame = link.receive(Some(deadline))?.ok_or(OpeningError::Closed)?;
    if frame.kind != M::KIND {
        return Err(OpeningError::Refused(format!("it says {:#06x}, not {}", frame.kind, M::NAME)));
    }
    Ok((frame.sequence, M::decode(frame.payload)?))
}
