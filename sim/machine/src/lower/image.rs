//! The lowered form of a kernel: one flat array of decoded instructions for it and every function it may reach.
//! Made by `function`, run by `exec`. Pointers in the instructions are handlers of this process only; what a snapshot keeps
//! of an image are function names, statement numbers and register numbers.

use std::collections::HashMap;

use crate::exec::{AlignedBytes, BulkPlan, Inst, MatrixPlans, RunPlan, SurfacePlan, TexturePlan};

/// A register of a function, by its declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Register {
    /// Byte offset of its slot in the frame.
    pub(crate) offset: u32,
    /// Bytes of the slot: 4 (predicate), 128 or 256.
    pub(crate) bytes: u32,
    /// Number of the register in the order of the function's text: what snapshots are keyed by.
    pub(crate) number: u32,
    /// First and last statement at which it may hold a wanted value; outside, its slot may be another's.
    pub(crate) live: (u32, u32),
}

/// A parameter or return value of a function: words of 32 lanes in its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameWords {
    /// Byte offset of the first word's slot.
    pub(crate) offset: u32,
    /// Number of words.
    pub(crate) count: u32,
}

/// A function of an image.
#[derive(Clone, Debug, Default)]
pub(crate) struct FunctionImage {
    pub(crate) name: String,
    /// Number in the program.
    pub(crate) number: u32,
    /// First instruction, and one past the last.
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// Bytes of the register file.
    pub(crate) frame_bytes: u32,
    /// Bytes of local variables per thread.
    pub(crate) local_bytes: u32,
    pub(crate) parameters: Vec<FrameWords>,
    pub(crate) returns: Vec<FrameWords>,
    pub(crate) registers: Vec<Register>,
    /// Why it cannot run, where it was only taken in because some indirect call might reach it.
    pub(crate) refused: Option<String>,
}

/// The target of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallTarget {
    /// A function of the image.
    Function(u32),
    /// The function whose address the 64-bit slot holds.
    Register(u32),
    /// A function of the host.
    Builtin(Builtin),
}

/// Functions the host provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Builtin {
    Printf,
    AssertFail,
    Malloc,
    Free,
    SetConditional,
}

/// A call instruction.
#[derive(Clone, Debug)]
pub(crate) struct CallSite {
    pub(crate) target: CallTarget,
    /// The caller's argument words.
    pub(crate) arguments: Vec<FrameWords>,
    /// The caller's words for results.
    pub(crate) returns: Vec<FrameWords>,
}

/// The origin of an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Line in its text.
    pub(crate) line: u32,
    /// Statement number in the function.
    pub(crate) statement: u32,
    /// Index into `Image::opcodes`.
    pub(crate) opcode: u32,
}

/// A lowered kernel.
pub(crate) struct Image {
    pub(crate) code: Vec<Inst>,
    pub(crate) origins: Vec<Origin>,
    pub(crate) opcodes: Vec<String>,
    /// Broadcast constants.
    pub(crate) constants: AlignedBytes,
    /// The kernel is the first.
    pub(crate) functions: Vec<FunctionImage>,
    /// Function addresses (as programs see them) to functions of the image.
    pub(crate) addresses: HashMap<u64, u32>,
    pub(crate) calls: Vec<CallSite>,
    /// Whether lanes need stack beyond the kernel's own local variables.
    pub(crate) uses_stack: bool,
    /// Targets of indexed branches.
    pub(crate) branch_lists: Vec<Vec<u32>>,
    /// Runs of instructions that one handler executes.
    pub(crate) runs: Vec<RunPlan>,
    /// Operands of texture instructions.
    pub(crate) textures: Vec<TexturePlan>,
    /// Operands of surface instructions.
    pub(crate) surfaces: Vec<SurfacePlan>,
    /// Operands of matrix instructions.
    pub(crate) matrices: MatrixPlans,
    /// Operands of bulk copies.
    pub(crate) bulk_copies: Vec<BulkPlan>,
    /// Bytes of static shared memory.
    pub(crate) static_shared: u32,
}

// SAFETY: an image is not changed after lowering; the function pointers in it are code.
unsafe impl Send for Image {}
// SAFETY: as above.
unsafe impl Sync for Image {}

impl Image {
    /// The function an instruction belongs to.
    pub(crate) fn function_of(&self, pc: u32) -> u32 {
        let found = self.functions.iter().position(|function| (function.start..function.end).contains(&pc));
        found.map_or(0, |index| index as u32)
    }

    /// Text of an instruction's opcode.
    pub(crate) fn opcode_of(&self, pc: u32) -> &str {
        &self.opcodes[self.origins[pc as usize].opcode as usize]
    }

    /// Whether the instruction is the last part of its statement.
    fn is_last_part(&self, pc: u32) -> bool {
        let statement = self.origins[pc as usize].statement;
        self.origins.get(pc as usize + 1).is_none_or(|next| next.statement != statement)
    }

    /// Whether lanes may wait at the instruction for other warps: the last part of a statement with a barrier of the block.
    pub(crate) fn is_block_barrier(&self, pc: u32) -> bool {
        let opcode = self.opcode_of(pc);
        let of_block =
            opcode.starts_with("bar") && !opcode.starts_with("bar.warp") && !opcode.starts_with("barrier.warp");
        of_block && self.is_last_part(pc)
    }

    /// Whether the instruction names a call site: the last part of a call statement does.
    pub(crate) fn is_call_site(&self, pc: u32) -> bool {
        self.is_last_part(pc) && (self.code[pc as usize].aux as usize) < self.calls.len()
    }

    /// Address by which programs know the program's function of that number.
    pub(crate) fn function_address(number: u32) -> u64 {
        FUNCTION_WINDOW + 16 * u64::from(number)
    }
}

/// Windows of generic addresses; each is 4 GiB of addresses that no process maps (below any heap, above any 32-bit image).
pub(crate) const SHARED_WINDOW: u64 = 0x10_0000_0000;
/// Local memory's window.
pub(crate) const LOCAL_WINDOW: u64 = 0x11_0000_0000;
/// Kernel parameters' window.
pub(crate) const PARAMETER_WINDOW: u64 = 0x12_0000_0000;
/// Addresses of functions.
pub(crate) const FUNCTION_WINDOW: u64 = 0x13_0000_0000;
/// The workspace of a cooperative grid: what `%envreg1` and `%envreg2` point to.
pub(crate) const GRID_WINDOW: u64 = 0x14_0000_0000;
/// Bytes of that workspace: a size and the barrier's counter, with room.
pub(crate) const GRID_WORKSPACE: u64 = 64;
