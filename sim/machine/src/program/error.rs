//! Errors of a load: what is wrong with a text comes in, an error that names it goes out.
//! It decides nothing.

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
        /// The fault.
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
