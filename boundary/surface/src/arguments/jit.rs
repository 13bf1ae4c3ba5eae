//! Options of a module load. C's two parallel arrays come in; typed answers and two text buffers go out, the latter
//! written back with their lengths as the driver does. Options that floe does not act on are kept, so that none is lost.

use crate::arguments::host::HostRange;
use floe_abi::{CudaError, CudaResult, HostPointer, jit_option};
use std::ffi::c_void;

/// A program's options for a load, and its buffers for the log and the answers.
#[derive(Debug, Default)]
pub struct JitOptions {
    values: Vec<(u32, u64)>,
    info_log: Option<LogBuffer>,
    error_log: Option<LogBuffer>,
}

/// A program's buffer for the text of a load.
#[derive(Clone, Copy, Debug)]
struct LogBuffer {
    text: HostRange,
    /// The array element that gets the text's length back.
    length: u64,
}

/// The largest number the options have so far; a longer list repeats itself and is an error.
const MOST_OPTIONS: usize = 64;

impl JitOptions {
    /// No options.
    pub fn none() -> Self {
        Self::default()
    }

    /// The options `cuModuleLoadDataEx` and `cuLibraryLoadData` were given.
    ///
    /// # Errors
    /// INVALID_VALUE for NULL arrays, too many options or an option without a meaning.
    ///
    /// # Safety
    /// The program's contract: both arrays have `count` elements, log buffers have the sizes given, until the call
    /// returns.
    pub unsafe fn from_c(count: u32, options: *const u32, values: *mut *mut c_void) -> CudaResult<Self> {
        let count = count as usize;
        if count == 0 {
            return Ok(Self::none());
        }
        if options.is_null() || values.is_null() || count > MOST_OPTIONS {
            return Err(CudaError::INVALID_VALUE);
        }
        let mut read = Vec::with_capacity(count);
        for index in 0..count {
            // SAFETY: our caller vouches for `count` elements in both arrays.
            read.push(unsafe { (*options.add(index), *values.add(index) as u64) });
        }
        if read.iter().any(|(option, _)| *option >= jit_option::NUM_OPTIONS) {
            return Err(CudaError::INVALID_VALUE);
        }
        // SAFETY: our caller vouches for the buffers the values name.
        let (info_log, error_log) = unsafe {
            (
                log_buffer(&read, jit_option::INFO_LOG_BUFFER, jit_option::INFO_LOG_BUFFER_SIZE_BYTES, values),
                log_buffer(&read, jit_option::ERROR_LOG_BUFFER, jit_option::ERROR_LOG_BUFFER_SIZE_BYTES, values),
            )
        };
        Ok(Self { values: read, info_log, error_log })
    }

    /// The value of one of `jit_option`, as the word C passed. Options that are `float` have their bits in the low half.
    pub fn value(&self, option: u32) -> Option<u64> {
        self.values.iter().rev().find(|(number, _)| *number == option).map(|(_, value)| *value)
    }

    /// All options but the log buffers and those that the driver answers, in the program's order. These may be passed
    /// to another process as they are.
    pub fn plain(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.values.iter().copied().filter(|(option, _)| is_plain(*option))
    }

    /// Options that hold addresses and have a meaning for linking only; a load that depends on them cannot be honoured.
    pub fn unsupported(&self) -> impl Iterator<Item = u32> + '_ {
        self.values.iter().map(|(option, _)| *option).filter(|option| {
            matches!(
                *option,
                jit_option::GLOBAL_SYMBOL_NAMES
                    | jit_option::GLOBAL_SYMBOL_ADDRESSES
                    | jit_option::REFERENCED_KERNEL_NAMES
                    | jit_option::REFERENCED_VARIABLE_NAMES
            )
        })
    }

    /// Room for information in bytes, the terminating NUL included; 0 where the program wants none.
    pub fn info_capacity(&self) -> usize {
        self.info_log.map_or(0, |log| log.text.len())
    }

    /// Room for errors in bytes, the terminating NUL included; 0 where the program wants none.
    pub fn error_capacity(&self) -> usize {
        self.error_log.map_or(0, |log| log.text.len())
    }

    /// Tells the program what the load has to say.
    pub fn write_info(&mut self, text: &str) {
        write_log(self.info_log, text);
    }

    /// Tells the program why the load failed.
    pub fn write_error(&mut self, text: &str) {
        write_log(self.error_log, text);
    }
}

