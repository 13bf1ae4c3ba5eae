//! Letters for pictures made of pixels: a font that is part of the program, since a machine without a screen has none.
//! In: what a chart draws. Out: the same at the bitmap, text from ready-made rasters. It knows no chart.

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};
use plotters::prelude::{BitMapBackend, DrawingBackend};
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingErrorKind};

/// Pixels of a line of text.
const HEIGHT: RasterHeight = RasterHeight::Size16;
/// Drawn where the font has no such letter.
const UNKNOWN: char = '?';

/// A bitmap on which text is drawn from rasters of one size.
pub(super) struct Lettered<'a>(pub(super) BitMapBackend<'a>);

type Drawn<E> = Result<(), DrawingErrorKind<E>>;

impl Lettered<'_> {
    fn letter(
        &mut self,
        letter: char,
        color: BackendColor,
        (left, top): BackendCoord,
    ) -> Drawn<<Self as DrawingBackend>::ErrorType> {
        let raster = get_raster(letter, FontWeight::Regular, HEIGHT)
            .or_else(|| get_raster(UNKNOWN, FontWeight::Regular, HEIGHT));
        let Some(raster) = raster else { return Ok(()) };
        for (row, y) in raster.rows().zip(top..) {
            for (intensity, x) in row.iter().zip(left..) {
                if *intensity > 0 {
                    let alpha = color.alpha * f64::from(*intensity) / 255.0;
                    self.0.draw_pixel((x, y), BackendColor { alpha, ..color })?;
                }
            }
        }
        Ok(())
    }
}

/// Width and height of a text in pixels.
fn extent(text: &str) -> (u32, u32) {
    let count = u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
    let pixels = |size: usize| u32::try_from(size).unwrap_or(0);
    (count.saturating_mul(pixels(get_raster_width(FontWeight::Regular, HEIGHT))), pixels(HEIGHT.val()))
}

impl DrawingBackend for Lettered<'_> {
    type ErrorType = <BitMapBackend<'static> as DrawingBackend>::ErrorType;

    fn get_size(&self) -> (u32, u32) {
        self.0.get_size()
    }

    fn ensure_prepared(&mut self) -> Drawn<Self::ErrorType> {
        self.0.ensure_prepared()
    }

    fn present(&mut self) -> Drawn<Self::ErrorType> {
        self.0.present()
    }

    fn draw_pixel(&mut self, point: BackendCoord, color: BackendColor) -> Drawn<Self::ErrorType> {
        self.0.draw_pixel(point, color)
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Drawn<Self::ErrorType> {
        self.0.draw_line(from, to, style)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        upper_left: BackendCoord,
        bottom_right: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Drawn<Self::ErrorType> {
        self.0.draw_rect(upper_left, bottom_right, style, fill)
    }

    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &S,
        (x, y): BackendCoord,
    ) -> Drawn<Self::ErrorType> {
        let (width, height) = extent(text);
        let [width, height] = [width, height].map(|pixels| i32::try_from(pixels).unwrap_or(i32::MAX / 2));
        let left = match style.anchor().h_pos {
            HPos::Left => x,
            HPos::Center => x - width / 2,
            HPos::Right => x - width,
        };
        let top = match style.anchor().v_pos {
            VPos::Top => y,
            VPos::Center => y - height / 2,
            VPos::Bottom => y - height,
        };
        let step = width / i32::try_from(text.chars().count().max(1)).unwrap_or(i32::MAX);
        for (letter, at) in text.chars().zip(0..) {
            self.letter(letter, style.color(), (left + at * step, top))?;
        }
        Ok(())
    }

    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        text: &str,
        _style: &S,
    ) -> Result<(u32, u32), DrawingErrorKind<Self::ErrorType>> {
        Ok(extent(text))
    }
}
