//! Links that outlive their connections: both ends in this process, over sockets that are cut at chosen or random
//! bytes. In: frames, borrowed data and chunks in both directions. Out: each of them once and in order, whatever was
//! cut, or the error.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod authority;
mod borrowed;
mod limit;
mod wires;

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use authority::Authority;
use borrowed::Bytes;
use floe_transport::{
    Address, Answering, BorrowedBuffer, ClientTls, Help, HistoryDigest, Identity, Link, LinkError, Load, MAIN_CHANNEL,
    Receiver, Secret, SendMode, Sender, ServerTls, Spin, Stripes, Target, Transfers, Trust, connect, pull,
};
use floe_wire::{CopyBulkToDevice, CopyToDevice, Decode as _, DevicePtr, Message as _, StreamId, SynchronizeStream};
use limit::Limit;
use wires::{Ends, Random};

/// For what a busy machine may take to connect.
const SOON: Duration = Duration::from_secs(300);

fn data(bytes: usize, seed: u64) -> Vec<u8> {
    (0..bytes as u64).map(|index| (index / 5 + seed * 7).to_le_bytes()[0]).collect()
}

/// How the message of this number goes: its trailing bytes, and whether they are borrowed.
fn shape(number: u64, largest: usize) -> (usize, bool) {
    let sizes = [0, 100, 5_000, 40_000, 600_000];
    (sizes[usize::try_from(number).unwrap() % sizes.len()].min(largest), number.is_multiple_of(3))
}

/// Posts messages of these numbers; how many were borrowed.
fn post(sender: &Sender, count: u64, largest: usize, back: &Arc<AtomicUsize>) -> usize {
    let mut borrowed = 0;
    for number in 0..count {
        let (bytes, is_lent) = shape(number, largest);
        let all = data(bytes, number);
        let message = CopyToDevice { stream: StreamId(number), to: DevicePtr(bytes as u64), bytes: &all };
        if bytes == 0 {
            sender.post(&SynchronizeStream { stream: StreamId(number) }).unwrap();
        } else if is_lent {
            borrowed += 1;
            let hollow = CopyToDevice { bytes: &[], ..message };
            sender.post_borrowed(&hollow, Box::new(Bytes(Arc::new(all), Arc::clone(back)))).unwrap();
        } else if number % 7 == 1 {
            sender.send(&message, |_| ()).unwrap();
        } else {
            sender.post(&message).unwrap();
        }
    }
    sender.flush().unwrap();
    borrowed
}

/// Takes as many messages and looks at each.
fn take(receiver: &mut Receiver, count: u64, largest: usize) {
    let mut words = 0;
    for number in 0..count {
        let (bytes, _) = shape(number, largest);
        let frame = receiver.next().unwrap().unwrap();
        // Ahead of large ones there is a word that nobody sees.
        words += u64::from(frame.payload.len() >= 4 << 10);
        assert_eq!(frame.sequence, number + 1 + words);
        if bytes == 0 {
            assert_eq!(SynchronizeStream::decode(frame.payload).unwrap().stream, StreamId(number));
        } else {
            assert_eq!(frame.kind, CopyToDevice::KIND);
            let copy = CopyToDevice::decode(frame.payload).unwrap();
            assert_eq!((copy.stream, copy.to), (StreamId(number), DevicePtr(bytes as u64)));
            assert!(copy.bytes == data(bytes, number), "message {number}");
        }
    }
}

/// Sends messages both ways at once over connections that are cut; how often they were made.
fn exchange(ends: &Ends, count: u64, largest: usize) {
    let (links, limit) = (ends.own(), ends.limit(|| ()));
    std::thread::scope(|scope| {
        for link in links {
            let (sender, mut receiver) = link.split();
            let limit = limit.clone();
            scope.spawn(move || {
                let back = Arc::new(AtomicUsize::new(0));
                let borrowed = std::thread::scope(|both| {
                    let _limit = limit.clone();
                    let (receiver, taking) = (&mut receiver, limit.clone());
                    both.spawn(move || {
                        let _limit = taking;
                        take(receiver, count, largest);
                    });
                    post(&sender, count, largest, &back)
                });
                // Borrowed data are given back although nothing is sent any more.
                let soon = Instant::now() + Duration::from_secs(300);
                while back.load(Ordering::SeqCst) < borrowed {
                    assert!(Instant::now() < soon, "{} of {borrowed} are back", back.load(Ordering::SeqCst));
                    std::thread::sleep(Duration::from_millis(1));
                }
                // The peer may lack what was sent last.
                (sender, receiver)
            });
        }
    });
}

