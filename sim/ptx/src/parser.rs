//! From tokens to the syntax tree, one file per noun.
//! In goes a text and its limits, out comes a module, or the first thing in it that is not PTX.
//! Recursion follows braces, brackets and parentheses only, and is limited by [`Limits::depth`].

mod bodies;
mod directive;
mod function;
mod module;
mod operand;
mod statement;
mod variable;

use crate::Limits;
use crate::ast::{Module, Position, Span, Statement};
use crate::error::{ParseError, Problem};
use crate::scanner::Scanner;
use bodies::Bodies;

/// Reads a module with the default [`Limits`].
///
/// # Errors
/// The first place where the text is not PTX, or exceeds a limit.
pub fn parse(text: &str) -> Result<Module<'_>, ParseError> {
    parse_with(text, &Limits::default())
}

/// Reads a module.
///
/// # Errors
/// The first place where the text is not PTX, or exceeds a limit.
pub fn parse_with<'a>(text: &'a str, limits: &Limits) -> Result<Module<'a>, ParseError> {
    let mut scanner = Scanner::new(text, 0, Position { line: 1, column: 1 }, limits)?;
    module::module(&mut scanner, Bodies::Read)
}

/// Reads a module without its bodies: every function that has one gets an empty `body` and its `body_span`.
/// [`parse_body`] reads the body when it is needed. A body is only searched for its end, so faults inside are not found
/// here.
///
/// # Errors
/// The first place outside bodies where the text is not PTX, or exceeds a limit.
pub fn outline<'a>(text: &'a str, limits: &Limits) -> Result<Module<'a>, ParseError> {
    let mut scanner = Scanner::new(text, 0, Position { line: 1, column: 1 }, limits)?;
    module::module(&mut scanner, Bodies::Skip)
}

/// Reads a module for its variables: bodies hold their declarations and no instruction, so an operand of an unknown
/// form is no error. Values of variables are not read where the size does not depend on them: these have an empty list.
///
/// It is for callers that must not miss a variable. A `.global` or `.const` that stands alone in an instruction is an
/// error too. So is a `@@` line, of which compilers of different ages take different parts.
///
/// # Errors
/// The first place where the text is not PTX, or may be understood in two ways, or exceeds a limit.
pub fn declarations<'a>(text: &'a str, limits: &Limits) -> Result<Module<'a>, ParseError> {
    let mut scanner = Scanner::new(text, 0, Position { line: 1, column: 1 }, limits)?;
    module::module(&mut scanner, Bodies::Declarations)
}

/// Reads one function body: `span` is its [`crate::Function::body_span`] in the same `text`. The limits count for this
/// body alone. Positions are those of the whole text.
///
/// # Errors
/// The first place where the body is not PTX, or exceeds a limit. A span that is no body of this text is an error too.
pub fn parse_body<'a>(text: &'a str, span: &Span, limits: &Limits) -> Result<Vec<Statement<'a>>, ParseError> {
    let mut scanner = Scanner::new(text, span.start, span.position, limits)?;
    statement::body(&mut scanner)
}

/// The text in an image: bytes up to the first NUL (or all of them), which must be ASCII, also in comments: NVIDIA's
/// compiler takes no other character.
///
/// # Errors
/// [`Problem::Encoding`] with the position of the first byte that is not.
pub fn text(bytes: &[u8]) -> Result<&str, ParseError> {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let bytes = bytes.get(..end).unwrap_or(bytes);
    let good = bytes.split(|byte| !byte.is_ascii()).next().unwrap_or(&[]);
    let text = std::str::from_utf8(good).ok().filter(|_| good.len() == bytes.len());
    text.ok_or_else(|| {
        let line = good.iter().filter(|&&byte| byte == b'\n').count() + 1;
        let column = good.iter().rev().take_while(|&&byte| byte != b'\n').count() + 1;
        let small = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        ParseError { position: Position { line: small(line), column: small(column) }, problem: Problem::Encoding }
    })
}
