//! Error texts: codes in, names and sentences out, from the one table of the driver API's vocabulary. No implementation
//! is asked.

use super::marshallers;
use crate::prelude::*;

marshallers! {
    /// `cuGetErrorName`.
    fn cuGetErrorName(driver, code: u32, text: *mut *const c_char) {
        // SAFETY: as the program passed it.
        unsafe { answer(code, text, |(name, _)| name) }
    }

    /// `cuGetErrorString`.
    fn cuGetErrorString(driver, code: u32, text: *mut *const c_char) {
        // SAFETY: as the program passed it.
        unsafe { answer(code, text, |(_, sentence)| sentence) }
    }
}

/// # Safety
/// `text` is NULL or the program's variable.
unsafe fn answer(
    code: u32,
    text: *mut *const c_char,
    choose: fn((&'static CStr, &'static CStr)) -> &'static CStr,
) -> CudaResult<()> {
    c::present(text)?;
    let found = error_names(code).map(choose);
    // SAFETY: our caller vouches for it.
    unsafe { c::put(text, found.map_or(std::ptr::null(), CStr::as_ptr)) };
    found.map(|_| ()).ok_or(CudaError::INVALID_VALUE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_code_gives_null_and_an_error() {
        let mut text = c"before".as_ptr();
        // SAFETY: our own variable.
        let unknown = unsafe { answer(54_321, &raw mut text, |(name, _)| name) };
        assert_eq!((unknown, text.is_null()), (Err(CudaError::INVALID_VALUE), true));
    }

    #[test]
    fn known_code_gives_its_sentence() {
        let mut text = std::ptr::null();
        // SAFETY: our own variable.
        unsafe { answer(700, &raw mut text, |(_, sentence)| sentence) }.expect("known");
        // SAFETY: the answer is one of the table's texts.
        assert_eq!(unsafe { CStr::from_ptr(text) }, c"an illegal memory access was encountered");
    }
}
