//! Whether device code keeps what no call of a driver reaches.
//! In: an image's bytes. Out: what its kernels may have made beside the memory that a host knows of.
//! Kernels that allocate call the driver's `malloc`, kernels that launch kernels call the device runtime; cubins and PTX
//! alike name both (seen with nvcc 13 for sm_90).

use std::fmt;

use memchr::memmem;

use crate::fatbin::{EntryKind, Fatbin, is_container};
use crate::{ImageError, Limits};

/// The driver's functions behind `malloc` and `new`; the last one is that of over-aligned ones, as nvcc 13 calls it.
const HEAP: [&[u8]; 3] = [b"malloc", b"__nv_aligned_device_malloc", b"__cuda_syscall_aligned_malloc"];
/// Parts of the names of functions that launch.
const LAUNCHES: [&[u8]; 2] = [b"cudaLaunchDevice", b"cudaCDP2"];

/// What kernels may have made beside memory that a host knows of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// Memory of the device's heap.
    Heap,
    /// Kernels that kernels have launched.
    Launches,
}

impl fmt::Display for Beyond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Heap => "its kernels allocate memory (malloc in device code)",
            Self::Launches => "its kernels launch kernels",
        })
    }
}

/// What kernels of a fat binary, cubin or PTX text may have made.
///
/// # Errors
/// An image that cannot be read, or is over a limit.
pub fn beyond_reach(image: &[u8], limits: &Limits) -> Result<Option<Beyond>, ImageError> {
    if !is_container(image) {
        return Ok(of_code(image));
    }
    for entry in &Fatbin::parse(image, limits)?.entries {
        if matches!(entry.kind, EntryKind::Ptx | EntryKind::Cubin)
            && let Some(beyond) = of_code(&entry.data(limits)?)
        {
            return Ok(Some(beyond));
        }
    }
    Ok(None)
}

fn of_code(code: &[u8]) -> Option<Beyond> {
    if HEAP.iter().any(|name| has_name(code, name)) {
        return Some(Beyond::Heap);
    }
    LAUNCHES.iter().any(|part| memmem::find(code, part).is_some()).then_some(Beyond::Launches)
}

/// Whether a whole name is there: between characters of which no name is made.
fn has_name(code: &[u8], name: &[u8]) -> bool {
    let is_of_names =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_$%.".contains(byte));
    memmem::find_iter(code, name).any(|at| {
        let before = at.checked_sub(1).and_then(|before| code.get(before));
        !is_of_names(before) && !is_of_names(code.get(at + name.len()))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    #[test]
    fn code_that_allocates_or_launches_is_found_by_whole_names() {
        let of = |code: &[u8]| beyond_reach(code, &Limits::default()).unwrap();
        assert_eq!(of(b".extern .func (.param .b64 func_retval0) malloc\n(\n"), Some(Beyond::Heap));
        assert_eq!(of(b"\x7fELF\0_Z1kPPi\0malloc\0free\0"), Some(Beyond::Heap));
        assert_eq!(of(b"call (x), __nv_aligned_device_malloc, (y);"), Some(Beyond::Heap));
        assert_eq!(of(b".extern .func __cuda_syscall_aligned_malloc\n"), Some(Beyond::Heap));
        assert_eq!(of(b"\x7fELF\0cudaLaunchDeviceV2_ptsz\0"), Some(Beyond::Launches));
        for none in [&b".param .b64 malloc_param_0"[..], b"\0_Z8mymallocv\0", b"\0malloc.part\0", b"\0free\0", b""] {
            assert_eq!(of(none), None, "{}", none.escape_ascii());
        }
    }

    #[test]
    fn a_container_that_is_cut_off_is_no_answer() {
        let whole = include_bytes!("../tests/data/sums_speed.fatbin");
        assert_eq!(beyond_reach(whole, &Limits::default()).unwrap(), None);
        assert!(beyond_reach(&whole[..whole.len() - 1], &Limits::default()).is_err());
    }
}
