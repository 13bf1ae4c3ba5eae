//! Chunks that connections have, and where they go back to.

use std::sync::Arc;

use super::Shared;
use super::queue::Chunk;
use super::staging::Staged;
use crate::outgoing::{Giving, Lent};

/// A chunk that a connection has. It goes back when that needs it no more.
pub(super) struct Loan {
    chunk: Option<Chunk>,
    home: Arc<Shared>,
}

impl Loan {
    pub(super) fn new(chunk: Chunk, home: &Arc<Shared>) -> Self {
        Self { chunk: Some(chunk), home: Arc::clone(home) }
    }
}

impl Lent for Loan {
    fn len(&self) -> usize {
        self.chunk.as_ref().map_or(0, |chunk| chunk.place.len())
    }

    fn lend(&self, write: &mut dyn FnMut(&[u8])) {
        if let Some(chunk) = &self.chunk {
            chunk.show(write);
        }
    }

    fn giving(&self) -> Giving {
        self.chunk.as_ref().map_or(Giving::Copies, |chunk| chunk.load.giving())
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if let Some(chunk) = self.chunk.take() {
            self.home.give_back(chunk);
        }
    }
}

/// A copy of a chunk that a connection has. Its memory is for another when that needs it no more.
pub(super) struct StagedLoan {
    staged: Option<Staged>,
    home: Arc<Shared>,
}

impl StagedLoan {
    pub(super) fn new(staged: Staged, home: &Arc<Shared>) -> Self {
        Self { staged: Some(staged), home: Arc::clone(home) }
    }
}

impl Lent for StagedLoan {
    fn len(&self) -> usize {
        self.staged.as_ref().map_or(0, |staged| staged.bytes().len())
    }

    fn lend(&self, write: &mut dyn FnMut(&[u8])) {
        if let Some(staged) = &self.staged {
            write(staged.bytes());
        }
    }

    /// What its memory holds next is for the same peer.
    fn giving(&self) -> Giving {
        Giving::PagesForGood
    }
}

impl Drop for StagedLoan {
    fn drop(&mut self) {
        if let Some(staged) = self.staged.take() {
            self.home.take_back(staged.into_slot());
        }
    }
}