#[test]
fn a_cut_at_any_byte_loses_nothing_and_repeats_nothing() {
    // Five frames each way, of which the largest has 100 bytes.
    let all = 5 * 16 + 8 + 4 * (8 + 8 + 4 + 100);
    for cut in 0..=all {
        let ends = Ends::new(0, vec![cut]);
        exchange(&ends, 5, 100);
        ends.end();
    }
}

#[test]
fn messages_of_all_sizes_survive_cuts() {
    let mut random = Random(5);
    let ends = Ends::new(0, (0..60).map(|_| random.below(900_000)).collect());
    exchange(&ends, 100, usize::MAX);
    assert!(ends.made() > 20, "{}", ends.made());
    ends.end();
}

/// The target of a test's transfers.
struct Memory(Mutex<Vec<u8>>);

impl Target for Memory {
    fn fill(
        &self,
        offset: usize,
        bytes: usize,
        read: &mut dyn FnMut(&mut [u8]) -> Result<(), LinkError>,
    ) -> Result<(), LinkError> {
        let mut part = vec![0; bytes];
        read(&mut part)?;
        self.0.lock().unwrap()[offset..offset + bytes].copy_from_slice(&part);
        Ok(())
    }
}

#[test]
fn chunks_on_several_connections_survive_cuts_and_go_back_when_they_have_come() {
    let mut random = Random(3);
    carry_chunks(&Ends::new(2, (0..200).map(|_| random.below(2_000_000)).collect()), 0);
    carry_chunks(&Ends::new(2, (0..200).map(|_| random.below(2_000_000)).collect()), 2);
}

/// Passes bytes on both ways, and ends both connections when so many have passed either way.
fn pass_both_ways(cut: usize, near: &TcpStream, far: &TcpStream) {
    std::thread::scope(|scope| {
        for (from, to) in [(near, far), (far, near)] {
            scope.spawn(move || {
                wires::pass(cut, from, to);
                let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
            });
        }
    });
}

/// Makes connections by TLS through relays that cut them after so many bytes, of which a handshake takes some two
/// thousand.
fn cut_tls(cuts: Vec<usize>) -> impl Fn() -> (Link, Link) + Send + Sync {
    let authority = Authority::new();
    let [certificate, key] = authority.sign("localhost");
    let tls = ClientTls::new(&authority.file(), None).unwrap();
    let server_tls = ServerTls::new(&Identity { certificate, key }, None).unwrap();
    let by_tls = move |port| {
        let trust = Trust { tls: Some(&tls), secret: None };
        connect(&Address::Tls { host: "localhost".into(), port }, SOON, &trust).unwrap()
    };
    let answer = move |link: Link| {
        let by = Answering { tls: Some(&server_tls), tls_only: true, secret: None };
        link.answer(&by, Instant::now() + SOON).unwrap()
    };
    cut_between(cuts, by_tls, answer)
}

/// As [`cut_tls`], sealed by a token both sides know; a handshake takes 112 bytes.
fn cut_sealed(cuts: Vec<usize>) -> impl Fn() -> (Link, Link) + Send + Sync {
    let (ours, theirs) = (Secret::of("token"), Secret::of("token"));
    let sealed = move |port| {
        let trust = Trust { tls: None, secret: Some(&ours) };
        connect(&Address::Tcp { host: "127.0.0.1".into(), port }, SOON, &trust).unwrap()
    };
    let answer = move |link: Link| {
        let by = Answering { secret: Some(&theirs), ..Answering::default() };
        let link = link.answer(&by, Instant::now() + SOON).unwrap();
        // As a worker has it.
        Link::resume(link.into_parts().unwrap()).unwrap()
    };
    cut_between(cuts, sealed, answer)
}

