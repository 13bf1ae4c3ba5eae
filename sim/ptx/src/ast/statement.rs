//! Statements of a body: instructions, labels, declarations, call prototypes, source locations.
//! Each carries its position in the text.
//! Nothing here knows which instructions exist.

use super::directive::Directive;
use super::operand::{Opcode, Operand};
use super::position::Position;
use super::scalar_type::ScalarType;
use super::variable::Variable;

/// One statement of a body.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement<'a> {
    /// An instruction.
    Instruction(Instruction<'a>),
    /// `name:`.
    Label(Label<'a>),
    /// `.reg`: one declared name or range; `.reg .b32 a, b;` gives two statements.
    Registers(Registers<'a>),
    /// A variable in `.local`, `.shared`, `.param`, `.global` or `.const`; one per declared name.
    Variable(Box<Variable<'a>>),
    /// `{`: names declared until the matching close hide outer ones.
    ScopeOpen(Position),
    /// `}`.
    ScopeClose(Position),
    /// `.loc`: source line of what follows.
    Location(Location),
    /// `label: .callprototype …`.
    Prototype(Box<Prototype<'a>>),
    /// `label: .calltargets f, g;` or `label: .branchtargets A, B;`.
    Targets(Box<Targets<'a>>),
    /// `.pragma "…"`: one per string.
    Pragma(Position, &'a str),
}

/// A label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label<'a> {
    /// Its position.
    pub position: Position,
    /// Its name.
    pub name: &'a str,
}

/// `.reg .v2 .f32 %f<10>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers<'a> {
    /// Position of the name.
    pub position: Position,
    /// Vector width: 1, 2 or 4 (8 is let through).
    pub lanes: u8,
    /// Type of one element.
    pub scalar: ScalarType,
    /// The name, or the prefix of the range.
    pub name: &'a str,
    /// `name<count>`: `name0` … `name{count-1}`; `None` for the one register `name`.
    pub range: Option<u32>,
}

/// `.loc file line column`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Position of the directive.
    pub position: Position,
    /// Number of a `.file`.
    pub file: u32,
    /// Line in that file.
    pub line: u32,
    /// Column in that line.
    pub column: u32,
}

/// The signature an indirect call goes by: `name: .callprototype (returns) _ (parameters);`.
#[derive(Clone, Debug, PartialEq)]
pub struct Prototype<'a> {
    /// Position of its label.
    pub position: Position,
    /// Its label, which calls name.
    pub name: &'a str,
    /// Return parameters.
    pub returns: Vec<Variable<'a>>,
    /// Parameters.
    pub parameters: Vec<Variable<'a>>,
    /// `.noreturn`, `.abi_preserve` and the like.
    pub directives: Vec<Directive<'a>>,
}

/// A list of functions an indirect call may reach, or of labels an indexed branch may.
#[derive(Clone, Debug, PartialEq)]
pub struct Targets<'a> {
    /// Position of its label.
    pub position: Position,
    /// Which of the two lists.
    pub kind: TargetsKind,
    /// Its label.
    pub name: &'a str,
    /// Functions or labels, in order.
    pub targets: Vec<&'a str>,
}

/// The kind of a [`Targets`] list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TargetsKind {
    /// `.calltargets`: functions.
    Call,
    /// `.branchtargets`: labels.
    Branch,
}

/// `@!p ld.global.v2.f32 {%f1, %f2}, [%rd1+8];`
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction<'a> {
    /// Position of its start (its guard, if it has one).
    pub position: Position,
    /// `@p` or `@!p`.
    pub guard: Option<Guard<'a>>,
    /// Mnemonic and modifiers.
    pub opcode: Opcode<'a>,
    /// Operands in order, destinations first as written.
    pub operands: Vec<Operand<'a>>,
}

impl<'a> Instruction<'a> {
    /// The parts of a `call`; `None` for other instructions and for a call whose operands are not of that shape.
    pub fn call(&self) -> Option<Call<'_, 'a>> {
        if self.opcode.mnemonic() != "call" {
            return None;
        }
        let (returns, rest): (&[Operand<'a>], _) = match self.operands.as_slice() {
            [Operand::List(returns), rest @ ..] => (returns, rest),
            rest => (&[], rest),
        };
        let (target, rest) = match rest {
            [Operand::Name(target), rest @ ..] => (*target, rest),
            _ => return None,
        };
        let (arguments, rest): (&[Operand<'a>], _) = match rest {
            [Operand::List(arguments), rest @ ..] => (arguments, rest),
            rest => (&[], rest),
        };
        let prototype = match rest {
            [] => None,
            [Operand::Name(prototype)] => Some(*prototype),
            _ => return None,
        };
        Some(Call { returns, target, arguments, prototype })
    }
}

/// A call taken apart: `call (returns), target, (arguments), prototype;`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Call<'t, 'a> {
    /// Operands that receive the results.
    pub returns: &'t [Operand<'a>],
    /// A function, or the register that holds its address.
    pub target: &'a str,
    /// Arguments.
    pub arguments: &'t [Operand<'a>],
    /// The label of a `.callprototype` or `.calltargets`, for indirect calls.
    pub prototype: Option<&'a str>,
}

/// Guard predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard<'a> {
    /// The predicate register.
    pub register: &'a str,
    /// `@!p`: execute where the predicate is false.
    pub negated: bool,
}
