//! Libraries: both forms of loading become one method, as with modules. Library options say how long the program keeps
//! its image: an image that stays is used where it lies, any other is copied. An option without a meaning is an error.

use super::module::{image_at, image_in};
use crate::marshal::marshallers;
use crate::prelude::*;

marshallers! {
    /// `cuLibraryLoadData`.
    fn cuLibraryLoadData(
        driver, library: *mut Library, image: *const c_void, jit_options: *const u32,
        jit_option_values: *mut *mut c_void, jit_option_count: u32, library_options: *const u32,
        library_option_values: *mut *mut c_void, library_option_count: u32,
    ) {
        c::present(library)?;
        // SAFETY: the program's arrays.
        let (stays, mut options) = unsafe {
            let stays = image_stays(library_options, library_option_count)?;
            (stays, JitOptions::from_c(jit_option_count, jit_options, jit_option_values)?)
        };
        options.demand_supported("cuLibraryLoadData")?;
        let image: Image<'static> = if stays {
            // SAFETY: the program's image, which it keeps until it unloads the library; implementations drop it then.
            unsafe { image_at(image) }?
        } else {
            // SAFETY: the program's image, which it keeps until this call returns.
            unsafe { image_at(image) }?.into_owned()
        };
        let loaded = options.timed(|options| driver.library_load_data(image, options))?;
        // SAFETY: the program's variable.
        unsafe { c::put(library, loaded) };
        Ok(())
    }

    /// `cuLibraryLoadFromFile`: FILE_NOT_FOUND where the file cannot be read.
    fn cuLibraryLoadFromFile(
        driver, library: *mut Library, path: *const c_char, jit_options: *const u32,
        jit_option_values: *mut *mut c_void, jit_option_count: u32, library_options: *const u32,
        library_option_values: *mut *mut c_void, library_option_count: u32,
    ) {
        c::present(library)?;
        // SAFETY: the program's arrays and text.
        let (mut options, path) = unsafe {
            // A file is not memory that could stay.
            let _ = image_stays(library_options, library_option_count)?;
            (JitOptions::from_c(jit_option_count, jit_options, jit_option_values)?, c::text(path)?)
        };
        options.demand_supported("cuLibraryLoadFromFile")?;
        let image = image_in(path)?;
        let loaded = options.timed(|options| driver.library_load_data(image, options))?;
        // SAFETY: the program's variable.
        unsafe { c::put(library, loaded) };
        Ok(())
    }
}

/// Whether the options say that the program keeps its image as long as the library.
///
/// # Errors
/// INVALID_VALUE for an option without a meaning.
///
/// # Safety
/// `options` is NULL or has `count` elements.
unsafe fn image_stays(options: *const u32, count: u32) -> CudaResult<bool> {
    // SAFETY: our caller vouches for it.
    let options = unsafe { c::slice(options, count as usize) }?;
    let known = |option: &u32| {
        matches!(*option, library_option::HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE | library_option::BINARY_IS_PRESERVED)
    };
    if options.iter().all(known) {
        Ok(options.contains(&library_option::BINARY_IS_PRESERVED))
    } else {
        Err(CudaError::INVALID_VALUE)
    }
}
