//! What `floe doctor` finds: its weight, its subject and its words. It holds no logic.

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    /// The protection holds.
    Good,
    /// Servers should have it.
    Note,
    /// A server without it should serve no strangers.
    Wrong,
}

/// One finding: its weight, its subject and its text.
pub(super) type Finding = (Weight, &'static str, String);
