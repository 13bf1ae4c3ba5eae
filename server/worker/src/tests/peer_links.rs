//! Sessions of different servers that send each other bytes, and peers that lie.
//! In: messages of both clients; the daemons, which the test plays. Out: the verdict.
//! Connections are pairs of Unix sockets.

use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};

use super::sharer::{KEY, Session};
use super::*;
use crate::daemon::peer_notices::{PeerNotice, Refused};
use crate::peer::link::opening::{Purpose, connect};
use crate::peer::proof::Key;

const LINK: PeerLinkId = PeerLinkId(9);
const TICKET: TicketId = TicketId(4);
const STREAM: StreamId = StreamId(1);
const EXTERNAL_DEVICE: u32 = 911;
const INVALID_HANDLE: u32 = 400;
const NOT_PERMITTED: u32 = 800;
const CHUNK: u64 = 1 << 20;

fn session(number: u64) -> Session {
    let mut session = Session::new(number, 4 * BLOCK, PATIENCE);
    session.client.memory();
    session.client.send(&CreateStream { stream: STREAM, flags: 1, priority: 0 });
    session
}

/// The status of the reply to this request, past words about streams.
fn status_of(session: &mut Session, sent: u64) -> u32 {
    loop {
        match session.client.get().expect("the session is there") {
            Got::Reply { request, status, earlier, .. } if request == sent => {
                return if status == 0 { earlier } else { status };
            }
            Got::Progress(..) => {}
            other => panic!("expected the reply to {sent}: {other:?}"),
        }
    }
}

fn synchronize(session: &mut Session) -> u32 {
    let sent = session.client.send(&SynchronizeStream { stream: STREAM });
    status_of(session, sent)
}

fn connecting(lanes: u32, sealed: bool) -> ConnectPeer<'static> {
    ConnectPeer { link: LINK, server: "other", session: 2, ticket: TICKET, key: &KEY, lanes, sealed }
}

/// Gives a connection to a worker as its daemon does, behind the other worker's greeting.
fn lead(to: &Session, socket: UnixStream) {
    let mut link = Link::new(socket.into());
    let frame = link.receive(Some(Instant::now() + PATIENCE)).unwrap().unwrap();
    let (request, hello) = (frame.sequence, PeerHello::decode(frame.payload).unwrap());
    assert_eq!((hello.magic, hello.session), (MAGIC, 2));
    link.send(&Reply { request, status: 0, earlier: 0, detail: "", body: &[] }).unwrap();
    to.client.giver.give(Role::Peer, link).unwrap();
}

/// Gives the first session as many connections as it asks for; the other ends.
fn dialed(from: &Session, lanes: u32) -> Vec<UnixStream> {
    let dial = |_| {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let dial = from.dialed();
        assert_eq!(dial.server, "other");
        from.notify(&PeerNotice::Dialed(dial.request), Some(&OwnedFd::from(ours)));
        theirs
    };
    (0..lanes).map(dial).collect()
}

fn export(to: &mut Session, uses: u32, seconds: u32) {
    to.client.ok(&Export { ticket: TICKET, key: &KEY, scope: 3, object: LINK.0, uses, seconds });
}

/// Two sessions with a link.
fn linked(lanes: u32, sealed: bool) -> [Session; 2] {
    let (mut first, mut second) = (session(1), session(2));
    export(&mut second, lanes, 0);
    let sent = first.client.send(&connecting(lanes, sealed));
    dialed(&first, lanes).into_iter().for_each(|socket| lead(&second, socket));
    assert_eq!(status_of(&mut first, sent), 0);
    [first, second]
}

/// A session with a link to the test, which has the key.
fn linked_to_test() -> (Session, Link) {
    let mut session = session(2);
    export(&mut session, 1, 0);
    let link = joined(&session, &KEY).unwrap();
    (session, link)
}

fn joined(session: &Session, key: &[u8]) -> Result<Link, String> {
    joined_by(session, TICKET, key)
}

fn joined_by(session: &Session, ticket: TicketId, key: &[u8]) -> Result<Link, String> {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let secret = Key::of(key).unwrap().secret(2, ticket.0);
    let purpose = Purpose { session: 2, ticket: ticket.0, secret, lane: 0, lanes: 1, sealed: false };
    let opening = std::thread::spawn(move || {
        connect(ours.into(), &purpose, Instant::now() + PATIENCE).map_err(|error| error.to_string())
    });
    lead(session, theirs);
    opening.join().unwrap()
}

fn send(transfer: u64, bytes: u64) -> SendTo {
    SendTo { link: LINK, transfer, stream: STREAM, from: DevicePtr(BASE), bytes }
}

fn receive(transfer: u64, bytes: u64) -> ReceiveFrom {
    ReceiveFrom { link: LINK, transfer, stream: STREAM, to: DevicePtr(BASE), bytes }
}

