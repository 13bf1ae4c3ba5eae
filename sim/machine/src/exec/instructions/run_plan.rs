//! Plans of runs: instructions come in one by one while lowering, the longest run that one handler can execute goes out.
//! It executes nothing; `run` does.

use crate::exec::context::Inst;

/// Kinds of instructions in a run: their `fuse`.
pub(crate) mod fuse {
    pub(crate) const NONE: u32 = 0;
    /// `ld.shared.b32` by a 32-bit address.
    pub(crate) const SHARED_LOAD: u32 = 1;
    /// `fma.rn.f32`.
    pub(crate) const MULTIPLY_ADD: u32 = 2;
}

/// Most address registers of a run.
pub(crate) const ADDRESSES: usize = 4;

/// Shortest run worth its look at the addresses.
pub(crate) const LEAST: usize = 3;

/// A run, as lowering plans it. Its loads name their address register in `b`, as an index into `addresses`; none of these
/// registers is written within the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunPlan {
    pub(crate) length: usize,
    pub(crate) addresses: Vec<Offsets>,
}

/// An address register of a run, and what is added to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offsets {
    pub(crate) slot: u32,
    pub(crate) least: i64,
    pub(crate) most: i64,
    /// All of them ORed.
    pub(crate) bits: u32,
}

impl RunPlan {
    /// Appends the next instruction if the run can contain it; loads get their `b`.
    pub(crate) fn extend(&mut self, inst: &mut Inst, written: &mut Vec<u32>) -> bool {
        if inst.fuse == fuse::NONE {
            return false;
        }
        // A write to an address register must not come before a load by it: the addresses are looked at once.
        if self.addresses.iter().any(|offsets| offsets.slot == inst.d) {
            return false;
        }
        if inst.fuse == fuse::SHARED_LOAD {
            let known = self.addresses.iter().position(|offsets| offsets.slot == inst.a);
            if known.is_none() && (self.addresses.len() == ADDRESSES || written.contains(&inst.a) || inst.d == inst.a) {
                return false;
            }
            let index = known.unwrap_or(self.addresses.len());
            if known.is_none() {
                self.addresses.push(Offsets { slot: inst.a, least: inst.imm, most: inst.imm, bits: 0 });
            }
            let offsets = &mut self.addresses[index];
            offsets.least = offsets.least.min(inst.imm);
            offsets.most = offsets.most.max(inst.imm);
            offsets.bits |= inst.imm as u32;
            inst.b = index as u32;
        }
        written.push(inst.d);
        self.length += 1;
        true
    }
}
