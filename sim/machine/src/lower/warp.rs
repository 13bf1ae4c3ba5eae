//! Shuffles, votes, matches, reductions, election: the instructions between lanes.
//! In go their many forms, with and without `.sync`, out comes one handler each. A form without member mask means the
//! lanes that run it together.

use floe_ptx::{Instruction, Operand};

use crate::exec::{
    ActiveMask, All, Any, Ballot, Butterfly, Down, Elect, Handlers, Indexed, MatchAll, MatchAny, ReduceAdd, ReduceAnd,
    ReduceMaxSigned, ReduceMaxUnsigned, ReduceMinSigned, ReduceMinUnsigned, ReduceOr, ReduceXor, Reduction, Shuffle,
    Uniform, Up, VotePredicate, handlers,
};
use crate::isa::Value;

use super::function::{Body, Lowering};

impl Body<'_, '_> {
    /// The words of an opcode without `sync`, and the operands without the member mask, which is encoded.
    fn members<'i>(
        &mut self,
        instruction: &'i Instruction<'static>,
    ) -> Lowering<(Vec<&'i str>, &'i [Operand<'static>], u32)> {
        let words: Vec<&str> = instruction.opcode.modifiers().filter(|word| *word != "sync").collect();
        if !instruction.opcode.has("sync") {
            return Ok((words, &instruction.operands, u32::MAX));
        }
        let [operands @ .., members] = instruction.operands.as_slice() else {
            return Err("no operands".to_owned());
        };
        let members = self.source(members, Value::Bits32)?;
        Ok((words, operands, members))
    }

    pub(crate) fn shuffle(&mut self, instruction: &Instruction<'static>) -> Lowering<()> {
        let (words, operands, members) = self.members(instruction)?;
        let chosen = match words.as_slice() {
            ["up", "b32"] => handlers::<Shuffle<Up>>(),
            ["down", "b32"] => handlers::<Shuffle<Down>>(),
            ["bfly", "b32"] => handlers::<Shuffle<Butterfly>>(),
            ["idx", "b32"] => handlers::<Shuffle<Indexed>>(),
            _ => return Err("unknown instruction".to_owned()),
        };
        let [destination, a, b, c] = operands else {
            return Err("operands: shfl wants d, a, b, c".to_owned());
        };
        let (d, p) = self.value_and_predicate(destination)?;
        let (a, b, c) =
            (self.source(a, Value::Bits32)?, self.source(b, Value::Bits32)?, self.source(c, Value::Bits32)?);
        self.emit(chosen, |inst| {
            (inst.d, inst.a, inst.b, inst.c, inst.aux, inst.extra) = (d, a, b, c, members, p);
        });
        Ok(())
    }

    /// `d|p`, `d|_`, `_|p`, `d`.
    fn value_and_predicate(&mut self, destination: &Operand<'static>) -> Lowering<(u32, u32)> {
        match destination {
            Operand::Pair(value, predicate) => {
                let d = match value {
                    Some(name) => self.destination(&Operand::Name(name), Value::Bits32)?,
                    None => self.scratch_narrow()?,
                };
                Ok((d, self.predicate_destination(*predicate)?))
            }
            other => Ok((self.destination(other, Value::Bits32)?, u32::MAX)),
        }
    }

    pub(crate) fn vote(&mut self, instruction: &Instruction<'static>) -> Lowering<()> {
        let (words, operands, members) = self.members(instruction)?;
        let [destination, a] = operands else {
            return Err("operands: vote wants d, a".to_owned());
        };
        let (a, flip) = self.predicate_source(a)?;
        let (chosen, value) = match words.as_slice() {
            ["all", "pred"] => (handlers::<VotePredicate<All>>(), Value::Predicate),
            ["any", "pred"] => (handlers::<VotePredicate<Any>>(), Value::Predicate),
            ["uni", "pred"] => (handlers::<VotePredicate<Uniform>>(), Value::Predicate),
            ["ballot", "b32"] => (handlers::<Ballot>(), Value::Bits32),
            _ => return Err("unknown instruction".to_owned()),
        };
        let d = self.destination(destination, value)?;
        self.emit(chosen, |inst| (inst.d, inst.a, inst.imm, inst.aux) = (d, a, flip, members));
        Ok(())
    }

    pub(crate) fn matching(&mut self, instruction: &Instruction<'static>) -> Lowering<()> {
        let (words, operands, members) = self.members(instruction)?;
        let (chosen, value) = match words.as_slice() {
            ["any", "b32"] => (handlers::<MatchAny<u32>>(), Value::Bits32),
            ["any", "b64"] => (handlers::<MatchAny<u64>>(), Value::Bits64),
            ["all", "b32"] => (handlers::<MatchAll<u32>>(), Value::Bits32),
            ["all", "b64"] => (handlers::<MatchAll<u64>>(), Value::Bits64),
            _ => return Err("unknown instruction".to_owned()),
        };
        let [destination, a] = operands else {
            return Err("operands: match wants d, a".to_owned());
        };
        let a = self.source(a, value)?;
        let (d, p) = self.value_and_predicate(destination)?;
        self.emit(chosen, |inst| (inst.d, inst.a, inst.aux, inst.extra) = (d, a, members, p));
        Ok(())
    }

    pub(crate) fn reduction(&mut self, instruction: &Instruction<'static>) -> Lowering<()> {
        let (words, operands, members) = self.members(instruction)?;
        let chosen: Handlers = match words.as_slice() {
            ["add", "u32" | "s32"] => handlers::<Reduction<ReduceAdd>>(),
            ["min", "u32"] => handlers::<Reduction<ReduceMinUnsigned>>(),
            ["max", "u32"] => handlers::<Reduction<ReduceMaxUnsigned>>(),
            ["min", "s32"] => handlers::<Reduction<ReduceMinSigned>>(),
            ["max", "s32"] => handlers::<Reduction<ReduceMaxSigned>>(),
            ["and", "b32"] => handlers::<Reduction<ReduceAnd>>(),
            ["or", "b32"] => handlers::<Reduction<ReduceOr>>(),
            ["xor", "b32"] => handlers::<Reduction<ReduceXor>>(),
            _ => return Err("unknown instruction".to_owned()),
        };
        let [destination, a] = operands else {
            return Err("operands: redux wants d, a".to_owned());
        };
        let a = self.source(a, Value::Bits32)?;
        let d = self.destination(destination, Value::Bits32)?;
        self.emit(chosen, |inst| (inst.d, inst.a, inst.aux) = (d, a, members));
        Ok(())
    }

    pub(crate) fn active_mask(&mut self, instruction: &Instruction<'static>) -> Lowering<()> {
        let [destination] = instruction.operands.as_slice() else {
            return Err("operands: activemask wants d".to_owned());
        };
        let d = self.destination(destination, Value::Bits32)?;
        self.emit(handlers::<ActiveMask>(), |inst| inst.d = d);
        Ok(())
    }

    pub(crate) fn elect(&mut self, instruction: &Instruction<'static>) -> Lowering<()> {
        let (_, operands, members) = self.members(instruction)?;
        let [Operand::Pair(value, Some(predicate))] = operands else {
            return Err("operands: elect.sync wants d|p".to_owned());
        };
        let p = self.predicate_register(predicate)?;
        let d = match value {
            Some(name) => self.destination(&Operand::Name(name), Value::Bits32)?,
            None => u32::MAX,
        };
        self.emit(handlers::<Elect>(), |inst| (inst.d, inst.extra, inst.aux) = (d, p, members));
        Ok(())
    }
}
