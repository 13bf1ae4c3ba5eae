//! A loaded program: PTX modules linked together, their variables laid out in device memory, kernels ready to be lowered.
//! In go PTX texts and an allocator for device addresses, out come kernels and global variables by name.
//! A kernel that holds an instruction the machine does not know is refused by name and line, never run wrongly.

use std::sync::Arc;

use crate::memory::Memory;

/// Why a program or one of its kernels cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The text is not PTX; the message has line and column.
    #[error("PTX text {module}: {message}")]
    Syntax {
        /// Which of the texts, from 0.
        module: usize,
        /// Line, from 1.
        line: u32,
        /// Column, from 1.
        column: u32,
        /// What is wrong.
        message: String,
    },
    /// A symbol that is declared `.extern` and defined in none of the modules.
    #[error("unresolved symbol: {name}")]
    Unresolved {
        /// The symbol.
        name: String,
    },
    /// A symbol that two modules define.
    #[error("symbol defined more than once: {name}")]
    Duplicate {
        /// The symbol.
        name: String,
    },
    /// An instruction, operand or declaration that this machine cannot execute.
    #[error("{function}, line {line}: {what}")]
    Unsupported {
        /// Kernel or function.
        function: String,
        /// Line in the PTX text, from 1.
        line: u32,
        /// The instruction and what about it.
        what: String,
    },
    /// No such kernel.
    #[error("no kernel of this name: {name}")]
    NoKernel {
        /// The name asked for.
        name: String,
    },
    /// Device memory for variables could not be had or written.
    #[error("device memory for variable {name}: {what}")]
    Memory {
        /// The variable.
        name: String,
        /// Why.
        what: String,
    },
}

/// One parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelParameter {
    /// Byte offset in the parameter buffer.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
    /// Alignment in bytes.
    pub align: u32,
}

/// A kernel, lowered and ready to launch; what `cuFuncGetAttribute` and `cuFuncGetParamInfo` ask.
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// Parameters in order.
    pub parameters: Vec<KernelParameter>,
    /// Bytes of the parameter buffer.
    pub parameter_bytes: u32,
    /// Most threads of a block: `.maxntid`'s product or 1024.
    pub max_threads: u32,
    /// `.reqntid`, if given.
    pub required_block: Option<[u32; 3]>,
    /// Bytes of static shared memory.
    pub static_shared: u32,
    /// Bytes of local memory per thread, calls not counted.
    pub local_bytes: u32,
    /// Bytes of user-declared constant memory of its module.
    pub constant_bytes: u32,
    /// 32-bit registers per thread that a GPU's compiler would roughly need; at least 16, at most 255.
    pub registers: u32,
    /// `.version` as major * 10 + minor.
    pub ptx_version: u32,
    /// `.target` number: 90 for `sm_90a`.
    pub target: u32,
}

/// A loaded program.
pub struct Program {}

impl Program {
    /// Parses and links the texts, asks `allocate(bytes, align)` for an address for each `.global` and `.const` variable
    /// (the caller maps it beforehand and frees it after the program), and writes the initial values there.
    ///
    /// # Errors
    /// Syntax, unresolved or duplicate symbols, no memory. Unknown instructions are errors of [`Program::kernel`].
    pub fn load(
        texts: &[&str],
        memory: &Arc<Memory>,
        allocate: &mut dyn FnMut(u64, u64) -> Option<u64>,
    ) -> Result<Arc<Self>, LoadError> {
        let _ = (texts, memory, allocate);
        todo!()
    }

    /// The kernel of that name, lowered at its first use.
    ///
    /// # Errors
    /// [`LoadError::NoKernel`], or [`LoadError::Unsupported`] with the instruction's name and line.
    pub fn kernel(self: &Arc<Self>, name: &str) -> Result<Arc<Kernel>, LoadError> {
        let _ = name;
        todo!()
    }

    /// Names of the kernels, in the order of the texts.
    pub fn kernel_names(&self) -> Vec<&str> {
        todo!()
    }

    /// Address and bytes of a `.global` or `.const` variable.
    pub fn global(&self, name: &str) -> Option<(u64, u64)> {
        let _ = name;
        todo!()
    }

    /// Names, addresses and bytes of all `.global` and `.const` variables other modules may see.
    pub fn globals(&self) -> Vec<(&str, u64, u64)> {
        todo!()
    }

    /// Hash of the texts: snapshots carry it.
    pub fn hash(&self) -> u64 {
        todo!()
    }
}