/// Fills a session's memory, and returns the bytes.
fn fill(session: &mut Session, seed: u64) -> Vec<u8> {
    let bytes: Vec<u8> = (0..BLOCK).map(|index| (index.wrapping_mul(seed) >> 7).to_le_bytes()[0]).collect();
    session.client.send(&CopyToDevice { stream: STREAM, to: DevicePtr(BASE), bytes: &bytes });
    bytes
}

fn memory(session: &Session, bytes: u64) -> Vec<u8> {
    session.client.device.memory(BASE, bytes)
}

#[test]
fn bytes_go_from_worker_to_worker_sealed_and_in_the_clear_over_any_number_of_connections() {
    for (lanes, sealed, bytes) in [(1, false, BLOCK), (1, true, CHUNK + 7), (3, true, BLOCK), (8, false, 1)] {
        let [mut first, mut second] = linked(lanes, sealed);
        let sent = fill(&mut first, 12_345);
        first.client.send(&send(1, bytes));
        second.client.send(&receive(1, bytes));
        assert_eq!((synchronize(&mut second), synchronize(&mut first)), (0, 0));
        let count = usize::try_from(bytes).unwrap();
        assert!(memory(&second, bytes) == sent[..count], "{lanes} {sealed} {bytes}");
        // And back, behind what the stream does next.
        let sent = fill(&mut second, 54_321);
        second.client.send(&send(1, bytes));
        first.client.send(&receive(1, bytes));
        assert_eq!((synchronize(&mut first), synchronize(&mut second)), (0, 0));
        assert!(memory(&first, bytes) == sent[..count]);
    }
}

#[test]
fn a_stream_goes_on_when_the_other_has_got_there_also_for_no_bytes() {
    for bytes in [CHUNK, 0] {
        let [mut first, mut second] = linked(2, false);
        fill(&mut first, 3);
        first.client.send(&send(1, bytes));
        let sent = first.client.send(&SynchronizeStream { stream: STREAM });
        first.client.nothing_comes();
        second.client.send(&receive(1, bytes));
        assert_eq!((status_of(&mut first, sent), synchronize(&mut second)), (0, 0));
    }
}

#[test]
fn transfers_that_stand_hold_no_other_up() {
    let [mut first, mut second] = linked(1, false);
    let other = StreamId(2);
    let sent = fill(&mut first, 7);
    assert_eq!(synchronize(&mut first), 0);
    // More transfers than there is staging memory are announced at one side only.
    (1..=40).for_each(|transfer| _ = first.client.send(&send(transfer, BLOCK)));
    first.client.send(&CreateStream { stream: other, flags: 1, priority: 0 });
    first.client.send(&SendTo { stream: other, ..send(41, BLOCK) });
    second.client.send(&receive(41, BLOCK));
    assert_eq!(synchronize(&mut second), 0);
    assert!(memory(&second, BLOCK) == sent);
}

#[test]
fn nobody_connects_without_the_key_of_a_ticket_that_lasts() {
    let mut session = session(2);
    assert!(joined(&session, &KEY).is_err(), "there is no ticket");
    export(&mut session, 1, 0);
    assert!(joined(&session, &[8; 32]).is_err(), "another key");
    let link = joined(&session, &KEY);
    assert!(link.is_ok(), "{link:?}");
    assert!(joined(&session, &KEY).is_err(), "it is used up");
    session.client.ok(&MemoryInfo {});
}

#[test]
fn a_ticket_that_has_expired_admits_nobody() {
    let mut session = session(2);
    export(&mut session, 1, 1);
    std::thread::sleep(Duration::from_millis(1100));
    assert!(joined(&session, &KEY).is_err());
}

#[test]
fn what_was_said_on_one_connection_opens_no_other() {
    let (mut first, mut second) = (session(1), session(2));
    export(&mut second, 2, 0);
    first.client.send(&connecting(2, true));
    let [one, _two] = <[UnixStream; 2]>::try_from(dialed(&first, 2)).unwrap();
    let (mut near, theirs) = UnixStream::pair().unwrap();
    let (mut one, mut back) = (one.try_clone().unwrap(), (one, near.try_clone().unwrap()));
    std::thread::spawn(move || std::io::copy(&mut back.1, &mut back.0));
    let recorded = std::thread::spawn(move || {
        let (mut all, mut some) = (Vec::new(), [0; 4096]);
        // The greeting, the ticket, the handshake, the first sealed frame.
        while let Ok(count @ 1..) = one.read(&mut some) {
            all.extend_from_slice(&some[..count]);
            near.write_all(&some[..count]).unwrap();
            one.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        }
        all
    });
    lead(&second, theirs);
    let recorded = recorded.join().unwrap();
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    ours.write_all(&recorded).unwrap();
    lead(&second, theirs);
    let mut answer = Vec::new();
    // The reply to the greeting and to the handshake; then it is closed.
    ours.set_read_timeout(Some(PATIENCE)).unwrap();
    let _ = ours.read_to_end(&mut answer);
    assert!(answer.len() < 200, "{}", answer.len());
    assert!(second.client.giver.as_fd().try_clone_to_owned().is_ok());
    second.client.ok(&MemoryInfo {});
}

