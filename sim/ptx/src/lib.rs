//! PTX text to module: lexer, generic syntax tree, parser.
//! In goes the text of a PTX module (ISA 9.0 and before), out comes a [`Module`] that borrows its names from the text.
//! It never panics, never reads outside its [`Limits`], and never decides what an instruction means.
#![forbid(unsafe_code)]

mod ast;
mod constant;
mod error;
mod parser;
mod print;
mod scanner;

pub use ast::*;
pub use error::{ParseError, Problem};
pub use parser::{declarations, outline, parse, parse_body, parse_with, text};

/// Limits of the parser, so that hostile text cannot exhaust memory or stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of text.
    pub text_bytes: usize,
    /// Statements, declarations, functions and parameters of the whole module together.
    pub statements: usize,
    /// Operands, vector elements, initialiser elements and listed names of the whole module together.
    pub elements: usize,
    /// Depth of scopes, of braces in initialisers, and of parentheses in constant expressions.
    pub depth: usize,
}

impl Default for Limits {
    /// 256 MiB of text, depth 64, and as many statements and elements as such a text reasonably has. The largest module
    /// seen in NVIDIA's own libraries is below 64 MiB.
    fn default() -> Self {
        Self { text_bytes: 256 << 20, statements: 16 << 20, elements: 64 << 20, depth: 64 }
    }
}
