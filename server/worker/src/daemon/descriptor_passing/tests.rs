//! The two ends of the way to a worker.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use floe_transport::Sealer;
use floe_wire::{Decode as _, MemoryInfo, Message as _, StreamId, SynchronizeStream};

use super::*;
use crate::daemon::cache_channel::{CacheRequest, cache_ends};
use crate::daemon::move_notices::Leave;

fn connection(taker: &Taker) -> (Role, Link) {
    match taker.take().unwrap().unwrap() {
        Passed::Connection(role, link) => (role, link),
        Passed::Modules(_) => panic!("the way to the cache"),
    }
}

#[test]
fn the_way_to_the_cache_comes_ahead_of_the_session() {
    let (giver, taker) = pair(MOST).unwrap();
    let (daemon, worker) = cache_ends().unwrap();
    giver.give_modules(&worker).unwrap();
    drop(worker);
    let (ours, _theirs) = UnixStream::pair().unwrap();
    giver.give(Role::Session, Link::new(ours.into())).unwrap();
    let Passed::Modules(end) = taker.take().unwrap().unwrap() else { panic!("a connection") };
    assert_eq!(connection(&taker).0, Role::Session);
    end.ask(CacheRequest::Damaged([1; 32])).unwrap();
    assert_eq!(daemon.request().unwrap(), Some(CacheRequest::Damaged([1; 32])));
}

#[test]
fn grants_between_connections_reach_the_waiting_thread() {
    let (giver, taker) = pair(MOST).unwrap();
    let (grants, granted) = std::sync::mpsc::sync_channel(2);
    let taker = taker.telling(grants);
    let (ours, _theirs) = UnixStream::pair().unwrap();
    giver.grant(Granted { total: 5, left: 6 }).unwrap();
    giver.give(Role::Joined, Link::new(ours.into())).unwrap();
    giver.grant(Granted { total: 7, left: 8 }).unwrap();
    drop(giver);
    assert_eq!(connection(&taker).0, Role::Joined);
    assert!(taker.take().unwrap().is_none());
    let all: Vec<Granted> = granted.try_iter().collect();
    assert_eq!(all, [Granted { total: 5, left: 6 }, Granted { total: 7, left: 8 }]);
}

const MOST: u32 = 3;

