//! Modules: every form of loading an image, by pointer or by file, becomes one method. The image's end is found here,
//! so slices go further, not pointers. An image that cannot be read is an error before an implementation sees it.

use crate::expansion::say_once;
use crate::marshal::marshallers;
use crate::prelude::*;
use floe_image::Limits;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

marshallers! {
    /// `cuModuleLoadDataEx`.
    fn cuModuleLoadDataEx(
        driver, module: *mut Module, image: *const c_void, option_count: u32, options: *const u32,
        option_values: *mut *mut c_void,
    ) {
        c::present(module)?;
        // SAFETY: the program's arrays and image.
        let (mut options, image) =
            unsafe { (JitOptions::from_c(option_count, options, option_values)?, image_at(image)?) };
        options.demand_supported("cuModuleLoadDataEx")?;
        let loaded = options.timed(|options| driver.module_load_data(&image, options))?;
        // SAFETY: the program's variable.
        unsafe { c::put(module, loaded) };
        Ok(())
    }

    /// `cuModuleLoadData`.
    fn cuModuleLoadData(driver, module: *mut Module, image: *const c_void) {
        // SAFETY: as the program passed it.
        unsafe { cuModuleLoadDataEx(driver, module, image, 0, std::ptr::null(), std::ptr::null_mut()) }
    }

    /// `cuModuleLoadFatBinary`.
    fn cuModuleLoadFatBinary(driver, module: *mut Module, image: *const c_void) {
        // SAFETY: as the program passed it.
        unsafe { cuModuleLoadDataEx(driver, module, image, 0, std::ptr::null(), std::ptr::null_mut()) }
    }

    /// `cuModuleLoad`: FILE_NOT_FOUND where the file cannot be read.
    fn cuModuleLoad(driver, module: *mut Module, path: *const c_char) {
        c::present(module)?;
        // SAFETY: the program's text.
        let image = image_in(unsafe { c::text(path) }?)?;
        let loaded = driver.module_load_data(&image, &mut JitOptions::none())?;
        // SAFETY: the program's variable.
        unsafe { c::put(module, loaded) };
        Ok(())
    }
}

/// The image at an address the program passed.
///
/// # Safety
/// As [`floe_image::program::from_program`].
pub(crate) unsafe fn image_at<'a>(image: *const c_void) -> CudaResult<Image<'a>> {
    // SAFETY: our caller vouches for it.
    unsafe { floe_image::program::from_program(image, &Limits::default()) }.map_err(|error| {
        say_once(&format!("image {error}"), || format!("a module image cannot be read: {error}"));
        error.code()
    })
}

/// The image in a file.
pub(crate) fn image_in(path: &CStr) -> CudaResult<Image<'static>> {
    let path = std::path::Path::new(OsStr::from_bytes(path.to_bytes()));
    let bytes = std::fs::read(path).map_err(|error| {
        say_once(&format!("file {}", path.display()), || {
            format!("a module file cannot be read: {}: {error}", path.display())
        });
        CudaError::FILE_NOT_FOUND
    })?;
    Image::from_bytes(&bytes, &Limits::default()).map_err(|error| {
        say_once(&format!("image {error}"), || format!("a module image cannot be read: {error}"));
        error.code()
    })
}
