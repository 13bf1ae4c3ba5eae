//! Loading images into the device. Bytes and plain options come in, a handle and what the driver's compiler had to say
//! go out, also where the load failed. The driver is done with the bytes when a call returns.

use crate::Driver;
use crate::driver::{missing, text_of};
use floe_abi::{CudaError, CudaResult, Library, Module, jit_option};
use std::ffi::c_void;

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
    pub fn module_load_data(&self, image: &[u8], options: &[LoadOption]) -> LoadLog<Module> {
        let Some(call) = self.calls.cuModuleLoadDataEx else { return LoadLog::failed(missing("cuModuleLoadDataEx")) };
        load(image, options, |image, count, keys, values| {
            let mut module = Module::default();
            // SAFETY: image and arrays live through the call; the driver keeps none of them.
            let code = unsafe { call(&raw mut module, image, count, keys, values) };
            code.into_result().map(|()| module)
        })
    }

    /// Loads an image for all contexts. `cuLibraryLoadData`.
    pub fn library_load_data(&self, image: &[u8], options: &[LoadOption]) -> LoadLog<Library> {
        let Some(call) = self.calls.cuLibraryLoadData else { return LoadLog::failed(missing("cuLibraryLoadData")) };
        load(image, options, |image, count, keys, values| {
            let mut library = Library::default();
            let (no_options, no_values) = (std::ptr::null(), std::ptr::null_mut());
            // SAFETY: image and arrays live through the call; without the option that says that the image stays, the
            // driver copies it.
            let code = unsafe { call(&raw mut library, image, keys, values, count, no_options, no_values, 0) };
            code.into_result().map(|()| library)
        })
    }
}

impl<T> LoadLog<T> {
    fn failed(error: CudaError) -> Self {
        Self { result: Err(error), info: String::new(), error: String::new() }
    }
}

/// Calls a load with the options, two buffers for texts among them.
fn load<T>(
    image: &[u8],
    options: &[LoadOption],
    call: impl FnOnce(*const c_void, u32, *const u32, *mut *mut c_void) -> CudaResult<T>,
) -> LoadLog<T> {
    let image = terminated(image);
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
    let result = call(image.as_ptr().cast(), count, keys.as_ptr(), values.as_mut_ptr());
    LoadLog { result, info: text_of(&info), error: text_of(&error) }
}

/// A number where C's array has pointers.
#[allow(clippy::cast_possible_truncation, reason = "CUDA has no 32-bit hosts any more")]
fn word(number: u64) -> *mut c_void {
    std::ptr::without_provenance_mut(number as usize)
}

/// The image with a NUL behind it: PTX is text to the driver, and text that came over the wire has no end of its own.
/// The copy also aligns the image, which drivers read as words.
fn terminated(image: &[u8]) -> Aligned {
    let mut words = vec![0_u64; image.len() / 8 + 1];
    for (word, bytes) in words.iter_mut().zip(image.chunks(8)) {
        let mut filled = [0; 8];
        filled[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_ne_bytes(filled);
    }
    Aligned { words }
}

struct Aligned {
    words: Vec<u64>,
}

impl Aligned {
    fn as_ptr(&self) -> *const u64 {
        self.words.as_ptr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_is_followed_by_a_nul_whatever_its_length() {
        for length in [0, 1, 7, 8, 9, 16] {
            let image = terminated(&vec![0xAA; length]);
            let bytes: Vec<u8> = image.words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            assert!(bytes[..length].iter().all(|byte| *byte == 0xAA));
            assert_eq!(bytes[length], 0, "length {length}");
        }
    }

    #[test]
    fn options_come_before_the_log_buffers_and_texts_come_back() {
        let options = [LoadOption { option: jit_option::MAX_REGISTERS, value: 32 }];
        let log = load(b".version", &options, |_, count, keys, values| {
            assert_eq!(count, 5);
            // SAFETY: `load` passes arrays of `count` elements and a buffer of `LOG_BYTES`.
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
