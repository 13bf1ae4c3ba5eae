//! Groups over a hierarchy that behaves as the kernel's, with faults.

use std::collections::BTreeMap;

use super::*;

const SERVER: &str = "/floed.service";
/// Of another user of the machine, in the server's group.
const STRANGER: u32 = 1;

/// A hierarchy, and what was written to it.
#[derive(Debug, Default)]
struct Hierarchy {
    /// Groups with their processes.
    groups: Mutex<BTreeMap<PathBuf, Vec<u32>>>,
    values: Mutex<BTreeMap<PathBuf, String>>,
    /// The write that fails, counted from 1, and how.
    fault: Mutex<Option<(u32, io::ErrorKind)>>,
    /// Processes that need so many looks to be gone.
    linger: Mutex<u32>,
    /// Writes to this file wait until it names another.
    held_up: Mutex<Option<PathBuf>>,
}

impl Files for Arc<Hierarchy> {
    fn make(&self, folder: &Path) -> io::Result<()> {
        self.meets_fault()?;
        let mut groups = lock(&self.groups);
        if groups.contains_key(folder) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if !groups.contains_key(folder.parent().expect("a parent")) {
            return Err(io::ErrorKind::NotFound.into());
        }
        groups.insert(folder.to_owned(), Vec::new());
        Ok(())
    }

