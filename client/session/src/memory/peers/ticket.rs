//! What names things of other sessions: tickets with their scope and key, and blocks that were imported by one. It is data: nothing
//! here is sent, and keys are shown to nobody.

use floe_wire::{PeerLinkId, SignalsId};

/// Bytes of a ticket's key.
pub(crate) const KEY_BYTES: usize = 32;

/// The things that a ticket lets others import.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Scope {
    /// Every block and page of the session.
    Everything,
    /// This block.
    Block(u64),
    /// This page.
    Signals(SignalsId),
    /// Connections of this peer link, which begins with the ticket.
    Link(PeerLinkId),
}

impl Scope {
    /// Scope and object as they travel.
    pub(super) fn on_wire(self) -> (u32, u64) {
        match self {
            Self::Everything => (0, 0),
            Self::Block(block) => (1, block),
            Self::Signals(SignalsId(page)) => (2, page),
            Self::Link(PeerLinkId(link)) => (3, link),
        }
    }
}

/// A session from which may be imported, and by what.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Exporter {
    pub(crate) session: u64,
    pub(crate) ticket: u64,
    pub(crate) key: [u8; KEY_BYTES],
}

impl std::fmt::Debug for Exporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exporter").field("session", &self.session).field("ticket", &self.ticket).finish_non_exhaustive()
    }
}

/// A block that was imported, which is mapped, unmapped and released as any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Imported {
    /// Its id in the importer's session.
    pub(crate) block: u64,
    pub(crate) bytes: u64,
}
