//! Sessions whose link moves from worker to worker: stopped at a frame's border whatever lies on their connections, taken
//! down, and served elsewhere or here. What the session has beside its link is not moved here: each worker's device is
//! its own, and the client makes what it needs there anew.

mod moves;
mod recipes;
pub(super) mod slabs;

use std::any::Any;
use std::sync::Mutex;

use floe_transport::{
    ACKNOWLEDGEMENT_CHANNEL, ArrivingLink, Channels, HistoryDigest, LinkImage, LinkState, Reach, Rings, TakenLink,
};
use floe_wire::ContinueReply;

use super::*;
use crate::life::parking::{NotParked, ParkedLink, Parking};
use crate::{Continued, serve_from};

const HOUR: Duration = Duration::from_secs(3600);
const CHUNK: u64 = CHUNK_BYTES as u64;
/// A time limit that passes in a test, for what never comes.
const SHORT: Duration = Duration::from_millis(100);

/// The ways to park the sessions of these tests, by their devices.
static PARKINGS: Mutex<Vec<(usize, Box<dyn Any + Send>)>> = Mutex::new(Vec::new());

/// A session begins: who parks it is shown here.
pub(crate) fn begins<D: floe_device::Device>(parking: &Parking<D>, device: &Arc<D>) {
    PARKINGS.lock().unwrap().push((Arc::as_ptr(device).addr(), Box::new(parking.clone())));
}

/// The way to park the session on this device.
fn parking(device: &Arc<Fake>) -> Parking<Fake> {
    let until = Instant::now() + PATIENCE;
    loop {
        let mut all = PARKINGS.lock().unwrap();
        if let Some(at) = all.iter().position(|(of, _)| *of == Arc::as_ptr(device).addr()) {
            return *all.swap_remove(at).1.downcast().unwrap();
        }
        drop(all);
        assert!(Instant::now() < until, "no session begins");
        std::thread::yield_now();
    }
}

/// A session's worker, as the daemon and the test have it.
struct Worker {
    device: Arc<Fake>,
    giver: Arc<Giver>,
    parking: Parking<Fake>,
    thread: JoinHandle<Ending>,
}

/// What begins a worker.
enum From {
    Link(Box<Link>),
    Other(Box<Continued>),
}

impl Worker {
    fn start(from: From, grace: Option<Duration>) -> Self {
        let (giver, taker) = pair(MOST_JOINING).unwrap();
        let device = Arc::new(Fake::default());
        let resumption =
            grace.map(|grace| Resumption { grace, bulk_connections: 2, client: None, broken: Arc::default() });
        let plan = Plan {
            ordinal: 0,
            memory: 0,
            granularity: BLOCK,
            host_memory: HOST_MEMORY,
            grants: None,
            shared_memory: SHARED,
            mirrored_memory: MIRRORED,
            transport_memory: TRANSPORT,
            device_speaks: false,
            nccl: None,
            nodes: false,
            cupti: None,
            cache: None,
            used: Arc::default(),
            carried: Arc::default(),
            joining: Joining::new(Vec::new(), Some(taker)),
            peers: None,
            moves: None,
            turns: None,
            end: None,
            stands: Stands::default(),
            resumption,
            idle: None,
            watchdog: Watchdog::nobody(),
        };
        let served = Arc::clone(&device);
        let thread = std::thread::spawn(move || match from {
            From::Link(link) => serve(served, *link, plan, Output::none(), Log::nowhere()),
            From::Other(other) => serve_from(served, *other, plan, Output::none(), Log::nowhere()),
        });
        let parking = parking(&device);
        Self { device, giver: Arc::new(giver), parking, thread }
    }

    fn park(&self) -> ParkedLink {
        self.parking.park_link(Instant::now() + PATIENCE).unwrap()
    }

    /// A worker elsewhere that continues what this one has parked; nothing but bytes and descriptors gets there.
    fn elsewhere(&self, grace: Option<Duration>) -> Self {
        let parts = self.parking.ring_parts().unwrap();
        assert_eq!(parts.is_some(), grace.is_none());
        let arriving = match (parts, grace) {
            (Some(parts), _) => ArrivingLink::of_rings(parts).unwrap(),
            (None, grace) => ArrivingLink::of_channels(grace.unwrap(), Reach::Machine),
        };
        let ParkedLink { taken: TakenLink { image, descriptor }, last_transfer } = self.park();
        let image = LinkImage::decode(&image.encode()).unwrap();
        let link = arriving.set_up(&image, descriptor).unwrap();
        Self::start(From::Other(Box::new(Continued { link, last_transfer })), grace)
    }
}

