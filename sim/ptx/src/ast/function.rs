//! Kernels, functions and prototypes with their parameters, directives and bodies.
//! A body is a flat list of statements with balanced scope marks, so nothing that walks it needs recursion.
//! Nothing here says what a directive means.

use super::{Linkage, Position, Statement, Variable};

/// Kernel or function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FunctionKind {
    /// `.entry`.
    Entry,
    /// `.func`.
    Function,
}

/// A kernel, a function, or the prototype of one.
#[derive(Clone, Debug, PartialEq)]
pub struct Function<'a> {
    /// Where its name stands.
    pub position: Position,
    /// Who sees it.
    pub linkage: Linkage,
    /// Kernel or function.
    pub kind: FunctionKind,
    /// Its name.
    pub name: &'a str,
    /// Return parameters; empty for kernels.
    pub returns: Vec<Variable<'a>>,
    /// Parameters.
    pub parameters: Vec<Variable<'a>>,
    /// Performance and other directives between the parameters and the body: `.maxntid 256, 1, 1`, `.noreturn`, …
    pub directives: Vec<Directive<'a>>,
    /// The body, flat: scopes are [`Statement::ScopeOpen`] and [`Statement::ScopeClose`], always balanced (the outermost
    /// braces are not in it). `None` for a prototype.
    pub body: Option<Vec<Statement<'a>>>,
    /// Where the body's text stands, braces included: with it [`crate::parse_body`] reads one body again, so that whoever
    /// keeps the text need not keep the tree. `None` for a prototype.
    pub body_span: Option<Span>,
}

/// A piece of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// Line and column of the first byte.
    pub position: Position,
}

impl<'a> Function<'a> {
    /// The directive of that name, given without its dot (`maxntid`).
    pub fn directive(&self, name: &str) -> Option<&Directive<'a>> {
        self.directives.iter().find(|directive| directive.name == name)
    }
}

/// A directive between a function's parameters and its body.
#[derive(Clone, Debug, PartialEq)]
pub struct Directive<'a> {
    /// Where it stands.
    pub position: Position,
    /// Its name without the dot: `maxntid`, `pragma`.
    pub name: &'a str,
    /// Its numbers, in order.
    pub numbers: Vec<u64>,
    /// Its strings (of `.pragma`) or words, in order.
    pub strings: Vec<&'a str>,
}
