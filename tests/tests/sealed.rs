//! Programs reach servers sealed by a token, and peers that do not know it learn nothing from either side. In: forged
//! servers, wrong schemes, men in the middle, proxies of the Unix socket. Out: refusals by name.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../link/transport/tests/authority/mod.rs"]
mod authority;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use authority::Authority;
use floe_tests::{Floed, installation};
use floe_transport::{Address, Answering, ClientTls, Identity, Link, ServerTls, Trust};
use floe_wire::*;

/// For what a busy machine may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// `floe`, with these variables and no token but the one they name.
fn floe(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let nobody = tempfile::tempdir().unwrap();
    Command::new(installation().join("bin/floe"))
        .args(arguments)
        .env("XDG_CONFIG_HOME", nobody.path())
        .env_remove("FLOE_TOKEN")
        .env_remove("FLOE_TOKEN_FILE")
        .envs(environment.iter().copied())
        .output()
        .unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a CUDA program there.
fn demo(server: &str, environment: &[(&str, &str)]) -> Output {
    let program = installation().join("bin/floe-demo");
    floe(&["run", "--on", &format!("{server}:0"), "--", program.to_str().unwrap()], environment)
}

fn token_of(daemon: &Floed) -> String {
    std::fs::read_to_string(daemon.token_file()).unwrap().trim().to_owned()
}

/// Its address with another scheme.
fn by(daemon: &Floed, scheme: &str) -> String {
    daemon.tcp().replacen("tcp", scheme, 1)
}

#[track_caller]
fn refused(output: &Output, words: &[&str]) {
    let said = errors(output);
    assert!(!output.status.success(), "it was let in: {said}");
    assert!(words.iter().all(|word| said.contains(word)), "{words:?}: {said}");
}

#[track_caller]
fn passed(output: &Output) {
    assert!(output.status.success(), "{}", errors(output));
}

#[test]
fn with_a_token_tcp_is_sealed_and_clear_text_is_refused_unless_both_sides_say_so() {
    let daemon = Floed::start();
    let token = token_of(&daemon);
    let known = [("FLOE_TOKEN", token.as_str())];
    passed(&demo(daemon.tcp(), &known));
    refused(&demo(&by(&daemon, "clear"), &known), &["takes no clear text", "--clear-text"]);
    refused(&demo(daemon.tcp(), &[]), &["copy its token file to the client"]);
    refused(&demo(daemon.tcp(), &[("FLOE_TOKEN", "another")]), &["refused the token"]);
    daemon.wait_for_workers(0);

    let open = Floed::start_with(&["--clear-text"], &[]);
    let token = token_of(&open);
    let known = [("FLOE_TOKEN", token.as_str())];
    passed(&demo(open.tcp(), &known));
    passed(&demo(&by(&open, "clear"), &known));
    refused(&demo(&by(&open, "clear"), &[("FLOE_TOKEN", "another")]), &["token"]);
    refused(&demo(&by(&open, "clear"), &[]), &["FLOE_TOKEN_FILE"]);
}

#[test]
fn a_server_without_a_token_serves_clients_without_one_or_that_accept_it() {
    let daemon = Floed::start_with(&["--no-token"], &[]);
    passed(&demo(daemon.tcp(), &[]));
    passed(&demo(&by(&daemon, "clear"), &[]));
    passed(&demo(daemon.tcp(), &[("FLOE_TOKEN", "of another server"), ("FLOE_NO_TOKEN", "1")]));
    refused(&demo(daemon.tcp(), &[("FLOE_TOKEN", "of another server")]), &["knows no token", "FLOE_NO_TOKEN"]);
    refused(&demo(&by(&daemon, "clear"), &[("FLOE_TOKEN", "of another server")]), &["no proof", "FLOE_NO_TOKEN"]);
}

#[test]
fn nothing_of_a_sealed_session_is_seen_on_the_way() {
    let daemon = Floed::start();
    let (heard, wire) = (Arc::new(Mutex::new(Vec::new())), TcpListener::bind("127.0.0.1:0").unwrap());
    let listening = format!("//{}", wire.local_addr().unwrap());
    let (server, hearing) = (daemon.tcp().replacen("tcp://", "", 1), Arc::clone(&heard));
    std::thread::spawn(move || {
        for near in wire.incoming() {
            let (near, far) = (near.unwrap(), TcpStream::connect(&server).unwrap());
            for (from, to) in [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)] {
                let heard = Arc::clone(&hearing);
                std::thread::spawn(move || overhear(from, to, &heard));
            }
        }
    });
    let known = token_of(&daemon);
    passed(&demo(&format!("tcp:{listening}"), &[("FLOE_TOKEN", &known)]));
    let heard = heard.lock().unwrap();
    assert!(heard.len() > 1 << 20, "the program's data went here: {} bytes", heard.len());
    // Words of a session in the clear: the client, the server, the program, its code.
    for word in ["floed", "floe-demo", "floe CPU device", ".visible .entry", known.as_str()] {
        assert!(!heard.windows(word.len()).any(|seen| seen == word.as_bytes()), "{word} is seen");
    }
}

