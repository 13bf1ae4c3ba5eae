//! What names mean inside a function: registers, variables, parameters, labels, with their scopes.
//! In goes the function's body, out come lookups by scope. Registers get their place in the frame when they are first used,
//! so that the hundreds a compiler declares and never uses cost nothing.

use rustc_hash::FxHashMap as HashMap;

use floe_ptx::{ScalarType, Space, Statement};

use super::image::Words;

/// A declared register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegisterId {
    /// Number in the order of declaration: what snapshots are keyed by.
    pub(crate) number: u32,
    pub(crate) scalar: ScalarType,
}

/// What a name of a function's body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Register(RegisterId),
    /// Offset in the function's local variables.
    Local(u32),
    /// Statement that declares a shared variable.
    Shared(usize),
    /// Dynamic shared memory.
    DynamicShared,
    /// Words of the frame that hold a parameter or argument, and its bytes.
    Words(Words, u32),
    /// Offset and bytes in the kernel's parameters.
    Parameter(u32, u32),
    /// Statement of a `.branchtargets`, `.calltargets` or `.callprototype`.
    List(usize),
    /// A variable of a space that bodies may not declare here.
    Foreign(Space),
}

/// Registers declared as `name<count>`.
#[derive(Clone, Copy, Debug)]
struct Range {
    first: u32,
    count: u32,
    scalar: ScalarType,
}

#[derive(Default)]
struct Scope<'a> {
    parent: Option<usize>,
    names: HashMap<&'a str, Name>,
    ranges: HashMap<&'a str, Range>,
    labels: HashMap<&'a str, usize>,
}

/// The names of a function.
pub(crate) struct Names<'a> {
    scopes: Vec<Scope<'a>>,
    /// Bytes of local variables.
    pub(crate) local_bytes: u32,
    registers: u32,
}

impl<'a> Names<'a> {
    /// Collects what the body declares; `words` makes room for an argument buffer of that many bytes.
    /// An error is the statement's number and what is wrong.
    pub(crate) fn collect(
        body: &[Statement<'a>],
        mut words: impl FnMut(u32) -> Words,
    ) -> Result<Self, (usize, String)> {
        let mut names = Self { scopes: vec![Scope::default()], local_bytes: 0, registers: 0 };
        let mut current = 0;
        for (index, statement) in body.iter().enumerate() {
            match statement {
                Statement::ScopeOpen(_) => {
                    names.scopes.push(Scope { parent: Some(current), ..Scope::default() });
                    current = names.scopes.len() - 1;
                }
                Statement::ScopeClose(_) => current = names.scopes[current].parent.unwrap_or(0),
                Statement::Registers(registers) => {
                    if registers.lanes != 1 {
                        return Err((index, format!("vector register: {}", registers.name)));
                    }
                    names.declare_registers(current, registers.name, registers.range, registers.scalar);
                }
                Statement::Variable(variable) => {
                    let name = names.variable(variable, index, &mut words).map_err(|what| (index, what))?;
                    for copy in 0..variable.range.unwrap_or(1) {
                        if variable.range.is_some() {
                            return Err((index, format!("parameterised variable name: {}<{copy}>", variable.name)));
                        }
                        names.scopes[current].names.insert(variable.name, name);
                    }
                }
                Statement::Label(label) => {
                    names.scopes[current].labels.insert(label.name, index);
                }
                Statement::Prototype(prototype) => {
                    names.scopes[current].names.insert(prototype.name, Name::List(index));
                }
                Statement::Targets(targets) => {
                    names.scopes[current].names.insert(targets.name, Name::List(index));
                }
                Statement::Instruction(_) | Statement::Location(_) | Statement::Pragma(..) => {}
            }
        }
        Ok(names)
    }

    fn declare_registers(&mut self, scope: usize, name: &'a str, range: Option<u32>, scalar: ScalarType) {
        let first = self.registers;
        match range {
            Some(count) => {
                self.registers = first.saturating_add(count);
                self.scopes[scope].ranges.insert(name, Range { first, count, scalar });
            }
            None => {
                self.registers = first.saturating_add(1);
                self.scopes[scope].names.insert(name, Name::Register(RegisterId { number: first, scalar }));
            }
        }
    }

    fn variable(
        &mut self,
        variable: &floe_ptx::Variable<'a>,
        index: usize,
        words: &mut impl FnMut(u32) -> Words,
    ) -> Result<Name, String> {
        let too_large = || format!("variable too large: {}", variable.name);
        let size = || variable.size().and_then(|size| u32::try_from(size).ok()).filter(|size| *size < 1 << 24);
        Ok(match variable.space {
            Space::Local => {
                let align = u32::try_from(variable.alignment_bytes()).map_err(|_| too_large())?;
                let offset = self.local_bytes.next_multiple_of(align.max(1));
                self.local_bytes = offset + size().ok_or_else(too_large)?;
                Name::Local(offset)
            }
            Space::Shared if variable.is_open() => Name::DynamicShared,
            Space::Shared => Name::Shared(index),
            Space::Parameter => {
                let bytes = size().ok_or_else(too_large)?;
                Name::Words(words(bytes), bytes)
            }
            other => Name::Foreign(other),
        })
    }

    /// Adds a name to the outermost scope: formal parameters.
    pub(crate) fn insert(&mut self, name: &'a str, meaning: Name) {
        self.scopes[0].names.insert(name, meaning);
    }

    /// Adds a register to the outermost scope.
    pub(crate) fn parent(&self, scope: usize) -> usize {
        self.scopes[scope].parent.unwrap_or(0)
    }

    /// What the name means in the scope.
    pub(crate) fn find(&self, scope: usize, name: &str) -> Option<Name> {
        let mut current = Some(scope);
        let prefix = name.trim_end_matches(|character: char| character.is_ascii_digit());
        let number: Option<u32> = name[prefix.len()..].parse().ok();
        while let Some(index) = current {
            let scope = &self.scopes[index];
            if let Some(meaning) = scope.names.get(name) {
                return Some(*meaning);
            }
            if let Some(register) = number.and_then(|number| scope.in_range(prefix, name, number)) {
                return Some(Name::Register(register));
            }
            current = scope.parent;
        }
        None
    }

    /// The statement a label of the scope stands at.
    pub(crate) fn label(&self, scope: usize, name: &str) -> Option<usize> {
        let mut current = Some(scope);
        while let Some(index) = current {
            if let Some(statement) = self.scopes[index].labels.get(name) {
                return Some(*statement);
            }
            current = self.scopes[index].parent;
        }
        None
    }
}

impl Scope<'_> {
    /// `%r12` of `%r<45>`; a prefix may itself end in digits (`%x1<4>`), then the number is what follows it.
    fn in_range(&self, prefix: &str, name: &str, number: u32) -> Option<RegisterId> {
        let of = |range: &Range, number: u32| {
            let id = RegisterId { number: range.first + number, scalar: range.scalar };
            (number < range.count).then_some(id)
        };
        if let Some(found) = self.ranges.get(prefix).and_then(|range| of(range, number)) {
            return Some(found);
        }
        (prefix.len() + 1..name.len()).find_map(|split| {
            let number = name[split..].parse().ok()?;
            self.ranges.get(&name[..split]).and_then(|range| of(range, number))
        })
    }
}