    fn remove(&self, folder: &Path) -> io::Result<()> {
        let mut groups = lock(&self.groups);
        let processes = groups.get_mut(folder).ok_or(io::ErrorKind::NotFound)?;
        let is_killed = lock(&self.values).get(&folder.join("cgroup.kill")).is_some_and(|value| value == "1");
        let mut linger = lock(&self.linger);
        if is_killed && *linger > 0 {
            *linger -= 1;
        } else if is_killed {
            processes.clear();
        }
        let has_processes = !processes.is_empty();
        if has_processes || groups.keys().any(|other| other.parent() == Some(folder)) {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        groups.remove(folder);
        Ok(())
    }

    fn write(&self, file: &Path, value: &str) -> io::Result<()> {
        self.meets_fault()?;
        while lock(&self.held_up).as_deref() == Some(file) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut groups = lock(&self.groups);
        let folder = file.parent().expect("a folder");
        if !groups.contains_key(folder) {
            return Err(io::ErrorKind::NotFound.into());
        }
        match file.file_name().and_then(|name| name.to_str()).expect("a name") {
            "cgroup.procs" => {
                let process = value.parse().expect("a process");
                groups.values_mut().for_each(|all| all.retain(|other| *other != process));
                groups.get_mut(folder).expect("it is there").push(process);
            }
            "cgroup.subtree_control" if !groups[folder].is_empty() => return Err(io::ErrorKind::ResourceBusy.into()),
            "cgroup.kill" => {
                for group in groups.keys().filter(|group| group.starts_with(folder)) {
                    lock(&self.values).insert(group.join("cgroup.kill"), value.to_owned());
                }
            }
            _ => {}
        }
        lock(&self.values).insert(file.to_owned(), value.to_owned());
        Ok(())
    }

    fn read(&self, file: &Path) -> io::Result<String> {
        lock(&self.values).get(file).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn groups(&self, folder: &Path) -> io::Result<Vec<String>> {
        let names =
            lock(&self.groups).keys().filter(|group| group.parent() == Some(folder)).cloned().collect::<Vec<_>>();
        Ok(names.iter().map(|name| name.file_name().expect("a name").to_str().expect("text").to_owned()).collect())
    }
}

impl Hierarchy {
    /// The server's group, with this process and others in it.
    fn with(others: &[u32]) -> Arc<Self> {
        let hierarchy = Self::default();
        let all = [std::process::id()].into_iter().chain(others.iter().copied()).collect();
        lock(&hierarchy.groups).insert(SERVER.into(), all);
        Arc::new(hierarchy)
    }

    fn meets_fault(&self) -> io::Result<()> {
        let mut fault = lock(&self.fault);
        match fault.as_mut() {
            Some((1, kind)) => {
                let kind = *kind;
                *fault = None;
                Err(kind.into())
            }
            Some((left, _)) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn begin(self: &Arc<Self>, others: &[u32]) -> Result<Arc<Groups>, String> {
        Groups::begin(Box::new(Arc::clone(self)), SERVER.into(), others)
    }

    fn value(&self, file: &str) -> Option<String> {
        lock(&self.values).get(&Path::new(SERVER).join(file)).cloned()
    }

    fn processes(&self, group: &str) -> Option<Vec<u32>> {
        lock(&self.groups).get(&Path::new(SERVER).join(group)).cloned()
    }

    fn names(&self) -> Vec<String> {
        let groups = lock(&self.groups);
        groups.keys().map(|group| group.to_str().expect("text").trim_start_matches(SERVER).to_owned()).collect()
    }
}

fn alice() -> Name {
    Name::new("alice").expect("a name")
}

const LIMITS: HostLimits = HostLimits { memory: Some(4 << 30), processors: Some(2500), tasks: Some(500) };

#[test]
fn a_users_workers_share_its_limits_and_the_last_one_leaves_nothing() {
    let hierarchy = Hierarchy::with(&[77]);
    let groups = hierarchy.begin(&[77]).expect("begun");
    assert_eq!(hierarchy.processes("floed"), Some(vec![std::process::id(), 77]));
    let one = groups.enter(alice(), LIMITS, 4711).expect("entered");
    let other = groups.enter(alice(), HostLimits { memory: None, ..LIMITS }, 4712).expect("entered");
    assert_eq!(hierarchy.processes("users/user-alice/worker-1"), Some(vec![4711]));
    assert_eq!(hierarchy.processes("users/user-alice"), Some(Vec::new()));
    let value = |name: &str| hierarchy.value(&format!("users/user-alice/{name}"));
    assert_eq!(value("memory.max").as_deref(), Some("max"), "as the policy was last");
    assert_eq!(value("memory.swap.max").as_deref(), Some("max"));
    assert_eq!((value("cpu.max").as_deref(), value("pids.max").as_deref()), (Some("250000 100000"), Some("500")));
    *lock(&hierarchy.linger) = 3;
    assert_eq!(groups.limits_of(alice()), Some(HostLimits { memory: None, ..LIMITS }));
    drop(one);
    assert_eq!(hierarchy.names(), ["", "/floed", "/users", "/users/user-alice", "/users/user-alice/worker-2"]);
    drop(other);
    assert_eq!(hierarchy.names(), ["", "/floed", "/users"]);
    assert_eq!(groups.limits_of(alice()), None);
    let again = groups.enter(alice(), LIMITS, 4713).expect("entered");
    assert_eq!(value("memory.max").as_deref(), Some("4294967296"));
    assert_eq!(value("memory.swap.max").as_deref(), Some("0"));
    drop(again);
}

#[test]
fn who_was_killed_for_lack_of_memory_is_told_from_its_neighbour() {
    let hierarchy = Hierarchy::with(&[]);
    let groups = hierarchy.begin(&[]).expect("begun");
    let [one, other] = [1001, 1002].map(|process| groups.enter(alice(), LIMITS, process).expect("entered"));
    let counts = |group: &str, oom: u32, kills: u32| {
        let file = format!("{SERVER}/users/user-alice{group}/memory.events");
        lock(&hierarchy.values)
            .insert(file.into(), format!("low 0\nmax 9\noom {oom}\noom_kill {kills}\noom_group_kill 0\n"));
    };
    assert_eq!(one.shortage(), None, "nothing is known of it");
    counts("/worker-1", 0, 0);
    counts("/worker-2", 0, 1);
    counts("", 0, 1);
    assert_eq!((one.shortage(), other.shortage()), (None, Some(Shortage::OfServer)), "not the user's limit");
    counts("", 1, 1);
    assert_eq!((one.shortage(), other.shortage()), (None, Some(Shortage::OfUser)));
}

#[test]
fn a_limit_that_the_kernel_takes_long_over_holds_up_no_other_user() {
    let hierarchy = Hierarchy::with(&[]);
    let groups = hierarchy.begin(&[]).expect("begun");
    let alices = groups.enter(alice(), LIMITS, 1001).expect("entered");
    *lock(&hierarchy.held_up) = Some(Path::new(SERVER).join("users/user-alice/memory.max"));
    let held_up = std::thread::spawn({
        let groups = Arc::clone(&groups);
        move || groups.enter(alice(), LIMITS, 1002)
    });
    let bob = Name::new("bob").expect("a name");
    drop(groups.enter(bob, LIMITS, 1003).expect("entered"));
    drop(alices);
    assert!(!held_up.is_finished());
    *lock(&hierarchy.held_up) = None;
    drop(held_up.join().expect("no panic").expect("the group was not removed meanwhile"));
    assert_eq!(hierarchy.names(), ["", "/floed", "/users"]);
}

#[test]
fn a_users_group_stays_while_programs_have_memory_that_counts_there() {
    let hierarchy = Hierarchy::with(&[]);
    let groups = hierarchy.begin(&[]).expect("begun");
    let has = |bytes: u64| {
        let file = format!("{SERVER}/users/user-alice/memory.stat");
        lock(&hierarchy.values).insert(file.into(), format!("anon 7\nshmem {bytes}\nshmem_thp 0\n"));
    };
    has(4096);
    drop(groups.enter(alice(), LIMITS, 1001).expect("entered"));
    assert_eq!(hierarchy.names(), ["", "/floed", "/users", "/users/user-alice"]);
    let bob = Name::new("bob").expect("a name");
    let bobs = groups.enter(bob, LIMITS, 1002).expect("entered");
    assert_eq!(hierarchy.processes("users/user-alice"), Some(Vec::new()));
    has(0);
    drop(bobs);
    assert_eq!(hierarchy.names(), ["", "/floed", "/users"]);
}

#[test]
fn a_process_id_that_comes_again_has_a_group_of_its_own() {
    let hierarchy = Hierarchy::with(&[]);
    let groups = hierarchy.begin(&[]).expect("begun");
    let [gone, new] = [4711; 2].map(|process| groups.enter(alice(), LIMITS, process).expect("entered"));
    drop(gone);
    assert_eq!(hierarchy.processes("users/user-alice/worker-2"), Some(vec![4711]));
    drop(new);
}

#[test]
fn what_stands_in_the_way_is_named_and_this_process_stays_where_it_was() {
    let refused = |others: &[u32], fault| {
        let hierarchy = Hierarchy::with(others);
        *lock(&hierarchy.fault) = fault;
        let why = hierarchy.begin(&[77]).expect_err("refused");
        assert!(hierarchy.processes("").is_some_and(|all| all.contains(&std::process::id())), "{why}");
        assert_eq!(hierarchy.names(), [""], "{why}");
        why
    };
    assert!(refused(&[77, STRANGER], None).contains("other processes"));
    assert!(refused(&[77], Some((1, io::ErrorKind::PermissionDenied))).contains("not handed over to its user"));
    assert!(refused(&[77], Some((1, io::ErrorKind::ReadOnlyFilesystem))).contains("not handed over to its user"));
    assert!(refused(&[77], Some((2, io::ErrorKind::PermissionDenied))).contains("not handed over to its user"));
    assert!(refused(&[77], Some((4, io::ErrorKind::NotFound))).contains("has no controllers"));
    assert!(refused(&[77], Some((5, io::ErrorKind::StorageFull))).contains("cannot be used"));
    assert!(refused(&[77], Some((6, io::ErrorKind::StorageFull))).contains("cannot be used"));
}

#[test]
fn a_worker_that_cannot_be_limited_leaves_no_group() {
    let hierarchy = Hierarchy::with(&[]);
    let groups = hierarchy.begin(&[]).expect("begun");
    // Two groups, five values, one process.
    for write in 1..=8 {
        *lock(&hierarchy.fault) = Some((write, io::ErrorKind::StorageFull));
        groups.enter(alice(), LIMITS, 4711).expect_err("refused");
        assert_eq!(hierarchy.names(), ["", "/floed", "/users"], "{write}");
    }
    *lock(&hierarchy.fault) = Some((9, io::ErrorKind::StorageFull));
    drop(groups.enter(alice(), LIMITS, 4711).expect("nothing more is written"));
}

#[test]
fn a_kernel_without_swap_is_no_failure() {
    let hierarchy = Hierarchy::with(&[]);
    let groups = hierarchy.begin(&[]).expect("begun");
    // The user's group, its memory, its swap.
    *lock(&hierarchy.fault) = Some((3, io::ErrorKind::NotFound));
    let entered = groups.enter(alice(), LIMITS, 4711).expect("entered");
    assert_eq!(hierarchy.value("users/user-alice/cpu.max").as_deref(), Some("250000 100000"));
    drop(entered);
}

#[test]
fn what_an_earlier_server_has_left_is_ended_and_nothing_else() {
    let hierarchy = Hierarchy::with(&[]);
    let left = [("users", None), ("users/user-bob", None), ("users/user-bob/worker-9", Some(9)), ("others", Some(8))];
    for (group, process) in left {
        lock(&hierarchy.groups).insert(Path::new(SERVER).join(group), process.into_iter().collect());
    }
    hierarchy.begin(&[]).expect("begun");
    assert_eq!(hierarchy.names(), ["", "/floed", "/others", "/users"]);
    assert_eq!(hierarchy.processes("others"), Some(vec![8]));
}
