//! A peer that does everything wrong, and one that does not, over a socket pair.

use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use floe_wire::{Call, ListGpus, Push, StreamId, SynchronizeStream};

use super::*;
use crate::door::Door;
use crate::sessions::Sessions;

struct OneGpu {
    token: Option<Token>,
    withdrawn: AtomicU64,
    door: Mutex<Door>,
}

impl Default for OneGpu {
    fn default() -> Self {
        Self { token: None, withdrawn: AtomicU64::new(0), door: Mutex::new(Door::new(Some(1)).expect("made")) }
    }
}

impl Host for OneGpu {
    fn token(&self) -> Option<&Token> {
        self.token.as_ref()
    }

    fn trusts(&self, _: &Peer) -> bool {
        false
    }

    fn gpus(&self, answer: &mut dyn FnMut(ListGpusReply<'_>)) {
        answer(ListGpusReply { gpus: vec![floe_wire::Gpu { name: "the one", ..Default::default() }] });
    }

    fn sessions(&self, answer: &mut dyn FnMut(ListSessionsReply<'_>)) {
        answer(ListSessionsReply { sessions: Sessions::default().rows(Instant::now()) });
    }

    fn telemetry(&self, _: &ReadTelemetry<'_>, answer: &mut dyn FnMut(ReadTelemetryReply<'_>)) {
        answer(ReadTelemetryReply::default());
    }

    fn admit(&self, request: &Attach<'_>, _: &Peer, _: Sealer) -> Result<Admission, Refusal> {
        if request.gpu != 0 {
            return Err(Refusal { status: 101, detail: "no such GPU".into() });
        }
        let settings = Vec::new();
        Ok(Admission {
            session: 5,
            gpu: 0,
            ordinal: 0,
            granularity: 1,
            window: 0,
            window_bytes: 0,
            memory: 0,
            settings,
            key: [7; 16],
            bulk_connections: 0,
            grace_ms: 0,
            client: None,
            rings: false,
        })
    }

    fn withdraw(&self, admission: &Admission) {
        self.withdrawn.store(admission.session, Ordering::SeqCst);
    }

    fn attached<'a>(&'a self, admission: &'a Admission) -> AttachReply<'a> {
        AttachReply { session: admission.session, ..Default::default() }
    }

    fn join(&self, request: &Join<'_>) -> Result<Arc<Giver>, Refusal> {
        match self.door.lock().expect("no test panics with it").join(request.key) {
            Some(giver) if request.session == 5 => Ok(giver),
            _ => Err(Refusal { status: status::NOT_PERMITTED, detail: "no".into() }),
        }
    }
}

type Ending = Result<Outcome, ConversationError>;

/// A connection to a daemon that has one GPU; the thread gives how the conversation ended.
fn connect(token: Option<Token>) -> (Link, UnixStream, JoinHandle<Ending>) {
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let raw = ours.try_clone().expect("duplicated");
    let host = OneGpu { token, ..OneGpu::default() };
    (Link::new(ours.into()), raw, speak_on(theirs, host))
}

fn speak_on(socket: UnixStream, host: OneGpu) -> JoinHandle<Ending> {
    std::thread::spawn(move || lead(&mut Link::new(socket.into()), &Peer::Unix { uid: 1, pid: 1 }, &host))
}

fn token() -> Token {
    let folder = tempfile::tempdir().expect("a temporary folder");
    Token::read_or_make(&folder.path().join("token")).expect("made").0
}

/// What the daemon says next: a reply's status and body, or the code it ends with.
fn hear(link: &mut Link) -> (u32, Vec<u8>) {
    let frame = link.receive(Some(Instant::now() + Duration::from_secs(20))).expect("a frame").expect("not closed");
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
    assert_eq!(Attach::decode_reply(&body).expect("attached").session, 5);
    let outcome = daemon.join().expect("the daemon's thread lives");
    assert!(matches!(outcome, Ok(Outcome::Attached(Admission { session: 5, .. }))), "{outcome:?}");
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
        nonce: [0; RANDOM_BYTES],
        stage: Stage::Silent,
    };
    assert!(daemon.step().is_err(), "the answer to Hello cannot be sent");
    assert!(daemon.step().is_err(), "the answer to Attach cannot be sent");
    assert_eq!(host.withdrawn.load(Ordering::SeqCst), 5);
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
    let proof = token.proof_of_client(&nonce, b"ours");
    link.send(&Authenticate { nonce: b"ours", proof: &proof }).expect("sent");
    let (status, body) = hear(&mut link);
    assert_eq!(status, 0);
    let reply = Authenticate::decode_reply(&body).expect("a reply");
    assert_eq!(reply.proof, token.proof_of_server(&nonce, b"ours"));
}

#[test]
fn a_wrong_proof_is_refused() {
    let (mut link, _raw, daemon) = connect(Some(token()));
    link.send(&hello()).expect("sent");
    hear(&mut link);
    link.send(&Authenticate { nonce: b"ours", proof: &[0; 32] }).expect("sent");
    assert_eq!(hear(&mut link).0, status::NOT_PERMITTED);
    ends_refused(daemon);
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
