//! What one vGPU's program has exported: the passport of each allocation, by its address. Passports and frees come in, passports
//! and the tickets to withdraw go out. It is pure: it sends nothing, and a freed allocation's passport is never given
//! out again.

use std::collections::HashMap;

use super::passport::Passport;

/// The passports that are out.
#[derive(Debug, Default)]
pub(crate) struct Exports {
    /// By the allocation's first address, with its number, which no other allocation has had.
    allocations: HashMap<u64, (u64, Passport)>,
    /// By the block that `cuMemCreate` made.
    physical: HashMap<u64, Passport>,
}

impl Exports {
    /// The passport of an allocation, if it has one: the same again.
    pub(crate) fn of_allocation(&self, at: u64, serial: u64) -> Option<Passport> {
        self.allocations.get(&at).filter(|(known, _)| *known == serial).map(|(_, passport)| *passport)
    }

    /// An allocation has got a passport.
    pub(crate) fn add_allocation(&mut self, at: u64, serial: u64, passport: Passport) {
        self.allocations.insert(at, (serial, passport));
    }

    /// The allocation that began here is freed: the passport to withdraw.
    pub(crate) fn freed(&mut self, at: u64) -> Option<Passport> {
        self.allocations.remove(&at).map(|(_, passport)| passport)
    }

    /// The passport of physical memory, if it has one.
    pub(crate) fn of_physical(&self, block: u64) -> Option<Passport> {
        self.physical.get(&block).copied()
    }

    /// Physical memory has got a passport.
    pub(crate) fn add_physical(&mut self, block: u64, passport: Passport) {
        self.physical.insert(block, passport);
    }

    /// Physical memory has lost its last handle: its ticket ends with the block.
    pub(crate) fn released(&mut self, block: u64) {
        self.physical.remove(&block);
    }

    /// Everything is gone: the passports to withdraw.
    pub(crate) fn clear(&mut self) -> Vec<Passport> {
        let Self { allocations, physical } = std::mem::take(self);
        allocations.into_values().map(|(_, passport)| passport).chain(physical.into_values()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::passport::{Secret, Subject};
    use super::*;

    fn passport(ticket: u64) -> Passport {
        let (subject, secret) = (Subject::Allocation, Secret([1; 16]));
        Passport { subject, server: [2; 8], session: 3, secret, ticket, object: 4, offset: 0, bytes: 512, pool: 0 }
    }

    #[test]
    fn an_allocation_keeps_its_passport_and_a_later_one_there_gets_another() {
        let mut exports = Exports::default();
        exports.add_allocation(0x1000, 1, passport(10));
        assert_eq!(exports.of_allocation(0x1000, 1), Some(passport(10)));
        assert_eq!(exports.of_allocation(0x1000, 2), None);
        assert_eq!(exports.freed(0x1000), Some(passport(10)));
        assert_eq!(exports.freed(0x1000), None);
    }

    #[test]
    fn at_the_end_every_ticket_is_withdrawn() {
        let mut exports = Exports::default();
        exports.add_allocation(0x1000, 1, passport(10));
        exports.add_physical(7, passport(11));
        exports.released(8);
        let mut tickets: Vec<_> = exports.clear().into_iter().map(|passport| passport.ticket).collect();
        tickets.sort_unstable();
        assert_eq!(tickets, [10, 11]);
        assert_eq!(exports.of_physical(7), None);
    }
}
