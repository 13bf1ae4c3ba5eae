//! Links that move: one end goes from process to process, made anew of bytes and descriptors alone, while both sides send.
//! In: frames of all sizes both ways, at random moments a move or one that is given up, and cuts. Out: each frame once and
//! in order. Both "processes" are in this one, so that every thread of either is seen.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod authority;
mod limit;

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use authority::Authority;
use floe_transport::{
    ACKNOWLEDGEMENT_CHANNEL, Address, Answering, Arrival, ArrivingLink, ChannelEnds, Channels, ClientTls, Identity,
    Link, LinkError, LinkImage, LinkState, MAIN_CHANNEL, NotTaken, Reach, Receiver, Rings, Secret, Sender, ServerTls,
    SetUp, Spin, TakenLink, Trust, connect, go_on, hold, ring_parts, take_down,
};
use floe_wire::{CopyToDevice, Decode as _, DevicePtr, FrameHeader, Message as _, StreamId};
use limit::join;
use rustix::net::{Shutdown, shutdown};

const GRACE: Duration = Duration::from_secs(600);
const SOON: Duration = Duration::from_secs(300);
const RING: u32 = 16 << 10;

/// Numbers that look random and are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn soon() -> Instant {
    Instant::now() + SOON
}

/// The payload of a frame of this number: of any size, also of more than a ring holds.
fn payload(number: u64) -> Vec<u8> {
    let sizes = [0, 1, 40, 300, 5_000, 40_000, 17, 4_096, 100, 3];
    let bytes = sizes[usize::try_from(number).unwrap() % sizes.len()];
    (0..bytes).map(|index: u64| (index / 3 + number).to_le_bytes()[0]).collect()
}

fn send(sender: &Sender, number: u64) {
    let bytes = payload(number);
    let message = CopyToDevice { stream: StreamId(number), to: DevicePtr(bytes.len() as u64), bytes: &bytes };
    if number.is_multiple_of(4) {
        sender.send(&message, |_| ()).unwrap()
    } else {
        sender.post(&message).unwrap()
    };
}

/// Takes the frame of this number. False: the reader is to stop.
fn takes(receiver: &mut Receiver, number: u64) -> bool {
    let frame = match receiver.next() {
        Ok(frame) => frame.expect("the peer stays"),
        Err(LinkError::Stopped) => return false,
        Err(error) => panic!("frame {number}: {error}"),
    };
    let copy = CopyToDevice::decode(frame.payload).unwrap();
    assert_eq!(copy.stream, StreamId(number));
    assert!(copy.bytes == payload(number), "frame {number} has other bytes");
    true
}

/// Makes a connection: the client's link, the server's.
type Make = Arc<dyn Fn() -> [Link; 2] + Send + Sync>;

fn unix() -> Make {
    Arc::new(|| {
        let (one, other) = UnixStream::pair().unwrap();
        [one, other].map(|end| Link::new(end.into()))
    })
}

/// Over TCP: `open` makes the client's link to a port, `answer` the server's.
fn tcp(
    open: impl Fn(u16) -> Link + Send + Sync + 'static,
    answer: impl Fn(Link) -> Link + Send + Sync + 'static,
) -> Make {
    Arc::new(move || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::scope(|scope| {
            let answered = scope.spawn(|| {
                let stream = listener.accept().unwrap().0;
                stream.set_nodelay(true).unwrap();
                answer(Link::new(stream.into()))
            });
            let opened = open(port);
            [opened, answered.join().unwrap()]
        })
    })
}

/// Sealed by a token that both sides know; the server's process has the link from another.
fn sealed() -> Make {
    let (ours, theirs) = (Secret::of("token"), Secret::of("token"));
    let open = move |port| {
        let trust = Trust { tls: None, secret: Some(&ours) };
        connect(&Address::Tcp { host: "127.0.0.1".into(), port }, SOON, &trust).unwrap()
    };
    let answer = move |link: Link| {
        let by = Answering { secret: Some(&theirs), ..Answering::default() };
        Link::resume(link.answer(&by, soon()).unwrap().into_parts().unwrap()).unwrap()
    };
    tcp(open, answer)
}

