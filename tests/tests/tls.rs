//! Programs reach a server by TLS, bulk connections among it, and only a server and clients that are who they say.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::PathBuf;
use std::process::{Command, Output};

use floe_tests::Floed;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;

/// An authority in a folder.
struct Authority {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut parameters = CertificateParams::new(Vec::<String>::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("authority.pem"), issuer.pem()).unwrap();
        Self { folder, issuer }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Files of a certificate and its key.
    fn sign(&self, name: &str) -> [String; 2] {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &self.issuer).unwrap();
        let [at, key_at] = ["certificate", "key"].map(|what| self.file(&format!("{name}.{what}.pem")));
        std::fs::write(&at, certificate.pem()).unwrap();
        std::fs::write(&key_at, key.serialize_pem()).unwrap();
        [at, key_at].map(|path| path.to_str().unwrap().to_owned())
    }

    fn serve(&self, flags: &[&str]) -> Floed {
        let [certificate, key] = self.sign("localhost");
        let own = ["--tls-certificate", &certificate, "--tls-key", &key];
        Floed::start_with(&[&own[..], flags].concat(), &[])
    }
}

fn run(server: &Floed, scheme: &str, environment: &[(&str, &str)]) -> Output {
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
    let trusted = authority.file("authority.pem");
    let trusts = [("FLOE_TLS_AUTHORITIES", trusted.to_str().unwrap())];
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
    let other = stranger.file("authority.pem");
    assert!(!succeeded(&run(&server, "tls", &[("FLOE_TLS_AUTHORITIES", other.to_str().unwrap())])));
    let clear = run(&server, "tcp", &[]);
    assert!(!succeeded(&clear), "it serves by TLS only");
}

#[test]
fn a_client_shows_the_certificate_a_server_asks_for() {
    let authority = Authority::new();
    let trusted = authority.file("authority.pem").to_str().unwrap().to_owned();
    let server = authority.serve(&["--tls-client-authorities", &trusted]);
    let trusts = ("FLOE_TLS_AUTHORITIES", trusted.as_str());
    assert!(!succeeded(&run(&server, "tls", &[trusts])));
    let [certificate, key] = authority.sign("client");
    let known = run(&server, "tls", &[trusts, ("FLOE_TLS_CERTIFICATE", &certificate), ("FLOE_TLS_KEY", &key)]);
    assert!(succeeded(&known), "{}", errors(&known));
}
