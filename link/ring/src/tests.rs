//! The line as pure code: two ends stepped against each other, ends that lie, and every order in which two threads'
//! steps can fall (loom). Then the real thing: two sides of one memory, threads that sleep, sides that end.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may panic")]

mod model;
mod orders;

use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use crate::line::{Reader, Writer, has_bytes, has_room};
use crate::{BadIndex, Ring, demand_memory, sealed_memory};
use model::Plain;

/// Bytes that encode their offset.
fn data(from: usize, count: usize) -> Vec<u8> {
    (from..from + count).map(|index| (index % 251) as u8).collect()
}

proptest! {
    #[test]
    fn bytes_come_out_as_they_went_in_for_all_sizes(
        power in 0_u32..9,
        steps in prop::collection::vec((any::<bool>(), 0_usize..700), 0..300),
    ) {
        let line = Plain::new(1 << power);
        let (mut writer, mut reader) = (Writer::default(), Reader::default());
        let (mut written, mut read) = (0, 0);
        for (writes, size) in steps {
            if writes {
                let count = writer.write(&line, &data(written, size)).unwrap();
                let room = (1 << power) - (written - read);
                prop_assert_eq!(count, size.min(room));
                written += count;
            } else {
                let mut target = vec![0; size];
                let count = reader.read(&line, &mut target).unwrap();
                prop_assert!(count == 0 || target[..count] == data(read, count));
                // The last seen index may lag, but a reader with bytes reads some.
                prop_assert!(count <= size.min(written - read));
                prop_assert_eq!(count == 0, size.min(written - read) == 0);
                read += count;
            }
            prop_assert_eq!(has_bytes(&line, read as u64), written > read);
            prop_assert_eq!(has_room(&line, written as u64), 2 * (written - read) <= 1 << power);
        }
    }

    #[test]
    fn a_side_that_lies_is_found_out_or_gives_bytes_of_the_ring(
        lies in prop::collection::vec((any::<bool>(), any::<u64>(), 0_usize..40), 1..100),
    ) {
        let line = Plain::new(16);
        let (mut writer, mut reader) = (Writer::default(), Reader::default());
        for (of_the_writer, said, size) in lies {
            // `Plain` panics where a copy would leave the ring.
            if of_the_writer {
                line.say_written(said);
                let _ = reader.read(&line, &mut vec![0; size]);
            } else {
                line.say_taken(said);
                let _ = writer.write(&line, &data(0, size));
            }
        }
    }
}

#[test]
fn an_index_that_cannot_be_is_named() {
    let line = Plain::new(16);
    line.say_written(17);
    let outcome = Reader::default().read(&line, &mut [0; 4]);
    assert_eq!(outcome, Err(BadIndex { capacity: 16, said: 17, own: 0 }));
    line.say_taken(1);
    let outcome = Writer::default().write(&line, &[0; 20]);
    assert_eq!(outcome, Err(BadIndex { capacity: 16, said: 1, own: 0 }));
}

#[test]
fn a_whole_write_is_all_or_nothing() {
    let line = Plain::new(16);
    let (mut writer, mut reader) = (Writer::default(), Reader::default());
    let mut whole = |count| writer.write_whole(&line, &data(0, count)).unwrap();
    assert_eq!([whole(10), whole(7), whole(6), whole(1)], [10, 0, 6, 0]);
    assert_eq!(reader.read(&line, &mut [0; 3]).unwrap(), 3);
    assert_eq!([whole(4), whole(3)], [0, 3]);
}

#[test]
fn indices_may_run_over() {
    let line = Plain::new(16);
    let start = u64::MAX - 4;
    line.say_written(start);
    line.say_taken(start);
    let (mut writer, mut reader) = (Writer::at(start), Reader::at(start));
    assert_eq!(writer.write(&line, &data(0, 20)).unwrap(), 16);
    let mut target = [0; 20];
    assert_eq!(reader.read(&line, &mut target).unwrap(), 16);
    assert_eq!(target[..16], data(0, 16));
    assert_eq!(writer.write(&line, &data(16, 4)).unwrap(), 4);
}

fn pair(bytes: usize) -> (Ring, Ring) {
    let (one, file) = Ring::offer(bytes).unwrap();
    let other = Ring::take(&file, bytes as u64).unwrap();
    (one, other)
}

/// A limit for steps that a failed thread never takes.
const PATIENCE: Duration = Duration::from_secs(300);

