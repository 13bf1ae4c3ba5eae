//! The versions of the protocol that this build speaks, and the name of the build.
//! In: the commit, if the build knows it. Out: words for `--version`. It asks nothing of the system.

/// The oldest protocol version this build speaks.
pub const OLDEST_VERSION: u32 = 15;
/// The newest protocol version this build speaks: any change to the meaning of bytes increments it.
pub const NEWEST_VERSION: u32 = 15;

/// The name of a build: its version, its protocol and, if known, its commit: `0.1.0 (protocol 4, commit 766dc15)`.
///
/// Executables pass `option_env!("FLOE_COMMIT")`, so another commit rebuilds only their own crates.
#[must_use]
pub fn version(commit: Option<&str>) -> String {
    let commit = commit.filter(|commit| !commit.is_empty());
    let commit = commit.map_or_else(String::new, |commit| format!(", commit {commit}"));
    format!("{} (protocol {NEWEST_VERSION}{commit})", env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_named_where_it_is_known() {
        let own = format!("{} (protocol {NEWEST_VERSION}", env!("CARGO_PKG_VERSION"));
        assert_eq!(version(Some("766dc15")), format!("{own}, commit 766dc15)"));
        assert_eq!([None, Some("")].map(version), [(); 2].map(|()| format!("{own})")));
    }
}
