//! A pipe that seals its bytes by TLS, and sends the records over another pipe.
//! In: a socket, one side of TLS. Out: the peer's bytes, or the end.
//! One thread at a time writes, one reads; they share the keys, and hold them only while they seal or open.
//! An end without TLS's close notification counts as an end: a cut loses nothing unnoticed, since every frame carries
//! its length.

use std::io::{Read as _, Write as _};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustls::{AlertDescription, Connection};

use super::users::users;
use crate::error::{Failure, LinkError};
use crate::pipes::pipe::{Pipe, Reach, Slot};

/// Bytes that are sealed under one hold of the keys.
const SEALED_TOGETHER: usize = 64 << 10;
/// Bytes of one read from the socket: some records of the largest size.
const READ_AHEAD: usize = 128 << 10;
/// So many reads from the socket that give nothing are one that finds nothing: who waits has a deadline to look at.
const FRUITLESS: usize = 16;

/// The label of floe's bytes from TLS's exporter, as RFC 9266 has for others.
const EXPORTED: &[u8] = b"EXPORTER-floe-token-proof";

/// One side of a TLS connection.
#[derive(Debug)]
pub(crate) struct Tls {
    under: Arc<dyn Pipe>,
    connection: Mutex<Connection>,
    /// Held while records go to the socket, so that they go in the order in which they were sealed.
    writing: Mutex<Vec<u8>>,
    /// Held by the reading thread.
    reading: Mutex<Ahead>,
}

/// Sealed bytes that were read but not yet opened.
#[derive(Debug)]
struct Ahead {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Ahead {
    fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Reads from the socket, unless there are bytes to open.
    fn fill(&mut self, under: &dyn Pipe) -> Result<Taken, Failure> {
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
            match under.read_now(&mut self.bytes, None)? {
                None => return Ok(Taken::Nothing),
                Some(0) => return Ok(Taken::Closed),
                Some(count) => self.end = count,
            }
        }
        Ok(Taken::Some)
    }
}

impl Tls {
    /// Agrees on keys with the peer, before `deadline`.
    pub(crate) fn agree(
        under: Arc<dyn Pipe>,
        mut connection: Connection,
        deadline: Instant,
    ) -> Result<Self, LinkError> {
        const DOING: &str = "agreeing on TLS";
        let began = Instant::now();
        // A whole message may wait here until both sides agree on a key.
        connection.set_buffer_limit(None);
        let tls = Self {
            under,
            connection: Mutex::new(connection),
            writing: Mutex::default(),
            reading: Mutex::new(Ahead { bytes: vec![0; READ_AHEAD], start: 0, end: 0 }),
        };
        loop {
            tls.send_pending(&mut tls.lock_writing()).map_err(|failure| LinkError::during(DOING, failure))?;
            if !tls.connection().is_handshaking() {
                return Ok(tls);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(LinkError::TimedOut {
                    what: DOING.into(),
                    after: deadline.saturating_duration_since(began),
                });
            }
            if tls.lock_reading().is_empty() {
                tls.under.wait(Some(left)).map_err(|failure| LinkError::during(DOING, failure))?;
            }
            match tls.take_in(&mut tls.lock_reading()) {
                Ok(Taken::Closed) => return Err(LinkError::Closed),
                Ok(Taken::Some | Taken::Nothing) => {}
                Err(Trouble::Under(failure)) => return Err(LinkError::during(DOING, failure)),
                Err(Trouble::Tls(error)) => {
                    // Sends the peer the reason; it may be gone.
                    let _ = tls.send_pending(&mut tls.lock_writing());
                    return Err(LinkError::Tls(error));
                }
            }
        }
    }

    /// Bytes that only the two ends of this connection know, to bind proofs to it.
    pub(crate) fn exported(&self) -> Result<[u8; 32], LinkError> {
        self.connection().export_keying_material([0; 32], EXPORTED, None).map_err(LinkError::Tls)
    }

    /// The names of users in the peer's certificate, which has been verified; empty where it has shown none.
    pub(crate) fn users(&self) -> Vec<String> {
        let connection = self.connection();
        let own = connection.peer_certificates().and_then(|chain| chain.first());
        own.map(users).unwrap_or_default()
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        floe_lock::lock(&self.connection)
    }