/// A session over sockets, its client, and the worker that has it now.
struct Moving {
    client: Client,
    channels: Channels,
    worker: Worker,
    door: Arc<Mutex<Arc<Giver>>>,
    keeper: Option<JoinHandle<()>>,
    grace: Duration,
}

impl Moving {
    fn begin(grace: Duration) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let worker = Worker::start(From::Link(Box::new(Link::new(theirs.into()))), Some(grace));
        let (channels, link) = Channels::take_over(client_end(ours), HOUR);
        let device = Arc::clone(&worker.device);
        let giver = Arc::clone(&worker.giver);
        let client = Client {
            link,
            giver: Arc::clone(&giver),
            device,
            used: Arc::default(),
            carried: Arc::default(),
            worker: None,
        };
        let door = Arc::new(Mutex::new(giver));
        let (kept, way) = (channels.clone(), Arc::clone(&door));
        let keeper = Some(std::thread::spawn(move || keep(&kept, &way)));
        let mut session = Self { client, channels, worker, door, keeper, grace };
        // Then the client can come back.
        session.client.ok(&MemoryInfo {});
        session.whole();
        session
    }

    /// Waits until all connections are there.
    fn whole(&self) {
        let until = Instant::now() + PATIENCE;
        while !self.worker.parking.is_acknowledged() || self.channels.link_state() != LinkState::Whole {
            assert!(Instant::now() < until);
            std::thread::yield_now();
        }
    }

    fn move_on(&mut self) {
        let arrived = self.worker.elsewhere(Some(self.grace));
        *self.door.lock().unwrap() = Arc::clone(&arrived.giver);
        self.worker = arrived;
        self.client.device = Arc::clone(&self.worker.device);
    }

    /// A mapped block, as no worker has had one before.
    fn block(&mut self, block: u64) {
        self.client.ok(&CreateBlock { block: BlockId(block), bytes: BLOCK });
        let at = DevicePtr(BASE);
        self.client.send(&MapBlock { block: BlockId(block), offset: 0, at, bytes: BLOCK, access: 3 });
    }

    fn end(mut self) {
        self.channels.say_goodbye(PATIENCE);
        self.channels.end();
        join(self.keeper.take().unwrap());
        assert_eq!(join(self.worker.thread), Ending::ClientLeft);
    }
}

/// Makes one of the session's connections, through whichever door leads to it now.
fn make(channels: &Channels, door: &Mutex<Arc<Giver>>, epoch: u64, channel: u32) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let giver = Arc::clone(&door.lock().unwrap());
    if giver.give(Role::Joined, Link::new(theirs.into())).is_err() {
        return channels.broke(epoch);
    }
    let mut link = Link::new(ours.into());
    let Some(HistoryDigest { received, digest }) = channels.freeze_in(epoch, channel) else { return };
    let sent = link.send(&Continue { epoch, channel, received, digest });
    let answer = sent.and_then(|_| {
        let frame = link.receive(Some(Instant::now() + PATIENCE))?.ok_or(LinkError::Closed)?;
        let reply = Reply::decode(frame.payload)?;
        Ok((reply.status == 0).then(|| Continue::decode_reply(reply.body).unwrap()))
    });
    match answer {
        Ok(Some(_)) if channel == ACKNOWLEDGEMENT_CHANNEL => {
            let receiver = channels.hear(epoch, link);
            let heard = channels.listen(epoch, receiver);
            assert!(matches!(heard, floe_transport::Heard::Broke), "{heard:?}");
        }
        Ok(Some(ContinueReply { received, digest })) => {
            channels.resume(channel, epoch, link, HistoryDigest { received, digest }).unwrap();
        }
        // A worker that stands still takes none, and says nothing: a client that is refused gives the session up.
        Err(_) => channels.broke(epoch),
        Ok(None) => assert_ne!(channels.epoch(), epoch, "refused"),
    }
}

