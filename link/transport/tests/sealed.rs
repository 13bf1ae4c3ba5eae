//! Connections that are sealed by the token: two ends of one process over TCP, strangers, and men in the middle.
//! In: bytes as they are, changed, cut, repeated, put elsewhere. Out: the same frames at the other end, or an end.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use floe_transport::{Address, Answering, Link, LinkError, Listener, Protection, Sealer, Secret, Trust, connect};
use floe_transport::{Opening, Peer, Speech, first_bytes_needed, is_stranger, look};
use floe_transport::{Secrets, ServerKey, TokenNumber};
use floe_wire::{CopyToDevice, Decode as _, DevicePtr, Ended, FrameHeader, Message as _, StreamId};

/// For what a busy machine may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of the first message of either side.
const FIRST: usize = 56;
/// Bytes of a record beside its content.
const BESIDE: usize = 20;

fn deadline() -> Instant {
    Instant::now() + PATIENCE
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

/// A client that knows a token.
fn knowing(token: &str, port: u16) -> Result<Link, LinkError> {
    let secret = Secret::of(token);
    connect(&Address::Tcp { host: "127.0.0.1".into(), port }, PATIENCE, &Trust { tls: None, secret: Some(&secret) })
}

/// A server's end of a connection that begins as it may.
fn answered(link: Link, token: Option<&str>) -> Result<Link, LinkError> {
    let secret = token.map(Secret::of);
    link.answer(&Answering { secret: secret.as_ref().map(|secret| secret as _), ..Answering::default() }, deadline())
}

/// Both ends, when a client and a server know these tokens.
fn meet(client: &str, server: Option<&str>) -> [Result<Link, LinkError>; 2] {
    let (listener, port) = listener();
    std::thread::scope(|scope| {
        let answered = scope.spawn(|| answered(accept(&listener), server));
        [knowing(client, port), answered.join().unwrap()]
    })
}

fn pair() -> (Link, Link) {
    let [client, server] = meet("token", Some("token")).map(Result::unwrap);
    (client, server)
}

fn message(bytes: &[u8]) -> CopyToDevice<'_> {
    CopyToDevice { stream: StreamId(7), to: DevicePtr(99), bytes }
}

/// A message's frame in the clear.
fn frame(bytes: &[u8], sequence: u64) -> Vec<u8> {
    let mut payload = Vec::new();
    message(bytes).encode(&mut payload);
    let length = u32::try_from(payload.len()).unwrap();
    [&FrameHeader { length, kind: CopyToDevice::KIND, sequence }.encode()[..], &payload].concat()
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| u8::try_from((index ^ (index >> 9)) % 251).unwrap()).collect()
}

fn receive(link: &mut Link) -> Result<Vec<u8>, LinkError> {
    let frame = link.receive(Some(deadline()))?.ok_or(LinkError::Closed)?;
    assert_eq!(frame.kind, CopyToDevice::KIND);
    Ok(CopyToDevice::decode(frame.payload).unwrap().bytes.to_vec())
}

#[test]
fn frames_of_all_sizes_pass_both_ways_and_the_channel_is_one() {
    let (mut client, mut server) = pair();
    assert_eq!((client.sealer(), server.sealer()), (Sealer::Token, Sealer::Token));
    assert!(matches!(client.protection(), Protection::Sealed(_)));
    assert_eq!(client.protection(), server.protection());
    assert_ne!(client.protection(), pair().0.protection(), "another connection");
    for bytes in [0, 1, 100, 65_000, 65_536, 65_537, 200_000, 4 << 20] {
        let data = pattern(bytes);
        for turn in 0..2 {
            let (from, to) = if turn == 0 { (&mut client, &mut server) } else { (&mut server, &mut client) };
            std::thread::scope(|scope| {
                let received = scope.spawn(|| receive(to).unwrap());
                from.send(&message(&data)).unwrap();
                assert!(received.join().unwrap() == data, "{bytes} bytes");
            });
        }
    }
}

