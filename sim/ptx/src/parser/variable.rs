//! Declarations: variables, parameters and registers, with their types, shapes and initial values.
//! In goes the text from the space (`.global`) or from the type on, out come declarations, one per name.
//! It never checks that an initialiser fits its type or that a symbol exists.

use crate::ast::{Initializer, Linkage, Pointer, Registers, ScalarType, Space, Statement, SymbolAddress, Variable};
use crate::constant::{self, Constant};
use crate::scanner::{Result, Scanner, starts_word};

use super::bodies::Bodies;

/// The space a dotted word names, as far as variables are declared in it.
pub(super) fn space(word: &str) -> Option<Space> {
    Some(match word {
        "reg" => Space::Register,
        "global" => Space::Global,
        "const" => Space::Constant,
        "shared" => Space::Shared,
        "local" => Space::Local,
        "param" => Space::Parameter,
        "tex" => Space::Texture,
        _ => return None,
    })
}

/// Reads `.global .align 4 .u32 a, b[2] = {1, 2};`, the semicolon included, from the space on.
pub(super) fn variables<'a>(
    scanner: &mut Scanner<'a>,
    linkage: Linkage,
    bodies: Bodies,
    mut each: impl FnMut(&Scanner<'a>, Variable<'a>) -> Result<()>,
) -> Result<()> {
    let shape = shape(scanner, linkage)?;
    loop {
        scanner.count_statement()?;
        let mut variable = declarator(scanner, &shape)?;
        if scanner.take(b'=')? {
            variable.initializer = Some(if bodies == Bodies::Declarations && !variable.is_open() {
                scanner.skip_value()?;
                Initializer::List(Vec::new())
            } else {
                initializer(scanner, 0)?
            });
        }
        each(scanner, variable)?;
        if !scanner.take(b',')? {
            return scanner.expect(b';', "`;` after a declaration");
        }
    }
}

/// Reads `.reg .b32 %r<5>, %x;`, the semicolon included, from `.reg` on.
pub(super) fn registers<'a>(scanner: &mut Scanner<'a>, statements: &mut Vec<Statement<'a>>) -> Result<()> {
    variables(scanner, Linkage::Internal, Bodies::Read, |scanner, variable| {
        // Registers have no addresses: what a variable may have beyond a type, a width and a range has no meaning.
        if !variable.dimensions.is_empty() || variable.initializer.is_some() || variable.managed {
            let what = "a register cannot be an array, have attributes or an initial value";
            return Err(scanner.value_error(variable.position, what, variable.name));
        }
        statements.push(Statement::Registers(Registers {
            position: variable.position,
            lanes: variable.lanes,
            scalar: variable.scalar,
            name: variable.name,
            range: variable.range,
        }));
        Ok(())
    })
}

/// Reads `(.param .b32 a, .param .b64 _)` or `()`, when a parenthesis stands here; no parenthesis means no parameters.
pub(super) fn parameters<'a>(scanner: &mut Scanner<'a>) -> Result<Vec<Variable<'a>>> {
    let mut parameters = Vec::new();
    if !scanner.take(b'(')? || scanner.take(b')')? {
        return Ok(parameters);
    }
    loop {
        scanner.count_statement()?;
        if space(scanner.dotted_ahead()).is_none() {
            return Err(scanner.unexpected("`.param` or `.reg`"));
        }
        let shape = shape(scanner, Linkage::Internal)?;
        // A prototype may leave out the name altogether.
        let unnamed = matches!(scanner.peek(), b',' | b')');
        parameters.push(if unnamed { shape } else { declarator(scanner, &shape)? });
        if !scanner.take(b',')? {
            scanner.expect(b')', "`,` or `)` after a parameter")?;
            return Ok(parameters);
        }
    }
}

/// Space, attributes, alignment, vector width and type: everything before the name.
fn shape<'a>(scanner: &mut Scanner<'a>, linkage: Linkage) -> Result<Variable<'a>> {
    let position = scanner.position();
    let word = scanner.dotted("a state space")?;
    let Some(declared) = space(word) else {
        return Err(scanner.value_error(position, "not a state space of variables", word));
    };
    if declared == Space::Constant && scanner.take(b'[')? {
        constant::unsigned(scanner, "a bank number")?;
        scanner.expect(b']', "`]` after a bank number")?;
    }
    let mut shape = Variable {
        position,
        linkage,
        space: declared,
        alignment: None,
        lanes: 1,
        scalar: ScalarType::B8,
        name: "_",
        range: None,
        dimensions: Vec::new(),
        initializer: None,
        pointer: None,
        managed: false,
        unified: None,
    };
    let mut typed = false;
    while scanner.peek() == b'.' {
        typed |= qualifier(scanner, &mut shape)?;
    }
    if typed { Ok(shape) } else { Err(scanner.unexpected("a type")) }
}

