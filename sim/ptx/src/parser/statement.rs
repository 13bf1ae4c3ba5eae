//! Bodies: instructions, labels, declarations and the directives among them.
//! In goes the text from `{` to its `}`, out comes a flat list of statements with balanced scope marks.
//! It never checks that an instruction exists; whatever has the shape of one is one.

use crate::ast::{
    Guard, Instruction, Label, Linkage, Location, Opcode, Position, Prototype, Space, Statement, Targets, TargetsKind,
};
use crate::constant;
use crate::scanner::{Result, Scanner, is_word, starts_word};

use super::bodies::Bodies;
use super::{directive as directives, operand, variable};

/// Reads a body, both braces included.
pub(super) fn body<'a>(scanner: &mut Scanner<'a>) -> Result<Vec<Statement<'a>>> {
    scanner.expect(b'{', "`{` of a body")?;
    let mut statements = Vec::new();
    let mut depth = 0;
    loop {
        let position = scanner.position();
        match scanner.peek() {
            b'{' => {
                depth = scanner.deeper(depth)?;
                scanner.take(b'{')?;
                scanner.count_statement()?;
                statements.push(Statement::ScopeOpen(position));
            }
            b'}' => {
                scanner.take(b'}')?;
                if depth == 0 {
                    return Ok(statements);
                }
                depth -= 1;
                statements.push(Statement::ScopeClose(position));
            }
            _ => statement(scanner, position, &mut statements)?,
        }
    }
}

/// Reads a body, both braces included, for the variables it declares.
pub(super) fn declarations<'a>(scanner: &mut Scanner<'a>) -> Result<Vec<Statement<'a>>> {
    scanner.expect(b'{', "`{` of a body")?;
    let mut declared = Vec::new();
    let mut depth = 0_usize;
    loop {
        let position = scanner.position();
        match scanner.peek() {
            b'{' => {
                depth = scanner.deeper(depth)?;
                scanner.take(b'{')?;
            }
            b'}' => {
                scanner.take(b'}')?;
                if depth == 0 {
                    return Ok(declared);
                }
                depth -= 1;
            }
            // Memory of a launch's, and types nobody need know.
            b'.' if matches!(scanner.dotted_ahead(), "reg" | "param" | "local" | "shared") => {
                scanner.count_statement()?;
                scanner.skip_declaration()?;
            }
            b'.' => {
                scanner.count_statement()?;
                let before = declared.len();
                directive(scanner, position, Bodies::Declarations, &mut declared)?;
                if !matches!(declared.get(before), Some(Statement::Variable(_))) {
                    declared.truncate(before);
                }
            }
            _ => skip_instruction(scanner)?,
        }
    }
}

/// Moves over a label, an instruction, or a list of targets behind its label.
fn skip_instruction(scanner: &mut Scanner<'_>) -> Result<()> {
    scanner.count_statement()?;
    match scanner.peek() {
        b'@' => {
            guard(scanner)?;
        }
        b';' => return scanner.take(b';').map(drop),
        byte if starts_word(byte) && scanner.peek_at(scanner.word_ahead().len()) != b'.' => {
            scanner.name("a label or an instruction")?;
            if !scanner.take(b':')? {
                return scanner.skip_operands();
            }
            return match scanner.dotted_ahead() {
                "callprototype" | "calltargets" | "branchtargets" => scanner.skip_prototype(),
                _ => Ok(()),
            };
        }
        _ => {}
    }
    if !starts_word(scanner.peek()) {
        return Err(scanner.unexpected("a statement or `}`"));
    }
    scanner.skip_operands()
}

