//! Whole sessions against a device in memory: what the client sees, and in which order.
//! In: messages over a socket pair. Out: the verdict.
//! Streams of the fake device complete only when a test says so.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod alone;
mod arrays;
mod fake;
mod graphs;
mod hostile;
mod inline_wait;
mod launches;
mod linking;
mod mirrors;
pub(crate) mod moving;
mod peer_links;
mod peers;
mod quota;
mod resumption;
mod sharer;
mod sharing;
mod steady;
mod stream_memory;
mod stripes;
#[path = "life/turns/tests.rs"]
mod turns;

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(crate) use fake::Fake;
use floe_transport::{Link, LinkError};
use floe_wire::*;

use crate::daemon::descriptor_passing::{Giver, Role, pair};
use crate::issue::cache::{Hash, hash_of};
use crate::memory::transfer_buffers::BufferBytes;
use crate::{Carried, Ending, Joining, Log, Output, Plan, Resumption, Stands, Watchdog, serve};

/// Connections that may wait for a worker to take them.
const MOST_JOINING: u32 = 200;
const PATIENCE: Duration = Duration::from_secs(300);
const BLOCK: u64 = 2 << 20;
const BASE: u64 = WINDOW_BASE;
/// Bytes of host memory a session may share.
const SHARED: u64 = 1 << 20;
const MIRRORED: u64 = 1 << 20;
/// Bytes of host memory it may have.
const HOST_MEMORY: u64 = 4 << 30;
/// Pinned memory of its transfer buffers.
const TRANSPORT: u64 = 64 << 20;

fn buffer_bytes() -> BufferBytes {
    BufferBytes::of(TRANSPORT)
}

/// A message that the client got, as owned values.
#[derive(Clone, Debug, PartialEq)]
enum Got {
    Reply { request: u64, status: u32, earlier: u32, detail: String, body: Vec<u8> },
    Delivery { request: u64, offset: u64, bytes: Vec<u8> },
    Follows { request: u64, offset: u64, bytes: u64 },
    RunHostFunction(u64),
    Progress(u64, u64, u32),
    MirrorChanged(u64, Vec<(u32, Vec<u8>)>),
    Ended(u32, String),
    Other(&'static str),
}

struct Client {
    link: Link,
    /// The way by which more connections join.
    giver: Arc<Giver>,
    device: Arc<Fake>,
    used: Arc<AtomicU64>,
    carried: Arc<Carried>,
    worker: Option<JoinHandle<Ending>>,
}

impl Client {
    fn with(memory: u64) -> Self {
        Self::on(Arc::new(Fake::default()), memory)
    }

    fn new() -> Self {
        Self::with(0)
    }

    fn on(device: Arc<Fake>, memory: u64) -> Self {
        Self::over(UnixStream::pair().unwrap(), device, memory, None)
    }

    /// Over these two ends of a connection: the client's, the worker's.
    fn over(sockets: (UnixStream, UnixStream), device: Arc<Fake>, memory: u64, resumption: Option<Resumption>) -> Self {
        Self::with_transport(TRANSPORT, sockets, device, memory, resumption)
    }

    /// With transfer buffers of other sizes.
    fn with_transport(
        transport: u64,
        sockets: (UnixStream, UnixStream),
        device: Arc<Fake>,
        memory: u64,
        resumption: Option<Resumption>,
    ) -> Self {
        Self::planned(sockets, device, |plan| {
            plan.memory = memory;
            plan.transport_memory = transport;
            plan.resumption = resumption;
        })
    }

    /// With what a test changes of a session that may have all there is.
    fn planned((ours, theirs): (UnixStream, UnixStream), device: Arc<Fake>, change: impl FnOnce(&mut Plan)) -> Self {
        let (giver, taker) = pair(MOST_JOINING).unwrap();
        let joining = Joining::new(Vec::new(), Some(taker));
        let (used, carried) = (Arc::new(AtomicU64::new(0)), Arc::<Carried>::default());
        let mut plan = Plan {
            ordinal: 0,
            memory: 0,
            granularity: BLOCK,
            host_memory: HOST_MEMORY,
            grants: None,
            shared_memory: SHARED,
            mirrored_memory: MIRRORED,
            transport_memory: TRANSPORT,
            device_speaks: false,
            cache: None,
            used: Arc::clone(&used),
            carried: Arc::clone(&carried),
            joining,
            peers: None,
            nccl: None,
            nodes: false,
            cupti: None,
            moves: None,
            turns: None,
            end: None,
            stands: Stands::default(),
            resumption: None,
            idle: None,
            watchdog: Watchdog::nobody(),
        };
        change(&mut plan);
        let served = Arc::clone(&device);
        let worker =
            std::thread::spawn(move || serve(served, Link::new(theirs.into()), plan, Output::none(), Log::nowhere()));
        Self { link: client_end(ours), giver: Arc::new(giver), device, used, carried, worker: Some(worker) }
    }

    fn send(&mut self, message: &impl Message) -> u64 {
        self.link.send(message).unwrap()
    }

    fn get(&mut self) -> Option<Got> {
        let frame = self.link.receive(Some(Instant::now() + PATIENCE)).unwrap()?;
        Some(match Push::decode(frame.kind, frame.payload).unwrap() {
            Push::Reply(Reply { request, status, earlier, detail, body }) => {
                Got::Reply { request, status, earlier, detail: detail.into(), body: body.into() }
            }
            Push::Delivery(Delivery { request, offset, bytes }) => {
                Got::Delivery { request, offset, bytes: bytes.into() }
            }
            Push::DeliveryFollows(DeliveryFollows { request, offset, bytes }) => {
                Got::Follows { request, offset, bytes }
            }
            Push::RunHostFunction(message) => Got::RunHostFunction(message.function.0),
            Push::Progress(message) => Got::Progress(message.stream.0, message.sequence, message.status),
            Push::MirrorChanged(message) => {
                let run = |run: &MirrorRun<'_>| (run.offset, run.bytes.to_vec());
                Got::MirrorChanged(message.at.0, message.runs.iter().map(run).collect())
            }
            Push::Ended(message) => Got::Ended(message.status, message.detail.into()),
            Push::Migrating(news) => panic!("no move was asked for: {news:?}"),
            other => Got::Other(other.name()),
        })
    }

