//! Which control group this process is in. In: two lists of the kernel. Out: the group's folder.

use std::path::{Path, PathBuf};

/// The folder of this process's control group of version 2.
///
/// # Errors
/// Why there is none, in words.
pub(super) fn group() -> Result<PathBuf, String> {
    let read = |path: &str| std::fs::read_to_string(path).map_err(|error| format!("{path} cannot be read: {error}"));
    let found = place(&read("/proc/self/cgroup")?, &read("/proc/self/mountinfo")?);
    found.ok_or_else(|| "this machine has no control groups of version 2, or they are not mounted here".to_owned())
}

/// The folder of the group that `groups` (`/proc/self/cgroup`) names, below the mount that `mounts` (`/proc/self/mountinfo`) has.
fn place(groups: &str, mounts: &str) -> Option<PathBuf> {
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        if !kind.starts_with("cgroup2 ") {
            return None;
        }
        let mut fields = place.split(' ').skip(3);
        let (root, at) = (fields.next()?, fields.next()?);
        // A group outside what is mounted here has no folder here.
        let below = Path::new(group).strip_prefix(root).ok()?;
        let is_plain = below.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        is_plain.then(|| Path::new(at).join(below))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 28 0:21 / /proc rw,nosuid - proc proc rw
29 28 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate
";

    #[test]
    fn a_group_is_found_below_its_mount() {
        let at = |group: &str| place(&format!("0::{group}\n"), MOUNTS);
        assert_eq!(at("/system.slice/floed.service"), Some("/sys/fs/cgroup/system.slice/floed.service".into()));
        assert_eq!(at("/"), Some("/sys/fs/cgroup".into()));
        assert_eq!(at("/../other"), None, "it lies outside this namespace");
        assert_eq!(place("4:memory:/a\n1:name=systemd:/a\n", MOUNTS), None, "version 1");
        assert_eq!(place("0::/a\n", "29 28 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"), None, "not mounted");
    }

    #[test]
    fn of_a_part_that_is_mounted_the_group_is_found_only_within() {
        let part = "29 28 0:26 /machine /groups rw - cgroup2 cgroup2 rw\n";
        assert_eq!(place("0::/machine/floed\n", part), Some("/groups/floed".into()));
        assert_eq!(place("0::/system/floed\n", part), None);
    }
}
