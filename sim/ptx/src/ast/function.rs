//! Kernels, functions and prototypes with their parameters, directives and bodies.
//! A body is a flat list of statements with balanced scope marks, so nothing that walks it needs recursion.
//! Nothing here says what a directive means.

use super::directive::Directive;
use super::position::{Position, Span};
use super::statement::Statement;
use super::variable::{Linkage, Variable};

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
    /// Position of its name.
    pub position: Position,
    /// Its visibility.
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
    /// The span of the body's text, braces included. With it [`crate::parse_body`] reads one body again, so that a
    /// caller with the text need not keep the tree. `None` for a prototype.
    pub body_span: Option<Span>,
}

impl<'a> Function<'a> {
    /// The directive of that name, given without its dot (`maxntid`).
    pub fn directive(&self, name: &str) -> Option<&Directive<'a>> {
        self.directives.iter().find(|directive| directive.name == name)
    }
}