/// Passes bytes on and keeps them.
fn overhear(mut from: TcpStream, mut to: TcpStream, heard: &Mutex<Vec<u8>>) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        heard.lock().unwrap().extend_from_slice(&bytes[..count]);
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// The proof of a server that does not know the token, given the client's own proof.
type Claim = fn(&[u8]) -> Vec<u8>;

/// A server that knows no token, and asks for one where it has something to claim; how often it was asked for something
/// behind that.
fn forged(
    listener: TcpListener,
    connections: usize,
    tls: Option<ServerTls>,
    claim: Option<Claim>,
) -> JoinHandle<usize> {
    std::thread::spawn(move || {
        let mut asked = 0;
        for _ in 0..connections {
            let link = Link::new(listener.accept().unwrap().0.into());
            let by = Answering { tls: tls.as_ref(), ..Answering::default() };
            let Ok(mut link) = link.answer(&by, Instant::now() + PATIENCE) else { continue };
            while let Ok(Some(frame)) = link.receive(Some(Instant::now() + PATIENCE)) {
                let request = frame.sequence;
                let mut body = Vec::new();
                match (Request::decode(frame.kind, frame.payload).unwrap(), claim) {
                    (Request::Hello(_), _) => {
                        let (server, authenticate) = ("floed", claim.is_some());
                        HelloReply { version: NEWEST_VERSION, server, authenticate, nonce: &[1; 32] }.write(&mut body);
                    }
                    (Request::Authenticate(message), Some(claim)) => {
                        AuthenticateReply { proof: &claim(message.proof) }.write(&mut body);
                    }
                    _ => {
                        asked += 1;
                        break;
                    }
                }
                if link.send(&Reply { request, status: 0, earlier: 0, detail: "", body: &body }).is_err() {
                    break;
                }
            }
        }
        asked
    })
}

#[test]
fn a_forged_server_that_asks_for_no_proof_learns_nothing() {
    let authority = Authority::new();
    let trusted = authority.file();
    let [certificate, key] = authority.sign("localhost");
    let tls = ServerTls::new(&Identity { certificate, key }, None).unwrap();
    let known = [("FLOE_TOKEN", "of the real server"), ("FLOE_TLS_AUTHORITIES", trusted.to_str().unwrap())];
    for (scheme, words) in [("tcp", "knows no token"), ("clear", "asks for no proof"), ("tls", "asks for no proof")] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("{scheme}://localhost:{}", listener.local_addr().unwrap().port());
        let forged = forged(listener, 2, Some(tls.clone()), None);
        refused(&floe(&["gpus", "--on", &server], &known), &[words]);
        refused(&demo(&server, &known), &[words]);
        assert_eq!(forged.join().unwrap(), 0, "{scheme}: it was asked for something");
    }
}

