//! Descriptors that travel with frames, and a peer's mistakes with them.
//! In: Unix sockets, one TCP connection. Out: nothing but the verdict.
//! Each test that counts this process's descriptors does so by kind, so that tests beside it do not matter.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod limit;
mod pipes;

use std::fs::File;
use std::io::{IoSlice, Read as _, Seek as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use floe_transport::{Link, LinkError, Receiver, Sender};
use floe_wire::{BlockId, CopyToDevice, DevicePtr, FrameHeader, Message as _, ReleaseBlock, StreamId};
use limit::{Limit, join};
use rustix::cmsg_space;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

fn memory(name: &str) -> OwnedFd {
    memfd_create(name, MemfdFlags::CLOEXEC).unwrap()
}

fn halves(pair: pipes::Pair) -> (Sender, Receiver, Receiver) {
    let (one, other) = pair();
    let (sender, back) = one.split();
    let mut receiver = other.split().1;
    receiver.take_descriptors(true);
    (sender, receiver, back)
}

fn block(number: u64) -> ReleaseBlock {
    ReleaseBlock { block: BlockId(number) }
}

/// The links of this process to memory of this name: open descriptors only.
fn open_descriptors(name: &str) -> usize {
    let wanted = format!("/memfd:{name} (deleted)");
    let entries = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    entries.filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|to| to.to_str() == Some(&wanted))).count()
}

/// Writes bytes of a peer's own making, with descriptors.
fn write(socket: &UnixStream, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
    let mut room = [MaybeUninit::uninit(); cmsg_space!(ScmRights(64))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
    let count = sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::empty()).unwrap();
    assert_eq!(count, bytes.len());
}

fn frame(sequence: u64) -> [u8; 24] {
    let mut bytes = [0; 24];
    let header = FrameHeader { length: 8, kind: ReleaseBlock::KIND, sequence };
    bytes[..16].copy_from_slice(&header.encode());
    bytes
}

#[test]
fn descriptor_comes_with_its_frame_among_others() {
    for (kind, pair) in pipes::LOCAL {
        println!("over {kind}");
        let (sender, mut receiver, _back) = halves(pair);
        let file = memory("with-its-frame");
        File::from(file.try_clone().unwrap()).write_all(b"shared").unwrap();
        sender.post(&block(1)).unwrap();
        let mut numbered = 0;
        let sent = sender.send_with(&block(2), file.as_fd(), |sequence| numbered = sequence).unwrap();
        assert_eq!((sent, numbered), (2, 2));
        sender.send(&block(3), |_| ()).unwrap();
        for sequence in 1..=2 {
            assert_eq!(receiver.next().unwrap().unwrap().sequence, sequence);
        }
        let mut came = File::from(receiver.descriptor().unwrap());
        came.rewind().unwrap();
        let mut text = String::new();
        came.read_to_string(&mut text).unwrap();
        assert_eq!(text, "shared");
        assert_eq!(receiver.next().unwrap().unwrap().sequence, 3);
        assert!(receiver.descriptor().is_none());
    }
}

#[test]
fn descriptor_behind_bulk_data_is_not_lost() {
    for (kind, pair) in pipes::LOCAL {
        println!("over {kind}");
        let (sender, mut receiver, _back) = halves(pair);
        let file = memory("behind-bulk");
        let limit = Limit::of(&sender);
        let posting = limit.clone();
        let poster = std::thread::spawn(move || {
            let _limit = posting;
            let bytes = vec![7; 3_000_000];
            sender.post(&CopyToDevice { stream: StreamId(0), to: DevicePtr(0), bytes: &bytes }).unwrap();
            sender.send_with(&block(2), file.as_fd(), |_| ()).unwrap();
            sender
        });
        assert_eq!(receiver.next().unwrap().unwrap().payload.len(), 20 + 3_000_000);
        assert_eq!(receiver.next().unwrap().unwrap().kind, ReleaseBlock::KIND);
        assert!(receiver.descriptor().is_some());
        drop(join(poster));
    }
}

#[test]
fn descriptors_are_closed_where_none_is_taken() {
    for (kind, pair) in pipes::LOCAL {
        println!("over {kind}");
        let (sender, mut receiver, _back) = halves(pair);
        receiver.take_descriptors(false);
        let file = memory("none-is-taken");
        sender.send_with(&block(1), file.as_fd(), |_| ()).unwrap();
        assert_eq!(receiver.next().unwrap().unwrap().sequence, 1);
        assert!(receiver.descriptor().is_none());
        assert_eq!(open_descriptors("none-is-taken"), 1, "the sender's own");
    }
}

#[test]
fn peer_that_sends_many_leaves_one() {
    let (mut raw, other) = UnixStream::pair().unwrap();
    let mut receiver = Link::new(other.into()).split().1;
    receiver.take_descriptors(true);
    let file = memory("many");
    for sequence in 1..=50 {
        write(&raw, &frame(sequence), &[file.as_fd(); 64]);
    }
    raw.write_all(&frame(51)).unwrap();
    for sequence in 1..=51 {
        assert_eq!(receiver.next().unwrap().unwrap().sequence, sequence);
    }
    assert_eq!(open_descriptors("many"), 2, "the sender's own and one");
    drop(receiver.descriptor().unwrap());
    assert_eq!(open_descriptors("many"), 1);
    write(&raw, &frame(52), &[file.as_fd()]);
    assert_eq!(receiver.next().unwrap().unwrap().sequence, 52);
    receiver.take_descriptors(false);
    assert_eq!(open_descriptors("many"), 1, "what nobody asked for goes with the wish");
}

#[test]
fn a_link_over_tcp_carries_no_descriptor_and_still_works() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (peer, _) = listener.accept().unwrap();
    let (sender, _back) = Link::new(stream.into()).split();
    let mut receiver = Link::new(peer.into()).split().1;
    let file = memory("tcp");
    assert!(!sender.carries_descriptors());
    let refused = sender.send_with(&block(1), file.as_fd(), |_| unreachable!("nothing is sent"));
    assert!(matches!(refused, Err(LinkError::NoDescriptors)), "{refused:?}");
    sender.send(&block(1), |_| ()).unwrap();
    assert_eq!(receiver.next().unwrap().unwrap().sequence, 1);
}
