//! The one place that reads images out of a program's memory. The bare pointer that the program passed to a load call
//! comes in. An [`Image`] goes out, which borrows the bytes where they lie. It reads only bytes that earlier headers
//! say are there. It copies nothing but headers: libraries are hundreds of megabytes, of which a device takes a tenth.

use std::borrow::Cow;
use std::ffi::c_void;

use crate::error::ImageError;
use crate::fatbin::{CONTAINER_HEADER, CONTAINER_MAGIC, container_size};
use crate::image::{is_text, starts_text};
use crate::{Image, ImageKind, Limits, elf};

/// First four bytes of the wrapper that nvcc's registration code passes, little endian.
const WRAPPER_MAGIC: u32 = 0x4662_43B1;

/// The wrapper as it stands in the program (`__fatBinC_Wrapper_t`): 24 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
struct Wrapper {
    magic: u32,
    version: u32,
    data: *const c_void,
    /// Version 1: a file name or null. Version 2: a null-terminated list of containers, or null.
    list: *const *const c_void,
}

/// Finds an image in the calling program. It is a fat binary wrapper (version 1 or 2), a bare container, a cubin, or
/// PTX text that ends with a NUL.
///
/// # Errors
/// A null pointer, a form that is not known, headers that contradict themselves, or sizes beyond `limits`.
///
/// # Safety
/// `image` is null, or points to readable memory holding an image of one of these forms. The image is complete
/// as its own headers (or its NUL) say. A wrapper's pointers are null or point to such containers, and its list ends
/// with a null. All of it stays mapped and unchanged for `'a`. The program keeps this: CUDA asks it of the argument of
/// `cuModuleLoadData`, `cuModuleLoadDataEx`, `cuModuleLoadFatBinary` and `cuLibraryLoadData` until these return. With
/// `CU_LIBRARY_BINARY_IS_PRESERVED` CUDA asks it until the library is unloaded.
pub unsafe fn from_program<'a>(image: *const c_void, limits: &Limits) -> Result<Image<'a>, ImageError> {
    if image.is_null() {
        return Err(ImageError::Null);
    }
    // One byte first: a text may be shorter than any magic number.
    // SAFETY: by this function's contract an image has at least one readable byte.
    let first = unsafe { copy(image, 0, 1) };
    if first.first().is_some_and(|&byte| starts_text(byte)) {
        // SAFETY: no other form starts with such a byte, so by contract this is a text with a NUL.
        return unsafe { text(image, limits) };
    }
    // SAFETY: the forms that are left (wrapper, container, ELF) all have at least 16 bytes.
    let start = unsafe { copy(image, 0, 4) };
    let magic = u32_of(&start);
    match magic {
        WRAPPER_MAGIC => {
            // SAFETY: the magic says that this is a wrapper, which by contract is complete.
            unsafe { wrapped(image, limits) }
        }
        CONTAINER_MAGIC => {
            // SAFETY: the magic says that this is a container, which by contract is complete.
            let bytes = unsafe { container(image, "the image", limits.image_bytes)? };
            Ok(Image { kind: ImageKind::Fatbin, containers: vec![Cow::Borrowed(bytes)] })
        }
        elf::ELF_MAGIC => {
            // SAFETY: the magic says that this is an ELF file, which by contract is complete.
            let bytes = unsafe { cubin(image, limits)? };
            Ok(Image { kind: ImageKind::Cubin, containers: vec![Cow::Borrowed(bytes)] })
        }
        _ => Err(ImageError::UnknownForm(start)),
    }
}

