//! The curves for a terminal: a table of latencies and rates, and a chart per kind of copy, a line per way: coloured where
//! the terminal has colours. In: curves. Out: text.

use std::io::IsTerminal as _;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use rgb::RGB8;
use textplots::{Chart, ColorPlot as _, LabelBuilder, LabelFormat, Plot, Shape};

use super::COLORS;
use super::curves::{Copy, Curves, size, size_at};

/// Dots of a chart: a character has two by four.
const DOTS: (u32, u32) = (140, 48);
/// Bytes of the copy that stands for the time a call takes.
const SMALL: u64 = 4;

/// A colour for a way, as a terminal and a picture have it.
type Color = (u8, u8, u8);

/// Everything there is to say on stdout.
pub(super) fn show(ways: &[Curves]) -> String {
    // Colours are not for a file.
    let colors = std::io::stdout().is_terminal().then_some(&COLORS[..]);
    with_colors(ways, colors)
}

fn with_colors(ways: &[Curves], colors: Option<&[Color]>) -> String {
    let mut text = table(ways).to_string();
    for copy in Copy::ALL {
        text.push_str(&chart(ways, copy, colors));
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

/// One chart with a line per way.
#[allow(clippy::cast_possible_truncation, reason = "dots of a terminal need no precision")]
fn chart(ways: &[Curves], copy: Copy, colors: Option<&[Color]>) -> String {
    let lines: Vec<Vec<(f32, f32)>> = ways
        .iter()
        .map(|way| {
            way.rates(copy).into_iter().map(|(bytes, rate)| (bytes.ilog2() as f32, (rate / 1e9) as f32)).collect()
        })
        .collect();
    let points = || lines.iter().flatten();
    let largest = points().map(|(power, _)| *power).fold(3.0, f32::max);
    let most = points().map(|(_, rate)| *rate).fold(0.001, f32::max);
    let shapes: Vec<Shape<'_>> = lines.iter().map(|line| Shape::Lines(line)).collect();
    let mut chart = Chart::new_with_y_range(DOTS.0, DOTS.1, 2.0, largest, 0.0, most);
    let named = LabelFormat::Custom(Box::new(|power| size_at(f64::from(power))));
    let mut plot: &mut Chart<'_> = chart.x_label_format(named);
    let mut legend = String::new();
    for ((shape, way), index) in shapes.iter().zip(ways).zip(0..) {
        plot = match colors.map(|colors| colors[index % colors.len()]) {
            Some((red, green, blue)) => {
                legend.push_str(&format!("  \x1b[38;2;{red};{green};{blue}m{}\x1b[0m", way.way));
                plot.linecolorplot(shape, RGB8::new(red, green, blue))
            }
            None => plot.lineplot(shape),
        };
    }
    plot.axis();
    plot.figures();
    format!("\n\nGB/s {}{legend}\n{plot}", copy.title())
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
        let text = with_colors(&ways, None);
        assert!(text.contains("12.50 µs") && text.contains("7.00 µs") && text.contains("10.49 GB/s"), "{text}");
        let row = text.lines().find(|line| line.contains("launch + synchronize")).expect("a row");
        assert!(row.trim_end().ends_with('–'), "{row}");
        assert!(!text.contains('\x1b') && with_colors(&ways, Some(&COLORS)).contains("mtcp\x1b[0m"));
    }
}
