//! Transfers of a peer link against honest and lying peers.
//! In: announcements and words of a peer that the test plays. Out: the verdict.
//! No socket and no device is here.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use floe_abi::CudaError;

use super::*;

const AT: DevicePtr = DevicePtr(0x2000_0000_0000);
/// Bytes of a chunk of a short transfer.
const CHUNK: u64 = 1 << 20;

fn sending(bytes: u64) -> Book<u64> {
    let mut book = Book::default();
    book.announce_send(1, (AT, bytes), || Ok(1)).unwrap().unwrap();
    book
}

fn receiving(bytes: u64) -> Book<u64> {
    let mut book = Book::default();
    book.announce_receive(1, (AT, bytes), || Ok(1)).unwrap();
    assert_eq!(book.begin_receive(1), Some(bytes));
    book
}

/// The offsets and bytes of all chunks of a transfer.
fn cut(bytes: u64) -> Vec<(u64, u64)> {
    let mut book = sending(bytes);
    book.begin_send(1);
    book.wanted(1, bytes).unwrap();
    std::iter::from_fn(|| book.next_chunk()).map(|chunk| (chunk.offset, chunk.bytes)).collect()
}

#[test]
fn longer_transfers_have_longer_chunks_and_each_has_its_place_at_the_peer() {
    let mebibytes = |count: u64| count << 20;
    for (bytes, longest) in [(mebibytes(64) - 1, 1), (mebibytes(64), 2), (mebibytes(128), 4), (mebibytes(1024) + 1, 4)]
    {
        let (chunks, mut peer) = (cut(bytes), receiving(bytes));
        assert_eq!(chunks.first(), Some(&(0, mebibytes(longest))), "{bytes}");
        assert_eq!(chunks.iter().map(|chunk| chunk.1).sum::<u64>(), bytes);
        for (offset, length) in chunks {
            assert_eq!(peer.claim(1, offset, length), Ok(DevicePtr(AT.0 + offset)));
        }
    }
    let mut peer = receiving(mebibytes(128));
    assert!(peer.claim(1, 0, CHUNK).is_err(), "a chunk of a short transfer");
    assert!(peer.claim(1, CHUNK, 4 * CHUNK).is_err(), "between two places");
}

#[test]
fn bytes_leave_when_both_streams_have_got_there_in_whichever_order() {
    let mut book = sending(2 * CHUNK + 5);
    book.begin_send(1);
    assert_eq!(book.next_chunk(), None, "the peer has no place for them");
    book.wanted(1, 2 * CHUNK + 5).unwrap();
    let all: Vec<_> =
        std::iter::from_fn(|| book.next_chunk()).map(|it| (it.offset, it.at.0 - AT.0, it.bytes)).collect();
    assert_eq!(all, [(0, 0, CHUNK), (CHUNK, CHUNK, CHUNK), (2 * CHUNK, 2 * CHUNK, 5)]);
    assert_eq!(book.done(1), Ok(1));
    assert!(book.end().is_empty());
    let mut book: Book<u64> = Book::default();
    book.wanted(1, 7).unwrap();
    book.announce_send(1, (AT, 7), || Ok(1)).unwrap().unwrap();
    assert_eq!(book.next_chunk(), None, "the stream is not there");
    book.begin_send(1);
    assert_eq!(book.next_chunk().unwrap().bytes, 7);
}

#[test]
fn a_transfer_of_no_bytes_is_one_chunk_so_that_both_wait() {
    let mut book = sending(0);
    book.begin_send(1);
    book.wanted(1, 0).unwrap();
    assert_eq!(book.next_chunk().map(|chunk| chunk.bytes), Some(0));
    assert_eq!(book.next_chunk(), None);
    let mut book = receiving(0);
    assert_eq!(book.claim(1, 0, 0), Ok(AT));
    assert_eq!(book.landed(1), Some(1));
}

#[test]
fn a_transfer_is_over_when_each_chunk_has_come_once_and_landed() {
    let mut book = receiving(CHUNK + 1);
    assert_eq!(book.claim(1, CHUNK, 1), Ok(DevicePtr(AT.0 + CHUNK)));
    assert!(book.claim(1, CHUNK, 1).is_err(), "twice");
    assert_eq!(book.landed(1), None);
    assert_eq!(book.claim(1, 0, CHUNK), Ok(AT));
    assert_eq!(book.landed(1), Some(1));
    assert!(book.claim(1, 0, CHUNK).is_err(), "it is over");
}

#[test]
fn bytes_that_nobody_announced_have_no_place() {
    let mut book = receiving(CHUNK + 1);
    for (transfer, offset, bytes) in [
        (2, 0, CHUNK),
        (1, 1, 1),
        (1, 0, 1),
        (1, CHUNK, 2),
        (1, 2 * CHUNK, 0),
        (1, u64::MAX - CHUNK + 1, CHUNK),
        (0, 0, 0),
    ] {
        assert!(book.claim(transfer, offset, bytes).is_err(), "{transfer} {offset} {bytes}");
    }
    let mut early: Book<u64> = Book::default();
    early.announce_receive(1, (AT, CHUNK), || Ok(1)).unwrap();
    assert!(early.claim(1, 0, CHUNK).is_err(), "its stream has not got there");
}

#[test]
fn a_peer_that_wants_or_has_what_cannot_be_breaks_the_link() {
    let mut book = sending(10);
    assert!(book.wanted(1, 11).is_err(), "other bytes");
    assert!(book.done(1).is_err(), "nothing was sent");
    book.wanted(1, 10).unwrap();
    assert!(book.wanted(1, 10).is_err(), "twice");
    book.wanted(2, 10).unwrap();
    assert!(book.wanted(2, 10).is_err(), "twice before it is announced");
    assert!(book.announce_send(2, (AT, 9), || Ok(2)).unwrap().is_err(), "it wanted other bytes");
    book.begin_send(1);
    assert!(book.next_chunk().is_some());
    assert_eq!(book.done(1), Ok(1));
    assert!(book.done(1).is_err() && book.wanted(1, 10).is_err(), "it is over");
    for transfer in 3..MOST as u64 + 3 {
        book.wanted(transfer, 1).unwrap();
    }
    assert!(book.wanted(MOST as u64 + 3, 1).is_err(), "too many");
}

#[test]
fn a_client_that_announces_what_cannot_be_violates_the_protocol() {
    let mut book = sending(1);
    let mut send = |transfer, bytes| book.announce_send(transfer, (AT, bytes), || Ok(0)).map(drop);
    assert!(matches!(send(1, 1), Err(Fault::ProtocolViolation(_))));
    assert!(matches!(send(2, u64::MAX), Err(Fault::ProtocolViolation(_))));
    for transfer in 2..=MOST as u64 {
        send(transfer, 1).unwrap();
    }
    assert!(matches!(send(MOST as u64 + 1, 1), Err(Fault::Explained(CudaError::OUT_OF_MEMORY, _))));
}

#[test]
fn all_that_wait_are_named_when_the_link_ends() {
    let mut book = sending(1);
    book.announce_receive(1, (AT, 1), || Ok(2)).unwrap();
    assert_eq!(book.end(), [1, 2]);
    assert_eq!((book.next_chunk(), book.begin_receive(1), book.landed(1)), (None, None, None));
    book.begin_send(1);
}
