//! Allocations of a launch on its way from the socket to the device, once a session has run for a moment.
//! In: frames on a socket pair, read and carried out on the test's own thread. Out: the number of allocations.

use std::io::Write as _;

use floe_transport::Receiver;

use super::alone::Alone;
use super::*;
use crate::issue::issuer::Issuer;
use crate::life::shared::Shared;
use crate::memory::budget::Budget;
use crate::wire_in::batch::{Batch, Command};
use crate::wire_in::queue::Issuing;
use crate::wire_in::reader::Reader;

/// Launches of one round: several batches.
const LAUNCHES: usize = 500;
/// Rounds before the one that counts.
const WARM_UP: usize = 10;
/// Bytes of parameters of the kernel.
const PARAMETERS: usize = 88;

/// Reader and issuer of a session, without threads of their own.
struct Line {
    client: UnixStream,
    sent: u64,
    receiver: Receiver,
    reader: Reader<Fake>,
    issuer: Issuer<Fake>,
    shared: Arc<Shared<Fake>>,
    batch: Batch,
    issuing: Issuing,
}

impl Line {
    /// With the kernel 2.
    fn new() -> Self {
        let Alone { client, receiver, reader, issuer, shared } = Alone::on(Arc::default(), &Budget::default());
        let (batch, issuing) = (Batch::default(), Issuing::default());
        let mut line = Self { client, sent: 0, receiver, reader, issuer, shared, batch, issuing };
        line.find_kernel();
        line
    }

    fn find_kernel(&mut self) {
        let text = format!("kernel k {PARAMETERS}");
        let hash = hash_of(text.as_bytes());
        self.carry_out(&LibraryPart { library: LibraryId(1), content: 0, bytes: text.as_bytes() });
        let contents = vec![Content { hash: &hash, bytes: text.len() as u64 }];
        self.carry_out(&LoadLibrary { library: LibraryId(1), kind: 3, contents, ..LoadLibrary::default() });
        self.carry_out(&FindKernel { library: LibraryId(1), name: "k", kernel: KernelId(2) });
    }

    fn carry_out<M: Message>(&mut self, message: &M) {
        let mut payload = Vec::new();
        message.encode(&mut payload);
        self.issuer.carry_out(Command { sequence: 0, kind: M::KIND, payload: &payload, range: None }).unwrap();
    }

    /// The client sends launches.
    fn send(&mut self, launch: &Launch<'_>) {
        let (mut payload, mut bytes) = (Vec::new(), Vec::new());
        launch.encode(&mut payload);
        for _ in 0..LAUNCHES {
            self.sent += 1;
            let length = u32::try_from(payload.len()).unwrap();
            let header = FrameHeader { length, kind: Launch::KIND, sequence: self.sent };
            bytes.extend_from_slice(&header.encode());
            bytes.extend_from_slice(&payload);
        }
        self.client.write_all(&bytes).unwrap();
    }

    /// Reads what was sent, then carries it out.
    fn read_and_carry_out(&mut self) {
        for _ in 0..LAUNCHES {
            self.reader.read(&mut self.receiver, &mut self.batch).unwrap();
        }
        self.reader.push_batch(&mut self.batch).unwrap();
        let mut left = LAUNCHES;
        while left > 0 {
            for command in self.shared.queue.next(&mut self.issuing).unwrap().commands() {
                self.issuer.carry_out(command).unwrap();
                left -= 1;
            }
        }
    }

    /// Allocations of a round of launches, after those in which every batch has been a full one.
    fn allocations(&mut self, launch: &Launch<'_>) -> u64 {
        self.shared.device.count_launches();
        for _ in 0..WARM_UP {
            self.send(launch);
            self.read_and_carry_out();
        }
        assert_eq!(self.shared.device.count_launches(), WARM_UP * LAUNCHES);
        self.send(launch);
        let measured = allocation_counter::measure(|| self.read_and_carry_out());
        assert_eq!(self.shared.device.count_launches(), LAUNCHES);
        measured.count_total
    }
}

#[test]
fn launches_allocate_nothing_from_the_socket_to_the_device() {
    let parameters = [7; PARAMETERS];
    let launch = Launch { kernel: KernelId(2), parameters: &parameters, ..Launch::default() };
    assert_eq!(Line::new().allocations(&launch), 0);
}

#[test]
fn attributes_of_a_launch_are_one_allocation() {
    let (parameters, value) = ([7; PARAMETERS], [1, 0, 0, 0]);
    let attributes = vec![LaunchAttribute { id: 2, value: &value }, LaunchAttribute { id: 6, value: &value }];
    let launch = Launch { kernel: KernelId(2), parameters: &parameters, attributes, ..Launch::default() };
    assert_eq!(Line::new().allocations(&launch), LAUNCHES as u64);
}

#[test]
fn descriptor_is_kept_before_the_issuer_sees_its_command() {
    let mut line = Line::new();
    let message = ShareMemory::default();
    let mut payload = Vec::new();
    message.encode(&mut payload);
    let length = u32::try_from(payload.len()).unwrap();
    let header = FrameHeader { length, kind: ShareMemory::KIND, sequence: 1 }.encode();
    line.client.write_all(&[&header[..], &payload].concat()).unwrap();
    line.reader.read(&mut line.receiver, &mut line.batch).unwrap();
    assert_eq!(line.batch.first(), Some(1), "it waits in the batch while the descriptor is taken");
}

#[test]
fn records_and_waits_belong_to_no_recipe_and_allocate_nothing() {
    let mut line = Line::new();
    line.carry_out(&CreateEvent { event: EventId(1), flags: 2 });
    line.carry_out(&CreateStream { stream: StreamId(1), flags: 1, priority: 0 });
    let before = line.issuer.image(0).entries.len();
    let (mut record, mut wait) = (Vec::new(), Vec::new());
    RecordEvent { event: EventId(1), stream: StreamId(1), flags: 0 }.encode(&mut record);
    WaitEvent { event: EventId(1), stream: StreamId(1), flags: 0 }.encode(&mut wait);
    for (kind, payload) in [(RecordEvent::KIND, &record), (WaitEvent::KIND, &wait)] {
        let mut carry_out = || line.issuer.carry_out(Command { sequence: 0, kind, payload, range: None }).unwrap();
        carry_out();
        assert_eq!(allocation_counter::measure(carry_out).count_total, 0);
    }
    assert_eq!(line.issuer.image(0).entries.len(), before);
}
