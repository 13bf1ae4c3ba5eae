//! Bulk connections: uploads reach the device in command order, downloads leave in chunks. Peers that violate the
//! protocol there lose their session.

use floe_device::PageSize;
use floe_transport::LinkError;

use super::*;

const CHUNK: u64 = CHUNK_BYTES as u64;

/// A chunk as it came.
type Chunks = Vec<(u64, u64, Vec<u8>)>;

impl Client {
    /// One more connection of the session.
    fn join(&self) -> Link {
        let (ours, theirs) = UnixStream::pair().unwrap();
        self.giver.give(Role::Joined, Link::new(theirs.into())).unwrap();
        client_end(ours)
    }

    fn follows(&mut self, to: u64, bytes: u64) -> u64 {
        self.send(&CopyBulkToDevice { stream: StreamId(0), to: DevicePtr(to), bytes })
    }

    /// The bytes on the device.
    fn read(&mut self, bytes: u64) -> Vec<u8> {
        let mut all = vec![];
        for at in (0..bytes).step_by(CHUNK_BYTES) {
            let length = CHUNK.min(bytes - at);
            self.send(&CopyFromDevice { stream: StreamId(0), from: DevicePtr(BASE + at), bytes: length });
            match self.get() {
                Some(Got::Delivery { bytes, .. }) => all.extend(bytes),
                other => panic!("no data: {other:?}"),
            }
            assert!(matches!(self.get(), Some(Got::Reply { status: 0, .. })));
        }
        all
    }

    /// The worker's error when a bulk connection carries this, behind a copy of two chunks that is announced.
    fn ended_by(transfer: impl FnOnce(u64) -> u64, offset: u64, bytes: usize) -> String {
        let mut client = Self::new();
        client.memory();
        let mut bulk = client.join();
        let sent = client.follows(BASE, 2 * CHUNK);
        let _ = bulk.send(&Chunk { transfer: transfer(sent), offset, bytes: &vec![0; bytes] });
        match client.get() {
            Some(Got::Ended(1, words)) => {
                assert_eq!(
                    client.leave(),
                    Ending::ProtocolViolation(words.clone().split_off(words.find(": ").unwrap() + 2))
                );
                words
            }
            other => panic!("it continues: {other:?}"),
        }
    }
}

fn data(bytes: u64, seed: u64) -> Vec<u8> {
    (0..bytes).map(|index| (index / 7 + seed).to_le_bytes()[0]).collect()
}

fn chunk(link: &mut Link, transfer: u64, offset: u64, all: &[u8]) {
    let from = usize::try_from(offset).unwrap();
    let bytes = &all[from..all.len().min(from + chunk_bytes(all.len()))];
    link.send(&Chunk { transfer, offset, bytes }).unwrap();
}

