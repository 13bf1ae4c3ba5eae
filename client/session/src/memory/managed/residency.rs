//! The residency of one range of managed memory: each granule is the host's, the device's, or both have it alike. Page
//! faults and flushes come in; ranges to fetch, send, open and close go out, and count once the caller says that it is
//! done. It is pure and moves nothing, and no granule is ever newer on both sides.

use std::ops::Range;

/// Bytes of a granule: one page fault fetches no less. A fault costs some microseconds and a round trip to the server,
/// as long as so many bytes take on a fast network.
pub(crate) const GRANULE: u64 = 64 << 10;
/// Page faults in a row fetch twice as much each time, up to so many granules: 8 MiB, which use all of a link's
/// bandwidth.
const MOST_AHEAD: usize = 128;

/// The holder of a granule's newest bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Residency {
    /// Its pages are closed to the host.
    Device,
    /// The host may read it: both have the same.
    Both,
    /// The host may write it.
    Host,
}

/// The answer to a page fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fetch {
    /// Bytes to be opened.
    pub(crate) bytes: Range<u64>,
    /// Whether they come from the device first.
    pub(crate) fetched: bool,
    /// Whether the host may write them.
    pub(crate) writable: bool,
}

/// The steps before the device's work.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Flush {
    /// Bytes to be closed to the host.
    pub(crate) closed: Vec<Range<u64>>,
    /// Those of them that are sent.
    pub(crate) sent: Vec<Range<u64>>,
}

/// One range.
#[derive(Debug)]
pub(crate) struct ResidencyMap {
    bytes: Range<u64>,
    granules: Vec<Residency>,
    /// Nothing of it has been on the device: all is the host's, and zero where nobody has touched it.
    fresh: bool,
    /// Granules that are not the device's alone.
    open: Vec<usize>,
    /// The granule at which the next page fault would follow the last.
    next: usize,
    /// The number of granules that the last page fault fetched.
    ahead: usize,
}

impl ResidencyMap {
    /// A range that is the host's and has never been on the device.
    pub(crate) fn fresh(bytes: Range<u64>) -> Self {
        let mut residency = Self::on_device(bytes);
        residency.fresh = true;
        residency
    }

    /// A range that is the device's.
    pub(crate) fn on_device(bytes: Range<u64>) -> Self {
        let count = usize::try_from((bytes.end - bytes.start).div_ceil(GRANULE)).unwrap_or_default();
        Self {
            bytes,
            granules: vec![Residency::Device; count],
            fresh: false,
            open: Vec::new(),
            next: usize::MAX,
            ahead: 0,
        }
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> Range<u64> {
        self.bytes.clone()
    }

    /// Whether nothing of it has been on the device.
    pub(crate) fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Whether the host can touch any of it.
    pub(crate) fn is_open(&self) -> bool {
        self.fresh || !self.open.is_empty()
    }

    /// The fetch that a page fault needs, with what follows it where faults come in a row and `ahead` says so; `None` if the pages
    /// are open for it already.
    pub(crate) fn touch(&self, address: u64, writes: bool, ahead: bool) -> Option<Fetch> {
        if self.fresh || !self.bytes.contains(&address) {
            return None;
        }
        let first = self.granule_of(address);
        let residency = self.granules[first];
        if residency == Residency::Host || (residency == Residency::Both && !writes) {
            return None;
        }
        let most = if ahead && first == self.next { (self.ahead * 2).min(MOST_AHEAD) } else { 1 };
        let alike = self.granules[first..].iter().take(most).take_while(|other| **other == residency).count();
        let bytes = self.span(&(first..first + alike));
        Some(Fetch { bytes, fetched: residency == Residency::Device, writable: writes })
    }

    /// The fetches that open for reading all granules of these bytes that are the device's.
    pub(crate) fn look(&self, bytes: &Range<u64>) -> Vec<Fetch> {
        let closed =
            self.granules_in(bytes).filter(|granule| !self.fresh && self.granules[*granule] == Residency::Device);
        let fetch = |run: Range<usize>| Fetch { bytes: self.span(&run), fetched: true, writable: false };
        runs(closed).into_iter().map(fetch).collect()
    }

    /// A fetch is done.
    pub(crate) fn opened(&mut self, fetch: &Fetch) {
        let granules = self.granules_in(&fetch.bytes);
        (self.next, self.ahead) = (granules.end, granules.len());
        for granule in granules {
            if self.granules[granule] == Residency::Device {
                self.open.push(granule);
            }
            self.granules[granule] = if fetch.writable { Residency::Host } else { Residency::Both };
        }
    }

    /// The flush that gives these bytes to the device. A fresh range goes as a whole.
    pub(crate) fn flush(&self, bytes: &Range<u64>) -> Flush {
        if self.fresh {
            return Flush { closed: vec![self.bytes()], sent: Vec::new() };
        }
        let wanted = self.granules_in(bytes);
        let mut open: Vec<usize> = self.open.iter().copied().filter(|granule| wanted.contains(granule)).collect();
        open.sort_unstable();
        let spans = |granules: Vec<Range<usize>>| granules.iter().map(|run| self.span(run)).collect();
        let written = open.iter().copied().filter(|granule| self.granules[*granule] == Residency::Host);
        Flush { sent: spans(runs(written)), closed: spans(runs(open.iter().copied())) }
    }

    /// A flush is done: these bytes are the device's alone.
    pub(crate) fn closed(&mut self, flush: &Flush) {
        self.fresh = false;
        for closed in &flush.closed {
            let granules = self.granules_in(closed);
            self.granules[granules.clone()].fill(Residency::Device);
            self.open.retain(|granule| !granules.contains(granule));
        }
    }

    fn granule_of(&self, address: u64) -> usize {
        usize::try_from((address - self.bytes.start) / GRANULE).unwrap_or(usize::MAX)
    }

    /// The granules that have any of these bytes.
    fn granules_in(&self, bytes: &Range<u64>) -> Range<usize> {
        let (start, end) = (bytes.start.max(self.bytes.start), bytes.end.min(self.bytes.end));
        if start >= end { 0..0 } else { self.granule_of(start)..self.granule_of(end - 1) + 1 }
    }

    fn span(&self, granules: &Range<usize>) -> Range<u64> {
        let at = |granule: usize| (self.bytes.start + granule as u64 * GRANULE).min(self.bytes.end);
        at(granules.start)..at(granules.end)
    }
}

/// Ascending numbers as ranges.
fn runs(granules: impl Iterator<Item = usize>) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for granule in granules {
        match runs.last_mut() {
            Some(last) if last.end == granule => last.end += 1,
            _ => runs.push(granule..granule + 1),
        }
    }
    runs
}

#[cfg(test)]
mod tests;
