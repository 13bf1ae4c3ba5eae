//! Reading a texture at coordinates, as the CUDA C++ programming guide has it ("Texture Fetching"): which elements, and with
//! which weights. Coordinates come in, the bits an instruction gets go out. It reads memory by what it is given for that.
//!
//! Weights have 8 bits behind the point, so there are 256 steps between two elements. The rounding of coordinates to
//! them is not documented for hardware; here it is to the nearest.

use super::texel::{self, Bytes};
use super::{Outside, Sampling, Texels};

/// Reads an element's bytes: address and their number; `None` where nothing is mapped.
pub(crate) type ReadBytes<'a> = &'a dyn Fn(u64, usize) -> Option<Bytes>;

/// Steps between two elements.
const STEPS: f32 = 256.0;

/// The elements of one axis that a coordinate reads: none is the border.
#[derive(Clone, Copy, Debug)]
struct Neighbours {
    elements: [Option<u32>; 2],
    /// Weight of the second.
    weight: f32,
}

impl Neighbours {
    const FIRST: Self = Self { elements: [Some(0); 2], weight: 0.0 };

    fn weight(&self, second: usize) -> f32 {
        if second == 0 { 1.0 - self.weight } else { self.weight }
    }
}

/// One level of a texture.
#[derive(Clone, Copy)]
pub(super) struct Image<'a> {
    pub(super) texels: &'a Texels,
    pub(super) sampling: &'a Sampling,
    pub(super) linear: bool,
}

