//! A peer that does everything wrong, and one that does not, over a socket pair.

use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use floe_transport::{Address, Answering, Challenge, HostKey, LinkError, Listener, Sealer, Secret, Transport, Trust};
use floe_wire::{
    AttachReply, Call, ListGpus, ListGpusReply, ListSessions, ListSessionsReply, Push, ReadTelemetryReply, StreamId,
    SynchronizeStream,
};
use floe_worker::contract::Asks;

use super::*;
use crate::entrance::token::Token;
use crate::usage::door::Door;
use crate::usage::request::SessionRequest;
use crate::usage::sessions::tests::{ends, with};
use crate::usage::sessions::{Admission, Table};
use crate::usage::turns::Turns;
use crate::workers::worker_channel::WorkerChannel;

struct OneGpu {
    token: Option<Token>,
    trusts: Option<Peer>,
    trusts_forwarded: bool,
    /// A user that the policy names: every other user of this machine. `None`: there is no policy.
    user: Option<Name>,
    /// A user's token.
    of_users: Option<(Secret, Holder)>,
    key: HostKey,
    sessions: Table,
    door: Mutex<Door>,
}

impl Default for OneGpu {
    fn default() -> Self {
        let door = Mutex::new(Door::new(1, 5, false).expect("made"));
        Self {
            token: None,
            trusts: None,
            trusts_forwarded: false,
            user: None,
            of_users: None,
            key: HostKey::make().expect("random bytes"),
            sessions: Table::default(),
            door,
        }
    }
}

