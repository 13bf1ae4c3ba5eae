//! In: writes of single words of memory, waits for them and barriers, in a stream's order. Out: the
//! words written and tested as whole, so that kernels, copies and the program's own threads see and release them.
//! It never waits: who finds a word not yet as it shall be looks again later.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use floe_abi::{CudaError, CudaResult, WordOperation};
use floe_machine::{Mapped, Memory};

use crate::simulator::memory::host_memory::HostMemory;

/// Operations of one batch and how far they have come.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    operations: Vec<WordOperation>,
    done: usize,
}

impl Words {
    /// Operations whose words are the program's.
    pub(crate) fn new(operations: Vec<WordOperation>) -> Self {
        Self { operations, done: 0 }
    }

    /// Does what can be done now; whether that was all.
    ///
    /// # Errors
    /// ILLEGAL_ADDRESS where a word is no longer mapped.
    pub(crate) fn advance(&mut self, memory: &Memory, host_memory: &HostMemory) -> CudaResult<bool> {
        while let Some(operation) = self.operations.get(self.done) {
            match *operation {
                WordOperation::Barrier | WordOperation::Flush => fence(Ordering::SeqCst),
                WordOperation::Write { at, bytes, value } => Word::find(at.0, bytes, memory, host_memory)?.write(value),
                WordOperation::Wait { at, bytes, value, test, .. } => {
                    let word = Word::find(at.0, bytes, memory, host_memory)?.read();
                    if !test.holds(word, value, bytes) {
                        return Ok(false);
                    }
                }
            }
            self.done += 1;
        }
        Ok(true)
    }
}

/// An aligned word of memory that is mapped.
struct Word<'a> {
    word: AtomicWord<'a>,
    /// Keeps it mapped where it is a device's.
    _mapped: Option<Mapped<'a>>,
}

enum AtomicWord<'a> {
    Narrow(&'a AtomicU32),
    Wide(&'a AtomicU64),
}

impl Word<'_> {
    /// The word of 4 or 8 bytes at an address, of a device or of pinned memory.
    fn find<'a>(at: u64, bytes: u32, memory: &'a Memory, host_memory: &'a HostMemory) -> CudaResult<Word<'a>> {
        let mapped = memory.mapped(at, u64::from(bytes));
        let of_host = || host_memory.part(at, bytes as usize).map(|part| part.pointer().0 as *mut u8);
        let found = mapped.as_ref().map(Mapped::host).or_else(of_host).filter(|_| at.is_multiple_of(bytes.into()));
        let pointer = found.ok_or(CudaError::ILLEGAL_ADDRESS)?;
        // SAFETY: the word is mapped and aligned. It stays mapped meanwhile: a device's while we have `mapped`, and pinned
        // memory is freed after all work of all streams. Others reach it as a GPU's words are reached: by plain accesses
        // of kernels or threads that race with this by design.
        let word = unsafe {
            if bytes == 4 {
                AtomicWord::Narrow(AtomicU32::from_ptr(pointer.cast()))
            } else {
                AtomicWord::Wide(AtomicU64::from_ptr(pointer.cast()))
            }
        };
        Ok(Word { word, _mapped: mapped })
    }

    fn read(&self) -> u64 {
        match self.word {
            AtomicWord::Narrow(word) => word.load(Ordering::SeqCst).into(),
            AtomicWord::Wide(word) => word.load(Ordering::SeqCst),
        }
    }

    #[allow(clippy::cast_possible_truncation, reason = "the low half is what a narrow word becomes")]
    fn write(&self, value: u64) {
        match self.word {
            AtomicWord::Narrow(word) => word.store(value as u32, Ordering::SeqCst),
            AtomicWord::Wide(word) => word.store(value, Ordering::SeqCst),
        }
    }
}
