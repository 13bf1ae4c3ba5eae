//! Peer links and their transfers.
//! In: links as the client makes and drops them, transfers it announces. Out: waits in streams, tasks that begin transfers when
//! their streams get there and learn when the streams have gone on.
//! It waits for connections while a link is made, as long as that may take, and for no transfer.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use floe_abi::{CudaError, StreamMemoryOperation, stream_memory_operation, stream_wait_value};
use floe_device::Device;
use floe_ring::sealed_memory;
use floe_wire::{ConnectPeer, DevicePtr, DropPeer, PeerLinkId, ReceiveFrom, SendTo, StreamId};

use crate::complete::completer::{Action, Lane, Task};
use crate::issue::fault::{Fault, violation};
use crate::issue::issuer::{Answer, Issuer, body};
use crate::memory::budget::cost;
use crate::peer::link::opening::{PATIENCE, Purpose, connect};
use crate::peer::link::waits::Wait;
use crate::peer::link::{Announced, PeerLink, Way};
use crate::peer::page::{PAGE_BYTES, Page};
use crate::peer::proof::Key;

/// A transfer as the client announces it.
#[derive(Clone, Copy)]
pub(crate) struct Transfer {
    link: PeerLinkId,
    number: u64,
    stream: StreamId,
    at: DevicePtr,
    bytes: u64,
    way: Way,
}

impl From<SendTo> for Transfer {
    fn from(message: SendTo) -> Self {
        let SendTo { link, transfer: number, stream, from: at, bytes } = message;
        Self { link, number, stream, at, bytes, way: Way::Out }
    }
}

impl From<ReceiveFrom> for Transfer {
    fn from(message: ReceiveFrom) -> Self {
        let ReceiveFrom { link, transfer: number, stream, to: at, bytes } = message;
        Self { link, number, stream, at, bytes, way: Way::In }
    }
}

impl<D: Device> Issuer<D> {
    /// A link that another session's worker is to make the connections of.
    pub(crate) fn expect_peer(&self, id: u64, lanes: u32) -> Result<(), Fault> {
        self.new_peer_link(id, lanes).map(drop)
    }

    fn new_peer_link(&self, id: u64, lanes: u32) -> Result<Arc<PeerLink<D>>, Fault> {
        let shared = Arc::clone(&self.shared);
        let note = move |why: &str| shared.note("a copy between servers", 0, CudaError::EXTERNAL_DEVICE, &why);
        self.shared.links.add(&self.shared.device, Box::new(note), id, lanes)
    }

    /// A link to a session of another server.
    pub(crate) fn make_peer_link(&mut self, message: &ConnectPeer<'_>, key: &Key) -> Result<Answer, Fault> {
        let ConnectPeer { link: id, server, session, ticket, lanes, sealed, .. } = *message;
        let link = self.new_peer_link(id.0, lanes)?;
        let purpose = |lane| {
            let (ticket, secret) = (ticket.0, key.secret(session, ticket.0));
            Purpose { session, ticket, secret, lane, lanes, sealed }
        };
        let made = self.shared.hub.dial(server, lanes).and_then(|sockets| {
            let deadline = Instant::now() + PATIENCE;
            let mut lanes = (0..lanes).zip(sockets);
            lanes.try_for_each(|(lane, socket)| self.open_lane(&link, socket, &purpose(lane), deadline))
        });
        if let Err(fault) = made {
            self.end_peer_link(id.0, "its connections could not be made");
            return Err(fault);
        }
        body(&())
    }

    fn open_lane(
        &self,
        link: &Arc<PeerLink<D>>,
        socket: OwnedFd,
        purpose: &Purpose,
        deadline: Instant,
    ) -> Result<(), Fault> {
        let refused = |words: String| Fault::Explained(CudaError::INVALID_HANDLE, words);
        link.take_lane(purpose.lane, purpose.lanes, &self.allowance.budget).map_err(refused)?;
        let connection = connect(socket, purpose, deadline)
            .map_err(|error| refused(format!("session {} of the other server: {error}", purpose.session)))?;
        if link.open_lane(purpose.lane, connection) { Ok(()) } else { Err(refused("the peer link is over".into())) }
    }