/// Makes the connections again, until the client leaves.
fn keep(channels: &Channels, door: &Arc<Mutex<Arc<Giver>>>) {
    let mut epoch = 1;
    loop {
        let again = if epoch > 1 { channels.all() } else { vec![] };
        for channel in again.into_iter().chain([ACKNOWLEDGEMENT_CHANNEL]) {
            let (channels, door) = (channels.clone(), Arc::clone(door));
            std::thread::spawn(move || make(&channels, &door, epoch, channel));
        }
        if channels.await_change(LinkState::Whole, None) == LinkState::Over {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
        epoch += 1;
        if !channels.begin(epoch) {
            return;
        }
    }
}

fn data(bytes: u64, seed: u64) -> Vec<u8> {
    (0..bytes).map(|index| (index / 7 + seed).to_le_bytes()[0]).collect()
}

#[test]
fn a_client_is_answered_once_by_each_of_twenty_workers() {
    let mut session = Moving::begin(HOUR);
    for round in 0..20 {
        session.block(1);
        for step in 0..5 {
            let bytes = data(40_000, round + step);
            session.client.send(&CopyToDevice { stream: StreamId(0), to: DevicePtr(BASE), bytes: &bytes });
            let sent =
                session.client.send(&CopyFromDevice { stream: StreamId(0), from: DevicePtr(BASE), bytes: 40_000 });
            assert_eq!(session.client.get(), Some(Got::Delivery { request: sent, offset: 0, bytes }));
            assert_eq!(session.client.get(), status(sent, 0));
        }
        session.move_on();
    }
    session.client.ok(&MemoryInfo {});
    session.end();
}

#[test]
fn a_move_that_is_given_up_leaves_a_session_that_goes_on() {
    let mut session = Moving::begin(HOUR);
    session.block(1);
    for _ in 0..10 {
        let parked = session.worker.park();
        let request = session.client.send(&MemoryInfo {});
        session.client.nothing_comes();
        session.worker.parking.unpark(parked).unwrap();
        assert!(matches!(session.client.get(), Some(Got::Reply { request: of, status: 0, .. }) if of == request));
        session.whole();
    }
    session.move_on();
    session.client.ok(&MemoryInfo {});
    session.end();
}

#[test]
fn a_client_is_not_missed_while_its_session_is_parked_and_has_its_time_afterwards() {
    // Far longer than a busy machine keeps a thread from running.
    let grace = Duration::from_secs(3);
    let mut session = Moving::begin(grace);
    let parked = session.worker.park();
    std::thread::sleep(grace + SHORT);
    assert!(!session.worker.thread.is_finished());
    session.worker.parking.unpark(parked).unwrap();
    session.client.ok(&MemoryInfo {});
    session.move_on();
    session.client.ok(&MemoryInfo {});
    session.end();
}

#[test]
fn a_client_is_missed_when_its_session_is_not_parked_any_more() {
    let session = Moving::begin(SHORT);
    // From here on nobody gets to the worker.
    let (nowhere, _taker) = pair(MOST_JOINING).unwrap();
    *session.door.lock().unwrap() = Arc::new(nowhere);
    let parked = session.worker.park();
    std::thread::sleep(3 * SHORT);
    assert!(!session.worker.thread.is_finished());
    session.worker.parking.unpark(parked).unwrap();
    let words = "its client did not make it again within 0.100 s";
    assert_eq!(join(session.worker.thread), Ending::Link(words.into()));
    session.channels.end();
}

#[test]
fn a_chunk_that_comes_ahead_of_its_command_moves() {
    let mut session = Moving::begin(HOUR);
    session.block(1);
    let door = Arc::clone(&session.door);
    let channels = session.channels.clone();
    make(&channels, &door, 1, 1);
    let bulk = channels.link(1).split();
    for round in 2..8 {
        let all = data(CHUNK, round);
        // Behind this round's two commands, at whichever worker they come to.
        let transfer = session.client.ok_sequence() + 3;
        let (sender, all_sent) = (bulk.0.clone(), all.clone());
        let sending = std::thread::spawn(move || {
            sender.send(&Chunk { transfer, offset: 0, bytes: &all_sent }, |_| ()).unwrap();
        });
        std::thread::sleep(Duration::from_millis(10));
        session.move_on();
        session.block(round);
        let to = DevicePtr(BASE);
        assert_eq!(session.client.send(&CopyBulkToDevice { stream: StreamId(0), to, bytes: CHUNK }), transfer);
        session.client.ok(&MemoryInfo {});
        assert!(session.client.device.memory(BASE, CHUNK) == all, "round {round}");
        join(sending);
        session.whole();
    }
    session.end();
}

#[test]
fn a_client_that_stalls_within_a_frame_is_not_moved_and_goes_on() {
    let mut session = Moving::begin(HOUR);
    session.block(1);
    let own = session.channels.clone();
    make(&own, &session.door, 1, 1);
    let (sender, _receiver) = own.link(1).split();
    // Announced, and half of it is there.
    let (to, all) = (DevicePtr(BASE), data(2 * CHUNK, 5));
    let transfer = session.client.send(&CopyBulkToDevice { stream: StreamId(0), to, bytes: 2 * CHUNK });
    let half = CHUNK_BYTES;
    sender.send(&Chunk { transfer, offset: 0, bytes: &all[..half] }, |_| ()).unwrap();
    let (mut late, until) = (0, Instant::now() + PATIENCE);
    while session.worker.parking.announced() < transfer {
        assert!(Instant::now() < until);
        std::thread::sleep(SHORT);
    }
    while late < 3 {
        assert!(Instant::now() < until);
        match session.worker.parking.park_link(Instant::now() + SHORT).unwrap_err() {
            NotParked::WithinTransfer => late += 1,
            // Its reader has not come to the next border: the first transfer takes memory.
            NotParked::WithinFrame => {}
            other => panic!("{other}"),
        }
    }
    assert_eq!(own.epoch(), 1, "its connections stay");
    sender.send(&Chunk { transfer, offset: CHUNK, bytes: &all[half..] }, |_| ()).unwrap();
    session.client.ok(&MemoryInfo {});
    assert!(session.client.device.memory(BASE, 2 * CHUNK) == all);
    session.move_on();
    session.client.ok(&MemoryInfo {});
    session.end();
}

#[test]
fn a_session_over_rings_moves_and_its_client_does_nothing() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (offered, file) = Rings::offer(16 << 10).unwrap();
    let taken = Rings::take(&file, 16 << 10).unwrap();
    let [mut link, mut far] = [ours, theirs].map(|socket| Link::new(socket.into()));
    link.go_over(offered).unwrap();
    far.go_over(taken).unwrap();
    let mut worker = Worker::start(From::Link(Box::new(far)), None);
    let (device, giver) = (Arc::clone(&worker.device), Arc::clone(&worker.giver));
    let mut client = Client { link, giver, device, used: Arc::default(), carried: Arc::default(), worker: None };
    for round in 0..20 {
        client.memory();
        let bytes = data(30_000, round);
        client.send(&CopyToDevice { stream: StreamId(0), to: DevicePtr(BASE), bytes: &bytes });
        let sent = client.send(&CopyFromDevice { stream: StreamId(0), from: DevicePtr(BASE), bytes: 30_000 });
        assert_eq!(client.get(), Some(Got::Delivery { request: sent, offset: 0, bytes }));
        assert_eq!(client.get(), status(sent, 0));
        if round % 3 == 0 {
            let parked = worker.park();
            let request = client.send(&MemoryInfo {});
            client.nothing_comes();
            worker.parking.unpark(parked).unwrap();
            assert!(matches!(client.get(), Some(Got::Reply { request: of, status: 0, .. }) if of == request));
        }
        worker = worker.elsewhere(None);
        client.device = Arc::clone(&worker.device);
    }
    client.ok(&MemoryInfo {});
    drop(client);
    assert_eq!(join(worker.thread), Ending::ClientLeft);
}

