//! Which call of the program each command was sent for, while a profiler wants to know. In: sequences, as they are sent by
//! the thread of a call. Out: the number of the call. While nobody wants it, a command costs one look.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::vgpu::tally;
use floe_lock::lock;

/// Commands at once, of which the oldest are forgotten first: as many as a worker remembers.
const MOST: usize = 1 << 20;

/// The commands that were sent while it was on.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    on: AtomicBool,
    calls: Mutex<BTreeMap<u64, u32>>,
}

impl Commands {
    /// A command of this sequence was sent for this thread's present call.
    #[inline]
    pub(super) fn note(&self, sequence: u64) -> u64 {
        if self.on.load(Ordering::Relaxed) {
            self.keep(sequence);
        }
        sequence
    }

    #[cold]
    fn keep(&self, sequence: u64) {
        let call = tally::present();
        if call == 0 {
            return;
        }
        let mut calls = lock(&self.calls);
        calls.insert(sequence, call);
        while calls.len() > MOST {
            calls.pop_first();
        }
    }

    /// From here on the calls of commands are noted, or not any more.
    pub(crate) fn turn(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }

    /// The call for which a command was sent; 0: unknown.
    pub(crate) fn call_of(&self, sequence: u64) -> u32 {
        lock(&self.calls).get(&sequence).copied().unwrap_or_default()
    }

    /// Forgets all calls.
    pub(crate) fn forget(&self) {
        lock(&self.calls).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vgpu::statistics::Statistics;

    #[test]
    fn a_command_is_noted_for_the_call_of_its_thread_while_that_is_wanted() {
        let (commands, statistics) = (Commands::default(), Statistics::new());
        tally::begin();
        tally::number(7);
        commands.note(1);
        commands.turn(true);
        commands.note(2);
        assert_eq!(tally::end(&statistics), 7);
        commands.note(3);
        commands.turn(false);
        assert_eq!([1, 2, 3].map(|sequence| commands.call_of(sequence)), [0, 7, 0]);
        commands.forget();
        assert_eq!(commands.call_of(2), 0);
    }
}