    /// Sends and expects the reply next; gives status, earlier and body.
    fn call(&mut self, message: &impl Message) -> (u32, u32, Vec<u8>) {
        let sent = self.send(message);
        match self.get() {
            Some(Got::Reply { request, status, earlier, body, .. }) if request == sent => (status, earlier, body),
            other => panic!("expected the reply to {sent}: {other:?}"),
        }
    }

    /// The sequence of a call that is answered.
    fn ok_sequence(&mut self) -> u64 {
        let sent = self.send(&MemoryInfo {});
        assert!(matches!(self.get(), Some(Got::Reply { request, status: 0, .. }) if request == sent));
        sent
    }

    fn ok(&mut self, message: &impl Message) -> Vec<u8> {
        let (status, earlier, body) = self.call(message);
        assert_eq!((status, earlier), (0, 0));
        body
    }

    /// A mapped block at the window's start.
    fn memory(&mut self) {
        self.memory_of(BLOCK);
    }

    /// One of so many bytes.
    fn memory_of(&mut self, bytes: u64) {
        self.ok(&CreateBlock { block: BlockId(1), bytes });
        self.send(&MapBlock { block: BlockId(1), offset: 0, at: DevicePtr(BASE), bytes, access: 3 });
    }

    fn nothing_comes(&mut self) {
        let soon = Instant::now() + Duration::from_millis(30);
        assert!(matches!(self.link.receive(Some(soon)), Err(LinkError::TimedOut { .. })), "something came");
    }

    fn leave(mut self) -> Ending {
        let worker = self.worker.take().unwrap();
        drop(self.link);
        join(worker)
    }

