//! Tickets of a session.
//! In: the client's tickets, proofs of importers, the time. Out: whether one admits an import.
//! It is pure: its callers give it the time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use floe_abi::CudaError;

use super::proof::{Claim, Key};
use crate::daemon::peer_notices::{Kind, PROOF_BYTES};
use crate::issue::fault::{Fault, violation};
use crate::memory::budget::{Budget, Kept, cost};

/// Tickets of a session at once.
const MOST: usize = 4096;

/// The objects that a ticket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All of the session.
    All,
    /// One.
    Object(Kind, u64),
    /// Connections of a peer link.
    Link(u64),
}

impl Scope {
    /// A scope from the wire.
    pub(crate) fn of(scope: u32, object: u64) -> Result<Self, Fault> {
        match scope {
            0 => Ok(Self::All),
            1 => Ok(Self::Object(Kind::Block, object)),
            2 => Ok(Self::Object(Kind::Signals, object)),
            3 => Ok(Self::Link(object)),
            _ => violation(format!("a ticket has no scope: {scope}")),
        }
    }
}

/// A ticket as the client makes it.
#[derive(Debug)]
pub(crate) struct New {
    pub(crate) key: Key,
    pub(crate) scope: Scope,
    /// 0: no limit.
    pub(crate) uses: u32,
    /// 0: as long as its object, or the session.
    pub(crate) seconds: u32,
}

#[derive(Debug)]
struct Ticket {
    key: Key,
    scope: Scope,
    /// `None`: no limit.
    uses: Option<u32>,
    ends: Option<Instant>,
    _kept: Kept,
}

/// The tickets of a session.
#[derive(Debug)]
pub(crate) struct Tickets {
    by_id: BTreeMap<u64, Ticket>,
    budget: Budget,
}

impl Tickets {
    pub(crate) fn new(budget: &Budget) -> Self {
        Self { by_id: BTreeMap::new(), budget: budget.clone() }
    }

    pub(crate) fn add(&mut self, now: Instant, id: u64, new: New) -> Result<(), Fault> {
        self.by_id.retain(|_, ticket| ticket.ends.is_none_or(|ends| now < ends));
        if id == 0 || self.by_id.contains_key(&id) {
            return violation(format!("ticket id is taken: {id}"));
        }
        if self.by_id.len() >= MOST {
            return Err(Fault::Explained(CudaError::OUT_OF_MEMORY, format!("more tickets than: {MOST}")));
        }
        let New { key, scope, uses, seconds } = new;
        let ends = (seconds > 0).then(|| now + Duration::from_secs(seconds.into()));
        let _kept = self.budget.keep(cost::TICKET)?;
        self.by_id.insert(id, Ticket { key, scope, uses: (uses > 0).then_some(uses), ends, _kept });
        Ok(())
    }

    /// Whether any ticket but this one still admits somebody.
    pub(crate) fn any(&self, now: Instant, but: Option<u64>) -> bool {
        let lasts = |ticket: &Ticket| ticket.ends.is_none_or(|ends| now < ends) && ticket.uses != Some(0);
        self.by_id.iter().any(|(id, ticket)| Some(*id) != but && lasts(ticket))
    }

    /// Ends a ticket, which may have ended with its object.
    pub(crate) fn withdraw(&mut self, id: u64) {
        self.by_id.remove(&id);
    }

    /// Ends the tickets of an object that has ended.
    pub(crate) fn end(&mut self, kind: Kind, object: u64) {
        self.by_id.retain(|_, ticket| ticket.scope != Scope::Object(kind, object));
    }

    /// Whether a ticket admits this; `use_up` says that it did.
    pub(crate) fn admits(&self, now: Instant, claim: &Claim, proof: &[u8; PROOF_BYTES]) -> bool {
        self.by_id.get(&claim.ticket).is_some_and(|ticket| {
            let lasts = ticket.ends.is_none_or(|ends| now < ends) && ticket.uses != Some(0);
            let covers = ticket.scope == Scope::All || ticket.scope == Scope::Object(claim.kind, claim.object);
            // The proof is looked at in any case: how long a refusal takes says nothing.
            let proved = ticket.key.is_proved(claim, proof);
            lasts && covers && proved
        })
    }

    /// The peer link that a ticket is for, and the key that its connections prove.
    pub(crate) fn of_link(&self, now: Instant, id: u64) -> Option<(u64, Key)> {
        let ticket = self.by_id.get(&id)?;
        let lasts = ticket.ends.is_none_or(|ends| now < ends) && ticket.uses != Some(0);
        match ticket.scope {
            Scope::Link(link) if lasts => Some((link, ticket.key.clone())),
            _ => None,
        }
    }

    /// Ends the tickets of a peer link that has ended.
    pub(crate) fn end_link(&mut self, link: u64) {
        self.by_id.retain(|_, ticket| ticket.scope != Scope::Link(link));
    }

