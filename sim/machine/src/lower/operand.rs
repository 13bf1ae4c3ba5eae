//! Operands: names, numbers and addresses of an instruction become slots and constants.
//! In goes an operand and the kind of value that the instruction wants, out comes an encoding. Conversions are emitted
//! where a register is wider or narrower than the instruction. An operand without a meaning there is an error.

use floe_ptx::{Float, FunctionKind, Operand, ScalarType, Space};

use crate::exec::{Extend, Extract, ExtractWide, Move, Widen, handlers};
use crate::isa::Value;
use crate::program::Symbol;

use super::builder::SharedKey;
use super::constants::{FALSE, TRUE};
use super::function::{Body, Fix, Lowering};
use super::image::Image;
use super::names::{Name, RegisterId};

/// A symbol's address in its own space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SymbolPlace {
    /// Global or constant memory, or a function.
    Address(u64),
    /// Offset in shared memory.
    Shared(u32),
    /// Offset in dynamic shared memory.
    DynamicShared,
    /// Offset in the function's local variables.
    Local(u32),
    /// Offset in the kernel's parameters.
    Parameter(u32),
}

impl Body<'_, '_> {
    /// The register of that name.
    pub(crate) fn register(&self, name: &str) -> Option<RegisterId> {
        match self.names.find(self.scope, name) {
            Some(Name::Register(register)) => Some(register),
            _ => None,
        }
    }

    /// Slot of a predicate register.
    pub(crate) fn predicate_register(&mut self, name: &str) -> Lowering<u32> {
        match self.register(name) {
            Some(register) if register.scalar == ScalarType::Predicate => self.slot(register),
            _ => Err(format!("not a predicate: {name}")),
        }
    }

    /// A source predicate and what is XORed to it.
    pub(crate) fn predicate_source(&mut self, operand: &Operand<'_>) -> Lowering<(u32, i64)> {
        match operand {
            Operand::Name(name) => Ok((self.predicate_register(name)?, 0)),
            Operand::Not(name) => Ok((self.predicate_register(name)?, i64::from(u32::MAX))),
            Operand::Integer(value) => Ok((if value.bits == 0 { FALSE } else { TRUE }, 0)),
            other => Err(format!("not a predicate: {other:?}")),
        }
    }

    /// A destination predicate; a sink is one nobody reads.
    pub(crate) fn predicate_destination(&mut self, name: Option<&str>) -> Lowering<u32> {
        match name {
            Some(name) => self.predicate_register(name),
            None => Ok(u32::MAX),
        }
    }

    /// A source operand of the given kind.
    pub(crate) fn source(&mut self, operand: &Operand<'_>, value: Value) -> Lowering<u32> {
        if value == Value::Predicate {
            return match self.predicate_source(operand)? {
                (slot, 0) => Ok(slot),
                _ => Err("a negated predicate is not allowed here".to_owned()),
            };
        }
        match operand {
            Operand::Name(name) => {
                if let Some(register) = self.register(name) {
                    return self.register_source(register, name, value);
                }
                if let Some(slot) = self.special(name, value.is_wide())? {
                    return Ok(slot);
                }
                self.address_of(name, 0, value.is_wide())
            }
            Operand::Offset { name, offset } => self.address_of(name, *offset, value.is_wide()),
            Operand::Integer(number) => Ok(self.integer(number.bits, value)),
            Operand::Float(float) => self.float(*float, value),
            other => Err(format!("operand not allowed here: {other:?}")),
        }
    }

    fn register_source(&mut self, register: RegisterId, name: &str, value: Value) -> Lowering<u32> {
        let slot = self.slot(register)?;
        let wide = register.scalar.size() == 8;
        match (wide, value.is_wide()) {
            _ if register.scalar == ScalarType::Predicate => Err(format!("predicate where a value is wanted: {name}")),
            _ if register.scalar == ScalarType::B128 => Err(format!("128-bit register: {name}")),
            (true, true) | (false, false) => Ok(slot),
            (true, false) => {
                let narrow = self.scratch_narrow()?;
                self.emit(handlers::<ExtractWide>(), |inst| {
                    inst.d = narrow;
                    inst.a = slot;
                    inst.extra = u32::MAX;
                });
                Ok(narrow)
            }
            (false, true) => Err(format!("register narrower than the operation: {name}")),
        }
    }

