//! Code of libraries that the program has used and unloaded. What its kernels have made beside memory that a host knows of is
//! still there: it goes with the context.
//! In: libraries as they go. Out: what they may have left, in words. Code is searched by a move, beside the program, or here
//! when much has gone.

use std::collections::{BTreeSet, VecDeque};

use floe_device::Content;
use floe_image::{ImageError, Limits, beyond_reach, names_of_variables};

use crate::issue::objects::library::Loaded;
use crate::memory::budget::{Budget, Kept};

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
    /// The number of the next that waits.
    next: u64,
    /// What one has left, or may have left.
    left: Option<String>,
}

/// Code of a library that is gone and has not been searched.
#[derive(Clone, Debug)]
pub(crate) struct Unsearched {
    /// No other has it.
    pub(crate) number: u64,
    library: u64,
    contents: Vec<Content>,
}

/// A library that has not been searched.
#[derive(Debug)]
struct Gone {
    code: Unsearched,
    /// What of it is in memory.
    bytes: usize,
    _kept: Kept,
}

/// Refuses a library whose kernels make what no move takes along; of one that cannot be read nobody knows.
pub(crate) fn demand_within_reach(library: u64, contents: &[Content]) -> Result<(), String> {
    for content in contents {
        if let Some(beyond) = beyond_reach(content, &LIMITS).map_err(|error| unread(library, error))? {
            return Err(format!("library {library}: {beyond}, which no move takes along"));
        }
    }
    Ok(())
}

/// The names of a library's variables.
pub(crate) fn names_in(library: u64, contents: &[Content]) -> Result<BTreeSet<String>, String> {
    let mut names = BTreeSet::new();
    for content in contents {
        names.extend(names_of_variables(content, &LIMITS).map_err(|error| unread(library, error))?);
    }
    Ok(names)
}

fn unread(library: u64, error: ImageError) -> String {
    format!("code of library {library} cannot be searched for what it keeps: {error}")
}

impl Unsearched {
    /// Refuses what its kernels may have left.
    pub(crate) fn search(&self) -> Result<(), String> {
        let left = |words| format!("{words}; it has been unloaded, but what it made is there until the context ends");
        demand_within_reach(self.library, &self.contents).map_err(left)
    }
}

impl Departed {
    /// A library goes that the program may have used. What of it waits in memory is charged to the budget; contents in files cost
    /// nothing.
    pub(crate) fn take(&mut self, id: u64, library: Loaded, budget: &Budget) {
        let Loaded { contents, kept, .. } = library;
        if self.left.is_some() {
            return;
        }
        let contents: Vec<Content> = contents.into_iter().map(|(_, content)| content).collect();
        let bytes = in_memory(&contents);
        let code = Unsearched { number: self.next, library: id, contents };
        self.next += 1;
        // It was charged more.
        drop(kept);
        match budget.keep(bytes as u64) {
            Ok(kept) => {
                self.bytes += bytes;
                self.waiting.push_back(Gone { code, bytes, _kept: kept });
            }
            Err(_) => self.search(&code),
        }
        while self.bytes > WAITING_BYTES || self.waiting.len() > WAITING {
            self.search_one();
        }
    }

    /// What one of those searched has left; `None`: nothing.
    pub(crate) fn left(&self) -> Option<&str> {
        self.left.as_deref()
    }

    /// What somebody else may search.
    pub(crate) fn unsearched(&self) -> Vec<Unsearched> {
        self.waiting.iter().map(|gone| gone.code.clone()).collect()
    }

    /// Code of these numbers has left nothing.
    pub(crate) fn forget(&mut self, searched: &BTreeSet<u64>) {
        self.waiting.retain(|gone| !searched.contains(&gone.code.number));
        self.bytes = self.waiting.iter().map(|gone| gone.bytes).sum();
    }

    /// The context is gone, and all that was in it.
    pub(crate) fn clear(&mut self) {
        *self = Self { next: self.next, ..Self::default() };
    }

    fn search_one(&mut self) {
        let Some(gone) = self.waiting.pop_front() else { return };
        self.bytes -= gone.bytes;
        self.search(&gone.code);
    }

