//! Values as NCCL has them: ids, communicators, addresses, texts.
//! In and out: plain data of C's layout. It calls nothing but for a failure's words.

use std::ffi::{CStr, c_char, c_void};

use floe_abi::DevicePtr;

/// Bytes of a unique id.
pub const UNIQUE_ID_BYTES: usize = 128;

/// `ncclUniqueId`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct UniqueId(pub [u8; UNIQUE_ID_BYTES]);

/// A communicator of this process's NCCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Comm(*mut c_void);

impl Comm {
    /// No communicator.
    pub(super) const NONE: Self = Self(std::ptr::null_mut());
}

// SAFETY: NCCL lets any thread use a communicator; the value is a name and is not followed here.
unsafe impl Send for Comm {}
// SAFETY: the same.
unsafe impl Sync for Comm {}

/// An address of the device, as NCCL takes it.
pub(super) fn pointer(at: DevicePtr) -> *mut c_void {
    std::ptr::without_provenance_mut(usize::try_from(at.0).unwrap_or(usize::MAX))
}

/// The text of a name for C.
pub(super) fn text(name: &str) -> Option<std::ffi::CString> {
    (!name.is_empty()).then(|| std::ffi::CString::new(name).ok()).flatten()
}

/// `ncclGetLastError`.
pub(super) type LastError = unsafe extern "C" fn(Comm) -> Text;

/// What NCCL says of its last failure.
pub(super) fn last_words(last_error: LastError) -> String {
    // SAFETY: NCCL takes no communicator here as well, and gives a text of its own that it never frees.
    let text = unsafe { last_error(Comm::NONE) };
    if text.is_null() {
        return String::new();
    }
    // SAFETY: it is not NULL, ends with a zero and stays.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// A text of C.
pub(super) type Text = *const c_char;
