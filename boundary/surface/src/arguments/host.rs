//! Memory of the program as the driver API passes it: an address and a length C vouched for. Marshallers make ranges,
//! implementations read and write them through safe methods. A range never outlives the promise it rests on: that the
//! program keeps the memory valid until the operation it was passed to has completed.

use floe_abi::{CudaError, CudaResult, DevicePtr, HostPointer};
use std::ffi::c_void;

/// Host memory of the program, `len` bytes from an address, valid until the operation it was passed to completes.
///
/// CUDA's own contract makes this sound. Until an operation has completed, nobody writes the memory that it reads, and
/// nobody touches the memory that it writes. Bytes are copied, or borrowed within one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostRange {
    pub(crate) address: u64,
    pub(crate) len: usize,
}

impl HostRange {
    /// A range the program passed.
    ///
    /// # Safety
    /// Until the operation has completed, the memory is readable, and writable where the operation writes. Nobody else
    /// uses it in conflict with the operation meanwhile.
    pub unsafe fn new(address: HostPointer, len: usize) -> Self {
        Self { address: address.0, len }
    }

    /// Its first address.
    pub fn pointer(&self) -> HostPointer {
        HostPointer(self.address)
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds no byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The `len` bytes from `offset` on.
    ///
    /// # Errors
    /// INVALID_VALUE where they do not lie within this range.
    pub fn sub(&self, offset: usize, len: usize) -> CudaResult<Self> {
        let end = offset.checked_add(len).ok_or(CudaError::INVALID_VALUE)?;
        if end > self.len {
            return Err(CudaError::INVALID_VALUE);
        }
        Ok(Self { address: self.address + offset as u64, len })
    }

    /// Copies the bytes from the start into `target`.
    ///
    /// # Errors
    /// INVALID_VALUE where `target` is longer than the range.
    pub fn read_into(&self, target: &mut [u8]) -> CudaResult<()> {
        let from = self.sub(0, target.len())?;
        if !target.is_empty() {
            // SAFETY: `new`'s caller vouched for `len` readable bytes, and `sub` checked that these are among them.
            // `target` is our own, so the two cannot overlap in conflict.
            unsafe { std::ptr::copy(from.address as *const u8, target.as_mut_ptr(), target.len()) };
        }
        Ok(())
    }

    /// Whether the bytes from the start are these. Somebody may write them meanwhile; then both answers are right.
    pub fn holds(&self, bytes: &[u8]) -> bool {
        let compare = |part: Self| {
            // SAFETY: `new`'s caller vouched for `len` readable bytes, and `sub` checked that these are among them. C's
            // function reads both sides and keeps nothing; a reference of Rust's would need bytes that do not change.
            unsafe { libc::memcmp(part.address as *const c_void, bytes.as_ptr().cast(), bytes.len()) == 0 }
        };
        self.sub(0, bytes.len()).is_ok_and(|part| bytes.is_empty() || compare(part))
    }

    /// All bytes, copied.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        self.read_into(&mut bytes).expect("the vector has the range's length");
        bytes
    }

    /// Appends all bytes to `target`.
    pub fn append_to(&self, target: &mut Vec<u8>) {
        let start = target.len();
        target.resize(start + self.len, 0);
        self.read_into(&mut target[start..]).expect("the tail has the range's length");
    }

    /// Writes `source` to the start of the range.
    ///
    /// # Errors
    /// INVALID_VALUE where `source` is longer than the range.
    pub fn write(&self, source: &[u8]) -> CudaResult<()> {
        let to = self.sub(0, source.len())?;
        if !source.is_empty() {
            // SAFETY: `new`'s caller vouched for `len` writable bytes and `sub` checked that these are among them.
            unsafe { std::ptr::copy(source.as_ptr(), to.address as *mut u8, source.len()) };
        }
        Ok(())
    }

    /// Has `fill` write the range in place. `fill` must not reach these bytes in another way.
    ///
    /// # Errors
    /// The answer of `fill`.
    pub fn lend<E>(&self, fill: &mut dyn FnMut(&mut [u8]) -> Result<(), E>) -> Result<(), E> {
        if self.len == 0 {
            return fill(&mut []);
        }
        // SAFETY: `new`'s caller vouched for `len` writable bytes, which nobody else uses until their operation has
        // completed. The operation uses them here only.
        fill(unsafe { std::slice::from_raw_parts_mut(self.address as *mut u8, self.len) })
    }

    /// Has `take` read the range in place.
    pub fn show(&self, take: &mut dyn FnMut(&[u8])) {
        if self.len == 0 {
            return take(&[]);
        }
        // SAFETY: `new`'s caller vouched for `len` readable bytes that nobody writes until the operation has completed.
        take(unsafe { std::slice::from_raw_parts(self.address as *const u8, self.len) });
    }

