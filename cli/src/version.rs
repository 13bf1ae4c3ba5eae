//! The name of this build.
//! In: the commit, if xtask passed it to the build. Out: the text of `--version`.
//! It asks no other executable.

/// The version, the protocol and the commit.
pub(crate) fn version() -> String {
    floe_wire::version(option_env!("FLOE_COMMIT"))
}
