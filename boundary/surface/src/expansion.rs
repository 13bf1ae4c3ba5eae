//! Types, guards and the table of exported addresses for the code of [`export_driver!`](crate::export_driver) where it
//! is expanded. They are public because macros expand elsewhere; no code by hand uses them.

pub use crate::process::{guard, guard_always};
pub use floe_abi::*;
pub use std::ffi::{c_char, c_void};

use crate::process::refusals;
use std::collections::BTreeSet;
use std::sync::Mutex;

/// One exported function of the expanding library.
pub struct Symbol {
    name: &'static str,
    address: *const (),
}

// SAFETY: the address is a function's, which never changes and is only handed out.
unsafe impl Sync for Symbol {}

impl Symbol {
    /// A function by its exported name.
    pub const fn new(name: &'static str, address: *const ()) -> Self {
        Self { name, address }
    }
}

/// All exported functions floe implements, sorted by name.
pub struct Symbols {
    list: &'static [Symbol],
}

impl Symbols {
    /// The list must be sorted by name, as the generator writes it.
    pub const fn new(list: &'static [Symbol]) -> Self {
        Self { list }
    }

    /// The address of an exported function.
    pub fn find(&self, name: &str) -> Option<*mut c_void> {
        let at = self.list.binary_search_by(|symbol| symbol.name.cmp(name)).ok()?;
        Some(self.list[at].address.cast_mut().cast())
    }
}

/// A variable the debugger's interface would use; always zero.
#[repr(C)]
pub struct Variable<const WORDS: usize> {
    words: std::cell::UnsafeCell<[u64; WORDS]>,
}

// SAFETY: floe never touches it; a debugger that does stops the process first.
unsafe impl<const WORDS: usize> Sync for Variable<WORDS> {}

impl<const WORDS: usize> Variable<WORDS> {
    /// Zero.
    #[allow(clippy::new_without_default, reason = "statics need a const function")]
    pub const fn new() -> Self {
        Self { words: std::cell::UnsafeCell::new([0; WORDS]) }
    }
}

/// Answers for an exported name floe does not implement, and says so the first time.
#[cold]
pub fn unsupported(name: &'static str) -> CuResult {
    say_once(name, || {
        format!("{name} is not implemented: the program gets CUDA_ERROR_NOT_SUPPORTED\n  see docs/coverage.md")
    });
    CudaError::NOT_SUPPORTED.into()
}

/// Keeps a message that may explain an error, the first time its key comes up.
pub(crate) fn say_once(key: &str, message: impl FnOnce() -> String) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut said = floe_lock::lock(&SAID);
    if said.insert(key.to_owned()) {
        refusals::refused(format_args!("{}", message()));
    }
}

/// Defines exported functions that answer [`unsupported`].
#[doc(hidden)]
#[macro_export]
macro_rules! unsupported_exports {
    ($($name:ident)*) => {$(
        // C's callers clean up their own arguments, so a function may have any number and read none.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() -> $crate::expansion::CuResult {
            $crate::expansion::unsupported(stringify!($name))
        }
    )*};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_found_by_exact_name() {
        static LIST: [Symbol; 2] = [Symbol::new("cuA", 8 as *const ()), Symbol::new("cuA_v2", 16 as *const ())];
        let symbols = Symbols::new(&LIST);
        assert_eq!(symbols.find("cuA_v2"), Some(std::ptr::without_provenance_mut(16)));
        assert_eq!(symbols.find("cuB"), None);
    }

    #[test]
    fn unsupported_answers_801() {
        assert_eq!(unsupported("cuNothing").0, 801);
    }
}
