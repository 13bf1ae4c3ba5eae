//! Copies of boxes: rows with gaps between them, in two or three dimensions. Two ends and an extent come in. A box without
//! gaps is copied as a line; rows of a box travel packed, in pieces of whole rows.

use std::sync::Arc;

use floe_abi::{CudaError, CudaResult, DevicePtr, Stream};
use floe_surface::graph::{CopyWork, Work};
use floe_surface::{CopyBox, CopyEnd, CopyPlace, HostRange};
use floe_wire::{CopyBoxFromDevice, CopyBoxOnDevice, CopyBoxToDevice, PIECE_BYTES, StreamId};

use super::late::LateRows;
use super::{Mode, Passage, Side, check_host, send};
use crate::client::Client;
use crate::connection::{BoxTarget, Target};
use crate::order::Course;
use crate::session::Session;
use crate::stream::StreamState;

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
}

/// Bytes from an end's first to its last.
fn span(end: &CopyEnd) -> usize {
    match end.place {
        CopyPlace::Host(range) => range.len(),
        CopyPlace::Device(_, bytes) => bytes,
        CopyPlace::Unified(range) => range.len(),
    }
}

/// Whole rows of a box in host memory: as many as fit a message, or a row that fills several.
#[derive(Debug, Clone, Copy)]
struct Rows {
    /// From the first row's first byte to the last's last.
    source: HostRange,
    source_pitch: usize,
    to: u64,
    to_pitch: u64,
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

/// Cuts a box, of which no row is empty, into what one message carries, and rows that are larger.
fn each_rows(
    to: u64,
    source: &HostRange,
    shape: &Shape,
    mut act: impl FnMut(Rows) -> CudaResult<()>,
) -> CudaResult<()> {
    let size = |value: u64| usize::try_from(value).map_err(|_| CudaError::INVALID_VALUE);
    let (width, source_pitch) = (size(shape.width)?, size(shape.from_pitch)?);
    let rows_at_once = (PIECE_BYTES / width).max(1) as u64;
    for slice in 0..shape.depth {
        let (to, from) = (to + slice * shape.to_slice, slice * shape.from_slice);
        let mut row = 0;
        while row < shape.height {
            let rows = rows_at_once.min(shape.height - row);
            let count = size(rows)?;
            let first = size(from + row * shape.from_pitch)?;
            let source = source.sub(first, source_pitch * (count - 1) + width)?;
            let to = to + row * shape.to_pitch;
            act(Rows { source, source_pitch, to, to_pitch: shape.to_pitch, width, count })?;
            row += rows;
        }
    }
    Ok(())
}

/// Posts rows of host bytes.
fn send_rows(session: &Session, course: &Course, rows: &Rows) -> CudaResult<()> {
    if rows.width > PIECE_BYTES {
        return send(session, course, rows.to, &rows.source, Passage::AtOnce);
    }
    let message = CopyBoxToDevice {
        stream: StreamId(course.stream()),
        to: floe_wire::DevicePtr(rows.to),
        pitch: rows.to_pitch,
        slice: 0,
        width: rows.width as u64,
        height: rows.count as u64,
        depth: 1,
        bytes: &[],
    };
    let sequence = session.connection.post_filled(&message, rows.bytes(), |target| rows.pack(target))?;
    course.issue(sequence);
    session.statistics.went_to_device(rows.bytes() as u64);
    Ok(())
}

impl Client {
    pub(super) fn copy_box(&self, stream: Stream, copy: &CopyBox, mode: Mode) -> CudaResult<()> {
        if let (Mode::Queues, Some(stream)) = (mode, self.capturing(stream)?) {
            return self.record_copy(&stream, copy);
        }
        let stream = self.working_stream(stream)?;
        self.copy_box_on(&stream, copy, mode)
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
        let to = self.side_of(&copy.destination, &stream.session)?;
        let from = self.side_of(&copy.source, &stream.session)?;
        if shape.is_line() {
            return self.copy_line(stream, to, from, shape.bytes(), mode);
        }
        match (to, from) {
            (Side::Device(at), Side::Host(source)) => {
                self.upload_box(stream, at, span(&copy.destination), source, shape, mode)
            }
            (Side::Host(target), Side::Device(at)) => {
                self.download_box(stream, target, at, span(&copy.source), &shape, mode)
            }
            (Side::Device(to), Side::Device(from)) => {
                let spans = (span(&copy.destination), span(&copy.source));
                self.move_box(stream, to, from, spans, &shape)
            }
            (Side::Host(target), Side::Host(source)) => {
                for row in copy.rows() {
                    let line = source.sub(row.source, copy.width)?;
                    self.move_on_host(stream, target.sub(row.destination, copy.width)?, line)?;
                }
                Ok(())
            }
        }
    }

    fn side_of(&self, end: &CopyEnd, session: &Arc<Session>) -> CudaResult<Side> {
        match end.place {
            CopyPlace::Host(range) => {
                check_host(&range)?;
                Ok(self.managed_side(&range)?.map_or(Side::Host(range), Side::Device))
            }
            CopyPlace::Device(at, _) => Ok(Side::Device(at)),
            CopyPlace::Unified(range) => self.side(&range, session),
        }
    }

