//! Containers: images with floe, and images without it that get its GPUs by a flag. In: Podman or Docker, a package, an image of
//! Debian 12. Out: what programs in containers compute, how much memory their vGPUs have, and what users are told who get none.
//!
//! By hand, as root: `cargo xtask package --dist`, then this file with `--ignored`. `FLOE_TEST_ENGINE` is the command with its
//! flags, `FLOE_TEST_RUN` and `FLOE_TEST_BUILD` flags of its `run` and `build` (`--network host` for Docker), `FLOE_TEST_BASE` an
//! image of Debian 12. One test needs `musl-gcc`. The engine finds no other file with devices of floe's: of two files that have a
//! device it takes neither.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use floe_tests::{Floed, Outcome, built_examples, compile_c, descendants, installation, made_folder};
use tempfile::TempDir;

/// A device file of these tests' own.
const DEVICES: &str = "/etc/cdi/floe-test.json";

/// Two GPUs, each with room for four vGPUs of [`OFFER`].
const GPUS: [(&str, &str); 2] = [("FLOE_CPU_DEVICES", "2"), ("FLOE_CPU_MEMORY", "1G")];
const OFFER: &str = "2x256M";

/// The first user that a container has beside root.
const ORDINARY: u32 = 1000;

fn variable(name: &str, usual: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| usual.to_owned())
}

/// The engine, with a command.
fn engine(command: &str) -> Command {
    let words = variable("FLOE_TEST_ENGINE", "podman");
    let mut words = words.split_whitespace();
    let mut engine = Command::new(words.next().expect("a command"));
    engine.args(words).arg(command);
    engine
}

/// Builds an image of a folder's recipe, with more flags.
fn build(image: &str, folder: &Path, flags: &[&str]) {
    let mut build = engine("build");
    build.args(variable("FLOE_TEST_BUILD", "--isolation chroot --network host").split_whitespace());
    output(build.args(flags).args(["--tag", image, "--file"]).arg(folder.join("Containerfile")).arg(folder));
}

/// A container, gone at its end, in the machine's network.
fn container() -> Command {
    container_in("host")
}

fn container_in(network: &str) -> Command {
    let mut run = engine("run");
    run.args(["--rm", "--network", network]).args(variable("FLOE_TEST_RUN", "").split_whitespace());
    run
}

/// A container with a device, in which a program of this machine lies at `/program`. It has no network.
fn with(device: &str, program: &Path) -> Command {
    let mut run = container_in("none");
    run.args(["--device", &format!("floe.dev/gpu={device}"), "-v", &mounted(program, "/program")]);
    run
}

/// A device file of `floe cdi`, gone at its end. There is one at a time: tests that run beside this one wait.
struct Devices(#[expect(dead_code, reason = "held")] MutexGuard<'static, ()>);

impl Devices {
    fn written(flags: &[&str]) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        output(Command::new(installation().join("bin/floe")).args(["cdi", "--output", DEVICES]).args(flags));
        Self(alone)
    }

    /// Both GPUs of a daemon, reached by its socket, and the offer.
    fn of(daemon: &Floed) -> Self {
        Self::written(&["--on", &both(daemon.unix()), "--offer", OFFER])
    }
}

impl Drop for Devices {
    fn drop(&mut self) {
        // Where it is not there, no engine finds it.
        let _ = std::fs::remove_file(DEVICES);
    }
}

/// Both GPUs of a server.
fn both(server: &str) -> String {
    format!("{server}:0,{server}:1")
}

fn base() -> String {
    variable("FLOE_TEST_BASE", "docker.io/library/debian:12-slim")
}

/// The output of a program that succeeds.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}: {said}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What a program has said and how it ended.
fn outcome(command: &mut Command) -> Outcome {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}")).into()
}

/// What a program says that ends with this code.
fn refused(command: &mut Command, code: i32) -> String {
    let outcome = outcome(command);
    assert_eq!(outcome.code, Some(code), "{command:?}: {}{}", outcome.stdout, outcome.stderr);
    outcome.stderr
}

/// The user of a process.
fn user_of(process: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it lives");
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:")).expect("it has one");
    ids.split_whitespace().next().and_then(|user| user.parse().ok()).expect("a number")
}

/// `tests/programs/offered.c`, built.
fn offered() -> (PathBuf, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("offered");
    compile_c("offered", &program);
    (program, folder)
}

/// A CUDA program with cudart in it.
fn program() -> PathBuf {
    built_examples().join("static/vectorAdd")
}

