//! Rates of copies relative to their sockets. In: curves. Out: for each large copy, its rate divided by that of the
//! sockets alone, and whether it meets its limit. It measures nothing.

use serde::Serialize;

use super::curves::{Copy, Curves, Raw};
use super::raw::{FEW, Wire};

/// The least bytes of a copy that is compared: below, a copy's beginning and end weigh too much.
pub(super) const LEAST: u64 = 16 << 20;
/// Over TCP, the least bytes of one that has limits: several connections begin and end.
const LEAST_OVER_TCP: u64 = 64 << 20;
/// The least floe may reach of the sockets alone.
const SHARE: f64 = 0.9;
/// The least bytes per second over TCP with [`FEW`] connections.
const RATE_OF_FEW: f64 = 12e9;

/// One copy beside the sockets alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Ratio {
    /// By which way.
    pub(super) way: String,
    pub(super) copy: Copy,
    pub(super) bytes: u64,
    /// Whether one follows the other without a pause, as in the sockets alone.
    pub(super) in_a_row: bool,
    /// Bytes per second.
    pub(super) floe: f64,
    /// The sockets' name, and their bytes per second.
    pub(super) raw: String,
    pub(super) raw_rate: f64,
    pub(super) ratio: f64,
    /// The least `ratio` may be, where that is limited.
    pub(super) least_ratio: Option<f64>,
    /// The least `floe` may be, where that is limited.
    pub(super) least_rate: Option<f64>,
}

impl Ratio {
    /// Is it enough? `None` without a limit.
    pub(super) fn holds(&self) -> Option<bool> {
        let limits = [(self.ratio, self.least_ratio), (self.floe, self.least_rate)];
        limits.into_iter().filter_map(|(is, least)| Some(is >= least?)).reduce(|one, other| one && other)
    }
}

/// All large copies of all ways whose sockets were measured with as many connections as carried the copies.
pub(super) fn ratios(ways: &[Curves]) -> Vec<Ratio> {
    ways.iter().flat_map(|way| Copy::ALL.into_iter().flat_map(move |copy| of_copy(way, copy))).collect()
}

/// The least a copy may reach of these sockets, and in bytes per second. Over TCP, what the sockets alone carry without a
/// pause is compared with copies that have none either.
fn limits(raw: &Raw, in_a_row: bool) -> (Option<f64>, Option<f64>) {
    match raw.wire {
        Wire::Unix => (Some(SHARE), None),
        Wire::Tcp if raw.bytes < LEAST_OVER_TCP => (None, None),
        Wire::Tcp => (in_a_row.then_some(SHARE), (raw.connections == FEW).then_some(RATE_OF_FEW)),
    }
}

fn of_copy(way: &Curves, copy: Copy) -> impl Iterator<Item = Ratio> {
    let single = way.rates(copy).into_iter().map(|point| (point, false));
    let all = single.chain(way.rates_in_a_row(copy).into_iter().map(|point| (point, true)));
    let large = all.filter(|((bytes, _), _)| *bytes >= LEAST);
    large.filter_map(move |((bytes, floe), in_a_row)| {
        let raw = way.ceiling().find(|raw| raw.bytes == bytes)?;
        let raw_rate = raw.rate();
        let (least_ratio, least_rate) = limits(raw, in_a_row);
        Some(Ratio {
            way: way.way.clone(),
            copy,
            bytes,
            in_a_row,
            floe,
            raw: raw.name.clone(),
            raw_rate,
            ratio: floe / raw_rate,
            least_ratio,
            least_rate,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::curves::Finding;

    /// A way whose copies to the device take two seconds per GiB, and whose sockets take one with its connections.
    fn way(wire: Wire, connections: u32) -> Curves {
        let mut curves = Curves::new("way");
        curves.take(Finding::Connections { connections });
        for (bytes, size) in [(4 << 20, 1.0 / 256.0), (16 << 20, 1.0 / 64.0), (64 << 20, 1.0 / 16.0)] {
            curves.take(Finding::Copied { copy: Copy::PinnedToDevice, bytes, seconds: 2.0 * size });
            for (connections, seconds) in [(connections, size), (connections + 1, 4.0 * size)] {
                curves.take(Finding::Raw { wire, connections, bytes, seconds });
            }
        }
        curves
    }

    /// Sizes, ratios and limits of what is compared.
    fn compared(way: Curves) -> Vec<(u64, f64, [Option<f64>; 2])> {
        let found = ratios(&[Curves::new("native"), way]);
        found.iter().map(|ratio| (ratio.bytes >> 20, ratio.ratio, [ratio.least_ratio, ratio.least_rate])).collect()
    }

    #[test]
    fn large_copies_are_compared_with_as_many_connections_as_carry_them_and_limited_from_where_the_wire_is() {
        let (none, share) = ([None, None], [Some(SHARE), None]);
        assert_eq!(compared(way(Wire::Unix, 1)), [(16, 0.5, share), (64, 0.5, share)]);
        assert_eq!(compared(way(Wire::Tcp, 8)), [(16, 0.5, none), (64, 0.5, none)]);
        assert_eq!(compared(way(Wire::Tcp, 4)), [(16, 0.5, none), (64, 0.5, [None, Some(12e9)])]);
    }

    #[test]
    fn over_tcp_what_has_no_pause_is_compared_with_what_has_none() {
        let in_a_row = |wire, connections| {
            let mut way = way(wire, connections);
            for bytes in [16 << 20, 64 << 20] {
                way.take(Finding::InARow { copy: Copy::PinnedToHost, bytes, seconds: 1.0 });
            }
            let found: Vec<Ratio> = ratios(&[way]).into_iter().filter(|ratio| ratio.in_a_row).collect();
            found.iter().map(|ratio| (ratio.bytes >> 20, ratio.least_ratio, ratio.least_rate)).collect::<Vec<_>>()
        };
        assert_eq!(in_a_row(Wire::Tcp, 8), [(16, None, None), (64, Some(SHARE), None)]);
        assert_eq!(in_a_row(Wire::Tcp, 4), [(16, None, None), (64, Some(SHARE), Some(12e9))]);
        assert_eq!(in_a_row(Wire::Unix, 1), [(16, Some(SHARE), None), (64, Some(SHARE), None)]);
    }

    #[test]
    fn every_limit_has_to_hold_and_without_one_nothing_does() {
        let holds = |is: [f64; 2], least_ratio, least_rate| {
            let [ratio, floe] = is;
            let found = ratios(&[way(Wire::Tcp, 4)]).remove(0);
            Ratio { ratio, floe, least_ratio, least_rate, ..found }.holds()
        };
        assert_eq!(holds([0.1, 1.0], None, None), None);
        assert_eq!([0.9, 0.89].map(|ratio| holds([ratio, 1.0], Some(0.9), None)), [Some(true), Some(false)]);
        assert_eq!([12e9, 11e9].map(|floe| holds([0.9, floe], Some(0.9), Some(12e9))), [Some(true), Some(false)]);
        assert_eq!(holds([0.8, 12e9], Some(0.9), Some(12e9)), Some(false));
    }

    #[test]
    fn sockets_of_another_number_are_not_compared() {
        let mut other = way(Wire::Tcp, 3);
        other.take(Finding::Connections { connections: 8 });
        assert_eq!(compared(other), []);
    }
}