/// By TLS, whose tunnel stays with the daemon while workers come and go.
fn tls() -> Make {
    let authority = Authority::new();
    let [certificate, key] = authority.sign("localhost");
    let tls = ClientTls::new(&authority.file(), None).unwrap();
    let server_tls = ServerTls::new(&Identity { certificate, key }, None).unwrap();
    let open = move |port| {
        let trust = Trust { tls: Some(&tls), secret: None };
        connect(&Address::Tls { host: "localhost".into(), port }, SOON, &trust).unwrap()
    };
    let answer = move |link: Link| {
        let by = Answering { tls: Some(&server_tls), tls_only: true, secret: None };
        let answered = link.answer(&by, soon()).unwrap();
        Link::resume(answered.into_parts().unwrap()).unwrap()
    };
    tcp(open, answer)
}

/// The client's end and the way to whichever process has the other.
#[derive(Clone)]
struct Door {
    client: Channels,
    server: Arc<Mutex<Channels>>,
    make: Make,
    cuts: Arc<Mutex<Vec<OwnedFd>>>,
}

impl Door {
    fn server(&self) -> Channels {
        self.server.lock().unwrap().clone()
    }

    fn wire(&self) -> [Link; 2] {
        let links = (self.make)();
        self.cuts.lock().unwrap().push(links[0].socket().unwrap().try_clone_to_owned().unwrap());
        links
    }

    /// Cuts what there is.
    fn cut(&self) {
        self.cuts.lock().unwrap().drain(..).for_each(|wire| _ = shutdown(wire, Shutdown::Both));
    }

    /// Makes the connections of an epoch until they break; the client begins it, and the server where it takes any.
    fn make(&self, epoch: u64, again: bool) {
        let ends = [self.client.clone(), self.server()];
        if again && !ends[1].begin(epoch) {
            self.client.broke(epoch);
            return std::thread::sleep(Duration::from_millis(1));
        }
        if again {
            let links = self.wire();
            let marks = [0, 1].map(|side: usize| ends[side].freeze(MAIN_CHANNEL));
            for (side, link) in links.into_iter().enumerate() {
                let end = ends[side].clone();
                std::thread::spawn(move || end.resume(MAIN_CHANNEL, epoch, link, marks[1 - side]).unwrap());
            }
        }
        let listening: Vec<_> = std::iter::zip(ends, self.wire())
            .map(|(end, link)| {
                std::thread::spawn(move || {
                    let receiver = end.hear(epoch, link);
                    assert!(matches!(end.listen(epoch, receiver), floe_transport::Heard::Broke));
                })
            })
            .collect();
        listening.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(self.client.freeze(ACKNOWLEDGEMENT_CHANNEL), floe_transport::HistoryDigest::none());
    }

    /// As a worker's watch: a client whose connections broke otherwise, and that has said nothing since, has not left.
    fn watch(&self) {
        while !self.client.is_over() {
            std::thread::sleep(Duration::from_millis(5));
            let server = self.server();
            if server.link_state() == LinkState::Broken {
                server.stop_hearing();
            }
        }
    }

    fn keep(&self) {
        let mut epoch = 1;
        self.make(epoch, false);
        while !self.client.is_over() {
            self.client.broke(epoch);
            epoch += 1;
            if !self.client.begin(epoch) {
                return;
            }
            self.make(epoch, true);
        }
    }
}

/// The end that moves: its link, whichever process has it.
struct Server {
    channels: Option<Channels>,
    sender: Sender,
    /// Held while something is sent.
    sending: Arc<Mutex<Sender>>,
    reading: Option<JoinHandle<Receiver>>,
    /// Frames that have come.
    came: Arc<AtomicU64>,
    halt: floe_transport::Halt,
    readiness: floe_transport::Readiness,
    expected: u64,
}

