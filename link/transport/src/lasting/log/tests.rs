//! A log and the connections it outlives, as a model.

use proptest::prelude::*;

use super::*;

struct Bytes(Vec<u8>);

impl Lent for Bytes {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn lend(&self, write: &mut dyn FnMut(&[u8])) {
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
    /// An end writes: a copy, or what is lent.
    Write { side: usize, bytes: usize, lent: bool },
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
        4 => (side.clone(), 1_usize..5000, any::<bool>())
            .prop_map(|(side, bytes, lent)| Event::Write { side, bytes, lent }),
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
        let has = ends[1 - side].received.len() as u64;
        drop(ends[side].log.acknowledge(has).expect("the peer has no more than was sent"));
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
                Event::Write { side, bytes, lent } => {
                    let from = written[side].len();
                    let data: Vec<u8> = (from..from + bytes).map(|index| (index / 3).to_le_bytes()[0]).collect();
                    written[side].extend_from_slice(&data);
                    ends[1 - side].wire.extend_from_slice(&data);
                    if lent {
                        ends[side].log.hold(Held::new(Box::new(Bytes(data))), bytes);
                    } else {
                        ends[side].log.append(&data);
                    }
                }
                Event::Read { side, bytes } => read(&mut ends[side], bytes),
                Event::Acknowledge { side } => {
                    let has = ends[side].received.len() as u64;
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
            let has = ends[side].received.len() as u64;
            drop(ends[1 - side].log.acknowledge(has).expect("it was sent"));
            prop_assert_eq!(ends[1 - side].log.copied(), 0);
        }
    }
}

#[test]
fn counts_that_cannot_be_are_refused() {
    let mut log = Log::default();
    log.append(&[1; 100]);
    assert_eq!(log.acknowledge(101).err(), Some(Outside { acknowledged: 0, sent: 100 }));
    assert!(log.acknowledge(60).is_ok());
    assert_eq!(log.acknowledge(59).err(), Some(Outside { acknowledged: 60, sent: 100 }));
    assert!(log.acknowledge(60).is_ok());
}

#[test]
fn what_is_lent_goes_back_when_it_has_arrived_and_not_before() {
    let mut log = Log::default();
    log.append(&[1; 10]);
    log.hold(Held::new(Box::new(Bytes(vec![2; 1000]))), 1000);
    log.append(&[3; 10]);
    assert_eq!(log.acknowledge(1009).map(|free| free.len()), Ok(0));
    assert_eq!(parts(&log).1, [2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3]);
    assert_eq!(log.acknowledge(1010).map(|free| free.len()), Ok(1));
}

#[test]
fn a_descriptor_goes_again_until_the_first_byte_has_arrived() {
    let mut log = Log::default();
    log.append(&[0; 5]);
    log.append_with(&[1; 10], std::fs::File::open("/dev/null").expect("it is there").into());
    for (received, expected) in [(3, vec![(2, false), (10, true)]), (5, vec![(10, true)]), (6, vec![(9, false)])] {
        drop(log.acknowledge(received).expect("it was sent"));
        assert_eq!(parts(&log).0, expected);
    }
}

#[test]
fn a_hole_is_counted_and_not_given_out() {
    let mut log = Log::default();
    log.append(&[1; 10]);
    log.open_hole(1 << 20);
    assert_eq!((log.end(), log.copied()), (10 + (1 << 20), 10));
    assert!(log.acknowledge(500).is_ok());
    assert!(log.part(0).is_none());
    log.close_hole();
}

#[test]
fn what_is_kept_while_parts_are_written_follows_them() {
    let mut log = Log::default();
    log.append(&[1; 10]);
    let first = log.part(0).expect("ten bytes");
    log.append(&[2; 5]);
    assert_eq!(log.acknowledge(7).map(|free| free.len()), Ok(0));
    let second = log.part(first.end).expect("five more");
    assert_eq!((first.end, second.end), (10, 15));
    assert!(log.part(second.end).is_none());
}
