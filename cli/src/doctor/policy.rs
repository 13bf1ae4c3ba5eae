//! The policy of this machine's server: whether a server would start with it.
//! In: its file, by the settings or by a flag. Out: a finding, or none where there is no policy.

use std::path::{Path, PathBuf};

use floe_settings::{Given, ProcessSource, SERVER, ServerSettings};
use floe_users::Policy;

use super::finding::{Finding, Weight};

/// Checks the named policy, else that of the settings.
pub(super) fn findings(named: Option<&Path>) -> Vec<Finding> {
    match named.map(|path| Ok(Some(path.to_path_buf()))).unwrap_or_else(of_settings) {
        Ok(Some(path)) => vec![judge(&path)],
        Ok(None) => Vec::new(),
        Err(words) => vec![Finding::new(Weight::Wrong, "policy", words)],
    }
}

/// The policy that a server would read, by its variable or the TOML file.
fn of_settings() -> Result<Option<PathBuf>, String> {
    let given = Given::gather(&SERVER, &[], &ProcessSource);
    let settings = given.and_then(|given| ServerSettings::read(&given));
    settings.map(|settings| settings.policy).map_err(|error| format!("the server's settings: {error}"))
}

fn judge(path: &Path) -> Finding {
    match Policy::read(path) {
        Ok(policy) if policy.limits_hosts() && !has_groups(&controllers()) => {
            let words = "host-memory, processors and tasks need control groups of version 2 with memory, cpu and pids";
            let words = format!("{}: {words}, and this machine has none", path.display());
            Finding::new(Weight::Wrong, "policy", words)
        }
        Ok(policy) => {
            let (users, groups) = policy.count();
            let others = if policy.has_default() { "others have [default]" } else { "others are refused" };
            let words = format!("{}: {users} users, {groups} groups, {others}", path.display());
            Finding::new(Weight::Good, "policy", words)
        }
        Err(error) => Finding::new(Weight::Wrong, "policy", error),
    }
}

/// The controllers of this machine's control groups of version 2; none where there are no such groups.
fn controllers() -> String {
    std::fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default()
}

/// Whether these are all that users' limits need.
fn has_groups(controllers: &str) -> bool {
    ["memory", "cpu", "pids"].iter().all(|needed| controllers.split_whitespace().any(|one| one == *needed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_good_or_wrong_by_name_and_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("policy.toml");
        std::fs::write(&path, "[users.alice]\n[groups.staff]\nmembers = [\"bob\"]\n").expect("written");
        let found = findings(Some(&path));
        let expected = format!("{}: 2 users, 1 groups, others are refused", path.display());
        assert_eq!(found, [Finding::new(Weight::Good, "policy", expected)]);
        std::fs::write(&path, "[users.alice]\ntasks = 100\n").expect("written");
        let expected = if has_groups(&controllers()) { Weight::Good } else { Weight::Wrong };
        assert_eq!(findings(Some(&path))[0].weight, expected);
        assert!(has_groups("cpuset cpu io memory pids\n") && !has_groups("cpuset cpu io memory\n") && !has_groups(""));
        std::fs::write(&path, "[users.alice]\nshares = 1\n").expect("written");
        let found = findings(Some(&path));
        assert!(found[0].text.contains("policy.toml:2: unknown field shares"), "{found:?}");
        assert_eq!(found[0].weight, Weight::Wrong);
    }
}
