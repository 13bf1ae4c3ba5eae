//! The curves for a terminal: a table of latencies and rates, a chart per kind of copy, and ratios to the sockets.
//! In: curves, ratios. Out: text.

use std::collections::BTreeSet;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};

use super::curves::{Copy, Curves, Inputs, size};
use super::ratios::Ratio;

/// Characters of a chart.
const WIDTH: u32 = 70;
const HEIGHT: u32 = 12;
/// Bytes of the copy that stands for the time a call takes.
const SMALL: u64 = 4;

/// Everything there is to say.
pub(super) fn show(ways: &[Curves], ratios: &[Ratio]) -> String {
    let mut text = table(ways).to_string();
    for copy in Copy::ALL {
        text.push_str(&chart(ways, copy));
    }
    if !ratios.is_empty() {
        text.push_str(&format!("\n\nlarge copies beside the sockets alone:\n{}", compared(ratios)));
    }
    text
}

fn table(ways: &[Curves]) -> Table {
    let mut table = plain();
    let heads = std::iter::once(String::new()).chain(ways.iter().map(|way| way.way.clone()));
    table.set_header(heads);
    let mut row = |name: String, cell: &dyn Fn(&Curves) -> Option<String>| {
        let cells = ways.iter().map(|way| cell(way).unwrap_or_else(|| "–".to_owned()));
        table.add_row(std::iter::once(name).chain(cells));
    };
    row("launch + synchronize".into(), &|way| way.launch.map(micros));
    for (inputs, name) in [(Inputs::Pinned, "pinned"), (Inputs::Pageable, "pageable")] {
        row(format!("step, {name} inputs"), &|way| way.step(inputs).map(|seconds| waits(seconds, way.launch)));
    }
    for copy in Copy::ALL {
        row(format!("4 B {}", copy.title()), &|way| way.seconds(copy, SMALL).map(micros));
    }
    let mut sizes: Vec<u64> = ways.iter().flat_map(Curves::sizes).filter(|bytes| *bytes >= 64 << 10).collect();
    sizes.sort_unstable();
    sizes.dedup();
    for (copy, bytes) in Copy::ALL.into_iter().flat_map(|copy| sizes.iter().map(move |bytes| (copy, *bytes))) {
        #[allow(clippy::cast_precision_loss, reason = "a size is far below 2^52")]
        row(format!("{} {}", size(bytes), copy.title()), &|way| {
            way.seconds(copy, bytes).map(|seconds| gigabytes(bytes as f64 / seconds))
        });
    }
    for (name, bytes) in raw_rows(ways) {
        row(format!("{} {name}", size(bytes)), &|way| {
            way.raw.iter().find(|raw| raw.name == name && raw.bytes == bytes).map(|raw| gigabytes(raw.rate()))
        });
    }
    align(&mut table);
    table
}

/// Names and sizes of what was measured of sockets alone, once each, name by name.
fn raw_rows(ways: &[Curves]) -> BTreeSet<(&str, u64)> {
    ways.iter().flat_map(|way| &way.raw).map(|raw| (raw.name.as_str(), raw.bytes)).collect()
}

/// A line for each large copy.
fn compared(ratios: &[Ratio]) -> Table {
    let mut table = plain();
    table.set_header(["", "floe", "alone", "×", "limit", ""]);
    for ratio in ratios {
        table.add_row([
            copy_of(ratio),
            gigabytes(ratio.floe),
            format!("{} {}", ratio.raw, gigabytes(ratio.raw_rate)),
            format!("{:.3}", ratio.ratio),
            limits(ratio),
            ratio.holds().map_or("", |holds| if holds { "holds" } else { "MISSED" }).to_owned(),
        ]);
    }
    align(&mut table);
    table
}

fn copy_of(ratio: &Ratio) -> String {
    let in_a_row = if ratio.in_a_row { ", in a row" } else { "" };
    format!("{}, {} {}{in_a_row}", ratio.way, size(ratio.bytes), ratio.copy.title())
}

/// The bar of a copy.
fn limits(ratio: &Ratio) -> String {
    let share = ratio.least_ratio.map(|least| format!("≥ {least}"));
    let rate = ratio.least_rate.map(|least| format!("≥ {} GB/s", least / 1e9));
    share.into_iter().chain(rate).collect::<Vec<_>>().join(", ")
}

fn plain() -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table
}

