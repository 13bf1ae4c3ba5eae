//! Tests of the sizes of a receiver's reads.

use std::sync::Mutex;

use super::*;
use crate::error::Failure;
use crate::pipes::reads::{ReadOnly, Reads};

const BULK: u16 = 7;
const DATA: usize = 256 << 10;

/// Bytes that are all there, and the size of each read.
#[derive(Debug, Default)]
struct Asked {
    left: Mutex<Vec<u8>>,
    each: Mutex<Vec<usize>>,
}

impl Reads for Asked {
    fn read(&self, target: &mut [u8]) -> Result<Option<usize>, Failure> {
        let mut left = floe_lock::lock(&self.left);
        let count = target.len().min(left.len());
        target[..count].copy_from_slice(&left[..count]);
        left.drain(..count);
        floe_lock::lock(&self.each).push(target.len());
        Ok(Some(count))
    }
}

fn bulk_frame(sequence: u64) -> Vec<u8> {
    let length = u32::try_from(BULK_HEAD + DATA).expect("a frame is small");
    let mut frame = FrameHeader { length, kind: BULK, sequence }.encode().to_vec();
    frame.resize(HEADER_BYTES + BULK_HEAD + DATA, 3);
    frame
}

#[test]
fn behind_a_bulk_frame_little_is_read_ahead_though_the_buffer_has_room_for_more() {
    let pipe =
        Arc::new(ReadOnly(Asked { left: Mutex::new((1..=4).flat_map(bulk_frame).collect()), ..Asked::default() }));
    let mut receiver = Receiver::new(Arc::clone(&pipe) as Arc<dyn Pipe>, 0);
    let mut place = vec![0; DATA];
    for _ in 1..=4 {
        let Ok(Some(Arrival::Bulk(mut bulk))) = receiver.next_arrival(BULK) else { panic!("not a bulk frame") };
        bulk.read(&mut place).expect("its data are there");
        assert!(place.iter().all(|byte| *byte == 3));
        place.fill(0);
    }
    let copied_once_more: usize = READ_AHEAD_OF_BULK - HEADER_BYTES - BULK_HEAD;
    let asked = pipe.0.each.lock().expect("no test panics with it").clone();
    // The first frame may be of any kind. A header's read brings little of the later ones' data; the rest is read
    // straight into its place.
    let rest = DATA - copied_once_more;
    assert_eq!(
        asked[asked.len() - 6..],
        [READ_AHEAD_OF_BULK, rest, READ_AHEAD_OF_BULK, rest, READ_AHEAD_OF_BULK, rest]
    );
    assert_eq!(asked[0], READ_AHEAD);
}
