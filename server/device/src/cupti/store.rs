//! The buffers that CUPTI fills. In: its calls for an empty buffer, and with a full one. Out: full buffers, oldest first.
//! Their number is bounded, with those that are being read: when there are too many, the oldest full one is emptied for new
//! records, and its loss is noted.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::Mutex;

/// Bytes of a buffer.
const BYTES: usize = 1 << 20;
/// Buffers at once.
pub(super) const MOST: usize = 96;
/// Bytes of all buffers.
pub const MOST_BYTES: u64 = (BYTES * MOST) as u64;

/// A buffer with records.
#[derive(Debug)]
pub(super) struct Filled {
    pub(super) memory: Box<[u64]>,
    /// Bytes that hold records.
    pub(super) bytes: usize,
    /// The address of the record that was read last; 0: none.
    pub(super) at: usize,
}

#[derive(Debug)]
struct Store {
    filled: VecDeque<Filled>,
    /// With CUPTI, by their addresses.
    given: Vec<Box<[u64]>>,
    /// Buffers that were taken, and are not read to their end.
    reading: usize,
    /// Buffers whose records were given up.
    emptied: u64,
}

static STORE: Mutex<Store> = Mutex::new(Store::new());

impl Store {
    const fn new() -> Self {
        Self { filled: VecDeque::new(), given: Vec::new(), reading: 0, emptied: 0 }
    }

    fn empty(&mut self) -> Box<[u64]> {
        let full = self.reading + self.filled.len() + self.given.len() >= MOST;
        let oldest = if full { self.filled.pop_front() } else { None };
        match oldest {
            Some(oldest) => {
                self.emptied += 1;
                oldest.memory
            }
            // CUPTI has all of them, and crashes where it gets none: one more.
            None => vec![0; BYTES / size_of::<u64>()].into_boxed_slice(),
        }
    }
}

/// Buffers with records since the last time, oldest first. They count until [`has_read`].
pub(super) fn take() -> VecDeque<Filled> {
    let mut store = floe_lock::lock(&STORE);
    store.reading += store.filled.len();
    std::mem::take(&mut store.filled)
}

/// So many of the buffers that were taken are gone.
pub(super) fn has_read(buffers: usize) {
    let mut store = floe_lock::lock(&STORE);
    store.reading = store.reading.saturating_sub(buffers);
}

/// Buffers whose records were given up since the last time.
pub(super) fn take_emptied() -> u64 {
    std::mem::take(&mut floe_lock::lock(&STORE).emptied)
}

/// `CUpti_BuffersCallbackRequestFunc`.
pub(super) unsafe extern "C" fn request(buffer: *mut *mut u8, bytes: *mut usize, most: *mut usize) {
    let mut store = floe_lock::lock(&STORE);
    let mut memory = store.empty();
    // SAFETY: CUPTI gives room for the three outputs.
    unsafe {
        buffer.write(memory.as_mut_ptr().cast());
        bytes.write(BYTES);
        most.write(0);
    }
    store.given.push(memory);
}

/// `CUpti_BuffersCallbackCompleteFunc`.
pub(super) unsafe extern "C" fn complete(_: *mut c_void, _: u32, buffer: *mut u8, _: usize, bytes: usize) {
    let mut store = floe_lock::lock(&STORE);
    let index = store.given.iter().position(|memory| memory.as_ptr().addr() == buffer.addr());
    let Some(index) = index else { return };
    let memory = store.given.swap_remove(index);
    if bytes > 0 {
        store.filled.push_back(Filled { memory, bytes: bytes.min(BYTES), at: 0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled() -> Filled {
        Filled { memory: Box::default(), bytes: 8, at: 0 }
    }

    #[test]
    fn a_further_buffer_takes_no_records_away_until_there_are_too_many() {
        let mut store = Store::new();
        store.filled.extend((2..MOST).map(|_| filled()));
        let given = store.empty();
        store.given.push(given);
        assert_eq!((store.filled.len(), store.emptied), (MOST - 2, 0));
        store.reading = 1;
        let given = store.empty();
        store.given.push(given);
        assert_eq!((store.filled.len(), store.emptied), (MOST - 3, 1));
        store.filled.clear();
        store.reading = MOST;
        assert_eq!(store.empty().len(), BYTES / size_of::<u64>(), "CUPTI gets one all the same");
        assert_eq!(store.emptied, 1);
    }
}
