//! The bytes that work reads and writes, and who may.
//! In: work. Out: ranges of blocks, or that the work makes no sense. A range may be more than what is touched, never
//! less.

use super::block::Block;
use super::block::last;
use super::state::{Admission, Capabilities, Model, Refusal, possible};
use crate::operation::{Call, End, Id, Kernel, Kind, Place, Stream, Work};
use crate::order::{Clock, Moment};

/// A range of a block that is read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Touch {
    pub(crate) block: Id,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) writes: bool,
}

impl Touch {
    pub(crate) fn new(at: Place, bytes: usize, writes: bool) -> Self {
        Self { block: at.block, start: at.offset, end: at.offset + bytes, writes }
    }

    fn of_box(end: End, extent: [usize; 3], writes: bool) -> Self {
        Self { block: end.at.block, start: end.at.offset, end: last(end, extent), writes }
    }

    pub(crate) fn conflicts_with(&self, other: &Self) -> bool {
        let overlap = self.start < other.end && other.start < self.end;
        self.block == other.block && overlap && (self.writes || other.writes)
    }
}

impl Capabilities {
    /// Kernels of a vGPU may name a block.
    pub(crate) fn reaches(&self, vgpu: usize, block: &Block) -> bool {
        if self.processes && !block.has(vgpu) {
            return false;
        }
        match block.kind {
            Kind::Pageable => block.is_registered && self.mapped,
            Kind::Pinned { .. } => self.mapped,
            Kind::Device | Kind::Pitched => block.has(vgpu) || self.peers,
            _ => block.has(vgpu),
        }
    }

    /// Copies of a vGPU's streams may name a block.
    pub(crate) fn copies(&self, vgpu: usize, block: &Block) -> bool {
        if self.processes && !block.has(vgpu) {
            return false;
        }
        match block.kind {
            Kind::OfGraph => block.vgpu == vgpu,
            Kind::Virtual => block.has(vgpu),
            // Two vGPUs may have variables at one address: only copies that name contexts say which is meant.
            Kind::Variable => block.vgpu == vgpu,
            _ => true,
        }
    }

    /// Streams of a vGPU may write words of a block, and wait for them.
    pub(crate) fn has_words(&self, vgpu: usize, block: &Block) -> bool {
        // CUDA has none in managed memory, and NVIDIA's driver takes none in that of pools (H100, driver 580). A stream's wait for
        // another device's word is refused by name.
        let can_have = !matches!(block.kind, Kind::Managed | Kind::Pool { .. });
        self.reaches(vgpu, block) && can_have && (block.vgpu == vgpu || block.is_host())
    }

    /// Another vGPU can be given access to a block.
    pub(crate) fn opens(&self, vgpu: usize, block: &Block) -> bool {
        let is_fit = match block.kind {
            Kind::Virtual | Kind::Pool { own: true, .. } => self.peers || self.processes,
            Kind::Pool { .. } => self.peers,
            Kind::Device => self.processes,
            _ => false,
        };
        is_fit && !block.is_left && !block.has(vgpu) && vgpu < self.vgpus
    }
}

impl Model {
    pub(crate) fn block(&self, id: Id) -> Result<&Block, Refusal> {
        self.blocks.get(&id).ok_or(Refusal::Impossible)
    }