    /// A constant of the value's kind.
    pub(crate) fn integer(&mut self, bits: u64, value: Value) -> u32 {
        match value.bits() {
            8 => self.builder.constants.narrow(bits as u32 & 0xff),
            16 => self.builder.constants.narrow(bits as u32 & 0xffff),
            64 => self.builder.constants.wide(bits),
            _ => self.builder.constants.narrow(bits as u32),
        }
    }

    fn float(&mut self, float: Float, value: Value) -> Lowering<u32> {
        match value {
            Value::Float64 => Ok(self.builder.constants.wide(float.as_f64().to_bits())),
            Value::Float32 | Value::Bits32 | Value::Signed32 => {
                Ok(self.builder.constants.narrow(float.as_f32().to_bits()))
            }
            Value::Bits64 | Value::Signed64 => match float {
                Float::Double(bits) => Ok(self.builder.constants.wide(bits)),
                Float::Single(bits) => Ok(self.builder.constants.wide(u64::from(bits))),
            },
            _ => Err("float constant in a 16-bit operand".to_owned()),
        }
    }

    /// The destination of a result of the given kind; results narrower than the register are extended afterwards.
    pub(crate) fn destination(&mut self, operand: &Operand<'_>, value: Value) -> Lowering<u32> {
        let name = match operand {
            Operand::Name(name) => *name,
            Operand::Sink if value == Value::Predicate => return Err("predicate result thrown away".to_owned()),
            Operand::Sink if value.is_wide() => return self.scratch_wide(),
            Operand::Sink => return self.scratch_narrow(),
            other => return Err(format!("not a destination: {other:?}")),
        };
        let register = self.register(name).ok_or_else(|| format!("not a register: {name}"))?;
        if (register.scalar == ScalarType::Predicate) != (value == Value::Predicate) {
            return Err(format!("predicate and value mixed up: {name}"));
        }
        if register.scalar == ScalarType::B128 {
            return Err(format!("128-bit register: {name}"));
        }
        let slot = self.slot(register)?;
        let bits = 8 * register.scalar.size();
        if value == Value::Predicate || bits == value.bits() || (bits < value.bits() && !value.is_wide()) {
            return Ok(slot);
        }
        if bits < value.bits() {
            return Err(format!("register narrower than the result: {name}"));
        }
        let wide = bits == 64;
        if !wide && !value.is_signed() {
            return Ok(slot); // zero-extended in its slot already
        }
        let from = if wide { self.scratch_narrow()? } else { slot };
        self.fixes.push(Fix { from, to: slot, bits: value.bits(), signed: value.is_signed(), wide });
        Ok(from)
    }

    pub(crate) fn emit_fix(&mut self, fix: Fix) {
        match (fix.wide, fix.signed) {
            (true, true) => self.emit(handlers::<Extend<u64>>(), |inst| {
                (inst.d, inst.a, inst.imm) = (fix.to, fix.from, i64::from(fix.bits));
            }),
            (false, true) => self.emit(handlers::<Extend<u32>>(), |inst| {
                (inst.d, inst.a, inst.imm) = (fix.to, fix.from, i64::from(fix.bits));
            }),
            (true, false) => self.emit(handlers::<Widen>(), |inst| (inst.d, inst.a) = (fix.to, fix.from)),
            (false, false) => self.emit(handlers::<Extract>(), |inst| {
                (inst.d, inst.a, inst.extra) = (fix.to, fix.from, ((1_u64 << fix.bits) - 1) as u32);
            }),
        }
    }

