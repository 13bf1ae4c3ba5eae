//! The effects of the calling thread's present driver call so far: sent something, waited. The surface says where calls
//! begin and end, marks come in from the link, one count per outermost call goes out to the statistics. It belongs to
//! one thread and takes no lock.

use std::cell::Cell;

use crate::activities::clock;
use crate::trace;
use crate::vgpu::statistics::{Class, Statistics};

#[derive(Clone, Copy)]
struct Mark {
    /// The depth of nested calls: a call that uses another counts once.
    depth: u32,
    posted: bool,
    called: bool,
    waited: bool,
    /// Its number for a profiler; 0: none.
    number: u32,
}

const NOTHING: Mark = Mark { depth: 0, posted: false, called: false, waited: false, number: 0 };

thread_local! {
    static PRESENT: Cell<Mark> = const { Cell::new(NOTHING) };
}

fn change(mark: impl FnOnce(&mut Mark)) {
    PRESENT.with(|present| {
        let mut value = present.get();
        mark(&mut value);
        present.set(value);
    });
}

/// The present call posted something.
pub(crate) fn posted() {
    change(|mark| mark.posted = true);
}

/// The present call asked something.
pub(crate) fn called() {
    change(|mark| mark.called = true);
}

/// The present call waits for an answer as long as this lives. Where calls have numbers, the trace is told from when to when.
#[must_use]
pub(crate) struct Wait {
    begin: Option<u64>,
}

/// The present call waits.
pub(crate) fn wait() -> Wait {
    let mut begin = None;
    change(|mark| {
        mark.waited = true;
        begin = (mark.number != 0).then(clock::now);
    });
    Wait { begin }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if let Some(begin) = self.begin {
            trace::waited(begin, clock::now());
        }
    }
}

/// The present call has this number for a profiler.
pub(crate) fn number(number: u32) {
    change(|mark| mark.number = number);
}

/// The present call's number; 0: none.
pub(crate) fn present() -> u32 {
    PRESENT.with(|present| present.get().number)
}

/// A driver call of the program begins; whether it is an outermost one. Effects of the thread between calls count for none.
#[inline]
pub(crate) fn begin() -> bool {
    let mut is_outermost = false;
    change(|mark| {
        is_outermost = mark.depth == 0;
        *mark = if is_outermost { Mark { depth: 1, ..NOTHING } } else { Mark { depth: mark.depth + 1, ..*mark } }
    });
    is_outermost
}

/// The call that began last is over. The outermost one is counted; its number for a profiler.
#[inline]
pub(crate) fn end(statistics: &Statistics) -> u32 {
    let mut over = None;
    change(|mark| {
        mark.depth -= 1;
        if mark.depth == 0 {
            over = Some(*mark);
            *mark = NOTHING;
        }
    });
    if let Some(mark) = over {
        let class = match (mark.called, mark.posted) {
            (true, _) => Class::Call,
            (false, true) => Class::Post,
            (false, false) => Class::Local,
        };
        statistics.made(class, mark.waited);
        return mark.number;
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_counts_once_by_the_most_it_did_itself() {
        let statistics = Statistics::new();
        begin();
        posted();
        begin();
        called();
        drop(wait());
        end(&statistics);
        assert_eq!(statistics.snapshot().made, [0, 0, 0]);
        end(&statistics);
        drop(wait());
        begin();
        end(&statistics);
        let snapshot = statistics.snapshot();
        assert_eq!(snapshot.made, [1, 0, 1]);
        assert_eq!(snapshot.waited, [0, 0, 1]);
    }
}
