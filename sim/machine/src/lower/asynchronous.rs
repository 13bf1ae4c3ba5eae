//! Asynchronous copies: `cp.async` from global to shared memory, and what waits for it.
//! In goes the instruction, out comes one handler that copies at once. Groups are complete before they are committed, so
//! waiting for them is nothing. Bulk and tensor copies are refused.

use floe_ptx::{Instruction, Operand};

use crate::exec::{CopyAsync, SourceBytes, SourceUnless, SpaceKind, WholeSource, baseline_handlers};
use crate::isa::Value;

use super::function::{Body, Lowering};

impl Body<'_, '_> {
    /// `cp.async` and its groups.
    pub(crate) fn copy_async(&mut self, instruction: &Instruction<'static>) -> Lowering<()> {
        let words: Vec<&str> = instruction.opcode.modifiers().collect();
        match (words.as_slice(), instruction.operands.as_slice()) {
            (["async", "commit_group" | "wait_all"], []) | (["async", "wait_group"], [Operand::Integer(_)]) => {
                self.nothing()
            }
            (["async", cache @ ("ca" | "cg"), "shared" | "shared::cta", "global", hints @ ..], operands) => {
                let hinted = hints.contains(&"L2::cache_hint");
                if let Some(other) = hints.iter().find(|hint| !is_cache_hint(hint)) {
                    return Err(format!("modifier not supported: .{other}"));
                }
                self.copy_shared(*cache == "cg", hinted, operands)
            }
            _ => Err("unknown instruction".to_owned()),
        }
    }

    fn copy_shared(&mut self, whole_line: bool, hinted: bool, operands: &[Operand<'static>]) -> Lowering<()> {
        let operands = match operands {
            [rest @ .., _] if hinted => rest,
            rest => rest,
        };
        let [target, source, Operand::Integer(bytes), rest @ ..] = operands else {
            return Err("operands: cp.async wants [d], [a], bytes".to_owned());
        };
        let bytes = match bytes.bits {
            bytes @ (4 | 8) if !whole_line => bytes as u32,
            16 => 16,
            other => return Err(format!("bytes of a copy: {other}")),
        };
        let (a, to) = self.atomic_address(target, SpaceKind::Shared)?;
        let (b, from) = self.access_address(source, SpaceKind::Global)?;
        let (chosen, c, flip) = match rest {
            [] => (baseline_handlers::<CopyAsync<WholeSource>>(), crate::exec::CONSTANT, 0),
            [operand] if self.is_predicate(operand) => {
                let (slot, flip) = self.predicate_source(operand)?;
                (baseline_handlers::<CopyAsync<SourceUnless>>(), slot, flip as u32)
            }
            [operand] => (baseline_handlers::<CopyAsync<SourceBytes>>(), self.source(operand, Value::Bits32)?, 0),
            _ => return Err("too many operands".to_owned()),
        };
        self.emit(chosen, |inst| {
            (inst.a, inst.b, inst.c, inst.aux, inst.extra) = (a, b, c, bytes, flip);
            // Both are offsets of 32 bits, see `check_offset`.
            inst.imm = to << 32 | from & 0xffff_ffff;
        });
        Ok(())
    }

    /// Whether an operand is a predicate register, negated or not.
    fn is_predicate(&self, operand: &Operand<'_>) -> bool {
        let (Operand::Name(name) | Operand::Not(name)) = operand else {
            return false;
        };
        self.register(name).is_some_and(|register| register.scalar == floe_ptx::ScalarType::Predicate)
    }
}

/// Whether a modifier only says what caches should do.
fn is_cache_hint(word: &str) -> bool {
    matches!(word, "L2::cache_hint" | "L2::64B" | "L2::128B" | "L2::256B")
}
