//! The port and its peers: those that ask, are silent, slow, many, or send anything.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::*;

/// A source of no figures, whose main loop runs or does not.
#[derive(Debug)]
struct Made {
    tally: Tally,
    pulse: Pulse,
    is_full: AtomicBool,
    shut: std::sync::Mutex<Vec<SocketAddr>>,
    looks: AtomicU32,
}

impl Source for Made {
    fn figures(&self) -> Figures {
        self.looks.fetch_add(1, Ordering::Relaxed);
        Figures::default()
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }

    fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    fn is_shut(&self, address: SocketAddr) {
        self.shut.lock().expect("whole").push(address);
    }

    fn refuses(&self) -> Option<String> {
        self.is_full.load(Ordering::Relaxed).then(|| "full: sessions 1 of 1".to_owned())
    }
}

fn started(limits: Limits) -> (SocketAddr, Arc<Made>) {
    started_on(TcpListener::bind("127.0.0.1:0").expect("a port"), limits)
}

fn started_on(listener: TcpListener, limits: Limits) -> (SocketAddr, Arc<Made>) {
    let pulse = Pulse::new().expect("a descriptor");
    let (tally, is_full, looks) = (Tally::default(), AtomicBool::new(false), AtomicU32::new(0));
    let made = Arc::new(Made { tally, pulse, is_full, shut: std::sync::Mutex::default(), looks });
    let looping = Arc::clone(&made);
    std::thread::spawn(move || {
        loop {
            poll(&mut [PollFd::from_borrowed_fd(looping.pulse.asked(), PollFlags::IN)], None).expect("asked");
            looping.pulse.beat();
        }
    });
    (Port::start(listener, Arc::clone(&made), limits).expect("a thread"), made)
}

/// Limits under which nothing ends by time in a test.
fn patient() -> Limits {
    Limits { time: Duration::from_secs(600), pulse: Duration::from_secs(600), ..Limits::default() }
}

fn connected(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).expect("it listens");
    socket.set_read_timeout(Some(Duration::from_secs(300))).expect("set");
    socket
}

/// All that a connection says until its end. An end by a reset counts as one.
fn rest(mut socket: TcpStream) -> String {
    let mut bytes = Vec::new();
    if let Err(error) = socket.read_to_end(&mut bytes) {
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "it does not end");
    }
    String::from_utf8(bytes).expect("text")
}

fn asked(address: SocketAddr, request: &[u8]) -> String {
    let mut socket = connected(address);
    // A connection may end while it is written to.
    let _ = socket.write_all(request);
    rest(socket)
}

fn got(address: SocketAddr, path: &str) -> String {
    asked(address, format!("GET {path} HTTP/1.1\r\nHost: here\r\n\r\n").as_bytes())
}

#[test]
fn three_paths_answer_and_no_other() {
    let (address, made) = started(patient());
    let page = got(address, "/metrics");
    assert!(page.starts_with(
        "HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"
    ));
    assert!(page.ends_with("# EOF\n"));
    assert!(got(address, "/healthz").ends_with("\r\n\r\nok\n"));
    assert!(got(address, "/readyz?verbose").starts_with("HTTP/1.1 200 "));
    made.is_full.store(true, Ordering::Relaxed);
    let ready = got(address, "/readyz");
    assert!(
        ready.starts_with("HTTP/1.1 503 Service Unavailable\r\n") && ready.ends_with("\r\n\r\nfull: sessions 1 of 1\n")
    );
    assert!(got(address, "/healthz").starts_with("HTTP/1.1 200 "), "a full server is healthy");
    for path in ["/", "/metrics/", "/metrics/../etc/passwd", "//metrics", "http://here/metrics"] {
        assert!(got(address, path).starts_with("HTTP/1.1 404 "), "{path}");
    }
    let head = asked(address, b"HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"));
}

#[test]
fn a_main_loop_that_has_ended_is_neither_healthy_nor_ready() {
    let (address, made) = started(patient());
    made.pulse.end();
    for path in ["/healthz", "/readyz"] {
        assert!(got(address, path).ends_with("\r\n\r\nthe server is ending\n"), "{path}");
    }
    assert!(got(address, "/metrics").starts_with("HTTP/1.1 200 "));
}

