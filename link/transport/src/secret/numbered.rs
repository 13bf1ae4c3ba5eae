//! Tokens of users: each has a number, by which a server finds its public key, and a private key of the user's own.
//! In: random bytes, the texts of a token and of a server's key. Out: the secret that both sides derive, each from its
//! own private key and the other's public key.
//! A server keeps no bytes from which a token could be made. It never shows a private key.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use aws_lc_rs::hmac;

/// Bytes of a key of X25519.
pub(super) const KEY: usize = 32;
/// Bytes of a token's number.
const NUMBER: usize = 8;
/// What a user's token begins with. A server's own token has no such beginning.
const BEGINNING: &str = "floe-user-";
/// The context of the secret.
const CONTEXT: &[u8] = b"floe user token v1";

/// What both sides agree on.
pub(super) type Shared = [u8; 32];

/// A token's number. It is no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenNumber(pub [u8; NUMBER]);

impl fmt::Display for TokenNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&hex(&self.0))
    }
}

/// A text is no token's number: 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a token's number: 16 hexadecimal digits")]
pub struct NotANumber;

impl FromStr for TokenNumber {
    type Err = NotANumber;

    fn from_str(text: &str) -> Result<Self, NotANumber> {
        unhex(text).map(Self).ok_or(NotANumber)
    }
}

/// A user's public key, by which a server knows the user's token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserKey([u8; KEY]);

impl fmt::Display for UserKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&hex(&self.0))
    }
}

impl FromStr for UserKey {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<Self, NotAKey> {
        unhex(text).map(Self).ok_or(NotAKey)
    }
}

/// A text is no key: 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a key: 64 hexadecimal digits")]
pub struct NotAKey;

/// A server's key for tokens of users.
pub struct ServerKey([u8; KEY]);

impl fmt::Debug for ServerKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ServerKey(…)")
    }
}

impl FromStr for ServerKey {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<Self, NotAKey> {
        let key = Self(unhex(text.trim()).ok_or(NotAKey)?);
        public(&key.0).map(|_| key).ok_or(NotAKey)
    }
}

/// A token that was just made. The server keeps number and key; the text is for the user alone.
pub struct NewToken {
    /// The token itself.
    pub text: String,
    /// Its number.
    pub number: TokenNumber,
    /// Its public key.
    pub key: UserKey,
}

impl fmt::Debug for NewToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "NewToken({})", self.number)
    }
}

impl ServerKey {
    /// A new key. `None`: the system gives no random bytes.
    #[must_use]
    pub fn make() -> Option<Self> {
        random().map(Self)
    }

    /// Its text, for the server's file alone.
    #[must_use]
    pub fn text(&self) -> String {
        hex(&self.0)
    }

    /// Makes a token for this server. `None`: the system gives no random bytes.
    #[must_use]
    pub fn make_token(&self) -> Option<NewToken> {
        let (number, private): ([u8; NUMBER], [u8; KEY]) = (random()?, random()?);
        let bytes = [&number[..], &public(&self.0)?, &private].concat();
        let (number, key) = (TokenNumber(number), UserKey(public(&private)?));
        Some(NewToken { text: format!("{BEGINNING}{}", hex(&bytes)), number, key })
    }

    /// The bytes that a user's token and this key agree on. `None` for a key that cannot be.
    pub(super) fn agree(&self, number: TokenNumber, user: &UserKey) -> Option<Shared> {
        shared(&self.0, &user.0, number, &public(&self.0)?, &user.0)
    }
}

/// The number of a user's token, and the bytes that it and the server's key agree on; `None` for any other text.
pub(super) fn agree_by(text: &str) -> Option<(TokenNumber, Shared)> {
    let bytes: [u8; NUMBER + 2 * KEY] = unhex(text.strip_prefix(BEGINNING)?)?;
    let (number, keys) = bytes.split_first_chunk()?;
    let (server, private): (&[u8; KEY], _) = keys.split_first_chunk()?;
    let private = private.try_into().ok()?;
    let number = TokenNumber(*number);
    Some((number, shared(private, server, number, server, &public(private)?)?))
}

fn shared(
    own: &[u8; KEY],
    other: &[u8; KEY],
    number: TokenNumber,
    server: &[u8; KEY],
    user: &[u8; KEY],
) -> Option<Shared> {
    let own = PrivateKey::from_private_key(&X25519, own).ok()?;
    let context = hmac::Key::new(hmac::HMAC_SHA256, CONTEXT);
    let agreed = |agreed: &[u8]| Ok(hmac::sign(&context, &[agreed, &number.0, server, user].concat()));
    let derived = agree(&own, UnparsedPublicKey::new(&X25519, other), (), agreed).ok()?;
    derived.as_ref().try_into().ok()
}

pub(super) fn public(private: &[u8; KEY]) -> Option<[u8; KEY]> {
    let private = PrivateKey::from_private_key(&X25519, private).ok()?;
    private.compute_public_key().ok()?.as_ref().try_into().ok()
}

pub(super) fn random<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).ok().map(|()| bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::{Protection, Secret, Side};

    fn proof(secret: &Secret) -> [u8; 32] {
        secret.proof(Side::Client, &Protection::Clear, b"server", b"client")
    }

    #[test]
    fn server_and_user_derive_the_same_secret_and_nobody_else_does() {
        let server = ServerKey::make().expect("random bytes");
        let token = server.make_token().expect("random bytes");
        let client = Secret::of(&token.text);
        let found = server.secret(token.number, &token.key).expect("a key");
        assert_eq!((proof(&client), client.number()), (proof(&found), Some(token.number)));
        assert_eq!(client.sealing(), found.sealing());
        // What a thief of the list has: public keys.
        let again: ServerKey = server.text().parse().expect("its text");
        assert_eq!(proof(&again.secret(token.number, &token.key).expect("a key")), proof(&client));
        let other = ServerKey::make().expect("random bytes");
        assert_ne!(proof(&other.secret(token.number, &token.key).expect("a key")), proof(&client));
        assert_ne!(proof(&server.secret(TokenNumber([0; 8]), &token.key).expect("a key")), proof(&client));
        assert!(!token.text.contains(&server.text()) && !token.text.contains(&token.key.to_string()));
    }

    #[test]
    fn other_texts_are_tokens_of_servers() {
        let token = ServerKey::make().and_then(|key| key.make_token()).expect("random bytes").text;
        for text in ["", "floe-user-", "token", &token[1..], &token[..token.len() - 1], &format!("{token}0")] {
            assert_eq!(Secret::of(text).number(), None, "{text}");
        }
        assert!("00".parse::<TokenNumber>().is_err() && "+f".repeat(8).parse::<TokenNumber>().is_err());
        assert!(server_key(&"0".repeat(63)).is_err() && UserKey::from_str("").is_err());
    }

    fn server_key(text: &str) -> Result<ServerKey, NotAKey> {
        text.parse()
    }

    #[test]
    fn a_key_that_makes_every_secret_the_same_is_refused() {
        let server = ServerKey::make().expect("random bytes");
        assert!(server.secret(TokenNumber([1; 8]), &UserKey([0; 32])).is_none());
    }

    #[test]
    fn debug_output_shows_nothing_secret() {
        let server = ServerKey::make().expect("random bytes");
        let token = server.make_token().expect("random bytes");
        assert_eq!(format!("{server:?} {token:?}"), format!("ServerKey(…) NewToken({})", token.number));
    }
}
