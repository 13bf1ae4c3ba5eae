//! How a session begins: Hello, the proof that both sides know the token, Attach. A place and the program's name come in, an
//! attached link and the device's snapshot go out, or an error that says what to do. Every step has a deadline.

use std::time::{Duration, Instant};

use floe_abi::CudaError;
use floe_transport::{
    Address, Channels, Link, LinkError, Protection, Secret, Side, Transport, Trust, suitable_connections,
};
use floe_wire::{
    Attach, AttachReply, Authenticate, Call, DecodeError, Hello, MAGIC, NEWEST_VERSION, OLDEST_VERSION, PAYLOAD_LIMIT,
    Push, SETUP_PAYLOAD_LIMIT, Setting, printable,
};

use super::dial::Joining;
use super::error::ConnectError;
use super::offer::Offer;
use super::room::Heard;
use crate::log::log;
use crate::memory::peers::Seat;
use crate::settings::{Class, Credentials, WantedDevice};
use crate::vgpu::snapshot::Snapshot;

/// A server in reach answers far sooner; one that does not is down.
pub(super) const CONNECT: Duration = Duration::from_secs(10);
/// Attaching may have to wait for other sessions' workers to start.
pub(super) const ATTACH: Duration = Duration::from_secs(60);
/// Before each further attempt of a first handshake whose connection was cut.
const PAUSES_MS: [u64; 4] = [1, 10, 100, 500];
/// The client waits no longer for a server, whatever grace period that names.
const LONGEST_GRACE: Duration = Duration::from_secs(24 * 60 * 60);
/// The name of the last step, as it is logged.
pub(super) const ATTACHING: &str = "the attach";

/// The client's introduction of itself.
#[derive(Debug, Clone)]
pub(crate) struct Greeting {
    /// The client's proofs, and the servers that it trusts.
    pub(crate) credentials: Credentials,
    /// The program's file name.
    pub(crate) program: String,
    /// This machine's name.
    pub(crate) host: String,
    /// Driver variables for the worker.
    pub(crate) driver: Vec<(String, String)>,
    /// The most bulk connections it makes; `None` for what suits the processors and the way.
    pub(crate) bulk_connections: Option<u32>,
    /// Threads of one copy of pageable memory; `None` for what suits the processors.
    pub(crate) copy_threads: Option<usize>,
    /// Weight, class and longest life of its vGPUs.
    pub(crate) terms: (u32, Class, Duration),
    /// Until when the program waits for room for its quotas.
    pub(crate) room_by: Instant,
}

/// An attached link.
#[derive(Debug)]
pub(crate) struct Attached {
    /// The link; every further frame goes to the worker.
    pub(crate) link: Link,
    /// The device.
    pub(crate) snapshot: Snapshot,
    /// First address of the window.
    pub(crate) window: u64,
    /// Its bytes.
    pub(crate) window_bytes: u64,
    /// Where it runs.
    pub(crate) seat: Seat,
    /// How further connections join it.
    pub(crate) joining: Joining,
    /// The channels of a link that outlives its connections.
    pub(crate) channels: Option<Channels>,
}

/// Connects and attaches vGPU `ordinal`.
pub(crate) fn attach(wanted: &WantedDevice, ordinal: u32, greeting: &Greeting) -> Result<Attached, ConnectError> {
    unless_cut(Duration::MAX, || attach_once(wanted, ordinal, greeting))
}

/// Does something on a connection of its own, and again on another where that is cut before the limit: a server that takes its time
/// and then cuts each does not have that time again.
pub(super) fn unless_cut<T>(
    limit: Duration,
    mut attempt: impl FnMut() -> Result<T, ConnectError>,
) -> Result<T, ConnectError> {
    let began = Instant::now();
    for pause in PAUSES_MS.map(Duration::from_millis) {
        match attempt() {
            Err(error) if error.is_cut() && began.elapsed() < limit => log!(Info, "{error}; it is tried again"),
            outcome => return outcome,
        }
        std::thread::sleep(pause);
    }
    attempt()
}

