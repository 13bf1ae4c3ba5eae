//! Asynchronous copies and the barriers for them: `cp.async` from global to shared memory, and `mbarrier`.
//! In goes the instruction, out comes one handler that copies at once. Groups are complete before they are committed, so
//! waiting for them is nothing. Bulk copies are in `bulk`.

mod bulk;

use floe_ptx::{Instruction, Operand};

use crate::exec::{
    Arrive, ArriveMore, ArriveOnly, Change, ChangeBarrier, Complete, CopyAsync, Expect, Handlers, Initialise,
    Invalidate, PendingCount, SourceBytes, SourceUnless, SpaceKind, TestBarrier, WholeSource, Withdraw, WithdrawOnly,
    baseline_handlers,
};
use crate::isa::Value;

use super::function::{Body, Lowering};

impl Body<'_, '_> {
    /// `cp.async` and its groups.
    pub(crate) fn copy_async(&mut self, instruction: &Instruction<'static>) -> Lowering<()> {
        let words: Vec<&str> = instruction.opcode.modifiers().collect();
        match (words.as_slice(), instruction.operands.as_slice()) {
            // ptxas takes any number of groups.
            (["async", "commit_group" | "wait_all"], []) | (["async", "wait_group"], [Operand::Integer(_)]) => {
                self.nothing()
            }
            (["async", "mbarrier", "arrive", words @ .., "b64"], [address]) => {
                let (alone, space) = match words {
                    [] => (false, SpaceKind::Generic),
                    ["noinc"] => (true, SpaceKind::Generic),
                    ["shared" | "shared::cta"] => (false, SpaceKind::Shared),
                    ["noinc", "shared" | "shared::cta"] => (true, SpaceKind::Shared),
                    _ => return Err("unknown instruction".to_owned()),
                };
                let chosen = if alone { barrier::<Arrive>() } else { barrier::<ArriveMore>() };
                self.change_barrier(chosen, space, [None, Some(address)], [None, None])
            }
            (["async", "bulk", words @ ..], operands) => self.copy_bulk(words, operands),
            (["reduce", "async", "bulk", words @ ..], operands) => self.reduce_bulk(words, operands),
            (["async", cache @ ("ca" | "cg"), "shared" | "shared::cta", "global", hints @ ..], operands) => {
                self.copy_shared(*cache == "cg", cache_hints(hints)?, operands)
            }
            _ => Err("unknown instruction".to_owned()),
        }
    }

