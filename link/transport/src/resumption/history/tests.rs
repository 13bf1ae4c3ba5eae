//! What digests tell apart: pieces of one stream, and processes that once were one.

use floe_wire::{CopyToDevice, FrameHeader, Message as _, Salt};
use proptest::prelude::*;

use super::*;
use crate::frames::salt::salt;
use crate::resumption::log::{Impossible, Log};

/// A frame as a sender writes it: a large one behind a word.
pub(in crate::resumption) fn frame(payload: &[u8], word: u64) -> Vec<u8> {
    let header = |kind, length: usize| {
        FrameHeader { kind, length: length.try_into().expect("it is small"), sequence: 1 }.encode()
    };
    let mut bytes = Vec::new();
    if payload.len() >= SALTED_FROM {
        bytes.extend_from_slice(&header(Salt::KIND, 8));
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.extend_from_slice(&header(CopyToDevice::KIND, payload.len()));
    bytes.extend_from_slice(payload);
    bytes
}

/// Where who has read these bytes is.
pub(in crate::resumption) fn marked(bytes: &[u8]) -> HistoryDigest {
    let mut history = RunningDigest::default();
    history.absorb(bytes);
    history.mark()
}

#[test]
fn every_byte_of_small_frames_counts_and_of_large_ones_the_header_and_the_word() {
    let frames = [frame(&[1; 4095], 7), frame(&[2; 4096], 7), frame(&[3; 5], 7)];
    let bytes = frames.concat();
    let large = frames[0].len() + 24 + HEADER_BYTES..frames[0].len() + frames[1].len();
    let whole = marked(&bytes);
    for index in 0..bytes.len() {
        let mut other = bytes.clone();
        // The length stays what it is.
        other[index] ^= 0x80;
        let is_length =
            [0, frames[0].len(), frames[0].len() + 24, large.end].iter().any(|at| (*at..at + 4).contains(&index));
        if !is_length {
            assert_eq!(marked(&other) == whole, large.contains(&index), "byte {index}");
        }
    }
}

#[test]
fn the_digest_of_nothing_is_what_the_protocol_says() {
    assert_eq!(HistoryDigest::none(), HistoryDigest { received: 0, digest: 0x2d06_8005_38d3_94c2 });
    let twice = [frame(&[1; 10], 1), frame(&[2; 5000], 2)].concat();
    let counted = [&twice[..26], &twice[26..26 + 24 + HEADER_BYTES]].concat();
    assert_eq!(marked(&twice).digest, twox_hash::XxHash3_64::oneshot(&counted));
}

#[test]
fn words_differ() {
    let words: std::collections::HashSet<u64> = (0..1000).map(|_| salt().word).collect();
    assert_eq!(words.len(), 1000);
}

/// What a client does.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// It sends a frame with so large a payload, of data that depend on the time or do not.
    Send { payload: usize, timed: bool },
    /// The server reads so many of the bytes that are under way.
    Read(usize),
    /// The client hears how far the server is.
    Hear,
}

/// One process that has the session.
#[derive(Default)]
struct Client {
    log: Log,
    sent: Vec<u8>,
}

/// The worker: what it has read.
#[derive(Default)]
struct Server {
    read: Vec<u8>,
}

impl Client {
    /// Does as `steps` say at a time, which no other process has.
    fn run(&mut self, server: &mut Server, steps: &[Step], time: u64) {
        for (index, step) in steps.iter().enumerate() {
            match *step {
                Step::Send { payload, timed } => {
                    let byte = if timed { time } else { 0 };
                    let data = vec![byte.to_le_bytes()[0]; payload];
                    let frame = frame(&data, time << 32 | index as u64);
                    self.log.append(&frame);
                    self.sent.extend_from_slice(&frame);
                }
                Step::Read(bytes) => {
                    let from = server.read.len();
                    let until = (from + bytes).min(self.sent.len());
                    server.read.extend_from_slice(&self.sent[from.min(until)..until]);
                }
                Step::Hear => drop(self.log.acknowledge(marked(&server.read)).expect("it has what was sent")),
            }
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let payload = prop_oneof![1_usize..40, Just(8), SALTED_FROM - 20..SALTED_FROM + 200];
    prop_oneof![
        4 => (payload, any::<bool>()).prop_map(|(payload, timed)| Step::Send { payload, timed }),
        3 => (1_usize..6000).prop_map(Step::Read),
        1 => Just(Step::Hear),
    ]
}

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec(step(), 0..most)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]

    #[test]
    fn a_digest_does_not_depend_on_how_the_bytes_come(
        payloads in proptest::collection::vec(prop_oneof![0_usize..50, SALTED_FROM - 3..SALTED_FROM + 3], 1..6),
        cuts in proptest::collection::vec(1_usize..3000, 1..8),
    ) {
        let bytes: Vec<u8> =
            payloads.iter().enumerate().flat_map(|(index, payload)| frame(&vec![7; *payload], index as u64)).collect();
        let (mut history, mut rest, mut cut) = (RunningDigest::default(), bytes.as_slice(), cuts.iter().cycle());
        while !rest.is_empty() {
            let (now, later) = rest.split_at((*cut.next().expect("there is one")).min(rest.len()));
            history.absorb(now);
            rest = later;
        }
        prop_assert_eq!(history.mark(), marked(&bytes));
    }

    /// A process whose image is taken `before` goes on `meanwhile`; the one that is made from the image does as `after` says,
    /// and then makes its connection again.
    #[test]
    fn who_was_restored_goes_on_only_where_nobody_has_gone_on_otherwise(
        before in steps(20),
        meanwhile in steps(12),
        after in steps(12),
        alike in any::<bool>(),
    ) {
        let (mut server, mut image) = (Server::default(), Server::default());
        let (mut original, mut restored) = (Client::default(), Client::default());
        original.run(&mut server, &before, 1);
        restored.run(&mut image, &before, 1);
        original.run(&mut server, &meanwhile, 2);
        // Nothing of what it sends arrives; often it does what the original has done.
        let blind = |step: &&Step| matches!(step, Step::Send { .. });
        let after: Vec<Step> = (if alike { &meanwhile } else { &after }).iter().filter(blind).copied().collect();
        restored.run(&mut image, &after, 3);
        let mark = marked(&server.read);
        prop_assert!(original.log.check(mark).is_ok(), "its own history is");
        let there = server.read.len();
        let is_same = restored.sent.len() >= there && {
            let sent = &restored.sent[..there];
            marked(sent) == mark && sent.len() == there
        };
        match restored.log.check(mark) {
            Ok(_) => {
                prop_assert!(is_same);
                prop_assert_eq!(&restored.sent[..there], server.read.as_slice(), "no byte is another's");
            }
            Err(Impossible::Outside { sent, .. }) => prop_assert!(sent < there as u64),
            Err(Impossible::Others) => prop_assert_ne!(&restored.sent[..there], server.read.as_slice()),
        }
    }
}
