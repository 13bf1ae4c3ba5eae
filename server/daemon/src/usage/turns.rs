//! Turns on GPUs whose sessions have terms: the schedulers of all GPUs, and their clock.
//! In: workers that come and go, their reports. Out: orders to workers; how much of a GPU each had.
//! `floe-shares` decides. Nothing here waits for a worker.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use floe_metrics::TurnFigures;
use floe_shares::{Member, NoShare, Order, Scheduler, Terms, Totals, Usage};
use floe_worker::turn_notices::{TurnOrder, TurnReport, TurnSaid, Word};

use crate::entrance::limits::Source;
use crate::error::DaemonError;
use crate::workers::worker_channel::WorkerChannel;

/// The turns of a daemon's GPUs.
#[derive(Debug, Clone)]
pub(crate) struct Turns(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    /// Wakes the clock's thread.
    changed: Condvar,
    /// The schedulers' times are since then.
    zero: Instant,
    /// Whether workers hear no orders: then shares are promised here, and kept by somebody else.
    is_silent: bool,
}

#[derive(Debug, Default)]
struct State {
    gpus: BTreeMap<u32, Scheduler<Source>>,
    /// By the worker's number here, which no other has had.
    workers: BTreeMap<u64, Arc<WorkerChannel>>,
    last: u64,
}

/// A worker's place on a GPU. Dropping it gives its turn and its share back.
#[derive(Debug)]
pub(crate) struct TurnPlace {
    turns: Turns,
    gpu: u32,
    number: u64,
}

impl Default for Turns {
    fn default() -> Self {
        Self::new(false)
    }
}

impl Turns {
    fn new(is_silent: bool) -> Self {
        Self(Arc::new(Inner { state: Mutex::default(), changed: Condvar::new(), zero: Instant::now(), is_silent }))
    }

    /// Shares are promised, and nobody takes turns.
    pub(crate) fn without() -> Self {
        Self::new(true)
    }

    /// Starts the thread that ends turns in time.
    pub(crate) fn start_clock(&self) -> Result<(), DaemonError> {
        let turns = self.clone();
        let clock = std::thread::Builder::new().name("turns".into()).spawn(move || turns.keep_time());
        clock.map(drop).map_err(DaemonError::system("cannot start the thread that ends turns on GPUs"))
    }

    /// A worker comes, at the end of this channel. Nothing of it runs yet. It may take over from `beside`, also on the same GPU.
    pub(crate) fn join(
        &self,
        gpu: u32,
        (user, user_weight, terms): (Source, u32, Terms),
        beside: Option<&TurnPlace>,
        channel: &Arc<WorkerChannel>,
    ) -> Result<Arc<TurnPlace>, NoShare> {
        let mut state = self.state();
        state.last += 1;
        let number = state.last;
        let beside = beside.filter(|place| place.gpu == gpu).map(|place| place.number);
        let member = Member { user, user_weight, is_named: user.name().is_some(), terms };
        state.gpus.entry(gpu).or_default().join(number, member, beside, self.now())?;
        state.workers.insert(number, Arc::clone(channel));
        self.deliver(state, gpu);
        Ok(Arc::new(TurnPlace { turns: self.clone(), gpu, number }))
    }

    /// Thousandths of a GPU that nobody was promised.
    pub(crate) fn free_share(&self, gpu: u32) -> u32 {
        self.state().gpus.get(&gpu).map_or(floe_shares::WHOLE, Scheduler::free_share)
    }

    /// Whether sessions take turns on a GPU now.
    pub(crate) fn are_taken(&self, gpu: u32) -> bool {
        !self.0.is_silent && self.state().gpus.get(&gpu).is_some_and(Scheduler::is_scheduled)
    }

    /// How a GPU's time is divided.
    pub(crate) fn figures(&self, gpu: u32) -> TurnFigures {
        let state = self.state();
        let now = self.now();
        let Some(scheduler) = state.gpus.get(&gpu) else { return TurnFigures::default() };
        let promised = floe_shares::WHOLE - scheduler.free_share();
        if self.0.is_silent {
            return TurnFigures { promised, ..TurnFigures::default() };
        }
        let Totals { scheduled, had, turns } = scheduler.totals(now);
        TurnFigures { promised, scheduled, had, given: turns }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        floe_lock::lock(&self.0.state)
    }

    fn now(&self) -> Duration {
        self.0.zero.elapsed()
    }