    /// Sends what violates the protocol and returns what the worker says about it.
    fn break_with(mut self, message: &impl Message) -> String {
        self.send(message);
        let words = match self.get() {
            Some(Got::Ended(1, words)) => words,
            other => panic!("expected the end: {other:?}"),
        };
        assert_eq!(self.get(), None, "the connection closes");
        assert!(matches!(join(self.worker.take().unwrap()), Ending::ProtocolViolation(_)));
        words
    }
}

/// The client's end of a connection: what a worker that has failed never reads is not waited for.
fn client_end(socket: UnixStream) -> Link {
    let link = Link::new(socket.into());
    link.limit_writes(Some(PATIENCE)).unwrap();
    link
}

/// Joins a thread that is over soon; one that is not is left behind.
fn join<T>(thread: JoinHandle<T>) -> T {
    let until = Instant::now() + PATIENCE;
    while !thread.is_finished() {
        assert!(Instant::now() < until, "a thread is not over after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
    thread.join().unwrap()
}

fn status(request: u64, status: u32) -> Option<Got> {
    Some(Got::Reply { request, status, earlier: 0, detail: String::new(), body: vec![] })
}

fn progress(stream: u64, sequence: u64) -> Option<Got> {
    Some(Got::Progress(stream, sequence, 0))
}

#[test]
fn bytes_go_to_the_device_and_come_back() {
    let mut client = Client::new();
    client.memory();
    let data: Vec<u8> = (0..10_000_u32).map(|index| index.to_le_bytes()[0]).collect();
    client.send(&CopyToDevice { stream: StreamId(0), to: DevicePtr(BASE + 100), bytes: &data });
    let sent = client.send(&CopyFromDevice { stream: StreamId(0), from: DevicePtr(BASE + 100), bytes: 10_000 });
    assert_eq!(client.get(), Some(Got::Delivery { request: sent, offset: 0, bytes: data }));
    assert_eq!(client.get(), status(sent, 0));
    assert_eq!(client.leave(), Ending::ClientLeft);
}

#[test]
fn large_copies_come_in_pieces_through_a_ring_that_is_smaller() {
    let mut client = Client::new();
    let bytes = 40 * PIECE_BYTES;
    client.ok(&CreateBlock { block: BlockId(1), bytes: bytes as u64 });
    let at = DevicePtr(BASE);
    client.send(&MapBlock { block: BlockId(1), offset: 0, at, bytes: bytes as u64, access: 3 });
    client.send(&Fill { stream: StreamId(0), at, pitch: 0, element: 4, value: 7, width: bytes as u64 / 4, height: 1 });
    let sent = client.send(&CopyFromDevice { stream: StreamId(0), from: at, bytes: bytes as u64 });
    let mut next = 0;
    while next < bytes as u64 {
        let Some(Got::Delivery { request, offset, bytes }) = client.get() else { panic!("a piece is missing") };
        assert_eq!((request, offset), (sent, next));
        assert!(bytes.chunks(4).all(|word| word == [7, 0, 0, 0]));
        next += bytes.len() as u64;
    }
    assert_eq!(client.get(), status(sent, 0));
}

#[test]
fn boxes_are_read_and_written_without_gaps() {
    let mut client = Client::new();
    client.memory();
    let (pitch, slice) = (32, 256);
    let rows: Vec<u8> = (1..=2 * 3 * 5).collect();
    let to = DevicePtr(BASE);
    let stream = StreamId(0);
    let to = BoxEnd::memory(to, pitch, slice);
    client.send(&CopyBoxToDevice { stream, to, width: 5, height: 3, depth: 2, bytes: &rows });
    let moved = BoxEnd::memory(DevicePtr(BASE + 4096), 64, 1024);
    client.send(&CopyBoxOnDevice { stream, to: moved, from: to, width: 5, height: 3, depth: 2 });
    let sent = client.send(&CopyBoxFromDevice { stream, from: moved, width: 5, height: 3, depth: 2 });
    let mut got = Vec::new();
    while let Some(Got::Delivery { offset, bytes, .. }) = client.get() {
        assert_eq!(offset, got.len() as u64);
        got.extend(bytes);
    }
    assert_eq!(got, rows);
    assert_eq!(client.device.memory(BASE + 32, 5), [6, 7, 8, 9, 10]);
    let _ = sent;
}

#[test]
fn waiting_for_one_stream_does_not_hold_up_another() {
    let mut client = Client::new();
    client.memory();
    client.send(&CreateStream { stream: StreamId(1), flags: 1, priority: 0 });
    client.send(&CreateStream { stream: StreamId(2), flags: 1, priority: 0 });
    client.ok(&MemoryInfo {});
    client.device.hold(0);
    client.send(&Fill {
        stream: StreamId(1),
        at: DevicePtr(BASE),
        pitch: 0,
        element: 1,
        value: 1,
        width: 1,
        height: 1,
    });
    let held = client.send(&SynchronizeStream { stream: StreamId(1) });
    let free = client.send(&SynchronizeStream { stream: StreamId(2) });
    assert_eq!(client.get(), status(free, 0));
    client.nothing_comes();
    client.device.release(0);
    assert_eq!(client.get(), status(held, 0));
}

#[test]
fn deliveries_of_other_streams_come_before_the_reply_that_depends_on_them() {
    let mut client = Client::new();
    client.memory();
    for stream in 1..=2 {
        client.send(&CreateStream { stream: StreamId(stream), flags: 1, priority: 0 });
    }
    client.ok(&MemoryInfo {});
    client.device.hold(0);
    let copy = client.send(&CopyFromDevice { stream: StreamId(1), from: DevicePtr(BASE), bytes: 4 });
    client.send(&CreateEvent { event: EventId(5), flags: 0 });
    client.send(&RecordEvent { event: EventId(5), stream: StreamId(1), flags: 0 });
    client.send(&WaitEvent { stream: StreamId(2), event: EventId(5), flags: 0 });
    let waiting = client.send(&SynchronizeStream { stream: StreamId(2) });
    client.nothing_comes();
    client.device.release(0);
    assert_eq!(client.get(), Some(Got::Delivery { request: copy, offset: 0, bytes: vec![0; 4] }));
    let last = [client.get(), client.get()];
    assert!(last.contains(&status(copy, 0)) && last.contains(&status(waiting, 0)), "{last:?}");
}

#[test]
fn query_says_not_ready_and_later_success_after_the_deliveries() {
    let mut client = Client::new();
    client.memory();
    client.send(&CreateStream { stream: StreamId(1), flags: 1, priority: 0 });
    client.ok(&MemoryInfo {});
    client.device.hold(0);
    let copy = client.send(&CopyFromDevice { stream: StreamId(1), from: DevicePtr(BASE), bytes: 4 });
    assert_eq!(client.call(&QueryStream { stream: StreamId(1) }).0, 600);
    client.device.release(0);
    let query = client.send(&QueryStream { stream: StreamId(1) });
    assert!(matches!(client.get(), Some(Got::Delivery { request, .. }) if request == copy));
    assert_eq!(client.get(), status(copy, 0));
    assert_eq!([client.get(), client.get()], [progress(1, copy + 1), status(query, 0)]);
}

#[test]
fn a_client_that_got_not_ready_gets_one_report_when_the_event_completes() {
    let mut client = Client::new();
    client.memory();
    client.send(&CreateStream { stream: StreamId(1), flags: 1, priority: 0 });
    client.ok(&MemoryInfo {});
    client.device.hold(0);
    client.send(&CreateEvent { event: EventId(5), flags: 0 });
    let copy = client.send(&CopyFromDevice { stream: StreamId(1), from: DevicePtr(BASE), bytes: 4 });
    let recorded = client.send(&RecordEvent { event: EventId(5), stream: StreamId(1), flags: 0 });
    assert_eq!(client.call(&QueryEvent { event: EventId(5) }).0, 600);
    // Recorded again, the event means something else; what was asked about does not.
    client.send(&RecordEvent { event: EventId(5), stream: StreamId(1), flags: 0 });
    client.device.release(0);
    assert!(matches!(client.get(), Some(Got::Delivery { request, .. }) if request == copy));
    assert_eq!([client.get(), client.get()], [status(copy, 0), progress(1, recorded)]);
    client.ok(&QueryEvent { event: EventId(5) });
    client.nothing_comes();
}

/// Each look takes the driver's lock from who launches.
#[test]
fn of_events_that_are_waited_for_right_behind_their_records_one_is_looked_at() {
    let mut client = Client::new();
    client.send(&CreateStream { stream: StreamId(1), flags: 1, priority: 0 });
    for event in 10..18 {
        client.send(&CreateEvent { event: EventId(event), flags: 0 });
    }
    client.memory();
    client.device.hold(0);
    let copy = client.send(&CopyFromDevice { stream: StreamId(1), from: DevicePtr(BASE), bytes: 4 });
    let follow = |client: &mut Client, event| {
        client.send(&RecordEvent { event: EventId(event), stream: StreamId(1), flags: 0 });
        client.send(&SynchronizeEvent { event: EventId(event) })
    };
    let followed: Vec<_> = (10..18).map(|event| follow(&mut client, event)).collect();
    client.ok(&MemoryInfo {});
    client.device.forget_asked_about();
    client.device.expect_asked_about(1);
    // One that is waited for later is in no order with the stream's.
    let later = client.send(&SynchronizeEvent { event: EventId(12) });
    client.device.expect_asked_about(2);
    client.device.release(0);
    let came: Vec<_> = (0..11).map(|_| client.get()).collect();
    for request in std::iter::once(copy).chain(followed).chain([later]) {
        assert!(came.contains(&status(request, 0)), "{came:?}");
    }
}

#[test]
fn of_events_that_are_queried_one_of_each_stream_is_looked_at() {
    let mut client = Client::new();
    for stream in 1..3 {
        client.send(&CreateStream { stream: StreamId(stream), flags: 1, priority: 0 });
    }
    client.memory();
    [0, 1].iter().for_each(|stream| client.device.hold(*stream));
    let copies =
        [1, 2].map(|stream| client.send(&CopyFromDevice { stream: StreamId(stream), from: DevicePtr(BASE), bytes: 4 }));
    let mut records: Vec<_> = (10..20)
        .map(|event| {
            let stream = StreamId(1 + event % 2);
            client.send(&CreateEvent { event: EventId(event), flags: 0 });
            (event, stream, client.send(&RecordEvent { event: EventId(event), stream, flags: 0 }))
        })
        .collect();
    // In whichever order they are queried.
    records.swap(0, 8);
    records.swap(3, 5);
    for (event, ..) in &records {
        let query = client.send(&QueryEvent { event: EventId(*event) });
        assert_eq!(client.get(), status(query, 600));
    }
    client.device.forget_asked_about();
    // Each stream's copy, and one of its events.
    client.device.expect_asked_about(4);
    [0, 1].iter().for_each(|stream| client.device.release(*stream));
    let came: Vec<_> = (0..14).map(|_| client.get()).collect();
    for copy in copies {
        assert!(came.contains(&status(copy, 0)), "{came:?}");
    }
    for (_, stream, sequence) in records {
        let report = progress(stream.0, sequence);
        assert!(came.contains(&report), "{came:?}");
    }
}

#[test]
fn a_copy_larger_than_a_small_frame_is_staged_and_one_behind_a_host_function_still_read() {
    let mut client = Client::new();
    client.memory_of(32 * PIECE_BYTES as u64);
    client.send(&CreateStream { stream: StreamId(1), flags: 1, priority: 0 });
    client.send(&HostFunction { stream: StreamId(1), function: FunctionId(3) });
    assert_eq!(client.get(), Some(Got::RunHostFunction(3)));
    // More than the the transfer buffers holds, all behind the host function, whose end comes last.
    let piece: Vec<u8> = (0..PIECE_BYTES).map(|index| (index / 5).to_le_bytes()[0]).collect();
    for index in 0..24 {
        let to = DevicePtr(BASE + index * PIECE_BYTES as u64);
        client.send(&CopyToDevice { stream: StreamId(1), to, bytes: &piece });
    }
    client.send(&HostFunctionDone { function: FunctionId(3) });
    client.ok(&SynchronizeStream { stream: StreamId(1) });
    for index in [0, 15, 16, 23] {
        assert_eq!(client.device.memory(BASE + index * PIECE_BYTES as u64, PIECE_BYTES as u64), piece);
    }
}

#[test]
fn late_bytes_come_through_while_the_issuer_waits_for_their_stream() {
    let mut client = Client::new();
    client.memory();
    client.send(&CreateStream { stream: StreamId(1), flags: 1, priority: 0 });
    let late = |function, to, height| CopyLate {
        stream: StreamId(1),
        function: FunctionId(function),
        to: BoxEnd::memory(DevicePtr(to), 8, 0),
        width: 4,
        height,
    };
    client.send(&late(1, BASE, 1));
    client.send(&late(2, BASE + 16, 2));
    assert_eq!(client.get(), Some(Got::RunHostFunction(1)));
    // This load is not over before the copies are.
    let hash = hash_of(b"kernel k");
    client.send(&LibraryPart { library: LibraryId(1), content: 0, bytes: b"kernel k" });
    let load = LoadLibrary { contents: vec![content(b"kernel k", &hash)], at_once: true, ..text(LibraryId(1)) };
    let loaded = client.send(&load);
    client.nothing_comes();
    client.send(&LateBytes { function: FunctionId(1), bytes: &[1, 2, 3, 4] });
    assert_eq!(client.get(), Some(Got::RunHostFunction(2)));
    client.send(&LateBytes { function: FunctionId(2), bytes: &[5, 6, 7, 8, 9, 10, 11, 12] });
    assert!(matches!(client.get(), Some(Got::Reply { request, status: 0, .. }) if request == loaded));
    assert_eq!(client.device.memory(BASE, 4), [1, 2, 3, 4]);
    let rows = client.device.memory(BASE + 16, 12);
    assert_eq!((&rows[..4], &rows[8..]), ([5, 6, 7, 8].as_slice(), [9, 10, 11, 12].as_slice()));
}

#[test]
fn late_bytes_of_another_size_or_function_violate_the_protocol() {
    let to = BoxEnd::memory(DevicePtr(BASE), 0, 0);
    let late = CopyLate { stream: StreamId(0), function: FunctionId(1), to, width: 4, height: 1 };
    for wrong in [&[1, 2, 3][..], &[1, 2, 3, 4, 5]] {
        let mut client = Client::new();
        client.memory();
        client.send(&late);
        assert_eq!(client.get(), Some(Got::RunHostFunction(1)));
        let words = client.break_with(&LateBytes { function: FunctionId(1), bytes: wrong });
        assert!(words.contains("host function"), "{words}");
    }
    let words = Client::new().break_with(&CopyLate { width: 5 << 20, ..late });
    assert!(words.contains("piece"), "{words}");
}

#[test]
fn copies_that_stand_behind_a_reset_keep_their_bytes() {
    let mut client = Client::new();
    let piece = vec![7; 100_000];
    client.send(&CopyToDevice { stream: StreamId(0), to: DevicePtr(BASE), bytes: &piece });
    client.send(&ResetContext {});
    client.send(&CreateBlock { block: BlockId(1), bytes: BLOCK });
    client.send(&MapBlock { block: BlockId(1), offset: 0, at: DevicePtr(BASE), bytes: BLOCK, access: 3 });
    client.send(&CopyToDevice { stream: StreamId(0), to: DevicePtr(BASE), bytes: &piece });
    let last = client.send(&SynchronizeContext {});
    while !matches!(client.get(), Some(Got::Reply { request, .. }) if request == last) {}
    assert_eq!(client.device.memory(BASE, 100_000), piece);
}

#[test]
fn context_waits_for_every_stream_also_destroyed_ones() {
    let mut client = Client::new();
    client.memory();
    client.send(&CreateStream { stream: StreamId(1), flags: 1, priority: 0 });
    client.ok(&MemoryInfo {});
    client.device.hold(0);
    client.send(&Fill {
        stream: StreamId(1),
        at: DevicePtr(BASE),
        pitch: 0,
        element: 1,
        value: 1,
        width: 1,
        height: 1,
    });
    client.send(&DestroyStream { stream: StreamId(1) });
    let waiting = client.send(&SynchronizeContext {});
    client.nothing_comes();
    client.device.release(0);
    assert_eq!(client.get(), status(waiting, 0));
}

#[test]
fn event_recorded_again_does_not_prolong_an_earlier_wait() {
    let mut client = Client::new();
    for stream in 1..=2 {
        client.send(&CreateStream { stream: StreamId(stream), flags: 1, priority: 0 });
    }
    client.send(&CreateEvent { event: EventId(1), flags: 0 });
    client.ok(&MemoryInfo {});
    client.device.hold(0);
    client.device.hold(1);
    client.send(&RecordEvent { event: EventId(1), stream: StreamId(1), flags: 0 });
    let first = client.send(&SynchronizeEvent { event: EventId(1) });
    client.send(&RecordEvent { event: EventId(1), stream: StreamId(2), flags: 0 });
    let second = client.send(&SynchronizeEvent { event: EventId(1) });
    client.nothing_comes();
    client.device.release(0);
    assert_eq!(client.get(), status(first, 0));
    client.nothing_comes();
    client.device.release(1);
    assert_eq!(client.get(), status(second, 0));
}

#[test]
fn more_copies_behind_a_host_function_than_the_rings_hold_do_not_keep_others_from_being_answered() {
    let mut client = Client::new();
    client.memory();
    client.send(&CreateStream { stream: StreamId(1), flags: 1, priority: 0 });
    client.send(&HostFunction { stream: StreamId(1), function: FunctionId(3) });
    assert_eq!(client.get(), Some(Got::RunHostFunction(3)));
    let bytes = BLOCK.min(PIECE_BYTES as u64);
    let piece = vec![7; usize::try_from(bytes).unwrap()];
    for _ in 0..2 + buffer_bytes().upload as u64 / bytes {
        client.send(&CopyToDevice { stream: StreamId(1), to: DevicePtr(BASE), bytes: &piece });
    }
    for _ in 0..2 + buffer_bytes().download as u64 / bytes {
        client.send(&CopyFromDevice { stream: StreamId(1), from: DevicePtr(BASE), bytes });
    }
    // The function may be floe's own, which waits for another vGPU, which waits for this.
    client.ok(&MemoryInfo {});
    client.send(&HostFunctionDone { function: FunctionId(3) });
    let asked = client.send(&SynchronizeStream { stream: StreamId(1) });
    let done =
        std::iter::from_fn(|| client.get()).find(|got| matches!(got, Got::Reply { request, .. } if *request == asked));
    assert_eq!(done, status(asked, 0));
    assert_eq!(client.device.memory(BASE + bytes - 1, 1), [7]);
}

#[test]
fn more_late_copies_behind_a_host_function_than_their_ring_holds_do_not_keep_others_from_being_answered() {
    let mut client = Client::new();
    client.memory();
    client.send(&CreateStream { stream: StreamId(1), flags: 1, priority: 0 });
    client.send(&HostFunction { stream: StreamId(1), function: FunctionId(3) });
    assert_eq!(client.get(), Some(Got::RunHostFunction(3)));
    let width = BLOCK.min(PIECE_BYTES as u64);
    let to = BoxEnd::memory(DevicePtr(BASE), 0, 0);
    let late = CopyLate { stream: StreamId(1), to, width, height: 1, ..CopyLate::default() };
    let last = 11 + buffer_bytes().late as u64 / width;
    for function in 10..=last {
        client.send(&CopyLate { function: FunctionId(function), ..late });
    }
    client.ok(&MemoryInfo {});
    client.send(&HostFunctionDone { function: FunctionId(3) });
    for function in 10..=last {
        assert_eq!(client.get(), Some(Got::RunHostFunction(function)));
        client.send(&LateBytes { function: FunctionId(function), bytes: &vec![7; usize::try_from(width).unwrap()] });
    }
    client.ok(&SynchronizeStream { stream: StreamId(1) });
    assert_eq!(client.device.memory(BASE + width - 1, 1), [7]);
}

#[test]
fn refused_host_functions_and_late_copies_are_told_at_once_and_may_be_answered() {
    let mut client = Client::new();
    client.memory();
    client.device.fail_next_stream();
    let stream = StreamId(4);
    client.send(&CreateStream { stream, flags: 0, priority: 0 });
    client.send(&HostFunction { stream, function: FunctionId(9) });
    assert_eq!(client.get(), Some(Got::RunHostFunction(9)));
    let to = BoxEnd::memory(DevicePtr(BASE), 0, 0);
    client.send(&CopyLate { stream, function: FunctionId(10), to, width: 4, height: 1 });
    assert_eq!(client.get(), Some(Got::RunHostFunction(10)));
    for function in [9, 10] {
        client.send(&HostFunctionDone { function: FunctionId(function) });
    }
    assert_eq!(client.call(&MemoryInfo {}).1, 2, "the stream's own failure");
    client.ok(&MemoryInfo {});
    client.send(&HostFunction { stream: StreamId(0), function: FunctionId(11) });
    assert_eq!(client.get(), Some(Got::RunHostFunction(11)));
    let words = client.break_with(&HostFunction { stream, function: FunctionId(11) });
    assert!(words.contains("host function id is taken: 11"), "{words}");
}

#[test]
fn host_function_runs_after_deliveries_and_holds_its_stream() {
    let mut client = Client::new();
    client.memory();
    client.send(&CreateStream { stream: StreamId(1), flags: 1, priority: 0 });
    let copy = client.send(&CopyFromDevice { stream: StreamId(1), from: DevicePtr(BASE), bytes: 1 });
    client.send(&HostFunction { stream: StreamId(1), function: FunctionId(9) });
    let waiting = client.send(&SynchronizeStream { stream: StreamId(1) });
    assert!(matches!(client.get(), Some(Got::Delivery { request, .. }) if request == copy));
    assert_eq!(client.get(), status(copy, 0));
    assert_eq!(client.get(), Some(Got::RunHostFunction(9)));
    client.nothing_comes();
    client.ok(&MemoryInfo {});
    client.send(&HostFunctionDone { function: FunctionId(9) });
    assert_eq!(client.get(), status(waiting, 0));
}

#[test]
fn quota_is_exact_and_refunded_with_the_last_mapping() {
    let mut client = Client::with(3 * BLOCK);
    client.ok(&CreateBlock { block: BlockId(1), bytes: 2 * BLOCK });
    assert_eq!(client.call(&CreateBlock { block: BlockId(2), bytes: 2 * BLOCK }).0, 2);
    client.ok(&CreateBlock { block: BlockId(2), bytes: BLOCK });
    let info = client.ok(&MemoryInfo {});
    assert_eq!(MemoryInfo::decode_reply(&info), Ok(MemoryInfoReply { free: 0, total: 3 * BLOCK }));
    client.send(&MapBlock { block: BlockId(1), offset: BLOCK, at: DevicePtr(BASE), bytes: BLOCK, access: 3 });
    client.send(&ReleaseBlock { block: BlockId(1) });
    client.ok(&MemoryInfo {});
    assert_eq!(client.used.load(Ordering::SeqCst), 3 * BLOCK);
    client.send(&UnmapRange { at: DevicePtr(BASE), bytes: BLOCK });
    client.ok(&CreateBlock { block: BlockId(3), bytes: 2 * BLOCK });
    assert_eq!(client.used.load(Ordering::SeqCst), 3 * BLOCK);
    assert_eq!(client.device.physical(), 2);
}

#[test]
fn failure_of_a_posted_command_is_reported_once_by_the_next_reply() {
    let mut client = Client::new();
    client.send(&Fill { stream: StreamId(0), at: DevicePtr(16), pitch: 0, element: 1, value: 0, width: 8, height: 1 });
    client.send(&UnmapRange { at: DevicePtr(BASE), bytes: BLOCK });
    let (status, earlier, _) = client.call(&MemoryInfo {});
    assert_eq!((status, earlier), (0, 1));
    client.ok(&MemoryInfo {});
}

#[test]
fn posted_creation_that_fails_is_no_protocol_violation_later() {
    let mut client = Client::new();
    client.device.fail_next_stream();
    client.send(&CreateStream { stream: StreamId(4), flags: 0, priority: 0 });
    let (status, earlier, _) = client.call(&SynchronizeStream { stream: StreamId(4) });
    assert_eq!((status, earlier), (2, 2));
    client.send(&DestroyStream { stream: StreamId(4) });
    client.ok(&MemoryInfo {});
}

#[test]
fn kernel_fault_is_the_answer_of_every_later_wait() {
    let mut client = Client::new();
    client.memory();
    client.ok(&MemoryInfo {});
    client.device.break_context(700);
    assert_eq!(client.call(&SynchronizeContext {}).0, 0, "nothing was ever issued");
    client.send(&Fill {
        stream: StreamId(0),
        at: DevicePtr(BASE),
        pitch: 0,
        element: 1,
        value: 0,
        width: 8,
        height: 1,
    });
    let (status, earlier, _) = client.call(&SynchronizeContext {});
    assert_eq!((status, earlier), (700, 700));
    assert_eq!(client.call(&SynchronizeStream { stream: StreamId(0) }).0, 700);
    let copy = client.send(&CopyFromDevice { stream: StreamId(0), from: DevicePtr(BASE), bytes: 1 });
    assert_eq!(client.get(), self::status(copy, 700));
    assert_eq!(client.call(&CreateBlock { block: BlockId(8), bytes: BLOCK }).0, 700);
}

#[test]
fn fault_elsewhere_is_the_answer_of_a_stream_whose_work_was_over_before() {
    let mut client = Client::new();
    client.memory();
    client.send(&CreateStream { stream: StreamId(1), flags: 0, priority: 0 });
    let sent = client.send(&CopyFromDevice { stream: StreamId(1), from: DevicePtr(BASE), bytes: 4 });
    assert!(matches!(client.get(), Some(Got::Delivery { .. })));
    assert_eq!(client.get(), status(sent, 0));
    client.device.break_context(700);
    assert_eq!(client.call(&SynchronizeStream { stream: StreamId(1) }).0, 700);
}

#[test]
fn reset_gives_everything_back_and_the_session_continues() {
    let mut client = Client::new();
    client.memory();
    client.send(&CreateStream { stream: StreamId(1), flags: 0, priority: 0 });
    client.send(&CreateEvent { event: EventId(1), flags: 0 });
    client.send(&CopyToDevice { stream: StreamId(1), to: DevicePtr(BASE), bytes: &[1, 2, 3] });
    client.ok(&ResetContext {});
    assert_eq!((client.device.physical(), client.device.handles()), (0, 0));
    assert_eq!(client.used.load(Ordering::SeqCst), 0);
    client.memory();
    client.send(&CopyToDevice { stream: StreamId(0), to: DevicePtr(BASE), bytes: &[1, 2, 3] });
    client.ok(&SynchronizeContext {});
    assert_eq!(client.device.memory(BASE, 3), [1, 2, 3]);
}

#[test]
fn host_function_that_returns_after_its_context_is_gone_is_no_protocol_violation() {
    let mut client = Client::new();
    client.send(&CreateStream { stream: StreamId(1), flags: 0, priority: 0 });
    client.send(&HostFunction { stream: StreamId(1), function: FunctionId(5) });
    assert_eq!(client.get(), Some(Got::RunHostFunction(5)));
    client.device.break_context(700);
    client.ok(&ResetContext {});
    client.send(&HostFunctionDone { function: FunctionId(5) });
    client.ok(&MemoryInfo {});
    let words = client.break_with(&HostFunctionDone { function: FunctionId(5) });
    assert!(words.contains("no host function runs with the id: 5"), "{words}");
}

#[test]
fn slices_under_way_keep_their_bytes_when_a_later_slice_fails() {
    let mut client = Client::new();
    client.memory();
    client.send(&CreateStream { stream: StreamId(1), flags: 0, priority: 0 });
    client.ok(&MemoryInfo {});
    client.device.hold(0);
    let (stream, to) = (StreamId(1), BoxEnd::memory(DevicePtr(BASE), 4, 1 << 30));
    let bytes = &[1, 2, 3, 4, 5, 6, 7, 8];
    client.send(&CopyBoxToDevice { stream, to, width: 4, height: 1, depth: 2, bytes });
    client.send(&CopyToDevice { stream, to: DevicePtr(BASE + 64), bytes: &[9; 8] });
    let (status, earlier, _) = client.call(&MemoryInfo {});
    assert_eq!((status, earlier), (0, 1), "the second slice lies nowhere");
    client.device.release(0);
    client.ok(&SynchronizeContext {});
    assert_eq!(client.device.memory(BASE, 4), [1, 2, 3, 4]);
    assert_eq!(client.device.memory(BASE + 64, 8), [9; 8]);
}

#[test]
fn library_is_loaded_from_parts_and_its_kernel_launched() {
    let mut client = Client::new();
    for part in [&b"kernel sa"[..], b"xpy 8 4"] {
        client.send(&LibraryPart { library: LibraryId(1), content: 0, bytes: part });
    }
    load(&mut client, LibraryId(1), b"kernel saxpy 8 4");
    let found = client.ok(&FindKernel { library: LibraryId(1), name: "saxpy", kernel: KernelId(2) });
    let reply = FindKernel::decode_reply(&found).unwrap();
    assert_eq!(reply.parameters, [Parameter { offset: 0, bytes: 8 }, Parameter { offset: 8, bytes: 4 }]);
    let mut launch = Launch { kernel: KernelId(2), parameters: &[7; 12], ..Launch::default() };
    (launch.grid_x, launch.grid_y, launch.grid_z) = (3, 1, 1);
    (launch.block_x, launch.block_y, launch.block_z) = (32, 1, 1);
    client.send(&launch);
    client.ok(&SynchronizeContext {});
    assert_eq!(client.device.launches(), [("saxpy".to_owned(), [3, 1, 1], vec![7; 12])]);
    client.send(&UnloadLibrary { library: LibraryId(1) });
    client.send(&launch);
    let (status, earlier, _) = client.call(&MemoryInfo {});
    assert_eq!((status, earlier), (0, 400), "the kernel went with its library");
}

#[test]
fn library_that_does_not_load_says_why_and_stays_a_failure_until_it_is_unloaded() {
    let mut client = Client::new();
    client.send(&LibraryPart { library: LibraryId(1), content: 0, bytes: b"nonsense" });
    let hash = hash_of(b"nonsense");
    let sent = client.send(&LoadLibrary { contents: vec![content(b"nonsense", &hash)], ..text(LibraryId(1)) });
    let Some(Got::Reply { request, status: 218, detail, .. }) = client.get() else { panic!("no refusal") };
    assert_eq!((request, detail.as_str()), (sent, "line 1: nonsense"));
    assert_eq!(client.call(&FindKernel { library: LibraryId(1), name: "k", kernel: KernelId(1) }).0, 218);
    client.send(&UnloadLibrary { library: LibraryId(1) });
    client.send(&LibraryPart { library: LibraryId(1), content: 0, bytes: b"kernel k" });
    load(&mut client, LibraryId(1), b"kernel k");
    assert_eq!(client.call(&FindKernel { library: LibraryId(1), name: "other", kernel: KernelId(2) }).0, 500);
}

#[test]
fn a_launch_behind_a_look_up_that_fails_is_that_failure_and_no_protocol_violation() {
    let mut client = Client::new();
    let launch = |kernel| Launch { kernel: KernelId(kernel), parameters: &[7; 12], ..Launch::default() };
    client.send(&LibraryPart { library: LibraryId(1), content: 0, bytes: b"kernel k 8" });
    load(&mut client, LibraryId(1), b"kernel k 8");
    assert_eq!(client.call(&FindKernel { library: LibraryId(1), name: "other", kernel: KernelId(1) }).0, 500);
    client.send(&launch(1));
    assert_eq!(client.call(&MemoryInfo {}).1, 500);
    let occupancy = MaxActiveBlocks { kernel: KernelId(1), block: 32, shared: 0, flags: 0 };
    assert_eq!(client.call(&occupancy).0, 500);
    // Also in a library that was not loaded.
    client.send(&LibraryPart { library: LibraryId(2), content: 0, bytes: b"nonsense" });
    let hash = hash_of(b"nonsense");
    client.call(&LoadLibrary { contents: vec![content(b"nonsense", &hash)], ..text(LibraryId(2)) });
    assert_eq!(client.call(&FindKernel { library: LibraryId(2), name: "k", kernel: KernelId(2) }).0, 218);
    client.send(&launch(2));
    assert_eq!(client.call(&MemoryInfo {}).1, 218);
}

/// A load of one PTX text.
fn text(library: LibraryId) -> LoadLibrary<'static> {
    LoadLibrary { library, kind: 3, log_bytes: 100, ..LoadLibrary::default() }
}

fn content<'a>(bytes: &[u8], hash: &'a Hash) -> Content<'a> {
    Content { hash, bytes: bytes.len() as u64 }
}

