//! Pointers of a C call become typed values. Each comes in as the program passed it; a reference, a slice or an error
//! goes out. A NULL where something must be is INVALID_ARGUMENT, as NVML says; what a pointer that is not NULL leads to
//! is the program's promise.

use crate::layout::{Output, Versioned};
use crate::result::{NvmlError, NvmlResult};
use std::ffi::{CStr, c_char};

/// An output that must be there.
pub(crate) fn present<T>(target: *mut T) -> NvmlResult<()> {
    if target.is_null() { Err(NvmlError::INVALID_ARGUMENT) } else { Ok(()) }
}

/// A reading as C's type has it.
pub(crate) fn narrow<T: TryFrom<u64>>(value: u64) -> NvmlResult<T> {
    T::try_from(value).map_err(|_| NvmlError::UNKNOWN)
}

/// Writes an output.
///
/// # Safety
/// `target` is the program's variable of this type, or has at least the bytes that are written; it may be misaligned.
pub(crate) unsafe fn put<T: Output>(target: *mut T, value: T) {
    let bytes = value.written().min(size_of::<T>());
    // SAFETY: our caller vouches for `bytes` at the target; `value` has at least as many, and is our own.
    unsafe { std::ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), target.cast::<u8>(), bytes) };
}

/// Writes text with its NUL into a buffer of `length` bytes.
///
/// # Safety
/// `target` has `length` bytes.
pub(crate) unsafe fn put_text(target: *mut c_char, length: u32, text: &str) -> NvmlResult<()> {
    // A text from a server may hold anything; C's text ends at a NUL.
    let text = text.split('\0').next().unwrap_or_default();
    if text.len() >= length as usize {
        return Err(NvmlError::INSUFFICIENT_SIZE);
    }
    // SAFETY: our caller vouches for `length` bytes, of which `text.len() + 1` are written; `text` is our own.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), target.cast::<u8>(), text.len());
        target.cast::<u8>().add(text.len()).write(0);
    }
    Ok(())
}

/// Writes a list where `count` says there is room, and in any case how long it is. An empty list fits everywhere.
///
/// # Safety
/// `count` is the program's variable; `list` is NULL or has room for as many as it says.
pub(crate) unsafe fn put_list<T: Copy>(count: *mut u32, list: *mut T, values: &[T]) -> NvmlResult<()> {
    let length = u32::try_from(values.len()).map_err(|_| NvmlError::UNKNOWN)?;
    // SAFETY: our caller vouches for it.
    let room = unsafe { count.read_unaligned() };
    // SAFETY: the same.
    unsafe { count.write_unaligned(length) };
    if length == 0 {
        return Ok(());
    }
    if list.is_null() || room < length {
        return Err(NvmlError::INSUFFICIENT_SIZE);
    }
    for (index, value) in values.iter().enumerate() {
        // SAFETY: our caller vouches for `room` values, and `index` is below it.
        unsafe { list.add(index).write_unaligned(*value) };
    }
    Ok(())
}

/// An input that must be there.
///
/// # Safety
/// `source` is NULL or the program's variable of this type, not written until the call returns.
pub(crate) unsafe fn reference<'a, T>(source: *const T) -> NvmlResult<&'a T> {
    if !source.is_aligned() {
        return Err(NvmlError::INVALID_ARGUMENT);
    }
    // SAFETY: our caller vouches for it, and the alignment was checked.
    unsafe { source.as_ref() }.ok_or(NvmlError::INVALID_ARGUMENT)
}

/// `count` values to be changed.
///
/// # Safety
/// `target` is NULL or leads to `count` values nobody else uses until the call returns.
pub(crate) unsafe fn slice_mut<'a, T>(target: *mut T, count: impl TryInto<usize>) -> NvmlResult<&'a mut [T]> {
    let count = count.try_into().map_err(|_| NvmlError::INVALID_ARGUMENT)?;
    if target.is_null() || !target.is_aligned() || count > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(NvmlError::INVALID_ARGUMENT);
    }
    // SAFETY: our caller vouches for it; size and alignment were checked.
    Ok(unsafe { std::slice::from_raw_parts_mut(target, count) })
}

