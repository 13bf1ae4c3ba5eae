//! The shape of a copy: bytes in a line, or a box of rows with gaps between them. A box comes in; rows that one message
//! carries, and the messages of copies between two ends that the device reaches, go out. It knows nothing of whose the
//! memory is.

use floe_abi::CudaResult;
use floe_surface::{CopyBox, HostRange};
use floe_wire::{ArrayId, BoxEnd, CopyBoxOnDevice, CopyOnDevice, PIECE_BYTES};

use crate::objects::stream::StreamState;
use crate::vgpu::connection::{BoxTarget, Target};

/// The shape of the bytes that are copied.
#[derive(Debug, Clone, Copy)]
pub(super) enum Extent {
    /// Bytes, one after the other.
    Line(usize),
    /// Rows.
    Box(Shape),
}

/// A box's extent and its steps in bytes at both ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) depth: usize,
    to_pitch: usize,
    to_slice: usize,
    from_pitch: usize,
    from_slice: usize,
}

impl Shape {
    fn new(copy: &CopyBox) -> Self {
        Self {
            width: copy.width,
            height: copy.height,
            depth: copy.depth,
            to_pitch: copy.destination.pitch,
            to_slice: copy.destination.slice,
            from_pitch: copy.source.pitch,
            from_slice: copy.source.slice,
        }
    }

    /// Whether neither end has gaps.
    fn is_line(&self) -> bool {
        let tight = |pitch, slice| {
            (self.height * self.depth == 1 || pitch == self.width) && (self.depth == 1 || slice == pitch * self.height)
        };
        tight(self.to_pitch, self.to_slice) && tight(self.from_pitch, self.from_slice)
    }

    fn bytes(&self) -> usize {
        self.width * self.height * self.depth
    }

    /// The offsets at which rows begin, in the target and in the source.
    pub(super) fn rows(self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.depth).flat_map(move |slice| {
            (0..self.height).map(move |row| {
                (slice * self.to_slice + row * self.to_pitch, slice * self.from_slice + row * self.from_pitch)
            })
        })
    }
}

impl Extent {
    /// A box of memory without gaps is a line.
    pub(super) fn of(copy: &CopyBox) -> Self {
        let shape = Shape::new(copy);
        if shape.is_line() && !copy.names_array() { Self::Line(shape.bytes()) } else { Self::Box(shape) }
    }

    pub(super) fn is_line(&self) -> bool {
        matches!(self, Self::Line(_))
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Line(bytes) => *bytes,
            Self::Box(shape) => shape.bytes(),
        }
    }

    /// Bytes from the first to the last that are copied at an end in memory.
    pub(super) fn span_at(&self, end: &BoxEnd) -> u64 {
        match self {
            Self::Line(bytes) => *bytes as u64,
            Self::Box(shape) => {
                let steps = |pitch: u64, count: usize| pitch * (count.saturating_sub(1) as u64);
                steps(end.slice, shape.depth) + steps(end.pitch, shape.height) + shape.width as u64
            }
        }
    }

    /// An end in memory without gaps.
    pub(super) fn packed_at(&self, at: floe_abi::DevicePtr) -> BoxEnd {
        match self {
            Self::Line(_) => BoxEnd::memory(at, 0, 0),
            Self::Box(shape) => BoxEnd::memory(at, shape.width as u64, (shape.width * shape.height) as u64),
        }
    }

    /// The source in the program's memory, where the device reaches it.
    pub(super) fn source(&self, range: &HostRange) -> BoxEnd {
        let at = floe_abi::DevicePtr(range.pointer().0);
        match self {
            Self::Line(_) => BoxEnd::memory(at, 0, 0),
            Self::Box(shape) => BoxEnd::memory(at, shape.from_pitch as u64, shape.from_slice as u64),
        }
    }

    /// The target in the program's memory, where the device reaches it.
    pub(super) fn target(&self, range: &HostRange) -> BoxEnd {
        let at = floe_abi::DevicePtr(range.pointer().0);
        match self {
            Self::Line(_) => BoxEnd::memory(at, 0, 0),
            Self::Box(shape) => BoxEnd::memory(at, shape.to_pitch as u64, shape.to_slice as u64),
        }
    }

    /// Queues a copy between two ends that the stream's device reaches.
    pub(super) fn post_on_device(&self, stream: &StreamState, to: BoxEnd, from: BoxEnd) -> CudaResult<()> {
        match self {
            Self::Line(bytes) => {
                let bytes = *bytes as u64;
                stream.post(&CopyOnDevice { stream: stream.id(), to: to.at, from: from.at, bytes })
            }
            Self::Box(shape) => {
                let [width, height, depth] = [shape.width, shape.height, shape.depth].map(|size| size as u64);
                stream.post(&CopyBoxOnDevice { stream: stream.id(), to, from, width, height, depth })
            }
        }
    }
}