/// Loads a text whose parts have been sent.
fn load(client: &mut Client, library: LibraryId, bytes: &[u8]) {
    let hash = hash_of(bytes);
    let reply = client.ok(&LoadLibrary { contents: vec![content(bytes, &hash)], ..text(library) });
    assert!(LoadLibrary::decode_reply(&reply).unwrap().missing.is_empty());
}

/// Kernel 2, of 8 bytes of parameters, in library 1.
fn find_kernel(client: &mut Client) {
    client.send(&LibraryPart { library: LibraryId(1), content: 0, bytes: b"kernel k 8" });
    load(client, LibraryId(1), b"kernel k 8");
    client.ok(&FindKernel { library: LibraryId(1), name: "k", kernel: KernelId(2) });
}

#[test]
fn a_library_without_its_bytes_is_missing_and_its_kernels_too() {
    let mut client = Client::new();
    let hashes = [hash_of(b"kernel k"), hash_of(b"other")];
    let contents = vec![content(b"kernel k", &hashes[0]), content(b"other", &hashes[1])];
    let reply = client.ok(&LoadLibrary { contents, kind: 1, ..text(LibraryId(1)) });
    assert_eq!(LoadLibrary::decode_reply(&reply).unwrap().missing, [0, 1]);
    assert_eq!(client.call(&FindKernel { library: LibraryId(1), name: "k", kernel: KernelId(1) }).0, 500);
    client.send(&UnloadLibrary { library: LibraryId(1) });
    client.send(&LibraryPart { library: LibraryId(2), content: 0, bytes: b"kernel k" });
    load(&mut client, LibraryId(2), b"kernel k");
    client.ok(&FindKernel { library: LibraryId(2), name: "k", kernel: KernelId(2) });
    assert_eq!(client.device.handles(), 1);
}

