//! Numbers and names of the worker as the driver takes them, and back.
//! In: 64-bit numbers, Rust text. Out: C's sizes and text, or the CUDA error the driver would answer.
//! It asks no driver.

use std::ffi::CString;

use floe_abi::{CudaError, CudaResult};

pub(super) fn size(bytes: u64) -> CudaResult<usize> {
    usize::try_from(bytes).map_err(|_| CudaError::INVALID_VALUE)
}

pub(super) fn wide(bytes: usize) -> u64 {
    bytes as u64
}

pub(super) fn name_for_c(name: &str) -> CudaResult<CString> {
    // A name with a NUL inside is nobody's name.
    CString::new(name).map_err(|_| CudaError::NOT_FOUND)
}
