//! A session whose worker has a daemon, which the test plays.
//! In: messages of the client, notices of the daemon. Out: what the worker answers and reports.
//! It is a fixture, and judges nothing.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::peers::imported;
use super::*;
use crate::daemon::descriptor_passing::{Heard, Taker};
use crate::daemon::peer_notices::*;
use crate::peer::page::PAGE_IS_OVER;
use crate::sandbox::Reserved;
use crate::{PeerEnds, PeerReports};

pub(super) const KEY: [u8; 32] = [9; 32];
pub(super) const TICKET: TicketId = TicketId(3);

/// What a worker reports.
#[derive(Debug)]
pub(super) enum Reported {
    Import(Import),
    Returned(Returned),
    Dial(Dial),
}

pub(super) struct Reports(pub(super) Sender<Reported>);

impl PeerReports for Reports {
    fn import(&self, import: Import) {
        let _ = self.0.send(Reported::Import(import));
    }

    fn dial(&self, dial: Dial) {
        let _ = self.0.send(Reported::Dial(dial));
    }

    fn node(&self, _: NodeWish) {
        panic!("NCCL is not loaded");
    }

    fn returned(&self, returned: Returned) {
        let _ = self.0.send(Reported::Returned(returned));
    }
}

/// A session whose worker has a daemon.
pub(super) struct Session {
    pub(super) number: u64,
    pub(super) client: Client,
    pub(super) reported: Receiver<Reported>,
    beside: Arc<AtomicU64>,
}

impl Session {
    pub(super) fn new(number: u64, memory: u64, patience: Duration) -> Self {
        let (giver, taker) = pair(MOST_JOINING).unwrap();
        let socket = taker.into_descriptor();
        let answers = Answers::over(Reserved::anywhere(socket.as_fd()));
        let (noticed, notices) = channel();
        let (reports, reported) = channel();
        let beside = Arc::new(AtomicU64::new(0));
        let reports = Box::new(Reports(reports));
        let ends = PeerEnds { session: number, reports, notices, answers, beside: Arc::clone(&beside), patience };
        let mut client = Client::planned(UnixStream::pair().unwrap(), Arc::new(Fake::default()), |plan| {
            plan.memory = memory;
            plan.joining.taker = Some(Taker::new(socket).noticing(noticed));
            plan.peers = Some(ends);
        });
        client.giver = Arc::new(giver);
        Self { number, client, reported, beside }
    }

    /// One with a block, number 1, and a ticket for all of it.
    pub(super) fn owner() -> Self {
        let mut owner = Self::new(1, 4 * BLOCK, PATIENCE);
        owner.client.memory();
        owner.export(TICKET, 0, 0, 0, 0);
        owner
    }

    pub(super) fn export(&mut self, ticket: TicketId, scope: u32, object: u64, uses: u32, seconds: u32) {
        self.client.ok(&Export { ticket, key: &KEY, scope, object, uses, seconds });
    }

    pub(super) fn notify(&self, notice: &PeerNotice, descriptor: Option<&OwnedFd>) {
        self.client.giver.notify(notice, descriptor.map(|descriptor| descriptor.as_fd())).unwrap();
    }

    pub(super) fn next(&self) -> Reported {
        self.reported.recv_timeout(PATIENCE).unwrap()
    }

    pub(super) fn import(&self) -> Import {
        match self.next() {
            Reported::Import(import) => import,
            other => panic!("no import: {other:?}"),
        }
    }

    pub(super) fn returned(&self) -> Returned {
        match self.next() {
            Reported::Returned(returned) => returned,
            other => panic!("nothing was returned: {other:?}"),
        }
    }

    pub(super) fn dialed(&self) -> Dial {
        match self.next() {
            Reported::Dial(dial) => dial,
            other => panic!("nothing is dialled: {other:?}"),
        }
    }

    /// The answer to a question, with its descriptor.
    pub(super) fn ask(&self, importer: u64, import: &Import) -> (Result<u64, Refused>, Option<OwnedFd>) {
        self.notify(&PeerNotice::Asked(Question { importer, import: import.clone() }), None);
        let until = Instant::now() + PATIENCE;
        loop {
            match self.client.giver.hear() {
                Heard::Answer(answer, mut descriptors) => {
                    assert_eq!((answer.importer, answer.request), (importer, import.request));
                    return (answer.outcome, descriptors.pop());
                }
                Heard::Taken => {}
                Heard::Nothing if Instant::now() < until => std::thread::sleep(Duration::from_millis(1)),
                other => panic!("no answer: {other:?}"),
            }
        }
    }

    /// Passes on what the importer asks this one for, as the daemon does.
    pub(super) fn serve(&self, importer: &Self) {
        let import = importer.import();
        let (outcome, descriptor) = self.ask(importer.number, &import);
        let notice = match outcome {
            Ok(bytes) => imported(&import, bytes, 1),
            Err(why) => PeerNotice::Refused(import.request, why),
        };
        importer.notify(&notice, descriptor.as_ref());
    }

    pub(super) fn beside(&self) -> u64 {
        self.beside.load(Ordering::Relaxed)
    }

    pub(super) fn pays_beside(&self, bytes: u64) {
        let until = Instant::now() + PATIENCE;
        while self.beside() != bytes {
            assert!(Instant::now() < until, "beside: {}", self.beside());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until a page is over. Its words become so one after the other.
    pub(super) fn sees_the_end_of(&mut self, page: u64) {
        while self.words(page, 511, 1) != [PAGE_IS_OVER] {}
        assert_eq!(self.words(page, 0, 512), [PAGE_IS_OVER; 512]);
    }

    pub(super) fn words(&mut self, page: u64, first: u32, count: u32) -> Vec<u64> {
        let body = self.client.ok(&ReadSignals { signals: SignalsId(page), first, count });
        ReadSignals::decode_reply(&body).unwrap().words
    }
}
