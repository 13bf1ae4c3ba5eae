//! Faults of kernels: the kind, and the place down to the thread.
//! An instruction or a checked host access raises it. The driver API turns [`FaultKind::code`] into the CUDA error of
//! the context. Nothing here is ever a panic or a signal.

use std::fmt;

/// Kinds of faults, each with the driver API's error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// Access to an address that is not mapped, or outside shared or local memory: `CUDA_ERROR_ILLEGAL_ADDRESS`.
    IllegalAddress,
    /// Access not aligned to its size: `CUDA_ERROR_MISALIGNED_ADDRESS`.
    Misaligned,
    /// `assert` of the kernel failed: `CUDA_ERROR_ASSERT`.
    Assert,
    /// `trap`: `CUDA_ERROR_LAUNCH_FAILED`.
    Trap,
    /// An instruction that cannot be executed as encoded: `CUDA_ERROR_ILLEGAL_INSTRUCTION`.
    IllegalInstruction,
    /// Jump or call to an address that is no function: `CUDA_ERROR_INVALID_PC`.
    InvalidProgramCounter,
    /// Atomic or other operation on a space it is not defined for: `CUDA_ERROR_INVALID_ADDRESS_SPACE`.
    InvalidAddressSpace,
    /// Calls nested deeper than the stack limit: `CUDA_ERROR_LAUNCH_FAILED`, as on hardware.
    StackOverflow,
    /// All warps of a block wait for each other for ever: `CUDA_ERROR_LAUNCH_TIMEOUT`.
    Deadlock,
}

impl FaultKind {
    /// The `CUresult` a program expects.
    pub fn code(self) -> u32 {
        match self {
            Self::IllegalAddress => 700,
            Self::Deadlock => 702,
            Self::Assert => 710,
            Self::IllegalInstruction => 715,
            Self::Misaligned => 716,
            Self::InvalidAddressSpace => 717,
            Self::InvalidProgramCounter => 718,
            Self::Trap | Self::StackOverflow => 719,
        }
    }

    /// A few words for messages.
    pub fn describe(self) -> &'static str {
        match self {
            Self::IllegalAddress => "illegal address",
            Self::Misaligned => "misaligned address",
            Self::Assert => "assertion failed",
            Self::Trap => "trap",
            Self::IllegalInstruction => "illegal instruction",
            Self::InvalidProgramCounter => "invalid program counter",
            Self::InvalidAddressSpace => "invalid address space",
            Self::StackOverflow => "stack overflow",
            Self::Deadlock => "all threads of a block wait for each other",
        }
    }
}

/// One fault of one thread.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Fault {
    /// The kind of fault.
    pub kind: FaultKind,
    /// The kernel's name; empty for a host access.
    pub kernel: String,
    /// Line of the instruction in the PTX text, from 1; 0 where there is none.
    pub line: u32,
    /// The instruction's opcode as written.
    pub opcode: String,
    /// `blockIdx` of the thread.
    pub block: [u32; 3],
    /// `threadIdx` of the thread.
    pub thread: [u32; 3],
    /// The address, for faults that have one; otherwise 0.
    pub address: u64,
}

impl Fault {
    /// A fault of a host access: no kernel, no thread.
    pub fn host(kind: FaultKind, address: u64) -> Self {
        Self { kind, kernel: String::new(), line: 0, opcode: String::new(), block: [0; 3], thread: [0; 3], address }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [bx, by, bz] = self.block;
        let [tx, ty, tz] = self.thread;
        if self.kernel.is_empty() {
            return write!(out, "{}: {:#x}", self.kind.describe(), self.address);
        }
        write!(
            out,
            "{} in kernel {}, line {}, {}, block ({bx},{by},{bz}), thread ({tx},{ty},{tz}): {:#x}",
            self.kind.describe(),
            self.kernel,
            self.line,
            self.opcode,
            self.address
        )
    }
}
