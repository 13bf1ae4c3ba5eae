//! Connections that overtake each other: what an old one still says, and one that comes too late.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::os::unix::net::UnixStream;
use std::sync::Mutex;

use floe_wire::{DevicePtr, MemoryInfo, ReleaseBlock, UnmapRange};

use super::*;
use crate::error::Failure;
use crate::pipes::borrowed::{BorrowedBuffer, SendMode};
use crate::pipes::noting::Noting;
use crate::pipes::pipe::{Pipe, Reach};
use crate::resumption::session::Left;
use crate::resumption::{channel, history};

const GRACE: Duration = Duration::from_secs(300);

fn pair() -> (Link, Link) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (Link::new(ours.into()), Link::new(theirs.into()))
}

fn soon() -> Option<Instant> {
    Some(Instant::now() + GRACE)
}

/// The first frame of a channel, where it is this.
fn memory_info() -> [u8; 16] {
    floe_wire::FrameHeader { length: 0, kind: MemoryInfo::KIND, sequence: 1 }.encode()
}

/// Two ends of a session.
fn session() -> [(Channels, Link); 2] {
    let (ours, theirs) = pair();
    [ours, theirs].map(|link| Channels::take_over(link, GRACE))
}

/// A connection of an epoch at the session's own channel, at both ends.
fn meet(ends: &mut [(Channels, Link); 2], epoch: u64) {
    let links = pair();
    assert!(ends.iter().all(|(channels, _)| channels.begin(epoch)));
    let [one, other] = [0, 1].map(|end: usize| ends[end].0.freeze(MAIN_CHANNEL));
    ends[0].0.resume(MAIN_CHANNEL, epoch, links.0, other).unwrap();
    ends[1].0.resume(MAIN_CHANNEL, epoch, links.1, one).unwrap();
}

#[test]
fn a_count_that_was_overtaken_says_nothing_and_one_that_cannot_be_breaks_the_contract() {
    let [(channels, mut own), _peer] = session();
    let sent = own.send(&MemoryInfo {}).unwrap() * 16;
    let has = |received| {
        let HistoryDigest { digest, .. } =
            history::marked(&memory_info()[..usize::try_from(received).unwrap().min(16)]);
        Acknowledge { channel: MAIN_CHANNEL, received, digest }
    };
    let (ours, mut theirs) = pair();
    let listening = {
        let (channels, receiver) = (channels.clone(), channels.hear(1, ours));
        std::thread::spawn(move || channels.listen(1, receiver))
    };
    for received in [sent, sent - 1, 0, sent, sent + 1] {
        theirs.send(&has(received)).unwrap();
    }
    let heard = listening.join().unwrap();
    let Heard::Contract(LinkError::Acknowledgement { received, acknowledged, .. }) = heard else { panic!("{heard:?}") };
    assert_eq!((received, acknowledged), (sent + 1, sent));
}

#[test]
fn a_connection_that_is_too_late_is_closed_and_changes_nothing() {
    let mut ends = session();
    ends[0].1.send(&MemoryInfo {}).unwrap();
    assert!(ends[1].1.receive(soon()).unwrap().is_some());
    meet(&mut ends, 2);
    let (late, mut its_peer) = pair();
    // What its peer said is less than what is known by now.
    ends[0].0.resume(MAIN_CHANNEL, 1, late, HistoryDigest::none()).unwrap();
    assert!(its_peer.receive(soon()).unwrap().is_none());
    ends[0].1.send(&ReleaseBlock { block: floe_wire::BlockId(7) }).unwrap();
    ends[1].1.send(&UnmapRange { at: DevicePtr(1), bytes: 2 }).unwrap();
    assert_eq!(ends[1].1.receive(soon()).unwrap().unwrap().sequence, 2);
    assert_eq!(ends[0].1.receive(soon()).unwrap().unwrap().sequence, 1);
}

