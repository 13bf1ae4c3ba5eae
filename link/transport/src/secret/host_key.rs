//! The key by which a client knows a server again that it reaches by another address. A server makes one at its start.
//! In: random bytes, a client's challenge, the connection that it came on. Out: proofs, and whether one is right.
//! A proof is worth nothing on another connection, so a server cannot pass another one's off as its own.

use std::fmt;

use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use aws_lc_rs::hmac;

use super::numbered::{KEY, public, random};
use super::{BYTES, Protection, in_parts};
use crate::peer::Peer;

/// The context of a proof: its first part.
const CONTEXT: &[u8] = b"floe host v1";

/// A server's key, and the public half, which tells it from all others.
pub struct HostKey {
    private: [u8; KEY],
    public: [u8; KEY],
}

impl fmt::Debug for HostKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("HostKey(…)")
    }
}

impl HostKey {
    /// A new key. `None`: the system gives no random bytes.
    #[must_use]
    pub fn make() -> Option<Self> {
        let private = random()?;
        Some(Self { private, public: public(&private)? })
    }

    /// What tells the server from all others.
    #[must_use]
    pub fn public(&self) -> &[u8; KEY] {
        &self.public
    }

    /// The proof that this server holds its end of a connection with this protection, whose other end the kernel says is
    /// this peer. `None`: the challenge cannot be.
    #[must_use]
    pub fn proof(&self, challenge: &[u8], protection: &Protection, client: &Peer) -> Option<[u8; BYTES]> {
        let key = proving(&self.private, challenge)?;
        let covered = covered(&self.public, challenge, protection, client);
        hmac::sign(&key, &covered).as_ref().try_into().ok()
    }
}

/// A client's question to one connection. Only who has the private key of a public one can answer it for that one.
pub struct Challenge(HostKey);

impl fmt::Debug for Challenge {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Challenge(…)")
    }
}

impl Challenge {
    /// A new one. `None`: the system gives no random bytes.
    #[must_use]
    pub fn make() -> Option<Self> {
        HostKey::make().map(Self)
    }

    /// The bytes for the server.
    #[must_use]
    pub fn bytes(&self) -> &[u8; KEY] {
        self.0.public()
    }

    /// The server's public key, if this proof is its own for a connection with this protection, whose other end is `client`.
    #[must_use]
    pub fn proven(&self, key: &[u8], proof: &[u8], protection: &Protection, client: &Peer) -> Option<[u8; KEY]> {
        let proving = proving(&self.0.private, key)?;
        hmac::verify(&proving, &covered(key, self.bytes(), protection, client), proof).ok()?;
        key.try_into().ok()
    }
}

/// The key that both sides derive. `None`: the other's key cannot be, such as one that makes every secret the same.
fn proving(own: &[u8; KEY], other: &[u8]) -> Option<hmac::Key> {
    let own = PrivateKey::from_private_key(&X25519, own).ok()?;
    let derived = |agreed: &[u8]| Ok(hmac::Key::new(hmac::HMAC_SHA256, agreed));
    agree(&own, UnparsedPublicKey::new(&X25519, other), (), derived).ok()
}

fn covered(server: &[u8], challenge: &[u8], protection: &Protection, client: &Peer) -> Vec<u8> {
    let (name, bound) = protection.bound();
    let end = match protection {
        // Both ends have shown keys that nobody else has.
        Protection::Sealed(_) | Protection::Tls(_) => Vec::new(),
        Protection::Local | Protection::Clear => end(client),
    };
    in_parts(&[CONTEXT, name, bound, &end, server, challenge])
}