/// Reads one statement that is not a scope's brace. A declaration of several names gives several.
fn statement<'a>(scanner: &mut Scanner<'a>, position: Position, statements: &mut Vec<Statement<'a>>) -> Result<()> {
    scanner.count_statement()?;
    match scanner.peek() {
        b'@' => {
            let guard = guard(scanner)?;
            statements.push(instruction(scanner, position, Some(guard))?);
            Ok(())
        }
        b'.' => directive(scanner, position, Bodies::Read, statements),
        b';' => scanner.take(b';').map(drop),
        byte if starts_word(byte) => {
            // A label is a word and a colon; `::` belongs to a modifier, which only follows a dot.
            let word = scanner.word_ahead();
            if scanner.peek_at(word.len()) == b'.' {
                statements.push(instruction(scanner, position, None)?);
                return Ok(());
            }
            named(scanner, position, statements)
        }
        _ => Err(scanner.unexpected("a statement or `}`")),
    }
}

/// A statement that starts with a word without dots: a label, or an instruction without modifiers.
fn named<'a>(scanner: &mut Scanner<'a>, position: Position, statements: &mut Vec<Statement<'a>>) -> Result<()> {
    let start = scanner.offset();
    let name = scanner.name("a label or an instruction")?;
    if !scanner.take(b':')? {
        let opcode = modifiers(scanner, start, start + name.len())?;
        statements.push(operands(scanner, position, None, opcode)?);
        return Ok(());
    }
    let directive = match scanner.dotted_ahead() {
        "callprototype" => prototype(scanner, position, name)?,
        "calltargets" => targets(scanner, position, name, TargetsKind::Call)?,
        "branchtargets" => targets(scanner, position, name, TargetsKind::Branch)?,
        _ => Statement::Label(Label { position, name }),
    };
    statements.push(directive);
    Ok(())
}

/// `@p` or `@!p`.
fn guard<'a>(scanner: &mut Scanner<'a>) -> Result<Guard<'a>> {
    scanner.expect(b'@', "`@`")?;
    let negated = scanner.take(b'!')?;
    Ok(Guard { register: scanner.name("a predicate register")?, negated })
}

fn instruction<'a>(scanner: &mut Scanner<'a>, position: Position, guard: Option<Guard<'a>>) -> Result<Statement<'a>> {
    if !starts_word(scanner.peek()) {
        return Err(scanner.unexpected("an instruction"));
    }
    let start = scanner.offset();
    scanner.advance(scanner.word_ahead().len());
    let opcode = modifiers(scanner, start, scanner.offset())?;
    operands(scanner, position, guard, opcode)
}

/// Reads `.global.L2::cache_hint.f32` behind a mnemonic that spans `start..end`, and gives the whole opcode.
/// Blanks may stand before a dot; `Opcode` leaves them out.
fn modifiers<'a>(scanner: &mut Scanner<'a>, start: usize, mut end: usize) -> Result<Opcode<'a>> {
    loop {
        scanner.blank()?;
        // A dot and a digit behind a blank are a float; `.2d` and the like come without a blank.
        let adjacent = scanner.offset() == end;
        if scanner.peek() != b'.' || !is_word(scanner.peek_at(1)) || !(adjacent || starts_word(scanner.peek_at(1))) {
            break;
        }
        let between = scanner.slice(end, scanner.offset());
        if between.contains('/') {
            return Err(scanner.unexpected("an opcode without a comment inside"));
        }
        while scanner.peek() == b'.' && is_word(scanner.peek_at(1)) {
            scanner.advance(1);
            scanner.advance(scanner.word_ahead().len());
            while scanner.peek() == b':' && scanner.peek_at(1) == b':' && is_word(scanner.peek_at(2)) {
                scanner.advance(2);
                scanner.advance(scanner.word_ahead().len());
            }
        }
        end = scanner.offset();
    }
    Ok(Opcode::new(scanner.slice(start, end)))
}

fn operands<'a>(
    scanner: &mut Scanner<'a>,
    position: Position,
    guard: Option<Guard<'a>>,
    opcode: Opcode<'a>,
) -> Result<Statement<'a>> {
    let operands = operand::operands(scanner, opcode.mnemonic() == "call")?;
    scanner.expect(b';', "`,` or `;` after an operand")?;
    Ok(Statement::Instruction(Instruction { position, guard, opcode, operands }))
}

