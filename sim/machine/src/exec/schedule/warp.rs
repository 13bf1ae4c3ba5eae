//! Runs one warp: picks a fragment, executes it until an event, turns events into fragments.
//! The deepest, then lowest fragment runs first and equal ones merge, so that diverged lanes reconverge where their
//! paths meet. A fragment that spins lets the others go first. It returns when the warp can do nothing more for now.

use super::barrier;
use super::call;
use crate::exec::context::{Context, Event, Inst, event_pointer};
use crate::exec::lanes::V32;
use crate::exec::state::{Block, Fragment, Wait, Warp};
use crate::lower::image::Image;

/// Warp instructions of a quantum unless a grid says otherwise, as counted at backward branches.
pub(crate) const QUANTUM: i64 = 10_000;

/// Why a warp stopped running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// All its threads ended.
    Ended,
    /// All its threads wait.
    Blocked,
    /// It spins.
    Yielded,
    /// Its quantum is over.
    Quantum,
    /// A lane faulted: lane, pc, address; the kind is in the context.
    Fault { lane: u32, pc: u32, address: u64 },
}

impl Warp {
    /// Whether some fragment can run.
    pub(crate) fn is_ready(&self) -> bool {
        self.fragments.iter().any(|fragment| fragment.wait == Wait::Ready)
    }

    /// The fragment to run: deepest, then lowest pc; parked ones only when there is no other.
    fn select(&mut self) -> Option<usize> {
        if let [only] = self.fragments.as_mut_slice() {
            only.parked = false;
            return (only.wait == Wait::Ready).then_some(0);
        }
        let best = |fragments: &[Fragment], parked: bool| {
            fragments
                .iter()
                .enumerate()
                .filter(|(_, fragment)| fragment.wait == Wait::Ready && fragment.parked == parked)
                .min_by_key(|(_, fragment)| (std::cmp::Reverse(fragment.depth), fragment.pc))
                .map(|(index, _)| index)
        };
        best(&self.fragments, false).or_else(|| {
            let chosen = best(&self.fragments, true);
            for fragment in &mut self.fragments {
                fragment.parked = false;
            }
            chosen
        })
    }

    /// Merges the ready fragments that are where the given one is; returns its new index.
    fn merge(&mut self, chosen: usize) -> usize {
        if self.fragments.len() == 1 {
            return chosen;
        }
        let mut merged = self.fragments[chosen];
        self.fragments.retain(|other| {
            let same = other.wait == Wait::Ready && other.pc == merged.pc && other.frame == merged.frame;
            if same {
                merged.mask |= other.mask;
            }
            !same
        });
        merged.parked = false;
        self.fragments.push(merged);
        self.fragments.len() - 1
    }

    /// Lowest pc of the other fragments that could run at the same depth, and whether there are others at all.
    fn others(&self, current: usize) -> (Option<u32>, bool) {
        if self.fragments.len() == 1 {
            return (None, false);
        }
        let depth = self.fragments[current].depth;
        let ready = |fragment: &&Fragment| fragment.wait == Wait::Ready && !fragment.parked;
        let lowest = self
            .fragments
            .iter()
            .enumerate()
            .filter(|(index, fragment)| *index != current && fragment.depth == depth && ready(fragment))
            .map(|(_, fragment)| fragment.pc)
            .min();
        let exist = self.fragments.iter().any(|fragment| fragment.wait == Wait::Ready);
        (lowest, exist)
    }

    /// Lets the waiters of warp-synchronous instructions look again.
    pub(crate) fn retry_converging(&mut self) {
        for fragment in &mut self.fragments {
            if fragment.wait == Wait::Converge {
                fragment.wait = Wait::Ready;
            }
        }
    }
}

/// Runs warp `index` of the block until it stops.
pub(crate) fn run(context: &mut Context, image: &Image, block: &mut Block, index: usize) -> Stop {
    context.budget = context.quantum;
    context.spins = block.warps[index].spins;
    context.polled = false;
    context.clocked = false;
    let stop = run_fragments(context, image, block, index);
    block.warps[index].spins = context.spins;
    stop
}

