//! Users known by their client certificates: who is let in without a token, as whom, and who is refused by name.
//! In: an authority's certificates, a daemon with a policy that takes them. Out: sessions, rows, refusals.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../link/transport/tests/authority/mod.rs"]
mod authority;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use authority::Authority;
use floe_tests::{Floed, installation};
use rcgen::{CertificateParams, CustomExtension, SanType, SerialNumber, date_time_ymd};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// For what a busy machine may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// A daemon that knows users by certificates.
struct Stage {
    authority: Authority,
    daemon: Floed,
    /// The file of authorities that name users.
    trusted: PathBuf,
    audit: PathBuf,
    /// The list of revoked certificates.
    revoked: PathBuf,
    _folder: TempDir,
}

/// A user's certificate and its key.
type Pair = [PathBuf; 2];

impl Stage {
    fn new(policy: &str) -> Self {
        Self::with(policy, &[], |_| String::new())
    }

    /// The same with these flags, and a list of revoked certificates.
    fn with(policy: &str, flags: &[&str], list: impl Fn(&Authority) -> String) -> Self {
        let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("policy.toml"), policy).unwrap();
        std::fs::copy(authority.file(), at("users.pem")).unwrap();
        let [certificate, key] = authority.sign("localhost").map(text);
        let (users, policy) = (text(at("users.pem")), text(at("policy.toml")));
        let own = ["--tls-certificate", &certificate, "--tls-key", &key, "--tls-user-authorities", &users];
        let (audit, revoked) = (text(at("audit.jsonl")), at("revoked.pem"));
        std::fs::write(&revoked, list(&authority)).unwrap();
        let flags: Vec<String> = flags.iter().map(|flag| flag.replace("REVOKED", &text(revoked.clone()))).collect();
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let daemon = Floed::start_logging(&[&own[..], &["--policy", &policy, "--audit", &audit], &flags].concat());
        Self { authority, daemon, trusted: at("users.pem"), audit: at("audit.jsonl"), revoked, _folder: folder }
    }

    /// A certificate with these names of users, signed by an authority.
    fn signed(by: &Authority, names: &[&str], is_expired: bool) -> Pair {
        let uri = |name: &&str| SanType::URI(format!("floe:{name}").try_into().unwrap());
        let mut parameters = CertificateParams::new(Vec::<String>::new()).unwrap();
        parameters.subject_alt_names = names.iter().map(uri).collect();
        if is_expired {
            parameters.not_after = date_time_ymd(2020, 1, 1);
        }
        by.sign_with(&format!("user-{}-{is_expired}", names.join("-")), parameters)
    }

    /// A good certificate with more certificates beside it than anybody needs.
    fn with_a_long_chain(&self) -> Pair {
        let [certificate, key] = Self::signed(&self.authority, &["alice"], false);
        let beside = std::fs::read_to_string(self.authority.file()).unwrap().repeat(5);
        std::fs::write(&certificate, std::fs::read_to_string(&certificate).unwrap() + &beside).unwrap();
        [certificate, key]
    }

    fn user(&self, names: &[&str]) -> Pair {
        Self::signed(&self.authority, names, false)
    }

    /// What `floe` says at this server, with a certificate or without, and with no token unless one is named.
    fn floe(&self, arguments: &[&str], shown: Option<&Pair>, token: Option<&Path>) -> Output {
        let address = format!("tls://localhost:{}", self.daemon.tcp().rsplit_once(':').unwrap().1);
        let mut floe = Command::new(installation().join("bin/floe"));
        floe.args(arguments).args(["--on", &address]).env("FLOE_TLS_AUTHORITIES", self.authority.file());
        match token {
            Some(file) => floe.env("FLOE_TOKEN_FILE", file),
            None => floe.env("FLOE_NO_TOKEN", "1"),
        };
        if let Some([certificate, key]) = shown {
            floe.env("FLOE_TLS_CERTIFICATE", certificate).env("FLOE_TLS_KEY", key);
        }
        floe.output().unwrap()
    }

    /// The program that `floe run` runs for this user: whether it was right, and what was said.
    fn run(&self, shown: Option<&Pair>) -> (bool, String) {
        let address = format!("tls://localhost:{}:0", self.daemon.tcp().rsplit_once(':').unwrap().1);
        let mut floe = Command::new(installation().join("bin/floe"));
        floe.args(["run", "--on", &address]).env("FLOE_TLS_AUTHORITIES", self.authority.file());
        floe.env("FLOE_NO_TOKEN", "1");
        if let Some([certificate, key]) = shown {
            floe.env("FLOE_TLS_CERTIFICATE", certificate).env("FLOE_TLS_KEY", key);
        }
        let output = floe.arg("--").arg(installation().join("bin/floe-demo")).output().unwrap();
        (output.status.success(), words(&output))
    }

    fn reload(&self, word: &str) {
        let said = self.daemon.log().matches(word).count();
        let process = Pid::from_raw(i32::try_from(self.daemon.process()).unwrap()).unwrap();
        kill_process(process, Signal::HUP).unwrap();
        let begin = Instant::now();
        while self.daemon.log().matches(word).count() == said {
            assert!(begin.elapsed() < PATIENCE, "{}", self.daemon.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn text(path: PathBuf) -> String {
    path.to_str().unwrap().to_owned()
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_certificate_names_the_user_and_the_policy_is_that_users() {
    let stage = Stage::new("[users.alice]\n[users.bob]\ngpus = []\n");
    let alice = stage.user(&["alice"]);
    let (is_right, said) = stage.run(Some(&alice));
    assert!(is_right, "{said}");
    let (is_right, said) = stage.run(Some(&stage.user(&["bob"])));
    assert!(!is_right && said.contains("the policy gives bob no GPU 0"), "{said}");
    // The operator's token is asked for as before, where no certificate is shown or it names nobody.
    for shown in [None, Some(stage.user(&[]))] {
        let (is_right, said) = stage.run(shown.as_ref());
        assert!(!is_right && said.contains("asks for a token and none is set"), "{said}");
        let token = stage.daemon.token_file();
        let listed = stage.floe(&["ps"], shown.as_ref(), Some(&token));
        assert!(listed.status.success(), "{}", words(&listed));
    }
    // Who has a token set expects to be asked for it.
    let token = stage.daemon.token_file();
    let listed = stage.floe(&["ps"], Some(&alice), Some(&token));
    assert!(words(&listed).contains("asks for no proof of the token"), "{}", words(&listed));
}

#[test]
fn a_certificate_that_is_not_good_lets_nobody_in() {
    let stage = Stage::new("[users.alice]\n");
    let other = Authority::new();
    for (shown, expected) in [
        (stage.user(&["carol"]), "the policy of this server has no place for carol"),
        (stage.user(&["not a name"]), "the client's certificate names no user"),
        (stage.user(&["alice", "carol"]), "the client's certificate names more than one user: alice, carol"),
    ] {
        let listed = stage.floe(&["ps"], Some(&shown), None);
        assert!(!listed.status.success() && words(&listed).contains(expected), "{expected}: {}", words(&listed));
    }
    // Others are refused as TLS is agreed on.
    for (shown, why) in [
        (Stage::signed(&stage.authority, &["alice"], true), "it is not valid now"),
        (Stage::signed(&other, &["alice"], false), "its signature is wrong"),
        (stage.with_a_long_chain(), "it does not take it"),
    ] {
        let listed = stage.floe(&["ps"], Some(&shown), None);
        let expected = format!("the server refuses this client's certificate: {why}");
        assert!(!listed.status.success() && words(&listed).contains(&expected), "{}", words(&listed));
        assert!(!words(&listed).contains("bad message"), "{}", words(&listed));
    }
    let audited = std::fs::read_to_string(&stage.audit).unwrap();
    for why in ["invalid peer certificate: certificate expired", "BadSignature", "more than 4 certificates between"] {
        assert!(audited.lines().any(|line| line.contains("refused") && line.contains(why)), "{why}: {audited}");
    }
}

/// A name that cannot be read is not passed over for one that can.
#[test]
fn a_certificate_with_a_name_that_cannot_be_read_names_nobody() {
    let stage = Stage::new("[users.alice]\n");
    let uri = |name: &[u8]| [&[0x86, u8::try_from(name.len()).unwrap()], name].concat();
    let listed = [uri(b"floe:alice"), uri(b"floe:bob\xff")].concat();
    let content = [&[0x30, u8::try_from(listed.len()).unwrap()], listed.as_slice()].concat();
    let mut parameters = CertificateParams::new(Vec::<String>::new()).unwrap();
    parameters.custom_extensions.push(CustomExtension::from_oid_content(&[2, 5, 29, 17], content));
    let shown = stage.authority.sign_with("unreadable", parameters);
    let refused = stage.floe(&["ps"], Some(&shown), None);
    let expected = "the client's certificate names more than one user: alice,";
    assert!(!refused.status.success() && words(&refused).contains(expected), "{}", words(&refused));
}

#[test]
fn authorities_are_read_again_at_sighup_and_broken_ones_change_nothing() {
    let stage = Stage::new("[users.alice]\n");
    let other = Authority::new();
    let [first, second] = [&stage.authority, &other].map(|by| Stage::signed(by, &["alice"], false));
    let is_let_in = |pair: &Pair| stage.floe(&["ps"], Some(pair), None).status.success();
    assert!(is_let_in(&first) && !is_let_in(&second));
    std::fs::write(&stage.trusted, "no certificate").unwrap();
    stage.reload("the certificates stay as they were");
    assert!(is_let_in(&first) && !is_let_in(&second));
    std::fs::copy(other.file(), &stage.trusted).unwrap();
    stage.reload("certificates read again");
    assert!(!is_let_in(&first) && is_let_in(&second));
}

#[test]
fn a_revoked_certificate_is_refused_from_the_next_sighup_on_and_an_old_list_refuses_all() {
    let stage =
        Stage::with("[users.alice]\n", &["--tls-revocations", "REVOKED"], |authority| authority.revokes(&[7], true));
    let numbered = |number: u64| {
        let mut parameters = CertificateParams::new(Vec::<String>::new()).unwrap();
        parameters.serial_number = Some(SerialNumber::from(number));
        parameters.subject_alt_names = vec![SanType::URI("floe:alice".try_into().unwrap())];
        stage.authority.sign_with(&format!("number-{number}"), parameters)
    };
    let [seventh, eighth] = [7, 8].map(numbered);
    let is_let_in = |pair: &Pair| stage.floe(&["ps"], Some(pair), None).status.success();
    assert!(!is_let_in(&seventh) && is_let_in(&eighth));
    let refused = stage.floe(&["ps"], Some(&seventh), None);
    assert!(words(&refused).contains("this client's certificate: it was revoked"), "{}", words(&refused));
    std::fs::write(&stage.revoked, stage.authority.revokes(&[8], true)).unwrap();
    stage.reload("certificates read again");
    assert!(is_let_in(&seventh) && !is_let_in(&eighth));
    // Of two lists of one authority only one would count: they are not taken, and the one before stays.
    let both = stage.authority.revokes(&[], true) + &stage.authority.revokes(&[7], true);
    std::fs::write(&stage.revoked, both).unwrap();
    stage.reload("are of one authority");
    assert!(is_let_in(&seventh) && !is_let_in(&eighth));
    std::fs::write(&stage.revoked, "no list").unwrap();
    stage.reload("the certificates stay as they were");
    assert!(is_let_in(&seventh) && !is_let_in(&eighth));
    std::fs::write(&stage.revoked, stage.authority.revokes(&[], false)).unwrap();
    stage.reload("certificates read again");
    assert!(!is_let_in(&seventh) && !is_let_in(&eighth));
}