impl Shape {
    /// The program's memory as delivered rows are written to it.
    pub(super) fn delivered_to(&self, range: HostRange) -> Target {
        Target::Box(BoxTarget {
            range,
            pitch: self.to_pitch as u64,
            slice: self.to_slice as u64,
            width: self.width as u64,
            height: self.height as u64,
            depth: self.depth as u64,
        })
    }

    /// Cuts a box, of which no row is empty, into what one message carries, and rows of memory that are larger.
    pub(super) fn each_rows(
        &self,
        to: BoxEnd,
        source: &HostRange,
        mut act: impl FnMut(Rows) -> CudaResult<()>,
    ) -> CudaResult<()> {
        let (width, source_pitch) = (self.width, self.from_pitch);
        let rows_at_once = (PIECE_BYTES / width).max(1);
        for slice in 0..self.depth {
            let from = slice * self.from_slice;
            for row in (0..self.height).step_by(rows_at_once) {
                let count = rows_at_once.min(self.height - row);
                let source = source.sub(from + row * source_pitch, source_pitch * (count - 1) + width)?;
                let to = to.further(row as u64, slice as u64);
                if to.array != ArrayId(0) && width > PIECE_BYTES {
                    each_part(to, &source, &mut act)?;
                } else {
                    act(Rows { source, source_pitch, to, width, count })?;
                }
            }
        }
        Ok(())
    }
}

/// Cuts a row of an array into what one message carries.
fn each_part(to: BoxEnd, source: &HostRange, act: &mut impl FnMut(Rows) -> CudaResult<()>) -> CudaResult<()> {
    for start in (0..source.len()).step_by(PIECE_BYTES) {
        let part = source.sub(start, PIECE_BYTES.min(source.len() - start))?;
        let to = BoxEnd { x: to.x + start as u64, ..to };
        act(Rows { source: part, source_pitch: 0, to, width: part.len(), count: 1 })?;
    }
    Ok(())
}

/// Whole rows of a box in host memory: as many as fit a message, or a row that fills several.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows {
    /// From the first row's first byte to the last's last.
    pub(super) source: HostRange,
    source_pitch: usize,
    pub(super) to: BoxEnd,
    pub(super) width: usize,
    pub(super) count: usize,
}

impl Rows {
    pub(super) fn bytes(&self) -> usize {
        self.width * self.count
    }

    /// Whether it is a row that no message holds, which goes as a line.
    pub(super) fn is_long(&self) -> bool {
        self.width > PIECE_BYTES
    }

    /// The rows without gaps, into `target`, which is as long.
    pub(super) fn pack(&self, target: &mut [u8]) {
        for (index, bytes) in target.chunks_exact_mut(self.width).enumerate() {
            let row = self.source.sub(index * self.source_pitch, self.width).expect("the rows lie in their range");
            row.read_into(bytes).expect("a row long");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape =
        Shape { width: 8, height: 3, depth: 2, to_pitch: 8, to_slice: 24, from_pitch: 8, from_slice: 24 };

    #[test]
    fn a_box_without_gaps_is_a_line() {
        assert!(SHAPE.is_line());
        assert!(Shape { height: 1, depth: 1, to_pitch: 99, ..SHAPE }.is_line());
    }

    #[test]
    fn gaps_in_rows_or_slices_make_a_box() {
        assert!(!Shape { to_pitch: 9, to_slice: 27, ..SHAPE }.is_line());
        assert!(!Shape { from_slice: 32, ..SHAPE }.is_line());
    }
}
