//! Programs reach a server by TLS, bulk connections among it, and only a server and clients that are who they say.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../link/transport/tests/authority/mod.rs"]
mod authority;

use std::path::Path;
use std::process::{Command, Output};

use authority::Authority;
use floe_tests::Floed;

impl Authority {
    fn serve(&self, flags: &[&str]) -> Floed {
        let [certificate, key] = self.sign("localhost").map(|path| path.to_str().unwrap().to_owned());
        let own = ["--tls-certificate", &certificate, "--tls-key", &key];
        Floed::start_with(&[&own[..], flags].concat(), &[])
    }
}

fn run(server: &Floed, scheme: &str, environment: &[(&str, &Path)]) -> Output {
    let bin = floe_tests::installation().join("bin");
    let port = server.tcp().rsplit_once(':').unwrap().1;
    Command::new(bin.join("floe"))
        .args(["run", "--on", &format!("{scheme}://localhost:{port}:0"), "--"])
        .arg(bin.join("floe-demo"))
        .env("FLOE_TOKEN_FILE", server.token_file())
        .envs(environment.iter().copied())
        .output()
        .unwrap()
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
    let clear = run(&server, "tcp", &[]);
    assert!(succeeded(&clear), "{}", errors(&clear));
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
    let clear = run(&server, "tcp", &[]);
    assert!(!succeeded(&clear), "it serves by TLS only");
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
