//! The cost of sealing by the token, compared with TLS and a self-made certificate: handshakes and bytes over loopback.
//! In: nothing. Out: a table on stdout. It has no limits, so it runs only on request.
#![allow(clippy::unwrap_used, clippy::cast_precision_loss, reason = "figures for people")]

mod authority;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use authority::Authority;
use floe_transport::{Address, Answering, ClientTls, Identity, Link, Secret, ServerTls, Trust, connect};
use floe_wire::{CopyToDevice, DevicePtr, StreamId};

const PATIENCE: Duration = Duration::from_secs(60);
const HANDSHAKES: usize = 200;
const MESSAGE: usize = 1 << 20;
const MESSAGES: usize = 512;
const SMALL: usize = 20_000;

/// The secret that both sides know.
struct Means {
    secret: Secret,
    tls: ClientTls,
    server_tls: ServerTls,
}

impl Means {
    fn new() -> Self {
        let authority = Authority::new();
        let [certificate, key] = authority.sign("localhost");
        let tls = ClientTls::new(&authority.file(), None).unwrap();
        let server_tls = ServerTls::new(&Identity { certificate, key }, None).unwrap();
        Self { secret: Secret::of("token"), tls, server_tls }
    }

    fn client(&self, scheme: &str, port: u16) -> Link {
        let address: Address = format!("{scheme}://localhost:{port}").parse().unwrap();
        connect(&address, PATIENCE, &Trust { tls: Some(&self.tls), secret: Some(&self.secret) }).unwrap()
    }

    fn server(&self, stream: TcpStream) -> Link {
        stream.set_nodelay(true).unwrap();
        let by = Answering { tls: Some(&self.server_tls), tls_only: false, secret: Some(&self.secret) };
        // One in the clear says nothing before its first frame.
        Link::new(stream.into()).answer(&by, Instant::now() + PATIENCE).unwrap()
    }
}

fn message(bytes: &[u8]) -> CopyToDevice<'_> {
    CopyToDevice { stream: StreamId(1), to: DevicePtr(1), bytes }
}

/// Seconds of one connection with its handshake and one small message each way.
fn handshake(means: &Means, scheme: &str) -> f64 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..HANDSHAKES {
                let mut server = means.server(listener.accept().unwrap().0);
                server.receive(None).unwrap().unwrap();
                server.send(&message(&[1])).unwrap();
            }
        });
        let begun = Instant::now();
        for _ in 0..HANDSHAKES {
            let mut client = means.client(scheme, port);
            client.send(&message(&[1])).unwrap();
            client.receive(None).unwrap().unwrap();
        }
        begun.elapsed().as_secs_f64() / HANDSHAKES as f64
    })
}

/// Bytes both ways of one connection with one small message each way.
fn bytes(means: &Means, scheme: &str) -> usize {
    let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
    let (near, far, passed) = (listen(), listen(), Arc::new(AtomicUsize::new(0)));
    let port = near.local_addr().unwrap().port();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let to = TcpStream::connect(far.local_addr().unwrap()).unwrap();
            let from = near.accept().unwrap().0;
            for (mut from, mut to) in [(from.try_clone().unwrap(), to.try_clone().unwrap()), (to, from)] {
                let passed = Arc::clone(&passed);
                std::thread::spawn(move || {
                    let mut bytes = vec![0; 64 << 10];
                    while let Ok(count @ 1..) = from.read(&mut bytes) {
                        passed.fetch_add(count, Ordering::SeqCst);
                        to.write_all(&bytes[..count]).unwrap();
                    }
                    let _ = to.shutdown(Shutdown::Both);
                });
            }
        });
        let server = scope.spawn(|| {
            let mut server = means.server(far.accept().unwrap().0);
            server.receive(None).unwrap().unwrap();
            server.send(&message(&[1])).unwrap();
            server
        });
        let mut client = means.client(scheme, port);
        client.send(&message(&[1])).unwrap();
        client.receive(None).unwrap().unwrap();
        drop(server.join().unwrap());
    });
    passed.load(Ordering::SeqCst)
}

/// Bytes per second one way, and seconds of a small message there and back.
fn rates(means: &Means, scheme: &str) -> (f64, f64) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let data = vec![7; MESSAGE];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (sender, mut receiver) = means.server(listener.accept().unwrap().0).split();
            for number in 0..=MESSAGES + SMALL {
                receiver.next().unwrap().unwrap();
                if number >= MESSAGES {
                    sender.send(&message(&[1]), |_| ()).unwrap();
                }
            }
        });
        let (sender, mut receiver) = means.client(scheme, port).split();
        let begun = Instant::now();
        for _ in 0..MESSAGES {
            sender.send(&message(&data), |_| ()).unwrap();
        }
        sender.send(&message(&[1]), |_| ()).unwrap();
        receiver.next().unwrap().unwrap();
        let rate = (MESSAGES * MESSAGE) as f64 / begun.elapsed().as_secs_f64();
        let begun = Instant::now();
        for _ in 0..SMALL {
            sender.send(&message(&[1]), |_| ()).unwrap();
            receiver.next().unwrap().unwrap();
        }
        (rate, begun.elapsed().as_secs_f64() / SMALL as f64)
    })
}

#[test]
#[ignore = "it measures"]
fn what_sealing_costs() {
    let means = Means::new();
    println!("{:6} {:>14} {:>8} {:>10} {:>12}", "", "handshake", "bytes", "GB/s", "there, back");
    for scheme in ["clear", "tcp", "tls"] {
        let handshake = handshake(&means, scheme) * 1e6;
        let bytes = bytes(&means, scheme);
        let (rate, small) = rates(&means, scheme);
        println!("{scheme:6} {handshake:11.0} µs {bytes:8} {:10.2} {:9.1} µs", rate / 1e9, small * 1e6);
    }
}
