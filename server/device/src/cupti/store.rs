//! The buffers that CUPTI fills. In: its calls for an empty buffer, and with a full one. Out: full buffers, oldest first.
//! Their number is bounded: when there are too many, the oldest full one is emptied for new records, and its loss is noted.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::Mutex;

/// Bytes of a buffer.
const BYTES: usize = 1 << 20;
/// Buffers at once.
const MOST: usize = 96;
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
    /// Buffers whose records were given up.
    emptied: u64,
}

static STORE: Mutex<Store> = Mutex::new(Store { filled: VecDeque::new(), given: Vec::new(), emptied: 0 });

impl Store {
    fn empty(&mut self) -> Box<[u64]> {
        let full = self.filled.len() + self.given.len() >= MOST;
        match self.filled.pop_front().filter(|_| full) {
            Some(oldest) => {
                self.emptied += 1;
                oldest.memory
            }
            // CUPTI has all of them, and crashes where it gets none: one more.
            None => vec![0; BYTES / size_of::<u64>()].into_boxed_slice(),
        }
    }
}

/// Buffers with records since the last time, oldest first.
pub(super) fn take() -> VecDeque<Filled> {
    std::mem::take(&mut floe_lock::lock(&STORE).filled)
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
