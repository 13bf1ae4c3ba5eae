//! Bulk data over several connections: sockets of this machine, both ends in this process.
//! In: transfers of all sizes, in order, from several threads; peers that mean no good. Out: the bytes, or the error.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod borrowed;
mod limit;

use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use borrowed::Bytes;
use floe_transport::{Help, Link, LinkError, Load, Receiver, Sender, Spin, Stripes, Target, Transfers, pull};
use floe_wire::{CHUNK_BYTES, Chunk, CopyBulkToDevice, Decode as _, DevicePtr, MemoryInfo, PIECE_BYTES, StreamId};
use limit::{Limit, join};
use proptest::prelude::*;

/// The target of a test's transfers.
struct Memory(Mutex<Vec<u8>>);

impl Memory {
    fn new(bytes: usize) -> Self {
        Self(Mutex::new(vec![0; bytes]))
    }
}

impl Target for Memory {
    fn fill(
        &self,
        offset: usize,
        bytes: usize,
        read: &mut dyn FnMut(&mut [u8]) -> Result<(), LinkError>,
    ) -> Result<(), LinkError> {
        let mut part = vec![0; bytes];
        // In two parts, as rows of a box would be.
        let (first, second) = part.split_at_mut(bytes / 3);
        read(first)?;
        read(second)?;
        self.0.lock().unwrap()[offset..offset + bytes].copy_from_slice(&part);
        Ok(())
    }
}

fn link() -> (Link, Link) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (Link::new(ours.into()), Link::new(theirs.into()))
}

/// A session's own connection and its bulk connections, both ends.
struct Session {
    own: Sender,
    commands: Receiver,
    stripes: Stripes,
    transfers: Arc<Transfers<Memory>>,
    pullers: Vec<JoinHandle<Result<(), LinkError>>>,
}

impl Session {
    fn new(connections: usize) -> Self {
        Self::spinning(connections, Spin::default())
    }

    /// One whose threads look for more before they sleep.
    fn spinning(connections: usize, spin: Spin) -> Self {
        let (ours, theirs) = link();
        let (stripes, transfers) = (Stripes::new(spin), Arc::new(Transfers::new(Spin::default())));
        let pullers = (0..connections).map(|_| {
            let (ours, theirs) = link();
            stripes.add(ours.halves().0).unwrap();
            start(theirs, &transfers)
        });
        let pullers = pullers.collect();
        Self { own: ours.split().0, commands: theirs.split().1, stripes, transfers, pullers }
    }

    /// One with so many threads that copy first, and one connection that nobody reads yet.
    fn copying_ahead(copiers: usize) -> (Self, Link) {
        let session = Self::new(0);
        session.stripes.stage(copiers, CHUNK_BYTES).unwrap();
        let (ours, theirs) = link();
        session.stripes.add(ours.halves().0).unwrap();
        (session, theirs)
    }

    /// The same for another thread, which posts.
    fn poster(&self) -> Self {
        let (stripes, own, transfers) = (self.stripes.clone(), self.own.clone(), Arc::clone(&self.transfers));
        Self { stripes, own, commands: link().1.split().1, transfers, pullers: vec![] }
    }

    /// Closes all of it when a test fails.
    fn limit(&self) -> Limit {
        let (own, stripes, transfers) = (self.own.clone(), self.stripes.clone(), Arc::clone(&self.transfers));
        Limit::new(move || {
            own.close();
            stripes.close();
            transfers.close();
        })
    }

    /// Posts all of the data in transfers of these sizes.
    fn post(&self, data: &Arc<Vec<u8>>, sizes: &[usize], dropped: &Arc<AtomicUsize>, help: Help) {
        let load = Load::new(Box::new(Bytes(Arc::clone(data), Arc::clone(dropped))));
        let mut start = 0;
        for &size in sizes {
            let command = CopyBulkToDevice { stream: StreamId(1), to: DevicePtr(start as u64), bytes: size as u64 };
            self.stripes.post(&self.own, &command, &load, start..start + size, help).unwrap();
            start += size;
        }
        if help == Help::Follows {
            self.stripes.see_off(&load);
        }
    }

