//! Carries out what the broker decides.
//! In: reports and messages of workers. Out: notices and descriptors at other workers' sockets, ends of workers that lie.
//! It waits for no worker. No descriptor of a worker's is closed here: that may last as long as the worker likes.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use floe_ring::{demand_memory, demand_memory_file, is_character_device};
use floe_worker::contract::{Import, Returned};
use floe_worker::descriptor_passing::Heard;
use floe_worker::peer_notices::Answer;
use rustix::event::PollFlags;
use rustix::net::{AddressFamily, sockopt};

use super::broker::{Broker, Came, Deed};
use super::supervision::Ear;
use super::worker_channel::WorkerChannel;
use crate::usage::seat::Seat;
use crate::usage::sessions::Table;
use crate::warn;

/// Messages of a worker that are read before its other output.
const MESSAGES: u32 = 32;

/// The broker of a daemon, with its ways to the workers.
#[derive(Debug)]
pub(crate) struct Peers {
    broker: Mutex<Broker>,
    sessions: Table,
}

/// A session as the broker has it, until this is dropped.
#[derive(Debug)]
pub(crate) struct Member {
    peers: Arc<Peers>,
    seat: Seat,
    channel: Arc<WorkerChannel>,
}

impl Peers {
    pub(crate) fn new(sessions: Table) -> Arc<Self> {
        Arc::new(Self { broker: Mutex::default(), sessions })
    }

    /// A session begins, on this GPU.
    pub(crate) fn begin(self: &Arc<Self>, seat: Seat, gpu: i32, channel: Arc<WorkerChannel>) -> Member {
        floe_lock::lock(&self.broker).begin(seat.number(), gpu);
        Member { peers: Arc::clone(self), seat, channel }
    }

    /// Whether a session shares anything with another than the target of its move.
    pub(crate) fn has_partners(&self, session: u64, target: u64) -> bool {
        floe_lock::lock(&self.broker).has_partners(session, target)
    }

    /// A session is the worker's that was known as `target`. The caller holds the table's lock.
    pub(crate) fn succeed(&self, session: u64, target: u64) {
        floe_lock::lock(&self.broker).succeed(session, target);
    }

    /// Does what is to be done, one after the other. A descriptor goes to whom it is passed on, or is closed elsewhere.
    fn carry_out(&self, deeds: Vec<Deed>, mut descriptor: Option<OwnedFd>) -> Option<OwnedFd> {
        for deed in deeds {
            let (to, notice, passes) = match deed {
                Deed::Notify(to, notice) => (to, notice, false),
                Deed::Pass(to, notice) => (to, notice, true),
                Deed::Kill(session, why) => {
                    self.kill(session, why);
                    continue;
                }
            };
            let channel = self.sessions.lock().channel(to);
            // What one that is over does not get is left.
            let Some(channel) = channel else { continue };
            if !channel.notify(notice, if passes { descriptor.take() } else { None }) {
                self.kill(to, "it leaves its notices unread");
            }
        }
        descriptor
    }

    fn kill(&self, session: u64, why: &str) {
        warn(format_args!("session {session}: killing its worker: {why}"));
        let ender = self.sessions.lock().ender(session);
        if let Some(worker) = ender {
            worker.kill();
        }
    }
}

impl Member {
    /// The worker asks for something of another session.
    pub(crate) fn import(&self, import: Import) {
        let deeds = floe_lock::lock(&self.peers.broker).ask(Instant::now(), self.seat.number(), import);
        self.peers.carry_out(deeds, None);
    }

    /// The worker has let go of imports.
    pub(crate) fn returned(&self, returned: &[Returned]) {
        let deeds = floe_lock::lock(&self.peers.broker).returned(self.seat.number(), returned);
        self.peers.carry_out(deeds, None);
    }

    fn answer(&self, answer: Answer, mut descriptors: Vec<OwnedFd>) {
        let came = match (&*descriptors, answer.outcome) {
            ([], _) => Came::Nothing,
            ([only], Ok(bytes)) if is_memory(only, bytes) => Came::Memory,
            ([only], Ok(_)) if is_file(only) => Came::File,
            _ => Came::Nonsense,
        };
        let memory = if matches!(came, Came::Memory | Came::File) { descriptors.pop() } else { None };
        let deeds = floe_lock::lock(&self.peers.broker).answer(Instant::now(), self.seat.number(), answer, came);
        let left = self.peers.carry_out(deeds, memory);
        self.channel.close_elsewhere(left.into_iter().chain(descriptors));
    }
}

