//! Sessions of one daemon that share: two real workers, clients made by hand.
//! In: messages, and the ends of workers. Out: the verdict, also on what is left behind.
//! Every step of an import is interrupted by a kill at one side or the other.

use std::collections::{BTreeSet, VecDeque};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use floe_tests::{Floed, descendants, open_files};
use floe_transport::{Link, LinkError};
use floe_wire::*;

const PATIENCE: Duration = Duration::from_secs(60);
const KEY: [u8; 32] = [7; 32];
const TICKET: TicketId = TicketId(1);
const INVALID_HANDLE: u32 = 400;
const NOT_SUPPORTED: u32 = 801;
const PAGE_IS_OVER: u64 = 1 << 62;
/// A granule of the CPU device, and of others.
const BLOCK: u64 = 2 << 20;

/// A client made by hand, with its session and that one's worker.
struct Client {
    link: Link,
    session: u64,
    worker: u32,
    window: u64,
}

impl Client {
    fn attached(daemon: &Floed, ordinal: u32) -> Self {
        Self::with_quota(daemon, ordinal, 0)
    }

    fn with_quota(daemon: &Floed, ordinal: u32, memory: u64) -> Self {
        let before: BTreeSet<u32> = descendants(daemon.process()).into_iter().collect();
        let path = daemon.unix().strip_prefix("unix://").expect("a Unix address");
        let socket = UnixStream::connect(path).expect("the daemon listens");
        let mut client = Self { link: Link::new(socket.into()), session: 0, worker: 0, window: 0 };
        let hello = Hello { magic: MAGIC, oldest: OLDEST_VERSION, newest: NEWEST_VERSION, client: "test" };
        client.link.send_in_person(&hello).expect("sent");
        client.answer().expect("welcome");
        let attached = client.ok(&Attach { program: "by hand", host: "here", ordinal, memory, ..Attach::default() });
        let reply = Attach::decode_reply(&attached).expect("a session");
        (client.session, client.window) = (reply.session, reply.window.0);
        client.ok(&SynchronizeContext {});
        let new = descendants(daemon.process()).into_iter().find(|worker| !before.contains(worker));
        client.worker = new.expect("a worker of its own");
        client
    }

    fn send(&mut self, message: &impl Message) {
        self.link.send(message).expect("sent");
    }

    /// The next reply, after whatever else comes: status and fields.
    fn answer(&mut self) -> Result<(u32, Vec<u8>), LinkError> {
        self.answer_with(&mut Vec::new(), PATIENCE)
    }

    fn answer_with(&mut self, delivered: &mut Vec<u8>, patience: Duration) -> Result<(u32, Vec<u8>), LinkError> {
        let until = Instant::now() + patience;
        loop {
            let frame = self.link.receive(Some(until))?.expect("an answer");
            match Push::decode(frame.kind, frame.payload).expect("a message") {
                Push::Reply(reply) => {
                    if !reply.detail.is_empty() {
                        println!("{}", reply.detail);
                    }
                    return Ok((reply.status, reply.body.to_vec()));
                }
                Push::Delivery(delivery) => delivered.extend_from_slice(delivery.bytes),
                Push::Ended(ended) => panic!("the session ended: {}", ended.detail),
                _ => {}
            }
        }
    }

    fn call(&mut self, message: &impl Message) -> (u32, Vec<u8>) {
        self.send(message);
        self.answer().expect("an answer")
    }

    fn ok(&mut self, message: &impl Message) -> Vec<u8> {
        let (status, body) = self.call(message);
        assert_eq!(status, 0);
        body
    }

    fn export(&mut self, ticket: TicketId, scope: u32, object: u64, uses: u32, seconds: u32) {
        self.ok(&Export { ticket, key: &KEY, scope, object, uses, seconds });
    }

