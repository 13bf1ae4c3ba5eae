//! The picture: one bar per way for each row that has a limit, with the limit marked. Rows come in, an SVG file goes
//! out.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::compare::Row;
use crate::bars::{Measure, Way};

/// The scale ends here: what misses by more needs no exact length.
const LONGEST: f64 = 3.0;
/// Pixels: where bars begin, how long the scale is, how high things are.
const LEFT: i32 = 330;
const SCALE: f64 = 560.0;
const WIDTH: u32 = 1000;
const HEAD: i32 = 64;
const ROW: i32 = 62;
const BAR: i32 = 15;

const SHM: RGBColor = RGBColor(70, 150, 90);
const UNIX: RGBColor = RGBColor(60, 110, 190);
const TCP: RGBColor = RGBColor(225, 145, 50);
const LIMIT: RGBColor = RGBColor(200, 30, 30);
const FAINT: RGBColor = RGBColor(215, 215, 215);

/// One bar: what floe takes in units of native, and its limit in the same.
#[derive(Debug, PartialEq)]
struct Bar {
    value: f64,
    limit: f64,
}

/// Draws what was measured against native and has a limit. Draws nothing when nothing has.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn draw(rows: &[Row], path: &Path) -> Result<()> {
    let has_bar = |row: &&Row| [Way::Shm, Way::Unix, Way::Tcp].iter().any(|way| bar(row, *way).is_some());
    let drawn: Vec<&Row> = rows.iter().filter(has_bar).collect();
    if drawn.is_empty() {
        return Ok(());
    }
    let height = u32::try_from(drawn.len()).context("too many rows to draw")? * ROW.unsigned_abs();
    let area = SVGBackend::new(path, (WIDTH, HEAD.unsigned_abs() + height)).into_drawing_area();
    paint(&area, &drawn).map_err(|error| anyhow!("{} cannot be drawn: {error}", path.display()))
}

/// A row's bar by one way, relative to native.
fn bar(row: &Row, way: Way) -> Option<Bar> {
    let cell = row.cell(way)?;
    let (ratio, limit) = (cell.ratio?, cell.limit?);
    let native = row.native?.median * 1e6;
    let limit = match limit.of {
        Measure::Ratio => limit.most,
        Measure::Microseconds => limit.most / native,
        Measure::MoreMicroseconds => (native + limit.most) / native,
        Measure::Count | Measure::Mebibytes => return None,
    };
    Some(Bar { value: ratio, limit })
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

fn paint<'a>(area: &Area<'a>, rows: &[&Row]) -> Drawn<'a> {
    area.fill(&WHITE)?;
    text(area, "floe against native in the same run: 1 is native, red is the limit", (12, 12), 18)?;
    for (name, color, at) in [("shared memory", SHM, 520), ("Unix socket", UNIX, 650), ("TCP loopback", TCP, 780)] {
        area.draw(&Rectangle::new([(at, 14), (at + 14, 28)], color.filled()))?;
        text(area, name, (at + 20, 14), 14)?;
    }
    let bottom = HEAD + ROW * i32::try_from(rows.len()).unwrap_or(i32::MAX / ROW);
    for (mark, name) in [(0.0, "0"), (1.0, "1"), (2.0, "2"), (3.0, "3")] {
        area.draw(&PathElement::new(vec![(across(mark), HEAD - 6), (across(mark), bottom)], FAINT))?;
        text(area, name, (across(mark) - 3, HEAD - 22), 12)?;
    }
    for (row, top) in rows.iter().zip((HEAD..).step_by(ROW.unsigned_abs() as usize)) {
        text(area, row.title, (12, top + 10), 14)?;
        for (way, color, place) in [(Way::Shm, SHM, 0), (Way::Unix, UNIX, 1), (Way::Tcp, TCP, 2)] {
            paint_bar(area, bar(row, way), top + place * (BAR + 3), color)?;
        }
    }
    area.present()
}

fn paint_bar<'a>(area: &Area<'a>, bar: Option<Bar>, top: i32, color: RGBColor) -> Drawn<'a> {
    let Some(bar) = bar else { return Ok(()) };
    area.draw(&Rectangle::new([(LEFT, top), (across(bar.value), top + BAR)], color.filled()))?;
    let limit = across(bar.limit);
    area.draw(&PathElement::new(vec![(limit, top - 1), (limit, top + BAR + 1)], LIMIT.stroke_width(3)))?;
    text(area, &format!("{:.3}", bar.value), (across(bar.value.max(bar.limit)) + 6, top + 2), 12)
}

fn text<'a>(area: &Area<'a>, words: &str, at: (i32, i32), size: i32) -> Drawn<'a> {
    area.draw(&Text::new(words.to_owned(), at, ("sans-serif", size)))
}

/// The position of a ratio; the scale's end where it is larger.
#[allow(clippy::cast_possible_truncation, reason = "a pixel within the picture's width")]
fn across(ratio: f64) -> i32 {
    LEFT + (ratio.clamp(0.0, LONGEST) / LONGEST * SCALE) as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::speed::compare;
    use crate::speed::findings::{ByWay, Findings};

    fn rows() -> Vec<Row> {
        let mut findings = Findings::default();
        for (name, native, unix) in
            [("sum.item", 20e-6, 30e-6), ("launch.caller", 2e-6, 1e-6), ("memory.client", 1.0, 2.0)]
        {
            let by_way = ByWay::from([(Way::Native, vec![native]), (Way::Unix, vec![unix])]);
            findings.samples.insert(name.into(), by_way);
        }
        compare::rows(&findings)
    }

    #[test]
    fn an_absolute_limit_is_drawn_in_units_of_native() {
        let launch = bar(&rows()[0], Way::Unix).expect("it has a limit");
        assert!((launch.value - 0.5).abs() < 1e-9 && (launch.limit - 0.25).abs() < 1e-9, "{launch:?}");
    }

    #[test]
    fn the_picture_holds_each_row_with_a_limit_and_a_ratio() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("ratios.svg");
        draw(&rows(), &path).expect("it is drawn");
        let svg = std::fs::read_to_string(&path).expect("it was written");
        assert!(svg.contains("x.sum().item()") && svg.contains("1.500") && !svg.contains("client memory"));
    }

    #[test]
    fn a_ratio_beyond_the_scale_ends_at_its_end() {
        assert_eq!(across(100.0), across(LONGEST));
    }
}
