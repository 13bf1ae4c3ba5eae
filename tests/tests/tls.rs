//! Programs reach a server by TLS, bulk connections included, and only authenticated servers and clients connect.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../link/transport/tests/authority/mod.rs"]
mod authority;

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use authority::Authority;
use floe_tests::Floed;

/// For what a busy machine may take.
const PATIENCE: Duration = Duration::from_secs(300);

impl Authority {
    fn serve(&self, flags: &[&str]) -> Floed {
        let [certificate, key] = self.sign("localhost").map(|path| path.to_str().unwrap().to_owned());
        let own = ["--tls-certificate", &certificate, "--tls-key", &key];
        Floed::start_with(&[&own[..], flags].concat(), &[])
    }
}

fn program(server: &Floed, scheme: &str, environment: &[(&str, &Path)]) -> Command {
    let bin = floe_tests::installation().join("bin");
    let port = server.tcp().rsplit_once(':').unwrap().1;
    let mut command = Command::new(bin.join("floe"));
    command
        .args(["run", "--no-check", "--on", &format!("{scheme}://localhost:{port}:0"), "--"])
        .arg(bin.join("floe-demo"));
    command.env("FLOE_TOKEN_FILE", server.token_file()).envs(environment.iter().copied());
    command
}

fn run(server: &Floed, scheme: &str, environment: &[(&str, &Path)]) -> Output {
    program(server, scheme, environment).output().unwrap()
}

fn succeeded(output: &Output) -> bool {
    output.status.success()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_program_runs_by_tls_and_without_it_on_the_same_port() {
    let authority = Authority::new();
    let server = authority.serve(&[]);
    let trusted = authority.file();
    let trusts = [("FLOE_TLS_AUTHORITIES", trusted.as_path())];
    let sealed = run(&server, "tls", &trusts);
    assert!(succeeded(&sealed), "{}", errors(&sealed));
    let by_token = run(&server, "tcp", &[]);
    assert!(succeeded(&by_token), "{}", errors(&by_token));
    assert!(!succeeded(&run(&server, "clear", &[])), "nobody has allowed clear text");
}

/// Looks again and again while a program runs, which is not for long; how it ended.
fn while_it_runs(program: &mut Child, mut look: impl FnMut()) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = program.try_wait().unwrap() {
            return status;
        }
        if start.elapsed() > PATIENCE {
            program.kill().unwrap();
            panic!("the program is not over after {PATIENCE:?}: {}", program.wait().unwrap());
        }
        look();
    }
}

/// The transports that `floe ps` shows while a program runs.
fn shown(server: &Floed, mut program: Command) -> Vec<String> {
    let mut program = program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut shown = Vec::new();
    let status = while_it_runs(&mut program, || shown.extend(server.transports()));
    assert!(status.success());
    shown
}

#[test]
fn an_operator_sees_which_sessions_go_by_tls() {
    let authority = Authority::new();
    let trusted = authority.file();
    for scheme in ["tls", "tcp"] {
        // One of its own: the other's last session may still be in the table.
        let server = authority.serve(&[]);
        // A program may be over before it has been looked at.
        let runs =
            (0..50).map(|_| shown(&server, program(&server, scheme, &[("FLOE_TLS_AUTHORITIES", trusted.as_path())])));
        let shown = runs.into_iter().find(|shown| !shown.is_empty()).unwrap_or_default();
        // One that is about to end has no connection any more.
        let is_expected = |transport: &String| transport.split(',').next() == Some(scheme);
        assert!(!shown.is_empty() && shown.iter().all(is_expected), "{shown:?}");
    }
}

/// Threads of the daemon that seal or open.
fn passes_bytes_on(server: &Floed) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{}/task", server.process())).unwrap();
    let names = threads.filter_map(|thread| std::fs::read_to_string(thread.unwrap().path().join("comm")).ok());
    names.into_iter().any(|name| ["floe-open", "floe-seal"].contains(&name.trim()))
}

#[test]
fn the_daemon_opens_and_seals_for_its_workers() {
    let authority = Authority::new();
    let trusted = authority.file();
    for grace in ["60", "0"] {
        let server = authority.serve(&["--grace", grace]);
        let trusts = [("FLOE_TLS_AUTHORITIES", trusted.as_path())];
        let mut program = program(&server, "tls", &trusts).stdout(Stdio::null()).spawn().unwrap();
        let mut has_passed = false;
        let status = while_it_runs(&mut program, || {
            has_passed |= passes_bytes_on(&server);
            std::thread::sleep(Duration::from_millis(1));
        });
        assert!(status.success() && has_passed, "{grace}: {status}");
    }
}

#[test]
fn a_server_that_is_not_trusted_is_not_talked_to() {
    let authority = Authority::new();
    let server = authority.serve(&["--tls-only"]);
    let nobody = run(&server, "tls", &[]);
    assert!(!succeeded(&nobody) && errors(&nobody).contains("FLOE_TLS_AUTHORITIES"), "{}", errors(&nobody));
    let stranger = Authority::new();
    let other = stranger.file();
    assert!(!succeeded(&run(&server, "tls", &[("FLOE_TLS_AUTHORITIES", &other)])));
    let by_token = run(&server, "tcp", &[]);
    assert!(!succeeded(&by_token) && errors(&by_token).contains("tls://"), "{}", errors(&by_token));
}

#[test]
fn a_client_shows_the_certificate_a_server_asks_for() {
    let authority = Authority::new();
    let trusted = authority.file();
    let server = authority.serve(&["--tls-client-authorities", trusted.to_str().unwrap()]);
    let trusts = ("FLOE_TLS_AUTHORITIES", trusted.as_path());
    assert!(!succeeded(&run(&server, "tls", &[trusts])));
    let [certificate, key] = authority.sign("client");
    let known = run(&server, "tls", &[trusts, ("FLOE_TLS_CERTIFICATE", &certificate), ("FLOE_TLS_KEY", &key)]);
    assert!(succeeded(&known), "{}", errors(&known));
}
