//! Findings to rows: medians over rounds, ratios to native, whether limits hold, whether results agree.
//! In: the programs' findings. Out: rows. It is pure: it prints nothing and asks nothing.

use serde::Serialize;

use super::findings::{ByWay, Findings};
use super::series;
use crate::bars::{Limit, METRICS, Measure, Metric, Way};

/// One way's part of a row.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Cell {
    /// Median over rounds: seconds, a count, or MiB.
    pub(crate) median: f64,
    /// (largest − smallest) / median over rounds.
    pub(crate) spread: f64,
    /// Divided by native's median.
    pub(crate) ratio: Option<f64>,
    /// The quantity that the limit is compared with.
    pub(crate) judged: Option<f64>,
    /// The limit.
    pub(crate) limit: Option<Limit>,
}

/// One metric by every way.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    /// As programs report it.
    pub(crate) name: &'static str,
    /// For people.
    pub(crate) title: &'static str,
    /// What it is printed as.
    pub(crate) measure: Measure,
    /// Bytes per unit, for copies.
    pub(crate) bytes: Option<u64>,
    /// The device's own library in the program's process.
    pub(crate) native: Option<Cell>,
    /// floe over rings in shared memory.
    pub(crate) shm: Option<Cell>,
    /// floe over a Unix socket.
    pub(crate) unix: Option<Cell>,
    /// floe over TCP.
    pub(crate) tcp: Option<Cell>,
}

impl Cell {
    /// Does the limit hold? `None` without a limit, or without what it is compared with.
    pub(crate) fn holds(&self) -> Option<bool> {
        Some(self.judged? <= self.limit?.most)
    }
}

impl Row {
    /// A way's part.
    pub(crate) fn cell(&self, way: Way) -> Option<&Cell> {
        match way {
            Way::Native => self.native.as_ref(),
            Way::Shm => self.shm.as_ref(),
            Way::Unix => self.unix.as_ref(),
            Way::Tcp => self.tcp.as_ref(),
        }
    }
}

/// Rows of everything that was measured, in the table's order.
pub(crate) fn rows(findings: &Findings) -> Vec<Row> {
    METRICS.iter().filter_map(|metric| Some(row(metric, findings.samples.get(metric.name)?, findings))).collect()
}

fn row(metric: &Metric, samples: &ByWay<f64>, findings: &Findings) -> Row {
    let of = |way| samples.get(&way).and_then(|samples| series::median(samples));
    let native = of(Way::Native);
    let cell = |way| {
        let median = of(way)?;
        let spread = samples.get(&way).and_then(|samples| series::spread(samples)).unwrap_or(0.0);
        let ratio = native.filter(|native| *native > 0.0).map(|native| median / native);
        let limit = metric.limit(way);
        let measure = limit.map_or(metric.measure, |limit| limit.of);
        let judged = if way == Way::Native { None } else { judged(measure, median, native) };
        Some(Cell { median, spread, ratio, judged, limit })
    };
    Row {
        name: metric.name,
        title: metric.title,
        measure: metric.measure,
        bytes: findings.bytes.get(metric.name).copied(),
        native: cell(Way::Native),
        shm: cell(Way::Shm),
        unix: cell(Way::Unix),
        tcp: cell(Way::Tcp),
    }
}

/// The quantity that a limit is compared with.
fn judged(measure: Measure, median: f64, native: Option<f64>) -> Option<f64> {
    match measure {
        Measure::Ratio => native.filter(|native| *native > 0.0).map(|native| median / native),
        Measure::Microseconds => Some(median * 1e6),
        Measure::Count => Some(median),
        Measure::Mebibytes => native.map(|native| median - native),
        Measure::MoreMicroseconds => native.map(|native| (median - native) * 1e6),
    }
}

/// How numbers computed through floe compare with native's.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub(crate) enum Agreement {
    /// Bit for bit, in every round.
    Equal {
        /// The number of numbers.
        values: usize,
    },
    /// Native's own rounds differ from one another by as much: nothing can be said.
    NativeVaries {
        /// Native's largest relative difference.
        native: f64,
        /// floe's largest relative difference from native's first round.
        floe: f64,
    },
    /// They differ and native's own rounds do not by as much.
    Differ {
        /// The first index at which they differ.
        at: usize,
        /// Native's number there.
        native: String,
        /// floe's.
        floe: String,
        /// The largest relative difference.
        largest: f64,
    },
}

/// One set of numbers by one way.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Agreed {
    /// The numbers' meaning.
    pub(crate) name: String,
    /// By which way of floe.
    pub(crate) way: Way,
    /// How they compare.
    #[serde(flatten)]
    pub(crate) agreement: Agreement,
}

/// Every set of numbers that was computed natively and by another way.
pub(crate) fn agreements(findings: &Findings) -> Vec<Agreed> {
    let mut all = Vec::new();
    for (name, by_way) in &findings.results {
        let Some(native) = by_way.get(&Way::Native) else { continue };
        for (way, floe) in by_way.iter().filter(|(way, _)| **way != Way::Native) {
            if let Some(agreement) = agreement(native, floe) {
                all.push(Agreed { name: name.clone(), way: *way, agreement });
            }
        }
    }
    all
}

