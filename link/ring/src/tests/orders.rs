//! Steps two or three threads in every order that the memory model allows: no wake-up is lost, no byte is read while it
//! is written.

use std::time::Duration;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use crate::line::{End, Line, Reader, Writer, ring, sleep_for_bytes, sleep_for_room};

/// A ring of threads that loom schedules.
struct Stepped {
    written: AtomicU64,
    taken: AtomicU64,
    alarms: [AtomicU32; 2],
    /// The kernel's part of a futex: checking the word and going to sleep is atomic against wakes.
    beds: [(Mutex<()>, Condvar); 2],
    over: AtomicBool,
    bytes: Vec<UnsafeCell<u8>>,
}

impl Stepped {
    fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Self {
            written: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            alarms: [AtomicU32::new(0), AtomicU32::new(0)],
            beds: [(Mutex::new(()), Condvar::new()), (Mutex::new(()), Condvar::new())],
            over: AtomicBool::new(false),
            bytes: (0..capacity).map(|_| UnsafeCell::new(0)).collect(),
        })
    }

    fn place(&self, end: End) -> &AtomicU64 {
        match end {
            End::Writer => &self.written,
            End::Reader => &self.taken,
        }
    }
}

impl Line for Stepped {
    fn capacity(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn index(&self, end: End) -> u64 {
        self.place(end).load(Ordering::Acquire)
    }

    fn set_index(&self, end: End, index: u64) {
        self.place(end).store(index, Ordering::Release);
    }

    fn fence(&self) {
        fence(Ordering::SeqCst);
    }

    fn alarm(&self, end: End) -> u32 {
        self.alarms[end as usize].load(Ordering::Relaxed)
    }

    fn set_alarm(&self, end: End, bits: u32) -> u32 {
        self.alarms[end as usize].fetch_or(bits, Ordering::SeqCst)
    }

    fn replace_alarm(&self, end: End, is: u32, becomes: u32) {
        let _ = self.alarms[end as usize].compare_exchange(is, becomes, Ordering::SeqCst, Ordering::Relaxed);
    }

    fn sleep(&self, end: End, alarm: u32, _: Option<Duration>) {
        let (bed, bell) = &self.beds[end as usize];
        let asleep = bed.lock().unwrap();
        if self.alarms[end as usize].load(Ordering::Relaxed) == alarm {
            drop(bell.wait(asleep).unwrap());
        }
    }

    fn wake(&self, end: End) {
        let (bed, bell) = &self.beds[end as usize];
        drop(bed.lock().unwrap());
        bell.notify_all();
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    fn put(&self, at: usize, bytes: &[u8]) {
        for (cell, byte) in self.bytes[at..].iter().zip(bytes) {
            // Loom panics where another thread reads it at the same time.
            cell.with_mut(|_| ());
            let _ = byte;
        }
    }

    fn get(&self, at: usize, bytes: &mut [u8]) {
        for (cell, _) in self.bytes[at..].iter().zip(bytes) {
            cell.with(|_| ());
        }
    }
}

fn write(line: &Stepped, bytes: usize) {
    let mut writer = Writer::default();
    let mut left = bytes;
    while left > 0 {
        let count = writer.write(line, &[0; 8][..left]).unwrap();
        left -= count;
        if count == 0 {
            sleep_for_room(line, writer.written(), None);
        }
    }
}

fn read(line: &Stepped, bytes: usize) {
    let mut reader = Reader::default();
    let mut left = bytes;
    while left > 0 {
        let count = reader.read(line, &mut [0; 8][..left]).unwrap();
        left -= count;
        if count == 0 {
            sleep_for_bytes(line, reader.taken(), None);
        }
    }
}

fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    // More than three preemptions have never found another bug, and cost minutes.
    builder.preemption_bound = Some(3);
    builder.check(check);
}

#[test]
fn neither_end_sleeps_for_ever() {
    model(|| {
        let line = Stepped::new(2);
        let other = Arc::clone(&line);
        let writing = thread::spawn(move || write(&other, 3));
        read(&line, 3);
        writing.join().unwrap();
    });
}

#[test]
fn a_second_thread_that_waits_takes_no_wake_up_from_the_first() {
    model(|| {
        let line = Stepped::new(1);
        let (writer, other) = (Arc::clone(&line), Arc::clone(&line));
        let writing = thread::spawn(move || write(&writer, 1));
        let waiting = thread::spawn(move || sleep_for_bytes(&*other, 0, None));
        read(&line, 1);
        writing.join().unwrap();
        waiting.join().unwrap();
    });
}

#[test]
fn all_waits_return_at_the_end() {
    model(|| {
        let line = Stepped::new(1);
        let other = Arc::clone(&line);
        let waiting = thread::spawn(move || {
            while !other.is_over() {
                sleep_for_bytes(&*other, 0, None);
            }
        });
        line.over.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        ring(&*line, End::Reader);
        waiting.join().unwrap();
    });
}
