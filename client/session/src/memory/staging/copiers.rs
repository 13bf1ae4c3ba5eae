//! Threads that help a call copy memory: one thread reaches a quarter of what the memory does. Work comes in from calls of any
//! thread, helpers do part of it. They start with the first work that wants them, look on for a moment after each, and sleep.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use floe_transport::{Spin, processors};

use crate::log::log;
use crate::vgpu::tally;
use floe_lock::lock;

/// Threads of a copy where nothing is set: with more, memory is no faster.
const MOST: usize = 6;
/// The time for which a helper polls for more work, if processors are spare. A wake takes some hundred microseconds on
/// a virtual machine, as long as a copy of a few MiB.
const LINGERS: Duration = Duration::from_millis(1);

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
    line: Mutex<HelpQueue>,
    called: Condvar,
    /// Grows with each call for help, so that helpers can look without the lock.
    calls: AtomicUsize,
}

#[derive(Default)]
struct HelpQueue {
    /// With the number that the call has for a profiler.
    work: VecDeque<(u32, Arc<dyn Work>)>,
    /// Threads there are.
    started: Option<usize>,
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
        let threads = threads.unwrap_or_else(|| (processors() / 2).min(MOST)).max(1);
        let spin = Spin::of_process();
        Arc::new(Self { threads, spin, line: Mutex::default(), called: Condvar::new(), calls: AtomicUsize::new(0) })
    }

    /// Threads of one copy, the calling one among them.
    pub(super) fn threads(&self) -> usize {
        self.threads
    }

    /// The time to poll before sleeping.
    pub(super) fn spin(&self) -> Spin {
        self.spin
    }

    /// Has up to so many threads help with the work, sleeping ones only where it `wakes` them. Does not wait for them: they may
    /// come when nothing is left to do.
    pub(super) fn call(self: &Arc<Self>, work: &Arc<impl Work + 'static>, helpers: usize, wakes: bool) {
        let asleep = {
            let mut line = lock(&self.line);
            if wakes && line.started.is_none() && self.threads > 1 {
                line.started = Some(self.start());
            }
            let there = line.started.unwrap_or(0) - if wakes { 0 } else { line.asleep };
            let helpers = helpers.min(there);
            if helpers == 0 {
                return;
            }
            let number = tally::present();
            line.work.extend((0..helpers).map(|_| (number, Arc::clone(work) as Arc<dyn Work>)));
            if wakes { line.asleep.min(helpers) } else { 0 }
        };
        self.calls.fetch_add(1, Ordering::Release);
        if asleep + 1 >= self.threads {
            // One call of the system.
            self.called.notify_all();
        } else {
            (0..asleep).for_each(|_| self.called.notify_one());
        }
    }

    /// Starts the threads; how many there are.
    fn start(self: &Arc<Self>) -> usize {
        for number in 1..self.threads {
            let own = Arc::clone(self);
            let started = std::thread::Builder::new().name("floe-copy".into()).spawn(move || own.run());
            if let Err(error) = started {
                // The calling thread does the rest alone.
                log!(Info, "no thread to help with copies: {error}");
                return number - 1;
            }
        }
        self.threads - 1
    }

    fn run(&self) {
        loop {
            let (number, work) = self.next();
            tally::number(number);
            work.help();
            tally::number(0);
        }
    }

    fn next(&self) -> (u32, Arc<dyn Work>) {
        let seen = self.calls.load(Ordering::Acquire);
        let mut line = lock(&self.line);
        if line.work.is_empty() {
            drop(line);
            let began = Instant::now();
            let came = || (self.calls.load(Ordering::Acquire) != seen).then_some(());
            let _ = self.spin.look_while(came, |now| now.duration_since(began) < LINGERS);
            line = lock(&self.line);
        }
        loop {
            if let Some(work) = line.work.pop_front() {
                return work;
            }
            line.asleep += 1;
            line = floe_lock::wait(&self.called, line);
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
            copiers.call(&work, 9, true);
            work.help();
        }
    }

    #[test]
    fn work_that_wakes_nobody_gets_no_sleeping_helper() {
        let copiers = Copiers::new(Some(2));
        let work = Arc::new(Together(Barrier::new(2)));
        copiers.call(&work, 1, false);
        assert!(lock(&copiers.line).started.is_none());
        copiers.call(&work, 1, true);
        work.help();
        while lock(&copiers.line).asleep == 0 {
            std::thread::yield_now();
        }
        copiers.call(&work, 1, false);
        assert!(lock(&copiers.line).work.is_empty());
    }

    #[test]
    fn a_copy_alone_starts_no_thread() {
        let copiers = Copiers::new(Some(1));
        copiers.call(&Arc::new(Together(Barrier::new(2))), 3, true);
        assert!(lock(&copiers.line).started.is_none() && lock(&copiers.line).work.is_empty());
    }
}