    /// Copies the first `len` bytes of `source` to the start of this range; the two may overlap.
    ///
    /// # Errors
    /// INVALID_VALUE where either is shorter.
    pub fn copy_from(&self, source: &Self, len: usize) -> CudaResult<()> {
        let (to, from) = (self.sub(0, len)?, source.sub(0, len)?);
        if len != 0 {
            // SAFETY: both ranges were vouched for, and `copy` allows overlap.
            unsafe { std::ptr::copy(from.address as *const u8, to.address as *mut u8, len) };
        }
        Ok(())
    }
}

/// Memory on either side of a unified address space: only an implementation knows which addresses are its device's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnifiedRange {
    range: HostRange,
}

impl UnifiedRange {
    /// A range the program passed.
    ///
    /// # Safety
    /// As [`HostRange::new`], wherever the address is not a device's.
    pub unsafe fn new(address: DevicePtr, len: usize) -> Self {
        // SAFETY: passed on to our caller, for the case that it is host memory.
        Self { range: unsafe { HostRange::new(HostPointer(address.0), len) } }
    }

    /// The address, as a device address.
    pub fn device(&self) -> DevicePtr {
        DevicePtr(self.range.address)
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.range.len
    }

    /// Whether it holds no byte.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// The range as host memory. Only for an address that is not the device's: in that case alone the program vouched
    /// for it as host memory. An address that is neither ends the program, as in a copy by hand.
    pub fn host(&self) -> HostRange {
        self.range
    }
}

/// A function of the program, to be called once in the program's process when its stream gets there.
#[derive(Clone, Copy, Debug)]
pub struct HostFunction {
    function: unsafe extern "C" fn(*mut c_void),
    user: u64,
}

impl HostFunction {
    /// The function and its argument as `cuLaunchHostFunc` was given them.
    ///
    /// # Safety
    /// The program promised that the function may be called with this argument, from another thread.
    pub unsafe fn new(function: unsafe extern "C" fn(*mut c_void), user: *mut c_void) -> Self {
        Self { function, user: user as u64 }
    }

    /// The function's address.
    pub fn address(&self) -> u64 {
        self.function as usize as u64
    }

    /// Its argument.
    pub fn user(&self) -> u64 {
        self.user
    }

    /// Calls it. The function makes no driver calls, as CUDA demands.
    pub fn call(self) {
        // SAFETY: `new`'s caller passed on the program's promise.
        unsafe { (self.function)(self.user as *mut c_void) }
    }
}

/// A function of the program that also gets its stream and the stream's status.
#[derive(Clone, Copy, Debug)]
pub struct StreamCallback {
    function: unsafe extern "C" fn(u64, u32, *mut c_void),
    stream: u64,
    user: u64,
}

impl StreamCallback {
    /// The function and its argument as `cuStreamAddCallback` was given them; `stream` is the handle the program
    /// passed, which it gets back.
    ///
    /// # Safety
    /// The program promised that the function may be called with this argument, from another thread.
    pub unsafe fn new(function: unsafe extern "C" fn(u64, u32, *mut c_void), stream: u64, user: *mut c_void) -> Self {
        Self { function, stream, user: user as u64 }
    }

    /// Calls it with the stream's status.
    pub fn call(self, status: CudaResult<()>) {
        let code = floe_abi::CuResult::from(status).0;
        // SAFETY: `new`'s caller passed on the program's promise.
        unsafe { (self.function)(self.stream, code, self.user as *mut c_void) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostBlock;

    #[test]
    fn a_range_reads_writes_and_refuses_bytes_outside() {
        let block = HostBlock::new(8).expect("memory");
        let range = block.range();
        range.write(&[1, 2, 3, 4]).expect("fits");
        assert_eq!(range.to_vec(), [1, 2, 3, 4, 0, 0, 0, 0]);
        assert_eq!(range.sub(2, 2).expect("within").to_vec(), [3, 4]);
        assert_eq!(range.sub(7, 2), Err(CudaError::INVALID_VALUE));
        assert_eq!(range.sub(usize::MAX, 2), Err(CudaError::INVALID_VALUE));
        assert_eq!(range.write(&[0; 9]), Err(CudaError::INVALID_VALUE));
    }

    #[test]
    fn a_range_holds_what_is_equal_to_its_last_byte() {
        let block = HostBlock::new(3 * 4096 + 5).expect("memory");
        let mut bytes = block.range().to_vec();
        for at in [0, 4095, 4096, bytes.len() - 1] {
            assert!(block.range().holds(&bytes));
            bytes[at] = 1;
            assert!(!block.range().holds(&bytes));
            block.range().write(&bytes).expect("fits");
        }
        assert!(block.range().holds(&bytes[..7]) && block.range().holds(&[]));
        bytes.push(0);
        assert!(!block.range().holds(&bytes));
    }

    #[test]
    fn overlapping_copy_keeps_the_source_bytes() {
        let block = HostBlock::new(6).expect("memory");
        block.range().write(&[1, 2, 3, 4, 5, 6]).expect("fits");
        let to = block.range().sub(1, 5).expect("within");
        to.copy_from(&block.range(), 5).expect("both long enough");
        assert_eq!(block.range().to_vec(), [1, 1, 2, 3, 4, 5]);
    }
}
