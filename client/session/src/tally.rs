//! What the calling thread's present driver call has done so far: sent something, waited. Marks come in from the link,
//! one count per outermost call goes out to the statistics. It belongs to one thread and takes no lock.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::managed::Managed;
use crate::statistics::{Class, Statistics};

#[derive(Clone, Copy)]
struct Mark {
    /// How many calls deep: a call that uses another counts once.
    depth: u32,
    posted: bool,
    /// It counts as leaving somewhere.
    leaves: bool,
    called: bool,
    waited: bool,
}

const NOTHING: Mark = Mark { depth: 0, posted: false, leaves: false, called: false, waited: false };

thread_local! {
    static PRESENT: Cell<Mark> = const { Cell::new(NOTHING) };
}

thread_local! {
    /// Where the present call counts as leaving.
    static LEFT: RefCell<Vec<Arc<Managed>>> = const { RefCell::new(Vec::new()) };
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

/// Until the present call is over, nothing is opened that it does not see.
pub(crate) fn leave_until_over(managed: &Arc<Managed>) {
    if PRESENT.get().depth == 0 {
        return;
    }
    managed.count_leaving();
    change(|mark| mark.leaves = true);
    LEFT.with_borrow_mut(|left| left.push(Arc::clone(managed)));
}

/// The present call waited for an answer.
pub(crate) fn waited() {
    change(|mark| mark.waited = true);
}

/// A driver call of the program, from entry to drop.
pub(crate) struct Entered<'a> {
    statistics: &'a Statistics,
}

impl<'a> Entered<'a> {
    /// A call begins.
    pub(crate) fn new(statistics: &'a Statistics) -> Self {
        change(|mark| mark.depth += 1);
        Self { statistics }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
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
            self.statistics.made(class, mark.waited);
            if mark.leaves {
                LEFT.take().iter().for_each(|managed| managed.has_left());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_counts_once_by_the_most_it_did() {
        let statistics = Statistics::new();
        {
            let _outer = Entered::new(&statistics);
            posted();
            let _inner = Entered::new(&statistics);
            called();
            waited();
        }
        drop(Entered::new(&statistics));
        let snapshot = statistics.snapshot();
        assert_eq!(snapshot.made, [1, 0, 1]);
        assert_eq!(snapshot.waited, [0, 0, 1]);
    }
}
