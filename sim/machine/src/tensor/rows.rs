//! The bytes of a box: a map and the coordinates of a box come in, its rows go out, each with the bytes of it that the
//! tensor has, their address, and its place in shared memory. All arithmetic is checked; no row touches memory.

use super::{TENSOR_AXES, TensorMap};

/// Bytes that stay together when they are swizzled. Rows consist of whole units.
pub(crate) const UNIT: u32 = 16;

/// A row of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// Its place in the box as it lies in shared memory, before units are swizzled.
    pub(crate) place: u32,
    /// The bytes of the row that the tensor has; none where they are empty.
    pub(crate) first: u32,
    pub(crate) end: u32,
    /// Address of the first of them; `None` where no address is so large.
    pub(crate) address: Option<u64>,
}

impl TensorMap {
    /// Whether the rows of a box begin at whole units.
    pub(crate) fn is_aligned(&self, coordinates: &[i32; TENSOR_AXES]) -> bool {
        (i64::from(coordinates[0]) * i64::from(self.element.bytes())) % i64::from(UNIT) == 0
    }

    /// All rows of the box that begins at these coordinates, in the order in which they lie in shared memory.
    pub(crate) fn rows(&self, coordinates: [i32; TENSOR_AXES]) -> impl Iterator<Item = Row> + '_ {
        // A checked map has as many rows as fit in shared memory, so numbers of rows and places have 32 bits.
        (0..self.row_count() as u32).map(move |number| self.row(&coordinates, number))
    }

    fn row(&self, coordinates: &[i32; TENSOR_AXES], number: u32) -> Row {
        let (mut rest, mut inside) = (number, true);
        let mut address = Some(self.address);
        for (axis, coordinate) in coordinates.iter().enumerate().take(self.axes).skip(1) {
            let index = rest % self.count(axis);
            rest /= self.count(axis);
            let at = i64::from(*coordinate) + i64::from(index * self.steps[axis]);
            let at = u64::try_from(at).ok().filter(|at| *at < self.sizes[axis]);
            inside &= at.is_some();
            let distance = at.unwrap_or(0).checked_mul(self.strides[axis - 1]);
            address = address.and_then(|address| address.checked_add(distance?));
        }
        let (first, end) = if inside { self.part_inside(coordinates[0]) } else { (0, 0) };
        let start = i64::from(coordinates[0]) * i64::from(self.element.bytes()) + i64::from(first);
        // The part begins in the tensor: its distance is not negative.
        let address = address.and_then(|address| address.checked_add(u64::try_from(start).unwrap_or(0)));
        Row { place: number * self.pitch(), first, end, address }
    }

    /// The bytes of a row, from the first to the end, that the first dimension has.
    fn part_inside(&self, coordinate: i32) -> (u32, u32) {
        let first = i64::from(coordinate).clamp(-i64::from(self.spans[0]), 0).unsigned_abs();
        let left = i128::from(self.sizes[0]) - i128::from(coordinate);
        let end = left.clamp(0, i128::from(self.spans[0])) as u64;
        let first = first.min(end);
        (first as u32 * self.element.bytes(), end as u32 * self.element.bytes())
    }

    /// The place of a unit in shared memory: bits of its address above 7 change those from 4 on.
    pub(crate) fn swizzled(&self, address: u32) -> u32 {
        let bits = (self.swizzle / UNIT).saturating_sub(1);
        address ^ (address >> 7 & bits) << 4
    }
}