    fn copy_shared(&mut self, whole_line: bool, hinted: bool, operands: &[Operand<'static>]) -> Lowering<()> {
        let operands = match operands {
            [rest @ .., policy] if hinted => {
                // It changes nothing here, but has to be one.
                self.source(policy, Value::Bits64)?;
                rest
            }
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

    /// `mbarrier`.
    pub(crate) fn mbarrier(&mut self, instruction: &Instruction<'static>) -> Lowering<()> {
        let (names, space) = barrier_words(instruction)?;
        match (names.as_slice(), instruction.operands.as_slice()) {
            (["init"], [address, count]) => {
                self.change_barrier(barrier::<Initialise>(), space, [None, Some(address)], [Some(count), None])
            }
            (["inval"], [address]) => {
                self.change_barrier(barrier::<Invalidate>(), space, [None, Some(address)], [None, None])
            }
            (["expect_tx"], [address, bytes]) => {
                self.change_barrier(barrier::<Expect>(), space, [None, Some(address)], [Some(bytes), None])
            }
            (["complete_tx"], [address, bytes]) => {
                self.change_barrier(barrier::<Complete>(), space, [None, Some(address)], [Some(bytes), None])
            }
            ([name @ ("arrive" | "arrive_drop"), forms @ ..], [state, address, rest @ ..]) => {
                let (chosen, counts) = match (*name, forms, rest) {
                    ("arrive", [], []) => (barrier::<Arrive>(), [None, None]),
                    ("arrive", [], [count]) => (barrier::<Arrive>(), [Some(count), None]),
                    ("arrive", ["expect_tx"], [bytes]) => (barrier::<Arrive>(), [None, Some(bytes)]),
                    ("arrive", ["noComplete"], [count]) => (barrier::<ArriveOnly>(), [Some(count), None]),
                    ("arrive_drop", [], []) => (barrier::<Withdraw>(), [None, None]),
                    ("arrive_drop", [], [count]) => (barrier::<Withdraw>(), [Some(count), None]),
                    ("arrive_drop", ["expect_tx"], [bytes]) => (barrier::<Withdraw>(), [None, Some(bytes)]),
                    ("arrive_drop", ["noComplete"], [count]) => (barrier::<WithdrawOnly>(), [Some(count), None]),
                    _ => return Err("unknown instruction".to_owned()),
                };
                self.change_barrier(chosen, space, [Some(state), Some(address)], counts)
            }
            (["pending_count"], [count, state]) => {
                let a = self.source(state, Value::Bits64)?;
                let d = self.destination(count, Value::Bits32)?;
                self.emit(baseline_handlers::<PendingCount>(), |inst| (inst.d, inst.a) = (d, a));
                Ok(())
            }
            (["try_wait", forms @ ..], [over, address, asked, limit]) => {
                self.source(limit, Value::Bits32)?;
                self.test_barrier(forms, space, [over, address, asked])
            }
            (["test_wait" | "try_wait", forms @ ..], [over, address, asked]) => {
                self.test_barrier(forms, space, [over, address, asked])
            }
            _ => Err("unknown instruction".to_owned()),
        }
    }

    /// A change by a number of arrivals, which is one where none is given, and a number of bytes.
    fn change_barrier(
        &mut self,
        chosen: Handlers,
        space: SpaceKind,
        [state, address]: [Option<&Operand<'static>>; 2],
        [first, second]: [Option<&Operand<'static>>; 2],
    ) -> Lowering<()> {
        let address = address.ok_or("too few operands")?;
        let (a, imm) = self.atomic_address(address, space)?;
        let mut count = |operand: Option<&Operand<'static>>, otherwise| match operand {
            Some(operand) => self.source(operand, Value::Bits32),
            None => Ok(self.integer(otherwise, Value::Bits32)),
        };
        let (b, c) = (count(first, 1)?, count(second, 0)?);
        let d = match state {
            None | Some(Operand::Sink) => u32::MAX,
            Some(state) => self.destination(state, Value::Bits64)?,
        };
        self.emit(chosen, |inst| {
            (inst.d, inst.a, inst.b, inst.c, inst.imm) = (d, a, b, c, imm);
            inst.extra = u32::from(space == SpaceKind::Generic);
        });
        Ok(())
    }

    /// `test_wait` and `try_wait`: neither waits, so a time limit means nothing.
    fn test_barrier(
        &mut self,
        forms: &[&str],
        space: SpaceKind,
        [over, address, asked]: [&Operand<'static>; 3],
    ) -> Lowering<()> {
        let by_parity = match forms {
            [] => false,
            ["parity"] => true,
            _ => return Err("unknown instruction".to_owned()),
        };
        let (a, imm) = self.atomic_address(address, space)?;
        let b = self.source(asked, if by_parity { Value::Bits32 } else { Value::Bits64 })?;
        let d = self.destination(over, Value::Predicate)?;
        self.emit(baseline_handlers::<TestBarrier>(), |inst| {
            (inst.d, inst.a, inst.b, inst.imm) = (d, a, b, imm);
            (inst.aux, inst.extra) = (u32::from(by_parity), u32::from(space == SpaceKind::Generic));
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

fn barrier<C: Change>() -> Handlers {
    baseline_handlers::<ChangeBarrier<C>>()
}

/// The modifiers of an `mbarrier` instruction that matter here: its name with its forms, and its space.
fn barrier_words<'i>(instruction: &Instruction<'i>) -> Lowering<(Vec<&'i str>, SpaceKind)> {
    let mut names = Vec::new();
    let (mut order, mut scope, mut space, mut width) = (false, false, false, false);
    for word in instruction.opcode.modifiers() {
        let seen = match word {
            // A block is its cluster here, so an address in the cluster is one in the block.
            "shared" | "shared::cta" | "shared::cluster" => &mut space,
            "release" | "acquire" | "relaxed" if !names.is_empty() => &mut order,
            "cta" | "cluster" if !names.is_empty() => &mut scope,
            "b64" if !names.is_empty() => &mut width,
            word => {
                names.push(word);
                continue;
            }
        };
        if std::mem::replace(seen, true) {
            return Err(format!("modifier given twice: .{word}"));
        }
    }
    if !width {
        return Err("unknown instruction".to_owned());
    }
    Ok((names, if space { SpaceKind::Shared } else { SpaceKind::Generic }))
}

/// Whether the modifiers that only say what caches should do announce an operand.
fn cache_hints(hints: &[&str]) -> Lowering<bool> {
    let (policies, sizes): (Vec<&str>, Vec<&str>) = hints.iter().partition(|hint| **hint == "L2::cache_hint");
    if let Some(other) = sizes.iter().find(|hint| !matches!(**hint, "L2::64B" | "L2::128B" | "L2::256B")) {
        return Err(format!("modifier not supported: .{other}"));
    }
    match (policies.len(), sizes.len()) {
        (policies @ 0..=1, 0..=1) => Ok(policies == 1),
        _ => Err("a hint for caches is given twice".to_owned()),
    }
}
