//! Calls: frames of registers, arguments and results by words, direct, indirect, recursive, and functions of the host.
//! In goes a call or return event, out come fragments in other frames. Lanes of a warp in the same function at the same
//! depth share a frame, wherever they came from. Return addresses are kept per lane.

use super::builtin;
use super::warp::Stop;
use crate::exec::context::Context;
use crate::exec::lanes::{V32, V64};
use crate::exec::state::{AlignedBytes, Block, Fragment, Frame, Wait, Warp};
use crate::fault::FaultKind;
use crate::lower::image::{CallSite, CallTarget, FrameWords, Image};

/// Stack a call takes at least: a return address and what hardware would spill.
const LEAST_STACK: u32 = 16;

/// Most bytes of registers of all frames of a warp: some thousand calls deep. On a GPU the stack holds these too, here it
/// does not.
pub(crate) const FRAMES_LIMIT: usize = 64 << 20;

/// The lanes of `mask` call through `site`.
pub(crate) fn enter(
    context: &mut Context,
    image: &Image,
    block: &mut Block,
    index: usize,
    current: usize,
    (mask, site, pc): (u32, u32, u32),
) -> Option<Stop> {
    let warp = &mut block.warps[index];
    let call = &image.calls[site as usize];
    let from = warp.fragments[current];
    // Lanes that the guard masks off continue after the call; the calling lanes leave this fragment.
    let rest = from.mask & !mask;
    match call.target {
        CallTarget::Builtin(function) => {
            let registers = warp.frames[from.frame as usize].registers.as_mut_ptr();
            let result = builtin::call(context, function, call, registers, mask);
            warp.fragments[current].pc = pc + 1;
            return result.err().map(|(kind, lane)| fault(context, kind, lane, pc));
        }
        CallTarget::Function(function) => {
            warp.fragments.swap_remove(current);
            if let Err((kind, lane)) = push(warp, image, call, function, from, mask, pc) {
                return Some(fault(context, kind, lane, pc));
            }
        }
        CallTarget::Register(slot) => {
            warp.fragments.swap_remove(current);
            if let Err((kind, lane)) = push_indirect(warp, image, call, slot, from, mask, pc) {
                return Some(fault(context, kind, lane, pc));
            }
        }
    }
    if rest != 0 {
        warp.fragments.push(Fragment { pc: pc + 1, mask: rest, ..from });
    }
    (context.budget < 0).then_some(Stop::Quantum)
}

fn fault(context: &mut Context, kind: FaultKind, lane: u32, pc: u32) -> Stop {
    context.fault = kind;
    Stop::Fault { lane, pc, address: 0 }
}

/// Groups the lanes by the function their register points to.
fn push_indirect(
    warp: &mut Warp,
    image: &Image,
    call: &CallSite,
    slot: u32,
    from: Fragment,
    mask: u32,
    pc: u32,
) -> Result<(), (FaultKind, u32)> {
    // SAFETY: lowering encoded a 64-bit slot of this frame.
    let addresses = unsafe { *warp.frames[from.frame as usize].registers.as_ptr().add(slot as usize).cast::<V64>() };
    let mut rest = mask;
    while rest != 0 {
        let lane = rest.trailing_zeros();
        let address = addresses.0[lane as usize];
        let lanes = (0..32).filter(|other| rest >> other & 1 != 0 && addresses.0[*other as usize] == address);
        let lanes = lanes.fold(0_u32, |all, other| all | 1 << other);
        rest &= !lanes;
        let function = *image.addresses.get(&address).ok_or((FaultKind::InvalidProgramCounter, lane))?;
        let callee = &image.functions[function as usize];
        let fits = callee.parameters.len() == call.arguments.len()
            && callee.parameters.iter().zip(&call.arguments).all(|(a, b)| a.count == b.count);
        if callee.refused.is_some() || !fits {
            return Err((FaultKind::IllegalInstruction, lane));
        }
        push(warp, image, call, function, from, lanes, pc)?;
    }
    Ok(())
}

