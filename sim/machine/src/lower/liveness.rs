//! Liveness of registers: the part of a function in which each holds a value that is still wanted, and the registers
//! that may share a slot.
//! In goes a body with its names, out comes for each register a range of statements and a colour. Registers of a kind
//! whose ranges do not meet get the same colour. Ranges have no holes, so they are safe for every lane whatever path it
//! takes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap as HashMap;

use floe_ptx::{Instruction, Operand, ScalarType, Statement};

use super::names::{Name, Names, RegisterId};

/// Kind of slot a register needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Predicate,
    Narrow,
    Wide,
}

impl Kind {
    pub(crate) fn of(scalar: ScalarType) -> Self {
        match scalar {
            ScalarType::Predicate => Self::Predicate,
            scalar if scalar.size() == 8 => Self::Wide,
            _ => Self::Narrow,
        }
    }
}

/// The range and colour of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allotment {
    pub(crate) kind: Kind,
    /// Number of the slot among those of the kind.
    pub(crate) colour: u32,
    /// First and last statement at which it may hold a wanted value.
    pub(crate) live: (u32, u32),
}

/// Most ways from block to block by branches: a list of labels counts again for each branch through it.
const JUMP_LIMIT: usize = 4 << 20;

/// Most words of a set of registers for each block: 128 MiB of them.
const SET_LIMIT: usize = 16 << 20;

/// Most words looked at until nothing changes: seconds. Compilers' control flow takes some thousandth of it.
const WORK_LIMIT: usize = 1 << 30;

/// Allots slots to the registers of a body: register number to allotment; `work` is how many words of sets that took. An
/// error is what is too large.
pub(crate) fn allot(
    body: &[Statement<'_>],
    names: &Names<'_>,
    work: &mut usize,
) -> Result<HashMap<u32, Allotment>, String> {
    let mut flow = Flow::read(body, names)?;
    *work = flow.words();
    flow.solve(work)?;
    Ok(colour(flow.ranges()))
}

/// The effects of an instruction on registers, by their dense index.
#[derive(Default)]
struct Effect {
    uses: Vec<usize>,
    definitions: Vec<usize>,
    /// Whether all its definitions replace the old value: it has no guard.
    kills: bool,
}

/// A stretch of statements that is entered at its beginning and left at its end.
struct BasicBlock {
    first: usize,
    last: usize,
    successors: Vec<usize>,
    live_in: Bits,
    live_out: Bits,
}

/// A set of registers.
#[derive(Clone, Default, PartialEq, Eq)]
struct Bits(Vec<u64>);

impl Bits {
    fn new(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)])
    }
    fn insert(&mut self, index: usize) {
        self.0[index / 64] |= 1 << (index % 64);
    }
    fn remove(&mut self, index: usize) {
        self.0[index / 64] &= !(1 << (index % 64));
    }
    fn add_all(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine |= theirs);
    }
    fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(word, bits)| {
            let mut bits = *bits;
            std::iter::from_fn(move || {
                let bit = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
                bits &= bits - 1;
                Some(64 * word + bit)
            })
        })
    }
}

struct Flow {
    registers: Vec<RegisterId>,
    effects: Vec<Effect>,
    blocks: Vec<BasicBlock>,
}

/// Collects registers in order of appearance.
struct OperandReader<'n, 'a> {
    names: &'n Names<'a>,
    scope: usize,
    registers: Vec<RegisterId>,
    indices: HashMap<u32, usize>,
}

impl OperandReader<'_, '_> {
    fn note(&mut self, name: &str, into: &mut Vec<usize>) {
        let Some(Name::Register(register)) = self.names.find(self.scope, name) else {
            return;
        };
        let next = self.registers.len();
        let index = *self.indices.entry(register.number).or_insert(next);
        if index == next {
            self.registers.push(register);
        }
        into.push(index);
    }

    fn operand(&mut self, operand: &Operand<'_>, into: &mut Vec<usize>) {
        match operand {
            Operand::Name(name) | Operand::Not(name) | Operand::Negated(name) => self.note(name, into),
            Operand::Offset { name, .. } => self.note(name, into),
            Operand::Address { base, .. } => base.iter().for_each(|name| self.note(name, into)),
            Operand::Element { array, index, .. } => {
                self.note(array, into);
                index.iter().for_each(|name| self.note(name, into));
            }
            Operand::Pair(one, other) => one.iter().chain(other).for_each(|name| self.note(name, into)),
            Operand::Vector(parts) | Operand::Tuple(parts) | Operand::List(parts) => {
                parts.iter().for_each(|part| self.operand(part, into));
            }
            Operand::Sink | Operand::Integer(_) | Operand::Float(_) => {}
        }
    }