/// A statement that starts with a dot.
fn directive<'a>(
    scanner: &mut Scanner<'a>,
    position: Position,
    bodies: Bodies,
    statements: &mut Vec<Statement<'a>>,
) -> Result<()> {
    match scanner.dotted_ahead() {
        "reg" => variable::registers(scanner, statements),
        "loc" => {
            statements.push(Statement::Location(location(scanner)?));
            Ok(())
        }
        "pragma" => {
            for text in directives::pragma(scanner)? {
                statements.push(Statement::Pragma(position, text));
            }
            Ok(())
        }
        "section" => skip_section(scanner),
        word => {
            let linkage = directives::linkage(word);
            if linkage.is_some() {
                scanner.dotted("a linkage")?;
            }
            let space = variable::space(scanner.dotted_ahead());
            if space.is_none_or(|space| space == Space::Register) {
                return Err(scanner.unexpected("a declaration, an instruction or `}`"));
            }
            let linkage = linkage.unwrap_or(Linkage::Internal);
            variable::variables(scanner, linkage, bodies, |_, variable| {
                statements.push(Statement::Variable(Box::new(variable)));
                Ok(())
            })
        }
    }
}

/// `.loc file line column`, with `function_name` and `inlined_at` read and left out. It ends without a semicolon.
pub(super) fn location(scanner: &mut Scanner<'_>) -> Result<Location> {
    let position = scanner.position();
    scanner.dotted("`.loc`")?;
    let (file, line, column) = place(scanner)?;
    while scanner.take(b',')? {
        let position = scanner.position();
        match scanner.name("`function_name` or `inlined_at`")? {
            "function_name" => {
                scanner.name("a label in a section")?;
                constant::offset(scanner, 0)?;
            }
            "inlined_at" => {
                place(scanner)?;
            }
            word => return Err(scanner.value_error(position, "not an attribute of a source location", word)),
        }
    }
    Ok(Location { position, file, line, column })
}

fn place(scanner: &mut Scanner<'_>) -> Result<(u32, u32, u32)> {
    let file = constant::plain(scanner, "a file number")?;
    let line = constant::plain(scanner, "a line number")?;
    Ok((file, line, constant::plain(scanner, "a column number")?))
}

/// `.section name { … }`: debugging information, which nothing here uses.
pub(super) fn skip_section(scanner: &mut Scanner<'_>) -> Result<()> {
    scanner.dotted("`.section`")?;
    if scanner.peek() == b'.' {
        scanner.dotted("the name of a section")?;
    } else {
        scanner.name("the name of a section")?;
    }
    if scanner.peek() != b'{' {
        return Err(scanner.unexpected("`{` of a section"));
    }
    scanner.skip_braces()
}

/// `.callprototype (returns) _ (parameters) .noreturn;`.
fn prototype<'a>(scanner: &mut Scanner<'a>, position: Position, name: &'a str) -> Result<Statement<'a>> {
    scanner.dotted("`.callprototype`")?;
    let returns = variable::parameters(scanner)?;
    scanner.name("`_` where a function's name would stand")?;
    let parameters = variable::parameters(scanner)?;
    let directives = directives::directives(scanner)?;
    scanner.expect(b';', "`;` after a call prototype")?;
    Ok(Statement::Prototype(Box::new(Prototype { position, name, returns, parameters, directives })))
}

/// `.calltargets f, g;` or `.branchtargets A, B;`.
fn targets<'a>(
    scanner: &mut Scanner<'a>,
    position: Position,
    name: &'a str,
    kind: TargetsKind,
) -> Result<Statement<'a>> {
    scanner.dotted("a list of targets")?;
    let mut targets = Vec::new();
    loop {
        scanner.count_element()?;
        targets.push(scanner.name("a function or a label")?);
        if !scanner.take(b',')? {
            break;
        }
    }
    scanner.expect(b';', "`,` or `;` in a list of targets")?;
    Ok(Statement::Targets(Box::new(Targets { position, kind, name, targets })))
}
