//! Blocks, warps, frames and fragments to bytes and back.
//! In goes the state of a block between instructions, out come bytes keyed by register and statement numbers. When
//! bytes are read back, every number is checked against the kernel and the launch first.

use super::bytes::{Reader, Writer};
use super::{SnapshotError, place};
use crate::exec::{BARRIERS, Barrier, Block, FRAMES_LIMIT, Fragment, Frame, LANES, Launch, Wait, Warp};
use crate::lower::image::{FunctionImage, Image, Register};

const fn malformed(what: &'static str) -> SnapshotError {
    SnapshotError::Malformed { what }
}

pub(crate) fn write_block(writer: &mut Writer, image: &Image, block: &Block) {
    writer.u64(block.number);
    writer.u32(block.ended);
    writer.u32(block.turn);
    for barrier in &block.barriers {
        writer.words(&[barrier.arrived, barrier.expected, barrier.votes]);
    }
    writer.slice(block.shared.bytes());
    for warp in &block.warps {
        writer.u32(warp.live);
        if warp.live != 0 {
            write_warp(writer, image, warp);
        }
    }
}

/// Reads a block of the launch whose number is below `next`.
pub(crate) fn read_block(reader: &mut Reader<'_>, launch: &Launch, next: u64) -> Result<Block, SnapshotError> {
    let image = &launch.kernel.image;
    let number = reader.u64()?;
    if number >= next {
        return Err(malformed("number of a block"));
    }
    let mut block = Block::default();
    block.begin(image, launch, number);
    block.ended = reader.u32()?;
    block.turn = reader.u32()?;
    if block.ended >= block.threads || block.turn as usize >= block.warps.len() {
        return Err(malformed("threads of a block"));
    }
    for number in 0..BARRIERS {
        let [arrived, expected, votes] = reader.words()?;
        block.barriers[number] = Barrier { arrived, expected, votes };
    }
    let shared = reader.slice()?;
    if shared.len() != block.shared.len() {
        return Err(malformed("shared memory"));
    }
    block.shared.bytes_mut().copy_from_slice(shared);
    let mut live = 0;
    for warp in &mut block.warps {
        warp.live = reader.u32()?;
        if warp.live & !warp.started != 0 {
            return Err(malformed("lanes of a warp"));
        }
        live += warp.live.count_ones();
        if warp.live == 0 {
            warp.fragments.clear();
        } else {
            read_warp(reader, image, warp)?;
        }
    }
    if live + block.ended != block.threads {
        return Err(malformed("threads of a block"));
    }
    Ok(block)
}

fn write_warp(writer: &mut Writer, image: &Image, warp: &Warp) {
    writer.u32(warp.spins);
    writer.slice(warp.local.bytes());
    writer.u32(warp.frames.len() as u32);
    for (frame, positions) in warp.frames.iter().zip(positions(image, warp)) {
        writer.u32(frame.lanes);
        if frame.lanes != 0 {
            write_frame(writer, image, frame, &positions);
        }
    }
    writer.u32(warp.fragments.len() as u32);
    for fragment in &warp.fragments {
        place::write(writer, image, fragment.pc);
        let wait = match fragment.wait {
            Wait::Ready => 0,
            Wait::Converge => 1,
            Wait::Barrier(number) => 2 + u32::from(number),
        };
        writer.words(&[fragment.mask, fragment.frame, wait, u32::from(fragment.parked)]);
    }
}

/// Deepest nesting of calls a snapshot may hold: far beyond what any stack limit lets a kernel reach.
const FRAME_LIMIT: u32 = 1 << 16;

