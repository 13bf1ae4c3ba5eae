//! A relay forwards all bytes in order, both ways, over many connections, and the end of each. The shortest round trip
//! shows its delay; a benchmark measures the precision.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use floe_emulation::{Network, Relay};
use floe_transport::Address;

/// Far longer than any step here takes.
const PATIENCE: Duration = Duration::from_secs(300);

/// Echoes the bytes of every connection until its peer ends.
fn echo(mut peer: impl Read + Write) {
    let mut bytes = vec![0; 100_000];
    while let Ok(count @ 1..) = peer.read(&mut bytes) {
        if peer.write_all(&bytes[..count]).is_err() {
            return;
        }
    }
}

fn echo_server() -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for peer in listener.incoming() {
            let peer = peer.unwrap();
            std::thread::spawn(move || echo(peer));
        }
    });
    Address::Tcp { host: address.ip().to_string(), port: address.port() }
}

fn pattern(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|index| u8::try_from((index * 31 + seed * 7) % 251).unwrap()).collect()
}

/// Sends `bytes` and reads them back, then the end.
fn round(relay: &Relay, bytes: &[u8]) -> Vec<u8> {
    let stream = TcpStream::connect(relay.address()).unwrap();
    // A limit for bytes that a failed direction or relay never sends.
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    let mut sending = stream.try_clone().unwrap();
    let mut back = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            sending.write_all(bytes).unwrap();
            sending.shutdown(Shutdown::Write).unwrap();
        });
        (&stream).read_to_end(&mut back).unwrap();
    });
    back
}

#[test]
fn every_byte_comes_back_in_order_over_many_connections() {
    let network = Network { round_trip: Some(Duration::from_micros(300)), bytes_per_second: Some(1e9) };
    let relay = Relay::start(network, echo_server()).unwrap();
    std::thread::scope(|scope| {
        for seed in 0..6 {
            let relay = &relay;
            scope.spawn(move || {
                let sent = pattern(700_000 + seed, seed);
                assert!(round(relay, &sent) == sent, "connection {seed}");
            });
        }
    });
}

#[test]
fn a_round_trip_takes_at_least_what_is_asked_for() {
    let asked = Duration::from_millis(20);
    let network = Network { round_trip: Some(asked), bytes_per_second: None };
    let relay = Relay::start(network, echo_server()).unwrap();
    let begun = Instant::now();
    assert_eq!(round(&relay, b"there and back"), b"there and back");
    assert!(begun.elapsed() >= asked.saturating_sub(relay.own()));
}

#[test]
fn a_round_trip_too_short_to_emulate_is_warned_about() {
    let warning = |round_trip| {
        let network = Network { round_trip, bytes_per_second: None };
        Relay::start(network, echo_server()).unwrap().warning()
    };
    assert!(warning(Some(Duration::ZERO)).is_some_and(|words| words.starts_with("no shorter round trip can be")));
    assert_eq!([None, Some(Duration::from_secs(10))].map(warning), [None, None]);
}

#[test]
fn a_server_on_a_unix_socket_is_reached_too() {
    let folder = std::env::temp_dir().join(format!("floe-relay-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("echo");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || echo(listener.accept().unwrap().0));
    let relay = Relay::start(Network::default(), Address::unix(path)).unwrap();
    assert_eq!(round(&relay, b"hello"), b"hello");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_server_that_is_not_there_closes_the_connection() {
    // A port that was free a moment ago could be somebody's by now.
    let server = Address::unix(std::env::temp_dir().join(format!("floe-relay-{}-nobody", std::process::id())));
    let relay = Relay::start(Network::default(), server).unwrap();
    let mut stream = TcpStream::connect(relay.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let read = stream.read(&mut [0; 1]);
    assert!(!matches!(&read, Ok(1..)) && !read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock));
}
