//! Arithmetic: everything the opcode table has.
//! The opcode's text is looked up, operands are encoded as the row says. Instructions outside the table are refused by
//! name.

use floe_ptx::{Instruction, Operand};

use crate::exec;
use crate::isa::{self, Row, Shape, Value};

use super::function::{Body, Lowering};

impl Body<'_, '_> {
    /// Lowers an instruction of the table.
    pub(crate) fn arithmetic(&mut self, instruction: &Instruction<'static>) -> Lowering<()> {
        let row = find(instruction).ok_or("unknown instruction")?;
        match row.shape {
            Shape::Plain => self.plain(row, &instruction.operands),
            Shape::SetPredicate(how) => self.set_predicate(row, how, &instruction.operands),
            Shape::Carry { reads, writes } => self.with_carry(row, reads, writes, &instruction.operands),
            Shape::Select => self.select(row, &instruction.operands),
        }
    }

    fn plain(&mut self, row: &Row, operands: &[Operand<'static>]) -> Lowering<()> {
        let [destination, sources @ ..] = operands else {
            return Err("no operands".to_owned());
        };
        let [a, b, c, e] = self.sources(row, sources)?;
        let d = self.destination(destination, row.result)?;
        let fuses = row.name == "fma.rn.f32";
        self.emit(row.handlers, |inst| {
            (inst.d, inst.a, inst.b, inst.c, inst.aux) = (d, a, b, c, e);
            inst.fuse = if fuses { exec::fuse::MULTIPLY_ADD } else { exec::fuse::NONE };
        });
        Ok(())
    }

    fn sources(&mut self, row: &Row, operands: &[Operand<'static>]) -> Lowering<[u32; 4]> {
        let wanted = row.sources.iter().flatten().count();
        if operands.len() != wanted {
            return Err(format!("operands: {}, wanted: {wanted}", operands.len()));
        }
        let mut slots = [crate::exec::CONSTANT; 4];
        for ((slot, operand), value) in slots.iter_mut().zip(operands).zip(row.sources.iter().flatten()) {
            *slot = self.source(operand, *value)?;
        }
        Ok(slots)
    }

    fn set_predicate(&mut self, row: &Row, how: u32, operands: &[Operand<'static>]) -> Lowering<()> {
        let [destination, a, b, rest @ ..] = operands else {
            return Err("too few operands".to_owned());
        };
        let (p, q) = match destination {
            Operand::Name(p) => (Some(*p), None),
            Operand::Pair(p, q) => (*p, *q),
            other => return Err(format!("not a destination: {other:?}")),
        };
        let kind = row.sources[0].unwrap_or(Value::Bits32);
        let (a, b) = (self.source(a, kind)?, self.source(b, kind)?);
        let (c, flip) = match rest {
            [] => (crate::exec::CONSTANT, 0),
            [c] => self.predicate_source(c)?,
            _ => return Err("too many operands".to_owned()),
        };
        if rest.is_empty() != (how == crate::exec::combine::NONE) {
            return Err("a third source goes with .and, .or, .xor".to_owned());
        }
        let q = self.predicate_destination(q)?;
        let d = match p {
            Some(p) => self.predicate_register(p)?,
            None => self.scratch_narrow()?, // its first word takes the predicate nobody reads
        };
        self.emit(row.handlers, |inst| {
            (inst.d, inst.a, inst.b, inst.c) = (d, a, b, c);
            (inst.aux, inst.extra, inst.imm) = (how, q, flip);
        });
        Ok(())
    }

    fn with_carry(&mut self, row: &Row, reads: bool, writes: bool, operands: &[Operand<'static>]) -> Lowering<()> {
        let [destination, sources @ ..] = operands else {
            return Err("no operands".to_owned());
        };
        let [a, b, c, _] = self.sources(row, sources)?;
        let c = if row.sources[2].is_some() { c } else { a };
        let d = self.destination(destination, row.result)?;
        let carry = self.carry_slot()?;
        self.emit(row.handlers, |inst| {
            (inst.d, inst.a, inst.b, inst.c) = (d, a, b, c);
            inst.extra = if reads { carry } else { u32::MAX };
            inst.aux = if writes { carry } else { u32::MAX };
        });
        Ok(())
    }

    fn select(&mut self, row: &Row, operands: &[Operand<'static>]) -> Lowering<()> {
        let [destination, a, b, c] = operands else {
            return Err("operands: selp wants d, a, b, p".to_owned());
        };
        let (a, b) = (self.source(a, row.result)?, self.source(b, row.result)?);
        let (c, flip) = self.predicate_source(c)?;
        let d = self.destination(destination, row.result)?;
        self.emit(row.handlers, |inst| {
            (inst.d, inst.a, inst.b, inst.c, inst.imm) = (d, a, b, c, flip);
        });
        Ok(())
    }
}

/// The row of an instruction: by its text, without blanks; three-input minimum and maximum have rows of their own.
fn find(instruction: &Instruction<'static>) -> Option<&'static Row> {
    let text = instruction.opcode.text();
    if matches!(instruction.opcode.mnemonic(), "min" | "max") && instruction.operands.len() == 4 {
        return isa::find(&format!("{}.3", instruction.opcode));
    }
    isa::find(text).or_else(|| isa::find(&instruction.opcode.to_string()))
}