    /// Announces the next command's transfer; which it is, and where in the data it begins.
    fn announce(&mut self) -> (u64, usize) {
        let frame = self.commands.next().unwrap().unwrap();
        let command = CopyBulkToDevice::decode(frame.payload).unwrap();
        let bytes = usize::try_from(command.bytes).unwrap();
        assert!(self.transfers.announce(frame.sequence, bytes, Memory::new(bytes)));
        (frame.sequence, usize::try_from(command.to.0).unwrap())
    }

    fn end(self) -> Vec<Result<(), LinkError>> {
        self.stripes.close();
        self.transfers.close();
        self.pullers.into_iter().map(join).collect()
    }
}

fn start(link: Link, transfers: &Arc<Transfers<Memory>>) -> JoinHandle<Result<(), LinkError>> {
    let (_sender, mut receiver) = link.halves();
    let transfers = Arc::clone(transfers);
    std::thread::spawn(move || pull(&mut receiver, &transfers))
}

fn data(bytes: usize, seed: usize) -> Arc<Vec<u8>> {
    Arc::new((0..bytes).map(|index| ((index * 31 + index / 251 + seed) % 256).to_le_bytes()[0]).collect())
}

/// A size around where something changes.
fn size() -> impl Strategy<Value = usize> {
    let edges = [1, 2, 3, 4, 8, 16].map(|chunks| chunks * CHUNK_BYTES);
    prop_oneof![
        1..5_usize,
        1..3 * CHUNK_BYTES,
        (0..edges.len(), 0..3_usize).prop_map(move |(at, by)| (edges[at] + by - 1).min(PIECE_BYTES))
    ]
}

