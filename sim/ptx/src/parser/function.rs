//! Kernels, functions and prototypes: signature, directives, body.
//! In goes the text from `.entry` or `.func` on, out comes a [`Function`].
//! It never checks a call against a signature.

use crate::ast::{Directive, Function, FunctionKind, Linkage, Span};
use crate::scanner::{Result, Scanner};

use super::bodies::Bodies;
use super::{directive, statement, variable};

/// Reads a function from `.entry` or `.func` on.
pub(super) fn function<'a>(scanner: &mut Scanner<'a>, linkage: Linkage, bodies: Bodies) -> Result<Function<'a>> {
    scanner.count_statement()?;
    let kind = match scanner.dotted("`.entry` or `.func`")? {
        "entry" => FunctionKind::Entry,
        _ => FunctionKind::Function,
    };
    let mut directives = Vec::new();
    if scanner.dotted_ahead() == "attribute" {
        directives.push(attribute(scanner)?);
    }
    let returns = if kind == FunctionKind::Function { variable::parameters(scanner)? } else { Vec::new() };
    let position = scanner.position();
    let name = scanner.name("the name of a function")?;
    let parameters = variable::parameters(scanner)?;
    directives.extend(directive::directives(scanner)?);
    let mut function =
        Function { position, linkage, kind, name, returns, parameters, directives, body: None, body_span: None };
    if !scanner.take(b';')? {
        body(scanner, &mut function, bodies)?;
    }
    Ok(function)
}

fn body<'a>(scanner: &mut Scanner<'a>, function: &mut Function<'a>, bodies: Bodies) -> Result<()> {
    if scanner.peek() != b'{' {
        return Err(scanner.unexpected("`{` of a body, `;` of a prototype, or a directive"));
    }
    let (start, position) = (scanner.offset(), scanner.position());
    function.body = Some(match bodies {
        Bodies::Read => statement::body(scanner)?,
        Bodies::Declarations => statement::declarations(scanner)?,
        Bodies::Skip => {
            scanner.skip_braces()?;
            Vec::new()
        }
    });
    function.body_span = Some(Span { start, end: scanner.mark_end(), position });
    Ok(())
}

/// `.attribute(.unified(1, 2))` of a function.
fn attribute<'a>(scanner: &mut Scanner<'a>) -> Result<Directive<'a>> {
    let position = scanner.position();
    scanner.dotted("`.attribute`")?;
    scanner.expect(b'(', "`(` of an attribute list")?;
    let name_position = scanner.position();
    let name = scanner.dotted("an attribute")?;
    if name != "unified" {
        return Err(scanner.value_error(name_position, "not an attribute of a function", name));
    }
    let numbers = variable::unified(scanner)?.to_vec();
    scanner.expect(b')', "`)` of an attribute list")?;
    Ok(Directive { position, name, numbers, strings: Vec::new() })
}