fn run_fragments(context: &mut Context, image: &Image, block: &mut Block, index: usize) -> Stop {
    context.live = block.warps[index].live;
    context.warp = &raw mut block.warps[index];
    let (local, stride) = (block.warps[index].local.as_mut_ptr(), block.warps[index].local.len() / 32);
    context.local = local;
    context.local_stride = stride as u32;
    loop {
        let warp = &mut block.warps[index];
        let Some(chosen) = warp.select() else {
            return idle(context, image, block, index);
        };
        let current = warp.merge(chosen);
        let (lowest, divergent) = warp.others(current);
        context.divergent = divergent;
        let fragment = warp.fragments[current];
        context.frame = fragment.frame;
        let registers = warp.frames[fragment.frame as usize].registers.as_mut_ptr();
        let end = execute(context, fragment, lowest, registers);
        if end != event_pointer() {
            // SAFETY: below the stop there are only instructions of the image.
            block.warps[index].fragments[current].pc = context.index(unsafe { &*end });
            continue;
        }
        if let Some(stop) = handle(context, image, block, index, current) {
            return stop;
        }
    }
}

/// The interpreter's loop: runs a fragment to an event or to the pc of another fragment.
#[inline(always)]
fn execute(context: &mut Context, fragment: Fragment, lowest: Option<u32>, registers: *mut u8) -> *const Inst {
    let code = context.code;
    // SAFETY: pcs lie in the image. Every handler returns an instruction of the image or the event pointer, which is
    // above every stop. Bodies end with an instruction that raises an event.
    unsafe {
        let stop = lowest.map_or(event_pointer(), |pc| code.add(pc as usize));
        let mut at = code.add(fragment.pc as usize);
        while at < stop {
            at = ((*at).run)(context, &*at, fragment.mask, registers);
        }
        at
    }
}

/// Nothing can run: the warp ended, or waits.
fn idle(context: &mut Context, image: &Image, block: &mut Block, index: usize) -> Stop {
    if block.warps[index].fragments.is_empty() {
        return Stop::Ended;
    }
    if release_warp_barriers(context, image, &mut block.warps[index]) {
        return Stop::Quantum;
    }
    Stop::Blocked
}

/// Turns an event into changes of fragments; `Some` when the warp stops.
fn handle(context: &mut Context, image: &Image, block: &mut Block, index: usize, current: usize) -> Option<Stop> {
    let event = std::mem::replace(&mut context.event, Event::None);
    let warp = &mut block.warps[index];
    let fragment = &mut warp.fragments[current];
    match event {
        Event::None => {}
        Event::Reschedule { next } => {
            fragment.pc = next;
            if context.budget < 0 {
                return Some(Stop::Quantum);
            }
        }
        Event::Split { taken, target, next } => {
            let mut other = *fragment;
            fragment.pc = next;
            fragment.mask &= !taken;
            other.pc = target;
            other.mask = taken;
            warp.fragments.push(other);
            if context.budget < 0 {
                return Some(Stop::Quantum);
            }
        }
        Event::Scatter => scatter(context, warp, current),
        Event::Call { mask, site, pc } => return call::enter(context, image, block, index, current, (mask, site, pc)),
        Event::Return { mask, pc } => call::leave(image, warp, current, mask, pc),
        Event::Exit { mask, next } => exit(context, image, block, index, current, mask, next),
        Event::Barrier { mask, pc } => {
            if let Some(kind) = barrier::arrive(context, image, block, index, current, (mask, pc)) {
                context.fault = kind;
                return Some(Stop::Fault { lane: mask.trailing_zeros(), pc, address: 0 });
            }
        }
        Event::Converge { mask, pc } => converge(warp, current, mask, pc),
        Event::Yield { next } => return park(context, warp, current, next).then_some(Stop::Yielded),
        Event::Pause { next } => return park(context, warp, current, next).then_some(Stop::Quantum),
        Event::Fault { lane, pc, address } => return Some(Stop::Fault { lane, pc, address }),
    }
    None
}