#[test]
fn a_worker_that_takes_nothing_is_given_no_more_than_may_wait_and_nobody_waits_for_it() {
    let (giver, taker) = pair(MOST).unwrap();
    let give = || giver.give(Role::Joined, Link::new(UnixStream::pair().unwrap().0.into()));
    assert!((0..MOST).all(|_| give().is_ok()));
    for _ in 0..100 {
        assert_eq!(give().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
    taker.take().unwrap().unwrap();
    give().unwrap();
    assert_eq!(give().unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn a_worker_that_lies_about_taken_connections_is_not_waited_for() {
    let (giver, taker) = pair(u32::MAX).unwrap();
    while send(&taker.socket, TAKEN, SendFlags::DONTWAIT).is_ok() {}
    let mut given = 0;
    let refused = loop {
        match giver.give(Role::Joined, Link::new(UnixStream::pair().unwrap().0.into())) {
            Ok(()) => given += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused.kind(), io::ErrorKind::WouldBlock, "after {given}");
}

#[test]
fn words_about_taken_connections_are_read_one_at_a_time() {
    let (giver, taker) = pair(MOST).unwrap();
    // A reader that went on to the next would never end while a worker sends more.
    for _ in 0..5 {
        send(&taker.socket, TAKEN, SendFlags::DONTWAIT).unwrap();
    }
    assert!((0..5).all(|_| matches!(giver.hear(), Heard::Taken)));
    assert!(matches!(giver.hear(), Heard::Nothing));
}

#[test]
fn connections_come_in_order_with_their_roles_and_go_on_where_they_were() {
    let (giver, taker) = pair(MOST).unwrap();
    let mut peers = Vec::new();
    for role in [Role::Joined, Role::Session] {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut peer, mut link) = (Link::new(ours.into()), Link::new(theirs.into()));
        peer.send(&MemoryInfo {}).unwrap();
        link.receive(None).unwrap().unwrap();
        giver.give(role, link).unwrap();
        peers.push(peer);
    }
    for (peer, role) in peers.iter_mut().zip([Role::Joined, Role::Session]) {
        let (its, mut link) = connection(&taker);
        assert_eq!(its, role);
        peer.send(&SynchronizeStream { stream: StreamId(4) }).unwrap();
        let frame = link.receive(None).unwrap().unwrap();
        assert_eq!((frame.sequence, frame.kind), (2, SynchronizeStream::KIND));
        assert_eq!(SynchronizeStream::decode(frame.payload).unwrap().stream, StreamId(4));
    }
    drop(giver);
    assert!(taker.take().unwrap().is_none());
}

#[test]
fn the_keys_of_a_sealed_connection_go_along() {
    let (giver, taker) = pair(MOST).unwrap();
    let [(ours, theirs), (_, other)] = [UnixStream::pair().unwrap(), UnixStream::pair().unwrap()];
    let largest =
        SealedKeys { suite: 1, sending: [255; 32], sent: u64::MAX, receiving: [254; 32], received: u64::MAX - 1 };
    let mirrored = SealedKeys { sending: [254; 32], sent: 7, receiving: [255; 32], received: 3, ..largest.clone() };
    let keys = SealedKeys { sent: 3, received: 7, ..largest.clone() };
    let link = |socket: UnixStream, keys| {
        Link::resume(Parts { socket: socket.into(), sent: 1, received: 2, sealed: Some(keys) }).unwrap()
    };
    giver.give(Role::Session, link(ours, keys)).unwrap();
    let (_, mut near) = connection(&taker);
    assert_eq!(near.sealer(), Sealer::Token);
    let far = link(theirs, mirrored).into_parts().unwrap();
    let mut far = Link::resume(Parts { sent: 2, received: 1, ..far }).unwrap();
    near.send(&MemoryInfo {}).unwrap();
    far.send(&SynchronizeStream { stream: StreamId(9) }).unwrap();
    assert_eq!(far.receive(None).unwrap().unwrap().kind, MemoryInfo::KIND);
    let frame = near.receive(None).unwrap().unwrap();
    assert_eq!(SynchronizeStream::decode(frame.payload).unwrap().stream, StreamId(9));
    giver.give(Role::Session, link(other, largest.clone())).unwrap();
    let (_, taken) = connection(&taker);
    assert_eq!(taken.into_parts().unwrap().sealed, Some(largest), "the longest notice");
}

#[test]
fn a_descriptor_that_is_no_connection_is_refused_and_a_gone_worker_reported() {
    let (giver, taker) = pair(MOST).unwrap();
    send(&giver.socket, b"{}", SendFlags::empty()).unwrap();
    assert!(taker.take().is_err());
    drop(taker);
    let (ours, _theirs) = UnixStream::pair().unwrap();
    assert!(giver.give(Role::Session, Link::new(ours.into())).is_err());
}

#[test]
fn the_order_to_end_reaches_the_thread_that_waits_for_it_with_its_words() {
    let (giver, taker) = pair(MOST).unwrap();
    let (end, ordered) = std::sync::mpsc::channel();
    let order = EndOrder { words: "session 7 was ended: \"so\"".into() };
    giver.end(&order).unwrap();
    drop(giver);
    assert!(taker.ending(end).take().unwrap().is_none());
    assert_eq!(ordered.try_iter().collect::<Vec<_>>(), [order]);
}

#[test]
fn orders_about_a_move_reach_the_thread_that_waits_for_them_in_order() {
    let (giver, taker) = pair(MOST).unwrap();
    let (moves, ordered) = std::sync::mpsc::channel();
    let taker = taker.moving(moves);
    let (ours, theirs) = UnixStream::pair().unwrap();
    let leave = Leave { number: 4, importer: 9, same_gpu: false, stop_and_copy: true, keeps: false, patience_ms: 2000 };
    giver.order(MoveOrder::Leave(leave), Some(theirs.as_fd())).unwrap();
    drop(theirs);
    giver.order(MoveOrder::GoOn(4), None).unwrap();
    giver.give(Role::Joined, Link::new(UnixStream::pair().unwrap().0.into())).unwrap();
    drop(giver);
    assert_eq!(connection(&taker).0, Role::Joined);
    assert!(taker.take().unwrap().is_none());
    let all: Vec<Ordered> = ordered.try_iter().collect();
    assert_eq!(all.iter().map(|it| it.order).collect::<Vec<_>>(), [MoveOrder::Leave(leave), MoveOrder::GoOn(4)]);
    let stream = UnixStream::from(all.into_iter().next().unwrap().stream.unwrap());
    (&ours).write_all(b"x").unwrap();
    (&stream).read_exact(&mut [0]).unwrap();
}

/// The kernel gives a process that has its most descriptors the words alone.
#[test]
fn what_comes_without_its_descriptor_is_nobodys_and_what_is_behind_it_is_taken() {
    let (giver, taker) = pair(MOST).unwrap();
    let (noticed, notices) = std::sync::mpsc::channel();
    let taker = taker.noticing(noticed);
    let says = |said: &Said| send(&giver.socket, &serde_json::to_vec(said).unwrap(), SendFlags::NOSIGNAL).unwrap();
    says(&Said::Peer(PeerNotice::Dialed(7)));
    for role in [Role::Joined, Role::Peer] {
        says(&Said::Connection(Notice { role, sent: 1, received: 1, sealed: None }));
    }
    giver.give(Role::Joined, Link::new(UnixStream::pair().unwrap().0.into())).unwrap();
    assert_eq!(connection(&taker).0, Role::Joined);
    let (notice, descriptor) = notices.try_recv().unwrap();
    assert_eq!((notice, descriptor.is_none()), (PeerNotice::Dialed(7), true));
    assert!((0..3).all(|_| matches!(giver.hear(), Heard::Taken)), "the daemon does not count them any longer");
    // A session's own is its beginning.
    says(&Said::Connection(Notice { role: Role::Session, sent: 1, received: 1, sealed: None }));
    assert!(taker.take().is_err());
}