impl Host for OneGpu {
    fn refused(&self, _: &Caller<'_>, _: &str) {}

    fn asks_for_token(&self) -> bool {
        self.token.is_some()
    }

    fn secret(&self, number: Option<TokenNumber>) -> Option<Secret> {
        match number {
            None => self.token.as_ref().map(Token::secret),
            Some(_) => self.of_users.as_ref().filter(|(secret, _)| secret.number() == number).map(|it| it.0.clone()),
        }
    }

    fn holder(&self, number: TokenNumber) -> Option<Holder> {
        self.of_users.as_ref().map(|(_, holder)| *holder).filter(|holder| holder.number == number)
    }

    fn certified(&self, name: &str) -> Result<Name, Refusal> {
        Name::new(name).map_err(|error| Refusal { status: status::NOT_PERMITTED, detail: error.to_string() })
    }

    fn local_user(&self, peer: &Peer) -> Option<Name> {
        self.user.filter(|_| !self.trusts(peer))
    }

    fn has_policy(&self) -> bool {
        self.user.is_some()
    }

    fn trusts(&self, peer: &Peer) -> bool {
        self.trusts.as_ref() == Some(peer)
    }

    fn trusts_forwarded(&self) -> bool {
        self.trusts_forwarded
    }

    fn takes_clear_text(&self) -> bool {
        false
    }

    fn key(&self) -> &HostKey {
        &self.key
    }

    fn gpus(&self, answer: &mut dyn FnMut(ListGpusReply<'_>)) {
        answer(ListGpusReply { gpus: vec![floe_wire::Gpu { name: "the one", ..Default::default() }], nccl: false });
    }

    fn sessions(&self, caller: &Caller<'_>, answer: &mut dyn FnMut(ListSessionsReply<'_>)) {
        answer(ListSessionsReply { sessions: self.sessions.lock().rows(Instant::now(), caller.source) });
    }

    fn telemetry(&self, _: &Caller<'_>, _: &ReadTelemetry<'_>, answer: &mut dyn FnMut(ReadTelemetryReply<'_>)) {
        answer(ReadTelemetryReply::default());
    }

    fn admit(&self, request: &Attach<'_>, caller: &Caller<'_>, sealer: Sealer) -> Result<Admitted, Refusal> {
        if request.gpu != 0 {
            return Err(Refusal { status: 101, detail: "no such GPU".into() });
        }
        let session_request = SessionRequest {
            source: caller.source,
            ..SessionRequest::new(request, caller.peer, sealer, Transport::Socket)
        };
        let (channel, worker_end) = WorkerChannel::new(0).expect("made");
        let (door, conditions) = (Door::new(0, 4, false).expect("made"), with(0));
        let ends = (door, Arc::clone(&channel));
        let terms = (conditions.source, 1, conditions.terms);
        let turn = Turns::default().join(0, terms, None, &channel).expect("nobody else is there");
        let seat = self.sessions.lock().add(session_request, 0, Arc::clone(&conditions), ends, Instant::now());
        let seat = seat.expect("it has no guarantee");
        Ok(Admitted::Session(Admission {
            session: seat.number(),
            row: self.sessions.row(seat),
            channel,
            worker_end,
            gpu: 0,
            granularity: 1,
            window: 0,
            window_bytes: 0,
            asks: Asks::Never,
            key: [7; 16],
            turn,
            conditions,
            lease: None,
        }))
    }

    fn attached<'a>(&'a self, admission: &'a Admission) -> AttachReply<'a> {
        AttachReply { session: admission.session, ..Default::default() }
    }

    fn end(&self, _: &EndSession<'_>, _: &Caller<'_>, _: bool) -> Result<(), Refusal> {
        Err(Refusal { status: status::NOT_PERMITTED, detail: "no".into() })
    }

    fn peer(&self, session: u64, _: bool) -> Result<(), Refusal> {
        let refusal = Refusal { status: status::NOT_PERMITTED, detail: "no".into() };
        if session == 5 { Ok(()) } else { Err(refusal) }
    }

    fn join(&self, request: &Join<'_>) -> Result<(), Refusal> {
        let admits = self.door.lock().expect("no test panics with it").admits(request.key);
        let refusal = Refusal { status: status::NOT_PERMITTED, detail: "no".into() };
        if admits && request.session == 5 { Ok(()) } else { Err(refusal) }
    }
}

/// A client's nonce.
const OURS: &[u8] = b"sixteen bytes or";

type Ending = Result<Outcome, ConversationError>;

/// A connection to a daemon that has one GPU; the thread gives how the conversation ended.
fn connect(token: Option<Token>) -> (Link, UnixStream, JoinHandle<Ending>) {
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let raw = ours.try_clone().expect("duplicated");
    let host = OneGpu { token, ..OneGpu::default() };
    (Link::new(ours.into()), raw, speak_on(theirs, host))
}

fn speak_on(socket: UnixStream, host: OneGpu) -> JoinHandle<Ending> {
    std::thread::spawn(move || {
        lead(&mut Link::new(socket.into()), &Peer::Unix { uid: 1, pid: 1 }, &host, &mut Patience)
    })
}

/// More time than any of these takes.
struct Patience;

impl Time for Patience {
    fn deadline(&self, now: Instant) -> Instant {
        now + Duration::from_secs(300)
    }

    fn prove(&mut self, _: Instant, _: Source) {}
}

fn token() -> Token {
    let folder = tempfile::tempdir().expect("a temporary folder");
    Token::read_or_make(&folder.path().join("token")).expect("made").0
}

/// The daemon's next message: a reply's status and body, or the code that ends the connection.
fn hear(link: &mut Link) -> (u32, Vec<u8>) {
    let frame = link.receive(Some(Instant::now() + Duration::from_secs(300))).expect("a frame").expect("not closed");
    match Push::decode(frame.kind, frame.payload).expect("a message") {
        Push::Reply(reply) => (reply.status, reply.body.to_vec()),
        Push::Ended(ended) => (ended.status, Vec::new()),
        other => panic!("unexpected: {}", other.name()),
    }
}

fn hello() -> Hello<'static> {
    Hello { magic: MAGIC, oldest: OLDEST_VERSION, newest: NEWEST_VERSION, client: "test" }
}

fn ends_refused(daemon: JoinHandle<Ending>) {
    let outcome = daemon.join().expect("the daemon's thread lives");
    assert!(outcome.is_err(), "{outcome:?}");
}

#[test]
fn a_client_of_another_version_is_told_so() {
    for (oldest, newest) in [(0, OLDEST_VERSION - 1), (NEWEST_VERSION + 1, NEWEST_VERSION + 3)] {
        let (mut link, _raw, daemon) = connect(None);
        link.send(&Hello { oldest, newest, ..hello() }).expect("sent");
        assert_eq!(hear(&mut link).0, status::SYSTEM_DRIVER_MISMATCH);
        ends_refused(daemon);
    }
    let (mut link, _raw, _daemon) = connect(None);
    link.send(&Hello { oldest: 0, newest: NEWEST_VERSION + 1, ..hello() }).expect("sent");
    let (status, body) = hear(&mut link);
    assert_eq!((status, Hello::decode_reply(&body).expect("a reply").version), (0, NEWEST_VERSION));
}

#[test]
fn a_server_proves_which_one_it_is_and_refuses_what_is_no_challenge() {
    let host = OneGpu::default();
    let key = *host.key.public();
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let (mut link, _daemon) = (Link::new(ours.into()), speak_on(theirs, host));
    link.send(&hello()).expect("sent");
    assert_eq!(hear(&mut link).0, 0);
    let challenge = Challenge::make().expect("random bytes");
    link.send(&Identify { challenge: challenge.bytes() }).expect("sent");
    let (status, body) = hear(&mut link);
    let reply = Identify::decode_reply(&body).expect("a reply");
    let proven = |uid| challenge.proven(reply.server, reply.proof, link.protection(), &Peer::Unix { uid, pid: 7 });
    assert_eq!((status, proven(1), proven(2)), (0, Some(key), None));
    link.send(&Identify { challenge: &[0; 32] }).expect("sent");
    assert_eq!(hear(&mut link).0, status::INVALID_VALUE);
}

#[test]
fn a_peer_that_does_all_right_gets_its_session() {
    let (mut link, _raw, daemon) = connect(None);
    link.send(&hello()).expect("sent");
    assert_eq!(hear(&mut link).0, 0);
    link.send(&ListGpus {}).expect("sent");
    let (status, body) = hear(&mut link);
    assert_eq!(status, 0);
    assert_eq!(ListGpus::decode_reply(&body).expect("a list").gpus[0].name, "the one");
    link.send(&Attach::default()).expect("sent");
    let (_, body) = hear(&mut link);
    assert_eq!(Attach::decode_reply(&body).expect("attached").session, 1);
    let outcome = daemon.join().expect("the daemon's thread lives");
    assert!(matches!(outcome, Ok(Outcome::Attached(Admission { session: 1, .. }))), "{outcome:?}");
}

#[test]
fn who_is_told_of_a_session_and_reads_no_more_holds_nobody_up() {
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let server_end = theirs.try_clone().expect("duplicated");
    let mut link = Link::new(ours.into());
    let daemon = speak_on(theirs, OneGpu::default());
    link.send(&hello()).expect("sent");
    hear(&mut link);
    link.send(&Attach::default()).expect("sent");
    let outcome = daemon.join().expect("the daemon's thread lives");
    assert!(matches!(outcome, Ok(Outcome::Attached(_))), "{outcome:?}");
    let limit = server_end.write_timeout().expect("known");
    assert_eq!(limit, Some(SILENCE), "the daemon may still have to say that no worker starts");
}

#[test]
fn a_connection_joins_a_session_with_its_key_and_no_other() {
    for (session, is_right, expected) in [(5, true, 0), (5, false, status::NOT_PERMITTED), (6, true, 800)] {
        let host = OneGpu::default();
        let mut key = host.door.lock().expect("alone").key();
        key[15] ^= u8::from(!is_right);
        let (ours, theirs) = UnixStream::pair().expect("a socket pair");
        let mut link = Link::new(ours.into());
        let daemon = speak_on(theirs, host);
        link.send(&hello()).expect("sent");
        hear(&mut link);
        link.send(&Join { session, key: &key }).expect("sent");
        assert_eq!(hear(&mut link).0, expected);
        let outcome = daemon.join().expect("the daemon's thread lives");
        assert_eq!(matches!(outcome, Ok(Outcome::Joined(_))), expected == 0, "{outcome:?}");
    }
}

#[test]
fn a_peer_that_goes_before_it_is_told_has_no_session() {
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let mut link = Link::new(ours.into());
    // All is said before the daemon reads the first word, and nobody is there when it answers the last.
    link.send(&hello()).expect("sent");
    link.send(&Attach::default()).expect("sent");
    let socket = link.into_parts().expect("duplicated").socket;
    rustix::net::shutdown(&socket, rustix::net::Shutdown::Read).expect("shut");
    let host = OneGpu::default();
    let mut daemon = Conversation {
        link: &mut Link::new(theirs.into()),
        peer: &Peer::Unix { uid: 1, pid: 1 },
        host: &host,
        pass: &mut Patience,
        nonce: [0; RANDOM_BYTES],
        stage: Stage::Silent,
        is_known: false,
        local: None,
        certified: None,
        has_token: false,
        holder: None,
    };
    assert!(daemon.step().is_err(), "the answer to Hello cannot be sent");
    assert!(daemon.step().is_err(), "the answer to Attach cannot be sent");
    assert_eq!(host.sessions.lock().count(), 0);
}

#[test]
fn the_right_proof_is_let_in_and_answered() {
    let token = token();
    let (mut link, _raw, _daemon) = connect(Some(token.clone()));
    link.send(&hello()).expect("sent");
    let (_, body) = hear(&mut link);
    let reply = Hello::decode_reply(&body).expect("a reply");
    assert!(reply.authenticate);
    let nonce = reply.nonce.to_vec();
    let secret = token.secret();
    let proof = secret.proof(Side::Client, &Protection::Local, &nonce, OURS);
    link.send(&Authenticate { nonce: OURS, proof: &proof, number: &[] }).expect("sent");
    let (status, body) = hear(&mut link);
    assert_eq!(status, 0);
    let reply = Authenticate::decode_reply(&body).expect("a reply");
    assert!(secret.proves(Side::Server, &Protection::Local, &nonce, OURS, reply.proof));
}

#[test]
fn a_wrong_proof_is_refused() {
    let (mut link, _raw, daemon) = connect(Some(token()));
    link.send(&hello()).expect("sent");
    hear(&mut link);
    link.send(&Authenticate { nonce: OURS, proof: &[0; 32], number: &[] }).expect("sent");
    assert_eq!(hear(&mut link).0, status::NOT_PERMITTED);
    ends_refused(daemon);
}

#[test]
fn a_nonce_of_the_wrong_length_is_refused_also_with_the_right_proof() {
    let token = token();
    for nonce in [&[][..], &[1; 15], &[1; 65]] {
        let (mut link, _raw, daemon) = connect(Some(token.clone()));
        link.send(&hello()).expect("sent");
        let (_, body) = hear(&mut link);
        let theirs = Hello::decode_reply(&body).expect("a reply").nonce.to_vec();
        let proof = token.secret().proof(Side::Client, &Protection::Local, &theirs, nonce);
        link.send(&Authenticate { nonce, proof: &proof, number: &[] }).expect("sent");
        assert_eq!(hear(&mut link).0, status::INVALID_VALUE);
        ends_refused(daemon);
    }
}

#[test]
fn nothing_is_answered_before_the_proof() {
    let (mut link, _raw, daemon) = connect(Some(token()));
    link.send(&hello()).expect("sent");
    hear(&mut link);
    link.send(&ListGpus {}).expect("sent");
    assert_ne!(hear(&mut link).0, 0);
    ends_refused(daemon);
}

#[test]
fn a_proof_for_another_connection_is_refused() {
    let token = token();
    let (mut link, _raw, daemon) = connect(Some(token.clone()));
    link.send(&hello()).expect("sent");
    let (_, body) = hear(&mut link);
    let nonce = Hello::decode_reply(&body).expect("a reply").nonce.to_vec();
    // The bytes that a relay gets from a client that has connected to it by TLS.
    let proof = token.secret().proof(Side::Client, &Protection::Tls([1; 32]), &nonce, OURS);
    link.send(&Authenticate { nonce: OURS, proof: &proof, number: &[] }).expect("sent");
    assert_eq!(hear(&mut link).0, status::NOT_PERMITTED);
    ends_refused(daemon);
}

#[test]
fn an_unknown_version_is_told_which_are_spoken() {
    let (mut link, _raw, daemon) = connect(None);
    link.send(&Hello { oldest: 900, newest: 901, ..hello() }).expect("sent");
    assert_eq!(hear(&mut link).0, status::SYSTEM_DRIVER_MISMATCH);
    ends_refused(daemon);
}

#[test]
fn a_command_of_a_session_is_out_of_turn_here() {
    let (mut link, _raw, daemon) = connect(None);
    link.send(&hello()).expect("sent");
    hear(&mut link);
    link.send(&SynchronizeStream { stream: StreamId(0) }).expect("sent");
    assert_ne!(hear(&mut link).0, 0);
    ends_refused(daemon);
}

#[test]
fn an_unknown_gpu_is_refused() {
    let (mut link, _raw, daemon) = connect(None);
    link.send(&hello()).expect("sent");
    hear(&mut link);
    link.send(&Attach { gpu: 7, ..Default::default() }).expect("sent");
    assert_eq!(hear(&mut link).0, 101);
    ends_refused(daemon);
}

#[test]
fn bytes_that_are_no_frame_end_the_conversation() {
    use std::io::Write as _;
    for garbage in [vec![0xff; 16], vec![0xff; 4096], b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), vec![0; 16]] {
        let (link, mut raw, daemon) = connect(None);
        raw.write_all(&garbage).expect("written");
        raw.shutdown(std::net::Shutdown::Write).expect("shut");
        ends_refused(daemon);
        drop(link);
    }
}

