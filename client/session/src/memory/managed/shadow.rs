//! Bytes that a wait has fetched ahead of any touch, as they came. Bytes come in when they are opened; at their flush those go out
//! that the program has not changed, which need not be sent. So calls of the system find small memory open, and only changes travel.

use std::ops::Range;

use super::Held;
use super::residency::GRANULE;

/// Waits in a row that fetch bytes without any change or touch. Bytes that the program only reads then come by a page
/// fault, once.
const MOST_IDLE: u32 = 8;

/// One range as it came.
#[derive(Debug)]
pub(super) struct Shadow {
    bytes: Range<u64>,
    content: Vec<u8>,
}

impl Held {
    /// Remembers bytes as they came, granule by granule.
    pub(super) fn keep_shadow(&mut self, bytes: &Range<u64>) {
        self.idle += 1;
        let mut at = bytes.start;
        while at < bytes.end {
            let granule = at..(at + GRANULE).min(bytes.end);
            at = granule.end;
            if let Some(range) = self.place.span.behind(&granule) {
                self.shadows.push(Shadow { bytes: granule, content: range.to_vec() });
            }
        }
    }

    /// The closed bytes that are unchanged. None of them is remembered any longer.
    pub(super) fn unchanged(&mut self, closed: &[Range<u64>]) -> Vec<Range<u64>> {
        let mut unchanged = Vec::new();
        let overlaps =
            |shadow: &Shadow| closed.iter().any(|it| it.start < shadow.bytes.end && shadow.bytes.start < it.end);
        for shadow in self.shadows.extract_if(.., |shadow| overlaps(shadow)) {
            let now = self.place.span.behind(&shadow.bytes);
            let mut is_same = false;
            now.into_iter().for_each(|now| now.show(&mut |now| is_same = now == shadow.content));
            if is_same {
                unchanged.push(shadow.bytes);
            } else {
                self.idle = 0;
            }
        }
        unchanged
    }

    /// Whether waits are to fetch it: unused memory is left out.
    pub(super) fn is_worth_fetching(&self) -> bool {
        self.idle < MOST_IDLE
    }
}

/// The parts of ranges that lie outside of all others.
pub(super) fn without(ranges: &[Range<u64>], others: &[Range<u64>]) -> Vec<Range<u64>> {
    others.iter().fold(ranges.to_vec(), |left, other| {
        let cut = |range: &Range<u64>| [range.start..range.end.min(other.start), range.start.max(other.end)..range.end];
        left.iter().flat_map(cut).filter(|part| part.start < part.end).collect()
    })
}

/// Ranges in order, those that touch or overlap as one.
pub(super) fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_and_merged() {
        assert_eq!(without(&[0..10, 20..30], &[5..22, 25..26]), [0..5, 22..25, 26..30]);
        assert_eq!(without(&[0..10, 12..14], &[0..10, 11..20]), []);
        assert_eq!(merged(vec![20..30, 0..10, 5..12, 12..13]), [0..13, 20..30]);
    }
}
