//! The curves as a picture: rate over size, one panel per direction, one colour per way, pinned memory thick, and the
//! sockets alone dashed.
//! In: curves. Out: an SVG file.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use super::curves::{Copy, Curves, size};

/// Pixels of the whole, of the part above the panels.
const SIZE: (u32, u32) = (1400, 640);
const HEAD: u32 = 60;
/// Room for the labels of the axes.
const LABELS: u32 = 70;
/// Pixels of a dash and of the gap behind it.
const DASH: u32 = 8;
const GAP: u32 = 6;
/// Of each way, then again from the start.
const COLORS: [RGBColor; 6] = [
    RGBColor(110, 110, 110),
    RGBColor(60, 110, 190),
    RGBColor(225, 145, 50),
    RGBColor(60, 150, 80),
    RGBColor(170, 70, 160),
    RGBColor(200, 30, 30),
];

/// Draws them.
///
/// # Errors
/// When the file cannot be written.
pub(super) fn draw(ways: &[Curves], path: &Path) -> Result<()> {
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    paint(&area, ways).map_err(|error| anyhow!("{} cannot be drawn: {error}", path.display()))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

fn paint<'a>(area: &Area<'a>, ways: &[Curves]) -> Drawn<'a> {
    area.fill(&WHITE)?;
    let (head, panels) = area.split_vertically(HEAD);
    legend(&head, ways)?;
    let panels = panels.split_evenly((1, 2));
    panel(&panels[0], ways, "GB/s to the device", [Copy::PinnedToDevice, Copy::PageableToDevice])?;
    panel(&panels[1], ways, "GB/s to the host", [Copy::PinnedToHost, Copy::PageableToHost])?;
    area.present()
}

fn legend<'a>(area: &Area<'a>, ways: &[Curves]) -> Drawn<'a> {
    let device = ways.first().map_or("", |way| way.device.as_str());
    let dashes = if ways.iter().any(|way| way.ceiling().next().is_some()) { ", dashes the sockets alone" } else { "" };
    text(
        area,
        &format!("copies over size, {device}: thick lines pinned memory, thin lines pageable{dashes}"),
        (20, 10),
    )?;
    let mut left = 20;
    for (way, color) in ways.iter().zip(colors()) {
        area.draw(&Rectangle::new([(left, 38), (left + 14, 50)], color.filled()))?;
        text(area, &way.way, (left + 20, 36))?;
        left += 50 + 9 * i32::try_from(way.way.chars().count()).unwrap_or(0);
    }
    Ok(())
}

fn text<'a>(area: &Area<'a>, words: &str, at: (i32, i32)) -> Drawn<'a> {
    area.draw(&Text::new(words.to_owned(), at, ("sans-serif", 16)))
}

fn panel<'a>(area: &Area<'a>, ways: &[Curves], title: &str, [pinned, pageable]: [Copy; 2]) -> Drawn<'a> {
    let rates = || ways.iter().flat_map(|way| [way.rates(pinned), way.rates(pageable), ceiling(way)]).flatten();
    let most = rates().map(|(_, rate)| rate / 1e9).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let largest = rates().map(|(bytes, _)| power(bytes)).fold(2.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .margin_right(36)
        .x_label_area_size(LABELS)
        .y_label_area_size(LABELS)
        .build_cartesian_2d(2.0..largest.max(3.0), 0.0..most * 1.05)?;
    chart
        .configure_mesh()
        .x_label_formatter(&|power| size_at(*power))
        .x_labels(8)
        .y_labels(8)
        .light_line_style(WHITE)
        .draw()?;
    text(area, title, (80, 14))?;
    for (way, color) in ways.iter().zip(colors()) {
        for (copy, width) in [(pinned, 3), (pageable, 1)] {
            let points = way.rates(copy).into_iter().map(|(bytes, rate)| (power(bytes), rate / 1e9));
            chart.draw_series(LineSeries::new(points, color.stroke_width(width)))?;
        }
        let points = ceiling(way).into_iter().map(|(bytes, rate)| (power(bytes), rate / 1e9));
        chart.draw_series(DashedLineSeries::new(points, DASH, GAP, color.stroke_width(1)))?;
    }
    Ok(())
}

/// Sizes and rates of the sockets alone; they are the same in both directions.
fn ceiling(way: &Curves) -> Vec<(u64, f64)> {
    way.ceiling().map(|raw| (raw.bytes, raw.rate())).collect()
}

/// One per way.
fn colors() -> impl Iterator<Item = RGBColor> {
    COLORS.into_iter().cycle()
}

/// The size at a place of an axis that counts powers of two.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the power is clamped to what has a size")]
fn size_at(power: f64) -> String {
    size(1 << (power.round().clamp(0.0, 62.0) as u64))
}

/// The power of two that a size is.
fn power(bytes: u64) -> f64 {
    f64::from(bytes.max(1).ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::curves::Finding;
    use crate::link::raw::Wire;

    #[test]
    fn the_picture_is_an_svg_with_something_on_it() {
        let mut curves = Curves::new("tcp");
        for (power, copy) in (2..30).flat_map(|power| Copy::ALL.map(|copy| (power, copy))) {
            curves.take(Finding::Copied { copy, bytes: 1 << power, seconds: 1e-5 + 1e-10 * f64::from(1 << power) });
        }
        let with_sockets = {
            let mut curves = curves.clone();
            curves.take(Finding::Connections { connections: 1 });
            for bytes in [1 << 16, 1 << 20, 1 << 28] {
                curves.take(Finding::Raw { wire: Wire::Tcp, connections: 1, bytes, seconds: 2e-10 * bytes as f64 });
            }
            curves
        };
        let folder = tempfile::tempdir().expect("a temporary folder");
        let drawn = |name: &str, ways: &[Curves]| {
            let path = folder.path().join(name);
            draw(ways, &path).expect("it is drawn");
            std::fs::read(path).expect("it was written")
        };
        let pictures = [drawn("empty.svg", &[]), drawn("link.svg", &[curves]), drawn("sockets.svg", &[with_sockets])];
        assert!(
            pictures.iter().all(|bytes| bytes.starts_with(b"<svg ") && bytes.trim_ascii_end().ends_with(b"</svg>"))
        );
        let lengths = pictures.each_ref().map(Vec::len);
        assert!(lengths[1] > lengths[0] + 1000 && lengths[2] > lengths[1], "each has more on it: {lengths:?}");
    }
}
