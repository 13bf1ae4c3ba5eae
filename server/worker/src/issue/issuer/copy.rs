//! Data between client and device, within the device, and between the device and shared memory.
//! In: bytes and ranges. Out: copies in stream order, through the transfer buffers where the host is one end.
//! Addresses are the driver's to judge: a program may name globals, which lie outside the window.

use std::sync::Arc;

use floe_abi::CudaError;
use floe_device::{ArrayPlace, Device, Pattern, Pinned as _, Rows, RowsEnd, RowsPlace};
use floe_wire::{
    BoxEnd, CopyBoxFromDevice, CopyBoxOnDevice, CopyBoxToDevice, CopyBulkToDevice, CopyFromDevice, CopyLate,
    CopyOnDevice, CopyRequests, CopyToDevice, DevicePtr, Fill, PIECE_BYTES, StreamId,
};

use super::{Answer, Issuer};
use floe_transport::{SendMode, transfer_bytes};

use crate::complete::completer::{Action, Lane, Task};
use crate::complete::events::CompletionEvent;
use crate::issue::fault::{Fault, violation};
use crate::memory::transfer_buffers::{UploadRange, Uploads};
use crate::memory::upload::Upload;

/// Bytes of a copy to the client up to which sockets get the pages of its pieces (zero-copy send). Larger copies exceed
/// the processor's caches, and copying them into the socket is faster. On an H200 host (300 MiB of third-level cache)
/// four connections carried 64 MiB at 15 to 16 GB/s copied and 20 to 21 by pages. They carried 256 MiB at 18 to 19
/// copied and 12 to 13 by pages.
const MOST_GIVEN: u64 = 64 << 20;

/// A copy to the client.
#[derive(Clone, Copy, Debug)]
struct Download {
    sequence: u64,
    stream: floe_abi::Stream,
    lane: Lane,
    send_mode: SendMode,
}

impl Download {
    /// Of so many bytes.
    fn new(sequence: u64, stream: floe_abi::Stream, lane: Lane, bytes: u64) -> Self {
        // This memory holds only results of this client afterwards, too.
        let send_mode = if bytes <= MOST_GIVEN { SendMode::PagesForGood } else { SendMode::Copy };
        Self { sequence, stream, lane, send_mode }
    }
}

/// A piece of a copy to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    rows: Rows,
    /// Its place in the whole, in bytes.
    offset: u64,
}

fn further(at: DevicePtr, bytes: u64) -> Result<DevicePtr, Fault> {
    at.offset(bytes).ok_or_else(|| CudaError::INVALID_VALUE.into())
}

fn product(factors: [u64; 3]) -> Result<u64, Fault> {
    let product = factors[0].checked_mul(factors[1]).and_then(|two| two.checked_mul(factors[2]));
    product.ok_or_else(|| CudaError::INVALID_VALUE.into())
}

fn size(bytes: u64) -> Result<usize, Fault> {
    usize::try_from(bytes).map_err(|_| CudaError::INVALID_VALUE.into())
}

/// An end of a box, looked up; arrays hold all of the box.
#[derive(Clone, Copy, Debug)]
enum BoxPlace {
    Memory { at: DevicePtr, pitch: u64, slice: u64 },
    Array(ArrayPlace),
}

impl BoxPlace {
    /// The place at which one of its slices begins.
    fn slice(&self, index: u64) -> Result<RowsPlace, Fault> {
        match *self {
            Self::Memory { at, pitch, slice } => {
                Ok(RowsPlace::Memory(further(at, product([index, slice, 1])?)?, pitch))
            }
            Self::Array(place) => {
                let [x, y, z] = place.at;
                Ok(RowsPlace::Array(ArrayPlace { at: [x, y, z + index], ..place }))
            }
        }
    }
}

impl<D: Device> CopyRequests for Issuer<D> {
    /// A copy whose bytes come on the bulk connections: waits until they are there.
    fn copy_bulk_to_device(&mut self, message: CopyBulkToDevice) -> Result<Answer, Fault> {
        let sequence = self.sequence;
        // Without them the session is over.
        let Some(upload) = self.shared.transfers.take(sequence) else { return Ok(Answer::Nothing) };
        self.upload_range = match &*upload {
            Upload::Pinned { range, .. } => Some(*range),
            Upload::Heap(heap) => {
                let device = &self.shared.device;
                let taken = self.uploads.take(device, size(message.bytes)?, || self.shared.queue.has_held_streams())?;
                let range = taken.ok_or(CudaError::OUT_OF_MEMORY)?;
                let memory = self.uploads.memory(range);
                heap.each(|at, bytes| memory.write(range.offset + at, bytes));
                Some(range)
            }
        };
        self.copy_to_device(CopyToDevice { stream: message.stream, to: message.to, bytes: &[] })
    }

