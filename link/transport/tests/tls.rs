//! TLS: what is sealed arrives whole, and nobody gets in or listens who should not.
//! Certificates are made for each test; the server answers as the daemon does.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod authority;
mod limit;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use authority::Authority;
use floe_transport::{
    Address, Answering, ClientTls, Identity, Link, LinkError, Listener, Protection, Sealer, Secret, Sender, ServerTls,
    Side, TlsError, Trust, connect,
};
use floe_wire::{CopyToDevice, Decode as _, DevicePtr, Message as _, StreamId};
use limit::Limit;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(300);

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

fn only(tls: &ServerTls) -> Answering<'_> {
    Answering { tls: Some(tls), tls_only: true, secret: None }
}

fn deadline() -> Instant {
    Instant::now() + PATIENCE
}

/// The outcomes of a client that connects and of the server that answers it.
fn meet(
    client: impl FnOnce(u16) -> Result<Link, LinkError> + Send,
    server: Option<&ServerTls>,
    must: bool,
) -> (Result<Link, LinkError>, Result<Link, LinkError>) {
    let (listener, port) = listener();
    std::thread::scope(|scope| {
        let answered = scope
            .spawn(|| accept(&listener).answer(&Answering { tls: server, tls_only: must, secret: None }, deadline()));
        (client(port), answered.join().unwrap())
    })
}

fn tls_to(host: &'static str, tls: &ClientTls) -> impl FnOnce(u16) -> Result<Link, LinkError> + Send {
    move |port| connect(&Address::Tls { host: host.into(), port }, PATIENCE, &Trust { tls: Some(tls), secret: None })
}

/// A client without TLS that says something at once, as all do.
fn plain(port: u16) -> Result<Link, LinkError> {
    let mut link = connect(&Address::Clear { host: "127.0.0.1".into(), port }, PATIENCE, &Trust::default())?;
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
    // After wrong bytes nobody reads the rest.
    from.limit_writes(Some(PATIENCE)).unwrap();
    std::thread::scope(|scope| {
        let received = scope.spawn(|| receive(to));
        from.send(&message(bytes)).unwrap();
        received.join().unwrap()
    })
}

/// Two links over TLS.
fn by_tls() -> (Link, Link) {
    let authority = Authority::new();
    let (ours, theirs) = meet(tls_to("localhost", &authority.client()), Some(&authority.server()), true);
    let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
    assert_eq!([ours.sealer(), theirs.sealer()], [Sealer::Process; 2]);
    (ours, theirs)
}

#[test]
fn messages_of_every_size_arrive_whole_in_both_directions() {
    let (client, server) = by_tls();
    messages_arrive_whole(client, server);
}

fn messages_arrive_whole(mut client: Link, mut server: Link) {
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
    let (client, server) = by_tls();
    let (sent, ends) = (pattern(1 << 20), [client.split(), server.split()]);
    let senders = ends.each_ref().map(|(sender, _)| sender.clone());
    let limit = Limit::new(move || senders.iter().for_each(Sender::close));
    std::thread::scope(|scope| {
        for (sender, mut receiver) in ends {
            let (sent, [sending, receiving]) = (&sent, [(); 2].map(|()| limit.clone()));
            scope.spawn(move || {
                let _limit = sending;
                for _ in 0..20 {
                    sender.send(&message(sent), |_| ()).unwrap();
                }
            });
            scope.spawn(move || {
                let _limit = receiving;
                for _ in 0..20 {
                    let frame = receiver.next().unwrap().unwrap();
                    assert!(CopyToDevice::decode(frame.payload).unwrap().bytes == &sent[..]);
                }
            });
        }
    });
}

#[test]
fn the_servers_end_is_handed_on() {
    let (mut client, mut server) = by_tls();
    assert_eq!(carry(&mut client, &mut server, b"to the daemon"), b"to the daemon");
    messages_arrive_whole(client, Link::resume(server.into_parts().unwrap()).unwrap());
}

/// A client that is TLS and nothing else.
fn bare_client(authority: &Authority, port: u16) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.file()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config.with_no_client_auth()), name).unwrap();
    StreamOwned::new(connection, TcpStream::connect(("127.0.0.1", port)).unwrap())
}

/// The bytes of frames with these messages.
fn frames(messages: &[&[u8]]) -> Vec<Vec<u8>> {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let mut link = Link::new(ours.into());
    let frame = |bytes: &&[u8]| {
        link.send(&message(bytes)).unwrap();
        let mut frame = vec![0; 1000];
        let count = theirs.read(&mut frame).unwrap();
        frame[..count].to_vec()
    };
    messages.iter().map(frame).collect()
}