fn attach_once(wanted: &WantedDevice, ordinal: u32, greeting: &Greeting) -> Result<Attached, ConnectError> {
    let server = &wanted.place.server;
    let address: Address = server.parse()?;
    let dialogue = Dialogue::open(server, &address, &greeting.credentials, CONNECT)?;
    let offer = Offer::of(&address, server)?;
    dialogue.attach(wanted, ordinal, greeting, offer)
}

/// A connection on which nothing has been said, sealed where the address asks for it.
fn connect(server: &str, address: &Address, credentials: &Credentials, limit: Duration) -> Result<Link, ConnectError> {
    let tls = credentials.tls(address)?;
    let secret = credentials.secret();
    let trust = Trust { tls: tls.as_ref(), secret: secret.as_ref() };
    floe_transport::connect(address, limit, &trust)
        .map_err(|source| ConnectError::of_connecting(server, address, source))
}

pub(super) struct Dialogue<'a> {
    pub(super) link: Link,
    pub(super) server: &'a str,
    /// The time limit of a step before the attach.
    pub(super) limit: Duration,
    /// The round-trip time of the greeting.
    pub(super) trip: Duration,
}

impl<'a> Dialogue<'a> {
    /// Connects and greets.
    pub(super) fn open(
        server: &'a str,
        address: &Address,
        credentials: &Credentials,
        limit: Duration,
    ) -> Result<Self, ConnectError> {
        let link = connect(server, address, credentials, limit)?;
        let mut dialogue = Self { link, server, limit, trip: Duration::ZERO };
        // Until then it may be anybody.
        dialogue.link.limit_payload(SETUP_PAYLOAD_LIMIT);
        dialogue.greet(credentials.secret().as_ref())?;
        dialogue.link.limit_payload(PAYLOAD_LIMIT);
        Ok(dialogue)
    }

    /// Hello, and the proofs where the server asks for them. It has to where a token is known here: what comes by TCP may be
    /// anybody's word.
    fn greet(&mut self, secret: Option<&Secret>) -> Result<(), ConnectError> {
        let hello = Hello {
            magic: MAGIC,
            oldest: OLDEST_VERSION,
            newest: NEWEST_VERSION,
            client: concat!("floe ", env!("CARGO_PKG_VERSION")),
        };
        let began = Instant::now();
        let sequence = self.link.send_in_person(&hello).map_err(|source| self.broken(source))?;
        let body = self.reply_to(sequence, "the greeting", self.limit)?;
        self.trip = began.elapsed();
        let (version, authenticate, theirs) = {
            let reply = Hello::decode_reply(&body).map_err(|source| self.garbled(source))?;
            (reply.version, reply.authenticate, reply.nonce.to_vec())
        };
        if !(OLDEST_VERSION..=NEWEST_VERSION).contains(&version) {
            return Err(ConnectError::Version { server: self.server.to_owned(), version });
        }
        let server = || self.server.to_owned();
        match (authenticate, secret, *self.link.protection()) {
            (true, Some(secret), protection) => self.authenticate(secret, &protection, &theirs),
            (true, None, _) => Err(ConnectError::NoToken { server: server() }),
            // Without the token there would be no such connection.
            (false, _, Protection::Sealed(_)) | (false, _, Protection::Local) | (false, None, _) => Ok(()),
            (false, Some(_), Protection::Clear | Protection::Tls(_)) => Err(ConnectError::NoProof { server: server() }),
        }
    }

