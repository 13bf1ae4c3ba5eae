//! Bulk data: read straight into their place, written from where they lie, given back when the link breaks.
//! In: loopback Unix sockets. Out: nothing but the verdict.
//! It measures no times beyond "not for ever".
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod limit;
mod pipes;

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use floe_transport::{Arrival, BorrowedBuffer, Link, LinkError, Now, Receiver, Sender, Spin};
use floe_wire::{
    BlockId, CopyToDevice, Decode as _, DevicePtr, FrameHeader, Message as _, PIECE_BYTES, ReleaseBlock, StreamId,
};
use limit::{Limit, join};

const PATIENCE: Duration = Duration::from_secs(300);
const HOLLOW: CopyToDevice<'static> = CopyToDevice { stream: StreamId(1), to: DevicePtr(2), bytes: &[] };

/// Bytes that count when they are given back.
struct Counted {
    bytes: Vec<u8>,
    back: Arc<AtomicUsize>,
}

impl BorrowedBuffer for Counted {
    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn with_bytes(&self, write: &mut dyn FnMut(&[u8])) {
        write(&self.bytes);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.back.fetch_add(1, Ordering::SeqCst);
    }
}

fn data(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| (index / 3).to_le_bytes()[0]).collect()
}

fn borrowed(bytes: usize, back: &Arc<AtomicUsize>) -> Box<dyn BorrowedBuffer> {
    Box::new(Counted { bytes: data(bytes), back: Arc::clone(back) })
}

fn halves(pair: pipes::Pair) -> (Sender, Receiver) {
    let (client, server) = pair();
    let (sender, _) = client.split();
    let (_, receiver) = server.split();
    (sender, receiver)
}