    fn effect(&mut self, instruction: &Instruction<'_>) -> Effect {
        let mut effect = Effect { kills: instruction.guard.is_none(), ..Effect::default() };
        if let Some(guard) = &instruction.guard {
            self.note(guard.register, &mut effect.uses);
        }
        let mut operands = instruction.operands.as_slice();
        if defines_first(instruction)
            && let [first, rest @ ..] = operands
        {
            self.operand(first, &mut effect.definitions);
            operands = rest;
        }
        operands.iter().for_each(|operand| self.operand(operand, &mut effect.uses));
        effect
    }
}

/// Whether the first operand is a destination.
fn defines_first(instruction: &Instruction<'_>) -> bool {
    match instruction.opcode.mnemonic() {
        "bar" | "barrier" => instruction.opcode.has("red"),
        "mbarrier" => !["init", "inval", "expect_tx", "complete_tx"].contains(&first_word(instruction)),
        "wmma" => !instruction.opcode.has("store"),
        "st" | "sust" | "stmatrix" | "red" | "cp" | "bra" | "brx" | "call" | "ret" | "exit" | "trap" | "brkpt"
        | "membar" | "fence" | "prefetch" | "prefetchu" | "applypriority" | "discard" | "pmevent"
        | "griddepcontrol" | "nanosleep" | "stackrestore" => false,
        _ => true,
    }
}

/// The word behind the mnemonic.
fn first_word<'i>(instruction: &Instruction<'i>) -> &'i str {
    instruction.opcode.modifiers().next().unwrap_or("")
}

/// Whether control never passes from this instruction to the next.
fn ends_path(instruction: &Instruction<'_>) -> bool {
    instruction.guard.is_none()
        && matches!(instruction.opcode.mnemonic(), "bra" | "brx" | "ret" | "exit" | "trap" | "brkpt")
}

