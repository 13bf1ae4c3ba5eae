//! What each unit and each user had of the GPU, and what that means for who is next.
//! In: the time that has passed, who had the GPU, who has work. Out: virtual times, in which the least is next.
//! It gives no orders.
//!
//! Virtual time is GPU time divided by the fraction that is due. The average of those that have work, each by its fraction, is
//! where all would be if the GPU could be divided without end. Who is behind it is owed GPU time, who is ahead of it owes some.
//! That is kept while there is no work, so that nobody's pause forgives what others owe.

use std::collections::BTreeMap;
use std::time::Duration;

use super::seat::{Due, Kind, Unit};
use super::{Scheduler, Totals, Usage};
use crate::fractions::{Active, MILLION, fractions, scaled};
use crate::terms::Member;

/// GPU time that a unit may keep from a time without work.
const LAG: Duration = Duration::from_millis(20);
/// What is owed beyond that is forgotten within so long without work. A program that synchronizes is without work for a moment
/// each time.
const FORGETS: Duration = Duration::from_secs(2);
/// GPU time by which a latency class may be ahead of its share and still goes first.
const BORROWS: Duration = Duration::from_millis(50);
/// The most GPU time that is owed to one without work, or by it.
const MOST_OWED: Duration = Duration::from_secs(60);
/// Users that have left are remembered while they owe something, up to so many.
const DEPARTED: usize = 256;

/// Whose account it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key<U> {
    Unit(Unit<U>),
    /// All of a user's units of this kind, so that several sessions, at once or one after another, have no more than one.
    User(U, Kind),
}

/// What somebody had of the GPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    /// Its virtual time, while it has work.
    time: i128,
    /// What is due to it, as last known.
    fraction: u64,
    asleep: Option<Asleep>,
}

/// One that has no work.
#[derive(Clone, Copy, Debug)]
struct Asleep {
    /// GPU time in nanoseconds that is owed to it; below 0: that it owes.
    owed: i128,
    since: Duration,
}

fn nanoseconds(time: Duration) -> i128 {
    i128::try_from(time.as_nanos()).unwrap_or(i128::MAX)
}

/// GPU time as virtual time of who is due this fraction.
fn divided(time: i128, fraction: u64) -> i128 {
    time.saturating_mul(i128::from(MILLION)) / i128::from(fraction.max(1))
}

/// Virtual time as GPU time.
fn times(time: i128, fraction: u64) -> i128 {
    time.saturating_mul(i128::from(fraction)) / i128::from(MILLION)
}

impl Account {
    /// What is owed to one without work by now: its part of the time that has passed is added up to [`LAG`], and what is more than
    /// that is forgotten within [`FORGETS`].
    fn owed(&self, now: Duration) -> i128 {
        let Some(Asleep { owed, since }) = self.asleep else { return 0 };
        let (slept, lag) = (nanoseconds(now.saturating_sub(since)), nanoseconds(LAG));
        let (part, whole) = (slept.min(nanoseconds(FORGETS)), nanoseconds(FORGETS));
        if owed > lag {
            lag + (owed - lag) * (whole - part) / whole
        } else {
            (owed + times(slept, self.fraction)).min(lag)
        }
    }

    /// It has no work any more.
    fn sleep(&mut self, level: i128, now: Duration) {
        let most = nanoseconds(MOST_OWED);
        let owed = times(level - self.time, self.fraction).clamp(-most, most);
        self.asleep = Some(Asleep { owed, since: now });
    }
}

