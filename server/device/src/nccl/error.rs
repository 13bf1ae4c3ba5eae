//! Results of NCCL, failures with its words, and versions as it writes them.
//! In and out: plain data.

/// Results of NCCL that are named here.
pub mod result {
    /// `ncclSuccess`.
    pub const SUCCESS: u32 = 0;
    /// `ncclInternalError`.
    pub const INTERNAL_ERROR: u32 = 3;
    /// `ncclInvalidArgument`.
    pub const INVALID_ARGUMENT: u32 = 4;
    /// `ncclInvalidUsage`.
    pub const INVALID_USAGE: u32 = 5;
    /// `ncclInProgress`.
    pub const IN_PROGRESS: u32 = 7;
}

/// A failure, with what NCCL says of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("NCCL answers {code}: {words}")]
pub struct NcclError {
    /// `ncclResult_t`.
    pub code: u32,
    /// The last error that NCCL noted.
    pub words: String,
}

/// A version as NCCL writes it.
pub(super) fn words_of(version: u32) -> String {
    format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_written_as_nccl_writes_them() {
        assert_eq!(words_of(23_203), "2.32.3");
        assert_eq!(words_of(22_809), "2.28.9");
    }
}