/// The fragment lets the others of its warp go first; true where there is none that could.
fn park(context: &Context, warp: &mut Warp, current: usize, next: u32) -> bool {
    warp.fragments[current].pc = next;
    if context.divergent && !all_parked(warp, current) {
        warp.fragments[current].parked = true;
        return false;
    }
    for fragment in &mut warp.fragments {
        fragment.parked = false;
    }
    true
}

fn all_parked(warp: &Warp, current: usize) -> bool {
    let mut others = warp.fragments.iter().enumerate().filter(|(index, _)| *index != current);
    !others.any(|(_, fragment)| fragment.wait == Wait::Ready && !fragment.parked)
}

/// Lanes of an indexed branch go where the context says (those its guard masks off: to the next instruction).
fn scatter(context: &Context, warp: &mut Warp, current: usize) {
    let from = warp.fragments[current];
    warp.fragments.swap_remove(current);
    let mut rest = from.mask;
    while rest != 0 {
        let lane = rest.trailing_zeros() as usize;
        let target = context.targets[lane];
        let mut lanes = 0;
        for other in 0..32 {
            if rest >> other & 1 != 0 && context.targets[other] == target {
                lanes |= 1 << other;
            }
        }
        rest &= !lanes;
        warp.fragments.push(Fragment { pc: target, mask: lanes, ..from });
    }
}

/// The lanes of `mask` end.
fn exit(context: &mut Context, image: &Image, block: &mut Block, index: usize, current: usize, mask: u32, next: u32) {
    let warp = &mut block.warps[index];
    warp.live &= !mask;
    context.live = warp.live;
    let fragment = &mut warp.fragments[current];
    fragment.mask &= !mask;
    fragment.pc = next;
    if fragment.mask == 0 {
        warp.fragments.swap_remove(current);
    }
    for frame in &mut warp.frames {
        frame.lanes &= !mask;
    }
    warp.retry_converging();
    block.ended += mask.count_ones();
    if block.ended < block.threads {
        barrier::after_exit(context, image, block);
    }
}

/// The lanes of `mask` wait at `pc` for the other members; all lanes that wait there form one fragment and look again
/// whenever it grows.
fn converge(warp: &mut Warp, current: usize, mask: u32, pc: u32) {
    let from = warp.fragments[current];
    let rest = from.mask & !mask;
    let mut waiting = Fragment { pc, mask, wait: Wait::Converge, parked: false, ..from };
    if rest != 0 {
        warp.fragments[current] = Fragment { pc: pc + 1, mask: rest, ..from };
    } else {
        warp.fragments.swap_remove(current);
    }
    warp.fragments.retain(|other| {
        let same = other.wait == Wait::Converge && other.pc == pc && other.frame == waiting.frame;
        if same {
            waiting.mask |= other.mask;
            waiting.wait = Wait::Ready;
        }
        !same
    });
    warp.fragments.push(waiting);
}

/// `bar.warp.sync` may be reached at different places: lets those pass whose members all wait at one.
fn release_warp_barriers(context: &Context, image: &Image, warp: &mut Warp) -> bool {
    let is_barrier = |fragment: &Fragment| {
        let origin = image.origins[fragment.pc as usize];
        fragment.wait == Wait::Converge && image.opcodes[origin.opcode as usize].starts_with("bar.warp")
    };
    let waiting =
        warp.fragments.iter().filter(|fragment| is_barrier(fragment)).fold(0, |all, fragment| all | fragment.mask);
    let mut released = Vec::new();
    for (index, fragment) in warp.fragments.iter().enumerate().filter(|(_, fragment)| is_barrier(fragment)) {
        let inst = &image.code[fragment.pc as usize];
        let registers = warp.frames[fragment.frame as usize].registers.as_ptr().cast_mut();
        // SAFETY: lowering encoded the members as a 32-bit slot of this frame.
        let members = unsafe { &*context.operand::<V32>(registers, inst.aux) };
        let needed = (0..32).filter(|lane| fragment.mask >> lane & 1 != 0).fold(0, |all, lane| all | members.0[lane]);
        if needed & warp.live & !waiting == 0 {
            released.push(index);
        }
    }
    for index in &released {
        warp.fragments[*index].wait = Wait::Ready;
        warp.fragments[*index].pc += 1;
    }
    !released.is_empty()
}