    fn lock_writing(&self) -> MutexGuard<'_, Vec<u8>> {
        floe_lock::lock(&self.writing)
    }

    /// Writes sealed records to the socket.
    fn send_pending(&self, records: &mut Vec<u8>) -> Result<(), Failure> {
        records.clear();
        let mut connection = self.connection();
        while connection.wants_write() {
            // Writing to memory does not fail.
            connection.write_tls(records).map_err(|_| Errno::IO)?;
        }
        drop(connection);
        if records.is_empty() { Ok(()) } else { self.under.write(records, &[]) }
    }

    fn lock_reading(&self) -> MutexGuard<'_, Ahead> {
        floe_lock::lock(&self.reading)
    }

    /// Opens some of the bytes that were read ahead, or reads from the socket if there are none. It takes only bytes
    /// that can be opened at once, so that none are kept twice.
    fn take_in(&self, ahead: &mut Ahead) -> Result<Taken, Trouble> {
        match ahead.fill(&*self.under)? {
            Taken::Some => {}
            taken => return Ok(taken),
        }
        let mut connection = self.connection();
        let mut bytes = &ahead.bytes[ahead.start..ahead.end];
        connection.read_tls(&mut bytes).map_err(|_| Errno::IO)?;
        ahead.start = ahead.end - bytes.len();
        connection.process_new_packets()?;
        let answers = connection.wants_write() && !connection.is_handshaking();
        drop(connection);
        if answers {
            // A change of keys needs an answer. A thread that is writing sends it along.
            match self.writing.try_lock() {
                Ok(mut records) => self.send_pending(&mut records)?,
                Err(TryLockError::Poisoned(poisoned)) => self.send_pending(&mut poisoned.into_inner())?,
                Err(TryLockError::WouldBlock) => {}
            }
        }
        Ok(Taken::Some)
    }

    /// Opened bytes. `None`: there are none yet; 0: the peer has sent its close notification.
    fn opened(&self, target: &mut [u8]) -> Result<Option<usize>, Failure> {
        match self.connection().reader().read(target) {
            Ok(count) => Ok(Some(count)),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(None),
            Err(_) => Err(Errno::PROTO.into()),
        }
    }
}

/// The result of a read from the socket.
enum Taken {
    Some,
    Nothing,
    Closed,
}

/// Why bytes from the socket cannot be used.
enum Trouble {
    Under(Failure),
    Tls(rustls::Error),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Under(failure)
    }
}

impl From<Errno> for Trouble {
    fn from(source: Errno) -> Self {
        Self::Under(source.into())
    }
}

impl From<rustls::Error> for Trouble {
    fn from(error: rustls::Error) -> Self {
        Self::Tls(error)
    }
}

/// What an alert says of this side's certificate, if it does.
fn refused(alert: AlertDescription) -> Option<&'static str> {
    Some(match alert {
        AlertDescription::CertificateRequired => "it asks for one",
        AlertDescription::CertificateExpired => "it is not valid now",
        AlertDescription::CertificateRevoked => "it was revoked",
        AlertDescription::UnknownCA => "none of the authorities that it trusts has signed it",
        AlertDescription::BadCertificate | AlertDescription::UnsupportedCertificate => "it is not one for clients",
        AlertDescription::CertificateUnknown | AlertDescription::AccessDenied => "it does not take it",
        AlertDescription::DecryptError => "its signature is wrong",
        _ => return None,
    })
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Under(failure) => failure,
            // TLS 1.3 lets a client go on before the server has looked at its certificate.
            Trouble::Tls(rustls::Error::AlertReceived(alert)) => {
                refused(alert).map_or(Errno::BADMSG.into(), Failure::Certificate)
            }
            // The bytes were changed on the way.
            Trouble::Tls(_) => Errno::BADMSG.into(),
        }
    }
}

impl Pipe for Tls {
    fn write(&self, head: &[u8], tail: &[u8]) -> Result<(), Failure> {
        let mut records = self.lock_writing();
        for part in [head, tail] {
            for piece in part.chunks(SEALED_TOGETHER) {
                self.connection().writer().write_all(piece).map_err(|_| Errno::PIPE)?;
                self.send_pending(&mut records)?;
            }
        }
        Ok(())
    }

    fn write_with(&self, _head: &[u8], _tail: &[u8], _descriptor: BorrowedFd<'_>) -> Result<(), Failure> {
        Err(Errno::OPNOTSUPP.into())
    }

    fn limit_writes(&self, time: Option<Duration>) -> Result<(), Failure> {
        self.under.limit_writes(time)
    }

    fn read_now(&self, target: &mut [u8], _slot: Slot<'_>) -> Result<Option<usize>, Failure> {
        let (mut ahead, mut fruitless) = (self.lock_reading(), 0);
        loop {
            if let Some(count) = self.opened(target)? {
                return Ok(Some(count));
            }
            // What was read ahead is opened first: no wait on the socket reports it.
            if ahead.is_empty() && fruitless == FRUITLESS {
                return Ok(None);
            }
            fruitless += usize::from(ahead.is_empty());
            match self.take_in(&mut ahead)? {
                Taken::Some => {}
                Taken::Nothing => return Ok(None),
                Taken::Closed => return Ok(Some(0)),
            }
        }
    }