fn read_warp(reader: &mut Reader<'_>, image: &Image, warp: &mut Warp) -> Result<(), SnapshotError> {
    warp.spins = reader.u32()?;
    let local = reader.slice()?;
    if local.len() != warp.local.len() {
        return Err(malformed("local memory"));
    }
    warp.local.bytes_mut().copy_from_slice(local);
    let count = reader.u32()?;
    if count == 0 || count > FRAME_LIMIT {
        return Err(malformed("number of frames"));
    }
    warp.frames.clear();
    let stride = (warp.local.len() / LANES) as u32;
    let mut held = 0;
    for _ in 0..count {
        let lanes = reader.u32()?;
        let frame = if lanes == 0 { Frame::new(0, 0, 0) } else { read_frame(reader, image, lanes, stride)? };
        held += frame.registers.len();
        if held > FRAMES_LIMIT {
            return Err(malformed("registers of a warp"));
        }
        warp.frames.push(frame);
    }
    check_returns(image, warp)?;
    let count = reader.u32()?;
    warp.fragments.clear();
    let mut seen = 0;
    for _ in 0..count {
        let fragment = read_fragment(reader, image, warp)?;
        if fragment.mask == 0 || fragment.mask & seen != 0 {
            return Err(malformed("lanes of a fragment"));
        }
        seen |= fragment.mask;
        warp.fragments.push(fragment);
    }
    if seen == warp.live { Ok(()) } else { Err(malformed("lanes of a warp")) }
}

fn read_fragment(reader: &mut Reader<'_>, image: &Image, warp: &Warp) -> Result<Fragment, SnapshotError> {
    let pc = place::read(reader, image)?;
    let [mask, frame, wait, parked] = reader.words()?;
    let held = warp.frames.get(frame as usize).ok_or(malformed("frame of a fragment"))?;
    if held.lanes & mask != mask || held.function != image.function_of(pc) {
        return Err(malformed("frame of a fragment"));
    }
    let wait = match wait {
        0 => Wait::Ready,
        1 => Wait::Converge,
        other if (other - 2) < BARRIERS as u32 && image.is_block_barrier(pc) => Wait::Barrier((other - 2) as u8),
        _ => return Err(malformed("state of a fragment")),
    };
    Ok(Fragment { pc, mask, frame, depth: held.depth, wait, parked: parked != 0 })
}

/// Positions of each frame's lanes: statement and lanes, of fragments in it and of calls made from it.
fn positions(image: &Image, warp: &Warp) -> Vec<Vec<(u32, u32)>> {
    let statement = |pc: u32| image.origins[pc as usize].statement;
    let mut positions = vec![Vec::new(); warp.frames.len()];
    for fragment in &warp.fragments {
        positions[fragment.frame as usize].push((statement(fragment.pc), fragment.mask));
    }
    for callee in warp.frames.iter().filter(|callee| callee.lanes != 0 && callee.depth > 0) {
        for lane in (0..32).filter(|lane| callee.lanes >> lane & 1 != 0) {
            if let Some(caller) = positions.get_mut(callee.return_frame[lane] as usize) {
                caller.push((statement(callee.return_pc[lane]), 1 << lane));
            }
        }
    }
    positions
}

fn write_frame(writer: &mut Writer, image: &Image, frame: &Frame, positions: &[(u32, u32)]) {
    let function = &image.functions[frame.function as usize];
    writer.u32(function.number);
    writer.u32(frame.depth);
    writer.words(&frame.local_base);
    writer.words(&frame.local_top);
    if frame.depth > 0 {
        writer.words(&frame.return_frame);
        for lane in (0..32).filter(|lane| frame.lanes >> lane & 1 != 0) {
            place::write(writer, image, frame.return_pc[lane]);
        }
    }
    // Each register with the lanes for which its value is wanted: the slot may hold others' values in the other lanes.
    let wanted: Vec<_> = function
        .registers
        .iter()
        .map(|register| {
            let live = |statement: u32| register.live.0 <= statement && statement <= register.live.1;
            let lanes = positions.iter().filter(|(statement, _)| live(*statement));
            (register, lanes.fold(0, |all, (_, lanes)| all | lanes))
        })
        .filter(|(_, lanes)| *lanes != 0)
        .collect();
    writer.u32(wanted.len() as u32);
    for (register, lanes) in wanted {
        writer.u32(register.number);
        writer.u32(lanes);
        let start = register.offset as usize;
        writer.slice(&frame.registers.bytes()[start..start + register.bytes as usize]);
    }
}

