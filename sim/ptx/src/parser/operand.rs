//! Operands: names, immediates, vectors, addresses, pairs.
//! In goes the text of one operand, out comes an untyped [`Operand`].
//! It never asks which instruction the operand belongs to, save that only `call` has lists in parentheses.

use crate::ast::{Integer, Operand};
use crate::constant::{self, Constant};
use crate::scanner::{Result, Scanner, is_word, starts_word};

const OPERAND: &str = "an operand";

/// Reads the operands of an instruction up to its semicolon (not included). `lists`: `(a, b)` is a list, as in `call`.
pub(super) fn operands<'a>(scanner: &mut Scanner<'a>, lists: bool) -> Result<Vec<Operand<'a>>> {
    let mut operands = Vec::new();
    if scanner.peek() == b';' {
        return Ok(operands);
    }
    loop {
        let operand = match scanner.peek() {
            b'(' if lists => list(scanner)?,
            _ => operand(scanner, 0)?,
        };
        operands.push(operand);
        if !scanner.take(b',')? {
            return Ok(operands);
        }
    }
}

/// `(a, b)` or `()`.
fn list<'a>(scanner: &mut Scanner<'a>) -> Result<Operand<'a>> {
    scanner.expect(b'(', "`(`")?;
    elements(scanner, b')', "`,` or `)` of a list", 1).map(Operand::List)
}

/// Reads elements up to `close`, which is taken; none at all is allowed.
fn elements<'a>(
    scanner: &mut Scanner<'a>,
    close: u8,
    expected: &'static str,
    depth: usize,
) -> Result<Vec<Operand<'a>>> {
    let mut elements = Vec::new();
    if scanner.take(close)? {
        return Ok(elements);
    }
    loop {
        elements.push(operand(scanner, depth)?);
        if !scanner.take(b',')? {
            scanner.expect(close, expected)?;
            return Ok(elements);
        }
    }
}

fn operand<'a>(scanner: &mut Scanner<'a>, depth: usize) -> Result<Operand<'a>> {
    scanner.count_element()?;
    match scanner.peek() {
        byte if starts_word(byte) && scanner.word_ahead() != "WARP_SZ" => named(scanner, depth),
        b'[' => address(scanner, depth),
        b'{' => {
            let depth = scanner.deeper(depth)?;
            scanner.expect(b'{', "`{`")?;
            elements(scanner, b'}', "`,` or `}` of a vector", depth).map(Operand::Vector)
        }
        mark @ (b'!' | b'-') if starts_word(after_blank(scanner)) => {
            scanner.take(mark)?;
            if scanner.word_ahead() == "WARP_SZ" {
                return Err(scanner.unexpected("a register"));
            }
            let name = register(scanner)?;
            Ok(if mark == b'!' { Operand::Not(name) } else { Operand::Negated(name) })
        }
        _ if constant::starts(scanner) => Ok(immediate(constant::expression(scanner, depth)?)),
        _ => Err(scanner.unexpected(OPERAND)),
    }
}

/// The byte after a one-byte sign and the blanks behind it.
fn after_blank(scanner: &Scanner<'_>) -> u8 {
    let mut ahead = 1;
    while matches!(scanner.peek_at(ahead), b' ' | b'\t') {
        ahead += 1;
    }
    scanner.peek_at(ahead)
}

fn immediate<'a>(value: Constant) -> Operand<'a> {
    match value {
        Constant::Integer(value) => Operand::Integer(value),
        Constant::Float(value) => Operand::Float(value),
    }
}

/// A name with its component: `%r1`, `%tid.x`, `%r1.b0`.
#[inline]
fn register<'a>(scanner: &mut Scanner<'a>) -> Result<&'a str> {
    if !starts_word(scanner.peek()) {
        return Err(scanner.unexpected("a name"));
    }
    let start = scanner.offset();
    scanner.advance(scanner.word_ahead().len());
    while scanner.peek() == b'.' && is_word(scanner.peek_at(1)) {
        scanner.advance(1);
        scanner.advance(scanner.word_ahead().len());
    }
    let name = scanner.slice(start, scanner.offset());
    scanner.blank()?;
    Ok(name)
}

/// An operand that starts with a name: register, symbol, `_`, `a|b`, `sym+4`, `array[index]`.
fn named<'a>(scanner: &mut Scanner<'a>, depth: usize) -> Result<Operand<'a>> {
    let name = register(scanner)?;
    match scanner.peek() {
        b'|' => {
            scanner.take(b'|')?;
            let second = register(scanner)?;
            Ok(Operand::Pair(unless_sink(name), unless_sink(second)))
        }
        b'+' | b'-' => Ok(Operand::Offset { name, offset: constant::offset(scanner, depth)? }),
        b'[' => {
            scanner.take(b'[')?;
            let (index, offset) = sum(scanner, depth)?;
            scanner.expect(b']', "`]` of an array element")?;
            Ok(Operand::Element { array: name, index, offset })
        }
        _ if name == "_" => Ok(Operand::Sink),
        _ => Ok(Operand::Name(name)),
    }
}

fn unless_sink(name: &str) -> Option<&str> {
    (name != "_").then_some(name)
}

/// `name`, `name+4` or a number: what stands in brackets.
fn sum<'a>(scanner: &mut Scanner<'a>, depth: usize) -> Result<(Option<&'a str>, i64)> {
    if starts_word(scanner.peek()) && scanner.word_ahead() != "WARP_SZ" {
        let name = register(scanner)?;
        return Ok((Some(name), constant::offset(scanner, depth)?));
    }
    if !constant::starts(scanner) {
        return Err(scanner.unexpected("a register, a symbol or a number in brackets"));
    }
    let position = scanner.position();
    match constant::expression(scanner, depth)? {
        Constant::Integer(value) => Ok((None, value.as_i64())),
        Constant::Float(value) => {
            let value = value.as_f64().to_string();
            Err(scanner.value_error(position, "an address must be an integer, this is a float", &value))
        }
    }
}

/// `[base+offset]`, or with commas `[texture, {x, y}]`.
fn address<'a>(scanner: &mut Scanner<'a>, depth: usize) -> Result<Operand<'a>> {
    let depth = scanner.deeper(depth)?;
    scanner.expect(b'[', "`[`")?;
    let (base, offset) = sum(scanner, depth)?;
    if scanner.take(b']')? {
        return Ok(Operand::Address { base, offset });
    }
    scanner.expect(b',', "`]`, `+` or `,` in an address")?;
    let mut parts = vec![match (base, offset) {
        (Some(name), 0) => Operand::Name(name),
        (Some(name), offset) => Operand::Offset { name, offset },
        (None, offset) => Operand::Integer(Integer::signed(offset)),
    }];
    parts.extend(elements(scanner, b']', "`,` or `]` in an address", depth)?);
    Ok(Operand::Tuple(parts))
}