fn wait_for(count: &AtomicUsize, expected: usize) {
    let end = Instant::now() + PATIENCE;
    while count.load(Ordering::SeqCst) != expected {
        assert!(Instant::now() < end, "given back: {}", count.load(Ordering::SeqCst));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Reads the next frame, which must be bulk, into memory of its own.
fn bulk(receiver: &mut Receiver) -> (u64, Vec<u8>) {
    let Some(Arrival::Bulk(mut bulk)) = receiver.next_arrival(CopyToDevice::KIND).unwrap() else {
        panic!("not a bulk frame");
    };
    assert_eq!(CopyToDevice::decode(&bulk.hollow().unwrap()).unwrap(), HOLLOW);
    let mut bytes = vec![0; bulk.left()];
    let middle = bytes.len() / 3;
    bulk.read(&mut bytes[..middle]).unwrap();
    bulk.read(&mut bytes[middle..]).unwrap();
    (bulk.sequence(), bytes)
}

#[test]
fn borrowed_bytes_keep_their_place_between_other_frames() {
    for (kind, pair) in pipes::ALL {
        println!("over {kind}");
        let (sender, mut receiver) = halves(pair);
        let _limit = Limit::of(&sender);
        let back = Arc::new(AtomicUsize::new(0));
        let sizes = [100, 70_000, PIECE_BYTES];
        let reading = std::thread::spawn(move || {
            for (index, size) in sizes.into_iter().enumerate() {
                let release = 2 * index as u64 + 1;
                let Some(Arrival::Frame(frame)) = receiver.next_arrival(CopyToDevice::KIND).unwrap() else { panic!() };
                assert_eq!((frame.kind, frame.sequence), (ReleaseBlock::KIND, release));
                if size < 64 << 10 {
                    let Some(Arrival::Frame(frame)) = receiver.next_arrival(CopyToDevice::KIND).unwrap() else {
                        panic!()
                    };
                    assert_eq!(CopyToDevice::decode(frame.payload).unwrap().bytes, data(size));
                } else {
                    assert_eq!(bulk(&mut receiver), (release + 1, data(size)));
                }
            }
        });
        for size in sizes {
            sender.post(&ReleaseBlock { block: BlockId(1) }).unwrap();
            sender.post_borrowed(&HOLLOW, borrowed(size, &back)).unwrap();
        }
        join(reading);
        wait_for(&back, sizes.len());
    }
}

#[test]
fn posting_borrowed_bytes_does_not_wait() {
    for (kind, pair) in pipes::ALL {
        println!("over {kind}");
        let (sender, receiver) = halves(pair);
        let back = Arc::new(AtomicUsize::new(0));
        // Far more than any socket buffer holds, and nobody reads.
        for _ in 0..20 {
            sender.post_borrowed(&HOLLOW, borrowed(PIECE_BYTES, &back)).unwrap();
            sender.post(&ReleaseBlock { block: BlockId(1) }).unwrap();
        }
        assert!(back.load(Ordering::SeqCst) < 2);
        // The link breaks under the writer, and everything goes back.
        drop(receiver);
        wait_for(&back, 20);
        assert!(sender.post_borrowed(&HOLLOW, borrowed(10, &back)).is_err());
        wait_for(&back, 21);
    }
}

#[test]
fn closing_gives_everything_back_that_was_not_sent() {
    for (kind, pair) in pipes::ALL {
        println!("over {kind}");
        let (sender, _receiver) = halves(pair);
        let back = Arc::new(AtomicUsize::new(0));
        for _ in 0..5 {
            sender.post_borrowed(&HOLLOW, borrowed(PIECE_BYTES, &back)).unwrap();
        }
        sender.close();
        wait_for(&back, 5);
    }
}

#[test]
fn a_message_that_waits_follows_borrowed_data() {
    for (kind, pair) in pipes::ALL {
        println!("over {kind}");
        let (sender, mut receiver) = halves(pair);
        let _limit = Limit::of(&sender);
        let back = Arc::new(AtomicUsize::new(0));
        let reading = std::thread::spawn(move || {
            assert_eq!(bulk(&mut receiver).1, data(PIECE_BYTES));
            assert_eq!(bulk(&mut receiver).1, data(1 << 20));
            receiver.next().unwrap().unwrap().kind
        });
        sender.post_borrowed(&HOLLOW, borrowed(PIECE_BYTES, &back)).unwrap();
        sender.post(&CopyToDevice { bytes: &data(1 << 20), ..HOLLOW }).unwrap();
        sender.send(&ReleaseBlock { block: BlockId(1) }, |_| ()).unwrap();
        assert_eq!(back.load(Ordering::SeqCst), 1);
        assert_eq!(join(reading), ReleaseBlock::KIND);
    }
}

#[test]
fn queued_frames_leave_with_the_flush_at_the_latest() {
    for (kind, pair) in pipes::ALL {
        println!("over {kind}");
        let (client, mut server) = pair();
        let (sender, _receiver) = client.split();
        let (mut received, until) = (0, Instant::now() + PATIENCE);
        loop {
            // Long enough for the flusher to go to sleep. Then only the flush sends these; on a busy machine it may still
            // be awake, and sends them itself.
            std::thread::sleep(Duration::from_millis(50));
            let queued = [(); 3].map(|()| sender.queue(&ReleaseBlock { block: BlockId(1) }).unwrap());
            let has_left = match server.receive(Some(Instant::now() + Duration::from_millis(20))) {
                Ok(Some(frame)) => frame.sequence,
                Err(LinkError::TimedOut { .. }) => received,
                other => panic!("{other:?}"),
            };
            sender.flush().unwrap();
            for sequence in has_left + 1..=queued[2] {
                assert_eq!(server.receive(Some(Instant::now() + PATIENCE)).unwrap().unwrap().sequence, sequence);
            }
            if has_left == std::mem::replace(&mut received, queued[2]) {
                break;
            }
            assert!(Instant::now() < until, "the flusher does not sleep");
        }
    }
}

#[test]
fn data_left_unread_break_the_link() {
    for (kind, pair) in pipes::ALL {
        println!("over {kind}");
        let (sender, mut receiver) = halves(pair);
        let _limit = Limit::of(&sender);
        let posting =
            std::thread::spawn(move || sender.post(&CopyToDevice { bytes: &data(100_000), ..HOLLOW }).is_ok());
        let arrival = receiver.next_arrival(CopyToDevice::KIND).unwrap();
        assert!(matches!(arrival, Some(Arrival::Bulk(_))));
        drop(arrival);
        assert!(matches!(receiver.next(), Err(LinkError::Closed)));
        drop(receiver);
        let _ = join(posting);
    }
}

#[test]
fn a_bulk_frame_whose_length_lies_is_refused() {
    let (mut raw, other) = UnixStream::pair().unwrap();
    let (_, mut receiver) = Link::new(other.into()).split();
    let mut frame = FrameHeader { length: 100_020, kind: CopyToDevice::KIND, sequence: 1 }.encode().to_vec();
    frame.extend([0; 16]);
    frame.extend(99_999_u32.to_le_bytes());
    raw.write_all(&frame).unwrap();
    let Some(Arrival::Bulk(bulk)) = receiver.next_arrival(CopyToDevice::KIND).unwrap() else { panic!() };
    assert!(bulk.hollow().unwrap_err().is_broken_contract());
}

#[test]
fn looking_now_waits_for_nothing_but_the_rest_of_a_frame() {
    let (mut raw, other) = UnixStream::pair().unwrap();
    let (_, mut receiver) = Link::new(other.into()).split();
    receiver.set_spin(Spin::new(Some("50")));
    assert!(matches!(receiver.arrival_now(0).unwrap(), Now::Nothing));
    let header = FrameHeader { length: 8, kind: ReleaseBlock::KIND, sequence: 1 }.encode();
    raw.write_all(&header[..7]).unwrap();
    assert!(matches!(receiver.arrival_now(0).unwrap(), Now::Nothing));
    raw.write_all(&header[7..]).unwrap();
    let writing = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        raw.write_all(&[5, 0, 0, 0, 0, 0, 0, 0]).unwrap();
        let mut rest = Vec::new();
        raw.read_to_end(&mut rest).unwrap();
    });
    let Now::Came(Arrival::Frame(frame)) = receiver.arrival_now(0).unwrap() else { panic!("the frame was begun") };
    assert_eq!(ReleaseBlock::decode(frame.payload).unwrap().block, BlockId(5));
    drop(receiver);
    join(writing);
}
