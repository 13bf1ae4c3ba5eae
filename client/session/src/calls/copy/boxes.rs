//! Copies of boxes: rows with gaps between them, in two or three dimensions, and those of arrays. Two ends and an extent come
//! in. A box of memory without gaps is copied as a line; rows of a box travel packed, in pieces of whole rows.

use std::sync::Arc;

use floe_abi::{CudaError, CudaResult, DevicePtr, Stream};
use floe_surface::graph::{CopyWork, Work};
use floe_surface::{CopyBox, CopyEnd, CopyPlace, HostRange};
use floe_wire::{BoxEnd, CopyBoxFromDevice, CopyBoxOnDevice, CopyBoxToDevice, PIECE_BYTES, StreamId};

use super::late::LateRows;
use super::lines::{Mode, Side, check_host};
use crate::client::Client;
use crate::log::log;
use crate::memory::managed::resident::Resident;
use crate::memory::sending::{Passage, send};
use crate::objects::stream::StreamState;
use crate::vgpu::Vgpu;
use crate::vgpu::connection::{BoxTarget, Target};
use crate::vgpu::order::Course;

/// A box's extent and its steps in bytes at both ends.
#[derive(Debug, Clone, Copy)]
struct Shape {
    width: u64,
    height: u64,
    depth: u64,
    to_pitch: u64,
    to_slice: u64,
    from_pitch: u64,
    from_slice: u64,
}

impl Shape {
    fn new(copy: &CopyBox) -> Self {
        Self {
            width: copy.width as u64,
            height: copy.height as u64,
            depth: copy.depth as u64,
            to_pitch: copy.destination.pitch as u64,
            to_slice: copy.destination.slice as u64,
            from_pitch: copy.source.pitch as u64,
            from_slice: copy.source.slice as u64,
        }
    }

    /// Whether neither end has gaps.
    fn is_line(&self) -> bool {
        let tight = |pitch, slice| {
            (self.height * self.depth == 1 || pitch == self.width) && (self.depth == 1 || slice == pitch * self.height)
        };
        tight(self.to_pitch, self.to_slice) && tight(self.from_pitch, self.from_slice)
    }

    fn bytes(&self) -> u64 {
        self.width * self.height * self.depth
    }

    /// The source's end, where the device reaches it.
    fn shared_source(&self, source: &HostRange) -> BoxEnd {
        BoxEnd::memory(floe_wire::DevicePtr(source.pointer().0), self.from_pitch, self.from_slice)
    }

    /// The target's end, where the device reaches it.
    fn shared_target(&self, target: &HostRange) -> BoxEnd {
        BoxEnd::memory(floe_wire::DevicePtr(target.pointer().0), self.to_pitch, self.to_slice)
    }
}

/// An end of a box that was found on a device.
#[derive(Debug)]
struct Place {
    end: BoxEnd,
    memory: Resident,
}

/// One side of a box.
enum BoxSide {
    Host(HostRange),
    Device(Place),
}

/// Bytes from an end's first to its last; of an array nobody asks for them.
fn span(end: &CopyEnd) -> usize {
    match end.place {
        CopyPlace::Host(range) => range.len(),
        CopyPlace::Device(_, bytes) => bytes,
        CopyPlace::Unified(range) => range.len(),
        CopyPlace::Array(..) => 0,
    }
}

/// An end's first address; 0 where it is an array.
fn first(end: &CopyEnd) -> u64 {
    match end.place {
        CopyPlace::Host(range) => range.pointer().0,
        CopyPlace::Device(at, _) => at.0,
        CopyPlace::Unified(range) => range.device().0,
        CopyPlace::Array(..) => 0,
    }
}

/// Whole rows of a box in host memory: as many as fit a message, or a row that fills several.
#[derive(Debug, Clone, Copy)]
struct Rows {
    /// From the first row's first byte to the last's last.
    source: HostRange,
    source_pitch: usize,
    to: BoxEnd,
    width: usize,
    count: usize,
}

impl Rows {
    fn bytes(&self) -> usize {
        self.width * self.count
    }