#[test]
fn a_connection_that_is_too_late_does_not_wait_for_who_reads_on_the_next() {
    let mut ends = session();
    meet(&mut ends, 2);
    let [(channels, own), (_its, mut peer)] = ends;
    let (sender, mut receiver) = own.halves();
    let reading = std::thread::spawn(move || receiver.next().unwrap().map(|frame| frame.sequence));
    let channel = channels.shared.channel(MAIN_CHANNEL);
    let wait = |is_so: &dyn Fn() -> bool| {
        let until = Instant::now() + GRACE;
        while !is_so() {
            assert!(Instant::now() < until, "who is late stands, and so does who writes");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    wait(&|| channel.is_read());
    let (late, mut its_peer) = pair();
    let resuming = {
        let channels = channels.clone();
        std::thread::spawn(move || channels.resume(MAIN_CHANNEL, 1, late, HistoryDigest::none()))
    };
    wait(&|| resuming.is_finished());
    assert!(its_peer.receive(soon()).unwrap().is_none());
    // A frame each way, both of which would wait for the late one.
    sender.send(&ReleaseBlock { block: floe_wire::BlockId(7) }, |_| ()).unwrap();
    assert!(peer.receive(soon()).unwrap().is_some());
    peer.send(&UnmapRange { at: DevicePtr(1), bytes: 2 }).unwrap();
    assert_eq!(reading.join().unwrap(), Some(1));
}

#[test]
fn who_leaves_old_connections_too_late_leaves_the_new_ones_alone() {
    let mut ends = session();
    let late = Left { epoch: 1, acknowledgements: [None, None] };
    let late = ends[0].0.shared.state().leaving(late);
    meet(&mut ends, 2);
    late.leave();
    ends[0].1.send(&MemoryInfo {}).unwrap();
    assert!(ends[1].1.receive(soon()).unwrap().is_some());
    assert_eq!(ends.map(|(channels, _)| (channels.link_state(), channels.epoch())), [(LinkState::Whole, 2); 2]);
}

#[test]
fn the_next_connection_is_told_what_the_last_one_may_have_lost() {
    let mut ends = session();
    ends[0].1.send(&MemoryInfo {}).unwrap();
    assert!(ends[1].1.receive(soon()).unwrap().is_some());
    for epoch in 1..4 {
        if epoch > 1 {
            meet(&mut ends, epoch);
        }
        let (ours, mut theirs) = pair();
        let _receiver = ends[1].0.hear(epoch, ours);
        let told = theirs.receive(soon()).unwrap().unwrap();
        let HistoryDigest { received, digest } = history::marked(&memory_info());
        assert_eq!(Acknowledge::decode(told.payload).unwrap(), Acknowledge { channel: MAIN_CHANNEL, received, digest });
    }
}

/// Data that are told apart from others that have gone back.
struct Data(usize, Arc<Mutex<usize>>);

impl BorrowedBuffer for Data {
    fn len(&self) -> usize {
        self.0
    }

    fn with_bytes(&self, write: &mut dyn FnMut(&[u8])) {
        write(&vec![5; self.0]);
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        *self.1.lock().unwrap() += 1;
    }
}

/// Data whose pages the peer may see later.
struct Pinned(Data);

impl BorrowedBuffer for Pinned {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn with_bytes(&self, write: &mut dyn FnMut(&[u8])) {
        self.0.with_bytes(write);
    }

    fn send_mode(&self) -> SendMode {
        SendMode::Pages
    }
}

/// One end of a session whose own channel goes on with this connection.
fn over(pipe: &Arc<Noting>) -> (Channels, Arc<channel::Channel<Shared>>) {
    let [(channels, _), _] = session();
    assert!(channels.begin(2));
    let channel = channels.shared.channel(MAIN_CHANNEL);
    channel.attach(2, Arc::<Noting>::clone(pipe), HistoryDigest::none(), || true).unwrap();
    (channels, channel)
}

#[test]
fn only_data_whose_place_the_peer_may_see_later_go_as_the_pages_they_lie_in() {
    let (pipe, back) = (Noting::new(Reach::Network, Ok(())), Arc::new(Mutex::new(0)));
    let (_channels, channel) = over(&pipe);
    channel.write_borrowed(&[1; 24], Box::new(Data(1 << 20, Arc::clone(&back)))).unwrap();
    channel.write_borrowed(&[1; 24], Box::new(Pinned(Data(1 << 20, Arc::clone(&back))))).unwrap();
    assert_eq!((pipe.ways(), *back.lock().unwrap()), (vec!["copied", "given"], 0));
}

#[test]
fn memory_that_cannot_be_read_ends_the_session_instead_of_each_of_its_connections() {
    let (pipe, back) = (Noting::new(Reach::Network, Err(rustix::io::Errno::FAULT.into())), Arc::new(Mutex::new(0)));
    let (channels, channel) = over(&pipe);
    channel.write_borrowed(&[1; 24], Box::new(Data(1 << 20, Arc::clone(&back)))).unwrap();
    assert_eq!((channels.link_state(), *back.lock().unwrap()), (LinkState::Over, 1));
    assert_eq!(channel.write(&[1], &[]), Err(Failure::Lost(Lost::Unreadable)));
}

#[test]
fn what_has_come_is_heard_while_the_rest_is_written_again() {
    let [(channels, own), _peer] = session();
    let (sender, _receiver) = own.split();
    channels.broke(1);
    let (bytes, back) = (2 << 20, Arc::new(Mutex::new(0)));
    let message = floe_wire::CopyToDevice { stream: floe_wire::StreamId(1), to: DevicePtr(1), bytes: &[] };
    for _ in 0..4 {
        sender.post_borrowed(&message, Box::new(Data(bytes, Arc::clone(&back)))).unwrap();
    }
    sender.flush().unwrap();
    assert!(channels.begin(2));
    let ((ours, theirs), (link, mut peer)) = (pair(), pair());
    let (listener, writer) = (channels.clone(), channels.clone());
    let listening = std::thread::spawn(move || listener.listen(2, listener.hear(2, ours)));
    let writing = std::thread::spawn(move || writer.resume(MAIN_CHANNEL, 2, link, HistoryDigest::none()));
    let mut history = history::RunningDigest::default();
    let mut acknowledgements = theirs;
    for came in 1..=4 {
        // The rest is not read before this has gone back.
        for _of_word_and_copy in 0..2 {
            let crate::frames::receiver::Frame { kind, sequence, payload } = peer.receive(soon()).unwrap().unwrap();
            let length = payload.len().try_into().unwrap();
            history.absorb(&floe_wire::FrameHeader { length, kind, sequence }.encode());
            history.absorb(payload);
        }
        let HistoryDigest { received, digest } = history.mark();
        acknowledgements.send(&Acknowledge { channel: MAIN_CHANNEL, received, digest }).unwrap();
        let until = Instant::now() + GRACE;
        while *back.lock().unwrap() < came {
            assert!(Instant::now() < until, "{came} have come, the owner has: {}", back.lock().unwrap());
            std::thread::yield_now();
        }
    }
    // Others write behind it.
    writing.join().unwrap().unwrap();
    sender.send(&MemoryInfo {}, |_| ()).unwrap();
    assert_eq!(peer.receive(soon()).unwrap().unwrap().sequence, 9);
    channels.end();
    assert!(matches!(listening.join().unwrap(), Heard::Broke));
}

#[test]
fn what_a_peer_says_before_it_leaves_is_read_although_another_connection_has_ended() {
    let mut ends = session();
    let (ours, theirs) = pair();
    let (channels, receiver) = (ends[0].0.clone(), ends[0].0.hear(1, ours));
    let listening = std::thread::spawn(move || channels.listen(1, receiver));
    let mut acknowledgements = theirs;
    acknowledgements.send(&Goodbye {}).unwrap();
    drop(acknowledgements);
    assert!(matches!(listening.join().unwrap(), Heard::Broke));
    assert_eq!(ends[0].0.link_state(), LinkState::Over);
    ends[1].1.send(&MemoryInfo {}).unwrap();
    assert!(ends[0].1.receive(soon()).unwrap().is_some());
    ends[1].0.end();
    assert!(ends[0].1.receive(soon()).unwrap().is_none());
}

#[test]
fn who_watches_hears_of_a_break_a_beginning_and_the_end() {
    let (channels, _link) = Channels::take_over(pair().0, GRACE);
    assert_eq!(channels.link_state(), LinkState::Whole);
    let change = |seen, what: fn(&Channels)| {
        let watching = {
            let channels = channels.clone();
            std::thread::spawn(move || channels.await_change(seen, None))
        };
        what(&channels);
        watching.join().unwrap()
    };
    assert_eq!(change(LinkState::Whole, |channels| channels.broke(1)), LinkState::Broken);
    assert_eq!(channels.await_change(LinkState::Broken, Some(Duration::ZERO)), LinkState::Broken);
    assert_eq!(change(LinkState::Broken, |channels| assert!(channels.begin(2))), LinkState::Whole);
    assert_eq!(change(LinkState::Whole, Channels::end), LinkState::Over);
}

#[test]
fn who_hears_out_hears_that_the_peer_left_behind_the_end_of_another_connection() {
    for hears_goodbye in [true, false] {
        let [(channels, _own), _peer] = session();
        if hears_goodbye {
            channels.hear_goodbye();
        }
        let (ours, mut theirs) = pair();
        let listening = {
            let (channels, receiver) = (channels.clone(), channels.hear(1, ours));
            std::thread::spawn(move || channels.listen(1, receiver))
        };
        channels.broke(1);
        // Where nobody hears it, the system says so or not.
        let _ = theirs.send(&Goodbye {});
        drop(theirs);
        assert!(matches!(listening.join().unwrap(), Heard::Broke));
        let expected = if hears_goodbye { LinkState::Over } else { LinkState::Broken };
        assert_eq!(channels.link_state(), expected);
    }
}

#[test]
fn a_peer_that_says_nothing_is_heard_out_for_as_long_as_this_side_wants() {
    let [(channels, _own), _peer] = session();
    channels.hear_goodbye();
    let (ours, mut theirs) = pair();
    let receiver = channels.hear(1, ours);
    channels.broke(1);
    channels.stop_hearing();
    assert!(theirs.receive(soon()).unwrap().is_none());
    assert!(matches!(channels.listen(1, receiver), Heard::Broke));
    assert_eq!(channels.link_state(), LinkState::Broken);
}

#[test]
fn what_is_heard_out_ends_when_new_connections_begin() {
    let [(channels, _own), _peer] = session();
    channels.hear_goodbye();
    let (ours, theirs) = pair();
    let receiver = channels.hear(1, ours);
    channels.broke(1);
    assert!(channels.begin(2));
    assert!(matches!(channels.listen(1, receiver), Heard::Broke));
    assert_eq!(channels.link_state(), LinkState::Whole);
    drop(theirs);
}

#[test]
fn what_many_have_the_peer_told_at_once_is_told_to_the_last() {
    const CHANNELS: u32 = 6;
    const MESSAGES: u64 = 300;
    let [(ours, _own), (theirs, _its)] = session();
    let (here, mut there) = pair();
    let _receiver = theirs.hear(1, here);
    let readers: Vec<_> = (10..10 + CHANNELS)
        .map(|channel| {
            let (one, other) = pair();
            let (mut sending, receiving) = (ours.link(channel), theirs.link(channel));
            ours.resume(channel, 1, one, HistoryDigest::none()).unwrap();
            theirs.resume(channel, 1, other, HistoryDigest::none()).unwrap();
            std::thread::spawn(move || {
                let (_, mut receiver) = receiving.halves();
                let peer = receiver.readiness();
                for _ in 0..MESSAGES {
                    sending.send(&MemoryInfo {}).unwrap();
                    assert!(receiver.next_exactly(soon()).unwrap().is_some());
                    peer.tell_peer();
                }
            })
        })
        .collect();
    let mut left = CHANNELS;
    while left > 0 {
        let told = there.receive(soon()).unwrap().unwrap();
        left -= u32::from(Acknowledge::decode(told.payload).unwrap().received == 16 * MESSAGES);
    }
    readers.into_iter().for_each(|reader| reader.join().unwrap());
}

#[test]
fn who_waits_asks_and_leaves_connections_on_which_nobody_answers() {
    let [(channels, _own), _peer] = session();
    let (ours, mut theirs) = pair();
    let _receiver = channels.hear(1, ours);
    let doubt = {
        let _waiting = channels.wait();
        channels.await_doubt().unwrap()
    };
    let asked = theirs.receive(soon()).unwrap().unwrap();
    assert_eq!(Heartbeat::decode(asked.payload).unwrap(), Heartbeat { asks: 1, answers: 0 });
    assert_eq!(channels.link_state(), LinkState::Whole);
    channels.broke_in(doubt);
    assert_eq!(channels.link_state(), LinkState::Broken);
}

#[test]
fn a_question_is_answered_at_once_where_it_is_heard() {
    let [(ours, _own), (theirs, _its)] = session();
    let (here, mut there) = pair();
    let listening = {
        let (channels, receiver) = (theirs.clone(), theirs.hear(1, here));
        std::thread::spawn(move || channels.listen(1, receiver))
    };
    there.send(&Heartbeat { asks: 5, answers: 0 }).unwrap();
    let answer = there.receive(soon()).unwrap().unwrap();
    assert_eq!(Heartbeat::decode(answer.payload).unwrap(), Heartbeat { asks: 0, answers: 5 });
    assert!(theirs.peer_waits());
    theirs.end();
    assert!(theirs.await_doubt().is_none());
    assert!(matches!(listening.join().unwrap(), Heard::Broke));
    drop(ours);
}

#[test]
fn a_peer_that_asks_without_end_and_hears_nothing_does_not_hold_up_the_end() {
    let [(ours, _own), _peer] = session();
    let (here, there) = pair();
    let listening = {
        let (channels, receiver) = (ours.clone(), ours.hear(1, here));
        std::thread::spawn(move || channels.listen(1, receiver))
    };
    let mut asking = there;
    asking.limit_writes(Some(Duration::from_millis(300))).unwrap();
    // Until neither end has room: who listens stands at an answer that nobody reads.
    let mut asks = 0;
    while asking.send(&Heartbeat { asks: asks + 1, answers: 0 }).is_ok() {
        asks += 1;
    }
    assert!(asks > 0, "{asks}");
    let (said, hear) = std::sync::mpsc::channel();
    let ending = std::thread::spawn(move || {
        ours.end();
        said.send(()).unwrap();
    });
    assert_eq!(hear.recv_timeout(Duration::from_secs(60)), Ok(()), "the end waits for a peer that reads nothing");
    ending.join().unwrap();
    assert!(matches!(listening.join().unwrap(), Heard::Broke));
}