#[test]
fn a_server_that_may_not_be_dialled_or_does_not_answer_is_no_peer_and_the_session_goes_on() {
    for (why, status) in [(Refused::NotPermitted, NOT_PERMITTED), (Refused::Unknown, INVALID_HANDLE)] {
        let mut first = session(1);
        let sent = first.client.send(&connecting(2, true));
        first.notify(&PeerNotice::NotDialed(first.dialed().request, why), None);
        assert_eq!(status_of(&mut first, sent), status);
        // The number is free again.
        let sent = first.client.send(&connecting(1, true));
        drop(dialed(&first, 1));
        assert_eq!(status_of(&mut first, sent), INVALID_HANDLE);
    }
}

/// The session's stream fails as the link does, and says so; whatever else it does goes on.
fn fails(session: &mut Session) {
    assert_eq!(synchronize(session), EXTERNAL_DEVICE);
    session.client.ok(&MemoryInfo {});
}

#[test]
fn bytes_that_nobody_announced_end_the_link_and_reach_no_memory() {
    let bytes = [5; 100];
    for chunk in [
        Chunk { transfer: 2, offset: 0, bytes: &bytes },
        Chunk { transfer: 1, offset: 1, bytes: &bytes },
        Chunk { transfer: 1, offset: 0, bytes: &bytes[..99] },
        Chunk { transfer: 1, offset: CHUNK, bytes: &bytes },
    ] {
        let (mut session, mut peer) = linked_to_test();
        session.client.send(&receive(1, 100));
        let frame = peer.receive(Some(Instant::now() + PATIENCE)).unwrap().unwrap();
        assert_eq!(PeerReady::decode(frame.payload).unwrap(), PeerReady { transfer: 1, bytes: 100 });
        peer.send(&chunk).unwrap();
        fails(&mut session);
        assert_eq!(memory(&session, 100), [0; 100]);
    }
}

#[test]
fn a_peer_that_says_what_cannot_be_ends_the_link() {
    let says: [fn(&mut Link); 3] = [
        |peer| drop(peer.send(&PeerDone { transfer: 1 })),
        |peer| drop(peer.send(&PeerReady { transfer: 1, bytes: 99 })),
        |peer| drop(peer.send(&MemoryInfo {})),
    ];
    for say in says {
        let (mut session, mut peer) = linked_to_test();
        session.client.send(&send(1, 100));
        session.client.ok(&MemoryInfo {});
        say(&mut peer);
        fails(&mut session);
    }
}

#[test]
fn a_peer_that_does_not_read_holds_up_its_link_alone() {
    let (mut session, mut peer) = linked_to_test();
    (1..=20).for_each(|transfer| {
        session.client.send(&send(transfer, BLOCK));
        peer.send(&PeerReady { transfer, bytes: BLOCK }).unwrap();
    });
    let other = StreamId(2);
    session.client.send(&CreateStream { stream: other, flags: 1, priority: 0 });
    session.client.send(&CopyToDevice { stream: other, to: DevicePtr(BASE), bytes: &[1, 2, 3] });
    let sent = session.client.send(&SynchronizeStream { stream: other });
    assert_eq!(status_of(&mut session, sent), 0);
    drop(peer);
    fails(&mut session);
}

#[test]
fn whoever_dies_in_a_transfer_the_other_goes_on_with_an_error() {
    for dies in [0, 1] {
        let mut both = linked(2, true);
        both[0].client.send(&send(1, BLOCK));
        both[1].client.send(&receive(2, BLOCK));
        both.iter_mut().for_each(|session| drop(session.client.ok(&MemoryInfo {})));
        let [first, second] = both;
        let (dead, mut left) = if dies == 0 { (first, second) } else { (second, first) };
        drop(dead);
        fails(&mut left);
        // What comes later fails as well.
        left.client.send(&send(5, 1));
        fails(&mut left);
    }
}

#[test]
fn a_reset_ends_the_links_and_leaves_no_error() {
    let [mut first, mut second] = linked(2, true);
    first.client.send(&send(1, BLOCK));
    let sent = first.client.send(&ResetContext {});
    assert_eq!(status_of(&mut first, sent), 0);
    assert!(first.client.break_with(&send(2, 1)).contains("no peer link"));
    second.client.send(&receive(1, BLOCK));
    fails(&mut second);
}

