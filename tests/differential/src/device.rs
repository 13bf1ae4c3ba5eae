//! The driver library that the loader finds as `libcuda.so`, and the program's own memory behind an address.
//! In: calls by name. Out: their results, an error that names the call. It holds all unsafe code of the program, and
//! decides nothing.

use std::ffi::{c_char, c_void};
use std::os::fd::{FromRawFd as _, OwnedFd};

use anyhow::{Result, bail};
use cudarc::driver::sys;

/// Calls a function of the driver; an error where it does not succeed.
macro_rules! cu {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: addresses and handles come from the executor's tables, whose entries live until the operation that
        // ends them; the model admits none behind that. Results go to locals of the types that cudarc declares.
        let code = unsafe { cudarc::driver::sys::$function($($argument),*) };
        $crate::device::check(stringify!($function), code)
    }};
}
pub(crate) use cu;

/// A driver's function that failed.
#[derive(Debug)]
pub(crate) struct Failed {
    function: &'static str,
    pub(crate) code: sys::CUresult,
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} failed: {:?}", self.function, self.code)
    }
}

impl std::error::Error for Failed {}

pub(crate) fn check(function: &'static str, code: sys::CUresult) -> Result<()> {
    if code == sys::CUresult::CUDA_SUCCESS { Ok(()) } else { bail!(Failed { function, code }) }
}

/// Whether an error is one of these codes of the driver.
pub(crate) fn is_code(error: &anyhow::Error, codes: &[sys::CUresult]) -> bool {
    error.downcast_ref::<Failed>().is_some_and(|failed| codes.contains(&failed.code))
}

/// A descriptor that the driver has made.
pub(crate) fn adopt(number: i32) -> OwnedFd {
    // SAFETY: the driver has just given it to the program, which keeps it nowhere else.
    unsafe { OwnedFd::from_raw_fd(number) }
}

/// The bytes of a handle for other processes, which the driver counts as characters.
pub(crate) fn ipc_bytes(handle: [c_char; 64]) -> [u8; 64] {
    handle.map(|byte| byte.to_ne_bytes()[0])
}

pub(crate) fn ipc_words(bytes: [u8; 64]) -> [c_char; 64] {
    bytes.map(|byte| c_char::from_ne_bytes([byte]))
}

/// A number as the pointer that a call wants.
pub(crate) fn pointer(address: u64) -> *mut c_void {
    address as *mut c_void
}

/// The bytes of the program's own memory.
pub(crate) fn host_bytes(address: u64, bytes: usize) -> Vec<u8> {
    // SAFETY: the range lies in a block of host or managed memory that lives, and nothing writes it now: the model has
    // admitted the read.
    unsafe { std::slice::from_raw_parts(address as *const u8, bytes) }.to_vec()
}

pub(crate) fn set_host_bytes(address: u64, bytes: &[u8]) {
    // SAFETY: as for `host_bytes`, and nothing reads it either.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
}

/// A change that a host function makes.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) address: u64,
    pub(crate) words: usize,
    pub(crate) multiply: u32,
    pub(crate) add: u32,
}

/// The host function: its data are a [`Change`].
pub(crate) extern "C" fn change(data: *mut c_void) {
    // SAFETY: the executor keeps every change until the program ends.
    let change = unsafe { &*data.cast::<Change>() };
    let mut bytes = host_bytes(change.address, change.words * 4);
    for word in bytes.chunks_exact_mut(4) {
        let old = u32::from_le_bytes(word.try_into().expect("four bytes"));
        word.copy_from_slice(&old.wrapping_mul(change.multiply).wrapping_add(change.add).to_le_bytes());
    }
    set_host_bytes(change.address, &bytes);
}

// A function pointer of the type that the driver wants, which is an unsafe one.
pub(crate) const CHANGE: sys::CUhostFn = Some(change);