#[test]
fn a_frame_cut_off_ends_the_conversation() {
    use std::io::Write as _;
    let (link, mut raw, daemon) = connect(None);
    raw.write_all(&[40, 0, 0, 0, 1, 0, 0, 0, 1]).expect("written");
    raw.shutdown(std::net::Shutdown::Write).expect("shut");
    ends_refused(daemon);
    drop(link);
}

#[test]
fn a_peer_that_says_nothing_and_goes_is_no_error() {
    let (link, raw, daemon) = connect(None);
    drop((link, raw));
    assert!(matches!(daemon.join().expect("the daemon's thread lives"), Ok(Outcome::Left)));
}

/// Whether a peer that the server trusts by its user is asked for the token.
fn is_asked(host: OneGpu, in_person: bool) -> bool {
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let peer = host.trusts.clone().expect("one");
    let daemon = std::thread::spawn(move || lead(&mut Link::new(theirs.into()), &peer, &host, &mut Patience));
    let mut link = Link::new(ours.into());
    let sent = if in_person { link.send_in_person(&hello()) } else { link.send(&hello()) };
    sent.expect("sent");
    let (_, body) = hear(&mut link);
    let reply = Hello::decode_reply(&body).expect("a reply");
    let (asked, server) = (reply.authenticate, reply.nonce.to_vec());
    link.send(&ListGpus {}).expect("sent");
    assert_eq!(hear(&mut link).0 != 0, asked, "what it may is what it is told");
    drop((link, server));
    let _ = daemon.join().expect("the daemon's thread lives");
    asked
}

