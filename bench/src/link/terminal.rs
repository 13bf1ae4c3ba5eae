//! The curves for a terminal: a table of latencies and rates, and a chart per kind of copy, a line per way. In: curves.
//! Out: text.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};

use super::curves::{Copy, Curves, size};

/// Characters of a chart.
const WIDTH: u32 = 70;
const HEIGHT: u32 = 12;
/// Bytes of the copy that stands for the time a call takes.
const SMALL: u64 = 4;

/// Everything there is to say.
pub(super) fn show(ways: &[Curves]) -> String {
    let mut text = table(ways).to_string();
    for copy in Copy::ALL {
        text.push_str(&chart(ways, copy));
    }
    text
}

fn table(ways: &[Curves]) -> Table {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    let heads = std::iter::once(String::new()).chain(ways.iter().map(|way| way.way.clone()));
    table.set_header(heads);
    let mut row = |name: String, cell: &dyn Fn(&Curves) -> Option<String>| {
        let cells = ways.iter().map(|way| cell(way).unwrap_or_else(|| "–".to_owned()));
        table.add_row(std::iter::once(name).chain(cells));
    };
    row("launch + synchronize".into(), &|way| way.launch.map(micros));
    for copy in Copy::ALL {
        row(format!("4 B {}", copy.title()), &|way| way.seconds(copy, SMALL).map(micros));
    }
    let mut sizes: Vec<u64> = ways.iter().flat_map(Curves::sizes).filter(|bytes| *bytes >= 64 << 10).collect();
    sizes.sort_unstable();
    sizes.dedup();
    for (copy, bytes) in Copy::ALL.into_iter().flat_map(|copy| sizes.iter().map(move |bytes| (copy, *bytes))) {
        #[allow(clippy::cast_precision_loss, reason = "a size is far below 2^52")]
        row(format!("{} {}", size(bytes), copy.title()), &|way| {
            way.seconds(copy, bytes).map(|seconds| format!("{:.2} GB/s", bytes as f64 / seconds / 1e9))
        });
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
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

    #[test]
    fn the_text_has_every_figure_and_a_gap_where_there_is_none() {
        let mut measured = Curves::new("unix");
        measured.take(Finding::Launch { seconds: 12.5e-6 });
        measured.take(Finding::Copied { copy: Copy::PinnedToHost, bytes: 4, seconds: 7e-6 });
        measured.take(Finding::Copied { copy: Copy::PageableToDevice, bytes: 1 << 20, seconds: 1e-4 });
        let ways = [measured, Curves::new("tcp")];
        let text = show(&ways);
        assert!(text.contains("12.50 µs") && text.contains("7.00 µs") && text.contains("10.49 GB/s"), "{text}");
        let row = text.lines().find(|line| line.contains("launch + synchronize")).expect("a row");
        assert!(row.trim_end().ends_with('–'), "{row}");
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