    pub(crate) fn use_up(&mut self, id: u64) {
        if let Some(uses) = self.by_id.get_mut(&id).and_then(|ticket| ticket.uses.as_mut()) {
            *uses = uses.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use crate::peer::proof::KEY_BYTES;

    const CLAIM: Claim = Claim { exporter: 1, importer: 2, ticket: 3, kind: Kind::Block, object: 5, request: 6 };

    fn key() -> Key {
        Key::of(&[7; KEY_BYTES]).unwrap()
    }

    fn with(scope: Scope, uses: u32, seconds: u32) -> (Tickets, Instant) {
        let (mut tickets, now) = (Tickets::new(&Budget::default()), Instant::now());
        tickets.add(now, 3, New { key: key(), scope, uses, seconds }).unwrap();
        (tickets, now)
    }

    fn admits(tickets: &Tickets, now: Instant, claim: &Claim) -> bool {
        tickets.admits(now, claim, &key().prove(claim))
    }

    #[test]
    fn a_ticket_admits_what_it_is_for_as_often_and_as_long_as_it_says() {
        let (mut tickets, now) = with(Scope::Object(Kind::Block, 5), 2, 10);
        assert!(!tickets.admits(now, &CLAIM, &[0; PROOF_BYTES]), "a forged proof");
        assert!(!admits(&tickets, now, &Claim { object: 6, ..CLAIM }));
        assert!(!admits(&tickets, now, &Claim { kind: Kind::Signals, ..CLAIM }));
        assert!(!admits(&tickets, now, &Claim { ticket: 4, ..CLAIM }));
        assert!(admits(&tickets, now + Duration::from_secs(9), &CLAIM));
        assert!(!admits(&tickets, now + Duration::from_secs(10), &CLAIM), "it has expired");
        for _ in 0..2 {
            assert!(admits(&tickets, now, &CLAIM));
            tickets.use_up(3);
        }
        assert!(!admits(&tickets, now, &CLAIM), "it is used up");
    }

    #[test]
    fn a_ticket_ends_with_its_object_or_when_it_is_withdrawn_and_one_of_all_with_the_session() {
        let (mut tickets, now) = with(Scope::Object(Kind::Block, 5), 0, 0);
        tickets.end(Kind::Signals, 5);
        assert!(admits(&tickets, now, &CLAIM));
        tickets.end(Kind::Block, 5);
        assert!(!admits(&tickets, now, &CLAIM));
        let (mut tickets, now) = with(Scope::All, 0, 0);
        tickets.end(Kind::Block, 5);
        assert!(admits(&tickets, now + Duration::from_secs(1 << 30), &CLAIM));
        tickets.withdraw(3);
        assert!(!admits(&tickets, now, &CLAIM));
    }

    #[test]
    fn a_ticket_of_a_link_is_for_its_connections_and_for_nothing_else() {
        let (mut tickets, now) = with(Scope::Link(5), 1, 10);
        assert!(!admits(&tickets, now, &CLAIM), "it imports nothing");
        assert_eq!(tickets.of_link(now, 3), Some((5, key())));
        assert_eq!(tickets.of_link(now, 4), None);
        assert_eq!(tickets.of_link(now + Duration::from_secs(10), 3), None, "it has expired");
        tickets.use_up(3);
        assert_eq!(tickets.of_link(now, 3), None, "it is used up");
        let (mut tickets, now) = with(Scope::Link(5), 1, 0);
        tickets.end_link(5);
        assert_eq!(tickets.of_link(now, 3), None);
        assert_eq!(with(Scope::All, 0, 0).0.of_link(now, 3), None, "one for imports");
    }

    #[test]
    fn a_session_has_so_many_tickets_which_cost_host_memory_and_expired_ones_make_room() {
        let budget = Budget::new(1 << 30);
        let (mut tickets, now) = (Tickets::new(&budget), Instant::now());
        let new = |seconds| New { key: key(), scope: Scope::All, uses: 0, seconds };
        (1..=MOST as u64).for_each(|id| tickets.add(now, id, new(1)).unwrap());
        assert_eq!(budget.kept(), MOST as u64 * cost::TICKET);
        assert!(matches!(tickets.add(now, 0, new(0)), Err(Fault::ProtocolViolation(_))));
        assert!(matches!(tickets.add(now, 1, new(0)), Err(Fault::ProtocolViolation(_))));
        let more = MOST as u64 + 1;
        assert!(matches!(tickets.add(now, more, new(0)), Err(Fault::Explained(CudaError::OUT_OF_MEMORY, _))));
        tickets.add(now + Duration::from_secs(1), more, new(0)).unwrap();
        assert_eq!(budget.kept(), cost::TICKET);
        let mut poor = Tickets::new(&Budget::new(cost::TICKET));
        assert!(matches!(poor.add(now, 1, new(0)), Err(Fault::Explained(CudaError::OUT_OF_MEMORY, _))));
    }
}
