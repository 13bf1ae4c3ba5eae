//! Work of streams: fills, copies, launches, host functions, words.
//! In: the model. Out: operations. Ranges are chosen first; the model says whether they race.

use super::Generator;
use crate::model::Block;
use crate::operation::{End, Id, Kernel, Kind, Operation, Place, Stream, Which, Work};

/// Most words of a launch: each thread handles one.
const MOST_WORDS: usize = 40_000;

impl Generator {
    pub(super) fn work(&mut self) {
        let vgpu = self.vgpu();
        let mut stream = self.stream_of(vgpu);
        let Some(work) = self.some_work(vgpu) else { return };
        let has_two = matches!(work, Work::Fill { .. } | Work::Copy { .. } | Work::Box { .. });
        if has_two && self.random.once_in(3) {
            stream.which = Which::Default;
        }
        self.push(Operation::Do { stream, work });
        // What takes long is followed by what must wait for it.
        if self.random.once_in(6) {
            let turns = u32::try_from(self.random.between(100, 40_000)).expect("it is small");
            let stream =
                Stream { vgpu, which: if stream.which == Which::Default { Which::Legacy } else { stream.which } };
            self.push(Operation::Do { stream, work: Work::Kernel(Kernel::Spin { turns }) });
        }
    }

    pub(super) fn some_work(&mut self, vgpu: usize) -> Option<Work> {
        match self.random.below(20) {
            0..3 => self.fill(vgpu),
            3..8 => self.copy(vgpu),
            8..11 => self.boxed(vgpu),
            11 => self.batch(vgpu),
            12..17 => self.kernel(vgpu).map(Work::Kernel),
            17 | 18 => {
                let block = self.block(Block::is_host)?;
                let (at, words, multiply, add) = self.words(block)?;
                Some(Work::Function { at, words, multiply, add })
            }
            _ => self.word(vgpu),
        }
    }

    /// A block that kernels and fills of a vGPU reach.
    fn reached(&mut self, vgpu: usize) -> Option<Id> {
        let can = self.model.can;
        self.block(|block| !block.is_array() && block.kind != Kind::OfGraph && can.reaches(vgpu, block))
    }

    /// Words of a block, and what they are changed by.
    fn words(&mut self, block: Id) -> Option<(Place, usize, u32, u32)> {
        if self.model.blocks[&block].width < 4 {
            return None;
        }
        let (at, bytes) = self.range(block, 4);
        let multiply = self.random.word() | 1;
        Some((at, (bytes / 4).min(MOST_WORDS), multiply, self.random.word()))
    }

    fn fill(&mut self, vgpu: usize) -> Option<Work> {
        let block = self.reached(vgpu)?;
        let unit = self.random.choose(&[1, 2, 4])?;
        let value = self.random.word();
        let held = &self.model.blocks[&block];
        let (width, height, has_shape) = (held.width, held.height(), held.has_shape());
        if self.random.once_in(3) {
            let (end, extent) = self.part(block, unit);
            let (columns, rows) = (extent[0] / unit, extent[1]);
            return Some(Work::Fill { at: end, unit, value, columns, rows });
        }
        let (at, bytes) = self.range(block, unit);
        let pitch = if has_shape { width } else { bytes };
        Some(Work::Fill { at: End { at, pitch, height }, unit, value, columns: bytes / unit, rows: 1 })
    }

    /// Blocks that copies of a vGPU's streams take, of this vGPU more often than not.
    fn copied(&mut self, vgpu: usize) -> Option<Id> {
        let (any, can) = (self.random.once_in(4), self.model.can);
        self.block(|block| {
            let is_near = block.vgpu == vgpu || any && (can.copies(vgpu, block) || block.kind == Kind::Variable);
            block.kind != Kind::OfGraph && !block.is_array() && is_near
        })
    }

    fn copy(&mut self, vgpu: usize) -> Option<Work> {
        let (to, from) = (self.copied(vgpu)?, self.copied(vgpu)?);
        let ((to, to_bytes), (from, from_bytes)) = (self.range(to, 1), self.range(from, 1));
        Some(Work::Copy { to, from, bytes: to_bytes.min(from_bytes), how: self.call() })
    }

    fn batch(&mut self, vgpu: usize) -> Option<Work> {
        let mut copies = Vec::new();
        for _ in 0..self.random.between(1, 5) {
            if let Some(Work::Copy { to, from, bytes, .. }) = self.copy(vgpu) {
                copies.push((to, from, bytes));
            }
        }
        (!copies.is_empty()).then_some(Work::Batch { copies })
    }

