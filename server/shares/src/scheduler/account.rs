//! What each unit and each user had of the GPU, and what that means for who is next.
//! In: the time that has passed, who had the GPU, who has work. Out: virtual times, in which the least is next.
//! It gives no orders.

use std::collections::BTreeMap;
use std::time::Duration;

use super::seat::{Due, Kind, Seat, Unit};
use super::{Scheduler, Totals, Usage};
use crate::fractions::{Active, MILLION, fractions, scaled, signed};
use crate::terms::Member;

/// GPU time that a unit may keep from a time without work.
const LAG: Duration = Duration::from_millis(20);
/// GPU time by which a latency class may be ahead of its share and still goes first.
const BORROWS: Duration = Duration::from_millis(50);
/// Users that have left are remembered while they are ahead, up to so many.
const DEPARTED: usize = 256;

impl<U: Ord + Copy> Scheduler<U> {
    /// What a session had until now, also where nothing has happened for long.
    #[must_use]
    pub fn usage(&self, number: u64, now: Duration) -> Usage {
        let Some(seat) = self.seats.get(&number) else { return Usage::default() };
        let (passed, busy) = (self.uncharged(now), self.busy());
        let Usage { time, of } = seat.usage;
        let part = if seat.is_busy() { part(passed, &busy, seat.unit(number)) } else { Duration::ZERO };
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

    /// Whether any unit of a user without a share has work.
    pub(super) fn is_rest_active(&self, user: U) -> bool {
        self.seats.values().any(|seat| seat.rest() == Some(user) && (seat.is_busy() || seat.wants()))
    }

    /// The virtual time of a unit, or that of its user, whichever is further; without what a latency class may borrow of each.
    fn time(&self, unit: Unit<U>, due: &BTreeMap<Unit<U>, Due<U>>, borrows: Duration) -> i128 {
        let own = self.own_time(unit, due, borrows);
        let of_user = due.get(&unit).and_then(|due| {
            let (user, fraction) = due.rest?;
            let time = self.users.get(&(user, Kind::Rest)).copied()?;
            Some(signed(time) - signed(scaled(borrows, fraction)))
        });
        of_user.map_or(own, |time| time.max(own))
    }

    /// The same of the unit alone.
    fn own_time(&self, unit: Unit<U>, due: &BTreeMap<Unit<U>, Due<U>>, borrows: Duration) -> i128 {
        let time = self.virtual_times.get(&unit).copied().unwrap_or(self.floor);
        signed(time) - signed(scaled(borrows, due.get(&unit).map_or(MILLION, |due| due.fraction)))
    }

    /// Units with work, and what each is due now.
    pub(super) fn due(&self) -> BTreeMap<Unit<U>, Due<U>> {
        let mut active: BTreeMap<Unit<U>, Active<U>> = BTreeMap::new();
        for (number, seat) in self.seats.iter().filter(|(_, seat)| seat.is_busy() || seat.wants()) {
            let Member { user, user_weight, terms } = seat.member;
            let unit =
                active.entry(seat.unit(*number)).or_insert(Active { user, user_weight, share: terms.share, weight: 0 });
            // Sessions without terms count one each.
            unit.weight += terms.weight.max(1);
        }
        let list: Vec<_> = active.values().copied().collect();
        let fractions = fractions(&list);
        let mut users: BTreeMap<U, u64> = BTreeMap::new();
        for (active, fraction) in list.iter().zip(&fractions).filter(|(active, _)| active.share == 0) {
            *users.entry(active.user).or_default() += fraction;
        }
        let rest = |active: &Active<U>| users.get(&active.user).filter(|_| active.share == 0);
        let due = |(active, fraction): (&Active<U>, u64)| Due {
            fraction: fraction.max(1),
            rest: rest(active).map(|all| (active.user, (*all).max(1))),
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
        let Ok(units) = u32::try_from(busy.len()) else { return };
        for (number, seat) in self.seats.iter_mut().filter(|(_, seat)| seat.is_busy()) {
            seat.usage.time += part(passed, &busy, seat.unit(*number));
        }
        for unit in busy.keys() {
            let Some(Due { fraction, rest }) = due.get(unit).copied() else { continue };
            *self.virtual_times.entry(*unit).or_insert(self.floor) += scaled(passed / units, fraction);
            if let Some((user, fraction)) = rest {
                *self.users.entry((user, Kind::Rest)).or_insert(self.floor) += scaled(passed / units, fraction);
            }
        }
        let least = due.keys().map(|unit| self.time(*unit, &due, Duration::ZERO)).min();
        self.floor = self.floor.max(least.and_then(|least| u128::try_from(least).ok()).unwrap_or(0));
    }

    /// A unit has work again: it keeps a bounded part of the time that it did not use; and so does its user, if that has none
    /// that had work.
    pub(super) fn wakes(&mut self, unit: Unit<U>, is_first_of_user: bool) {
        let Some(Due { fraction, rest }) = self.due().get(&unit).copied() else { return };
        let least = |fraction| self.floor.saturating_sub(scaled(LAG, fraction));
        let (of_unit, of_user) = (least(fraction), rest.map(|(user, fraction)| (user, least(fraction))));
        let time = self.virtual_times.entry(unit).or_insert(of_unit);
        *time = (*time).max(of_unit);
        if let Some((user, least)) = of_user.filter(|_| is_first_of_user) {
            let time = self.users.entry((user, Kind::Rest)).or_insert(least);
            *time = (*time).max(least);
        }
    }

    /// Forgets users without sessions that are not ahead any more, and those that are, where there are many.
    pub(super) fn forget(&mut self) {
        let present: Vec<Unit<U>> = self.seats.iter().map(|(number, seat)| seat.unit(*number)).collect();
        let floor = self.floor;
        self.virtual_times.retain(|unit, time| present.contains(unit) || *time > floor);
        let users: Vec<U> = self.seats.values().filter_map(Seat::rest).collect();
        let is_there = |(user, kind): &(U, Kind)| *kind == Kind::Rest && users.contains(user);
        self.users.retain(|key, time| is_there(key) || *time > floor);
        let mut spare = self.users.len().saturating_sub(users.len() + DEPARTED);
        self.users.retain(|key, _| {
            let stays = spare == 0 || is_there(key);
            spare -= usize::from(!stays);
            stays
        });
        let mut spare = self.virtual_times.len().saturating_sub(present.len() + DEPARTED);
        self.virtual_times.retain(|unit, _| {
            let stays = spare == 0 || present.contains(unit);
            spare -= usize::from(!stays);
            stays
        });
    }

    /// Virtual time by which the next turn is decided.
    pub(super) fn key(&self, unit: Unit<U>, due: &BTreeMap<Unit<U>, Due<U>>) -> i128 {
        self.time(unit, due, self.borrows(unit))
    }

    /// Virtual time by which a turn among the units of one user is decided.
    pub(super) fn key_within(&self, unit: Unit<U>, due: &BTreeMap<Unit<U>, Due<U>>) -> i128 {
        self.own_time(unit, due, self.borrows(unit))
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
        let running = self.seats.iter().filter(|(_, seat)| matches!(seat.phase, super::seat::Phase::Running { .. }));
        running.map(|(number, seat)| seat.unit(*number)).collect::<std::collections::BTreeSet<_>>().len()
    }

    /// Whether somebody wants a turn, nobody has one, and nobody is waited for.
    pub(crate) fn keeps_somebody_waiting_for_nobody(&self, now: Duration) -> bool {
        let (mut seats, wants) = (self.seats.values(), self.seats.values().any(Seat::wants));
        self.is_scheduled && wants && !seats.any(|seat| seat.blocks(now))
    }
}

/// What a session has of this time: units that have the GPU divide it evenly, and so do the sessions of each.
fn part<U: Ord>(passed: Duration, busy: &BTreeMap<Unit<U>, u32>, unit: Unit<U>) -> Duration {
    let units = u32::try_from(busy.len()).unwrap_or(u32::MAX).max(1);
    passed / units / busy.get(&unit).copied().unwrap_or(1)
}