    /// The rows without gaps, into `target`, which is as long.
    fn pack(&self, target: &mut [u8]) {
        for (index, bytes) in target.chunks_exact_mut(self.width).enumerate() {
            let row = self.source.sub(index * self.source_pitch, self.width).expect("the rows lie in their range");
            row.read_into(bytes).expect("a row long");
        }
    }
}

/// Cuts a box, of which no row is empty, into what one message carries, and rows of memory that are larger.
fn each_rows(
    to: BoxEnd,
    source: &HostRange,
    shape: &Shape,
    mut act: impl FnMut(Rows) -> CudaResult<()>,
) -> CudaResult<()> {
    let size = |value: u64| usize::try_from(value).map_err(|_| CudaError::INVALID_VALUE);
    let (width, source_pitch) = (size(shape.width)?, size(shape.from_pitch)?);
    let rows_at_once = (PIECE_BYTES / width).max(1) as u64;
    for slice in 0..shape.depth {
        let from = slice * shape.from_slice;
        let mut row = 0;
        while row < shape.height {
            let rows = rows_at_once.min(shape.height - row);
            let count = size(rows)?;
            let first = size(from + row * shape.from_pitch)?;
            let source = source.sub(first, source_pitch * (count - 1) + width)?;
            let to = to.further(row, slice);
            if to.array.0 != 0 && width > PIECE_BYTES {
                each_part(to, &source, &mut act)?;
            } else {
                act(Rows { source, source_pitch, to, width, count })?;
            }
            row += rows;
        }
    }
    Ok(())
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

/// Posts rows of host bytes.
fn send_rows(vgpu: &Vgpu, course: &Course, rows: &Rows) -> CudaResult<()> {
    if rows.width > PIECE_BYTES {
        return send(vgpu, course, rows.to.at.0, &rows.source, Passage::AT_ONCE);
    }
    let message = CopyBoxToDevice {
        stream: StreamId(course.stream()),
        to: rows.to,
        width: rows.width as u64,
        height: rows.count as u64,
        depth: 1,
        bytes: &[],
    };
    let sequence = vgpu.connection.post_filled(&message, rows.bytes(), |target| rows.pack(target))?;
    course.issue(sequence);
    vgpu.statistics.went_to_device(rows.bytes() as u64);
    Ok(())
}

impl Client {
    pub(super) fn copy_box(&self, stream: Stream, copy: &CopyBox, mode: Mode) -> CudaResult<()> {
        if let (Mode::Queues, Some(stream)) = (mode, self.capturing(stream)?) {
            return self.record_copy(&stream, copy);
        }
        let stream = self.working_stream(stream)?;
        self.copy_box_on(&stream, copy, mode)?;
        self.end_copy(mode, &stream, [first(&copy.destination), first(&copy.source)])
    }

    /// A copy of a graph, on the stream that launches the graph.
    pub(crate) fn copy_recorded(&self, stream: &StreamState, copy: &CopyBox) -> CudaResult<()> {
        self.copy_box_on(stream, copy, Mode::Recorded)
    }

    fn copy_box_on(&self, stream: &StreamState, copy: &CopyBox, mode: Mode) -> CudaResult<()> {
        if copy.is_empty() {
            return Ok(());
        }
        let shape = Shape::new(copy);
        if shape.is_line() && !copy.names_array() {
            let to = self.side_of(&copy.destination, &stream.vgpu)?;
            let from = self.side_of(&copy.source, &stream.vgpu)?;
            return self.copy_line(stream, to, from, shape.bytes(), mode);
        }
        let to = self.box_side(&copy.destination, copy, &stream.vgpu)?;
        let from = self.box_side(&copy.source, copy, &stream.vgpu)?;
        match (to, from) {
            (BoxSide::Device(to), BoxSide::Host(source)) => self.upload_box(stream, &to, source, shape, mode),
            (BoxSide::Host(target), BoxSide::Device(from)) => self.download_box(stream, target, &from, &shape, mode),
            (BoxSide::Device(to), BoxSide::Device(from)) => {
                self.move_box(stream, &to, &from, &shape)?;
                self.wait_where_managed(mode, stream, [to.end.at.0, from.end.at.0])
            }
            (BoxSide::Host(target), BoxSide::Host(source)) => {
                for row in copy.rows() {
                    let line = source.sub(row.source, copy.width)?;
                    self.move_on_host(stream, target.sub(row.destination, copy.width)?, line)?;
                }
                Ok(())
            }
        }
    }

    /// Where an end of `copy` is, and on which vGPU.
    fn box_side(&self, end: &CopyEnd, copy: &CopyBox, current: &Arc<Vgpu>) -> CudaResult<BoxSide> {
        if let CopyPlace::Array(array, at) = end.place {
            let array = self.array(array)?;
            if !array.shape.holds(at, [copy.width, copy.height, copy.depth]) {
                return Err(CudaError::INVALID_VALUE);
            }
            let end = BoxEnd::in_array(array.id, at.map(|offset| offset as u64));
            return Ok(BoxSide::Device(Place { end, memory: Resident::always(Arc::clone(&array.vgpu)) }));
        }
        match self.side_of(end, current)? {
            Side::Host(range) => Ok(BoxSide::Host(range)),
            Side::Device(at) => {
                let memory = self.device_memory(at, span(end) as u64, current)?;
                let end = BoxEnd::memory(floe_wire::DevicePtr(at.0), end.pitch as u64, end.slice as u64);
                Ok(BoxSide::Device(Place { end, memory }))
            }
        }
    }

    fn side_of(&self, end: &CopyEnd, vgpu: &Arc<Vgpu>) -> CudaResult<Side> {
        match end.place {
            CopyPlace::Host(range) => {
                check_host(&range)?;
                Ok(self.managed_side(&range)?.map_or(Side::Host(range), Side::Device))
            }
            CopyPlace::Device(at, _) => Ok(Side::Device(at)),
            CopyPlace::Unified(range) => self.side(&range, vgpu),
            CopyPlace::Array(..) => Err(CudaError::NOT_SUPPORTED),
        }
    }

    /// The same copy with both ends told apart, checked as far as it can be before it is done.
    pub(crate) fn settled_box(&self, copy: &CopyBox, vgpu: &Arc<Vgpu>) -> CudaResult<CopyBox> {
        let settled = |end: &CopyEnd| -> CudaResult<CopyEnd> {
            let place = match self.side_of(end, vgpu)? {
                Side::Host(range) => CopyPlace::Host(range),
                Side::Device(at) => {
                    let bytes = span(end);
                    if self.host_side(at, bytes, vgpu).is_none() {
                        // Only recorded here: a launch of the graph gives it to the device again.
                        drop(self.device_memory(at, bytes as u64, vgpu)?);
                    }
                    CopyPlace::Device(at, bytes)
                }
            };
            Ok(CopyEnd { place, ..*end })
        };
        Ok(CopyBox { source: settled(&copy.source)?, destination: settled(&copy.destination)?, ..*copy })
    }

    /// A copy on a stream that is captured.
    pub(super) fn record_copy(&self, stream: &StreamState, copy: &CopyBox) -> CudaResult<()> {
        if copy.is_empty() {
            return Ok(());
        }
        copy.refuse_array()?;
        let copy = self.settled_box(copy, &stream.vgpu)?;
        self.record_work(stream, Work::Copy(Box::new(CopyWork::new(copy, stream.context()))))
    }

    fn copy_line(&self, stream: &StreamState, to: Side, from: Side, bytes: u64, mode: Mode) -> CudaResult<()> {
        match (to, from) {
            (Side::Device(to), Side::Host(from)) => self.upload(stream, to, from, mode),
            (Side::Host(to), Side::Device(from)) => self.download(stream, to, from, mode),
            (Side::Device(to), Side::Device(from)) => self.move_line(stream, to, from, bytes, mode),
            (Side::Host(to), Side::Host(from)) => self.move_on_host(stream, to, from),
        }
    }

    fn upload_box(
        &self,
        stream: &StreamState,
        to: &Place,
        source: HostRange,
        shape: Shape,
        mode: Mode,
    ) -> CudaResult<()> {
        let vgpu = to.memory.vgpu();
        if !to.memory.is_on(&stream.vgpu) {
            return self.with_remote(stream, vgpu, |remote| self.upload_box(remote, to, source, shape, mode));
        }
        if self.is_shared(&source, vgpu)? {
            vgpu.statistics.read_by_device(shape.bytes());
            move_by_device(stream, to.end, shape.shared_source(&source), &shape)?;
            return Self::wait_where(mode, stream);
        }
        if self.must_read_late(stream, &source, mode)? {
            return each_rows(to.end, &source, &shape, |rows| Self::copy_rows_late(stream, rows));
        }
        each_rows(to.end, &source, &shape, |rows| send_rows(vgpu, stream.course(), &rows))
    }

    /// Puts rows on `stream` that are read when the stream gets there.
    fn copy_rows_late(stream: &StreamState, rows: Rows) -> CudaResult<()> {
        if rows.width > PIECE_BYTES {
            return Self::copy_late(stream, rows.to.at.0, &rows.source);
        }
        let Rows { to, width, count, .. } = rows;
        Self::copy_piece_late(stream, LateRows { to, width, height: count as u64 }, move || {
            let mut bytes = vec![0; rows.bytes()];
            rows.pack(&mut bytes);
            bytes
        })
    }

    fn download_box(
        &self,
        stream: &StreamState,
        target: HostRange,
        from: &Place,
        shape: &Shape,
        mode: Mode,
    ) -> CudaResult<()> {
        let vgpu = from.memory.vgpu();
        if !from.memory.is_on(&stream.vgpu) {
            return self
                .with_remote(stream, vgpu, |remote| self.download_box(remote, target, from, shape, Mode::Waits));
        }
        if self.is_shared(&target, vgpu)? {
            vgpu.statistics.written_by_device(shape.bytes());
            move_by_device(stream, shape.shared_target(&target), from.end, shape)?;
            return Self::wait_where(mode, stream);
        }
        let message = CopyBoxFromDevice {
            stream: stream.id(),
            from: from.end,
            width: shape.width,
            height: shape.height,
            depth: shape.depth,
        };
        let rows = Target::Box(BoxTarget {
            range: target,
            pitch: shape.to_pitch,
            slice: shape.to_slice,
            width: shape.width,
            height: shape.height,
            depth: shape.depth,
        });
        vgpu.statistics.came_from_device(shape.bytes());
        let connection = &vgpu.connection;
        if self.may_arrive_late(&target, mode) {
            return connection.fetch_unwatched(&message, rows, stream.course());
        }
        let ticket = connection.fetch(&message, rows, stream.course())?;
        connection.wait(&ticket)?;
        vgpu.errors.report()
    }

    fn move_box(&self, stream: &StreamState, to: &Place, from: &Place, shape: &Shape) -> CudaResult<()> {
        if !from.memory.is_on(to.memory.vgpu()) {
            return self.move_between_devices(stream, to, from, shape);
        }
        if !from.memory.is_on(&stream.vgpu) {
            let there = from.memory.vgpu();
            return self.with_remote(stream, there, |remote| self.move_box(remote, to, from, shape));
        }
        move_by_device(stream, to.end, from.end, shape)
    }

    /// From one vGPU to another, row by row through the client.
    fn move_between_devices(&self, stream: &StreamState, to: &Place, from: &Place, shape: &Shape) -> CudaResult<()> {
        if to.end.array.0 != 0 || from.end.array.0 != 0 {
            log!(Warn, "copies of arrays between vGPUs are not supported\n  copy by way of host memory instead");
            return Err(CudaError::NOT_SUPPORTED);
        }
        for slice in 0..shape.depth {
            for row in 0..shape.height {
                let at = |place: &Place| DevicePtr(place.end.further(row, slice).at.0);
                self.relay(stream, (at(to), &to.memory), (at(from), &from.memory), shape.width)?;
            }
        }
        Ok(())
    }
}

/// Queues a copy of a box both ends of which the device reaches.
fn move_by_device(stream: &StreamState, to: BoxEnd, from: BoxEnd, shape: &Shape) -> CudaResult<()> {
    let Shape { width, height, depth, .. } = *shape;
    stream.post(&CopyBoxOnDevice { stream: stream.id(), to, from, width, height, depth })
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
