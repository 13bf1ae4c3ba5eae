//! `mov`, `cvta`, `isspacep`: values, addresses and vectors taken from place to place.
//! In go the untyped operands of these instructions, out come moves between slots. Vectors exist only here: they are taken
//! apart into, or put together from, ordinary registers.

use floe_ptx::{Instruction, Operand, ScalarType};

use crate::exec::{
    Allocate, Extract, ExtractWide, InWindow, Join, LeaveWindow, MovePredicate, Pair, RestoreStack, SaveStack, handlers,
};
use crate::isa::Value;

use super::function::{Body, Lowering};
use super::image::{LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW};

/// The kind of value a scalar type is.
pub(crate) fn value_of(scalar: ScalarType) -> Lowering<Value> {
    Ok(match scalar {
        ScalarType::Predicate => Value::Predicate,
        ScalarType::B8 | ScalarType::U8 => Value::Bits8,
        ScalarType::S8 => Value::Signed8,
        ScalarType::B16 | ScalarType::U16 | ScalarType::F16 | ScalarType::Bf16 => Value::Bits16,
        ScalarType::S16 => Value::Signed16,
        ScalarType::B32
        | ScalarType::U32
        | ScalarType::F16x2
        | ScalarType::Bf16x2
        | ScalarType::U16x2
        | ScalarType::S16x2
        | ScalarType::Tf32 => Value::Bits32,
        ScalarType::S32 => Value::Signed32,
        ScalarType::F32 => Value::Float32,
        ScalarType::B64 | ScalarType::U64 | ScalarType::F32x2 => Value::Bits64,
        ScalarType::S64 => Value::Signed64,
        ScalarType::F64 => Value::Float64,
        other => return Err(format!("type not supported: .{}", other.name())),
    })
}

impl Body<'_, '_> {
    pub(crate) fn mov(&mut self, instruction: &Instruction<'static>) -> Lowering<()> {
        let [destination, source] = instruction.operands.as_slice() else {
            return Err("operands: mov wants d, a".to_owned());
        };
        let scalar = match instruction.opcode.modifiers().collect::<Vec<_>>().as_slice() {
            [word] => ScalarType::from_modifier(word).ok_or("unknown instruction")?,
            _ => return Err("unknown instruction".to_owned()),
        };
        let value = value_of(scalar)?;
        match (destination, source) {
            (Operand::Vector(parts), source) => self.unpack(parts, source, value),
            (destination, Operand::Vector(parts)) => self.pack(destination, parts, value),
            (destination, source) if value == Value::Predicate => {
                let (a, flip) = self.predicate_source(source)?;
                if flip != 0 {
                    return Err("a negated predicate is not allowed here".to_owned());
                }
                let d = self.destination(destination, value)?;
                self.emit(handlers::<MovePredicate>(), |inst| (inst.d, inst.a) = (d, a));
                Ok(())
            }
            (destination, source) => {
                let a = self.source(source, value)?;
                let d = self.destination(destination, value)?;
                if value.bits() == 16 && matches!(source, Operand::Name(name) if name.starts_with('%')) {
                    // A 16-bit move of a 32-bit special register keeps the low half.
                    self.emit(handlers::<Extract>(), |inst| (inst.d, inst.a, inst.extra) = (d, a, 0xffff));
                } else {
                    self.emit_move(d, a, value.is_wide());
                }
                Ok(())
            }
        }
    }

    /// `mov.b64 {a, b}, c`: the parts are equal pieces of the value, lowest first.
    fn unpack(&mut self, parts: &[Operand<'static>], source: &Operand<'static>, value: Value) -> Lowering<()> {
        let bits = value.bits() / (parts.len() as u32).max(1);
        let piece = piece(bits)?;
        let a = self.source(source, value)?;
        let mask = if bits == 32 { u32::MAX } else { (1 << bits) - 1 };
        for (index, part) in parts.iter().enumerate() {
            if *part == Operand::Sink {
                continue;
            }
            let d = self.destination(part, piece)?;
            let handlers = if value.is_wide() { handlers::<ExtractWide>() } else { handlers::<Extract>() };
            self.emit(handlers, |inst| {
                (inst.d, inst.a, inst.imm, inst.extra) = (d, a, i64::from(bits) * index as i64, mask);
            });
        }
        Ok(())
    }

    /// `mov.b64 c, {a, b}`.
    fn pack(&mut self, destination: &Operand<'static>, parts: &[Operand<'static>], value: Value) -> Lowering<()> {
        let bits = value.bits() / (parts.len() as u32).max(1);
        let piece = piece(bits)?;
        let mut slots = Vec::with_capacity(parts.len());
        for part in parts {
            slots.push(match part {
                Operand::Sink => self.builder.constants.narrow(0),
                part => self.source(part, piece)?,
            });
        }
        let mut width = bits;
        while width < 32 && slots.len() > 1 {
            // Joins go through scratch slots: the destination may be one of the sources.
            let mut joined = Vec::with_capacity(slots.len() / 2);
            for pair in slots.chunks_exact(2) {
                let d = self.scratch_narrow()?;
                let (a, b) = (pair[0], pair[1]);
                self.emit(handlers::<Join>(), |inst| (inst.d, inst.a, inst.b, inst.imm) = (d, a, b, i64::from(width)));
                joined.push(d);
            }
            slots = joined;
            width *= 2;
        }
        let d = self.destination(destination, value)?;
        match (slots.as_slice(), value.is_wide()) {
            ([a, b], true) => self.emit(handlers::<Pair>(), |inst| (inst.d, inst.a, inst.b) = (d, *a, *b)),
            ([a], false) => self.emit_move(d, *a, false),
            _ => return Err(format!("vector of {} elements", parts.len())),
        }
        Ok(())
    }