    fn read(&self, target: &mut [u8], slot: Slot<'_>) -> Result<Option<usize>, Failure> {
        if let Some(count) = self.read_now(target, None)? {
            return Ok(Some(count));
        }
        self.under.wait(None)?;
        self.read_now(target, slot)
    }

    fn wait(&self, time: Option<Duration>) -> Result<bool, Failure> {
        if self.is_ahead() { Ok(true) } else { self.under.wait(time) }
    }

    fn is_ahead(&self) -> bool {
        // No new packets: this only asks for opened bytes.
        let opened = || self.connection().process_new_packets().is_ok_and(|state| state.plaintext_bytes_to_read() > 0);
        // Bytes that were read ahead and gave nothing have all been consumed.
        !self.lock_reading().is_empty() || opened()
    }

    fn end(&self) {
        self.under.end();
    }

    fn reach(&self) -> Reach {
        Reach::Network
    }

    fn descriptor(&self) -> Option<OwnedFd> {
        None
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use std::collections::VecDeque;

    use rcgen::{CertifiedKey, generate_simple_self_signed};
    use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
    use rustls::version::TLS13;
    use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

    use super::*;
    use crate::pipes::reads::{ReadOnly, Reads};
    use crate::pipes::tls::provider;

    /// A socket with bytes that arrive in these parts.
    #[derive(Debug)]
    struct Parts(Mutex<VecDeque<Vec<u8>>>);

    impl Reads for Parts {
        fn read(&self, target: &mut [u8]) -> Result<Option<usize>, Failure> {
            let Some(part) = self.0.lock().unwrap().pop_front() else { return Ok(None) };
            target[..part.len()].copy_from_slice(&part);
            Ok(Some(part.len()))
        }

        fn has_more(&self) -> bool {
            !self.0.lock().unwrap().is_empty()
        }
    }

    /// What this end has to send.
    fn records(connection: &mut Connection) -> Vec<u8> {
        let mut bytes = Vec::new();
        while connection.wants_write() {
            connection.write_tls(&mut bytes).unwrap();
        }
        bytes
    }

    /// Both ends of a connection that have agreed.
    fn agreed() -> (Connection, Connection) {
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
        let server = ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]).unwrap();
        let server = server.with_no_client_auth().with_single_cert(vec![cert.der().clone()], key);
        let mut roots = RootCertStore::empty();
        roots.add(cert.der().clone()).unwrap();
        let client = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]).unwrap();
        let client = client.with_root_certificates(roots).with_no_client_auth();
        let client = ClientConnection::new(Arc::new(client), "localhost".try_into().unwrap()).unwrap();
        let server = ServerConnection::new(Arc::new(server.unwrap())).unwrap();
        let (mut client, mut server): (Connection, Connection) = (client.into(), server.into());
        let give = |from: &mut Connection, to: &mut Connection| {
            let bytes = records(from);
            let mut left = &bytes[..];
            while !left.is_empty() {
                to.read_tls(&mut left).unwrap();
                to.process_new_packets().unwrap();
            }
        };
        while client.is_handshaking() || server.is_handshaking() || server.wants_write() {
            give(&mut client, &mut server);
            give(&mut server, &mut client);
        }
        (client, server)
    }

    #[test]
    fn a_read_that_does_not_wait_ends_while_a_peer_sends_records_without_bytes() {
        let (mut client, server) = agreed();
        let parts = Arc::new(ReadOnly(Parts(Mutex::default())));
        let ahead = Ahead { bytes: vec![0; READ_AHEAD], start: 0, end: 0 };
        let under: Arc<dyn Pipe> = Arc::<ReadOnly<Parts>>::clone(&parts);
        let tls = Tls { under, connection: Mutex::new(server), writing: Mutex::default(), reading: Mutex::new(ahead) };
        for _ in 0..FRUITLESS + 4 {
            // Keys that change are the records without bytes that TLS allows in such a number.
            match &mut client {
                Connection::Client(client) => client.refresh_traffic_keys().unwrap(),
                Connection::Server(_) => unreachable!(),
            }
            parts.0.0.lock().unwrap().push_back(records(&mut client));
        }
        client.writer().write_all(b"x").unwrap();
        parts.0.0.lock().unwrap().push_back(records(&mut client));
        let mut byte = [0];
        assert_eq!(tls.read_now(&mut byte, None).unwrap(), None);
        assert!(tls.wait(None).unwrap(), "there is more");
        assert_eq!((tls.read_now(&mut byte, None).unwrap(), byte), (Some(1), *b"x"));
    }
}
