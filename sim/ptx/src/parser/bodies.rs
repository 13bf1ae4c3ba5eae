//! Ways to treat the bodies of functions.
//! The entry points of the parser choose one; nothing here reads.

/// Whether bodies are read or only found.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Bodies {
    Read,
    /// Read, but of instructions only the ends are sought.
    Declarations,
    Skip,
}
