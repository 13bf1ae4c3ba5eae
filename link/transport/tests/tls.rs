//! TLS: what is sealed arrives whole, and nobody gets in or listens who should not.
//! Certificates are made for each test; the server answers as the daemon does.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod authority;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use authority::Authority;
use floe_transport::{Address, ClientTls, Identity, Link, LinkError, Listener, ServerTls, TlsError, connect};
use floe_wire::{CopyToDevice, Decode as _, DevicePtr, Message as _, StreamId};

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

impl Authority {
    fn identity(&self, name: &str) -> Identity {
        let [certificate, key] = self.sign(name);
        Identity { certificate, key }
    }

    fn server(&self) -> ServerTls {
        ServerTls::new(&self.identity("localhost"), None).unwrap()
    }

    fn client(&self) -> ClientTls {
        ClientTls::new(&self.file(), None).unwrap()
    }
}

fn listener() -> (Listener, u16) {
    let listener = Listener::bind(&"tcp://127.0.0.1:0".parse().unwrap()).unwrap();
    let Address::Tcp { port, .. } = *listener.address() else { unreachable!() };
    (listener, port)
}

fn accept(listener: &Listener) -> Link {
    let begun = Instant::now();
    loop {
        if let Some((link, _)) = listener.accept().unwrap() {
            return link;
        }
        assert!(begun.elapsed() < PATIENCE, "nobody connects");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn deadline() -> Instant {
    Instant::now() + PATIENCE
}

/// What came of a client that connects and of the server that answers it.
fn meet(
    client: impl FnOnce(u16) -> Result<Link, LinkError> + Send,
    server: Option<&ServerTls>,
    must: bool,
) -> (Result<Link, LinkError>, Result<Link, LinkError>) {
    let (listener, port) = listener();
    std::thread::scope(|scope| {
        let answered = scope.spawn(|| accept(&listener).answer(server, must, deadline()));
        (client(port), answered.join().unwrap())
    })
}

fn tls_to(host: &'static str, tls: &ClientTls) -> impl FnOnce(u16) -> Result<Link, LinkError> + Send {
    move |port| connect(&Address::Tls { host: host.into(), port }, PATIENCE, Some(tls))
}

/// A client without TLS that says something at once, as all do.
fn plain(port: u16) -> Result<Link, LinkError> {
    let mut link = connect(&Address::Tcp { host: "127.0.0.1".into(), port }, PATIENCE, None)?;
    link.send(&message(&[1, 2, 3]))?;
    Ok(link)
}

fn message(bytes: &[u8]) -> CopyToDevice<'_> {
    CopyToDevice { stream: StreamId(7), to: DevicePtr(99), bytes }
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| u8::try_from((index ^ (index >> 9)) % 251).unwrap()).collect()
}

/// The next message's bytes.
fn receive(link: &mut Link) -> Vec<u8> {
    let frame = link.receive(Some(deadline())).unwrap().unwrap();
    assert_eq!(frame.kind, CopyToDevice::KIND);
    CopyToDevice::decode(frame.payload).unwrap().bytes.to_vec()
}

/// Sends from one end while the other receives.
fn carry(from: &mut Link, to: &mut Link, bytes: &[u8]) -> Vec<u8> {
    std::thread::scope(|scope| {
        let received = scope.spawn(|| receive(to));
        from.send(&message(bytes)).unwrap();
        received.join().unwrap()
    })
}

#[test]
fn messages_of_every_size_arrive_whole_in_both_directions() {
    let authority = Authority::new();
    let (tls, server_tls) = (authority.client(), authority.server());
    let (client, server) = meet(tls_to("localhost", &tls), Some(&server_tls), true);
    let (mut client, mut server) = (client.unwrap(), server.unwrap());
    for size in [0, 1, 1000, 16 << 10, (16 << 10) + 1, 100_000, 1 << 20, 4 << 20] {
        let sent = pattern(size);
        assert!(carry(&mut client, &mut server, &sent) == sent, "{size} bytes to the server");
        assert!(carry(&mut server, &mut client, &sent) == sent, "{size} bytes to the client");
    }
    drop(client);
    assert!(server.receive(Some(deadline())).unwrap().is_none(), "the end is passed on");
}

#[test]
fn both_directions_at_once() {
    let authority = Authority::new();
    let (tls, server_tls) = (authority.client(), authority.server());
    let (client, server) = meet(tls_to("localhost", &tls), Some(&server_tls), true);
    let (sent, ends) = (pattern(1 << 20), [client.unwrap().split(), server.unwrap().split()]);
    std::thread::scope(|scope| {
        for (sender, mut receiver) in ends {
            let sent = &sent;
            scope.spawn(move || {
                for _ in 0..20 {
                    sender.send(&message(sent), |_| ()).unwrap();
                }
            });
            scope.spawn(move || {
                for _ in 0..20 {
                    let frame = receiver.next().unwrap().unwrap();
                    assert!(CopyToDevice::decode(frame.payload).unwrap().bytes == &sent[..]);
                }
            });
        }
    });
}

