//! What each unit and each user had of the GPU.
//! In: GPU time, with what its owner is due; who has work. Out: virtual times, in which the least is next.
//!
//! Virtual time is GPU time divided by the fraction that is due. The average of those that have work, each by its fraction, is
//! where all would be if the GPU could be divided without end. Who is behind it is owed GPU time, who is ahead of it owes some.
//! That is kept while there is no work, so that nobody's pause forgives what others owe.

use std::collections::BTreeMap;
use std::time::Duration;

use super::seat::{Due, Kind, Unit};
use crate::fractions::{MILLION, scaled};

/// GPU time that a unit may keep from a time without work.
const LAG: Duration = Duration::from_millis(20);
/// What is owed beyond that is forgotten within so long without work. A program that synchronizes is without work for a moment
/// each time.
const FORGETS: Duration = Duration::from_secs(2);
/// Who has no work for so long is still counted with those that have some: a program that synchronizes is away for a moment each
/// time, and nothing moves for the others.
const DOZES: Duration = Duration::from_millis(20);
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
    /// Its virtual time, unless it is asleep.
    time: i128,
    /// What is due to it, as last known.
    fraction: u64,
    state: State,
}

/// Whether somebody has work. What is owed is GPU time in nanoseconds; below 0: that it owes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It has.
    Awake,
    /// It has none since a moment ago, when this was owed to it.
    Dozing { owed: i128, since: Duration },
    /// It has none, and this was owed to it.
    Asleep { owed: i128, since: Duration },
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
    /// One that has no work, and to which nothing is owed.
    fn new(time: i128, fraction: u64, now: Duration) -> Self {
        Self { time, fraction: fraction.max(1), state: State::Asleep { owed: 0, since: now } }
    }

    /// Whether it counts for the average.
    fn counts(&self) -> bool {
        !matches!(self.state, State::Asleep { .. })
    }

    /// What is owed to one without work by now: its part of the time that has passed is added up to [`LAG`], and what is more than
    /// that is forgotten within [`FORGETS`].
    fn owed(&self, now: Duration) -> i128 {
        let (owed, since) = match self.state {
            State::Awake => return 0,
            State::Dozing { owed, .. } => return owed,
            State::Asleep { owed, since } => (owed, since),
        };
        let (slept, lag) = (nanoseconds(now.saturating_sub(since)), nanoseconds(LAG));
        let (part, whole) = (slept.min(nanoseconds(FORGETS)), nanoseconds(FORGETS));
        if owed > lag {
            lag + (owed - lag) * (whole - part) / whole
        } else {
            (owed + times(slept, self.fraction)).min(lag)
        }
    }

    /// What is owed to one that counts, where the average is this.
    fn lag(&self, level: i128) -> i128 {
        let most = nanoseconds(MOST_OWED);
        times(level - self.time, self.fraction).clamp(-most, most)
    }

    /// Time has passed, or it has no work any more.
    fn rests(&mut self, level: i128, now: Duration) {
        match self.state {
            State::Awake => self.state = State::Dozing { owed: self.lag(level), since: now },
            State::Dozing { since, .. } if now >= since + DOZES => {
                self.wakes_soon(level);
                self.state = State::Asleep { owed: self.lag(level), since: now };
            }
            State::Dozing { .. } | State::Asleep { .. } => {}
        }
    }

    /// It has work again after a moment: others' work meanwhile has not made it owed more than it was, or [`LAG`].
    fn wakes_soon(&mut self, level: i128) {
        if let State::Dozing { owed, .. } = self.state {
            let most = owed.max(nanoseconds(LAG));
            if self.lag(level) > most {
                self.time = level - divided(most, self.fraction);
            }
        }
    }
}

/// The average of some accounts' virtual times, and the sum of their fractions.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    at: i128,
    weight: u64,
}

/// All accounts.
#[derive(Clone, Debug)]
pub(super) struct Accounts<U> {
    all: BTreeMap<Key<U>, Account>,
    /// The average virtual time of units with work, where new ones begin.
    level: i128,
}

impl<U: Ord> Default for Accounts<U> {
    fn default() -> Self {
        Self { all: BTreeMap::new(), level: 0 }
    }
}

impl<U: Ord + Copy> Accounts<U> {
    /// The virtual time of a unit, or that of its user, whichever is further; without what a latency class may borrow of each.
    pub(super) fn time(&self, unit: Unit<U>, due: &BTreeMap<Unit<U>, Due<U>>, borrows: Duration) -> i128 {
        let own = self.own_time(unit, due, borrows);
        let of_user = due.get(&unit).and_then(|due| {
            let account = self.all.get(&Key::User(due.user.0, due.user.1))?;
            Some(account.time - scaled(borrows, due.of_user))
        });
        of_user.map_or(own, |time| time.max(own))
    }

    /// The same of the unit alone.
    pub(super) fn own_time(&self, unit: Unit<U>, due: &BTreeMap<Unit<U>, Due<U>>, borrows: Duration) -> i128 {
        let time = self.all.get(&Key::Unit(unit)).map_or(self.level, |account| account.time);
        time - scaled(borrows, due.get(&unit).map_or(MILLION, |due| due.fraction))
    }

