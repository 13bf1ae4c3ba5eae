//! Links of device code: inputs are copied out of the program's memory and files, and the image's place is written back.
//! C arguments come in; how code is linked is the implementation's to know.

use crate::expansion::say_once;
use crate::link::{self, LinkInput};
use crate::marshal::marshallers;
use crate::prelude::*;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Options of one input.
///
/// # Safety
/// As [`JitOptions::from_c`].
unsafe fn options_of(count: u32, options: *const u32, values: *mut *mut c_void) -> CudaResult<Vec<(u32, u64)>> {
    // SAFETY: our caller vouches for both arrays.
    let options = unsafe { JitOptions::from_c(count, options, values) }?;
    // What a link answers, it answers once for all its inputs.
    if options.asks() {
        return Err(CudaError::INVALID_VALUE);
    }
    options.demand_supported("cuLinkAddData")?;
    Ok(options.plain().collect())
}

/// An input as it is kept: PTX ends with its first NUL.
fn input(kind: u32, name: String, bytes: &[u8], options: Vec<(u32, u64)>) -> LinkInput {
    let end = if kind == jit_input::PTX { bytes.iter().position(|byte| *byte == 0) } else { None };
    let bytes = &bytes[..end.unwrap_or(bytes.len())];
    LinkInput { kind, name, bytes: bytes.to_vec(), options }
}

marshallers! {
    /// `cuLinkCreate`: INVALID_CONTEXT without a current context.
    fn cuLinkCreate_v2(
        driver, option_count: u32, options: *const u32, option_values: *mut *mut c_void, state: *mut LinkState,
    ) {
        c::present(state)?;
        // SAFETY: the program's arrays, whose values and buffers live as long as the state.
        let options = unsafe { JitOptions::from_c(option_count, options, option_values) }?;
        if driver.ctx_get_current()?.is_null() {
            return Err(CudaError::INVALID_CONTEXT);
        }
        // SAFETY: the program's variable.
        unsafe { c::put(state, link::begin(options)) };
        Ok(())
    }

    /// `cuLinkAddData`.
    fn cuLinkAddData_v2(
        driver, state: LinkState, kind: u32, data: *mut c_void, bytes: usize, name: *const c_char, option_count: u32,
        options: *const u32, option_values: *mut *mut c_void,
    ) {
        let link = link::find(state)?;
        // SAFETY: the program's arrays and data, of the size it says, until the call returns.
        let (options, data) = unsafe {
            (options_of(option_count, options, option_values)?, c::slice(data.cast::<u8>().cast_const(), bytes)?)
        };
        let name = if name.is_null() {
            "an input without a name".to_owned()
        } else {
            // SAFETY: the program's text.
            unsafe { c::text(name) }?.to_string_lossy().into_owned()
        };
        link::add(&link, input(kind, name, data, options))
    }

    /// `cuLinkAddFile`: FILE_NOT_FOUND where the file cannot be read.
    fn cuLinkAddFile_v2(
        driver, state: LinkState, kind: u32, path: *const c_char, option_count: u32, options: *const u32,
        option_values: *mut *mut c_void,
    ) {
        let link = link::find(state)?;
        // SAFETY: the program's arrays and text.
        let (options, path) = unsafe { (options_of(option_count, options, option_values)?, c::text(path)?) };
        let path = std::path::Path::new(OsStr::from_bytes(path.to_bytes()));
        let bytes = std::fs::read(path).map_err(|error| {
            say_once(&format!("file {}", path.display()), || {
                format!("an input of a link cannot be read: {}: {error}", path.display())
            });
            CudaError::FILE_NOT_FOUND
        })?;
        link::add(&link, input(kind, path.display().to_string(), &bytes, options))
    }

    /// `cuLinkComplete`.
    fn cuLinkComplete(driver, state: LinkState, image: *mut *mut c_void, bytes: *mut usize) {
        c::present(image)?;
        let link = link::find(state)?;
        let (address, length) = link::complete(&link, |inputs, options| {
            options.demand_supported("cuLinkComplete")?;
            options.timed(|options| driver.link(inputs, options))
        })?;
        // SAFETY: the program's variables, or NULL for the second.
        unsafe {
            c::put(image, address as *mut c_void);
            c::put(bytes, length);
        }
        Ok(())
    }

    /// `cuLinkDestroy`.
    fn cuLinkDestroy(driver, state: LinkState) {
        link::end(state)
    }
}
