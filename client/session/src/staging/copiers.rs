//! Threads that help a call copy memory: one thread reaches a quarter of what the memory does. Work comes in from calls of any
//! thread, helpers do part of it. They start with the first work that wants them, look on for a moment after each, and sleep.

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use floe_transport::Spin;

use crate::log::log;
use crate::table::lock;

/// Threads of a copy where nothing is set: with more, memory is no faster.
const MOST: usize = 6;

/// Something several threads can do together.
pub(super) trait Work: Send + Sync {
    /// Does a part, and returns when there is none left to take.
    fn help(&self);
}

/// The helpers of a process.
pub(crate) struct Copiers {
    /// Threads of one copy, the calling one among them.
    threads: usize,
    spin: Spin,
    line: Mutex<Line>,
    called: Condvar,
    /// Grows with each call for help, so that helpers can look without the lock.
    calls: AtomicUsize,
}

#[derive(Default)]
struct Line {
    work: VecDeque<Arc<dyn Work>>,
    started: bool,
    asleep: usize,
}

impl std::fmt::Debug for Copiers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Copiers").field("threads", &self.threads).finish_non_exhaustive()
    }
}

impl Copiers {
    /// As many threads as are set, or half of the processors up to what helps.
    pub(crate) fn new(threads: Option<usize>) -> Arc<Self> {
        let processors = || std::thread::available_parallelism().map_or(1, NonZero::get);
        let threads = threads.unwrap_or_else(|| (processors() / 2).min(MOST)).max(1);
        let spin = Spin::of_process();
        Arc::new(Self { threads, spin, line: Mutex::default(), called: Condvar::new(), calls: AtomicUsize::new(0) })
    }

    /// Threads of one copy, the calling one among them.
    pub(super) fn threads(&self) -> usize {
        self.threads
    }

    /// How long to look again before sleeping.
    pub(super) fn spin(&self) -> Spin {
        self.spin
    }

    /// Has up to so many threads help with the work. Does not wait for them: they may come when nothing is left to do.
    pub(super) fn call(self: &Arc<Self>, work: &Arc<impl Work + 'static>, helpers: usize) {
        let helpers = helpers.min(self.threads - 1);
        if helpers == 0 {
            return;
        }
        let asleep = {
            let mut line = lock(&self.line);
            if !line.started {
                line.started = true;
                self.start();
            }
            line.work.extend((0..helpers).map(|_| Arc::clone(work) as Arc<dyn Work>));
            line.asleep
        };
        self.calls.fetch_add(1, Ordering::Release);
        if helpers >= asleep {
            // One call of the system.
            self.called.notify_all();
        } else {
            (0..helpers).for_each(|_| self.called.notify_one());
        }
    }

    fn start(self: &Arc<Self>) {
        for _ in 1..self.threads {
            let own = Arc::clone(self);
            let started = std::thread::Builder::new().name("floe-copy".into()).spawn(move || own.run());
            if let Err(error) = started {
                // Whoever calls does the work alone.
                return log!(Info, "no thread to help with copies: {error}");
            }
        }
    }

    fn run(&self) {
        loop {
            self.next().help();
        }
    }

    fn next(&self) -> Arc<dyn Work> {
        let seen = self.calls.load(Ordering::Acquire);
        let mut line = lock(&self.line);
        if line.work.is_empty() {
            drop(line);
            let _ = self.spin.look(|| (self.calls.load(Ordering::Acquire) != seen).then_some(()));
            line = lock(&self.line);
        }
        loop {
            if let Some(work) = line.work.pop_front() {
                return work;
            }
            line.asleep += 1;
            line = self.called.wait(line).unwrap_or_else(PoisonError::into_inner);
            line.asleep -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    /// Work that is done only when so many threads do it at once.
    struct Together(Barrier);

    impl Work for Together {
        fn help(&self) {
            self.0.wait();
        }
    }

    #[test]
    fn helpers_come_as_often_as_they_are_called() {
        let copiers = Copiers::new(Some(4));
        for _ in 0..100 {
            let work = Arc::new(Together(Barrier::new(4)));
            copiers.call(&work, 9);
            work.help();
        }
    }

    #[test]
    fn who_copies_alone_starts_no_thread() {
        let copiers = Copiers::new(Some(1));
        copiers.call(&Arc::new(Together(Barrier::new(2))), 3);
        assert!(!lock(&copiers.line).started && lock(&copiers.line).work.is_empty());
    }
}
