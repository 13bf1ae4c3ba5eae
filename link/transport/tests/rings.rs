//! Links over rings: the peer that goes, lies, floods or does not read; many threads; what is left afterwards.
//! In: rings of this process and of children it kills. Out: nothing but the verdict.
//! It measures no times beyond "not for ever".
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod limit;
mod pipes;

use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use floe_transport::{Link, LinkError, Rings, Spin};
use floe_wire::{
    BlockId, CopyToDevice, Decode as _, DevicePtr, Message as _, ReleaseBlock, StreamId, SynchronizeContext,
};
use limit::{Limit, join};

const PATIENCE: Duration = Duration::from_secs(300);
const BYTES: u32 = 64 << 10;

fn soon() -> Option<Instant> {
    Some(Instant::now() + PATIENCE)
}

/// A link over rings whose other side is memory and a socket in a test's hands.
fn lone() -> (Link, UnixStream, File) {
    let (one, other) = UnixStream::pair().unwrap();
    let (rings, file) = Rings::offer(BYTES).unwrap();
    let mut link = Link::new(one.into());
    link.go_over(rings).unwrap();
    (link, other, file.into())
}

/// Writes an index of the side that did not offer: of what it reads (byte 128 of its page) or writes (byte 512).
fn lie(file: &mut File, at: u64, index: u64) {
    file.seek(SeekFrom::Start(at)).unwrap();
    file.write_all(&index.to_ne_bytes()).unwrap();
}

#[test]
fn posts_of_many_threads_arrive_whole_and_in_the_order_of_their_numbers() {
    let (client, server) = pipes::rings();
    let (sender, _back) = client.split();
    let (_there, mut receiver) = server.split();
    let limit = Limit::of(&sender);
    let posting: Vec<_> = (0..4_u64)
        .map(|thread| {
            let (sender, limit) = (sender.clone(), limit.clone());
            std::thread::spawn(move || {
                let _limit = limit;
                let bytes = vec![u8::try_from(thread).unwrap(); 40_000];
                for number in 0..2_000 {
                    sender.post(&ReleaseBlock { block: BlockId(thread << 32 | number) }).unwrap();
                    if number % 200 == 0 {
                        sender.post(&CopyToDevice { stream: StreamId(1), to: DevicePtr(2), bytes: &bytes }).unwrap();
                    }
                }
            })
        })
        .collect();
    let mut next = [0_u64; 4];
    for _ in 0..4 * (2_000 + 10) {
        let frame = receiver.next().unwrap().unwrap();
        if frame.kind == ReleaseBlock::KIND {
            let block = ReleaseBlock::decode(frame.payload).unwrap().block.0;
            let thread = usize::try_from(block >> 32).unwrap();
            assert_eq!(block & 0xffff_ffff, next[thread]);
            next[thread] += 1;
        } else {
            let bytes = CopyToDevice::decode(frame.payload).unwrap().bytes;
            assert!(bytes.len() == 40_000 && bytes.iter().all(|byte| *byte == bytes[0]));
        }
    }
    posting.into_iter().for_each(join);
}

#[test]
fn threads_that_wait_hear_when_the_peer_goes_whatever_they_wait_for() {
    let (link, peer, _memory) = lone();
    let (sender, mut receiver) = link.split();
    let _limit = Limit::of(&sender);
    receiver.set_spin(Spin::new(Some("0")));
    let readiness = receiver.readiness();
    let watching = std::thread::spawn(move || readiness.wait());
    let reading = std::thread::spawn(move || receiver.next().map(|frame| frame.is_none()));
    // Nobody reads, so this one waits for room.
    let bytes = vec![0; 1 << 20];
    let copy = CopyToDevice { stream: StreamId(1), to: DevicePtr(2), bytes: &bytes };
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| sender.send(&copy, |_| ()));
        std::thread::sleep(Duration::from_millis(20));
        drop(peer);
        assert!(matches!(writing.join().unwrap(), Err(LinkError::System { .. })));
    });
    assert!(matches!(join(reading), Ok(true)));
    join(watching);
}