#[test]
fn the_sockets_user_counts_only_where_the_peer_shows_its_own_process() {
    let pid = i32::try_from(std::process::id()).expect("a process id");
    let host = |pid, trusts_forwarded| {
        let trusts = Some(Peer::Unix { uid: 0, pid });
        OneGpu { token: Some(token()), trusts, trusts_forwarded, ..OneGpu::default() }
    };
    assert!(!is_asked(host(pid, false), true));
    assert!(is_asked(host(pid, false), false), "bytes that were passed on");
    assert!(is_asked(host(1, false), true), "passed on with the descriptor of another process");
    assert!(!is_asked(host(pid, true), false), "the operator says so");
}

/// The sessions that a peer of the server's own user sees, after it has proved the token if it is asked to. There is
/// one session of that user, and one of the clients whose bytes are forwarded.
fn shown(is_in_person: bool, trusts_forwarded: bool) -> Vec<u64> {
    let (uid, pid) = (7, i32::try_from(std::process::id()).expect("a process id"));
    let (peer, token) = (Peer::Unix { uid, pid }, token());
    let host = OneGpu { token: Some(token.clone()), trusts: Some(peer.clone()), trusts_forwarded, ..OneGpu::default() };
    for source in [None, Some(Source::Forwarded(uid))] {
        let session_request = SessionRequest {
            source,
            ..SessionRequest::new(&Attach::default(), &peer, Sealer::Nobody, Transport::Socket)
        };
        let (ends, conditions) = (ends(), with(0));
        host.sessions.lock().add(session_request, 0, conditions, ends, Instant::now()).expect("nothing was promised");
    }
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let daemon = std::thread::spawn(move || lead(&mut Link::new(theirs.into()), &peer, &host, &mut Patience));
    let mut link = Link::new(ours.into());
    let sent = if is_in_person { link.send_in_person(&hello()) } else { link.send(&hello()) };
    sent.expect("sent");
    let (_, body) = hear(&mut link);
    let reply = Hello::decode_reply(&body).expect("a reply");
    if reply.authenticate {
        let proof = token.secret().proof(Side::Client, &Protection::Local, reply.nonce, OURS);
        link.send(&Authenticate { nonce: OURS, proof: &proof, number: &[] }).expect("sent");
        assert_eq!(hear(&mut link).0, 0);
    }
    link.send(&ListSessions {}).expect("sent");
    let (_, body) = hear(&mut link);
    let shown = ListSessions::decode_reply(&body).expect("a list").sessions.iter().map(|row| row.session).collect();
    drop(link);
    let _ = daemon.join().expect("the daemon's thread lives");
    shown
}

