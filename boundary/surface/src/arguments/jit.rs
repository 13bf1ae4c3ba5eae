//! Options of a module load. C's two parallel arrays come in; plain numbers go out, and the load's answers go back: two
//! texts with their lengths, and the time it took. Each option is passed on, answered here, or refused by name.

use crate::arguments::host::HostRange;
use crate::process::refusals::refused_once;
use floe_abi::{CudaError, CudaResult, HostPointer, jit_option};
use std::ffi::c_void;
use std::time::{Duration, Instant};

/// A program's options for a load, and its buffers for the log and the answers.
#[derive(Debug, Default)]
pub struct JitOptions {
    values: Vec<(u32, u64)>,
    info_log: Option<LogBuffer>,
    error_log: Option<LogBuffer>,
    /// The array element that gets the load's time.
    wall_time: Option<u64>,
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
        let timed = read.iter().position(|(option, _)| *option == jit_option::WALL_TIME);
        // SAFETY: the position is one of the array's `count`.
        let wall_time = timed.map(|index| unsafe { values.add(index) } as u64);
        Ok(Self { values: read, info_log, error_log, wall_time })
    }

    /// The same plain options for another load, which has nobody to answer to.
    #[must_use]
    pub fn without_answers(&self) -> Self {
        Self { values: self.plain().collect(), ..Self::default() }
    }

    /// Does a load, and tells the program how long it took if it asked.
    pub fn timed<R>(&mut self, load: impl FnOnce(&mut Self) -> R) -> R {
        let begun = Instant::now();
        let result = load(self);
        write_time(self.wall_time, begun.elapsed());
        result
    }

    /// The value of one of `jit_option`, as the word C passed. Options that are `float` have their bits in the low half.
    pub fn value(&self, option: u32) -> Option<u64> {
        self.values.iter().rev().find(|(number, _)| *number == option).map(|(_, value)| *value)
    }

    /// The options whose values are numbers that a driver only reads, in the program's order. These may be passed to another
    /// process as they are.
    pub fn plain(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.values.iter().copied().filter(|(option, _)| is_plain(*option))
    }

    /// Options about addresses of the program's; a load that depends on them cannot be honoured. Of lists that are empty the
    /// count is none. An H200's driver ignores `CU_JIT_REFERENCED_…`.
    pub fn unsupported(&self) -> impl Iterator<Item = u32> + '_ {
        use jit_option as is;
        let refused = |(option, value): &(u32, u64)| match *option {
            is::GLOBAL_SYMBOL_NAMES | is::GLOBAL_SYMBOL_ADDRESSES => true,
            is::GLOBAL_SYMBOL_COUNT => *value != 0,
            _ => false,
        };
        self.values.iter().filter(move |value| refused(value)).map(|(option, _)| *option)
    }

    /// For a load by the function of this name.
    ///
    /// # Errors
    /// NOT_SUPPORTED, with a word to the user, for an option about names and addresses of the program's.
    pub fn demand_supported(&self, function: &str) -> CudaResult<()> {
        let Some(option) = self.unsupported().next() else { return Ok(()) };
        refused_once(format_args!("{function}: an option is not supported: CUjit_option {option}"));
        Err(CudaError::NOT_SUPPORTED)
    }

    /// Whether it has an option that the load answers: a text or a time.
    pub(crate) fn asks(&self) -> bool {
        self.info_log.is_some() || self.error_log.is_some() || self.wall_time.is_some()
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

/// Whether an option's value is a number that means the same everywhere: the ones that a worker takes.
fn is_plain(option: u32) -> bool {
    use jit_option as is;
    matches!(
        option,
        is::MAX_REGISTERS | is::THREADS_PER_BLOCK | is::OPTIMIZATION_LEVEL..=is::FAST_COMPILE | is::LTO..=is::FMA
            | is::OPTIMIZE_UNUSED_DEVICE_VARIABLES..=is::SPLIT_COMPILE
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

/// Milliseconds as a `float`, in the low half of the option's element.
fn write_time(element: Option<u64>, time: Duration) {
    let Some(element) = element else { return };
    let milliseconds = time.as_secs_f32() * 1000.0;
    // SAFETY: as in `write_log`.
    unsafe { (element as *mut u64).write(milliseconds.to_bits().into()) };
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

    /// Reads options and does `act` with them; gives the values as they are afterwards.
    fn with_options<R>(options: &[(u32, u64)], act: impl FnOnce(&mut JitOptions) -> R) -> (R, Vec<u64>) {
        let keys: Vec<u32> = options.iter().map(|(option, _)| *option).collect();
        let mut values: Vec<u64> = options.iter().map(|(_, value)| *value).collect();
        let count = u32::try_from(keys.len()).expect("few");
        // SAFETY: as many elements each, and no buffers.
        let read = unsafe { JitOptions::from_c(count, keys.as_ptr(), values.as_mut_ptr().cast()) };
        (act(&mut read.expect("valid")), values)
    }

    #[test]
    fn every_option_is_passed_on_answered_or_refused() {
        use jit_option as is;
        let answered = is::WALL_TIME..=is::ERROR_LOG_BUFFER_SIZE_BYTES;
        for option in 0..is::NUM_OPTIONS {
            let (fates, _) =
                with_options(&[(option, 1)], |options| [options.plain().count(), options.unsupported().count()]);
            let expected = match option {
                option if answered.contains(&option) => [0, 0],
                is::REFERENCED_KERNEL_NAMES..=is::REFERENCED_VARIABLE_COUNT => [0, 0],
                is::GLOBAL_SYMBOL_NAMES..=is::GLOBAL_SYMBOL_COUNT => [0, 1],
                _ => [1, 0],
            };
            assert_eq!(fates, expected, "{option}");
        }
    }

    #[test]
    fn names_of_the_programs_are_refused_and_empty_lists_of_them_are_not() {
        let demand = |options: &[(u32, u64)]| with_options(options, |it| it.demand_supported("cuModuleLoadDataEx")).0;
        assert_eq!(demand(&[(jit_option::GLOBAL_SYMBOL_COUNT, 0), (jit_option::MAX_REGISTERS, 32)]), Ok(()));
        assert_eq!(demand(&[(jit_option::GLOBAL_SYMBOL_COUNT, 1)]), Err(CudaError::NOT_SUPPORTED));
        assert_eq!(demand(&[(jit_option::GLOBAL_SYMBOL_NAMES, 8)]), Err(CudaError::NOT_SUPPORTED));
        assert_eq!(demand(&[(jit_option::REFERENCED_KERNEL_NAMES, 8)]), Ok(()));
    }

    #[test]
    fn the_time_a_load_took_is_written_back_in_milliseconds() {
        let wish = [(jit_option::MAX_REGISTERS, 32), (jit_option::WALL_TIME, u64::MAX)];
        let (asks, values) = with_options(&wish, |options| {
            options.timed(|_| std::thread::sleep(Duration::from_millis(3)));
            options.asks()
        });
        let time = f32::from_bits(u32::try_from(values[1]).expect("the high half is zero"));
        assert!(asks && values[0] == 32 && (3.0..60_000.0).contains(&time), "{time}");
        assert!(with_options(&wish[..1], |options| options.timed(|options| !options.asks())).0);
    }

    #[test]
    fn options_for_another_load_answer_nobody() {
        let wish = [(jit_option::WALL_TIME, 7), (jit_option::GLOBAL_SYMBOL_COUNT, 1), (jit_option::LTO, 1)];
        let (again, values) = with_options(&wish, |options| options.without_answers().timed(|again| again.asks()));
        assert!(!again && values == [7, 1, 1]);
        let kept = with_options(&wish, |options| options.without_answers().plain().collect::<Vec<_>>()).0;
        assert_eq!(kept, [(jit_option::LTO, 1)]);
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
