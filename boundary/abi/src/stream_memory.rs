//! Operations of a stream on single words of memory, laid out as the C header lays them out and checked against the
//! bindings when this crate compiles. Numbers of C's come in; what they ask of a word goes out as one of a few kinds.
//! Nothing here reads or writes memory.

use crate::handles::DevicePtr;
use crate::result::{CudaError, CudaResult};
use crate::{stream_memory_barrier, stream_memory_operation, stream_wait_value, stream_write_value};

/// The most operations of one batch: CUDA says fewer than 256.
pub const MOST_STREAM_MEMORY_OPERATIONS: usize = 255;

/// `CUstreamBatchMemOpParams`, with the members all kinds share laid over each other.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StreamMemoryOperation {
    /// One of [`stream_memory_operation`].
    pub operation: u32,
    /// Flags of a barrier and of a flush, which have no address.
    pub barrier_flags: u32,
    /// The word.
    pub address: DevicePtr,
    /// The value that is written or compared. Of 32 bits it is the low half; C leaves the rest as it was.
    pub value: u64,
    /// Flags of a write or a wait.
    pub flags: u32,
    /// Padding.
    pub padding: u32,
    /// The driver's own.
    pub alias: DevicePtr,
    /// The size C keeps for later kinds.
    pub reserved: u64,
}

const _: () = {
    use cudarc::driver::sys as raw;
    type Wait = raw::CUstreamBatchMemOpParams_union_CUstreamMemOpWaitValueParams_st;
    type Write = raw::CUstreamBatchMemOpParams_union_CUstreamMemOpWriteValueParams_st;
    type Flush = raw::CUstreamBatchMemOpParams_union_CUstreamMemOpFlushRemoteWritesParams_st;
    type Barrier = raw::CUstreamBatchMemOpParams_union_CUstreamMemOpMemoryBarrierParams_st;
    assert!(size_of::<StreamMemoryOperation>() == size_of::<raw::CUstreamBatchMemOpParams>());
    assert!(align_of::<StreamMemoryOperation>() == align_of::<raw::CUstreamBatchMemOpParams>());
    let at = std::mem::offset_of!(StreamMemoryOperation, address);
    assert!(at == std::mem::offset_of!(Wait, address) && at == std::mem::offset_of!(Write, address));
    let value = std::mem::offset_of!(StreamMemoryOperation, value);
    assert!(value == std::mem::offset_of!(Wait, __bindgen_anon_1));
    assert!(value == std::mem::offset_of!(Write, __bindgen_anon_1));
    let flags = std::mem::offset_of!(StreamMemoryOperation, flags);
    assert!(flags == std::mem::offset_of!(Wait, flags) && flags == std::mem::offset_of!(Write, flags));
    let barrier = std::mem::offset_of!(StreamMemoryOperation, barrier_flags);
    assert!(barrier == std::mem::offset_of!(Flush, flags) && barrier == std::mem::offset_of!(Barrier, flags));
};

/// When a wait for a word is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WordTest {
    /// `word - value`, taken as a signed number of the word's width, is not negative.
    CyclicAtLeast,
    /// `word == value`.
    Equal,
    /// `word & value` is not zero.
    And,
    /// `!(word | value)` is not zero.
    Nor,
}

/// One operation, typed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WordOperation {
    /// Write `value`.
    Write {
        /// The word.
        at: DevicePtr,
        /// 4 or 8.
        bytes: u32,
        /// Its new value.
        value: u64,
    },
    /// Wait for it.
    Wait {
        /// The word.
        at: DevicePtr,
        /// 4 or 8.
        bytes: u32,
        /// The value that it is compared with.
        value: u64,
        /// How.
        test: WordTest,
        /// Whether writes of other devices must be visible after the wait.
        flush: bool,
    },
    /// Writes of other devices must be visible from here on.
    Flush,
    /// Earlier writes are visible before later operations.
    Barrier,
}

impl WordTest {
    /// Whether a word of `bytes` (4 or 8) that is `word` ends a wait for `value`.
    pub fn holds(self, word: u64, value: u64, bytes: u32) -> bool {
        let mask = if bytes == 4 { u64::from(u32::MAX) } else { u64::MAX };
        match self {
            Self::CyclicAtLeast => (word.wrapping_sub(value) & mask) >> (u64::from(bytes) * 8 - 1) == 0,
            Self::Equal => word & mask == value & mask,
            Self::And => word & value & mask != 0,
            Self::Nor => !(word | value) & mask != 0,
        }
    }
}

impl StreamMemoryOperation {
    /// A write or wait of a word of 4 or 8 bytes; which of both `operation` says.
    pub fn on_word(operation: u32, address: DevicePtr, value: u64, flags: u32) -> Self {
        Self { operation, address, value, flags, ..Self::default() }
    }

    /// The typed operation.
    ///
    /// # Errors
    /// INVALID_VALUE for an operation or flag CUDA does not name and for a word that is not aligned to its size.
    pub fn word(&self) -> CudaResult<WordOperation> {
        use stream_memory_operation as is;
        match self.operation {
            is::WRITE_VALUE_32 => self.write(4, u64::from(u32::MAX)),
            is::WRITE_VALUE_64 => self.write(8, u64::MAX),
            is::WAIT_VALUE_32 => self.wait(4, u64::from(u32::MAX)),
            is::WAIT_VALUE_64 => self.wait(8, u64::MAX),
            is::FLUSH_REMOTE_WRITES if self.barrier_flags == 0 => Ok(WordOperation::Flush),
            is::BARRIER if self.barrier_flags <= stream_memory_barrier::GPU => Ok(WordOperation::Barrier),
            _ => Err(CudaError::INVALID_VALUE),
        }
    }