#[test]
fn who_proves_the_token_behind_a_forwarded_socket_is_a_peer_of_its_own_and_not_the_servers_user() {
    assert_eq!(shown(true, false), [1, 2], "the server's user is shown all");
    assert_eq!(shown(false, false), [2], "bytes that were passed on");
    assert_eq!(shown(false, true), [1, 2], "the operator says so");
}

/// A conversation over TCP with a server that knows a token and takes no clear text; the client's end.
fn by_tcp(secret: Option<&Secret>) -> (Result<Link, LinkError>, JoinHandle<Ending>) {
    let listener = Listener::bind(&"tcp://127.0.0.1:0".parse().expect("an address")).expect("a free port");
    let Address::Tcp { host, port } = listener.address().clone() else { unreachable!("it is TCP's") };
    let token = Token::of_text("the token");
    let daemon = std::thread::spawn(move || {
        let (link, peer) = loop {
            if let Some(accepted) = listener.accept()? {
                break accepted;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let own = token.secret();
        let by = Answering { secret: Some(&own), ..Answering::default() };
        let mut link = link.answer(&by, Instant::now() + Duration::from_secs(60))?;
        lead(&mut link, &peer, &OneGpu { token: Some(token), ..OneGpu::default() }, &mut Patience)
    });
    let (address, trust) = (Address::Tcp { host, port }, Trust { secret, ..Trust::default() });
    (floe_transport::connect(&address, Duration::from_secs(60), &trust), daemon)
}

#[test]
fn a_sealed_connection_has_proved_the_token_and_clear_text_gets_nowhere() {
    let (link, _daemon) = by_tcp(Some(&Secret::of("the token")));
    let mut link = link.expect("sealed");
    link.send(&hello()).expect("sent");
    let (status, body) = hear(&mut link);
    assert_eq!((status, Hello::decode_reply(&body).expect("a reply").authenticate), (0, false));
    link.send(&ListGpus {}).expect("sent");
    assert_eq!(hear(&mut link).0, 0);

    let (link, daemon) = by_tcp(None);
    let mut link = link.expect("in the clear, on this machine");
    link.send(&hello()).expect("sent");
    assert_eq!(hear(&mut link).0, status::NOT_PERMITTED);
    ends_refused(daemon);

    let (link, daemon) = by_tcp(Some(&Secret::of("another token")));
    let error = link.expect_err("a wrong token");
    assert!(matches!(&error, LinkError::Unsealed(why) if why.detail == "the token is wrong"), "{error}");
    ends_refused(daemon);
}

#[test]
fn a_client_of_an_older_protocol_is_told_what_to_do_also_in_the_clear() {
    let (link, daemon) = by_tcp(None);
    let mut link = link.expect("in the clear, on this machine");
    link.send(&Hello { oldest: 2, newest: 2, ..hello() }).expect("sent");
    let frame = link.receive(Some(Instant::now() + Duration::from_secs(60))).expect("a frame").expect("not closed");
    let Push::Reply(reply) = Push::decode(frame.kind, frame.payload).expect("a message") else { panic!("no reply") };
    assert_eq!(reply.status, status::SYSTEM_DRIVER_MISMATCH);
    assert!(reply.detail.contains("same release"), "{}", reply.detail);
    ends_refused(daemon);
}

/// Whether another user of this machine is asked for the token, and which sessions it sees after that: 1 is of the user
/// `alice`, 2 of this user without a name. It proves the server's token if it is asked to.
fn shown_to_another(user: Option<Name>, is_in_person: bool) -> (bool, Vec<u64>) {
    let (uid, pid) = (7, i32::try_from(std::process::id()).expect("a process id"));
    let (peer, token) = (Peer::Unix { uid, pid }, token());
    let host = OneGpu { token: Some(token.clone()), user, ..OneGpu::default() };
    for source in [Source::Named(alice()), Source::User(uid)] {
        let request = SessionRequest::new(&Attach::default(), &peer, Sealer::Nobody, Transport::Socket);
        let request = SessionRequest { source: Some(source), ..request };
        host.sessions.lock().add(request, 0, with(0), ends(), Instant::now()).expect("nothing was promised");
    }
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let daemon = std::thread::spawn(move || lead(&mut Link::new(theirs.into()), &peer, &host, &mut Patience));
    let mut link = Link::new(ours.into());
    let sent = if is_in_person { link.send_in_person(&hello()) } else { link.send(&hello()) };
    sent.expect("sent");
    let (_, body) = hear(&mut link);
    let reply = Hello::decode_reply(&body).expect("a reply");
    let is_asked = reply.authenticate;
    if is_asked {
        let proof = token.secret().proof(Side::Client, &Protection::Local, reply.nonce, OURS);
        link.send(&Authenticate { nonce: OURS, proof: &proof, number: &[] }).expect("sent");
        assert_eq!(hear(&mut link).0, 0);
    }
    link.send(&ListSessions {}).expect("sent");
    let (_, body) = hear(&mut link);
    let rows = ListSessions::decode_reply(&body).expect("a reply").sessions;
    let seen = rows.iter().map(|row| row.session).collect();
    drop(link);
    let _ = daemon.join().expect("the daemon's thread lives");
    (is_asked, seen)
}

fn alice() -> Name {
    Name::new("alice").expect("a name")
}

#[test]
fn a_user_of_the_machine_with_a_place_in_the_policy_needs_no_token_and_sees_its_own() {
    assert_eq!(shown_to_another(Some(alice()), true), (false, vec![1]));
    assert_eq!(shown_to_another(None, true), (true, vec![2]), "without a place the token is asked for");
}

#[test]
fn with_a_policy_the_servers_token_is_the_operators_and_passed_on_bytes_are_nobodys() {
    assert_eq!(shown_to_another(Some(alice()), false), (true, vec![1, 2]));
}

/// The answers to a proof by a user's token over a Unix socket, and to an Attach behind it: their status.
fn attach_by_token(is_drained: bool, shown: &dyn Fn(TokenNumber) -> Vec<u8>) -> (u32, Option<(u32, String)>) {
    let made = floe_transport::ServerKey::make().and_then(|key| key.make_token()).expect("random bytes");
    let (secret, name) = (Secret::of(&made.text), alice());
    let holder = Holder { name, number: made.number, is_drained };
    let host = OneGpu { token: Some(token()), of_users: Some((secret.clone(), holder)), ..OneGpu::default() };
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let (mut link, daemon) = (Link::new(ours.into()), speak_on(theirs, host));
    link.send(&hello()).expect("sent");
    let (_, body) = hear(&mut link);
    let nonce = Hello::decode_reply(&body).expect("a reply").nonce.to_vec();
    let proof = secret.proof(Side::Client, &Protection::Local, &nonce, OURS);
    link.send(&Authenticate { nonce: OURS, proof: &proof, number: &shown(made.number) }).expect("sent");
    let (proved, _) = hear(&mut link);
    let mut attached = None;
    if proved == 0 {
        link.send(&Attach::default()).expect("sent");
        let frame = link.receive(None).expect("an answer").expect("an answer");
        let Push::Reply(reply) = Push::decode(frame.kind, frame.payload).expect("a message") else { panic!("a reply") };
        attached = Some((reply.status, reply.detail.to_owned()));
    }
    drop(link);
    if let Ok(Outcome::Attached(admission)) = daemon.join().expect("the daemon's thread lives") {
        assert_eq!(admission.session, 1);
    }
    (proved, attached)
}

#[test]
fn a_users_token_is_found_by_its_number_and_a_drained_one_begins_nothing() {
    let right = |number: TokenNumber| number.0.to_vec();
    assert_eq!(attach_by_token(false, &right), (0, Some((0, String::new()))));
    let (proved, attached) = attach_by_token(true, &right);
    let (status, words) = attached.expect("it is let in");
    assert_eq!((proved, status), (0, status::NOT_PERMITTED));
    assert!(words.contains("this token of alice is revoked"), "{words}");
    for (number, status) in
        [(vec![], status::NOT_PERMITTED), (vec![0; 8], status::NOT_PERMITTED), (vec![0; 7], status::INVALID_VALUE)]
    {
        assert_eq!(attach_by_token(false, &|_| number.clone()), (status, None));
    }
}
