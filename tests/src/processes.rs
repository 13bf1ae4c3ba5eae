//! A process as `/proc` shows it: its descendants, its open files. For leak counts.

use std::fs;
use std::time::Duration;

/// Process ids of all living descendants of a process, but for a launcher of workers.
#[must_use]
pub fn descendants(process: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = fs::read_dir("/proc")
        .expect("/proc is mounted")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|child| Some((child, living_parent(child)?)))
        .collect();
    let mut found = Vec::new();
    let mut ancestors = vec![process];
    while let Some(ancestor) = ancestors.pop() {
        let children = parents.iter().filter(|(_, parent)| *parent == ancestor).map(|(child, _)| *child);
        let children: Vec<u32> = children.collect();
        ancestors.extend(&children);
        found.extend(children.into_iter().filter(|child| !is_launcher(*child)));
    }
    found
}

/// Whether a process starts workers for a daemon, which has one such process with `--worker-ids`.
#[must_use]
pub fn is_launcher(process: u32) -> bool {
    let words = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    words.split(|byte| *byte == 0).any(|word| word == b"--launcher")
}

/// The children of a process that live.
#[must_use]
pub fn children(process: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").expect("/proc is mounted");
    let numbers = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter(|child| living_parent(*child) == Some(process)).collect()
}

/// The parent of a process that is not a zombie.
#[must_use]
pub fn living_parent(process: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name stands in parentheses and may hold anything, so what follows is read from the last one.
    let mut fields = status.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if state == "Z" { None } else { fields.next()?.parse().ok() }
}

/// The number of files that a process has open.
///
/// # Panics
/// When the process is gone.
#[must_use]
pub fn open_files(process: u32) -> usize {
    fs::read_dir(format!("/proc/{process}/fd")).expect("the process lives").count()
}

/// The number of threads of a process.
///
/// # Panics
/// When the process is gone.
#[must_use]
pub fn threads(process: u32) -> usize {
    fs::read_dir(format!("/proc/{process}/task")).expect("the process lives").count()
}

/// The open files and threads of a process, once five samples 100 ms apart agree. A process that has just started or
/// replied still opens or closes some.
///
/// # Panics
/// When the process is gone, or 600 looks found no rest.
#[must_use]
pub fn settled(process: u32) -> (usize, usize) {
    let mut last = (0, 0);
    let mut same = 0;
    for _ in 0..600 {
        let now = (open_files(process), threads(process));
        same = if now == last { same + 1 } else { 1 };
        last = now;
        if same == 5 {
            return now;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("process {process} never comes to rest: {last:?}");
}