proptest! {
    // A failure that shows only when its time is over is not looked for ever smaller.
    #![proptest_config(ProptestConfig { max_shrink_time: 60_000, ..ProptestConfig::with_cases(24) })]

    #[test]
    fn transfers_arrive_whole_over_any_number_of_connections(
        sizes in proptest::collection::vec(size(), 1..8), connections in 1..5_usize, helps in any::<bool>(),
        copiers in 0..4_usize, looks in prop_oneof![Just("0"), Just("50")]
    ) {
        let mut session = Session::spinning(connections, Spin::new(Some(looks)));
        session.stripes.stage(copiers, 3 * CHUNK_BYTES).unwrap();
        let (sent, dropped) = (data(sizes.iter().sum(), 3), Arc::new(AtomicUsize::new(0)));
        let help = if helps { Help::Follows } else { Help::None };
        std::thread::scope(|scope| {
            let limit = session.limit();
            let posting = session.poster();
            let (sent, dropped, sizes) = (&sent, &dropped, &sizes);
            let posts = limit.clone();
            scope.spawn(move || {
                let _limit = posts;
                posting.post(sent, sizes, dropped, help);
            });
            for size in sizes {
                let (id, start) = session.announce();
                let taken = session.transfers.take(id).unwrap();
                assert!(*taken.0.lock().unwrap() == sent[start..start + size]);
            }
        });
        prop_assert!(session.end().into_iter().all(|outcome| matches!(outcome, Ok(()) | Err(LinkError::Closed))));
        // Its writer may not have come back from the socket that its peer has read already.
        let soon = Instant::now() + Duration::from_secs(300);
        while dropped.load(Ordering::SeqCst) == 0 && Instant::now() < soon {
            std::thread::yield_now();
        }
        prop_assert_eq!(dropped.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn a_helping_poster_among_several_returns_when_its_data_are_sent() {
    for looks in ["0", "20", "200"] {
        post_from_several_threads(Session::spinning(3, Spin::new(Some(looks))));
    }
}

fn post_from_several_threads(mut session: Session) {
    let all: Vec<_> = (0..4).map(|seed| data(1 << 20, seed)).collect();
    let dropped: Vec<_> = (0..4).map(|_| Arc::new(AtomicUsize::new(0))).collect();
    std::thread::scope(|scope| {
        let limit = session.limit();
        let (stripes, own) = (session.stripes.clone(), session.own.clone());
        for (index, (sent, dropped)) in all.iter().zip(&dropped).enumerate() {
            let (stripes, own, limit) = (stripes.clone(), own.clone(), limit.clone());
            scope.spawn(move || {
                let _limit = limit;
                let load = Load::new(Box::new(Bytes(Arc::clone(sent), Arc::clone(dropped))));
                let stream = StreamId(index as u64);
                for start in [0, 1 << 19] {
                    let command = CopyBulkToDevice { stream, to: DevicePtr(start as u64), bytes: 1 << 19 };
                    stripes.post(&own, &command, &load, start..start + (1 << 19), Help::Follows).unwrap();
                }
                stripes.see_off(&load);
                drop(load);
                assert_eq!(dropped.load(Ordering::SeqCst), 1);
            });
        }
        for _ in 0..8 {
            let frame = session.commands.next().unwrap().unwrap();
            let command = CopyBulkToDevice::decode(frame.payload).unwrap();
            assert!(session.transfers.announce(frame.sequence, 1 << 19, Memory::new(1 << 19)));
            let taken = session.transfers.take(frame.sequence).unwrap();
            let start = usize::try_from(command.to.0).unwrap();
            let sent = &all[usize::try_from(command.stream.0).unwrap()];
            assert!(*taken.0.lock().unwrap() == sent[start..start + (1 << 19)]);
        }
    });
    session.end();
}

#[test]
fn a_helping_poster_returns_when_its_data_are_copied_though_the_peer_reads_nothing() {
    let (mut session, theirs) = Session::copying_ahead(1);
    let _limit = session.limit();
    let (sent, dropped) = (data(4 << 20, 5), Arc::new(AtomicUsize::new(0)));
    session.post(&sent, &[4 << 20], &dropped, Help::Follows);
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    session.pullers.push(start(theirs, &session.transfers));
    let (id, _) = session.announce();
    assert!(*session.transfers.take(id).unwrap().0.lock().unwrap() == *sent);
    session.end();
}

#[test]
fn copies_are_no_more_than_there_is_memory_for() {
    let (mut session, theirs) = Session::copying_ahead(2);
    let limit = session.limit();
    let (sent, dropped) = (data(40 << 20, 6), Arc::new(AtomicUsize::new(0)));
    std::thread::scope(|scope| {
        let _limit = limit;
        let posting = session.poster();
        let (from, back) = (&sent, &dropped);
        let posted = scope.spawn(move || posting.post(from, &[4 << 20; 10], back, Help::Follows));
        std::thread::sleep(Duration::from_millis(300));
        assert!(!posted.is_finished() && dropped.load(Ordering::SeqCst) == 0, "32 MiB are copied at most");
        session.pullers.push(start(theirs, &session.transfers));
        for _ in 0..10 {
            let (id, place) = session.announce();
            let taken = session.transfers.take(id).unwrap();
            assert!(*taken.0.lock().unwrap() == sent[place..place + (4 << 20)]);
        }
    });
    session.end();
}

/// The error of a bulk connection's reader for these chunks (transfer, offset, bytes), after transfer 5 was announced.
fn said_to(chunks: &[(u64, u64, usize)]) -> LinkError {
    let transfers = Arc::new(Transfers::new(Spin::default()));
    assert!(transfers.announce(5, CHUNK_BYTES + 9, Memory::new(CHUNK_BYTES + 9)));
    let (mut ours, theirs) = link();
    let puller = start(theirs, &transfers);
    for &(transfer, offset, bytes) in chunks {
        let bytes = vec![1; bytes];
        // The reader may have hung up.
        let _ = ours.send(&Chunk { transfer, offset, bytes: &bytes });
    }
    // A reader that has refused nothing finds the end.
    drop(ours);
    let error = join(puller).unwrap_err();
    assert!(error.is_broken_contract(), "{error}");
    error
}

#[test]
fn chunks_without_a_place_are_refused() {
    let chunk = CHUNK_BYTES as u64;
    let why = |chunks: &[(u64, u64, usize)]| match said_to(chunks) {
        LinkError::Chunk { why, .. } => why,
        other => panic!("{other}"),
    };
    assert_eq!(why(&[(4, 0, CHUNK_BYTES)]), "there is no such transfer");
    assert_eq!(why(&[(5, 2 * chunk, 9)]), "it begins behind the end");
    assert_eq!(why(&[(5, u64::MAX, 9)]), "it begins behind the end");
    assert_eq!(why(&[(5, 1, CHUNK_BYTES)]), "no chunk begins there");
    assert_eq!(why(&[(5, chunk, 10)]), "its length is not that of the chunk there");
    assert_eq!(why(&[(5, 0, CHUNK_BYTES + 9)]), "its length is not that of the chunk there");
    assert_eq!(why(&[(5, chunk, 9), (5, 0, CHUNK_BYTES), (5, 0, CHUNK_BYTES)]), "it has arrived before");
}

#[test]
fn a_bulk_connection_carries_nothing_else() {
    let transfers = Arc::new(Transfers::new(Spin::default()));
    let (mut ours, theirs) = link();
    let puller = start(theirs, &transfers);
    ours.send(&MemoryInfo {}).unwrap();
    drop(ours);
    let error = join(puller).unwrap_err();
    assert!(matches!(error, LinkError::Kind { .. }) && error.is_broken_contract(), "{error}");
}

#[test]
fn waits_return_when_the_session_ends() {
    let transfers = Arc::new(Transfers::new(Spin::default()));
    assert!(transfers.announce(1, 9, Memory::new(9)));
    let (mut ours, theirs) = link();
    let puller = start(theirs, &transfers);
    // Few enough bytes for a socket that nobody reads: the reader waits before the data.
    ours.send(&Chunk { transfer: 2, offset: 0, bytes: &[1; CHUNK_BYTES / 2] }).unwrap();
    let taker = {
        let transfers = Arc::clone(&transfers);
        std::thread::spawn(move || transfers.take(1).is_none())
    };
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert!(!puller.is_finished() && !taker.is_finished());
    transfers.close();
    assert!(join(taker), "nothing came");
    assert!(matches!(join(puller), Err(LinkError::Closed)));
    assert!(transfers.take(1).is_none());
}

#[test]
fn a_connection_that_is_cut_inside_a_chunk_says_so_and_gives_all_data_back() {
    use std::io::{Read as _, Write as _};
    let mut session = Session::new(0);
    let _limit = session.limit();
    // One connection whose bytes pass by here, and end in the middle.
    let (ours, mut middle) = UnixStream::pair().unwrap();
    let (mut out, theirs) = UnixStream::pair().unwrap();
    session.stripes.add(Link::new(ours.into()).halves().0).unwrap();
    session.pullers.push(start(Link::new(theirs.into()), &session.transfers));
    let (sent, dropped) = (data(8 * CHUNK_BYTES, 1), Arc::new(AtomicUsize::new(0)));
    session.post(&sent, &[8 * CHUNK_BYTES], &dropped, Help::None);
    let (id, _) = session.announce();
    let mut bytes = vec![0; CHUNK_BYTES + 1000];
    middle.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
    middle.read_exact(&mut bytes).unwrap();
    out.write_all(&bytes).unwrap();
    drop((middle, out));
    let outcome = join(session.pullers.remove(0));
    assert!(matches!(outcome, Err(LinkError::CutOff { .. })), "{outcome:?}");
    session.stripes.close();
    session.transfers.close();
    assert!(session.transfers.take(id).is_none());
    let soon = Instant::now() + Duration::from_secs(300);
    while dropped.load(Ordering::SeqCst) == 0 {
        assert!(Instant::now() < soon, "the data do not come back");
        std::thread::yield_now();
    }
}
