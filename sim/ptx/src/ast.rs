//! The generic syntax tree: what a PTX text says, before anybody asks what it means.
//! Names, opcodes and strings borrow from the text. Opcodes are a mnemonic and dotted modifiers, and operands are
//! untyped. A future instruction therefore still parses, and fails only where it is lowered.
//! Nothing here checks that a name is declared or that an instruction exists.

mod directive;
mod function;
mod operand;
mod position;
mod scalar_type;
mod statement;
mod variable;

pub use directive::*;
pub use function::*;
pub use operand::*;
pub use position::*;
pub use scalar_type::*;
pub use statement::*;
pub use variable::*;

/// A whole PTX text. Items of a kind stand in the order of the text.
#[derive(Clone, Debug, PartialEq)]
pub struct Module<'a> {
    /// `.version major.minor`.
    pub version: Version,
    /// `.target`: architecture first (`sm_90a`), then options (`texmode_independent`, `debug`, `map_f64_to_f32`).
    pub targets: Vec<&'a str>,
    /// `.address_size`: 32 or 64; 64 where the text does not say (as nvcc for every target still supported).
    pub address_size: u8,
    /// Module-scope variables of all spaces, textures included.
    pub variables: Vec<Variable<'a>>,
    /// Kernels, functions and prototypes. A name may occur several times: prototypes, then at most one body.
    pub functions: Vec<Function<'a>>,
    /// `.alias`.
    pub aliases: Vec<Alias<'a>>,
    /// Strings of module-scope `.pragma` directives.
    pub pragmas: Vec<&'a str>,
    /// `.file` directives: what the file numbers of `.loc` mean.
    pub files: Vec<SourceFile<'a>>,
}

impl<'a> Module<'a> {
    /// The architecture of `.target`, such as `sm_90a`; empty when the text names none.
    pub fn architecture(&self) -> &'a str {
        self.targets.first().copied().unwrap_or("")
    }

    /// The function of that name: its definition where there is one, otherwise its first prototype.
    pub fn function(&self, name: &str) -> Option<&Function<'a>> {
        let mut named = self.functions.iter().filter(|function| function.name == name);
        let first = named.next()?;
        if first.body.is_some() {
            return Some(first);
        }
        named.find(|function| function.body.is_some()).or(Some(first))
    }

    /// The kernels that have a body.
    pub fn kernels(&self) -> impl Iterator<Item = &Function<'a>> {
        self.functions.iter().filter(|function| function.kind == FunctionKind::Entry && function.body.is_some())
    }
}

/// A PTX ISA version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// 9 of `9.0`.
    pub major: u32,
    /// 0 of `9.0`.
    pub minor: u32,
}

/// `.file number "path"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceFile<'a> {
    /// The number `.loc` uses.
    pub number: u32,
    /// The path, as written between the quotes (escapes are left as they are).
    pub path: &'a str,
}

/// `.alias name, target;`: calls of `name` go to `target`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias<'a> {
    /// Position of the directive.
    pub position: Position,
    /// The new name.
    pub name: &'a str,
    /// The function it stands for.
    pub target: &'a str,
}