#[test]
fn protocol_violations_end_the_session_and_say_why() {
    let map = MapBlock { block: BlockId(1), offset: 0, at: DevicePtr(BASE), bytes: BLOCK, access: 3 };
    let words = Client::new().break_with(&map);
    assert_eq!(words, "protocol violation by the client: MapBlock (command 1): no block has the id: 1");
    let words = Client::new().break_with(&MapBlock { at: DevicePtr(BASE - 1), ..map });
    assert!(words.ends_with("outside the program's windows: 2097152 bytes at 0x1fffffffffff"), "{words}");
    let words = Client::new().break_with(&CreateBlock { block: BlockId(1), bytes: 5 });
    assert!(words.ends_with("not a multiple of the granularity 2097152: 5"), "{words}");
    let words = Client::new().break_with(&SynchronizeStream { stream: StreamId(3) });
    assert!(words.ends_with("no stream has the id: 3"), "{words}");
    let words = Client::new().break_with(&ListGpus {});
    assert!(words.ends_with("only the daemon takes this message"), "{words}");
    let words = Client::new().break_with(&HostFunctionDone { function: FunctionId(1) });
    assert!(words.ends_with("no host function runs with the id: 1"), "{words}");
    let words = Client::new().break_with(&Ended { status: 0, detail: "" });
    assert!(words.ends_with("unknown kind: 0x0081"), "{words}");
}

