//! The command line as a newcomer meets it: the output of `floe`, on which stream, with which exit code. It runs
//! through an installation, on the CPU device. The example tests check that a successful program has no line of floe on
//! its stderr.

use std::process::{Command, Output, Stdio};

use floe_tests::{Floed, Linkage, Port, example, installation};

/// `floe` with arguments, on a machine where nobody has set anything.
struct Machine {
    home: tempfile::TempDir,
}

/// The result of a command.
#[derive(Debug)]
struct Said {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Machine {
    fn fresh() -> Self {
        Self { home: tempfile::tempdir().expect("a temporary folder") }
    }

    fn floe(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Said {
        self.executable("floe", arguments, environment)
    }

    fn executable(&self, name: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Said {
        let mut command = Command::new(installation().join("bin").join(name));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("FLOE_") || name.starts_with("RCUDA_")) {
            command.env_remove(name);
        }
        command.args(arguments).env("HOME", self.home.path()).env_remove("XDG_CONFIG_HOME");
        command.env("FLOE_CPU_MEMORY", "1G").envs(environment.iter().copied()).stdin(Stdio::null());
        command.output().expect("it starts").into()
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.home.path().join(name);
        std::fs::create_dir_all(path.parent().expect("it lies in a folder")).expect("the folder is made");
        std::fs::write(&path, text).expect("the file is written");
        path.display().to_string()
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl Said {
    /// It failed with this code and these lines, and wrote no data.
    #[track_caller]
    fn fails(&self, code: i32, lines: &[&str]) {
        assert_eq!((self.code, self.stdout.as_str()), (Some(code), ""), "{self:?}");
        assert_eq!(self.stderr.lines().collect::<Vec<_>>(), lines, "{self:?}");
    }

    #[track_caller]
    fn succeeds(&self) {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""), "{self:?}");
    }
}

/// An address nobody listens on, as long as its port is reserved.
fn nobody() -> (Port, String) {
    let port = Port::reserve();
    let address = format!("tcp://{}", port.address());
    (port, address)
}

const TRUE: [&str; 2] = ["--", "/bin/true"];

fn run_on<'a>(device: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["run", "--on", device][..], more, &TRUE[..]].concat()
}

#[test]
fn a_device_whose_server_is_not_there_is_named_before_the_program_starts() {
    let (machine, (_port, nobody)) = (Machine::fresh(), nobody());
    machine
        .floe(&run_on(&format!("{nobody}:0"), &[]), &[])
        .fails(125, &[&format!("floe: no server at {nobody}: connection refused"), "  start one there: floe serve"]);
    machine.floe(&run_on("nosuch.invalid:0", &[]), &[]).fails(
        125,
        &[
            "floe: no server at tcp://nosuch.invalid:14833: host not found",
            "  write the name as the network knows it, or the address: HOST:GPU, HOST:PORT:GPU",
        ],
    );
    let gone = machine.home.path().join("no.sock").display().to_string();
    machine.floe(&run_on(&format!("unix://{gone}:0"), &[]), &[]).fails(
        125,
        &[
            &format!("floe: no server at unix://{gone}: no such file or directory"),
            "  start one: floe serve, which says where its socket is",
        ],
    );
    machine.floe(&run_on(&format!("{nobody}:0"), &["--no-check"]), &[]).succeeds();
    machine
        .floe(&[&["run"][..], &TRUE].concat(), &[("FLOE_DEVICES", &format!("{nobody}:0"))])
        .fails(125, &[&format!("floe: no server at {nobody}: connection refused"), "  start one there: floe serve"]);
}

#[test]
fn a_token_that_is_missing_or_wrong_is_said_once() {
    let (machine, daemon) = (Machine::fresh(), Floed::start());
    let (server, device) = (daemon.tcp(), format!("{}:0", daemon.tcp()));
    let advice = "  copy the server's token file here: ~/.config/floe/token, or where FLOE_TOKEN_FILE says";
    let none = machine.floe(&run_on(&device, &[]), &[]);
    assert_eq!((none.code, none.stderr.lines().count()), (Some(125), 2), "{none:?}");
    assert!(
        none.stderr.contains("copy its token file to the client") && none.stderr.contains("~/.config/floe/token"),
        "{none:?}"
    );
    let wrong = machine.floe(&run_on(&device, &[]), &[("FLOE_TOKEN", "wrong")]);
    assert_eq!((wrong.code, wrong.stderr.lines().count()), (Some(125), 2), "{wrong:?}");
    assert!(wrong.stderr.contains("token") && wrong.stderr.contains(advice), "{wrong:?}");
    assert_eq!(wrong.stderr.matches(server).count(), 1, "{wrong:?}");
    let token = daemon.token_file().display().to_string();
    machine.floe(&run_on(&device, &[]), &[("FLOE_TOKEN_FILE", &token)]).succeeds();
}

#[test]
fn a_gpu_or_memory_that_the_server_does_not_have_is_refused_before_the_program_starts() {
    let machine = Machine::fresh();
    let daemon = Floed::start_with(&[], &[("FLOE_CPU_MEMORY", "1G")]);
    let server = daemon.unix();
    let device = format!("{server}:0");
    machine
        .floe(&run_on(&format!("{server}:7"), &[]), &[])
        .fails(125, &[&format!("floe: no such GPU at {server}: 7"), "  it offers: 0"]);
    machine
        .floe(&run_on(&device, &["--memory", "64G"]), &[])
        .fails(125, &[&format!("floe: more memory than GPU 0 of {server} has: 64.0 GiB"), "  ask for at most 1.0 GiB"]);
    machine.floe(&run_on(&device, &["--memory", "512M"]), &[]).succeeds();
    machine.floe(&run_on(&device, &["--memory", "64G", "--no-check"]), &[]).succeeds();
    machine
        .floe(&[&["run", "--memory", "64G"][..], &TRUE].concat(), &[])
        .fails(125, &["floe: more memory than GPU 0 of this machine has: 64.0 GiB", "  ask for at most 1.0 GiB"]);
}

#[test]
fn unreadable_values_are_named_with_their_place() {
    let machine = Machine::fresh();
    let size = "  write it as 8G, 512M or a number of bytes";
    machine
        .floe(&[&["run", "--memory", "8Q"][..], &TRUE].concat(), &[])
        .fails(125, &["floe: --memory: not a size: 8Q", size]);
    machine
        .floe(&[&["run"][..], &TRUE].concat(), &[("FLOE_MEMORY", "lots")])
        .fails(125, &["floe: FLOE_MEMORY: not a size: lots", size]);
    machine.floe(&run_on("h:999", &["--no-check"]), &[]).fails(
        125,
        &[
            "floe: --on: the last number is too large for a GPU's index: h:999",
            "  write HOST:GPU, with a port HOST:PORT:GPU",
        ],
    );
    let file = machine.file(".config/floe/floe.toml", "# mine\ndevises = ['h:0']\n");
    let said = machine.floe(&[&["run"][..], &TRUE].concat(), &[]);
    assert_eq!((said.code, said.stderr.lines().count()), (Some(125), 2), "{said:?}");
    assert!(
        said.stderr.starts_with(&format!("floe: {file}:2: unknown setting: devises\n  did you mean: devices")),
        "{said:?}"
    );
    machine.file(".config/floe/floe.toml", "[server]\nlisten = 'tcp://127.0.0.1:0'\nmaxsessions = 3\n");
    let said = machine.floe(&["serve", "--device-library", "cpu"], &[]);
    assert_eq!(said.stderr.lines().count(), 2, "{said:?}");
    assert!(
        said.stderr
            .starts_with(&format!("floe: {file}:3: unknown setting: server.maxsessions\n  did you mean: max-sessions")),
        "{said:?}"
    );
}

#[test]
fn a_program_that_cannot_be_started_gives_the_exit_codes_of_a_shell() {
    let machine = Machine::fresh();
    let text = machine.file("notes", "no program\n");
    machine
        .floe(&["run", "--", "no-such-program"], &[])
        .fails(127, &["floe: program not found: no-such-program", "  write its path, or a name that is on PATH"]);
    let advice = "  chmod +x makes a file executable";
    let refused = format!("floe: not an executable program: {text}");
    machine.floe(&["run", "--", &text], &[]).fails(126, &[&refused, advice]);
    let none = machine.floe(&["run"], &[]);
    assert!(none.code == Some(2) && none.stderr.contains("<PROGRAM>"), "{none:?}");
    let own = machine.floe(&["run", "--", "/bin/sh", "-c", "exit 7"], &[]);
    assert_eq!((own.code, own.stderr.as_str()), (Some(7), ""), "{own:?}");
}

#[test]
fn gpus_lists_this_machines_device_where_nobody_serves() {
    let machine = Machine::fresh();
    // Somebody may serve on this machine's usual port: then that is what is listed.
    let said = machine.floe(&["gpus"], &[]);
    if !said.stdout.contains("(this machine)") {
        assert!(std::net::TcpStream::connect("127.0.0.1:14833").is_ok(), "{said:?}");
        return;
    }
    said.succeeds();
    assert_eq!(said.stdout.lines().count(), 2, "{said:?}");
    let json = machine.floe(&["gpus", "--json"], &[]);
    json.succeeds();
    let rows: Vec<serde_json::Value> = serde_json::from_str(&json.stdout).expect("JSON");
    assert_eq!((rows.len(), rows[0]["memory"].as_u64()), (1, Some(1 << 30)), "{json:?}");
}

#[test]
fn lists_of_a_server_that_is_not_there_are_one_error_and_no_table() {
    let (machine, (_port, nobody)) = (Machine::fresh(), nobody());
    let lines = [&format!("floe: no server at {nobody}: connection refused"), "  start one there: floe serve"];
    for list in ["gpus", "ps"] {
        machine.floe(&[list, "--on", &nobody], &[]).fails(1, &lines);
    }
}

#[test]
fn a_daemon_that_cannot_start_says_why_once() {
    let (machine, daemon) = (Machine::fresh(), Floed::start());
    let socket = machine.home.path().join("s").display().to_string();
    let token = daemon.token_file().display().to_string();
    let base = ["serve", "--device-library", "cpu", "--socket", &socket, "--token-file", &token];
    let serve = |more: &[&str]| machine.floe(&[&base[..], more].concat(), &[]);
    let taken = serve(&["--listen", daemon.tcp()]);
    let said: Vec<&str> = taken.stderr.lines().filter(|line| !line.starts_with("floed: ")).collect();
    assert_eq!(
        (taken.code, said),
        (
            Some(125),
            vec![
                &*format!("floe: cannot listen on {}: address already in use", daemon.tcp()),
                "  another server is there, or name another address"
            ]
        )
    );
    let size = serve(&["--listen", "tcp://127.0.0.1:0", "--memory-per-session", "8Q"]);
    size.fails(125, &["floe: --memory-per-session: not a size: 8Q", "  write it as 8G, 512M or a number of bytes"]);
    let file = serve(&["--config", "/nonexistent/floe.toml"]);
    assert_eq!((file.code, file.stderr.matches("no such file or directory").count()), (Some(125), 1), "{file:?}");
}

#[test]
fn the_demo_ends_with_three_lines_for_a_newcomer() {
    let machine = Machine::fresh();
    let said = machine.floe(&["demo"], &[]);
    said.succeeds();
    let lines: Vec<&str> = said.stdout.lines().collect();
    let end = &lines[lines.len() - 3..];
    assert!(end[0].starts_with("floe demo: passed in "), "{said:?}");
    assert!(end[1].contains("CUDA calls") && end[2].contains("floe run -- PROGRAM"), "{said:?}");
    assert!(!said.stdout.contains("\"post\""), "{said:?}");
    let all = machine.floe(&["demo", "--stats"], &[]);
    all.succeeds();
    assert!(all.stdout.contains("\"post\""), "{all:?}");
}

#[test]
fn the_version_names_the_protocol_and_the_commit() {
    for name in ["floe", "floed", "floe-worker", "floe-bench"] {
        let said = Machine::fresh().executable(name, &["--version"], &[]);
        said.succeeds();
        let of_the_package = format!("{name} {} (protocol ", env!("CARGO_PKG_VERSION"));
        assert!(said.stdout.starts_with(&of_the_package) && said.stdout.contains(", commit "), "{said:?}");
    }
}

#[test]
fn a_private_daemon_is_silent() {
    for name in ["vectorAdd", "graphs", "arrayCopies", "pinned"] {
        let outcome = example(name, Linkage::Static, &[]).run();
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{name}: {outcome:?}");
    }
}

#[test]
fn doctor_says_what_the_driver_allows_between_gpus() {
    let machine = Machine::fresh();
    let of = |devices| machine.floe(&["doctor"], &[("FLOE_CPU_DEVICES", devices)]).stdout;
    let two = of("2");
    assert!(two.contains("between the GPUs: each reaches the others' memory"), "{two}");
    let one = of("1");
    assert!(!one.contains("between the GPUs"), "{one}");
}