    fn copy_to_device(&mut self, message: CopyToDevice<'_>) -> Result<Answer, Fault> {
        let stream = self.use_for_bytes(message.stream)?;
        let range = match self.upload_range.take() {
            Some(range) => Some(range),
            None if message.bytes.is_empty() => None,
            None => self.uploads.put(&self.shared.device, message.bytes, || self.shared.queue.has_held_streams())?,
        };
        let Some(range) = range else { return Ok(Answer::Nothing) };
        self.upload(&self.uploads, stream, range, |device, memory| {
            let to = message.to;
            Ok(device.upload(to, memory, range.offset, range.bytes, stream)?)
        })
    }

    /// A copy whose bytes the client reads when the stream gets there. They come past the issuer into a buffer of their
    /// own. No queued command has a part of that buffer, so there is always room in the end.
    fn copy_late(&mut self, message: &CopyLate) -> Result<Answer, Fault> {
        let sequence = self.sequence;
        let CopyLate { stream, function, to, width, height } = *message;
        let bytes = product([width, height, 1])?;
        if bytes == 0 || bytes > PIECE_BYTES as u64 {
            return violation(format!("{width} × {height} bytes are no piece"));
        }
        let place = self.box_place(&to, [width, height, 1])?.slice(0)?;
        let stream = self.stream_for_function(stream, function)?;
        let device = &self.shared.device;
        let bytes = size(bytes)?;
        // Other late copies end by themselves: their bytes come past this.
        let held = || self.shared.queue.has_waits() || self.functions.any_of_the_program();
        let taken = self.late.take(device, bytes, held);
        let range = match taken.and_then(|range| range.ok_or(CudaError::OUT_OF_MEMORY)) {
            Ok(range) => range,
            Err(error) => {
                // The client waits for its turn all the same.
                self.stand_behind(sequence, stream, function, Some(Box::new(|_| true)))?;
                return Err(error.into());
            }
        };
        let memory = self.late.memory(range);
        let fill = move |data: &[u8]| {
            let fits = data.len() == range.bytes;
            if fits {
                memory.write(range.offset, data);
            }
            fits
        };
        if let Err(fault) = self.stand_behind(sequence, stream, function, Some(Box::new(fill))) {
            self.late.drop_range(range);
            return Err(fault);
        }
        self.upload(&self.late, stream, range, |device, memory| {
            let copied = match (place, height) {
                (RowsPlace::Memory(at, _), 1) => device.upload(at, memory, range.offset, range.bytes, stream),
                _ => device.upload_rows(Rows { place, width, height }, memory, range.offset, stream),
            };
            copied.map_err(Fault::from)
        })
    }

    fn copy_from_device(&mut self, message: CopyFromDevice) -> Result<Answer, Fault> {
        let sequence = self.sequence;
        let place = RowsPlace::Memory(message.from, 0);
        let row = Rows { place, width: message.bytes, height: 1 };
        self.download(sequence, message.stream, message.bytes, [row].into_iter().map(Ok))
    }

    fn copy_box_from_device(&mut self, message: &CopyBoxFromDevice) -> Result<Answer, Fault> {
        let sequence = self.sequence;
        let CopyBoxFromDevice { stream, from, width, height, depth } = *message;
        let bytes = product([width, height, depth])?;
        let from = self.box_place(&from, [width, height, depth])?;
        let depth = if width == 0 || height == 0 { 0 } else { depth };
        let slices = (0..depth).map(|index| Ok(Rows { place: from.slice(index)?, width, height }));
        self.download(sequence, stream, bytes, slices)
    }

    fn copy_on_device(&mut self, message: CopyOnDevice) -> Result<Answer, Fault> {
        let stream = self.use_for_bytes(message.stream)?;
        let CopyOnDevice { to, from, bytes, .. } = message;
        let (to, from) = (self.sharing.end(to, bytes)?, self.sharing.end(from, bytes)?);
        let _inside = self.inside(stream)?;
        self.device().copy(to, from, bytes, stream)?;
        Ok(Answer::Nothing)
    }

