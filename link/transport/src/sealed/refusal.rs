//! An answer in the clear where a sealed one belongs: a refusal, another release, or somebody else's words.
//! In: what came. Out: the words of a refusal, as they may be shown.
//! Nobody has proved them: they are for people, and nothing is done because of them.

use std::time::Instant;

use floe_wire::{FrameHeader, HEADER_BYTES, Push, printable};

use super::handshake::read_exactly;
use crate::pipe::Pipe;

/// The most bytes of a refusal.
const MOST_BYTES: u32 = 4 << 10;

/// What was said instead of a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsealed {
    /// The code of the refusal, 0 where it is none.
    pub status: u32,
    /// Its words, or that there are none.
    pub detail: String,
}

impl Unsealed {
    /// What follows these first bytes of an answer.
    pub(super) fn of(under: &dyn Pipe, first: &[u8; 4], deadline: Instant) -> Self {
        Self::read(under, first, deadline)
            .unwrap_or_else(|| Self { status: 0, detail: "nothing that a server of floe says".into() })
    }

    fn read(under: &dyn Pipe, first: &[u8; 4], deadline: Instant) -> Option<Self> {
        let mut head = [0; HEADER_BYTES];
        head[..first.len()].copy_from_slice(first);
        read_exactly(under, &mut head[first.len()..], deadline).ok()?;
        let header = FrameHeader::decode(&head, MOST_BYTES).ok()?;
        let mut payload = vec![0; usize::try_from(header.length).ok()?];
        read_exactly(under, &mut payload, deadline).ok()?;
        match Push::decode(header.kind, &payload).ok()? {
            Push::Ended(ended) => Some(Self { status: ended.status, detail: printable(ended.detail) }),
            _ => None,
        }
    }
}
