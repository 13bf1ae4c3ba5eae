//! What physical memory and pools are handed on by between processes: a descriptor, or the bytes of a fabric handle. C's
//! untyped pointer comes in by its kind, and goes out so. Other kinds are refused by name here.

use std::ffi::c_void;
use std::os::fd::{BorrowedFd, IntoRawFd as _, OwnedFd};

use floe_abi::{CudaError, CudaResult, FabricHandle, handle_type};

use super::c_pointers as c;
use crate::process::refusals::refused;

/// The kinds of `CUmemAllocationHandleType` that there are here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShareableKind {
    /// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
    Descriptor,
    /// `CU_MEM_HANDLE_TYPE_FABRIC`.
    Fabric,
}

/// A handle of one of these kinds. `D` is the descriptor, owned where it is made and borrowed where it is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShareableHandle<D> {
    /// An `int` that the process may pass on.
    Descriptor(D),
    /// 64 bytes that anybody may pass on.
    Fabric(FabricHandle),
}

impl ShareableKind {
    /// All of them, as memory and pools say for which they were made.
    pub const ALL: u32 = handle_type::POSIX_FILE_DESCRIPTOR | handle_type::FABRIC;

    /// # Errors
    /// NOT_SUPPORTED for handles of Windows, INVALID_VALUE for what is no kind.
    pub(crate) fn of(kind: u32) -> CudaResult<Self> {
        if !kind.is_power_of_two() || kind & !handle_type::KNOWN != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        match kind {
            handle_type::POSIX_FILE_DESCRIPTOR => Ok(Self::Descriptor),
            handle_type::FABRIC => Ok(Self::Fabric),
            _ => {
                refused(format_args!(
                    "memory is shared by file descriptors and fabric handles only, not by handles of kind: {kind}"
                ));
                Err(CudaError::NOT_SUPPORTED)
            }
        }
    }

    /// Whether memory or a pool made for `handle_types` has handles of this kind.
    ///
    /// # Errors
    /// INVALID_VALUE where not, CUDA's word for it.
    pub fn check_made_for(self, handle_types: u32) -> CudaResult<()> {
        let bit = match self {
            Self::Descriptor => handle_type::POSIX_FILE_DESCRIPTOR,
            Self::Fabric => handle_type::FABRIC,
        };
        if handle_types & bit != 0 { Ok(()) } else { Err(CudaError::INVALID_VALUE) }
    }
}

/// Gives the program its handle. A descriptor is the program's from here on.
///
/// # Safety
/// `place` is null or the program's variable of the handle's kind.
///
/// # Errors
/// INVALID_VALUE where it is null.
pub(crate) unsafe fn give(place: *mut c_void, handle: ShareableHandle<OwnedFd>) -> CudaResult<()> {
    c::present(place)?;
    // SAFETY: the caller's word.
    unsafe {
        match handle {
            ShareableHandle::Descriptor(descriptor) => c::put(place.cast::<i32>(), descriptor.into_raw_fd()),
            ShareableHandle::Fabric(bytes) => c::put(place.cast::<FabricHandle>(), bytes),
        }
    }
    Ok(())
}

/// The handle that a program imports: a descriptor instead of a pointer, or a pointer to a fabric handle's bytes.
///
/// # Safety
/// As C says of the kind. A descriptor is open during the call; if it is not, each use of it fails.
///
/// # Errors
/// As [`ShareableKind::of`]; INVALID_VALUE for a number that is no descriptor's, and for no bytes.
pub(crate) unsafe fn take<'a>(shareable: *mut c_void, kind: u32) -> CudaResult<ShareableHandle<BorrowedFd<'a>>> {
    match ShareableKind::of(kind)? {
        ShareableKind::Descriptor => {
            let number = i32::try_from(shareable.addr()).map_err(|_| CudaError::INVALID_VALUE)?;
            // SAFETY: a number from 0 on, which the caller says is open.
            Ok(ShareableHandle::Descriptor(unsafe { BorrowedFd::borrow_raw(number) }))
        }
        ShareableKind::Fabric => {
            // SAFETY: the caller's word.
            let handle = unsafe { c::reference(shareable.cast::<FabricHandle>()) }?;
            Ok(ShareableHandle::Fabric(*handle))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_shared_by_descriptors_and_by_fabric_handles() {
        assert_eq!(ShareableKind::of(handle_type::POSIX_FILE_DESCRIPTOR), Ok(ShareableKind::Descriptor));
        assert_eq!(ShareableKind::of(handle_type::FABRIC), Ok(ShareableKind::Fabric));
        for kind in [2, 4] {
            assert_eq!(ShareableKind::of(kind), Err(CudaError::NOT_SUPPORTED), "{kind}");
        }
        for kind in [handle_type::NONE, ShareableKind::ALL, 6, 16, u32::MAX] {
            assert_eq!(ShareableKind::of(kind), Err(CudaError::INVALID_VALUE), "{kind}");
        }
    }

    #[test]
    fn a_handle_is_of_a_kind_its_memory_was_made_for() {
        let answers = |kind: ShareableKind| [0, 1, 8, 9].map(|made_for| kind.check_made_for(made_for).is_ok());
        assert_eq!(answers(ShareableKind::Descriptor), [false, true, false, true]);
        assert_eq!(answers(ShareableKind::Fabric), [false, false, true, true]);
    }

    #[test]
    fn a_fabric_handle_is_given_and_taken_as_it_is() {
        let given = FabricHandle { bytes: *b"any bytes of a handle, which nobody but the driver that made ..." };
        let mut variable = FabricHandle::default();
        let place = (&raw mut variable).cast::<c_void>();
        // SAFETY: a variable of the handle's kind.
        assert_eq!(unsafe { give(place, ShareableHandle::Fabric(given)) }, Ok(()));
        // SAFETY: the same variable.
        let taken = unsafe { take(place, handle_type::FABRIC) };
        assert!(matches!(taken, Ok(ShareableHandle::Fabric(bytes)) if bytes == given));
        // SAFETY: no variable at all, which is refused.
        let none = unsafe { take(std::ptr::null_mut(), handle_type::FABRIC) };
        assert!(matches!(none, Err(CudaError::INVALID_VALUE)));
    }
}
