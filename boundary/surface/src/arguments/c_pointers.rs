//! Pointers of a C call become typed values. Each comes in as the program passed it; a reference, a slice, a range or
//! an error goes out. A forbidden NULL is INVALID_VALUE, as CUDA says. The program promises that other pointers are
//! valid.

use crate::arguments::host::{HostRange, UnifiedRange};
use floe_abi::{CudaError, CudaResult, DevicePtr, HostPointer};
use std::ffi::{CStr, c_char, c_void};

/// An output that must be there.
pub(crate) fn present<T>(target: *mut T) -> CudaResult<()> {
    if target.is_null() { Err(CudaError::INVALID_VALUE) } else { Ok(()) }
}

/// Writes an output, if it is there.
///
/// # Safety
/// `target` is NULL or the program's variable of this type.
pub(crate) unsafe fn put<T>(target: *mut T, value: T) {
    if !target.is_null() {
        // SAFETY: our caller vouches for it.
        unsafe { target.write(value) };
    }
}

/// Writes text into a buffer of `length` bytes, cut to fit and NUL-terminated.
///
/// # Safety
/// `target` has `length` bytes, if that is not negative.
pub(crate) unsafe fn put_text(target: *mut c_char, length: i32, text: &str) -> CudaResult<()> {
    let room = usize::try_from(length).ok().filter(|room| *room > 0).ok_or(CudaError::INVALID_VALUE)?;
    let count = text.len().min(room - 1);
    // SAFETY: our caller vouches for `length` bytes, of which `count + 1` are written; `text` is our own.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), target.cast::<u8>(), count);
        target.cast::<u8>().add(count).write(0);
    }
    Ok(())
}

/// An input that must be there.
///
/// # Safety
/// `source` is NULL or the program's variable of this type, not written until the call returns.
pub(crate) unsafe fn reference<'a, T>(source: *const T) -> CudaResult<&'a T> {
    // SAFETY: our caller vouches for it.
    unsafe { source.as_ref() }.ok_or(CudaError::INVALID_VALUE)
}

/// An input that may be left out.
///
/// # Safety
/// As [`reference`].
pub(crate) unsafe fn optional<'a, T>(source: *const T) -> Option<&'a T> {
    // SAFETY: our caller vouches for it.
    unsafe { source.as_ref() }
}

/// `count` inputs.
///
/// # Safety
/// `source` is NULL or leads to `count` values, not written until the call returns.
pub(crate) unsafe fn slice<'a, T>(source: *const T, count: usize) -> CudaResult<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if source.is_null() || count > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: our caller vouches for it, and the size fits.
    Ok(unsafe { std::slice::from_raw_parts(source, count) })
}

/// `count` outputs.
///
/// # Safety
/// `target` is NULL or leads to `count` values nobody else uses until the call returns.
pub(crate) unsafe fn slice_mut<'a, T>(target: *mut T, count: usize) -> CudaResult<&'a mut [T]> {
    if count == 0 {
        return Ok(&mut []);
    }
    if target.is_null() || count > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: our caller vouches for it, and the size fits.
    Ok(unsafe { std::slice::from_raw_parts_mut(target, count) })
}

/// C text.
///
/// # Safety
/// `source` is NULL or leads to NUL-terminated text, not written until the call returns.
pub(crate) unsafe fn text<'a>(source: *const c_char) -> CudaResult<&'a CStr> {
    if source.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: our caller vouches for it.
    Ok(unsafe { CStr::from_ptr(source) })
}

/// Host memory of `bytes` bytes.
///
/// # Safety
/// As [`HostRange::new`].
pub(crate) unsafe fn host(source: *mut c_void, bytes: usize) -> CudaResult<HostRange> {
    if (source.is_null() && bytes != 0) || (source as usize).checked_add(bytes).is_none() {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: our caller vouches for it.
    Ok(unsafe { HostRange::new(HostPointer(source as u64), bytes) })
}

/// Memory on either side of `bytes` bytes.
///
/// # Safety
/// As [`UnifiedRange::new`].
pub(crate) unsafe fn unified(source: DevicePtr, bytes: usize) -> CudaResult<UnifiedRange> {
    if (source.is_null() && bytes != 0) || source.0.checked_add(bytes as u64).is_none() {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: our caller vouches for it.
    Ok(unsafe { UnifiedRange::new(source, bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_to_the_buffer_and_terminated() {
        let mut buffer = [b'x'; 4];
        // SAFETY: the buffer has four bytes.
        unsafe { put_text(buffer.as_mut_ptr().cast(), 4, "floe GPU") }.expect("fits");
        assert_eq!(&buffer, b"flo\0");
        // SAFETY: nothing is written.
        let none = unsafe { put_text(buffer.as_mut_ptr().cast(), 0, "floe") };
        assert_eq!(none, Err(CudaError::INVALID_VALUE));
    }

    #[test]
    fn null_is_an_error_only_where_a_value_must_be() {
        // SAFETY: NULL is checked.
        unsafe {
            assert_eq!(reference::<u32>(std::ptr::null()), Err(CudaError::INVALID_VALUE));
            assert_eq!(slice::<u32>(std::ptr::null(), 0), Ok(&[][..]));
            assert_eq!(slice::<u32>(std::ptr::null(), 1), Err(CudaError::INVALID_VALUE));
            assert_eq!(host(std::ptr::null_mut(), 1), Err(CudaError::INVALID_VALUE));
            assert!(host(std::ptr::null_mut(), 0).is_ok());
            assert_eq!(unified(DevicePtr(u64::MAX), 2), Err(CudaError::INVALID_VALUE));
            put(std::ptr::null_mut::<u32>(), 1);
        }
        assert_eq!(present(std::ptr::null_mut::<u8>()), Err(CudaError::INVALID_VALUE));
    }
}
