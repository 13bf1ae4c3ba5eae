//! A line in this thread's own memory, whose other side does what a test wants.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use crate::line::{End, Line};

/// A ring of this thread alone.
pub(super) struct Plain {
    written: Cell<u64>,
    taken: Cell<u64>,
    bytes: RefCell<Vec<u8>>,
}

impl Plain {
    pub(super) fn new(capacity: usize) -> Self {
        Self { written: Cell::new(0), taken: Cell::new(0), bytes: RefCell::new(vec![0; capacity]) }
    }

    pub(super) fn say_written(&self, index: u64) {
        self.written.set(index);
    }

    pub(super) fn say_taken(&self, index: u64) {
        self.taken.set(index);
    }

    fn place(&self, end: End) -> &Cell<u64> {
        match end {
            End::Writer => &self.written,
            End::Reader => &self.taken,
        }
    }
}

impl Line for Plain {
    fn capacity(&self) -> u64 {
        self.bytes.borrow().len() as u64
    }

    fn index(&self, end: End) -> u64 {
        self.place(end).get()
    }

    fn set_index(&self, end: End, index: u64) {
        self.place(end).set(index);
    }

    fn fence(&self) {}

    fn alarm(&self, _: End) -> u32 {
        0
    }

    fn set_alarm(&self, _: End, _: u32) -> u32 {
        0
    }

    fn replace_alarm(&self, _: End, _: u32, _: u32) {}

    fn sleep(&self, _: End, _: u32, _: Option<Duration>) {}

    fn wake(&self, _: End) {}

    fn is_over(&self) -> bool {
        false
    }

    fn put(&self, at: usize, bytes: &[u8]) {
        self.bytes.borrow_mut()[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn get(&self, at: usize, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.bytes.borrow()[at..at + bytes.len()]);
    }
}
