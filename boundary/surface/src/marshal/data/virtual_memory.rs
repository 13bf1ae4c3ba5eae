//! Physical memory that processes share, by a handle behind an untyped pointer or as one. C's arguments come in, typed handles go
//! to the implementation and come back.

use crate::marshal::marshallers;
use crate::prelude::*;

marshallers! {
    /// `cuMemExportToShareableHandle`.
    fn cuMemExportToShareableHandle(driver, shareable: *mut c_void, handle: MemHandle, kind: u32, flags: u64) {
        c::present(shareable)?;
        // No memory is made for other kinds, and CUDA's word for what was not made for a kind is INVALID_VALUE.
        let kind = ShareableKind::of(kind).or(Err(CudaError::INVALID_VALUE))?;
        if flags != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let exported = driver.mem_export_to_shareable_handle(handle, kind)?;
        // SAFETY: the program's variable of this kind.
        unsafe { shareable::give(shareable, exported) }
    }

    /// `cuMemImportFromShareableHandle`: a descriptor stays the program's.
    fn cuMemImportFromShareableHandle(driver, handle: *mut MemHandle, shareable: *mut c_void, kind: u32) {
        c::present(handle)?;
        // SAFETY: what C says of this kind.
        let imported = driver.mem_import_from_shareable_handle(unsafe { shareable::take(shareable, kind) }?)?;
        // SAFETY: the program's variable.
        unsafe { c::put(handle, imported) };
        Ok(())
    }
}
