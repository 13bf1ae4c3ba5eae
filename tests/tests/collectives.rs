//! NCCL beside the GPUs: an ordinary program whose ranks are on two daemons, and a stand-in for NVIDIA's library in the workers.
//! In: C programs, built here. Out: results, which the programs check themselves, and what daemons and workers do of hostile
//! calls and of ranks that die.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use floe_tests::{Floed, Outcome, Program, installation, repository};
use tempfile::TempDir;

/// Longest time for a rank to notice that another is gone, before a test calls it stuck.
const PATIENCE: Duration = Duration::from_secs(120);

/// To the stand-in: how many nodes there are to be.
const NODES: &str = "NCCL_STAND_IN_NODES";

/// How the stand-in is built.
const STAND_IN: [&str; 3] = ["-shared", "-fPIC", "-Wl,-soname,libnccl.so.2"];

/// The stand-in and the program, built.
struct Built {
    folder: TempDir,
}

impl Built {
    fn new() -> Self {
        let this = Self { folder: tempfile::tempdir().expect("a temporary folder") };
        let client = installation().join("lib/client");
        this.compile("nccl_stand_in.c", "libnccl.so.2", &STAND_IN, &[]);
        let libraries = [client.join("libcuda.so.1"), client.join("nccl/libnccl.so.2")];
        this.compile("collectives.c", "collectives", &[], &libraries);
        this
    }

