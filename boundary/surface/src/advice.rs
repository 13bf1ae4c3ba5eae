//! Advice that a program gave about its managed memory by `cuMemAdvise` and prefetches. Ranges come in, and whether all
//! of a range was marked goes out. Without concurrent access no advice changes anything; it is kept because programs
//! ask.

use std::ops::Range;
use std::sync::Mutex;

/// Advice about a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// It is mostly read.
    ReadMostly,
    /// The host is its preferred location.
    PrefersHost,
    /// The host touches it.
    AccessedByHost,
    /// It was prefetched to the host last.
    PrefetchedToHost,
}

/// Marks of a process's managed memory.
#[derive(Debug, Default)]
pub struct Advice {
    /// By mark: disjoint ranges.
    marked: Mutex<[Vec<Range<u64>>; 4]>,
}

impl Advice {
    /// Marks a range.
    pub fn set(&self, mark: Mark, range: &Range<u64>) {
        self.unset(mark, range);
        self.with(mark, |marked| marked.push(range.clone()));
    }

    /// Takes a mark from a range.
    pub fn unset(&self, mark: Mark, range: &Range<u64>) {
        self.with(mark, |marked| *marked = marked.iter().flat_map(|other| without(other, range)).collect());
    }

    /// Whether all of a range is marked.
    pub fn has(&self, mark: Mark, range: &Range<u64>) -> bool {
        self.with(mark, |marked| {
            let left = vec![range.clone()];
            let left =
                marked.iter().fold(left, |left, marked| left.iter().flat_map(|it| without(it, marked)).collect());
            left.is_empty()
        })
    }

    /// The memory is gone.
    pub fn forget(&self, range: &Range<u64>) {
        for mark in [Mark::ReadMostly, Mark::PrefersHost, Mark::AccessedByHost, Mark::PrefetchedToHost] {
            self.unset(mark, range);
        }
    }

    fn with<R>(&self, mark: Mark, act: impl FnOnce(&mut Vec<Range<u64>>) -> R) -> R {
        let mut marked = floe_lock::lock(&self.marked);
        act(&mut marked[mark as usize])
    }
}

/// The parts of a range that lie outside of another.
fn without(range: &Range<u64>, other: &Range<u64>) -> Vec<Range<u64>> {
    let parts = [range.start..range.end.min(other.start), range.start.max(other.end)..range.end];
    parts.into_iter().filter(|part| part.start < part.end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_marked_only_as_a_whole() {
        let advice = Advice::default();
        advice.set(Mark::ReadMostly, &(10..20));
        advice.set(Mark::ReadMostly, &(20..30));
        assert!(advice.has(Mark::ReadMostly, &(12..28)));
        assert!(!advice.has(Mark::ReadMostly, &(12..31)) && !advice.has(Mark::PrefersHost, &(12..13)));
        advice.unset(Mark::ReadMostly, &(14..16));
        assert!(!advice.has(Mark::ReadMostly, &(12..28)));
        assert!(advice.has(Mark::ReadMostly, &(10..14)) && advice.has(Mark::ReadMostly, &(16..30)));
        advice.forget(&(0..100));
        assert!(!advice.has(Mark::ReadMostly, &(10..11)));
    }
}