#[test]
fn a_session_without_a_grace_period_over_a_socket_says_that_it_stays() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let worker = Worker::start(From::Link(Box::new(Link::new(theirs.into()))), None);
    assert!(worker.parking.ring_parts().is_err());
    let error = worker.parking.park_link(Instant::now() + PATIENCE).unwrap_err();
    assert!(error.to_string().contains("--grace"), "{error}");
    let (device, giver) = (Arc::clone(&worker.device), Arc::clone(&worker.giver));
    let mut client =
        Client { link: client_end(ours), giver, device, used: Arc::default(), carried: Arc::default(), worker: None };
    client.ok(&MemoryInfo {});
    drop(client);
    assert_eq!(join(worker.thread), Ending::ClientLeft);
}

#[test]
fn a_session_is_parked_once_and_one_whose_client_has_left_is_not() {
    let mut session = Moving::begin(HOUR);
    let parked = session.worker.park();
    let again = session.worker.parking.park_link(Instant::now() + PATIENCE).unwrap_err();
    assert!(matches!(again, NotParked::Parked), "{again}");
    session.worker.parking.unpark(parked).unwrap();
    session.client.ok(&MemoryInfo {});
    session.whole();
    let parking = session.worker.parking.clone();
    session.end();
    assert!(parking.is_over());
    let over = parking.park_link(Instant::now() + PATIENCE).unwrap_err();
    assert!(matches!(over, NotParked::Over), "{over}");
}
