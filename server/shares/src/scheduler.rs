//! The scheduler: who has the GPU, and who is next.
//! In: sessions that come and go, reports of their workers, the time. Out: orders, a deadline, how much GPU time each had.
//! A worker may lie in its reports: it then loses its turn or keeps it until `OVERRUN`, and is charged by this clock all the same.

mod accounts;
mod metering;
mod seat;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::fractions::{MILLION, scaled};
use crate::terms::{Class, Member, NoShare, WHOLE};
use accounts::Accounts;
pub(crate) use seat::OVERRUN;
#[cfg(test)]
pub(crate) use seat::RETURNS;
pub use seat::Usage;
use seat::{Due, Phase, Seat, Unit};

/// A turn, while others wait: long beside the 100 µs of a switch, short beside what people notice.
pub(crate) const SLICE: Duration = Duration::from_millis(10);
/// The shortest turn, where somebody who is far behind wakes up.
const LEAST: Duration = Duration::from_millis(1);
/// GPU time by which a unit that wakes up must be behind to cut a turn short.
const WAKES: Duration = Duration::from_millis(5);
/// A unit that wakes up goes beside the one whose turn it is for so long: most that wake up have less to do, and a switch for it
/// would cost both more than the driver's slices do.
pub(crate) const BESIDE: Duration = Duration::from_millis(2);
/// So long turns go on when nobody needs them any more. When they begin everybody stops, for up to [`OVERRUN`] beside kernels that
/// cannot be preempted: whoever came and left again and again would have the GPU alone for that time each time.
pub(crate) const LASTS: Duration = Duration::from_secs(10);

/// The daemon's word to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Submit as ever; nobody schedules this GPU.
    Free,
    /// Submit. `others_wait`: keep little in flight, and report when there is no work. `brief`: keep still less.
    Go {
        /// Whether somebody waits for the end of this turn.
        others_wait: bool,
        /// Whether there is a latency class, which may end this turn at any time.
        brief: bool,
    },
    /// Submit nothing more, and report when what was submitted is done.
    Stop,
}

/// Orders to members, each with the number that the answer names.
pub type Orders = Vec<(u64, u64, Order)>;

/// What all members together had of the GPU, also those that have left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Time for which the GPU was scheduled.
    pub scheduled: Duration,
    /// Time of it for which somebody had the GPU.
    pub had: Duration,
    /// Turns that were given.
    pub turns: u64,
}

/// The sessions of one GPU. Times are since any moment, and never fall.
#[derive(Clone, Debug)]
pub struct Scheduler<U: Ord + Copy> {
    seats: BTreeMap<u64, Seat<U>>,
    /// What units and users had.
    accounts: Accounts<U>,
    /// The unit whose turn it is, and since when.
    turn: Option<(Unit<U>, Duration)>,
    /// The unit that has woken up and goes beside it.
    beside: Option<(Unit<U>, Duration)>,
    is_scheduled: bool,
    /// When turns end, where nobody needs them any more.
    ends: Option<Duration>,
    /// Everything up to here is charged.
    charged: Duration,
    totals: Totals,
    orders: Orders,
}

impl<U: Ord + Copy> Default for Scheduler<U> {
    fn default() -> Self {
        Self {
            seats: BTreeMap::new(),
            accounts: Accounts::default(),
            turn: None,
            beside: None,
            is_scheduled: false,
            ends: None,
            charged: Duration::ZERO,
            totals: Totals::default(),
            orders: Vec::new(),
        }
    }
}

impl<U: Ord + Copy> Scheduler<U> {
    /// Thousandths of the GPU that no session was promised.
    #[must_use]
    pub fn free_share(&self) -> u32 {
        let promised: u32 = self.seats.values().map(|seat| seat.member.terms.share).sum();
        WHOLE.saturating_sub(promised)
    }

    /// Whether turns are taken.
    #[must_use]
    pub fn is_scheduled(&self) -> bool {
        self.is_scheduled
    }

