//! The proof that an importer knows a ticket's key.
//! In: the key, and what is asked for by whom. Out: a proof, or whether one is right, in constant time.
//! The key itself goes to nobody.

use aws_lc_rs::hmac;
use floe_transport::Secret;

use crate::daemon::peer_notices::{Import, Kind, PROOF_BYTES};

/// Bytes of a ticket's key.
pub(crate) const KEY_BYTES: usize = 32;
/// Sets these proofs apart from any other use of a key.
const LABEL: &[u8] = b"floe import";

/// A ticket's key.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Key([u8; KEY_BYTES]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

/// What a proof is of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) exporter: u64,
    pub(crate) importer: u64,
    pub(crate) ticket: u64,
    pub(crate) kind: Kind,
    pub(crate) object: u64,
    pub(crate) request: u64,
}

impl Claim {
    /// The claim of an import that this session makes.
    pub(crate) fn of(importer: u64, import: &Import) -> Self {
        let Import { request, session, ticket, kind, object, .. } = *import;
        Self { exporter: session, importer, ticket, kind, object, request }
    }

    fn covered(&self) -> Vec<u8> {
        let Self { exporter, importer, ticket, kind, object, request } = *self;
        let numbers = [exporter, importer, ticket, kind.number(), object, request];
        LABEL.iter().copied().chain(numbers.into_iter().flat_map(u64::to_le_bytes)).collect()
    }
}

impl Key {
    /// A key from the wire; `None` where it has another length.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// What those who may have the key are given.
    pub(crate) fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    fn hmac(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.0)
    }

    /// The secret by which connections of a peer link prove and seal: of one session and one ticket.
    pub(crate) fn secret(&self, session: u64, ticket: u64) -> Secret {
        let digits: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        Secret::of(&format!("floe peer link {session} {ticket} {digits}"))
    }

    pub(crate) fn prove(&self, claim: &Claim) -> [u8; PROOF_BYTES] {
        let mut proof = [0; PROOF_BYTES];
        proof.copy_from_slice(hmac::sign(&self.hmac(), &claim.covered()).as_ref());
        proof
    }

    pub(crate) fn is_proved(&self, claim: &Claim, proof: &[u8; PROOF_BYTES]) -> bool {
        hmac::verify(&self.hmac(), &claim.covered(), proof).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_of_one_claim_and_one_key() {
        let key = Key([7; KEY_BYTES]);
        let claim = Claim { exporter: 1, importer: 2, ticket: 3, kind: Kind::Block, object: 5, request: 6 };
        let proof = key.prove(&claim);
        assert!(key.is_proved(&claim, &proof) && !Key([8; KEY_BYTES]).is_proved(&claim, &proof));
        for other in [
            Claim { exporter: 9, ..claim },
            Claim { importer: 9, ..claim },
            Claim { ticket: 9, ..claim },
            Claim { kind: Kind::Signals, ..claim },
            Claim { object: 9, ..claim },
            Claim { request: 9, ..claim },
        ] {
            assert!(!key.is_proved(&other, &proof), "{other:?}");
        }
        assert!(Key::of(&[0; KEY_BYTES - 1]).is_none() && Key::of(&[]).is_none());
    }
}