    /// Gives a scheduler's orders to the workers, under the lock, so that they come in their order.
    fn deliver(&self, mut state: MutexGuard<'_, State>, gpu: u32) {
        let State { gpus, workers, .. } = &mut *state;
        let Some(scheduler) = gpus.get_mut(&gpu) else { return };
        let orders = scheduler.take_orders();
        for (to, number, order) in orders.iter().filter(|_| !self.0.is_silent) {
            if let Some(channel) = workers.get(to) {
                // One that leaves its orders unread has its turn until it is not waited for any longer.
                channel.turn(TurnOrder { number: *number, word: word(*order) });
            }
        }
        drop(state);
        // Deadlines change with orders, and with whoever begins to wait.
        self.0.changed.notify_all();
    }

    fn change(&self, gpu: u32, change: impl FnOnce(&mut Scheduler<Source>, Duration)) {
        let mut state = self.state();
        let now = self.now();
        if let Some(scheduler) = state.gpus.get_mut(&gpu) {
            change(scheduler, now);
        }
        self.deliver(state, gpu);
    }

    fn keep_time(&self) {
        let mut state = self.state();
        loop {
            let next = state.gpus.iter().filter_map(|(gpu, scheduler)| Some((scheduler.deadline()?, *gpu))).min();
            let now = self.now();
            state = match next {
                None => floe_lock::wait(&self.0.changed, state),
                Some((deadline, _)) if deadline > now => {
                    floe_lock::wait_timeout(&self.0.changed, state, deadline - now)
                }
                Some((_, gpu)) => {
                    drop(state);
                    self.change(gpu, Scheduler::tick);
                    self.state()
                }
            };
        }
    }
}

fn word(order: Order) -> Word {
    match order {
        Order::Free => Word::Free,
        Order::Go { others_wait, brief } => Word::Go { others_wait, brief },
        Order::Stop => Word::Stop,
    }
}

impl TurnPlace {
    /// The worker says something of its turn.
    pub(crate) fn says(&self, TurnReport { order, said }: TurnReport) {
        self.turns.change(self.gpu, |scheduler, now| match said {
            TurnSaid::Rests { wants } => scheduler.rests(self.number, order, wants, now),
            TurnSaid::Holds => scheduler.holds(self.number, order, now),
            TurnSaid::Wants => scheduler.wants(self.number, order, now),
        });
    }

    /// What the workers at these places had of their GPUs, all at one moment: nothing that is known, where nobody takes turns. The
    /// places are of one daemon.
    pub(crate) fn usages(places: &[Option<&Self>]) -> Vec<Usage> {
        let turns = places.iter().flatten().map(|place| &place.turns).next();
        let Some(turns) = turns.filter(|turns| !turns.0.is_silent) else {
            return vec![Usage::default(); places.len()];
        };
        let state = turns.state();
        let now = turns.now();
        let usage = |place: &Self| Some(state.gpus.get(&place.gpu)?.usage(place.number, now));
        places.iter().map(|place| place.and_then(usage).unwrap_or_default()).collect()
    }
}

impl Drop for TurnPlace {
    fn drop(&mut self) {
        self.turns.state().workers.remove(&self.number);
        self.turns.change(self.gpu, |scheduler, now| scheduler.leave(self.number, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a session had after a moment beside another user's, and what the GPU's figures say.
    fn beside_another(turns: &Turns) -> (Usage, TurnFigures) {
        let join = |user, share| {
            let (channel, _) = WorkerChannel::new(0).expect("made");
            let terms = (Source::User(user), 1, Terms { share, ..Terms::default() });
            turns.join(0, terms, None, &channel).expect("room")
        };
        let (one, _other) = (join(1, 250), join(2, 0));
        std::thread::sleep(Duration::from_millis(2));
        (TurnPlace::usages(&[Some(&one)])[0], turns.figures(0))
    }

    #[test]
    fn where_nobody_takes_turns_shares_are_promised_and_no_time_is_said_to_be_had() {
        let (usage, figures) = beside_another(&Turns::default());
        assert!(!usage.of.is_zero() && !figures.scheduled.is_zero(), "{usage:?} {figures:?}");
        let (usage, figures) = beside_another(&Turns::without());
        assert_eq!(usage, Usage::default());
        assert_eq!(figures, TurnFigures { promised: 250, ..TurnFigures::default() });
    }
}
