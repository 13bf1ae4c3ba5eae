//! Memory of the program as the driver API passes it: an address and a length C vouched for. Marshallers make ranges,
//! implementations read and write them through safe methods. A range never outlives the promise it rests on: that the
//! program keeps the memory valid until the operation it was passed to has completed.

use floe_abi::{CudaError, CudaResult, DevicePtr, HostPointer};
use std::ffi::c_void;
use std::ptr::NonNull;

/// Host memory of the program, `len` bytes from an address, valid until the operation it was passed to completes.
///
/// CUDA's own contract makes this sound: the program promised that nobody writes what an operation reads and that
/// nobody touches what it writes until the operation has completed. Bytes are copied, or borrowed within one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostRange {
    address: u64,
    len: usize,
}

impl HostRange {
    /// A range the program passed.
    ///
    /// # Safety
    /// The memory is readable, and writable where the operation writes, until the operation has completed, and nobody
    /// else uses it in conflict with the operation meanwhile.
    pub unsafe fn new(address: HostPointer, len: usize) -> Self {
        Self { address: address.0, len }
    }

    /// Where it starts.
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
            // SAFETY: `new`'s caller vouched for `len` readable bytes, `sub` checked that these are among them, and
            // `target` is our own, so the two cannot overlap in conflict.
            unsafe { std::ptr::copy(from.address as *const u8, target.as_mut_ptr(), target.len()) };
        }
        Ok(())
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
    /// What `fill` answers.
    pub fn lend<E>(&self, fill: &mut dyn FnMut(&mut [u8]) -> Result<(), E>) -> Result<(), E> {
        if self.len == 0 {
            return fill(&mut []);
        }
        // SAFETY: `new`'s caller vouched for `len` writable bytes that nobody else uses until the operation they were
        // passed to has completed, and for the operation this is the one use of them.
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

    /// The range as host memory. Only for an address that is not the device's: the program vouched for it as host
    /// memory in that case alone, and an address that is neither ends the program, as it does in a copy by hand.
    pub fn host(&self) -> HostRange {
        self.range
    }
}

/// Host memory the implementation itself hands to the program: zeroed, aligned to pages, freed when dropped.
#[derive(Debug)]
pub struct HostBlock {
    start: NonNull<u8>,
    /// How it was taken: from the allocator, or `None` for pages of its own.
    layout: Option<std::alloc::Layout>,
    len: usize,
}

// SAFETY: the block is plain memory that nobody else owns; all access goes through ranges, whose users answer for it.
unsafe impl Send for HostBlock {}
// SAFETY: as above; the methods only read the address and the length.
unsafe impl Sync for HostBlock {}

impl HostBlock {
    /// Takes `len` bytes; `None` where there is no memory or `len` is 0.
    pub fn new(len: usize) -> Option<Self> {
        let layout = std::alloc::Layout::from_size_align(pages(len)?, PAGE).ok()?;
        // SAFETY: the layout's size is not 0.
        let start = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })?;
        Some(Self { start, layout: Some(layout), len })
    }

    /// Takes `len` bytes at an address, a multiple of the page size; `None` where any of them is taken.
    pub fn at(address: HostPointer, len: usize) -> Option<Self> {
        let (wish, bytes) = (address.0 as *mut c_void, pages(len)?);
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: the kernel refuses pages that are mapped already, so no memory of anybody changes.
        let start = unsafe { libc::mmap(wish, bytes, access, flags | libc::MAP_FIXED_NOREPLACE, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        if start != wish {
            // A kernel before 4.17 takes the address for a wish.
            // SAFETY: mapped just now, known to nobody.
            unsafe { libc::munmap(start, bytes) };
            return None;
        }
        Some(Self { start: NonNull::new(start.cast())?, layout: None, len })
    }

    /// Where it starts.
    pub fn pointer(&self) -> HostPointer {
        HostPointer(self.start.as_ptr() as u64)
    }

    /// Length in bytes, as asked for.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: a block of no bytes is not made.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The block as a range, for as long as the block lives.
    pub fn range(&self) -> HostRange {
        HostRange { address: self.pointer().0, len: self.len }
    }
}

impl Drop for HostBlock {
    fn drop(&mut self) {
        match (self.layout, pages(self.len)) {
            // SAFETY: `new` took the block with this layout, and it is dropped once.
            (Some(layout), _) => unsafe { std::alloc::dealloc(self.start.as_ptr(), layout) },
            // SAFETY: `at` mapped these pages, and the block is dropped once.
            (None, Some(bytes)) => drop(unsafe { libc::munmap(self.start.as_ptr().cast(), bytes) }),
            (None, None) => {}
        }
    }
}

/// Bytes of a page.
const PAGE: usize = 4096;

/// Whole pages that hold `len` bytes; `None` for none.
fn pages(len: usize) -> Option<usize> {
    if len == 0 { None } else { len.checked_next_multiple_of(PAGE) }
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

    /// Where the function is.
    pub fn address(&self) -> u64 {
        self.function as usize as u64
    }

    /// Its argument.
    pub fn user(&self) -> u64 {
        self.user
    }

    /// Calls it. What it does is the program's business; it makes no driver calls.
    pub fn call(self) {
        // SAFETY: `new`'s caller passed on the program's promise.
        unsafe { (self.function)(self.user as *mut c_void) }
    }
}

/// A function of the program that is also told its stream and the stream's status.
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

    #[test]
    fn range_reads_writes_and_refuses_what_lies_outside() {
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
    fn overlapping_copy_keeps_the_source_bytes() {
        let block = HostBlock::new(6).expect("memory");
        block.range().write(&[1, 2, 3, 4, 5, 6]).expect("fits");
        let to = block.range().sub(1, 5).expect("within");
        to.copy_from(&block.range(), 5).expect("both long enough");
        assert_eq!(block.range().to_vec(), [1, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn block_is_aligned_to_pages_and_none_of_no_bytes() {
        let block = HostBlock::new(5000).expect("memory");
        assert_eq!((block.pointer().0 % 4096, block.len()), (0, 5000));
        assert!(HostBlock::new(0).is_none());
    }

    #[test]
    fn block_at_an_address_is_there_and_nowhere_else() {
        let address = HostPointer(0x6123_0000_0000);
        let block = HostBlock::at(address, 100).expect("free");
        assert_eq!(block.pointer(), address);
        block.range().write(&[7; 100]).expect("fits");
        assert!(HostBlock::at(address, 1).is_none(), "taken");
        drop(block);
        let again = HostBlock::at(address, 4097).expect("free again");
        assert_eq!(again.range().to_vec()[..2], [0, 0]);
    }
}