    /// What work of a vGPU touches.
    pub(crate) fn touches(&self, vgpu: usize, work: &Work) -> Result<Vec<Touch>, Refusal> {
        match work {
            Work::Fill { at, unit, columns, rows, .. } => {
                let (block, extent) = (self.block(at.at.block)?, [unit * columns, *rows, 1]);
                let aligned = at.at.offset.is_multiple_of(*unit) && at.pitch.is_multiple_of(*unit);
                possible(aligned && !block.is_array() && self.reaches(vgpu, block) && block.holds_box(*at, extent))?;
                Ok(vec![Touch::of_box(*at, extent, true)])
            }
            Work::Copy { to, from, bytes, how } => self.touches_of_copy(vgpu, *to, *from, *bytes, *how),
            Work::Box { to, from, extent } => self.touches_of_box(vgpu, *to, *from, *extent),
            Work::Batch { copies } => {
                let mut all: Vec<Touch> = Vec::new();
                for (to, from, bytes) in copies {
                    let touches = self.touches_of_copy(vgpu, *to, *from, *bytes, Call::Any)?;
                    let is_free = touches.iter().all(|touch| !all.iter().any(|other| touch.conflicts_with(other)));
                    possible(is_free)?;
                    all.extend(touches);
                }
                Ok(all)
            }
            Work::Kernel(kernel) => self.touches_of_kernel(vgpu, kernel),
            Work::Function { at, words, .. } => {
                let block = self.block(at.block)?;
                let is_named = block.is_host() && self.can.copies(vgpu, block);
                possible(is_named && block.holds(at.offset, words * 4) && at.offset.is_multiple_of(4))?;
                Ok(vec![Touch::new(*at, words * 4, true)])
            }
            Work::Write { at, bytes, .. } => {
                self.check_reach(vgpu, *at, *bytes, *bytes)?;
                possible(self.can.has_words(vgpu, self.block(at.block)?))?;
                Ok(vec![Touch::new(*at, *bytes, true)])
            }
            Work::Wait { at, bytes, value } => {
                self.check_reach(vgpu, *at, *bytes, *bytes)?;
                possible(self.can.has_words(vgpu, self.block(at.block)?))?;
                let held = &self.block(at.block)?.bytes[at.offset..at.offset + bytes];
                possible(held == &value.to_le_bytes()[..*bytes])?;
                Ok(vec![Touch::new(*at, *bytes, false)])
            }
        }
    }

    fn touches_of_copy(
        &self,
        vgpu: usize,
        to: Place,
        from: Place,
        bytes: usize,
        how: Call,
    ) -> Result<Vec<Touch>, Refusal> {
        let [held_to, held_from] = [self.block(to.block)?, self.block(from.block)?];
        let names_contexts = !self.can.processes && how == Call::Named && held_to.is_peer_of(held_from);
        for (place, block) in [(to, held_to), (from, held_from)] {
            let is_named = self.can.copies(vgpu, block) || names_contexts && block.kind == Kind::Variable;
            possible(!block.is_array() && block.holds(place.offset, bytes) && is_named)?;
        }
        let (target, source) = (Touch::new(to, bytes, true), Touch::new(from, bytes, false));
        possible(!target.conflicts_with(&source))?;
        Ok(vec![source, target])
    }

    fn touches_of_box(&self, vgpu: usize, to: End, from: End, extent: [usize; 3]) -> Result<Vec<Touch>, Refusal> {
        for end in [to, from] {
            let block = self.block(end.at.block)?;
            possible(block.holds_box(end, extent) && self.can.copies(vgpu, block))?;
            if let Kind::Array { unit, channels, .. } = block.kind {
                let element = unit * channels;
                possible(end.at.offset.is_multiple_of(element) && extent[0].is_multiple_of(element))?;
            }
        }
        let [held_to, held_from] = [to, from].map(|end| &self.blocks[&end.at.block]);
        let is_far = held_to.vgpu != held_from.vgpu && !self.can.peers;
        // Copies of arrays between servers are refused by name.
        possible(!is_far || !held_to.is_array() && !held_from.is_array() || held_to.is_host() || held_from.is_host())?;
        let (target, source) = (Touch::of_box(to, extent, true), Touch::of_box(from, extent, false));
        possible(!target.conflicts_with(&source))?;
        Ok(vec![source, target])
    }

    fn reaches(&self, vgpu: usize, block: &Block) -> bool {
        self.can.reaches(vgpu, block)
    }

    /// Kernels may touch this range, whose place has this alignment.
    fn check_reach(&self, vgpu: usize, at: Place, bytes: usize, alignment: usize) -> Admission {
        let block = self.block(at.block)?;
        let is_aligned = at.offset.is_multiple_of(alignment);
        possible(is_aligned && !block.is_array() && block.holds(at.offset, bytes) && self.reaches(vgpu, block))
    }