fn mounted(path: &Path, at: &str) -> String {
    format!("{}:{at}:ro", path.display())
}

#[test]
#[ignore = "by hand: needs an engine"]
fn an_image_without_floe_gets_its_gpus_by_a_flag() {
    let daemon = Floed::start();
    let _devices = Devices::written(&["--on", &format!("{}:0", daemon.unix()), "--offer", OFFER]);
    let found = output(container_in("none").args([&base(), "find", "/", "-xdev", "-iname", "*floe*"]));
    assert_eq!(found, "", "the image has nothing of floe's");
    for device in ["0", "all", OFFER] {
        let said = output(with(device, &program()).args([&base(), "/program"]));
        assert!(said.contains("PASSED"), "{said}");
    }
}

#[test]
#[ignore = "by hand: needs an engine"]
fn a_container_with_an_offer_has_its_vgpus_with_their_memory() {
    let daemon = Floed::start_with(&[], &GPUS);
    let _devices = Devices::of(&daemon);
    let (program, _folder) = offered();
    let memory = |device: &str, command: &[&str]| {
        let said = output(with(device, &program).arg(base()).args(command));
        said.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(memory(OFFER, &["/program"]), ["256 MiB: a quota"; 2]);
    assert_eq!(memory("all", &["/program"]), ["1024 MiB: a quota"; 2]);
    assert_eq!(memory("1", &["/program"]), ["1024 MiB: a quota"]);
    // An offer is no limit: the program may ask for something else.
    assert_eq!(memory(OFFER, &["env", "FLOE_MEMORY=512M", "/program"]), ["512 MiB: a quota"; 2]);
    let exchange = built_examples().join("static/haloExchange");
    let said = output(with(OFFER, &exchange).args([&base(), "/program"]));
    assert!(said.lines().any(|line| line == "PASSED"), "both compute, and exchange what they have: {said}");
}

#[test]
#[ignore = "by hand: needs an engine"]
fn a_devices_variables_win_over_those_of_the_flag() {
    let daemon = Floed::start_with(&[], &GPUS);
    let _devices = Devices::of(&daemon);
    let variables = ["LD_LIBRARY_PATH", "FLOE_MEMORY", "FLOE_DEVICES"];
    let set = |device: &str| {
        let mut run = with(device, &program());
        run.args(variables.iter().map(|name| format!("--env={name}=/own")));
        output(run.args([&base(), "printenv"]).args(variables))
    };
    assert_eq!(set(OFFER), format!("/opt/floe/lib\n256M\n{}\n", both(daemon.unix())));
    assert_eq!(set("1"), format!("/opt/floe/lib\n/own\n{}:1\n", daemon.unix()), "without an offer there is no quota");
}

#[test]
#[ignore = "by hand: needs an engine"]
fn an_ordinary_user_of_a_container_needs_the_socket_and_a_token() {
    let daemon = Floed::start_open(&installation(), &[]);
    let place = format!("{}:0", daemon.unix());
    let folder = tempfile::tempdir().expect("a folder");
    let token = folder.path().join("token");
    std::fs::copy(daemon.token_file(), &token).expect("copied");
    let (program, _folder) = offered();
    let run = |user: &str| {
        let mut run = with("2x256M", &program);
        run.args(["--user", user, &base(), "/program"]);
        run
    };
    let user = ORDINARY.to_string();
    let devices = Devices::written(&["--on", &place, "--offer", OFFER]);
    let words = refused(&mut run(&user), 1);
    assert!(words.contains("permission denied\n  only the server's own user may use this socket"), "{words}");
    let socket = daemon.unix().trim_start_matches("unix://");
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o666)).expect("it is ours");
    let words = refused(&mut run(&user), 1);
    assert!(words.contains("asks for a token and none is set"), "{words}");
    assert_eq!(output(&mut run("0")), "256 MiB: a quota\n".repeat(2), "the daemon's own user needs none");
    drop(devices);
    let file = token.to_str().expect("text");
    let _devices = Devices::written(&["--on", &place, "--offer", OFFER, "--token-file", file]);
    let words = refused(&mut run(&user), 1);
    assert!(words.contains("cannot read the file: /opt/floe/token: permission denied"), "{words}");
    chown(&token, Some(ORDINARY), None).expect("root may");
    assert_eq!(output(&mut run(&user)), "256 MiB: a quota\n".repeat(2));
}