    fn import_page(&self, object: u64, signals: u64) -> ImportSignals<'static> {
        let (object, signals) = (SignalsId(object), SignalsId(signals));
        ImportSignals { session: self.session, ticket: TICKET, key: &KEY, object, signals }
    }

    fn import_block(&self, object: u64, block: u64) -> ImportBlock<'static> {
        let (object, block) = (BlockId(object), BlockId(block));
        ImportBlock { session: self.session, ticket: TICKET, key: &KEY, object, block }
    }

    fn word(&mut self, page: u64, word: u32) -> u64 {
        let body = self.ok(&ReadSignals { signals: SignalsId(page), first: word, count: 1 });
        ReadSignals::decode_reply(&body).expect("words").words[0]
    }

    fn await_word(&mut self, page: u64, word: u32, value: u64) {
        let until = Instant::now() + PATIENCE;
        while self.word(page, word) != value {
            assert!(Instant::now() < until, "word {word} is not {value:#x}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn read(&mut self, at: u64, bytes: u64) -> Vec<u8> {
        self.send(&CopyFromDevice { stream: StreamId(0), from: DevicePtr(at), bytes });
        let mut all = Vec::new();
        assert_eq!(self.answer_with(&mut all, PATIENCE).expect("an answer").0, 0);
        all
    }

    fn map(&mut self, block: u64, at: u64) {
        self.send(&MapBlock { block: BlockId(block), offset: 0, at: DevicePtr(at), bytes: BLOCK, access: 3 });
    }

    /// Has the importers stop, and waits until all of its memory has come back.
    fn await_free(&mut self, all: u64, stop: &AtomicBool) {
        stop.store(true, Ordering::SeqCst);
        let until = Instant::now() + PATIENCE;
        while free(self) != all {
            assert!(Instant::now() < until, "of {all} bytes it has {}", free(self));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whether a request is still not answered.
    fn waits(&mut self) -> bool {
        matches!(self.answer_with(&mut Vec::new(), Duration::from_millis(50)), Err(LinkError::TimedOut { .. }))
    }

    /// Kills its worker.
    fn kill(self) {
        let killed = Command::new("kill").args(["-KILL", &self.worker.to_string()]).status();
        assert!(killed.expect("kill runs").success());
    }
}

/// Both have page 1 of the first, the second as its page 5; the second has stream 1.
fn with_page(daemon: &Floed) -> (Client, Client) {
    let (mut owner, mut importer) = (Client::attached(daemon, 0), Client::attached(daemon, 1));
    owner.ok(&CreateSignals { signals: SignalsId(1) });
    owner.export(TICKET, 0, 0, 0, 0);
    importer.ok(&owner.import_page(1, 5));
    importer.send(&CreateStream { stream: StreamId(1), flags: 1, priority: 0 });
    (owner, importer)
}

/// Has the stream wait for the page's word 3.
fn wait_for_word(importer: &mut Client, value: u64) {
    importer.send(&AwaitSignal { stream: StreamId(1), signals: SignalsId(5), word: 3, value });
    importer.send(&SynchronizeStream { stream: StreamId(1) });
    assert!(importer.waits());
}

#[test]
fn a_stream_waits_for_work_of_another_worker() {
    let daemon = Floed::start_with(&["--require-sandbox"], &[]);
    let (mut owner, mut importer) = with_page(&daemon);
    wait_for_word(&mut importer, 9);
    let raise = RaiseSignal { signals: SignalsId(1), word: 3, value: 9, event: EventId(0), stream: StreamId(0) };
    owner.send(&raise);
    assert_eq!(importer.answer().expect("it goes on").0, 0);
    // The other way round, by a record of an event that both have.
    let record = RecordSignal { signals: SignalsId(5), recorded: 10, stream: StreamId(1) };
    assert_eq!(RecordSignal::decode_reply(&importer.ok(&record)).expect("a count").count, 1);
    owner.await_word(1, 11, 1);
    assert_eq!((owner.word(1, 10), importer.word(5, 3)), (1, 9));
}

#[test]
fn after_a_killed_owner_nobody_waits_and_the_importer_goes_on() {
    let mut daemon = Floed::start();
    let (owner, mut importer) = with_page(&daemon);
    wait_for_word(&mut importer, 9);
    owner.kill();
    assert_eq!(importer.answer().expect("it goes on").0, 0);
    assert_eq!(importer.word(5, 500), PAGE_IS_OVER);
    importer.send(&DropSignals { signals: SignalsId(5) });
    importer.ok(&SynchronizeContext {});
    assert!(daemon.is_running());
}

#[test]
fn after_a_killed_importer_its_partner_knows_and_shares_with_others() {
    let daemon = Floed::start();
    let (mut owner, importer) = with_page(&daemon);
    importer.kill();
    owner.await_word(1, 0, PAGE_IS_OVER);
    owner.ok(&CreateSignals { signals: SignalsId(2) });
    let mut another = Client::attached(&daemon, 2);
    another.ok(&owner.import_page(2, 5));
    assert_eq!(another.word(5, 0), 0);
}

#[test]
fn without_a_ticket_that_admits_it_nothing_is_imported() {
    let daemon = Floed::start();
    let (mut owner, mut importer) = with_page(&daemon);
    let good = owner.import_page(1, 6);
    owner.export(TicketId(2), 2, 1, 1, 0);
    owner.export(TicketId(3), 2, 1, 0, 1);
    owner.ok(&CreateSignals { signals: SignalsId(2) });
    let mut refused = |message: &ImportSignals<'_>| importer.call(message).0 == INVALID_HANDLE;
    assert!(refused(&ImportSignals { key: &[8; 32], ..good }), "another key");
    assert!(refused(&ImportSignals { ticket: TicketId(9), ..good }), "no such ticket");
    assert!(refused(&ImportSignals { object: SignalsId(9), ..good }), "no such page");
    assert!(refused(&ImportSignals { session: 999, ..good }), "no such session");
    assert!(refused(&ImportSignals { ticket: TicketId(2), object: SignalsId(2), ..good }), "out of its scope");
    assert!(!refused(&ImportSignals { ticket: TicketId(2), ..good }));
    let next = ImportSignals { signals: SignalsId(7), ..good };
    assert!(refused(&ImportSignals { ticket: TicketId(2), ..next }), "used up");
    std::thread::sleep(Duration::from_millis(1100));
    assert!(refused(&ImportSignals { ticket: TicketId(3), ..next }), "expired");
    owner.send(&Withdraw { ticket: TICKET });
    owner.ok(&MemoryInfo {});
    assert!(refused(&next), "withdrawn");
}

#[test]
fn pages_that_come_and_go_leave_nothing_in_workers_and_daemon() {
    let daemon = Floed::start();
    let (mut owner, mut importer) = with_page(&daemon);
    let count = |owner: &Client, importer: &Client| [daemon.process(), owner.worker, importer.worker].map(open_files);
    let before = count(&owner, &importer);
    for round in 0..50 {
        let (own, its) = (100 + round, 200 + round);
        owner.ok(&CreateSignals { signals: SignalsId(own) });
        importer.ok(&owner.import_page(own, its));
        importer.send(&DropSignals { signals: SignalsId(its) });
        owner.send(&DropSignals { signals: SignalsId(own) });
    }
    // At most: what the daemon still held of the attaching when it was counted may be gone by now.
    let left = |now: [usize; 3]| now.iter().zip(before).any(|(now, before)| *now > before);
    let until = Instant::now() + PATIENCE;
    while left(count(&owner, &importer)) {
        assert!(Instant::now() < until, "{:?} and not {before:?}", count(&owner, &importer));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_block_is_written_through_one_worker_and_read_through_the_other() {
    let daemon = Floed::start_with(&["--require-sandbox"], &[]);
    let (mut owner, mut importer) = (Client::attached(&daemon, 0), Client::attached(&daemon, 1));
    owner.ok(&CreateBlock { block: BlockId(1), bytes: BLOCK });
    let at = owner.window;
    owner.map(1, at);
    owner.export(TICKET, 1, 1, 0, 0);
    let body = importer.ok(&owner.import_block(1, 5));
    assert_eq!(ImportBlock::decode_reply(&body).expect("its size").bytes, BLOCK);
    importer.map(5, at);
    importer.send(&CopyToDevice { stream: StreamId(0), to: DevicePtr(at + 100), bytes: b"between workers" });
    importer.ok(&SynchronizeContext {});
    assert_eq!(owner.read(at + 100, 15), b"between workers");
    // It stays while somebody has it: released by the owner, whose session then ends.
    owner.send(&UnmapRange { at: DevicePtr(at), bytes: BLOCK });
    owner.send(&ReleaseBlock { block: BlockId(1) });
    owner.ok(&SynchronizeContext {});
    assert_eq!(importer.call(&owner.import_block(1, 6)).0, INVALID_HANDLE, "the ticket ended with its block");
    owner.kill();
    assert_eq!(importer.read(at + 100, 15), b"between workers");
    importer.send(&UnmapRange { at: DevicePtr(at), bytes: BLOCK });
    importer.send(&ReleaseBlock { block: BlockId(5) });
    importer.ok(&SynchronizeContext {});
}

/// Each page of a session's own is a descriptor of its worker's, which has 4,096 at most.
#[test]
fn a_session_with_all_pages_that_it_may_have_still_imports_and_hears_the_daemon() {
    let daemon = Floed::start_with(&["--require-sandbox"], &[]);
    let (mut owner, mut importer) = with_page(&daemon);
    owner.ok(&CreateBlock { block: BlockId(1), bytes: BLOCK });
    let refused = (1..5000).find(|page| importer.call(&CreateSignals { signals: SignalsId(1000 + page) }).0 != 0);
    let refused = refused.expect("it has no more than so many");
    assert!(refused > 3000, "{refused}");
    importer.ok(&owner.import_block(1, 1));
    wait_for_word(&mut importer, 9);
    owner.kill();
    assert_eq!(importer.answer().expect("it goes on").0, 0, "it heard of the owner's end");
}

/// Imports blocks of the owner's that may be gone by then, and holds a few of them at a time, until it is told to stop; how many it had.
fn import_until(importer: &mut Client, owner: u64, newest: &AtomicU64, stop: &AtomicBool) -> u64 {
    let (mut own, mut held, mut count) = (1000, VecDeque::new(), 0);
    while !stop.load(Ordering::SeqCst) {
        own += 1;
        let newest = newest.load(Ordering::SeqCst);
        // The one that is about to be released, or that one before it.
        let object = BlockId(newest.saturating_sub(own % 2).max(1));
        let import = ImportBlock { session: owner, ticket: TICKET, key: &KEY, object, block: BlockId(own) };
        match importer.call(&import).0 {
            0 => held.push_back(own),
            // The broker forgives one a second.
            INVALID_HANDLE => std::thread::sleep(Duration::from_millis(1)),
            // A new block has the number of one that it holds.
            NOT_SUPPORTED => {}
            other => panic!("an import fails with {other}"),
        }
        count += u64::from(held.back() == Some(&own));
        if held.len() > 3 || (own.is_multiple_of(3) && !held.is_empty()) {
            let block = BlockId(held.pop_front().expect("it has some"));
            importer.send(&ReleaseBlock { block });
        }
    }
    held.into_iter().for_each(|block| importer.send(&ReleaseBlock { block: BlockId(block) }));
    importer.ok(&MemoryInfo {});
    count
}

fn free(client: &mut Client) -> u64 {
    MemoryInfo::decode_reply(&client.ok(&MemoryInfo {})).expect("its memory").free
}

/// Two importers race with the owner that releases what they import; in every second round the owner's worker is killed then.
#[test]
fn blocks_that_are_imported_while_they_are_released_are_nobodys_in_the_end() {
    let daemon = Floed::start();
    let mut importers = [1, 2].map(|ordinal| Client::with_quota(&daemon, ordinal, 64 * BLOCK));
    let before = importers.each_mut().map(free);
    for round in 0..6 {
        let mut owner = Client::with_quota(&daemon, 0, 64 * BLOCK);
        let all = free(&mut owner);
        owner.export(TICKET, 0, 0, 0, 0);
        let (newest, stop, session) = (AtomicU64::new(1), AtomicBool::new(false), owner.session);
        let [one, other] = &mut importers;
        let counts = std::thread::scope(|scope| {
            let importing =
                [one, other].map(|importer| scope.spawn(|| import_until(importer, session, &newest, &stop)));
            for turn in 0..200 {
                // Numbers are used again.
                let block = 1 + turn % 5;
                owner.ok(&CreateBlock { block: BlockId(block), bytes: BLOCK });
                newest.store(block, Ordering::SeqCst);
                std::thread::sleep(Duration::from_micros(300 * (turn % 4)));
                owner.send(&ReleaseBlock { block: BlockId(block) });
            }
            if round % 2 == 0 {
                owner.await_free(all, &stop);
            } else {
                owner.kill();
                std::thread::sleep(Duration::from_millis(5));
                stop.store(true, Ordering::SeqCst);
            }
            importing.map(|importing| importing.join().expect("it imports"))
        });
        assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
        let until = Instant::now() + PATIENCE;
        while importers.each_mut().map(free) != before {
            assert!(Instant::now() < until, "round {round}: {before:?}, and now: {:?}", importers.each_mut().map(free));
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