    fn copy_box_to_device(&mut self, message: &CopyBoxToDevice<'_>) -> Result<Answer, Fault> {
        let CopyBoxToDevice { to, width, height, depth, bytes, .. } = *message;
        if size(product([width, height, depth])?)? != bytes.len() {
            return violation(format!("{width} × {height} × {depth} bytes are not: {}", bytes.len()));
        }
        let stream = self.use_stream(message.stream)?;
        let to = self.box_place(&to, [width, height, depth])?;
        if bytes.is_empty() {
            return Ok(Answer::Nothing);
        }
        let slice_bytes = bytes.len() / size(depth)?;
        let places = (0..depth).map(|index| to.slice(index)).collect::<Result<Vec<_>, Fault>>()?;
        let Some(range) = self.uploads.put(&self.shared.device, bytes, || self.shared.queue.has_held_streams())? else {
            return Ok(Answer::Nothing);
        };
        self.upload(&self.uploads, stream, range, |device, memory| {
            let mut offset = range.offset;
            for place in places {
                device.upload_rows(Rows { place, width, height }, memory, offset, stream)?;
                offset += slice_bytes;
            }
            Ok(())
        })
    }

    fn copy_box_on_device(&mut self, message: &CopyBoxOnDevice) -> Result<Answer, Fault> {
        let CopyBoxOnDevice { to, from, width, height, depth, .. } = *message;
        let stream = self.use_stream(message.stream)?;
        let extent = [width, height, depth];
        let (to, from) = (self.box_place(&to, extent)?, self.box_place(&from, extent)?);
        if product(extent)? == 0 {
            return Ok(Answer::Nothing);
        }
        for index in 0..depth {
            let to = self.end_of_rows(to.slice(index)?, [width, height])?;
            let from = self.end_of_rows(from.slice(index)?, [width, height])?;
            self.device().copy_rows(to, from, [width, height], stream)?;
        }
        Ok(Answer::Nothing)
    }

    fn fill(&mut self, message: Fill) -> Result<Answer, Fault> {
        let Fill { at, pitch, element, value, width, height, .. } = message;
        if !matches!(element, 1 | 2 | 4) {
            return violation(format!("not the size of an element: {element}"));
        }
        let stream = self.use_for_bytes(message.stream)?;
        if width != 0 && height != 0 {
            let _inside = self.inside(stream)?;
            self.device().fill(at, Pattern { element, value, width, height, pitch }, stream)?;
        }
        Ok(Answer::Nothing)
    }
}

impl<D: Device> Issuer<D> {
    fn box_place(&self, end: &BoxEnd, extent: [u64; 3]) -> Result<BoxPlace, Fault> {
        if end.array.0 == 0 {
            return Ok(BoxPlace::Memory { at: end.at, pitch: end.pitch, slice: end.slice });
        }
        self.array_place(end, extent).map(BoxPlace::Array)
    }

    /// Issues a copy from an upload range of `buffer`, which has it back when the copy has completed.
    fn upload(
        &self,
        buffer: &Uploads<D>,
        stream: floe_abi::Stream,
        range: UploadRange,
        copy: impl FnOnce(&D, &D::Pinned) -> Result<(), Fault>,
    ) -> Result<Answer, Fault> {
        let memory = buffer.memory(range);
        let copied = match self.inside(stream) {
            Ok(_inside) => copy(&self.shared.device, &memory),
            Err(error) => Err(error.into()),
        };
        // Also behind a copy that failed: slices of it may be in flight, and use the range until they have arrived.
        let completion = self.record_or_wait(stream);
        match &completion {
            Ok(completion) => buffer.put_in_flight(range, Arc::clone(completion)),
            Err(_) => buffer.drop_range(range),
        }
        copied?;
        completion?;
        Ok(Answer::Nothing)
    }

    /// A completion event behind what the stream holds. If the driver gives none, all work that uses transfer buffers
    /// is complete on return.
    pub(super) fn record_or_wait(&self, stream: floe_abi::Stream) -> Result<Arc<CompletionEvent<D>>, CudaError> {
        self.record(stream).inspect_err(|_| {
            // A context beyond use says so at once, and does nothing more either.
            let _inside = self.inside(stream);
            let _ = self.device().ctx_synchronize();
        })
    }

