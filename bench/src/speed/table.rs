//! Rows as text: one table, then the differences and the failures. Rows come in, text goes out.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::compare::{Agreed, Agreement, Cell, Row};
use super::findings::Failure;
use crate::bars::{Limit, Measure, Way};

/// The whole report.
pub(crate) fn text(rows: &[Row], agreements: &[Agreed], failures: &[Failure]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["", "native", "shm", "×", "limit", "", "unix", "×", "limit", "", "tcp", "×", "limit", ""]);
    for row in rows {
        table.add_row(line(row));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut out = format!("{}\n", table.trim_fmt());
    if !agreements.is_empty() {
        out.push_str("\nresults compared with native:\n");
    }
    for agreed in agreements {
        out.push_str(&format!("  {:<22} {:<5} {}\n", agreed.name, agreed.way.name(), words(&agreed.agreement)));
    }
    for failure in failures {
        out.push_str(&format!("failed: {}, {}: {}\n", failure.section, failure.way.name(), failure.reason));
    }
    out
}

fn line(row: &Row) -> Vec<String> {
    let mut cells = vec![row.title.to_owned(), row.native.map_or_else(String::new, |cell| value(row, &cell))];
    for way in [Way::Shm, Way::Unix, Way::Tcp] {
        match row.cell(way) {
            None => cells.extend(["", "", "", ""].map(str::to_owned)),
            Some(cell) => cells.extend([
                value(row, cell),
                cell.ratio
                    .filter(|_| row.measure != Measure::Count)
                    .map_or_else(String::new, |ratio| format!("{ratio:.3}")),
                cell.limit.map_or_else(String::new, limit),
                cell.holds().map_or("", |holds| if holds { "holds" } else { "MISSED" }).to_owned(),
            ]),
        }
    }
    cells
}

/// A median with its unit; copies as a rate.
fn value(row: &Row, cell: &Cell) -> String {
    match (row.measure, row.bytes) {
        (Measure::Count, _) => format!("{:.2}", cell.median),
        (Measure::Mebibytes, _) => format!("{:.0} MiB", cell.median),
        (_, Some(bytes)) if bytes >= LEAST_OF_A_RATE => format!("{:.2} GB/s", rate(bytes, cell.median)),
        _ => time(cell.median),
    }
}

/// Below this a copy's time says more than its rate.
const LEAST_OF_A_RATE: u64 = 1 << 16;

/// 10⁹ bytes per second.
#[allow(clippy::cast_precision_loss, reason = "a rate for people")]
fn rate(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 / seconds / 1e9
}

fn time(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 1e-3 => format!("{:.2} µs", seconds * 1e6),
        seconds if seconds < 1.0 => format!("{:.2} ms", seconds * 1e3),
        seconds => format!("{seconds:.2} s"),
    }
}

/// A limit in thousandths, as ratios are: 1.005 is one. The limit itself is judged.
fn limit(limit: Limit) -> String {
    let most = (limit.most * 1e3).round() / 1e3;
    match limit.of {
        Measure::Ratio | Measure::Count => format!("≤ {most}"),
        Measure::Microseconds => format!("≤ {most} µs"),
        Measure::Mebibytes => format!("≤ +{most} MiB"),
        Measure::MoreMicroseconds => format!("≤ +{most} µs"),
    }
}

fn words(agreement: &Agreement) -> String {
    match agreement {
        Agreement::Equal { values } => format!("{values} equal, bit for bit"),
        Agreement::NativeVaries { native, floe } => {
            format!("native does not repeat itself (by {native:.1e}), floe differs by {floe:.1e}")
        }
        Agreement::Differ { at, native, floe, largest } => {
            format!("DIFFER at {at}: native {native}, floe {floe}, largest relative difference {largest:.1e}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::speed::compare;
    use crate::speed::findings::{ByWay, Findings};

    #[test]
    fn a_row_says_both_times_the_ratio_and_whether_the_limit_holds() {
        let mut findings = Findings::default();
        let by_way = ByWay::from([(Way::Native, vec![0.010]), (Way::Unix, vec![0.0102]), (Way::Tcp, vec![0.02])]);
        findings.samples.insert("resnet18.step".into(), by_way);
        let text = text(&compare::rows(&findings), &[], &[]);
        let line = text.lines().nth(1).expect("one row");
        for part in ["10.00 ms", "10.20 ms", "1.020", "holds", "2.000", "MISSED"] {
            assert!(line.contains(part), "{line}");
        }
    }

    #[test]
    fn a_limit_of_a_rate_is_short_and_judged_by_the_exact_number() {
        let limit = |of, most| self::limit(Limit { of, most });
        let ratio = |most| limit(Measure::Ratio, most);
        assert_eq!([1.0 / 0.98, 1.0 / 1.5, 1.005, 1.0].map(ratio), ["≤ 1.02", "≤ 0.667", "≤ 1.005", "≤ 1"]);
        assert_eq!(limit(Measure::Microseconds, 0.5), "≤ 0.5 µs");
        assert_eq!(limit(Measure::Mebibytes, 64.0), "≤ +64 MiB");
        assert_eq!(limit(Measure::MoreMicroseconds, 15.0), "≤ +15 µs");
        let cell = |judged, most| {
            let limit = Some(Limit { of: Measure::Ratio, most });
            Cell { median: 1.0, spread: 0.0, ratio: None, judged: Some(judged), limit }
        };
        // Beyond what is printed, within what holds; and the other way round.
        assert_eq!(cell(1.0203, 1.0 / 0.98).holds(), Some(true));
        assert_eq!(cell(0.6668, 1.0 / 1.5).holds(), Some(false));
    }

    #[test]
    fn copies_are_rates_and_small_ones_times() {
        assert_eq!(time(3.5e-6), "3.50 µs");
        assert!((rate(1 << 30, 1.0) - 1.073_741_824).abs() < 1e-9);
    }
}
