//! Pitched copies as implementations see them: two ends and a box of bytes. C's structs come in with memory types,
//! offsets and pitches; ends with every offset applied and every extent checked go out. How large an array is only the
//! implementation knows.

use crate::arguments::host::{HostRange, UnifiedRange};
use crate::expansion::say_once;
use floe_abi::{
    Array, Context, CudaError, CudaResult, DevicePtr, HostPointer, Memcpy2d, Memcpy3d, Memcpy3dBatchOperation,
    Memcpy3dOperand, Memcpy3dPeer, copy_operand_type, location_type, memory_type,
};

/// A box of bytes from one place to another: `depth` slices of `height` rows of `width` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyBox {
    /// Read from here.
    pub source: CopyEnd,
    /// Written there.
    pub destination: CopyEnd,
    /// Bytes per row.
    pub width: usize,
    /// Rows per slice.
    pub height: usize,
    /// Slices.
    pub depth: usize,
}

/// One end of a [`CopyBox`]; its place starts at the box's first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyEnd {
    /// The range, from the first byte of the box to its last.
    pub place: CopyPlace,
    /// Bytes from one row to the next.
    pub pitch: usize,
    /// Bytes from one slice to the next.
    pub slice: usize,
}

impl CopyEnd {
    /// The address by which it names memory that a device may have.
    pub fn device(&self) -> Option<DevicePtr> {
        match &self.place {
            CopyPlace::Device(at, _) => Some(*at),
            CopyPlace::Unified(range) => Some(range.device()),
            CopyPlace::Host(_) | CopyPlace::Array(..) => None,
        }
    }
}

/// Which kind of memory an end is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyPlace {
    /// The program's own.
    Host(HostRange),
    /// The device's; `len` bytes.
    Device(DevicePtr, usize),
    /// Only the implementation can tell.
    Unified(UnifiedRange),
    /// An array, from a byte of a row, a row and a slice on. Its end has no pitch.
    Array(Array, [usize; 3]),
}

/// A box from one place to another, and the contexts that say whose the places are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerBox {
    /// The box.
    pub copy: CopyBox,
    /// The source's context; `None`: an array, which knows its own, or host memory without one.
    pub source: Option<Context>,
    /// The destination's.
    pub destination: Option<Context>,
}

impl PeerBox {
    /// The box `cuMemcpy3DPeer` was given.
    ///
    /// # Errors
    /// As [`CopyBox::from_2d`]. A context that is NULL is the implementation's to refuse, as any that is none.
    ///
    /// # Safety
    /// As [`CopyBox::from_2d`].
    pub unsafe fn from_3d(copy: &Memcpy3dPeer) -> CudaResult<Self> {
        let context = |kind, context: Context| match kind {
            memory_type::ARRAY => None,
            memory_type::HOST if context.is_null() => None,
            _ => Some(context),
        };
        Ok(Self {
            // SAFETY: passed on to our caller.
            copy: unsafe { CopyBox::from_3d(&copy.without_contexts()) }?,
            source: context(copy.source_memory_type, copy.source_context),
            destination: context(copy.destination_memory_type, copy.destination_context),
        })
    }

    /// Destination and source, each with its context.
    pub fn ends(&self) -> [(&CopyEnd, Option<Context>); 2] {
        [(&self.copy.destination, self.destination), (&self.copy.source, self.source)]
    }
}

/// One row of a [`CopyBox`]: offsets in bytes from the ends' first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyRow {
    /// In the source.
    pub source: usize,
    /// In the destination.
    pub destination: usize,
}

impl CopyBox {
    /// Bytes the copy moves.
    pub fn bytes(&self) -> usize {
        // The extents were checked against both ends when the box was made, so this cannot overflow.
        self.width * self.height * self.depth
    }

    /// Whether it moves nothing.
    pub fn is_empty(&self) -> bool {
        self.width == 0 || self.height == 0 || self.depth == 0
    }