/// Writes everything, sleeping for room.
fn write_all(ring: &Ring, mut bytes: &[u8]) {
    let until = Instant::now() + PATIENCE;
    while !bytes.is_empty() {
        let count = ring.write(bytes).unwrap();
        bytes = &bytes[count..];
        if count == 0 {
            ring.sleep_for_room(Some(until.saturating_duration_since(Instant::now())));
            assert!(Instant::now() < until, "no room for {} bytes", bytes.len());
        }
    }
}

/// Reads everything, sleeping for bytes.
fn read_all(ring: &Ring, target: &mut [u8]) {
    let (mut read, until) = (0, Instant::now() + PATIENCE);
    while read < target.len() {
        let count = ring.read(&mut target[read..]).unwrap();
        read += count;
        if count == 0 {
            ring.sleep_for_bytes(Some(until.saturating_duration_since(Instant::now())));
            assert!(Instant::now() < until, "only {read} of {} bytes", target.len());
        }
    }
}

#[test]
fn both_directions_carry_bytes_at_once_with_threads_that_sleep() {
    let (one, other) = pair(crate::LEAST_BYTES);
    let sent = data(0, 1 << 20);
    let echo = |ring: &Ring| {
        let mut bytes = vec![0; 7_000];
        for _ in 0..(1 << 20) / 7_000 {
            read_all(ring, &mut bytes);
            write_all(ring, &bytes);
        }
    };
    let whole = (1 << 20) / 7_000 * 7_000;
    std::thread::scope(|scope| {
        scope.spawn(|| echo(&other));
        scope.spawn(|| write_all(&one, &sent[..whole]));
        let mut came = vec![0; whole];
        read_all(&one, &mut came);
        assert_eq!(came, sent[..whole]);
    });
}

#[test]
fn ending_wakes_all_sleepers_and_keeps_written_bytes() {
    let (one, other) = pair(crate::LEAST_BYTES);
    let (one, other) = (Arc::new(one), Arc::new(other));
    write_all(&one, &data(0, crate::LEAST_BYTES));
    let full = Arc::clone(&one);
    let waiting = std::thread::spawn(move || {
        while !full.is_over() {
            full.sleep_for_room(None);
        }
    });
    let empty = Arc::clone(&one);
    let watching = std::thread::spawn(move || {
        while !empty.is_over() {
            empty.sleep_for_bytes(None);
        }
    });
    std::thread::sleep(Duration::from_millis(10));
    one.end();
    let soon = Instant::now() + PATIENCE;
    for thread in [waiting, watching] {
        while !thread.is_finished() {
            assert!(Instant::now() < soon, "a thread sleeps on");
            std::thread::yield_now();
        }
        thread.join().unwrap();
    }
    other.end();
    let mut came = vec![0; crate::LEAST_BYTES];
    read_all(&other, &mut came);
    assert_eq!(came, data(0, crate::LEAST_BYTES));
}

#[test]
fn a_sleep_with_a_time_ends_with_it() {
    let (one, _other) = pair(crate::LEAST_BYTES);
    one.sleep_for_bytes(Some(Duration::from_millis(1)));
    assert!(!one.has_bytes());
    // There is room: no sleep at all.
    one.sleep_for_room(None);
}

#[test]
fn memory_made_here_is_taken_and_keeps_its_size() {
    let file = sealed_memory("sealed", 4096).unwrap();
    assert_eq!((demand_memory(&file, 4096), demand_memory(&file, 4097).is_err()), (Ok(()), true));
    assert!([0, 8192].iter().all(|bytes| rustix::fs::ftruncate(&file, *bytes).is_err()));
    assert_eq!(rustix::fs::fstat(&file).unwrap().st_size, 4096);
}

#[test]
fn only_memory_that_stays_is_taken() {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
    let file = memfd_create("unsealed", MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&file, 1 << 20).unwrap();
    let refused = |bytes| Ring::take(&file, bytes).unwrap_err().to_string();
    assert_eq!(refused(4096), "the memory could shrink while it is mapped");
    fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
    assert!(Ring::take(&file, 4096).is_ok());
    assert_eq!(refused(1 << 20), "2101248 bytes do not fit memory of: 1048576");
    for bytes in [0, 1, 4095, 6000, 1 << 40, u64::MAX] {
        assert_eq!(refused(bytes), format!("no size of a ring: {bytes}"));
    }
    let other = std::fs::File::open("/proc/self/exe").unwrap();
    assert!(Ring::take(other.as_fd(), 4096).is_err());
    assert!(demand_memory(std::io::stdin(), 1).is_err());
}