    /// The address of a symbol.
    pub(crate) fn place(&mut self, name: &str) -> Lowering<SymbolPlace> {
        match self.names.find(self.scope, name) {
            Some(Name::Shared(statement)) => return self.function_shared(statement).map(SymbolPlace::Shared),
            Some(Name::DynamicShared) => return Ok(SymbolPlace::DynamicShared),
            Some(Name::Local(offset)) => return Ok(SymbolPlace::Local(offset)),
            Some(Name::Parameter(offset, _)) => return Ok(SymbolPlace::Parameter(offset)),
            Some(Name::Words(..)) => return Err(format!("address of a function's parameter: {name}")),
            Some(Name::Foreign(space)) => {
                return Err(format!("variable declared in a body, in space {space:?}: {name}"));
            }
            Some(Name::Register(_) | Name::List(_)) => return Err(format!("not a variable: {name}")),
            None => {}
        }
        match self.program.symbol(self.unit, name) {
            Some(Symbol::Function(number)) => {
                // Kernels have addresses too, but nothing here can call one: parameters are the launch's.
                if self.program.function(number).1.kind == FunctionKind::Function {
                    self.builder.function(number);
                }
                Ok(SymbolPlace::Address(Image::function_address(number)))
            }
            Some(Symbol::Variable(index)) => self.variable_place(index),
            Some(Symbol::DynamicShared) => Ok(SymbolPlace::DynamicShared),
            None => Err(format!("unknown name: {name}")),
        }
    }

    fn variable_place(&mut self, index: usize) -> Lowering<SymbolPlace> {
        let variable = self.program.variable(index);
        match variable.space {
            Space::Shared => {
                let key = SharedKey::Module(0, index);
                self.builder.shared_offset(key, variable.size, variable.align).map(SymbolPlace::Shared)
            }
            Space::Global | Space::Constant => Ok(SymbolPlace::Address(variable.address)),
            other => Err(format!("variable in space {other:?}: {}", variable.name)),
        }
    }

    /// A symbol's address plus an offset, as a constant or, for local variables of a function, a computed value.
    pub(crate) fn address_of(&mut self, name: &str, offset: i64, wide: bool) -> Lowering<u32> {
        let place = self.place(name)?;
        self.address(place, offset, wide)
    }

    /// As [`Body::address_of`] for a place.
    pub(crate) fn address(&mut self, place: SymbolPlace, offset: i64, wide: bool) -> Lowering<u32> {
        let base = match place {
            SymbolPlace::DynamicShared => return Ok(self.builder.dynamic_shared(wide, offset.cast_unsigned())),
            SymbolPlace::Local(at) if !self.is_kernel() => {
                return self.local_address(i64::from(at).wrapping_add(offset), wide);
            }
            SymbolPlace::Address(address) => address,
            SymbolPlace::Shared(at) | SymbolPlace::Local(at) | SymbolPlace::Parameter(at) => u64::from(at),
        };
        let value = base.wrapping_add(offset.cast_unsigned());
        if wide {
            return Ok(self.builder.constants.wide(value));
        }
        if matches!(place, SymbolPlace::Address(_)) {
            return Err("32-bit address of global memory".to_owned());
        }
        Ok(self.builder.constants.narrow(value as u32))
    }

    /// Address of a local variable of a function: where the lane's variables start, plus its offset.
    fn local_address(&mut self, offset: i64, wide: bool) -> Lowering<u32> {
        let sum = self.scratch_narrow()?;
        let add = crate::isa::find("add.u32").ok_or("add.u32 is missing")?.handlers;
        let constant = self.builder.constants.narrow(offset as u32);
        self.emit(add, |inst| (inst.d, inst.a, inst.b) = (sum, 0, constant));
        if !wide {
            return Ok(sum);
        }
        let wide = self.scratch_wide()?;
        self.emit(handlers::<Widen>(), |inst| (inst.d, inst.a) = (wide, sum));
        Ok(wide)
    }

    /// Copies a source of the kind to a slot.
    pub(crate) fn emit_move(&mut self, d: u32, a: u32, wide: bool) {
        let handlers = if wide { handlers::<Move<u64>>() } else { handlers::<Move<u32>>() };
        self.emit(handlers, |inst| (inst.d, inst.a) = (d, a));
    }
}