/// A client's end as both sides see it, unless something in between translates it.
fn end(client: &Peer) -> Vec<u8> {
    match client {
        Peer::Unix { uid, .. } => uid.to_le_bytes().to_vec(),
        Peer::Tcp(address) => {
            let ip = match address.ip().to_canonical() {
                std::net::IpAddr::V4(ip) => ip.octets().to_vec(),
                std::net::IpAddr::V6(ip) => ip.octets().to_vec(),
            };
            [ip, address.port().to_le_bytes().to_vec()].concat()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEALED: Protection = Protection::Sealed([1; 32]);

    fn tcp(address: &str) -> Peer {
        Peer::Tcp(address.parse().expect("an address"))
    }

    fn user(uid: u32) -> Peer {
        Peer::Unix { uid, pid: 7 }
    }

    /// Whether a proof that is made for one connection is taken on another one.
    fn is_taken(made: (Protection, Peer), asked: (Protection, Peer)) -> bool {
        let (server, challenge) = (HostKey::make().expect("random"), Challenge::make().expect("random"));
        let proof = server.proof(challenge.bytes(), &made.0, &made.1).expect("a proof");
        let proven = challenge.proven(server.public(), &proof, &asked.0, &asked.1);
        proven.inspect(|key| assert_eq!(key, server.public())).is_some()
    }

    #[test]
    fn a_proof_is_of_one_server_one_challenge_and_one_connection() {
        let [server, other] = [(); 2].map(|()| HostKey::make().expect("random"));
        let [challenge, later] = [(); 2].map(|()| Challenge::make().expect("random"));
        let peer = tcp("192.0.2.1:5");
        let proof = server.proof(challenge.bytes(), &SEALED, &peer).expect("a proof");
        assert_eq!(challenge.proven(server.public(), &proof, &SEALED, &peer), Some(*server.public()));
        assert_eq!(challenge.proven(other.public(), &proof, &SEALED, &peer), None);
        assert_eq!(later.proven(server.public(), &proof, &SEALED, &peer), None);
        assert_eq!(challenge.proven(server.public(), &proof[1..], &SEALED, &peer), None);
        for (protection, is_right) in
            [(SEALED, true), (Protection::Sealed([2; 32]), false), (Protection::Tls([1; 32]), false)]
        {
            assert_eq!(is_taken((SEALED, peer.clone()), (protection, peer.clone())), is_right, "{protection:?}");
        }
    }

    #[test]
    fn without_keys_of_its_own_a_connection_is_told_by_its_clients_end() {
        let clear = |address| (Protection::Clear, tcp(address));
        assert!(is_taken(clear("192.0.2.1:5"), clear("[::ffff:192.0.2.1]:5")));
        assert!(is_taken(clear("[fe80::1%3]:5"), clear("[fe80::1%9]:5")), "a scope is of one machine");
        assert!(!is_taken(clear("192.0.2.1:5"), clear("192.0.2.2:5")));
        assert!(!is_taken(clear("192.0.2.1:5"), clear("192.0.2.1:6")));
        let local = |uid| (Protection::Local, user(uid));
        assert!(is_taken(local(5), (Protection::Local, Peer::Unix { uid: 5, pid: 0 })));
        assert!(!is_taken(local(5), local(6)));
        assert!(!is_taken(local(5), clear("192.0.2.1:5")));
        // A network in between may translate the addresses of both.
        assert!(is_taken((SEALED, tcp("192.0.2.1:5")), (SEALED, tcp("10.0.0.1:6"))));
    }

    #[test]
    fn keys_that_cannot_be_prove_nothing() {
        let server = HostKey::make().expect("random");
        for challenge in [&[][..], &[9; 31], &[9; 33], &[0; 32]] {
            assert_eq!(server.proof(challenge, &SEALED, &user(5)), None, "{challenge:?}");
        }
        let challenge = Challenge::make().expect("random");
        // Everybody could make this one's proofs.
        let all = hmac::Key::new(hmac::HMAC_SHA256, &[0; KEY]);
        let proof = hmac::sign(&all, &covered(&[0; KEY], challenge.bytes(), &SEALED, &user(5)));
        assert_eq!(challenge.proven(&[0; KEY], proof.as_ref(), &SEALED, &user(5)), None);
        assert_eq!(challenge.proven(&[], proof.as_ref(), &SEALED, &user(5)), None);
        assert_eq!(format!("{server:?} {challenge:?}"), "HostKey(…) Challenge(…)");
    }
}
