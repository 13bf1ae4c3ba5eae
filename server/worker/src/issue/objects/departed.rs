//! Code of libraries that the program has used and unloaded. What its kernels have made beside memory that a host knows of is
//! still there: it goes with the context.
//! In: libraries as they go. Out: what they may have left, in words. Code is searched when a move asks, or when much has gone.

use std::collections::VecDeque;

use floe_device::Content;
use floe_image::{Limits, beyond_reach};

use crate::issue::objects::library::Loaded;
use crate::memory::budget::Kept;

/// Libraries are searched up to these sizes: the largest there are.
pub(crate) const LIMITS: Limits = Limits { image_bytes: 1 << 30, entry_bytes: 1 << 30, entries: 4096 };
/// The most bytes in memory that wait to be searched.
const WAITING_BYTES: usize = 16 << 20;
/// The most libraries that do.
const WAITING: usize = 64;

/// Libraries of a context that are gone.
#[derive(Debug, Default)]
pub(crate) struct Departed {
    waiting: VecDeque<Gone>,
    /// Bytes in memory of those.
    bytes: usize,
    /// What one has left, or may have left.
    left: Option<String>,
}

/// A library that has not been searched.
#[derive(Debug)]
struct Gone {
    library: u64,
    contents: Vec<Content>,
    _kept: Kept,
}

/// Refuses a library whose kernels make what no move takes along; of one that cannot be read nobody knows.
pub(crate) fn demand_within_reach(library: u64, contents: &[Content]) -> Result<(), String> {
    for content in contents {
        match beyond_reach(content, &LIMITS) {
            Ok(None) => {}
            Ok(Some(beyond)) => return Err(format!("library {library}: {beyond}, which no move takes along")),
            Err(error) => {
                return Err(format!("code of library {library} cannot be searched for what it keeps: {error}"));
            }
        }
    }
    Ok(())
}

impl Departed {
    /// A library goes that the program may have used.
    pub(crate) fn take(&mut self, id: u64, library: Loaded) {
        if self.left.is_some() {
            return;
        }
        let contents: Vec<Content> = library.contents.into_iter().map(|(_, content)| content).collect();
        self.bytes += in_memory(&contents);
        self.waiting.push_back(Gone { library: id, contents, _kept: library.kept });
        while self.bytes > WAITING_BYTES || self.waiting.len() > WAITING {
            self.search_one();
        }
    }

    /// What one of them has left; `None`: nothing.
    pub(crate) fn left(&mut self) -> Option<&str> {
        while !self.waiting.is_empty() {
            self.search_one();
        }
        self.left.as_deref()
    }

    /// The context is gone, and all that was in it.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    fn search_one(&mut self) {
        let Some(gone) = self.waiting.pop_front() else { return };
        self.bytes -= in_memory(&gone.contents);
        if let Err(words) = demand_within_reach(gone.library, &gone.contents) {
            self.clear();
            self.left =
                Some(format!("{words}; it has been unloaded, but what it made is there until the context ends"));
        }
    }
}

fn in_memory(contents: &[Content]) -> usize {
    contents.iter().filter(|content| content.is_in_memory()).map(|content| content.len()).sum()
}

#[cfg(test)]
mod tests {
    use floe_device::Code;

    use super::*;
    use crate::memory::budget::Budget;

    const ALLOCATES: &[u8] = b".extern .func (.param .b64 func_retval0) malloc\n(\n";

    fn library(code: &[u8], budget: &Budget) -> Loaded {
        Loaded {
            code: Code::Library(floe_abi::Library(1)),
            contents: vec![([7; 32], Content::from(code))],
            charge: 0,
            has_found: true,
            kept: budget.keep(code.len() as u64).expect("there is room"),
        }
    }

    #[test]
    fn what_a_library_left_is_there_until_the_context_ends() {
        let (mut departed, budget) = (Departed::default(), Budget::default());
        departed.take(1, library(b".visible .entry k()", &budget));
        assert_eq!(departed.left(), None);
        assert_eq!(budget.kept(), 0, "what has been searched is not kept");
        departed.take(2, library(ALLOCATES, &budget));
        departed.take(3, library(b".visible .entry k()", &budget));
        let left = departed.left().expect("memory of the heap");
        assert!(left.starts_with("library 2: its kernels allocate memory"), "{left}");
        departed.clear();
        assert_eq!(departed.left(), None);
    }

    #[test]
    fn of_many_that_go_few_are_kept() {
        let (mut departed, budget) = (Departed::default(), Budget::default());
        for id in 0..10_000 {
            departed.take(id, library(&[b' '; 1000], &budget));
        }
        assert_eq!(budget.kept(), WAITING as u64 * 1000);
        let large = vec![b' '; WAITING_BYTES + 1];
        departed.take(0, library(&large, &budget));
        assert_eq!(budget.kept(), 0);
        departed.take(7, library(ALLOCATES, &budget));
        departed.take(8, library(&large, &budget));
        assert_eq!(budget.kept(), 0);
        assert!(departed.left().is_some(), "searched because much has gone");
    }
}
