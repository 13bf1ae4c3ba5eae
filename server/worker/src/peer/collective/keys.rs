//! The keys in unique ids: who has one may connect to the others that have it.
//! In: unique ids as the client has them. Out: NCCL's own part of them; tickets and keys for connections.
//! It is kept by the session to its end: communicators that NCCL makes of others go on with the same key.

use std::sync::Mutex;

use floe_abi::CudaError;
use floe_device::nccl::{UNIQUE_ID_BYTES, UniqueId};

use crate::issue::fault::{Fault, violation};
use crate::memory::budget::{Budget, Kept, cost};
use crate::peer::proof::{KEY_BYTES, Key};

/// Keys of a session.
const MOST: usize = 256;
/// Bytes of a unique id that NCCL may use.
const OWN: usize = UNIQUE_ID_BYTES - KEY_BYTES;

/// The keys of a session, the newest last.
pub(crate) struct Keys {
    all: Mutex<Vec<(u64, Key, Kept)>>,
    budget: Budget,
}

/// A number that tells bytes from others.
pub(crate) fn hash_of(context: &str, bytes: &[u8]) -> u64 {
    u64::from_le_bytes(blake3::derive_key(context, bytes).first_chunk().copied().unwrap_or_default())
}

/// The number by which a key is named in the clear.
fn ticket_of(key: &[u8]) -> u64 {
    hash_of("floe 2026-11 unique id", key)
}

/// The ticket of the first of some unique ids, as the client has them.
pub(crate) fn first_ticket(ids: &[u8]) -> u64 {
    ids.first_chunk::<UNIQUE_ID_BYTES>().map_or(0, |id| ticket_of(&id[OWN..]))
}

fn no_room() -> Fault {
    Fault::Explained(CudaError::NOT_SUPPORTED, "this NCCL's unique ids have no room for a key".to_owned())
}

fn too_many() -> Fault {
    Fault::Explained(CudaError::OUT_OF_MEMORY, format!("more unique ids than: {MOST}"))
}

impl Keys {
    pub(crate) fn new(budget: &Budget) -> Self {
        Self { all: Mutex::default(), budget: budget.clone() }
    }

    fn add(&self, bytes: &[u8]) -> Result<(), Fault> {
        let (ticket, Some(key)) = (ticket_of(bytes), Key::of(bytes)) else { return violation("no key of a unique id") };
        let mut all = floe_lock::lock(&self.all);
        if all.iter().any(|(known, ..)| *known == ticket) {
            return Ok(());
        }
        if all.len() >= MOST {
            return Err(too_many());
        }
        all.push((ticket, key, self.budget.keep(cost::TICKET)?));
        Ok(())
    }

    /// Whether there may be one more.
    pub(crate) fn has_room(&self) -> Result<(), Fault> {
        if floe_lock::lock(&self.all).len() < MOST { Ok(()) } else { Err(too_many()) }
    }

    /// A unique id of NCCL's with a new key, which this session has from here on.
    pub(crate) fn seal(&self, id: UniqueId) -> Result<UniqueId, Fault> {
        let UniqueId(mut bytes) = id;
        if bytes[OWN..].iter().any(|byte| *byte != 0) {
            return Err(no_room());
        }
        let none = |_| Fault::Explained(CudaError::OPERATING_SYSTEM, "no random bytes".to_owned());
        getrandom::fill(&mut bytes[OWN..]).map_err(none)?;
        self.add(&bytes[OWN..])?;
        Ok(UniqueId(bytes))
    }

    /// A unique id of NCCL's by which others join ranks that have the key of that ticket.
    pub(crate) fn seal_again(&self, id: UniqueId, ticket: u64) -> Result<UniqueId, Fault> {
        let UniqueId(mut bytes) = id;
        if bytes[OWN..].iter().any(|byte| *byte != 0) {
            return Err(no_room());
        }
        let key = self.of_ticket(ticket).ok_or(CudaError::INVALID_HANDLE)?;
        bytes[OWN..].copy_from_slice(key.bytes());
        Ok(UniqueId(bytes))
    }

