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

/// One side of a ring in a process of its own, as far as this process can play that.
fn elsewhere(side: &Ring, file: &std::os::fd::OwnedFd) -> Ring {
    side.hold();
    assert_eq!(side.write(&[1]).unwrap(), 0, "another process continues here");
    let other = Ring::expect(file, side.bytes(), side.has_offered()).unwrap();
    assert_eq!(other.write(&[1]).unwrap(), 0, "it has not begun");
    other.resume(side.indices()).unwrap();
    other
}

proptest! {
    #[test]
    fn bytes_come_out_as_they_went_in_while_sides_move(
        steps in prop::collection::vec((0_usize..2, 0_u8..5, 0_usize..6000), 1..200),
    ) {
        let (one, file) = Ring::offer(4096).unwrap();
        let other = Ring::take(&file, 4096).unwrap();
        let mut sides = [one, other];
        let (mut written, mut read) = ([0; 2], [0; 2]);
        for (side, step, size) in steps {
            match step {
                0 => sides[side] = elsewhere(&sides[side], &file),
                1 | 2 => written[side] += sides[side].write(&data(written[side], size)).unwrap(),
                3 => {
                    // A move that is given up.
                    sides[side].hold();
                    prop_assert!(sides[side].let_write());
                }
                _ => {
                    let mut target = vec![0; size];
                    let count = sides[side].read(&mut target).unwrap();
                    prop_assert!(target[..count] == data(read[side], count));
                    prop_assert_eq!(count == 0, size.min(written[1 - side] - read[side]) == 0);
                    read[side] += count;
                }
            }
        }
    }

    #[test]
    fn a_side_that_goes_on_believes_the_memory_nothing_that_cannot_be(
        indices in any::<[u64; 2]>(),
        near in prop::collection::vec(0_u64..9000, 4),
        page in prop::collection::vec(any::<u8>(), 0..1200),
    ) {
        use std::os::unix::fs::FileExt as _;
        let (one, file) = Ring::offer(4096).unwrap();
        let memory = std::fs::File::from(file.try_clone().unwrap());
        memory.write_all_at(&page, 0).unwrap();
        let other = Ring::expect(&file, 4096, false).unwrap();
        for indices in [indices, [near[0], near[1]], [near[2], near[3]]] {
            if other.resume(indices).is_ok() {
                prop_assert_eq!(other.indices(), indices);
                let _ = other.write(&[7; 5000]);
                let _ = other.read(&mut [0; 5000]);
            }
        }
        drop(one);
    }
}

#[test]
fn a_side_that_another_process_has_used_does_not_go_on() {
    let (one, file) = Ring::offer(4096).unwrap();
    let other = Ring::take(&file, 4096).unwrap();
    for uses in [true, false] {
        let again = elsewhere(&other, &file);
        if uses {
            assert_eq!(again.write(&[3]).unwrap(), 1);
        } else {
            assert_eq!(one.write(&[3]).unwrap(), 1);
            assert_eq!(again.read(&mut [0]).unwrap(), 1);
        }
        assert!(!other.let_write());
        assert_eq!(other.write(&[3]).unwrap(), 0);
    }
}

#[test]
fn a_reader_that_sleeps_is_woken_by_its_own_side() {
    let (one, _file) = Ring::offer(4096).unwrap();
    let one = Arc::new(one);
    let (sleeping, over) = (Arc::clone(&one), std::sync::atomic::AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            sleeping.sleep_for_bytes(None);
            over.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        let until = Instant::now() + Duration::from_secs(60);
        while !over.load(std::sync::atomic::Ordering::SeqCst) {
            assert!(Instant::now() < until);
            one.wake_readers();
        }
    });
}