/// Everything but the first column to the right.
fn align(table: &mut Table) {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// 10⁹ bytes per second.
fn gigabytes(rate: f64) -> String {
    format!("{:.2} GB/s", rate / 1e9)
}

/// A step's time, and how many launches with their waits it is: far away, how often it waits.
fn waits(seconds: f64, launch: Option<f64>) -> String {
    let waits = launch.map(|launch| format!(" (×{:.1})", seconds / launch));
    micros(seconds) + &waits.unwrap_or_default()
}

fn micros(seconds: f64) -> String {
    format!("{:.2} µs", seconds * 1e6)
}

/// One chart with a line per way, from the smallest copy to the largest.
fn chart(ways: &[Curves], copy: Copy) -> String {
    let lines: Vec<Vec<f64>> =
        ways.iter().map(|way| way.rates(copy).into_iter().map(|(_, rate)| rate / 1e9).collect()).collect();
    let lines: Vec<Vec<f64>> = lines.into_iter().filter(|line: &Vec<f64>| line.len() > 1).collect();
    if lines.is_empty() {
        return String::new();
    }
    let config = rasciigraph::Config::default().with_width(WIDTH).with_height(HEIGHT).with_offset(8);
    format!(
        "\n\nGB/s {}, from {} to {}\n{}",
        copy.title(),
        ends(ways, 0),
        ends(ways, 1),
        rasciigraph::plot_many(lines, config)
    )
}

/// The smallest size (0) or the largest (1).
fn ends(ways: &[Curves], which: usize) -> String {
    let sizes: Vec<u64> = ways.iter().flat_map(Curves::sizes).collect();
    [sizes.iter().min(), sizes.iter().max()][which].map_or_else(String::new, |bytes| size(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::curves::Finding;
    use crate::link::ratios::ratios;
    use crate::link::raw::Wire;

    #[test]
    fn the_text_has_every_figure_and_a_gap_where_there_is_none() {
        let mut measured = Curves::new("unix");
        measured.take(Finding::Launch { seconds: 12.5e-6 });
        measured.take(Finding::Copied { copy: Copy::PinnedToHost, bytes: 4, seconds: 7e-6 });
        measured.take(Finding::Step { inputs: Inputs::Pageable, seconds: 37.5e-6 });
        measured.take(Finding::Copied { copy: Copy::PageableToDevice, bytes: 1 << 20, seconds: 1e-4 });
        let ways = [measured, Curves::new("tcp")];
        let text = show(&ways, &[]);
        assert!(text.contains("12.50 µs") && text.contains("7.00 µs") && text.contains("10.49 GB/s"), "{text}");
        for (name, figure) in [("launch + synchronize", "12.50 µs"), ("step, pageable inputs", "37.50 µs (×3.0)")] {
            let row = text.lines().find(|line| line.contains(name)).expect("a row");
            assert!(row.trim_end().ends_with('–') && row.contains(figure), "{row}");
        }
    }

    #[test]
    fn sockets_alone_have_rows_in_the_column_of_their_way_and_large_copies_are_compared_with_them() {
        let mut tcp = Curves::new("tcp");
        tcp.take(Finding::Connections { connections: 4 });
        for (connections, bytes) in [(1, 64 << 10), (4, 64 << 10), (1, 64 << 20), (4, 64 << 20), (4, 16 << 20)] {
            tcp.take(Finding::Raw { wire: Wire::Tcp, connections, bytes, seconds: 0.01 });
        }
        for bytes in [16 << 20, 64 << 20] {
            tcp.take(Finding::Copied { copy: Copy::PageableToHost, bytes, seconds: 0.0125 });
        }
        tcp.take(Finding::InARow { copy: Copy::PinnedToHost, bytes: 64 << 20, seconds: 0.0125 });
        let ways = [Curves::new("unix"), tcp];
        let text = show(&ways, &ratios(&ways));
        let row =
            |start: &str| text.lines().find(|line| line.trim().starts_with(start)).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(row("64 KiB tcp raw ×4").split_whitespace().skip(5).collect::<Vec<_>>(), ["–", "0.01", "GB/s"]);
        let order = ["64 KiB tcp raw ×1", "64 MiB tcp raw ×1", "64 KiB tcp raw ×4", "64 MiB tcp raw ×4"];
        assert!(order.map(|start| text.find(start)).is_sorted(), "{text}");
        let has = |line: &str, limits| {
            let parts = ["5.37 GB/s", "tcp raw ×4 6.71 GB/s", "0.800", limits, "MISSED"];
            assert!(parts.iter().all(|part| line.contains(part)), "{line}");
        };
        has(row("tcp, 64 MiB to the host, pageable"), "  ≥ 12 GB/s");
        has(row("tcp, 64 MiB to the host, pinned, in a row"), "  ≥ 0.9, ≥ 12 GB/s");
        assert!(row("tcp, 16 MiB to the host, pageable").trim_end().ends_with("0.800"), "no limit: {text}");
    }

    #[test]
    fn a_chart_has_a_line_per_way_and_says_from_where_to_where() {
        let way = |name: &str, seconds: f64| {
            let mut curves = Curves::new(name);
            for bytes in [4, 16, 64, 256] {
                curves.take(Finding::Copied { copy: Copy::PinnedToDevice, bytes, seconds });
            }
            curves
        };
        let text = chart(&[way("native", 1e-6), way("tcp", 4e-6)], Copy::PinnedToDevice);
        assert!(text.contains("GB/s to the device, pinned, from 4 B to 256 B"), "{text}");
        assert!(text.lines().count() > usize::try_from(HEIGHT).expect("a few lines"), "{text}");
        assert_eq!(chart(&[Curves::new("tcp")], Copy::PinnedToDevice), "");
    }
}