    fn search(&mut self, code: &Unsearched) {
        if let Err(left) = code.search() {
            self.clear();
            self.left = Some(left);
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

    const ALLOCATES: &[u8] = b".extern .func (.param .b64 func_retval0) malloc\n(\n";

    fn library(content: Content, budget: &Budget) -> Loaded {
        Loaded {
            code: Code::Library(floe_abi::Library(1)),
            charge: 0,
            has_found: true,
            kept: budget.keep(2 * content.len() as u64).expect("there is room"),
            contents: vec![([7; 32], content)],
        }
    }

    /// As a move does it.
    fn searched(departed: &mut Departed) -> Result<(), String> {
        let unsearched = departed.unsearched();
        unsearched.iter().try_for_each(Unsearched::search)?;
        departed.forget(&unsearched.iter().map(|code| code.number).collect());
        Ok(())
    }

    fn take(departed: &mut Departed, id: u64, code: &[u8], budget: &Budget) {
        departed.take(id, library(Content::from(code), budget), budget);
    }

    #[test]
    fn what_a_library_left_is_there_until_the_context_ends() {
        let (mut departed, budget) = (Departed::default(), Budget::default());
        take(&mut departed, 1, b".visible .entry k()", &budget);
        assert_eq!(searched(&mut departed), Ok(()));
        assert_eq!((budget.kept(), departed.bytes), (0, 0), "what has been searched is not kept");
        take(&mut departed, 2, ALLOCATES, &budget);
        take(&mut departed, 3, b".visible .entry k()", &budget);
        let left = searched(&mut departed).expect_err("memory of the heap");
        assert!(left.starts_with("library 2: its kernels allocate memory"), "{left}");
        assert_eq!(searched(&mut departed), Err(left), "also when asked again");
        let last = departed.unsearched().pop().expect("two wait").number;
        departed.clear();
        assert_eq!((searched(&mut departed), departed.left()), (Ok(()), None));
        take(&mut departed, 2, ALLOCATES, &budget);
        departed.forget(&BTreeSet::from([last]));
        assert_eq!(departed.waiting.len(), 1, "a number is never another's");
    }

    #[test]
    fn of_many_that_go_few_are_kept() {
        let (mut departed, budget) = (Departed::default(), Budget::default());
        for id in 0..10_000 {
            take(&mut departed, id, &[b' '; 1000], &budget);
        }
        assert_eq!(budget.kept(), WAITING as u64 * 1000);
        let large = vec![b' '; WAITING_BYTES + 1];
        take(&mut departed, 0, &large, &budget);
        assert_eq!(budget.kept(), 0);
        take(&mut departed, 7, ALLOCATES, &budget);
        take(&mut departed, 8, &large, &budget);
        assert_eq!(budget.kept(), 0);
        assert!(departed.left().is_some(), "searched because much has gone");
    }

    #[test]
    fn contents_in_files_cost_nothing_while_they_wait() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("code");
        std::fs::write(&path, vec![b' '; 1 << 20]).expect("it can be written");
        let file = std::fs::File::open(&path).expect("it is there");
        // As much as one library is charged, and one more.
        let (mut departed, budget) = (Departed::default(), Budget::new(5 << 20));
        for id in 0..200 {
            let content = Content::of_file(&file, 1 << 20).expect("it can be mapped");
            departed.take(id, library(content, &budget), &budget);
            assert_eq!(budget.kept(), 0);
        }
        assert_eq!((departed.waiting.len(), searched(&mut departed)), (WAITING, Ok(())));
    }

    #[test]
    fn what_may_not_wait_is_searched_at_once() {
        let (mut departed, budget) = (Departed::default(), Budget::new(400));
        let library = library(Content::from(ALLOCATES), &budget);
        let others = budget.keep(400 - 400 / 8 - 2 * ALLOCATES.len() as u64).expect("all the rest");
        departed.take(1, library, &Budget::new(0));
        assert!(departed.waiting.is_empty() && departed.left.is_some());
        drop(others);
    }
}
