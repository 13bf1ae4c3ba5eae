//! The blocks that a vGPU has from others, by the addresses they are mapped at. Imports and returns come in; what covers an
//! address, and what may be unmapped, go out. It is pure: it sends nothing, and an import that leaves is in nobody's way but that
//! of a new one at the same addresses.

use std::collections::BTreeMap;
use std::ops::Range;

/// A block of another session, mapped whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Import {
    /// First address of its mapping: the owner's.
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    /// Its id in the importer's session.
    pub(crate) block: u64,
    /// The ordinal of the vGPU that owns it.
    pub(crate) owner: u8,
    /// False while the program has taken this vGPU's access.
    pub(crate) is_accessible: bool,
}

impl Import {
    fn meets(&self, range: &Range<u64>) -> bool {
        self.at < range.end && range.start < self.at + self.bytes
    }
}

/// The imports of one vGPU. `F` is a fence behind work that may use one.
#[derive(Debug)]
pub(crate) struct Imports<F> {
    /// By first address.
    mapped: BTreeMap<u64, Import>,
    /// Given up, and unmapped when their fence is passed.
    leaving: Vec<(F, Import)>,
}

impl<F> Default for Imports<F> {
    fn default() -> Self {
        Self { mapped: BTreeMap::new(), leaving: Vec::new() }
    }
}

impl<F> Imports<F> {
    /// A block has been mapped.
    pub(crate) fn add(&mut self, import: Import) {
        self.mapped.insert(import.at, import);
    }

    /// The import that holds this address.
    pub(crate) fn find(&self, at: u64) -> Option<Import> {
        let (_, import) = self.mapped.range(..=at).next_back()?;
        (at - import.at < import.bytes).then_some(*import)
    }

    /// Whether imports side by side hold all of this.
    pub(crate) fn covers(&self, range: &Range<u64>) -> bool {
        let mut at = range.start;
        while at < range.end {
            let Some(import) = self.find(at) else { return false };
            at = import.at + import.bytes;
        }
        true
    }

    /// Whether a part of this is mapped and not accessible.
    pub(crate) fn denies(&self, range: &Range<u64>) -> bool {
        self.mapped.values().any(|import| import.meets(range) && !import.is_accessible)
    }

    /// The program has given access to a part of this, or taken it.
    pub(crate) fn set_access(&mut self, range: &Range<u64>, is_accessible: bool) {
        let inside = self.mapped.values_mut().filter(|import| import.meets(range));
        inside.for_each(|import| import.is_accessible = is_accessible);
    }

    /// Whether any is of this owner.
    pub(crate) fn any_of(&self, owner: u8) -> bool {
        self.mapped.values().any(|import| import.owner == owner)
    }

    /// The import that begins here is given up.
    pub(crate) fn take(&mut self, at: u64) -> Option<Import> {
        self.mapped.remove(&at)
    }

    /// All imports of one owner are given up; they stay mapped until `fence` is passed.
    pub(crate) fn leave(&mut self, owner: u8, fence: &F)
    where
        F: Clone,
    {
        let gone: Vec<u64> =
            self.mapped.values().filter(|import| import.owner == owner).map(|import| import.at).collect();
        let leaving = gone.into_iter().filter_map(|at| self.mapped.remove(&at));
        self.leaving.extend(leaving.map(|import| (fence.clone(), import)));
    }

    /// Whether something is left to unmap.
    pub(crate) fn any_leaves(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Whether something that holds a part of this is left to unmap.
    pub(crate) fn leaves(&self, range: &Range<u64>) -> bool {
        self.leaving.iter().any(|(_, import)| import.meets(range))
    }

    /// What may be unmapped now.
    pub(crate) fn collect(&mut self, is_passed: impl Fn(&F) -> bool) -> Vec<Import> {
        let (over, left) = std::mem::take(&mut self.leaving).into_iter().partition(|(fence, _)| is_passed(fence));
        self.leaving = left;
        let over: Vec<(F, Import)> = over;
        over.into_iter().map(|(_, import)| import).collect()
    }

    /// The session has none any more.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn import(at: u64, owner: u8) -> Import {
        Import { at, bytes: 0x1000, block: at >> 12, owner, is_accessible: true }
    }

    fn imports(list: &[(u64, u8)]) -> Imports<bool> {
        let mut imports = Imports::default();
        list.iter().for_each(|(at, owner)| imports.add(import(*at, *owner)));
        imports
    }

    #[test]
    fn imports_side_by_side_cover_a_range_and_a_gap_does_not() {
        let imports = imports(&[(0x1000, 1), (0x2000, 1), (0x4000, 1)]);
        assert!(imports.covers(&(0x1800..0x3000)));
        assert!(!imports.covers(&(0x1800..0x3001)));
        assert!(!imports.covers(&(0xfff..0x1001)));
        assert!(imports.any_of(1) && !imports.any_of(2));
    }

    #[test]
    fn what_access_was_taken_from_is_mapped_and_denied() {
        let mut imports = imports(&[(0x1000, 1), (0x2000, 1)]);
        imports.set_access(&(0x1000..0x2000), false);
        assert!(imports.covers(&(0x1000..0x3000)));
        assert_eq!([0x1fff..0x2001, 0x2000..0x3000].map(|range| imports.denies(&range)), [true, false]);
        imports.set_access(&(0x1000..0x2000), true);
        assert!(!imports.denies(&(0x1000..0x3000)));
    }

    #[test]
    fn what_an_owner_gives_up_stays_mapped_until_its_fence_is_passed() {
        let mut imports = imports(&[(0x1000, 1), (0x2000, 2)]);
        imports.leave(1, &false);
        assert!(!imports.covers(&(0x1000..0x2000)) && imports.covers(&(0x2000..0x3000)));
        assert!(imports.leaves(&(0x1fff..0x2001)) && !imports.leaves(&(0x2000..0x3000)));
        assert_eq!(imports.collect(|passed| *passed), []);
        assert_eq!(imports.collect(|_| true), [import(0x1000, 1)]);
        assert!(!imports.any_leaves());
    }

    #[test]
    fn a_block_is_given_up_by_its_first_address_alone() {
        let mut imports = imports(&[(0x1000, 1)]);
        assert_eq!(imports.take(0x1800), None);
        assert_eq!(imports.take(0x1000), Some(import(0x1000, 1)));
        assert_eq!(imports.find(0x1000), None);
    }
}