    pub(crate) fn cvta(&mut self, instruction: &Instruction<'static>) -> Lowering<()> {
        let [destination, source] = instruction.operands.as_slice() else {
            return Err("operands: cvta wants d, a".to_owned());
        };
        let words: Vec<&str> = instruction.opcode.modifiers().collect();
        let (to, space) = match words.as_slice() {
            ["to", space, "u64"] => (true, *space),
            [space, "u64"] => (false, *space),
            _ => return Err("unknown instruction".to_owned()),
        };
        let window = match space {
            "global" | "const" => 0,
            "shared" | "shared::cta" => SHARED_WINDOW,
            "local" => LOCAL_WINDOW,
            "param" | "param::entry" => PARAMETER_WINDOW,
            _ => return Err("unknown instruction".to_owned()),
        };
        let a = self.source(source, Value::Bits64)?;
        let d = self.destination(destination, Value::Bits64)?;
        match (window, to) {
            (0, _) => self.emit_move(d, a, true),
            (window, to) => {
                let shift = if to { window.cast_signed() } else { -window.cast_signed() };
                self.emit(handlers::<LeaveWindow>(), |inst| (inst.d, inst.a, inst.imm) = (d, a, shift));
            }
        }
        Ok(())
    }

    /// `alloca`, `stacksave`, `stackrestore`, all of 64-bit addresses.
    pub(crate) fn stack(&mut self, instruction: &Instruction<'static>) -> Lowering<()> {
        if instruction.opcode.modifiers().collect::<Vec<_>>() != ["u64"] {
            return Err("unknown instruction".to_owned());
        }
        self.builder.uses_stack = true;
        match (instruction.opcode.mnemonic(), instruction.operands.as_slice()) {
            ("alloca", [destination, size, rest @ ..]) => {
                let align = match rest {
                    [] => 8,
                    [Operand::Integer(align)] if align.bits.is_power_of_two() && align.bits <= 4096 => align.bits,
                    _ => return Err("alignment is no power of two up to 4096".to_owned()),
                };
                let a = self.source(size, Value::Bits64)?;
                let d = self.destination(destination, Value::Bits64)?;
                self.emit(handlers::<Allocate>(), |inst| (inst.d, inst.a, inst.imm) = (d, a, align.cast_signed()));
            }
            ("stacksave", [destination]) => {
                let d = self.destination(destination, Value::Bits64)?;
                self.emit(handlers::<SaveStack>(), |inst| inst.d = d);
            }
            ("stackrestore", [source]) => {
                let a = self.source(source, Value::Bits64)?;
                self.emit(handlers::<RestoreStack>(), |inst| inst.a = a);
            }
            _ => return Err("unknown operands".to_owned()),
        }
        Ok(())
    }

    pub(crate) fn isspacep(&mut self, instruction: &Instruction<'static>) -> Lowering<()> {
        let [destination, source] = instruction.operands.as_slice() else {
            return Err("operands: isspacep wants p, a".to_owned());
        };
        let words: Vec<&str> = instruction.opcode.modifiers().collect();
        let (window, global) = match words.as_slice() {
            ["global"] => (0, 1),
            ["shared" | "shared::cta" | "shared::cluster"] => (SHARED_WINDOW, 0),
            ["local"] => (LOCAL_WINDOW, 0),
            ["param" | "param::entry"] => (PARAMETER_WINDOW, 0),
            // Constant memory is a part of global memory here.
            ["const"] => (u64::MAX, 0),
            _ => return Err("unknown instruction".to_owned()),
        };
        let a = self.source(source, Value::Bits64)?;
        let d = self.destination(destination, Value::Predicate)?;
        self.emit(handlers::<InWindow>(), |inst| {
            (inst.d, inst.a, inst.imm, inst.extra) = (d, a, window.cast_signed(), global);
        });
        Ok(())
    }
}

fn piece(bits: u32) -> Lowering<Value> {
    match bits {
        8 => Ok(Value::Bits8),
        16 => Ok(Value::Bits16),
        32 => Ok(Value::Bits32),
        _ => Err(format!("vector of {bits}-bit elements")),
    }
}
