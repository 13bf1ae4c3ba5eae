//! What this build is called.
//! In: the commit, where xtask told it to the build. Out: the words behind `--version`.
//! It asks no other executable.

/// The version, the protocol and the commit.
pub(crate) fn version() -> String {
    floe_wire::version(option_env!("FLOE_COMMIT"))
}