    /// All rows, slice by slice.
    pub fn rows(&self) -> impl Iterator<Item = CopyRow> + '_ {
        (0..self.depth).flat_map(move |z| {
            (0..self.height).map(move |y| CopyRow {
                source: z * self.source.slice + y * self.source.pitch,
                destination: z * self.destination.slice + y * self.destination.pitch,
            })
        })
    }

    /// Whether an end is an array.
    pub fn names_array(&self) -> bool {
        [self.source.place, self.destination.place].iter().any(|place| matches!(place, CopyPlace::Array(..)))
    }

    /// `bytes` bytes in one row, from one place to another.
    pub fn line(destination: CopyPlace, source: CopyPlace, bytes: usize) -> Self {
        let end = |place| CopyEnd { place, pitch: bytes, slice: bytes };
        Self { source: end(source), destination: end(destination), width: bytes, height: 1, depth: 1 }
    }

    /// The box `cuMemcpy2D` was given.
    ///
    /// # Errors
    /// INVALID_VALUE for pitches, extents and addresses that do not fit one another.
    ///
    /// # Safety
    /// The program's contract for both ends, as [`HostRange::new`].
    pub unsafe fn from_2d(copy: &Memcpy2d) -> CudaResult<Self> {
        let extent = [copy.width_bytes, copy.height, 1];
        let source = RawEnd {
            kind: copy.source_memory_type,
            host: copy.source_host,
            device: copy.source_device,
            array: copy.source_array,
            pitch: copy.source_pitch,
            rows: 0,
            at: [copy.source_x_bytes, copy.source_y, 0],
            level: 0,
        };
        let destination = RawEnd {
            kind: copy.destination_memory_type,
            host: copy.destination_host,
            device: copy.destination_device,
            array: copy.destination_array,
            pitch: copy.destination_pitch,
            rows: 0,
            at: [copy.destination_x_bytes, copy.destination_y, 0],
            level: 0,
        };
        // SAFETY: passed on to our caller.
        unsafe { Self::new(&source, &destination, extent) }
    }

    /// The box `cuMemcpy3D` was given.
    ///
    /// # Errors
    /// As [`CopyBox::from_2d`].
    ///
    /// # Safety
    /// As [`CopyBox::from_2d`].
    pub unsafe fn from_3d(copy: &Memcpy3d) -> CudaResult<Self> {
        let extent = [copy.width_bytes, copy.height, copy.depth];
        let source = RawEnd {
            kind: copy.source_memory_type,
            host: copy.source_host,
            device: copy.source_device,
            array: copy.source_array,
            pitch: copy.source_pitch,
            rows: copy.source_height,
            at: [copy.source_x_bytes, copy.source_y, copy.source_z],
            level: copy.source_level,
        };
        let destination = RawEnd {
            kind: copy.destination_memory_type,
            host: copy.destination_host,
            device: copy.destination_device,
            array: copy.destination_array,
            pitch: copy.destination_pitch,
            rows: copy.destination_height,
            at: [copy.destination_x_bytes, copy.destination_y, copy.destination_z],
            level: copy.destination_level,
        };
        // SAFETY: passed on to our caller.
        unsafe { Self::new(&source, &destination, extent) }
    }

    /// A box of a batch. Element and byte are one where no end is an array.
    ///
    /// # Errors
    /// As [`CopyBox::from_2d`]; INVALID_VALUE for a box that moves nothing; NOT_SUPPORTED for arrays, whose elements would
    /// be counted.
    ///
    /// # Safety
    /// As [`CopyBox::from_2d`].
    pub unsafe fn from_batch(copy: &Memcpy3dBatchOperation) -> CudaResult<Self> {
        if copy.extent.contains(&0) {
            return Err(CudaError::INVALID_VALUE);
        }
        let source = RawEnd::from_operand(&copy.source, copy.extent)?;
        let destination = RawEnd::from_operand(&copy.destination, copy.extent)?;
        // SAFETY: passed on to our caller.
        unsafe { Self::new(&source, &destination, copy.extent) }
    }

    /// # Safety
    /// As [`CopyBox::from_2d`].
    unsafe fn new(source: &RawEnd, destination: &RawEnd, extent: [usize; 3]) -> CudaResult<Self> {
        Ok(Self {
            // SAFETY: passed on to our caller.
            source: unsafe { source.place(extent) }?,
            // SAFETY: passed on to our caller.
            destination: unsafe { destination.place(extent) }?,
            width: extent[0],
            height: extent[1],
            depth: extent[2],
        })
    }
}