impl Server {
    fn new((sender, receiver): (Sender, Receiver), channels: Option<Channels>, expected: u64) -> Self {
        let came = Arc::new(AtomicU64::new(0));
        let (halt, readiness) = (receiver.halt(), receiver.readiness());
        let reading = Some(read(receiver, &came, expected));
        let sending = Arc::new(Mutex::new(sender.clone()));
        Self { channels, sender, sending, reading, came, halt, readiness, expected }
    }

    /// Has the reader stop at a border and takes the link down, while nobody sends; its receiver, for who gives the move up.
    fn stop(&mut self) -> (Receiver, Result<TakenLink, NotTaken>) {
        self.sender.flush().unwrap();
        self.halt.ask();
        let until = soon();
        while !self.halt.is_waiting() && !self.has_stopped() {
            assert!(Instant::now() < until);
            std::thread::yield_now();
        }
        assert!(hold(self.channels.as_ref(), &self.sender).unwrap());
        while !self.has_stopped() {
            assert!(Instant::now() < until);
            self.readiness.wake();
            std::thread::yield_now();
        }
        let receiver = join(self.reading.take().unwrap());
        let ends = [ChannelEnds { channel: MAIN_CHANNEL, sender: &self.sender, receiver: &receiver }];
        let mut taken = take_down(self.channels.as_ref(), &ends);
        while matches!(taken, Err(NotTaken::Sends(_))) {
            assert!(Instant::now() < until);
            taken = take_down(self.channels.as_ref(), &ends);
        }
        (receiver, taken)
    }