    /// A unit had the GPU for so long.
    pub(super) fn charge(&mut self, unit: Unit<U>, due: &Due<U>, time: Duration) {
        let (user, kind) = due.user;
        for (key, fraction) in [(Key::Unit(unit), due.fraction), (Key::User(user, kind), due.of_user)] {
            if let Some(account) = self.all.get_mut(&key) {
                account.time += scaled(time, fraction);
            }
        }
        self.follow();
    }

    fn follow(&mut self) {
        self.level = self.level_without(None).map_or(self.level, |level| level.at);
    }

    /// The average of all units that have work but this one; `None`: there is none such.
    fn level_without(&self, without: Option<Unit<U>>) -> Option<Level> {
        let units = self.all.iter().filter(|(key, account)| match key {
            Key::Unit(unit) => account.counts() && Some(*unit) != without,
            Key::User(..) => false,
        });
        let (sum, weight) = units.fold((0_i128, 0_u64), |(sum, weight), (_, account)| {
            // Beside one of them: the numbers stay small.
            (sum + (account.time - self.level).saturating_mul(i128::from(account.fraction)), weight + account.fraction)
        });
        (weight > 0).then(|| Level { at: self.level + sum / i128::from(weight), weight })
    }

    /// Whether a unit has had no work for a moment only.
    pub(super) fn dozes(&self, unit: Unit<U>) -> bool {
        self.all.get(&Key::Unit(unit)).is_some_and(|account| matches!(account.state, State::Dozing { .. }))
    }

    /// Accounts follow who has work: what is owed is kept by those that have none any more, and given to those that have some
    /// again. `due`: also of those that doze.
    pub(super) fn settle(
        &mut self,
        due: &BTreeMap<Unit<U>, Due<U>>,
        has_work: impl Fn(Unit<U>) -> bool,
        now: Duration,
    ) {
        // What each is due, and whether it has work.
        let mut counted: BTreeMap<Key<U>, (u64, bool)> = BTreeMap::new();
        for (unit, Due { fraction, user: (user, kind), of_user }) in due {
            let works = has_work(*unit);
            counted.insert(Key::Unit(*unit), (*fraction, works));
            let of_all = counted.entry(Key::User(*user, *kind)).or_insert((*of_user, false));
            of_all.1 |= works;
        }
        let level = self.level;
        for (key, account) in &mut self.all {
            let (fraction, works) = counted.get(key).copied().unwrap_or((account.fraction, false));
            if !account.counts() {
                continue;
            }
            if works {
                account.wakes_soon(level);
                account.state = State::Awake;
            } else {
                account.rests(level, now);
            }
            account.fraction = fraction;
        }
        for (unit, Due { fraction, user: (user, kind), of_user }) in due.iter().filter(|(unit, _)| has_work(**unit)) {
            let others = self.level_without(Some(*unit));
            for (key, fraction) in [(Key::Unit(*unit), *fraction), (Key::User(*user, *kind), *of_user)] {
                let account = self.all.entry(key).or_insert(Account::new(level, fraction, now));
                if !account.counts() {
                    let owed = account.owed(now);
                    let behind = |Level { at, weight }| at - divided(owed, weight) - divided(owed, fraction);
                    *account = Account { time: others.map_or(level, behind), fraction, state: State::Awake };
                }
            }
        }
        self.follow();
    }

    /// A session is new, and with it perhaps its user: what it does not use counts from now on, by the part that it would have if
    /// all had work.
    pub(super) fn begin(&mut self, unit: Unit<U>, user: (U, Kind), fraction: u64, now: Duration) {
        let new = Account::new(self.level, fraction, now);
        for key in [Key::Unit(unit), Key::User(user.0, user.1)] {
            self.all.entry(key).or_insert(new);
        }
    }

    /// A session takes the place of another one's: what is owed goes with it.
    pub(super) fn inherit(&mut self, unit: Unit<U>, from: Unit<U>, now: Duration) {
        let Some(mut account) = self.all.get(&Key::Unit(from)).copied() else { return };
        if account.counts() {
            account.state = State::Asleep { owed: account.lag(self.level), since: now };
        }
        self.all.insert(Key::Unit(unit), account);
    }

    /// Forgets sessions that are not present, and absent users that owe nothing; others, where there are many.
    pub(super) fn forget(&mut self, present: &[Key<U>], now: Duration) {
        self.all.retain(|key, account| match key {
            key if present.contains(key) => true,
            // Its user owes what it owed.
            Key::Unit(Unit::Session(_)) => false,
            _ => account.owed(now) < 0,
        });
        let mut spare = self.all.len().saturating_sub(present.len() + DEPARTED);
        self.all.retain(|key, _| {
            let stays = spare == 0 || present.contains(key);
            spare -= usize::from(!stays);
            stays
        });
    }
}
