//! A log and the connections it outlives, as a model.

use proptest::prelude::*;

use super::*;
use crate::frames::salt::SALTED_FROM;
use crate::resumption::history::{frame, marked};

struct Bytes(Vec<u8>);

impl BorrowedBuffer for Bytes {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn with_bytes(&self, write: &mut dyn FnMut(&[u8])) {
        write(&self.0);
    }
}

/// One end of a link whose wire is cut now and then: what it sends, what it has.
#[derive(Default)]
struct End {
    log: Log,
    received: Vec<u8>,
    /// On the wire to this end, not yet read.
    wire: Vec<u8>,
}

/// What happens next.
#[derive(Clone, Debug)]
enum Event {
    /// An end writes a frame with so large a payload: a copy, or what is borrowed.
    Write { side: usize, bytes: usize, borrowed: bool },
    /// An end reads so many of the bytes that are on their way to it.
    Read { side: usize, bytes: usize },
    /// An end says how many it has, and the other hears it.
    Acknowledge { side: usize },
    /// The wire breaks: so many bytes of those under way still arrive at each end, then the ends meet again.
    Cut { arrive: [usize; 2] },
}

fn event() -> impl Strategy<Value = Event> {
    let side = 0_usize..2;
    prop_oneof![
        4 => (side.clone(), 1_usize..2 * SALTED_FROM, any::<bool>())
            .prop_map(|(side, bytes, borrowed)| Event::Write { side, bytes, borrowed }),
        4 => (side.clone(), 1_usize..9000).prop_map(|(side, bytes)| Event::Read { side, bytes }),
        2 => side.prop_map(|side| Event::Acknowledge { side }),
        2 => [0_usize..9000, 0_usize..9000].prop_map(|arrive| Event::Cut { arrive }),
    ]
}

fn read(end: &mut End, bytes: usize) {
    let count = bytes.min(end.wire.len());
    end.received.extend(end.wire.drain(..count));
}

/// The lengths of all parts that have not arrived, with whether a descriptor goes with them, and their bytes.
fn parts(log: &Log) -> (Vec<(usize, bool)>, Vec<u8>) {
    let (mut at, mut shapes, mut all) = (0, Vec::new(), Vec::new());
    while let Some(part) = log.part(at) {
        at = part.end;
        let written: Result<(), Errno> = part.write(|bytes, descriptor| {
            shapes.push((bytes.len(), descriptor.is_some()));
            all.extend_from_slice(bytes);
            Ok(())
        });
        written.expect("nothing fails here");
    }
    (shapes, all)
}

fn meet(ends: &mut [End; 2]) {
    for side in 0..2 {
        let has = marked(&ends[1 - side].received);
        drop(ends[side].log.acknowledge(has).expect("the peer has what was sent"));
        ends[1 - side].wire = parts(&ends[side].log).1;
    }
}

proptest! {
    #[test]
    fn every_byte_arrives_once_and_in_order_however_often_the_wire_is_cut(
        events in proptest::collection::vec(event(), 1..200)
    ) {
        let mut ends = [End::default(), End::default()];
        let mut written = [Vec::new(), Vec::new()];
        for event in events {
            match event {
                Event::Write { side, bytes, borrowed } => {
                    let from = written[side].len();
                    let data: Vec<u8> = (from..from + bytes).map(|index| (index / 3).to_le_bytes()[0]).collect();
                    let frame = frame(&data, from as u64);
                    written[side].extend_from_slice(&frame);
                    ends[1 - side].wire.extend_from_slice(&frame);
                    if borrowed && bytes >= SALTED_FROM {
                        ends[side].log.append(&frame[..frame.len() - bytes]);
                        ends[side].log.hold(Held::new(Box::new(Bytes(data))), bytes);
                    } else {
                        ends[side].log.append(&frame);
                    }
                }
                Event::Read { side, bytes } => read(&mut ends[side], bytes),
                Event::Acknowledge { side } => {
                    let has = marked(&ends[side].received);
                    drop(ends[1 - side].log.acknowledge(has).expect("it was sent"));
                }
                Event::Cut { arrive } => {
                    for side in 0..2 {
                        read(&mut ends[side], arrive[side]);
                    }
                    meet(&mut ends);
                }
            }
        }
        for side in 0..2 {
            read(&mut ends[side], usize::MAX);
            prop_assert!(ends[side].received == written[1 - side]);
            let has = marked(&ends[side].received);
            drop(ends[1 - side].log.acknowledge(has).expect("it was sent"));
            prop_assert_eq!(ends[1 - side].log.copied(), 0);
        }
    }
}