    /// NCCL's part of unique ids, whose keys this session has from here on. They come from a program that may have made
    /// them up.
    pub(crate) fn open(&self, ids: &[u8]) -> Result<Vec<UniqueId>, Fault> {
        let (all, rest) = ids.as_chunks::<UNIQUE_ID_BYTES>();
        if all.is_empty() || !rest.is_empty() {
            return violation(format!("unique ids have no: {} bytes", ids.len()));
        }
        let open = |id: &[u8; UNIQUE_ID_BYTES]| {
            let mut own = *id;
            if id[OWN..].iter().all(|byte| *byte == 0) {
                let words = "a unique id that no server of floe made".to_owned();
                return Err(Fault::Explained(CudaError::INVALID_VALUE, words));
            }
            self.add(&id[OWN..])?;
            own[OWN..].fill(0);
            Ok(UniqueId(own))
        };
        all.iter().map(open).collect()
    }

    /// The key of a ticket.
    pub(crate) fn of_ticket(&self, ticket: u64) -> Option<Key> {
        floe_lock::lock(&self.all).iter().find(|(known, ..)| *known == ticket).map(|(_, key, _)| key.clone())
    }

    /// All of them, the newest first.
    pub(crate) fn all(&self) -> Vec<(u64, Key)> {
        floe_lock::lock(&self.all).iter().rev().map(|(ticket, key, _)| (*ticket, key.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    fn nccls() -> UniqueId {
        let mut bytes = [0; UNIQUE_ID_BYTES];
        bytes[..48].fill(7);
        UniqueId(bytes)
    }

    #[test]
    fn who_gets_a_unique_id_has_its_key_and_nccl_gets_its_own_part() {
        let (maker, other) = (Keys::new(&Budget::default()), Keys::new(&Budget::default()));
        let id = maker.seal(nccls()).unwrap();
        assert_eq!(other.open(&id.0).unwrap(), [nccls()]);
        let (ticket, key) = maker.all().remove(0);
        assert_eq!(other.of_ticket(ticket), Some(key));
        assert_eq!(other.of_ticket(ticket ^ 1), None);
        assert_ne!(maker.seal(nccls()).unwrap(), id, "each has a key of its own");
    }

    #[test]
    fn who_joins_gets_the_key_that_the_others_have() {
        let (maker, new) = (Keys::new(&Budget::default()), Keys::new(&Budget::default()));
        maker.seal(nccls()).unwrap();
        let (ticket, key) = maker.all().remove(0);
        maker.seal(nccls()).unwrap();
        let id = maker.seal_again(nccls(), ticket).unwrap();
        assert_eq!(new.open(&id.0).unwrap(), [nccls()]);
        assert_eq!((new.of_ticket(ticket), first_ticket(&id.0)), (Some(key), ticket));
        assert!(maker.seal_again(nccls(), ticket ^ 1).is_err());
        assert!(maker.seal_again(UniqueId([1; 128]), ticket).is_err());
    }

    #[test]
    fn hostile_ids_are_refused_and_a_session_has_so_many() {
        let keys = Keys::new(&Budget::default());
        assert!(matches!(keys.open(&[]), Err(Fault::ProtocolViolation(_))));
        assert!(matches!(keys.open(&[1; 129]), Err(Fault::ProtocolViolation(_))));
        assert!(matches!(keys.open(&nccls().0), Err(Fault::Explained(CudaError::INVALID_VALUE, _))));
        assert!(matches!(keys.seal(UniqueId([1; 128])), Err(Fault::Explained(CudaError::NOT_SUPPORTED, _))));
        let made = std::iter::from_fn(|| keys.seal(nccls()).ok()).count();
        assert_eq!(made, MOST);
        assert!(keys.open(&[keys.all()[0].0.to_le_bytes()[0]; 128]).is_err());
    }
}