/// One dotted word between space and name. Says whether it was the type.
fn qualifier(scanner: &mut Scanner<'_>, shape: &mut Variable<'_>) -> Result<bool> {
    let position = scanner.position();
    let word = scanner.dotted("a type or an attribute")?;
    if let Some(scalar) = ScalarType::from_modifier(word) {
        shape.scalar = scalar;
        return Ok(true);
    }
    match word {
        "align" => {
            let alignment = Some(alignment(scanner)?);
            match &mut shape.pointer {
                Some(pointer) => pointer.alignment = alignment,
                None => shape.alignment = alignment,
            }
        }
        "v2" => shape.lanes = 2,
        "v4" => shape.lanes = 4,
        "v8" => shape.lanes = 8,
        "attribute" => attributes(scanner, shape)?,
        "ptr" => shape.pointer = Some(Pointer { space: None, alignment: None }),
        _ => match (&mut shape.pointer, space(word)) {
            (Some(pointer), Some(space)) => pointer.space = Some(space),
            _ => return Err(scanner.value_error(position, "not a type or attribute of a variable", word)),
        },
    }
    Ok(false)
}

fn alignment(scanner: &mut Scanner<'_>) -> Result<u32> {
    let position = scanner.position();
    let alignment = constant::unsigned32(scanner, "an alignment in bytes")?;
    if alignment.is_power_of_two() {
        Ok(alignment)
    } else {
        Err(scanner.value_error(position, "an alignment must be a power of two", &alignment.to_string()))
    }
}

/// `(.managed, .unified(1, 2))`.
fn attributes(scanner: &mut Scanner<'_>, shape: &mut Variable<'_>) -> Result<()> {
    scanner.expect(b'(', "`(` of an attribute list")?;
    loop {
        let position = scanner.position();
        match scanner.dotted("an attribute")? {
            "managed" => shape.managed = true,
            "unified" => shape.unified = Some(unified(scanner)?),
            word => return Err(scanner.value_error(position, "not an attribute of a variable", word)),
        }
        if !scanner.take(b',')? {
            return scanner.expect(b')', "`,` or `)` in an attribute list");
        }
    }
}

/// `(upper, lower)` after `.unified`.
pub(super) fn unified(scanner: &mut Scanner<'_>) -> Result<[u64; 2]> {
    scanner.expect(b'(', "`(` after `.unified`")?;
    let upper = constant::unsigned(scanner, "the upper 64 bits of an identifier")?;
    scanner.expect(b',', "`,` between the halves of an identifier")?;
    let lower = constant::unsigned(scanner, "the lower 64 bits of an identifier")?;
    scanner.expect(b')', "`)` after an identifier")?;
    Ok([upper, lower])
}

/// Name, range and dimensions.
fn declarator<'a>(scanner: &mut Scanner<'a>, shape: &Variable<'a>) -> Result<Variable<'a>> {
    let mut variable = shape.clone();
    variable.position = scanner.position();
    variable.name = scanner.name("the name of a variable")?;
    if scanner.take(b'<')? {
        variable.range = Some(constant::plain(scanner, "a number of names")?);
        scanner.expect(b'>', "`>` after a number of names")?;
    }
    while scanner.take(b'[')? {
        scanner.count_element()?;
        let open = scanner.peek() == b']';
        let dimension = if open { None } else { Some(constant::unsigned(scanner, "an array dimension")?) };
        variable.dimensions.push(dimension);
        scanner.expect(b']', "`]` after an array dimension")?;
    }
    Ok(variable)
}

fn initializer<'a>(scanner: &mut Scanner<'a>, depth: usize) -> Result<Initializer<'a>> {
    scanner.count_element()?;
    if scanner.peek() == b'{' {
        return list(scanner, depth).map(Initializer::List);
    }
    if !constant::starts(scanner) {
        return symbol(scanner, None, depth).map(Initializer::Symbol);
    }
    let position = scanner.position();
    match constant::expression(scanner, depth)? {
        Constant::Integer(value) if scanner.peek() == b'(' => {
            scanner.take(b'(')?;
            let address = symbol(scanner, Some(value.bits), depth)?;
            scanner.expect(b')', "`)` after a masked symbol")?;
            Ok(Initializer::Symbol(address))
        }
        Constant::Float(_) if scanner.peek() == b'(' => {
            Err(scanner.value_error(position, "a mask must be an integer, this is a float before", "("))
        }
        Constant::Integer(value) => Ok(Initializer::Integer(value)),
        Constant::Float(value) => Ok(Initializer::Float(value)),
    }
}

fn list<'a>(scanner: &mut Scanner<'a>, depth: usize) -> Result<Vec<Initializer<'a>>> {
    let depth = scanner.deeper(depth)?;
    scanner.expect(b'{', "`{`")?;
    let mut elements = Vec::new();
    while !scanner.take(b'}')? {
        elements.push(initializer(scanner, depth)?);
        if !scanner.take(b',')? {
            scanner.expect(b'}', "`,` or `}` in an initialiser")?;
            break;
        }
    }
    elements.shrink_to_fit();
    Ok(elements)
}

/// `sym`, `sym+4`, `generic(sym)`, `generic(sym)+4`.
fn symbol<'a>(scanner: &mut Scanner<'a>, mask: Option<u64>, depth: usize) -> Result<SymbolAddress<'a>> {
    if !starts_word(scanner.peek()) {
        return Err(scanner.unexpected("a number, a symbol or `{`"));
    }
    let mut address = SymbolAddress { name: scanner.name("a symbol")?, offset: 0, generic: false, mask };
    if address.name == "generic" && scanner.take(b'(')? {
        address.generic = true;
        address.name = scanner.name("a symbol")?;
        address.offset = constant::offset(scanner, depth)?;
        scanner.expect(b')', "`)` after `generic(` and a symbol")?;
    }
    address.offset = address.offset.wrapping_add(constant::offset(scanner, depth)?);
    Ok(address)
}