/// Puts the lanes into a frame of the function.
fn push(
    warp: &mut Warp,
    image: &Image,
    call: &CallSite,
    function: u32,
    from: Fragment,
    mask: u32,
    pc: u32,
) -> Result<(), (FaultKind, u32)> {
    let callee = &image.functions[function as usize];
    let depth = from.depth + 1;
    let frame = frame_for(warp, function, depth, callee.frame_bytes);
    let frame = frame.ok_or((FaultKind::StackOverflow, mask.trailing_zeros()))?;
    let stride = (warp.local.len() / 32) as u32;
    let take = callee.local_bytes.next_multiple_of(16).max(LEAST_STACK);
    let [target, source] = warp
        .frames
        .get_disjoint_mut([frame, from.frame as usize])
        .map_err(|_| (FaultKind::StackOverflow, mask.trailing_zeros()))?;
    for lane in (0..32).filter(|lane| mask >> lane & 1 != 0) {
        let base = source.local_top[lane];
        let top = base.checked_add(take).filter(|top| *top <= stride).ok_or((FaultKind::StackOverflow, lane as u32))?;
        target.local_base[lane] = base;
        target.local_top[lane] = top;
        target.return_pc[lane] = pc;
        target.return_frame[lane] = from.frame;
    }
    target.lanes |= mask;
    let (to, from_words) = (target.registers.as_mut_ptr(), source.registers.as_mut_ptr());
    for (parameter, argument) in callee.parameters.iter().zip(&call.arguments) {
        copy_words(to, *parameter, from_words, *argument, mask);
    }
    // The function's own view of where its local variables start: the first slot of its frame.
    // SAFETY: every function's frame begins with this slot.
    let own = unsafe { &mut *to.cast::<V32>() };
    for lane in (0..32).filter(|lane| mask >> lane & 1 != 0) {
        own.0[lane] = target.local_base[lane];
    }
    warp.fragments.push(Fragment {
        pc: callee.start,
        mask,
        frame: frame as u32,
        depth,
        wait: Wait::Ready,
        parked: false,
    });
    Ok(())
}

/// A frame of the function at the depth: the one lanes are in already, an unused one, or a new one. `None` where the
/// frames of the warp would have more bytes than [`FRAMES_LIMIT`].
fn frame_for(warp: &mut Warp, function: u32, depth: u32, bytes: u32) -> Option<usize> {
    let frames = &warp.frames;
    let shared = frames.iter().position(|frame| frame.lanes != 0 && frame.function == function && frame.depth == depth);
    if shared.is_some() {
        return shared;
    }
    let unused = frames.iter().position(|frame| frame.lanes == 0 && frame.registers.len() == bytes as usize);
    if let Some(index) = unused {
        warp.frames[index].function = function;
        warp.frames[index].depth = depth;
        return unused;
    }
    let held: usize = warp.frames.iter().map(|frame| frame.registers.len()).sum();
    if held + bytes as usize > FRAMES_LIMIT {
        return None;
    }
    warp.frames.push(Frame::new(function, depth, bytes));
    Some(warp.frames.len() - 1)
}

impl Frame {
    /// An unused frame.
    pub(crate) fn new(function: u32, depth: u32, bytes: u32) -> Self {
        Self {
            function,
            depth,
            lanes: 0,
            registers: AlignedBytes::zeroed(bytes as usize),
            return_pc: [0; 32],
            return_frame: [0; 32],
            local_base: [0; 32],
            local_top: [0; 32],
        }
    }
}

/// The lanes of `mask` return from their function; the others of the fragment continue after `pc`.
pub(crate) fn leave(image: &Image, warp: &mut Warp, current: usize, mask: u32, pc: u32) {
    let from = warp.fragments.swap_remove(current);
    if from.mask & !mask != 0 {
        warp.fragments.push(Fragment { pc: pc + 1, mask: from.mask & !mask, ..from });
    }
    let frame = &mut warp.frames[from.frame as usize];
    frame.lanes &= !mask;
    let (return_pc, return_frame) = (frame.return_pc, frame.return_frame);
    let callee = &image.functions[frame.function as usize];
    let source = frame.registers.as_mut_ptr();
    let mut rest = mask;
    while rest != 0 {
        let first = rest.trailing_zeros() as usize;
        let same = |lane: &usize| return_pc[*lane] == return_pc[first] && return_frame[*lane] == return_frame[first];
        let lanes = (0..32).filter(|lane| rest >> lane & 1 != 0).filter(same).fold(0_u32, |all, lane| all | 1 << lane);
        rest &= !lanes;
        let site = image.code[return_pc[first] as usize].aux;
        let target = warp.frames[return_frame[first] as usize].registers.as_mut_ptr();
        for (result, place) in callee.returns.iter().zip(&image.calls[site as usize].returns) {
            copy_words(target, *place, source, *result, lanes);
        }
        warp.fragments.push(Fragment {
            pc: return_pc[first] + 1,
            mask: lanes,
            frame: return_frame[first],
            depth: from.depth - 1,
            wait: Wait::Ready,
            parked: false,
        });
    }
}

/// Copies words of lanes between frames; the shorter of the two says how many.
fn copy_words(target: *mut u8, to: FrameWords, source: *const u8, from: FrameWords, mask: u32) {
    for word in 0..to.count.min(from.count) as usize {
        // SAFETY: lowering reserved the words in the frames of both functions.
        unsafe {
            let from = &*source.add(from.offset as usize + 128 * word).cast::<V32>();
            let to = &mut *target.add(to.offset as usize + 128 * word).cast::<V32>();
            for lane in 0..32 {
                if mask >> lane & 1 != 0 {
                    to.0[lane] = from.0[lane];
                }
            }
        }
    }
}
