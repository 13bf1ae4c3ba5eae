//! `cuGetProcAddress`. A name, a driver version and flags come in; the symbol that the name means at that version goes
//! out, or why there is none. Only functions that floe has are found: the CUDA runtime works around a missing one, but
//! trusts one it got.

use crate::expansion::Symbols;
use crate::generated::lookup_answers::NAMES;
use floe_abi::{lookup_flags, lookup_result};
use std::ffi::c_void;

/// A name without version suffix, and its symbols by version.
pub(crate) struct Name {
    pub(crate) name: &'static str,
    pub(crate) legacy: &'static [Answer],
    pub(crate) per_thread: &'static [Answer],
}

/// From `version` on, the name is exported as `symbol`.
#[derive(Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) version: i32,
    pub(crate) symbol: &'static str,
}

/// The result of a look-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// The function.
    Function(*mut c_void),
    /// The name is floe's, but not at so low a version.
    NeedsNewerVersion,
    /// No such name, or floe does not have it.
    Nothing,
}

impl Found {
    /// The status that `cuGetProcAddress_v2` reports.
    pub(crate) fn status(self) -> u32 {
        match self {
            Self::Function(_) => lookup_result::SUCCESS,
            Self::NeedsNewerVersion => lookup_result::VERSION_NOT_SUFFICIENT,
            Self::Nothing => lookup_result::SYMBOL_NOT_FOUND,
        }
    }
}

/// Whether the flags are ones the driver knows.
pub(crate) fn flags_are_known(flags: u64) -> bool {
    matches!(flags, lookup_flags::DEFAULT | lookup_flags::LEGACY_STREAM | lookup_flags::PER_THREAD_DEFAULT_STREAM)
}

/// The exported symbol a name stands for.
pub(crate) fn find(symbols: &Symbols, name: &str, version: i32, flags: u64) -> Found {
    let Ok(at) = NAMES.binary_search_by(|entry| entry.name.cmp(name)) else { return Found::Nothing };
    let entry = &NAMES[at];
    let newest = |answers: &'static [Answer]| answers.iter().rev().find(|answer| answer.version <= version);
    let per_thread = if flags == lookup_flags::PER_THREAD_DEFAULT_STREAM { newest(entry.per_thread) } else { None };
    match per_thread.or_else(|| newest(entry.legacy)) {
        Some(answer) => symbols.find(answer.symbol).map_or(Found::Nothing, Found::Function),
        // Only a name floe has at some version is worth asking for again.
        None if entry.legacy.iter().any(|answer| symbols.find(answer.symbol).is_some()) => Found::NeedsNewerVersion,
        None => Found::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expansion::Symbol;

    const fn at(name: &'static str, address: usize) -> Symbol {
        Symbol::new(name, std::ptr::without_provenance(address))
    }

    static LIST: [Symbol; 8] = [
        at("cuCtxGetDevice", 1),
        at("cuCtxGetDevice_v2", 2),
        at("cuGetProcAddress", 7),
        at("cuGetProcAddress_v2", 8),
        at("cuMemAlloc_v2", 3),
        at("cuMemcpyHtoD_v2", 4),
        at("cuMemcpyHtoD_v2_ptds", 5),
        at("cuStreamSynchronize", 6),
    ];
    static SYMBOLS: Symbols = Symbols::new(&LIST);

    fn ask(name: &str, version: i32, flags: u64) -> Found {
        find(&SYMBOLS, name, version, flags)
    }

    fn function(address: usize) -> Found {
        Found::Function(std::ptr::without_provenance_mut(address))
    }

    #[test]
    fn version_decides_between_old_and_new_signature() {
        assert_eq!(ask("cuCtxGetDevice", 2000, 0), function(1));
        assert_eq!(ask("cuCtxGetDevice", 12090, 0), function(1));
        assert_eq!(ask("cuCtxGetDevice", 13000, 0), function(2));
        assert_eq!(ask("cuCtxGetDevice", 99999, 0), function(2));
        assert_eq!(ask("cuGetProcAddress", 11030, 0), function(7));
        assert_eq!(ask("cuGetProcAddress", 12000, 0), function(8));
    }

    #[test]
    fn per_thread_form_is_answered_from_its_version_on_and_only_for_its_flag() {
        assert_eq!(ask("cuMemcpyHtoD", 13000, lookup_flags::PER_THREAD_DEFAULT_STREAM), function(5));
        assert_eq!(ask("cuMemcpyHtoD", 3020, lookup_flags::PER_THREAD_DEFAULT_STREAM), function(4));
        assert_eq!(ask("cuMemcpyHtoD", 13000, lookup_flags::LEGACY_STREAM), function(4));
        assert_eq!(ask("cuMemAlloc", 13000, lookup_flags::PER_THREAD_DEFAULT_STREAM), function(3));
    }

    #[test]
    fn low_versions_unknown_names_and_missing_names_answer_differently() {
        assert_eq!(ask("cuStreamSynchronize", 1000, 0), Found::NeedsNewerVersion);
        assert_eq!(ask("cuNoSuchCall", 13000, 0), Found::Nothing);
        assert_eq!(ask("cuMemAlloc_v2", 13000, 0), Found::Nothing);
        // Known to CUDA, not implemented here: the old 32-bit form and a call without an entry.
        assert_eq!(ask("cuMemAlloc", 2000, 0), Found::Nothing);
        assert_eq!(ask("cuGraphLaunch", 13000, 0), Found::Nothing);
    }

    #[test]
    fn names_are_sorted_and_complete() {
        assert!(NAMES.is_sorted_by_key(|entry| entry.name));
        assert!(NAMES.len() > 440);
        assert!(NAMES.iter().all(|entry| entry.legacy.is_sorted_by_key(|answer| answer.version)));
    }

    #[test]
    fn flags_beyond_the_three_are_not_known() {
        assert!(flags_are_known(0) && flags_are_known(1) && flags_are_known(2));
        assert!(!flags_are_known(3));
    }
}