    /// Waits until so many frames have come.
    fn await_frames(&self, count: u64) {
        let until = soon();
        while self.came.load(Ordering::SeqCst) < count {
            assert!(Instant::now() < until, "{} of {count} came", self.came.load(Ordering::SeqCst));
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    fn has_stopped(&self) -> bool {
        self.reading.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Goes on where it is.
    fn give_up(&mut self) {
        let sending = Arc::clone(&self.sending);
        let _sending = sending.lock().unwrap();
        let (receiver, taken) = self.stop();
        taken.unwrap();
        assert!(go_on(self.channels.as_ref(), &self.sender));
        self.halt.withdraw();
        self.reading = Some(read(receiver, &self.came, self.expected));
    }

    /// Goes on in another process: of its link nothing but bytes and descriptors gets there.
    fn move_on(&mut self, door: Option<&Door>) {
        let sending = Arc::clone(&self.sending);
        let mut sending = sending.lock().unwrap();
        let parts = ring_parts(self.channels.as_ref(), &self.sender).unwrap();
        let arriving = parts
            .map_or_else(|| ArrivingLink::of_channels(GRACE, Reach::Machine), |p| ArrivingLink::of_rings(p).unwrap());
        let (receiver, taken) = self.stop();
        let TakenLink { image, descriptor } = taken.unwrap();
        let bytes = image.encode();
        let decoded = LinkImage::decode(&bytes).unwrap();
        assert!(decoded == image && decoded.encode() == bytes);
        let set_up = arriving.set_up(&decoded, descriptor).unwrap();
        assert!(set_up.bulk.is_empty());
        // What the old process does with its ends is nothing to the new one.
        drop(receiver);
        self.sender.close();
        set_up.begin();
        let SetUp { sender, receiver, channels, .. } = set_up;
        if let (Some(door), Some(channels)) = (door, &channels) {
            *door.server.lock().unwrap() = channels.clone();
        }
        (self.halt, self.readiness) = (receiver.halt(), receiver.readiness());
        *sending = sender.clone();
        (self.sender, self.channels) = (sender, channels);
        self.reading = Some(read(receiver, &self.came, self.expected));
    }
}

/// Takes frames until it is to stop, or has all of them.
fn read(mut receiver: Receiver, came: &Arc<AtomicU64>, expected: u64) -> JoinHandle<Receiver> {
    let came = Arc::clone(came);
    std::thread::spawn(move || {
        while came.load(Ordering::SeqCst) < expected {
            if !takes(&mut receiver, came.load(Ordering::SeqCst)) {
                return receiver;
            }
            came.fetch_add(1, Ordering::SeqCst);
        }
        receiver
    })
}

/// Sends frames both ways while the server moves, gives moves up, and wires are cut.
fn exchange(client: Link, mut server: Server, door: Option<&Door>, (frames, moves, seed): (u64, u64, u64)) {
    let (sender, mut receiver) = client.split();
    receiver.set_spin(Spin::new(Some("0")));
    let taking = std::thread::spawn(move || (0..frames).for_each(|number| assert!(takes(&mut receiver, number))));
    let posting = std::thread::spawn(move || {
        (0..frames).for_each(|number| send(&sender, number));
        sender.flush().unwrap();
        sender
    });
    let own = Arc::clone(&server.sending);
    let answering = std::thread::spawn(move || {
        for number in 0..frames {
            send(&own.lock().unwrap(), number);
        }
        own.lock().unwrap().flush().unwrap();
    });
    let mut random = Random(seed);
    for number in 1..=moves {
        // Others are behind these.
        server.await_frames(number * frames / (moves + 1));
        std::thread::sleep(Duration::from_micros(random.below(500)));
        match (random.below(4), door) {
            (0, Some(door)) => door.cut(),
            (1, _) => server.give_up(),
            _ => server.move_on(door),
        }
    }
    join(answering);
    join(taking);
    let _sender = join(posting);
    server.await_frames(frames);
    drop(join(server.reading.unwrap()));
}

/// Frames over connections of this kind, while the server moves.
fn over_sockets(make: &Make, (frames, moves, seed): (u64, u64, u64)) {
    let [ours, theirs] = make();
    let (client, ours) = Channels::take_over(ours, GRACE);
    let (channels, theirs) = Channels::take_over(theirs, GRACE);
    channels.hear_goodbye();
    let server = Arc::new(Mutex::new(channels.clone()));
    let door = Door { client: client.clone(), server, make: Arc::clone(make), cuts: Arc::default() };
    let keeping = door.clone();
    let keeper = std::thread::spawn(move || keeping.keep());
    let watched = door.clone();
    let watch = std::thread::spawn(move || watched.watch());
    let server = Server::new(theirs.split(), Some(channels), frames);
    exchange(ours, server, Some(&door), (frames, moves, seed));
    client.end();
    door.server().end();
    join(keeper);
    join(watch);
}

#[test]
fn frames_over_sockets_arrive_once_and_in_order_while_one_end_moves() {
    (0..6).for_each(|seed| over_sockets(&unix(), (4000, 25, seed)));
}

#[test]
fn sealed_frames_arrive_once_and_in_order_while_one_end_moves() {
    (0..3).for_each(|seed| over_sockets(&sealed(), (4000, 20, seed)));
}

#[test]
fn frames_by_tls_arrive_once_and_in_order_while_one_end_moves() {
    (0..3).for_each(|seed| over_sockets(&tls(), (4000, 20, seed)));
}

/// Both ends of rings, with what the client's other process would need of them.
fn rings() -> (Link, Link) {
    let (one, other) = UnixStream::pair().unwrap();
    let (offered, file) = Rings::offer(RING).unwrap();
    let taken = Rings::take(&file, RING).unwrap();
    let [mut one, mut other] = [one, other].map(|socket| Link::new(OwnedFd::from(socket)));
    one.go_over(offered).unwrap();
    other.go_over(taken).unwrap();
    (one, other)
}

#[test]
fn frames_over_rings_arrive_once_and_in_order_while_one_end_moves() {
    for seed in 0..6 {
        let (client, theirs) = rings();
        let frames = 6000;
        exchange(client, Server::new(theirs.split(), None, frames), None, (frames, 40, seed));
        // The side that offered the memory moves as well.
        let (ours, client) = rings();
        exchange(client, Server::new(ours.split(), None, frames), None, (frames, 40, seed));
    }
}

#[test]
fn a_reader_stops_within_a_frame_that_it_gathers_and_goes_on_with_its_rest() {
    use std::io::Write as _;
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (one, other) = UnixStream::pair().unwrap();
    // What a client would send, in one piece.
    let (sender, _) = Link::new(one.into()).halves();
    send(&sender, 4);
    let mut bytes = vec![0; 16 + 20 + 5_000];
    std::io::Read::read_exact(&mut &other, &mut bytes).unwrap();
    let at_socket = theirs.try_clone().unwrap();
    let (channels, link) = Channels::take_over(Link::new(theirs.into()), GRACE);
    let (sender, mut receiver) = link.split();
    let halt = receiver.halt();
    (&ours).write_all(&bytes[..1000]).unwrap();
    let reading = std::thread::spawn(move || {
        let stopped = matches!(receiver.next(), Err(LinkError::Stopped));
        (receiver, stopped)
    });
    // It has taken what there is, and gathers the rest.
    let until = soon();
    while rustix::io::ioctl_fionread(&at_socket).unwrap() > 0 {
        assert!(Instant::now() < until, "nobody reads");
        std::thread::yield_now();
    }
    drop(at_socket);
    halt.ask();
    assert!(hold(Some(&channels), &sender).unwrap());
    let (receiver, stopped) = join(reading);
    assert!(stopped);
    let ends = [ChannelEnds { channel: MAIN_CHANNEL, sender: &sender, receiver: &receiver }];
    let image = take_down(Some(&channels), &ends).unwrap().image;
    let LinkImage::Channels(memory) = &image else { panic!("{image:?}") };
    assert_eq!((memory.channels[0].ends.ahead.len(), memory.channels[0].inbound.at()), (1000, 1000));
    let set_up = ArrivingLink::of_channels(GRACE, Reach::Machine).set_up(&image, None).unwrap();
    set_up.begin();
    let SetUp { channels, mut receiver, .. } = set_up;
    let channels = channels.unwrap();
    assert!(channels.begin(2));
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mark = channels.freeze(MAIN_CHANNEL);
    assert_eq!(mark.received, 1000);
    channels.resume(MAIN_CHANNEL, 2, Link::new(theirs.into()), floe_transport::HistoryDigest::none()).unwrap();
    (&ours).write_all(&bytes[1000..]).unwrap();
    assert!(takes(&mut receiver, 4));
}

#[test]
fn a_reader_that_has_begun_data_finishes_them_before_it_stops() {
    use std::io::Write as _;
    let (near, far) = UnixStream::pair().unwrap();
    let (sender, _) = Link::new(near.try_clone().unwrap().into()).halves();
    let (mut receiver, all) = (Link::new(far.into()).split().1, vec![5; 100_000]);
    let sending = std::thread::spawn(move || {
        let message = CopyToDevice { stream: StreamId(1), to: DevicePtr(2), bytes: &all };
        let mut bytes = Vec::new();
        message.encode_head(&mut bytes);
        let length = u32::try_from(bytes.len() + all.len()).unwrap();
        let header = FrameHeader { length, kind: CopyToDevice::KIND, sequence: 1 };
        [&header.encode()[..], &bytes, &all].concat()
    });
    let bytes = join(sending);
    let halt = receiver.halt();
    (&near).write_all(&bytes[..50_000]).unwrap();
    let (begun, has_begun) = std::sync::mpsc::channel();
    let reading = std::thread::spawn(move || {
        let Some(Arrival::Bulk(mut bulk)) = receiver.next_arrival(CopyToDevice::KIND).unwrap() else {
            panic!("not bulk")
        };
        begun.send(()).unwrap();
        let mut data = vec![0; bulk.left()];
        bulk.read(&mut data).unwrap();
        assert!(data == vec![5; 100_000]);
        drop(bulk);
        matches!(receiver.next_arrival(CopyToDevice::KIND), Err(LinkError::Stopped))
    });
    // It has waited for a frame, and waits for nothing but this one's data.
    has_begun.recv_timeout(SOON).unwrap();
    halt.ask();
    std::thread::sleep(Duration::from_millis(50));
    assert!(!halt.is_waiting() && !reading.is_finished());
    (&near).write_all(&bytes[50_000..]).unwrap();
    assert!(join(reading));
    drop(sender);
}

#[test]
fn a_link_that_another_process_has_used_does_not_go_on_here() {
    let (client, theirs) = rings();
    let (sender, mut receiver) = client.split();
    let (own, own_receiver) = theirs.split();
    let parts = ring_parts(None, &own).unwrap().unwrap();
    let arriving = ArrivingLink::of_rings(parts).unwrap();
    assert!(hold(None, &own).unwrap());
    let ends = [ChannelEnds { channel: MAIN_CHANNEL, sender: &own, receiver: &own_receiver }];
    let image = take_down(None, &ends).unwrap().image;
    let set_up = arriving.set_up(&image, None).unwrap();
    set_up.begin();
    send(&set_up.sender, 0);
    set_up.sender.flush().unwrap();
    assert!(takes(&mut receiver, 0));
    assert!(!go_on(None, &own), "its index has moved");
    send(&sender, 0);
    drop(own_receiver);
}

#[test]
fn a_peer_that_reads_nothing_notices_by_its_acknowledgements() {
    let [(ours, theirs), (near, far)] = [(); 2].map(|()| UnixStream::pair().unwrap());
    let (client, _ours) = Channels::take_over(Link::new(ours.into()), GRACE);
    let (server, _theirs) = Channels::take_over(Link::new(theirs.into()), GRACE);
    server.hear_goodbye();
    let listening = [(client.clone(), near), (server.clone(), far)].map(|(end, socket)| {
        let receiver = end.hear(1, Link::new(socket.into()));
        std::thread::spawn(move || end.listen(1, receiver))
    });
    assert!(server.park());
    let heard = listening.map(join);
    assert!(heard.iter().all(|heard| matches!(heard, floe_transport::Heard::Broke)));
    assert_eq!((client.link_state(), server.link_state()), (LinkState::Broken, LinkState::Parked));
}

#[test]
fn plain_sockets_say_by_name_that_they_stay() {
    let (one, _other) = UnixStream::pair().unwrap();
    let (sender, receiver) = Link::new(one.into()).split();
    let no_grace = |result: Result<(), NotTaken>| {
        let error = result.unwrap_err();
        assert!(matches!(error, NotTaken::NoGrace) && error.to_string().contains("--grace"), "{error}");
    };
    no_grace(ring_parts(None, &sender).map(drop));
    no_grace(hold(None, &sender).map(drop));
    drop(receiver);
}

#[test]
fn a_session_that_stands_still_has_no_connections_and_waits_for_none() {
    let (_ours, theirs) = UnixStream::pair().unwrap();
    let (channels, link) = Channels::take_over(Link::new(theirs.into()), Duration::from_millis(1));
    let (_sender, mut receiver) = link.split();
    let reading = std::thread::spawn(move || matches!(receiver.next(), Err(LinkError::Stopped)));
    assert!(channels.park() && !channels.park());
    assert!(join(reading));
    // Far beyond its grace period.
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!((channels.link_state(), channels.begin(2)), (LinkState::Parked, false));
    channels.unpark();
    assert_eq!((channels.link_state(), channels.begin(2)), (LinkState::Broken, true));
    channels.end();
}
