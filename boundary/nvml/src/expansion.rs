//! Types and guards for the code of [`export_nvml!`](crate::export_nvml) where it is expanded. They are public because
//! macros expand elsewhere; no code by hand uses them. No panic leaves it into C.

pub use crate::layout::*;
pub use crate::result::NvmlReturn;
pub use std::ffi::c_char;

use crate::result::{NvmlError, NvmlResult, text};
use crate::{Base, Library};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a call that needs `nvmlInit`.
pub fn guard<L: Library>(library: &L, name: &'static str, call: impl FnOnce(&L) -> NvmlResult<()>) -> NvmlReturn {
    guard_always(
        library,
        name,
        |library| {
            if library.is_initialized() { call(library) } else { Err(NvmlError::UNINITIALIZED) }
        },
    )
}

/// Runs a call that does not.
pub fn guard_always<L: Base>(library: &L, name: &'static str, call: impl FnOnce(&L) -> NvmlResult<()>) -> NvmlReturn {
    // State that a panic leaves half done is behind locks, which later users take as they find them.
    let outcome = catch_unwind(AssertUnwindSafe(|| call(library)));
    match outcome {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => error.code(),
        Err(_) => {
            library.failed(name);
            NvmlError::UNKNOWN.code()
        }
    }
}

/// Answers for an exported name nobody implements.
pub fn unsupported<L: Library>(library: &L, name: &'static str) -> NvmlReturn {
    guard(library, name, |library| {
        library.unsupported(name);
        Err(NvmlError::NOT_SUPPORTED)
    })
}

/// C's text of a result; it lives for ever.
#[must_use]
pub fn error_text(result: NvmlReturn) -> *const c_char {
    text(result).as_ptr()
}

/// Defines exported functions that answer [`unsupported`].
#[doc(hidden)]
#[macro_export]
macro_rules! unsupported_nvml {
    ($($name:ident)*) => {$(
        // C's callers clean up their own arguments, so a function may have any number and read none.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() -> NvmlReturn {
            unsupported(library(), stringify!($name))
        }
    )*};
}
