//! The module: version, target, and the items after them.
//! In goes a whole text, out comes a [`Module`] with its items sorted by kind.
//! It never resolves a name; two items of the same name are both kept.

use crate::ast::{Alias, Linkage, Module, SourceFile, Space, Version};
use crate::constant;
use crate::scanner::{Result, Scanner};

use super::bodies::Bodies;
use super::{directive, function, statement, variable};

pub(super) fn module<'a>(scanner: &mut Scanner<'a>, bodies: Bodies) -> Result<Module<'a>> {
    let mut module = Module {
        version: version(scanner)?,
        targets: Vec::new(),
        address_size: 64,
        variables: Vec::new(),
        functions: Vec::new(),
        aliases: Vec::new(),
        pragmas: Vec::new(),
        files: Vec::new(),
    };
    if scanner.dotted_ahead() != "target" {
        return Err(scanner.unexpected("`.target`"));
    }
    while !scanner.at_end() {
        item(scanner, &mut module, bodies)?;
    }
    Ok(module)
}

/// `.version 9.0`.
fn version(scanner: &mut Scanner<'_>) -> Result<Version> {
    if scanner.dotted_ahead() != "version" {
        return Err(scanner.unexpected("`.version`"));
    }
    scanner.dotted("`.version`")?;
    // Read as two numbers, since 9.10 is not 9.1.
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let position = scanner.position();
    let major = digits(scanner.word_ahead());
    let start = scanner.offset();
    scanner.advance(major);
    if major == 0 || scanner.peek() != b'.' {
        return Err(scanner.unexpected("a version such as `9.0`"));
    }
    scanner.advance(1);
    let minor = scanner.word_ahead();
    scanner.advance(minor.len());
    let text = scanner.slice(start, scanner.offset());
    scanner.blank()?;
    match (text.get(..major).map(str::parse), minor.parse()) {
        (Some(Ok(major)), Ok(minor)) => Ok(Version { major, minor }),
        _ => Err(scanner.value_error(position, "not a version such as `9.0`", text)),
    }
}

fn item<'a>(scanner: &mut Scanner<'a>, module: &mut Module<'a>, bodies: Bodies) -> Result<()> {
    let word = scanner.dotted_ahead();
    match word {
        "target" => target(scanner, module),
        "address_size" => address_size(scanner, module),
        "file" => file(scanner, module),
        "loc" => statement::location(scanner).map(drop),
        "section" => statement::skip_section(scanner),
        "pragma" => directive::pragma(scanner).map(|strings| module.pragmas.extend(strings)),
        "alias" => alias(scanner, module),
        _ if scanner.peek() == b';' => scanner.take(b';').map(drop),
        // `@@DWARF …`: debugging information of old compilers, one line each.
        _ if bodies != Bodies::Declarations && scanner.peek() == b'@' && scanner.peek_at(1) == b'@' => {
            scanner.skip_line();
            scanner.blank()
        }
        _ => declaration(scanner, module, bodies),
    }
}

/// A variable or a function, with its linkage.
fn declaration<'a>(scanner: &mut Scanner<'a>, module: &mut Module<'a>, bodies: Bodies) -> Result<()> {
    let linkage = directive::linkage(scanner.dotted_ahead());
    if linkage.is_some() {
        scanner.dotted("a linkage")?;
    }
    let linkage = linkage.unwrap_or(Linkage::Internal);
    match scanner.dotted_ahead() {
        "entry" | "func" => {
            module.functions.push(function::function(scanner, linkage, bodies)?);
            Ok(())
        }
        word if variable::space(word).is_some_and(is_module_space) => {
            variable::variables(scanner, linkage, bodies, |_, variable| {
                module.variables.push(variable);
                Ok(())
            })
        }
        _ => Err(scanner.unexpected("a variable, a function or another directive of a module")),
    }
}

/// Spaces a variable of the module may be in. Registers, parameters and locals belong to a function.
fn is_module_space(space: Space) -> bool {
    matches!(space, Space::Global | Space::Constant | Space::Shared | Space::Texture | Space::Local)
}

/// `.target sm_90a, debug`. A module may have several such directives; their words add up.
fn target<'a>(scanner: &mut Scanner<'a>, module: &mut Module<'a>) -> Result<()> {
    scanner.dotted("`.target`")?;
    loop {
        scanner.count_element()?;
        let word = scanner.name("a target such as `sm_90`")?;
        if !module.targets.contains(&word) {
            module.targets.push(word);
        }
        if !scanner.take(b',')? {
            return Ok(());
        }
    }
}

fn address_size(scanner: &mut Scanner<'_>, module: &mut Module<'_>) -> Result<()> {
    scanner.dotted("`.address_size`")?;
    let position = scanner.position();
    module.address_size = match constant::plain(scanner, "32 or 64")? {
        32 => 32,
        64 => 64,
        other => return Err(scanner.value_error(position, "an address size is 32 or 64", &other.to_string())),
    };
    Ok(())
}

/// `.file 1 "path", time, size`. It ends without a semicolon.
fn file<'a>(scanner: &mut Scanner<'a>, module: &mut Module<'a>) -> Result<()> {
    scanner.count_statement()?;
    scanner.dotted("`.file`")?;
    let number = constant::plain(scanner, "a file number")?;
    let path = scanner.string()?;
    // Time stamp and size of the file.
    while scanner.take(b',')? {
        constant::unsigned(scanner, "a time stamp or a size")?;
    }
    module.files.push(SourceFile { number, path });
    Ok(())
}

/// `.alias name, target;`.
fn alias<'a>(scanner: &mut Scanner<'a>, module: &mut Module<'a>) -> Result<()> {
    scanner.count_statement()?;
    let position = scanner.position();
    scanner.dotted("`.alias`")?;
    let name = scanner.name("the name of an alias")?;
    scanner.expect(b',', "`,` between an alias and its function")?;
    let target = scanner.name("the function an alias stands for")?;
    scanner.expect(b';', "`;` after an alias")?;
    module.aliases.push(Alias { position, name, target });
    Ok(())
}
