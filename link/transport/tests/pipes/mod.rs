//! Two links over each kind of pipe, for tests that hold whatever carries the bytes.
//! In: nothing. Out: connected pairs. A new kind of pipe is one line here.
#![allow(dead_code, clippy::unwrap_used, reason = "each test takes what it needs, and may panic")]

mod memory;

use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use floe_transport::{Address, Answering, Link, Rings, Secret, Trust, connect};

/// Makes two links that lead to each other.
pub(crate) type Pair = fn() -> (Link, Link);

/// Every kind of pipe.
pub(crate) const ALL: [(&str, Pair); 5] =
    [("unix", unix), ("tcp", tcp), ("sealed", sealed), ("rings", rings), ("memory", memory)];
/// Those that carry descriptors.
pub(crate) const LOCAL: [(&str, Pair); 3] = [("unix", unix), ("rings", rings), ("memory", memory)];

/// Over a Unix socket.
pub(crate) fn unix() -> (Link, Link) {
    let (one, other) = UnixStream::pair().unwrap();
    (Link::new(one.into()), Link::new(other.into()))
}

/// Over loopback TCP.
pub(crate) fn tcp() -> (Link, Link) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (other, _) = listener.accept().unwrap();
    for stream in [&one, &other] {
        stream.set_nodelay(true).unwrap();
    }
    (Link::new(one.into()), Link::new(other.into()))
}

/// Over loopback TCP, sealed by a token.
pub(crate) fn sealed() -> (Link, Link) {
    let secret = Secret::of("token");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tcp { host: "127.0.0.1".into(), port: listener.local_addr().unwrap().port() };
    let (time, trust) = (Duration::from_secs(60), Trust { tls: None, secret: Some(&secret) });
    std::thread::scope(|scope| {
        let answered = scope.spawn(|| {
            let (stream, _) = listener.accept().unwrap();
            stream.set_nodelay(true).unwrap();
            let by = Answering { secret: Some(&secret), ..Answering::default() };
            Link::new(stream.into()).answer(&by, Instant::now() + time).unwrap()
        });
        let one = connect(&address, time, &trust).unwrap();
        (one, answered.join().unwrap())
    })
}

/// Over rings of 64 KiB, so that everything large goes round many times.
pub(crate) fn rings() -> (Link, Link) {
    let (one, other) = unix();
    let (offered, file) = Rings::offer(64 << 10).unwrap();
    go_over(one, other, offered, &file)
}

/// Over memory of this process, without any socket.
pub(crate) fn memory() -> (Link, Link) {
    let [one, other] = memory::pair();
    (Link::over(Arc::new(one)), Link::over(Arc::new(other)))
}

/// Has both sides go over.
pub(crate) fn go_over(mut one: Link, mut other: Link, offered: Rings, file: &OwnedFd) -> (Link, Link) {
    let taken = Rings::take(file, 64 << 10).unwrap();
    one.go_over(offered).unwrap();
    other.go_over(taken).unwrap();
    (one, other)
}