    /// A session comes; nothing of it runs yet. `beside`: it takes the place of this one, which is still there and has promised
    /// its share to it.
    ///
    /// # Errors
    /// [`NoShare`]: the others were promised too much.
    pub fn join(&mut self, number: u64, member: Member<U>, beside: Option<u64>, now: Duration) -> Result<(), NoShare> {
        let other = beside.and_then(|other| Some((other, self.seats.get(&other)?)));
        let given = other.map_or(0, |(_, seat)| seat.member.terms.share);
        let unit_beside = other.map(|(other, seat)| seat.unit(other));
        let (asked, free) = (member.terms.share, self.free_share() + given);
        if asked > free {
            return Err(NoShare { asked, free });
        }
        self.charge(now);
        let seat = Seat {
            member,
            beside,
            phase: Phase::Free,
            order: 0,
            left: None,
            began: now,
            told: now,
            overran: true,
            usage: Usage::default(),
        };
        let (unit, kind) = (seat.unit(number), seat.kind());
        self.seats.insert(number, seat);
        if let (Unit::Session(_), Some(from)) = (unit, unit_beside) {
            self.accounts.inherit(unit, from, now);
        }
        let units = u64::try_from(self.seats.len()).unwrap_or(u64::MAX);
        let part = if asked == 0 { MILLION / units.max(1) } else { u64::from(asked) * 1000 };
        self.accounts.begin(unit, (member.user, kind), part, now);
        // It is about to begin: nobody waits for its answer.
        let resting = Phase::Resting { wants: false };
        if self.is_scheduled {
            self.order(number, Order::Stop, resting);
        } else if self.needs_turns()
            && let Some(seat) = self.seats.get_mut(&number)
        {
            seat.phase = resting;
        }
        self.decide(now);
        Ok(())
    }

    /// A session is over.
    pub fn leave(&mut self, number: u64, now: Duration) {
        self.charge(now);
        self.seats.remove(&number);
        self.orders.retain(|(to, ..)| *to != number);
        self.settle(now);
        self.forget(now);
        self.decide(now);
    }

    /// A worker that has stopped has work, by its answer to the order of this number.
    pub fn wants(&mut self, number: u64, order: u64, now: Duration) {
        self.report(number, order, now, |phase| match phase {
            Phase::Resting { .. } => Phase::Resting { wants: true },
            Phase::Stopping { until, .. } => Phase::Stopping { until, wants: true },
            Phase::Holding { .. } => Phase::Holding { wants: true },
            other => other,
        });
    }

    /// A worker has nothing in flight and submits nothing, by its answer to the order of this number; `wants`: it has work.
    pub fn rests(&mut self, number: u64, order: u64, wants: bool, now: Duration) {
        self.report(number, order, now, |phase| match phase {
            Phase::Free => Phase::Free,
            Phase::Resting { wants: before } => Phase::Resting { wants: before || wants },
            Phase::Running { .. } | Phase::Stopping { .. } => Phase::Resting { wants },
            Phase::Holding { wants: before } => Phase::Resting { wants: before || wants },
        });
    }

    /// What a worker that stops has in flight may wait for its program or for another session, by its answer to the order of this
    /// number. It no longer keeps others waiting, and is charged until it rests.
    pub fn holds(&mut self, number: u64, order: u64, now: Duration) {
        self.report(number, order, now, |phase| match phase {
            Phase::Running { .. } => Phase::Holding { wants: false },
            Phase::Stopping { wants, .. } => Phase::Holding { wants },
            other => other,
        });
    }

    fn report(&mut self, number: u64, order: u64, now: Duration, change: impl FnOnce(Phase) -> Phase) {
        self.charge(now);
        let Some(seat) = self.seats.get(&number).filter(|seat| seat.order == order) else { return };
        let (unit, was_active) = (seat.unit(number), self.is_active(seat.unit(number)));
        let phase = change(seat.phase);
        if let Some(seat) = self.seats.get_mut(&number) {
            if seat.is_busy() && matches!(phase, Phase::Resting { .. }) {
                seat.left = Some(now);
            }
            match (seat.phase, phase) {
                (Phase::Stopping { .. }, Phase::Resting { .. }) => seat.overran = now > seat.told + OVERRUN,
                (Phase::Running { .. }, Phase::Resting { .. }) => seat.overran = false,
                _ => {}
            }
            seat.phase = phase;
        }
        self.settle(now);
        if !was_active && self.is_active(unit) {
            self.go_beside(unit, now);
        }
        self.decide(now);
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Duration) {
        self.charge(now);
        self.decide(now);
    }

