//! The tree as PTX text again: for messages that show an instruction, and to check that parsing loses nothing.
//! In goes any part of the tree, out comes text that parses to the same part (positions aside).
//! It never reproduces layout or comments, and prints constants by value, not as they were written.

use std::fmt::{Display, Formatter, Result};

use crate::ast::{
    Directive, Float, Function, FunctionKind, Initializer, Instruction, Integer, Linkage, Module, Operand, Prototype,
    Registers, Space, Statement, SymbolAddress, TargetsKind, Variable,
};

/// Writes items with a separator between them.
fn separated<T>(
    out: &mut Formatter<'_>,
    items: &[T],
    mut item: impl FnMut(&mut Formatter<'_>, &T) -> Result,
) -> Result {
    for (index, value) in items.iter().enumerate() {
        if index > 0 {
            out.write_str(", ")?;
        }
        item(out, value)?;
    }
    Ok(())
}

fn all<T: Display>(out: &mut Formatter<'_>, open: &str, items: &[T], close: &str) -> Result {
    out.write_str(open)?;
    separated(out, items, |out, item| write!(out, "{item}"))?;
    out.write_str(close)
}

impl Display for Integer {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        if self.unsigned { write!(out, "{}U", self.bits) } else { write!(out, "{}", self.as_i64()) }
    }
}

impl Display for Float {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        match self {
            Self::Single(bits) => write!(out, "0f{bits:08X}"),
            Self::Double(bits) => write!(out, "0d{bits:016X}"),
        }
    }
}

/// `base+offset`; the offset is left out when it is 0.
struct Sum<'a>(&'a str, i64);

impl Display for Sum<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        match self.1 {
            0 => out.write_str(self.0),
            offset => write!(out, "{}+{offset}", self.0),
        }
    }
}

impl Display for Operand<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        match self {
            Self::Name(name) => out.write_str(name),
            Self::Sink => out.write_str("_"),
            Self::Integer(value) => value.fmt(out),
            Self::Float(value) => value.fmt(out),
            Self::Not(name) => write!(out, "!{name}"),
            Self::Negated(name) => write!(out, "-{name}"),
            Self::Pair(first, second) => write!(out, "{}|{}", first.unwrap_or("_"), second.unwrap_or("_")),
            // The zero is written: without it this would be a name.
            Self::Offset { name, offset } => write!(out, "{name}+{offset}"),
            Self::Address { base: Some(base), offset } => write!(out, "[{}]", Sum(base, *offset)),
            Self::Address { base: None, offset } => write!(out, "[{offset}]"),
            Self::Element { array, index: Some(index), offset } => write!(out, "{array}[{}]", Sum(index, *offset)),
            Self::Element { array, index: None, offset } => write!(out, "{array}[{offset}]"),
            Self::Vector(elements) => all(out, "{", elements, "}"),
            Self::Tuple(elements) => all(out, "[", elements, "]"),
            Self::List(elements) => all(out, "(", elements, ")"),
        }
    }
}

impl Display for Instruction<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        if let Some(guard) = &self.guard {
            write!(out, "@{}{} ", if guard.negated { "!" } else { "" }, guard.register)?;
        }
        write!(out, "{}", self.opcode)?;
        all(out, if self.operands.is_empty() { "" } else { " " }, &self.operands, ";")
    }
}

fn space_name(space: Space) -> &'static str {
    match space {
        Space::Register => "reg",
        Space::Global => "global",
        Space::Constant => "const",
        Space::Shared => "shared",
        Space::Local => "local",
        Space::Parameter => "param",
        Space::Texture => "tex",
    }
}

fn linkage_text(linkage: Linkage) -> &'static str {
    match linkage {
        Linkage::Internal => "",
        Linkage::Visible => ".visible ",
        Linkage::Extern => ".extern ",
        Linkage::Weak => ".weak ",
        Linkage::Common => ".common ",
    }
}

/// The declaration without a semicolon, as in a parameter list.
impl Display for Variable<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        write!(out, "{}.{}", linkage_text(self.linkage), space_name(self.space))?;
        attributes(out, self)?;
        if let Some(alignment) = self.alignment {
            write!(out, " .align {alignment}")?;
        }
        shape(out, self.lanes, self.scalar.name())?;
        if let Some(pointer) = self.pointer {
            out.write_str(" .ptr")?;
            pointer.space.map_or(Ok(()), |space| write!(out, " .{}", space_name(space)))?;
            pointer.alignment.map_or(Ok(()), |alignment| write!(out, " .align {alignment}"))?;
        }
        write!(out, " {}", self.name)?;
        range(out, self.range)?;
        for dimension in &self.dimensions {
            match dimension {
                Some(length) => write!(out, "[{length}]")?,
                None => out.write_str("[]")?,
            }
        }
        self.initializer.as_ref().map_or(Ok(()), |value| write!(out, " = {value}"))
    }
}