fn u32_of(bytes: &[u8]) -> u32 {
    bytes.get(..4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
}

/// Copies `length` bytes at `offset` from `base`.
///
/// # Safety
/// Those bytes are readable and nobody writes to them meanwhile.
unsafe fn copy(base: *const c_void, offset: usize, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    // SAFETY: the caller answers for the source; the destination is our own vector of that length.
    unsafe { std::ptr::copy_nonoverlapping(base.cast::<u8>().add(offset), bytes.as_mut_ptr(), length) };
    bytes
}

/// `length` bytes at `base`, where they lie.
///
/// # Safety
/// Those bytes are readable and nobody writes to them for `'a`.
unsafe fn view<'a>(base: *const c_void, length: usize) -> &'a [u8] {
    // SAFETY: the caller answers for the bytes; a byte has no alignment and every value.
    unsafe { std::slice::from_raw_parts(base.cast::<u8>(), length) }
}

/// # Safety
/// `image` points to a complete wrapper as [`from_program`] has it.
unsafe fn wrapped<'a>(image: *const c_void, limits: &Limits) -> Result<Image<'a>, ImageError> {
    // SAFETY: a wrapper is 24 readable bytes; a program may have it at any alignment.
    let wrapper = unsafe { image.cast::<Wrapper>().read_unaligned() };
    if !matches!(wrapper.version, 1 | 2) {
        return Err(ImageError::WrapperVersion(wrapper.version));
    }
    // SAFETY: by contract the data pointer is null or points to a complete container.
    let main = unsafe { container(wrapper.data, "the data pointer", limits.image_bytes)? };
    let mut containers = vec![Cow::Borrowed(main)];
    if wrapper.version == 2 && !wrapper.list.is_null() {
        // SAFETY: by contract version 2 has a null-terminated list of containers here.
        unsafe { prelinked(wrapper.list, &mut containers, limits)? };
    }
    Ok(Image { kind: ImageKind::Fatbin, containers })
}

/// Puts the containers of a list behind those already there.
///
/// # Safety
/// `list` points to pointers to complete containers, the last followed by a null.
unsafe fn prelinked<'a>(
    list: *const *const c_void,
    containers: &mut Vec<Cow<'a, [u8]>>,
    limits: &Limits,
) -> Result<(), ImageError> {
    let mut left = limits.image_bytes.saturating_sub(containers.iter().map(|container| container.len()).sum());
    for index in 0.. {
        // SAFETY: no null was met yet, so the list has this element.
        let next = unsafe { list.add(index).read_unaligned() };
        if next.is_null() {
            break;
        }
        if index == limits.entries {
            let limit = limits.entries as u64;
            return Err(ImageError::TooLarge { what: "prelinked containers", size: limit + 1, limit });
        }
        // SAFETY: an element of the list that is not null points to a complete container.
        let bytes: &'a [u8] = unsafe { container(next, "the list", left)? };
        left -= bytes.len();
        containers.push(Cow::Borrowed(bytes));
    }
    Ok(())
}

/// A container of at most `limit` bytes.
///
/// # Safety
/// `address` is null or points to a complete container, or at least to four readable bytes that do not have its magic.
unsafe fn container<'a>(address: *const c_void, place: &'static str, limit: usize) -> Result<&'a [u8], ImageError> {
    if address.is_null() {
        return Err(ImageError::Null);
    }
    // SAFETY: the caller answers for four bytes.
    let magic = u32_of(&unsafe { copy(address, 0, 4) });
    if magic != CONTAINER_MAGIC {
        return Err(ImageError::NotAContainer { place, magic });
    }
    // SAFETY: with the magic it is a complete container, which has a header.
    let size = container_size(&unsafe { copy(address, 0, CONTAINER_HEADER) })?;
    let length = usize::try_from(size).ok().filter(|&length| length <= limit);
    let too_large = ImageError::TooLarge { what: "bytes of an image", size, limit: limit as u64 };
    let length = length.ok_or(too_large)?;
    // SAFETY: the container is complete, so the bytes its header counts are there.
    Ok(unsafe { view(address, length) })
}

/// # Safety
/// `image` points to a complete ELF file.
unsafe fn cubin<'a>(image: *const c_void, limits: &Limits) -> Result<&'a [u8], ImageError> {
    let limit = limits.image_bytes as u64;
    let size = |value: u64| {
        usize::try_from(value).map_err(|_| ImageError::TooLarge { what: "bytes of a cubin", size: value, limit })
    };
    let extent = elf::extent(limit, |offset, length| {
        let (offset, length) = (size(offset)?, size(length)?);
        // SAFETY: `extent` asks for the file's header and for tables this header says are there, within the limit.
        Ok(unsafe { copy(image, offset, length) })
    })?;
    let length = size(extent)?;
    // SAFETY: the extent is the end of the last thing that the complete file's headers describe.
    Ok(unsafe { view(image, length) })
}

/// # Safety
/// `image` points to bytes that are readable up to the first NUL, or up to a byte no text has.
unsafe fn text<'a>(image: *const c_void, limits: &Limits) -> Result<Image<'a>, ImageError> {
    for length in 0..=limits.image_bytes {
        // SAFETY: all bytes before this one were text, so the text reaches at least this byte.
        let byte = unsafe { image.cast::<u8>().add(length).read() };
        if byte == 0 {
            // SAFETY: these bytes were all just read.
            let bytes = unsafe { view(image, length) };
            return Ok(Image { kind: ImageKind::Ptx, containers: vec![Cow::Borrowed(bytes)] });
        }
        if !is_text(byte) {
            // SAFETY: these bytes were all just read.
            let mut start = unsafe { copy(image, 0, length + 1) };
            start.truncate(8);
            return Err(ImageError::UnknownForm(start));
        }
    }
    let limit = limits.image_bytes as u64;
    Err(ImageError::TooLarge { what: "bytes of PTX text", size: limit + 1, limit })
}