    pub(crate) fn drop_peer_link(&self, message: DropPeer) -> Answer {
        self.end_peer_link(message.link.0, "the client has dropped it");
        Answer::Nothing
    }

    fn end_peer_link(&self, id: u64, why: &str) {
        self.shared.hub.end_link(id);
        if let Some(link) = self.shared.links.remove(id) {
            link.end(why);
        }
    }

    /// Ends all links: streams that wait for their transfers go on.
    pub(crate) fn end_peer_links(&self) {
        let ended = self.shared.links.end_all("the context is reset");
        for (id, link) in ended {
            self.shared.hub.end_link(id);
            link.wait_until_still();
        }
    }

    /// The stream waits for a transfer, which begins when the stream gets there.
    pub(crate) fn transfer(&mut self, transfer: Transfer) -> Result<Answer, Fault> {
        let Transfer { link: id, number, stream: stream_id, at, bytes, way } = transfer;
        let link = self.shared.links.get(id.0);
        let Some(link) = link else { return violation(format!("no peer link has the id: {}", id.0)) };
        let stream = self.use_stream(stream_id)?;
        if self.shared.links.words.is_empty() {
            self.add_waits()?;
        }
        let kept = self.allowance.budget.keep(cost::TRANSFER)?;
        let words = &self.shared.links.words;
        let wait = || words.take(kept).ok_or_else(|| Fault::from(CudaError::OUT_OF_MEMORY));
        match link.announce(way, number, (at, bytes), wait)? {
            Announced::Waits(wait) => {
                let issued = self.stand_for(&link, transfer, stream, wait);
                if issued.is_err() {
                    // The peer waits for it.
                    link.end("a stream could not wait for a transfer");
                }
                issued.map(|()| Answer::Nothing)
            }
            Announced::Over(why) => {
                let sequence = self.sequence;
                let action = Action::TransferFails { stream: stream_id, reached: sequence };
                self.tasks.add(Task { sequence, lane: Lane::Alone(sequence), completions: Vec::new(), action });
                Err(Fault::Explained(
                    CudaError::EXTERNAL_DEVICE,
                    format!("the link to the other server is over: {why}"),
                ))
            }
        }
    }

    fn stand_for(
        &self,
        link: &Arc<PeerLink<D>>,
        transfer: Transfer,
        stream: floe_abi::Stream,
        wait: Arc<Wait<D::Mapped>>,
    ) -> Result<(), Fault> {
        let sequence = self.sequence;
        let add = |completions, action| {
            self.tasks.add(Task { sequence, lane: Lane::Alone(sequence), completions, action });
        };
        let (link, number) = (Arc::clone(link), transfer.number);
        let way = transfer.way;
        add(vec![self.pool.record(stream)?], Action::BeginTransfer { link, transfer: number, way });
        let (operation, flags) = (stream_memory_operation::WAIT_VALUE_64, stream_wait_value::GEQ);
        let operation = StreamMemoryOperation::on_word(operation, wait.at(), wait.value, flags);
        self.shared.queue.wait_begins();
        let issued = self.device().memory_operations(stream, &[operation]);
        match issued.and_then(|()| self.pool.record(stream)) {
            Ok(completion) => {
                add(vec![completion], Action::TransferPassed { stream: transfer.stream, reached: sequence, wait });
                Ok(())
            }
            Err(error) => {
                self.shared.queue.wait_ends();
                Err(error.into())
            }
        }
    }

    /// Makes a page of words for transfers.
    fn add_waits(&self) -> Result<(), Fault> {
        let none =
            |what: &str| Fault::Explained(CudaError::OUT_OF_MEMORY, format!("no memory to wait for copies: {what}"));
        let kept = self.allowance.budget.keep(cost::SIGNALS)?;
        let file = sealed_memory("floe-transfers", PAGE_BYTES as u64).map_err(|error| none(&error.to_string()))?;
        let place = self.shared.hub.places.take().ok_or_else(|| none("the session has its most pages"))?;
        let memory = self.device().share_words(file.as_fd(), place.at(), PAGE_BYTES)?;
        self.shared.links.words.add(&Page::new(None, memory, place), kept);
        Ok(())
    }
}