    fn authenticate(&mut self, secret: &Secret, protection: &Protection, theirs: &[u8]) -> Result<(), ConnectError> {
        let mut ours = [0; 32];
        getrandom::fill(&mut ours).map_err(|error| ConnectError::Random(error.to_string()))?;
        let proof = secret.proof(Side::Client, protection, theirs, &ours);
        let number = secret.number().map(|number| number.0);
        let number = number.as_ref().map_or(&[][..], |number| number);
        let message = Authenticate { nonce: &ours, proof: &proof, number };
        let body = self.ask(&message, "the token", self.limit).map_err(|error| match error {
            ConnectError::Refused { server, error: CudaError::NOT_PERMITTED, .. } => {
                ConnectError::WrongToken { server }
            }
            other => other,
        })?;
        let reply = Authenticate::decode_reply(&body).map_err(|source| self.garbled(source))?;
        let is_proved = secret.proves(Side::Server, protection, theirs, &ours, reply.proof);
        if is_proved { Ok(()) } else { Err(ConnectError::Impostor { server: self.server.to_owned() }) }
    }

    fn attach(
        mut self,
        wanted: &WantedDevice,
        ordinal: u32,
        greeting: &Greeting,
        offer: Offer,
    ) -> Result<Attached, ConnectError> {
        let settings = greeting.driver.iter().map(|(name, value)| Setting { name, value }).collect();
        let wait = greeting.room_by.saturating_duration_since(Instant::now());
        let message = Attach {
            gpu: wanted.place.gpu,
            ordinal,
            memory: wanted.memory,
            pid: std::process::id(),
            host: &greeting.host,
            program: &greeting.program,
            settings,
            rings: offer.ring_bytes(),
            wait_ms: u32::try_from(wait.as_millis()).unwrap_or(u32::MAX),
            share: wanted.share,
            weight: greeting.terms.0,
            class: u32::from(greeting.terms.1 == Class::Latency),
            time_ms: u64::try_from(greeting.terms.2.as_millis()).unwrap_or(u64::MAX),
        };
        let body = self.ask_for_room(&message, wanted, wait)?;
        let reply = Attach::decode_reply(&body).map_err(|source| self.garbled(source))?;
        self.check(&reply, ordinal)?;
        if !reply.guaranteed {
            log!(Info, "memory on GPU {} of {} is best effort: what others leave", wanted.place.gpu, self.server);
        }
        let wish = greeting.bulk_connections.unwrap_or_else(|| suitable_connections(self.trip));
        let joining = Joining {
            server: self.server.to_owned(),
            credentials: greeting.credentials.clone(),
            session: reply.session,
            key: reply.key.to_vec(),
            count: reply.bulk_connections.min(wish),
            copy_threads: greeting.copy_threads,
        };
        let is_sealed = joining.is_sealed();
        offer.settle(&mut self, Transport::taken(&reply))?;
        let (channels, link) = last(self.link, &reply);
        Ok(Attached {
            joining,
            channels,
            snapshot: Snapshot::new(&reply.device, reply.memory).in_slot_of(wanted),
            window: reply.window.0,
            window_bytes: reply.window_bytes,
            seat: Seat {
                server: reply.server.try_into().ok(),
                session: reply.session,
                gpu: wanted.place.gpu,
                address: wanted.place.server.clone(),
                is_sealed,
            },
            link,
        })
    }

    /// Whether a reply to Attach makes sense.
    fn check(&self, reply: &AttachReply<'_>, ordinal: u32) -> Result<(), ConnectError> {
        let window = reply.window.0;
        let expected = floe_wire::WINDOW_BASE + u64::from(ordinal) * floe_wire::WINDOW_BYTES;
        if window != expected || reply.window_bytes == 0 || reply.window_bytes > floe_wire::WINDOW_BYTES {
            return Err(ConnectError::Window { server: self.server.to_owned(), window });
        }
        let granularity = reply.device.granularity;
        if !granularity.is_power_of_two() || granularity > reply.window_bytes / 2 {
            return Err(ConnectError::Granularity { server: self.server.to_owned(), granularity });
        }
        Ok(())
    }

