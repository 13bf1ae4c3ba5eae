//! An answer in the clear where a sealed one belongs: a refusal, another release, or somebody else's words.
//! In: the bytes that arrived. Out: the words of a refusal, safe to show.
//! Nobody has proved them: they are for people, and floe never acts on them.

use std::time::Instant;

use floe_wire::{FrameHeader, HEADER_BYTES, Push, printable};

use super::exact::read_exactly;
use crate::error::Unsealed;
use crate::pipes::pipe::Pipe;

/// The most bytes of a refusal.
const MOST_BYTES: u32 = 4 << 10;

/// Reads the refusal that begins with these bytes.
pub(super) fn refusal(under: &dyn Pipe, first: &[u8; 4], deadline: Instant) -> Unsealed {
    let nothing = || Unsealed { status: 0, detail: "not the words of a floe server".into() };
    read(under, first, deadline).unwrap_or_else(nothing)
}

fn read(under: &dyn Pipe, first: &[u8; 4], deadline: Instant) -> Option<Unsealed> {
    let mut head = [0; HEADER_BYTES];
    head[..first.len()].copy_from_slice(first);
    read_exactly(under, &mut head[first.len()..], deadline).ok()?;
    let header = FrameHeader::decode(&head, MOST_BYTES).ok()?;
    let mut payload = vec![0; usize::try_from(header.length).ok()?];
    read_exactly(under, &mut payload, deadline).ok()?;
    match Push::decode(header.kind, &payload).ok()? {
        Push::Ended(ended) => Some(Unsealed { status: ended.status, detail: printable(ended.detail) }),
        _ => None,
    }
}
