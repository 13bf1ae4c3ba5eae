//! Containers: images with floe, and images without it that get its GPUs by a flag. In: Podman, a package, an image of Debian 12.
//! Out: what programs in containers compute.
//!
//! By hand, as root: `cargo xtask package --dist`, then this file with `--ignored`. `FLOE_TEST_PODMAN` is the command with its
//! flags, `FLOE_TEST_RUN` flags of `podman run`, `FLOE_TEST_BASE` an image of Debian 12.

use std::path::{Path, PathBuf};
use std::process::Command;

use floe_tests::{Floed, built_examples, installation, made_folder};

/// A device file of these tests' own.
const DEVICES: &str = "/etc/cdi/floe-test.json";

fn variable(name: &str, usual: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| usual.to_owned())
}

/// Podman, with a command.
fn podman(command: &str) -> Command {
    let words = variable("FLOE_TEST_PODMAN", "podman");
    let mut words = words.split_whitespace();
    let mut podman = Command::new(words.next().expect("a command"));
    podman.args(words).arg(command);
    podman
}

/// A container, gone at its end, in the machine's network.
fn container() -> Command {
    let mut run = podman("run");
    run.args(["--rm", "--network", "host"]).args(variable("FLOE_TEST_RUN", "").split_whitespace());
    run
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

/// A CUDA program with cudart in it.
fn program() -> PathBuf {
    built_examples().join("static/vectorAdd")
}

fn mounted(path: &Path, at: &str) -> String {
    format!("{}:{at}:ro", path.display())
}

#[test]
#[ignore = "by hand: needs Podman"]
fn an_image_without_floe_gets_its_gpus_by_a_flag() {
    let daemon = Floed::start();
    let program = program();
    let mut cdi = Command::new(installation().join("bin/floe"));
    let on = format!("{}:0", daemon.unix());
    output(cdi.args(["cdi", "--output", DEVICES, "--offer", "2x256M", "--on", &on]));
    // Also of a file that an engine of Debian 12 reads.
    for device in ["0", "all", "2x256M"] {
        let mut run = container();
        run.args(["--device", &format!("floe.dev/gpu={device}"), "-v", &mounted(&program, "/program"), &base()]);
        let said = output(run.arg("/program"));
        assert!(said.contains("PASSED"), "{said}");
    }
    std::fs::remove_file(DEVICES).expect("removed");
}

#[test]
#[ignore = "by hand: needs Podman and a package, which `cargo xtask package --dist` makes"]
fn a_server_and_a_program_in_containers_of_the_recipes() {
    let folder = made_folder("FLOE_PACKAGE", "package");
    for image in ["server", "client"] {
        let mut build = podman("build");
        build.args(["--isolation", "chroot", "--network", "host", "--build-arg", &format!("BASE={}", base())]);
        output(build.args(["--target", image, "--tag", &format!("floe-test-{image}")]).arg(&folder));
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
    let who = output(podman("top").args(["floe-test", "user"]));
    assert!(who.lines().any(|user| user == "floe") && !who.lines().any(|user| user == "root"), "{who}");
    output(podman("stop").args(["--time", "5", "floe-test"]));
    server.wait().expect("it ends");
}