/// Where a peer is that has so many of the bytes of `sent`.
fn at(sent: &[u8], received: usize) -> HistoryDigest {
    marked(&sent[..received])
}

#[test]
fn counts_that_cannot_be_are_refused() {
    let mut log = Log::default();
    let sent = frame(&[1; 84], 1);
    log.append(&sent);
    let count = |received| HistoryDigest { received, digest: 0 };
    let outside = |acknowledged| Some(Impossible::Outside { acknowledged, sent: 100 });
    assert_eq!(log.acknowledge(count(101)).err(), outside(0));
    assert!(log.acknowledge(at(&sent, 60)).is_ok());
    assert_eq!(log.acknowledge(at(&sent, 59)).err(), outside(60));
    assert!(log.acknowledge(at(&sent, 60)).is_ok());
}

#[test]
fn so_many_bytes_of_others_are_refused_and_change_nothing() {
    let mut log = Log::default();
    let (sent, others) = (frame(&[1; 84], 1), frame(&[2; 84], 1));
    log.append(&sent);
    assert_eq!(log.acknowledge(at(&others, 100)).err(), Some(Impossible::Others));
    assert_eq!((log.acknowledged(), log.copied()), (0, 100));
    assert!(log.acknowledge(at(&others, 16)).is_ok(), "so far they are the same");
    assert_eq!(log.check(at(&others, 17)).err(), Some(Impossible::Others));
    assert!(log.check(at(&sent, 17)).is_ok());
}

/// Two small frames, between them a large one.
fn three() -> [Vec<u8>; 3] {
    [frame(&[1; 10], 1), frame(&[2; 5000], 2), frame(&[3; 10], 3)]
}

#[test]
fn what_is_lent_goes_back_when_it_has_arrived_and_not_before() {
    let mut log = Log::default();
    let sent = three();
    let head = sent[1].len() - 5000;
    log.append(&sent[0]);
    log.append(&sent[1][..head]);
    log.hold(Held::new(Box::new(Bytes(vec![2; 5000]))), 5000);
    log.append(&sent[2]);
    let (all, end) = (sent.concat(), sent[0].len() + sent[1].len());
    assert_eq!(log.acknowledge(at(&all, end - 1)).map(|free| free.len()), Ok(0));
    assert_eq!(parts(&log).1, [&[2], sent[2].as_slice()].concat());
    assert_eq!(log.acknowledge(at(&all, end)).map(|free| free.len()), Ok(1));
}

#[test]
fn a_descriptor_goes_again_until_the_first_byte_has_arrived() {
    let mut log = Log::default();
    let sent = [frame(&[0; 5], 1), frame(&[1; 10], 2)];
    log.append(&sent[0]);
    log.append_with(&sent[1], std::fs::File::open("/dev/null").expect("it is there").into());
    let all = sent.concat();
    for (received, expected) in [(3, vec![(18, false), (26, true)]), (21, vec![(26, true)]), (22, vec![(25, false)])] {
        drop(log.acknowledge(at(&all, received)).expect("it was sent"));
        assert_eq!(parts(&log).0, expected);
    }
}

#[test]
fn a_hole_is_counted_and_not_given_out() {
    let mut log = Log::default();
    let sent = frame(&[1; 1 << 20], 1);
    let head = sent.len() - (1 << 20);
    log.append(&sent[..head]);
    log.open_hole(1 << 20);
    assert_eq!((log.end(), log.copied()), (sent.len() as u64, head));
    for received in [10, 500, 501] {
        assert!(log.acknowledge(at(&sent, received)).is_ok());
    }
    assert!(log.part(0).is_none());
    log.close_hole();
    let after = frame(&[4; 8], 2);
    log.append(&after);
    let all = [sent, after].concat();
    assert!(log.acknowledge(at(&all, all.len())).is_ok());
}

#[test]
fn what_is_kept_while_parts_are_written_follows_them() {
    let mut log = Log::default();
    let sent = [frame(&[1; 10], 1), frame(&[2; 5], 2)];
    log.append(&sent[0]);
    let first = log.part(0).expect("a frame");
    log.append(&sent[1]);
    assert_eq!(log.acknowledge(at(&sent.concat(), 7)).map(|free| free.len()), Ok(0));
    let second = log.part(first.end).expect("one more");
    assert_eq!((first.end, second.end), (26, 47));
    assert!(log.part(second.end).is_none());
}