#[test]
fn bytes_that_the_peer_wrote_before_its_end_are_read() {
    let (mut client, mut server) = pipes::rings();
    client.send(&ReleaseBlock { block: BlockId(7) }).unwrap();
    drop(client);
    // Long enough for the end to have been noticed.
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(server.receive(soon()).unwrap().unwrap().sequence, 1);
    assert_eq!(server.receive(soon()).unwrap(), None);
}

#[test]
fn a_peer_that_lies_violates_the_protocol() {
    let (mut link, _peer, mut memory) = lone();
    lie(&mut memory, 512, u64::from(BYTES) + 1);
    let error = link.receive(soon()).unwrap_err();
    assert!(error.is_broken_contract(), "{error}");
    let (mut link, _peer, mut memory) = lone();
    lie(&mut memory, 128, 1 << 40);
    // Bytes that fit are written before a writer reads the peer's index.
    let errors = (0..10_000).find_map(|_| link.send(&SynchronizeContext {}).err());
    assert!(errors.unwrap().is_broken_contract());
}

#[test]
fn bytes_that_are_no_frame_are_refused() {
    let (mut link, _peer, mut memory) = lone();
    lie(&mut memory, 4096 + u64::from(BYTES), u64::MAX);
    lie(&mut memory, 512, 16);
    assert!(link.receive(soon()).unwrap_err().is_broken_contract());
}

#[test]
fn a_write_that_is_stuck_ends_after_its_time() {
    let (mut link, _peer, _memory) = lone();
    link.limit_writes(Some(Duration::from_millis(20))).unwrap();
    let bytes = vec![0; 1 << 20];
    let copy = CopyToDevice { stream: StreamId(1), to: DevicePtr(2), bytes: &bytes };
    assert!(matches!(link.send(&copy), Err(LinkError::System { .. })));
}

#[test]
fn silence_ends_at_the_deadline() {
    let (mut link, mut peer, _memory) = lone();
    // Bytes on the socket are none of the rings'.
    peer.write_all(&[1; 100]).unwrap();
    let deadline = Instant::now() + Duration::from_millis(30);
    assert!(matches!(link.receive(Some(deadline)), Err(LinkError::TimedOut { .. })));
    assert!(Instant::now() >= deadline);
}

#[test]
fn rings_that_could_shrink_or_are_none_are_not_taken() {
    let file = rustix::fs::memfd_create("rings", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&file, 1 << 20).unwrap();
    assert!(Rings::take(&file, BYTES).is_err());
    rustix::fs::fcntl_add_seals(&file, rustix::fs::SealFlags::SHRINK).unwrap();
    assert!(Rings::take(&file, BYTES).is_ok());
    assert!(Rings::take(&file, 1 << 20).is_err());
    assert!(Rings::take(&file, 0).is_err());
    assert!(Rings::take(std::io::stdin(), BYTES).is_err());
}

#[test]
fn nothing_is_left_of_links_that_are_gone() {
    let count = |what: &str| std::fs::read_to_string("/proc/self/maps").unwrap().matches(what).count();
    for _ in 0..20 {
        let (client, server) = pipes::rings();
        drop((client.split(), server.split()));
    }
    let end = Instant::now() + PATIENCE;
    // Other tests of this file have rings of their own.
    while count("floe-rings") > 20 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(count("floe-rings") <= 20);
}

#[test]
fn descriptors_beside_the_rings_are_bounded() {
    let (one, other) = pipes::unix();
    let (offered, file) = Rings::offer(BYTES).unwrap();
    let (mut client, mut server) = pipes::go_over(one, other, offered, &file);
    server.take_descriptors(true);
    for _ in 0..10 {
        client.send_with(&SynchronizeContext {}, file.as_fd()).unwrap();
    }
    for sequence in 1..=10 {
        assert_eq!(server.receive(soon()).unwrap().unwrap().sequence, sequence);
    }
    assert!(server.descriptor().is_some());
    assert!(server.descriptor().is_none(), "all but the last are closed");
}
