//! Loading images into the device. An image and plain options come in, a handle and what the driver's compiler had to say
//! go out, also where the load failed. A module's image is no longer needed when the call returns. A library's is kept
//! until the library is unloaded, since the driver reads it again when a kernel is first used.

use crate::driver::{missing, text_of};
use crate::{Driver, LoadImage};
use floe_abi::{CudaError, CudaResult, Library, Module, jit_option, library_option};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Mutex;

/// One option of a load: a number of `jit_option` and its value as C's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadOption {
    /// Which.
    pub option: u32,
    /// Its value; never an address.
    pub value: u64,
}

/// What the driver's compiler said about a load, and what became of it.
#[derive(Debug)]
pub struct LoadLog<T> {
    /// The handle, or why there is none.
    pub result: CudaResult<T>,
    /// Information; empty where there is none.
    pub info: String,
    /// Errors and warnings; empty where there are none.
    pub error: String,
}

/// Room for each of a load's two texts. A compiler's list of errors is seldom longer, and is cut where it is.
const LOG_BYTES: usize = 64 * 1024;

impl Driver {
    /// Loads an image into the current context. `cuModuleLoadDataEx`.
    pub fn module_load_data(&self, image: &LoadImage, options: &[LoadOption]) -> LoadLog<Module> {
        let Some(call) = self.calls.cuModuleLoadDataEx else { return LoadLog::failed(missing("cuModuleLoadDataEx")) };
        load_with(options, |count, keys, values| {
            let mut module = Module::default();
            // SAFETY: image and arrays live through the call; the driver keeps none of them.
            let code = unsafe { call(&raw mut module, image.address(), count, keys, values) };
            code.into_result().map(|()| module)
        })
    }

    /// Loads an image for all contexts and keeps it, which spares the driver a copy. `cuLibraryLoadData`.
    pub fn library_load_data(&self, image: LoadImage, options: &[LoadOption]) -> LoadLog<Library> {
        let Some(call) = self.calls.cuLibraryLoadData else { return LoadLog::failed(missing("cuLibraryLoadData")) };
        let mut log = load_with(options, |count, keys, values| {
            let mut library = Library::default();
            let stays = [library_option::BINARY_IS_PRESERVED];
            let mut no_value = [std::ptr::null_mut::<c_void>()];
            // SAFETY: arrays live through the call; the image is kept below until the library has been unloaded, which is
            // what the option promises.
            let code = unsafe {
                call(&raw mut library, image.address(), keys, values, count, stays.as_ptr(), no_value.as_mut_ptr(), 1)
            };
            code.into_result().map(|()| library)
        });
        if let Ok(library) = log.result
            && self.images.keep(library, image).is_some()
        {
            // A driver that gives one handle twice is broken; the earlier image leaks rather than that it goes too soon.
            log.error.push_str("the driver gave one library handle twice");
        }
        log
    }

    /// Unloads a library, then gives its image up. `cuLibraryUnload`.
    ///
    /// # Errors
    /// The driver's error; the image is kept then.
    pub fn library_unload_kept(&self, library: Library) -> CudaResult<()> {
        self.library_unload(library)?;
        self.images.drop_of(library);
        Ok(())
    }
}

/// Images of libraries that are loaded.
#[derive(Debug, Default)]
pub(crate) struct Images {
    by_library: Mutex<HashMap<u64, LoadImage>>,
}

impl Images {
    /// Keeps an image; one that was kept under this handle before is leaked and told.
    fn keep(&self, library: Library, image: LoadImage) -> Option<()> {
        let mut images = floe_lock::lock(&self.by_library);
        images.insert(library.0, image).map(std::mem::forget)
    }

    fn drop_of(&self, library: Library) {
        floe_lock::lock(&self.by_library).remove(&library.0);
    }
}

impl<T> LoadLog<T> {
    pub(crate) fn failed(error: CudaError) -> Self {
        Self { result: Err(error), info: String::new(), error: String::new() }
    }
}

/// Calls a load with the options, two buffers for texts among them.
pub(crate) fn load_with<T>(
    options: &[LoadOption],
    call: impl FnOnce(u32, *const u32, *mut *mut c_void) -> CudaResult<T>,
) -> LoadLog<T> {
    let (mut info, mut error) = (vec![0_u8; LOG_BYTES], vec![0_u8; LOG_BYTES]);
    let mut keys: Vec<u32> = options.iter().map(|option| option.option).collect();
    let mut values: Vec<*mut c_void> = options.iter().map(|option| word(option.value)).collect();
    keys.extend([
        jit_option::INFO_LOG_BUFFER,
        jit_option::INFO_LOG_BUFFER_SIZE_BYTES,
        jit_option::ERROR_LOG_BUFFER,
        jit_option::ERROR_LOG_BUFFER_SIZE_BYTES,
    ]);
    values.extend([
        info.as_mut_ptr().cast(),
        std::ptr::without_provenance_mut(LOG_BYTES),
        error.as_mut_ptr().cast(),
        std::ptr::without_provenance_mut(LOG_BYTES),
    ]);
    let Ok(count) = u32::try_from(keys.len()) else { return LoadLog::failed(CudaError::INVALID_VALUE) };
    let result = call(count, keys.as_ptr(), values.as_mut_ptr());
    LoadLog { result, info: text_of(&info), error: text_of(&error) }
}

/// A number where C's array has pointers.
#[allow(clippy::cast_possible_truncation, reason = "CUDA has no 32-bit hosts any more")]
pub(crate) fn word(number: u64) -> *mut c_void {
    std::ptr::without_provenance_mut(number as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_before_the_log_buffers_and_texts_come_back() {
        let options = [LoadOption { option: jit_option::MAX_REGISTERS, value: 32 }];
        let log = load_with(&options, |count, keys, values| {
            assert_eq!(count, 5);
            // SAFETY: `load_with` passes arrays of `count` elements and a buffer of `LOG_BYTES`.
            unsafe {
                assert_eq!((*keys, (*values).addr()), (jit_option::MAX_REGISTERS, 32));
                let error = (*values.add(3)).cast::<u8>();
                error.copy_from_nonoverlapping(c"line 1".as_ptr().cast(), 7);
            }
            Err::<Module, _>(CudaError::INVALID_PTX)
        });
        assert_eq!((log.result, log.error.as_str(), log.info.as_str()), (Err(CudaError::INVALID_PTX), "line 1", ""));
    }
}