/// Whether this may be a worker's memory: a memory file that does not shrink, or a device's own.
fn is_memory(descriptor: &OwnedFd, bytes: u64) -> bool {
    demand_memory(descriptor, bytes).is_ok() || is_character_device(descriptor)
}

/// Whether this may be a file of a session that moves: a file in memory, or a socket of this machine. To close the
/// latter may last as long as its client likes.
fn is_file(descriptor: &OwnedFd) -> bool {
    demand_memory_file(descriptor).is_ok() || sockopt::socket_domain(descriptor) == Ok(AddressFamily::UNIX)
}

impl Ear for Member {
    fn watched(&self) -> [(BorrowedFd<'_>, PollFlags); 2] {
        self.channel.watched()
    }

    fn due(&self) -> Option<Instant> {
        self.channel.due()
    }

    /// Answers are not counted: each is to a question of the daemon's, or its sender ends. Others cause them, not the worker.
    fn attend(&self) -> Result<u32, &'static str> {
        self.channel.flush();
        let mut count = 0;
        for _ in 0..MESSAGES {
            match self.channel.hear() {
                Heard::Nothing => break,
                Heard::Taken => count += 1,
                Heard::Gone => {
                    self.channel.is_gone();
                    break;
                }
                Heard::Answer(answer, descriptors) => self.answer(answer, descriptors),
                Heard::Nonsense(descriptors) => {
                    self.channel.close_elsewhere(descriptors);
                    return Err("it sends what no worker sends");
                }
            }
        }
        Ok(count)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let deeds = floe_lock::lock(&self.peers.broker).end(self.seat.number());
        self.peers.carry_out(deeds, None);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::channel as channel_of;
    use std::time::Duration;

    use floe_transport::send_with;
    use floe_worker::peer_notices::{Kind, PROOF_BYTES, Refused};
    use rustix::net::{SendFlags, send};

    use super::*;
    use crate::entrance::closing::stubborn;
    use crate::usage::sessions::Sessions;

    #[test]
    fn a_socket_that_nobody_gets_any_more_closes_beside_who_follows_its_worker() {
        let peers = Peers::new(Table::new(Sessions::default()));
        let channel = || WorkerChannel::new(0).expect("made");
        let ((owners, worker), (others, _)) = (channel(), channel());
        let (owner, other) = (peers.begin(Seat::new(1), 0, owners), peers.begin(Seat::new(2), 0, others));
        // Of these the table knows neither, as of sessions that have just ended.
        let proof = [0; PROOF_BYTES];
        other.import(Import { request: 1, session: 1, ticket: 5, proof, kind: Kind::File, object: 9 });
        let (file, theirs) = UnixStream::pair().expect("a pair");
        let held_up = stubborn::make(theirs);
        let answer = Answer { importer: 2, request: 1, outcome: Ok(0) };
        send_with(&worker, &serde_json::to_vec(&answer).expect("words"), file.as_fd()).expect("sent");
        drop(file);
        let (attended, is_attended) = channel_of();
        std::thread::spawn(move || attended.send(owner.attend()));
        let attended = is_attended.recv_timeout(Duration::from_secs(120));
        assert_eq!(attended.expect("it waited for what a client has sent"), Ok(0));
        drop(held_up);
    }

    #[test]
    fn a_worker_is_not_charged_with_messages_that_others_ask_it_for() {
        let peers = Peers::new(Table::new(Sessions::default()));
        let channel = || WorkerChannel::new(0).expect("made");
        let ((owners, worker), (others, _)) = (channel(), channel());
        let (owner, other) = (peers.begin(Seat::new(1), 0, owners), peers.begin(Seat::new(2), 0, others));
        let says = |words: &[u8]| send(&worker, words, SendFlags::DONTWAIT).expect("room");
        for request in 1..=50 {
            let proof = [0; PROOF_BYTES];
            other.import(Import { request, session: 1, ticket: 5, proof, kind: Kind::Block, object: 9 });
            let answer = Answer { importer: 2, request, outcome: Err(Refused::Unknown) };
            says(&serde_json::to_vec(&answer).expect("words"));
            assert_eq!(owner.attend(), Ok(0));
        }
        says(b"t");
        assert_eq!(owner.attend(), Ok(1), "of its own accord");
    }
}
