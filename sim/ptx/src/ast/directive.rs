//! Directives of functions and call prototypes: a name with numbers and words.
//! Nothing here says what a directive means.

use super::position::Position;

/// A directive between a function's parameters and its body.
#[derive(Clone, Debug, PartialEq)]
pub struct Directive<'a> {
    /// Its position.
    pub position: Position,
    /// Its name without the dot: `maxntid`, `pragma`.
    pub name: &'a str,
    /// Its numbers, in order.
    pub numbers: Vec<u64>,
    /// Its strings (of `.pragma`) or words, in order.
    pub strings: Vec<&'a str>,
}