#[test]
fn kernel_gets_exactly_its_parameters_or_the_session_ends() {
    let mut client = Client::new();
    find_kernel(&mut client);
    let words = client.break_with(&Launch { kernel: KernelId(2), parameters: &[0; 7], ..Launch::default() });
    assert!(words.ends_with("a parameter block of 8 bytes was sent with: 7"), "{words}");
}

#[test]
fn window_elsewhere_refuses_the_session() {
    let device = Arc::new(Fake::default());
    device.reserve_elsewhere();
    let mut client = Client::on(device, 0);
    assert!(matches!(client.get(), Some(Got::Ended(2, words)) if words.contains("reserving 0x30000000000 bytes")));
    assert_eq!(client.get(), None);
}

/// A stream in the context apart.
const APART: StreamId = StreamId(5);

fn fill_four(stream: StreamId, at: u64, value: u32) -> Fill {
    Fill { stream, at: DevicePtr(at), pitch: 0, element: 1, value, width: 4, height: 1 }
}

#[test]
fn copies_of_the_stream_apart_are_issued_in_its_context_and_go_on_beside_streams_that_stand() {
    let mut client = Client::new();
    client.memory();
    client.send(&CreateStream { stream: StreamId(1), flags: 1, priority: 0 });
    client.ok(&CreateApartStream { stream: APART });
    client.device.hold(0);
    client.send(&fill_four(StreamId(1), BASE, 9));
    client.send(&CopyToDevice { stream: APART, to: DevicePtr(BASE + 16), bytes: &[1, 2, 3, 4] });
    client.send(&fill_four(APART, BASE + 20, 7));
    client.ok(&SynchronizeStream { stream: APART });
    assert_eq!(client.device.memory(BASE + 16, 8), [1, 2, 3, 4, 7, 7, 7, 7]);
    let sent = client.send(&CopyFromDevice { stream: APART, from: DevicePtr(BASE + 18), bytes: 4 });
    assert_eq!(client.get(), Some(Got::Delivery { request: sent, offset: 0, bytes: vec![3, 4, 7, 7] }));
    assert_eq!(client.get(), status(sent, 0));
    // The program's context is current again for its own work.
    client.device.release(0);
    client.send(&fill_four(StreamId(1), BASE + 4, 8));
    client.ok(&SynchronizeContext {});
    assert_eq!(client.device.memory(BASE, 8), [9, 9, 9, 9, 8, 8, 8, 8]);
}