    /// Whether it may take the place of `old` in an instantiated graph: the same operation, a wait with the same flush.
    pub fn may_replace(&self, old: &Self) -> bool {
        let waits =
            matches!(self.operation, stream_memory_operation::WAIT_VALUE_32 | stream_memory_operation::WAIT_VALUE_64);
        let kept = if waits { stream_wait_value::FLUSH } else { u32::MAX };
        self.operation == old.operation
            && self.barrier_flags == old.barrier_flags
            && self.flags & kept == old.flags & kept
    }

    fn aligned(&self, bytes: u32) -> CudaResult<DevicePtr> {
        let aligned = self.address.0 != 0 && self.address.0.is_multiple_of(u64::from(bytes));
        if aligned { Ok(self.address) } else { Err(CudaError::INVALID_VALUE) }
    }

    fn write(&self, bytes: u32, mask: u64) -> CudaResult<WordOperation> {
        // NO_MEMORY_BARRIER is not of these functions' second version, and an H200's driver refuses it.
        if self.flags != stream_write_value::DEFAULT {
            return Err(CudaError::INVALID_VALUE);
        }
        Ok(WordOperation::Write { at: self.aligned(bytes)?, bytes, value: self.value & mask })
    }

    fn wait(&self, bytes: u32, mask: u64) -> CudaResult<WordOperation> {
        let test = match self.flags & !stream_wait_value::FLUSH {
            stream_wait_value::GEQ => WordTest::CyclicAtLeast,
            stream_wait_value::EQ => WordTest::Equal,
            stream_wait_value::AND => WordTest::And,
            stream_wait_value::NOR => WordTest::Nor,
            _ => return Err(CudaError::INVALID_VALUE),
        };
        let (at, flush) = (self.aligned(bytes)?, self.flags & stream_wait_value::FLUSH != 0);
        Ok(WordOperation::Wait { at, bytes, value: self.value & mask, test, flush })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_least_is_cyclic_in_the_words_own_width() {
        let holds = |word, value, bytes| WordTest::CyclicAtLeast.holds(word, value, bytes);
        assert!(holds(5, 5, 4) && holds(6, 5, 4) && !holds(4, 5, 4));
        assert!(holds(1, 0xffff_fff0, 4), "a counter of 32 bits that has gone around");
        assert!(!holds(1, 0xffff_fff0, 8));
        assert!(holds(1, u64::MAX - 3, 8) && !holds(u64::MAX - 3, 1, 8));
    }

    #[test]
    fn other_tests_look_at_the_words_bits_only() {
        assert!(WordTest::Equal.holds(7, 7, 4) && !WordTest::Equal.holds(7, 1 << 32 | 7, 8));
        assert!(
            WordTest::And.holds(6, 2, 4) && !WordTest::And.holds(6, 1, 4) && !WordTest::And.holds(1 << 40, 1 << 40, 4)
        );
        assert!(WordTest::Nor.holds(1, 2, 4));
        assert!(!WordTest::Nor.holds(0xffff_ff00, 0xff, 4), "all 32 bits are set");
        assert!(WordTest::Nor.holds(0xffff_ff00, 0xff, 8));
    }

    #[test]
    fn only_the_low_half_of_a_value_of_32_bits_counts() {
        use stream_memory_operation::{WRITE_VALUE_32, WRITE_VALUE_64};
        let write = |operation| StreamMemoryOperation::on_word(operation, DevicePtr(16), u64::MAX - 1, 0).word();
        let (at, wide) = (DevicePtr(16), u64::MAX - 1);
        assert_eq!(write(WRITE_VALUE_32), Ok(WordOperation::Write { at, bytes: 4, value: 0xffff_fffe }));
        assert_eq!(write(WRITE_VALUE_64), Ok(WordOperation::Write { at, bytes: 8, value: wide }));
    }

    #[test]
    fn numbers_without_a_cuda_name_are_refused() {
        use stream_memory_operation::{BARRIER, WAIT_VALUE_32, WAIT_VALUE_64, WRITE_VALUE_32};
        for (operation, at, flags) in [
            (0, 16, 0),
            (7, 16, 0),
            (WAIT_VALUE_32, 16, 4),
            (WRITE_VALUE_32, 16, 1),
            (WRITE_VALUE_32, 16, 2),
            (WRITE_VALUE_32, 18, 0),
            (WAIT_VALUE_64, 20, 0),
            (WAIT_VALUE_32, 0, 0),
        ] {
            let refused = StreamMemoryOperation::on_word(operation, DevicePtr(at), 1, flags).word();
            assert_eq!(refused, Err(CudaError::INVALID_VALUE), "{operation} {at} {flags}");
        }
        let barrier = |barrier_flags| StreamMemoryOperation { operation: BARRIER, barrier_flags, ..Default::default() };
        assert_eq!(barrier(1).word(), Ok(WordOperation::Barrier));
        assert_eq!(barrier(2).word(), Err(CudaError::INVALID_VALUE));
    }
}