    /// Sends one request and waits for its reply's body.
    pub(super) fn ask<M: Call>(
        &mut self,
        message: &M,
        doing: &'static str,
        limit: Duration,
    ) -> Result<Vec<u8>, ConnectError> {
        let sequence = self.link.send(message).map_err(|source| self.broken(source))?;
        self.reply_to(sequence, doing, limit)
    }

    /// Waits for a reply's body.
    pub(super) fn reply_to(
        &mut self,
        sequence: u64,
        doing: &'static str,
        limit: Duration,
    ) -> Result<Vec<u8>, ConnectError> {
        match self.hear(sequence, doing, limit)? {
            Heard::Reply(body) => Ok(body),
            Heard::Waiting(_) => Err(ConnectError::Closed { server: self.server.to_owned(), doing }),
        }
    }

    /// Waits for a reply's body, or for news of a wait for room.
    pub(super) fn hear(&mut self, sequence: u64, doing: &'static str, limit: Duration) -> Result<Heard, ConnectError> {
        let server = self.server;
        let linked = |source| ConnectError::Link { server: server.to_owned(), source };
        let frame = self.link.receive(Some(Instant::now() + limit)).map_err(linked)?;
        let Some(frame) = frame else {
            return Err(ConnectError::Closed { server: server.to_owned(), doing });
        };
        let refused = |status, detail: &str| ConnectError::Refused {
            server: server.to_owned(),
            doing,
            error: CudaError::from_code(status).unwrap_or(CudaError::SYSTEM_NOT_READY),
            detail: with_advice(detail),
        };
        let push = Push::decode(frame.kind, frame.payload)
            .map_err(|source| ConnectError::Garbled { server: server.to_owned(), source })?;
        match push {
            Push::Reply(reply) if reply.request == sequence && reply.status == 0 => {
                Ok(Heard::Reply(reply.body.to_vec()))
            }
            Push::Waiting(news) => Ok(Heard::Waiting(news)),
            Push::Reply(reply) => Err(refused(reply.status, reply.detail)),
            Push::Ended(ended) => Err(refused(ended.status, ended.detail)),
            other => Err(refused(0, other.name())),
        }
    }

    pub(super) fn broken(&self, source: LinkError) -> ConnectError {
        ConnectError::Link { server: self.server.to_owned(), source }
    }

    pub(super) fn garbled(&self, source: DecodeError) -> ConnectError {
        ConnectError::Garbled { server: self.server.to_owned(), source }
    }
}

/// The link behind the reply to Attach. If the server keeps the session without connections for a while, it runs on a
/// channel.
fn last(link: Link, reply: &AttachReply<'_>) -> (Option<Channels>, Link) {
    if reply.grace_ms == 0 || !Transport::taken(reply).can_break() {
        return (None, link);
    }
    let (channels, link) = Channels::take_over(link, Duration::from_millis(reply.grace_ms).min(LONGEST_GRACE));
    (Some(channels), link)
}