fn attributes(out: &mut Formatter<'_>, variable: &Variable<'_>) -> Result {
    match (variable.managed, variable.unified) {
        (false, None) => Ok(()),
        (true, None) => out.write_str(" .attribute(.managed)"),
        (false, Some([upper, lower])) => write!(out, " .attribute(.unified({upper}, {lower}))"),
        (true, Some([upper, lower])) => write!(out, " .attribute(.managed, .unified({upper}, {lower}))"),
    }
}

fn shape(out: &mut Formatter<'_>, lanes: u8, scalar: &str) -> Result {
    if lanes > 1 {
        write!(out, " .v{lanes}")?;
    }
    write!(out, " .{scalar}")
}

fn range(out: &mut Formatter<'_>, range: Option<u32>) -> Result {
    range.map_or(Ok(()), |count| write!(out, "<{count}>"))
}

impl Display for Initializer<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        match self {
            Self::Integer(value) => value.fmt(out),
            Self::Float(value) => value.fmt(out),
            Self::Symbol(address) => address.fmt(out),
            Self::List(elements) => all(out, "{", elements, "}"),
        }
    }
}

impl Display for SymbolAddress<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        if let Some(mask) = self.mask {
            write!(out, "{mask}U(")?;
        }
        match (self.generic, self.offset) {
            (false, offset) => Sum(self.name, offset).fmt(out)?,
            (true, 0) => write!(out, "generic({})", self.name)?,
            (true, offset) => write!(out, "generic({})+{offset}", self.name)?,
        }
        out.write_str(if self.mask.is_some() { ")" } else { "" })
    }
}

impl Display for Registers<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        out.write_str(".reg")?;
        shape(out, self.lanes, self.scalar.name())?;
        write!(out, " {}", self.name)?;
        range(out, self.range)?;
        out.write_str(";")
    }
}

impl Display for Prototype<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        write!(out, "{}: .callprototype ", self.name)?;
        all(out, "(", &self.returns, ") _ ")?;
        all(out, "(", &self.parameters, ")")?;
        directives(out, &self.directives)?;
        out.write_str(";")
    }
}

impl Display for Statement<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        match self {
            Self::Instruction(instruction) => instruction.fmt(out),
            Self::Label(label) => write!(out, "{}:", label.name),
            Self::Registers(registers) => registers.fmt(out),
            Self::Variable(variable) => write!(out, "{variable};"),
            Self::ScopeOpen(_) => out.write_str("{"),
            Self::ScopeClose(_) => out.write_str("}"),
            Self::Location(at) => write!(out, ".loc {} {} {}", at.file, at.line, at.column),
            Self::Prototype(prototype) => prototype.fmt(out),
            Self::Targets(targets) => {
                let kind = match targets.kind {
                    TargetsKind::Call => "calltargets",
                    TargetsKind::Branch => "branchtargets",
                };
                write!(out, "{}: .{kind} ", targets.name)?;
                all(out, "", &targets.targets, ";")
            }
            Self::Pragma(_, text) => write!(out, ".pragma \"{text}\";"),
        }
    }
}

fn directives(out: &mut Formatter<'_>, directives: &[Directive<'_>]) -> Result {
    directives.iter().filter(|directive| directive.name != "unified").try_for_each(|directive| {
        write!(out, " .{} ", directive.name)?;
        all(out, "", &directive.numbers, "")?;
        out.write_str(if directive.numbers.is_empty() || directive.strings.is_empty() { "" } else { ", " })?;
        separated(out, &directive.strings, |out, text| write!(out, "\"{text}\""))?;
        out.write_str(if directive.name == "pragma" { ";" } else { "" })
    })
}

impl Display for Function<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        let kind = if self.kind == FunctionKind::Entry { "entry" } else { "func" };
        write!(out, "{}.{kind} ", linkage_text(self.linkage))?;
        if let Some([upper, lower]) = self.directive("unified").map(|directive| directive.numbers.as_slice()) {
            write!(out, ".attribute(.unified({upper}, {lower})) ")?;
        }
        if self.kind == FunctionKind::Function {
            all(out, "(", &self.returns, ") ")?;
        }
        all(out, &format!("{}(", self.name), &self.parameters, ")")?;
        directives(out, &self.directives)?;
        let Some(body) = &self.body else {
            return out.write_str(";\n");
        };
        out.write_str("\n{\n")?;
        body.iter().try_for_each(|statement| writeln!(out, "\t{statement}"))?;
        out.write_str("}\n")
    }
}

impl Display for Module<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        writeln!(out, ".version {}.{}", self.version.major, self.version.minor)?;
        all(out, ".target ", &self.targets, "\n")?;
        writeln!(out, ".address_size {}", self.address_size)?;
        for file in &self.files {
            writeln!(out, ".file {} \"{}\"", file.number, file.path)?;
        }
        for text in &self.pragmas {
            writeln!(out, ".pragma \"{text}\";")?;
        }
        self.variables.iter().try_for_each(|variable| writeln!(out, "{variable};"))?;
        self.functions.iter().try_for_each(|function| writeln!(out, "{function}"))?;
        self.aliases.iter().try_for_each(|alias| writeln!(out, ".alias {}, {};", alias.name, alias.target))
    }
}