#[test]
fn a_dropped_link_that_carries_nothing_fails_nothing() {
    let [mut first, mut second] = linked(1, true);
    first.client.send(&DropPeer { link: LINK });
    first.client.ok(&MemoryInfo {});
    second.client.send(&DropPeer { link: LINK });
    assert_eq!((synchronize(&mut first), synchronize(&mut second)), (0, 0));
}

#[test]
fn a_client_that_names_what_cannot_be_ends_its_session() {
    assert!(session(1).client.break_with(&send(1, 1)).contains("no peer link"));
    assert!(session(1).client.break_with(&connecting(9, true)).contains("9 connections"));
    let mut twice = session(1);
    export(&mut twice, 1, 0);
    assert!(twice.client.break_with(&connecting(1, true)).contains("is taken"));
}

/// Waits until links have a context or have none.
fn until(session: &Session, is_so: impl Fn((usize, usize)) -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so(session.client.device.contexts_and_streams()) {
        assert!(Instant::now() < end, "{:?}", session.client.device.contexts_and_streams());
        std::thread::yield_now();
    }
}

#[test]
fn two_hundred_links_made_and_ended_leave_nothing() {
    let mut session = session(2);
    session.client.ok(&MemoryInfo {});
    let (contexts, streams) = session.client.device.contexts_and_streams();
    assert_eq!(contexts, 0);
    for number in 100..300 {
        let (ticket, link) = (TicketId(number), PeerLinkId(number));
        session.client.ok(&Export { ticket, key: &KEY, scope: 3, object: number, uses: 1, seconds: 0 });
        let peer = joined_by(&session, ticket, &KEY).unwrap();
        assert_eq!(session.client.device.contexts_and_streams(), (1, streams + 2));
        // Either end it, the client or the peer.
        if number % 2 == 0 {
            drop(peer);
        }
        session.client.send(&DropPeer { link });
        until(&session, |now| now == (0, streams));
        assert!(joined_by(&session, ticket, &KEY).is_err(), "a ticket and its key make one link");
    }
    session.client.ok(&MemoryInfo {});
}

#[test]
fn links_of_a_session_share_a_context_that_ends_with_the_last() {
    let mut session = session(2);
    let peers = [21, 22].map(|number| {
        session.client.ok(&Export {
            ticket: TicketId(number),
            key: &KEY,
            scope: 3,
            object: number,
            uses: 1,
            seconds: 0,
        });
        joined_by(&session, TicketId(number), &KEY).unwrap()
    });
    assert_eq!(session.client.device.contexts_and_streams().0, 1);
    session.client.send(&DropPeer { link: PeerLinkId(21) });
    session.client.ok(&MemoryInfo {});
    assert_eq!(session.client.device.contexts_and_streams().0, 1);
    drop(peers);
    until(&session, |(contexts, _)| contexts == 0);
}

#[test]
fn a_peer_that_wants_more_transfers_than_there_may_be_ends_the_link() {
    let (mut session, mut peer) = linked_to_test();
    // The link may end before all are sent.
    let sent = (1..=40_000).try_for_each(|transfer| peer.send(&PeerReady { transfer, bytes: 1 }).map(drop));
    let closed = peer.receive(Some(Instant::now() + PATIENCE));
    let is_open = matches!(closed, Ok(Some(_)) | Err(LinkError::TimedOut { .. }));
    assert!(!is_open, "{sent:?}");
    session.client.send(&send(1, 1));
    fails(&mut session);
}

#[test]
fn a_wait_that_the_client_ends_does_not_wait_for_the_issuer() {
    let mut session = session(1);
    let page = SignalsId(3);
    session.client.ok(&CreateSignals { signals: page });
    session.client.send(&AwaitSignal { stream: STREAM, signals: page, word: 5, value: 2 });
    let waits = session.client.send(&SynchronizeStream { stream: STREAM });
    // The issuer waits for the other server until this is answered.
    let connects = session.client.send(&connecting(1, true));
    let dial = session.dialed();
    session.client.nothing_comes();
    session.client.send(&RaiseNow { signals: page, word: 5, value: 2 });
    // One that there is not changes nothing.
    session.client.send(&RaiseNow { signals: SignalsId(77), word: 5, value: 2 });
    let device = Arc::clone(&session.client.device);
    std::thread::spawn(move || (0..5000).for_each(|_| (device.look(), std::thread::sleep(Duration::from_millis(1))).0));
    assert_eq!(status_of(&mut session, waits), 0);
    session.notify(&PeerNotice::NotDialed(dial.request, Refused::Unknown), None);
    assert_eq!(status_of(&mut session, connects), INVALID_HANDLE);
    assert!(session.client.break_with(&RaiseNow { signals: page, word: 512, value: 2 }).contains("512"));
}
