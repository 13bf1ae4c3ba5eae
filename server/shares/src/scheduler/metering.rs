//! How much of the GPU each session had, what units are due, and in which order they are next.
//! In: the time that has passed, who had the GPU, who has work. Out: usage, fractions, virtual times.
//! It gives no orders.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::accounts::Key;
use super::seat::{Due, Kind, Seat, Unit};
use super::{Scheduler, Totals, Usage};
use crate::fractions::{Active, fractions};
use crate::terms::Member;

/// GPU time by which a latency class may be ahead of its share and still goes first.
const BORROWS: Duration = Duration::from_millis(50);

impl<U: Ord + Copy> Scheduler<U> {
    /// What a session had until now, also where nothing has happened for long.
    #[must_use]
    pub fn usage(&self, number: u64, now: Duration) -> Usage {
        let Some(seat) = self.seats.get(&number) else { return Usage::default() };
        let (passed, busy) = (self.uncharged(now), self.busy());
        let Usage { time, of } = seat.usage;
        let part = if seat.is_busy() { part(passed, &busy) } else { Duration::ZERO };
        Usage { time: time + part, of: of + passed }
    }

    /// What all sessions had until now.
    #[must_use]
    pub fn totals(&self, now: Duration) -> Totals {
        let passed = self.uncharged(now);
        let had = if self.busy().is_empty() { Duration::ZERO } else { passed };
        let Totals { scheduled, had: before, turns } = self.totals;
        Totals { scheduled: scheduled + passed, had: before + had, turns }
    }

    /// Time in which turns were taken and that nobody was charged yet.
    fn uncharged(&self, now: Duration) -> Duration {
        if self.is_scheduled { now.saturating_sub(self.charged) } else { Duration::ZERO }
    }

    /// Units with the GPU, and the number of sessions of each that have it.
    pub(super) fn busy(&self) -> BTreeMap<Unit<U>, u32> {
        let mut busy = BTreeMap::new();
        for (number, seat) in self.seats.iter().filter(|(_, seat)| seat.is_busy()) {
            *busy.entry(seat.unit(*number)).or_default() += 1;
        }
        busy
    }

    /// Units with work, or without for a moment, and what each is due now.
    pub(super) fn due(&self) -> BTreeMap<Unit<U>, Due<U>> {
        let mut active: BTreeMap<Unit<U>, Active<U>> = BTreeMap::new();
        let counts = |(number, seat): &(&u64, &Seat<U>)| seat.has_work() || self.accounts.dozes(seat.unit(**number));
        for (number, seat) in self.seats.iter().filter(counts) {
            let Member { user, user_weight, terms, .. } = seat.member;
            let unit =
                active.entry(seat.unit(*number)).or_insert(Active { user, user_weight, share: terms.share, weight: 0 });
            // Sessions without terms count one each.
            unit.weight += terms.weight.max(1);
        }
        let list: Vec<_> = active.values().copied().collect();
        let fractions = fractions(&list);
        let user = |active: &Active<U>| (active.user, if active.share == 0 { Kind::Rest } else { Kind::Shares });
        let mut users: BTreeMap<(U, Kind), u64> = BTreeMap::new();
        for (active, fraction) in list.iter().zip(&fractions) {
            *users.entry(user(active)).or_default() += fraction;
        }
        let due = |(active, fraction): (&Active<U>, u64)| {
            let user = user(active);
            Due { fraction: fraction.max(1), user, of_user: users.get(&user).copied().unwrap_or_default().max(1) }
        };
        active.keys().copied().zip(list.iter().zip(fractions).map(due)).collect()
    }

    /// Charges those that had the GPU since the last event.
    pub(super) fn charge(&mut self, now: Duration) {
        let passed = self.uncharged(now);
        self.totals = self.totals(now);
        self.charged = self.charged.max(now);
        if passed.is_zero() {
            return;
        }
        self.seats.values_mut().for_each(|seat| seat.usage.of += passed);
        let due = self.due();
        let busy = self.busy();
        let part = part(passed, &busy);
        for seat in self.seats.values_mut().filter(|seat| seat.is_busy()) {
            seat.usage.time += part;
        }
        for (unit, sessions) in &busy {
            if let Some(due) = due.get(unit) {
                self.accounts.charge(*unit, due, part * *sessions);
            }
        }
    }

    /// Accounts follow who has work.
    pub(super) fn settle(&mut self, now: Duration) {
        let due = self.due();
        let busy = self.seats.iter().filter(|(_, seat)| seat.has_work());
        let busy: BTreeSet<Unit<U>> = busy.map(|(number, seat)| seat.unit(*number)).collect();
        self.accounts.settle(&due, |unit| busy.contains(&unit), now);
    }

    /// Forgets what those owe that have left, where that is over.
    pub(super) fn forget(&mut self, now: Duration) {
        let keys = |(number, seat): (&u64, &Seat<U>)| {
            [Key::Unit(seat.unit(*number)), Key::User(seat.member.user, seat.kind())]
        };
        let present: Vec<Key<U>> = self.seats.iter().flat_map(keys).collect();
        self.accounts.forget(&present, now);
    }

    /// Virtual time by which the next turn is decided.
    pub(super) fn key(&self, unit: Unit<U>, due: &BTreeMap<Unit<U>, Due<U>>) -> i128 {
        self.accounts.time(unit, due, self.borrows(unit))
    }

    /// Virtual time by which a turn among the units of one user is decided.
    pub(super) fn key_within(&self, unit: Unit<U>, due: &BTreeMap<Unit<U>, Due<U>>) -> i128 {
        self.accounts.own_time(unit, due, self.borrows(unit))
    }

    fn borrows(&self, unit: Unit<U>) -> Duration {
        if self.is_latency(unit) { BORROWS } else { Duration::ZERO }
    }
}

#[cfg(test)]
impl<U: Ord + Copy> Scheduler<U> {
    pub(crate) fn promised(&self) -> u32 {
        self.seats.values().map(|seat| seat.member.terms.share).sum()
    }

    /// The number of units whose members run.
    pub(crate) fn units_with_a_turn(&self) -> usize {
        let running = self.seats.iter().filter(|(_, seat)| seat.runs());
        running.map(|(number, seat)| seat.unit(*number)).collect::<std::collections::BTreeSet<_>>().len()
    }

    /// Whether somebody wants a turn whose user has not enough in flight, nobody has one, and nobody is waited for.
    pub(crate) fn keeps_somebody_waiting_for_nobody(&self, now: Duration) -> bool {
        let may_go = |(number, seat): (&u64, &Seat<U>)| self.may_go(seat.unit(*number), now);
        self.is_scheduled && self.seats.iter().any(may_go) && !self.seats.values().any(|seat| seat.blocks(now))
    }
}

/// What a session has of this time: those that have the GPU divide it evenly, as the driver does.
fn part<U: Ord>(passed: Duration, busy: &BTreeMap<Unit<U>, u32>) -> Duration {
    passed / busy.values().sum::<u32>().max(1)
}
