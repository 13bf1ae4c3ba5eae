//! What all workers of a user together may take of the server's own machine.
//! In: the policy. Out: limits that control groups keep. `None` is no limit.

/// Limits of a user's workers together, beside those of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostLimits {
    /// Bytes of host memory.
    pub memory: Option<u64>,
    /// Thousandths of a processor.
    pub processors: Option<u32>,
    /// Processes and threads.
    pub tasks: Option<u32>,
}

impl HostLimits {
    /// None at all.
    pub const NONE: Self = Self { memory: None, processors: None, tasks: None };

    /// Whether there is any.
    #[must_use]
    pub fn are_any(self) -> bool {
        self != Self::NONE
    }
}
