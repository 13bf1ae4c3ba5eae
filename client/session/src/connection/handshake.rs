//! How a session begins: Hello, the proof that both sides know the token, Attach. A place and the program's name come in, an
//! attached link and the device's snapshot go out, or an error that says what to do. Every step has a deadline.

use std::time::{Duration, Instant};

use floe_abi::CudaError;
use floe_transport::{Address, Link, LinkError, Places};
use floe_wire::{
    Attach, AttachReply, Authenticate, Call, DecodeError, Hello, MAGIC, NEWEST_VERSION, OLDEST_VERSION, Push, Setting,
};
use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::dial::Joining;
use super::error::ConnectError;
use super::offer::Offer;
use crate::settings::{Credentials, WantedDevice};
use crate::snapshot::Snapshot;

/// A server in reach answers far sooner; one that does not is down.
pub(super) const CONNECT: Duration = Duration::from_secs(10);
/// Attaching may have to wait for other sessions' workers to start.
pub(super) const ATTACH: Duration = Duration::from_secs(60);
/// Whatever the server says, nobody waits longer for it.
const LONGEST_GRACE: Duration = Duration::from_secs(24 * 60 * 60);
/// What the proof covers beside the nonces.
const PURPOSE: &[u8] = b"floe-token-v1";

/// What the last step is called.
pub(super) const ATTACHING: &str = "the attach";

/// What a client says of itself.
#[derive(Debug, Clone)]
pub(crate) struct Greeting {
    /// What is shown, and who is trusted.
    pub(crate) credentials: Credentials,
    /// The program's file name.
    pub(crate) program: String,
    /// This machine's name.
    pub(crate) host: String,
    /// Driver variables for the worker.
    pub(crate) driver: Vec<(String, String)>,
    /// The most bulk connections it makes.
    pub(crate) bulk_connections: u32,
    /// Threads of one copy of pageable memory; `None` for what suits the processors.
    pub(crate) copy_threads: Option<usize>,
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
    /// The session's number at the server.
    pub(crate) session: u64,
    /// How further connections join it.
    pub(crate) joining: Joining,
    /// Where the link outlives its connections: these.
    pub(crate) places: Option<Places>,
}

/// Connects and attaches vGPU `ordinal`.
pub(crate) fn attach(wanted: &WantedDevice, ordinal: u32, greeting: &Greeting) -> Result<Attached, ConnectError> {
    let server = &wanted.place.server;
    let address: Address = server.parse()?;
    let dialogue = Dialogue::open(server, &address, &greeting.credentials, CONNECT)?;
    let offer = Offer::of(&address, server)?;
    dialogue.attach(wanted, ordinal, greeting, offer)
}

/// A connection on which nothing has been said, sealed where the address asks for it.
fn connect(server: &str, address: &Address, credentials: &Credentials, limit: Duration) -> Result<Link, ConnectError> {
    let tls = credentials.tls(address)?;
    floe_transport::connect(address, limit, tls.as_ref()).map_err(|source| match source {
        LinkError::Tls(_) | LinkError::NoTls => ConnectError::Tls { server: server.to_owned(), source },
        source => ConnectError::Link { server: server.to_owned(), source },
    })
}

pub(super) struct Dialogue<'a> {
    pub(super) link: Link,
    pub(super) server: &'a str,
    /// How long a step before the attach may take.
    pub(super) limit: Duration,
}

impl<'a> Dialogue<'a> {
    /// Connects and greets.
    pub(super) fn open(
        server: &'a str,
        address: &Address,
        credentials: &Credentials,
        limit: Duration,
    ) -> Result<Self, ConnectError> {
        let mut dialogue = Self { link: connect(server, address, credentials, limit)?, server, limit };
        dialogue.greet(credentials.token.as_deref())?;
        Ok(dialogue)
    }

    /// Hello, and the proofs where the server asks for them.
    fn greet(&mut self, token: Option<&str>) -> Result<(), ConnectError> {
        let hello = Hello {
            magic: MAGIC,
            oldest: OLDEST_VERSION,
            newest: NEWEST_VERSION,
            client: concat!("floe ", env!("CARGO_PKG_VERSION")),
        };
        let body = self.ask(&hello, "the greeting", self.limit)?;
        let (version, authenticate, theirs) = {
            let reply = Hello::decode_reply(&body).map_err(|source| self.garbled(source))?;
            (reply.version, reply.authenticate, reply.nonce.to_vec())
        };
        if !(OLDEST_VERSION..=NEWEST_VERSION).contains(&version) {
            return Err(ConnectError::Version { server: self.server.to_owned(), version });
        }
        if authenticate {
            self.authenticate(token, &theirs)?;
        }
        Ok(())
    }