    /// The same copy with both ends told apart, checked as far as it can be before it is done.
    pub(crate) fn settled_box(&self, copy: &CopyBox, session: &Arc<Session>) -> CudaResult<CopyBox> {
        let settled = |end: &CopyEnd| -> CudaResult<CopyEnd> {
            let place = match self.side_of(end, session)? {
                Side::Host(range) => CopyPlace::Host(range),
                Side::Device(at) => {
                    let bytes = span(end);
                    if self.host_side(at, bytes, session).is_none() {
                        self.device_memory(at, bytes as u64, session)?;
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
        let copy = self.settled_box(copy, &stream.session)?;
        self.record_work(stream, Work::Copy(Box::new(CopyWork::new(copy, stream.context()))))
    }

    fn copy_line(&self, stream: &StreamState, to: Side, from: Side, bytes: u64, mode: Mode) -> CudaResult<()> {
        match (to, from) {
            (Side::Device(to), Side::Host(from)) => self.upload(stream, to, from, mode),
            (Side::Host(to), Side::Device(from)) => self.download(stream, to, from, mode),
            (Side::Device(to), Side::Device(from)) => self.move_on_device(stream, to, from, bytes),
            (Side::Host(to), Side::Host(from)) => self.move_on_host(stream, to, from),
        }
    }

    fn upload_box(
        &self,
        stream: &StreamState,
        to: DevicePtr,
        span: usize,
        source: HostRange,
        shape: Shape,
        mode: Mode,
    ) -> CudaResult<()> {
        let session = self.device_memory(to, span as u64, &stream.session)?;
        if !Arc::ptr_eq(&session, &stream.session) {
            return self.with_remote(stream, &session, |remote| self.upload_box(remote, to, span, source, shape, mode));
        }
        if self.is_shared(&source, &session)? {
            session.statistics.read_by_device(shape.bytes());
            move_by_device(stream, to.0, source.pointer().0, &shape)?;
            return Self::wait_where(mode, stream);
        }
        if self.must_read_late(stream, &source, mode)? {
            return each_rows(to.0, &source, &shape, |rows| Self::copy_rows_late(stream, rows));
        }
        each_rows(to.0, &source, &shape, |rows| send_rows(&session, stream.course(), &rows))
    }

    /// Puts rows on `stream` that are read when the stream gets there.
    fn copy_rows_late(stream: &StreamState, rows: Rows) -> CudaResult<()> {
        if rows.width > PIECE_BYTES {
            return Self::copy_late(stream, rows.to, &rows.source);
        }
        let Rows { to, to_pitch: pitch, width, count, .. } = rows;
        Self::copy_piece_late(stream, LateRows { to, pitch, width, height: count as u64 }, move || {
            let mut bytes = vec![0; rows.bytes()];
            rows.pack(&mut bytes);
            bytes
        })
    }

    fn download_box(
        &self,
        stream: &StreamState,
        target: HostRange,
        from: DevicePtr,
        span: usize,
        shape: &Shape,
        mode: Mode,
    ) -> CudaResult<()> {
        let session = self.device_memory(from, span as u64, &stream.session)?;
        if !Arc::ptr_eq(&session, &stream.session) {
            return self.with_remote(stream, &session, |remote| {
                self.download_box(remote, target, from, span, shape, Mode::Waits)
            });
        }
        if self.is_shared(&target, &session)? {
            session.statistics.written_by_device(shape.bytes());
            move_by_device(stream, target.pointer().0, from.0, shape)?;
            return Self::wait_where(mode, stream);
        }
        let message = CopyBoxFromDevice {
            stream: stream.id(),
            from: floe_wire::DevicePtr(from.0),
            pitch: shape.from_pitch,
            slice: shape.from_slice,
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
        session.statistics.came_from_device(shape.bytes());
        let connection = &session.connection;
        if self.may_arrive_late(&target, mode) {
            return connection.fetch_unwatched(&message, rows, stream.course());
        }
        let ticket = connection.fetch(&message, rows, stream.course())?;
        connection.wait(&ticket)?;
        session.errors.report()
    }

    fn move_box(
        &self,
        stream: &StreamState,
        to: DevicePtr,
        from: DevicePtr,
        spans: (usize, usize),
        shape: &Shape,
    ) -> CudaResult<()> {
        let target = self.device_memory(to, spans.0 as u64, &stream.session)?;
        let source = self.device_memory(from, spans.1 as u64, &stream.session)?;
        if !Arc::ptr_eq(&source, &target) {
            for slice in 0..shape.depth {
                for row in 0..shape.height {
                    let to = DevicePtr(to.0 + slice * shape.to_slice + row * shape.to_pitch);
                    let from = DevicePtr(from.0 + slice * shape.from_slice + row * shape.from_pitch);
                    self.relay(stream, (to, &target), (from, &source), shape.width)?;
                }
            }
            return Ok(());
        }
        if !Arc::ptr_eq(&source, &stream.session) {
            return self.with_remote(stream, &source, |remote| self.move_box(remote, to, from, spans, shape));
        }
        move_by_device(stream, to.0, from.0, shape)
    }
}

/// Queues a copy of a box both ends of which the device reaches.
fn move_by_device(stream: &StreamState, to: u64, from: u64, shape: &Shape) -> CudaResult<()> {
    stream.post(&CopyBoxOnDevice {
        stream: stream.id(),
        to: floe_wire::DevicePtr(to),
        to_pitch: shape.to_pitch,
        to_slice: shape.to_slice,
        from: floe_wire::DevicePtr(from),
        from_pitch: shape.from_pitch,
        from_slice: shape.from_slice,
        width: shape.width,
        height: shape.height,
        depth: shape.depth,
    })
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
