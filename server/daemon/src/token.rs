//! The shared token: made at the first start, never sent, proved by both sides.
//! In: a file's path; nonces. Out: the token; proofs and whether one is right.
//! The comparison takes the same time whatever differs.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use crate::error::DaemonError;

/// What both proofs cover beside the nonces.
const PURPOSE: &[u8] = b"floe-token-v1";
/// Random bytes in a token and in a nonce: as many as the hash gives.
pub(crate) const RANDOM_BYTES: usize = 32;

/// The shared secret.
#[derive(Clone)]
pub(crate) struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Token(…)")
    }
}

/// Random bytes for a nonce.
pub(crate) fn random() -> Result<[u8; RANDOM_BYTES], DaemonError> {
    let mut bytes = [0; RANDOM_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| DaemonError::Random(error.to_string()))?;
    Ok(bytes)
}

impl Token {
    /// Reads the token, or makes the file with a new one. Says whether it was made.
    pub(crate) fn read_or_make(path: &Path) -> Result<(Self, bool), DaemonError> {
        let wrong = |source| DaemonError::Token { path: path.to_path_buf(), source };
        match Self::make(path) {
            Ok(token) => return Ok((token, true)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(wrong(error)),
        }
        let mode = fs::metadata(path).map_err(wrong)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(DaemonError::TokenMode { path: path.to_path_buf(), mode });
        }
        let text = fs::read_to_string(path).map_err(wrong)?;
        match text.trim() {
            "" => Err(DaemonError::TokenEmpty(path.to_path_buf())),
            token => Ok((Self(token.to_owned()), false)),
        }
    }

    /// Makes the file whole and only then gives it its name, so that no other daemon reads half a token.
    fn make(path: &Path) -> io::Result<Self> {
        if path.exists() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let random = random().map_err(|error| io::Error::other(error.to_string()))?;
        let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let draft = folder.join(format!(".token-{}", std::process::id()));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        file.write_all(token.as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        // A link fails where the name is taken; a rename would replace another daemon's token.
        let named = fs::hard_link(&draft, path);
        fs::remove_file(&draft)?;
        named.map(|()| Self(token))
    }

    fn mac(&self, side: &[u8], server: &[u8], client: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::new_from_slice(self.0.as_bytes()).expect("HMAC takes keys of any length");
        for part in [PURPOSE, side, server, client] {
            mac.update(part);
        }
        mac
    }

    /// Is this the client's proof?
    pub(crate) fn client_knows(&self, server: &[u8], client: &[u8], proof: &[u8]) -> bool {
        self.mac(b"C", server, client).verify_slice(proof).is_ok()
    }

    /// The client's proof, for a test that is one.
    #[cfg(test)]
    pub(crate) fn proof_of_client(&self, server: &[u8], client: &[u8]) -> Vec<u8> {
        self.mac(b"C", server, client).finalize().into_bytes().to_vec()
    }

    /// The server's own proof.
    pub(crate) fn proof_of_server(&self, server: &[u8], client: &[u8]) -> Vec<u8> {
        self.mac(b"S", server, client).finalize().into_bytes().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_made_once_and_for_its_owner_only() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("deep/token");
        let (first, made) = Token::read_or_make(&path).expect("it is made");
        assert!(made);
        assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o600);
        let (second, made) = Token::read_or_make(&path).expect("it is read");
        assert!(!made);
        assert_eq!(first.0, second.0);
        assert_eq!(fs::read_dir(path.parent().expect("a folder")).expect("readable").count(), 1, "a draft is left");
    }

    #[test]
    fn a_token_others_can_read_is_refused() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("token");
        fs::write(&path, "secret").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("changed");
        assert!(matches!(Token::read_or_make(&path), Err(DaemonError::TokenMode { mode: 0o644, .. })));
    }

    #[test]
    fn a_proof_is_bound_to_side_and_nonces() {
        let token = Token("secret".into());
        let proof = token.mac(b"C", b"server", b"client").finalize().into_bytes();
        assert!(token.client_knows(b"server", b"client", &proof));
        assert!(!token.client_knows(b"server", b"other", &proof));
        assert!(!Token("another".into()).client_knows(b"server", b"client", &proof));
        assert_ne!(token.proof_of_server(b"server", b"client"), proof.to_vec());
    }
}