/// Whether an option's value is a number that means the same everywhere.
fn is_plain(option: u32) -> bool {
    !matches!(
        option,
        jit_option::INFO_LOG_BUFFER
            | jit_option::INFO_LOG_BUFFER_SIZE_BYTES
            | jit_option::ERROR_LOG_BUFFER
            | jit_option::ERROR_LOG_BUFFER_SIZE_BYTES
            | jit_option::WALL_TIME
            | jit_option::GLOBAL_SYMBOL_NAMES
            | jit_option::GLOBAL_SYMBOL_ADDRESSES
            | jit_option::REFERENCED_KERNEL_NAMES
            | jit_option::REFERENCED_VARIABLE_NAMES
    )
}

/// # Safety
/// As [`JitOptions::from_c`].
#[allow(clippy::cast_possible_truncation, reason = "the header passes an unsigned int in the pointer's low half")]
unsafe fn log_buffer(read: &[(u32, u64)], buffer: u32, size: u32, values: *mut *mut c_void) -> Option<LogBuffer> {
    let find = |wanted| read.iter().position(|(option, _)| *option == wanted);
    let (buffer, size) = (find(buffer)?, find(size)?);
    let (address, bytes) = (read[buffer].1, read[size].1 as u32 as usize);
    if address == 0 || bytes == 0 {
        return None;
    }
    // SAFETY: our caller vouches for the buffer's size and for the array, of which `size` is an index.
    unsafe { Some(LogBuffer { text: HostRange::new(HostPointer(address), bytes), length: values.add(size) as u64 }) }
}

fn write_log(log: Option<LogBuffer>, text: &str) {
    let Some(log) = log else { return };
    let mut bytes = text.as_bytes()[..text.len().min(log.text.len() - 1)].to_vec();
    let length = bytes.len() as u64;
    bytes.push(0);
    log.text.write(&bytes).expect("cut to the buffer's size");
    // SAFETY: `from_c`'s caller vouched for the array of values until the call returns, and this is one of its words.
    unsafe { (log.length as *mut u64).write(length) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_is_cut_terminated_and_its_length_written_back() {
        let mut buffer = [b'x'; 6];
        let keys = [jit_option::ERROR_LOG_BUFFER, jit_option::ERROR_LOG_BUFFER_SIZE_BYTES, jit_option::MAX_REGISTERS];
        let mut values = [buffer.as_mut_ptr().cast::<c_void>(), 6 as *mut c_void, 32 as *mut c_void];
        // SAFETY: three elements each, and a buffer of six bytes.
        let mut options = unsafe { JitOptions::from_c(3, keys.as_ptr(), values.as_mut_ptr()) }.expect("valid");
        assert_eq!((options.error_capacity(), options.info_capacity()), (6, 0));
        assert_eq!(options.plain().collect::<Vec<_>>(), [(jit_option::MAX_REGISTERS, 32)]);
        options.write_error("too long");
        options.write_info("nobody asked");
        assert_eq!(&buffer, b"too l\0");
        assert_eq!(values[1] as usize, 5);
    }

    #[test]
    fn null_arrays_and_unknown_options_are_refused() {
        // SAFETY: NULL is checked before it is read.
        let null = unsafe { JitOptions::from_c(1, std::ptr::null(), std::ptr::null_mut()) };
        assert_eq!(null.err(), Some(CudaError::INVALID_VALUE));
        let mut value = std::ptr::null_mut();
        // SAFETY: one element each.
        let unknown = unsafe { JitOptions::from_c(1, &raw const UNKNOWN, &raw mut value) };
        assert_eq!(unknown.err(), Some(CudaError::INVALID_VALUE));
    }

    const UNKNOWN_NUMBER: u32 = 9999;
    static UNKNOWN: u32 = UNKNOWN_NUMBER;
}
