//! What a build is called, by every executable of the server's side and by `floe`.
//! In: the commit, as xtask tells it to the executables' own crates. Out: one line.
//! It asks nothing while it runs.

/// The version, the protocol and, where it is known, the commit: `0.1.0 (protocol 3, commit 766dc15)`.
///
/// Executables pass `option_env!("FLOE_COMMIT")`: only their own crates are built anew for another commit.
#[must_use]
pub fn version(commit: Option<&str>) -> String {
    let commit = commit.filter(|commit| !commit.is_empty());
    let commit = commit.map_or_else(String::new, |commit| format!(", commit {commit}"));
    format!("{} (protocol {}{commit})", env!("CARGO_PKG_VERSION"), floe_wire::NEWEST_VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_named_where_it_is_known() {
        let own = env!("CARGO_PKG_VERSION");
        assert_eq!(version(Some("766dc15")), format!("{own} (protocol 3, commit 766dc15)"));
        assert_eq!([None, Some("")].map(version), [(); 2].map(|()| format!("{own} (protocol 3)")));
    }
}