/// Makes connections through relays that cut them after so many bytes.
fn cut_between(
    cuts: Vec<usize>,
    connect: impl Fn(u16) -> Link + Send + Sync,
    answer: impl Fn(Link) -> Link + Send + Sync,
) -> impl Fn() -> (Link, Link) + Send + Sync {
    let cuts = Mutex::new(cuts.into_iter());
    move || {
        let cut = cuts.lock().unwrap().next().unwrap_or(usize::MAX);
        let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
        let (server, relay) = (listen(), listen());
        // There before anybody accepts it, so that nobody waits for a connection that does not come.
        let far = TcpStream::connect(server.local_addr().unwrap()).unwrap();
        let (stream, port) = (server.accept().unwrap().0, relay.local_addr().unwrap().port());
        std::thread::spawn(move || {
            let near = relay.accept().unwrap().0;
            let _ = (near.set_nodelay(true), far.set_nodelay(true));
            pass_both_ways(cut, &near, &far);
        });
        std::thread::scope(|scope| {
            let answered = scope.spawn(|| {
                stream.set_nodelay(true).unwrap();
                answer(Link::new(stream.into()))
            });
            (connect(port), answered.join().unwrap())
        })
    }
}

#[test]
fn sealed_sessions_survive_cuts() {
    let mut random = Random(23);
    let cuts: Vec<_> = (0..40).map(|_| 300 + random.below(900_000)).collect();
    let ends = Ends::made_by(0, Arc::new(cut_sealed(cuts)));
    exchange(&ends, 100, usize::MAX);
    assert!(ends.made() > 10, "{}", ends.made());
    ends.end();
}

#[test]
fn sessions_by_tls_survive_cuts() {
    let mut random = Random(17);
    let cuts: Vec<_> = (0..40).map(|_| 4_000 + random.below(900_000)).collect();
    let ends = Ends::made_by(0, Arc::new(cut_tls(cuts)));
    exchange(&ends, 100, usize::MAX);
    assert!(ends.made() > 10, "{}", ends.made());
    ends.end();
}

/// Both ends of the bulk connections; what comes is put together until they are closed. A test that fails ends the
/// session, too.
fn bulk(ends: &Ends, copiers: usize) -> (Stripes, Arc<Transfers<Memory>>, Limit) {
    let (stripes, transfers) = (Stripes::new(Spin::default()), Arc::new(Transfers::new(Spin::default())));
    stripes.stage(copiers, 1 << 20).unwrap();
    for [ours, theirs] in ends.bulk() {
        stripes.add(ours.halves().0).unwrap();
        let (transfers, mut receiver) = (Arc::clone(&transfers), theirs.halves().1);
        std::thread::spawn(move || {
            let _ = pull(&mut receiver, &transfers);
            // Nobody waits for what this would have brought.
            transfers.close();
        });
    }
    let closing = (stripes.clone(), Arc::clone(&transfers));
    let limit = ends.limit(move || {
        closing.0.close();
        closing.1.close();
    });
    (stripes, transfers, limit)
}

/// Sends 120 MiB in chunks over connections that break ten times and more.
fn carry_chunks(ends: &Ends, copiers: usize) {
    let [(own, _ours), (_theirs, mut commands)] = ends.own().map(Link::split);
    let (stripes, transfers, limit) = bulk(ends, copiers);
    let bytes = 1 << 20;
    std::thread::scope(|scope| {
        let (_limit, posting) = (limit.clone(), limit);
        let (stripes, own) = (&stripes, &own);
        scope.spawn(move || {
            let _limit = posting;
            for seed in 0..60 {
                let back = Arc::new(AtomicUsize::new(0));
                let load = Load::new(Box::new(Bytes(Arc::new(data(2 * bytes, seed)), Arc::clone(&back))));
                for start in [0, bytes] {
                    let command =
                        CopyBulkToDevice { stream: StreamId(seed), to: DevicePtr(start as u64), bytes: bytes as u64 };
                    stripes.post(own, &command, &load, start..start + bytes, Help::Follows).unwrap();
                }
                stripes.see_off(&load);
                drop(load);
                assert_eq!(back.load(Ordering::SeqCst), 1, "nobody reads it any more");
            }
        });
        for _ in 0..120 {
            let frame = commands.next().unwrap().unwrap();
            let command = CopyBulkToDevice::decode(frame.payload).unwrap();
            let sequence = frame.sequence;
            assert!(transfers.announce(sequence, bytes, Memory(Mutex::new(vec![0; bytes]))));
            let taken = transfers.take(sequence).unwrap();
            let start = usize::try_from(command.to.0).unwrap();
            assert!(*taken.0.lock().unwrap() == data(2 * bytes, command.stream.0)[start..start + bytes]);
        }
    });
    assert!(ends.made() > 10, "{}", ends.made());
    stripes.close();
    transfers.close();
    ends.end();
}

