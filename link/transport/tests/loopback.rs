//! Links over real sockets of this machine: order, bulk bytes, limits, deadlines, and what a peer can do wrong.
//! In: loopback TCP and Unix sockets. Out: nothing but the verdict.
//! It measures no times beyond "not for ever".
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod limit;
mod pipes;

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use floe_transport::{Address, Frame, Leave, Link, LinkError, Listener, Peer, Traffic, Trust, connect};
use floe_wire::{
    BlockId, CopyToDevice, Decode as _, DevicePtr, FrameHeader, Message as _, ReleaseBlock, StreamId,
    SynchronizeContext,
};
use limit::{Limit, join};
use socket2::{Domain, Socket, Type};

const PATIENCE: Duration = Duration::from_secs(300);

fn soon() -> Option<Instant> {
    Some(Instant::now() + PATIENCE)
}

fn accept(listener: &Listener) -> (Link, Peer) {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Some(pair) = listener.accept().unwrap() {
            return pair;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("no connection came");
}

fn pair_on(address: &Address) -> (Link, Link, Peer) {
    let listener = Listener::bind(address).unwrap();
    let client = connect(listener.address(), PATIENCE, &Trust::default()).unwrap();
    let (server, peer) = accept(&listener);
    (client, server, peer)
}

fn socket_path(name: &str) -> Address {
    Address::unix(std::env::temp_dir().join(format!("floe-transport-{}-{name}", std::process::id())))
}

/// A raw socket and the link at its other end.
fn raw_pair() -> (UnixStream, Link) {
    let (one, other) = UnixStream::pair().unwrap();
    (one, Link::new(other.into()))
}

fn exchange(client: Link, server: Link) {
    let (sender, _keep) = client.split();
    let (_other, mut receiver) = server.split();
    let traffic = [(); 2].map(|()| Arc::new(Traffic::default()));
    sender.count(&traffic[0]);
    receiver.count(&traffic[1]);
    let limit = Limit::of(&sender);
    let bulk: Vec<u8> = (0..3_000_000_u32).map(|index| index.to_le_bytes()[1]).collect();
    for block in 1..=1000 {
        assert_eq!(sender.post(&ReleaseBlock { block: BlockId(block) }).unwrap(), block);
    }
    let copy = CopyToDevice { stream: StreamId(1), to: DevicePtr(2), bytes: &bulk };
    let poster = {
        let sender = sender.clone();
        let bulk = bulk.clone();
        let limit = limit.clone();
        std::thread::spawn(move || {
            let _limit = limit;
            let copy = CopyToDevice { stream: StreamId(1), to: DevicePtr(2), bytes: &bulk };
            sender.post(&copy).unwrap();
            let hollow = CopyToDevice { bytes: &[], ..copy };
            sender.post_filled(&hollow, bulk.len(), |bytes| bytes.copy_from_slice(&bulk)).unwrap();
            sender.post(&SynchronizeContext {}).unwrap();
        })
    };
    for block in 1..=1000 {
        let frame = receiver.next().unwrap().unwrap();
        assert_eq!((frame.kind, frame.sequence), (ReleaseBlock::KIND, block));
        assert_eq!(ReleaseBlock::decode(frame.payload).unwrap().block, BlockId(block));
    }
    for sequence in [1001, 1002] {
        let frame = receiver.next().unwrap().unwrap();
        assert_eq!(frame.sequence, sequence);
        assert_eq!(CopyToDevice::decode(frame.payload).unwrap(), copy);
    }
    assert_eq!(receiver.next().unwrap().unwrap().kind, SynchronizeContext::KIND);
    join(poster);
    let [ours, theirs] = traffic;
    assert_eq!((ours.sent(), theirs.sent(), ours.received()), (theirs.received(), 0, 0));
    assert!(ours.sent() > 2 * 3_000_000 + 1000 * 16, "{ours:?}");
}

#[test]
fn frames_arrive_in_order_over_tcp() {
    let (client, server, peer) = pair_on(&"tcp://127.0.0.1:0".parse().unwrap());
    assert!(matches!(peer, Peer::Tcp(address) if address.ip().is_loopback()));
    exchange(client, server);
}

#[test]
fn frames_arrive_in_order_over_unix_and_the_kernel_vouches_for_the_peer() {
    let address = socket_path("order");
    let (client, server, peer) = pair_on(&address);
    let pid = i32::try_from(std::process::id()).unwrap();
    assert_eq!(peer, Peer::Unix { uid: rustix::process::geteuid().as_raw(), pid });
    exchange(client, server);
    let Address::Unix(path, _) = address else { unreachable!() };
    assert!(!path.exists(), "the listener removes its socket");
}

#[test]
fn frames_arrive_in_order_over_rings() {
    let (client, server) = pipes::rings();
    exchange(client, server);
}

#[test]
fn stale_socket_file_is_replaced_and_a_live_one_is_not() {
    let address = socket_path("stale");
    let Address::Unix(path, _) = &address else { unreachable!() };
    drop(std::os::unix::net::UnixListener::bind(path).unwrap());
    assert!(path.exists());
    let listener = Listener::bind(&address).unwrap();
    assert!(matches!(Listener::bind(&address), Err(LinkError::System { .. })));
    drop(listener);
    assert!(!path.exists());
}

#[test]
fn posted_frames_leave_by_themselves() {
    for (kind, pair) in pipes::ALL {
        println!("over {kind}");
        let (client, mut server) = pair();
        let (sender, _receiver) = client.split();
        for round in 1..=3 {
            sender.post(&ReleaseBlock { block: BlockId(round) }).unwrap();
            assert_eq!(server.receive(soon()).unwrap().unwrap().sequence, round);
            // Long enough for the flusher to have gone to sleep in between.
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn sequence_is_known_before_the_frame_leaves() {
    for (kind, pair) in pipes::ALL {
        println!("over {kind}");
        let (client, mut server) = pair();
        let (sender, _receiver) = client.split();
        let mut noted = 0;
        sender
            .send(&SynchronizeContext {}, |sequence| {
                noted = sequence;
                assert!(matches!(server.receive(Some(Instant::now())), Err(LinkError::TimedOut { .. })));
            })
            .unwrap();
        assert_eq!(noted, 1);
        assert_eq!(server.receive(soon()).unwrap().unwrap().sequence, 1);
    }
}

#[test]
fn sequences_are_noted_one_at_a_time_and_in_order() {
    for (kind, pair) in pipes::ALL {
        println!("over {kind}");
        let (client, server) = pair();
        let ((sender, _own), (_other, mut receiver)) = (client.split(), server.split());
        let (last, in_order, bulk) = (AtomicU64::new(0), AtomicU64::new(0), vec![7; 100_000]);
        let note = |sequence| {
            let before = last.load(Ordering::Relaxed);
            std::thread::yield_now();
            last.store(sequence, Ordering::Relaxed);
            in_order.fetch_add(u64::from(before + 1 == sequence), Ordering::Relaxed);
        };
        std::thread::scope(|scope| {
            let limit = Limit::of(&sender);
            for bytes in [&[][..], &bulk, &[]] {
                let copy = CopyToDevice { stream: StreamId(1), to: DevicePtr(2), bytes };
                let (sender, note, limit) = (&sender, &note, limit.clone());
                scope.spawn(move || {
                    let _limit = limit;
                    for _ in 0..50 {
                        sender.post_numbered(&copy, note, Leave::Soon).unwrap();
                    }
                });
            }
            for sequence in 1..=150 {
                assert_eq!(receiver.next().unwrap().unwrap().sequence, sequence);
            }
        });
        assert_eq!((last.into_inner(), in_order.into_inner()), (150, 150));
    }
}

#[test]
fn link_goes_on_in_another_process_between_two_frames() {
    let (mut client, mut server) = pipes::unix();
    client.send(&ReleaseBlock { block: BlockId(1) }).unwrap();
    client.send(&ReleaseBlock { block: BlockId(2) }).unwrap();
    assert_eq!(server.receive(soon()).unwrap().unwrap().sequence, 1);
    server.send(&SynchronizeContext {}).unwrap();
    let parts = server.into_parts().unwrap();
    assert_eq!((parts.sent, parts.received), (1, 1));
    let (sender, mut receiver) = Link::resume(parts).unwrap().split();
    let _limit = Limit::of(&sender);
    let frame = receiver.next().unwrap().unwrap();
    assert_eq!(ReleaseBlock::decode(frame.payload).unwrap().block, BlockId(2));
    assert_eq!(sender.send(&SynchronizeContext {}, |_| ()).unwrap(), 2);
    assert_eq!(client.receive(soon()).unwrap().unwrap().sequence, 1);
    assert_eq!(client.receive(soon()).unwrap().unwrap().sequence, 2);
}

#[test]
fn end_between_frames_is_none_and_inside_a_frame_an_error() {
    for (_, pair) in pipes::ALL {
        let (client, mut server) = pair();
        drop(client);
        assert_eq!(server.receive(soon()).unwrap(), None);
    }

    let (mut raw, mut server) = raw_pair();
    raw.write_all(&FrameHeader { length: 8, kind: 1, sequence: 1 }.encode()).unwrap();
    raw.write_all(&[0; 5]).unwrap();
    drop(raw);
    assert!(matches!(server.receive(soon()), Err(LinkError::CutOff { have: 21, needed: 24 })));
}

#[test]
fn frame_over_the_limit_is_refused_before_its_bytes_come() {
    let (mut raw, mut server) = raw_pair();
    server.limit_payload(1000);
    raw.write_all(&FrameHeader { length: 1001, kind: 1, sequence: 1 }.encode()).unwrap();
    let error = server.receive(soon()).unwrap_err();
    assert!(error.is_broken_contract());
    assert_eq!(error.to_string(), "frame.length at byte 0: a payload of 1001 bytes is over the limit: 1000");
}

#[test]
fn frame_out_of_sequence_is_refused() {
    let (mut raw, mut server) = raw_pair();
    raw.write_all(&FrameHeader { length: 0, kind: 1, sequence: 2 }.encode()).unwrap();
    assert!(matches!(server.receive(soon()), Err(LinkError::Sequence { expected: 1, got: 2 })));
}

#[test]
fn silence_ends_at_the_deadline_even_when_bytes_trickle() {
    let (mut raw, mut server) = raw_pair();
    raw.write_all(&[0; 3]).unwrap();
    let deadline = Instant::now() + Duration::from_millis(50);
    assert!(matches!(server.receive(Some(deadline)), Err(LinkError::TimedOut { .. })));
    assert!(Instant::now() >= deadline);
}

#[test]
fn closed_link_ends_the_receiver_and_refuses_posts() {
    for (kind, pair) in pipes::ALL {
        println!("over {kind}");
        let (client, server) = pair();
        let (sender, mut receiver) = client.split();
        let waiting = std::thread::spawn(move || receiver.next().map(|frame: Option<Frame<'_>>| frame.is_none()));
        sender.close();
        assert!(matches!(join(waiting), Ok(true)));
        assert!(matches!(sender.post(&SynchronizeContext {}), Err(LinkError::Closed)));
        drop(server);
    }
}

#[test]
fn sending_to_a_peer_that_is_gone_is_an_error_and_no_signal() {
    for (kind, pair) in pipes::ALL {
        println!("over {kind}");
        let (client, server) = pair();
        let (sender, _receiver) = client.split();
        let _limit = Limit::of(&sender);
        drop(server);
        let end = Instant::now() + PATIENCE;
        // It may take a moment until this side has noticed.
        let sent = std::iter::repeat_with(|| sender.send(&SynchronizeContext {}, |_| ()));
        let failed = sent.take_while(|_| Instant::now() < end).find_map(Result::err);
        assert!(matches!(failed, Some(LinkError::System { .. })), "{failed:?}");
        assert!(matches!(sender.post(&SynchronizeContext {}), Err(LinkError::System { .. })));
    }
}

#[test]
fn a_poster_that_dies_inside_a_frame_breaks_the_link_instead_of_its_bytes() {
    for (kind, pair) in pipes::ALL {
        println!("over {kind}");
        let (client, mut server) = pair();
        let (sender, _receiver) = client.split();
        let dying = sender.clone();
        let copy = CopyToDevice { stream: StreamId(1), to: DevicePtr(2), bytes: &[] };
        let thread = std::thread::spawn(move || dying.post_filled(&copy, 10, |_| panic!("on purpose")).is_ok());
        assert!(thread.join().is_err());
        assert!(sender.post(&SynchronizeContext {}).is_err());
        drop((sender, _receiver));
        assert_eq!(server.receive(soon()).unwrap(), None, "nothing of the broken frame has left");
    }
}

#[test]
fn refused_connection_names_the_address() {
    // Bound, so that the system gives the port to nobody else, and nobody listens.
    let bound = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    bound.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let address = format!("tcp://{}", bound.local_addr().unwrap().as_socket().unwrap()).parse().unwrap();
    let error = connect(&address, PATIENCE, &Trust::default()).unwrap_err();
    assert!(error.to_string().starts_with(&format!("connecting to {address}: ")), "{error}");
}

#[test]
fn threads_end_with_their_links() {
    let before = threads();
    for _ in 0..20 {
        for (_, pair) in pipes::ALL {
            let (client, server) = pair();
            drop((client.split(), server.split()));
        }
    }
    let end = Instant::now() + PATIENCE;
    while threads() > before + 5 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    // Other tests of this file run beside this one, hence the slack; 120 flushers and 40 watchers would have stayed.
    assert!(threads() < before + 20);
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn accepted_tcp_sockets_do_not_delay_small_frames() {
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap()).unwrap();
    let Address::Tcp { host, port } = listener.address() else { unreachable!() };
    let _client = TcpStream::connect((host.as_str(), *port)).unwrap();
    let (link, _) = accept(&listener);
    let socket = link.into_parts().unwrap().socket;
    assert!(rustix::net::sockopt::tcp_nodelay(socket.as_fd()).unwrap());
}
