//! Notices and orders that a worker has no room for yet.
//! In: both, with their descriptors. Out: the same in order, when there is room.
//! It holds a bounded number: a worker that reads none of them is an attacker's. No socket that a worker has sent is
//! closed here.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use floe_worker::contract::Returned;
use floe_worker::end_notices::EndOrder;
use floe_worker::move_notices::MoveOrder;
use floe_worker::peer_notices::{Kind, PeerNotice};
use floe_worker::turn_notices::TurnOrder;
use rustix::event::{EventfdFlags, eventfd};

use crate::entrance::closing::Closer;

/// The most notices that wait: more than all that others may say of one session at a time.
const MOST: usize = 4096;

/// The most descriptors among them. A worker waits for each before it asks for the next, and they are the daemon's own
/// while they wait.
const MOST_DESCRIPTORS: usize = 64;

/// A notice or an order, and the descriptor that goes with it.
#[derive(Debug)]
pub(crate) enum Item {
    /// About what sessions share.
    Peer(PeerNotice, Option<OwnedFd>),
    /// About a move.
    Move(MoveOrder, Option<OwnedFd>),
    /// About its turn.
    Turn(TurnOrder),
    /// To end.
    End(EndOrder),
}

impl Item {
    pub(crate) fn descriptor(&self) -> Option<&OwnedFd> {
        match self {
            Self::Peer(_, descriptor) | Self::Move(_, descriptor) => descriptor.as_ref(),
            Self::Turn(_) | Self::End(_) => None,
        }
    }

    /// A file that another worker has sent. It may be a socket, which closes as late as that worker's client likes:
    /// what the client has sent there closes with it.
    fn into_file(self) -> Option<OwnedFd> {
        match self {
            Self::Peer(PeerNotice::Imported { from: Returned { kind: Kind::File, .. }, .. }, file) => file,
            _ => None,
        }
    }
}

/// Waiting notices of one worker.
#[derive(Debug)]
pub(crate) struct Outbox {
    waiting: Mutex<VecDeque<Item>>,
    /// Wakes the thread that follows the worker.
    wake: OwnedFd,
    closer: Arc<Closer>,
}

impl Outbox {
    pub(crate) fn new(closer: Arc<Closer>) -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { waiting: Mutex::default(), wake, closer })
    }

    /// Adds a notice and gives what there is room for. False: too many wait.
    pub(crate) fn add(&self, item: Item, give: impl FnMut(&Item) -> io::Result<()>) -> bool {
        let mut waiting = floe_lock::lock(&self.waiting);
        let descriptors = || waiting.iter().filter(|item| item.descriptor().is_some()).count();
        if waiting.len() >= MOST || (item.descriptor().is_some() && descriptors() >= MOST_DESCRIPTORS) {
            self.let_go(item);
            return false;
        }
        waiting.push_back(item);
        self.drain(&mut waiting, give);
        if !waiting.is_empty() {
            self.wake();
        }
        true
    }

    /// Wakes the thread that follows the worker.
    pub(crate) fn wake(&self) {
        // It is full of wakes where this fails.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Gives what there is room for.
    pub(crate) fn flush(&self, give: impl FnMut(&Item) -> io::Result<()>) {
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        self.drain(&mut floe_lock::lock(&self.waiting), give);
    }

    fn drain(&self, waiting: &mut VecDeque<Item>, mut give: impl FnMut(&Item) -> io::Result<()>) {
        while let Some(item) = waiting.pop_front() {
            match give(&item) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return waiting.push_front(item),
                // The worker is gone.
                Err(_) => waiting.drain(..).chain([item]).for_each(|item| self.let_go(item)),
                Ok(()) => self.let_go(item),
            }
        }
    }

    /// Drops an item without waiting. Callers hold locks.
    fn let_go(&self, item: Item) {
        if let Some(file) = item.into_file() {
            self.closer.close(file);
        }
    }

    /// Whether some wait.
    pub(crate) fn is_waiting(&self) -> bool {
        !floe_lock::lock(&self.waiting).is_empty()
    }
}

impl AsFd for Outbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        let waiting = std::mem::take(&mut *floe_lock::lock(&self.waiting));
        waiting.into_iter().for_each(|item| self.let_go(item));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;
    use crate::entrance::closing::stubborn;

    fn item(session: u64) -> Item {
        Item::Peer(PeerNotice::Over(session), None)
    }

    #[test]
    fn few_descriptors_wait_for_a_worker_that_reads_nothing() {
        let outbox = Outbox::new(Arc::default()).expect("made");
        let full = |_: &Item| Err(io::ErrorKind::WouldBlock.into());
        let with = || Item::Peer(PeerNotice::Over(1), Some(outbox.wake.try_clone().expect("a descriptor")));
        assert!((0..MOST_DESCRIPTORS).all(|_| outbox.add(with(), full)));
        assert!(!outbox.add(with(), full) && outbox.add(item(2), full));
    }

    #[test]
    fn notices_wait_in_order_for_room_and_not_without_end() {
        let outbox = Outbox::new(Arc::default()).expect("made");
        let full = |_: &Item| Err(io::ErrorKind::WouldBlock.into());
        assert!((0..MOST as u64).all(|session| outbox.add(item(session), full)));
        assert!(!outbox.add(item(0), full) && outbox.is_waiting());
        let mut given = Vec::new();
        outbox.flush(|item| {
            let Item::Peer(notice, _) = item else { panic!("{item:?}") };
            given.push(notice.clone());
            Ok(())
        });
        assert_eq!(given, (0..MOST as u64).map(PeerNotice::Over).collect::<Vec<_>>());
        assert!(!outbox.is_waiting());
        assert!(outbox.add(item(1), full));
        outbox.flush(|_| Err(io::ErrorKind::BrokenPipe.into()));
        assert!(!outbox.is_waiting(), "a worker that is gone is told nothing");
    }

    #[test]
    fn a_socket_of_a_workers_closes_beside_who_lets_go_of_it() {
        let refused = |kind: io::ErrorKind| move |_: &Item| Err(kind.into());
        for (most, kind) in
            [(0, io::ErrorKind::BrokenPipe), (0, io::ErrorKind::WouldBlock), (MOST, io::ErrorKind::WouldBlock)]
        {
            let (ours, theirs) = UnixStream::pair().expect("a pair");
            let held_up = stubborn::make(theirs);
            let outbox = Outbox::new(Arc::default()).expect("made");
            (0..most as u64).for_each(|session| assert!(outbox.add(item(session), refused(kind))));
            let from = Returned { session: 1, kind: Kind::File, object: 1 };
            let file = PeerNotice::Imported { request: 1, bytes: 0, gpu: 0, from };
            let (done, is_done) = channel();
            std::thread::spawn(move || {
                outbox.add(Item::Peer(file, Some(ours.into())), refused(kind));
                drop(outbox);
                done.send(())
            });
            is_done.recv_timeout(Duration::from_secs(120)).expect("it waited for what a client has sent");
            drop(held_up);
        }
    }
}