#[test]
fn the_stream_apart_takes_no_other_work_and_there_is_one() {
    let mut client = Client::new();
    client.ok(&CreateApartStream { stream: APART });
    assert_eq!(client.call(&QueryStream { stream: APART }).0, floe_abi::CudaError::INVALID_HANDLE.code());
    client.send(&RecordEvent { event: EventId(1), stream: APART, flags: 0 });
    let (_, earlier, _) = client.call(&MemoryInfo {});
    assert_ne!(earlier, 0, "an event of the program's is not recorded there");
    assert_eq!(client.call(&CreateApartStream { stream: StreamId(6) }).0, floe_abi::CudaError::INVALID_VALUE.code());
    client.ok(&SynchronizeStream { stream: APART });
}

#[test]
fn work_of_the_stream_apart_is_waited_for_with_the_context_and_ends_with_a_reset() {
    let mut client = Client::new();
    client.memory();
    client.ok(&CreateApartStream { stream: APART });
    client.device.hold(0);
    client.send(&CopyToDevice { stream: APART, to: DevicePtr(BASE), bytes: &[1, 2, 3, 4] });
    client.send(&DestroyStream { stream: APART });
    let waits = client.send(&SynchronizeContext {});
    client.nothing_comes();
    client.device.release(0);
    assert_eq!(client.get(), status(waits, 0));
    assert_eq!(client.device.contexts_and_streams().0, 1, "others may look at its events");
    client.ok(&ResetContext {});
    assert_eq!(client.device.contexts_and_streams(), (0, 0));
    client.ok(&CreateApartStream { stream: APART });
}

