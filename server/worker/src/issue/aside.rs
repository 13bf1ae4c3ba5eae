//! Commands that the issuer has taken over and not begun, because somebody interrupted it.
//! In: commands. Out: the same, in their order, by themselves. It carries none out.

use std::collections::VecDeque;

use crate::memory::transfer_buffers::UploadRange;
use crate::wire_in::batch::Command;
use crate::wire_in::queue::Issuing;

/// Commands that were taken over and not begun, and the issuer's part of the queue meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Aside {
    pub(crate) commands: VecDeque<Kept>,
    pub(crate) issuing: Issuing,
}

/// A command by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) sequence: u64,
    pub(crate) kind: u16,
    pub(crate) payload: Vec<u8>,
    pub(crate) range: Option<UploadRange>,
}

impl Kept {
    pub(crate) fn of(Command { sequence, kind, payload, range }: Command<'_>) -> Self {
        Self { sequence, kind, payload: payload.to_vec(), range }
    }

    pub(crate) fn as_command(&self) -> Command<'_> {
        Command { sequence: self.sequence, kind: self.kind, payload: &self.payload, range: self.range }
    }
}