#[test]
fn a_server_no_trusted_authority_has_signed_is_refused() {
    let (ours, others) = (Authority::new(), Authority::new());
    let (tls, server_tls) = (ours.client(), others.server());
    let (client, server) = meet(tls_to("localhost", &tls), Some(&server_tls), true);
    assert!(matches!(client.unwrap_err(), LinkError::Tls(_)));
    assert!(matches!(server.unwrap_err(), LinkError::Tls(_)), "it is told why");
}

#[test]
fn a_server_of_another_name_is_refused() {
    let authority = Authority::new();
    let (tls, server_tls) = (authority.client(), authority.server());
    let (client, _) = meet(tls_to("127.0.0.1", &tls), Some(&server_tls), true);
    assert!(matches!(client.unwrap_err(), LinkError::Tls(_)));
}

#[test]
fn a_client_without_the_certificate_that_is_asked_for_is_refused() {
    let (authority, others) = (Authority::new(), Authority::new());
    let server_tls = ServerTls::new(&authority.identity("localhost"), Some(&authority.file())).unwrap();
    let stranger = ClientTls::new(&authority.file(), Some(&others.identity("client"))).unwrap();
    for client in [authority.client(), stranger] {
        let (_, server) = meet(tls_to("localhost", &client), Some(&server_tls), true);
        assert!(matches!(server.unwrap_err(), LinkError::Tls(_)));
    }
    let known = ClientTls::new(&authority.file(), Some(&authority.identity("client"))).unwrap();
    let (client, server) = meet(tls_to("localhost", &known), Some(&server_tls), true);
    client.unwrap().send(&message(b"hello")).unwrap();
    assert_eq!(receive(&mut server.unwrap()), b"hello");
}

#[test]
fn one_port_speaks_both_unless_it_must_be_tls() {
    let authority = Authority::new();
    let server_tls = authority.server();
    let (_client, server) = meet(plain, Some(&server_tls), false);
    assert_eq!(receive(&mut server.unwrap()), [1, 2, 3]);
    let (_client, server) = meet(plain, Some(&server_tls), true);
    assert!(matches!(server.unwrap_err(), LinkError::Speech(_)));
    let tls = authority.client();
    let (client, server) = meet(tls_to("localhost", &tls), None, false);
    assert!(matches!(server.unwrap_err(), LinkError::Speech(_)));
    assert!(client.is_err(), "the server has closed the connection");
}

#[test]
fn a_client_that_says_nothing_is_not_waited_for_for_ever() {
    let (listener, port) = listener();
    let _silent = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let answered = accept(&listener).answer(None, false, Instant::now() + Duration::from_millis(50));
    assert!(matches!(answered.unwrap_err(), LinkError::TimedOut { .. }));
}

/// Passes bytes on and changes one, far behind the handshake.
fn change_one_byte(mut from: TcpStream, mut to: TcpStream) {
    let (mut bytes, mut passed) = (vec![0; 10_000], 0_usize);
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if (passed..passed + count).contains(&500_000) {
            bytes[500_000 - passed] ^= 1;
        }
        passed += count;
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

#[test]
fn a_byte_that_was_changed_on_the_way_ends_the_link() {
    let authority = Authority::new();
    let (tls, server_tls) = (authority.client(), authority.server());
    let (listener, port) = listener();
    let middle = TcpListener::bind("127.0.0.1:0").unwrap();
    let through = middle.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (client, server) = (middle.accept().unwrap().0, TcpStream::connect(("127.0.0.1", port)).unwrap());
        let (back_from, back_to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut &back_from, &mut &back_to));
        change_one_byte(client, server);
    });
    let mut server = std::thread::scope(|scope| {
        let answered = scope.spawn(|| accept(&listener).answer(Some(&server_tls), true, deadline()).unwrap());
        let mut client = tls_to("localhost", &tls)(through).unwrap();
        // The server may end it before everything is written.
        let _ = client.send(&message(&pattern(1 << 20)));
        answered.join().unwrap()
    });
    let received = server.receive(Some(deadline()));
    assert!(!matches!(received, Ok(Some(_))), "a changed message came through");
}

#[test]
fn files_that_will_not_do_are_named() {
    let authority = Authority::new();
    let missing = ClientTls::new(Path::new("/no/such/file.pem"), None).unwrap_err();
    assert!(missing.to_string().contains("/no/such/file.pem"), "{missing}");
    let identity = authority.identity("localhost");
    let swapped = Identity { certificate: identity.key.clone(), key: identity.certificate };
    assert!(matches!(ServerTls::new(&swapped, None).unwrap_err(), TlsError::File { .. }));
    assert!(matches!(Identity::of(Some("a".into()), None).unwrap_err(), TlsError::Half));
    let other = authority.identity("other");
    let mixed = Identity { certificate: other.certificate, key: identity.key };
    assert!(matches!(ServerTls::new(&mixed, None).unwrap_err(), TlsError::Useless(_)));
}