#[test]
fn what_a_pipe_has_read_ahead_is_known_since_no_wait_under_way_reports_it() {
    let (client, mut server) = pair();
    let (_sender, mut receiver) = client.split();
    let waits = receiver.readiness();
    assert!(!receiver.is_ahead());
    for round in 0..3_u8 {
        server.send(&message(&[round; 1000])).unwrap();
    }
    waits.wait();
    for round in 0..3_u8 {
        let frame = receiver.next().unwrap().unwrap();
        assert_eq!(CopyToDevice::decode(frame.payload).unwrap().bytes, [round; 1000]);
        // The records came together, and each is one frame.
        assert_eq!((receiver.is_ahead(), receiver.has_whole_frame()), (round < 2, false), "{round}");
    }
}

#[test]
fn another_process_goes_on_with_keys_and_counts() {
    let (mut client, mut server) = pair();
    for round in 0..4 {
        client.send(&message(&[round; 70_000])).unwrap();
        assert_eq!(receive(&mut server).unwrap(), [round; 70_000]);
        server.send(&message(&[round; 9])).unwrap();
        assert_eq!(receive(&mut client).unwrap(), [round; 9]);
        server = Link::resume(server.into_parts().unwrap()).unwrap();
    }
    let (sender, mut receiver) = client.split();
    for round in 0..50_u8 {
        sender.send(&message(&[round; 3]), |_| ()).unwrap();
    }
    for round in 0..50_u8 {
        assert_eq!(receive(&mut server).unwrap(), [round; 3]);
        server.send(&message(&[round; 1000])).unwrap();
    }
    for round in 0..50_u8 {
        let frame = receiver.next().unwrap().unwrap();
        assert_eq!(CopyToDevice::decode(frame.payload).unwrap().bytes, [round; 1000]);
    }
}

#[test]
fn a_connection_with_early_bytes_is_not_handed_on() {
    let (client, mut server) = pair();
    let (sender, _receiver) = client.halves();
    // Two frames in one record.
    sender.queue(&message(b"one")).unwrap();
    sender.send(&message(b"two"), |_| ()).unwrap();
    assert_eq!(receive(&mut server).unwrap(), b"one");
    assert!(matches!(server.into_parts().unwrap_err(), LinkError::Speech(_)));
}

#[test]
fn a_wrong_token_is_refused_by_the_first_message_and_said() {
    let [client, server] = meet("one", Some("another"));
    assert!(matches!(server.unwrap_err(), LinkError::Speech("the token is wrong")));
    match client.unwrap_err() {
        LinkError::Unsealed(why) => assert_eq!((why.status, why.detail.as_str()), (800, "the token is wrong")),
        other => panic!("{other}"),
    }
    let [client, _] = meet("one", None);
    assert!(matches!(client.unwrap_err(), LinkError::Unsealed(why) if why.detail.contains("no token")));
}

#[test]
fn first_bytes_prove_the_token_before_anything_is_answered() {
    let (listener, port) = listener();
    std::thread::scope(|scope| {
        let client = scope.spawn(move || knowing("token", port));
        let first = first_bytes(&listener).1;
        assert_eq!((first.len(), first_bytes_needed(&first), Speech::of(&first)), (FIRST, FIRST, Speech::Sealed));
        assert_eq!(Secret::of("token").is_proved_by(&first), Some(true));
        assert_eq!(Secret::of("other").is_proved_by(&first), Some(false));
        for bit in 0..8 * FIRST {
            let mut changed = first.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(Secret::of("token").is_proved_by(&changed), Some(true), "bit {bit}");
        }
        assert_eq!(Secret::of("token").is_proved_by(&first[..FIRST - 1]), Some(false));
        assert_eq!(Secret::of("token").is_proved_by(&[0x16, 3, 1, 0, 4]), None);
        assert!(client.join().unwrap().is_err());
    });
}

/// A client's first bytes, to a peer that never answers.
fn first_bytes(listener: &Listener) -> (TcpStream, Vec<u8>) {
    first_bytes_of(listener, FIRST)
}