/// TCP connections through relays that cut them after so many bytes.
fn cut_tcp(cuts: Vec<usize>) -> impl Fn() -> (Link, Link) + Send + Sync {
    let cuts = Mutex::new(cuts.into_iter());
    let pair = || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = listener.accept().unwrap().0;
        for stream in [&near, &far] {
            stream.set_nodelay(true).unwrap();
        }
        (near, far)
    };
    move || {
        let cut = cuts.lock().unwrap().next().unwrap_or(usize::MAX);
        let ((ours, near), (far, theirs)) = (pair(), pair());
        std::thread::spawn(move || pass_both_ways(cut, &near, &far));
        (Link::new(ours.into()), Link::new(theirs.into()))
    }
}

/// Memory that is written as soon as it is back.
struct Reused(Arc<RwLock<Vec<u8>>>, SendMode);

impl BorrowedBuffer for Reused {
    fn len(&self) -> usize {
        self.0.read().unwrap().len()
    }

    fn with_bytes(&self, write: &mut dyn FnMut(&[u8])) {
        write(&self.0.read().unwrap());
    }

    fn send_mode(&self) -> SendMode {
        self.1
    }
}

#[test]
fn pages_that_are_given_are_back_when_the_peer_has_them_and_not_before() {
    lend_again_and_again(SendMode::Pages, 0);
}

#[test]
fn data_copied_ahead_are_given_back_at_once_and_never_read_again() {
    lend_again_and_again(SendMode::Copy, 3);
}

/// Has the same memory carried over connections that are cut, and writes to it as soon as it is back.
fn lend_again_and_again(send_mode: SendMode, copiers: usize) {
    let mut random = Random(29);
    let cuts = (0..60).map(|_| 100_000 + random.below(3_000_000)).collect();
    let ends = Ends::made_by(2, Arc::new(cut_tcp(cuts)));
    let [(own, _ours), (_theirs, mut commands)] = ends.own().map(Link::split);
    let (stripes, transfers, limit) = bulk(&ends, copiers);
    let (bytes, rounds, mut wrong) = (1 << 20, 80, Vec::new());
    std::thread::scope(|scope| {
        let (_limit, posting) = (limit.clone(), limit);
        let (stripes, own) = (&stripes, &own);
        scope.spawn(move || {
            let _limit = posting;
            let memory = Arc::new(RwLock::new(vec![0; bytes]));
            for seed in 0..rounds {
                memory.write().unwrap().copy_from_slice(&data(bytes, seed));
                let load = Load::new(Box::new(Reused(Arc::clone(&memory), send_mode)));
                let command = CopyBulkToDevice { stream: StreamId(seed), to: DevicePtr(0), bytes: bytes as u64 };
                // Those who write alone: who sees its data off gives copies.
                stripes.post(own, &command, &load, 0..bytes, Help::None).unwrap();
                drop(load);
                let soon = Instant::now() + Duration::from_secs(300);
                while Arc::strong_count(&memory) > 1 {
                    assert!(Instant::now() < soon, "the pages of round {seed} do not come back");
                    std::thread::yield_now();
                }
                memory.write().unwrap().fill(0xff);
            }
        });
        for seed in 0..rounds {
            let sequence = commands.next().unwrap().unwrap().sequence;
            assert!(transfers.announce(sequence, bytes, Memory(Mutex::new(vec![0; bytes]))));
            let taken = transfers.take(sequence).unwrap();
            if *taken.0.lock().unwrap() != data(bytes, seed) {
                wrong.push(seed);
            }
        }
    });
    assert_eq!(wrong, [0; 0], "copies that are not what was borrowed");
    assert!(ends.made() > 10, "{}", ends.made());
    stripes.close();
    transfers.close();
    ends.end();
}

