//! The fraction of a GPU that each unit is due while these units have work.
//! In: units with their shares, weights and users. Out: parts per million.
//! Pure arithmetic: it keeps nothing.

use std::collections::BTreeMap;
use std::time::Duration;

/// A whole GPU.
pub(crate) const MILLION: u64 = 1_000_000;
/// What shares leave to those without one, at least: nobody starves.
const REST: u64 = MILLION / 100;

/// A unit that has work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Active<U> {
    pub(crate) user: U,
    pub(crate) user_weight: u32,
    /// Thousandths; 0: no share.
    pub(crate) share: u32,
    /// Among its user's units without a share.
    pub(crate) weight: u32,
}

/// The fraction of each, in their order, in parts per million and at least one.
pub(crate) fn fractions<U: Ord + Copy>(active: &[Active<U>]) -> Vec<u64> {
    let shared: u64 = active.iter().map(|unit| u64::from(unit.share) * 1000).sum();
    let mut users: BTreeMap<U, (u64, u64)> = BTreeMap::new();
    for unit in active.iter().filter(|unit| unit.share == 0) {
        let (weight, units) = users.entry(unit.user).or_default();
        *weight = (*weight).max(u64::from(unit.user_weight.max(1)));
        *units += u64::from(unit.weight.max(1));
    }
    let weights: u64 = users.values().map(|(weight, _)| weight).sum();
    let rest = MILLION.saturating_sub(shared).max(REST);
    let of = |unit: &Active<U>| {
        if unit.share != 0 {
            return u64::from(unit.share) * 1000;
        }
        let (weight, units) = users[&unit.user];
        (rest * weight * u64::from(unit.weight.max(1)) / (weights * units)).max(1)
    };
    active.iter().map(of).collect()
}

/// GPU time as virtual time of a unit that is due this fraction. Virtual times are far below 2^127 ns.
pub(crate) fn scaled(time: Duration, fraction: u64) -> i128 {
    i128::try_from(time.as_nanos() * u128::from(MILLION) / u128::from(fraction.max(1))).unwrap_or(i128::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(user: u8, share: u32, weight: u32) -> Active<u8> {
        Active { user, user_weight: 1, share, weight }
    }

    #[test]
    fn shares_come_first_and_users_divide_the_rest_by_weight() {
        assert_eq!(fractions(&[unit(1, 0, 1)]), [MILLION]);
        assert_eq!(fractions(&[unit(1, 250, 1), unit(2, 0, 1)]), [250_000, 750_000]);
        assert_eq!(fractions(&[unit(1, 250, 1), unit(2, 0, 1), unit(3, 0, 9)]), [250_000, 375_000, 375_000]);
        // Three sessions of one user have what one of another has.
        assert_eq!(
            fractions(&[unit(1, 0, 1), unit(1, 0, 1), unit(1, 0, 2), unit(2, 0, 1)]),
            [125_000, 125_000, 250_000, 500_000]
        );
        let heavy = Active { user_weight: 3, ..unit(1, 0, 1) };
        assert_eq!(fractions(&[heavy, unit(2, 0, 1)]), [750_000, 250_000]);
        // Where everything is promised, the others still get something.
        assert_eq!(fractions(&[unit(1, 1000, 1), unit(2, 0, 1)]), [1_000_000, 10_000]);
        assert_eq!(fractions::<u8>(&[]), [] as [u64; 0]);
    }
}
