//! Directives: linkages, pragmas, and the directives between parameters and body.
//! In goes the text from a dot on, out come directives with their numbers and words. It never checks what they mean.

use crate::ast::{Directive, Linkage};
use crate::constant;
use crate::scanner::{Result, Scanner, starts_word};

/// The linkage a dotted word names.
pub(super) fn linkage(word: &str) -> Option<Linkage> {
    Some(match word {
        "visible" => Linkage::Visible,
        "extern" => Linkage::Extern,
        "weak" => Linkage::Weak,
        "common" => Linkage::Common,
        "internal" => Linkage::Internal,
        _ => return None,
    })
}

/// Reads the directives between parameters and body: each a dotted word and a list of numbers, words or strings.
pub(super) fn directives<'a>(scanner: &mut Scanner<'a>) -> Result<Vec<Directive<'a>>> {
    let mut directives = Vec::new();
    while scanner.peek() == b'.' {
        scanner.count_statement()?;
        let position = scanner.position();
        // A pragma ends with a semicolon of its own, so the position cannot distinguish it from a prototype's.
        if scanner.dotted_ahead() == "pragma" {
            let strings = pragma(scanner)?;
            directives.push(Directive { position, name: "pragma", numbers: Vec::new(), strings });
            continue;
        }
        directives.push(directive(scanner)?);
    }
    Ok(directives)
}

fn directive<'a>(scanner: &mut Scanner<'a>) -> Result<Directive<'a>> {
    let position = scanner.position();
    let name = scanner.dotted("a directive")?;
    let mut directive = Directive { position, name, numbers: Vec::new(), strings: Vec::new() };
    loop {
        match scanner.peek() {
            b'"' => directive.strings.push(scanner.string()?),
            byte if starts_word(byte) => directive.strings.push(scanner.name("a word")?),
            b'0'..=b'9' => directive.numbers.push(constant::unsigned(scanner, "a number")?),
            _ => return Ok(directive),
        }
        scanner.count_element()?;
        if !scanner.take(b',')? {
            return Ok(directive);
        }
    }
}

/// `.pragma "a", "b";`.
pub(super) fn pragma<'a>(scanner: &mut Scanner<'a>) -> Result<Vec<&'a str>> {
    scanner.dotted("`.pragma`")?;
    let mut strings = Vec::new();
    loop {
        scanner.count_element()?;
        strings.push(scanner.string()?);
        if !scanner.take(b',')? {
            scanner.expect(b';', "`;` after a pragma")?;
            return Ok(strings);
        }
    }
}