    /// Issues the copy of every slice, of so many `bytes` in all, in pieces, then the answer, which waits for the last piece. A
    /// failure is answered in line, after the pieces that were issued.
    fn download(
        &mut self,
        sequence: u64,
        id: StreamId,
        bytes: u64,
        slices: impl Iterator<Item = Result<Rows, Fault>>,
    ) -> Result<Answer, Fault> {
        let stream = self.use_for_bytes(id)?;
        let lane = Lane::Stream(id.0);
        let download = Download::new(sequence, stream, lane, bytes);
        let issued = self.issue_pieces(download, bytes, slices);
        let completions = match issued {
            Ok(Some(completion)) => {
                self.note_last(id, &completion);
                Ok(vec![completion])
            }
            Ok(None) => self.record(stream).map(|completion| vec![completion]),
            Err(Fault::Program(error) | Fault::Explained(error, _)) => Err(error),
            Err(violation) => return Err(violation),
        };
        Ok(self.answer_after(sequence, lane, completions))
    }

    fn issue_pieces(
        &mut self,
        download: Download,
        bytes: u64,
        slices: impl Iterator<Item = Result<Rows, Fault>>,
    ) -> Result<Option<Arc<CompletionEvent<D>>>, Fault> {
        // With bulk connections the first transfer is small, so that it leaves early.
        let is_striped = self.shared.stripes.any();
        let most = |done| if is_striped { transfer_bytes(bytes, done) } else { PIECE_BYTES as u64 };
        let (mut offset, mut last) = (0, None);
        for slice in slices {
            let slice = slice?;
            each_piece(
                slice,
                |done| most(offset + done),
                |mut piece| {
                    piece.offset += offset;
                    last = Some(self.issue_piece(download, piece)?);
                    Ok(())
                },
            )?;
            offset += product([slice.width, slice.height, 1])?;
        }
        Ok(last)
    }

    /// Issues the copy of one piece; the completion event behind it.
    fn issue_piece(&mut self, download: Download, piece: Piece) -> Result<Arc<CompletionEvent<D>>, Fault> {
        let Download { sequence, stream, lane, send_mode } = download;
        let bytes = size(product([piece.rows.width, piece.rows.height, 1])?)?;
        let device = &self.shared.device;
        let mut range = self.downloads.room(device, bytes, || self.shared.queue.has_held_streams())?;
        range.send_mode = send_mode;
        let inside = self.inside(stream)?;
        match piece.rows {
            Rows { place: RowsPlace::Memory(at, _), height: 1, .. } => {
                device.download(&range.memory, range.offset, at, bytes, stream)?;
            }
            rows => device.download_rows(&range.memory, range.offset, rows, stream)?,
        }
        drop(inside);
        let completion = self.record_or_wait(stream)?;
        let action = Action::Deliver { range, offset: piece.offset };
        self.wait_for(Task { sequence, lane, completions: vec![Arc::clone(&completion)], action });
        Ok(completion)
    }

    /// The end of a copy of at least one row.
    fn end_of_rows(&self, place: RowsPlace, [width, height]: [u64; 2]) -> Result<RowsEnd<'_, D::Mapped>, Fault> {
        let (at, pitch) = match place {
            RowsPlace::Memory(at, pitch) => (at, pitch),
            RowsPlace::Array(place) => return Ok(RowsEnd::Array(place)),
        };
        let bytes = product([height - 1, pitch, 1])?.checked_add(width).ok_or(CudaError::INVALID_VALUE)?;
        Ok(RowsEnd::Memory(self.sharing.end(at, bytes)?, pitch))
    }
}

