//! A GPU whose time slices are even, and workers that do as they are told.
//! In: sessions with their load. Out: how much of the GPU each had, and how long each waited.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::scheduler::{Order, Scheduler, Usage};
use crate::terms::Member;

/// The simulation's step.
const STEP: Duration = Duration::from_micros(50);

/// A session's work: kernels of this length for so much GPU time, then a pause.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) kernel: Duration,
    pub(super) work: Duration,
    pub(super) pause: Duration,
}

impl Load {
    /// Kernels without a pause.
    pub(super) fn kernels(kernel: Duration) -> Self {
        Self { kernel, work: Duration::MAX, pause: Duration::ZERO }
    }

    pub(super) fn nothing() -> Self {
        Self { kernel: Duration::MAX, work: Duration::ZERO, pause: Duration::MAX }
    }
}

#[derive(Debug)]
struct Worker {
    load: Load,
    /// The last order, and whether it was answered.
    order: (u64, Order),
    rests: bool,
    /// Of the kernel that runs.
    left: Duration,
    work_left: Duration,
    pauses_until: Duration,
    waits_since: Option<Duration>,
    longest_wait: Duration,
    had: Duration,
}

impl Worker {
    fn has_work(&self, now: Duration) -> bool {
        now >= self.pauses_until && !self.work_left.is_zero()
    }
}

#[derive(Debug)]
pub(super) struct Simulation {
    scheduler: Scheduler<u8>,
    workers: BTreeMap<u64, Worker>,
    now: Duration,
    busy: Duration,
}

impl Simulation {
    pub(super) fn new() -> Self {
        Self { scheduler: Scheduler::default(), workers: BTreeMap::new(), now: Duration::ZERO, busy: Duration::ZERO }
    }

    pub(super) fn add(&mut self, number: u64, member: Member<u8>, load: Load) {
        self.add_beside(number, member, load, None);
    }

    /// A session takes the place of another one, with the same load.
    pub(super) fn move_to(&mut self, number: u64, from: u64, member: Member<u8>) {
        self.add_beside(number, member, self.workers[&from].load, Some(from));
        self.remove(from);
    }

    fn add_beside(&mut self, number: u64, member: Member<u8>, load: Load, beside: Option<u64>) {
        let worker = Worker {
            load,
            order: (0, Order::Free),
            rests: false,
            left: Duration::ZERO,
            work_left: load.work,
            pauses_until: Duration::ZERO,
            waits_since: None,
            longest_wait: Duration::ZERO,
            had: Duration::ZERO,
        };
        self.workers.insert(number, worker);
        self.scheduler.join(number, member, beside, self.now).unwrap();
    }

    pub(super) fn remove(&mut self, number: u64) {
        self.workers.remove(&number);
        self.scheduler.leave(number, self.now);
    }

    /// Thousandths of the time for which the GPU worked for a session.
    pub(super) fn thousandths(&self, number: u64) -> u64 {
        thousandths(self.workers[&number].had, self.now)
    }

    /// Thousandths of the time for which it worked at all.
    pub(super) fn busy(&self) -> u64 {
        thousandths(self.busy, self.now)
    }

    /// What a session is shown to have had.
    pub(super) fn usage(&self, number: u64) -> Usage {
        self.scheduler.usage(number, self.now)
    }

    pub(super) fn longest_wait(&self, number: u64) -> Duration {
        self.workers[&number].longest_wait
    }

    pub(super) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.hear();
            self.answer();
            self.hear();
            self.compute();
            self.now += STEP;
            if self.scheduler.deadline().is_some_and(|deadline| deadline <= self.now) {
                self.scheduler.tick(self.now);
            }
        }
    }

    fn hear(&mut self) {
        for (number, order, what) in self.scheduler.take_orders() {
            let worker = self.workers.get_mut(&number).unwrap();
            worker.order = (order, what);
            worker.rests = false;
        }
    }

    /// Workers report, start kernels and begin pauses.
    fn answer(&mut self) {
        let now = self.now;
        for (number, worker) in &mut self.workers {
            let (order, what) = worker.order;
            let runs = what != Order::Stop && !worker.rests;
            if worker.left.is_zero() && runs {
                if worker.work_left.is_zero() && now >= worker.pauses_until && !worker.load.work.is_zero() {
                    worker.work_left = worker.load.work;
                }
                if worker.has_work(now) {
                    worker.left = worker.load.kernel.min(worker.work_left);
                } else if what != Order::Free {
                    worker.rests = true;
                    self.scheduler.rests(*number, order, false, now);
                }
            } else if worker.left.is_zero() && !worker.rests {
                worker.rests = true;
                let wants = worker.has_work(now);
                worker.waits_since = wants.then_some(now);
                self.scheduler.rests(*number, order, wants, now);
            } else if worker.rests && worker.waits_since.is_none() && now >= worker.pauses_until {
                if worker.work_left.is_zero() {
                    worker.work_left = worker.load.work;
                }
                if worker.has_work(now) {
                    worker.waits_since = Some(now);
                    self.scheduler.wants(*number, order, now);
                }
            }
        }
    }

    fn compute(&mut self) {
        let busy = self.workers.values().filter(|worker| !worker.left.is_zero()).count();
        let Ok(busy) = u32::try_from(busy) else { return };
        if busy == 0 {
            return;
        }
        self.busy += STEP;
        for worker in self.workers.values_mut().filter(|worker| !worker.left.is_zero()) {
            if let Some(since) = worker.waits_since.take() {
                worker.longest_wait = worker.longest_wait.max(self.now - since);
            }
            let slice = (STEP / busy).min(worker.left);
            worker.had += slice;
            worker.left -= slice;
            worker.work_left = worker.work_left.saturating_sub(slice);
            if worker.work_left.is_zero() {
                worker.pauses_until = self.now.saturating_add(worker.load.pause);
            }
        }
    }
}

fn thousandths(part: Duration, whole: Duration) -> u64 {
    u64::try_from(part.as_nanos() * 1000 / whole.as_nanos()).unwrap()
}