impl Image<'_> {
    /// The meaning of a coordinate outside. Images continue beyond their ends only for normalized coordinates.
    fn outside(&self, axis: usize) -> Outside {
        match self.sampling.outside[axis] {
            Outside::Wrap | Outside::Mirror if !self.sampling.normalized => Outside::Clamp,
            outside => outside,
        }
    }

    /// A coordinate in elements.
    #[allow(clippy::cast_precision_loss, reason = "extents are far below where floats have gaps")]
    fn in_elements(&self, axis: usize, coordinate: f32) -> f32 {
        if !self.sampling.normalized {
            return coordinate;
        }
        let extent = self.texels.extent[axis] as f32;
        let whole = coordinate.floor();
        let part = coordinate - whole;
        match self.outside(axis) {
            Outside::Wrap => part * extent,
            Outside::Mirror if whole.rem_euclid(2.0) == 0.0 => part * extent,
            Outside::Mirror => (1.0 - part) * extent,
            Outside::Clamp | Outside::Border => coordinate * extent,
        }
    }

    /// The element that an index beyond the ends stands for.
    fn element(&self, axis: usize, index: i64) -> Option<u32> {
        let extent = i64::from(self.texels.extent[axis]);
        let inside = match self.outside(axis) {
            Outside::Wrap => index.rem_euclid(extent),
            // A mirror image begins with the element at the end.
            Outside::Clamp | Outside::Mirror => index.clamp(0, extent - 1),
            Outside::Border => return u32::try_from(index).ok().filter(|_| index < extent),
        };
        u32::try_from(inside).ok()
    }

    /// The element a coordinate lies in.
    fn nearest(&self, axis: usize, coordinate: f32) -> Neighbours {
        let element = self.element(axis, self.in_elements(axis, coordinate).floor() as i64);
        Neighbours { elements: [element; 2], weight: 0.0 }
    }

    /// The elements a coordinate lies between.
    fn between(&self, axis: usize, coordinate: f32) -> Neighbours {
        let place = self.in_elements(axis, coordinate) - 0.5;
        let first = place.floor();
        let weight = ((place - first) * STEPS).round() / STEPS;
        let index = first as i64;
        let elements = [self.element(axis, index), self.element(axis, index.saturating_add(1))];
        Neighbours { elements, weight: if weight.is_nan() { 0.0 } else { weight } }
    }

    /// The bits of one element; the address where nothing is mapped.
    fn read(&self, place: [Option<u32>; 3], read: ReadBytes<'_>) -> Result<[u32; 4], u64> {
        let [Some(x), Some(y), Some(z)] = place else {
            return Ok(self.sampling.border.map(f32::to_bits));
        };
        let Self { texels, sampling, .. } = self;
        let address = texels.address([x, y, z]);
        let bytes = read(address, texels.element_bytes() as usize).ok_or(address)?;
        let mut bits = texels.channel.read_all(&bytes, texels.channels, sampling.integers);
        if sampling.srgb {
            bits.iter_mut().take(3).for_each(|bits| *bits = texel::linear(f32::from_bits(*bits)).to_bits());
        }
        Ok(bits)
    }

    fn pairs(&self, coordinates: &[f32], find: impl Fn(usize, f32) -> Neighbours) -> [Neighbours; 3] {
        let mut pairs = [Neighbours::FIRST; 3];
        for (axis, (pair, coordinate)) in pairs.iter_mut().zip(coordinates).enumerate() {
            *pair = find(axis, *coordinate);
        }
        pairs
    }

    fn layer(&self, layer: Option<u32>) -> Option<Neighbours> {
        let last = self.texels.extent[2] - 1;
        layer.map(|layer| Neighbours { elements: [Some(layer.min(last)); 2], weight: 0.0 })
    }

    /// The sample at coordinates, one per axis, of a layer where there are layers.
    ///
    /// # Errors
    /// The address where nothing is mapped.
    pub(super) fn sample(&self, layer: Option<u32>, coordinates: &[f32], read: ReadBytes<'_>) -> Result<[u32; 4], u64> {
        let filtered = self.sampling.filtered && self.texels.channel.reads_float(self.sampling.integers);
        if self.linear {
            return self.fetch(layer, &[coordinates[0].floor() as i32], read);
        }
        let mut pairs = if filtered {
            self.pairs(coordinates, |axis, coordinate| self.between(axis, coordinate))
        } else {
            self.pairs(coordinates, |axis, coordinate| self.nearest(axis, coordinate))
        };
        if let Some(layer) = self.layer(layer) {
            pairs[2] = layer;
        }
        if filtered { self.mean(&pairs, read) } else { self.read(pairs.map(|pair| pair.elements[0]), read) }
    }

    /// The mean of up to eight elements by their weights.
    fn mean(&self, pairs: &[Neighbours; 3], read: ReadBytes<'_>) -> Result<[u32; 4], u64> {
        let mut sums = [0.0_f32; 4];
        for corner in 0..8 {
            let second = [corner & 1, corner >> 1 & 1, corner >> 2];
            let [x, y, z] = [0, 1, 2].map(|axis| pairs[axis].weight(second[axis]));
            let weight = x * y * z;
            // Elements of no weight are not looked at: they may be infinite.
            if weight == 0.0 {
                continue;
            }
            let bits = self.read([0, 1, 2].map(|axis| pairs[axis].elements[second[axis]]), read)?;
            sums.iter_mut().zip(bits).for_each(|(sum, bits)| *sum += weight * f32::from_bits(bits));
        }
        Ok(sums.map(f32::to_bits))
    }

    /// The element at whole coordinates. Linear memory is zero outside.
    ///
    /// # Errors
    /// As [`Image::sample`].
    pub(super) fn fetch(&self, layer: Option<u32>, coordinates: &[i32], read: ReadBytes<'_>) -> Result<[u32; 4], u64> {
        let mut place = [Some(0); 3];
        for (axis, (place, index)) in place.iter_mut().zip(coordinates).enumerate() {
            *place = self.element(axis, i64::from(*index));
            if self.linear && *place != u32::try_from(*index).ok() {
                return Ok([0; 4]);
            }
        }
        if let Some(layer) = self.layer(layer) {
            place[2] = layer.elements[0];
        }
        self.read(place, read)
    }

    /// One channel of the four elements that coordinates lie between, as `tld4` orders them.
    ///
    /// # Errors
    /// As [`Image::sample`].
    pub(super) fn gather(
        &self,
        layer: Option<u32>,
        coordinates: &[f32],
        channel: usize,
        read: ReadBytes<'_>,
    ) -> Result<[u32; 4], u64> {
        let [x, y, third] = self.pairs(coordinates, |axis, coordinate| self.between(axis, coordinate));
        let z = self.layer(layer).unwrap_or(third).elements[0];
        let mut bits = [0; 4];
        for (bits, [column, row]) in bits.iter_mut().zip([[0, 1], [1, 1], [1, 0], [0, 0]]) {
            *bits = self.read([x.elements[column], y.elements[row], z], read)?[channel];
        }
        Ok(bits)
    }
}

#[cfg(test)]
mod tests;
