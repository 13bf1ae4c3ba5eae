//! Images that the driver linked, until the client has read them.
//! In: images by id. Out: their bytes, in message pieces. Each is charged to the session's host memory.

use std::collections::HashMap;

use floe_wire::{LibraryId, PIECE_BYTES};

use crate::issue::fault::{Fault, violation};
use crate::memory::budget::{Budget, Kept, cost};

/// Images that were linked, with how far each was read.
#[derive(Debug)]
pub(crate) struct Linked {
    pub(crate) by_id: HashMap<u64, (Vec<u8>, usize, Kept)>,
    pub(crate) budget: Budget,
}

impl Linked {
    pub(crate) fn new(budget: &Budget) -> Self {
        Self { by_id: HashMap::new(), budget: budget.clone() }
    }

    pub(crate) fn check_new(&self, id: LibraryId) -> Result<(), Fault> {
        if self.by_id.contains_key(&id.0) { violation(format!("linked already: {}", id.0)) } else { Ok(()) }
    }

    pub(crate) fn add(&mut self, id: LibraryId, image: Vec<u8>) -> Result<(), Fault> {
        let kept = self.budget.keep(cost::LIBRARY + image.len() as u64)?;
        self.by_id.insert(id.0, (image, 0, kept));
        Ok(())
    }

    pub(crate) fn read(&mut self, id: LibraryId) -> Result<Vec<u8>, Fault> {
        let Some((image, read, _)) = self.by_id.get_mut(&id.0) else {
            return violation(format!("no linked image has the id: {}", id.0));
        };
        let piece: Vec<u8> = image[*read..].iter().copied().take(PIECE_BYTES).collect();
        *read += piece.len();
        if *read == image.len() {
            self.by_id.remove(&id.0);
        }
        Ok(piece)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    #[test]
    fn an_image_is_read_in_pieces_and_gone_with_its_last() {
        let mut linked = Linked::new(&Budget::default());
        linked.add(LibraryId(4), vec![7; PIECE_BYTES + 3]).unwrap();
        assert!(linked.check_new(LibraryId(4)).is_err());
        assert_eq!(linked.read(LibraryId(4)).unwrap().len(), PIECE_BYTES);
        assert_eq!(linked.read(LibraryId(4)).unwrap(), [7; 3]);
        assert!(matches!(linked.read(LibraryId(4)), Err(Fault::ProtocolViolation(_))));
        assert!(linked.check_new(LibraryId(4)).is_ok());
    }
}