/// Compares every round with native's first.
fn agreement(native: &[Vec<String>], floe: &[Vec<String>]) -> Option<Agreement> {
    let reference = native.first()?;
    let varies = native.iter().map(|round| largest_difference(reference, round)).fold(0.0, f64::max);
    let differs = floe.iter().map(|round| largest_difference(reference, round)).fold(0.0, f64::max);
    let Some(wrong) = floe.iter().find(|round| *round != reference) else {
        return Some(Agreement::Equal { values: reference.len() });
    };
    if native.iter().any(|round| round != reference) && differs <= varies * 2.0 {
        return Some(Agreement::NativeVaries { native: varies, floe: differs });
    }
    let at = reference.iter().zip(wrong).position(|(native, floe)| native != floe);
    let at = at.unwrap_or_else(|| reference.len().min(wrong.len()));
    let number = |round: &[String]| round.get(at).cloned().unwrap_or_else(|| "nothing".to_owned());
    Some(Agreement::Differ { at, native: number(reference), floe: number(wrong), largest: differs })
}

fn largest_difference(reference: &[String], round: &[String]) -> f64 {
    if reference.len() != round.len() {
        return f64::INFINITY;
    }
    reference.iter().zip(round).map(|(native, floe)| difference(native, floe)).fold(0.0, f64::max)
}

/// The relative difference of two numbers; infinite where one of them is none and the texts differ.
fn difference(native: &str, floe: &str) -> f64 {
    if native == floe {
        return 0.0;
    }
    match (hexadecimal(native), hexadecimal(floe)) {
        (Some(native), Some(floe)) if native.is_finite() && floe.is_finite() => {
            (native - floe).abs() / native.abs().max(f64::MIN_POSITIVE)
        }
        _ => f64::INFINITY,
    }
}

/// Python's `float.hex()`: `-0x1.8p+1`.
fn hexadecimal(text: &str) -> Option<f64> {
    let (sign, text) = text.strip_prefix('-').map_or((1.0, text), |rest| (-1.0, rest));
    let (mantissa, exponent) = text.strip_prefix("0x")?.split_once('p')?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut value = f64::from(u32::from_str_radix(whole, 16).ok()?);
    let mut place = 1.0 / 16.0;
    for digit in fraction.chars() {
        value += f64::from(digit.to_digit(16)?) * place;
        place /= 16.0;
    }
    Some(sign * value * 2f64.powi(exponent.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(values: &[&str]) -> Vec<String> {
        values.iter().map(ToString::to_string).collect()
    }

    fn findings(name: &str, native: &[f64], unix: &[f64]) -> Findings {
        let mut findings = Findings::default();
        let by_way = ByWay::from([(Way::Native, native.to_vec()), (Way::Unix, unix.to_vec())]);
        findings.samples.insert(name.to_owned(), by_way);
        findings
    }

    fn unix_cell(findings: &Findings) -> Cell {
        rows(findings)[0].unix.expect("it was measured")
    }

    #[test]
    fn a_ratio_is_that_of_medians_over_rounds() {
        let cell = unix_cell(&findings("resnet18.step", &[0.010, 0.011, 0.030], &[0.011, 0.0112, 0.050]));
        assert!((cell.ratio.expect("both were measured") - 0.0112 / 0.011).abs() < 1e-12);
        assert_eq!(cell.holds(), Some(true));
    }

    #[test]
    fn an_absolute_limit_needs_no_native() {
        let cell = unix_cell(&findings("launch.caller", &[], &[0.6e-6]));
        assert_eq!((cell.ratio, cell.holds()), (None, Some(false)));
    }

    #[test]
    fn memory_counts_from_native_on() {
        let cell = unix_cell(&findings("memory.client", &[1000.0], &[1050.0]));
        assert_eq!((cell.judged, cell.holds()), (Some(50.0), Some(true)));
        assert_eq!(unix_cell(&findings("memory.client", &[], &[1050.0])).holds(), None);
    }

    #[test]
    fn a_row_that_only_informs_holds_nothing() {
        assert_eq!(unix_cell(&findings("event.record", &[1e-6], &[9e-6])).holds(), None);
    }

    #[test]
    fn the_same_bits_are_equal() {
        let native = [texts(&["0x1.8p+1", "nan"])];
        assert_eq!(agreement(&native, &native), Some(Agreement::Equal { values: 2 }));
    }

    #[test]
    fn one_bit_in_one_round_is_a_difference_and_says_where() {
        let native = [texts(&["0x1.0p+0", "0x1.0p+1"])];
        let floe = [native[0].clone(), texts(&["0x1.0p+0", "0x1.8p+1"])];
        let found = agreement(&native, &floe);
        let expected = Agreement::Differ { at: 1, native: "0x1.0p+1".into(), floe: "0x1.8p+1".into(), largest: 0.5 };
        assert_eq!(found, Some(expected));
    }

    #[test]
    fn results_that_native_does_not_repeat_are_not_compared() {
        let native = [texts(&["0x1.0p+0"]), texts(&["0x1.1p+0"])];
        let floe = [texts(&["0x1.1p+0"])];
        assert!(matches!(agreement(&native, &floe), Some(Agreement::NativeVaries { .. })));
        assert!(matches!(agreement(&native, &[texts(&["0x1.0p+9"])]), Some(Agreement::Differ { .. })));
    }

    #[test]
    fn missing_numbers_differ() {
        let found = agreement(&[texts(&["0x1.0p+0"])], &[Vec::new()]);
        assert!(matches!(found, Some(Agreement::Differ { at: 0, .. })), "{found:?}");
    }

    #[test]
    fn hexadecimal_floats_are_read() {
        for (text, value) in [("0x1.8p+1", 3.0), ("-0x1.0000000000000p-2", -0.25), ("0x0.0p+0", 0.0)] {
            assert_eq!(hexadecimal(text), Some(value), "{text}");
        }
        assert_eq!(hexadecimal("inf"), None);
    }
}