fn read_frame(reader: &mut Reader<'_>, image: &Image, lanes: u32, stride: u32) -> Result<Frame, SnapshotError> {
    let number = reader.u32()?;
    let index = image.functions.iter().position(|function| function.number == number);
    let index = index.ok_or(malformed("function of a frame"))?;
    let function = &image.functions[index];
    let depth = reader.u32()?;
    if (depth == 0) != (index == 0) {
        return Err(malformed("depth of a frame"));
    }
    let mut frame = Frame::new(index as u32, depth, function.frame_bytes);
    frame.lanes = lanes;
    frame.local_base = reader.words()?;
    frame.local_top = reader.words()?;
    let mut stacks = frame.local_base.iter().zip(&frame.local_top);
    if stacks.any(|(base, top)| base > top || *top > stride) {
        return Err(malformed("stack of a frame"));
    }
    if depth > 0 {
        frame.return_frame = reader.words()?;
        for lane in (0..32).filter(|lane| lanes >> lane & 1 != 0) {
            frame.return_pc[lane] = place::read(reader, image)?;
        }
    }
    let mut next = 0;
    for _ in 0..reader.u32()? {
        let (number, lanes) = (reader.u32()?, reader.u32()?);
        let bytes = reader.slice()?;
        let at = find_register(function, number, next).ok_or(malformed("register"))?;
        next = at + 1;
        let register = Some(&function.registers[at]).filter(|register| register.bytes as usize == bytes.len());
        let start = register.ok_or(malformed("register"))?.offset as usize;
        place_lanes(&mut frame.registers.bytes_mut()[start..start + bytes.len()], bytes, lanes);
    }
    Ok(frame)
}

/// The place of a register of this number. They are written in their order, so that it is looked for from `next` on first; the
/// image of another level may have another order.
fn find_register(function: &FunctionImage, number: u32, next: usize) -> Option<usize> {
    let (before, behind) = function.registers.split_at(next.min(function.registers.len()));
    let is_it = |register: &Register| register.number == number;
    behind.iter().position(is_it).map(|at| before.len() + at).or_else(|| before.iter().position(is_it))
}

/// Copies the bytes of the given lanes of a slot.
fn place_lanes(slot: &mut [u8], bytes: &[u8], lanes: u32) {
    if let (Ok(slot), Ok(bits)) = (<&mut [u8; 4]>::try_from(&mut *slot), <[u8; 4]>::try_from(bytes)) {
        let kept = u32::from_le_bytes(*slot) & !lanes;
        *slot = (kept | (u32::from_le_bytes(bits) & lanes)).to_le_bytes();
        return;
    }
    let size = slot.len() / 32;
    for lane in (0..32).filter(|lane| lanes >> lane & 1 != 0) {
        slot[lane * size..(lane + 1) * size].copy_from_slice(&bytes[lane * size..(lane + 1) * size]);
    }
}

/// Every lane of a called frame returns to a call, in a frame one less deep that it is in.
fn check_returns(image: &Image, warp: &Warp) -> Result<(), SnapshotError> {
    for frame in warp.frames.iter().filter(|frame| frame.lanes != 0 && frame.depth > 0) {
        for lane in (0..32).filter(|lane| frame.lanes >> lane & 1 != 0) {
            let caller = warp.frames.get(frame.return_frame[lane] as usize).ok_or(malformed("caller of a frame"))?;
            let pc = frame.return_pc[lane];
            let is_call = image.opcode_of(pc).starts_with("call") && image.is_call_site(pc);
            let fits = caller.depth + 1 == frame.depth && caller.lanes >> lane & 1 != 0;
            if !fits || !is_call || caller.function != image.function_of(pc) {
                return Err(malformed("caller of a frame"));
            }
        }
    }
    Ok(())
}