impl Flow {
    fn read(body: &[Statement<'_>], names: &Names<'_>) -> Result<Self, String> {
        let mut reader = OperandReader { names, scope: 0, registers: Vec::new(), indices: HashMap::default() };
        let mut effects: Vec<Effect> = Vec::with_capacity(body.len());
        let mut starts = vec![0];
        let mut jumps: Vec<(usize, Vec<usize>, bool)> = Vec::new();
        let mut opened = 0;
        let mut ways = 0;
        for (index, statement) in body.iter().enumerate() {
            let mut effect = Effect::default();
            match statement {
                Statement::ScopeOpen(_) => {
                    opened += 1;
                    reader.scope = opened;
                }
                Statement::ScopeClose(_) => reader.scope = names.parent(reader.scope),
                Statement::Label(_) => starts.push(index),
                Statement::Instruction(instruction) => {
                    effect = reader.effect(instruction);
                    let targets = targets(body, names, reader.scope, instruction);
                    ways += targets.len();
                    if ways > JUMP_LIMIT {
                        return Err(format!("more targets of branches than a function may have: {JUMP_LIMIT}"));
                    }
                    if !targets.is_empty() || ends_path(instruction) {
                        jumps.push((index, targets, !ends_path(instruction)));
                        starts.push(index + 1);
                    }
                }
                _ => {}
            }
            effects.push(effect);
        }
        let words = reader.registers.len().div_ceil(64).saturating_mul(starts.len());
        if words > SET_LIMIT {
            let (registers, blocks) = (reader.registers.len(), starts.len());
            return Err(format!("too large to allot registers: {registers} of them, {blocks} blocks"));
        }
        let blocks = blocks(starts, &jumps, body.len(), reader.registers.len());
        Ok(Self { registers: reader.registers, effects, blocks })
    }

    /// Words of all sets.
    fn words(&self) -> usize {
        self.blocks.iter().map(|block| 2 * block.live_in.0.len()).sum()
    }

    /// Finds what is live where blocks meet.
    fn solve(&mut self, work: &mut usize) -> Result<(), String> {
        let mut changed = true;
        while changed {
            changed = false;
            for index in (0..self.blocks.len()).rev() {
                let block = &self.blocks[index];
                *work += (block.successors.len() + 3) * (block.live_in.0.len() + 1) + block.last - block.first;
                if *work > WORK_LIMIT {
                    let blocks = self.blocks.len();
                    return Err(format!("control flow too tangled to allot registers: {blocks} blocks"));
                }
                let mut live = std::mem::take(&mut self.blocks[index].live_out);
                for successor in &self.blocks[index].successors {
                    live.add_all(&self.blocks[*successor].live_in);
                }
                self.blocks[index].live_out = live.clone();
                let (first, last) = (self.blocks[index].first, self.blocks[index].last);
                for effect in self.effects[first..=last].iter().rev() {
                    if effect.kills {
                        effect.definitions.iter().for_each(|register| live.remove(*register));
                    }
                    effect.uses.iter().for_each(|register| live.insert(*register));
                    if !effect.kills {
                        effect.definitions.iter().for_each(|register| live.insert(*register));
                    }
                }
                if live != self.blocks[index].live_in {
                    self.blocks[index].live_in = live;
                    changed = true;
                }
            }
        }
        Ok(())
    }

    /// The range of each register.
    fn ranges(&self) -> Vec<(RegisterId, (u32, u32))> {
        let mut ranges = vec![(u32::MAX, 0); self.registers.len()];
        let mut extend = |register: usize, at: usize| {
            let (first, last): &mut (u32, u32) = &mut ranges[register];
            *first = (*first).min(at as u32);
            *last = (*last).max(at as u32);
        };
        for block in &self.blocks {
            block.live_in.iter().for_each(|register| extend(register, block.first));
            block.live_out.iter().for_each(|register| extend(register, block.last));
            for at in block.first..=block.last {
                let effect = &self.effects[at];
                effect.uses.iter().chain(&effect.definitions).for_each(|register| extend(*register, at));
            }
        }
        self.registers.iter().copied().zip(ranges).collect()
    }
}

/// Statements an instruction may jump to.
fn targets(body: &[Statement<'_>], names: &Names<'_>, scope: usize, instruction: &Instruction<'_>) -> Vec<usize> {
    match (instruction.opcode.mnemonic(), instruction.operands.as_slice()) {
        ("bra", [Operand::Name(label)]) => names.label(scope, label).into_iter().collect(),
        ("brx", [_, Operand::Name(list)]) => match names.find(scope, list) {
            Some(Name::List(statement)) => match &body[statement] {
                Statement::Targets(list) => list.targets.iter().filter_map(|label| names.label(scope, label)).collect(),
                _ => Vec::new(),
            },
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// Cuts the body at the starts and links the pieces.
fn blocks(
    mut starts: Vec<usize>,
    jumps: &[(usize, Vec<usize>, bool)],
    statements: usize,
    registers: usize,
) -> Vec<BasicBlock> {
    starts.retain(|start| *start < statements);
    starts.sort_unstable();
    starts.dedup();
    let block_of = |statement: usize| starts.partition_point(|start| *start <= statement) - 1;
    let mut blocks: Vec<BasicBlock> = (0..starts.len())
        .map(|index| BasicBlock {
            first: starts[index],
            last: starts.get(index + 1).map_or(statements, |next| *next) - 1,
            successors: if index + 1 < starts.len() { vec![index + 1] } else { Vec::new() },
            live_in: Bits::new(registers),
            live_out: Bits::new(registers),
        })
        .collect();
    for (at, targets, falls_through) in jumps {
        let block = &mut blocks[block_of(*at)];
        if !falls_through {
            block.successors.clear();
        }
        block.successors.extend(targets.iter().map(|target| block_of(*target)));
    }
    blocks
}

/// Gives registers whose ranges do not meet the same colour, lowest first.
fn colour(mut ranges: Vec<(RegisterId, (u32, u32))>) -> HashMap<u32, Allotment> {
    ranges.sort_by_key(|(register, live)| (live.0, register.number));
    // (last statement, colour), the earliest end first
    let mut busy: HashMap<Kind, BinaryHeap<Reverse<(u32, u32)>>> = HashMap::default();
    let mut free: HashMap<Kind, Vec<u32>> = HashMap::default();
    let mut count: HashMap<Kind, u32> = HashMap::default();
    let mut allotments = HashMap::with_capacity_and_hasher(ranges.len(), Default::default());
    for (register, live) in ranges {
        let kind = Kind::of(register.scalar);
        let (busy, free) = (busy.entry(kind).or_default(), free.entry(kind).or_default());
        // A register read by the statement that writes another keeps its slot through it.
        while let Some(Reverse((_, colour))) = busy.peek().copied().filter(|Reverse((last, _))| *last < live.0) {
            busy.pop();
            free.push(colour);
        }
        let colour = free.pop().unwrap_or_else(|| {
            let count = count.entry(kind).or_default();
            *count += 1;
            *count - 1
        });
        busy.push(Reverse((live.1, colour)));
        allotments.insert(register.number, Allotment { kind, colour, live });
    }
    allotments
}
