//! What functions of NCCL read and give by pointers: values, lists, handles of communicators, and a thread's words.
//! In: C's pointers, for which the program keeps NCCL's contract. Out: values; a NULL is an error.

use std::cell::RefCell;
use std::ffi::{CString, c_int};
use std::sync::Arc;

use floe_nccl::{UNIQUE_ID_BYTES, code};

use crate::comms::Comm;
use crate::groups::{self, New, Origin, Settings};
use crate::session::{Failure, Outcome};

/// `ncclUniqueId`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct UniqueId(pub(super) [u8; UNIQUE_ID_BYTES]);

thread_local! {
    /// What `ncclGetLastError(NULL)` gives this thread.
    pub(super) static WORDS: RefCell<CString> = RefCell::default();
}

/// The words of this thread's last failure.
pub(super) fn say(words: &str) {
    WORDS.set(CString::new(words.replace('\0', " ")).unwrap_or_default());
}

/// A pointer is missing.
pub(super) fn null() -> Failure {
    Failure::new(code::INVALID_ARGUMENT, "a pointer is NULL")
}

/// Gives a value.
///
/// # Safety
/// `to` is NULL or has room.
pub(super) unsafe fn give<T>(to: *mut T, value: T) -> Outcome<()> {
    if to.is_null() {
        return Err(null());
    }
    // SAFETY: it is not NULL, and our caller says that there is room.
    unsafe { to.write(value) };
    Ok(())
}

/// A list of the program's.
///
/// # Safety
/// `at` is NULL or has as many.
pub(super) unsafe fn list<T: Copy>(at: *const T, count: c_int) -> Outcome<Vec<T>> {
    match usize::try_from(count) {
        Ok(count) if !at.is_null() => {
            // SAFETY: our caller says so.
            Ok(unsafe { std::slice::from_raw_parts(at, count) }.to_vec())
        }
        Ok(0) => Ok(Vec::new()),
        _ => Err(null()),
    }
}

/// Begins a communicator on a device, gives its handle, and makes it now or with its group.
///
/// # Safety
/// `comm` is NULL or has room.
pub(super) unsafe fn begin(comm: *mut usize, device: c_int, origin: Origin, settings: Settings) -> Outcome<()> {
    let own = Comm::begin(device, settings.blocks);
    // SAFETY: our caller says so.
    unsafe { give(comm, own.handle) }.inspect_err(|_| own.forget())?;
    let made = groups::new(New { comm: Some(Arc::clone(&own)), device, origin, settings });
    if let Err(failure) = &made
        && failure.code != code::IN_PROGRESS
    {
        own.forget();
        // SAFETY: as above.
        unsafe { give(comm, 0)? };
    }
    made
}