    /// What is to be said to workers.
    #[must_use]
    pub fn take_orders(&mut self) -> Orders {
        std::mem::take(&mut self.orders)
    }

    /// When to call [`Scheduler::tick`] next, if nothing happens before.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        // The time of the last event, at which what was due then was decided.
        let now = self.charged;
        if !self.is_scheduled {
            return None;
        }
        let beside = self.beside.map(|(_, since)| since + BESIDE);
        let returns = self.seats.values().filter_map(|seat| seat.returns_until(now)).chain(self.ends);
        if !self.seats.values().any(Seat::wants) {
            return beside.into_iter().chain(returns).min();
        }
        let stopping = self.seats.values().filter_map(|seat| match seat.phase {
            Phase::Stopping { until, .. } if now < until => Some(until),
            _ => None,
        });
        let slice = self.turn.map(|(_, since)| if now < since + LEAST { since + LEAST } else { since + SLICE });
        // Behind it only a report changes anything.
        let slice = slice.filter(|at| now < *at);
        let wanting = self.seats.iter().filter(|(_, seat)| seat.wants());
        let kept = wanting.filter_map(|(number, _)| self.may_begin_at(*number, now));
        let beside = beside.into_iter().chain(kept);
        stopping.chain(slice).chain(beside).chain(returns).min()
    }

    fn is_active(&self, unit: Unit<U>) -> bool {
        self.of(unit).any(|(_, seat)| seat.has_work())
    }

    fn of(&self, unit: Unit<U>) -> impl Iterator<Item = (u64, &Seat<U>)> {
        let all = self.seats.iter().map(|(number, seat)| (*number, seat));
        all.filter(move |(number, seat)| seat.unit(*number) == unit)
    }

    fn order(&mut self, number: u64, order: Order, phase: Phase) {
        // Everything is decided at the time up to which it is charged.
        let now = self.charged;
        if let Some(seat) = self.seats.get_mut(&number) {
            match order {
                Order::Stop => seat.told = now,
                Order::Go { .. } if !seat.runs() => seat.began = now,
                _ => {}
            }
            seat.order += 1;
            seat.phase = phase;
            self.orders.push((number, seat.order, order));
        }
    }

    /// Whether turns are to be taken: the driver's even slices for all would not be what users and sessions are due.
    fn needs_turns(&self) -> bool {
        let mut users = self.seats.values().map(|seat| seat.member.user_weight);
        let first = users.next();
        let differ = users.any(|weight| Some(weight) != first);
        let terms = || self.seats.values().any(|seat| seat.member.terms.are_any());
        self.seats.len() > 1 && (differ || terms() || self.may_be_uneven())
    }

    /// Whether there are several users with names, and one of them has several sessions. Equal numbers of sessions would be no equal
    /// parts: some may have nothing to do. A session that moves has two places, and is one.
    fn may_be_uneven(&self) -> bool {
        let mut sessions: BTreeMap<U, u32> = BTreeMap::new();
        let moves = |seat: &Seat<U>| seat.beside.is_some_and(|beside| self.seats.contains_key(&beside));
        for seat in self.seats.values().filter(|seat| seat.member.is_named && !moves(seat)) {
            *sessions.entry(seat.member.user).or_default() += 1;
        }
        sessions.len() > 1 && sessions.values().any(|count| *count > 1)
    }

    fn begin_or_end(&mut self, now: Duration) {
        let needs = self.needs_turns();
        let ends = self.ends.unwrap_or(now + LASTS);
        let lasts = self.is_scheduled && !self.seats.is_empty() && now < ends;
        self.ends = (lasts && !needs).then_some(ends);
        let needed = needs || lasts;
        if needed == self.is_scheduled {
            return;
        }
        self.is_scheduled = needed;
        (self.turn, self.beside) = (None, None);
        let numbers: Vec<u64> = self.seats.keys().copied().collect();
        for number in numbers {
            if needed {
                let is_new = self.seats.get(&number).is_some_and(|seat| seat.phase != Phase::Free);
                let stopping = Phase::Stopping { until: now + OVERRUN, wants: false };
                self.order(number, Order::Stop, if is_new { Phase::Resting { wants: false } } else { stopping });
            } else {
                self.order(number, Order::Free, Phase::Free);
            }
        }
    }

    fn is_latency(&self, unit: Unit<U>) -> bool {
        self.of(unit).any(|(_, seat)| seat.member.terms.class == Class::Latency)
    }

    /// The unit that is next among those that want a turn and have none.
    fn next(&self, due: &BTreeMap<Unit<U>, Due<U>>, now: Duration) -> Option<Unit<U>> {
        let waiting = due.keys().filter(|unit| self.turn.is_none_or(|(holder, _)| holder != **unit));
        let waiting = waiting.filter(|unit| self.may_go(**unit, now));
        waiting.copied().min_by_key(|unit| (self.key(*unit, due), self.key_within(*unit, due), *unit))
    }

    /// Whether a session may begin. Not where it would be a further slice of the driver's for its user while somebody else
    /// computes, or did a moment ago: another session of the user has something that cannot be stopped, or one of the same unit
    /// is likely to, as this one is.
    fn may_begin(&self, number: u64, now: Duration) -> bool {
        self.may_begin_at(number, now).is_none()
    }

    /// Whether a session of this unit wants to go, and may.
    fn may_go(&self, unit: Unit<U>, now: Duration) -> bool {
        self.of(unit).any(|(number, seat)| seat.wants() && self.may_begin(number, now))
    }

    /// From when on a session may begin that may not now.
    fn may_begin_at(&self, number: u64, now: Duration) -> Option<Duration> {
        let own = self.seats.get(&number)?;
        let user = own.member.user;
        let mut others = self.seats.values().filter(|seat| seat.member.user != user);
        if !others.any(|seat| seat.is_company(now) || seat.wants()) {
            return None;
        }
        let unit = own.unit(number);
        let is_alike = |other: u64, seat: &Seat<U>| own.overran && seat.overran && seat.unit(other) == unit;
        let users = self.seats.iter().filter(|(other, seat)| **other != number && seat.member.user == user);
        let keeping = users.filter(|(other, seat)| seat.overruns(now) || seat.computes() && is_alike(**other, seat));
        keeping.map(|(_, seat)| seat.stands_until()).filter(|until| now < *until).max()
    }

    fn decide(&mut self, now: Duration) {
        self.begin_or_end(now);
        self.settle(now);
        if !self.is_scheduled {
            return;
        }
        self.end_turns_without_work(now);
        let due = self.due();
        let next = self.next(&due, now);
        if let Some((holder, since)) = self.turn {
            let ran = now.saturating_sub(since);
            let beside = self.beside.filter(|(_, since)| now >= *since + BESIDE).map(|(unit, _)| unit);
            // Who goes beside the holder and has more to do takes the turn, or waits for it.
            if let Some(unit) = beside.filter(|unit| self.ends_turn(ran, *unit, holder, &due)) {
                (self.turn, self.beside) = (Some((unit, now)), None);
                self.totals.turns += 1;
                // Nobody waits for what others go on beside.
                self.stop(holder, now);
                return;
            }
            if let Some(unit) = beside {
                self.beside = None;
                self.stop(unit, now + OVERRUN);
            }
            if !next.is_some_and(|unit| self.ends_turn(ran, unit, holder, &due)) {
                if ran >= SLICE && self.keeps_own_waiting(holder, now) {
                    // It stops for them, or is seen not to.
                    self.stop(holder, now + OVERRUN);
                    self.turn = Some((holder, now));
                    return;
                }
                self.go(holder, next.is_some(), now);
                if next.is_some() && ran >= SLICE {
                    self.turn = Some((holder, now));
                }
                return;
            }
            self.stop(holder, if self.beside.is_some() { now } else { now + OVERRUN });
            // Who goes beside it has its turn now.
            self.turn = self.beside.take();
            if self.turn.is_some() {
                self.totals.turns += 1;
                return;
            }
        }
        let Some(unit) = next else { return };
        // A latency class does not wait for what others have in flight, unless it is ahead of them: the driver's slices let it through.
        let goes_first = |(number, seat): (&u64, &Seat<U>)| {
            self.is_latency(unit) && self.behind(unit, seat.unit(*number), &due) >= 0
        };
        if self.seats.iter().filter(|(_, seat)| seat.blocks(now)).all(goes_first) {
            self.turn = Some((unit, now));
            self.totals.turns += 1;
            self.go(unit, self.next(&due, now).is_some(), now);
        }
    }

    /// Whether members of a unit run, and others of it may not begin.
    fn keeps_own_waiting(&self, unit: Unit<U>, now: Duration) -> bool {
        self.of(unit).any(|(_, seat)| seat.runs())
            && self.of(unit).any(|(number, seat)| seat.wants() && !self.may_begin(number, now))
    }

    /// How much further the holder is than a unit.
    fn behind(&self, unit: Unit<U>, holder: Unit<U>, due: &BTreeMap<Unit<U>, Due<U>>) -> i128 {
        let user = |unit| due.get(&unit).map(|due| due.user);
        if user(holder).is_some() && user(holder) == user(unit) {
            self.key_within(holder, due) - self.key_within(unit, due)
        } else {
            self.key(holder, due) - self.key(unit, due)
        }
    }

    /// A unit has woken up: it goes at once, and stops soon, where it is behind the one whose turn it is.
    fn go_beside(&mut self, unit: Unit<U>, now: Duration) {
        let Some((holder, _)) = self.turn.filter(|(holder, _)| *holder != unit) else { return };
        let is_behind = self.behind(unit, holder, &self.due()) > 0;
        if is_behind && self.is_scheduled && self.beside.is_none() && !self.is_latency(unit) {
            self.beside = Some((unit, now));
            self.go(unit, true, now);
        }
    }

    /// Members of a unit that want to go do, and those that go hear whether others wait, and of a latency class.
    fn go(&mut self, unit: Unit<U>, wait: bool, now: Duration) {
        let mut others = self.seats.iter().filter(|(number, seat)| seat.unit(**number) != unit).map(|(_, seat)| seat);
        let others_wait = wait || others.clone().any(|seat| seat.is_company(now));
        let brief = !self.is_latency(unit) && others.any(|seat| seat.member.terms.class == Class::Latency);
        let phase = Phase::Running { others_wait, brief };
        let is_meant = |seat: &Seat<U>| match seat.phase {
            Phase::Running { .. } => seat.phase != phase,
            _ => seat.wants(),
        };
        let mut meant: Vec<_> =
            self.of(unit).filter(|(_, seat)| is_meant(seat)).map(|(number, seat)| (seat.usage.time, number)).collect();
        // Where not all may begin, who had least does.
        meant.sort_unstable();
        for (_, number) in meant {
            if self.seats.get(&number).is_some_and(Seat::runs) || self.may_begin(number, now) {
                self.order(number, Order::Go { others_wait, brief }, phase);
            }
        }
    }

    /// Members of a unit that go stop, and keep others waiting until then.
    fn stop(&mut self, unit: Unit<U>, until: Duration) {
        let meant: Vec<u64> = self.of(unit).filter(|(_, seat)| seat.runs()).map(|(number, _)| number).collect();
        for number in meant {
            self.order(number, Order::Stop, Phase::Stopping { until, wants: false });
        }
    }

    /// The turn of a unit that has stopped by itself is over: who goes beside it has it now.
    fn end_turns_without_work(&mut self, now: Duration) {
        let runs = |unit| self.of(unit).any(|(_, seat)| seat.runs());
        let is_there = |unit| runs(unit) || self.may_go(unit, now);
        let turn = self.turn.filter(|(unit, _)| is_there(*unit));
        let beside = self.beside.filter(|(unit, _)| runs(*unit));
        (self.turn, self.beside) = if turn.is_none() { (beside, None) } else { (turn, beside) };
        self.totals.turns += u64::from(turn.is_none() && self.turn.is_some());
    }

    /// Whether the holder's turn ends for this unit.
    fn ends_turn(&self, ran: Duration, next: Unit<U>, holder: Unit<U>, due: &BTreeMap<Unit<U>, Due<U>>) -> bool {
        let behind = self.behind(next, holder, due);
        if behind <= 0 {
            return false;
        }
        let fraction = due.get(&next).map_or(MILLION, |due| due.fraction);
        ran >= SLICE
            || (self.is_latency(next) && !self.is_latency(holder))
            || (ran >= LEAST && behind > scaled(WAKES, fraction))
    }
}
