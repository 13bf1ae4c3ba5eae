//! Buffers of records, as CUPTI and its users exchange them: the user gives empty ones, and takes them back filled.
//! In: records, one at a time; a filled buffer. Out: buffers for the user; the records of a filled one, one after the other.
//! It keeps no record: what finds no room is counted.

use std::ffi::c_void;

use crate::record::{Record, size_of_kind};

/// `CUpti_BuffersCallbackRequestFunc`: gives a buffer, its bytes, and the most records in it (0: as many as fit).
pub type Request = unsafe extern "C" fn(buffer: *mut *mut u8, bytes: *mut usize, most: *mut usize);
/// `CUpti_BuffersCallbackCompleteFunc`: takes a buffer back, of which so many bytes hold records.
pub type Complete =
    unsafe extern "C" fn(context: *mut c_void, stream: u32, buffer: *mut u8, bytes: usize, filled: usize);

/// The user's two functions.
#[derive(Clone, Copy, Debug)]
pub struct User {
    /// Gives buffers.
    pub request: Request,
    /// Takes them back.
    pub complete: Complete,
}

/// Writes records into a user's buffers.
#[derive(Debug)]
pub struct Writer {
    user: User,
    buffer: *mut u8,
    bytes: usize,
    most: usize,
    filled: usize,
    count: usize,
    refused: bool,
    dropped: u64,
}

// SAFETY: a buffer is the writer's alone from when it is given until it is given back, whatever the thread.
unsafe impl Send for Writer {}

impl Writer {
    /// Has no buffer yet.
    #[must_use]
    pub fn new(user: User) -> Self {
        Self { user, buffer: std::ptr::null_mut(), bytes: 0, most: 0, filled: 0, count: 0, refused: false, dropped: 0 }
    }

    /// Writes a record, into a further buffer where the present one is full.
    ///
    /// # Safety
    /// The user's functions keep CUPTI's contract: a buffer that is not NULL may be written, is aligned to 8 bytes, and stays
    /// until it is given back.
    pub unsafe fn write<R: Record>(&mut self, record: &R) {
        let full = self.bytes - self.filled < size_of::<R>() || (self.most != 0 && self.count >= self.most);
        // SAFETY: our caller says so.
        if full && !unsafe { self.next(size_of::<R>()) } {
            self.dropped += 1;
            return;
        }
        // SAFETY: so many bytes are left of the buffer, which is aligned as the sizes of all records are.
        unsafe { self.buffer.add(self.filled).cast::<R>().write(*record) };
        self.filled += size_of::<R>();
        self.count += 1;
    }

    /// Asks for a buffer where there is none. Users take one that they have given for a sign of records to come.
    ///
    /// # Safety
    /// As [`Writer::write`].
    pub unsafe fn begin(&mut self) {
        if self.buffer.is_null() {
            // SAFETY: our caller says so.
            unsafe { self.next(1) };
        }
    }

    /// Asks for a buffer in place of the present one. A user who refuses one is not asked again.
    unsafe fn next(&mut self, least: usize) -> bool {
        // SAFETY: our caller says so.
        unsafe { self.finish() };
        if self.refused {
            return false;
        }
        let (mut buffer, mut bytes, mut most) = (std::ptr::null_mut(), 0, 0);
        // SAFETY: the outputs are our own; our caller vouches for the function.
        unsafe { (self.user.request)(&raw mut buffer, &raw mut bytes, &raw mut most) };
        let fits = !buffer.is_null() && buffer.addr().is_multiple_of(8) && bytes >= least;
        if !buffer.is_null() && !fits {
            // SAFETY: the buffer goes back to who gave it, with nothing in it.
            unsafe { (self.user.complete)(std::ptr::null_mut(), 0, buffer, bytes, 0) };
        }
        self.refused = !fits;
        if fits {
            (self.buffer, self.bytes, self.most) = (buffer, bytes, most);
        }
        fits
    }

    /// Gives the present buffer back.
    ///
    /// # Safety
    /// As [`Writer::write`].
    pub unsafe fn finish(&mut self) {
        let buffer = std::mem::replace(&mut self.buffer, std::ptr::null_mut());
        let (bytes, filled) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.filled));
        self.count = 0;
        if !buffer.is_null() {
            // SAFETY: it is the user's own, who gave it to be filled.
            unsafe { (self.user.complete)(std::ptr::null_mut(), 0, buffer, bytes, filled) };
        }
    }

    /// Whose buffers they are.
    #[must_use]
    pub fn user(&self) -> User {
        self.user
    }

    /// Records that found no room.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// The record behind `record` in a buffer that a [`Writer`] filled; the first for NULL. `None` behind the last, or where