    /// A part of a block that can be an end of a box, whose rows are multiples of `unit`.
    fn part(&mut self, block: Id, unit: usize) -> (End, [usize; 3]) {
        let held = &self.model.blocks[&block];
        let (width, height, total, has_shape) = (held.width, held.height(), held.bytes.len(), held.has_shape());
        let planes = held.rows / height;
        if has_shape {
            let columns = self.random.between(1, (width / unit).max(1));
            let column = self.random.between(0, (width / unit).saturating_sub(columns));
            let rows = self.random.between(1, height);
            let row = self.random.between(0, height - rows);
            let deep = self.random.between(1, planes);
            let plane = self.random.between(0, planes - deep);
            let offset = (plane * height + row) * width + column * unit;
            return (End { at: Place { block, offset }, pitch: width, height }, [columns * unit, rows, deep]);
        }
        let units = (total / unit).max(1);
        let columns = self.random.between(1, units.min(120));
        let pitch = columns + self.random.below(9);
        let rows = self.random.between(1, (units / pitch).clamp(1, 20));
        let high = rows + self.random.below(3);
        let deep = self.random.between(1, (units / pitch / high).clamp(1, 3));
        let taken = ((deep - 1) * high + rows) * pitch;
        let first = self.random.between(0, units.saturating_sub(taken));
        let end = End { at: Place { block, offset: first * unit }, pitch: pitch * unit, height: high };
        (end, [columns * unit, rows, deep])
    }

    fn boxed(&mut self, vgpu: usize) -> Option<Work> {
        let (any, can) = (self.random.once_in(3), self.model.can);
        let some =
            |block: &Block| block.kind != Kind::OfGraph && (block.vgpu == vgpu || any && can.copies(vgpu, block));
        let from = if self.random.once_in(5) { self.copied(vgpu)? } else { self.block(some)? };
        let to = if self.random.once_in(2) { self.copied(vgpu)? } else { self.block(some)? };
        let unit = [to, from].map(|block| match self.model.blocks[&block].kind {
            Kind::Array { unit, channels, .. } => unit * channels,
            _ => 1,
        });
        // Elements are of 1 to 16 bytes, powers of 2.
        let unit = unit[0].max(unit[1]);
        let ((to, one), (from, two)) = (self.part(to, unit), self.part(from, unit));
        let extent = [0, 1, 2].map(|axis| one[axis].min(two[axis]));
        Some(Work::Box { to, from, extent })
    }

    fn kernel(&mut self, vgpu: usize) -> Option<Kernel> {
        match self.random.below(12) {
            0..4 => {
                let block = self.reached(vgpu)?;
                let (at, words, multiply, add) = self.words(block)?;
                Some(Kernel::Affine { at, words, multiply, add })
            }
            4 | 5 => {
                let (to, from) = (self.reached(vgpu)?, self.reached(vgpu)?);
                let ((to, to_words, ..), (from, from_words, ..)) = (self.words(to)?, self.words(from)?);
                let (to_step, from_step) = (self.random.between(1, 5), self.random.below(5));
                let words = (to_words / to_step).min(from_words / from_step.max(1)).max(1);
                Some(Kernel::Stride { to, from, words, to_step, from_step })
            }
            6 => {
                let block = self.reached(vgpu)?;
                let (at, words, ..) = self.words(block)?;
                Some(Kernel::Atomic {
                    at,
                    words,
                    threads: self.random.between(1, 3000),
                    step: self.random.between(1, 7),
                })
            }
            7 | 8 => {
                let block = self.reached(vgpu)?;
                let (at, bytes) = self.range(block, 1);
                let [flip, ..] = self.random.word().to_le_bytes();
                Some(Kernel::Bytes { at, bytes: bytes.min(MOST_WORDS), flip })
            }
            9 => {
                let array =
                    self.block(|block| block.vgpu == vgpu && matches!(block.kind, Kind::Array { depth: 0, .. }))?;
                let block = self.reached(vgpu)?;
                let (to, ..) = self.words(block)?;
                Some(Kernel::Texture { to, array })
            }
            10 => {
                let fits = Kind::Array { unit: 4, channels: 1, depth: 0 };
                let array = self.block(|block| block.vgpu == vgpu && block.kind == fits)?;
                Some(Kernel::Surface { array, multiply: self.random.word() | 1, add: self.random.word() })
            }
            _ => {
                let variable = self.block(|block| block.vgpu == vgpu && block.kind == Kind::Variable)?;
                let (_, words, multiply, add) = self.words(variable)?;
                Some(Kernel::Own { variable, words, multiply, add })
            }
        }
    }

    fn word(&mut self, vgpu: usize) -> Option<Work> {
        let can = self.model.can;
        let block =
            self.block(|block| !block.is_array() && block.kind != Kind::OfGraph && can.has_words(vgpu, block))?;
        let bytes = self.random.choose(&[4, 8])?;
        let held = &self.model.blocks[&block];
        let is_fit = held.width >= bytes && (!held.has_shape() || held.width.is_multiple_of(bytes));
        let (at, _) = if is_fit { self.range(block, bytes) } else { return None };
        let held = &self.model.blocks[&block].bytes[at.offset..at.offset + bytes];
        let now = held.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
        if self.random.once_in(2) {
            let mask = if bytes == 4 { u64::from(u32::MAX) } else { u64::MAX };
            return Some(Work::Write { at, bytes, value: self.random.number() & mask });
        }
        Some(Work::Wait { at, bytes, value: now })
    }
}