/// A server's sentence, and its second line of advice behind two spaces. So the advice cannot pass for words of another
/// program.
pub(super) fn with_advice(words: &str) -> String {
    match words.trim_end().split_once('\n') {
        Some((sentence, advice)) => format!("{}\n  {}", printable(sentence), printable(advice.trim_start())),
        None => printable(words.trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    use floe_abi::CudaError;
    use floe_wire::{AuthenticateReply, Decode as _, Field as _, HelloReply, Reply};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);
    const TOKEN: &str = "the token";
    /// The server's.
    const NONCE: &[u8] = &[9; 32];

    #[test]
    fn who_cuts_connections_late_is_asked_no_more_and_who_does_so_early_is() {
        let attempts = |limit| {
            let mut count = 0;
            let outcome = unless_cut(limit, || -> Result<(), _> {
                count += 1;
                Err(ConnectError::Closed { server: "s".into(), doing: "the greeting" })
            });
            (count, matches!(outcome, Err(ConnectError::Closed { .. })))
        };
        assert_eq!(attempts(Duration::ZERO), (1, true));
        assert_eq!(attempts(Duration::MAX), (5, true));
    }

    /// The client's outcome with a server that answers its greeting so.
    fn greeted(status: u32, reply: HelloReply<'static>) -> Result<(), ConnectError> {
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        let server = std::thread::spawn(move || {
            let mut link = Link::new(theirs.into());
            let request = link.receive(Some(Instant::now() + LIMIT)).expect("a frame").expect("not closed").sequence;
            let mut body = Vec::new();
            reply.write(&mut body);
            link.send(&Reply { request, status, earlier: 0, detail: "why", body: &body }).expect("sent");
        });
        let mut dialogue =
            Dialogue { link: Link::new(ours.into()), server: "unix:///there", limit: LIMIT, trip: Duration::ZERO };
        let outcome = dialogue.greet(None);
        server.join().expect("it does not panic");
        outcome
    }

    /// The client's error with a server that answers its greeting with a refusal of these words.
    fn refused_with(detail: &str) -> ConnectError {
        let folder = tempfile::tempdir().expect("a folder");
        let place = format!("unix://{}", folder.path().join("socket").display());
        let address: Address = place.parse().expect("an address");
        let listener = floe_transport::Listener::bind(&address).expect("a socket");
        let detail = detail.to_owned();
        let server = std::thread::spawn(move || {
            let (mut link, _) = loop {
                if let Some(accepted) = listener.accept().expect("accepted") {
                    break accepted;
                }
                std::thread::sleep(Duration::from_millis(1));
            };
            let request = link.receive(Some(Instant::now() + LIMIT)).expect("a frame").expect("not closed").sequence;
            // One that is not read is not sent to its end.
            let _ = link.send(&Reply { request, status: 800, earlier: 0, detail: &detail, body: &[] });
        });
        let outcome = Dialogue::open(&place, &address, &Credentials::default(), LIMIT);
        let error = outcome.err().expect("it refuses");
        server.join().expect("it does not panic");
        error
    }

    #[test]
    fn a_refusal_is_two_short_lines_at_most_that_move_no_cursor() {
        let words = format!("no\u{1b}[2J\u{1b}]0;title\u{7}\nfloe: all is well\u{202e}{}", "x".repeat(2000));
        let shown = refused_with(&words).to_string();
        assert!(shown.contains("no\u{fffd}[2J\u{fffd}]0;title\u{fffd}\n  floe: all is well\u{fffd}xxx"), "{shown}");
        assert!(shown.lines().count() == 2 && shown.chars().count() < 500, "{}", shown.len());
    }

    #[test]
    fn a_server_that_has_proved_nothing_sends_no_more_than_a_greeting_needs() {
        let error = refused_with(&"x".repeat(1 << 20));
        assert!(matches!(error, ConnectError::Link { .. }), "{}", &error.to_string()[..100]);
    }

    #[test]
    fn server_and_client_of_different_versions_do_not_go_on() {
        let reply = |version| HelloReply { version, server: "test", authenticate: false, nonce: &[] };
        for version in [OLDEST_VERSION, NEWEST_VERSION] {
            assert!(greeted(0, reply(version)).is_ok());
        }
        for version in [0, OLDEST_VERSION - 1, NEWEST_VERSION + 1] {
            let error = greeted(0, reply(version)).expect_err("another version");
            assert!(matches!(error, ConnectError::Version { version: said, .. } if said == version), "{error}");
            assert_eq!(error.code(), CudaError::SYSTEM_DRIVER_MISMATCH);
        }
        let refused = greeted(CudaError::SYSTEM_DRIVER_MISMATCH.code(), reply(0)).expect_err("refused");
        assert_eq!(refused.code(), CudaError::SYSTEM_DRIVER_MISMATCH);
        assert!(refused.to_string().contains("why"), "{refused}");
        let other = greeted(CudaError::NOT_PERMITTED.code(), reply(0)).expect_err("refused");
        assert_eq!(other.code(), CudaError::SYSTEM_NOT_READY);
    }

    /// Takes one frame; what is written for its payload is the body of the reply.
    fn answer(link: &mut Link, write: impl FnOnce(&[u8], &mut Vec<u8>)) {
        let frame = link.receive(Some(Instant::now() + LIMIT)).expect("a frame").expect("not closed");
        let (request, mut body) = (frame.sequence, Vec::new());
        write(frame.payload, &mut body);
        link.send(&Reply { request, status: 0, earlier: 0, detail: "", body: &body }).expect("sent");
    }

    /// A server's proof, given the client's.
    type Proving = fn(&Authenticate<'_>) -> Vec<u8>;

    /// The outcome of a client with a token at a server in the clear that proves itself so, or asks for no proof.
    fn proved(proving: Option<Proving>) -> Result<(), ConnectError> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let ours = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        let theirs = listener.accept().expect("somebody connects").0;
        let server = std::thread::spawn(move || {
            let mut link = Link::new(theirs.into());
            let authenticate = proving.is_some();
            let reply = HelloReply { version: NEWEST_VERSION, server: "test", authenticate, nonce: NONCE };
            answer(&mut link, |_, body| reply.write(body));
            if let Some(proving) = proving {
                answer(&mut link, |payload, body| {
                    let proof = proving(&Authenticate::decode(payload).expect("a proof"));
                    AuthenticateReply { proof: &proof }.write(body);
                });
            }
        });
        let link = Link::new(ours.into());
        assert_eq!(*link.protection(), Protection::Clear);
        let mut dialogue = Dialogue { link, server: "clear://there", limit: LIMIT, trip: Duration::ZERO };
        let outcome = dialogue.greet(Some(&Secret::of(TOKEN)));
        drop(dialogue);
        server.join().expect("it does not panic");
        outcome
    }

    /// The proof of a side that knows this token, as if the connection were of this kind.
    fn proof(token: &str, side: Side, protection: Protection, client: &[u8]) -> Vec<u8> {
        Secret::of(token).proof(side, &protection, NONCE, client).to_vec()
    }

    #[test]
    fn a_server_whose_proof_is_wrong_or_empty_is_an_impostor() {
        let right: Proving = |message| proof(TOKEN, Side::Server, Protection::Clear, message.nonce);
        assert!(proved(Some(right)).is_ok());
        let wrong: [(&str, Proving); 8] = [
            ("nothing", |_| Vec::new()),
            ("zeros", |_| vec![0; 32]),
            ("what the client has said", |message| message.proof.to_vec()),
            ("the client's side", |message| proof(TOKEN, Side::Client, Protection::Clear, message.nonce)),
            ("another token", |message| proof("another", Side::Server, Protection::Clear, message.nonce)),
            ("another connection", |message| proof(TOKEN, Side::Server, Protection::Tls([1; 32]), message.nonce)),
            ("another question", |_| proof(TOKEN, Side::Server, Protection::Clear, &[7; 32])),
            ("a part", |message| proof(TOKEN, Side::Server, Protection::Clear, message.nonce)[..31].to_vec()),
        ];
        for (name, proving) in wrong {
            let outcome = proved(Some(proving));
            assert!(matches!(outcome, Err(ConnectError::Impostor { .. })), "{name}: {outcome:?}");
        }
    }

    #[test]
    fn advice_of_a_server_is_one_line_more_and_never_begins_a_line() {
        assert_eq!(with_advice("no\n  do this\nfloe: forged\n"), "no\n  do this floe: forged");
        assert_eq!(with_advice("no\u{1b}\n"), "no\u{fffd}");
    }

    #[test]
    fn a_server_that_welcomes_a_token_without_a_proof_is_left() {
        let outcome = proved(None);
        assert!(matches!(outcome, Err(ConnectError::NoProof { .. })), "{outcome:?}");
    }
}