/// C text.
///
/// # Safety
/// `source` is NULL or NUL-terminated text, not written until the call returns.
pub(crate) unsafe fn text<'a>(source: *const c_char) -> NvmlResult<&'a str> {
    if source.is_null() {
        return Err(NvmlError::INVALID_ARGUMENT);
    }
    // SAFETY: our caller vouches for it.
    unsafe { CStr::from_ptr(source) }.to_str().map_err(|_| NvmlError::INVALID_ARGUMENT)
}

/// A struct with the version this build knows.
///
/// # Safety
/// `target` is NULL or the program's struct of the layout its first field says.
pub(crate) unsafe fn versioned<T: Versioned>(target: *mut T) -> NvmlResult<T> {
    present(target)?;
    // SAFETY: every layout begins with its version, and our caller vouches for the rest.
    let version = unsafe { target.cast::<u32>().read_unaligned() };
    if version != T::VERSION {
        return Err(NvmlError::ARGUMENT_VERSION_MISMATCH);
    }
    // SAFETY: the version says that it is this layout.
    Ok(unsafe { target.read_unaligned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{MemoryV2, PciInfo};

    #[test]
    fn a_list_that_does_not_fit_says_how_long_it_is() {
        let mut count = 1;
        let mut room = [7_u32; 4];
        // SAFETY: `room` has as many values as `count` says.
        let put = |count: &mut u32, room: &mut [u32; 4]| unsafe { put_list(count, room.as_mut_ptr(), &[1, 2]) };
        assert_eq!(put(&mut count, &mut room), Err(NvmlError::INSUFFICIENT_SIZE));
        assert_eq!((count, room), (2, [7; 4]));
        assert_eq!(put(&mut count, &mut room), Ok(()));
        assert_eq!((count, room), (2, [1, 2, 7, 7]));
    }

    #[test]
    fn an_empty_list_needs_no_room() {
        let mut count = 0;
        // SAFETY: an empty list is not written.
        assert_eq!(unsafe { put_list::<u32>(&raw mut count, std::ptr::null_mut(), &[]) }, Ok(()));
    }

    #[test]
    fn text_needs_room_for_its_end() {
        let mut room = [b'x' as c_char; 4];
        // SAFETY: `room` has four bytes.
        let put = |room: &mut [c_char; 4], text| unsafe { put_text(room.as_mut_ptr(), 4, text) };
        assert_eq!(put(&mut room, "four"), Err(NvmlError::INSUFFICIENT_SIZE));
        assert_eq!(put(&mut room, "abc"), Ok(()));
        assert_eq!(room.map(|byte| byte.cast_unsigned()), *b"abc\0");
    }

    /// NVIDIA's library (580.159.04) writes 53 bytes of the 68, and NCCL's variable has 52.
    #[test]
    fn text_at_the_end_of_a_struct_is_written_up_to_its_nul() {
        let mut bus_id = [0; 32];
        bus_id[..16].copy_from_slice(b"00000000:1A:00.0");
        let (short_bus_id, domain, bus, device) = ([0; 16], 0, 0x1a, 0);
        let pci = PciInfo { short_bus_id, domain, bus, device, device_id: 0, subsystem_id: 7, bus_id };
        let mut room = [0xaa_u8; 68];
        // SAFETY: `room` has the struct's size; bytes may be misaligned.
        unsafe { put(room.as_mut_ptr().cast::<PciInfo>(), pci) };
        assert_eq!(room[32..53], *b"\x07\0\0\x0000000000:1A:00.0\0");
        assert_eq!(room[53..], [0xaa; 15]);
        // SAFETY: the same.
        unsafe { put(room.as_mut_ptr().cast::<PciInfo>(), PciInfo { bus_id: [b'x'; 32], ..pci }) };
        assert_eq!(room[36..], [b'x'; 32]);
    }

    #[test]
    fn another_version_of_a_struct_is_refused() {
        let mut memory = MemoryV2 { version: MemoryV2::VERSION, total: 0, reserved: 0, free: 0, used: 0 };
        assert_eq!(memory.version, 0x0200_0028);
        // SAFETY: `memory` is the layout it says.
        assert!(unsafe { versioned(&raw mut memory) }.is_ok());
        memory.version = 40;
        // SAFETY: only the version is read.
        assert_eq!(unsafe { versioned(&raw mut memory) }, Err(NvmlError::ARGUMENT_VERSION_MISMATCH));
    }
}
