//! Keys and proofs that client and server derive from their shared token: a key to seal plain TCP, and proofs for other
//! connections.
//! In: the token, a connection's protection, nonces. Out: keys, proofs, and whether a proof is right.
//! It never keeps or shows the token, and compares proofs in constant time.

mod host_key;
mod numbered;

use std::fmt;

use aws_lc_rs::hmac;

pub use host_key::{Challenge, HostKey};
pub use numbered::{NewToken, NotAKey, NotANumber, ServerKey, TokenNumber, UserKey};

/// The context of the key of sealed connections.
const SEALING: &[u8] = b"floe seal v3";
/// The context of a proof: its first part.
const PROVING: &[u8] = b"floe proof v3";

/// Bytes of a proof, of a key, and of a connection's binding.
const BYTES: usize = 32;

/// The protection of a connection's bytes, as both ends see it. It binds a proof to this connection alone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    /// A socket within this machine.
    Local,
    /// TCP in the clear.
    Clear,
    /// TCP sealed by the token, with the handshake's hash.
    Sealed([u8; BYTES]),
    /// TLS, with its exporter's bytes for floe.
    Tls([u8; BYTES]),
}

/// What a peer has shown as keys were agreed on.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// The number of the user's token that seals the link.
    pub(crate) number: Option<TokenNumber>,
    /// The users that its certificate names.
    pub(crate) users: Vec<String>,
}

impl fmt::Debug for Protection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Local => "Local",
            Self::Clear => "Clear",
            Self::Sealed(_) => "Sealed(…)",
            Self::Tls(_) => "Tls(…)",
        })
    }
}

impl Protection {
    /// Its name and its binding, as a proof covers them.
    fn bound(&self) -> (&'static [u8], &[u8]) {
        match self {
            Self::Local => (b"local", &[]),
            Self::Clear => (b"clear", &[]),
            Self::Sealed(hash) => (b"sealed", hash),
            Self::Tls(exported) => (b"tls", exported),
        }
    }
}

/// The side that makes a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The client's.
    Client,
    /// The server's.
    Server,
}

/// A token's keys.
#[derive(Clone)]
pub struct Secret {
    sealing: [u8; BYTES],
    proving: hmac::Key,
    number: Option<TokenNumber>,
}

/// The tokens that a server knows.
pub trait Secrets: fmt::Debug + Sync {
    /// The secret of the token with this number, or of the server's own (`None`).
    fn find(&self, number: Option<TokenNumber>) -> Option<Secret>;
}

impl ServerKey {
    /// The secret of a user's token. `None` for a key that cannot be.
    #[must_use]
    pub fn secret(&self, number: TokenNumber, user: &UserKey) -> Option<Secret> {
        self.agree(number, user).map(|shared| Secret::derived(&shared, Some(number)))
    }
}

impl Secrets for Secret {
    fn find(&self, number: Option<TokenNumber>) -> Option<Secret> {
        (self.number == number).then(|| self.clone())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(…)")
    }
}

impl Secret {
    /// Derives the keys of a token: a server's own, or a user's.
    #[must_use]
    pub fn of(token: &str) -> Self {
        match numbered::agree_by(token) {
            Some((number, shared)) => Self::derived(&shared, Some(number)),
            None => Self::derived(token.as_bytes(), None),
        }
    }

    fn derived(token: &[u8], number: Option<TokenNumber>) -> Self {
        let proving = hmac::Key::new(hmac::HMAC_SHA256, token);
        let mut sealing = [0; BYTES];
        sealing.copy_from_slice(hmac::sign(&proving, SEALING).as_ref());
        Self { sealing, proving, number }
    }

    /// The number of a user's token, by which the server finds it. `None`: it is the server's own token.
    #[must_use]
    pub fn number(&self) -> Option<TokenNumber> {
        self.number
    }

    /// The key with which both sides of a sealed connection begin.
    pub(crate) fn sealing(&self) -> &[u8; BYTES] {
        &self.sealing
    }

    /// One side's proof that it knows the token.
    #[must_use]
    pub fn proof(&self, side: Side, protection: &Protection, server: &[u8], client: &[u8]) -> [u8; BYTES] {
        let mut proof = [0; BYTES];
        proof.copy_from_slice(hmac::sign(&self.proving, &covered(side, protection, server, client)).as_ref());
        proof
    }

    /// Whether a proof is right.
    #[must_use]
    pub fn proves(&self, side: Side, protection: &Protection, server: &[u8], client: &[u8], proof: &[u8]) -> bool {
        hmac::verify(&self.proving, &covered(side, protection, server, client), proof).is_ok()
    }
}

/// The bytes that a proof covers.
fn covered(side: Side, protection: &Protection, server: &[u8], client: &[u8]) -> Vec<u8> {
    let side: &[u8] = match side {
        Side::Client => b"C",
        Side::Server => b"S",
    };
    let (name, bound) = protection.bound();
    in_parts(&[PROVING, side, name, bound, server, client])
}

/// Each part behind its length, so that no two parts run together.
fn in_parts(parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in parts {
        let length = u32::try_from(part.len()).expect("a nonce is short");
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(part);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_bound_to_token_side_channel_and_nonces() {
        let secret = Secret::of("token");
        let protection = Protection::Tls([1; 32]);
        let proof = secret.proof(Side::Client, &protection, b"server", b"client");
        assert!(secret.proves(Side::Client, &protection, b"server", b"client", &proof));
        assert!(!Secret::of("another").proves(Side::Client, &protection, b"server", b"client", &proof));
        assert!(!secret.proves(Side::Server, &protection, b"server", b"client", &proof));
        for other in [Protection::Local, Protection::Clear, Protection::Sealed([1; 32]), Protection::Tls([2; 32])] {
            assert!(!secret.proves(Side::Client, &other, b"server", b"client", &proof), "{other:?}");
        }
        assert!(!secret.proves(Side::Client, &protection, b"serverc", b"lient", &proof));
        assert!(!secret.proves(Side::Client, &protection, b"server", b"", &proof));
        assert!(!secret.proves(Side::Client, &protection, b"server", b"client", &proof[..31]));
    }

    #[test]
    fn debug_output_of_a_secret_shows_nothing_secret() {
        assert_eq!(format!("{:?} {:?}", Secret::of("token"), Protection::Sealed([7; 32])), "Secret(…) Sealed(…)");
    }
}