/// the buffer holds what no writer wrote.
///
/// # Safety
/// So many bytes at `buffer` may be read, and `record` is NULL or what this gave for this buffer.
#[must_use]
pub unsafe fn next_record(buffer: *mut u8, filled: usize, record: *mut u8) -> Option<*mut u8> {
    let at = if record.is_null() {
        0
    } else {
        // SAFETY: `record` is within the buffer, and begins with its kind.
        let kind = unsafe { record.cast::<u32>().read_unaligned() };
        record.addr().checked_sub(buffer.addr())?.checked_add(size_of_kind(kind)?)?
    };
    let rest = filled.checked_sub(at)?;
    if buffer.is_null() || rest < size_of::<u32>() {
        return None;
    }
    // SAFETY: at least four bytes are left at this place.
    let next = unsafe { buffer.add(at) };
    // SAFETY: as above.
    let kind = unsafe { next.cast::<u32>().read_unaligned() };
    size_of_kind(kind).filter(|size| *size <= rest).map(|_| next)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use std::cell::RefCell;

    use super::*;
    use crate::kind;
    use crate::record::{Api, External, Memcpy};

    #[derive(Default)]
    struct Held {
        buffers: Vec<(Box<[u64]>, usize)>,
        left: usize,
    }

    thread_local! {
        static HELD: RefCell<Held> = RefCell::default();
    }

    const BYTES: usize = 128;

    unsafe extern "C" fn request(buffer: *mut *mut u8, bytes: *mut usize, most: *mut usize) {
        HELD.with_borrow_mut(|held| {
            let Some(left) = held.left.checked_sub(1) else { return };
            held.left = left;
            let mut memory = vec![0_u64; BYTES / 8].into_boxed_slice();
            // SAFETY: the writer gives room for these.
            unsafe {
                buffer.write(memory.as_mut_ptr().cast());
                bytes.write(BYTES);
                most.write(0);
            }
            held.buffers.push((memory, 0));
        });
    }

    unsafe extern "C" fn complete(_: *mut c_void, _: u32, buffer: *mut u8, bytes: usize, filled: usize) {
        HELD.with_borrow_mut(|held| {
            let (memory, size) = held.buffers.last_mut().unwrap();
            assert_eq!((memory.as_mut_ptr().cast(), bytes), (buffer, BYTES));
            *size = filled;
        });
    }

    fn kinds() -> Vec<Vec<u32>> {
        HELD.with_borrow_mut(|held| {
            let each = |(memory, filled): &mut (Box<[u64]>, usize)| {
                let buffer: *mut u8 = memory.as_mut_ptr().cast();
                let (mut kinds, mut record) = (Vec::new(), std::ptr::null_mut());
                // SAFETY: the buffer is the test's own, and `record` within it.
                while let Some(next) = unsafe { next_record(buffer, *filled, record) } {
                    // SAFETY: it begins with the kind.
                    kinds.push(unsafe { next.cast::<u32>().read_unaligned() });
                    record = next;
                }
                kinds
            };
            held.buffers.iter_mut().map(each).collect()
        })
    }

    #[test]
    fn records_come_out_as_they_were_written_and_what_finds_no_room_is_counted() {
        HELD.with_borrow_mut(|held| held.left = 2);
        let mut writer = Writer::new(User { request, complete });
        let api = Api { kind: kind::DRIVER, ..Api::default() };
        let external = External { kind: kind::EXTERNAL_CORRELATION, ..External::default() };
        let copy = Memcpy { kind: kind::MEMCPY, ..Memcpy::zeroed() };
        // SAFETY: the functions above give memory that may be written, and keep it.
        unsafe {
            writer.write(&external);
            writer.write(&copy);
            writer.write(&api);
            writer.write(&copy);
            writer.write(&api);
            writer.finish();
        }
        assert_eq!(kinds(), [vec![kind::EXTERNAL_CORRELATION, kind::MEMCPY], vec![kind::DRIVER]]);
        assert_eq!(writer.dropped(), 2);
    }

    #[test]
    fn a_buffer_that_lies_is_read_no_further_than_its_end() {
        let mut memory = [u64::MAX; 4];
        let at = memory.as_mut_ptr().cast();
        // SAFETY: the memory is the test's own.
        assert_eq!(unsafe { next_record(at, 32, std::ptr::null_mut()) }, None, "no kind of record");
        memory[0] = u64::from(kind::DRIVER);
        let at = memory.as_mut_ptr().cast();
        // SAFETY: as above.
        assert_eq!(unsafe { next_record(at, 32, std::ptr::null_mut()) }, None, "a record that is cut off");
        // SAFETY: as above.
        assert_eq!(unsafe { next_record(at, 3, std::ptr::null_mut()) }, None, "no room for a kind");
    }
}