#[test]
fn a_forged_server_whose_proof_is_wrong_or_empty_learns_nothing() {
    let authority = Authority::new();
    let trusted = authority.file();
    let [certificate, key] = authority.sign("localhost");
    let tls = ServerTls::new(&Identity { certificate, key }, None).unwrap();
    let known = [("FLOE_TOKEN", "of the real server"), ("FLOE_TLS_AUTHORITIES", trusted.to_str().unwrap())];
    let program = installation().join("bin/floe-demo").display().to_string();
    let claims: [(&str, Claim); 3] =
        [("nothing", |_| Vec::new()), ("zeros", |_| vec![0; 32]), ("the client's own", <[u8]>::to_vec)];
    for (scheme, (name, claim)) in ["clear", "tls"].into_iter().flat_map(|scheme| claims.map(|claim| (scheme, claim))) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("{scheme}://localhost:{}", listener.local_addr().unwrap().port());
        let forged = forged(listener, 2, Some(tls.clone()), Some(claim));
        // The command asks first what is there; a program that does without that asks for its GPU.
        for arguments in
            [&["gpus", "--on", &server][..], &["run", "--no-check", "--on", &format!("{server}:0"), "--", &program]]
        {
            refused(&floe(arguments, &known), &["does not prove that it knows the token"]);
        }
        assert_eq!(forged.join().unwrap(), 0, "{scheme}, {name}: it was asked for something");
    }
}

/// A server with a certificate that clients trust and without the token: it passes what it is asked on to the real one.
fn relay_proofs(mut real: Link, own: &Identity) -> (String, JoinHandle<Vec<u32>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tls://localhost:{}", listener.local_addr().unwrap().port());
    let tls = ServerTls::new(own, None).unwrap();
    let relaying = std::thread::spawn(move || {
        let victim = Link::new(listener.accept().unwrap().0.into());
        let by = Answering { tls: Some(&tls), tls_only: true, secret: None };
        let mut victim = victim.answer(&by, Instant::now() + PATIENCE).unwrap();
        let mut statuses = Vec::new();
        while let Ok(Some(frame)) = victim.receive(Some(Instant::now() + PATIENCE)) {
            let (kind, payload, request) = (frame.kind, frame.payload.to_vec(), frame.sequence);
            match Request::decode(kind, &payload).unwrap() {
                Request::Hello(hello) => real.send(&hello).unwrap(),
                Request::Authenticate(proof) => real.send(&proof).unwrap(),
                _ => break,
            };
            let answer = real.receive(Some(Instant::now() + PATIENCE)).unwrap().unwrap();
            let (kind, payload) = (answer.kind, answer.payload.to_vec());
            let Push::Reply(reply) = Push::decode(kind, &payload).unwrap() else { break };
            statuses.push(reply.status);
            victim.send(&Reply { request, ..reply }).unwrap();
        }
        statuses
    });
    (address, relaying)
}

#[test]
fn a_proof_that_is_passed_on_to_another_server_is_worth_nothing_there() {
    let authority = Authority::new();
    let [certificate, key] = authority.sign("localhost");
    let files = [&certificate, &key].map(|path| path.display().to_string());
    // The real one even takes clear text, so that nothing but the proof is in the way, and the relay has its very
    // certificate.
    let daemon = Floed::start_with(&["--clear-text", "--tls-certificate", &files[0], "--tls-key", &files[1]], &[]);
    let own = Identity { certificate, key };
    let (known, trusted) = (token_of(&daemon), authority.file());
    let (tls, host) = (ClientTls::new(&trusted, None).unwrap(), String::from("localhost"));
    let port = daemon.tcp().rsplit_once(':').unwrap().1.parse().unwrap();
    let environment = [("FLOE_TOKEN", known.as_str()), ("FLOE_TLS_AUTHORITIES", trusted.to_str().unwrap())];
    for real in [Address::Clear { host: host.clone(), port }, Address::Tls { host, port }] {
        let real = floe_transport::connect(&real, PATIENCE, &Trust { tls: Some(&tls), secret: None }).unwrap();
        let way = format!("{:?}", real.protection());
        let (address, relaying) = relay_proofs(real, &own);
        refused(&floe(&["gpus", "--on", &address], &environment), &["refused the token"]);
        let answers = relaying.join().unwrap();
        assert_eq!(answers, [0, 800], "the real server's answers to Hello and Authenticate, from {way}");
    }
}