fn first_bytes_of(listener: &Listener, bytes: usize) -> (TcpStream, Vec<u8>) {
    let mut stream = TcpStream::from(accept(listener).into_parts().unwrap().socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut first = vec![0; bytes];
    stream.read_exact(&mut first).unwrap();
    (stream, first)
}

#[test]
fn a_stranger_is_known_by_its_first_message_and_others_stay_unread() {
    let (listener, port) = listener();
    std::thread::scope(|scope| {
        let client = scope.spawn(move || knowing("other", port));
        let socket = accept(&listener).into_parts().unwrap().socket;
        let deadline = Instant::now() + PATIENCE;
        while look(&socket).unwrap() != Opening::Whole {
            assert!(Instant::now() < deadline, "nothing comes");
            std::thread::yield_now();
        }
        assert!(!is_stranger(&socket, &Secret::of("other")));
        assert_eq!(look(&socket), Ok(Opening::Whole), "it is still there");
        assert!(is_stranger(&socket, &Secret::of("token")));
        assert_eq!(look(&socket), Ok(Opening::Partly), "it is taken away");
        let peer = Peer::Tcp(([127, 0, 0, 1], port).into());
        let link = Link::accepted(Arc::new(socket), &peer).unwrap();
        assert!(matches!(link.turn_away(), LinkError::Speech("the token is wrong")));
        let told = client.join().unwrap().unwrap_err();
        assert!(matches!(&told, LinkError::Unsealed(why) if why.detail == "the token is wrong"), "{told}");
    });
}

#[test]
fn a_first_message_said_again_gets_no_further_than_an_answer() {
    let (listener, port) = listener();
    let first = std::thread::scope(|scope| {
        scope.spawn(move || knowing("token", port).map(drop));
        first_bytes(&listener).1
    });
    let mut replaying = TcpStream::connect(("127.0.0.1", port)).unwrap();
    replaying.write_all(&first).unwrap();
    let mut server = answered(accept(&listener), Some("token")).unwrap();
    let mut answer = [0; FIRST];
    replaying.read_exact(&mut answer).unwrap();
    // It does not know the keys for its next bytes.
    replaying.write_all(&[&40_u32.to_le_bytes()[..], &[7; 56]].concat()).unwrap();
    assert!(receive(&mut server).is_err());
}

#[test]
fn a_server_without_the_token_is_not_talked_to_whatever_it_answers() {
    let same = |first: &[u8]| first.to_vec();
    let random = |_: &[u8]| [b"floe\x01\x01\0\0".as_slice(), &[0x55; 48]].concat();
    let ended = |_: &[u8]| b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec();
    let nothing = |_: &[u8]| Vec::new();
    for (name, answer) in [
        ("what came", &same as &(dyn Fn(&[u8]) -> Vec<u8> + Sync)),
        ("a made up key", &random),
        ("another protocol", &ended),
        ("nothing", &nothing),
    ] {
        let (listener, port) = listener();
        std::thread::scope(|scope| {
            let client = scope.spawn(move || knowing("token", port));
            let (mut stream, first) = first_bytes(&listener);
            stream.write_all(&answer(&first)).unwrap();
            // A client that has seen enough may be gone already.
            let _ = stream.shutdown(Shutdown::Write);
            let error = client.join().unwrap().unwrap_err();
            let is_expected = matches!(error, LinkError::Unproved | LinkError::Unsealed(_) | LinkError::CutOff { .. });
            assert!(is_expected, "{name}: {error}");
        });
    }
}

#[test]
fn a_server_that_answers_in_the_clear_is_left_with_its_words() {
    let (listener, port) = listener();
    std::thread::scope(|scope| {
        let client = scope.spawn(move || knowing("token", port));
        let (stream, _) = first_bytes(&listener);
        let mut link = Link::new(stream.into());
        link.send(&Ended { status: 1, detail: "a payload of 1701800038 bytes\u{1b}[2J is over the limit" }).unwrap();
        match client.join().unwrap().unwrap_err() {
            LinkError::Unsealed(why) => {
                assert_eq!(
                    (why.status, why.detail.as_str()),
                    (1, "a payload of 1701800038 bytes\u{fffd}[2J is over the limit")
                );
            }
            other => panic!("{other}"),
        }
        // Nothing but the first message was said.
        assert!(link.receive(Some(deadline())).is_ok_and(|frame| frame.is_none()));
    });
}

#[test]
fn without_a_token_nothing_leaves_this_machine_over_tcp() {
    // A documentation address, which answers nobody, tells which of its own this machine would use.
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    let own = socket.connect("192.0.2.1:9").and_then(|()| socket.local_addr()).map(|address| address.ip());
    let Ok(own) = own else { return eprintln!("skipped: this machine has no address but its loopback's") };
    let Ok(server) = TcpListener::bind((own, 0)) else { return eprintln!("skipped: {own} cannot be listened on") };
    let port = server.local_addr().unwrap().port();
    let address = Address::Tcp { host: own.to_string(), port };
    assert!(matches!(connect(&address, PATIENCE, &Trust::default()).unwrap_err(), LinkError::NoToken));
    let mut said = Vec::new();
    server.accept().unwrap().0.read_to_end(&mut said).unwrap();
    assert_eq!(said, []);
    let clear = Address::Clear { host: own.to_string(), port };
    assert_eq!(*connect(&clear, PATIENCE, &Trust::default()).unwrap().protection(), Protection::Clear);
}

/// A man in the middle's change to the sealed bytes of one direction, all of them at once.
type Doing<'a> = dyn Fn(&[u8]) -> Vec<u8> + Sync + 'a;

/// Sends four messages through a man in the middle. Returns how many arrive, and the receiver's error.
fn through(doing: &Doing<'_>) -> (usize, Option<LinkError>) {
    let (near, far) = (TcpListener::bind("127.0.0.1:0").unwrap(), listener());
    let port = near.local_addr().unwrap().port();
    std::thread::scope(|scope| {
        let client = scope.spawn(move || {
            let mut client = knowing("token", port).unwrap();
            for number in 0..4 {
                client.send(&message(&[number; 100])).unwrap();
            }
            client
        });
        scope.spawn(|| {
            let mut client = near.accept().unwrap().0;
            let mut server = TcpStream::connect(("127.0.0.1", far.1)).unwrap();
            let mut first = [0; FIRST];
            client.read_exact(&mut first).unwrap();
            server.write_all(&first).unwrap();
            server.read_exact(&mut first).unwrap();
            client.write_all(&first).unwrap();
            let mut sealed = vec![0; 4 * record()];
            client.read_exact(&mut sealed).unwrap();
            // The server may have closed already.
            let _ = server.write_all(&doing(&sealed));
            let _ = server.shutdown(Shutdown::Write);
            let _ = server.read_to_end(&mut Vec::new());
        });
        let mut server = answered(accept(&far.0), Some("token")).unwrap();
        let mut came = 0;
        let ending = loop {
            match server.receive(Some(deadline())) {
                Ok(Some(frame)) => {
                    let number = u8::try_from(came).unwrap();
                    assert_eq!(CopyToDevice::decode(frame.payload).unwrap().bytes, [number; 100]);
                    came += 1;
                }
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        drop(server);
        client.join().unwrap();
        (came, ending)
    })
}

/// Bytes of the record of one of those messages.
fn record() -> usize {
    frame(&[0; 100], 1).len() + BESIDE
}

#[test]
fn a_connection_ends_at_the_first_byte_that_is_not_the_peers() {
    let at = record();
    assert!(matches!(through(&|sealed| sealed.to_vec()), (4, None)), "left alone");
    let flips: [(usize, usize); 5] = [(0, 0), (3, 0), (at + 4, 1), (2 * at - 1, 1), (3 * at + 50, 3)];
    for (byte, whole) in flips {
        let (came, ending) = through(&|sealed| {
            let mut changed = sealed.to_vec();
            changed[byte] ^= 0x10;
            changed
        });
        assert_eq!(came, whole, "byte {byte} is changed");
        // A length that grew may make the rest one record, which the end cuts off.
        assert!(ending.is_some() || byte < 4, "byte {byte} is changed");
    }
    let in_order = |order: &[usize], sealed: &[u8]| -> Vec<u8> {
        order.iter().flat_map(|record| sealed[record * at..(record + 1) * at].to_vec()).collect()
    };
    for (order, whole) in [(&[1, 0, 2, 3][..], 0), (&[0, 2, 1, 3], 1), (&[0, 0, 1, 2, 3], 1), (&[0, 1, 3], 2)] {
        let (came, ending) = through(&|sealed| in_order(order, sealed));
        assert_eq!(came, whole, "{order:?}");
        assert!(ending.is_some(), "{order:?}");
    }
    assert_eq!(through(&|sealed| sealed[..at + 30].to_vec()).0, 1, "cut in a record");
    let clear = through(&|sealed| [&sealed[..at], &frame(&[9; 100], 2), &frame(&[9; 100], 3)].concat());
    assert!(clear.0 == 1 && clear.1.is_some(), "frames in the clear behind a record");
}

/// The tokens of two users, and the server's own.
#[derive(Debug)]
struct Known(Vec<Secret>);

impl Secrets for Known {
    fn find(&self, number: Option<TokenNumber>) -> Option<Secret> {
        self.0.iter().find(|secret| secret.number() == number).cloned()
    }
}

#[test]
fn a_users_token_is_found_by_its_number_and_seals_as_the_servers_own_does() {
    let key = ServerKey::make().unwrap();
    let tokens = [(); 2].map(|()| key.make_token().unwrap());
    let own = || tokens.iter().map(|token| key.secret(token.number, &token.key).unwrap());
    let known = Known(own().chain([Secret::of("token")]).collect());
    let (listener, port) = listener();
    for (text, number) in
        [(&*tokens[0].text, Some(tokens[0].number)), (&tokens[1].text, Some(tokens[1].number)), ("token", None)]
    {
        std::thread::scope(|scope| {
            let client = scope.spawn(|| knowing(text, port).unwrap());
            let by = Answering { secret: Some(&known), ..Answering::default() };
            let server = accept(&listener).answer(&by, deadline()).unwrap();
            assert_eq!((server.token_number(), server.sealer()), (number, Sealer::Token));
            assert_eq!(server.protection(), client.join().unwrap().protection());
        });
    }
}

#[test]
fn an_unknown_or_changed_number_is_a_strangers_and_no_private_byte_crosses() {
    let key = ServerKey::make().unwrap();
    let token = key.make_token().unwrap();
    let known = Known(vec![key.secret(token.number, &token.key).unwrap()]);
    let (listener, port) = listener();
    let first = std::thread::scope(|scope| {
        scope.spawn(|| knowing(&token.text, port).map(drop));
        first_bytes_of(&listener, FIRST + 8).1
    });
    assert_eq!((first_bytes_needed(&first), Speech::of(&first)), (FIRST + 8, Speech::Sealed));
    assert_eq!(first[8..16], token.number.0);
    let hex: String = first.iter().map(|byte| format!("{byte:02x}")).collect();
    let private = &token.text[token.text.len() - 64..];
    assert!((0..=48).all(|at| !hex.contains(&private[at..at + 16])), "a part of the private key");
    let ask = |bytes: &[u8]| {
        let (mut client, server) = std::os::unix::net::UnixStream::pair().unwrap();
        client.write_all(bytes).unwrap();
        is_stranger(&server, &known)
    };
    assert!(!ask(&first));
    for at in 8..first.len() {
        let mut changed = first.clone();
        changed[at] ^= 1;
        assert!(ask(&changed), "byte {at}");
    }
}
