//! Physical memory between processes, by descriptors. In: handles of this driver, descriptors from anybody. Out: the
//! driver's own descriptors and handles. It checks nothing that a driver checks.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use floe_abi::{CudaError, CudaResult, MemHandle, handle_type};

use super::missing;
use crate::Driver;

impl Driver {
    /// A descriptor of physical memory that was made to be exported. `cuMemExportToShareableHandle`.
    ///
    /// # Errors
    /// The driver's error; NOT_SUPPORTED where the library lacks the function.
    pub fn mem_export(&self, memory: MemHandle) -> CudaResult<OwnedFd> {
        let call = self.calls.cuMemExportToShareableHandle.ok_or_else(|| missing("cuMemExportToShareableHandle"))?;
        let mut number = -1_i32;
        // SAFETY: the output is our own, an int as this kind of handle has it; the memory is this driver's.
        unsafe { call((&raw mut number).cast(), memory, handle_type::POSIX_FILE_DESCRIPTOR, 0) }.into_result()?;
        if number < 0 {
            return Err(CudaError::OPERATING_SYSTEM);
        }
        // SAFETY: the driver has just opened it for us.
        Ok(unsafe { OwnedFd::from_raw_fd(number) })
    }

    /// Physical memory by a descriptor of it, which stays the caller's. `cuMemImportFromShareableHandle`.
    ///
    /// # Errors
    /// The driver's error, which is one for every descriptor of something else; NOT_SUPPORTED where the library lacks the
    /// function.
    pub fn mem_import(&self, file: BorrowedFd<'_>) -> CudaResult<MemHandle> {
        let call = self.calls.cuMemImportFromShareableHandle;
        let call = call.ok_or_else(|| missing("cuMemImportFromShareableHandle"))?;
        let number = usize::try_from(file.as_raw_fd()).map_err(|_| CudaError::INVALID_VALUE)?;
        let mut memory = MemHandle::NULL;
        // SAFETY: the output is our own; this kind of handle passes the descriptor's number as a pointer.
        unsafe { call(&raw mut memory, std::ptr::without_provenance_mut(number), handle_type::POSIX_FILE_DESCRIPTOR) }
            .into_result()?;
        Ok(memory)
    }
}