#[test]
fn keys_that_change_are_followed() {
    let authority = Authority::new();
    let server_tls = authority.server();
    let (listener, port) = listener();
    let frames = frames(&[b"before", b"behind"]);
    let mut client = bare_client(&authority, port);
    let mut server = std::thread::scope(|scope| {
        let answered = scope.spawn(|| accept(&listener).answer(&only(&server_tls), deadline()).unwrap());
        client.write_all(&frames[0]).unwrap();
        answered.join().unwrap()
    });
    client.conn.refresh_traffic_keys().unwrap();
    client.write_all(&frames[1]).unwrap();
    assert_eq!(receive(&mut server), b"before");
    assert_eq!(receive(&mut server), b"behind");
}

#[test]
fn a_chain_of_certificates_longer_than_one_read_is_taken() {
    let authority = Authority::new();
    let identity = authority.identity("localhost");
    let mut chain = std::fs::read(&identity.certificate).unwrap();
    for _ in 0..30 {
        chain.extend(std::fs::read(authority.file()).unwrap());
    }
    std::fs::write(&identity.certificate, chain).unwrap();
    let (tls, server_tls) = (authority.client(), ServerTls::new(&identity, None).unwrap());
    let (client, server) = meet(tls_to("localhost", &tls), Some(&server_tls), true);
    assert_eq!(carry(&mut client.unwrap(), &mut server.unwrap(), b"hello"), b"hello");
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
    // One that is closed at once has not read the server's tickets, so that the system resets it, and what was sent
    // with it.
    let mut client = client.unwrap();
    client.send(&message(b"hello")).unwrap();
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
    let answered = accept(&listener).answer(&Answering::default(), Instant::now() + Duration::from_millis(50));
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
        let answered = scope.spawn(|| accept(&listener).answer(&only(&server_tls), deadline()).unwrap());
        let mut client = tls_to("localhost", &tls)(through).unwrap();
        client.limit_writes(Some(PATIENCE)).unwrap();
        // The server may end it before everything is written.
        let _ = client.send(&message(&pattern(1 << 20)));
        answered.join().unwrap()
    });
    let received = server.receive(Some(deadline()));
    assert!(!matches!(received, Ok(Some(_))), "a changed message came through");
}

#[test]
fn both_ends_share_a_binding_that_no_other_connection_has() {
    let authority = Authority::new();
    let (tls, server_tls) = (authority.client(), authority.server());
    let protections = [(); 2].map(|()| {
        let (ours, theirs) = meet(tls_to("localhost", &tls), Some(&server_tls), true);
        let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
        assert!(matches!(ours.protection(), Protection::Tls(_)));
        assert_eq!(ours.protection(), theirs.protection());
        *ours.protection()
    });
    assert_ne!(protections[0], protections[1], "two connections of the same client to the same server");
}

#[test]
fn proofs_that_are_relayed_from_tls_to_tls_are_worth_nothing_at_either_end() {
    let authority = Authority::new();
    // The relay shows the client the server's very certificate.
    let (tls, server_tls) = (authority.client(), authority.server());
    let by_tls = || {
        let (ours, theirs) = meet(tls_to("localhost", &tls), Some(&server_tls), true);
        (ours.unwrap(), theirs.unwrap())
    };
    let ((client, near), (far, server)) = (by_tls(), by_tls());
    let (secret, ours, theirs) = (Secret::of("token"), b"the client's nonce", b"the server's nonce");
    let proof = |side, link: &Link| secret.proof(side, link.protection(), theirs, ours);
    let proves = |side, link: &Link, proof: &[u8]| secret.proves(side, link.protection(), theirs, ours, proof);
    let (of_client, of_server) = (proof(Side::Client, &client), proof(Side::Server, &server));
    assert!(proves(Side::Client, &near, &of_client) && proves(Side::Server, &far, &of_server), "straight");
    assert!(!proves(Side::Client, &server, &of_client), "the client's at the server");
    assert!(!proves(Side::Server, &client, &of_server), "the server's at the client");
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

#[test]
fn the_last_messages_of_a_peer_that_leaves_arrive() {
    let (mut bad, rounds) = (0, 60);
    for _ in 0..rounds {
        let (mut client, mut server) = by_tls();
        let reader = std::thread::spawn(move || {
            let mut got = 0;
            while let Ok(Some(frame)) = server.receive(Some(deadline())) {
                assert_eq!(frame.kind, CopyToDevice::KIND);
                got += 1;
            }
            got
        });
        for _ in 0..5 {
            client.send(&message(&pattern(1000))).unwrap();
        }
        client.send(&message(&pattern(200_000))).unwrap();
        drop(client);
        let got = reader.join().unwrap();
        if got != 6 {
            bad += 1;
            println!("{got} of 6 messages arrived");
        }
    }
    assert_eq!(bad, 0, "of {rounds} peers lost their last messages");
}
