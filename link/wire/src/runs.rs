//! Finds changes in memory that both sides know. In: old and new bytes. Out: runs of changed bytes, exact to the byte.
//! An unchanged byte is never in a run, since the other side may be about to change it. It copies nothing.

use crate::MirrorRun;

/// The runs in which `now` differs from `known`, with offsets from `start`. Both have the same length.
#[must_use]
pub fn changed_runs<'a>(known: &[u8], now: &'a [u8], start: u32) -> Vec<MirrorRun<'a>> {
    let mut runs = Vec::new();
    if known == now {
        return runs;
    }
    let mut at = 0;
    let differs = |index: usize| known.get(index) != now.get(index);
    while at < now.len() {
        if !differs(at) {
            at += 1;
            continue;
        }
        let end = (at..now.len()).find(|index| !differs(*index)).unwrap_or(now.len());
        let offset = u32::try_from(at).ok().and_then(|at| start.checked_add(at));
        if let (Some(offset), Some(bytes)) = (offset, now.get(at..end)) {
            runs.push(MirrorRun { offset, bytes });
        }
        at = end;
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_bytes_have_no_runs() {
        assert_eq!(changed_runs(&[1, 2, 3], &[1, 2, 3], 0), []);
    }

    #[test]
    fn runs_are_exact_to_the_byte() {
        let runs = changed_runs(&[1, 2, 3, 4, 5, 6], &[9, 2, 8, 7, 5, 0], 100);
        let expected: [(u32, &[u8]); 3] = [(100, &[9]), (102, &[8, 7]), (105, &[0])];
        assert_eq!(runs.iter().map(|run| (run.offset, run.bytes)).collect::<Vec<_>>(), expected);
    }
}