    fn touches_of_kernel(&self, vgpu: usize, kernel: &Kernel) -> Result<Vec<Touch>, Refusal> {
        Ok(match *kernel {
            Kernel::Affine { at, words, .. } | Kernel::Atomic { at, words, .. } => {
                self.check_reach(vgpu, at, words * 4, 4)?;
                vec![Touch::new(at, words * 4, true)]
            }
            Kernel::Stride { to, from, words, to_step, from_step } => {
                let [to_bytes, from_bytes] = [to_step, from_step].map(|step| ((words - 1) * step + 1) * 4);
                possible(to_step > 0)?;
                self.check_reach(vgpu, to, to_bytes, 4)?;
                self.check_reach(vgpu, from, from_bytes, 4)?;
                let (target, source) = (Touch::new(to, to_bytes, true), Touch::new(from, from_bytes, false));
                possible(!target.conflicts_with(&source))?;
                vec![source, target]
            }
            Kernel::Bytes { at, bytes, .. } => {
                self.check_reach(vgpu, at, bytes, 1)?;
                vec![Touch::new(at, bytes, true)]
            }
            Kernel::Spin { .. } => Vec::new(),
            Kernel::Texture { to, array } => {
                let block = self.block(array)?;
                let Kind::Array { unit, channels, depth: 0 } = block.kind else { return Err(Refusal::Impossible) };
                let bytes = block.bytes.len() / unit * 4;
                possible(block.vgpu == vgpu && block.width > unit * channels)?;
                self.check_reach(vgpu, to, bytes, 4)?;
                let all = Place { block: array, offset: 0 };
                vec![Touch::new(all, block.bytes.len(), false), Touch::new(to, bytes, true)]
            }
            Kernel::Surface { array, .. } => {
                let block = self.block(array)?;
                possible(block.vgpu == vgpu && matches!(block.kind, Kind::Array { unit: 4, channels: 1, depth: 0 }))?;
                vec![Touch::new(Place { block: array, offset: 0 }, block.bytes.len(), true)]
            }
            Kernel::Own { variable, words, .. } => {
                let block = self.block(variable)?;
                possible(block.vgpu == vgpu && block.kind == Kind::Variable && block.holds(0, words * 4))?;
                vec![Touch::new(Place { block: variable, offset: 0 }, words * 4, true)]
            }
        })
    }

    /// Whether everything that these touches race with is over at a clock.
    pub(crate) fn check_order(&self, touches: &[Touch], clock: &Clock) -> Admission {
        let mut others = Vec::new();
        for touch in touches {
            for access in &self.block(touch.block)?.accesses {
                let other = Touch { block: touch.block, start: access.start, end: access.end, writes: access.writes };
                if touch.conflicts_with(&other) && !access.moment.is_before(clock) {
                    others.push(access.moment.stream);
                }
            }
        }
        others.sort_unstable();
        others.dedup();
        if others.is_empty() { Ok(()) } else { Err(Refusal::Unordered(others)) }
    }

    pub(crate) fn note(&mut self, touches: &[Touch], moment: Moment) {
        for touch in touches {
            let access = super::block::Access { start: touch.start, end: touch.end, moment, writes: touch.writes };
            if let Some(block) = self.blocks.get_mut(&touch.block) {
                block.accesses.push(access);
            }
        }
    }

    /// Whether the host knows a block to be at rest.
    pub(crate) fn check_rest(&self, id: Id) -> Admission {
        let block = self.block(id)?;
        let all = Touch { block: id, start: 0, end: block.bytes.len(), writes: true };
        self.check_order(&[all], self.order.host())
    }

    /// Whether work of a stream may be followed by work that ends a block.
    pub(crate) fn check_end(&self, id: Id, stream: Stream) -> Admission {
        let block = self.block(id)?;
        let all = Touch { block: id, start: 0, end: block.bytes.len(), writes: true };
        self.check_order(&[all], &self.order.before(stream))
    }
}
