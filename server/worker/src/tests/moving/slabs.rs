//! Where a driver puts variables of libraries, as an H100's was seen to: in slabs of 2 MiB, one library behind the other, in
//! regions of 32 MiB, cut out of the highest free addresses. In: libraries and bytes. Out: addresses.

use std::collections::BTreeMap;
use std::ops::Range;

const SLAB: u64 = 2 << 20;
const REGION: u64 = 32 << 20;

/// Regions, in the order in which they were mapped.
#[derive(Debug)]
pub(crate) struct Slabs {
    /// Addresses that are not free, by numbers.
    held: BTreeMap<u64, Range<u64>>,
    last: u64,
    /// Of these, what is kept from the device.
    pub(crate) kept: usize,
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
        let held = BTreeMap::from([(0, top..u64::MAX)]);
        Self { held, last: 0, kept: 0, regions: Vec::new(), taken: BTreeMap::new(), later: BTreeMap::new(), most: 0 }
    }

    /// Something else takes so many bytes of addresses, as stacks of kernels do.
    pub(crate) fn take_addresses(&mut self, bytes: u64) {
        let start = self.highest_free(bytes);
        self.hold(start..start + bytes);
    }

    fn hold(&mut self, range: Range<u64>) -> u64 {
        self.last += 1;
        self.held.insert(self.last, range);
        self.last
    }

    /// The device does not take these addresses until their number is given back.
    pub(crate) fn keep(&mut self, range: Range<u64>) -> u64 {
        self.kept += 1;
        self.hold(range)
    }

    pub(crate) fn give_back(&mut self, number: u64) {
        self.kept -= 1;
        self.held.remove(&number);
    }

    fn highest_free(&self, bytes: u64) -> u64 {
        let is_free = |start: &u64| self.held.values().all(|held| held.end <= *start || held.start >= start + bytes);
        let starts = self.held.values().filter_map(|held| held.start.checked_sub(bytes));
        starts.filter(is_free).max().unwrap()
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
            let region = self.highest_free(2 * REGION).next_multiple_of(REGION);
            self.hold(region..region + REGION);
            self.regions.push(region);
            region
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
