//! Bulk copies: `cp.async.bulk`, `cp.async.bulk.tensor` and `cp.reduce.async.bulk` in all forms of boxes.
//! In goes the instruction, out comes one handler and a plan of its many operands. Groups are complete before they are
//! committed. Columns of images, gathers, masks of bytes and copies by two blocks are refused.

use floe_ptx::Operand;

use crate::exec::{
    BulkAddress, BulkCopy, BulkMove, BulkPlan, BulkTensor, Combination, Operator, SpaceKind, baseline_handlers,
};
use crate::isa::Value;
use crate::lower::function::{Body, Lowering};
use crate::tensor::TENSOR_AXES;

/// A bulk copy's modifiers but the operator and the type of a reduction.
struct Form {
    moves: BulkMove,
    /// Dimensions of the map, where there is one.
    axes: Option<usize>,
    /// A mask of blocks and a policy for caches follow the operands.
    multicast: bool,
    hinted: bool,
}

const BARRIER: &str = "mbarrier::complete_tx::bytes";

impl Body<'_, '_> {
    /// `cp.async.bulk` with these words behind.
    pub(super) fn copy_bulk(&mut self, words: &[&str], operands: &[Operand<'static>]) -> Lowering<()> {
        match (words, operands) {
            (["commit_group"], []) | (["wait_group"] | ["wait_group", "read"], [Operand::Integer(_)]) => {
                return self.nothing();
            }
            _ => {}
        }
        let (words, multicast, hinted) = without_hints(words)?;
        let (words, axes) = without_axes(&words)?;
        let moves = match words.as_slice() {
            ["shared::cluster" | "shared::cta", "global", BARRIER] => BulkMove::Load,
            ["shared::cluster", "shared::cta", BARRIER] if axes.is_none() => BulkMove::Within,
            ["global", "shared::cta", "bulk_group"] => BulkMove::Store,
            ["prefetch", "L2", "global"] => BulkMove::Prefetch,
            words => return Err(refusal(words)),
        };
        if multicast && !matches!(moves, BulkMove::Load) {
            return Err("modifier not supported: .multicast::cluster".to_owned());
        }
        self.bulk(&Form { moves, axes, multicast, hinted }, operands)
    }

    /// `cp.reduce.async.bulk` with these words behind.
    pub(super) fn reduce_bulk(&mut self, words: &[&str], operands: &[Operand<'static>]) -> Lowering<()> {
        let (words, multicast, hinted) = without_hints(words)?;
        let (words, axes) = without_axes(&words)?;
        let operator = |word: &str| Operator::parse(word).ok_or_else(|| format!("modifier not supported: .{word}"));
        let typed = |word: &str, kind: &str, noftz: bool| {
            let half = matches!(kind, "f16" | "bf16") && word == "add";
            let found = Combination::of_type(operator(word)?, kind).filter(|_| half == noftz);
            found.ok_or_else(|| format!("no such combination: .{word} of .{kind}"))
        };
        let moves = match (axes, words.as_slice()) {
            (Some(_), ["global", "shared::cta", word, "bulk_group"]) => BulkMove::ReduceTensor(operator(word)?),
            (None, ["global", "shared::cta", "bulk_group", word, kind]) => BulkMove::Reduce(typed(word, kind, false)?),
            (None, ["global", "shared::cta", "bulk_group", word, "noftz", kind]) => {
                BulkMove::Reduce(typed(word, kind, true)?)
            }
            // Of the numbers of 64 bits there are only sums here.
            (None, ["shared::cluster", "shared::cta", BARRIER, word @ "add", kind @ "u64"])
            | (None, ["shared::cluster", "shared::cta", BARRIER, word, kind @ ("u32" | "s32" | "b32")]) => {
                BulkMove::ReduceWithin(typed(word, kind, false)?)
            }
            (_, words) => return Err(refusal(words)),
        };
        if multicast {
            return Err("modifier not supported: .multicast::cluster".to_owned());
        }
        self.bulk(&Form { moves, axes, multicast, hinted }, operands)
    }

    fn bulk(&mut self, form: &Form, operands: &[Operand<'static>]) -> Lowering<()> {
        let mut operands = operands.iter();
        let mut next = || operands.next().ok_or("too few operands");
        let (moves, tensor) = (form.moves, form.axes.is_some());
        let within = matches!(moves, BulkMove::Within | BulkMove::ReduceWithin(_));
        // The target comes first: the end in shared memory of a load, the other end of a store.
        let (shared, far) = match moves {
            BulkMove::Prefetch => (None, next()?),
            BulkMove::Load | BulkMove::Within | BulkMove::ReduceWithin(_) => (Some(next()?), next()?),
            BulkMove::Store | BulkMove::Reduce(_) | BulkMove::ReduceTensor(_) => {
                let far = next()?;
                (Some(next()?), far)
            }
        };
        let bytes = if tensor { None } else { Some(self.source(next()?, Value::Bits32)?) };
        let reports = within || matches!(moves, BulkMove::Load);
        let barrier = if reports { Some(self.shared_end(next()?)?) } else { None };
        let blocks = if form.multicast { Some(self.source(next()?, Value::Bits16)?) } else { None };
        if form.hinted {
            // It changes nothing here, but has to be one.
            self.source(next()?, Value::Bits64)?;
        }
        if next().is_ok() {
            return Err("too many operands".to_owned());
        }
        let shared = shared.map(|operand| self.shared_end(operand)).transpose()?;
        let (far, tensor) = match form.axes {
            Some(axes) => self.tensor_end(far, axes)?,
            None if within => (self.shared_end(far)?, None),
            None => (self.place_end(far, SpaceKind::Global)?, None),
        };
        let number = self.builder.bulk_copies.len() as u32;
        self.builder.bulk_copies.push(BulkPlan { moves, shared, far, bytes, tensor, barrier, blocks });
        self.emit(baseline_handlers::<BulkCopy>(), |inst| inst.aux = number);
        Ok(())
    }

    fn shared_end(&mut self, operand: &Operand<'static>) -> Lowering<BulkAddress> {
        self.place_end(operand, SpaceKind::Shared)
    }

    fn place_end(&mut self, operand: &Operand<'static>, space: SpaceKind) -> Lowering<BulkAddress> {
        let (slot, offset) = self.atomic_address(operand, space)?;
        Ok(BulkAddress { slot, offset })
    }

    /// `[map, {x, y}]`: the map's generic address, and a coordinate per dimension.
    fn tensor_end(&mut self, operand: &Operand<'static>, axes: usize) -> Lowering<(BulkAddress, Option<BulkTensor>)> {
        let Operand::Tuple(parts) = operand else {
            return Err(format!("not a map with coordinates: {operand:?}"));
        };
        let (map, coordinates) = match parts.as_slice() {
            [map, Operand::Vector(coordinates)] if coordinates.len() == axes => (map, coordinates),
            _ => return Err(format!("not a map with {axes} coordinates: {operand:?}")),
        };
        let (base, offset) = match map {
            Operand::Name(name) => (*name, 0),
            Operand::Offset { name, offset } => (*name, *offset),
            other => return Err(format!("not the address of a map: {other:?}")),
        };
        let map = self.place_end(&Operand::Address { base: Some(base), offset }, SpaceKind::Generic)?;
        let mut slots = [0; TENSOR_AXES];
        for (slot, coordinate) in slots.iter_mut().zip(coordinates) {
            *slot = self.source(coordinate, Value::Bits32)?;
        }
        Ok((map, Some(BulkTensor { axes, coordinates: slots })))
    }
}

/// The words without those that announce a mask of blocks and a policy for caches, and whether there are these.
fn without_hints<'w>(words: &[&'w str]) -> Lowering<(Vec<&'w str>, bool, bool)> {
    let count = |wanted| words.iter().filter(|word| **word == wanted).count();
    let (multicast, hinted) = (count("multicast::cluster"), count("L2::cache_hint"));
    if multicast > 1 || hinted > 1 {
        return Err("a modifier is given twice".to_owned());
    }
    let rest = words.iter().copied().filter(|word| !matches!(*word, "multicast::cluster" | "L2::cache_hint"));
    Ok((rest.collect(), multicast == 1, hinted == 1))
}

/// The words without `tensor`, its dimensions and `tile`, and the number of these dimensions.
fn without_axes<'w>(words: &[&'w str]) -> Lowering<(Vec<&'w str>, Option<usize>)> {
    let Some(at) = words.iter().position(|word| *word == "tensor") else {
        return Ok((words.to_vec(), None));
    };
    let dimensions = words.get(at + 1).copied().unwrap_or("");
    let axes = ["1d", "2d", "3d", "4d", "5d"].iter().position(|word| *word == dimensions);
    let axes = axes.ok_or_else(|| format!("dimensions of a tensor: {dimensions}"))? + 1;
    let mut rest = words.to_vec();
    rest.drain(at..at + 2);
    if let Some(tile) = rest.iter().position(|word| *word == "tile") {
        rest.remove(tile);
    }
    Ok((rest, Some(axes)))
}

/// Names the modifier that is not done, else says that there is no such instruction.
fn refusal(words: &[&str]) -> String {
    let unknown = |word: &&&str| {
        word.starts_with("im2col")
            || word.starts_with("tile::")
            || word.starts_with("cta_group::")
            || matches!(**word, "cp_mask" | "ignore_oob")
    };
    match words.iter().find(unknown) {
        Some(word) => format!("modifier not supported: .{word}"),
        None => "unknown instruction".to_owned(),
    }
}