#[test]
fn a_connection_of_an_earlier_time_is_not_read() {
    let ends = Ends::of(0, vec![0], Duration::from_secs(60), false);
    let _limit = ends.limit(|| ());
    let [ours, _theirs] = ends.own();
    let (_sender, mut receiver) = ours.split();
    let channels = ends.ours();
    assert!(channels.begin(2));
    assert!(!channels.begin(2) && !channels.begin(1));
    let (late, mut other) = UnixStream::pair().unwrap();
    other.write_all(&[7; 100]).unwrap();
    channels.resume(MAIN_CHANNEL, 1, Link::new(late.into()), HistoryDigest::none()).unwrap();
    other.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
    let read = other.read(&mut [0]);
    assert!(
        !matches!(&read, Ok(1..)) && !read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock),
        "it is closed"
    );
    let (now, other) = UnixStream::pair().unwrap();
    assert_eq!(channels.freeze(MAIN_CHANNEL), HistoryDigest::none());
    channels.resume(MAIN_CHANNEL, 2, Link::new(now.into()), HistoryDigest::none()).unwrap();
    let mut other = Link::new(other.into());
    other.send(&SynchronizeStream { stream: StreamId(4) }).unwrap();
    let frame = receiver.next().unwrap().unwrap();
    assert_eq!(SynchronizeStream::decode(frame.payload).unwrap().stream, StreamId(4));
    // Bytes that were never sent cannot be acknowledged.
    assert!(channels.begin(3));
    let (wrong, _other) = UnixStream::pair().unwrap();
    let error = channels
        .resume(MAIN_CHANNEL, 3, Link::new(wrong.into()), HistoryDigest { received: 1, digest: 0 })
        .unwrap_err();
    assert!(matches!(error, LinkError::Acknowledgement { received: 1, sent: 0, .. }) && error.is_broken_contract());
}

#[test]
fn a_goodbye_ends_the_session_for_both_and_so_does_the_grace_period() {
    let ends = Ends::new(0, vec![]);
    let _limit = ends.limit(|| ());
    let [ours, theirs] = ends.own();
    let (sender, mut receiver) = (ours.split().0, theirs.split().1);
    sender.send(&SynchronizeStream { stream: StreamId(1) }, |_| ()).unwrap();
    ends.leave();
    assert!(receiver.next().unwrap().is_some(), "what was sent before is still read");
    assert!(receiver.next().unwrap().is_none());
    // A post may be queued for a moment before its thread learns of the end.
    let begun = Instant::now();
    while sender.post(&SynchronizeStream { stream: StreamId(2) }).is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(300), "posts go nowhere, and nobody says so");
        std::thread::sleep(Duration::from_millis(1));
    }

    let ends = Ends::of(0, vec![0], Duration::from_millis(200), false);
    let _limit = ends.limit(|| ());
    let [ours, theirs] = ends.own();
    let (sender, mut receiver) = (ours.split().0, theirs.split().1);
    sender.send(&SynchronizeStream { stream: StreamId(1) }, |_| ()).unwrap();
    let error = receiver.next().unwrap_err();
    assert!(matches!(error, LinkError::NotMadeAgain(grace) if grace == Duration::from_millis(200)), "{error}");
    assert!(!error.is_broken_contract());
}

#[test]
fn a_poster_beyond_the_log_waits_and_ends_with_the_link() {
    // Long enough to post more than a log on a busy machine.
    let ends = Ends::of(0, vec![0], Duration::from_secs(3), false);
    let [ours, _theirs] = ends.own();
    let (sender, mut receiver) = ours.split();
    std::thread::scope(|scope| {
        let _limit = ends.limit(|| ());
        scope.spawn(|| assert!(receiver.next().is_err()));
        let block = vec![1; 30_000];
        let mut posted = 0_usize;
        let copy = CopyToDevice { stream: StreamId(1), to: DevicePtr(1), bytes: &block };
        while sender.post(&copy).is_ok() {
            posted += block.len();
        }
        // The log, the unwritten bytes, and some more.
        assert!((1 << 20..16 << 20).contains(&posted), "{posted}");
    });
}
