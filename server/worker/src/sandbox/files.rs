//! Files, sockets and signals a worker may reach, by Landlock.
//! In: the device library. Out: a process that reads libraries and the machine's description, and opens NVIDIA's
//! devices. It reaches no other file, no address and no other process.
//! `docs/sandbox.md` names the reason of every path here; the two lists are kept alike.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, LandlockStatus, PathBeneath, PathFd,
    Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetStatus, Scope,
};

/// The newest rights known here: signals and abstract sockets are in it.
const NEWEST: ABI = ABI::V6;

/// Libraries, and what their loader reads.
const LIBRARIES: [&str; 13] = [
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/local/nvidia",
    "/usr/local/cuda",
    "/usr/share/nvidia",
    "/usr/share/zoneinfo",
    "/etc/ld.so.cache",
    "/etc/nvidia",
    "/nix/store",
    "/run/opengl-driver",
];

/// The kernel's files about processors, memory, devices and its NVIDIA modules.
const MACHINE: [&str; 17] = [
    "/proc/cpuinfo",
    "/proc/devices",
    "/proc/driver",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/modules",
    "/proc/stat",
    "/proc/sys/kernel/hostname",
    "/proc/sys/vm",
    "/proc/version",
    "/sys/bus/pci",
    "/sys/devices",
    "/sys/fs/cgroup",
    "/sys/module/nvidia",
    "/sys/module/nvidia_uvm",
    "/sys/kernel/mm",
];

/// Devices that give bytes and take none, beside NVIDIA's.
const SOURCES: [&str; 2] = ["/dev/random", "/dev/urandom"];
/// Devices that keep nothing.
const SINKS: [&str; 2] = ["/dev/null", "/dev/zero"];

/// Restricts this thread and those it starts; returns Landlock's version that is in force, or why none is.
pub(super) fn restrict(library: &Path, others: &[&Path]) -> Result<u32, String> {
    let status = rules(library, others).and_then(RulesetCreated::restrict_self).map_err(|error| error.to_string())?;
    match (status.ruleset, status.landlock) {
        (RulesetStatus::NotEnforced, LandlockStatus::NotEnabled) => Err("it is not enabled at boot".to_owned()),
        (RulesetStatus::NotEnforced, _) => Err("this kernel does not have it".to_owned()),
        (_, LandlockStatus::Available { effective_abi, .. }) => {
            Ok((effective_abi as i32).min(NEWEST as i32).unsigned_abs())
        }
        (_, LandlockStatus::NotEnabled | LandlockStatus::NotImplemented) => Err("it is not in force".to_owned()),
    }
}

fn rules(library: &Path, others: &[&Path]) -> Result<RulesetCreated, landlock::RulesetError> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let device = read | AccessFs::WriteFile | AccessFs::IoctlDev;
    // No rule allows an address or a port: none can be connected to or listened at.
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?;
    let own = keep_own();
    let fixed = LIBRARIES.iter().chain(&MACHINE).chain(&SOURCES).map(PathBuf::from);
    for path in fixed.chain(library_folders(library)).chain(others.iter().map(PathBuf::from)).chain([own.clone()]) {
        rules = allow(rules, &path, read)?;
    }
    // NVIDIA's driver gives its threads names here, and does not start where it cannot.
    rules = allow(rules, &own.join("task"), read | AccessFs::WriteFile | AccessFs::Truncate)?;
    for path in SINKS.iter().map(PathBuf::from) {
        rules = allow(rules, &path, AccessFs::ReadFile | AccessFs::WriteFile)?;
    }
    for path in nvidia_devices() {
        rules = allow(rules, &path, device)?;
    }
    Ok(rules)
}

/// This process's folder in `/proc`: `/proc/self` is a link, and a rule holds for its present target. The kernel makes
/// the folder again when nobody has it open, and rules would not hold for the new one. So this process has it open to
/// its end.
fn keep_own() -> PathBuf {
    let own = PathBuf::from(format!("/proc/{}", std::process::id()));
    for path in [own.clone(), own.join("task")] {
        // Without /proc there is nothing to keep.
        PathFd::new(path).map(std::mem::forget).unwrap_or_default();
    }
    own
}

/// Adds a rule for a path, where there is such a path.
fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, landlock::RulesetError> {
    let Ok(opened) = PathFd::new(path) else { return Ok(rules) };
    // A file's rule leaves out the rights that only a folder has.
    let of_files = AccessFs::from_file(NEWEST);
    let access = if path.is_dir() { access } else { access & of_files };
    rules.add_rule(PathBeneath::new(opened, access))
}

/// The device library's folder, and those the operator has the loader look into.
fn library_folders(library: &Path) -> Vec<PathBuf> {
    let variable = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let named = std::env::split_paths(&variable).filter(|folder| folder.is_absolute());
    let whole = std::fs::canonicalize(library).ok();
    let own = [Some(library), whole.as_deref()].into_iter().flatten().filter_map(Path::parent).map(Path::to_path_buf);
    // The root would allow everything.
    named.chain(own).filter(|folder| folder.is_absolute() && folder.parent().is_some()).collect()
}

/// NVIDIA's devices as they are now: the daemon's probe has had all of them made.
fn nvidia_devices() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/dev").into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"nvidia"))
        .map(|entry| entry.path())
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    #[test]
    fn the_librarys_folder_is_allowed_and_the_root_never() {
        let folders = library_folders(Path::new("/opt/driver/libcuda.so.1"));
        assert!(folders.contains(&PathBuf::from("/opt/driver")));
        assert!(!library_folders(Path::new("/libcuda.so.1")).contains(&PathBuf::from("/")));
        assert!(!library_folders(Path::new("libcuda.so.1")).contains(&PathBuf::new()));
    }

    /// The calling thread's name, as the driver writes it.
    fn thread_name() -> PathBuf {
        format!("/proc/self/task/{}/comm", rustix::thread::gettid().as_raw_nonzero()).into()
    }

    #[test]
    fn restricted_thread_reads_libraries_and_neither_home_nor_temporary_files() {
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("token");
        std::fs::write(&secret, "secret").unwrap();
        // Landlock holds for the thread that asks for it and those it starts: the test's other threads stay as they
        // were.
        let seen = std::thread::spawn(move || {
            let version = restrict(Path::new("/lib/libcuda.so.1"), &[]);
            let refused = [std::fs::read(&secret).is_err(), std::fs::write(&secret, "changed").is_err()];
            let named = std::thread::Builder::new().spawn(|| std::fs::write(thread_name(), "named").is_ok());
            let read = [
                std::fs::read("/proc/meminfo").is_ok(),
                std::fs::read("/proc/self/status").is_ok(),
                named.unwrap().join().unwrap(),
            ];
            (version, refused, read, std::net::TcpListener::bind("127.0.0.1:0").is_err())
        });
        let (version, refused, read, bound) = seen.join().unwrap();
        let Ok(version) = version else { return assert_eq!(refused, [false; 2], "no Landlock, and yet refused") };
        assert_eq!((refused, read), ([true; 2], [true; 3]));
        assert_eq!(bound, version >= 4, "Landlock knows addresses from version 4 on");
    }
}
