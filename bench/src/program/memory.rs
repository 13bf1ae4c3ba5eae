//! Memory that processes and the GPU hold at a moment. Process ids come in, MiB go out. It reads `/proc` and asks
//! nvidia-smi; what cannot be known is `None`, never zero.

use std::fs;
use std::process::Command;

/// Resident memory of a process in MiB.
pub(crate) fn resident(process: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    kibibytes(&status, "VmRSS:").map(|kibibytes| kibibytes / 1024.0)
}

fn kibibytes(status: &str, field: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// Memory in use on the first GPU in MiB, by any process.
pub(crate) fn of_gpu() -> Option<f64> {
    let mut command = Command::new("nvidia-smi");
    let output = command.args(["--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", "0"]).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

/// Living children of a process, with their children, that run this executable.
pub(crate) fn children(process: u32, executable: &str) -> Vec<u32> {
    let mut found = Vec::new();
    let mut parents = vec![process];
    let all: Vec<(u32, u32, String)> = processes();
    while let Some(parent) = parents.pop() {
        for (child, _, name) in all.iter().filter(|(_, of, _)| *of == parent) {
            parents.push(*child);
            if name == executable {
                found.push(*child);
            }
        }
    }
    found
}

/// Every process: its id, its parent's, its name.
fn processes() -> Vec<(u32, u32, String)> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    ids.filter_map(|id| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let (name, rest) = parent_and_name(&stat)?;
        Some((id, rest, name))
    })
    .collect()
}

/// The name stands in parentheses and may hold anything, so what follows is read from the last one.
fn parent_and_name(stat: &str) -> Option<(String, u32)> {
    let (before, after) = stat.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_owned();
    Some((name, after.split_whitespace().nth(1)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_in_mebibytes() {
        assert_eq!(kibibytes("Name:\tx\nVmRSS:\t  2048 kB\n", "VmRSS:"), Some(2048.0));
        assert!(resident(std::process::id()).is_some_and(|mebibytes| mebibytes > 0.5));
    }

    #[test]
    fn a_name_with_parentheses_does_not_hide_the_parent() {
        assert_eq!(parent_and_name("7 (a) b) S 5 7 7"), Some(("a) b".into(), 5)));
    }

    #[test]
    fn a_child_is_found_by_its_name() {
        let mut child = Command::new("sleep").arg("100").spawn().expect("sleep runs");
        let found = children(std::process::id(), "sleep");
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
        assert!(found.contains(&child.id()), "{found:?}");
    }
}