/// The average of some accounts' virtual times, and the sum of their fractions.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    at: i128,
    weight: u64,
}

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

    /// The virtual time of a unit, or that of its user, whichever is further; without what a latency class may borrow of each.
    fn time(&self, unit: Unit<U>, due: &BTreeMap<Unit<U>, Due<U>>, borrows: Duration) -> i128 {
        let own = self.own_time(unit, due, borrows);
        let of_user = due.get(&unit).and_then(|due| {
            let account = self.accounts.get(&Key::User(due.user.0, due.user.1))?;
            Some(account.time - scaled(borrows, due.of_user))
        });
        of_user.map_or(own, |time| time.max(own))
    }

    /// The same of the unit alone.
    fn own_time(&self, unit: Unit<U>, due: &BTreeMap<Unit<U>, Due<U>>, borrows: Duration) -> i128 {
        let time = self.accounts.get(&Key::Unit(unit)).map_or(self.level, |account| account.time);
        time - scaled(borrows, due.get(&unit).map_or(MILLION, |due| due.fraction))
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
        let Ok(units) = u32::try_from(busy.len()) else { return };
        for (number, seat) in self.seats.iter_mut().filter(|(_, seat)| seat.is_busy()) {
            seat.usage.time += part(passed, &busy, seat.unit(*number));
        }
        for unit in busy.keys() {
            let Some(Due { fraction, user: (user, kind), of_user }) = due.get(unit).copied() else { continue };
            for (key, fraction) in [(Key::Unit(*unit), fraction), (Key::User(user, kind), of_user)] {
                if let Some(account) = self.accounts.get_mut(&key) {
                    account.time += scaled(passed / units, fraction);
                }
            }
        }
        self.level = self.level_without(None).map_or(self.level, |level| level.at);
    }

    /// The average of all units that have work but this one; `None`: there is none such.
    fn level_without(&self, without: Option<Unit<U>>) -> Option<Level> {
        let units = self.accounts.iter().filter(|(key, account)| match key {
            Key::Unit(unit) => account.asleep.is_none() && Some(*unit) != without,
            Key::User(..) => false,
        });
        let (sum, weight) = units.fold((0_i128, 0_u64), |(sum, weight), (_, account)| {
            // Beside one of them: the numbers stay small.
            (sum + (account.time - self.level).saturating_mul(i128::from(account.fraction)), weight + account.fraction)
        });
        (weight > 0).then(|| Level { at: self.level + sum / i128::from(weight), weight })
    }

    /// Accounts follow who has work: what is owed is kept by those that have none any more, and given to those that have some
    /// again.
    pub(super) fn settle(&mut self, now: Duration) {
        let due = self.due();
        let mut active: BTreeMap<Key<U>, u64> = BTreeMap::new();
        for (unit, Due { fraction, user: (user, kind), of_user }) in &due {
            active.insert(Key::Unit(*unit), *fraction);
            active.insert(Key::User(*user, *kind), *of_user);
        }
        let level = self.level;
        for (key, account) in self.accounts.iter_mut().filter(|(_, account)| account.asleep.is_none()) {
            match active.get(key) {
                Some(fraction) => account.fraction = *fraction,
                None => account.sleep(level, now),
            }
        }
        for (unit, Due { fraction, user: (user, kind), of_user }) in &due {
            let others = self.level_without(Some(*unit));
            for (key, fraction) in [(Key::Unit(*unit), *fraction), (Key::User(*user, *kind), *of_user)] {
                let account = self.accounts.entry(key).or_insert(Account {
                    time: level,
                    fraction,
                    asleep: Some(Asleep { owed: 0, since: now }),
                });
                if account.asleep.is_some() {
                    let owed = account.owed(now);
                    let behind = |Level { at, weight }| at - divided(owed, weight) - divided(owed, fraction);
                    *account = Account { time: others.map_or(level, behind), fraction, asleep: None };
                }
            }
        }
        self.level = self.level_without(None).map_or(self.level, |level| level.at);
    }

    /// A session is new: what it does not use counts from now on, by the part that it would have if all had work.
    pub(super) fn begin_account(&mut self, unit: Unit<U>, member: &Member<U>, now: Duration) {
        let units = u64::try_from(self.seats.len()).unwrap_or(u64::MAX).max(1);
        let fraction = if member.terms.share == 0 { MILLION / units } else { u64::from(member.terms.share) * 1000 };
        let new = Account { time: self.level, fraction: fraction.max(1), asleep: Some(Asleep { owed: 0, since: now }) };
        let kind = if member.terms.share == 0 { Kind::Rest } else { Kind::Shares };
        for key in [Key::Unit(unit), Key::User(member.user, kind)] {
            self.accounts.entry(key).or_insert(new);
        }
    }

    /// A session takes the place of another one's: what is owed goes with it.
    pub(super) fn inherit(&mut self, unit: Unit<U>, from: Unit<U>, now: Duration) {
        let Some(mut account) = self.accounts.get(&Key::Unit(from)).copied() else { return };
        if account.asleep.is_none() {
            account.sleep(self.level, now);
        }
        self.accounts.insert(Key::Unit(unit), account);
    }

    /// Forgets sessions that have left, and users without sessions that owe nothing; others, where there are many.
    pub(super) fn forget(&mut self, now: Duration) {
        let mut present: Vec<Key<U>> = Vec::new();
        for (number, seat) in &self.seats {
            present.extend([Key::Unit(seat.unit(*number)), Key::User(seat.member.user, seat.kind())]);
        }
        self.accounts.retain(|key, account| match key {
            key if present.contains(key) => true,
            // Its user owes what it owed.
            Key::Unit(Unit::Session(_)) => false,
            _ => account.owed(now) < 0,
        });
        let mut spare = self.accounts.len().saturating_sub(present.len() + DEPARTED);
        self.accounts.retain(|key, _| {
            let stays = spare == 0 || present.contains(key);
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

    /// Whether somebody wants a turn whose user has not enough in flight, nobody has one, and nobody is waited for.
    pub(crate) fn keeps_somebody_waiting_for_nobody(&self, now: Duration) -> bool {
        let wants =
            |(number, seat): (&u64, &super::seat::Seat<U>)| seat.wants() && !self.is_enough(seat.unit(*number), now);
        self.is_scheduled && self.seats.iter().any(wants) && !self.seats.values().any(|seat| seat.blocks(now))
    }
}

/// What a session has of this time: units that have the GPU divide it evenly, and so do the sessions of each.
fn part<U: Ord>(passed: Duration, busy: &BTreeMap<Unit<U>, u32>, unit: Unit<U>) -> Duration {
    let units = u32::try_from(busy.len()).unwrap_or(u32::MAX).max(1);
    passed / units / busy.get(&unit).copied().unwrap_or(1)
}