/// One end as C describes it.
struct RawEnd {
    kind: u32,
    host: u64,
    device: u64,
    array: u64,
    pitch: usize,
    rows: usize,
    at: [usize; 3],
    level: usize,
}

impl RawEnd {
    fn from_operand(end: &Memcpy3dOperand, [width, height, _]: [usize; 3]) -> CudaResult<Self> {
        let too_short = |strides: usize, least: usize| strides != 0 && strides < least;
        let kind = match end.kind {
            copy_operand_type::POINTER => memory_type::UNIFIED,
            copy_operand_type::ARRAY => {
                say_once("batch of arrays", || {
                    "arrays in batches of copies (cuMemcpy3DBatchAsync) are not supported".to_owned()
                });
                return Err(CudaError::NOT_SUPPORTED);
            }
            _ => return Err(CudaError::INVALID_VALUE),
        };
        if end.hint.kind > location_type::HOST_NUMA_CURRENT {
            return Err(CudaError::INVALID_VALUE);
        }
        if too_short(end.row_length, width) || too_short(end.layer_height, height) {
            return Err(CudaError::INVALID_VALUE);
        }
        let (pitch, rows) = (end.row_length, end.layer_height);
        Ok(Self { kind, host: 0, device: end.place, array: 0, pitch, rows, at: [0; 3], level: 0 })
    }

    /// # Safety
    /// As [`CopyBox::from_2d`].
    unsafe fn place(&self, extent: [usize; 3]) -> CudaResult<CopyEnd> {
        if self.kind == memory_type::ARRAY {
            return self.place_in_array(extent);
        }
        let (pitch, slice) = self.strides(extent)?;
        let start = self.start(pitch, slice).ok_or(CudaError::INVALID_VALUE)?;
        let len = span(extent, pitch, slice).ok_or(CudaError::INVALID_VALUE)?;
        let base = if self.kind == memory_type::HOST { self.host } else { self.device };
        let address = base.checked_add(start as u64).ok_or(CudaError::INVALID_VALUE)?;
        if len != 0 && (base == 0 || address.checked_add(len as u64).is_none()) {
            return Err(CudaError::INVALID_VALUE);
        }
        let place = match self.kind {
            // SAFETY: our caller vouches for the host end, whose bytes these are.
            memory_type::HOST => CopyPlace::Host(unsafe { HostRange::new(HostPointer(address), len) }),
            memory_type::DEVICE => CopyPlace::Device(DevicePtr(address), len),
            // SAFETY: as for the host end.
            memory_type::UNIFIED => CopyPlace::Unified(unsafe { UnifiedRange::new(DevicePtr(address), len) }),
            _ => return Err(CudaError::INVALID_VALUE),
        };
        Ok(CopyEnd { place, pitch, slice })
    }

    fn place_in_array(&self, extent: [usize; 3]) -> CudaResult<CopyEnd> {
        // The bytes of the box must fit a number, however large the array is.
        span(extent, extent[0], 0).ok_or(CudaError::INVALID_VALUE)?;
        // Where there is no array, the driver does not look at the level.
        if self.array == 0 || self.level != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        Ok(CopyEnd { place: CopyPlace::Array(Array(self.array), self.at), pitch: 0, slice: 0 })
    }

    /// Pitch and slice in bytes. A pitch of 0 means rows without a gap and a height of 0 slices without one, as NVIDIA's
    /// driver takes them; it does not look at either where nothing is copied.
    fn strides(&self, extent: [usize; 3]) -> CudaResult<(usize, usize)> {
        if extent.contains(&0) {
            return Ok((0, 0));
        }
        let row = self.at[0].checked_add(extent[0]).ok_or(CudaError::INVALID_VALUE)?;
        let last_row = self.at[1].checked_add(extent[1]).ok_or(CudaError::INVALID_VALUE)?;
        let pitch = if self.pitch == 0 { row } else { self.pitch };
        let rows = if self.rows == 0 { last_row } else { self.rows };
        if pitch < row || rows < last_row {
            return Err(CudaError::INVALID_VALUE);
        }
        Ok((pitch, pitch.checked_mul(rows).ok_or(CudaError::INVALID_VALUE)?))
    }

