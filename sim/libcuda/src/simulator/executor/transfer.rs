//! In: both ends of a copy, or the value of a fill. Out: the bytes moved, row by row.
//! Device ends are checked against what is mapped when the stream gets there; host ends are what the program promised.
//! It never waits and knows no stream.

use floe_abi::{CudaError, CudaResult};
use floe_machine::{Fault, Memory};
use floe_surface::HostRange;

/// One end of a copy.
#[derive(Clone, Debug)]
pub(crate) enum End {
    /// A device address.
    Device(u64),
    /// The program's own memory, valid until the copy is done.
    Host(HostRange),
    /// Bytes taken from the program's memory when it made the call.
    Bytes(Vec<u8>),
}

/// An end with the distances between its rows and slices, in bytes.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    pub(crate) end: End,
    pub(crate) row: u64,
    pub(crate) slice: u64,
}

/// A copy of a box of bytes.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    pub(crate) target: Side,
    pub(crate) source: Side,
    /// Bytes of a row, rows, slices.
    pub(crate) extent: [u64; 3],
}

/// A memset of rows.
#[derive(Clone, Debug)]
pub(crate) struct Fill {
    pub(crate) address: u64,
    /// Bytes from one row to the next.
    pub(crate) pitch: u64,
    /// The value, in the low `element` bytes.
    pub(crate) value: u32,
    /// Bytes of an element: 1, 2 or 4.
    pub(crate) element: u32,
    /// Elements of a row, rows.
    pub(crate) extent: [u64; 2],
}

/// Work for a transfer thread.
#[derive(Clone, Debug)]
pub(crate) enum Transfer {
    Copy(Copy),
    Fill(Fill),
}

impl Copy {
    /// A copy of `bytes` in one piece.
    pub(crate) fn linear(target: End, source: End, bytes: u64) -> Self {
        let side = |end| Side { end, row: bytes, slice: bytes };
        Self { target: side(target), source: side(source), extent: [bytes, 1, 1] }
    }

    fn run(&self, memory: &Memory) -> CudaResult<()> {
        let [width, height, depth] = self.extent;
        if self.target.is_dense(self.extent) && self.source.is_dense(self.extent) {
            return self.row(memory, 0, 0, width * height * depth);
        }
        for slice in 0..depth {
            for row in 0..height {
                let target = slice * self.target.slice + row * self.target.row;
                let source = slice * self.source.slice + row * self.source.row;
                self.row(memory, target, source, width)?;
            }
        }
        Ok(())
    }

    fn row(&self, memory: &Memory, target: u64, source: u64, bytes: u64) -> CudaResult<()> {
        let length = usize::try_from(bytes).map_err(|_| CudaError::INVALID_VALUE)?;
        match (&self.target.end, &self.source.end) {
            (End::Device(to), End::Device(from)) => memory.copy(to + target, from + source, length).map_err(broken),
            (End::Device(to), End::Bytes(bytes)) => {
                let bytes = part(bytes, source, length).ok_or(CudaError::INVALID_VALUE)?;
                memory.write(to + target, bytes).map_err(broken)
            }
            (End::Device(to), End::Host(range)) => {
                let part = sub(range, source, length)?;
                with_window(memory, to + target, length, |bytes| part.read_into(bytes))
            }
            (End::Host(range), End::Device(from)) => {
                let part = sub(range, target, length)?;
                with_window(memory, from + source, length, |bytes| part.write(bytes))
            }
            (End::Host(to), End::Host(from)) => sub(to, target, length)?.copy_from(&sub(from, source, length)?, length),
            (End::Host(to), End::Bytes(bytes)) => {
                sub(to, target, length)?.write(part(bytes, source, length).ok_or(CudaError::INVALID_VALUE)?)
            }
            (End::Bytes(_), _) => Err(CudaError::INVALID_VALUE),
        }
    }
}

impl Side {
    fn is_dense(&self, [width, height, depth]: [u64; 3]) -> bool {
        (self.row == width || height * depth <= 1) && (self.slice == width * height || depth <= 1)
    }
}

fn part(bytes: &[u8], start: u64, length: usize) -> Option<&[u8]> {
    let start = usize::try_from(start).ok()?;
    bytes.get(start..start.checked_add(length)?)
}

fn sub(range: &HostRange, start: u64, length: usize) -> CudaResult<HostRange> {
    let start = usize::try_from(start).map_err(|_| CudaError::INVALID_VALUE)?;
    range.sub(start, length)
}

/// Lets `use_bytes` have the mapped device memory at `address` as bytes of this process.
fn with_window<T>(
    memory: &Memory,
    address: u64,
    length: usize,
    use_bytes: impl FnOnce(&mut [u8]) -> CudaResult<T>,
) -> CudaResult<T> {
    let mapped = memory.mapped(address, length as u64).ok_or(CudaError::ILLEGAL_ADDRESS)?;
    // SAFETY: `mapped` vouches for `length` bytes until it is dropped, behind the use. Kernels and copies that race on them
    // are the program's own data race, and see old or new bytes as on a GPU. The mapping is shared with other views of it.
    use_bytes(unsafe { std::slice::from_raw_parts_mut(mapped.host(), length) })
}

fn broken(fault: Fault) -> CudaError {
    crate::simulator::log::note(format_args!("copy failed: {fault}"));
    CudaError::from_code(fault.kind.code()).unwrap_or(CudaError::ILLEGAL_ADDRESS)
}

impl Fill {
    fn run(&self, memory: &Memory) -> CudaResult<()> {
        let [width, height] = self.extent;
        if self.pitch == width * u64::from(self.element) {
            return self.row(memory, self.address, width * height);
        }
        (0..height).try_for_each(|row| self.row(memory, self.address + row * self.pitch, width))
    }

    fn row(&self, memory: &Memory, address: u64, count: u64) -> CudaResult<()> {
        let count = usize::try_from(count).map_err(|_| CudaError::INVALID_VALUE)?;
        memory.fill(address, self.value, self.element, count).map_err(broken)
    }
}

impl Transfer {
    /// Bytes it moves, for choosing its thread.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Copy(copy) => copy.extent.iter().product(),
            Self::Fill(fill) => fill.extent.iter().product::<u64>().saturating_mul(u64::from(fill.element)),
        }
    }

    /// Moves the bytes.
    ///
    /// # Errors
    /// ILLEGAL_ADDRESS where a device end is not mapped any more; rows before it were moved.
    pub(crate) fn run(&self, memory: &Memory) -> CudaResult<()> {
        match self {
            Self::Copy(copy) => copy.run(memory),
            Self::Fill(fill) => fill.run(memory),
        }
    }
}