    fn authenticate(&mut self, token: Option<&str>, theirs: &[u8]) -> Result<(), ConnectError> {
        let Some(token) = token else {
            return Err(ConnectError::NoToken { server: self.server.to_owned() });
        };
        let mut ours = [0; 32];
        getrandom::fill(&mut ours).map_err(|error| ConnectError::Random(error.to_string()))?;
        let proof = proof(token, b"C", theirs, &ours).finalize().into_bytes();
        let message = Authenticate { nonce: &ours, proof: &proof };
        let body = self.ask(&message, "the token", self.limit)?;
        let reply = Authenticate::decode_reply(&body).map_err(|source| self.garbled(source))?;
        let expected = self::proof(token, b"S", theirs, &ours);
        expected.verify_slice(reply.proof).map_err(|_| ConnectError::Impostor { server: self.server.to_owned() })
    }

    fn attach(
        mut self,
        wanted: &WantedDevice,
        ordinal: u32,
        greeting: &Greeting,
        offer: Offer,
    ) -> Result<Attached, ConnectError> {
        let settings = greeting.driver.iter().map(|(name, value)| Setting { name, value }).collect();
        let message = Attach {
            gpu: wanted.place.gpu,
            ordinal,
            memory: wanted.memory,
            pid: std::process::id(),
            host: &greeting.host,
            program: &greeting.program,
            settings,
            rings: offer.bytes(),
        };
        let body = self.ask(&message, ATTACHING, ATTACH)?;
        let reply = Attach::decode_reply(&body).map_err(|source| self.garbled(source))?;
        self.check(&reply, ordinal)?;
        let joining = Joining {
            server: self.server.to_owned(),
            credentials: greeting.credentials.clone(),
            session: reply.session,
            key: reply.key.to_vec(),
            count: reply.bulk_connections.min(greeting.bulk_connections),
            copy_threads: greeting.copy_threads,
        };
        offer.settle(&mut self, reply.rings)?;
        let (places, link) = last(self.link, &reply);
        Ok(Attached {
            joining,
            places,
            snapshot: Snapshot::new(&reply.device, reply.memory),
            window: reply.window.0,
            window_bytes: reply.window_bytes,
            session: reply.session,
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
            detail: detail.to_owned(),
        };
        let push = Push::decode(frame.kind, frame.payload)
            .map_err(|source| ConnectError::Garbled { server: server.to_owned(), source })?;
        match push {
            Push::Reply(reply) if reply.request == sequence && reply.status == 0 => Ok(reply.body.to_vec()),
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

/// The link as it goes on behind the reply to Attach: where the server keeps the session for a while without it, at its place.
fn last(link: Link, reply: &AttachReply<'_>) -> (Option<Places>, Link) {
    if reply.grace_ms == 0 || reply.rings {
        return (None, link);
    }
    let (places, link) = Places::take_over(link, Duration::from_millis(reply.grace_ms).min(LONGEST_GRACE));
    (Some(places), link)
}

fn proof(token: &str, side: &[u8], theirs: &[u8], ours: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(token.as_bytes()).expect("HMAC takes keys of any length");
    for part in [PURPOSE, side, theirs, ours] {
        mac.update(part);
    }
    mac
}

/// A conversation with a server that asks for no GPU: what `floe gpus`, `floe ps`, `floe doctor` and the management
/// library need.
#[derive(Debug)]
pub struct Inquiry {
    link: Link,
    server: String,
    limit: Duration,
}

impl Inquiry {
    /// Connects, greets, and proves the token where the server asks for it.
    ///
    /// # Errors
    /// [`ConnectError`] saying what to do.
    pub fn open(server: &str, credentials: &Credentials) -> Result<Self, ConnectError> {
        Self::open_within(server, credentials, CONNECT)
    }

    /// The same with a limit for each step, questions among them.
    ///
    /// # Errors
    /// [`ConnectError`] saying what to do.
    pub fn open_within(server: &str, credentials: &Credentials, limit: Duration) -> Result<Self, ConnectError> {
        let dialogue = Dialogue::open(server, &server.parse()?, credentials, limit)?;
        Ok(Self { link: dialogue.link, server: server.to_owned(), limit })
    }

    /// Asks one question; the answer is the body of the reply, for the message's `decode_reply`.
    ///
    /// # Errors
    /// [`ConnectError`] when the server refuses or goes away.
    pub fn ask<M: Call>(self, message: &M) -> Result<Vec<u8>, ConnectError> {
        let mut dialogue = Dialogue { link: self.link, server: &self.server, limit: self.limit };
        dialogue.ask(message, M::NAME, self.limit)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    use floe_abi::CudaError;
    use floe_wire::{Field as _, HelloReply, Reply};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    /// What a client says to a server that answers its greeting so.
    fn greeted(status: u32, reply: HelloReply<'static>) -> Result<(), ConnectError> {
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        let server = std::thread::spawn(move || {
            let mut link = Link::new(theirs.into());
            let request = link.receive(Some(Instant::now() + LIMIT)).expect("a frame").expect("not closed").sequence;
            let mut body = Vec::new();
            reply.write(&mut body);
            link.send(&Reply { request, status, earlier: 0, detail: "why", body: &body }).expect("sent");
        });
        let mut dialogue = Dialogue { link: Link::new(ours.into()), server: "unix:///there", limit: LIMIT };
        let outcome = dialogue.greet(None);
        server.join().expect("it does not panic");
        outcome
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
}