    fn start(&self, pitch: usize, slice: usize) -> Option<usize> {
        let rows = pitch.checked_mul(self.at[1])?;
        let slices = slice.checked_mul(self.at[2])?;
        self.at[0].checked_add(rows)?.checked_add(slices)
    }
}

/// Bytes from the first of a box to just past its last.
fn span(extent: [usize; 3], pitch: usize, slice: usize) -> Option<usize> {
    if extent.contains(&0) {
        return Some(0);
    }
    // The moved bytes themselves must be a number too, whatever the strides.
    extent[0].checked_mul(extent[1])?.checked_mul(extent[2])?;
    let rows = pitch.checked_mul(extent[1] - 1)?;
    let slices = slice.checked_mul(extent[2] - 1)?;
    extent[0].checked_add(rows)?.checked_add(slices)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rectangle() -> Memcpy2d {
        Memcpy2d {
            source_x_bytes: 4,
            source_y: 1,
            source_memory_type: memory_type::HOST,
            source_host: 0x1000,
            source_pitch: 32,
            destination_memory_type: memory_type::DEVICE,
            destination_device: 0x2000,
            destination_pitch: 64,
            width_bytes: 16,
            height: 3,
            ..Memcpy2d::default()
        }
    }

    #[test]
    fn offsets_are_applied_and_rows_stepped() {
        // SAFETY: the ends are never read.
        let copy = unsafe { CopyBox::from_2d(&rectangle()) }.expect("valid");
        let CopyPlace::Host(range) = copy.source.place else { panic!("host end") };
        assert_eq!((range.pointer(), range.len()), (HostPointer(0x1000 + 32 + 4), 2 * 32 + 16));
        assert_eq!(copy.destination.place, CopyPlace::Device(DevicePtr(0x2000), 2 * 64 + 16));
        let rows: Vec<_> = copy.rows().map(|row| (row.source, row.destination)).collect();
        assert_eq!(rows, [(0, 0), (32, 64), (64, 128)]);
        assert_eq!(copy.bytes(), 48);
    }

    #[test]
    fn pitch_shorter_than_a_row_is_refused_and_an_array_has_none() {
        let short = Memcpy2d { source_pitch: 19, ..rectangle() };
        // SAFETY: the ends are never read.
        assert_eq!(unsafe { CopyBox::from_2d(&short) }, Err(CudaError::INVALID_VALUE));
        let none = Memcpy2d { destination_memory_type: memory_type::ARRAY, destination_y: 7, ..rectangle() };
        // SAFETY: the ends are never read.
        assert_eq!(unsafe { CopyBox::from_2d(&none) }, Err(CudaError::INVALID_VALUE));
        let array = Memcpy2d { destination_array: 0x77, ..none };
        // SAFETY: the ends are never read.
        let copy = unsafe { CopyBox::from_2d(&array) }.expect("valid");
        let destination = CopyEnd { place: CopyPlace::Array(Array(0x77), [0, 7, 0]), pitch: 0, slice: 0 };
        assert!(copy.names_array() && copy.destination == destination);
        let huge = Memcpy2d { height: usize::MAX, ..rectangle() };
        // SAFETY: the ends are never read.
        assert_eq!(unsafe { CopyBox::from_2d(&huge) }, Err(CudaError::INVALID_VALUE));
    }

    #[test]
    fn pitch_of_0_means_rows_without_a_gap() {
        let tight = Memcpy2d { source_x_bytes: 0, source_pitch: 0, ..rectangle() };
        // SAFETY: the ends are never read.
        assert_eq!(unsafe { CopyBox::from_2d(&tight) }.expect("valid").source.pitch, 16);
    }

    #[test]
    fn boxes_of_a_batch_have_strides_of_their_own_and_are_packed_without() {
        let pointer = |place, row_length, layer_height| {
            let kind = copy_operand_type::POINTER;
            Memcpy3dOperand { kind, place, row_length, layer_height, ..Memcpy3dOperand::default() }
        };
        let (source, destination) = (pointer(0x1000, 64, 8), pointer(0x8000, 0, 0));
        let copy = Memcpy3dBatchOperation { source, destination, extent: [20, 3, 2], ..Default::default() };
        // SAFETY: the ends are never read.
        let made = |copy: &Memcpy3dBatchOperation| unsafe { CopyBox::from_batch(copy) };
        let rows: Vec<_> = made(&copy).expect("valid").rows().map(|row| (row.source, row.destination)).collect();
        assert_eq!(rows, [(0, 0), (64, 20), (128, 40), (512, 60), (576, 80), (640, 100)]);
        let array = Memcpy3dOperand { kind: copy_operand_type::ARRAY, ..source };
        let hinted = Memcpy3dOperand { hint: floe_abi::MemLocation { kind: 5, id: 0 }, ..source };
        for (refused, error) in [
            (Memcpy3dBatchOperation { extent: [20, 0, 2], ..copy }, CudaError::INVALID_VALUE),
            (Memcpy3dBatchOperation { source: pointer(0x1000, 19, 8), ..copy }, CudaError::INVALID_VALUE),
            (Memcpy3dBatchOperation { destination: pointer(0x8000, 0, 2), ..copy }, CudaError::INVALID_VALUE),
            (
                Memcpy3dBatchOperation { source: Memcpy3dOperand { kind: 3, ..source }, ..copy },
                CudaError::INVALID_VALUE,
            ),
            (Memcpy3dBatchOperation { source: array, ..copy }, CudaError::NOT_SUPPORTED),
            (Memcpy3dBatchOperation { source: hinted, ..copy }, CudaError::INVALID_VALUE),
            (Memcpy3dBatchOperation { source: pointer(0x1000, 1 << 62, 8), ..copy }, CudaError::INVALID_VALUE),
        ] {
            assert_eq!(made(&refused), Err(error), "{refused:?}");
        }
    }

    #[test]
    fn arrays_and_host_memory_need_no_context() {
        let copy = Memcpy3dPeer {
            source_memory_type: memory_type::ARRAY,
            source_array: 0x77,
            source_context: Context(0xbad),
            destination_memory_type: memory_type::DEVICE,
            destination_device: 0x8000,
            width_bytes: 4,
            height: 2,
            depth: 2,
            ..Memcpy3dPeer::default()
        };
        // SAFETY: the ends are never read.
        let contexts =
            |copy: &Memcpy3dPeer| unsafe { PeerBox::from_3d(copy) }.map(|copy| (copy.source, copy.destination));
        assert_eq!(contexts(&copy), Ok((None, Some(Context::NULL))));
        let host = Memcpy3dPeer { source_memory_type: memory_type::HOST, source_host: 0x4000, ..copy };
        assert_eq!(contexts(&host), Ok((Some(Context(0xbad)), Some(Context::NULL))));
        assert_eq!(contexts(&Memcpy3dPeer { source_context: Context::NULL, ..host }), Ok((None, Some(Context::NULL))));
        let level = |copy: Memcpy3dPeer| contexts(&Memcpy3dPeer { source_level: 1, ..copy });
        assert_eq!(level(copy), Err(CudaError::INVALID_VALUE));
        assert_eq!(level(host), contexts(&host), "only arrays have levels");
    }

    #[test]
    fn slices_are_pitch_times_height() {
        let copy = Memcpy3d {
            source_memory_type: memory_type::UNIFIED,
            source_device: 0x4000,
            source_pitch: 8,
            source_height: 5,
            source_z: 1,
            destination_memory_type: memory_type::DEVICE,
            destination_device: 0x8000,
            destination_pitch: 4,
            destination_height: 2,
            width_bytes: 4,
            height: 2,
            depth: 2,
            ..Memcpy3d::default()
        };
        // SAFETY: the ends are never read.
        let copy = unsafe { CopyBox::from_3d(&copy) }.expect("valid");
        let CopyPlace::Unified(range) = copy.source.place else { panic!("unified end") };
        assert_eq!(range.device(), DevicePtr(0x4000 + 40));
        let rows: Vec<_> = copy.rows().map(|row| (row.source, row.destination)).collect();
        assert_eq!(rows, [(0, 0), (8, 4), (40, 8), (48, 12)]);
    }
}
