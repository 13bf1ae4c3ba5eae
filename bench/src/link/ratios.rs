//! What floe reaches of its sockets. In: curves. Out: for each large copy, its rate divided by that of the sockets alone,
//! and whether that is enough. It measures nothing.

use serde::Serialize;

use super::curves::{Copy, Curves};

/// The least floe may reach of the sockets alone.
pub(super) const BAR: f64 = 0.9;
/// The least bytes of a copy that is compared, and with `--quick`: below, a copy's beginning and end weigh too much.
const LEAST: [u64; 2] = [64 << 20, 16 << 20];

/// One copy beside the sockets alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Ratio {
    /// By which way.
    pub(super) way: String,
    pub(super) copy: Copy,
    pub(super) bytes: u64,
    /// Bytes per second.
    pub(super) floe: f64,
    /// The sockets' name, and their bytes per second.
    pub(super) raw: String,
    pub(super) raw_rate: f64,
    pub(super) ratio: f64,
    pub(super) limit: f64,
}

impl Ratio {
    /// Is it enough?
    pub(super) fn holds(&self) -> bool {
        self.ratio >= self.limit
    }
}

/// All large copies of all ways whose sockets were measured with as many connections as the session had.
pub(super) fn ratios(ways: &[Curves], quick: bool) -> Vec<Ratio> {
    let least = LEAST[usize::from(quick)];
    ways.iter().flat_map(|way| Copy::ALL.into_iter().flat_map(move |copy| of_copy(way, copy, least))).collect()
}

fn of_copy(way: &Curves, copy: Copy, least: u64) -> impl Iterator<Item = Ratio> {
    let large = way.rates(copy).into_iter().filter(move |(bytes, _)| *bytes >= least);
    large.filter_map(move |(bytes, floe)| {
        let raw = way.ceiling().find(|raw| raw.bytes == bytes)?;
        let raw_rate = raw.rate();
        Some(Ratio {
            way: way.way.clone(),
            copy,
            bytes,
            floe,
            raw: raw.name.clone(),
            raw_rate,
            ratio: floe / raw_rate,
            limit: BAR,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::curves::Finding;

    /// A way whose copies to the device take two seconds and whose sockets take one, and with one connection four.
    fn way(connections: Option<u32>) -> Curves {
        let mut curves = Curves::new("tcp");
        if let Some(connections) = connections {
            curves.take(Finding::Connections { connections });
        }
        for bytes in [4 << 20, 16 << 20, 64 << 20] {
            curves.take(Finding::Copied { copy: Copy::PinnedToDevice, bytes, seconds: 2.0 });
            for (connections, seconds) in [(1, 4.0), (8, 1.0)] {
                let name = format!("tcp raw ×{connections}");
                curves.take(Finding::Raw { name, connections, bytes, seconds });
            }
        }
        curves
    }

    #[test]
    fn a_large_copy_is_compared_with_as_many_connections_as_the_session_has() {
        let found = ratios(&[Curves::new("native"), way(Some(8))], false);
        let [only] = &found[..] else { panic!("{found:?}") };
        assert_eq!((only.bytes, only.raw.as_str(), only.ratio), (64 << 20, "tcp raw ×8", 0.5));
        assert!(!only.holds());
        assert!(ratios(&[way(Some(1))], false)[0].holds(), "twice as fast as one connection");
    }

    #[test]
    fn a_quick_measurement_compares_smaller_copies_too() {
        assert_eq!(
            ratios(&[way(Some(8))], true).iter().map(|ratio| ratio.bytes).collect::<Vec<_>>(),
            [16 << 20, 64 << 20]
        );
    }

    #[test]
    fn sockets_of_another_number_are_not_compared() {
        assert_eq!((ratios(&[way(None)], true), ratios(&[way(Some(3))], true)), (vec![], vec![]));
    }
}
