//! MPS with a script in the place of NVIDIA's control daemon: what it is started with, and how it ends.

use std::os::unix::fs::PermissionsExt as _;

use super::*;

/// A folder with a control daemon, which does this when it is started, and with a worker that executes it.
fn with_control(words: &str) -> (TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let script = |name: &str, words: &str| {
        let [text, path] = ["text", name].map(|name| folder.path().join(name));
        std::fs::write(&text, format!("#!/bin/sh\n{words}\n")).expect("a script");
        std::fs::set_permissions(&text, std::fs::Permissions::from_mode(0o755)).expect("executable");
        // Not through a descriptor of this process, which a child of another test could hold open while it is run.
        assert!(Command::new("cp").arg("-p").arg(text).arg(&path).status().expect("cp runs").success());
        path
    };
    let control = script(CONTROL, words);
    let worker = script("worker", "[ \"$1\" = --mps-control ] && exec \"$2\" -f");
    (folder, worker, control)
}

/// Listens, and notes beside itself what it is told and that it has ended. A second one takes a command.
const GOOD: &str = "notes=$(dirname \"$0\"); cd \"$CUDA_MPS_PIPE_DIRECTORY\"\n\
    if [ \"$1\" = -f ]; then touch control; while [ ! -e quit ]; do sleep 0.01; done; touch \"$notes/ended\"; exit; fi\n\
    read -r word rest; echo \"$word $rest\" >> \"$notes/told\"\n\
    case $word in quit) touch quit;; get_server_list) echo 17;; esac";

#[test]
fn workers_get_its_folder_and_their_part_and_it_ends_when_asked() {
    let (folder, worker, control) = with_control(GOOD);
    let mps = Mps::of(&worker, control).expect("it listens");
    let named = |terms| -> Vec<(&str, String)> {
        let variables = mps.variables(terms).into_iter();
        variables.map(|(name, value)| (name, value.into_string().expect("text"))).collect()
    };
    let pipes = ("CUDA_MPS_PIPE_DIRECTORY", mps.control.pipes().display().to_string());
    assert_eq!(named(Terms::default()), [pipes.clone(), ("CUDA_MPS_CLIENT_PRIORITY", "1".to_owned())]);
    assert_eq!(
        named(Terms { share: 255, weight: 0, class: Class::Latency }),
        [
            pipes,
            // Not less than what was promised.
            ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "26".to_owned()),
            ("CUDA_MPS_CLIENT_PRIORITY", "0".to_owned())
        ]
    );
    mps.end();
    assert!(folder.path().join("ended").exists(), "it was asked, not killed");
    assert!(!mps.control.folder.path().exists());
}

#[test]
fn what_it_runs_for_a_worker_is_ended_before_the_worker_is_killed() {
    let (folder, worker, control) = with_control(GOOD);
    let mps = Mps::of(&worker, control).expect("it listens");
    let mut sleeper = Command::new("sleep").arg("60").spawn().expect("sleep runs");
    let ender = Ender::of(&sleeper, Some(mps.control())).expect("it is watched");
    // Whoever watches it says so again and again.
    (0..3).for_each(|_| ender.kill());
    sleeper.wait().expect("it ends");
    let told = std::fs::read_to_string(folder.path().join("told")).expect("it was told something");
    assert_eq!(told, format!("get_server_list \nterminate_client 17 {}\n", sleeper.id()));
}

#[test]
fn one_that_ends_is_started_again() {
    let (_folder, worker, control) = with_control(GOOD);
    let mps = Mps::of(&worker, control).expect("it listens");
    let process = || floe_lock::lock(&mps.control.process).clone();
    let first = process().expect("it runs");
    first.kill();
    let again = || process().filter(|process| !process.has_ended());
    while !first.has_ended() || again().is_none() {
        std::thread::sleep(Duration::from_millis(10));
    }
    mps.end();
}

#[test]
fn one_that_has_just_ended_is_not_started_again_at_the_end() {
    let (_folder, worker, control) = with_control(GOOD);
    let mps = Mps::of(&worker, control).expect("it listens");
    let first = floe_lock::lock(&mps.control.process).clone().expect("it runs");
    first.kill();
    while !first.has_ended() {
        std::thread::sleep(Duration::from_millis(1));
    }
    mps.end();
    assert!(floe_lock::lock(&mps.control.process).is_none());
}

#[test]
fn one_that_would_start_the_second_time_is_not_left_running() {
    let words = format!("[ \"$1\" = -f ] && ! [ -e \"$0.failed\" ] && touch \"$0.failed\" && exit 3\n{GOOD}");
    let (_folder, worker, control) = with_control(&words);
    let why = Mps::of(&worker, control).expect_err("it ends").to_string();
    assert!(why.contains("has ended: exit status: 3"), "{why}");
}

#[test]
fn a_process_that_it_leaves_behind_holds_nobody_up() {
    let words = GOOD.replace("echo 17", "echo 17; while [ ! -e \"$notes/over\" ]; do sleep 0.01; done &");
    let (folder, worker, control) = with_control(&words);
    let mps = Mps::of(&worker, control).expect("it listens");
    mps.control.end_work_of(99);
    let told = std::fs::read_to_string(folder.path().join("told")).expect("it was told something");
    assert_eq!(told, "get_server_list \nterminate_client 17 99\n");
    std::fs::write(folder.path().join("over"), "").expect("written");
    mps.end();
}

#[test]
fn one_that_does_not_start_is_named_with_its_last_words() {
    let (_folder, worker, control) =
        with_control("echo nonsense; echo 'no such user' > \"$CUDA_MPS_LOG_DIRECTORY/control.log\"; exit 3");
    let why = Mps::of(&worker, control).expect_err("it ends").to_string();
    assert!(why.contains("has ended: exit status: 3: no such user"), "{why}");
}

#[test]
fn a_cpu_device_and_a_driver_without_it_are_refused() {
    let probe = Probe { kind: "cpu".into(), ..Probe::default() };
    let why = Mps::start(Path::new("worker"), &probe).expect_err("no MPS").to_string();
    assert!(why.contains("the device is a CPU device"), "{why}");
    assert_eq!(find([PathBuf::from("relative"), PathBuf::from("/nowhere")].into_iter()), None);
}

#[test]
fn several_instances_of_divided_gpus_have_none() {
    let instance = floe_device::Snapshot { alone: Some("MIG-1".into()), ..floe_device::Snapshot::default() };
    let probe = Probe { kind: "nvidia".into(), gpus: vec![instance; 2], ..Probe::default() };
    let why = Mps::start(Path::new("worker"), &probe).expect_err("no MPS").to_string();
    assert!(why.contains("it serves one instance of a divided GPU (MIG), and more are offered\n  name one"), "{why}");
}
