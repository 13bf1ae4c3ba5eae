//! A block: its beginning, and its run, warp after warp.
//! In goes a place in the grid, out comes the block ended, suspended or faulted; between, it is data. A block in which all
//! runnable warps spin says so, so that another block may run first.

use super::warp::{self, Stop};
use crate::exec::context::Context;
use crate::exec::lanes::LANES;
use crate::exec::launch::Launch;
use crate::exec::state::{AlignedBytes, Barrier, Block, Fragment, Frame, Wait, Warp};
use crate::fault::{Fault, FaultKind};
use crate::lower::image::Image;

/// Why a block stopped running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BlockStop {
    /// All threads ended.
    Ended,
    /// Stopped on request or at the end of its share of time.
    Suspended,
    /// All warps that could run spin.
    Spinning,
    /// A thread faulted.
    Fault(Fault),
}

/// Rounds over all warps in which every warp only spun, before another block is let in.
const SPINNING_ROUNDS: u32 = 4;

/// Quanta a block may take before other grids get their turn.
const QUANTA: u32 = 50;

impl Block {
    /// Makes this the block of that number, reusing its storage.
    pub(crate) fn begin(&mut self, image: &Image, launch: &Launch, number: u64) {
        let [x, y, _] = launch.grid.map(u64::from);
        self.index = [(number % x) as u32, (number / x % y) as u32, (number / (x * y)) as u32];
        self.number = number;
        self.threads = launch.block.iter().product();
        self.ended = 0;
        self.turn = 0;
        self.barriers = [Barrier::default(); crate::exec::state::BARRIERS];
        let shared = launch.kernel.shared_bytes(launch.dynamic_shared) as usize;
        if self.shared.len() != shared || self.shared.as_ptr().is_null() {
            self.shared = AlignedBytes::zeroed(shared);
        }
        let warps = self.threads.div_ceil(LANES as u32) as usize;
        self.warps.resize_with(warps, Warp::default);
        let local = launch.local_bytes() as u32; // `Launch::check` saw that it fits
        for (index, warp) in self.warps.iter_mut().enumerate() {
            warp.begin(image, launch.block, index as u32, self.threads, local);
        }
    }

    /// Runs until it ends, faults, spins, or `interrupted` says so at the end of a quantum.
    pub(crate) fn run(&mut self, context: &mut Context, image: &Image, interrupted: &dyn Fn() -> bool) -> BlockStop {
        context.block_index = self.index;
        context.shared = self.shared.as_mut_ptr();
        context.shared_bytes = self.shared.len() as u32;
        let count = self.warps.len() as u32;
        let (mut ran, mut spun, mut spinning, mut quanta, mut used) = (0, 0, 0, 0, 0);
        let mut idle = 0; // warps in a row that could not run
        loop {
            let index = self.turn as usize;
            let ready = self.warps[index].is_ready();
            if ready || self.may_release(index) {
                let stop = warp::run(context, image, self, index);
                // Lanes that wait for each other at different places may look again, which is nothing done.
                idle = if ready || stop != Stop::Blocked { 0 } else { idle + 1 };
                // Warps that wait for each other often never use up a quantum of their own: the block's counts.
                used += context.quantum - context.budget;
                match stop {
                    Stop::Ended | Stop::Blocked | Stop::Quantum => ran += u32::from(ready),
                    Stop::Yielded => spun += 1,
                    Stop::Fault { lane, pc, address } => {
                        return BlockStop::Fault(self.fault(context, image, index, lane, pc, address));
                    }
                }
            } else {
                idle += 1;
            }
            if self.ended == self.threads {
                return BlockStop::Ended;
            }
            self.turn += 1;
            if used >= context.quantum {
                used = 0;
                quanta += 1;
                if interrupted() || quanta >= QUANTA {
                    self.turn %= count;
                    return BlockStop::Suspended;
                }
            }
            if self.turn < count {
                continue;
            }
            self.turn = 0;
            if idle >= count {
                return BlockStop::Fault(self.deadlock(context, image));
            }
            spinning = if ran == 0 && spun > 0 { spinning + 1 } else { 0 };
            if spinning >= SPINNING_ROUNDS {
                return BlockStop::Spinning;
            }
            if spun > 0 && interrupted() {
                return BlockStop::Suspended;
            }
            (ran, spun) = (0, 0);
        }
    }

    /// Whether a warp without ready fragments may still continue by itself: `run` checks its warp barriers.
    fn may_release(&self, index: usize) -> bool {
        self.warps[index].fragments.iter().filter(|fragment| fragment.wait == Wait::Converge).count() > 1
    }

    fn fault(&self, context: &Context, image: &Image, warp: usize, lane: u32, pc: u32, address: u64) -> Fault {
        let origin = image.origins[pc as usize];
        let thread = self.warps[warp].thread_index.map(|lanes| lanes[lane as usize & 31]);
        Fault {
            kind: context.fault,
            kernel: image.functions[0].name.clone(),
            line: origin.line,
            opcode: image.opcodes[origin.opcode as usize].clone(),
            block: self.index,
            thread,
            address,
        }
    }

    fn deadlock(&self, context: &mut Context, image: &Image) -> Fault {
        context.fault = FaultKind::Deadlock;
        let waiting = self.warps.iter().position(|warp| !warp.fragments.is_empty()).unwrap_or(0);
        let fragment = self.warps[waiting].fragments.first();
        let (pc, mask) = fragment.map_or((0, 1), |fragment| (fragment.pc, fragment.mask));
        self.fault(context, image, waiting, mask.trailing_zeros(), pc, 0)
    }
}

impl Warp {
    /// Makes this warp `index` of a block, at the kernel's first instruction.
    fn begin(&mut self, image: &Image, block: [u32; 3], index: u32, threads: u32, local: u32) {
        let kernel = &image.functions[0];
        let first = index * LANES as u32;
        let count = (threads - first).min(LANES as u32);
        self.index = index;
        self.started = if count == 32 { u32::MAX } else { (1 << count) - 1 };
        self.live = self.started;
        self.spins = 0;
        self.frames.truncate(1);
        if self.frames.first().is_none_or(|frame| frame.registers.len() != kernel.frame_bytes as usize) {
            self.frames = vec![Frame::new(0, 0, kernel.frame_bytes)];
        }
        let frame = &mut self.frames[0];
        frame.lanes = self.started;
        frame.local_base = [0; LANES];
        frame.local_top = [kernel.local_bytes.next_multiple_of(16); LANES];
        if self.local.len() != LANES * local as usize {
            self.local = AlignedBytes::zeroed(LANES * local as usize);
        }
        self.set_thread_indices(block, first);
        self.fragments.clear();
        self.fragments.push(Fragment {
            pc: kernel.start,
            mask: self.started,
            frame: 0,
            depth: 0,
            wait: Wait::Ready,
            parked: false,
        });
    }

    /// `%tid` of the lanes, the first being thread `first` of the block.
    pub(crate) fn set_thread_indices(&mut self, block: [u32; 3], first: u32) {
        let [mut x, mut y, mut z] = [first % block[0], first / block[0] % block[1], first / (block[0] * block[1])];
        for lane in 0..LANES {
            self.thread_index[0][lane] = x;
            self.thread_index[1][lane] = y;
            self.thread_index[2][lane] = z;
            x += 1;
            if x == block[0] {
                x = 0;
                y += 1;
            }
            if y == block[1] {
                y = 0;
                z += 1;
            }
        }
    }
}