#[test]
fn bytes_changed_on_the_way_never_reach_a_program() {
    let daemon = Floed::start();
    let known = token_of(&daemon);
    let server = daemon.tcp().replacen("tcp://", "", 1);
    // Both ways, at places from the handshake to the data; the session resumes on another connection, which is left
    // alone.
    for (to_server, at) in [(true, 60), (true, 700), (true, 300_000), (false, 60), (false, 700), (false, 100_000)] {
        let wire = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("tcp://{}", wire.local_addr().unwrap());
        let server = server.clone();
        std::thread::spawn(move || {
            let mut is_first = true;
            for near in wire.incoming() {
                let (near, far) = (near.unwrap(), TcpStream::connect(&server).unwrap());
                let first = std::mem::take(&mut is_first);
                let ways = [(near.try_clone().unwrap(), far.try_clone().unwrap(), true), (far, near, false)];
                for (from, to, is_to_server) in ways {
                    let change = (first && is_to_server == to_server).then_some(at);
                    std::thread::spawn(move || pass_changed(from, to, change));
                }
            }
        });
        let output = demo(&address, &[("FLOE_TOKEN", known.as_str())]);
        // Before the session exists, its program fails; later, the session resumes. It is never right by chance.
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &errors(&output);
        assert!(output.status.success() || at < 1000, "{to_server}, {at}: {text}");
        assert!(!text.contains("wrong"), "{to_server}, {at}: {text}");
    }
    daemon.wait_for_workers(0);
}

/// Passes bytes on and changes the one at this place.
fn pass_changed(mut from: TcpStream, mut to: TcpStream, change: Option<usize>) {
    let (mut bytes, mut passed) = (vec![0; 64 << 10], 0);
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if let Some(place) = change.and_then(|at| at.checked_sub(passed)).filter(|place| *place < count) {
            bytes[place] ^= 1;
        }
        passed += count;
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// Passes bytes between a socket of its own and the daemon's, as `socat` or a hypervisor's vsock proxy does for a
/// guest. The kernel names this process as the peer, which runs as the daemon's user.
fn proxy(daemon: &Floed, folder: &Path) -> String {
    let (path, real) = (folder.join("proxy.sock"), daemon.unix().replacen("unix://", "", 1));
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for near in listener.incoming() {
            let (near, far) = (near.unwrap(), UnixStream::connect(&real).unwrap());
            for (mut from, mut to) in [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)] {
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
                });
            }
        }
    });
    format!("unix://{}", path.display())
}

#[test]
fn a_forwarded_unix_socket_is_not_its_owner() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Floed::start();
    let forwarded = proxy(&daemon, folder.path());
    passed(&demo(daemon.unix(), &[]));
    refused(&floe(&["gpus", "--on", &forwarded], &[]), &["asks for a token"]);
    refused(&demo(&forwarded, &[]), &["asks for a token"]);
    refused(&demo(&forwarded, &[("FLOE_TOKEN", "another")]), &["token"]);
    let known = token_of(&daemon);
    passed(&demo(&forwarded, &[("FLOE_TOKEN", known.as_str())]));

    let folder = tempfile::tempdir().unwrap();
    let open = Floed::start_with(&["--trust-forwarded"], &[]);
    passed(&demo(&proxy(&open, folder.path()), &[]));
}

#[test]
fn an_operator_sees_how_sessions_come() {
    let daemon = Floed::start_with(&["--clear-text"], &[]);
    let known = token_of(&daemon);
    for scheme in ["tcp", "clear"] {
        let mut program = Command::new(installation().join("bin/floe"));
        let demo = installation().join("bin/floe-demo");
        let device = format!("{}:0", by(&daemon, scheme));
        program.args(["run", "--on", &device, "--"]).arg(demo).env("FLOE_TOKEN", &known);
        // A program may be over before it has been looked at.
        let shown = (0..50).find_map(|_| {
            let mut program = program.stdout(std::process::Stdio::null()).spawn().unwrap();
            let mut shown = Vec::new();
            while program.try_wait().unwrap().is_none() {
                shown.extend(daemon.transports());
            }
            (!shown.is_empty()).then_some(shown)
        });
        let shown = shown.unwrap();
        // One that is about to end has no connection any more, and one of before may still be in the table.
        assert!(shown.iter().any(|transport| transport.split(',').next() == Some(scheme)), "{scheme}: {shown:?}");
        daemon.wait_for_workers(0);
    }
}
