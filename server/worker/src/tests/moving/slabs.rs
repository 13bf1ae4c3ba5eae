//! Where a driver puts variables of libraries, as an H100's was seen to: in slabs of 2 MiB, one library behind the other, in
//! regions of 32 MiB, cut out of the highest free addresses. In: libraries and bytes. Out: addresses.

use std::collections::BTreeMap;

const SLAB: u64 = 2 << 20;
const REGION: u64 = 32 << 20;

/// Regions, in the order in which they were mapped.
#[derive(Debug)]
pub(crate) struct Slabs {
    /// No address from here on is free.
    top: u64,
    /// Nor is any from here on, for a while.
    pub(crate) limit: u64,
    regions: Vec<u64>,
    /// Of each slab that is taken: what lies in it, by address.
    taken: BTreeMap<u64, BTreeMap<u64, (u64, u64)>>,
    /// Libraries without a place, and their bytes.
    later: BTreeMap<u64, u64>,
    /// The most bytes that libraries had at a time.
    pub(crate) most: u64,
}

impl Slabs {
    pub(crate) fn below(top: u64) -> Self {
        Self { top, limit: u64::MAX, regions: Vec::new(), taken: BTreeMap::new(), later: BTreeMap::new(), most: 0 }
    }

    /// Something else takes so many bytes of addresses, as stacks of kernels do.
    pub(crate) fn take_addresses(&mut self, bytes: u64) {
        self.top -= bytes;
    }

    /// Something else takes a slab, as a stream does.
    pub(crate) fn take_slab(&mut self) {
        let slab = self.free_slab();
        self.taken.insert(slab, BTreeMap::from([(slab, (0, SLAB))]));
    }

    fn free_slab(&mut self) -> u64 {
        let slabs = self.regions.iter().flat_map(|region| (0..REGION / SLAB).map(move |number| region + number * SLAB));
        let free = slabs.into_iter().find(|slab| !self.taken.contains_key(slab));
        free.unwrap_or_else(|| {
            // Twice as much is mapped, and cut.
            self.top = (self.top.min(self.limit) - 2 * REGION).next_multiple_of(REGION);
            self.regions.push(self.top);
            self.top
        })
    }

    /// Room for a library's variables, of less than a slab.
    pub(crate) fn place(&mut self, library: u64, bytes: u64) -> u64 {
        let bytes = bytes.next_multiple_of(256);
        let fits = |(slab, taken): (&u64, &BTreeMap<u64, (u64, u64)>)| {
            let mut at = *slab;
            for (its, (_, length)) in taken {
                if at + bytes <= *its {
                    break;
                }
                at = its + length;
            }
            (at + bytes <= slab + SLAB).then_some((*slab, at))
        };
        let found = self.taken.iter().filter_map(fits).min_by_key(|(slab, _)| {
            let region = slab / REGION * REGION;
            (self.regions.iter().position(|its| *its == region), *slab)
        });
        let (slab, at) = found.unwrap_or_else(|| {
            let slab = self.free_slab();
            (slab, slab)
        });
        self.taken.entry(slab).or_default().insert(at, (library, bytes));
        self.most = self.most.max(self.taken.values().flat_map(BTreeMap::values).map(|(_, bytes)| bytes).sum());
        at
    }

    /// The library gets a place when it is asked for. Returns none.
    pub(crate) fn place_later(&mut self, library: u64, bytes: u64) -> u64 {
        self.later.insert(library, bytes);
        0
    }

    /// The place of a library that had none.
    pub(crate) fn place_now(&mut self, library: u64) -> Option<u64> {
        let bytes = self.later.remove(&library)?;
        Some(self.place(library, bytes))
    }

    pub(crate) fn leave(&mut self, library: u64) {
        self.later.remove(&library);
        self.taken.retain(|_, taken| {
            taken.retain(|_, (its, _)| *its != library);
            !taken.is_empty()
        });
    }
}