#[test]
fn figures_are_read_once_for_many_who_ask() {
    let (address, made) = started(patient());
    let start = Instant::now();
    for _ in 0..200 {
        got(address, "/metrics");
    }
    let most = start.elapsed().as_secs() + 1;
    assert!(u64::from(made.looks.load(Ordering::Relaxed)) <= most);
}

#[test]
fn a_hundred_silent_connections_keep_nobody_out_and_no_more_than_their_share() {
    let (address, _made) = started(patient());
    let silent: Vec<TcpStream> = (0..100).map(|_| connected(address)).collect();
    assert!(got(address, "/metrics").ends_with("# EOF\n"));
    // The one that asked took one of the eight places.
    for socket in silent.into_iter().take(92) {
        assert_eq!(rest(socket), "", "closed for a newer one");
    }
    assert!(got(address, "/healthz").ends_with("ok\n"));
}

#[test]
fn who_sends_a_byte_now_and_then_is_closed_when_its_time_is_up() {
    // Another one is served meanwhile, however slow the machine is.
    let (address, _made) = started(patient());
    let mut part = connected(address);
    part.write_all(b"GET /heal").expect("it takes a part");
    assert!(got(address, "/healthz").ends_with("ok\n"));
    let (address, _made) = started(Limits { time: Duration::from_millis(300), ..Limits::default() });
    let mut slow = connected(address);
    let dripping = slow.try_clone().expect("a descriptor");
    let drip = std::thread::spawn(move || {
        let mut socket = dripping;
        // Until the port has closed it.
        while socket.write_all(b"G").is_ok() {
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    let mut bytes = Vec::new();
    let _ = slow.read_to_end(&mut bytes);
    drip.join().expect("it ends");
    assert_eq!(bytes, b"");
}

#[test]
fn long_heads_garbage_and_other_methods_are_refused_and_the_next_one_is_served() {
    let (address, _made) = started(patient());
    let long = [b"GET /metrics HTTP/1.1\r\nX: ".as_slice(), &[b'x'; 100_000]].concat();
    // The refusal may be lost where the port closes on bytes that it has not read.
    let answer = asked(address, &long);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    assert!(asked(address, &[b'x'; 4096]).starts_with("HTTP/1.1 431 "));
    assert!(asked(address, b"\x16\x03\x01\x02\x00\x01\xff\x00").starts_with("HTTP/1.1 400 "));
    assert!(
        asked(address, b"POST /metrics HTTP/1.1\r\nContent-Length: 9\r\n\r\nname=else").starts_with("HTTP/1.1 405 ")
    );
    let mut state = 1_u64;
    for _ in 0..100 {
        let bytes: Vec<u8> = (0..300)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                state.to_be_bytes()[0]
            })
            .collect();
        let mut socket = connected(address);
        let _ = socket.write_all(&bytes);
        let _ = socket.shutdown(std::net::Shutdown::Write);
        let answer = rest(socket);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    assert!(got(address, "/metrics").ends_with("# EOF\n"));
}

#[test]
fn who_reads_nothing_and_asks_again_and_again_has_one_answer() {
    let (address, _made) = started(patient());
    let mut socket = connected(address);
    for _ in 0..50 {
        let _ = socket.write_all(b"GET /healthz HTTP/1.1\r\n\r\n");
    }
    assert_eq!(rest(socket).matches("HTTP/1.1").count(), 1);
}

#[test]
fn a_port_that_another_holder_shuts_down_answers_who_is_there_and_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let other = listener.try_clone().expect("one more descriptor");
    let (address, made) = started_on(listener, patient());
    // It is accepted before the socket is shut down: a later one has its answer.
    let mut early = connected(address);
    assert!(got(address, "/healthz").ends_with("ok\n"));
    rustix::net::shutdown(&other, rustix::net::Shutdown::Both).expect("shut");
    let begin = Instant::now();
    while made.shut.lock().expect("whole").is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(300), "it says so");
        std::thread::sleep(Duration::from_millis(1));
    }
    early.write_all(b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n").expect("sent");
    assert!(rest(early).ends_with("ok\n"));
    // The thread had the source; the test and the main loop have the others.
    while Arc::strong_count(&made) > 2 {
        assert!(begin.elapsed() < Duration::from_secs(300), "its thread ends");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(*made.shut.lock().expect("whole"), [address], "once");
}