#[test]
#[ignore = "by hand: needs an engine"]
fn a_container_reaches_a_server_by_tcp_with_the_token_of_its_file() {
    let daemon = Floed::start_with(&[], &GPUS);
    let token = daemon.token_file();
    let token = token.to_str().expect("text");
    let (program, _folder) = offered();
    let run = |network: &str| {
        let mut run = container_in(network);
        run.args(["--device", &format!("floe.dev/gpu={OFFER}"), "-v", &mounted(&program, "/program")]);
        run.args([&base(), "/program"]);
        run
    };
    let on = both(daemon.tcp());
    let devices = Devices::written(&["--on", &on, "--offer", OFFER, "--token-file", token]);
    assert_eq!(output(&mut run("host")), "256 MiB: a quota\n".repeat(2));
    let words = refused(&mut run("none"), 1);
    assert!(words.starts_with(&format!("floe: no server at {}: ", daemon.tcp())), "{words}");
    drop(devices);
    let _devices = Devices::written(&["--on", &on, "--offer", OFFER]);
    let words = refused(&mut run("host"), 1);
    assert!(words.contains("copy its token file to the client"), "{words}");
}

/// A container that has its vGPUs until its standard input ends.
struct Holder {
    engine: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Holder {
    /// Starts a container and waits until it has its vGPUs.
    fn started(name: &str, program: &Path) -> Self {
        let mut run = with(OFFER, program);
        run.args(["--interactive", "--name", name, &base(), "/program"]);
        // A failed test may have left one.
        outcome(engine("rm").args(["--force", name]));
        let mut engine = run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the engine runs");
        let mut lines = BufReader::new(engine.stdout.take().expect("piped")).lines();
        for _ in 0..2 {
            assert_eq!(lines.next().expect("a line").expect("text"), "256 MiB: a quota");
        }
        Self { engine, lines }
    }

    /// Ends its standard input and gives its exit code.
    fn ended(mut self) -> Option<i32> {
        drop(self.engine.stdin.take());
        assert!(self.lines.next().is_none(), "it has said all");
        self.engine.wait().expect("it ends").code()
    }
}

#[test]
#[ignore = "by hand: needs an engine"]
fn a_killed_container_leaves_no_session_and_another_one_goes_on() {
    let daemon = Floed::start_with(&[], &GPUS);
    let _devices = Devices::of(&daemon);
    let (program, _folder) = offered();
    let first = Holder::started("floe-test-first", &program);
    let second = Holder::started("floe-test-second", &program);
    let sessions = || {
        let of = |row: &serde_json::Value| (row["gpu"].as_u64(), row["memory"].as_u64(), row["guaranteed"].as_bool());
        let mut all: Vec<_> = daemon.sessions().iter().map(of).collect();
        all.sort_unstable();
        all
    };
    let with = |gpu| (Some(gpu), Some(256 << 20), Some(true));
    assert_eq!(sessions(), [with(0), with(0), with(1), with(1)]);
    output(engine("kill").arg("floe-test-first"));
    daemon.wait_for_workers(2);
    assert_eq!(sessions(), [with(0), with(1)]);
    assert_eq!(first.ended(), Some(128 + 9));
    assert_eq!(second.ended(), Some(0));
    daemon.wait_for_workers(0);
    assert_eq!(sessions(), []);
}

#[test]
#[ignore = "by hand: needs an engine"]
fn a_container_that_no_gpu_has_room_for_is_told_so() {
    let daemon = Floed::start_with(&[], &GPUS);
    let _devices = Devices::written(&["--on", &both(daemon.unix()), "--offer", OFFER, "--offer", "2x768M"]);
    let (program, _folder) = offered();
    let others = [Holder::started("floe-test-first", &program), Holder::started("floe-test-second", &program)];
    let words = refused(with("2x768M", &program).args([&base(), "/program"]), 1);
    assert!(words.contains("768 MiB were asked for, 512 MiB are free for a guarantee"), "{words}");
    for other in others {
        assert_eq!(other.ended(), Some(0));
    }
    let said = output(with("2x768M", &program).args([&base(), "/program"]));
    assert_eq!(said, "768 MiB: a quota\n".repeat(2), "they have left");
}

#[test]
#[ignore = "by hand: needs an engine"]
fn a_device_that_the_file_has_not_is_named_by_the_engine() {
    let daemon = Floed::start_with(&[], &GPUS);
    let _devices = Devices::of(&daemon);
    for device in ["2", "2x512M"] {
        let said = outcome(with(device, &program()).args([&base(), "/program"]));
        let words = said.stderr;
        assert!(matches!(said.code, Some(125 | 126)), "an error of the engine: {:?}: {words}", said.code);
        assert!(words.contains(&format!("unresolvable CDI devices floe.dev/gpu={device}")), "{words}");
    }
    assert_eq!(daemon.sessions(), Vec::<serde_json::Value>::new());
}

#[test]
#[ignore = "by hand: needs an engine"]
fn an_image_without_libgcc_is_told_that_the_library_needs_it() {
    let daemon = Floed::start_with(&[], &GPUS);
    let _devices = Devices::of(&daemon);
    let (program, _folder) = offered();
    let without = "rm /lib/x86_64-linux-gnu/libgcc_s.so.1 && exec /program";
    let words = refused(with(OFFER, &program).args([&base(), "sh", "-c", without]), 1);
    assert!(words.starts_with("libgcc_s.so.1: cannot open shared object file"), "{words}");
}

#[test]
#[ignore = "by hand: needs an engine and musl-gcc"]
fn an_image_of_musl_runs_as_before_and_its_loader_names_what_a_cuda_program_lacks() {
    let daemon = Floed::start_with(&[], &GPUS);
    let _devices = Devices::of(&daemon);
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("plain.c"), "int puts(const char *);\nint main(void) { puts(\"plain\"); return 0; }\n")
        .expect("written");
    let programs = floe_tests::repository().join("tests/programs");
    for (source, name) in [(at("plain.c"), "plain"), (programs.join("offered.c"), "offered")] {
        output(Command::new("musl-gcc").arg("-o").arg(at(name)).arg(source));
    }
    std::fs::copy("/lib/ld-musl-x86_64.so.1", at("ld-musl-x86_64.so.1")).expect("the loader of musl-gcc's programs");
    let recipe = "FROM scratch\nCOPY ld-musl-x86_64.so.1 /lib/\nCOPY plain offered /\n";
    std::fs::write(at("Containerfile"), recipe).expect("written");
    build("floe-test-musl", folder.path(), &[]);
    let run = |program: &str| {
        let mut run = container_in("none");
        run.args(["--device", &format!("floe.dev/gpu={OFFER}"), "floe-test-musl", program]);
        run
    };
    assert_eq!(output(&mut run("/plain")), "plain\n");
    let words = refused(&mut run("/offered"), 1);
    assert!(words.starts_with("Error loading shared library lib"), "{words}");
    assert!(words.contains("(needed by /opt/floe/lib/libcuda.so.1)"), "{words}");
}