/// All chunks that come within a transfer of so many bytes.
fn chunks(links: &mut [Link], bytes: u64) -> Chunks {
    let mut seen = vec![];
    let (mut left, until) = (bytes, Instant::now() + PATIENCE);
    while left > 0 {
        assert!(Instant::now() < until, "{left} of {bytes} bytes do not come");
        for link in &mut *links {
            let soon = Instant::now() + Duration::from_millis(5);
            match link.receive(Some(soon)) {
                Ok(Some(frame)) => {
                    let chunk = Chunk::decode(frame.payload).unwrap();
                    left -= chunk.bytes.len() as u64;
                    seen.push((chunk.transfer, chunk.offset, chunk.bytes.to_vec()));
                }
                Err(LinkError::TimedOut { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    seen.sort();
    seen
}

#[test]
fn chunks_may_come_in_any_order_and_before_their_commands() {
    let mut client = Client::new();
    client.memory();
    let (mut one, mut other) = (client.join(), client.join());
    let (first, second) = (data(2 * CHUNK + 100, 1), data(CHUNK, 2));
    // The first command will be the next frame, the second the one after it.
    let next = client.send(&Fill {
        stream: StreamId(0),
        at: DevicePtr(BASE),
        pitch: 1,
        element: 1,
        value: 9,
        width: 1,
        height: 1,
    }) + 1;
    // Nobody reads past the head of a chunk before its command has come, and a socket may hold less than a chunk.
    std::thread::scope(|threads| {
        threads.spawn(|| [CHUNK, 0].map(|offset| chunk(&mut other, next, offset, &first)));
        threads.spawn(|| {
            chunk(&mut one, next, 2 * CHUNK, &first);
            chunk(&mut one, next + 1, 0, &second);
        });
        assert_eq!(client.follows(BASE, first.len() as u64), next);
        assert_eq!(client.follows(BASE + CHUNK, CHUNK), next + 1);
    });
    let mut expected = first.clone();
    expected[CHUNK_BYTES..2 * CHUNK_BYTES].copy_from_slice(&second);
    assert!(client.read(first.len() as u64) == expected);
    assert_eq!(client.leave(), Ending::ClientLeft);
}

#[test]
fn bytes_of_all_connections_and_answered_requests_are_counted() {
    let mut client = Client::new();
    client.memory();
    let before = client.carried.counts();
    let (mut bulk, all) = (client.join(), data(2 * CHUNK, 1));
    let sent = client.follows(BASE, all.len() as u64);
    for offset in [0, CHUNK] {
        chunk(&mut bulk, sent, offset, &all);
    }
    let read = 5000;
    for _ in 0..3 {
        client.read(read);
    }
    let counts = client.carried.counts();
    let (received, sent) = (counts.received - before.received, counts.sent - before.sent);
    // Headers and small messages are far below a chunk.
    assert!((2 * CHUNK..3 * CHUNK).contains(&received), "{received}");
    assert!((3 * read..4 * read).contains(&sent), "{sent}");
    assert_eq!(counts.waits - before.waits, 3);
    assert_eq!(client.leave(), Ending::ClientLeft);
}

#[test]
fn copies_that_are_behind_a_held_stream_come_all_the_same() {
    for bytes in [4 * CHUNK_BYTES, PIECE_BYTES - 5, PIECE_BYTES] {
        copies_behind_a_held_stream(bytes);
    }
}

fn copies_behind_a_held_stream(bytes: usize) {
    let mut client = Client::new();
    client.memory_of(2 * BLOCK);
    let mut bulk = client.join();
    client.send(&CreateStream { stream: StreamId(3), flags: 1, priority: 0 });
    client.send(&HostFunction { stream: StreamId(3), function: FunctionId(9) });
    let Some(Got::RunHostFunction(9)) = client.get() else { panic!("it is not run") };
    // More than the buffer holds, all behind the function.
    let count = 2 * TRANSPORT / bytes as u64;
    let step = chunk_bytes(bytes);
    let bytes = bytes as u64;
    for index in 0..count {
        let sent = client.send(&CopyBulkToDevice { stream: StreamId(3), to: DevicePtr(BASE), bytes });
        let all = data(bytes, index);
        (0..bytes).step_by(step).for_each(|part| chunk(&mut bulk, sent, part, &all));
    }
    client.send(&HostFunctionDone { function: FunctionId(9) });
    client.ok(&SynchronizeStream { stream: StreamId(3) });
    assert!(client.read(bytes) == data(bytes, count - 1));
}

#[test]
fn a_download_is_announced_and_comes_on_any_connection() {
    let mut client = Client::new();
    client.memory();
    let mut bulk = vec![client.join(), client.join()];
    let all = data(BLOCK, 5);
    for (index, at) in (0..BLOCK).step_by(4 * CHUNK_BYTES).enumerate() {
        let from = usize::try_from(at).unwrap();
        let sent = client.follows(BASE + at, 4 * CHUNK);
        (0..4).for_each(|part| chunk(&mut bulk[index % 2], sent, part * CHUNK, &all[from..from + 4 * CHUNK_BYTES]));
    }
    let sent = client.send(&CopyFromDevice { stream: StreamId(0), from: DevicePtr(BASE + 5), bytes: 5 * CHUNK });
    let mut follow = vec![];
    while let Some(got) = client.get() {
        match got {
            Got::Follows { request, offset, bytes } if request == sent => follow.push((offset, bytes)),
            Got::Reply { request, status: 0, .. } if request == sent => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(follow, [(0, 4 * CHUNK), (4 * CHUNK, CHUNK)]);
    let seen = chunks(&mut bulk, 5 * CHUNK);
    for (index, (_, offset, bytes)) in seen.iter().enumerate() {
        assert_eq!(*offset, index as u64 % 4 * CHUNK);
        assert!(bytes == &all[index * CHUNK_BYTES + 5..(index + 1) * CHUNK_BYTES + 5]);
    }
    assert_eq!(client.device.pinned(), [PageSize::Large, PageSize::Small], "of the last, sockets are given pages");
}

#[test]
fn large_copies_leave_in_larger_transfers_through_rings_of_any_size() {
    // A buffer of one piece, and one of six.
    for transport in [1 << 20, TRANSPORT] {
        let sockets = UnixStream::pair().unwrap();
        let mut client = Client::with_transport(transport, sockets, Arc::new(Fake::default()), 0, None);
        client.memory_of(9 * BLOCK);
        let mut bulk = [client.join(), client.join()];
        let all = data(9 * BLOCK, 3);
        for (index, piece) in all.chunks(PIECE_BYTES).enumerate() {
            let sent = client.follows(BASE + (index * PIECE_BYTES) as u64, piece.len() as u64);
            let parts = (0..piece.len() as u64).step_by(chunk_bytes(piece.len()));
            parts.for_each(|part| chunk(&mut bulk[index % 2], sent, part, piece));
        }
        let length = 17 << 20;
        let sent = client.send(&CopyFromDevice { stream: StreamId(0), from: DevicePtr(BASE + 3), bytes: length });
        let (mut follow, mut whole) = (vec![], vec![]);
        let seen = std::thread::scope(|threads| {
            // The sockets hold less than the copy.
            let drained = threads.spawn(|| chunks(&mut bulk, length));
            while let Some(got) = client.get() {
                match got {
                    Got::Follows { request, offset, bytes } if request == sent => follow.push((offset, bytes >> 20)),
                    Got::Reply { request, status: 0, .. } if request == sent => break,
                    other => panic!("{other:?}"),
                }
            }
            drained.join().unwrap()
        });
        let sizes = [1, 1, 1, 1, 4, 4, 1, 1, 1, 1, 1];
        let starts = sizes.iter().scan(0, |next, size| Some(std::mem::replace(next, *next + (size << 20))));
        assert_eq!(follow, starts.zip(sizes).collect::<Vec<_>>());
        // Transfers have the numbers of the frames that announce them, so they are in order.
        seen.into_iter().for_each(|(_, _, part)| whole.extend(part));
        assert!(whole == all[3..3 + (17 << 20)]);
        assert_eq!(client.leave(), Ending::ClientLeft);
    }
}

#[test]
fn chunks_that_were_not_announced_end_the_session() {
    let words = Client::ended_by(|sent| sent - 1, 0, CHUNK_BYTES);
    assert!(words.contains("there is no such transfer"), "{words}");
    let words = Client::ended_by(|sent| sent, CHUNK, CHUNK_BYTES + 1);
    assert!(words.contains("its length is not that of the chunk"), "{words}");
}

#[test]
fn copies_of_no_bytes_or_of_more_than_a_piece_are_refused() {
    for bytes in [0, PIECE_BYTES as u64 + 1, u64::MAX] {
        let words = Client::new().break_with(&CopyBulkToDevice { stream: StreamId(0), to: DevicePtr(BASE), bytes });
        assert!(words.contains("not the bytes of a piece"), "{words}");
    }
}

#[test]
fn commands_do_not_come_on_bulk_connections_nor_chunks_on_the_sessions_own() {
    let words = Client::new().break_with(&Chunk { transfer: 1, offset: 0, bytes: &[1] });
    assert!(words.contains("only a connection with a task of its own"), "{words}");
    let mut client = Client::new();
    client.join().send(&MemoryInfo {}).unwrap();
    assert!(matches!(client.get(), Some(Got::Ended(1, words)) if words.contains("bulk connection")));
}

#[test]
fn session_ends_with_any_of_its_connections() {
    let mut client = Client::new();
    client.memory();
    let bulk = client.join();
    let sent = client.follows(BASE, CHUNK);
    client.send(&SynchronizeContext {});
    assert!(sent > 0);
    drop(bulk);
    assert_eq!(client.get(), None);
    assert_eq!(client.leave(), Ending::ClientLeft);
}

#[test]
fn the_issuer_has_room_also_when_later_copies_have_taken_all() {
    let device = Arc::new(Fake::default());
    let uploads =
        crate::memory::transfer_buffers::Uploads::<Fake>::new(1 << 20, &crate::memory::budget::Budget::default());
    uploads.begin(&device).unwrap();
    let ahead: Vec<_> = std::iter::from_fn(|| uploads.room(&device, 1 << 18, || false)).collect();
    assert_eq!(ahead.len(), 4);
    let own = uploads.take(&device, 1 << 18, || false).unwrap().unwrap();
    uploads.drop_range(own);
    ahead.into_iter().for_each(|range| uploads.drop_range(range));
}