/// Cuts a slice into pieces. `most` gives a piece's largest size by the bytes before it. Rows stay together where they
/// fit, else a piece is a part of a row.
fn each_piece(
    slice: Rows,
    most: impl Fn(u64) -> u64,
    mut issue: impl FnMut(Piece) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let Rows { place, width, height } = slice;
    let part = |row: u64, column: u64| -> Result<RowsPlace, Fault> {
        match place {
            RowsPlace::Memory(at, pitch) => {
                let bytes = product([row, pitch, 1])?.checked_add(column).ok_or(CudaError::INVALID_VALUE)?;
                Ok(RowsPlace::Memory(further(at, bytes)?, pitch))
            }
            RowsPlace::Array(place) => {
                let [x, y, z] = place.at;
                Ok(RowsPlace::Array(ArrayPlace { at: [x + column, y + row, z], ..place }))
            }
        }
    };
    if width == 0 {
        return Ok(());
    }
    let (mut row, mut column) = (0, 0);
    while row < height {
        let offset = product([row, width, 1])? + column;
        let most = most(offset).max(1);
        let together = if column == 0 { (most / width).min(height - row) } else { 0 };
        let rows = match together {
            0 => Rows { place: part(row, column)?, width: most.min(width - column), height: 1 },
            together => Rows { place: part(row, 0)?, width, height: together },
        };
        issue(Piece { rows, offset })?;
        column += rows.width;
        if column == width {
            (row, column) = (row + rows.height, 0);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    #[test]
    fn pages_are_given_of_copies_up_to_a_size() {
        use floe_transport::BorrowedBuffer as _;

        let device = Arc::new(crate::tests::Fake::default());
        let mut range =
            crate::memory::transfer_buffers::Downloads::new(1 << 20, &crate::memory::budget::Budget::default())
                .room(&device, 1 << 20, || false)
                .unwrap();
        assert_eq!(range.send_mode(), SendMode::Copy);
        for (bytes, send_mode) in [(64 << 20, SendMode::PagesForGood), ((64 << 20) + 1, SendMode::Copy)] {
            range.send_mode = Download::new(1, floe_abi::Stream::LEGACY, Lane::Alone(1), bytes).send_mode;
            assert_eq!(range.send_mode(), send_mode, "{bytes}");
        }
    }

    fn pieces(width: u64, height: u64, pitch: u64) -> Vec<(u64, u64, u64, u64)> {
        let mut seen = Vec::new();
        let slice = Rows { place: RowsPlace::Memory(DevicePtr(1 << 40), pitch), width, height };
        each_piece(
            slice,
            |_| PIECE_BYTES as u64,
            |piece| {
                let RowsPlace::Memory(at, _) = piece.rows.place else { panic!("memory") };
                seen.push((at.0 - (1 << 40), piece.rows.width, piece.rows.height, piece.offset));
                Ok(())
            },
        )
        .unwrap();
        seen
    }

    #[test]
    fn small_slice_is_one_piece() {
        assert_eq!(pieces(100, 3, 128), [(0, 100, 3, 0)]);
        assert_eq!(pieces(0, 3, 128), []);
    }

    #[test]
    fn rows_stay_together_up_to_a_piece() {
        let width = 1 << 20;
        assert_eq!(pieces(width, 6, 2 * width), [(0, width, 4, 0), (8 * width, width, 2, 4 * width)]);
    }

    #[test]
    fn wide_rows_are_cut() {
        let piece = PIECE_BYTES as u64;
        let width = piece + 5;
        let expected =
            [(0, piece, 1, 0), (piece, 5, 1, piece), (2 * piece, piece, 1, width), (3 * piece, 5, 1, width + piece)];
        assert_eq!(pieces(width, 2, 2 * piece), expected);
    }

    #[test]
    fn pieces_are_as_large_as_may_be_where_they_begin() {
        let mut seen = Vec::new();
        let slice = Rows { place: RowsPlace::Memory(DevicePtr(0), 100), width: 10, height: 6 };
        let most = |done| if done < 20 { 4 } else { 25 };
        each_piece(slice, most, |piece| {
            seen.push((piece.offset, piece.rows.width, piece.rows.height));
            Ok(())
        })
        .unwrap();
        let parts = [(0, 4, 1), (4, 4, 1), (8, 2, 1), (10, 4, 1), (14, 4, 1), (18, 2, 1)];
        assert_eq!(seen, [&parts[..], &[(20, 10, 2), (40, 10, 2)]].concat());
    }

    #[test]
    fn sizes_that_overflow_are_the_programs_mistake() {
        assert_eq!(product([u64::MAX, 2, 1]), Err(Fault::Program(CudaError::INVALID_VALUE)));
        assert_eq!(further(DevicePtr(u64::MAX), 1), Err(Fault::Program(CudaError::INVALID_VALUE)));
    }
}