#[test]
#[ignore = "by hand: needs an engine and a package, which `cargo xtask package --dist` makes"]
fn a_server_and_a_program_in_containers_of_the_recipes() {
    let folder = made_folder("FLOE_PACKAGE", "package");
    for image in ["server", "client"] {
        let base = format!("BASE={}", base());
        build(&format!("floe-test-{image}"), &folder, &["--build-arg", &base, "--target", image]);
    }
    let state = tempfile::tempdir().expect("a folder");
    let volume = format!("{}:/var/lib/floe", state.path().display());
    let mut server = container();
    server.args(["--name", "floe-test", "-v", &volume, "-e", "FLOE_LISTEN=tcp://127.0.0.1:14899", "floe-test-server"]);
    let mut server = server.args(["--device-library", "cpu"]).spawn().expect("it runs");
    let token = state.path().join("token");
    while !token.exists() {
        assert!(server.try_wait().expect("known").is_none(), "the server has ended");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let mut run = container();
    run.args(["-v", &mounted(&token, "/token"), "-v", &mounted(&program(), "/program")]);
    run.args(["-e", "FLOE_TOKEN_FILE=/token", "floe-test-client", "run", "--on", "tcp://127.0.0.1:14899:0"]);
    let said = output(run.args(["--", "/program"]));
    assert!(said.contains("PASSED"), "{said}");
    let first = output(engine("inspect").args(["--format", "{{.State.Pid}}", "floe-test"]));
    let first = first.trim().parse().expect("a process");
    let users: Vec<_> = [vec![first], descendants(first)].concat().into_iter().map(user_of).collect();
    assert!(users.iter().all(|user| *user != 0), "no process is root's: {users:?}");
    output(engine("stop").args(["--time", "5", "floe-test"]));
    server.wait().expect("it ends");
}