#[test]
fn a_reset_waits_for_the_stream_apart() {
    let mut client = Client::new();
    client.memory();
    client.ok(&CreateApartStream { stream: APART });
    client.device.hold(0);
    client.send(&CopyToDevice { stream: APART, to: DevicePtr(BASE), bytes: &[1, 2, 3, 4] });
    let reset = client.send(&ResetContext {});
    client.nothing_comes();
    assert_eq!(client.device.memory(BASE, 4), [0; 4], "its memory is there as long as the copy");
    client.device.release(0);
    assert_eq!(client.get(), status(reset, 0));
}

#[test]
fn a_copy_of_the_stream_apart_without_an_event_is_waited_for() {
    let mut client = Client::new();
    client.memory();
    client.ok(&CreateApartStream { stream: APART });
    client.device.make_no_events_apart();
    client.device.hold(0);
    client.send(&CopyToDevice { stream: APART, to: DevicePtr(BASE), bytes: &[7; 64] });
    // Others' bytes would come to lie where it reads.
    client.send(&CopyToDevice { stream: StreamId(0), to: DevicePtr(BASE + 64), bytes: &[9; 64] });
    let info = client.send(&MemoryInfo {});
    client.nothing_comes();
    client.device.release(0);
    assert!(matches!(client.get(), Some(Got::Reply { request, .. }) if request == info));
    client.call(&SynchronizeContext {});
    assert_eq!(client.device.memory(BASE, 64), [7; 64]);
}
