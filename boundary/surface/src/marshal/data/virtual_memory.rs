//! Physical memory that processes share: a descriptor behind an untyped pointer, or as one. C's arguments come in, typed
//! descriptors go to the implementation and come back. Handles of other kinds are refused by name here.

use std::os::fd::IntoRawFd;

use crate::marshal::marshallers;
use crate::prelude::*;
use crate::process::refusals::refused;

marshallers! {
    /// `cuMemExportToShareableHandle`: the program owns the descriptor from here on.
    fn cuMemExportToShareableHandle(driver, shareable: *mut c_void, handle: MemHandle, kind: u32, flags: u64) {
        c::present(shareable)?;
        // No memory is made for other kinds, and CUDA's word for what was not made for a kind is INVALID_VALUE.
        by_descriptor(kind).or(Err(CudaError::INVALID_VALUE))?;
        if flags != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let descriptor = driver.mem_export_to_shareable_handle(handle)?;
        // SAFETY: the program's `int`, as the kind of handle says.
        unsafe { c::put(shareable.cast::<i32>(), descriptor.into_raw_fd()) };
        Ok(())
    }

    /// `cuMemImportFromShareableHandle`: the descriptor stays the program's.
    fn cuMemImportFromShareableHandle(driver, handle: *mut MemHandle, shareable: *mut c_void, kind: u32) {
        c::present(handle)?;
        by_descriptor(kind)?;
        let number = i32::try_from(shareable.addr()).map_err(|_| CudaError::INVALID_VALUE)?;
        // SAFETY: a number from 0 on, which the program has open during the call; if it has not, each use of it fails.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        let imported = driver.mem_import_from_shareable_handle(descriptor)?;
        // SAFETY: the program's variable.
        unsafe { c::put(handle, imported) };
        Ok(())
    }
}

/// # Errors
/// NOT_SUPPORTED for all kinds of handles but descriptors.
fn by_descriptor(kind: u32) -> CudaResult<()> {
    if kind == handle_type::POSIX_FILE_DESCRIPTOR {
        return Ok(());
    }
    refused(format_args!("memory is shared by file descriptors only, not by handles of kind: {kind}"));
    Err(CudaError::NOT_SUPPORTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_shared_by_descriptors_only() {
        assert_eq!(by_descriptor(handle_type::POSIX_FILE_DESCRIPTOR), Ok(()));
        for kind in [handle_type::NONE, handle_type::FABRIC, 9, u32::MAX] {
            assert_eq!(by_descriptor(kind), Err(CudaError::NOT_SUPPORTED), "{kind}");
        }
    }
}
