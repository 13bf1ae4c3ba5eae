//! Finds changes in memory that both sides know. In: old and new bytes. Out: runs of changed bytes, exact to the byte.
//! An unchanged byte is never in a run, since the other side may be about to change it. It copies nothing.

use crate::MirrorRun;

/// Bytes that are compared together, and those among which the first look finds a change.
const TOGETHER: usize = 64;
const AT_FIRST: usize = 64 * TOGETHER;

/// The runs in which `now` differs from `known`, with offsets from `start`. Both have the same length.
#[must_use]
pub fn changed_runs<'a>(known: &[u8], now: &'a [u8], start: u32) -> Vec<MirrorRun<'a>> {
    let mut ends: Vec<(usize, usize)> = Vec::new();
    let mut differs = |at: usize| match ends.last_mut() {
        Some((_, end)) if *end == at => *end += 1,
        _ => ends.push((at, at + 1)),
    };
    // Most of a piece is the same: its bytes are looked at one by one only where it is not.
    for (first, (known, now)) in known.chunks(AT_FIRST).zip(now.chunks(AT_FIRST)).enumerate() {
        if known == now {
            continue;
        }
        for (index, (known, now)) in known.chunks(TOGETHER).zip(now.chunks(TOGETHER)).enumerate() {
            if known == now {
                continue;
            }
            let unequal = known.iter().zip(now).enumerate().filter(|(_, (known, now))| known != now);
            unequal.for_each(|(at, _)| differs(first * AT_FIRST + index * TOGETHER + at));
        }
    }
    let run = |(at, end): (usize, usize)| {
        let offset = u32::try_from(at).ok()?.checked_add(start)?;
        Some(MirrorRun { offset, bytes: now.get(at..end)? })
    };
    ends.into_iter().filter_map(run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_go_on_across_what_is_compared_together() {
        let known = vec![0; AT_FIRST + 4 * TOGETHER + 5];
        let places = [
            (0, known.len()),
            (TOGETHER - 1, TOGETHER + 1),
            (AT_FIRST - 1, AT_FIRST + 1),
            (AT_FIRST + 3 * TOGETHER, known.len()),
            (7, 8),
        ];
        for (from, to) in places {
            let mut now = known.clone();
            now[from..to].fill(1);
            let runs = changed_runs(&known, &now, 9);
            assert_eq!(
                runs.iter().map(|run| (run.offset as usize, run.bytes.len())).collect::<Vec<_>>(),
                [(9 + from, to - from)]
            );
        }
        let every_other: Vec<u8> = (0..known.len()).map(|at| u8::from(at % 2 == 0)).collect();
        assert_eq!(changed_runs(&known, &every_other, 0).len(), known.len().div_ceil(2));
    }

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
