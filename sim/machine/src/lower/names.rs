//! Meanings of names inside a function: registers, variables, parameters, labels, with their scopes.
//! In goes the function's body, out come lookups by scope. Registers get their place in the frame when they are first used,
//! so that the hundreds a compiler declares and never uses cost nothing.

use rustc_hash::FxHashMap as HashMap;

use floe_ptx::{ScalarType, Space, Statement};

use super::frame::FrameLayout;
use super::image::FrameWords;

/// Most registers a function may declare, used or not: compilers declare some ten thousand.
const REGISTER_LIMIT: u32 = 1 << 24;

/// Most scopes of a function: compilers open one for each call.
const SCOPE_LIMIT: usize = 1 << 18;

/// Most bytes of local variables of a thread, as GPUs have it.
const LOCAL_LIMIT: u32 = 512 << 10;

/// Digits of the largest number of a register: names may be long, and all their ends are tried.
const NUMBER_DIGITS: usize = 10;

/// A declared register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegisterId {
    /// Number in the order of declaration: what snapshots are keyed by.
    pub(crate) number: u32,
    pub(crate) scalar: ScalarType,
}

/// The meaning of a name in a function's body.
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
    Words(FrameWords, u32),
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
    /// Argument buffers: name, bytes, statement.
    arguments: Vec<(&'a str, u32, usize)>,
}

/// The names of a function.
pub(crate) struct Names<'a> {
    scopes: Vec<Scope<'a>>,
    /// Bytes of local variables.
    pub(crate) local_bytes: u32,
    registers: u32,
}

impl<'a> Names<'a> {
    /// Collects what the body declares; argument buffers get their words in the frame.
    /// An error is the statement's number and what is wrong.
    pub(crate) fn collect(body: &[Statement<'a>], layout: &mut FrameLayout) -> Result<Self, (usize, String)> {
        let mut names = Self { scopes: vec![Scope::default()], local_bytes: 0, registers: 0 };
        let mut current = 0;
        for (index, statement) in body.iter().enumerate() {
            match statement {
                Statement::ScopeOpen(_) if names.scopes.len() >= SCOPE_LIMIT => {
                    return Err((index, format!("more scopes than a function may have: {SCOPE_LIMIT}")));
                }
                Statement::ScopeOpen(_) => {
                    names.scopes.push(Scope { parent: Some(current), ..Scope::default() });
                    current = names.scopes.len() - 1;
                }
                Statement::ScopeClose(_) => current = names.scopes[current].parent.unwrap_or(0),
                Statement::Registers(registers) => {
                    names.declare_registers(current, registers).map_err(|what| (index, what))?;
                }
                Statement::Variable(variable) => {
                    names.variable(current, variable, index).map_err(|what| (index, what))?;
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
        names.place_arguments(layout)?;
        Ok(names)
    }

    /// Gives all argument buffers their words. Scopes side by side share theirs: none of them can name another's, and
    /// every lane has its own part of a word.
    fn place_arguments(&mut self, layout: &mut FrameLayout) -> Result<(), (usize, String)> {
        // End of a scope's own buffers; scopes come behind the scopes around them.
        let mut ends = Vec::with_capacity(self.scopes.len());
        for scope in &mut self.scopes {
            if let Some(parent) = scope.parent {
                layout.go_back(ends[parent]);
            }
            for (name, bytes, statement) in std::mem::take(&mut scope.arguments) {
                let words = layout.words(bytes).map_err(|what| (statement, what))?;
                scope.names.insert(name, Name::Words(words, bytes));
            }
            ends.push(layout.next());
        }
        layout.seal();
        Ok(())
    }

    fn declare_registers(&mut self, scope: usize, registers: &floe_ptx::Registers<'a>) -> Result<(), String> {
        let (name, scalar) = (registers.name, registers.scalar);
        if registers.lanes != 1 {
            return Err(format!("vector register: {name}"));
        }
        let first = self.registers;
        let count = registers.range.unwrap_or(1);
        let end = first.checked_add(count).filter(|end| *end <= REGISTER_LIMIT);
        self.registers = end.ok_or_else(|| format!("more registers than a function may declare: {REGISTER_LIMIT}"))?;
        let scope = &mut self.scopes[scope];
        if registers.range.is_some() {
            scope.ranges.insert(name, Range { first, count, scalar });
        } else {
            scope.names.insert(name, Name::Register(RegisterId { number: first, scalar }));
        }
        Ok(())
    }

    fn variable(&mut self, scope: usize, variable: &floe_ptx::Variable<'a>, index: usize) -> Result<(), String> {
        let too_large = || format!("variable too large: {}", variable.name);
        let size = || variable.size().and_then(|size| u32::try_from(size).ok()).ok_or_else(too_large);
        if let Some(count) = variable.range {
            return Err(format!("parameterised variable name: {}<{count}>", variable.name));
        }
        let name = match variable.space {
            Space::Local => {
                let align = u32::try_from(variable.alignment_bytes()).map_err(|_| too_large())?;
                let offset = self.local_bytes.checked_next_multiple_of(align.max(1)).ok_or_else(too_large)?;
                let end = offset.checked_add(size()?).filter(|end| *end <= LOCAL_LIMIT);
                self.local_bytes = end.ok_or_else(|| {
                    format!("local variables have more bytes than a thread: {LOCAL_LIMIT}, with {}", variable.name)
                })?;
                Name::Local(offset)
            }
            Space::Shared if variable.is_open() => Name::DynamicShared,
            Space::Shared => Name::Shared(index),
            Space::Parameter => {
                self.scopes[scope].arguments.push((variable.name, size()?, index));
                return Ok(());
            }
            other => Name::Foreign(other),
        };
        self.scopes[scope].names.insert(variable.name, name);
        Ok(())
    }

    /// Adds a name to the outermost scope: formal parameters.
    pub(crate) fn insert(&mut self, name: &'a str, meaning: Name) {
        self.scopes[0].names.insert(name, meaning);
    }

    /// The scope around a scope.
    pub(crate) fn parent(&self, scope: usize) -> usize {
        self.scopes[scope].parent.unwrap_or(0)
    }

    /// The meaning of the name in the scope.
    pub(crate) fn find(&self, scope: usize, name: &str) -> Option<Name> {
        let mut current = Some(scope);
        let prefix = name.trim_end_matches(|character: char| character.is_ascii_digit());
        let number = number_of(&name[prefix.len()..]);
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
        (name.len().saturating_sub(NUMBER_DIGITS).max(prefix.len() + 1)..name.len()).find_map(|split| {
            let number = number_of(&name[split..])?;
            self.ranges.get(&name[..split]).and_then(|range| of(range, number))
        })
    }
}

/// The number that ends a register's name.
fn number_of(digits: &str) -> Option<u32> {
    if digits.len() > NUMBER_DIGITS {
        return None;
    }
    digits.parse().ok()
}