    fn compile(&self, source: &str, made: &str, flags: &[&str], libraries: &[PathBuf]) {
        let built = Command::new("cc")
            .args(["-O1", "-Wall", "-Wextra", "-Werror"])
            .args(flags)
            .arg("-o")
            .arg(self.path(made))
            .arg(repository().join("tests/programs").join(source))
            .args(libraries)
            .args(["-lpthread", "-ldl"])
            .status();
        assert!(built.expect("cc runs").success(), "{source}");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn program(&self, arguments: &[&str]) -> Program {
        Program::new(self.path("collectives"), arguments)
    }

    /// Two daemons with NCCL that name each other.
    fn daemons(&self, over_tcp: bool) -> [Floed; 2] {
        let library = self.path("libnccl.so.2").display().to_string();
        Floed::start_two(&["--nccl", &library], over_tcp)
    }
}

/// The stand-in of the newest NCCL, and the program for what it has beyond the older one.
fn newest() -> Built {
    let this = Built { folder: tempfile::tempdir().expect("a temporary folder") };
    this.compile("nccl_stand_in.c", "libnccl.so.2", &[&STAND_IN[..], &["-DNEWER"]].concat(), &[]);
    this.compile("nccl_newer.c", "collectives", &[], &[]);
    this
}

/// Runs it as one process on devices of one daemon after another.
fn run_newest(arguments: &[&str], devices: usize) {
    run_newest_with(arguments, devices, "STAND_IN");
}

/// With this variable of the stand-in's.
fn run_newest_with(arguments: &[&str], devices: usize, variable: &str) {
    let built = newest();
    let daemons = built.daemons(true);
    let places: Vec<String> = (0..devices).map(|device| format!("{}:0", daemons[device % 2].tcp())).collect();
    let program = built
        .program(arguments)
        .variable("STAND_IN", "1")
        .variable("NCCL_STAND_IN_WORDS", "words of the program")
        .variable(variable, "1");
    is_right(&program.on_each(&daemons[0], &places).flag("--nccl").flag("forwarded").run());
    daemons.iter().for_each(|daemon| daemon.wait_for_workers(0));
}

fn places(daemons: &[Floed], address: impl Fn(&Floed) -> String) -> Vec<String> {
    daemons.iter().map(|daemon| format!("{}:0", address(daemon))).collect()
}

fn is_right(outcome: &Outcome) {
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    assert_eq!(outcome.stdout, "right\n");
}

fn ranks_of_one_process(over_tcp: bool, address: impl Fn(&Floed) -> String) {
    let built = Built::new();
    let daemons = built.daemons(over_tcp);
    let program = built.program(&["together", "2"]).on_each(&daemons[0], &places(&daemons, address));
    is_right(&program.run());
    daemons.iter().for_each(|daemon| daemon.wait_for_workers(0));
}

#[test]
fn two_ranks_of_a_process_on_two_daemons_over_tcp() {
    ranks_of_one_process(true, |daemon| daemon.tcp().to_owned());
}

#[test]
fn two_ranks_of_a_process_on_two_daemons_over_the_unix_socket() {
    ranks_of_one_process(false, |daemon| daemon.unix().to_owned());
}

#[test]
fn two_ranks_of_a_process_on_two_daemons_over_rings_in_shared_memory() {
    ranks_of_one_process(false, Floed::shm);
}

/// Also of one GPU, where it is asked for: to NCCL they are of two nodes then.
#[test]
fn three_ranks_of_which_two_are_on_one_daemon() {
    let built = Built::new();
    let daemons = built.daemons(true);
    let mut places = places(&daemons, |daemon| daemon.tcp().to_owned());
    places.push(places[1].clone());
    is_right(&built.program(&["together", "3"]).variable(NODES, "3").on_each(&daemons[0], &places).run());
}

/// Ranks of one server are one node of NCCL's, so that they talk over NVLink, but for further ones of the same GPU.
#[test]
fn ranks_of_one_daemon_are_one_node_if_each_has_a_gpu() {
    let built = Built::new();
    let library = built.path("libnccl.so.2").display().to_string();
    let daemon = Floed::start_with(&["--nccl", &library], &[("FLOE_CPU_DEVICES", "2")]);
    let run = |gpus: &[u32], nodes: &str| {
        let places: Vec<String> = gpus.iter().map(|gpu| format!("{}:{gpu}", daemon.tcp())).collect();
        let program = built.program(&["together", &gpus.len().to_string()]).variable(NODES, nodes);
        is_right(&program.on_each(&daemon, &places).flag("--nccl").flag("forwarded").run());
        daemon.wait_for_workers(0);
    };
    run(&[0, 1], "1");
    run(&[0, 1, 1, 0], "2");
    run(&[1, 0, 1], "2");
    // Places of those that have ended are free.
    run(&[1, 0], "1");
}

#[test]
fn ranks_in_processes_of_their_own_are_one_node_too() {
    let built = Built::new();
    let library = built.path("libnccl.so.2").display().to_string();
    let daemon = Floed::start_with(&["--nccl", &library], &[("FLOE_CPU_DEVICES", "2")]);
    let run = |rank: usize, id: &str, job: &str| {
        let arguments = ["rank", &rank.to_string(), "2", id];
        let place = format!("{}:{rank}", daemon.tcp());
        let program = built.program(&arguments).variable(NODES, "1").variable("FLOE_JOB", job);
        program.on_each(&daemon, &[place]).flag("--nccl").flag("forwarded").run()
    };
    // Of one job and of two: the communicator tells as well which ranks belong together.
    for (id, jobs) in [("one", ["a", "a"]), ("two", ["b", "c"])] {
        let id = built.path(id).display().to_string();
        std::thread::scope(|scope| {
            let first = scope.spawn(|| run(0, &id, jobs[0]));
            is_right(&run(1, &id, jobs[1]));
            is_right(&first.join().expect("it runs"));
        });
    }
}

/// With no other server named: the list of servers is the workers' own.
#[test]
fn two_ranks_of_a_process_on_one_daemon_when_told() {
    let built = Built::new();
    let library = built.path("libnccl.so.2").display().to_string();
    let daemon = Floed::start_with(&["--nccl", &library], &[]);
    let places = vec![format!("{}:0", daemon.tcp()); 2];
    let program = built.program(&["together", "2"]).on_each(&daemon, &places);
    is_right(&program.flag("--nccl").flag("forwarded").run());
    daemon.wait_for_workers(0);
}

/// Nobody has told it: a server that has NCCL and is reached through a network. The program finds floe's library by no other way.
#[test]
fn two_ranks_of_a_process_on_one_daemon_through_a_network() {
    let built = Built::new();
    let library = built.path("libnccl.so.2").display().to_string();
    let run = |nccl: &str, local: bool| {
        let daemon = Floed::start_with(&["--nccl", nccl], &[]);
        let address = if local { daemon.unix() } else { daemon.tcp() };
        let program = built.program(&["together", "2"]).flag("--on").flag(&format!("{address}:0,{address}:0"));
        program.variable("FLOE_TOKEN_FILE", &daemon.token_file().display().to_string()).run()
    };
    is_right(&run(&library, false));
    for (nccl, local) in [("off", false), (&*library, true)] {
        let outcome = run(nccl, local);
        assert!(outcome.stderr.contains("libnccl.so.2"), "{nccl} {local}: {}{}", outcome.stdout, outcome.stderr);
    }
}

/// Runs both ranks, each in a process of its own on a daemon of its own.
fn ranks_of_two_processes(built: &Built, daemons: &[Floed; 2], mode: &[&str]) -> [Outcome; 2] {
    let id = built.path("id").display().to_string();
    let run = |rank: usize| {
        let (rank_text, daemon) = (rank.to_string(), &daemons[rank]);
        let arguments = [&mode[..1], &[&rank_text], &mode[1..], &[&id]].concat();
        let program = built.program(&arguments).on(daemon, daemon.tcp()).flag("--nccl").flag("forwarded");
        program.run()
    };
    std::thread::scope(|scope| {
        let first = scope.spawn(|| run(0));
        let second = run(1);
        [first.join().expect("it runs"), second]
    })
}

#[test]
fn two_ranks_of_two_processes_on_two_daemons() {
    let built = Built::new();
    let daemons = built.daemons(true);
    ranks_of_two_processes(&built, &daemons, &["rank", "2"]).iter().for_each(is_right);
    daemons.iter().for_each(|daemon| daemon.wait_for_workers(0));
}

#[test]
fn a_rank_whose_other_has_left_is_told_and_does_not_wait_for_ever() {
    let built = Built::new();
    let daemons = built.daemons(true);
    let start = Instant::now();
    let [stays, leaves] = ranks_of_two_processes(&built, &daemons, &["left"]);
    is_right(&stays);
    assert_eq!(leaves.code, Some(0), "{}{}", leaves.stdout, leaves.stderr);
    assert!(start.elapsed() < PATIENCE);
}

#[test]
fn wrong_calls_are_refused_by_name_before_nccl_sees_them() {
    let built = Built::new();
    let daemons = built.daemons(true);
    let places = places(&daemons, |daemon| daemon.tcp().to_owned());
    is_right(&built.program(&["wrong"]).on_each(&daemons[0], &places).run());
}

/// The rank that makes the id is one that NCCL sends it to, and one that it does not; a communicator of one rank grows, too.
#[test]
fn ranks_join_a_communicator_over_two_daemons() {
    run_newest(&["grow", "2", "3", "0"], 3);
    run_newest(&["grow", "3", "4", "1"], 4);
    run_newest(&["grow", "1", "2", "0"], 2);
}

/// A new rank has a session of its own, whose only key is the new id's.
#[test]
fn a_process_joins_a_communicator_of_two_others() {
    let built = newest();
    let daemons = built.daemons(true);
    let id = built.path("id").display().to_string();
    let run = |rank: usize| {
        let (rank_text, daemon) = (rank.to_string(), &daemons[rank % 2]);
        let program = built.program(&["grow", "2", "3", "1", &rank_text, &id]);
        program.on(daemon, daemon.tcp()).flag("--nccl").flag("forwarded").run()
    };
    std::thread::scope(|scope| {
        let others = [0, 1].map(|rank| scope.spawn(move || run(rank)));
        is_right(&run(2));
        others.into_iter().for_each(|other| is_right(&other.join().expect("it runs")));
    });
    daemons.iter().for_each(|daemon| daemon.wait_for_workers(0));
}

/// Each rank's NCCL waits in a destroy for the others', as in processes of their own.
#[test]
fn a_thread_destroys_its_ranks_one_after_the_other() {
    run_newest_with(&["grow", "2", "3", "0"], 3, "NCCL_STAND_IN_MEETS");
}

/// The stand-in ends its worker where a communicator is freed that a call still uses.
#[test]
fn a_communicator_that_grows_is_not_freed_before_it_has_grown() {
    run_newest(&["ends", "destroy"], 3);
    run_newest(&["ends", "abort"], 3);
}

#[test]
fn a_new_rank_that_was_given_up_is_not_there_for_the_others() {
    run_newest(&["again", "there"], 3);
    run_newest(&["again", "here"], 3);
}

/// The stand-in ends its worker where it has more roots than ids may be unused.
#[test]
fn ids_that_nobody_uses_are_bounded() {
    run_newest(&["ids"], 1);
}

#[test]
fn work_of_a_group_is_done_beside_a_communicator_that_does_not_block() {
    run_newest(&["aside"], 2);
}

#[test]
fn a_communicator_blocks_as_the_one_that_it_is_made_of() {
    run_newest(&["inherits"], 2);
}

#[test]
fn a_communicator_that_is_aborted_while_it_is_made_holds_no_other_rank() {
    run_newest(&["forgotten"], 2);
}

#[test]
fn a_communicator_is_suspended_and_resumed_and_its_memory_is_counted() {
    run_newest(&["memory", "2"], 2);
}

#[test]
fn a_group_that_is_simulated_is_not_done() {
    run_newest(&["simulate", "2"], 2);
}

#[test]
fn members_of_newer_configurations_are_carried_inherited_or_refused_by_name() {
    run_newest(&["config", "2"], 2);
}

#[test]
fn windows_are_none_without_symmetric_memory() {
    run_newest(&["windows", "2"], 2);
}

#[test]
fn parameters_are_those_of_the_servers_nccl() {
    run_newest(&["parameters"], 1);
}

#[test]
fn a_dump_of_parameters_is_written_where_the_program_writes() {
    let built = newest();
    let daemons = built.daemons(true);
    let places = [format!("{}:0", daemons[0].tcp())];
    let program = built.program(&["dump"]).variable("NCCL_STAND_IN_WORDS", "");
    let outcome = program.on_each(&daemons[0], &places).flag("--nccl").flag("forwarded").run();
    let dumped = "=== ncclParam Registry Dump ===\nNCCL_STAND_IN_NUMBER=-123456789012\nNCCL_STAND_IN_BYTE=200\n\
                  NCCL_STAND_IN_WORDS=<unset>\n";
    assert_eq!(
        (outcome.code, outcome.stdout.as_str()),
        (Some(0), format!("{dumped}right\n").as_str()),
        "{}",
        outcome.stderr
    );
}

#[test]
fn an_older_nccl_is_named_with_the_function_that_it_does_not_have() {
    let built = Built::new();
    built.compile("nccl_newer.c", "collectives", &[], &[]);
    let daemons = built.daemons(true);
    let places = [format!("{}:0", daemons[0].tcp())];
    is_right(&built.program(&["old"]).on_each(&daemons[0], &places).flag("--nccl").flag("forwarded").run());
}

/// The words of a program that could not begin.
fn refusal(outcome: &Outcome) -> String {
    assert_eq!(outcome.code, Some(1), "{}{}", outcome.stdout, outcome.stderr);
    outcome.stdout.clone()
}

#[test]
fn servers_that_have_not_named_each_other_are_not_connected() {
    let built = Built::new();
    let library = built.path("libnccl.so.2").display().to_string();
    let first = Floed::start_with(&["--nccl", &library], &[]);
    let second = Floed::start_beside(&first, &["--nccl", &library]);
    let places = [&first, &second].map(|daemon| format!("{}:0", daemon.tcp()));
    let words = refusal(&built.program(&["together", "2"]).on_each(&first, &places).run());
    assert!(words.contains("Network is unreachable"), "{words}");
}

#[test]
fn a_job_of_too_many_bytes_is_refused_by_name_and_ends_no_session() {
    let built = Built::new();
    let daemons = built.daemons(true);
    let places = places(&daemons, |daemon| daemon.tcp().to_owned());
    let program = built.program(&["together", "2"]).variable("FLOE_JOB", &"a".repeat(65 << 10));
    let words = refusal(&program.on_each(&daemons[0], &places).run());
    assert!(words.contains("FLOE_JOB have more bytes than"), "{words}");
}

#[test]
fn a_server_without_nccl_says_so() {
    let built = Built::new();
    let daemons = Floed::start_two(&["--nccl", "off"], true);
    let places = places(&daemons, |daemon| daemon.tcp().to_owned());
    let words = refusal(&built.program(&["together", "2"]).on_each(&daemons[0], &places).run());
    assert!(words.contains("this server has no NCCL"), "{words}");
}

#[test]
fn an_nccl_that_is_opened_by_a_path_calls_its_own_functions() {
    let built = Built::new();
    // One after the other at the same address, where what was known of the first would be wrong of the second.
    let shared = ["-DLIBRARY", "-shared", "-fPIC", "-fno-toplevel-reorder"];
    built.compile("nccl_by_path.c", "libnccl-of-its-own.so", &shared, &[]);
    built.compile("nccl_by_path.c", "libnccl-other.so", &[&shared[..], &["-DOTHER"]].concat(), &[]);
    built.compile("nccl_by_path.c", "nccl_by_path", &[], &[]);
    let library = built.path("libnccl.so.2").display().to_string();
    let daemon = Floed::start_with(&["--nccl", &library], &[]);
    let its_own = ["libnccl-of-its-own.so", "libnccl-other.so"].map(|name| built.path(name).display().to_string());
    let program = Program::new(built.path("nccl_by_path"), &["22809", &its_own[0], &its_own[1]]);
    let program = program.on(&daemon, daemon.tcp());
    is_right(&program.flag("--nccl").flag("forwarded").run());
}

/// Every name of NCCL's header that a program may be linked with.
#[test]
fn floes_library_has_every_name_of_its_table_and_its_twin() {
    let table = std::fs::read_to_string(repository().join("api/nccl/entries.toml")).expect("it is there");
    let library = installation().join("lib/client/nccl/libnccl.so.2");
    let exported = exported(&library);
    let names = table.lines().filter_map(|line| line.strip_prefix('[')?.strip_suffix(']'));
    for name in names {
        assert!(exported.contains(&name.to_owned()) && exported.contains(&format!("p{name}")), "{name}");
    }
}

fn exported(library: &Path) -> Vec<String> {
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output().expect("nm runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter_map(|line| Some(line.split_whitespace().nth(2)?.to_owned())).collect()
}
