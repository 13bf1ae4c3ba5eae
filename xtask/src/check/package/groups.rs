//! Control groups for a machine of its own, beside those of this process. In: what `/proc` says of them. Out: folders, one for
//! each hierarchy that a manager needs, which are removed with all below.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The groups.
#[derive(Debug)]
pub(super) struct Groups {
    folders: Vec<PathBuf>,
}

impl Groups {
    /// Makes them.
    pub(super) fn make() -> Result<Self> {
        let read = |file| fs::read_to_string(file).with_context(|| format!("cannot read: {file}"));
        let mut groups = Self { folders: Vec::new() };
        for around in around(&read("/proc/self/cgroup")?, &read("/proc/self/mounts")?) {
            let folder = around.join(format!("floe-check-{}", std::process::id()));
            fs::create_dir_all(&folder).with_context(|| format!("cannot make: {}", folder.display()))?;
            groups.folders.push(folder);
        }
        Ok(groups)
    }

    /// Their folders.
    pub(super) fn folders(&self) -> &[PathBuf] {
        &self.folders
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        self.folders.iter().for_each(|folder| remove(folder));
    }
}

/// Removes a group and those below it, as far as no process is in them.
fn remove(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if entry.is_dir() {
            remove(&entry);
        }
    }
    let _ = fs::remove_dir(folder);
}

/// The groups of a process in the hierarchies that a manager has processes in: that of version 2, and systemd's own of version 1.
fn around(groups: &str, mounts: &str) -> Vec<PathBuf> {
    let of = |line: &str| {
        let mut parts = line.splitn(3, ':');
        let (number, name, path) = (parts.next()?, parts.next()?, parts.next()?);
        let is_wanted = |kind: &str, options: &str| match (number, name) {
            ("0", "") => kind == "cgroup2",
            (_, "name=systemd") => kind == "cgroup" && options.split(',').any(|option| option == name),
            _ => false,
        };
        let place = mounts.lines().find_map(|mount| {
            let mut words = mount.split(' ').skip(1);
            let (place, kind, options) = (words.next()?, words.next()?, words.next()?);
            is_wanted(kind, options).then_some(place)
        })?;
        Some(Path::new(place).join(path.trim_start_matches('/')))
    };
    groups.lines().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_hierarchies_are_found_where_they_are_mounted() {
        let mounts = "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n\
                      cgroup /sys/fs/cgroup/systemd cgroup rw,relatime,name=systemd 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n";
        let groups = "9:name=systemd:/of/mine\n4:memory:/other\n0::/\n";
        assert_eq!(
            around(groups, mounts),
            ["/sys/fs/cgroup/systemd/of/mine", "/sys/fs/cgroup/unified/"].map(PathBuf::from)
        );
        let alone = around("0::/user.slice/session-1.scope\n", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n");
        assert_eq!(alone, [PathBuf::from("/sys/fs/cgroup/user.slice/session-1.scope")]);
    }
}
